//! The backend's part for messages that stay on NVLink: flows, which share links max-min fairly ([`crate::flow`]).
//!
//! A message is one of these if all links on its way are of classes that are named. Such links have no losses, headers and
//! acknowledgements here in any case, and to send every few kilobytes across them by an event of its own costs more than all
//! frames of a scale-out network: tensor parallelism moves many times as much as data parallelism. The frames of what goes to
//! another machine do not see these flows, nor the other way round: they have no link in common where NICs hang off PCIe.

use super::{Ethernet, Event};
use crate::api::{Message, NetOut, Network, Route};
use crate::flow::{self, Flow};
use syncline_core::{Key, NodeId, PortId, Ps, Resolution, Schedule};
use syncline_topology::Fabric;

/// Messages that stay on links of some classes.
#[derive(Debug)]
pub struct Within<F> {
    /// Their network.
    pub flow: Flow<F>,
    /// The classes.
    classes: Vec<u8>,
    /// By node: routes in their order, and whether all of their links are of these classes.
    known: Vec<Vec<(Route, bool)>>,
    path: Vec<PortId>,
}

/// The driver's queue as flows see it. Their events are told from the frames' of the same time and node.
struct FlowQueue<'a, Q>(&'a mut Q);

impl<Q: Schedule<Event>> Schedule<flow::Event> for FlowQueue<'_, Q> {
    fn at(&mut self, time: Ps, key: Key, event: flow::Event) {
        self.0.at(time, key.of_part(1, 1), Event::Flows(event));
    }

    fn next_time(&self) -> Ps {
        self.0.next_time()
    }
}

impl<F: Fabric> Within<F> {
    /// None yet on a fabric with these classes of links.
    pub fn new(fabric: F, classes: Vec<u8>, window: impl Into<Resolution>) -> Within<F> {
        let known = vec![Vec::new(); fabric.nodes() as usize];
        Within { flow: Flow::new(fabric, window), classes, known, path: Vec::new() }
    }

    /// Whether a route from a node has links, and all of them are of the classes.
    fn takes(&mut self, fabric: &impl Fabric, src: NodeId, route: Route) -> bool {
        let known = &mut self.known[src.index()];
        match known.binary_search_by_key(&route, |&(route, _)| route) {
            Ok(place) => known[place].1,
            Err(place) => {
                self.path.clear();
                route.append(fabric, src, &mut self.path);
                let mut at = src;
                let is_within = |&port: &PortId| {
                    let class = fabric.link(at, port).class;
                    at = fabric.next(at, port).0;
                    self.classes.contains(&class)
                };
                let takes = !self.path.is_empty() && self.path.iter().all(is_within);
                known.insert(place, (route, takes));
                takes
            }
        }
    }
}

impl<F: Fabric> Ethernet<F> {
    /// Messages that take links of these classes only are flows, and what NICs read and write over links within machines has no
    /// events of its own. None of these links changes. The fabric is that of frames.
    #[must_use]
    pub fn with_flows(mut self, fabric: F, classes: Vec<u8>) -> Self {
        self.within = Some(Box::new(Within::new(fabric, classes, self.config.window)));
        self.passing = Some(Box::default());
        self
    }

    /// Sends a message as a flow if it is to be one.
    pub(super) fn launch_within<Q: Schedule<Event>>(&mut self, now: Ps, message: Message, q: &mut Q) -> bool {
        let Some(within) = &mut self.within else { return false };
        let takes = within.takes(&self.fabric, message.src, message.route);
        if takes {
            let queue = if self.config.connection_per_pair { 0 } else { message.queue };
            within.flow.send(now, Message { queue, ..message }, &mut FlowQueue(q));
        }
        takes
    }

    /// A timer of flows fires.
    pub(super) fn handle_within<Q: Schedule<Event>>(
        &mut self,
        now: Ps,
        event: flow::Event,
        q: &mut Q,
        out: &mut Vec<NetOut>,
    ) {
        if let Some(within) = &mut self.within {
            within.flow.handle(now, event, &mut FlowQueue(q), out);
        }
    }
}
