//! A rank's membership in a communicator.

use super::calls::{Calls, Request};
use super::connection::{Connection, FRAME_BYTES};
use super::control::{Control, GOODBYE, Outbox, Shared, State};
use super::id::UniqueId;
use super::message::{FromRank, Front, Hello, PUBLICATION_BYTES, Wait};
use super::options::Options;
use super::process::{Process, pid};
use super::texts::{ranks as names, verb};
use super::token::TOKEN_BYTES;
use super::{Cause, Failure};
use crate::clock::{now, seconds};
use rustix::event::{EventfdFlags, eventfd};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The most bytes of a rank's part of an all-gather.
pub const EXCHANGE_BYTES: usize = FRAME_BYTES - 64;

/// How long a rank that judges by its own clock gives the server beyond the timeout.
const GRACE: Duration = Duration::from_secs(1);
/// How much of the time between two announcements counts: if there is more, it was this process that did not run.
const STEP: Duration = Duration::from_millis(500);
/// How long a rank that reports a failure waits for the verdict.
const VERDICT: Duration = Duration::from_secs(2);

/// A rank's membership in a communicator. It ends when it is dropped, with a goodbye.
pub struct Session {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    publications: Vec<Vec<u8>>,
    token: [u8; TOKEN_BYTES],
    timeout: Duration,
    /// The process that has joined.
    pid: u32,
    /// Held during an all-gather.
    exchanging: Mutex<()>,
    silence: Mutex<Silence>,
    announced: AtomicBool,
    gone: AtomicBool,
}

/// How long the server has been silent while this rank has waited and nothing has moved.
struct Silence {
    lasted: Duration,
    measured: Instant,
    progress: (u64, u64),
}

