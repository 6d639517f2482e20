//! Collectives by their names.

use serde::Deserialize;
use syncline_collective::Kind;

/// Collectives that can be asked for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveKindSpec {
    /// All-reduce.
    AllReduce,
    /// Reduce-scatter.
    ReduceScatter,
    /// All-gather.
    AllGather,
    /// All-to-all.
    AllToAll,
    /// Broadcast.
    Broadcast,
    /// Reduce.
    Reduce,
    /// Gather.
    Gather,
    /// Scatter.
    Scatter,
}

impl CollectiveKindSpec {
    /// The collective of a description.
    pub fn kind(self) -> Kind {
        match self {
            CollectiveKindSpec::AllReduce => Kind::AllReduce,
            CollectiveKindSpec::ReduceScatter => Kind::ReduceScatter,
            CollectiveKindSpec::AllGather => Kind::AllGather,
            CollectiveKindSpec::AllToAll => Kind::AllToAll,
            CollectiveKindSpec::Broadcast => Kind::Broadcast,
            CollectiveKindSpec::Reduce => Kind::Reduce,
            CollectiveKindSpec::Gather => Kind::Gather,
            CollectiveKindSpec::Scatter => Kind::Scatter,
        }
    }

    /// The name that descriptions have for a collective.
    pub fn of(kind: Kind) -> CollectiveKindSpec {
        match kind {
            Kind::AllReduce => CollectiveKindSpec::AllReduce,
            Kind::ReduceScatter => CollectiveKindSpec::ReduceScatter,
            Kind::AllGather => CollectiveKindSpec::AllGather,
            Kind::AllToAll => CollectiveKindSpec::AllToAll,
            Kind::Broadcast => CollectiveKindSpec::Broadcast,
            Kind::Reduce => CollectiveKindSpec::Reduce,
            Kind::Gather => CollectiveKindSpec::Gather,
            Kind::Scatter => CollectiveKindSpec::Scatter,
        }
    }
}
