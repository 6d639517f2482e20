use super::reference::{self, Machine};
use super::*;
use crate::api::ChunkId;
use crate::costs::Baseline;
use crate::kernel::PER_WARP;
use proptest::prelude::*;
use syncline_core::{EventQueue, Id, Key, Rate};

const GB: u64 = 1_000_000_000;

struct Queue(EventQueue<WorkDone>);

impl Schedule<WorkDone> for Queue {
    fn at(&mut self, time: Ps, key: Key, event: WorkDone) {
        self.0.push(time, key, event);
    }
}

/// What is to happen to the NPU at a time.
#[derive(Clone, Debug)]
enum Input {
    Transfer(Op, u64),
    Compute(u8, Vec<Kernel>),
}

/// When each step is done, by its place in the input, and each stream's kernels.
fn run<C: StepCost>(cost: &mut C, mut inputs: Vec<(Ps, Input)>) -> (Vec<Ps>, [Option<Ps>; 2]) {
    inputs.sort_by_key(|input| input.0);
    let steps = inputs.iter().filter(|i| matches!(i.1, Input::Transfer(..))).count();
    let (mut done, mut computed) = (vec![Ps::MAX; steps], [None; 2]);
    let mut q = Queue(EventQueue::new());
    let (mut inputs, mut outputs, mut seq) = (inputs.into_iter().peekable(), Vec::new(), ChunkId(0));
    loop {
        // Inputs stand for what the network reports: after timers, before work that is done.
        let event = match inputs.peek() {
            Some(&(at, _)) => {
                q.at(at, Key::new(16, 0), WorkDone::Transit { npu: 0, stage: 0 });
                q.0.pop()
            }
            None => q.0.pop(),
        };
        match event {
            None => return (done, computed),
            Some((now, _, WorkDone::Shares { .. })) => {
                cost.share_anew(0, now, &mut q, &mut outputs);
            }
            Some((now, _, WorkDone::Step { seq, .. })) => done[seq.index()] = now,
            Some((_, _, other @ (WorkDone::Packet { .. } | WorkDone::Passing { .. } | WorkDone::Injected { .. }))) => {
                panic!("{other:?}")
            }
            Some((now, _, WorkDone::Transit { .. })) => {
                if inputs.peek().is_some_and(|i| i.0 == now) {
                    match inputs.next().map(|i| i.1) {
                        Some(Input::Transfer(op, len)) => {
                            cost.work(now, op, Bytes(len), WorkDone::Step { npu: 0, seq, thread: 0, stage: 0 }, &mut q);
                            seq = seq.next();
                        }
                        Some(Input::Compute(stream, kernels)) => {
                            if let Some(end) = cost.compute(0, stream, &kernels, now, &mut q, &mut outputs) {
                                computed[usize::from(stream)] = Some(end);
                            }
                        }
                        None => {}
                    }
                }
            }
        }
        for out in outputs.drain(..) {
            let (EpOut::Computed { stream, .. }, Some((now, ..))) = (out, event) else { panic!("{out:?}") };
            assert!(computed[usize::from(stream)].replace(now).is_none(), "a stream ends once");
        }
    }
}

fn rate(bytes_per_s: u64) -> Rate {
    Rate::new(bytes_per_s).expect("a positive rate")
}

fn config(memory: u64, sms: u64) -> BaselineConfig {
    BaselineConfig { memory: rate(memory), sms: rate(sms), bus: Rate::UNLIMITED, charge_writes: false, protocol: None }
}

/// 80 SMs, ten of them with 16 warps of communication each; each SM reads 80 GB/s, memory 900 GB/s.
const NPU: ContentionConfig = ContentionConfig { sms: 80, comm_sms: 10, comm_warps: 16 };

fn npu() -> Contended {
    Contended::new(config(900 * GB, 800 * GB), NPU, vec![], 1)
}

fn kernel(us: u64, bytes: u64, warps: u64) -> Kernel {
    Kernel { alone: Ps(us * 1_000_000), bytes: Bytes(bytes), warps: warps * PER_WARP, busy: [Ps::ZERO; 2] }
}

fn close(got: Ps, expected: f64) {
    assert!((got.0 as f64 - expected).abs() <= 1e-9 * expected + 2.0, "{} instead of {expected}", got.0);
}

