//! How a rank that waits is woken.
//!
//! A bell is a word that counts rings, and a word that says whether anyone sleeps. Who waits reads the count, looks once more
//! whether there is something to do, announces that it sleeps, and sleeps as long as the count is what it was. Who rings adds to the count, and
//! wakes sleepers only if there are any, so that a ring costs no system call while the peer is awake.

use super::ring::Word;
use crate::clock::timespec;
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A bell, in memory that ranks share. Zeros are a bell that has not rung.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Bell<W = AtomicU32> {
    rung: W,
    sleepers: W,
}

impl<W: Word> Bell<W> {
    /// With these words.
    pub const fn new(rung: W, sleepers: W) -> Bell<W> {
        Bell { rung, sleepers }
    }

    /// How often it has rung: read it before looking whether there is something to do.
    pub fn count(&self) -> u32 {
        self.rung.load(Ordering::SeqCst)
    }

    /// Rings. Returns whether somebody has to be woken.
    pub fn add(&self) -> bool {
        self.rung.fetch_add(1, Ordering::SeqCst);
        self.sleepers.load(Ordering::SeqCst) > 0
    }

    /// Announces that the caller is about to sleep, which it must not if the bell has rung since `count` was read.
    pub fn lie_down(&self, count: u32) -> bool {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.rung.load(Ordering::SeqCst) == count
    }

    /// Takes the announcement back.
    pub fn get_up(&self) {
        self.sleepers.fetch_add(u32::MAX, Ordering::SeqCst);
    }
}

impl Bell {
    /// Rings, and wakes all who sleep.
    pub fn ring(&self) {
        if self.add() {
            // Nobody may sleep any more by now, which is no error.
            let _ = futex::wake(&self.rung, futex::Flags::empty(), i32::MAX as u32);
        }
    }

    /// Sleeps until the bell rings, unless it has rung since `count` was read, or until the time is over.
    pub fn sleep(&self, count: u32, most: Duration) {
        if self.lie_down(count) {
            let most = timespec(most);
            // Woken, rung meanwhile, interrupted or late: in all cases the caller looks again.
            let _ = futex::wait(&self.rung, futex::Flags::empty(), count, Some(&most));
        }
        self.get_up();
    }
}

/// Sleeps until one of several bells rings, unless one has rung since its count was read, or until the time is over. Returns
/// false, without having slept, where the system cannot do that (Linux before 5.16).
pub fn sleep_on_any(bells: &[(&Bell, u32)], most: Duration) -> bool {
    // All are announced, whether or not one of them has rung already.
    let still = bells.iter().fold(true, |still, (bell, count)| bell.lie_down(*count) && still);
    let mut could = true;
    if still {
        let waits: Vec<futex::Wait> = bells
            .iter()
            .map(|(bell, count)| {
                let mut wait = futex::Wait::new();
                wait.val = u64::from(*count);
                wait.uaddr = futex::WaitPtr::new(bell.rung.as_ptr().cast());
                wait.flags = futex::WaitFlags::SIZE_U32;
                wait
            })
            .collect();
        let end = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic) + timespec(most);
        let slept = futex::waitv(&waits, futex::WaitvFlags::empty(), Some(&end), rustix::thread::ClockId::Monotonic);
        could = slept != Err(rustix::io::Errno::NOSYS);
    }
    bells.iter().for_each(|(bell, _)| bell.get_up());
    could
}
