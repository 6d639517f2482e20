//! What one more iteration costs.
//!
//! The headline of a run is its length over its iterations, as in the papers: the first iteration waits for nothing, and
//! nothing waits for what is in flight after the last. In a long run every iteration but the first waits for the
//! collectives of the one before, so one more costs the *increment*
//!
//! ```text
//!   d(n) = end(n) - end(n - 1),    end(n): when the main stream ends iteration n on the last NPU to do so
//! ```
//!
//! once it has settled: when two increments in a row are equal, or repeat in pairs (chunks that alternate between two
//! lanes may do so), and what works in the background does not fall further behind. A run of a few iterations that has
//! not settled is simulated again with more of them, which ends as soon as it has. Iterations that never settle have the
//! mean of the later half of their increments. A run of so many events that [`EVENTS`] more do not lead to a further
//! iteration keeps to its own increments.

use crate::results::{Steady, Summary};
use crate::spec::{JobSpec, Spec};
use syncline_core::Ps;

/// Iterations at which a simulation that has not settled is given up.
const ITERATIONS: u32 = 8;
/// Events that may be spent on knowing what one more iteration costs.
const EVENTS: u64 = 40_000_000;
/// Increments that differ by no more than one in so many are equal: rates that change are rounded.
const PRECISION: u64 = 1_000_000;

/// The end of an iteration of the main stream, on the last NPU to come to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IterationEnd {
    /// When.
    pub at: Ps,
    /// Background nodes of this iteration and of those before it that have not been computed then, on all NPUs.
    pub behind: u64,
    /// How long NPUs have been at those of them that they are computing, the mean, so that it is the same in a folded run.
    pub begun: u64,
}

/// What one more iteration of a job costs, by the ends of its iterations. The last one of a training that waits for all that
/// is in flight has updates that others leave to the next, which makes it another kind of iteration.
pub fn of_job(job: &JobSpec, ends: &[IterationEnd]) -> Option<Steady> {
    let alike = match job {
        JobSpec::Training { drain: true, update: true, barrier: false, .. } => ends.len().saturating_sub(1),
        _ => ends.len(),
    };
    steady(&ends[..alike])
}

/// What one more iteration costs, by the ends of iterations; nothing before the second has ended, or where the main stream has
/// nothing to do in them.
pub fn steady(ends: &[IterationEnd]) -> Option<Steady> {
    if ends.last().is_none_or(|last| last.at == Ps::ZERO) {
        return None;
    }
    let increments: Vec<u64> = ends.windows(2).map(|pair| pair[1].at.since(pair[0].at).0).collect();
    let (settled, last) = match increments.as_slice() {
        [] => return None,
        _ if repeats(ends, &increments, 1) => (true, 1),
        _ if repeats(ends, &increments, 2) => (true, 2),
        all => (false, all.len().div_ceil(2)),
    };
    let sum: u64 = increments[increments.len() - last..].iter().sum();
    Some(Steady { iteration_ps: sum as f64 / last as f64, iterations: ends.len() as u32, settled })
}

/// Whether the last `period` increments equal those before them, and the background is as far as it was then: one that
/// falls further and further behind will be waited for some day.
fn repeats(ends: &[IterationEnd], increments: &[u64], period: usize) -> bool {
    let Some(first) = increments.len().checked_sub(2 * period) else { return false };
    (first..first + period).all(|i| {
        let (now, then) = (ends[i + 1 + period], ends[i + 1]);
        equal(increments[i], increments[i + period])
            && now.behind == then.behind
            && now.begun.abs_diff(then.begun) <= increments[i] / PRECISION
    })
}

/// Whether the increments have settled.
pub fn is_settled(ends: &[IterationEnd]) -> bool {
    steady(ends).is_some_and(|s| s.settled)
}

/// The longer run that tells what one more iteration of a run costs; nothing if the run has told, or that would take
/// too long. It records no slices and does not drain.
pub fn longer(spec: &Spec, run: &Summary) -> Option<Spec> {
    if run.steady.is_some_and(|s| s.settled) {
        return None;
    }
    let mut longer = spec.clone();
    let JobSpec::Training { iterations, drain, .. } = &mut longer.job else { return None };
    let affordable = EVENTS / (run.events / u64::from((*iterations).max(1))).max(1);
    let most = ITERATIONS.min(u32::try_from(affordable).unwrap_or(u32::MAX));
    if most <= *iterations || most < 2 {
        return None;
    }
    (*iterations, *drain) = (most, false);
    longer.output.trace_npus.clear();
    Some(longer)
}

fn equal(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= a.max(b) / PRECISION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(first: u64, increments: &[u64]) -> Vec<IterationEnd> {
        let mut at = first;
        let mut all = vec![IterationEnd { at: Ps(at), ..IterationEnd::default() }];
        all.extend(increments.iter().map(|d| {
            at += d;
            IterationEnd { at: Ps(at), ..IterationEnd::default() }
        }));
        all
    }

    /// Nothing waits for the background yet, but it falls behind: by nodes, or by what it has done of one.
    #[test]
    fn a_background_that_falls_behind_has_not_settled() {
        let mut falling = ends(7, &[9, 9, 9]);
        for (end, behind) in falling.iter_mut().zip(1..) {
            end.behind = behind;
        }
        assert!(!is_settled(&falling));
        for (end, begun) in falling.iter_mut().zip([8, 6, 4, 2]) {
            (end.behind, end.begun) = (1, begun);
        }
        assert!(!is_settled(&falling));
        falling.iter_mut().for_each(|end| end.begun = 5);
        assert!(is_settled(&falling));
    }

    #[test]
    fn the_first_iteration_is_no_increment() {
        assert_eq!(steady(&[]), None);
        assert_eq!(steady(&ends(7, &[])), None);
        assert_eq!(steady(&ends(7, &[9])), Some(Steady { iteration_ps: 9.0, iterations: 2, settled: false }));
    }

    #[test]
    fn equal_increments_have_settled() {
        assert_eq!(steady(&ends(7, &[5, 9, 9])), Some(Steady { iteration_ps: 9.0, iterations: 4, settled: true }));
        assert!(is_settled(&ends(7, &[3_000_000, 3_000_003])));
        assert!(!is_settled(&ends(7, &[3_000_000, 3_000_004])));
    }

    #[test]
    fn increments_may_repeat_in_pairs() {
        assert_eq!(steady(&ends(7, &[4, 9, 4, 9])), Some(Steady { iteration_ps: 6.5, iterations: 5, settled: true }));
    }

    #[test]
    fn what_never_settles_has_a_mean() {
        assert_eq!(
            steady(&ends(7, &[1, 2, 4, 8, 18])),
            Some(Steady { iteration_ps: 10.0, iterations: 6, settled: false })
        );
    }
}
