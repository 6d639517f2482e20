//! Streams: copies and kernels that a host issues to CUDA streams, as the code that Blink generates does (Wang et al.,
//! "Blink: Fast and Generic Collectives for Distributed ML", MLSys 2020).
//!
//! # The model
//! A thread of a rank's program is a stream (section 4.1: one for each link and tree): its commands run in order, and a
//! copy holds it until the last byte has left. Overheads follow one another with what they are for, since a stream that
//! waits for an event has nothing else to do:
//!
//! | step | what the stream does |
//! |---|---|
//! | send | `copy_overhead`, the copy |
//! | receive | `event_overhead` |
//! | receive and send | both |
//! | receive, reduce | `kernel_overhead`, the kernel |
//! | receive, reduce, send | both, `copy_overhead`, the copy |
//! | local copy or reduction | `kernel_overhead`, the kernel |
//!
//! `copy_overhead` is the issue and synchronisation of a chunk, at least three commands (section 4.2.1); a kernel takes
//! bytes / `reduce_rate` on the SMs of its NPU, which serve one kernel after the other, of whatever stream (MIMO and MCA of
//! Fig. 8 run two). Copies of several streams to the same place go one after the other, chunk by chunk, as in a stream that
//! trees share (section 4.2.2), each by a copy engine of its own otherwise.
//!
//! So a chain of `g > 2` GPUs passes `S` bytes on in `c` chunks over links of rate `R` and latency `a` in
//!
//! ```text
//!   T = (c + g - 2) P + (g - 1) a      P = event_overhead + copy_overhead + S/(c R)
//! ```
//!
//! and a reduction along it takes the same with `P = kernel_overhead + S/(c reduce_rate) + copy_overhead + S/(c R)`. The
//! first GPU has no event to wait for and the last nothing to send, which together make one `P` (Fig. 11 without
//! overheads). All times are rounded up to picoseconds, the copy's and the kernel's each. `T` is least at
//! `c = sqrt((g - 2) S/R / overheads)`.
//!
//! # Delayed sharing
//! Where streams are not reused, chunks of one tree could be delayed arbitrarily (section 4.2.2). [`LinkDelays`] holds a
//! chunk up that finds another stream of its NPU at a copy over the same link: by a random part of at most `delay` times the
//! time that its bytes take there. Others may send meanwhile, and the link may fall idle, which is what harms the pipeline.
//! What is fair draws no random number.
//!
//! # Switching peer access
//! A GPU that has NVLinks copies over them. To copy over PCIe instead, peer access has to be disabled, and enabled again,
//! which takes a time in proportion to the number of GPUs (sections 3.4 and 5.3). So a stream of such a GPU whose step names
//! PCIe as its way sends nothing until `peer_access_latency` for each GPU of the communicator has passed since the chunk began its
//! phase. Streams over NVLinks run meanwhile.
//!
//! # Left out
//! The host that issues commands, which has many streams to serve; kernels that take SMs from compute, or memory bandwidth
//! from copies; copy engines, of which a GPU has fewer than links; rendezvous, since a receiver's memory always has room.
//! Messages between two ranks of a graph are not delayed.

use crate::api::Report;
use crate::costs::StepCost;
use crate::link_delays::LinkDelays;
use crate::servers::RateServer;
use crate::work_done::WorkDone;
use syncline_collective::Op;
use syncline_core::{Bytes, Ps, Rate, Schedule};

/// What commands of a stream cost.
#[derive(Clone, Copy, Debug)]
pub struct StreamConfig {
    /// Issue and synchronisation of a copy to another NPU.
    pub copy_overhead: Ps,
    /// Launch of a kernel.
    pub kernel_overhead: Ps,
    /// Wait for the event that something has arrived.
    pub event_overhead: Ps,
    /// Bytes of a chunk that kernels of an NPU reduce per second.
    pub reduce_rate: Rate,
    /// Switching peer access from NVLinks to PCIe and back, for each GPU of the communicator.
    pub peer_access_latency: Ps,
    /// Where chunks that share a link are delayed: at most so many thousandths of a chunk's time, and the seed.
    pub delayed: Option<(u32, u64)>,
}

/// What steps cost that are commands of streams.
#[derive(Clone, Debug)]
pub struct Streams {
    config: StreamConfig,
    sms: RateServer,
    delays: Option<LinkDelays>,
}

impl Streams {
    /// The streams of `npus` NPUs.
    pub fn new(config: StreamConfig, npus: u32) -> Streams {
        let delays = config.delayed.map(|(most, seed)| LinkDelays::new(most, seed));
        Streams { config, sms: RateServer::new("sm", config.reduce_rate, npus), delays }
    }
}

impl StepCost for Streams {
    fn holds_threads(&self) -> bool {
        true
    }