/// 8 MB beside a full kernel: the SMs give communication 16 of 80 warps, 160 GB/s, for 50 us. Meanwhile the kernel
/// has 70 + 10 * 4/5 of 80 SMs.
#[test]
fn a_message_beside_a_kernel_without_memory() {
    let inputs =
        vec![(Ps(0), Input::Transfer(Op::Send, 8_000_000)), (Ps(0), Input::Compute(0, vec![kernel(100, 0, 64)]))];
    let (done, computed) = run(&mut npu(), inputs);
    close(done[0], 50e6);
    close(computed[0].expect("it ends"), 50e6 + 100e6 - 50e6 * 78.0 / 80.0);
}

/// A kernel that wants all of memory: its 80 * 64 warps and the 160 of communication share 900 GB/s alike, until
/// the message, 1 MB, has been read from memory.
#[test]
fn a_message_beside_a_kernel_that_lives_on_memory() {
    let bytes = 90_000_000; // at 900 GB/s, 100 us
    let inputs =
        vec![(Ps(0), Input::Transfer(Op::Send, 1_000_000)), (Ps(0), Input::Compute(0, vec![kernel(100, bytes, 64)]))];
    let (done, computed) = run(&mut npu(), inputs);
    // By its SMs alone it would want 78/80 of that, which is more than its fair share of 5120/5280 of memory.
    let (warps, all) = (5120.0, 5280.0);
    let read = 1e6 / (900e9 * 160.0 / all) * 1e12;
    assert!(read > 1e6 / 160e9 * 1e12, "memory is what the message waits for");
    // When the SMs are done with the message, the kernel has all of them, and memory still holds it to its share.
    close(done[0], read);
    close(computed[0].expect("it ends"), read + 100e6 - read * warps / all);
}

/// What a kernel leaves of memory communication has, and kernels of fewer warps take less of an SM.
#[test]
fn occupancy_decides_on_an_sm() {
    for (warps, sms) in [(1, 16.0 / 17.0), (16, 0.5), (48, 0.25)] {
        let inputs = vec![
            (Ps(0), Input::Transfer(Op::Send, 8_000_000)),
            (Ps(0), Input::Compute(1, vec![kernel(1000, 0, warps)])),
        ];
        close(run(&mut npu(), inputs).0[0], 8e6 / (800e9 * sms) * 1e12);
    }
}

/// Two kernels at once each have the part of every SM that their warps are of all.
#[test]
fn streams_share_the_sms() {
    let inputs =
        vec![(Ps(0), Input::Compute(0, vec![kernel(30, 0, 64)])), (Ps(0), Input::Compute(1, vec![kernel(60, 0, 32)]))];
    let (_, computed) = run(&mut npu(), inputs);
    // The first has two thirds: 45 us, in which the second did 15 of its 60.
    close(computed[0].expect("it ends"), 45e6);
    close(computed[1].expect("it ends"), 90e6);
}

#[test]
fn a_message_beside_steady_loads() {
    let load = |warps, memory| Load { warps, memory: Share::of(rate(memory)) };
    let (gemm, lookup) = (load(44_800, 1), load(64_000, 429_200_000_000));
    for (loads, part) in [(vec![gemm], 16.0 / 60.8), (vec![lookup], 0.2), (vec![gemm, lookup], 16.0 / 124.8)] {
        let mut npu = Contended::new(config(900 * GB, 800 * GB), NPU, loads, 1);
        let (done, _) = run(&mut npu, vec![(Ps(0), Input::Transfer(Op::Send, 8_000_000))]);
        close(done[0], 8e6 / (800e9 * part) * 1e12);
    }
}

const OPS: [Op; 6] = [Op::Send, Op::RecvReduce, Op::RecvReduceSend, Op::RecvReduceCopySend, Op::RecvCopySend, Op::Recv];

fn steps() -> impl Strategy<Value = Vec<(Ps, Input)>> {
    let step = (0u64..30_000_000, 0usize..6, prop_oneof![Just(0), 1u64..3_000_000])
        .prop_map(|(at, op, len)| (Ps(at), Input::Transfer(OPS[op], len)));
    prop::collection::vec(step, 1..12)
}

fn kernels() -> impl Strategy<Value = Vec<Kernel>> {
    let one = (0u64..20_000_000, 0u64..20_000_000, 1u64..80_000).prop_map(|(ps, bytes, warps)| Kernel {
        alone: Ps(ps),
        bytes: Bytes(bytes),
        warps,
        busy: [Ps::ZERO; 2],
    });
    prop::collection::vec(one, 0..5)
}

