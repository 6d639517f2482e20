//! Others may look at a simulation, and end it; what it finds does not depend on that.

use crate::support::{ace_torus, all_reduce, endpoints, fingerprint, run};
use std::sync::Arc;
use std::thread;
use syncline_system::build::{attempt_plan, plan, run_plan_observed};
use syncline_system::monitor::EVERY;
use syncline_system::spec::Spec;
use syncline_system::{Cancellation, Limits, Monitor, Results, RunError};

fn observed(spec: &Spec, monitor: &Arc<Monitor>) -> Result<Results, RunError> {
    run_plan_observed(spec, plan(spec)?, None, monitor)
}

/// Far more events than between two looks.
fn long() -> Spec {
    all_reduce(ace_torus([4, 2, 2]), endpoints().remove(0), 1 << 30)
}

#[test]
fn a_run_that_is_looked_at_is_the_same_and_says_how_far_it_came() {
    for endpoint in endpoints() {
        let spec = all_reduce(ace_torus([4, 2, 2]), endpoint, 3_000_000);
        let monitor = Arc::new(Monitor::default());
        let found = observed(&spec, &monitor).expect("a run that ends");
        assert_eq!(fingerprint(&found), fingerprint(&run(&spec)));
        assert_eq!((monitor.time_ps(), monitor.events()), (found.summary.total_ps, found.summary.events));
    }
}

#[test]
fn an_attempt_ends_at_the_same_event_whoever_looks() {
    let spec = long();
    for work in [0, 1, EVERY - 1, EVERY, EVERY + 1, 3 * EVERY] {
        let limits = Limits { time_ps: u64::MAX, work };
        let monitor = Arc::default();
        let found = attempt_plan(&spec, plan(&spec).expect("a plan"), limits, &monitor).expect("an attempt");
        assert_eq!(found.end.work, work + 1, "it is given up at the first event beyond its limit");
        assert!(monitor.events() <= found.end.events);
    }
}

#[test]
fn what_was_cancelled_before_it_began_does_nothing() {
    let shared = Arc::new(Cancellation::default());
    let own = Arc::new(Monitor::default());
    let of_all = Arc::new(Monitor::sharing(shared.clone()));
    assert!(!own.is_cancelled() && !of_all.is_cancelled());
    own.cancel();
    shared.cancel();
    for monitor in [own, of_all] {
        assert_eq!(observed(&long(), &monitor).expect_err("an end"), RunError::Cancelled);
        assert!(monitor.events() <= 1);
    }
}

#[test]
fn a_run_ends_when_another_thread_cancels_it() {
    let spec = long();
    let whole = run(&spec).summary.events;
    let monitor = Arc::new(Monitor::default());
    let seen = monitor.clone();
    let other = thread::spawn(move || {
        while seen.events() < 3 * EVERY {
            thread::yield_now();
        }
        seen.cancel();
        seen.events()
    });
    assert_eq!(observed(&spec, &monitor).expect_err("an end"), RunError::Cancelled);
    let at = other.join().expect("it ends");
    assert!(at >= 3 * EVERY && monitor.events() < whole, "{at} of {whole}");
}
