//! Whether NPUs can send to all others at once.

use crate::fabric::Fabric;
use std::collections::BTreeMap;
use syncline_core::{Bytes, NodeId, PortId};

/// So many members are looked at, of which ways between any two are.
const MOST_MEMBERS: usize = 64;
const PROBE: Bytes = Bytes(1 << 20);

/// What an exchange, in which every member sends as much to every other, puts on a link.
struct Load {
    picoseconds: u128,
    from: NodeId,
    to: NodeId,
    /// Whether several members send over it, and several receive: it is not the way out or in of one of them.
    is_shared: bool,
    senders: bool,
    receivers: bool,
}

/// Whether members can send to all others at once as fast as around a ring. Links that they share, such as those between the
/// sockets of a server, are then busy for no longer than the busiest way out or in of a single member; and none is busy for
/// longer than with all of it passing from each member to the next one. So it is behind a switch, or where every two have a link
/// of their own. Of many members, the first ones tell.
pub fn is_free(fabric: &(impl Fabric + ?Sized), members: &[NodeId]) -> bool {
    let members = &members[..members.len().min(MOST_MEMBERS)];
    let mut loads: BTreeMap<(NodeId, PortId), Load> = BTreeMap::new();
    let mut path = Vec::new();
    for (&from, &to) in members.iter().flat_map(|from| members.iter().map(move |to| (from, to))) {
        path.clear();
        fabric.route(from, to, &mut path);
        let mut at = from;
        for &port in &path {
            let none = || Load { picoseconds: 0, from, to, is_shared: false, senders: false, receivers: false };
            let load = loads.entry((at, port)).or_insert_with(none);
            load.picoseconds += u128::from(fabric.link(at, port).rate.time(PROBE).0);
            load.senders |= load.from != from;
            load.receivers |= load.to != to;
            load.is_shared = load.senders && load.receivers;
            at = fabric.next(at, port).0;
        }
    }
    let most = |shared: bool| loads.values().filter(|l| l.is_shared == shared).map(|l| l.picoseconds).max();
    most(true).max(most(false)) <= around(fabric, members) && most(true) <= most(false)
}

/// For how long the busiest link is busy around a ring in the order of members.
fn around(fabric: &(impl Fabric + ?Sized), members: &[NodeId]) -> Option<u128> {
    let mut path = Vec::new();
    let pairs = members.iter().zip(members.iter().cycle().skip(1));
    let narrowest = pairs.filter_map(|(&from, &to)| {
        path.clear();
        fabric.route(from, to, &mut path);
        let mut at = from;
        let time = |&port: &PortId| {
            let time = fabric.link(at, port).rate.time(PROBE).0;
            at = fabric.next(at, port).0;
            u128::from(time)
        };
        path.iter().map(time).max()
    });
    narrowest.max().map(|each| each * (members.len() as u128 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, GraphLink, GraphNode, LinkSpec};
    use syncline_core::{Ps, Rate};

    /// Links both ways, by their ends and rate.
    fn graph(npus: u32, switches: u32, links: &[(u32, u32, u64)]) -> Graph {
        let nodes = (0..npus + switches).map(|n| GraphNode { name: format!("N{n}"), forwards: true }).collect();
        let both = |&(a, b, rate): &(u32, u32, u64)| {
            let spec = LinkSpec::new(Rate::new(rate * 1_000_000_000).unwrap(), Ps(5), 0);
            let link = |from, to| GraphLink { from: NodeId(from), to: NodeId(to), spec };
            [link(a, b), link(b, a)]
        };
        let participants: Vec<NodeId> = (0..npus).map(NodeId).collect();
        Graph::new(nodes, npus, vec!["link".into()], links.iter().flat_map(both).collect(), &participants).unwrap()
    }

    fn all_are_free(graph: &Graph) -> bool {
        is_free(graph, &(0..graph.npus()).map(NodeId).collect::<Vec<_>>())
    }

    #[test]
    fn behind_one_switch_an_exchange_is_free() {
        assert!(all_are_free(&graph(4, 1, &[(0, 4, 9), (1, 4, 9), (2, 4, 9), (3, 4, 1)])));
        assert!(all_are_free(&graph(1, 0, &[])));
    }

    #[test]
    fn with_a_link_for_every_pair_an_exchange_is_free() {
        assert!(all_are_free(&graph(3, 0, &[(0, 1, 1), (1, 2, 1), (0, 2, 1)])));
    }

    #[test]
    fn around_a_ring_an_exchange_is_not_free() {
        assert!(!all_are_free(&graph(4, 0, &[(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 0, 1)])));
        assert!(!all_are_free(&graph(5, 0, &[(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (4, 0, 1)])));
    }

    /// Members that are not neighbours have a slower way of their own, by a switch.
    #[test]
    fn a_fast_ring_beats_slow_ways_out() {
        let joined = |slow| {
            let ring = [(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)];
            graph(4, 1, &[&ring[..], &[(0, 4, slow), (1, 4, slow), (2, 4, slow), (3, 4, slow)]].concat())
        };
        assert!(!all_are_free(&joined(1)));
        assert!(all_are_free(&joined(4)));
    }

    /// Four pairs cross between two switches, and every member has three to send to and to receive from.
    #[test]
    fn between_switches_it_depends_on_the_links_that_are_shared() {
        let joined = |rate| graph(4, 2, &[(0, 4, 3), (1, 4, 3), (2, 5, 3), (3, 5, 3), (4, 5, rate)]);
        assert!(all_are_free(&joined(4)));
        assert!(!all_are_free(&joined(3)));
        assert!(is_free(&joined(1), &[NodeId(0), NodeId(2)]));
    }
}
