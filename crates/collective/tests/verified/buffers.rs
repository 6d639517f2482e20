//! What programs need of the buffers between ranks: the table of the verifier's documentation.

use crate::support::{line, programs, sort, verdict, verify_line};
use syncline_collective::verify::{Buffering, Kind as Sort};
use syncline_collective::{Algorithm, Kind, PhaseId};

/// Whether a program waits for room in its receiver before it has taken what its receiver waits to send.
fn needs_a_slot(algorithm: Algorithm, kind: Kind) -> bool {
    let exchanges = matches!(algorithm, Algorithm::Ring | Algorithm::Direct | Algorithm::HalvingDoubling);
    exchanges && !kind.is_rooted() || matches!((algorithm, kind), (Algorithm::InSwitch { .. }, Kind::AllGather))
}

#[test]
fn what_a_program_needs_of_its_buffers() {
    for (algorithm, kind) in [1, 2, 5].into_iter().flat_map(programs) {
        for (ranks, up) in (2..24).flat_map(|n| [(n, true), (n, false)]) {
            for root in [0, ranks / 2, ranks - 1] {
                let verify = |b| verify_line((algorithm, kind), ranks, root, 2 * u64::from(ranks), up, b);
                let context = format!("{kind} by {algorithm:?} on {ranks}");
                for buffering in [Buffering::Slots(1), Buffering::Slots(2), Buffering::Eager] {
                    assert_eq!(verify(buffering), Ok(()), "{context}");
                }
                let rendezvous = verify(Buffering::Rendezvous);
                if needs_a_slot(algorithm, kind) {
                    assert_eq!(sort(&rendezvous), Some(Sort::Deadlock), "{context}: {rendezvous:?}");
                } else {
                    assert_eq!(rendezvous, Ok(()), "{context}");
                }
            }
        }
    }
}

#[test]
fn threads_need_slots_of_their_own() {
    let deadlocks = |algorithm, ranks, slots| {
        let pair = (algorithm, Kind::AllReduce);
        sort(&verify_line(pair, ranks, 0, 12, true, Buffering::SharedSlots(slots))) == Some(Sort::Deadlock)
    };
    for ranks in 3..20 {
        let trees = Algorithm::OneHopTrees { slices: 8 };
        assert!(deadlocks(trees, ranks, 7) && !deadlocks(trees, ranks, 8), "{ranks}");
    }
    assert!(deadlocks(Algorithm::DoubleBinaryTree { slices: 8 }, 2, 2));
}

#[test]
fn a_ring_without_buffers_waits_for_itself() {
    let verdict = verify_line((Algorithm::Ring, Kind::AllReduce), 4, 0, 8, true, Buffering::Rendezvous);
    let waits =
        [0, 1, 2, 3].map(|rank| format!("rank {rank} thread 0 step 0 waits for rank {} to receive", (rank + 1) % 4));
    let message = format!("4 threads wait for ever, with connections that hold nothing: {}", waits.join("; "));
    let finding = &verdict.unwrap_err().list[0];
    assert_eq!((finding.kind, &finding.message), (Sort::Deadlock, &message));
}

#[test]
fn a_deadlock_says_who_waits_for_whom() {
    let plan = line(Kind::Broadcast, Algorithm::Chain { slices: 2 }, 3, 0);
    let mut steps = crate::broken::steps(&plan.program(PhaseId(0), true));
    steps[1][0][1].op = syncline_collective::Op::Recv; // keeps what it should also pass on
    let verdict = verdict(&plan, crate::broken::program(&plan.program(PhaseId(0), true), steps), 4, Buffering::Eager);
    let message = verdict.unwrap_err().to_string();
    assert_eq!(
        message,
        "rank 2, phase 0, thread 0, step 1: 1 threads wait for ever, with connections that hold any number of messages: \
         rank 2 thread 0 step 1 waits for a message from rank 1, which sends it none"
    );
}
