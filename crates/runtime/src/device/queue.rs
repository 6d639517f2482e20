//! Calls that are ordered by streams of the program.
//!
//! A call returns at once. An event is recorded on the program's stream, and the stream then waits until a word in memory of the host,
//! which is the communicator's, has the number of the call. A thread of the communicator takes calls in order: it waits for the
//! event, carries the call out, and writes the number, whether the call has succeeded or not, so that no stream is held up for
//! ever. The failure is found by asking for it.
//!
//! A second thread sees to streams where the first is held up in a call of the driver ([`super::watch`]).

use super::driver::{AT_LEAST, Address, Handle, RELAXED, call};
use super::engine::{EVENTS, Engine, Event};
use super::gpu::Context;
use super::watch::{Calls, Watch};
use crate::bootstrap::{Cause, Failure};
use crate::clock::{now, seconds};
use crate::communicator::{Communicator, Operation, prepare, run};
use crate::value::{Arithmetic, Reduction, Scalar};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A call on a stream.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// What is asked for.
    pub operation: Operation,
    /// The stream (`CUstream`); those of number 0, 1 and 2 are the driver's own.
    pub stream: usize,
    /// Where the factor of a [`Reduction::PreMulSum`] is, if it is in memory of a GPU: it is read on the stream, and the one of
    /// the operation counts for nothing.
    pub factor: Option<u64>,
}

/// How long the thread sleeps at first and at most between two looks at an event of the program's stream.
const NAPS: (Duration, Duration) = (Duration::from_micros(10), Duration::from_micros(200));

/// How often the second thread looks whether the first is held up.
const LOOK: Duration = Duration::from_millis(200);
/// How long the first has to be held up after a failure, until streams are released without it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The calls of a communicator on a GPU.
pub struct Queue {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    communicator: Arc<Communicator>,
    engine: Arc<Engine>,
    word: Word,
    /// Cells of the word's page that hold no factor.
    cells: Mutex<Vec<usize>>,
    /// Held by whoever asks for calls.
    order: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
    /// When the queue is dropped.
    ended: Condvar,
    /// Calls of the driver by the thread that carries jobs out.
    driver_calls: Arc<Calls>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// The number of the last job that was asked for, and of the last that is over.
    asked: u32,
    over: u32,
    /// A failure that is not that of the communicator.
    failure: Option<Failure>,
    is_ended: bool,
}

/// Calls that are made together.
struct Job {
    number: u32,
    /// With the cell that a factor is copied to.
    operations: Vec<(Operation, Option<usize>)>,
    /// What is to be done before, on streams of the program.
    events: Vec<Event>,
}

// SAFETY: what operations point to is the program's, which keeps it until the calls are done, whichever thread does them.
unsafe impl Send for Job {}

/// The word that streams wait for: the number of the last job that is over, in memory of the host that GPUs reach.
///
/// A stream may come to look at it at any time, even after the communicator is gone. So words are never given back: the next
/// communicator takes one over with its number, and counts on from there.
struct Word {
    page: &'static Page,
    /// Where GPUs find it.
    address: Address,
}

/// Words that nobody counts on.
static PAGES: Mutex<Vec<&'static Page>> = Mutex::new(Vec::new());

/// Factors that can be under way.
const CELLS: usize = 511;

/// A page for a word, as the driver registers whole pages. The rest of it takes factors.
#[repr(C, align(4096))]
struct Page {
    word: AtomicU32,
    cells: [AtomicU64; CELLS],
}

impl Word {
    fn new(context: Context) -> Result<Word, Failure> {
        let kept = PAGES.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let new = || Page { word: AtomicU32::new(0), cells: [const { AtomicU64::new(0) }; CELLS] };
        let page: &'static Page = kept.unwrap_or_else(|| Box::leak(Box::new(new())));
        let start = page.word.as_ptr().cast::<c_void>();
        // SAFETY: the page stays for ever. It may be registered from before, unless the context has gone in which it was.
        context.within(|| unsafe { context.driver.register(start, size_of::<Page>()) })?;
        let mut address = 0;
        // It writes an address.
        context.within(|| call!(context.driver, host_address(&raw mut address, start, 0)))?;
        Ok(Word { page, address })
    }

    fn read(&self) -> u32 {
        self.page.word.load(Ordering::Relaxed)
    }

    /// Writes a number, unless it is there already, or a later one. The state is locked.
    fn write(&self, number: u32) {
        if (number.wrapping_sub(self.read()) as i32) > 0 {
            self.page.word.store(number, Ordering::Release);
        }
    }

    /// Where GPUs find a cell.
    fn cell(&self, number: usize) -> Address {
        self.address + (std::mem::offset_of!(Page, cells) + number * size_of::<AtomicU64>()) as Address
    }
}