    fn peer_access_latency(&self) -> Ps {
        self.config.peer_access_latency
    }

    fn link_delays(&mut self) -> Option<&mut LinkDelays> {
        self.delays.as_mut()
    }

    #[inline]
    fn work<Q: Schedule<WorkDone>>(&mut self, now: Ps, op: Op, len: Bytes, done: WorkDone, q: &mut Q) {
        let StreamConfig { copy_overhead, kernel_overhead, event_overhead, .. } = self.config;
        let ready = match op {
            Op::RecvReduce | Op::RecvReduceSend | Op::RecvReduceCopySend | Op::Copy | Op::Reduce | Op::ResidualAdd => {
                self.sms.serve(done.npu().index(), now + kernel_overhead, len)
            }
            Op::Recv | Op::RecvCopySend => now + event_overhead,
            Op::Send | Op::Nop => now,
        };
        let at = if op.sends() { ready + copy_overhead } else { ready };
        q.at(at, done.key(), done);
    }

    fn report(&self, report: &mut Report) {
        report.resources.push(self.sms.usage.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ChunkId;
    use crate::link_delays::Copy;
    use syncline_core::{Key, PortId};

    /// Ends of work in the order in which it was begun.
    #[derive(Default)]
    struct Ends(Vec<Ps>);

    impl Schedule<WorkDone> for Ends {
        fn at(&mut self, time: Ps, _: Key, _: WorkDone) {
            self.0.push(time);
        }
    }

    fn config(delayed: Option<(u32, u64)>) -> StreamConfig {
        StreamConfig {
            copy_overhead: Ps(100),
            kernel_overhead: Ps(30),
            event_overhead: Ps(7),
            reduce_rate: Rate::new(1_000_000_000_000).expect("positive"), // a byte a picosecond
            peer_access_latency: Ps::ZERO,
            delayed,
        }
    }

    #[test]
    fn each_step_costs_its_commands() {
        for (op, expected) in [
            (Op::Send, 100),
            (Op::Recv, 7),
            (Op::RecvCopySend, 107),
            (Op::RecvReduce, 30 + 50),
            (Op::RecvReduceSend, 30 + 50 + 100),
            (Op::RecvReduceCopySend, 30 + 50 + 100),
            (Op::Copy, 30 + 50),
            (Op::Reduce, 30 + 50),
            (Op::Nop, 0),
        ] {
            let (mut cost, mut ends) = (Streams::new(config(None), 1), Ends::default());
            let done = WorkDone::Step { npu: 0, seq: ChunkId(0), thread: 0, stage: 0 };
            cost.work(Ps(1000), op, Bytes(50), done, &mut ends);
            assert_eq!(ends.0, [Ps(1000 + expected)], "{op:?}");
        }
    }

    /// Kernels of an NPU go one after the other, launches do not; those of another NPU have SMs of their own.
    #[test]
    fn kernels_share_the_sms() {
        let (mut cost, mut ends) = (Streams::new(config(None), 2), Ends::default());
        for npu in [0, 0, 1] {
            let done = WorkDone::Step { npu, seq: ChunkId(0), thread: 0, stage: 0 };
            cost.work(Ps(0), Op::RecvReduce, Bytes(50), done, &mut ends);
        }
        assert_eq!(ends.0, [Ps(80), Ps(130), Ps(80)]);
        let mut report = Report::default();
        cost.report(&mut report);
        assert_eq!((report.resources[0].busy, report.resources[0].wait), (150, 50));
    }

    /// Only what finds another copy on its link is held up, by what it is and no longer than it is said.
    #[test]
    fn delays_are_for_those_who_share() {
        let mut cost = Streams::new(config(Some((500, 7))), 1);
        let delays = cost.link_delays().expect("they are delayed");
        let copy = Copy { npu: 0, port: PortId(1), stream: (0, 0, 0), pc: 0, time: Ps(1_000_000) };
        assert_eq!(delays.delay(copy), Ps::ZERO);
        delays.begins(0, PortId(2));
        assert_eq!(delays.delay(copy), Ps::ZERO);
        delays.begins(0, PortId(1));
        let each: Vec<Ps> = (0..100).map(|pc| delays.delay(Copy { pc, ..copy })).collect();
        assert!(each.iter().all(|&delay| delay <= Ps(500_000)), "{each:?}");
        assert!(each.iter().any(|&delay| delay > Ps(400_000)) && each.iter().any(|&delay| delay < Ps(100_000)));
        assert_ne!(delays.delay(copy), delays.delay(Copy { stream: (0, 0, 1), ..copy }));
        assert_eq!(delays.delay(Copy { pc: 3, ..copy }), each[3]);
        delays.ends(0, PortId(1));
        assert_eq!(delays.delay(copy), Ps::ZERO);
    }
}
