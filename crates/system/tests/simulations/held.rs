//! Kernels beside collectives that hold some of the NPU: exactly what is left of it is what they have.

use crate::families::{class, graph, named, on_grid, reduce};
use crate::support::{dim, fingerprint, networks, run, summary_but_fold};
use proptest::prelude::*;
use syncline_system::Results;
use syncline_system::run_spec;
use syncline_system::spec::{
    CollectiveKindSpec, EndpointSpec, FoldSpec, GraphNodeSpec, HeldSpec, IdealSpec, PricedSpec, Spec, WholeSpec,
    WorkSpec,
};

const SMS: u32 = 100;
/// Bytes per second of memory, and operations per second of SMs: one in a picosecond.
const RATE: u64 = 1_000_000_000_000;
const BYTES: u64 = 400_000;
const LAUNCH: u64 = 3_000_000;

fn gives_way() -> EndpointSpec {
    EndpointSpec::Ideal(IdealSpec {
        step_latency_ps: 0,
        gives_way: Some(WholeSpec { sms: SMS, memory_bytes_per_s: RATE }),
        ..IdealSpec::default()
    })
}

fn compute(flops: u64, bytes: u64) -> WorkSpec {
    WorkSpec::Compute { flops, bytes }
}

/// Kernels and collectives on four NPUs.
fn of(endpoint: EndpointSpec, nodes: Vec<GraphNodeSpec>, held: HeldSpec) -> Spec {
    let mut family = on_grid("all", &[4], &[0]);
    let priced = |bytes| PricedSpec {
        collective: CollectiveKindSpec::AllReduce,
        bytes,
        wire_bytes: bytes,
        launch_ps: LAUNCH,
        held,
    };
    family.collectives.priced = vec![priced(BYTES), priced(2 * BYTES)];
    let classes = vec![class("all", 0..4, nodes)];
    graph(vec![dim(4, 25, 0)], endpoint, networks()[0].clone(), vec![family], classes)
}

fn busy(results: &Results) -> (u64, u64) {
    (results.summary.compute_ps, results.summary.compute_alone_ps)
}

/// How long the collective is in flight.
fn in_flight() -> u64 {
    run(&of(gives_way(), vec![named("c", reduce(0, BYTES), &[])], HeldSpec::default())).summary.total_ps
}

#[test]
fn a_kernel_beside_a_collective_takes_what_the_closed_form_says() {
    let whole = in_flight();
    assert!(whole > LAUNCH);
    let alone = 4 * whole;
    for (sms, gbs, flops, bytes, speed) in [
        (20, 0, alone, 0, 0.8),
        (20, 0, 0, alone, 1.0),
        (0, 250, alone, 0, 1.0),
        (0, 250, 0, alone, 0.75),
        (20, 250, alone, alone, 0.75),
        (20, 250, alone, alone * 9 / 10, 0.8),
        (20, 250, alone, alone / 2, 0.8),
        (20, 0, alone * 4 / 5, alone, 1.0),
        (99, 0, alone, 0, 0.01),
        (200, 0, alone, 0, 0.01), // no more than all but one
        (0, 900, 0, alone, 0.5),  // no less than half of the memory
    ] {
        let held = HeldSpec { sms, memory_bytes_per_s: gbs * 1_000_000_000 };
        let nodes = vec![named("c", reduce(0, BYTES), &[]), named("f", compute(flops, bytes), &[])];
        let (taken, unshared) = busy(&run(&of(gives_way(), nodes, held)));
        assert_eq!(unshared, alone);
        let expected = alone as f64 + whole as f64 * (1.0 - speed);
        assert!((taken as f64 - expected).abs() <= 2.0, "{taken} instead of {expected} with {held:?}");
    }
}

