//! What plans say of ranks and of dimensions before anything is carried out: bytes that are held, and loads.

use proptest::prelude::*;
use syncline_collective::split::Split;
use syncline_collective::{Algorithm, Axis, Composition, Kind, PhaseId, Plan, PlanRequest, Rank, themis};
use syncline_core::{Bytes, Grid, Id, Rate};

fn plan(kind: Kind, sizes: &[u32], root: u32) -> Plan {
    composed(kind, Composition::AllScattered, sizes, root)
}

fn composed(kind: Kind, composition: Composition, sizes: &[u32], root: u32) -> Plan {
    let axes: Vec<Axis> = sizes.iter().map(|&size| Axis { size, algorithm: Algorithm::Direct }).collect();
    Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(root), order: None }).expect("a plan")
}

proptest! {
    /// Before the first phase a rank holds what it has at first, in collectives that all ranks begin.
    #[test]
    fn before_the_first_phase_a_rank_holds_what_it_has(
        sizes in prop::collection::vec(1u32..5, 1..4), len in 0u64..10_000, root in any::<u32>(),
    ) {
        let (grid, split) = (Grid::new(sizes.iter().copied()), Split { element: 1 });
        prop_assume!(grid.ranks() > 1);
        for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll, Kind::Reduce, Kind::Gather] {
            let plan = plan(kind, &sizes, root % grid.ranks());
            for rank in 0..grid.ranks() {
                let coordinate = |dim: u8| grid.coordinate(rank, dim.into());
                let [first, last] = plan.ends(Bytes(len), split, coordinate);
                let held = |phase: usize| plan.held(PhaseId::from_index(phase), Bytes(len), split, coordinate);
                prop_assert_eq!((held(0), held(plan.phases().len())), (first.1, last.1), "{:?} rank {}", kind, rank);
            }
        }
    }

    /// In every phase of a gather those that take part hold the whole vector together, each byte once; and so do the ranks of
    /// an all-gather before the first.
    #[test]
    fn nothing_of_a_gather_is_held_twice(
        sizes in prop::collection::vec(2u32..5, 1..4), len in 0u64..10_000, root in any::<u32>(),
    ) {
        let (grid, split) = (Grid::new(sizes.iter().copied()), Split { element: 1 });
        for (kind, phases) in [(Kind::Gather, sizes.len()), (Kind::AllGather, 1)] {
            let plan = plan(kind, &sizes, root % grid.ranks());
            for phase in (0..phases).map(PhaseId::from_index) {
                let held = |rank: u32| {
                    let coordinate = |dim: u8| grid.coordinate(rank, dim.into());
                    let held = plan.held(phase, Bytes(len), split, coordinate);
                    if plan.takes_part(phase, coordinate) { held } else { 0 }
                };
                prop_assert_eq!((0..grid.ranks()).map(held).sum::<u64>(), len, "{:?} {:?}", kind, phase);
            }
        }
    }

    /// Where each phase works on what the one before has left, a chunk is cut into a part for every rank; where all of it is gone
    /// over again, into one for every rank of the longest line; and of a share of the first line, into parts of these.
    #[test]
    fn a_chunk_is_cut_into_a_part_for_every_rank_of_a_line(sizes in prop::collection::vec(1u32..6, 1..5)) {
        let (all, longest) = (sizes.iter().product::<u32>(), *sizes.iter().max().expect("a size"));
        let mut longer = sizes.iter().copied().filter(|&size| size > 1);
        let local = longer.next().unwrap_or(1) * longer.max().unwrap_or(1);
        let finest = |kind, composition| composed(kind, composition, &sizes, 0).finest();
        for kind in Kind::ALL {
            let expected = match kind {
                Kind::AllReduce | Kind::ReduceScatter | Kind::AllGather | Kind::Scatter | Kind::Gather => all,
                Kind::AllToAll | Kind::Broadcast | Kind::Reduce => longest,
            };
            prop_assert_eq!(finest(kind, Composition::AllScattered), u64::from(expected), "{:?}", kind);
        }
        let found = [Composition::PerDimension, Composition::LocalFirst].map(|each| finest(Kind::AllReduce, each));
        prop_assert_eq!(found, [longest, local].map(u64::from));
    }

    /// Of a vector that divides evenly: along a dimension of n ranks an all-reduce sends 2 (n-1)/n of what is left of it there,
    /// reduce-scatter and all-gather half of that, an all-to-all (n-1)/n of the whole, and whoever has a root all of it.
    #[test]
    fn loads_are_the_bytes_of_each_collective_at_the_rate_of_the_dimension(
        sizes in prop::collection::vec(1u32..6, 1..4), rate in 1u64..50, reversed in any::<bool>(),
    ) {
        let chunk = sizes.iter().map(|&n| u64::from(n)).product::<u64>() * 1000;
        let rates: Vec<Rate> = (1..).zip(&sizes).map(|(i, _)| Rate::new(i * rate * 1_000_000_000).expect("positive")).collect();
        let mut order: Vec<u8> = (0..sizes.len() as u8).collect();
        if reversed {
            order.reverse();
        }
        for kind in Kind::ALL {
            let loads = themis::loads(&order, &sizes, &rates, Bytes(chunk), kind);
            let mut left = chunk;
            for dim in order.iter().map(|&dim| usize::from(dim)) {
                let ranks = u64::from(sizes[dim]);
                let sent = match kind {
                    _ if ranks == 1 => 0,
                    Kind::AllReduce => 2 * left / ranks * (ranks - 1),
                    Kind::ReduceScatter | Kind::AllGather => left / ranks * (ranks - 1),
                    Kind::AllToAll => chunk / ranks * (ranks - 1),
                    Kind::Broadcast | Kind::Reduce | Kind::Scatter | Kind::Gather => chunk,
                };
                prop_assert_eq!(loads[dim], u128::from(rates[dim].time(Bytes(sent)).0), "{:?} along {}", kind, dim);
                left /= ranks;
            }
        }
    }
}
