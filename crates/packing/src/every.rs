//! Every arborescence of a small network.

use crate::network::Network;

/// Choices that are tried at most before a network counts as too large.
const MOST_STEPS: usize = 2_000_000;

/// The arcs of every arborescence from `root`, each in ascending order, if there are no more than `most`; `None` if there are
/// more, or the search for them takes too long. The network has no switches.
pub fn arborescences(network: &Network, root: u32, most: usize) -> Option<Vec<Vec<u32>>> {
    let mut into: Vec<Vec<u32>> = vec![Vec::new(); network.nodes as usize];
    for (number, arc) in (0u32..).zip(&network.arcs) {
        into[arc.to as usize].push(number);
    }
    let others: Vec<u32> = (0..network.nodes).filter(|&node| node != root).collect();
    let mut parent: Vec<Option<u32>> = vec![None; network.nodes as usize];
    let (mut found, mut steps) = (Vec::new(), 0);
    // `next[d]` is the arc to try into the d-th node; the tree so far has an arc into each node before.
    let (mut next, mut chosen) = (vec![0usize], Vec::<u32>::new());
    while let Some(at) = next.len().checked_sub(1) {
        steps += 1;
        if steps > MOST_STEPS || found.len() > most {
            return None;
        }
        if at == others.len() {
            let mut tree = chosen.clone();
            tree.sort_unstable();
            found.push(tree);
            next.pop();
            retreat(&others, &mut parent, &mut chosen);
            continue;
        }
        let node = others[at];
        let Some(&arc) = into[node as usize].get(next[at]) else {
            next.pop();
            retreat(&others, &mut parent, &mut chosen);
            continue;
        };
        next[at] += 1;
        let from = network.arcs[arc as usize].from;
        if !leads_to(&parent, from, node) {
            parent[node as usize] = Some(from);
            chosen.push(arc);
            next.push(0);
        }
    }
    found.sort_unstable();
    Some(found)
}

/// Takes back the last arc that was chosen.
fn retreat(others: &[u32], parent: &mut [Option<u32>], chosen: &mut Vec<u32>) {
    if chosen.pop().is_some() {
        parent[others[chosen.len()] as usize] = None;
    }
}

/// Whether `node` is above `from`, or is the same.
fn leads_to(parent: &[Option<u32>], mut from: u32, node: u32) -> bool {
    while from != node {
        let Some(above) = parent[from as usize] else { return false };
        from = above;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{both, dgx1};

    #[test]
    fn complete_graphs_have_as_many_as_cayley_says() {
        for nodes in 1u32..=6 {
            let links: Vec<_> = (0..nodes).flat_map(|a| (0..a).map(move |b| (a, b, 1))).collect();
            let network = Network::new(nodes, nodes, both(&links)).unwrap();
            let count = u64::from(nodes).pow(nodes.saturating_sub(2)) as usize;
            let trees = arborescences(&network, 0, 10_000).unwrap();
            assert_eq!(trees.len(), count);
            assert!(trees.windows(2).all(|pair| pair[0] < pair[1]));
        }
        assert_eq!(arborescences(&dgx1(2), 0, 1000), None);
        assert!(arborescences(&dgx1(2), 0, 100_000).is_some());
    }
}
