//! Elements that no step tells apart are carried out as one: held against every element by itself.

use crate::broken::{self, FAULTS, steps};
use crate::support::{COMPOSITIONS, line, programs};
use proptest::prelude::*;
use syncline_collective::program::Frame;
use syncline_collective::verify::{Buffering, Findings, Verifier};
use syncline_collective::{Algorithm, Axis, Blocks, Kind, LineRank, Op, PhaseId, Plan, PlanRequest, Program, Rank};
use syncline_collective::{Slot, Step, Written};

/// Compares both ways through a plan; the verdict.
fn compared(verifier: &Verifier<'_>) -> Result<Result<(), Findings>, TestCaseError> {
    let (by_element, by_parts) = (verifier.by_element(), verifier.by_parts());
    if let Some(by_parts) = by_parts {
        prop_assert_eq!(by_parts.is_ok(), by_element.is_ok(), "{:?} and {:?}", &by_parts, &by_element);
        if let (Err(parts), Err(element)) = (by_parts, &by_element) {
            let first = |found: &Findings| (found.list[0].kind, found.list[0].place());
            prop_assert_eq!(first(&parts), first(element));
        }
    }
    prop_assert_eq!(&verifier.verify(), &by_element);
    Ok(by_element)
}

/// What a rank of a made-up program does with some blocks: who sends them to whom, and how the receiver takes them.
#[derive(Clone, Debug)]
struct Message {
    from: u32,
    to: u32,
    first: u32,
    count: u32,
    adds: bool,
    /// The threads of the sender and of the receiver.
    threads: (u16, u16),
}

fn messages(ranks: u32, parts: u32) -> impl Strategy<Value = Vec<Message>> {
    let message = (0..ranks, 1..ranks, 0..parts, 1..=parts, any::<bool>(), (0u16..2, 0u16..2));
    let message = message.prop_map(move |(from, further, first, count, adds, threads)| Message {
        from,
        to: (from + further) % ranks,
        first,
        count,
        adds,
        threads,
    });
    prop::collection::vec(message, 0..9)
}

/// Messages one after the other, as the steps of ranks with two threads.
fn made_up(ranks: u32, parts: u32, messages: &[Message]) -> Program {
    let mut all = vec![vec![Vec::new(); 2]; ranks as usize];
    for &Message { from, to, first, count, adds, threads } in messages {
        let blocks = Blocks { origin: 0, first, count };
        let taker = &mut all[to as usize][usize::from(threads.1)];
        let into = Slot { thread: threads.1, pc: taker.len() as u32 };
        taker.push(Step::receive(if adds { Op::RecvReduce } else { Op::Recv }, blocks, LineRank(from)));
        all[from as usize][usize::from(threads.0)].push(Step::send(blocks, LineRank(to), into));
    }
    Written::of_steps(Frame { parts, ..Frame::default() }, &all).expect("a program of a few steps").into()
}

proptest! {
    /// Algorithms, whole and with a fault, on vectors that blocks divide or do not.
    #[test]
    fn programs_on_a_line(
        pair in prop::sample::select(programs(3).collect::<Vec<_>>()), ranks in 2u32..9, root: prop::sample::Index,
        fault in prop::option::of(prop::sample::select(FAULTS.to_vec())), rank: prop::sample::Index,
        thread: prop::sample::Index, pc: prop::sample::Index, elements in 0u64..90,
    ) {
        let (algorithm, kind) = pair;
        let plan = line(kind, algorithm, ranks, root.index(ranks as usize) as u32);
        let original = plan.program(PhaseId(0), true);
        let mut steps = steps(&original);
        let (rank, thread) = (rank.index(ranks as usize), thread.index(original.threads().into()));
        let count = steps[rank][thread].len();
        if let Some(fault) = fault.filter(|_| count > 0) {
            let (parts, threads) = (original.parts(), original.threads());
            fault.damage(&mut steps[rank][thread], pc.index(count), rank as u32, ranks, parts, threads);
        }
        let mut verifier = Verifier::new(&plan, &[ranks], elements, true, Buffering::Slots(2));
        verifier.programs = vec![broken::program(&original, steps)];
        // What is not broken and works on one vector takes the fast way, or the test says nothing.
        prop_assert!(kind == Kind::AllToAll || fault.is_some() || verifier.by_parts().is_some());
        let _verdict = compared(&verifier)?;
    }

    /// Messages of overlapping blocks, most of which are no collective.
    #[test]
    fn made_up_programs(
        kind in prop::sample::select(vec![Kind::AllReduce, Kind::AllGather, Kind::Broadcast, Kind::Reduce]),
        parts in 1u32..9, longer in 0u64..20, messages in messages(3, 8),
    ) {
        let messages: Vec<Message> = messages
            .into_iter()
            .map(|m| Message { first: m.first % parts, count: m.count.min(parts), ..m })
            .collect();
        let plan = line(kind, Algorithm::Direct, 3, 0);
        let mut verifier = Verifier::new(&plan, &[3], u64::from(parts) + longer, true, Buffering::Eager);
        verifier.programs = vec![made_up(3, parts, &messages)];
        prop_assert!(verifier.by_parts().is_some());
        let _verdict = compared(&verifier)?;
    }

    /// Several phases, of which some work on parts of the vector.
    #[test]
    fn grids(
        kind in prop::sample::select(Kind::ALL.to_vec()), sizes in prop::collection::vec(1u32..4, 1..4),
        composition in prop::sample::select(COMPOSITIONS.to_vec()), elements in 0u64..60,
    ) {
        let axes: Vec<Axis> = sizes.iter().map(|&size| Axis { size, algorithm: Algorithm::Direct }).collect();
        let request = PlanRequest { kind, composition, axes: &axes, root: Rank(0), order: None };
        if let Ok(plan) = Plan::new(request) {
            let verdict = compared(&Verifier::new(&plan, &sizes, elements, true, Buffering::Slots(1)))?;
            prop_assert!(verdict.is_ok(), "{:?}", verdict);
        }
    }
}
