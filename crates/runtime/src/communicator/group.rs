//! Calls that are made together.
//!
//! The thread that makes calls carries them out. It goes from one to the next as long as any moves, tries again for a little
//! while, and then sleeps on the bells of their communicators. Collectives of a communicator follow one another in the order in which they were
//! asked for; messages between two ranks as well, in each direction. Everything else is under way at once.

use super::{Collectives, Communicator, locked};
use crate::bootstrap::{Cause, Failure, Request};
use crate::clock;
use crate::device::engine::{Engine, OnDevice};
use crate::executor::collective::{Collective, connections};
use crate::executor::exchange::{Exchange, Line, Side};
use crate::executor::ports::Ports;
use crate::executor::worker::OnHost;
use crate::executor::{Asked, Buffers, Progress};
use crate::plan::Verified;
use crate::value::{Arithmetic, DataType, Reduction};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};
use syncline_collective::Kind;

/// What a rank asks for.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// A collective. Buffers have the sizes of the collective; those that the rank does not have may be null.
    Collective {
        /// Which one.
        kind: Kind,
        /// The root of a rooted one; else 0.
        root: u32,
        /// Elements of the vector or, where ranks have shares of it, of a share.
        count: u64,
        /// The type of elements, and how they are reduced.
        arithmetic: Arithmetic,
        /// What the rank has.
        input: *const u8,
        /// What it gets.
        output: *mut u8,
    },
    /// A message to a rank, which may be this one.
    Send {
        /// The receiver.
        peer: u32,
        /// Its length.
        bytes: u64,
        /// What is sent.
        from: *const u8,
    },
    /// A message from a rank, which may be this one.
    Recv {
        /// The sender.
        peer: u32,
        /// Its length, which has to be that of the message.
        bytes: u64,
        /// Where it goes.
        into: *mut u8,
    },
}

/// How long a waiting thread tries again before it sleeps, where every rank of the host has a processor.
const SPIN: Duration = Duration::from_micros(20);
/// How long it sleeps at most before it looks for failures.
const NAP: Duration = Duration::from_millis(50);
/// How long it sleeps at most while a GPU works for it, which rings no bell.
const GPU_NAP: Duration = Duration::from_micros(20);
/// How long it sleeps where it cannot sleep on several bells.
const SHORT_NAP: Duration = Duration::from_micros(100);

/// A collective, by where its buffers are.
enum Work {
    OnHost(Collective<OnHost>),
    OnDevice(Collective<OnDevice>),
}

impl Work {
    fn poll(&mut self, ports: &mut Ports) -> Result<Progress, Failure> {
        match self {
            Work::OnHost(collective) => collective.poll(ports),
            Work::OnDevice(collective) => collective.poll(ports),
        }
    }

    fn is_busy(&self) -> bool {
        match self {
            Work::OnHost(_) => false,
            Work::OnDevice(collective) => collective.is_busy(),
        }
    }

    fn asked(&self) -> &Asked {
        match self {
            Work::OnHost(collective) => collective.asked(),
            Work::OnDevice(collective) => collective.asked(),
        }
    }

    fn waits_for(&self) -> Option<u32> {
        match self {
            Work::OnHost(collective) => collective.waits_for(),
            Work::OnDevice(collective) => collective.waits_for(),
        }
    }
}

/// The calls of one communicator.
struct Lot<'a> {
    communicator: &'a Communicator,
    /// What collectives use, if there are any.
    shared: Option<MutexGuard<'a, Collectives>>,
    collectives: VecDeque<Work>,
    /// Lines that are used, with their messages.
    lines: BTreeMap<usize, (MutexGuard<'a, Line>, VecDeque<Exchange>)>,
    /// How often something has moved.
    progress: u64,
    /// How often its bell had rung when it was last seen to wait.
    rung: u32,
    failure: Option<Failure>,
    /// When the present collective began to wait.
    said: Option<Instant>,
}

