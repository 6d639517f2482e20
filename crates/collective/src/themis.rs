//! The order of dimensions for a chunk that balances the load of all dimensions (Themis: Rashidi et al.,
//! ISCA 2022).
//!
//! Scattering first along dimension `d` of size `n`, a chunk of `c` bytes sends `(n-1)/n * c` there and
//! leaves `c/n` for the next dimension. With one order for all chunks the dimensions are busy in a fixed
//! proportion, seldom that of their rates, and all but one of them idle in between. So each chunk is
//! given its own order: the dimension with the least load so far, as time at its rate, comes first,
//! since the first phase carries the most. The gathering phases go back through the dimensions, so the one
//! that carries the most is again the same one; an all-reduce loads each dimension twice.
//!
//! Left out of the paper: the fixed latency of a phase in its load, and the threshold below which loads
//! count as equal.

use crate::kind::Kind;
use syncline_core::{Bytes, Rate};

/// The order for the next chunk, for [`Request::order`](crate::Request); its load is added.
///
/// `loads_ps` are the times that dimensions are busy with the chunks so far, `rates` what a rank sends along
/// a dimension in a second. Of equal loads the inner dimension comes first. Dimensions of one rank carry
/// no load. Collectives whose phases do not narrow the vector load all dimensions alike in any order, and
/// keep the innermost first.
pub fn next_order(loads_ps: &mut [u128], sizes: &[u32], rates: &[Rate], chunk: Bytes, kind: Kind) -> Vec<u8> {
    assert!(loads_ps.len() == sizes.len() && sizes.len() == rates.len(), "one load, size and rate per dimension");
    let narrows = matches!(kind, Kind::AllReduce | Kind::ReduceScatter | Kind::AllGather);
    let mut order: Vec<u8> = (0..sizes.len() as u8).collect();
    if narrows {
        order.sort_by_key(|&d| loads_ps[usize::from(d)]); // stable: inner dimensions first
    }
    let mut vector = chunk.0;
    for &d in &order {
        let (size, rate) = (u64::from(sizes[usize::from(d)]), rates[usize::from(d)]);
        let share = vector.div_ceil(size);
        let sent = match kind {
            Kind::AllReduce => 2 * (vector - share),
            _ if kind.is_rooted() && size > 1 => vector,
            _ => vector - share,
        };
        loads_ps[usize::from(d)] += (u128::from(sent) * 1_000_000_000_000).div_ceil(u128::from(rate.bytes_per_s()));
        if narrows {
            vector = share;
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Algorithm, Axis, Composition, Plan, Request};

    const SIZES: [u32; 2] = [8, 8];
    const CHUNK: Bytes = Bytes(1 << 20);

    fn rates(per_s: [u64; 2]) -> [Rate; 2] {
        per_s.map(|r| Rate::new(r).unwrap())
    }

    /// The load of chunks that all have the same order.
    fn fixed(order: [usize; 2], chunks: u128) -> [u128; 2] {
        let mut loads = [0; 2];
        loads[order[1]] = 1; // so that the other one comes first
        next_order(&mut loads, &SIZES, &rates([4_000_000_000, 1_000_000_000]), CHUNK, Kind::AllReduce);
        loads[order[1]] -= 1;
        loads.map(|l| l * chunks)
    }

    #[test]
    fn loads_are_balanced_better_than_by_any_fixed_order() {
        let mut loads = [0; 2];
        let rates = rates([4_000_000_000, 1_000_000_000]);
        for chunks in 1..=200 {
            let order = next_order(&mut loads, &SIZES, &rates, CHUNK, Kind::AllReduce);
            // Never apart by more than one chunk all of which goes through the slow dimension.
            assert!(loads[0].abs_diff(loads[1]) <= 2 * u128::from(rates[1].time(CHUNK).0), "{order:?} {loads:?}");
            if chunks >= 40 {
                let best = [[0, 1], [1, 0]].map(|order| *fixed(order, chunks).iter().max().unwrap());
                assert!(loads.iter().max() < best.iter().min(), "{chunks} chunks: {loads:?}, {best:?}");
            }
        }
        // The mixture of both orders that balances the loads takes 90 % of the time of the better one.
        let best = [[0, 1], [1, 0]].map(|order| *fixed(order, 200).iter().max().unwrap());
        assert!(*loads.iter().max().unwrap() * 100 < best[0].min(best[1]) * 92);
    }

    #[test]
    fn ties_and_useless_orders_go_innermost_first() {
        let rates = rates([1_000_000_000; 2]);
        assert_eq!(next_order(&mut [5, 5], &SIZES, &rates, CHUNK, Kind::ReduceScatter), [0, 1]);
        assert_eq!(next_order(&mut [5, 4], &SIZES, &rates, CHUNK, Kind::ReduceScatter), [1, 0]);
        let mut loads = [5, 4];
        assert_eq!(next_order(&mut loads, &SIZES, &rates, Bytes(8), Kind::AllToAll), [0, 1]);
        assert_eq!(loads, [5 + 7_000, 4 + 7_000]);
    }

    #[test]
    fn an_all_gather_ends_with_the_dimension_of_least_load() {
        let order = next_order(&mut [7, 0], &SIZES, &rates([1_000_000_000; 2]), CHUNK, Kind::AllGather);
        let axes = SIZES.map(|size| Axis { size, algorithm: Algorithm::Ring });
        let (kind, composition) = (Kind::AllGather, Composition::AllScattered);
        let plan = Plan::new(Request { kind, composition, axes: &axes, root: 0, order: Some(&order) }).unwrap();
        assert_eq!(plan.phases().iter().map(|p| p.dim).collect::<Vec<_>>(), [0, 1]);
    }
}
