//! Plans become schedules that are verified, and that do what the plans do.

use crate::build::any_schedule;
use proptest::prelude::*;
use syncline_collective::plan_file::msccl::{self, Lane};
use syncline_collective::plan_file::write::{self, Head};
use syncline_collective::plan_file::{LineProgram, WrittenPlan, read};
use syncline_collective::program::{Frame, Named, Pacing, walk};
use syncline_collective::schedule::form::WayForm;
use syncline_collective::schedule::{Buffering, Imported, Schedule, imported, verify};
use syncline_collective::{
    Algorithm, Axis, Blocks, Buffer, Composition, Detail, Kind, LineRank, Op, PhaseId, Place, Plan, PlanRequest,
    Posting, Program, Rank, Slot, Split, Step, Way, Written, WrittenPhase,
};
use syncline_core::{Bytes, Grid, Refusal};

const COMPOSITIONS: [Composition; 3] = [Composition::PerDimension, Composition::LocalFirst, Composition::AllScattered];

/// A plan and the grid of its ranks.
pub struct Case {
    pub plan: Plan,
    sizes: Vec<u32>,
    root: u32,
    composition: Composition,
    /// The order of dimensions, if it is another than their own.
    order: Option<Vec<u8>>,
}

impl Case {
    /// None, if an algorithm has no program for what it would have to do.
    pub fn new(kind: Kind, composition: Composition, axes: &[Axis], root: u32, order: Option<&[u8]>) -> Option<Case> {
        let plan = Plan::new(PlanRequest { kind, composition, axes, root: Rank(root), order }).ok()?;
        Some(Case {
            plan,
            sizes: axes.iter().map(|a| a.size).collect(),
            root,
            composition,
            order: order.map(<[u8]>::to_vec),
        })
    }

    pub fn line(kind: Kind, algorithm: Algorithm, size: u32, root: u32) -> Option<Case> {
        Case::new(kind, Composition::PerDimension, &[Axis { size, algorithm }], root, None)
    }

    /// The same with another plan.
    pub fn following(self, plan: Plan) -> Case {
        Case { plan, ..self }
    }

    pub fn schedule(&self) -> Result<Schedule, Vec<Refusal>> {
        msccl::schedule(&self.head(), &self.plan, &Lane::only(&self.plan))
    }

