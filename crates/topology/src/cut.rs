//! The rate, in bytes per second, at which data can go from some NPUs to others: maximum flow (Dinic 1970). Nodes
//! in neither set only forward; whether NPUs among them do is up to the caller.

use crate::fabric::{Fabric, all_links};
use std::collections::VecDeque;
use syncline_core::NodeId;

/// Where a node stands in a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Data starts here.
    Source,
    /// Data ends here.
    Sink,
    /// Data may pass.
    Between,
    /// Data may not pass.
    Outside,
}

#[derive(Clone, Copy)]
struct Edge {
    to: usize,
    /// What it can still carry; the edge with the neighbouring number runs the other way.
    left: u128,
}

/// Bytes per second that can flow from the sources to the sinks; `side` is asked once per node.
pub fn capacity(fabric: &(impl Fabric + ?Sized), side: impl Fn(NodeId) -> Side) -> u128 {
    let count = fabric.nodes() as usize;
    let (source, sink) = (count, count + 1);
    let mut edges: Vec<Edge> = Vec::new();
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); count + 2];
    let mut connect = |from: usize, to: usize, rate: u128| {
        leaving[from].push(edges.len());
        edges.push(Edge { to, left: rate });
        leaving[to].push(edges.len());
        edges.push(Edge { to: from, left: 0 });
    };
    let sides: Vec<Side> = (0..count as u32).map(|n| side(NodeId(n))).collect();
    for (node, &side) in sides.iter().enumerate() {
        match side {
            Side::Source => connect(source, node, u128::MAX / 4),
            Side::Sink => connect(node, sink, u128::MAX / 4),
            Side::Between | Side::Outside => {}
        }
    }
    for (node, port) in all_links(fabric) {
        let there = fabric.next(node, port).0;
        if sides[node.index()] != Side::Outside && sides[there.index()] != Side::Outside {
            connect(node.index(), there.index(), fabric.link(node, port).rate.bytes_per_s().into());
        }
    }
    let mut flow = 0;
    while let Some(depth) = depths(&edges, &leaving, source, sink) {
        let mut next = vec![0; count + 2];
        loop {
            let pushed = push(&mut edges, &leaving, &depth, &mut next, (source, sink));
            if pushed == 0 {
                break;
            }
            flow += pushed;
        }
    }
    flow
}

/// The distance of every node from the source over edges with something left; `None` if the sink is cut off.
fn depths(edges: &[Edge], leaving: &[Vec<usize>], source: usize, sink: usize) -> Option<Vec<u32>> {
    let mut depth = vec![u32::MAX; leaving.len()];
    depth[source] = 0;
    let mut queue = VecDeque::from([source]);
    while let Some(at) = queue.pop_front() {
        for &e in &leaving[at] {
            let Edge { to, left } = edges[e];
            if left > 0 && depth[to] == u32::MAX {
                depth[to] = depth[at] + 1;
                queue.push_back(to);
            }
        }
    }
    (depth[sink] != u32::MAX).then_some(depth)
}

/// Pushes along one path that leads away from the source at every step; without recursion, since paths
/// may be long.
fn push(
    edges: &mut [Edge],
    leaving: &[Vec<usize>],
    depth: &[u32],
    next: &mut [usize],
    (source, sink): (usize, usize),
) -> u128 {
    let mut path: Vec<usize> = Vec::new();
    let mut at = source;
    while at != sink {
        let Some(&e) = leaving[at].get(next[at]) else {
            // A dead end: back one step, and never here again.
            let Some(back) = path.pop() else { return 0 };
            at = edges[back ^ 1].to;
            next[at] += 1;
            continue;
        };
        let Edge { to, left } = edges[e];
        if left > 0 && depth[to] == depth[at] + 1 {
            path.push(e);
            at = to;
        } else {
            next[at] += 1;
        }
    }
    let pushed = path.iter().map(|&e| edges[e].left).min().unwrap_or(0);
    for e in path {
        edges[e].left -= pushed;
        edges[e ^ 1].left += pushed;
    }
    pushed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Dimension, Product};
    use syncline_core::{Ps, Rate};

    fn product(block: Block, sizes: &[u32]) -> Product {
        let rate = Rate::new(10).unwrap();
        let dim = |&size: &u32| Dimension { block, size, rate, latency: Ps(1), links: 1 };
        Product::new(sizes.iter().map(dim).collect()).unwrap()
    }

    fn split(fabric: &Product, first: u32) -> u128 {
        capacity(fabric, |n| match n.0 {
            n if n < first => Side::Source,
            n if n < fabric.npus() => Side::Sink,
            _ => Side::Between,
        })
    }

    #[test]
    fn cuts_of_simple_fabrics() {
        assert_eq!(split(&product(Block::Ring, &[8]), 4), 20);
        assert_eq!(split(&product(Block::Ring, &[4, 4]), 8), 80);
        assert_eq!(split(&product(Block::FullyConnected, &[6]), 2), 80);
        assert_eq!(split(&product(Block::Switch, &[6]), 2), 20);
        assert_eq!(split(&product(Block::Switch, &[6]), 5), 10);
    }

    #[test]
    fn what_may_not_pass_does_not() {
        let ring = product(Block::Ring, &[6]);
        let between = |side| capacity(&ring, move |n| [Side::Source, side, side, Side::Sink, side, side][n.index()]);
        assert_eq!((between(Side::Between), between(Side::Outside)), (20, 0));
    }
}