/// A collective that begins and ends while a kernel runs, in the middle of it, and one that begins behind it.
#[test]
fn what_is_done_stays_done() {
    let whole = in_flight();
    let held = HeldSpec { sms: 50, memory_bytes_per_s: 0 };
    let nodes = vec![
        named("f", compute(whole / 2, 0), &[]),
        named("c", reduce(0, BYTES), &[0]),
        named("f", compute(3 * whole, 0), &[]),
        named("c", reduce(0, BYTES), &[2]),
    ];
    let (taken, alone) = busy(&run(&of(gives_way(), nodes, held)));
    assert_eq!(alone, whole / 2 + 3 * whole);
    assert!(taken.abs_diff(alone + whole / 2) <= 2, "{taken} instead of {}", alone + whole / 2);
}

/// Along rows and columns, which share no links.
#[test]
fn collectives_in_flight_together_hold_what_each_does() {
    let of = |families: u8, kernels: u64| {
        let mut nodes: Vec<_> = (0..families).map(|family| named("c", reduce(family, BYTES), &[])).collect();
        nodes.push(named("f", compute(kernels, 0), &[]));
        let mut spec = of(gives_way(), nodes, HeldSpec { sms: 30, memory_bytes_per_s: 0 });
        let priced = spec.families[0].collectives.priced.clone();
        spec.fabric =
            graph(vec![dim(2, 25, 0), dim(2, 25, 0)], gives_way(), spec.network.clone(), vec![], vec![]).fabric;
        spec.families = vec![on_grid("rows", &[2, 2], &[0]), on_grid("columns", &[2, 2], &[1])];
        spec.families.iter_mut().for_each(|family| family.collectives.priced = priced.clone());
        run(&spec)
    };
    let flown = of(1, 0).summary.total_ps;
    for (families, left) in [(1, 0.7), (2, 0.4)] {
        let taken = busy(&of(families, 4 * flown)).0;
        let expected = 4.0 * flown as f64 + flown as f64 * (1.0 - left);
        assert!((taken as f64 - expected).abs() <= 2.0, "{taken} instead of {expected}");
    }
}

#[test]
fn nothing_is_different_where_nothing_is_held() {
    let nodes = || {
        vec![
            named("f", compute(7_000_001, 3), &[]),
            named("c", reduce(0, BYTES), &[0]),
            named("g", compute(5, 9_999_999), &[]),
            named("h", compute(1_000, 1_000), &[1]),
        ]
    };
    let mut plain = run(&of(
        EndpointSpec::Ideal(IdealSpec { step_latency_ps: 0, ..IdealSpec::default() }),
        nodes(),
        HeldSpec::default(),
    ));
    let mut shared = run(&of(gives_way(), nodes(), HeldSpec::default()));
    (plain.summary.events, shared.summary.events) = (0, 0);
    assert!(shared.summary.endpoint.resources.iter().all(|resource| resource.busy_ps == 0));
    shared.summary.endpoint.resources.clear();
    assert_eq!(fingerprint(&plain), fingerprint(&shared));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Runs are the same however simultaneous events are ordered, and if NPUs that are alike are simulated once.
    #[test]
    fn ties_and_folding_change_nothing(
        steps in prop::collection::vec((0u8..3, 0u64..20_000_000, 0u64..20_000_000), 1..12),
        sms in 0u32..120, memory in 0u64..RATE, seed in any::<u64>(),
    ) {
        let node = |(place, &(what, flops, bytes)): (usize, &(u8, u64, u64))| {
            let after: Vec<u32> = (place > 0 && flops % 2 == 0).then(|| place as u32 - 1).into_iter().collect();
            match what {
                0 => named("c", reduce(0, BYTES * (1 + bytes % 2)), &after),
                _ => named("f", compute(flops, bytes), &after),
            }
        };
        let nodes = steps.iter().enumerate().map(node).collect();
        let mut spec = of(gives_way(), nodes, HeldSpec { sms, memory_bytes_per_s: memory });
        spec.families[0].collectives.padding = true;
        let plain = run_spec(&spec, None).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let shuffled = run_spec(&spec, Some(seed)).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(fingerprint(&plain), fingerprint(&shuffled));
        let folded = run(&Spec { fold: FoldSpec::On, ..spec.clone() });
        prop_assert!(folded.summary.simulated_npus < 4);
        prop_assert_eq!(summary_but_fold(&plain), summary_but_fold(&folded));
    }
}
