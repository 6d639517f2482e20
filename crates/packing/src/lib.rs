//! How fast a collective can be on a network, and the spanning trees that are that fast.
//!
//! A network is a directed graph whose arcs have capacities ([`Network`]). Data that goes along an arborescence, a tree whose
//! arcs lead away from its root, reaches all of its nodes; so trees of a total weight that share no capacity are a broadcast
//! of that rate (Blink, MLSys 2020, section 3.1). This crate knows neither time nor steps.
//!
//! | module | what it answers | source |
//! |---|---|---|
//! | [`flow`] | what can flow from a node to another, and the cut that limits it | Dinic 1970 |
//! | [`rate`] | the best rate from one root, from all roots at once, and to and from all by trees used both ways | Edmonds 1973; Tutte and Nash-Williams 1961 |
//! | [`each`] | the best rate if each node gets a part of its own, and paths that reach it | Ford and Fulkerson 1956; Dinkelbach 1967 |
//! | [`switches`] | a network without switches that is as good | Bang-Jensen, Frank and Jackson 1995 |
//! | [`exact`] | trees that reach the best rate | Edmonds 1973, Lovász 1976 |
//! | [`orientation`] | arcs for trees that are used both ways | Frank 1980 |
//! | [`symmetry`] | permutations that lead a terminal to any other and keep all capacities | Weisfeiler and Leman 1968, McKay 1981 |
//! | [`orbits`] | trees of one root that stand for those of all on networks with symmetries | Edmonds 1967, column generation |
//! | [`cheapest`] | the arborescence of least cost | Chu and Liu 1965, Edmonds 1967 |
//! | [`every`] | all arborescences of a small network | |
//! | [`multiplicative`] | many trees near the best rate, quickly | Blink, section 3.2 |
//! | [`request`] | all of that as JSON | |
//!
//! Everything is exact: capacities are integers, and rates are ratios of integers.

pub mod cheapest;
pub mod each;
pub mod every;
pub mod exact;
pub mod flow;
pub mod multiplicative;
pub mod network;
pub mod orbits;
pub mod orientation;
pub mod rate;
pub mod ratio;
pub mod request;
pub mod switches;
pub mod symmetry;

#[cfg(test)]
mod testing;

pub use network::{Arc, Network, Tree};
pub use ratio::Ratio;
