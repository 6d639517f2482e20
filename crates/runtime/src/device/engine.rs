//! What a communicator has on its GPU: streams, events, and memory for chunks.

use super::direct::Direct;
use super::driver::{Address, Handle, NO_TIMING, NON_BLOCKING, call};
use super::gpu::{Gpu, Kernel};
use crate::bootstrap::{Cause, Failure, Options, Session};
use crate::executor::worker::{Rooms, WINDOW, Worker};
use crate::transport::shared::Segment;
use crate::transport::{Lane, Peer};
use crate::value::{Arithmetic, Reduction};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Streams of a communicator. Threads of a plan that are more than these share them.
const STREAMS: usize = 16;
/// Events for the work on those streams, more than are under way at once. They are made beforehand, as the driver makes none
/// while a copy of the program holds it up.
pub(super) const EVENTS: usize = 256;
/// What parts of memory are aligned to.
const ALIGNMENT: usize = 256;

/// What a communicator has on its GPU.
pub(crate) struct Engine {
    gpu: Gpu,
    streams: Vec<usize>,
    /// Events that nobody uses.
    events: Mutex<Vec<usize>>,
    /// Memory for chunks; the last one is in use. Earlier ones, which were too small, are kept, since the driver waits for all work
    /// of the GPU when memory is given back, and some of it may wait for this communicator.
    memory: Mutex<Vec<(Address, usize)>>,
    /// Payloads on GPUs, once all ranks have met.
    direct: OnceLock<Direct>,
}

impl Engine {
    /// For a communicator on a GPU. All that may make the driver wait for the GPU is made now, before there is work that waits.
    pub(crate) fn new(gpu: Gpu) -> Result<Engine, Failure> {
        let context = gpu.context();
        let mut engine = Engine {
            gpu,
            streams: Vec::new(),
            events: Mutex::default(),
            memory: Mutex::default(),
            direct: OnceLock::new(),
        };
        context.within(|| {
            for _ in 0..STREAMS {
                let mut stream = ptr::null_mut();
                // Streams share queues of the hardware, in which work of one can be held up by work of another. The program's
                // streams wait for these: a priority of their own keeps them in queues of their own.
                call!(context.driver, create_stream(&raw mut stream, NON_BLOCKING, engine.gpu.priority()))?;
                engine.streams.push(stream as usize);
            }
            let events = (0..EVENTS).map(|_| engine.new_event()).collect::<Result<Vec<_>, _>>()?;
            *engine.events.get_mut().unwrap_or_else(PoisonError::into_inner) = events;
            Ok(())
        })?;
        Ok(engine)
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Meets the other ranks, for payloads on GPUs; once.
    pub(crate) fn meet(
        &self,
        session: &Session,
        segment: &Arc<Segment>,
        peers: &[Arc<dyn Peer>],
        options: &Options,
    ) -> Result<(), Failure> {
        let _ = self.direct.set(Direct::meet(&self.gpu, session, segment, peers, options)?);
        Ok(())
    }

    /// Whether messages to a rank go to its GPU directly.
    pub(crate) fn reaches(&self, peer: u32) -> bool {
        self.direct.get().is_some_and(|direct| direct.reaches(peer))
    }

    /// Where payloads from a rank lie on this one's GPU, if they do.
    pub(crate) fn inbound(&self, peer: u32, lane: Lane) -> Option<NonNull<u8>> {
        NonNull::new(self.direct.get()?.inbound(peer, lane)? as *mut u8)
    }

    /// Where payloads to a rank lie on its GPU, if they do.
    pub(crate) fn outbound(&self, peer: u32, lane: Lane) -> Option<NonNull<u8>> {
        NonNull::new(self.direct.get()?.outbound(peer, lane)? as *mut u8)
    }

    /// A stream for a thread of a plan, or for messages to or from a rank.
    fn stream(&self, number: usize) -> Handle {
        self.streams[number % STREAMS] as Handle
    }

    fn new_event(&self) -> Result<usize, Failure> {
        let mut event = ptr::null_mut();
        // It writes an event.
        call!(self.gpu.context().driver, create_event(&raw mut event, NO_TIMING))?;
        Ok(event as usize)
    }

    /// Records an event on a stream. So many that nobody uses are left for others. The context is current.
    pub(super) fn record(self: &Arc<Engine>, stream: Handle, left: usize) -> Result<Event, Failure> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = if events.len() > left { events.pop() } else { None };
        drop(events);
        let handle = kept.map_or_else(|| self.new_event(), Ok)?;
        let event = Event { engine: self.clone(), handle };
        // The stream is one of these, or one of the program.
        call!(self.gpu.context().driver, record(handle as Handle, stream))?;
        Ok(event)
    }

