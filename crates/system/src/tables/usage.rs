//! What links and the resources of endpoints did.

use super::{View, ints, wide};
use crate::endpoints::EndpointEvent;
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use syncline_core::{NodeId, PortId};
use syncline_endpoint::Endpoint;
use syncline_network::Network;
use syncline_topology::all_links;

syncline_core::table! {
    /// A row for every directed link that was simulated.
    "links" => Links {
        /// Number of the node that sends through the link.
        node: Vec<i64> as Index,
        /// Links of the machine that this simulated link represents.
        copies: Vec<i64> as Count,
        /// Port of the node at which the link begins.
        port: Vec<String> as Text,
        /// Number of the node at which the link ends; in a folded run, of the NPU that stands for it.
        to: Vec<i64> as Index,
        /// Dimension of the link, or its class in machines and topology files.
        dim: Vec<i64> as Index,
        /// Payload that the link carried, on the backend ethernet with headers and acknowledgements.
        bytes: Vec<i64> as Bytes,
        /// Time that the link was busy; where the backend ignores contention, time that its bytes would need.
        busy_ps: Vec<i64> as Picoseconds,
    }
}

syncline_core::table! {
    /// A row for every resource of the endpoint, over all NPUs.
    "resources" => Resources {
        /// Name of the resource.
        resource: Vec<String> as Text,
        /// Servers that one NPU has of the resource.
        servers: Vec<i64> as Count,
        /// Time that servers were busy, added up over all of them.
        busy_ps: Vec<i64> as Picoseconds,
        /// Time that work waited for the resource, added up over everything that waited.
        wait_ps: Vec<i64> as Picoseconds,
        /// Time from the beginning of work to its result, added up; for a bus with latency this exceeds its busy time.
        transfer_ps: Vec<i64> as Picoseconds,
        /// Number of pieces of work that the resource served.
        served: Vec<i64> as Count,
    }
}

impl<N, E> View<'_, N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    pub(super) fn links(&self) -> Links {
        let fabric = self.simulation.layout().fabric();
        let usage = self.simulation.network().usage();
        let links: Vec<(NodeId, PortId)> = all_links(fabric).collect();
        let numbers: Vec<u32> = (0..fabric.links()).collect();
        Links {
            node: ints(&links, |(n, _)| self.node_number(n).into()),
            copies: self.copies.iter().map(|&n| n as i64).collect(),
            port: links.iter().map(|&(n, p)| fabric.port_name(n, p)).collect(),
            to: ints(&links, |(n, p)| self.node_number(fabric.next(n, p).0).into()),
            dim: ints(&numbers, |l| usage.class(l).into()),
            bytes: ints(&numbers, |l| usage.bytes(l).0),
            busy_ps: ints(&numbers, |l| usage.busy(l).0),
        }
    }

    pub(super) fn resources(&self) -> Resources {
        let resources: Vec<_> = self.outcome.report.resources.iter().collect();
        let m = self.folded.multiplicity;
        Resources {
            resource: resources.iter().map(|r| r.name.to_string()).collect(),
            servers: ints(&resources, |r| r.servers.into()),
            busy_ps: wide(&resources, |r| r.busy * u128::from(m)),
            wait_ps: wide(&resources, |r| r.wait * u128::from(m)),
            transfer_ps: wide(&resources, |r| r.transfer * u128::from(m)),
            served: ints(&resources, |r| r.served * m),
        }
    }
}
