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

impl LineRank {
    /// The place of each rank, where an order names the rank at each place.
    pub fn places(order: &[LineRank]) -> Vec<LineRank> {
        let mut places = vec![LineRank(0); order.len()];
        order.iter().zip((0..).map(LineRank)).for_each(|(rank, place)| places[rank.index()] = place);
        places
    }
}
