//! The order of dimensions for a chunk that balances the load of all dimensions (after Themis: Rashidi et al.,
//! ISCA 2022).
//!
//! Scattering first along dimension `d` of size `n`, a chunk of `c` bytes sends `(n-1)/n * c` there and
//! leaves `c/n` for the next dimension. With one order for all chunks the dimensions are busy in a fixed
//! proportion, seldom that of their rates, and all but one of them idle in between. So each chunk is
//! given its own order: the one after which the busiest of the dimensions has the least load, as time at its rate.
//! The gathering phases go back through the dimensions, so the one that carries the most is again the same one; an
//! all-reduce loads each dimension twice.
//!
//! The paper sorts dimensions by their load, which overshoots where a single chunk tips the balance: with 16 chunks
//! over two to four dimensions the busiest one has 5 to 10 % more than the best mixture of orders on average, and here 1 %.
//! A dimension whose links chunks use in turn, such as the directions of a ring, has a load for each of these lanes, and a
//! chunk is given the order that suits the lanes that it takes: loads of whole dimensions would alternate in step with the
//! lanes, so that all chunks of a lane went the same way.
//!
//! Balanced loads are of no use while a port has nothing to send. Which chunk's message goes next where several wait is
//! chosen by endpoints of whole messages (`endpoint::message::departures`).
//!
//! Left out of the paper: the fixed latency of a phase in its load, and the threshold below which loads
//! count as equal.

use crate::kind::Kind;
use syncline_core::{Bytes, Rate};

/// The time in ps that a chunk keeps each dimension busy if it goes through them in an order. `rates` are what a rank
/// sends along a dimension in a second, `sizes` its ranks there. Dimensions of one rank carry no load. In collectives whose
/// phases do not narrow the vector the order does not matter.
pub fn loads(order: &[u8], sizes: &[u32], rates: &[Rate], chunk: Bytes, kind: Kind) -> Vec<u128> {
    assert!(sizes.len() == rates.len(), "a size and a rate per dimension");
    let narrows = matches!(kind, Kind::AllReduce | Kind::ReduceScatter | Kind::AllGather);
    let mut loads = vec![0; sizes.len()];
    let mut vector = chunk.0;
    for dim in order.iter().map(|&d| usize::from(d)) {
        let size = u64::from(sizes[dim]);
        let share = vector.div_ceil(size);
        let sent = match kind {
            Kind::AllReduce => 2 * u128::from(vector - share),
            _ if kind.is_rooted() && size > 1 => vector.into(),
            _ => (vector - share).into(),
        };
        loads[dim] = (sent * 1_000_000_000_000).div_ceil(rates[dim].bytes_per_s().into());
        if narrows {
            vector = share;
        }
    }
    loads
}

/// The place among `orders` of that for the next chunk, and the load that it adds, given the load of each dimension so
/// far. Of orders that are as good the first one is taken.
///
/// # Panics
/// Without orders.
pub fn next_order(
    so_far: &[u128],
    orders: &[Vec<u8>],
    sizes: &[u32],
    rates: &[Rate],
    chunk: Bytes,
    kind: Kind,
) -> (usize, Vec<u128>) {
    let added = orders.iter().map(|order| loads(order, sizes, rates, chunk, kind));
    let best = added.enumerate().min_by_key(|(_, added)| {
        let mut after: Vec<u128> = so_far.iter().zip(added).map(|(load, added)| load + added).collect();
        after.sort_unstable_by(|a, b| b.cmp(a)); // the busiest first
        after
    });
    best.expect("there is an order")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Algorithm, Axis, Composition, Plan, PlanRequest};
    use crate::rank::Rank;

    const SIZES: [u32; 2] = [8, 8];
    const CHUNK: Bytes = Bytes(1 << 20);

    fn rates(per_s: [u64; 2]) -> [Rate; 2] {
        per_s.map(|r| Rate::new(r).unwrap())
    }

    fn both() -> Vec<Vec<u8>> {
        vec![vec![0, 1], vec![1, 0]]
    }

    #[test]
    fn loads_are_balanced_better_than_by_any_fixed_order() {
        let rates = rates([4_000_000_000, 1_000_000_000]);
        let fixed = both().into_iter().map(|order| loads(&order, &SIZES, &rates, CHUNK, Kind::AllReduce));
        let fixed = fixed.map(|loads| *loads.iter().max().unwrap()).min().unwrap();
        let mut so_far = vec![0; 2];
        for chunks in 1..=200u128 {
            let (order, added) = next_order(&so_far, &both(), &SIZES, &rates, CHUNK, Kind::AllReduce);
            so_far.iter_mut().zip(added).for_each(|(load, added)| *load += added);
            let most = *so_far.iter().max().unwrap();
            // Never apart by more than one chunk all of which goes through the slow dimension.
            assert!(so_far[0].abs_diff(so_far[1]) <= 2 * u128::from(rates[1].time(CHUNK).0), "{order:?} {so_far:?}");
            assert!(most <= fixed * chunks, "{chunks} chunks: {so_far:?}, {fixed} each");
        }
        // The mixture of both orders that balances the loads takes 90 % of the time of the better one.
        assert!(*so_far.iter().max().unwrap() * 100 < fixed * 200 * 92);
    }

    #[test]
    fn ties_and_useless_orders_go_innermost_first() {
        let rates = rates([1_000_000_000; 2]);
        let next = |so_far: [u128; 2], chunk, kind| next_order(&so_far, &both(), &SIZES, &rates, chunk, kind);
        assert_eq!(next([5, 5], CHUNK, Kind::ReduceScatter).0, 0);
        assert_eq!(next([5, 4], CHUNK, Kind::ReduceScatter).0, 1);
        assert_eq!(next([5, 4], Bytes(8), Kind::AllToAll), (0, vec![7_000, 7_000]));
    }

    #[test]
    fn an_all_gather_ends_with_the_dimension_of_least_load() {
        let rates = rates([1_000_000_000; 2]);
        let (place, _) = next_order(&[7, 0], &both(), &SIZES, &rates, CHUNK, Kind::AllGather);
        let axes = SIZES.map(|size| Axis { size, algorithm: Algorithm::Ring });
        let (kind, composition) = (Kind::AllGather, Composition::AllScattered);
        let plan =
            Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(0), order: Some(&both()[place]) })
                .unwrap();
        assert_eq!(plan.phases().iter().map(|p| p.dim).collect::<Vec<_>>(), [0, 1]);
    }
}
