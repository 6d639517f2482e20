//! What traced NPUs sent and received, and when their links were busy.

use super::{View, ints, optional_ints};
use crate::endpoints::EndpointEvent;
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use syncline_core::{NodeId, PortId, Ps};
use syncline_endpoint::Endpoint;
use syncline_network::{Network, Noted, Span};
use syncline_topology::all_links;

syncline_core::table! {
    /// A row for every message that a traced NPU sent or received, in the order in which they were sent; where endpoints
    /// forward, a row for every hop.
    "messages" => Messages {
        /// Number of the node that sent the message.
        src: Vec<i64> as Index,
        /// Port by which the message left; empty if it stayed at its node.
        src_port: Vec<String> as Text,
        /// Number of the node that received the message; in a folded run, of the NPU that stands for it.
        dst: Vec<i64> as Index,
        /// Port by which the message came in; empty if it stayed at its node or has not arrived.
        dst_port: Vec<String> as Text,
        /// Size of the message.
        bytes: Vec<i64> as Bytes,
        /// Time at which the network got the first byte.
        sent_ps: Vec<i64> as Picoseconds,
        /// Time at which the last byte arrived; missing if the run ended before.
        arrived_ps: Vec<Option<i64>> as Picoseconds,
    }
}

syncline_core::table! {
    /// A row for every span of time in which a link of a traced NPU was busy; those of a link are disjoint.
    "link_spans" => LinkSpans {
        /// Number of the node that sends through the link.
        node: Vec<i64> as Index,
        /// Port of the node at which the link begins.
        port: Vec<String> as Text,
        /// Number of the node at which the link ends; in a folded run, of the NPU that stands for it.
        to: Vec<i64> as Index,
        /// Time at which the span began.
        start_ps: Vec<i64> as Picoseconds,
        /// Time at which the span ended.
        end_ps: Vec<i64> as Picoseconds,
        /// Time that what the link carried takes at its full rate; more than the span where contention is ignored.
        busy_ps: Vec<i64> as Picoseconds,
    }
}

impl<N, E> View<'_, N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    pub(super) fn messages(&self) -> Messages {
        let fabric = self.simulation.layout().fabric();
        let noted: Vec<&Noted> = self.simulation.network().noted().iter().collect();
        let port = |node: NodeId, port: Option<PortId>| port.map_or_else(String::new, |p| fabric.port_name(node, p));
        Messages {
            src: ints(&noted, |m| self.node_number(m.src).into()),
            src_port: noted.iter().map(|m| port(m.src, m.left_by)).collect(),
            dst: ints(&noted, |m| self.node_number(m.dst).into()),
            dst_port: noted.iter().map(|m| port(m.dst, m.came_by)).collect(),
            bytes: ints(&noted, |m| m.len.0),
            sent_ps: ints(&noted, |m| m.sent.0),
            arrived_ps: optional_ints(&noted, |m| m.arrived.map(|at| at.0).filter(|&at| at <= self.outcome.end.0)),
        }
    }

    pub(super) fn link_spans(&self) -> LinkSpans {
        let fabric = self.simulation.layout().fabric();
        let end = self.outcome.end;
        let spans = self.simulation.network().usage().spans();
        let clipped = |span: Span| Span { to: span.to.min(end), busy: cut(span, end), ..span };
        let spans: Vec<Span> = spans.into_iter().filter(|span| span.from < end).map(clipped).collect();
        // Nothing is looked up where nothing is traced: a fabric may have many links.
        let links: Vec<(NodeId, PortId)> = if spans.is_empty() { Vec::new() } else { all_links(fabric).collect() };
        let ends = |s: &Span| links[s.link as usize];
        let spans: Vec<&Span> = spans.iter().collect();
        LinkSpans {
            node: ints(&spans, |s| self.node_number(ends(s).0).into()),
            port: spans.iter().map(|s| fabric.port_name(ends(s).0, ends(s).1)).collect(),
            to: ints(&spans, |s| self.node_number(fabric.next(ends(s).0, ends(s).1).0).into()),
            start_ps: ints(&spans, |s| s.from.0),
            end_ps: ints(&spans, |s| s.to.0),
            busy_ps: ints(&spans, |s| s.busy.0),
        }
    }
}

/// The part of what a link carried that fell before the end of a run, in proportion.
fn cut(span: Span, end: Ps) -> Ps {
    if span.to <= end {
        return span.busy;
    }
    let (within, whole) = (u128::from((end - span.from).0), u128::from((span.to - span.from).0));
    Ps((u128::from(span.busy.0) * within / whole) as u64)
}