impl Queue {
    /// For a communicator that has a GPU.
    ///
    /// # Errors
    /// A [`Failure`], if it has none, or the driver or the system refuses what is needed.
    pub fn new(communicator: Arc<Communicator>) -> Result<Queue, Failure> {
        let engine = communicator.engine().cloned();
        let engine = engine.ok_or_else(|| Failure::new(Cause::Argument, "the communicator has no GPU"))?;
        let word = Word::new(engine.gpu().context())?;
        let start = word.read();
        let shared = Arc::new(Shared {
            communicator,
            engine,
            word,
            cells: Mutex::new((0..CELLS).collect()),
            order: Mutex::default(),
            state: Mutex::new(State { asked: start, over: start, ..State::default() }),
            changed: Condvar::new(),
            ended: Condvar::new(),
            driver_calls: Arc::default(),
        });
        let mut queue = Queue { shared, threads: Vec::new() };
        queue.begin("syncline-cuda", Shared::serve)?;
        queue.begin("syncline-watch", Shared::watch)?;
        Ok(queue)
    }

    /// Begins a thread that ends when the queue is dropped.
    fn begin(&mut self, name: &str, action: fn(&Shared)) -> Result<(), Failure> {
        let own = self.shared.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || action(&own));
        self.threads.push(thread.map_err(|error| Failure::system("a thread for calls on a GPU", error))?);
        Ok(())
    }

    /// The communicator.
    pub fn communicator(&self) -> &Arc<Communicator> {
        &self.shared.communicator
    }

    /// Sees to what calls need, for which the driver may wait for all that has been given to the GPU: before anything is given to a
    /// stream that waits for the calls.
    ///
    /// # Errors
    /// A [`Failure`], if the communicator has failed, there is no plan for a call, or the driver or the system refuses something.
    pub fn prepare(&self, calls: &[Call]) -> Result<(), Failure> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let Shared { communicator, engine, .. } = &*self.shared;
        let all = || calls.iter().try_for_each(|call| prepare(communicator, &call.operation));
        engine.gpu().context().within(all)
    }

    /// Asks for calls that have been prepared, which are made together. They are done when the stream of each gets past this.
    ///
    /// # Errors
    /// A [`Failure`], if the communicator has failed, or the driver fails. Nothing is done then.
    ///
    /// # Safety
    /// Buffers have the sizes of their calls, are memory that the GPU reaches, and are used by others only on the stream of the call
    /// until it is done there.
    pub unsafe fn submit(&self, calls: &[Call]) -> Result<(), Failure> {
        let Shared { engine, word, order, changed, .. } = &*self.shared;
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let mut streams: Vec<usize> = calls.iter().map(|call| call.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        let context = engine.gpu().context();
        context.within(|| {
            let operations = calls.iter().map(|call| Ok((call.operation, self.shared.fetch(call)?)));
            let operations = operations.collect::<Result<Vec<_>, Failure>>()?;
            let events = streams.iter().map(|stream| engine.record(*stream as Handle, EVENTS));
            let events = events.collect::<Result<Vec<_>, _>>()?;
            // Held until streams wait, so that they wait for jobs in the order of their numbers. It is not what the thread needs to
            // end a job: a stream that has been given too much takes more only when earlier jobs are over.
            let _order = order.lock().unwrap_or_else(PoisonError::into_inner);
            let mut state = self.shared.lock();
            let number = state.asked.wrapping_add(1);
            state.asked = number;
            state.jobs.push_back(Job { number, operations, events });
            drop(state);
            changed.notify_all();
            for stream in &streams {
                // Words stay for ever.
                call!(context.driver, wait_value(*stream as Handle, word.address, number, AT_LEAST))?;
            }
            Ok(())
        })
    }

    /// Whether a graph is being made of what is given to a stream.
    ///
    /// # Errors
    /// A [`Failure`] of the driver.
    pub fn is_captured(&self, stream: usize) -> Result<bool, Failure> {
        let context = self.shared.engine.gpu().context();
        let mut status = 0;
        // It writes a number; the stream is the program's.
        context.within(|| call!(context.driver, is_capturing(stream as Handle, &raw mut status)))?;
        Ok(status != 0)
    }

    /// The failure of the communicator, or of a call that could not be carried out, if there is one: after it, no call succeeds.
    pub fn failure(&self) -> Option<Failure> {
        self.shared.communicator.failure().or_else(|| self.shared.lock().failure.clone())
    }

    /// Waits until all calls are over.
    pub fn drain(&self) {
        let mut state = self.shared.lock();
        while state.over != state.asked {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.lock().is_ended = true;
        self.shared.changed.notify_all();
        self.shared.ended.notify_all();
        for thread in self.threads.drain(..) {
            // It has not panicked, and if it has, there is nobody to tell.
            let _ = thread.join();
        }
        // After a failure, a stream may still copy a factor there.
        if self.failure().is_none() {
            PAGES.lock().unwrap_or_else(PoisonError::into_inner).push(self.shared.word.page);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the factor of a call copied on its stream, if that is in memory of a GPU. Returns the cell that gets it.
    fn fetch(&self, call: &Call) -> Result<Option<usize>, Failure> {
        let (Some(factor), Operation::Collective { arithmetic, .. }) = (call.factor, call.operation) else {
            return Ok(None);
        };
        let most =
            || Failure::new(Cause::Argument, format!("more than {CELLS} calls with factors of GPUs are under way"));
        let cell = self.cells.lock().unwrap_or_else(PoisonError::into_inner).pop().ok_or_else(most)?;
        let (driver, bytes) = (self.engine.gpu().context().driver, arithmetic.data_type().size());
        // The factor is the program's, which keeps it until the stream has passed this; cells stay for ever.
        call!(driver, copy_async(self.word.cell(cell), factor, bytes, call.stream as Handle))?;
        Ok(Some(cell))
    }

    /// An operation with the factor that has been copied.
    fn with_factor(&self, operation: Operation, cell: Option<usize>) -> Result<Operation, Failure> {
        let (Some(cell), Operation::Collective { kind, root, count, arithmetic, input, output }) = (cell, operation)
        else {
            return Ok(operation);
        };
        let bytes = self.word.page.cells[cell].load(Ordering::Acquire).to_ne_bytes();
        self.cells.lock().unwrap_or_else(PoisonError::into_inner).push(cell);
        let data_type = arithmetic.data_type();
        let factor =
            Scalar::from_bytes(data_type, &bytes[..data_type.size()]).expect("as many bytes as an element has");
        let arithmetic = Arithmetic::new(data_type, Reduction::PreMulSum(factor), arithmetic.ranks())
            .map_err(|unsupported| Failure::new(Cause::Argument, unsupported.to_string()))?;
        Ok(Operation::Collective { kind, root, count, arithmetic, input, output })
    }

    /// Carries jobs out until the queue is dropped.
    fn serve(&self) {
        self.driver_calls.follow();
        let (context, mut mode) = (self.engine.gpu().context(), RELAXED);
        // It takes a mode and gives the one before. Where it is refused, only a program that makes graphs will notice.
        let _ = context.within(|| call!(context.driver, capture_mode(&raw mut mode)));
        loop {
            let mut state = self.lock();
            let job = loop {
                if let Some(job) = state.jobs.pop_front() {
                    break job;
                }
                if state.is_ended {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            drop(state);
            let number = job.number;
            let carry_out = AssertUnwindSafe(|| self.engine.gpu().context().within(|| self.carry_out(job)));
            let done = catch_unwind(carry_out).unwrap_or_else(|_| {
                self.communicator.abort();
                Err(Failure::new(Cause::System, "internal error while a call was carried out"))
            });
            // If the communicator has failed, it is known there; otherwise all ranks are told.
            let failure = done.err().filter(|_| self.communicator.failure().is_none());
            let failure = failure.map(|failure| self.communicator.report(failure));
            let mut state = self.lock();
            state.failure = state.failure.take().or(failure);
            state.over = number;
            // Last of all: the program may then use the buffers.
            self.word.write(number);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Reports that the thread of calls is held up in the driver, and releases streams then, until the queue is dropped.
    fn watch(&self) {
        let limit = self.communicator.timeout() / 2;
        let mut watch = Watch::new(self.driver_calls.clone(), now());
        let mut state = self.lock();
        while !state.is_ended {
            state = self.ended.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            let Some((call, time)) = watch.held_up(now()) else { continue };
            if time >= PATIENCE && (state.failure.is_some() || self.communicator.failure().is_some()) {
                // What buffers hold is not said after a failure.
                self.word.write(state.asked);
            } else if time >= limit {
                drop(state);
                self.communicator.report(is_held_up(call, limit));
                state = self.lock();
            }
        }
    }

    fn carry_out(&self, job: Job) -> Result<(), Failure> {
        let failed = || self.communicator.failure().or_else(|| self.lock().failure.clone());
        let (mut nap, most) = NAPS;
        for event in &job.events {
            while !event.is_done()? {
                if let Some(failure) = failed() {
                    return Err(failure);
                }
                thread::sleep(nap);
                nap = (2 * nap).min(most);
            }
        }
        if let Some(failure) = failed() {
            return Err(failure);
        }
        let mut calls = Vec::new();
        for (operation, cell) in &job.operations {
            calls.push((self.communicator.clone(), self.with_factor(*operation, *cell)?));
        }
        // SAFETY: whoever has asked for the calls has promised what their buffers are.
        unsafe { run(&calls) }
    }
}

/// What a rank says whose calls are held up.
fn is_held_up(call: &str, limit: Duration) -> Failure {
    let cause = "as happens while a copy to or from memory of the host that is not pinned waits for a call of Syncline";
    let way = "synchronize the stream before such a copy, copy to pinned memory, or use another stream than NULL";
    let limit = seconds(limit);
    let message = format!("{call} of the driver of CUDA has not returned for {limit}, {cause}; accepted: {way}");
    Failure::new(Cause::Device, message)
}
