//! The control thread of a rank: it alone reads and writes the rank's connection to the server.

use super::calls::Calls;
use super::connection::{Connection, FRAME_BYTES, HEAD};
use super::message::{FromRank, FromServer};
use super::{Cause, Failure};
use crate::clock::{now, poll_limit};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a goodbye may take.
pub(crate) const GOODBYE: Duration = Duration::from_secs(1);
/// All-gathers that ranks may be ahead.
const AHEAD: usize = 4;

/// What the control thread and the threads of the rank share.
pub(crate) struct Shared {
    pub rank: u32,
    pub ranks: u32,
    pub calls: Calls,
    pub state: Mutex<State>,
    /// When the state has changed.
    pub changed: Condvar,
    /// Whether there is a failure: a look at this costs less than one at the state.
    pub failed: AtomicBool,
    /// Whether the server has been heard since this was last set to false.
    pub heard: AtomicBool,
    pub outbox: Mutex<Outbox>,
    /// Becomes readable when something is in the outbox.
    pub kick: OwnedFd,
    /// The descriptor of the connection while it is open, else -1.
    pub descriptor: AtomicI32,
    pub wake: Box<dyn Fn() + Send + Sync>,
}

/// What the server has told.
#[derive(Default)]
pub(crate) struct State {
    pub failure: Option<Failure>,
    /// By rank, once the server has said that all have joined.
    publications: Vec<Option<Vec<u8>>>,
    /// That all publications have come; they are here until they are taken.
    welcomed: bool,
    pub joined: Option<Vec<Vec<u8>>>,
    /// Parts of all-gathers, by number and rank.
    pub exchanged: BTreeMap<u32, Vec<Option<Vec<u8>>>>,
    /// All-gathers that are over.
    pub exchanges: u32,
    /// The ranks in the process of the server.
    pub ranks_of_process: Vec<u32>,
    pub left: BTreeSet<u32>,
    /// The connection is closed.
    pub closed: bool,
}

/// What the rank has to tell.
#[derive(Default)]
pub(crate) struct Outbox {
    messages: Vec<FromRank>,
    /// The connection is to be closed, by then even if the server has not closed it.
    pub quit: Option<Instant>,
    /// Calls of which has been announced that this rank waits in them.
    pub announced: BTreeSet<u32>,
    /// Nobody sends any more what is put here.
    closed: bool,
}

impl Outbox {
    pub fn push(&mut self, message: FromRank) {
        if !self.closed {
            self.messages.push(message);
        }
    }
}

impl Shared {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message, by the control thread.
    pub fn post(&self, message: FromRank) {
        self.outbox().push(message);
        self.kick();
    }

    pub fn kick(&self) {
        // It is readable already if its count is at the highest, which is the only error.
        let _ = rustix::io::write(&self.kick, &1_u64.to_ne_bytes());
    }

    /// Sets the failure, unless there is one, and wakes all who wait.
    pub fn fail(&self, failure: Failure) {
        {
            let mut state = self.state();
            if state.failure.is_some() {
                return;
            }
            state.failure = Some(failure);
            self.failed.store(true, Ordering::Release);
        }
        self.changed.notify_all();
        (self.wake)();
    }
}

/// The connection, and what else the thread alone needs.
pub(crate) struct Control<'a> {
    pub shared: &'a Shared,
    pub connection: Connection,
    /// Readable when the server's process has ended, if that is on this host.
    pub watch: Option<OwnedFd>,
}