    fn head(&self) -> Head<'_> {
        let (name, root, grid, composition) = ("test".into(), Rank(self.root), &self.sizes[..], self.composition);
        Head { name, root, grid, composition, balanced: false }
    }

    fn refusal(&self) -> String {
        let refusals = self.schedule().expect_err("it is too large");
        refusals.iter().map(Refusal::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Verifies the schedule, without any findings, and returns what comes of importing it.
    pub fn check(&self) -> Imported {
        let context = format!("{} {:?} {:?} root {}", self.plan.kind(), self.plan.phases(), self.sizes, self.root);
        let schedule = self.schedule().unwrap_or_else(|refusals| panic!("{context}: {refusals:?}"));
        for buffering in [Buffering::Eager, Buffering::Slots(8)] {
            let report = verify(&schedule, None, buffering).expect("a collective");
            assert!(report.verified, "{context}: {:?} {:?}\n{schedule:#?}", report.errors, report.flaws);
            // MSCCL's successor has gathers and scatters.
            let known = matches!(self.plan.kind(), Kind::Gather | Kind::Scatter);
            let warnings: Vec<_> =
                report.warnings.iter().filter(|w| !(known && w.message.contains("successor"))).collect();
            assert!(warnings.is_empty(), "{context}: {warnings:?}");
            assert_eq!(report.root, self.plan.kind().is_rooted().then_some(self.root));
        }
        let imported = imported(&schedule, None).expect("it has been verified");
        assert_eq!(imported.kind, self.plan.kind());
        let chunks = imported.program.parts();
        for rank in (0..imported.program.ranks()).map(Rank) {
            assert_eq!(sent(&imported.program, rank), self.sent(rank, chunks), "{context}: rank {rank}");
        }
        let steps = || schedule.ranks.iter().flat_map(|r| &r.thread_blocks).flat_map(|b| &b.steps);
        if self.plan.phases().len() == 1 && !steps().any(|s| s.whole.is_some() || s.op == Op::Copy) {
            let path = u64::from(walk::steps(&self.plan.program(PhaseId(0), true)));
            let report = verify(&schedule, None, Buffering::Eager).expect("a collective");
            assert_eq!(report.counts.expect("it is right").longest_path_steps, path, "{context}");
        }
        if !imported.regular {
            return imported; // it is not known any more which chunks a step moves
        }
        // What has been read in is written as it was; waits between phases may come to stand elsewhere.
        let again = exported(&imported).unwrap_or_else(|refusals| panic!("{context}: {refusals:?}"));
        if self.plan.phases().len() < 2 {
            assert_eq!(again, schedule, "{context}");
        }
        assert!(verify(&again, None, Buffering::Eager).expect("a collective").verified, "{context}");
        imported
    }

    /// It does not matter whether steps are computed or written down.
    fn check_written(&self) {
        let form = write::form(self.head(), &self.plan, |phase| self.plan.goes_round(phase)).expect("it is small");
        let read = read::read(&form).expect("it has been written");
        assert_eq!(case(read, self.order.as_deref()).schedule(), self.schedule());
    }

    /// Chunks that a rank sends.
    fn sent(&self, rank: Rank, chunks: u32) -> u64 {
        let grid = Grid::new(self.sizes.iter().copied());
        let coordinate = |dim: u8| grid.coordinate(rank.0, dim.into());
        let of_phase = |phase: PhaseId| {
            let (program, line) = (self.plan.program(phase, true), self.plan.phases()[usize::from(phase.0)]);
            let (_, len) = self.plan.vector(phase, Bytes(chunks.into()), Split { element: 1 }, coordinate);
            let blocks: u64 = all_steps(&program, LineRank(coordinate(line.dim)))
                .filter(|s| s.1.op.sends())
                .map(|s| u64::from(s.1.blocks.count))
                .sum();
            blocks * len / u64::from(program.parts())
        };
        self.plan.phase_ids().filter(|&p| self.plan.takes_part(p, coordinate)).map(of_phase).sum()
    }
}

fn all_steps(program: &Program, rank: LineRank) -> impl Iterator<Item = (Slot, Step)> {
    program.slots(rank).map(move |at| (at, program.step(rank, at)))
}

fn sent(written: &Written, rank: Rank) -> u64 {
    let program = Program::from(written.clone());
    all_steps(&program, LineRank(rank.0)).filter(|s| s.1.op.sends()).map(|s| u64::from(s.1.blocks.count)).sum()
}

/// A program of all ranks, written down.
pub fn written(kind: Kind, root: u32, program: Written) -> WrittenPlan {
    let (grid, program) = (vec![program.ranks()], Program::from(program));
    let phase = WrittenPhase { around: false, up: program.clone(), down: program };
    WrittenPlan {
        name: "test".into(),
        kind,
        root: Rank(root),
        grid,
        composition: Composition::PerDimension,
        balanced: false,
        regular: true,
        is_schedule: false,
        programs: vec![LineProgram { kind, dim: 0, phase }],
    }
}

pub fn case(written: WrittenPlan, order: Option<&[u8]>) -> Case {
    let plan = written.plan(order).expect("a program for each phase");
    let WrittenPlan { root: Rank(root), composition, grid: sizes, .. } = written;
    Case { plan, sizes, root, composition, order: order.map(<[u8]>::to_vec) }
}

/// The schedule of a program that was one.
fn exported(imported: &Imported) -> Result<Schedule, Vec<Refusal>> {
    let plan = written(imported.kind, imported.root.0, imported.program.clone());
    case(plan, None).schedule()
}

/// Algorithms of the ranks alone.
fn algorithms(slices: u32) -> impl Iterator<Item = Algorithm> {
    Algorithm::all(slices).into_iter().filter(|a| !matches!(a, Algorithm::InSwitch { .. }))
}

#[test]
fn every_algorithm_on_a_line() {
    for (slices, ranks) in [1, 2, 4].into_iter().flat_map(|slices| (1..=9).map(move |ranks| (slices, ranks))) {
        for (algorithm, kind) in algorithms(slices).flat_map(|a| Kind::ALL.map(|k| (a, k))) {
            for root in 0..if kind.is_rooted() { ranks } else { 1 } {
                if let Some(case) = Case::line(kind, algorithm, ranks, root) {
                    case.check();
                    case.check_written();
                }
            }
        }
    }
}

#[test]
fn every_algorithm_on_grids() {
    for sizes in [&[2, 3][..], &[3, 2], &[2, 2, 2], &[4, 2], &[2, 4], &[1, 3, 2]] {
        let ranks: u32 = sizes.iter().product();
        let algorithms: Vec<Algorithm> = algorithms(2).collect();
        for (kind, shift) in Kind::ALL.into_iter().flat_map(|k| (0..36).map(move |shift| (k, shift))) {
            let compositions = if kind == Kind::AllReduce { &COMPOSITIONS[..] } else { &COMPOSITIONS[..1] };
            for (&composition, root) in compositions.iter().flat_map(|c| (0..ranks).map(move |root| (c, root))) {
                let axes: Vec<Axis> = (0..)
                    .zip(sizes)
                    .map(|(dim, &size)| Axis { size, algorithm: algorithms[[shift % 6, shift / 6, shift % 6][dim]] })
                    .collect();
                let dims = sizes.len() as u8;
                let backwards: Vec<u8> = (0..dims).rev().collect();
                for order in [None, Some(&backwards[..])] {
                    if let Some(case) = Case::new(kind, composition, &axes, root, order) {
                        case.check();
                        case.check_written();
                    }
                }
                if !kind.is_rooted() {
                    break;
                }
            }
        }
    }
}

/// What needs one peer in each direction comes out as it is.
#[test]
fn rings_and_chains_are_themselves() {
    for (ranks, kind) in (2..=9).flat_map(|ranks| Kind::ALL.map(|kind| (ranks, kind))) {
        for root in 0..if kind.is_rooted() { ranks } else { 1 } {
            for algorithm in [Algorithm::Ring, Algorithm::Chain { slices: 3 }] {
                if kind == Kind::AllToAll || !algorithm.supports(kind) {
                    continue;
                }
                let case = Case::line(kind, algorithm, ranks, root).expect("a program");
                let Imported { root: found, program, regular, .. } = case.check();
                let program = Program::from(program);
                assert!(regular && !program.has_dependencies());
                assert_eq!(found, Rank(root));
                assert!(
                    case.plan.program(PhaseId(0), true).does_the_same_as(&program),
                    "{kind} on {ranks} from {root}"
                );
            }
        }
    }
}

#[test]
fn more_than_msccl_takes_is_refused_with_the_numbers() {
    let refusal = |kind, algorithm, ranks| Case::line(kind, algorithm, ranks, 0).expect("a program").refusal();
    assert_eq!(
        refusal(Kind::AllReduce, Algorithm::Ring, 200),
        "plan: thread block 0 of rank 0 has 399 steps, which MSCCL does not take; accepted: up to 256"
    );
    assert_eq!(
        refusal(Kind::AllReduce, Algorithm::Direct, 300),
        "plan: rank 0 has 299 thread blocks, which MSCCL does not take; accepted: up to 216"
    );
    // Messages have what a rank keeps and what it passes on, which for the first 56 of them is more than a step moves.
    assert_eq!(
        refusal(Kind::AllToAll, Algorithm::Ring, 128),
        "plan: thread block 0 of rank 2 has 618 steps, which MSCCL does not take; accepted: up to 256"
    );
    assert_eq!(
        refusal(Kind::Broadcast, Algorithm::Chain { slices: 300 }, 2),
        "plan: thread block 0 of rank 0 has 300 steps, which MSCCL does not take; accepted: up to 256"
    );
    assert_eq!(
        refusal(Kind::Broadcast, Algorithm::Chain { slices: 60_000 }, 2),
        "plan: rank 0 has 60000 steps, which MSCCL does not take; accepted: up to 216 thread blocks of 256 steps"
    );
    assert_eq!(
        refusal(Kind::AllReduce, Algorithm::Ring, 2000),
        "grid: [2000] are too many ranks for a schedule; accepted: up to 1024 ranks"
    );
    assert_eq!(
        refusal(Kind::AllReduce, Algorithm::InSwitch { slices: 2, slots: 2 }, 4),
        "plan: the in-switch all-reduce along dimension 0 needs a switch that adds or copies, for which MSCCL has no \
         word; accepted: algorithms of the ranks alone"
    );
    let case = Case::line(Kind::AllReduce, Algorithm::Ring, 2, 0).expect("a program");
    let name = "a".repeat(64);
    let (root, grid, composition, balanced) = (Rank(0), &[2][..], Composition::PerDimension, false);
    let refusals =
        msccl::schedule(&Head { name, root, grid, composition, balanced }, &case.plan, &Lane::only(&case.plan))
            .expect_err("a long name");
    assert_eq!(refusals[0].to_string(), "name: the name has 64 bytes; accepted: up to 63 bytes");
}

/// Every rank sends in an order of its own; what arrives is taken in the order of ranks.
#[test]
fn direct_algorithms_in_any_order() {
    let kinds = [Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::AllToAll];
    for (kind, ranks) in kinds.into_iter().flat_map(|kind| (2..=9).map(move |ranks| (kind, ranks))) {
        for posting in [Posting::Sequential, Posting::Random(1), Posting::Random(2)] {
            let case = Case::line(kind, Algorithm::Direct, ranks, 0).expect("a program");
            let plan = case.plan.clone().posted(posting);
            case.following(plan).check();
        }
    }
    // On a torus what goes half-way round goes in halves, both ways.
    for (kind, sizes, rings) in kinds.into_iter().flat_map(|k| {
        [
            (vec![4], vec![true]),
            (vec![4, 3], vec![true, true]),
            (vec![3, 3], vec![true, true]),
            (vec![2, 4], vec![true; 2]),
        ]
        .map(|(sizes, rings)| (k, sizes, rings))
    }) {
        let ranks = sizes.iter().product();
        let case = Case::line(kind, Algorithm::Direct, ranks, 0).expect("a program");
        // The same line beside the dimensions of the grid.
        let along = case.plan.clone().along(sizes.len() as u8);
        Case { plan: case.plan.on_grid(&sizes, &rings), ..case }.check();
        let (root, composition) = (0, Composition::PerDimension);
        let schedule = Case { plan: along, sizes, root, composition, order: None }.schedule().expect("it is small");
        assert_eq!(schedule, Case::line(kind, Algorithm::Direct, ranks, 0).unwrap().schedule().unwrap());
    }
}

proptest! {
    /// Schedules of other tools say where their data lie, wait, add and copy.
    #[test]
    fn schedules_are_written_as_they_were_read(schedule in any_schedule()) {
        let first = imported(&schedule, None).expect("a right schedule");
        let written = exported(&first).expect("it is small");
        let report = verify(&written, None, Buffering::Slots(8)).expect("a collective");
        prop_assert!(report.verified, "{:?} {:?}", report.errors, report.flaws);
        if schedule.ranks.len() == 1 {
            return Ok(()); // for which a plan has no phase
        }
        prop_assert_eq!(&first, &imported(&written, None).expect("it has been verified"));
        for (rank, given) in written.ranks.iter().zip(&schedule.ranks) {
            prop_assert!(rank.scratch_chunks <= given.scratch_chunks);
        }
    }
}

/// Where shares of ranks do not follow one another, a message is sent in so many pieces that no connection holds them all.
/// They take several, so that ranks can still send before they receive.
#[test]
fn messages_of_many_pieces() {
    for (kind, sizes) in Kind::ALL.into_iter().flat_map(|k| [&[2, 9][..], &[3, 20], &[2, 4, 4]].map(|sizes| (k, sizes)))
    {
        for algorithm in [Algorithm::Ring, Algorithm::Direct, Algorithm::HalvingDoubling] {
            let axes: Vec<Axis> = sizes.iter().map(|&size| Axis { size, algorithm }).collect();
            if let Some(case) = Case::new(kind, Composition::LocalFirst, &axes, 1, None) {
                case.check();
            }
        }
    }
    let axes = [2, 9].map(|size| Axis { size, algorithm: Algorithm::Ring });
    let ring = Case::new(Kind::ReduceScatter, Composition::PerDimension, &axes, 0, None).expect("a program");
    assert_eq!(counts(&ring), (3, 2), "nine pieces take two connections along the first dimension");
}

/// Two ranks that do something with two blocks of a broadcast from the first.
fn broadcast(ranks: [Vec<Vec<Step>>; 2], detail: Detail) -> Case {
    let frame = Frame { parts: 2, pacing: Pacing::default(), ..Frame::default() };
    let program = Written::of_steps(frame, &ranks).expect("it is small").with_details(|d| *d = detail);
    case(written(Kind::Broadcast, 0, program), None)
}

/// Sends both blocks, to steps of these numbers.
fn sends(into: [u32; 2]) -> Vec<Vec<Step>> {
    let send = |block: u32| Step::send(Blocks::one(block), LineRank(1), Slot { thread: 0, pc: into[block as usize] });
    vec![vec![send(0), send(1)]]
}

fn receives(blocks: [u32; 2]) -> Vec<Vec<Step>> {
    vec![blocks.map(|block| Step::receive(Op::Recv, Blocks::one(block), LineRank(0))).to_vec()]
}

#[test]
fn what_is_taken_in_another_order_takes_another_channel() {
    let in_order = broadcast([sends([0, 1]), receives([0, 1])], Detail::default());
    in_order.check();
    assert_eq!(counts(&in_order), (1, 1));
    let turned = broadcast([sends([1, 0]), receives([1, 0])], Detail::default());
    turned.check();
    assert_eq!(counts(&turned), (2, 2));
}

#[test]
fn ways_are_noted() {
    let ways = |case: Case| {
        let schedule = case.schedule().expect("it is small");
        let steps = schedule.ranks.into_iter().flat_map(|r| r.thread_blocks).flat_map(|b| b.steps);
        steps.map(|s| s.way).collect::<Vec<_>>()
    };
    let going = |way| ways(broadcast([sends([0, 1]), receives([0, 1])], Detail { way, ..Detail::default() }));
    assert_eq!(going(Way::Route), [None, None, None, None]);
    for (way, form) in [(Way::Choice(1), WayForm::Choice(1)), (Way::Link(3), WayForm::Link(3))] {
        assert_eq!(going(way), [Some(form.clone()), Some(form), None, None], "of what is sent only");
    }
    let named = Named { classes: vec!["PCIe".into()], through: vec![vec!["S".into(), "T".into()]] };
    let (root, frame) = (LineRank(0), Frame { parts: 1, named, ..Frame::default() });
    let send = Step::send(Blocks::one(0), LineRank(1), Slot::default());
    let ranks = [vec![vec![send]], vec![vec![Step::receive(Op::Recv, Blocks::one(0), root)]]];
    let program = Written::of_steps(frame, &ranks).expect("it is small");
    let through = WayForm::Through(vec!["S".into(), "T".into()]);
    for (way, form) in [(Way::Over(0), WayForm::Over("PCIe".into())), (Way::Through(0), through)] {
        let going = program.clone().with_details(|d| d.way = way);
        assert_eq!(ways(case(written(Kind::Broadcast, 0, going), None)), [Some(form), None]);
    }
}

#[test]
fn steps_that_do_not_fit_each_other_are_refused() {
    let refusal = |ranks| broadcast(ranks, Detail::default()).refusal();
    assert_eq!(
        refusal([sends([0, 5]), receives([0, 1])]),
        "plan: in phase 0, step 1 of thread 0 of rank 0 (type s) sends what no step takes"
    );
    assert_eq!(
        refusal([sends([1, 0]), receives([0, 1])]),
        "plan: in phase 0, step 0 of thread 0 of rank 0 (type s) sends what no step takes"
    );
    assert_eq!(
        refusal([vec![], receives([0, 1])]),
        "plan: in phase 0, step 0 of thread 0 of rank 1 (type r) waits for a message that nobody sends"
    );
    let for_nobody = Detail { after: Some(Slot { thread: 0, pc: 7 }), ..Detail::default() };
    assert_eq!(
        broadcast([sends([0, 1]), receives([0, 1])], for_nobody).refusal(),
        "plan: in phase 0, step 0 of thread 0 of rank 0 (type s) waits for a step that does not exist, or comes later"
    );
    let outside = Detail { dst: Some(Place { buffer: Buffer::Input, first: 2 }), ..Detail::default() };
    assert_eq!(
        broadcast([sends([0, 1]), receives([0, 1])], outside).refusal(),
        "plan: in phase 0, step 0 of thread 0 of rank 1 (type r) works on blocks that do not exist"
    );
}

/// In an all-to-all, steps either leave it open where their data lie, or say so.
#[test]
fn places_are_named_by_all_steps_of_an_all_to_all() {
    let plan = Case::line(Kind::AllToAll, Algorithm::Direct, 3, 0).expect("a program").plan;
    let some = |detail: &mut Detail| detail.dst = Some(Place { buffer: Buffer::Output, first: 0 });
    let program = plan.program(PhaseId(0), true).written_down().expect("it is small").with_details(some);
    assert_eq!(
        case(written(Kind::AllToAll, 0, program), None).refusal(),
        "plan: some steps of the all-to-all name the places of their data, and others leave them open"
    );
}

/// What a step receives it sends on the same channel. So a message that is passed on around a ring cannot come by twice.
#[test]
fn what_is_passed_on_twice_by_the_same_way_is_refused() {
    let at = |rank: u32| LineRank(rank % 3);
    let pass = |rank: u32, thread| Step {
        op: Op::RecvCopySend,
        from: at(rank + 2),
        ..Step::send(Blocks::one(0), at(rank + 1), Slot { thread, pc: 0 })
    };
    let first = Step::send(Blocks::one(0), at(1), Slot::default());
    let last = Step::receive(Op::Recv, Blocks::one(0), at(0));
    let ranks = [vec![vec![first], vec![pass(0, 1)]], vec![vec![pass(1, 0)], vec![last]], vec![vec![pass(2, 1)]]];
    let program = Written::of_steps(Frame { parts: 1, ..Frame::default() }, &ranks).expect("it is small");
    let refusal = case(written(Kind::Broadcast, 0, program), None).refusal();
    assert!(
        refusal.ends_with("receives and sends at once what comes from where it goes, which takes two channels"),
        "{refusal}"
    );
}

proptest! {
    /// Any algorithms along the dimensions of any grid, in any order.
    #[test]
    fn random_grids(
        sizes in prop::collection::vec(1u32..=5, 1..=3), which in [0usize..6, 0..6, 0..6], slices in 1u32..4,
        kind in 0usize..8, composition in 0usize..3, root: prop::sample::Index, order in Just(vec![0u8, 1, 2]).prop_shuffle(),
        seed: Option<u64>,
    ) {
        let able: Vec<Algorithm> = algorithms(slices).collect();
        let axes: Vec<Axis> = sizes.iter().zip(which).map(|(&size, i)| Axis { size, algorithm: able[i] }).collect();
        let order: Vec<u8> = order.into_iter().filter(|&dim| usize::from(dim) < sizes.len()).collect();
        let root = root.index(sizes.iter().product::<u32>() as usize) as u32;
        if let Some(case) = Case::new(Kind::ALL[kind], COMPOSITIONS[composition], &axes, root, Some(&order)) {
            let posting = seed.map_or(Posting::Rotated, Posting::Random);
            let case = Case { plan: case.plan.posted(posting), ..case };
            let is_too_large = |refusals: &[Refusal]| refusals.iter().all(|r| r.to_string().contains("which MSCCL does not take"));
            match case.schedule() {
                Err(refusals) if is_too_large(&refusals) => {}
                _ => { case.check(); }
            }
        }
    }
}

/// Thread blocks of the rank with most of them, and channels.
fn counts(case: &Case) -> (usize, u32) {
    let schedule = case.schedule().expect("it is small");
    let blocks = schedule.ranks.iter().map(|r| r.thread_blocks.len()).max();
    (blocks.unwrap_or(0), schedule.channels.unwrap_or(0))
}

#[test]
fn as_few_thread_blocks_as_possible() {
    let line = |kind, algorithm, ranks| counts(&Case::line(kind, algorithm, ranks, 0).expect("a program"));
    assert_eq!(line(Kind::AllReduce, Algorithm::Ring, 8), (1, 1));
    assert_eq!(line(Kind::AllReduce, Algorithm::Direct, 8), (7, 1));
    assert_eq!(line(Kind::AllToAll, Algorithm::Direct, 8), (7, 1));
    assert_eq!(line(Kind::AllToAll, Algorithm::Ring, 8), (1, 1));
    // A partner in each round; one that acts for two has its neighbour besides.
    assert_eq!(line(Kind::AllReduce, Algorithm::HalvingDoubling, 8), (3, 1));
    assert_eq!(line(Kind::AllReduce, Algorithm::HalvingDoubling, 6), (3, 1));
    // What comes from children but the last; then what goes on to children but the first.
    assert_eq!(line(Kind::Reduce, Algorithm::HalvingDoubling, 8), (3, 1));
    assert_eq!(line(Kind::Gather, Algorithm::HalvingDoubling, 8), (3, 1));
    // A rank is inside one tree, where it has two thread blocks each way, and a leaf of the other.
    assert_eq!(line(Kind::AllReduce, Algorithm::DoubleBinaryTree { slices: 2 }, 8).0, 2 * 2 + 2);
    // What a rank sends, what it is root of, and what it gets; the root's sums come from and go to the same peers.
    assert_eq!(line(Kind::AllReduce, Algorithm::OneHopTrees { slices: 2 }, 8), (3 * 7, 2));
    // A ring along each dimension, however often it is gone through.
    let axes = [Axis { size: 4, algorithm: Algorithm::Ring }; 3];
    for composition in COMPOSITIONS {
        let case = Case::new(Kind::AllReduce, composition, &axes, 0, None).expect("a program");
        assert_eq!(counts(&case), (3, 1), "{composition:?}");
    }
}

/// Many peers are spread over channels, of which each takes so many.
#[test]
fn many_peers_take_several_channels() {
    let case = Case::line(Kind::ReduceScatter, Algorithm::Direct, 60, 0).expect("a program");
    case.check();
    assert_eq!(counts(&case).0, 59);
    assert!((2..=4).contains(&counts(&case).1), "{:?}", counts(&case));
}

/// As many as MSCCL takes are written.
#[test]
fn the_largest_ones() {
    Case::line(Kind::AllReduce, Algorithm::Ring, 128, 0).expect("a program").check();
    Case::line(Kind::AllReduce, Algorithm::Direct, 71, 0).expect("a program").check();
    Case::line(Kind::AllToAll, Algorithm::Ring, 64, 0).expect("a program").check();
    Case::line(Kind::Gather, Algorithm::HalvingDoubling, 128, 5).expect("a program").check();
    Case::line(Kind::AllGather, Algorithm::HalvingDoubling, 256, 0).expect("a program").check();
}

/// What a thread with several peers does comes back as one thread, and with its pacing as the algorithm that it was.
#[test]
fn threads_of_several_thread_blocks_come_back() {
    let algorithms =
        [Algorithm::Direct, Algorithm::DoubleBinaryTree { slices: 3 }, Algorithm::OneHopTrees { slices: 2 }];
    for (algorithm, ranks) in algorithms.into_iter().flat_map(|a| [2, 3, 5, 8].map(|n| (a, n))) {
        let axes = [Axis { size: ranks, algorithm }];
        let (kind, composition) = (Kind::AllReduce, Composition::PerDimension);
        let plan = Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(0), order: None }).unwrap();
        let program = plan.program(PhaseId(0), true);
        let head = Head { name: "test".into(), root: Rank(0), grid: &[ranks], composition, balanced: false };
        let schedule = msccl::schedule(&head, &plan, &Lane::only(&plan)).expect("it is small");
        let imported = imported(&schedule, None).expect("it is right");
        assert!(Program::from(imported.program).does_the_same_as(&program), "{algorithm:?} on {ranks}");
        // Without what the file says of threads, every thread block is one.
        let mut unnamed = schedule.clone();
        unnamed.ranks.iter_mut().flat_map(|r| &mut r.thread_blocks).for_each(|b| b.thread = None);
        let blocks = schedule.ranks.iter().map(|r| r.thread_blocks.len()).max().unwrap_or(0);
        let threads = syncline_collective::schedule::imported(&unnamed, None).expect("it is right").program.threads();
        assert_eq!(usize::from(threads), blocks, "{algorithm:?} on {ranks}");
    }
}
