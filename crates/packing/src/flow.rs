//! Maximum flow (Dinic 1970), on one graph again and again with other sources, sinks and capacities.

/// A graph whose flows are asked for. Edge `2e + 1` is the way back of edge `2e`.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    to: Vec<u32>,
    capacity: Vec<u64>,
    left: Vec<u64>,
    leaving: Vec<Vec<u32>>,
    depth: Vec<u32>,
    next: Vec<u32>,
    queue: Vec<u32>,
}

/// A capacity that no cut has to pay for; several of them can be added.
pub const UNLIMITED: u64 = 1 << 61;

impl Flow {
    /// A graph of `nodes` nodes, without edges.
    pub fn new(nodes: usize) -> Flow {
        Flow { leaving: vec![Vec::new(); nodes], ..Flow::default() }
    }

    /// Adds a node, and returns its number.
    pub fn node(&mut self) -> u32 {
        self.leaving.push(Vec::new());
        self.leaving.len() as u32 - 1
    }

    /// Adds an edge, and returns its number.
    pub fn edge(&mut self, from: u32, to: u32, capacity: u64) -> u32 {
        self.edge_both_ways(from, to, capacity, 0)
    }

    /// Adds an edge that carries so much forth and so much back.
    pub fn edge_both_ways(&mut self, from: u32, to: u32, forth: u64, back: u64) -> u32 {
        let number = self.to.len() as u32;
        self.leaving[from as usize].push(number);
        self.leaving[to as usize].push(number + 1);
        self.to.extend([to, from]);
        self.capacity.extend([forth, back]);
        number
    }

    /// Gives an edge another capacity.
    pub fn set(&mut self, edge: u32, capacity: u64) {
        self.capacity[edge as usize] = capacity;
    }

    /// What flowed along an edge, after [`Flow::most`].
    pub fn along(&self, edge: u32) -> u64 {
        self.capacity[edge as usize].saturating_sub(self.left[edge as usize])
    }

    /// What can flow from `source` to `sink`, but no more than `enough` is looked for.
    pub fn most(&mut self, source: u32, sink: u32, enough: u64) -> u64 {
        self.left.clone_from(&self.capacity);
        let mut flow = 0;
        while flow < enough && self.reaches(source, sink) {
            self.next.clear();
            self.next.resize(self.leaving.len(), 0);
            while flow < enough {
                let pushed = self.push(source, sink, enough - flow);
                if pushed == 0 {
                    break;
                }
                flow += pushed;
            }
        }
        flow
    }

    /// Whether a node is on the source's side of the smallest cut next to the source, after [`Flow::most`] has found all.
    pub fn is_on_source_side(&self, node: u32) -> bool {
        self.depth[node as usize] != u32::MAX
    }

    fn reaches(&mut self, source: u32, sink: u32) -> bool {
        self.depth.clear();
        self.depth.resize(self.leaving.len(), u32::MAX);
        self.depth[source as usize] = 0;
        self.queue.clear();
        self.queue.push(source);
        let mut head = 0;
        while head < self.queue.len() {
            let at = self.queue[head] as usize;
            head += 1;
            for &edge in &self.leaving[at] {
                let to = self.to[edge as usize] as usize;
                if self.left[edge as usize] > 0 && self.depth[to] == u32::MAX {
                    self.depth[to] = self.depth[at] + 1;
                    self.queue.push(to as u32);
                }
            }
        }
        self.depth[sink as usize] != u32::MAX
    }

    /// Pushes along one path that leads away from the source at every step; without recursion, since paths may be long.
    fn push(&mut self, source: u32, sink: u32, enough: u64) -> u64 {
        let path = &mut self.queue;
        path.clear();
        let mut at = source;
        while at != sink {
            let Some(&edge) = self.leaving[at as usize].get(self.next[at as usize] as usize) else {
                // A dead end: back one step, and never here again.
                let Some(back) = path.pop() else { return 0 };
                at = self.to[back as usize ^ 1];
                self.next[at as usize] += 1;
                continue;
            };
            let to = self.to[edge as usize];
            if self.left[edge as usize] > 0 && self.depth[to as usize] == self.depth[at as usize] + 1 {
                path.push(edge);
                at = to;
            } else {
                self.next[at as usize] += 1;
            }
        }
        let pushed = path.iter().map(|&edge| self.left[edge as usize]).min().unwrap_or(0).min(enough);
        for &edge in path.iter() {
            self.left[edge as usize] -= pushed;
            self.left[edge as usize ^ 1] += pushed;
        }
        pushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_flow_and_its_cut() {
        let mut flow = Flow::new(4);
        for (from, to, capacity) in [(0, 1, 3), (0, 2, 2), (1, 2, 1), (1, 3, 2), (2, 3, 4)] {
            flow.edge(from, to, capacity);
        }
        assert_eq!(flow.most(0, 3, u64::MAX), 5);
        assert_eq!(flow.most(0, 3, 2), 2);
        flow.set(8, 1);
        assert_eq!(flow.most(0, 3, u64::MAX), 3);
        assert_eq!((0..4).map(|n| flow.is_on_source_side(n)).collect::<Vec<_>>(), [true, true, true, false]);
    }

    proptest! {
        /// The flow equals the least cut, over all cuts.
        #[test]
        fn flow_equals_cut(edges in prop::collection::vec((0u32..6, 0u32..6, 0u64..9), 0..20)) {
            let edges: Vec<_> = edges.into_iter().filter(|(a, b, _)| a != b).collect();
            let mut flow = Flow::new(6);
            for &(from, to, capacity) in &edges {
                flow.edge(from, to, capacity);
            }
            let cut = |set: u32| -> u64 {
                edges.iter().filter(|(a, b, _)| set >> a & 1 == 1 && set >> b & 1 == 0).map(|e| e.2).sum()
            };
            let least = (0u32..64).filter(|set| set & 1 == 1 && set >> 5 & 1 == 0).map(cut).min().unwrap();
            prop_assert_eq!(flow.most(0, 5, u64::MAX), least);
            let side = (0..6).filter(|&n| flow.is_on_source_side(n)).fold(0, |set, n| set | 1 << n);
            prop_assert_eq!(cut(side), least);
        }
    }
}
