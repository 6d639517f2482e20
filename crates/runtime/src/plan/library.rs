//! The plans of a communicator, verified once for each kind of call.

use super::Verified;
use crate::bootstrap::Failure;
use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_collective::{Algorithm, Kind};

/// Where plans come from, and those that have been made so far.
///
/// A plan is kept by collective, root and size class (the power of two of the vector's bytes); the ranks are those of the
/// communicator.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// Plans that go before algorithms, each from a number of bytes on.
    given: Vec<(u64, Arc<Verified>)>,
    made: BTreeMap<(u8, u32, u32), Arc<Verified>>,
}

impl Library {
    /// Adds plans that go before those of algorithms, wherever ranks, collective and root are theirs.
    pub fn add(&mut self, plans: impl IntoIterator<Item = Verified>) {
        self.given.extend(plans.into_iter().map(|plan| (0, Arc::new(plan))));
    }

    /// Adds plans that are for large vectors only.
    pub fn add_for_large(&mut self, plans: impl IntoIterator<Item = Verified>) {
        self.given.extend(plans.into_iter().map(|plan| (SMALL + 1, Arc::new(plan))));
    }

    /// The plan for a call whose vector, or whose share of it, has so many bytes.
    ///
    /// # Errors
    /// A [`Failure`], if there is no plan that can be executed.
    pub fn plan(&mut self, kind: Kind, root: u32, ranks: u32, bytes: u64) -> Result<Arc<Verified>, Failure> {
        let key = (kind as u8, root, bytes.max(1).ilog2());
        if let Some(plan) = self.made.get(&key) {
            return Ok(plan.clone());
        }
        // All sizes of a class have the same plan, so that it is that of its smallest.
        let least = 1 << key.2;
        let fits = |(from, plan): &&(u64, Arc<Verified>)| {
            least >= *from && (plan.kind(), plan.ranks()) == (kind, ranks) && (!kind.is_rooted() || plan.root() == root)
        };
        let plan = match self.given.iter().find(fits) {
            Some((_, plan)) => plan.clone(),
            None => Arc::new(Verified::of_algorithm(algorithm(kind, ranks, least), kind, ranks, root)?),
        };
        self.made.insert(key, plan.clone());
        Ok(plan)
    }
}

/// Ranks up to which each exchanges messages with every other.
const FEW: u32 = 16;
/// Bytes up to which the number of messages counts, not their length. Size classes begin behind it.
const SMALL: u64 = (64 << 10) - 1;

/// The algorithm for ranks that reach each other equally well, as through the memory of a host.
fn algorithm(kind: Kind, ranks: u32, bytes: u64) -> Algorithm {
    let is_small = bytes <= SMALL;
    match kind {
        // One rank sends all: to each of a few, through a tree, or through a chain in which all send at once.
        Kind::Broadcast | Kind::Reduce if ranks <= 2 => Algorithm::Direct,
        Kind::Broadcast | Kind::Reduce if is_small => Algorithm::HalvingDoubling,
        Kind::Broadcast | Kind::Reduce => Algorithm::Chain { slices: 1 },
        Kind::Gather | Kind::Scatter | Kind::AllToAll => Algorithm::Direct,
        Kind::AllReduce | Kind::ReduceScatter | Kind::AllGather if ranks <= FEW => Algorithm::Direct,
        Kind::AllReduce | Kind::ReduceScatter | Kind::AllGather if is_small => Algorithm::HalvingDoubling,
        Kind::AllReduce | Kind::ReduceScatter | Kind::AllGather => Algorithm::Ring,
    }
}
