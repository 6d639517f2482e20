//! Every algorithm, on random vectors of all sizes, against what the collective means.

use super::collective::Collective;
use super::memory::Buffers;
use super::ports::Ports;
use super::shape::has_shares;
use super::worker::OnHost;
use super::{Asked, Progress};
use crate::bootstrap::Request;
use crate::plan::Verified;
use crate::transport::Peer;
use crate::transport::shared::{Neighbour, Segment};
use crate::value::{Arithmetic, DataType, Reduction};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use syncline_collective::{Algorithm, Kind};

/// Segments of ranks that are threads of this process.
fn segments(ranks: u32) -> Vec<Arc<Segment>> {
    (0..ranks).map(|_| Arc::new(Segment::create(ranks, &[7; 32]).unwrap())).collect()
}

fn ports(own: u32, segments: &[Arc<Segment>]) -> Ports {
    let peer = |(rank, segment): (u32, &Arc<Segment>)| -> Arc<dyn Peer> {
        Arc::new(Neighbour::new((own, segments[own as usize].clone()), (rank, segment.clone())))
    };
    Ports::new((0..).zip(segments).map(peer).collect(), None)
}

/// Small whole numbers, whose sums are exact in every order.
fn input(rank: u32, count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + rank as usize * 13) % 1000) as f32).collect()
}

/// What a collective leaves in the output of a rank.
fn expected(kind: Kind, ranks: u32, own: u32, root: u32, count: usize) -> Option<Vec<f32>> {
    let (all, own_share) = (count * ranks as usize, own as usize * count);
    let sum = |len: usize| -> Vec<f32> {
        let inputs: Vec<_> = (0..ranks).map(|rank| input(rank, len)).collect();
        (0..len).map(|i| inputs.iter().map(|input| input[i]).sum()).collect()
    };
    match kind {
        Kind::AllReduce => Some(sum(count)),
        Kind::Reduce => (own == root).then(|| sum(count)),
        Kind::ReduceScatter => Some(sum(all)[own_share..][..count].to_vec()),
        Kind::Broadcast => Some(input(root, count)),
        Kind::AllGather => Some((0..ranks).flat_map(|rank| input(rank, count)).collect()),
        Kind::Gather => (own == root).then(|| (0..ranks).flat_map(|rank| input(rank, count)).collect()),
        Kind::Scatter => Some(input(root, all)[own_share..][..count].to_vec()),
        Kind::AllToAll => Some((0..ranks).flat_map(|rank| input(rank, all)[own_share..][..count].to_vec()).collect()),
    }
}

/// Runs calls one after the other on the same connections, each in place and out of place, and checks every result.
fn run(plan: &Arc<Verified>, counts: &[usize]) {
    let (ranks, kind, root) = (plan.ranks(), plan.kind(), plan.root());
    let segments = segments(ranks);
    thread::scope(|scope| {
        for own in 0..ranks {
            let (segments, plan) = (&segments, plan.clone());
            scope.spawn(move || {
                let mut ports = ports(own, segments);
                let mut call = 0;
                for &count in counts {
                    for in_place in [false, true] {
                        let got = one(&plan, own, count, in_place, call, &mut ports, segments[own as usize].bell());
                        call += 1;
                        if let Some(expected) = expected(kind, ranks, own, root, count) {
                            let wrong = got.iter().zip(&expected).position(|(a, b)| a != b);
                            assert_eq!(got.len(), expected.len());
                            assert!(
                                wrong.is_none(),
                                "{kind} of {count} by {} on rank {own} of {ranks}, root {root}, in place: {in_place}: \
                                 element {wrong:?} is {:?}, not {:?}",
                                plan.name(),
                                wrong.map(|at| got[at]),
                                wrong.map(|at| expected[at]),
                            );
                        }
                    }
                }
            });
        }
    });
}

