//! Rings of slots with one writer and one reader, in memory that both see.
//!
//! A ring is a [`Head`] and [`SLOTS`] slots. `written` counts the slots that the writer has ever filled and `freed` those that
//! the reader has given back, both modulo 2^32; each is written by one side only. What the writer puts into a slot happens before it adds to
//! `written` (release), which the reader reads (acquire) before it looks at the slot; `freed` is the same the other way.
//! Counting is apart from memory ([`Counts`], generic over its words) so that a model checker can try all interleavings.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Slots of a ring. A power of two, so that counts may wrap around.
pub const SLOTS: u32 = 4;
/// The most payload of a slot, in bytes.
pub const SLOT_BYTES: usize = 128 << 10;
/// Bytes between the payloads of two slots.
const STRIDE: usize = SLOT_BYTES + size_of::<Label>();
/// Memory that a ring takes, in bytes; a multiple of a page.
pub const RING_BYTES: usize = (size_of::<Head>() + SLOTS as usize * STRIDE).next_multiple_of(4096);

/// A word that two threads or processes share.
pub trait Word {
    /// Reads it.
    fn load(&self, order: Ordering) -> u32;
    /// Writes it.
    fn store(&self, value: u32, order: Ordering);
    /// Adds to it and returns what it was.
    fn fetch_add(&self, value: u32, order: Ordering) -> u32;
    /// Writes it and returns what it was.
    fn swap(&self, value: u32, order: Ordering) -> u32;
    /// Writes it if it is what is expected. Returns what it was, as an error if it was something else.
    ///
    /// # Errors
    /// What it is.
    fn compare_exchange(&self, expected: u32, value: u32, done: Ordering, not: Ordering) -> Result<u32, u32>;
}

impl Word for AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        AtomicU32::load(self, order)
    }
    fn store(&self, value: u32, order: Ordering) {
        AtomicU32::store(self, value, order);
    }
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        AtomicU32::fetch_add(self, value, order)
    }
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        AtomicU32::swap(self, value, order)
    }
    fn compare_exchange(&self, expected: u32, value: u32, done: Ordering, not: Ordering) -> Result<u32, u32> {
        AtomicU32::compare_exchange(self, expected, value, done, not)
    }
}

/// How many slots of `N` have been filled and freed. `N` is a power of two.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counts<W, const N: u32 = SLOTS> {
    written: Apart<W>,
    freed: Apart<W>,
}

/// What is on a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Apart<W>(W);

impl<W: Word, const N: u32> Counts<W, N> {
    /// With these words.
    pub const fn new(written: W, freed: W) -> Counts<W, N> {
        Counts { written: Apart(written), freed: Apart(freed) }
    }

    /// For the writer, which has filled `written` slots: how many it may fill.
    pub fn room(&self, written: u32) -> u32 {
        N - written.wrapping_sub(self.freed.0.load(Ordering::Acquire))
    }

    /// For the writer: that it has filled so many slots in all.
    pub fn publish(&self, written: u32) {
        self.written.0.store(written, Ordering::Release);
    }

    /// For the reader, which has freed `freed` slots: how many are filled beyond.
    pub fn filled(&self, freed: u32) -> u32 {
        self.written.0.load(Ordering::Acquire).wrapping_sub(freed)
    }

    /// For the reader: that it has freed so many slots in all.
    pub fn free(&self, freed: u32) {
        self.freed.0.store(freed, Ordering::Release);
    }
}

/// What is in front of the slots. Memory of zeros is the head of an empty ring.
type Head = Counts<AtomicU32>;

/// What a slot holds, in front of its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Label {
    /// Bytes of the payload.
    pub bytes: u32,
    /// The number of the call among those of its kind of lane: of the communicator's collectives, or of the point-to-point
    /// messages to the peer.
    pub call: u32,
    /// What the call is: [`crate::bootstrap::Signature::digest`].
    pub digest: u64,
    /// The part of the vector that it belongs to.
    pub chunk: u32,
    /// The phase of the plan.
    pub phase: u16,
    /// The thread of the step that takes it.
    pub thread: u16,
    /// The number of that step in its thread.
    pub pc: u32,
}

/// Memory that stays mapped as long as anyone holds it.
pub trait Mapped: Send + Sync {}

/// The memory of a ring.
#[derive(Clone)]
struct Memory {
    start: NonNull<u8>,
    /// Where payloads are, one behind the other, if they are not behind their labels.
    payloads: Option<NonNull<u8>>,
    _mapped: Arc<dyn Mapped>,
}

impl Memory {
    fn counts(&self) -> &Head {
        // SAFETY: whoever made this has mapped RING_BYTES, aligned to a page, which begin with a head.
        unsafe { self.start.cast().as_ref() }
    }

