//! The collective operations.

use std::fmt;

/// A collective operation of a group of ranks. `S` is the size of the vector, in the sense of nccl-tests:
/// the larger of what a rank puts in and what it gets out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Every rank ends with the sum of all vectors.
    AllReduce,
    /// Every rank ends with its share of the sum.
    ReduceScatter,
    /// Every rank starts with its share and ends with the whole vector.
    AllGather,
    /// Every rank has a part for every other: rank `r` ends with part `r` of every vector.
    AllToAll,
    /// Every rank ends with the root's vector.
    Broadcast,
    /// The root ends with the sum of all vectors.
    Reduce,
    /// Every rank starts with its share and the root ends with the whole vector.
    Gather,
    /// The root starts with the whole vector and every rank ends with its share.
    Scatter,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::AllReduce,
        Kind::ReduceScatter,
        Kind::AllGather,
        Kind::AllToAll,
        Kind::Broadcast,
        Kind::Reduce,
        Kind::Gather,
        Kind::Scatter,
    ];

    /// Whether one rank, the root, plays a part of its own.
    pub const fn is_rooted(self) -> bool {
        matches!(self, Kind::Broadcast | Kind::Reduce | Kind::Gather | Kind::Scatter)
    }

    /// Whether ranks end with a sum of what they had.
    pub const fn is_summed(self) -> bool {
        matches!(self, Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce)
    }

    /// Its name, e.g. `all-reduce`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::AllReduce => "all-reduce",
            Kind::ReduceScatter => "reduce-scatter",
            Kind::AllGather => "all-gather",
            Kind::AllToAll => "all-to-all",
            Kind::Broadcast => "broadcast",
            Kind::Reduce => "reduce",
            Kind::Gather => "gather",
            Kind::Scatter => "scatter",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