/// Makes calls together, and returns when all are done.
///
/// # Errors
/// The first [`Failure`]. The communicator that has failed is of no more use; calls of others have been finished.
///
/// # Safety
/// All buffers have the sizes of their calls, and are used by nobody else until this returns.
pub unsafe fn run(calls: &[(Arc<Communicator>, Operation)]) -> Result<(), Failure> {
    let mut communicators: Vec<&Arc<Communicator>> = calls.iter().map(|(communicator, _)| communicator).collect();
    // In one order for all threads, so that none waits for a communicator that another one holds while it waits for this one's.
    communicators.sort_by_key(|communicator| Arc::as_ptr(communicator));
    communicators.dedup_by_key(|communicator| Arc::as_ptr(communicator));
    let mut lots: Vec<Lot<'_>> = Vec::new();
    let mut planned = Vec::new();
    for communicator in communicators {
        let own = calls.iter().filter(|(other, _)| Arc::ptr_eq(other, communicator)).map(|(_, operation)| operation);
        let mut lot = Lot::new(communicator, own.clone())?;
        for operation in own {
            planned.push((lots.len(), *operation, lot.plan(operation)?));
        }
        lots.push(lot);
    }
    // Nothing is refused any more. Calls that are numbered here are made.
    for (lot, operation, plan) in planned {
        // SAFETY: the caller's promise.
        unsafe { lots[lot].add(operation, plan) };
    }
    drive(&mut lots);
    lots.into_iter().find_map(|lot| lot.failure).map_or(Ok(()), Err)
}

