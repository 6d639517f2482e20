//! The counts of a ring, the bell and the wake word of the I/O thread, in all interleavings of a writer and a reader.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;
use std::sync::atomic::Ordering;
use syncline_runtime::transport::bell::Bell;
use syncline_runtime::transport::ring::{Counts, Word};
use syncline_runtime::transport::wake::Wake;

/// Slots of the ring, few enough for all interleavings.
const SLOTS: u32 = 2;

/// A word whose uses the model checker interleaves.
struct Modelled(AtomicU32);

impl Modelled {
    fn new(value: u32) -> Modelled {
        Modelled(AtomicU32::new(value))
    }
}

impl Word for Modelled {
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }
    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_add(value, order)
    }
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.0.swap(value, order)
    }
    fn compare_exchange(&self, expected: u32, value: u32, done: Ordering, not: Ordering) -> Result<u32, u32> {
        self.0.compare_exchange(expected, value, done, not)
    }
}

struct Shared {
    counts: Counts<Modelled, SLOTS>,
    /// The model checker reports it if both sides use a slot at once.
    slots: Vec<UnsafeCell<u32>>,
    to_reader: Bell<Modelled>,
    to_writer: Bell<Modelled>,
}

// SAFETY: that is what is tested: only one side uses a slot at a time.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    /// With counts that have come that far, in order to see them wrap around.
    fn new(start: u32) -> Arc<Shared> {
        Arc::new(Shared {
            counts: Counts::new(Modelled::new(start), Modelled::new(start)),
            slots: (0..SLOTS).map(|_| UnsafeCell::new(0)).collect(),
            to_reader: Bell::new(Modelled::new(0), Modelled::new(0)),
            to_writer: Bell::new(Modelled::new(0), Modelled::new(0)),
        })
    }

    fn slot(&self, number: u32) -> &UnsafeCell<u32> {
        &self.slots[(number % SLOTS) as usize]
    }
}

/// What a futex does: it goes on when the bell has rung since the count was read. The model checker finds the schedule in
/// which that never happens, if there is one, as a deadlock of this loop.
fn sleep(bell: &Bell<Modelled>, count: u32) {
    if bell.lie_down(count) {
        while bell.count() == count {
            thread::yield_now();
        }
    }
    bell.get_up();
}

#[test]
fn a_slot_is_never_used_by_both_sides_and_everything_arrives_in_order() {
    // The last slots are filled while the first are freed, and counts wrap around.
    const MESSAGES: u32 = SLOTS + 1;
    let start = 0u32.wrapping_sub(1);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let shared = Shared::new(start);
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                for message in 0..MESSAGES {
                    let number = start.wrapping_add(message);
                    while shared.counts.filled(number) == 0 {
                        thread::yield_now();
                    }
                    // SAFETY: the model checker tells if the writer uses it now.
                    shared.slot(number).with(|slot| assert_eq!(unsafe { *slot }, message + 1));
                    shared.counts.free(number.wrapping_add(1));
                }
            })
        };
        for message in 0..MESSAGES {
            let number = start.wrapping_add(message);
            while shared.counts.room(number) == 0 {
                thread::yield_now();
            }
            // SAFETY: the model checker tells if the reader uses it now.
            shared.slot(number).with_mut(|slot| unsafe { *slot = message + 1 });
            shared.counts.publish(number.wrapping_add(1));
        }
        reader.join().unwrap();
    });
}

#[test]
fn nobody_sleeps_through_what_it_waits_for() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new(0);
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                for message in 0..2 {
                    loop {
                        let count = shared.to_reader.count();
                        if shared.counts.filled(message) > 0 {
                            break;
                        }
                        sleep(&shared.to_reader, count);
                    }
                    shared.counts.free(message + 1);
                    shared.to_writer.add();
                }
            })
        };
        for message in 0..2 {
            shared.counts.publish(message + 1);
            shared.to_reader.add();
        }
        // All is freed in the end.
        loop {
            let count = shared.to_writer.count();
            if shared.counts.room(2) == SLOTS {
                break;
            }
            sleep(&shared.to_writer, count);
        }
        reader.join().unwrap();
    });
}

/// A rank, its I/O thread, and the descriptor for events that wakes the thread.
struct Io {
    counts: Counts<Modelled, SLOTS>,
    wake: Wake<Modelled>,
    event: AtomicU32,
}

impl Io {
    /// What a rank does when it has filled a slot.
    fn put(&self, message: u32) {
        self.counts.publish(message + 1);
        if self.wake.ask() {
            self.event.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the thread does when it has nothing to do. It sleeps until the descriptor is readable, which hands nothing
    /// over but the wish; the model checker finds the schedule in which that never comes as a deadlock of this loop.
    fn wait(&self) {
        if self.wake.lie_down() {
            while self.event.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
        }
        let is_readable = self.event.load(Ordering::Relaxed) > 0;
        self.wake.get_up();
        if is_readable {
            self.event.swap(0, Ordering::Relaxed);
        }
    }
}

#[test]
fn the_io_thread_never_sleeps_while_a_slot_waits_to_be_sent() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let io = Arc::new(Io {
            counts: Counts::new(Modelled::new(0), Modelled::new(0)),
            wake: Wake::new(Modelled::new),
            event: AtomicU32::new(0),
        });
        let thread = {
            let io = io.clone();
            thread::spawn(move || {
                for message in 0..2 {
                    while io.counts.filled(message) == 0 {
                        io.wait();
                    }
                    io.counts.free(message + 1);
                }
            })
        };
        (0..2).for_each(|message| io.put(message));
        thread.join().unwrap();
    });
}
