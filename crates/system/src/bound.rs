//! What no schedule can beat: the bandwidth-latency lower bound of a collective on a fabric.
//!
//! *Cuts.* Split the NPUs into `A` and `B`, with `a` and `b` of the `n` ranks of a group. What has to
//! cross from `A` to `B`, whatever the schedule and wherever sums are made, of vectors of `S` bytes (sums are
//! not compressed):
//!
//! | collective | bytes |
//! |---|---|
//! | all-reduce | S |
//! | reduce-scatter | b/n S: sums over `A` of the shares of `B` |
//! | all-gather | a/n S: the shares of `A` |
//! | all-to-all | a b/n S |
//! | broadcast, scatter (root in A) | S, b/n S |
//! | reduce, gather (root in B) | S, a/n S |
//!
//! Cuts looked at: every NPU alone, both ways; slabs of one coordinate and of half of a dimension; on
//! fabrics of other shapes the first server and half of the servers or, where there is no grid of these, NPUs whose links
//! lead to the same nodes, as to a leaf; and all cuts of up to ten NPUs.
//! *Totals.* An all-reduce takes 2 (n-1) S sent bytes per group: every byte is summed up in n-1 sends and
//! spread in n-1; not where switches add and copy, where the cut around an NPU is left: S sent and S received.
//! An all-to-all travels on average the mean distance along every dimension. Both are held against the rates of
//! all links that can carry them. The last byte still has a link to cross.
//! *Latency.* Something has to come from the farthest rank (to or from the root, of rooted collectives).
//! The bound is the largest of all; groups that run side by side share the links of a cut.

use crate::machine::Machine;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use syncline_collective::{Kind, Rank};
use syncline_core::{NodeId, PortId, Ps};
use syncline_topology::cut::{Side, capacity};
use syncline_topology::{Block, Fabric, Product, all_links};

/// A lower bound, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// No schedule takes less time.
    pub time: Ps,
    /// What forces it, for people.
    pub by: String,
}

/// Which collective, of how many bytes, with which root.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The collective.
    pub kind: Kind,
    /// Bytes of the vector.
    pub bytes: u64,
    /// The root's rank.
    pub root: Rank,
}

/// Pairs of members that a latency bound looks at.
const MOST_PAIRS: u64 = 1 << 16;
/// NPUs of which all cuts are looked at.
const ALL_CUTS: usize = 10;

/// The bound for groups of NPUs (one of all if `None`) that all run `task`; `switches_add` if they add and copy.
pub fn lower_bound(
    machine: &Machine,
    groups: Option<&[Vec<NodeId>]>,
    grid: Option<&[u32]>,
    switches_add: bool,
    task: Task,
) -> Bound {
    let fabric = machine.fabric();
    let alike = groups.is_none() && matches!(machine, Machine::Product(product) if product.is_uniform());
    let everybody: [Vec<NodeId>; 1];
    let groups = match groups {
        Some(groups) => groups,
        None => {
            everybody = [(0..fabric.npus()).map(NodeId).collect()];
            &everybody
        }
    };
    if groups[0].len() < 2 || task.bytes == 0 {
        return Bound { time: Ps::ZERO, by: "nothing to do".into() };
    }
    let hop = match machine {
        Machine::Product(product) => product.link_kinds().map(|(_, latency)| latency).min(),
        Machine::Graph(_) => all_links(&*fabric).map(|(n, p)| fabric.link(n, p).latency).min(),
    };
    let (hop, best) = (hop.unwrap_or(Ps::ZERO), Bound { time: Ps::ZERO, by: String::new() });
    let mut search = Search { fabric: &*fabric, groups, alike, of_all: None, task, hop, best };
    if matches!(machine, Machine::Product(product) if product.is_uniform()) {
        search.of_all = Some(search.egress(NodeId(0)));
    }
    search.npus();
    if !switches_add {
        search.totals();
    }
    match machine {
        Machine::Product(product) => search.slabs(product),
        Machine::Graph(_) => search.cuts(grid),
    }
    search.latencies(machine);
    search.best
}