/// Carries everything out.
fn drive(lots: &mut [Lot<'_>]) {
    /// Asked once: the answer takes longer than a small call, as control groups are read from files.
    static CORES: LazyLock<u32> =
        LazyLock::new(|| thread::available_parallelism().map_or(1, |cores| cores.get() as u32));
    let cores = *CORES;
    let spin = if lots.iter().all(|lot| lot.communicator.neighbours <= cores) { SPIN } else { Duration::ZERO };
    let mut idle: Option<Instant> = None;
    loop {
        let (mut moved, mut open) = (false, false);
        for lot in lots.iter_mut() {
            lot.rung = lot.communicator.segment.bell().count();
            moved |= lot.poll();
            open |= !lot.is_done();
        }
        if !open {
            return;
        }
        if moved {
            idle = None;
            continue;
        }
        let now = clock::now();
        let since = *idle.get_or_insert(now);
        if now - since < spin {
            std::hint::spin_loop();
            continue;
        }
        lots.iter_mut().for_each(|lot| lot.look(now - since, now));
        sleep(lots);
    }
}

/// Sleeps until a bell rings.
fn sleep(lots: &[Lot<'_>]) {
    let mut waiting = lots.iter().filter(|lot| !lot.is_done());
    let Some(first) = waiting.next() else { return };
    let nap = if lots.iter().any(Lot::is_busy) { GPU_NAP } else { NAP };
    let Some(second) = waiting.next() else {
        first.communicator.segment.bell().sleep(first.rung, nap);
        return;
    };
    let all: Vec<&Lot<'_>> = [first, second].into_iter().chain(waiting).collect();
    let bells = all.iter().map(|lot| (lot.communicator.segment.bell(), lot.rung));
    if !crate::transport::bell::sleep_on_any(&bells.collect::<Vec<_>>(), nap) {
        thread::sleep(SHORT_NAP);
    }
}

impl<'a> Lot<'a> {
    /// Locks what calls need, always in the same order.
    fn new<'o>(
        communicator: &'a Communicator,
        operations: impl Iterator<Item = &'o Operation> + Clone,
    ) -> Result<Lot<'a>, Failure> {
        communicator.session.usable()?;
        if let Some(failure) = communicator.failure() {
            return Err(failure);
        }
        let ranks = communicator.ranks;
        let mut lines = BTreeMap::new();
        for operation in operations.clone() {
            let (name, rank, is_sent) = match operation {
                Operation::Collective { root, .. } => ("root", *root, None),
                Operation::Send { peer, .. } => ("peer", *peer, Some(true)),
                Operation::Recv { peer, .. } => ("peer", *peer, Some(false)),
            };
            if rank >= ranks {
                let accepted = format!("accepted: 0 to {}", ranks - 1);
                let message = format!("{name} {rank} is no rank of a communicator of {ranks}; {accepted}");
                return Err(Failure::new(Cause::Argument, message));
            }
            lines.extend(is_sent.map(|is_sent| (communicator.line(rank, is_sent), ())));
        }
        let has_collectives = operations.clone().any(|operation| matches!(operation, Operation::Collective { .. }));
        let shared = has_collectives.then(|| locked(&communicator.collectives));
        let lines =
            lines.into_keys().map(|line| (line, (locked(&communicator.lines[line]), VecDeque::new()))).collect();
        Ok(Lot {
            communicator,
            shared,
            collectives: VecDeque::new(),
            lines,
            progress: 0,
            rung: 0,
            failure: None,
            said: None,
        })
    }

    /// The plan of a collective.
    fn plan(&mut self, operation: &Operation) -> Result<Option<Arc<Verified>>, Failure> {
        let Operation::Collective { kind, root, count, arithmetic, .. } = *operation else { return Ok(None) };
        let shared = self.shared.as_mut().expect("collectives have been announced");
        let bytes = count * arithmetic.data_type().size() as u64;
        shared.library.plan(kind, root, self.communicator.ranks, bytes).map(Some)
    }

    /// Adds a call, with the plan of a collective.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn add(&mut self, operation: Operation, plan: Option<Arc<Verified>>) {
        let communicator = self.communicator;
        let (side, peer, bytes) = match operation {
            Operation::Collective { kind, root, count, arithmetic, input, output } => {
                let shared = self.shared.as_mut().expect("collectives have been announced");
                let plan = plan.expect("collectives have plans");
                let request = request(kind, root, count, arithmetic, plan.digest());
                let asked = Asked { call: shared.next, request };
                shared.next = shared.next.wrapping_add(1);
                communicator.session.note(asked.call, request);
                let buffers = Buffers { input, output };
                let own = communicator.rank;
                // SAFETY: the caller's promise.
                self.collectives.push_back(unsafe {
                    match &communicator.engine {
                        None => {
                            let worker = OnHost::new(arithmetic);
                            Work::OnHost(Collective::new(plan, own, count, arithmetic, worker, buffers, asked))
                        }
                        Some(engine) => {
                            let worker = OnDevice::new(engine.clone(), arithmetic);
                            Work::OnDevice(Collective::new(plan, own, count, arithmetic, worker, buffers, asked))
                        }
                    }
                });
                return;
            }
            Operation::Send { peer, bytes, from } => (Side::Send(from), peer, bytes),
            Operation::Recv { peer, bytes, into } => (Side::Recv(into), peer, bytes),
        };
        let at = communicator.line(peer, matches!(side, Side::Send(_)));
        let (line, row) = self.lines.get_mut(&at).expect("lines have been announced");
        // SAFETY: the caller's promise.
        row.push_back(unsafe { line.exchange(side, bytes) });
    }

    fn is_done(&self) -> bool {
        self.failure.is_some() || self.collectives.is_empty() && self.lines.values().all(|(_, row)| row.is_empty())
    }

    /// Whether a GPU works for it.
    fn is_busy(&self) -> bool {
        self.collectives.front().is_some_and(Work::is_busy)
            || self.lines.values().any(|(_, row)| row.front().is_some_and(Exchange::is_busy))
    }

    /// Goes on with all that can, and returns whether anything has moved.
    fn poll(&mut self) -> bool {
        if self.is_done() {
            return false;
        }
        match self.try_poll() {
            Ok(moved) => {
                if moved {
                    self.progress += 1;
                    self.communicator.session.advance();
                    self.said = None;
                }
                moved
            }
            Err(failure) => {
                self.fail(self.communicator.report(failure));
                true
            }
        }
    }

    fn try_poll(&mut self) -> Result<bool, Failure> {
        let mut moved = false;
        while let Some(collective) = self.collectives.front_mut() {
            let shared = self.shared.as_mut().expect("collectives have been announced");
            let progress = collective.poll(&mut shared.ports)?;
            moved |= progress != Progress::Waits;
            if progress != Progress::Finished {
                break;
            }
            self.communicator.session.end(collective.asked().call);
            self.collectives.pop_front();
        }
        for (line, row) in self.lines.values_mut() {
            while let Some(exchange) = row.front_mut() {
                let progress = line.poll(exchange)?;
                moved |= progress != Progress::Waits;
                if progress != Progress::Finished {
                    break;
                }
                row.pop_front();
            }
        }
        Ok(moved)
    }

    fn fail(&mut self, failure: Failure) {
        for collective in self.collectives.drain(..) {
            self.communicator.session.end(collective.asked().call);
        }
        self.lines.values_mut().for_each(|(_, row)| row.clear());
        if let Some(engine) = &self.communicator.engine {
            // What a GPU has been given must not touch the buffers any more when the call has returned.
            engine.synchronize();
        }
        self.failure = Some(failure);
    }

    /// Looks for failures, and says that it waits if that takes long.
    fn look(&mut self, idle: Duration, now: Instant) {
        if self.is_done() {
            return;
        }
        if let Some(failure) = self.communicator.failure() {
            self.fail(failure);
            return;
        }
        let is_due = self.said.is_none_or(|said| now - said >= 2 * NAP);
        if idle < NAP || !is_due {
            return;
        }
        self.said = Some(now);
        let session = &self.communicator.session;
        if let Some(collective) = self.collectives.front() {
            session.waiting(collective.asked().call, collective.waits_for());
        }
        for (line, _) in self.lines.values().filter(|(_, row)| !row.is_empty()) {
            session.waiting_for_message(line.rank(), self.progress);
        }
    }
}

