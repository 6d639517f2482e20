//! Every plan goes through the symbolic verifier; broken programs of each kind are rejected.

use proptest::prelude::*;
use std::sync::Arc;
use syncline_collective::verify::{Buffering, Flaw, Verifier};
use syncline_collective::{Algorithm, Kind, Op, Plan, Program, Step};

const KINDS: [Kind; 3] = [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather];
const ALGORITHMS: [Algorithm; 3] = [Algorithm::PerDimension, Algorithm::LocalFirst, Algorithm::AllScattered];

fn verify(kind: Kind, algorithm: Algorithm, sizes: &[u32], elements: u64, up: bool) -> Result<(), Flaw> {
    let plan = Plan::new(kind, algorithm, sizes).expect("few phases");
    Verifier::new(&plan, sizes, elements, up, Buffering::Slots(1)).verify()
}

#[test]
fn rings_of_every_size() {
    for ranks in (1..=33).chain([64, 100, 128]) {
        for kind in KINDS {
            for elements in [0, 1, u64::from(ranks), 2 * u64::from(ranks) + 3] {
                for up in [true, false] {
                    assert_eq!(
                        verify(kind, Algorithm::PerDimension, &[ranks], elements, up),
                        Ok(()),
                        "{kind:?} on {ranks}"
                    );
                }
            }
        }
    }
}

#[test]
fn compositions_over_every_factorisation() {
    for (a, b, c) in (1..=32u32).flat_map(|a| (1..=32).flat_map(move |b| (1..=32).map(move |c| (a, b, c)))) {
        if a * b * c > 32 {
            continue;
        }
        for (kind, algorithm) in KINDS.into_iter().flat_map(|k| ALGORITHMS.map(|a| (k, a))) {
            let elements = u64::from(a * b * c) + 5;
            assert_eq!(
                verify(kind, algorithm, &[a, b, c], elements, true),
                Ok(()),
                "{kind:?} {algorithm:?} {a}x{b}x{c}"
            );
        }
    }
}

#[test]
fn the_studied_tori() {
    for sizes in [[4, 2, 2], [4, 4, 2], [4, 4, 4], [4, 8, 4]] {
        for up in [true, false] {
            assert_eq!(verify(Kind::AllReduce, Algorithm::LocalFirst, &sizes, 300, up), Ok(()), "{sizes:?}");
        }
    }
}

proptest! {
    #[test]
    fn random_products_and_sizes(
        sizes in prop::collection::vec(1u32..5, 1..5), elements in 0u64..200, kind in 0usize..3, algorithm in 0usize..3, up: bool,
    ) {
        prop_assert_eq!(verify(KINDS[kind], ALGORITHMS[algorithm], &sizes, elements, up), Ok(()));
    }
}

/// The steps of a ring, to be damaged.
fn written_out(kind: Kind, ranks: u32) -> (Plan, Vec<Vec<Step>>) {
    let plan = Plan::new(kind, Algorithm::PerDimension, &[ranks]).expect("one phase");
    let ring = plan.program(0, true);
    let steps = (0..ranks).map(|r| (0..ring.steps(r)).map(|pc| ring.step(r, pc)).collect()).collect();
    (plan, steps)
}

fn verdict(plan: &Plan, steps: Vec<Vec<Step>>, buffering: Buffering) -> Result<(), Flaw> {
    let sizes = [steps.len() as u32];
    let mut verifier = Verifier::new(plan, &sizes, 13, true, buffering);
    verifier.programs = vec![Program::Explicit(Arc::from(steps))];
    verifier.verify()
}

#[test]
fn an_unbroken_copy_passes() {
    let (plan, steps) = written_out(Kind::AllReduce, 5);
    assert_eq!(verdict(&plan, steps, Buffering::Eager), Ok(()));
}

#[test]
fn a_forgotten_reduction_is_a_loss() {
    let (plan, mut steps) = written_out(Kind::AllReduce, 5);
    steps[2][1].op = Op::RecvCopySend;
    assert!(matches!(verdict(&plan, steps, Buffering::Eager), Err(Flaw::Lost { contributor: 2, .. })));
}

#[test]
fn a_second_reduction_is_a_double() {
    let (plan, mut steps) = written_out(Kind::AllReduce, 5);
    steps[2][5].op = Op::RecvReduceCopySend; // in the gathering half the sum is complete
    assert!(matches!(verdict(&plan, steps, Buffering::Eager), Err(Flaw::Doubled { .. })));
}

#[test]
fn a_wrong_block_is_a_mismatch() {
    let (plan, mut steps) = written_out(Kind::ReduceScatter, 5);
    steps[1][0].block = 3;
    assert!(matches!(verdict(&plan, steps, Buffering::Eager), Err(Flaw::Mismatch { .. })));
}

#[test]
fn sending_what_is_not_there_is_absent() {
    let (plan, mut steps) = written_out(Kind::AllGather, 5);
    for rank in &mut steps {
        rank[0].block = (rank[0].block + 1) % 5;
    }
    assert!(matches!(verdict(&plan, steps, Buffering::Eager), Err(Flaw::Absent { .. })));
}

#[test]
fn a_message_nobody_receives_is_found() {
    let (plan, mut steps) = written_out(Kind::AllGather, 3);
    steps[1].pop();
    assert!(matches!(
        verdict(&plan, steps, Buffering::Eager),
        Err(Flaw::Unreceived { to: 1, .. } | Flaw::Lost { rank: 1, .. })
    ));
}

#[test]
fn a_missing_send_deadlocks() {
    let (plan, mut steps) = written_out(Kind::AllGather, 3);
    steps[0][1].op = Op::Recv; // keeps what it should also pass on
    assert!(matches!(verdict(&plan, steps, Buffering::Eager), Err(Flaw::Deadlock { .. })));
}

#[test]
fn rings_need_a_buffer() {
    let (plan, steps) = written_out(Kind::AllReduce, 4);
    assert!(matches!(verdict(&plan, steps, Buffering::Rendezvous), Err(Flaw::Deadlock { stuck }) if stuck.len() == 4));
}