struct Search<'a> {
    fabric: &'a dyn Fabric,
    groups: &'a [Vec<NodeId>],
    /// There is one group, and all its NPUs have the same links.
    alike: bool,
    /// What every NPU can send and receive, if that is the same for all.
    of_all: Option<(u128, u128)>,
    task: Task,
    /// The shortest latency of any link.
    hop: Ps,
    best: Bound,
}

impl Search<'_> {
    fn take(&mut self, time: Ps, by: impl FnOnce() -> String) {
        if time > self.best.time {
            self.best = Bound { time, by: by() };
        }
    }

    /// `bytes / parts` have to cross links of together `rate` bytes per second.
    fn cross(&mut self, bytes: u128, parts: u128, rate: u128, by: impl FnOnce() -> String) {
        if rate > 0 && bytes > 0 {
            let time = (bytes * 1_000_000_000_000).div_ceil(parts * rate);
            let time = Ps(u64::try_from(time).unwrap_or(u64::MAX)).0.saturating_add(self.hop.0);
            self.take(Ps(time), by);
        }
    }

    fn ranks(&self) -> u128 {
        self.groups[0].len() as u128
    }

    /// Bytes times ranks that a group with `a` members on the near side has to send to the far side.
    fn crossing(&self, a: u128, root_is_near: bool) -> u128 {
        let (n, s) = (self.ranks(), u128::from(self.task.bytes));
        let b = n - a;
        if a == 0 || b == 0 {
            return 0;
        }
        match (self.task.kind, root_is_near) {
            (Kind::AllReduce, _) => n * s,
            (Kind::ReduceScatter, _) => b * s,
            (Kind::AllGather, _) => a * s,
            (Kind::AllToAll, _) => a * b * s,
            (Kind::Broadcast, true) | (Kind::Reduce, false) => n * s,
            (Kind::Scatter, true) => b * s,
            (Kind::Gather, false) => a * s,
            (Kind::Broadcast | Kind::Scatter, false) | (Kind::Reduce | Kind::Gather, true) => 0,
        }
    }

    fn egress(&self, node: NodeId) -> (u128, u128) {
        if let Some(known) = self.of_all {
            return known;
        }
        let ports = (0..self.fabric.ports(node)).map(PortId);
        let rate = |node, port| u128::from(self.fabric.link(node, port).rate.bytes_per_s());
        ports.fold((0, 0), |(out, into), port| {
            let (there, arrives) = self.fabric.next(node, port);
            (out + rate(node, port), into + rate(there, arrives))
        })
    }

    /// Every NPU alone.
    fn npus(&mut self) {
        let n = self.ranks();
        let mut last = None; // neighbours in number are mostly alike
        for members in self.groups {
            for (rank, &node) in (0..).map(Rank).zip(members) {
                if self.alike && rank > Rank(1) && rank != self.task.root {
                    continue; // as the second one
                }
                let (out, into) = self.egress(node);
                let root = rank == self.task.root;
                if last == Some((out, into, root)) {
                    continue;
                }
                last = Some((out, into, root));
                let name = self.fabric.node_name(node);
                self.cross(self.crossing(1, root), n, out, || format!("what {name} has to send"));
                self.cross(self.crossing(n - 1, !root), n, into, || format!("what {name} has to receive"));
            }
        }
    }

    /// All sends of an all-reduce.
    fn totals(&mut self) {
        if self.task.kind == Kind::AllReduce {
            let rates: u128 = match self.alike {
                true => self.ranks() * self.egress(self.groups[0][0]).0,
                false => self.groups.iter().flatten().map(|&n| self.egress(n).0).sum(),
            };
            let sent = 2 * (self.ranks() - 1) * u128::from(self.task.bytes) * self.groups.len() as u128;
            self.cross(sent, 1, rates, || "what all NPUs together have to send".into());
        }
    }

    /// What all groups have to send from the NPUs that `near` holds to the others, times ranks.
    fn all_crossing(&self, near: impl Fn(NodeId) -> bool) -> u128 {
        let crossing = |members: &Vec<NodeId>| {
            let a = members.iter().filter(|&&n| near(n)).count() as u128;
            self.crossing(a, near(members[self.task.root.index()]))
        };
        self.groups.iter().map(crossing).sum()
    }

    /// Slabs of a product, and the mean distance of an all-to-all.
    fn slabs(&mut self, product: &Product) {
        let whole = self.ranks() == u128::from(product.npus());
        for (dim, d) in product.dims().iter().enumerate().filter(|(_, d)| d.size > 1) {
            let lines = u128::from(product.grid().lines(dim));
            let link = u128::from(d.rate.bytes_per_s()) * u128::from(d.links);
            let (size, half) = (u128::from(d.size), d.size / 2);
            for width in [1, half] {
                let links = match d.block {
                    Block::Ring => 2,
                    Block::FullyConnected => u128::from(width) * (size - u128::from(width)),
                    Block::Switch => u128::from(width.min(d.size - width)),
                };
                for near_is_low in [true, false] {
                    let near = |n: NodeId| (product.coordinate(n, dim) < width) == near_is_low;
                    let bytes = match whole {
                        true => {
                            let low = lines * u128::from(width);
                            let a = if near_is_low { low } else { self.ranks() - low };
                            self.crossing(a, near(self.groups[0][self.task.root.index()]))
                        }
                        false => self.all_crossing(near),
                    };
                    self.cross(bytes, self.ranks(), lines * links * link, || {
                        format!(
                            "what has to cross dimension {dim} between {width} of its {} coordinates and the rest",
                            d.size
                        )
                    });
                }
            }
            if self.task.kind == Kind::AllToAll && whole {
                // The sum of the distances from one coordinate to all, and the links that each takes up.
                let (distances, links) = match d.block {
                    Block::Ring => (size * size / 4, 2),
                    Block::FullyConnected => (size - 1, size - 1),
                    Block::Switch => (size - 1, 1),
                };
                let bytes = self.ranks() * u128::from(self.task.bytes) * distances;
                self.cross(bytes, size, self.ranks() * links * link, || {
                    format!("the mean distance along dimension {dim}")
                });
            }
        }
    }

    /// Cuts of a fabric of any shape.
    fn cuts(&mut self, grid: Option<&[u32]>) {
        let members: Vec<NodeId> = self.groups.iter().flatten().copied().collect();
        if members.len() <= ALL_CUTS {
            for subset in 1..(1u32 << members.len()) - 1 {
                let chosen: Vec<NodeId> =
                    (0..members.len()).filter(|i| subset >> i & 1 == 1).map(|i| members[i]).collect();
                self.cut(&members, &chosen);
            }
        }
        if let Some(&[local, servers]) = grid
            && servers > 1
        {
            for count in [1, servers / 2] {
                let few = |members: &Vec<NodeId>| members[..(local * count) as usize].to_vec();
                let chosen: Vec<NodeId> = self.groups.iter().flat_map(few).collect();
                self.both_ways(&members, &chosen);
            }
        } else {
            let leaves = self.leaves(&members);
            if leaves.len() > 1 && leaves.len() < members.len() {
                for count in [1, leaves.len() / 2] {
                    self.both_ways(&members, &leaves[..count].concat());
                }
            }
        }
    }

    /// Members whose links lead to the same nodes.
    fn leaves(&self, members: &[NodeId]) -> Vec<Vec<NodeId>> {
        let mut leaves: BTreeMap<BTreeSet<NodeId>, Vec<NodeId>> = BTreeMap::new();
        for &member in members {
            let ports = (0..self.fabric.ports(member)).map(PortId);
            let there = ports.map(|port| self.fabric.next(member, port).0).collect();
            leaves.entry(there).or_default().push(member);
        }
        leaves.into_values().collect()
    }

    /// Cuts between some members and the others.
    fn both_ways(&mut self, members: &[NodeId], chosen: &[NodeId]) {
        let taken: BTreeSet<NodeId> = chosen.iter().copied().collect();
        let rest: Vec<NodeId> = members.iter().copied().filter(|m| !taken.contains(m)).collect();
        self.cut(members, chosen);
        self.cut(members, &rest);
    }

    fn cut(&mut self, members: &[NodeId], near: &[NodeId]) {
        let npus = self.fabric.npus();
        let among = |nodes: &[NodeId]| {
            let mut among = vec![false; npus as usize];
            nodes.iter().for_each(|n| among[n.index()] = true);
            among
        };
        let (is_member, is_near) = (among(members), among(near));
        let side = |n: NodeId| match n {
            n if n.0 >= npus => Side::Between,
            n if is_near[n.index()] => Side::Source,
            n if is_member[n.index()] => Side::Sink,
            _ => Side::Outside,
        };
        let bytes = self.all_crossing(|n| is_near[n.index()]);
        let rate = if bytes == 0 { 0 } else { capacity(self.fabric, side) };
        self.cross(bytes, self.ranks(), rate, || {
            format!("what {} of {} NPUs have to send to the others", near.len(), members.len())
        });
    }

    /// The farthest pair.
    fn latencies(&mut self, machine: &Machine) {
        let (groups, task) = (self.groups, self.task);
        let whole = self.ranks() == u128::from(self.fabric.npus());
        if let (Machine::Product(product), true) = (machine, whole) {
            let far = NodeId(product.grid().rank(product.dims().iter().map(|d| d.size / 2)));
            let latency = apart(product, NodeId(0), far);
            return self.take(latency, || "the latency between the NPUs that are farthest apart".into());
        }
        for members in groups {
            let n = members.len() as u64;
            let from: Vec<NodeId> = match task.kind.is_rooted() {
                true => vec![members[task.root.index()]],
                false if n * n <= MOST_PAIRS => members.clone(),
                false => vec![members[0]],
            };
            for source in from {
                let latency = match machine {
                    Machine::Product(product) => members.iter().map(|&m| apart(product, source, m)).max(),
                    Machine::Graph(_) => {
                        let reached = soonest(self.fabric, source);
                        members.iter().map(|m| reached[m.index()]).max()
                    }
                };
                let name = self.fabric.node_name(source);
                self.take(latency.unwrap_or(Ps::ZERO), || {
                    format!("the latency to the NPU that is farthest from {name}")
                });
            }
        }
    }
}