/// Sees to what a call on a GPU needs, before there is anything on the program's stream that waits for it: opening connections and
/// taking memory may wait for all that is under way on the GPU.
pub(crate) fn prepare(communicator: &Communicator, operation: &Operation) -> Result<(), Failure> {
    let Some(engine) = &communicator.engine else { return Ok(()) };
    let (peer, is_sent) = match *operation {
        Operation::Collective { kind, root, count, arithmetic, input, output } => {
            let bytes = count * arithmetic.data_type().size() as u64;
            let key = (kind as u8, root, bytes.max(1).ilog2());
            let known = locked(&communicator.prepared).get(&key).cloned();
            let plan = match known {
                Some(plan) => plan,
                None => {
                    // Waits for earlier calls of the communicator, but only the first time.
                    let mut shared = locked(&communicator.collectives);
                    let plan = shared.library.plan(kind, root, communicator.ranks, bytes)?;
                    for (peer, lane, is_sent) in connections(&plan, communicator.rank) {
                        if is_sent {
                            shared.ports.writer(peer, lane)?;
                        } else {
                            shared.ports.reader(peer, lane)?;
                        }
                    }
                    locked(&communicator.prepared).insert(key, plan.clone());
                    plan
                }
            };
            let asked = Asked { call: 0, request: request(kind, root, count, arithmetic, plan.digest()) };
            let (own, buffers) = (communicator.rank, Buffers { input, output });
            // SAFETY: it is not carried out.
            let sizes = unsafe {
                Collective::new(plan, own, count, arithmetic, OnHost::new(arithmetic), buffers, asked).sizes()
            };
            let needed = Engine::needed(sizes);
            if needed > engine.reserved() {
                let _shared = locked(&communicator.collectives);
                engine.reserve(needed)?;
            }
            return Ok(());
        }
        Operation::Send { peer, .. } => (peer, true),
        Operation::Recv { peer, .. } => (peer, false),
    };
    let line = communicator.line(peer, is_sent);
    if !communicator.open_lines[line].load(Ordering::Acquire) {
        locked(&communicator.lines[line]).open(is_sent)?;
        communicator.open_lines[line].store(true, Ordering::Release);
    }
    Ok(())
}

/// Stands for the code of a reduction with a factor, which ranks may number as they like.
const WITH_FACTOR: u32 = 5;

/// What all ranks have to ask for alike. The factor of a reduction is each rank's own.
fn request(kind: Kind, root: u32, count: u64, arithmetic: Arithmetic, plan: u64) -> Request {
    let code = arithmetic.reduction().code().unwrap_or(WITH_FACTOR);
    let reduction = if kind.is_summed() { u64::from(code) } else { 0 };
    let words = [kind as u64, u64::from(root) << 32 | reduction, count, arithmetic.data_type().code().into()];
    Request { digest: words.iter().fold(plan, |digest, word| mixed(digest, *word)), words, text: described }
}

/// A number in which every bit depends on all bits of both (the finaliser of SplitMix64).
fn mixed(digest: u64, word: u64) -> u64 {
    let mut z = (digest ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// E.g. `all-reduce of 1024 float32 (sum)`.
fn described(words: &[u64; 4]) -> String {
    let kind = Kind::ALL[words[0] as usize];
    let data_type = DataType::from_code(words[3] as u32).map_or("elements", DataType::name);
    let reduction = Reduction::from_code(words[1] as u32).map_or("premul_sum", Reduction::name);
    let text = format!("{kind} of {} {data_type}", words[2]);
    match (kind.is_summed(), kind.is_rooted()) {
        (true, true) => format!("{text} ({reduction}, root {})", words[1] >> 32),
        (true, false) => format!("{text} ({reduction})"),
        (false, true) => format!("{text} (root {})", words[1] >> 32),
        (false, false) => text,
    }
}
