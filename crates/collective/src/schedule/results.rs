//! Whether a schedule that has been carried out has done what its collective promises.

use super::contract::Contract;
use super::lower::FileNames;
use crate::rank::Rank;
use crate::verify::data::{From, Promise, Sets, Value};
use crate::verify::findings::{Findings, Kind, Site};

/// What every rank starts with.
pub fn inputs(contract: &Contract, ranks: u32) -> Vec<Value> {
    let mut memory = vec![Value::NOTHING; contract.cells() as usize];
    for rank in (0..ranks).map(Rank) {
        for (cell, chunk) in contract.start(rank) {
            memory[cell as usize] = Value::of(chunk, rank);
        }
    }
    memory
}

/// Compares what is in the end with what the collective promises. Returns the root, if it has one: `given`, or else the rank
/// that fits the results best.
pub fn check(
    contract: &Contract,
    memory: &[Value],
    sets: &Sets,
    (has_root, given): (bool, Option<Rank>),
    flaws: &mut Findings,
) -> Option<Rank> {
    let root = match (has_root, given) {
        (false, _) => None,
        (true, None) => Some(likely_root(contract, memory, sets)),
        (true, given) => given,
    };
    if let Some(root) = root
        && !contract.can_be_root(root)
    {
        let message = "this rank is taken for the root, but its buffer has no room for the whole vector";
        flaws.add(Kind::Lost, Site::rank(root), message);
        return Some(root);
    }
    let results = sets.ranks().flat_map(|rank| contract.end(rank, root.unwrap_or_default()));
    sets.check(results.map(|(cell, promise)| (promise, memory[cell as usize])), &FileNames { contract }, flaws);
    root
}

/// The rank with which most results are right, the lowest of several.
fn likely_root(contract: &Contract, memory: &[Value], sets: &Sets) -> Rank {
    let ranks = sets.ranks();
    let mut right = vec![0u64; ranks.len()];
    for rank in ranks.clone() {
        for (cell, Promise { chunk, from, .. }) in contract.end(rank, rank) {
            let value = memory[cell as usize];
            let root = if contract.sends_from_root() { sets.only(value) } else { Some(rank) };
            let Some(root) = root.filter(|_| !value.is_nothing()) else { continue };
            let wanted = if contract.sends_from_root() { From::One(root) } else { from };
            if sets.is_right(value, chunk, wanted) {
                right[root.index()] += 1;
            }
        }
    }
    let candidates = ranks.rev().filter(|&rank| contract.can_be_root(rank));
    candidates.max_by_key(|&rank| right[rank.index()]).unwrap_or_default()
}