impl Control<'_> {
    /// Serves the connection until it is closed.
    pub fn run(mut self) {
        self.shared.descriptor.store(self.connection.stream().as_raw_fd(), Ordering::SeqCst);
        while self.turn() {}
        self.shared.descriptor.store(-1, Ordering::SeqCst);
        self.connection.close();
        self.shared.outbox().closed = true;
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
    }

    /// Sends, waits, and receives. Returns whether there is more to do.
    fn turn(&mut self) -> bool {
        let (messages, quit) = {
            let mut outbox = self.shared.outbox();
            (std::mem::take(&mut outbox.messages), outbox.quit)
        };
        for message in messages {
            self.connection.push(&message.encode());
        }
        // If the connection is broken, reading says so too, behind what has arrived before.
        let broken = !self.connection.flush();
        let now = now();
        if quit.is_some_and(|quit| now >= quit) {
            return false;
        }
        let events =
            if self.connection.unsent() > 0 && !broken { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut polled = vec![PollFd::new(&self.shared.kick, PollFlags::IN), PollFd::new(&self.connection, events)];
        if let Some(watch) = &self.watch {
            polled.push(PollFd::new(watch, PollFlags::IN));
        }
        if poll(&mut polled, poll_limit(now, quit).as_ref()).is_err() {
            return true;
        }
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        if ready[0] {
            // Only empties it.
            let _ = rustix::io::read(&self.shared.kick, &mut [0_u8; 8]);
        }
        let ended = ready.get(2) == Some(&true);
        if ready[1] || ended { self.receive(ended) } else { true }
    }

    /// Reads what has come; all, if the server's process has ended. Returns whether the connection still stands.
    fn receive(&mut self, ended: bool) -> bool {
        loop {
            let before = self.connection.unread().len();
            let open = self.connection.receive(HEAD + FRAME_BYTES);
            let more = self.connection.unread().len() > before;
            if !self.take_frames() {
                let message = "the bootstrap server has sent what is no message of the control plane";
                self.shared.fail(Failure::new(Cause::System, message));
                return false;
            }
            if !open || (ended && !more) {
                self.lost();
                return false;
            }
            if !ended {
                return true;
            }
        }
    }

    /// Returns whether all that has come are messages.
    fn take_frames(&mut self) -> bool {
        loop {
            let message = match self.connection.frame() {
                Ok(Some(content)) => FromServer::decode(content),
                Ok(None) => return true,
                Err(_) => return false,
            };
            let Ok(message) = message else { return false };
            self.shared.heard.store(true, Ordering::Relaxed);
            if !self.obey(message) {
                return false;
            }
        }
    }

    /// Does what the server says. Returns whether it makes sense.
    fn obey(&mut self, message: FromServer) -> bool {
        let shared = self.shared;
        match message {
            FromServer::Welcome { process, ranks_of_process } => {
                let mut state = shared.state();
                if !state.publications.is_empty() || state.welcomed {
                    return false;
                }
                state.publications = vec![None; shared.ranks as usize];
                state.ranks_of_process = ranks_of_process;
                self.watch = process.watch();
            }
            FromServer::Publication { rank, bytes } => {
                let mut state = shared.state();
                let Some(publication @ None) = state.publications.get_mut(rank as usize) else { return false };
                *publication = Some(bytes);
                if state.publications.iter().all(Option::is_some) {
                    state.welcomed = true;
                    state.joined = Some(std::mem::take(&mut state.publications).into_iter().flatten().collect());
                    shared.changed.notify_all();
                }
            }
            FromServer::Exchanged { rank, number, bytes } => {
                let mut state = shared.state();
                if number < state.exchanges {
                    return true;
                }
                let parts = state.exchanged.entry(number).or_insert_with(|| vec![None; shared.ranks as usize]);
                let Some(part @ None) = parts.get_mut(rank as usize) else { return false };
                *part = Some(bytes);
                shared.changed.notify_all();
                return state.exchanged.len() <= AHEAD;
            }
            FromServer::Inquire { call: Some(call) } => {
                let (entry, next) = shared.calls.entry(call);
                let answer = FromRank::Answer { call, entry, next, progress: shared.calls.progress() };
                self.connection.push(&answer.encode());
            }
            FromServer::Inquire { call: None } => self.connection.push(&FromRank::Here.encode()),
            FromServer::Heard => {}
            FromServer::Left { rank } => {
                shared.state().left.insert(rank);
            }
            FromServer::Verdict(failure) => shared.fail(failure),
        }
        true
    }

    /// The server is gone.
    fn lost(&self) {
        let shared = self.shared;
        if shared.outbox().quit.is_some() {
            return;
        }
        let (welcomed, ranks, left) = {
            let state = shared.state();
            (state.welcomed, state.ranks_of_process.clone(), state.left.clone())
        };
        let ended = "its process, which serves the control plane, has ended, or its host cannot be reached";
        if !welcomed {
            let message = "the bootstrap server has closed the connection: its process has ended, \
                           or the id is of another communicator";
            shared.fail(Failure::new(Cause::Died, message));
        } else if let Some(&rank) = ranks.iter().find(|rank| !left.contains(rank)) {
            shared.fail(Failure::new(Cause::Died, format!("rank {rank} has died: {ended}")).of_rank(rank));
        } else if ranks.is_empty() {
            let message =
                "the process that has created the id of the communicator, and serves its control plane, has ended";
            shared.fail(Failure::new(Cause::Died, message));
        }
    }
}
