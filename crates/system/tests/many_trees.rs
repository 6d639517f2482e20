//! A tree for every rank, on 1,024 ranks: a thread has state only while it is active, so that a million threads fit into
//! memory. A process of its own, whose peak is that of this run alone.

use syncline_collective::plan_file::{LineProgram, WrittenPlan};
use syncline_collective::program::loops::{Loop, WrittenStep};
use syncline_collective::program::{Frame, Pacing};
use syncline_collective::{Blocks, Composition, Kind, LineRank, Op, Program, Rank, Slot, Step, Written, WrittenPhase};
use syncline_system::run_spec;
use syncline_system::spec::{PlanSpec, Spec};

const RANKS: u32 = 1024;
const MOST_BYTES: u64 = 1 << 30;

/// An all-gather: thread `t` of every rank carries block `t` down a binary tree whose root is rank `t`.
fn trees(ranks: u32) -> WrittenPlan {
    let thread = |rank: u32, tree: u32| {
        let place = (rank + ranks - tree) % ranks;
        let name = |place: u32| LineRank((place + tree) % ranks);
        let children = [2 * place + 1, 2 * place + 2].into_iter().filter(|&child| child < ranks);
        let (block, into) = (Blocks::one(tree), Slot { thread: tree as u16, pc: 0 });
        let mut steps: Vec<Step> = children.map(|child| Step::send(block, name(child), into)).collect();
        if place > 0 {
            let from = name((place - 1) / 2);
            match steps.first_mut() {
                Some(first) => *first = Step { op: Op::RecvCopySend, from, ..*first },
                None => steps.push(Step::receive(Op::Recv, block, from)),
            }
        }
        [Loop { times: 1, steps: steps.into_iter().map(WrittenStep::from).collect() }]
    };
    let pacing = Pacing { one_by_one: true, ..Pacing::default() };
    let frame = Frame { parts: ranks, pacing, ..Frame::default() };
    let of_rank = |rank| (0..ranks).map(move |tree| thread(rank, tree));
    let program: Program = Written::new(frame, (0..ranks).map(of_rank)).expect("as many threads as ranks").into();
    let (kind, phase) = (Kind::AllGather, WrittenPhase { around: false, up: program.clone(), down: program });
    WrittenPlan {
        name: "trees".into(),
        kind,
        root: Rank(0),
        grid: vec![ranks],
        composition: Composition::PerDimension,
        balanced: false,
        regular: true,
        is_schedule: false,
        programs: vec![LineProgram { kind, dim: 0, phase }],
    }
}

fn spec(ranks: u32) -> Spec {
    let text = format!(
        r#"{{
            "fabric": {{"kind": "product", "dims": [
                {{"block": "switch", "size": {ranks}, "rate_bytes_per_s": 25000000000, "latency_ps": 500000, "links": 1}}]}},
            "network": {{"backend": "analytical"}},
            "endpoint": {{"kind": "ideal", "step_latency_ps": 0}},
            "collectives": {{"algorithm": "direct", "chunking": {{"by": "count", "chunks": 1}}, "inflight": 1,
                "scheduling": "fifo", "lanes": "one", "element_bytes": 1}},
            "job": {{"kind": "collective", "collective": "all-gather", "bytes": {}}},
            "output": {{"window_ps": 1000000000, "trace_npus": [], "trace_limit": 0}}
        }}"#,
        u64::from(ranks) * 4096
    );
    let mut spec = Spec::read(&text).unwrap_or_else(|error| panic!("{error}"));
    spec.collectives.plans = vec![PlanSpec::ready(trees(ranks))];
    spec
}

/// The most memory that this process has had, where the system says it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[test]
fn a_tree_for_every_one_of_1024_ranks_takes_a_gibibyte_at_most() {
    let results = run_spec(&spec(RANKS), None).unwrap_or_else(|error| panic!("{error}"));
    let blocks = u64::from(RANKS) * u64::from(RANKS - 1);
    assert_eq!(results.summary.network.delivered_bytes, blocks * 4096);
    if let Some(peak) = peak_bytes() {
        eprintln!("{} MiB at most", peak >> 20);
        assert!(peak <= MOST_BYTES, "{} MiB at most", peak >> 20);
    }
}