    /// The payload of a slot.
    fn payload(&self, number: u32) -> NonNull<u8> {
        match self.payloads {
            // SAFETY: there is room for SLOTS payloads, by the promise of who has named the place.
            Some(start) => unsafe { start.add((number % SLOTS) as usize * SLOT_BYTES) },
            // SAFETY: the payload lies behind the label, within the slot.
            None => unsafe { self.slot(number).add(size_of::<Label>()) },
        }
    }

    fn slot(&self, number: u32) -> NonNull<u8> {
        let offset = size_of::<Head>() + (number % SLOTS) as usize * STRIDE;
        // SAFETY: the offset is within RING_BYTES.
        unsafe { self.start.add(offset) }
    }
}

/// The side of a ring that fills slots.
pub struct Writer {
    memory: Memory,
    written: u32,
}

// SAFETY: the memory is shared by design, and one side alone writes each part of it at a time.
unsafe impl Send for Writer {}

impl Writer {
    /// The writer of a ring in memory of [`RING_BYTES`].
    ///
    /// # Safety
    /// `start` is aligned to 128 bytes and has [`RING_BYTES`] that stay valid while `mapped` is held, were zero at first, and
    /// have no other writer.
    pub unsafe fn new(start: NonNull<u8>, mapped: Arc<dyn Mapped>) -> Writer {
        Writer { memory: Memory { start, payloads: None, _mapped: mapped }, written: 0 }
    }

    /// Says that payloads are elsewhere, e.g. on a GPU, before the first slot is used. The other side is told the same.
    ///
    /// # Safety
    /// There are [`SLOTS`] times [`SLOT_BYTES`] bytes for nobody else, which stay as long as the ring is used.
    pub unsafe fn place_payloads(&mut self, start: NonNull<u8>) {
        self.memory.payloads = Some(start);
    }

    /// The memory of the ring: where it starts, and its length in bytes.
    pub fn memory(&self) -> (NonNull<u8>, usize) {
        (self.memory.start, RING_BYTES)
    }

    /// How many slots can be filled now.
    pub fn room(&self) -> u32 {
        self.memory.counts().room(self.written)
    }

    /// The payload of the next slot, for up to [`SLOT_BYTES`]. Only legal while there is [`Writer::room`].
    pub fn payload(&mut self) -> NonNull<u8> {
        self.memory.payload(self.written)
    }

    /// Publishes the next slot with what has been put into its payload.
    pub fn publish(&mut self, label: Label) {
        // SAFETY: slots are aligned to 64 bytes, and the reader does not look at this one before it is published.
        unsafe { self.memory.slot(self.written).cast::<Label>().write(label) };
        self.written = self.written.wrapping_add(1);
        self.memory.counts().publish(self.written);
    }
}

/// The side of a ring that empties slots.
pub struct Reader {
    memory: Memory,
    freed: u32,
}

// SAFETY: as for the writer.
unsafe impl Send for Reader {}

impl Reader {
    /// The reader of a ring in memory of [`RING_BYTES`].
    ///
    /// # Safety
    /// As for [`Writer::new`], with no other reader.
    pub unsafe fn new(start: NonNull<u8>, mapped: Arc<dyn Mapped>) -> Reader {
        Reader { memory: Memory { start, payloads: None, _mapped: mapped }, freed: 0 }
    }

    /// Says that payloads are elsewhere, e.g. on a GPU, before the first slot is used. The other side is told the same.
    ///
    /// # Safety
    /// There are [`SLOTS`] times [`SLOT_BYTES`] bytes for nobody else, which stay as long as the ring is used.
    pub unsafe fn place_payloads(&mut self, start: NonNull<u8>) {
        self.memory.payloads = Some(start);
    }

    /// The memory of the ring: where it starts, and its length in bytes.
    pub fn memory(&self) -> (NonNull<u8>, usize) {
        (self.memory.start, RING_BYTES)
    }

    /// The label and the payload of the oldest slot that is filled.
    pub fn first(&self) -> Option<(Label, NonNull<u8>)> {
        if self.memory.counts().filled(self.freed) == 0 {
            return None;
        }
        let slot = self.memory.slot(self.freed);
        // SAFETY: the slot is filled: the writer has written its label and will not touch it before it is freed.
        let label = unsafe { slot.cast::<Label>().read() };
        Some((label, self.memory.payload(self.freed)))
    }

    /// Gives the oldest filled slot back.
    pub fn free(&mut self) {
        self.freed = self.freed.wrapping_add(1);
        self.memory.counts().free(self.freed);
    }
}
