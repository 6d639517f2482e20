//! Rings through the direct links of a graph.
//!
//! Ring collectives need Hamiltonian cycles that share no link. A machine whose GPUs are wired point to
//! point has as many rings as such cycles can be found (a DGX-1V has three in each direction, which is also
//! what NCCL finds). Every cycle is used in both directions.

use crate::fabric::Fabric;
use syncline_core::{NodeId, PortId};

/// A ring: members in order, and of each the port that leads to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRing {
    /// Numbers of members, in the order of the ring.
    pub order: Vec<u32>,
    /// Per place, the port to the next place.
    pub ports: Vec<PortId>,
}

/// Cycles that are looked at; a dense graph of many nodes has more than anyone wants to know.
const MOST_CYCLES: usize = 20_000;
/// Steps of the search for a packing.
const MOST_STEPS: usize = 2_000_000;

/// As many rings over direct links as can be packed, in either direction; none where the members have
/// no common cycle. Two members share their links as the ring of two.
pub fn rings(fabric: &(impl Fabric + ?Sized), members: &[NodeId]) -> Vec<LinkRing> {
    let n = members.len();
    if n < 2 {
        return Vec::new();
    }
    let mut links: Vec<Vec<Vec<PortId>>> = vec![vec![Vec::new(); n]; n];
    for (a, &node) in members.iter().enumerate() {
        for port in (0..fabric.ports(node)).map(PortId) {
            let there = fabric.next(node, port).0;
            if let Some(b) = members.iter().position(|&m| m == there) {
                links[a][b].push(port);
            }
        }
    }
    // A pair of members is one resource per pair of opposite links.
    let capacity: Vec<Vec<u32>> =
        (0..n).map(|a| (0..n).map(|b| links[a][b].len().min(links[b][a].len()) as u32).collect()).collect();
    let cycles = if n == 2 { vec![vec![0, 1]] } else { hamiltonian_cycles(&capacity) };
    let mut search = Packing { cycles: &cycles, capacity, best: Vec::new(), steps: 0 };
    search.pack(0, &mut Vec::new());
    let mut taken = vec![vec![0usize; n]; n];
    let mut rings = Vec::new();
    for cycle in search.best.into_iter().map(|c| cycles[c].clone()) {
        let backwards: Vec<u32> = std::iter::once(cycle[0]).chain(cycle[1..].iter().rev().copied()).collect();
        let directions = if n == 2 { vec![cycle] } else { vec![cycle, backwards] };
        for order in directions {
            let pairs = order.iter().zip(order.iter().cycle().skip(1));
            let ports = pairs.map(|(&a, &b)| {
                let next = &mut taken[a as usize][b as usize];
                *next += 1;
                links[a as usize][b as usize][*next - 1]
            });
            rings.push(LinkRing { ports: ports.collect(), order });
        }
    }
    rings
}

/// Hamiltonian cycles from member 0, each in one direction.
fn hamiltonian_cycles(capacity: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let n = capacity.len();
    let (mut cycles, mut path, mut used) = (Vec::new(), vec![0u32], vec![false; n]);
    used[0] = true;
    // Depth first without recursion: `next[d]` is the member to try at depth d.
    let mut next = vec![1u32];
    let mut steps = 0;
    while let Some(candidate) = next.last_mut() {
        steps += 1;
        if cycles.len() >= MOST_CYCLES || steps > MOST_STEPS {
            break;
        }
        if *candidate as usize >= n {
            next.pop();
            if let Some(last) = path.pop() {
                used[last as usize] = false;
            }
            continue;
        }
        let member = *candidate;
        *candidate += 1;
        let last = path[path.len() - 1] as usize;
        if used[member as usize] || capacity[last][member as usize] == 0 {
            continue;
        }
        if path.len() + 1 == n {
            if capacity[member as usize][0] > 0 && path[1] < member {
                let mut cycle = path.clone();
                cycle.push(member);
                cycles.push(cycle);
            }
            continue;
        }
        used[member as usize] = true;
        path.push(member);
        next.push(1);
    }
    cycles
}

/// The search for the most cycles that fit the links.
struct Packing<'a> {
    cycles: &'a [Vec<u32>],
    capacity: Vec<Vec<u32>>,
    best: Vec<usize>,
    steps: usize,
}

