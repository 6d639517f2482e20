//! Communicators of the process, by the handles that programs hold.
//!
//! A handle is a number with a mark in its upper bits that no address of memory has (bits 47 and up are neither all 0
//! nor all 1), and is never used twice. So any value that is no handle is found out without being followed: garbage,
//! a communicator that has been destroyed, or one of NCCL's own.

use crate::abi::{Comm, result};
use crate::error::Error;
use crate::executors::Executor;
use std::collections::BTreeMap;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::thread;
use std::time::Duration;

/// The mark of handles, in the upper bits.
const MARK: usize = 0x5953 << MARK_AT;
const MARK_AT: u32 = 48;
/// What a handle is a multiple of, as addresses of structures are.
const STEP: usize = 16;

/// A rank's membership in a communicator, as a program holds it.
pub(crate) struct Member {
    handle: usize,
    process: u32,
    /// Its rank and the number of ranks. A split tells them at the end.
    place: OnceLock<(u32, u32)>,
    /// Set when the communicator is ready: in a group at its end.
    executor: OnceLock<Executor>,
}

static MEMBERS: RwLock<BTreeMap<usize, Arc<Member>>> = RwLock::new(BTreeMap::new());

impl Member {
    /// A new one, whose executor is not known yet.
    pub(crate) fn register(place: Option<(u32, u32)>) -> Result<Arc<Member>, Error> {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let handle = MARK | (NEXT.fetch_add(1, Ordering::Relaxed) * STEP);
        let member = Arc::new(Member {
            handle,
            process: process::id(),
            place: place.map_or_else(OnceLock::new, OnceLock::from),
            executor: OnceLock::new(),
        });
        write()?.insert(handle, member.clone());
        Ok(member)
    }

    /// What the program gets.
    pub(crate) fn handle(&self) -> Comm {
        self.handle as Comm
    }

    /// Its rank and the number of ranks, (0, 0) as long as they are not known.
    pub(crate) fn place(&self) -> (u32, u32) {
        self.place.get().copied().unwrap_or_default()
    }

    /// Sets rank and number of ranks.
    pub(crate) fn set_place(&self, rank: u32, ranks: u32) {
        // Only the job that makes the communicator does so.
        let _ = self.place.set((rank, ranks));
    }

    /// Sets the executor.
    pub(crate) fn serve(&self, executor: Executor) {
        // Only the job that makes the communicator does so.
        let _ = self.executor.set(executor);
    }

    /// The executor, once the communicator is ready.
    pub(crate) fn executor(&self) -> Result<&Executor, Error> {
        self.executor.get().ok_or_else(|| {
            Error::usage("the communicator is not ready: the group in which it is made has not ended, or has failed")
        })
    }

    /// Leaves the communicator, once and for all. What NCCL serves is left by NCCL.
    pub(crate) fn leave(&self) {
        if let Ok(Executor::Runtime(runtime)) = self.executor() {
            runtime.leave();
        }
    }

    /// Takes it out, so that the handle is of no more use.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        write()?.remove(&self.handle);
        Ok(())
    }
}

/// What a program has passed as a communicator.
pub(crate) enum Found {
    /// A communicator.
    Member(Arc<Member>),
    /// No handle of Syncline: garbage, or a communicator that NCCL itself has made.
    Foreign,
}

/// The communicator with a handle.
pub(crate) fn find(comm: Comm) -> Result<Found, Error> {
    if comm.is_null() {
        return Err(Error::argument("comm", "NULL", "a communicator"));
    }
    let member = read()?.get(&(comm as usize)).cloned();
    let Some(member) = member else {
        if comm as usize >> MARK_AT == MARK >> MARK_AT {
            return Err(Error::argument(
                "comm",
                format_args!("{comm:p}"),
                "a communicator that has not been destroyed",
            ));
        }
        return Ok(Found::Foreign);
    };
    let own = process::id();
    if member.process != own {
        let made = member.process;
        return Err(Error::usage(format!(
            "the communicator was made by process {made}; process {own}, which has been forked from it, cannot use it"
        )));
    }
    Ok(Found::Member(member))
}

/// The communicator with a handle, where NCCL's own are not accepted.
pub(crate) fn find_member(comm: Comm) -> Result<Arc<Member>, Error> {
    match find(comm)? {
        Found::Member(member) => Ok(member),
        Found::Foreign => Err(not_a_communicator(comm)),
    }
}

pub(crate) fn not_a_communicator(comm: Comm) -> Error {
    Error::argument("comm", format_args!("{comm:p}"), "a communicator of this process that has not been destroyed")
}

fn read() -> Result<RwLockReadGuard<'static, BTreeMap<usize, Arc<Member>>>, Error> {
    attempt(|| MEMBERS.try_read())
}

fn write() -> Result<RwLockWriteGuard<'static, BTreeMap<usize, Arc<Member>>>, Error> {
    attempt(|| MEMBERS.try_write())
}

/// Locks, with a limit: in a process that was forked while another thread held the lock, nobody will release it.
fn attempt<T>(lock: impl Fn() -> Result<T, TryLockError<T>>) -> Result<T, Error> {
    /// The lock is held for less than a microsecond each time.
    const TRIES: u32 = 20_000;
    for attempt in 0..TRIES {
        match lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if attempt < 100 => thread::yield_now(),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_micros(100)),
        }
    }
    let message = "the list of communicators is locked: the process was forked while another thread was making a call";
    Err(Error::new(result::INVALID_USAGE, message))
}
