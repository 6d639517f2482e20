//! The two numbers that an NPU has in a collective.

use syncline_core::id_type;

id_type!(
    /// The number of an NPU in its group, from 0. In the verifier, switches that take part are numbered after all ranks.
    Rank
);

id_type!(
    /// The number of a rank in the program of a phase, from 0: its coordinate along the dimension of the phase, or its place
    /// in a ring with an order of its own. A switch that takes part has the number after all of them.
    LineRank
);