fn one(
    plan: &Arc<Verified>,
    own: u32,
    count: usize,
    in_place: bool,
    call: u32,
    ports: &mut Ports,
    bell: &crate::transport::bell::Bell,
) -> Vec<f32> {
    let (kind, ranks, root) = (plan.kind(), plan.ranks() as usize, plan.root());
    let len = |is_whole: bool| if has_shares(kind) && is_whole { count * ranks } else { count };
    let holds_all = |gets: bool| match kind {
        Kind::AllReduce | Kind::AllToAll => true,
        Kind::ReduceScatter | Kind::Scatter | Kind::Reduce => !gets,
        Kind::AllGather | Kind::Gather | Kind::Broadcast => gets,
    };
    let mut source = input(own, len(holds_all(false)));
    let mut target = vec![-1.0f32; len(holds_all(true))];
    let share = own as usize * count;
    let buffers = if in_place {
        // The shorter buffer is a part of the longer one, which it fills where there are no shares.
        let whole = if source.len() >= target.len() { &mut source } else { &mut target };
        let at = if whole.len() == count { 0 } else { share };
        let pointer = whole.as_mut_ptr();
        let inner = pointer.wrapping_add(at);
        match kind {
            Kind::AllGather | Kind::Gather => {
                target[share..][..count].copy_from_slice(&source);
                Buffers { input: inner.cast(), output: pointer.cast() }
            }
            Kind::ReduceScatter | Kind::Scatter => Buffers { input: pointer.cast(), output: inner.cast() },
            _ => Buffers { input: pointer.cast(), output: pointer.cast() },
        }
    } else {
        Buffers { input: source.as_ptr().cast(), output: target.as_mut_ptr().cast() }
    };
    let asked = Asked { call, request: Request { digest: count as u64, words: [0; 4], text: |_| "a test".into() } };
    let sum = Arithmetic::new(DataType::Float32, Reduction::Sum, plan.ranks()).unwrap();
    // SAFETY: the buffers are of the right size and live on.
    let mut collective =
        unsafe { Collective::new(plan.clone(), own, count as u64, sum, OnHost::new(sum), buffers, asked) };
    loop {
        let rung = bell.count();
        match collective.poll(ports).unwrap() {
            Progress::Finished => break,
            Progress::Moved => {}
            Progress::Waits => bell.sleep(rung, Duration::from_secs(5)),
        }
    }
    drop(collective);
    if !in_place {
        if !matches!(kind, Kind::Broadcast | Kind::Scatter) || own == root {
            assert_eq!(source, input(own, source.len()), "the input is not changed");
        }
        return target;
    }
    match kind {
        Kind::AllGather | Kind::Gather => target,
        Kind::ReduceScatter | Kind::Scatter => source[share..][..count].to_vec(),
        _ => source,
    }
}

#[test]
fn all_algorithms_on_all_sizes() {
    let counts = [0, 1, 2, 3, 7, 64, 1000, 4099, 150_001];
    for ranks in [1, 2, 3, 4, 5, 8] {
        for kind in Kind::ALL {
            for algorithm in Algorithm::all(5) {
                if !algorithm.supports(kind) || matches!(algorithm, Algorithm::InSwitch { .. }) {
                    continue;
                }
                let root = if kind.is_rooted() { ranks / 2 } else { 0 };
                let plan = match Verified::of_algorithm(algorithm, kind, ranks, root) {
                    Ok(plan) => Arc::new(plan),
                    Err(failure) => {
                        println!("{kind} by {} of {ranks}: {failure}", algorithm.name());
                        continue;
                    }
                };
                run(&plan, &counts);
            }
        }
    }
}

/// Trees, plans of several dimensions, and MSCCL's schedules, with scratch, local sums and buffers apart.
#[test]
fn plans_of_files() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 15);
    for file in files {
        let plan = Verified::of_json(&std::fs::read_to_string(&file).unwrap());
        let plan = plan.unwrap_or_else(|failure| panic!("{}: {failure}", file.display()));
        run(&Arc::new(plan), &[1, 2, 5, 100, 1001, 4099, 100_003, 400_000]);
    }
}
