//! How collectives are carried out.

use crate::admission::Policy;
use crate::balance::Balance;
use crate::pieces::{Chunking, LaneUse, Pieces, cut};
use syncline_collective::{Kind, Plan, Split};
use syncline_core::{Bytes, Ps};
use syncline_endpoint::Held;

/// What the collectives of a kind and size cost by a model of software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priced {
    /// The kind.
    pub kind: Kind,
    /// Bytes, as the job names them.
    pub bytes: Bytes,
    /// Bytes that are carried out in their place.
    pub wire: Bytes,
    /// From the turn of a collective on an NPU until its first byte.
    pub launch: Ps,
    /// What it holds of an NPU from its turn to its end, where kernels give way.
    pub held: Held,
}

/// How collectives are carried out.
#[derive(Clone, Debug)]
pub struct CollectiveConfig {
    /// Which issued collective goes first.
    pub policy: Policy,
    /// Kinds whose collectives go before all others, the first one foremost.
    pub priority: Vec<Kind>,
    /// How collectives are cut.
    pub chunking: Chunking,
    /// Kinds whose collectives are cut otherwise.
    pub chunking_of: Vec<(Kind, Chunking)>,
    /// How chunks use lanes.
    pub lanes: LaneUse,
    /// How blocks are cut.
    pub split: Split,
    /// Whether chunks are padded so that all blocks are equal.
    pub padding: bool,
    /// How a chunk's order of dimensions is chosen, if it has a choice.
    pub balance: Option<Balance>,
    /// Collectives that cost something else than their bytes.
    pub priced: Vec<Priced>,
    /// Chunks that an NPU has in flight at most, unless the endpoint has limits of its own.
    pub inflight: u32,
    /// Chunks that an NPU has in one phase along a dimension at most, if that is limited.
    pub inflight_per_dimension: Option<u32>,
}

impl CollectiveConfig {
    /// How collectives of a kind are cut.
    pub fn chunking_of(&self, kind: Kind) -> Chunking {
        self.chunking_of.iter().find(|of| of.0 == kind).map_or(self.chunking, |of| of.1)
    }

    /// What a collective costs by a model of software, if that says it.
    pub fn price(&self, kind: Kind, bytes: Bytes) -> Option<&Priced> {
        self.priced.iter().find(|priced| (priced.kind, priced.bytes) == (kind, bytes))
    }

    /// The pieces of a collective of `bytes` under a plan.
    pub fn pieces(&self, plan: &Plan, bytes: Bytes) -> Pieces {
        let carried = self.price(plan.kind(), bytes).map_or(bytes, |priced| priced.wire);
        self.cut(plan, carried)
    }

    /// The payload that the pieces of a collective of `bytes` under a plan stand for, and the bytes that they carry in its
    /// place: with padding, so that the ratio of what ranks send is the same.
    pub fn payload(&self, plan: &Plan, bytes: Bytes) -> (u64, u64) {
        (self.cut(plan, bytes).total(), self.pieces(plan, bytes).total())
    }

    fn cut(&self, plan: &Plan, bytes: Bytes) -> Pieces {
        let unit = plan.equal_blocks().saturating_mul(self.split.element.into());
        cut(bytes, self.chunking_of(plan.kind()), self.lanes, self.split, self.padding.then_some(unit))
    }
}
