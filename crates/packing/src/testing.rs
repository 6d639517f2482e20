//! Networks that tests share.

use crate::network::{Arc, Network};
use proptest::prelude::*;

/// Arcs in both directions.
pub fn both(links: &[(u32, u32, u64)]) -> Vec<Arc> {
    links.iter().flat_map(|&(a, b, c)| [Arc::new(a, b, c), Arc::new(b, a, c)]).collect()
}

/// The NVLinks of a DGX-1: a Hamiltonian cycle of links with this capacity, and another one of single links.
pub fn dgx1(doubled: u64) -> Network {
    let around = |ring: [u32; 8], c| (0..8).map(move |i| (ring[i], ring[(i + 1) % 8], c));
    let links: Vec<_> = around([0, 3, 2, 1, 5, 6, 7, 4], doubled).chain(around([0, 1, 3, 7, 5, 4, 6, 2], 1)).collect();
    Network::new(8, 8, both(&links)).unwrap()
}

/// Terminals on a switch.
pub fn star(terminals: u32, capacity: u64) -> Network {
    let links: Vec<_> = (0..terminals).map(|t| (t, terminals, capacity)).collect();
    Network::new(terminals + 1, terminals, both(&links)).unwrap()
}

/// Networks without switches, of up to so many nodes, whose arcs have capacities below a number.
pub fn networks(nodes: u32, capacity: u64) -> impl Strategy<Value = Network> {
    (2..=nodes).prop_flat_map(move |n| {
        prop::collection::vec(0..capacity, (n * n) as usize).prop_map(move |matrix| {
            let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).zip(&matrix);
            let arcs = pairs.filter(|((a, b), _)| a != b).map(|((a, b), &c)| Arc::new(a, b, c));
            Network::new(n, n, arcs).unwrap()
        })
    })
}
