//! What one more iteration costs.

use crate::hybrid::{background, dlrm};
use crate::support::run;
use crate::training::{resnet, training};
use syncline_system::results::Steady;
use syncline_system::spec::{FoldSpec, JobSpec, LanesSpec, Spec, WorkloadSpec};

fn iterations(spec: &Spec, n: u32) -> Spec {
    let mut spec = spec.clone();
    if let JobSpec::Training { iterations, .. } = &mut spec.job {
        *iterations = n;
    }
    spec
}

/// What a run says of one more iteration.
fn steady(spec: &Spec) -> Steady {
    let mut spec = spec.clone();
    spec.output.steady = true;
    run(&spec).summary.steady.expect("a known increment")
}

/// The increment of a much longer run.
fn increment(spec: &Spec, n: u32) -> f64 {
    let total = |n| run(&iterations(spec, n)).summary.total_ps;
    (total(n) - total(n - 1)) as f64
}

#[test]
fn one_more_iteration_costs_what_a_longer_run_says() {
    let drained = training(true, true, 1);
    let mut straggling = resnet(2);
    if let JobSpec::Training { stragglers, .. } = &mut straggling.job {
        stragglers.push((3, 1.7));
    }
    let mut folded = resnet(2);
    (folded.fold, folded.collectives.padding) = (FoldSpec::On, true);
    folded.output.trace_npus.clear();
    for spec in [training(true, false, 2), training(false, false, 1), drained, resnet(2), straggling, folded, dlrm()] {
        let found = steady(&spec);
        assert!(found.settled, "{found:?} of {spec:?}");
        assert_eq!(found.iteration_ps, increment(&spec, 7), "{found:?} of {spec:?}");
    }
}

/// Tables that take a little longer than the iteration are waited for only when they are an iteration behind; until
/// then all iterations may take equally long.
#[test]
fn a_background_that_falls_behind_is_waited_for_in_the_end() {
    for memory in [10e9, 20e9, 40e9, 80e9, 900e9] {
        let spec = background(memory);
        let found = steady(&spec);
        assert!(!found.settled || found.iteration_ps == increment(&spec, 40), "{found:?} at {memory} B/s");
    }
}

/// Three chunks of an iteration leave the next one to begin with the other direction of the ring.
#[test]
fn increments_in_pairs_have_the_mean_of_a_pair() {
    let mut spec = training(true, false, 2);
    if let JobSpec::Training { workload: WorkloadSpec::AstraText { text }, .. } = &mut spec.job {
        *text = "DATA\n3\n\
            a -1 10000 NONE 0 5000 NONE 0 3000 ALLREDUCE 1048576 0\n\
            b -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 4194304 0\n\
            c -1 20000 NONE 0 7000 NONE 0 4000 ALLREDUCE 12097152 0\n"
            .into();
    }
    spec.collectives.lanes = LanesSpec::Alternate;
    let found = steady(&spec);
    let total = |n| run(&iterations(&spec, n)).summary.total_ps as f64;
    assert!(found.settled);
    assert_eq!(found.iteration_ps, (total(9) - total(7)) / 2.0);
}

/// The headline is the run's own, whether or not one more iteration is asked for.
#[test]
fn asking_for_one_more_iteration_changes_nothing_else() {
    for spec in [resnet(2), training(true, true, 2), dlrm()] {
        let plain = run(&spec);
        let mut asked = spec.clone();
        asked.output.steady = true;
        let mut asked = run(&asked);
        asked.summary.steady = plain.summary.steady;
        assert_eq!(serde_json::to_string(&asked.summary).ok(), serde_json::to_string(&plain.summary).ok());
        assert_eq!(asked.tables, plain.tables);
    }
}

/// What a run that is not asked for more knows is what its own iterations tell.
#[test]
fn a_run_knows_the_increments_of_its_own_iterations() {
    let of = |n| run(&training(true, false, n)).summary;
    assert_eq!((of(1).steady, of(1).iteration_ends_ps), (None, vec![of(1).total_ps]));
    let two = of(2);
    let increment = (two.total_ps - of(1).total_ps) as f64;
    assert_eq!(two.iteration_ends_ps, [of(1).total_ps, two.total_ps]);
    assert_eq!(two.steady, Some(Steady { iteration_ps: increment, iterations: 2, settled: false }));
    assert_eq!(of(3).steady, Some(Steady { iteration_ps: increment, iterations: 3, settled: true }));
}
