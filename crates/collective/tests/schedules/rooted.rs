//! Collectives with a root, which is given or found.

use crate::build::*;
use crate::valid::accept;
use syncline_collective::schedule::{Buffering, Collective, Kind, verify};

#[test]
fn the_root_is_found() {
    for ranks in 1..7 {
        for root in 0..ranks {
            for schedule in [
                chain_broadcast(ranks, root, 3),
                chain_reduce(ranks, root, 2),
                star(Collective::Gather, ranks, root, 2, false),
                star(Collective::Gather, ranks, root, 2, true),
                star(Collective::Scatter, ranks, root, 2, false),
                star(Collective::Scatter, ranks, root, 2, true),
            ] {
                let report = accept(&schedule, Buffering::Slots(1));
                assert_eq!((report.root, report.root_inferred), (Some(root), true), "{:?}", schedule.collective);
            }
        }
    }
}

#[test]
fn another_root_than_the_given_one_is_wrong() {
    let mut schedule = chain_broadcast(4, 1, 2);
    for rank in &mut schedule.ranks {
        rank.input_chunks = 2;
    }
    let report = verify(&schedule, Some(2), Buffering::Eager).unwrap();
    assert_eq!((report.root, report.root_inferred), (Some(2), false));
    assert_eq!(report.flaws.len(), 8);
    assert_eq!(report.flaws[0].kind, Kind::Misplaced);
    assert_eq!(
        report.flaws[0].to_string(),
        "ends with chunk 0 of rank 1 in chunk 0 of its output; accepted: chunk 0 of rank 2"
    );
    let mut schedule = chain_reduce(4, 3, 1);
    schedule.root = Some(3);
    accept(&schedule, Buffering::Eager);
}

#[test]
fn a_root_needs_its_buffer() {
    let report = verify(&chain_reduce(4, 3, 1), Some(1), Buffering::Eager).unwrap();
    assert!(!report.verified);
    assert!(report.flaws[0].message.contains("no room for the whole vector"), "{:?}", report.flaws);
}

#[test]
fn roots_that_cannot_be() {
    let refusal = |schedule, root| verify(&schedule, root, Buffering::Eager).unwrap_err().to_string();
    assert_eq!(
        refusal(ring_all_reduce(4, 1, 1, true), Some(0)),
        "root: allreduce has no root; accepted: a root for broadcast, reduce, gather, scatter"
    );
    assert_eq!(refusal(chain_reduce(4, 3, 1), Some(4)), "root: 4 is not a rank of the schedule; accepted: 0 to 3");
}