    /// Copies on a stream, and says what tells that it is done. The context is current.
    ///
    /// # Safety
    /// Both are so many bytes that the GPU reaches, apart from each other.
    pub(crate) unsafe fn copy(
        self: &Arc<Engine>,
        number: usize,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Result<Event, Failure> {
        let stream = self.stream(number);
        // The caller's promise.
        call!(self.gpu.context().driver, copy_async(to as Address, from as Address, bytes, stream))?;
        self.record(stream, 0)
    }

    /// Waits until all that has been given to its streams is done.
    pub(crate) fn synchronize(&self) {
        let context = self.gpu.context();
        // If the GPU has failed, nothing is under way there.
        let _ = context.within(|| {
            self.streams.iter().try_for_each(|stream| call!(context.driver, synchronize(*stream as Handle)))
        });
    }

    /// Sees to memory for chunks of a call. No call of the communicator is under way.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), Failure> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= memory.last().map_or(0, |last| last.1) {
            return Ok(());
        }
        let (context, bytes) = (self.gpu.context(), bytes.next_power_of_two());
        let mut address = 0;
        // It writes an address.
        context.within(|| call!(context.driver, allocate(&raw mut address, bytes)))?;
        memory.push((address, bytes));
        Ok(())
    }

    /// Bytes that chunks can have.
    pub(crate) fn reserved(&self) -> usize {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).last().map_or(0, |last| last.1)
    }

    /// Bytes to reserve for chunks that need these.
    pub(crate) fn needed(sizes: [usize; 4]) -> usize {
        WINDOW as usize * sizes.iter().map(|size| size.next_multiple_of(ALIGNMENT)).sum::<usize>()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.synchronize();
        let context = self.gpu.context();
        let driver = context.driver;
        let events = std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        let memory = std::mem::take(&mut *self.memory.lock().unwrap_or_else(PoisonError::into_inner));
        // What fails here has gone with the context.
        let _ = context.within(|| {
            for event in events {
                call!(driver, destroy_event(event as Handle))?;
            }
            for stream in &self.streams {
                call!(driver, destroy_stream(*stream as Handle))?;
            }
            for (address, _) in memory {
                call!(driver, free(address))?;
            }
            Ok(())
        });
    }
}

/// What tells that work on a stream is done.
pub(crate) struct Event {
    engine: Arc<Engine>,
    handle: usize,
}

impl Event {
    pub(crate) fn is_done(&self) -> Result<bool, Failure> {
        self.engine.gpu.context().driver.is_done(self.handle as Handle)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.engine.events.lock().unwrap_or_else(PoisonError::into_inner).push(self.handle);
    }
}

/// Works on memory that the GPU reaches. The context is current whenever it is used.
pub(crate) struct OnDevice {
    engine: Arc<Engine>,
    arithmetic: Arithmetic,
    stream: Handle,
    /// Whether anything has been given since the thread was named, and the first failure.
    is_given: bool,
    failure: Option<Failure>,
}

impl OnDevice {
    pub(crate) fn new(engine: Arc<Engine>, arithmetic: Arithmetic) -> OnDevice {
        let stream = engine.stream(0);
        OnDevice { engine, arithmetic, stream, is_given: false, failure: None }
    }