/// Latency between two NPUs of a product: along every dimension the shortest way.
fn apart(product: &Product, a: NodeId, b: NodeId) -> Ps {
    let along = |(dim, d): (usize, &syncline_topology::Dimension)| {
        let away = product.coordinate(a, dim).abs_diff(product.coordinate(b, dim));
        let hops = match d.block {
            _ if away == 0 => 0,
            Block::Ring => away.min(d.size - away),
            Block::FullyConnected => 1,
            Block::Switch => 2,
        };
        d.latency.0.saturating_mul(hops.into())
    };
    Ps(product.dims().iter().enumerate().map(along).fold(0, u64::saturating_add))
}

/// The least latency from a node to all others (Dijkstra), through whatever lies between.
fn soonest(fabric: &dyn Fabric, source: NodeId) -> Vec<Ps> {
    let mut reached = vec![Ps::MAX; fabric.nodes() as usize];
    let mut queue = BinaryHeap::from([std::cmp::Reverse((Ps::ZERO, source))]);
    reached[source.index()] = Ps::ZERO;
    while let Some(std::cmp::Reverse((at, node))) = queue.pop() {
        if at > reached[node.index()] {
            continue;
        }
        for port in (0..fabric.ports(node)).map(PortId) {
            let (there, _) = fabric.next(node, port);
            let then = Ps(at.0.saturating_add(fabric.link(node, port).latency.0));
            if then < reached[there.index()] {
                reached[there.index()] = then;
                queue.push(std::cmp::Reverse((then, there)));
            }
        }
    }
    reached
}