impl Session {
    /// Joins the communicator of an id as one of its ranks, and waits until all have.
    ///
    /// `publication` is what the others will see in [`Session::publications`], at most [`PUBLICATION_BYTES`]. `wake` is
    /// called, from another thread, when the communicator fails; it must not block, and must not use the session.
    ///
    /// # Errors
    /// A [`Failure`]: [`Cause::TimedOut`] with the ranks that have not joined within the join timeout;
    /// [`Cause::Argument`] on all ranks if two have the same number, one is out of range, they disagree about how many
    /// they are, or are of different versions; [`Cause::Died`] if one has died meanwhile, or the server does not exist
    /// any more.
    pub fn join(
        id: &UniqueId,
        rank: u32,
        ranks: u32,
        publication: &[u8],
        wake: Box<dyn Fn() + Send + Sync>,
        options: &Options,
    ) -> Result<Session, Failure> {
        if publication.len() > PUBLICATION_BYTES {
            let message = format!("a rank may publish {PUBLICATION_BYTES} bytes, not {}", publication.len());
            return Err(Failure::new(Cause::Argument, message));
        }
        let at = id.server();
        let deadline = now() + options.join_timeout + GRACE;
        let stream = TcpStream::connect_timeout(&at, options.join_timeout).map_err(|error| {
            Failure::new(
                Cause::Died,
                format!(
                    "no bootstrap server answers at {at} ({error}): the process that has created the id has ended, \
                     or all ranks have joined already, or have waited too long"
                ),
            )
        })?;
        let refused = |error: std::io::Error| Failure::system("a connection to the bootstrap server", error);
        let mut connection = Connection::new(stream).map_err(refused)?;
        let milliseconds = |duration: Duration| duration.as_millis().clamp(1, u128::from(u32::MAX)) as u64;
        let hello = Hello {
            front: Front::new(id.token(), rank, ranks),
            process: Process::this(),
            join_ms: milliseconds(options.join_timeout),
            call_ms: milliseconds(options.call_timeout),
            publication: publication.to_vec(),
        };
        connection.push(&hello.encode());
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| refused(error.into()))?;
        let shared = Arc::new(Shared {
            rank,
            ranks,
            calls: Calls::new(),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
            heard: AtomicBool::new(false),
            outbox: Mutex::new(Outbox::default()),
            kick,
            descriptor: AtomicI32::new(-1),
            wake,
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name(format!("syncline-rank{rank}"))
            .spawn(move || Control { shared: &of_thread, connection, watch: None }.run())
            .map_err(|error| Failure::system("a thread for the control plane", error))?;
        let mut session = Session {
            shared,
            thread: Some(thread),
            publications: Vec::new(),
            token: id.token(),
            timeout: options.call_timeout,
            pid: pid(),
            exchanging: Mutex::new(()),
            silence: Mutex::new(Silence { lasted: Duration::ZERO, measured: now(), progress: (0, 0) }),
            announced: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        };
        let joined = session.await_state(deadline, |state| state.joined.take());
        session.publications = joined?.ok_or_else(|| {
            let message =
                format!("the bootstrap server at {at} does not answer: its process is stopped or its host unreachable");
            Failure::new(Cause::TimedOut, message)
        })?;
        Ok(session)
    }

    /// Waits for something in the state, a failure (an error), or the end of the time (`None`).
    fn await_state<T>(
        &self,
        deadline: Instant,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let mut state = self.shared.state();
        loop {
            if let Some(taken) = take(&mut state) {
                return Ok(Some(taken));
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The number of this rank.
    pub fn rank(&self) -> u32 {
        self.shared.rank
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.shared.ranks
    }

    /// How long a call may wait without any progress, as this rank has been told.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What each rank has published.
    pub fn publications(&self) -> &[Vec<u8>] {
        &self.publications
    }

    /// The failure of the communicator, if there is one. Costs the load of a flag as long as there is none.
    pub fn failure(&self) -> Option<Failure> {
        if !self.shared.failed.load(Ordering::Acquire) {
            return None;
        }
        self.shared.state().failure.clone()
    }

    /// That the session belongs to this process and has not been left.
    ///
    /// # Errors
    /// A [`Failure`] that says what is wrong.
    pub(crate) fn usable(&self) -> Result<(), Failure> {
        if self.pid != pid() {
            return Err(Failure::new(Cause::Argument, "a communicator cannot be used in a forked process"));
        }
        if self.gone.load(Ordering::Relaxed) {
            let message = format!("rank {} has left the communicator", self.shared.rank);
            return Err(Failure::new(Cause::Argument, message));
        }
        Ok(())
    }

    /// An all-gather over the control plane: what each rank has passed, by rank. All ranks have to take part, in the
    /// same order.
    ///
    /// # Errors
    /// [`Cause::Argument`] above [`EXCHANGE_BYTES`]; [`Cause::TimedOut`] with the ranks that have not taken part within
    /// the timeout; the failure of the communicator.
    pub fn exchange(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        self.usable()?;
        if bytes.len() > EXCHANGE_BYTES {
            let message = format!("a rank may exchange {EXCHANGE_BYTES} bytes at a time, not {}", bytes.len());
            return Err(Failure::new(Cause::Argument, message));
        }
        let _alone = self.exchanging.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.shared.state().exchanges;
        self.shared.post(FromRank::Exchange { number, bytes: bytes.to_vec() });
        let deadline = now() + self.timeout;
        let gathered = self.await_state(deadline, |state| {
            let parts = state.exchanged.get(&number);
            let has = |rank: u32| parts.is_some_and(|parts| parts[rank as usize].is_some());
            if let Some(&rank) = state.left.iter().find(|&&rank| !has(rank)) {
                let message = format!("rank {rank} has left the communicator before exchange {number} of the set-up");
                return Some(Err(Failure::new(Cause::Aborted, message).of_rank(rank)));
            }
            if !(0..self.shared.ranks).all(has) {
                return None;
            }
            state.exchanges = number + 1;
            let parts = state.exchanged.remove(&number).unwrap_or_default();
            Some(Ok(parts.into_iter().flatten().collect()))
        })?;
        gathered.unwrap_or_else(|| Err(self.not_exchanged(number))).map_err(|failure| self.report(failure))
    }

    /// The failure that an all-gather has not ended in time.
    fn not_exchanged(&self, number: u32) -> Failure {
        let parts = self.shared.state().exchanged.get(&number).cloned().unwrap_or_default();
        let missing: Vec<u32> = (0..self.shared.ranks)
            .filter(|&rank| rank != self.shared.rank && parts.get(rank as usize).is_none_or(Option::is_none))
            .collect();
        let timeout = seconds(self.timeout);
        match missing.first() {
            Some(&first) => {
                let has = verb(missing.len(), "has", "have");
                let message = format!(
                    "{} {has} not taken part in exchange {number} of the set-up within {timeout}",
                    names(&missing)
                );
                Failure::new(Cause::TimedOut, message).of_rank(first)
            }
            None => {
                let message = format!("the bootstrap server has not answered in exchange {number} within {timeout}");
                Failure::new(Cause::TimedOut, message)
            }
        }
    }

    /// Notes that this rank makes a call. Calls are numbered from 0, in the same order on all ranks. No message is
    /// sent.
    ///
    /// # Errors
    /// [`Cause::Argument`] in a forked process, and after [`Session::leave`].
    pub fn begin(&self, call: u32, request: Request) -> Result<(), Failure> {
        self.usable()?;
        self.note(call, request);
        Ok(())
    }

    /// The same, where it has been asked just before whether the session is [`usable`](Session::usable).
    pub(crate) fn note(&self, call: u32, request: Request) {
        self.shared.calls.begin(call, request);
    }

    /// Notes that a call has ended here, well or not.
    pub fn end(&self, call: u32) {
        self.shared.calls.end(call);
        if self.announced.load(Ordering::Relaxed) {
            let mut outbox = self.shared.outbox();
            if outbox.announced.remove(&call) {
                outbox.push(FromRank::Done { call });
                self.announced.store(!outbox.announced.is_empty(), Ordering::Relaxed);
                drop(outbox);
                self.shared.kick();
            }
        }
    }

    /// Notes that a call has moved on here: to be called whenever a message has been sent or received in it. As long as
    /// any rank moves on, a call does not time out, however long it takes.
    pub fn advance(&self) {
        self.shared.calls.advance();
    }

    /// Announces that this rank has waited in a call for more than 50 ms, perhaps for a certain rank. To be called
    /// again about each 100 ms as long as it waits. [`Session::failure`] tells what comes of it.
    pub fn waiting(&self, call: u32, on: Option<u32>) {
        {
            let mut outbox = self.shared.outbox();
            outbox.announced.insert(call);
            self.announced.store(true, Ordering::Relaxed);
        }
        self.shared.post(FromRank::Waiting(Wait::Call { call, on }));
        self.judge(Some(call), on, 0);
    }

    /// As [`Session::waiting`], for a point-to-point message from or to a peer. `progress` is a number that changes
    /// whenever something has moved between the two.
    pub fn waiting_for_message(&self, peer: u32, progress: u64) {
        self.shared.post(FromRank::Waiting(Wait::Message { peer, progress }));
        self.judge(None, Some(peer), progress);
    }

    /// Gives up by this rank's own clock, if the server has been silent for longer than the timeout.
    fn judge(&self, call: Option<u32>, on: Option<u32>, progress: u64) {
        let progress = (self.shared.calls.progress(), progress);
        let lasted = {
            let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
            let now = now();
            let step = now.saturating_duration_since(silence.measured).min(STEP);
            silence.measured = now;
            if self.shared.heard.swap(false, Ordering::Relaxed) || silence.progress != progress {
                silence.progress = progress;
                silence.lasted = Duration::ZERO;
            } else {
                silence.lasted += step;
            }
            silence.lasted
        };
        if lasted < self.timeout + GRACE || self.shared.failed.load(Ordering::Acquire) {
            return;
        }
        let (ranks, left, closed) = {
            let state = self.shared.state();
            (state.ranks_of_process.clone(), state.left.clone(), state.closed)
        };
        let place = match call {
            Some(call) => format!("call {call}"),
            None => "a point-to-point message".to_owned(),
        };
        let timeout = seconds(self.timeout);
        let server = ranks.iter().find(|rank| !left.contains(rank)).copied();
        let failure = if closed {
            let message = match on {
                Some(on) => format!(
                    "rank {on}, which rank {} waits for in {place}, has sent nothing for {timeout}",
                    self.rank()
                ),
                None => format!("rank {} waits in {place}, which has made no progress for {timeout}", self.rank()),
            };
            Failure { rank: on, ..Failure::new(Cause::TimedOut, message) }
        } else if let Some(rank) = server {
            let message =
                format!("rank {rank} does not answer (its process is stopped or its host is unreachable) in {place}");
            Failure::new(Cause::TimedOut, message).of_rank(rank)
        } else {
            let message = format!(
                "the process that serves the control plane does not answer (it is stopped or its host is unreachable) \
                 in {place}"
            );
            Failure::new(Cause::TimedOut, message)
        };
        let failure = Failure { call, ..failure };
        self.shared.post(FromRank::Report(failure.clone()));
        self.shared.fail(failure);
    }

    /// Reports a failure that this rank has found, and returns the one that all ranks get: the first that the server
    /// hears of.
    pub fn report(&self, failure: Failure) -> Failure {
        if let Err(unusable) = self.usable() {
            return unusable;
        }
        let closed = self.shared.state().closed;
        if !closed {
            self.shared.post(FromRank::Report(failure.clone()));
            if let Err(verdict) = self.await_state(now() + VERDICT, |_| None::<()>) {
                return verdict;
            }
        }
        self.shared.fail(failure.clone());
        self.failure().unwrap_or(failure)
    }

    /// Reports a failure and does not wait for the verdict.
    pub(crate) fn accuse(&self, failure: Failure) {
        if self.shared.state().closed {
            self.shared.fail(failure);
        } else {
            self.shared.post(FromRank::Report(failure));
        }
    }

    /// Whether a rank has said goodbye.
    pub(crate) fn has_left(&self, rank: u32) -> bool {
        self.shared.state().left.contains(&rank)
    }

    /// The secret of the communicator.
    pub(crate) fn token(&self) -> [u8; TOKEN_BYTES] {
        self.token
    }

    /// Gives the communicator up: the calls of all ranks fail.
    pub fn abort(&self) {
        if self.usable().is_err() {
            return;
        }
        self.shared.post(FromRank::Abort);
        let rank = self.shared.rank;
        self.shared
            .fail(Failure::new(Cause::Aborted, format!("rank {rank} has aborted the communicator")).of_rank(rank));
    }

    /// Says goodbye: this rank makes no more calls. Returns when the server has heard it, or does not answer. Others go
    /// on.
    pub fn leave(&self) {
        if self.usable().is_err() || self.gone.swap(true, Ordering::Relaxed) {
            return;
        }
        let deadline = now() + GOODBYE;
        {
            let (calls, next) = self.shared.calls.last();
            let mut outbox = self.shared.outbox();
            outbox.push(FromRank::Leave { next, calls });
            outbox.quit = Some(deadline);
        }
        self.shared.kick();
        let mut state = self.shared.state();
        while !state.closed {
            let left = (deadline + GOODBYE).saturating_duration_since(now());
            if left.is_zero() {
                break;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.pid == pid() {
            self.leave();
            // It has not panicked, and if it has, there is nobody to tell.
            let _ = thread.join();
            return;
        }
        // A forked child: the thread does not exist here, and its locks may be held for ever. The socket is the
        // parent's as well, so that only this copy of the descriptor may be closed.
        std::mem::forget(thread);
        let descriptor = self.shared.descriptor.swap(-1, Ordering::SeqCst);
        if descriptor >= 0 {
            // SAFETY: the thread that owns the descriptor does not exist in this process, and so nobody else will use
            // or close it.
            unsafe { rustix::io::close(descriptor) };
        }
    }
}