prop_compose! {
    fn machines()(
        sms in 1u32..100, of in 1u32..100, comm_warps in 1u32..33, memory in 20 * GB..2000 * GB, sm in 20 * GB..2000 * GB,
        bus in 20 * GB..2000 * GB, charge_writes: bool,
    ) -> (BaselineConfig, ContentionConfig) {
        let config = BaselineConfig { memory: rate(memory), sms: rate(sm), bus: rate(bus), charge_writes, protocol: None };
        (config, ContentionConfig { sms, comm_sms: 1 + of % sms, comm_warps })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Beside nothing, communication is served as in the static split, to the picosecond, and accounted alike.
    #[test]
    fn without_kernels_it_is_the_static_split((config, shared) in machines(), steps in steps()) {
        let (mut dynamic, mut fixed) = (Contended::new(config, shared, vec![], 1), Baseline::new(config, 1));
        prop_assert_eq!(run(&mut dynamic, steps.clone()).0, run(&mut fixed, steps).0);
        let (mut a, mut b) = (Report::default(), Report::default());
        dynamic.report(&mut a);
        fixed.report(&mut b);
        prop_assert_eq!(a.resources, b.resources);
        prop_assert_eq!((a.memory_read, a.memory_written), (b.memory_read, b.memory_written));
    }

    /// A stream beside nothing takes as long as its kernels.
    #[test]
    fn without_communication_kernels_run_as_if_alone((config, shared) in machines(), kernels in kernels(), at in 0u64..99) {
        let mut npu = Contended::new(config, shared, vec![], 1);
        let (_, computed) = run(&mut npu, vec![(Ps(at), Input::Compute(1, kernels.clone()))]);
        prop_assert_eq!(computed[1], Some(Kernel::alone(&kernels, Ps(at))));
    }

    #[test]
    fn agrees_with_the_model_in_floating_point(
        (config, shared) in machines(), mut inputs in steps(), kernels in [kernels(), kernels()], at in [0u64..30_000_000, 0u64..30_000_000],
    ) {
        let config = BaselineConfig { bus: Rate::UNLIMITED, ..config };
        for (stream, (kernels, at)) in (0..).zip(kernels.iter().zip(at)) {
            inputs.push((Ps(at), Input::Compute(stream, kernels.clone())));
        }
        let got = run(&mut Contended::new(config, shared, vec![], 1), inputs.clone());
        let per_s = |r: Rate| r.bytes_per_s() as f64 / 1e12;
        let machine = Machine {
            memory: per_s(config.memory),
            sm: per_s(config.sms) / f64::from(shared.comm_sms),
            sms: shared.sms.into(),
            comm_sms: shared.comm_sms.into(),
            comm_warps: shared.comm_warps.into(),
        };
        inputs.sort_by_key(|i| i.0);
        let steps: Vec<_> = inputs.iter().filter_map(|(at, input)| match *input {
            Input::Transfer(op, len) => Some(reference::Transfer {
                at: at.0 as f64,
                write: (op.receives() && config.charge_writes).then_some(len as f64),
                read: (reads_per_byte(op) * len) as f64,
                sends: op.sends(),
            }),
            Input::Compute(..) => None,
        }).collect();
        let streams = [0, 1].map(|s| (at[s] as f64, kernels[s].iter().filter(|k| k.alone > Ps::ZERO).map(|k| reference::Kernel {
            alone: k.alone.0 as f64,
            memory: (k.bytes.0 as f64 / k.alone.0 as f64).min(machine.memory),
            warps: k.warps as f64 / PER_WARP as f64,
        }).collect::<Vec<_>>()));
        let (done, ends) = machine.run(&steps, &streams);
        // Every end is rounded up to a picosecond, and delays what follows: most of all next to kernels of a few picoseconds.
        let near = |got: Ps, expected: f64| (got.0 as f64 - expected).abs() <= 1000.0 + 1e-5 * expected;
        for (i, (&got, &expected)) in got.0.iter().zip(&done).enumerate() {
            prop_assert!(near(got, expected), "step {}: {:?} instead of {}", i, got, expected);
        }
        for s in 0..2 {
            let expected = ends[s].last().copied().unwrap_or(at[s] as f64);
            prop_assert!(got.1[s].is_some_and(|got| near(got, expected)), "stream {}: {:?} instead of {}", s, got.1[s], expected);
        }
    }
}