    fn keep(&mut self, done: Result<(), Failure>) {
        self.is_given = true;
        self.failure = self.failure.take().or(done.err());
    }

    /// Gives a kernel, with the parameters that are addresses, the factor or the number of ranks, and the number of elements.
    ///
    /// # Safety
    /// As for [`Worker`].
    unsafe fn launch(&mut self, kernel: Kernel, addresses: &[Address], constant: Option<[u8; 8]>, bytes: usize) {
        let data_type = self.arithmetic.data_type();
        let mut elements = (bytes / data_type.size()) as u64;
        if elements == 0 {
            return;
        }
        let (mut addresses, mut constant) = (addresses.to_vec(), constant);
        let mut parameters: Vec<*mut c_void> = addresses.iter_mut().map(|address| (&raw mut *address).cast()).collect();
        parameters.extend(constant.as_mut().map(|constant| (&raw mut *constant).cast::<c_void>()));
        parameters.push((&raw mut elements).cast());
        // SAFETY: the caller's promise; constants are as long as an element at least.
        let done = unsafe { self.engine.gpu.launch((data_type, kernel), &mut parameters, elements, self.stream) };
        self.keep(done);
    }
}

impl Worker for OnDevice {
    type Given = Event;

    fn rooms(&mut self, place: u32, sizes: [usize; 4]) -> Result<Rooms, Failure> {
        let needed = Engine::needed(sizes);
        let memory = self.engine.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, bytes) = memory.last().copied().unwrap_or_default();
        if needed > bytes {
            let message = format!("a call needs {needed} bytes of the GPU, for which {bytes} were reserved");
            return Err(Failure::new(Cause::Device, message));
        }
        let mut at = start + u64::from(place) * (bytes as u64 / u64::from(WINDOW));
        Ok(sizes.map(|size| {
            let room = if size > 0 { at as *mut u8 } else { ptr::null_mut() };
            at += size.next_multiple_of(ALIGNMENT) as u64;
            room
        }))
    }

    fn on(&mut self, thread: usize) {
        (self.stream, self.is_given) = (self.engine.stream(thread), false);
    }

    unsafe fn copy(&mut self, to: *mut u8, from: *const u8, bytes: usize) {
        if bytes == 0 || to.cast_const() == from {
            return;
        }
        let driver = self.engine.gpu.context().driver;
        // The caller's promise.
        let done = call!(driver, copy_async(to as Address, from as Address, bytes, self.stream));
        self.keep(done);
    }

    unsafe fn scale(&mut self, to: *mut u8, from: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.arithmetic.factor() {
                Some(factor) => self.launch(Kernel::Scale, &[to as Address, from as Address], Some(factor), bytes),
                None => self.copy(to, from, bytes),
            }
        }
    }

    unsafe fn reduce(&mut self, to: *mut u8, received: *const u8, local: *const u8, scaled: bool, bytes: usize) {
        let addresses = [to as Address, received as Address, local as Address];
        let factor = if scaled { self.arithmetic.factor() } else { None };
        let kernel = if factor.is_some() { Kernel::ScaledAdd } else { Kernel::of(self.arithmetic.reduction()) };
        // SAFETY: the caller's promise.
        unsafe { self.launch(kernel, &addresses, factor, bytes) };
    }

    unsafe fn divide(&mut self, to: *mut u8, bytes: usize) {
        if self.arithmetic.reduction() == Reduction::Avg && self.arithmetic.divides() {
            let ranks = u64::from(self.arithmetic.ranks()).to_ne_bytes();
            // SAFETY: the caller's promise.
            unsafe { self.launch(Kernel::Divide, &[to as Address], Some(ranks), bytes) };
        }
    }

    fn given(&mut self) -> Result<Option<Event>, Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if !self.is_given {
            return Ok(None);
        }
        let event = self.engine.record(self.stream, 0)?;
        self.is_given = false;
        Ok(Some(event))
    }

    fn is_done(&mut self, given: &Event) -> Result<bool, Failure> {
        given.is_done()
    }
}