impl Packing<'_> {
    /// Extends a packing by cycles from number `from` on; one may be used several times.
    fn pack(&mut self, from: usize, chosen: &mut Vec<usize>) {
        self.steps += 1;
        if chosen.len() > self.best.len() {
            self.best.clone_from(chosen);
        }
        // Every member needs two links for another ring.
        let spare = self.capacity.iter().map(|row| row.iter().sum::<u32>() as usize).min().unwrap_or(0);
        let more = if self.capacity.len() == 2 { spare } else { spare / 2 };
        if self.steps > MOST_STEPS || chosen.len() + more <= self.best.len() {
            return;
        }
        for c in from..self.cycles.len() {
            if !self.fits(c) {
                continue;
            }
            self.occupy(c, true);
            chosen.push(c);
            self.pack(c, chosen);
            chosen.pop();
            self.occupy(c, false);
            if self.steps > MOST_STEPS {
                return;
            }
        }
    }

    fn pairs(cycle: &[u32]) -> impl Iterator<Item = (usize, usize)> + '_ {
        let closing = if cycle.len() == 2 { 1 } else { cycle.len() };
        (0..closing).map(|i| (cycle[i] as usize, cycle[(i + 1) % cycle.len()] as usize))
    }

    fn fits(&self, cycle: usize) -> bool {
        Self::pairs(&self.cycles[cycle]).all(|(a, b)| self.capacity[a][b] > 0)
    }

    fn occupy(&mut self, cycle: usize, take: bool) {
        let cycles = self.cycles;
        for (a, b) in Self::pairs(&cycles[cycle]) {
            for (a, b) in [(a, b), (b, a)] {
                self.capacity[a][b] = if take { self.capacity[a][b] - 1 } else { self.capacity[a][b] + 1 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, GraphLink, GraphNode, LinkSpec};
    use syncline_core::{Ps, Rate};

    fn graph(n: u32, links: &[(u32, u32, u32)]) -> Graph {
        let nodes = (0..n).map(|i| GraphNode { name: format!("GPU {i}"), forwards: true }).collect();
        let spec = LinkSpec::new(Rate::UNLIMITED, Ps(1), 0);
        let mut all = Vec::new();
        for &(a, b, count) in links {
            for (from, to) in [(a, b), (b, a)] {
                all.extend((0..count).map(|_| GraphLink { from: NodeId(from), to: NodeId(to), spec }));
            }
        }
        Graph::new(nodes, n, vec!["NVLink".into()], all, &(0..n).map(NodeId).collect::<Vec<_>>()).unwrap()
    }

    /// Links of the DGX-1V: a doubled and a single Hamiltonian cycle (`machines`).
    const DOUBLED: [u32; 8] = [0, 3, 2, 1, 5, 6, 7, 4];
    const SINGLE: [u32; 8] = [0, 1, 3, 7, 5, 4, 6, 2];

    fn hybrid_cube_mesh(doubled: u32) -> Graph {
        let around = |ring: [u32; 8], count| (0..8).map(move |i| (ring[i], ring[(i + 1) % 8], count));
        graph(8, &around(DOUBLED, doubled).chain(around(SINGLE, 1)).collect::<Vec<_>>())
    }

    #[test]
    fn the_rings_of_a_dgx1() {
        let all: Vec<NodeId> = (0..8).map(NodeId).collect();
        let (v100, p100) = (hybrid_cube_mesh(2), hybrid_cube_mesh(1));
        assert_eq!(rings(&v100, &all).len(), 6);
        assert_eq!(rings(&p100, &all).len(), 4);
        // Blink, figure 2: GPUs 0, 1, 3 form a triangle; 1 and 4 have no link, so 0, 1, 4 no ring.
        assert_eq!(rings(&p100, &[NodeId(0), NodeId(1), NodeId(3)]).len(), 2);
        assert_eq!(rings(&p100, &[NodeId(0), NodeId(1), NodeId(4)]).len(), 0);
        assert_eq!(rings(&v100, &[NodeId(0), NodeId(3)]).len(), 2);
    }

    #[test]
    fn rings_share_no_link() {
        let all: Vec<NodeId> = (0..8).map(NodeId).collect();
        let g = hybrid_cube_mesh(2);
        let mut used = Vec::new();
        for ring in rings(&g, &all) {
            for (place, (&rank, &port)) in ring.order.iter().zip(&ring.ports).enumerate() {
                assert_eq!(g.next(NodeId(rank), port).0, NodeId(ring.order[(place + 1) % 8]));
                used.push((rank, port));
            }
        }
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), 48, "all of the 48 links are used once");
    }
}
