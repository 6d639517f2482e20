//! How the I/O thread of a communicator is asked to look again.
//!
//! A word says whether the thread sleeps, runs, or has been asked. Who asks has to wake the thread only if it sleeps,
//! so that asking costs no system call while it runs. All uses of the word read and write it at once, each taking what
//! the one before has put there: so the thread sees what was done before it was asked, although it was not woken.

use super::ring::Word;
use std::sync::atomic::{AtomicU32, Ordering};

const ASLEEP: u32 = 0;
const AWAKE: u32 = 1;
const ASKED: u32 = 2;

/// The word.
#[derive(Debug)]
pub struct Wake<W = AtomicU32>(W);

impl<W: Word> Wake<W> {
    /// That of a thread which is about to look. `word` makes the word, of its value.
    pub fn new(word: impl FnOnce(u32) -> W) -> Wake<W> {
        Wake(word(AWAKE))
    }

    /// Asks the thread to look again. Returns whether it has to be woken, which nobody else does.
    pub fn ask(&self) -> bool {
        self.0.swap(ASKED, Ordering::AcqRel) == ASLEEP
    }

    /// The thread announces that it is about to sleep. Returns false if it has been asked to look again, and must not.
    pub fn lie_down(&self) -> bool {
        self.0.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The thread is about to look. It sees what was done by those who have asked before.
    pub fn get_up(&self) {
        self.0.swap(AWAKE, Ordering::AcqRel);
    }
}
