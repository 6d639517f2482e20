//! The I/O thread of a communicator.

use super::link::{Broken, Link, Moved, SharedLanes};
use crate::bootstrap::{Cause, Failure, Session};
use crate::clock::{now, poll_limit};
use crate::transport::wake::Wake;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a broken connection waits for the control plane to tell why.
const EXPLANATION: Duration = Duration::from_millis(500);
/// How long closed connections may take to be closed by the other side too, so that nothing on the way is lost.
const CLOSING: Duration = Duration::from_secs(1);
/// How often it is looked whether the communicator has failed while a drain is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// What wakes the thread. Costs a system call only if it sleeps.
pub(super) struct Kick {
    wake: Wake,
    event: OwnedFd,
    wishes: Mutex<Wishes>,
    done: Condvar,
}

/// What the rank wants of the thread, beyond moving slots.
#[derive(Default)]
struct Wishes {
    /// Drains that have been asked for, and that are done.
    asked: u64,
    drained: u64,
    stop: bool,
    ended: bool,
}

impl Kick {
    pub fn new() -> Result<Kick, Failure> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Failure::system("a descriptor for events", error))?;
        Ok(Kick { wake: Wake::new(AtomicU32::new), event, wishes: Mutex::default(), done: Condvar::new() })
    }

    /// Lets the thread look at all rings.
    pub fn kick(&self) {
        if self.wake.ask() {
            // It is readable already if its count is at the highest, which is the only error.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Waits until everything in rings has been sent, or the thread has ended.
    pub fn drain(&self) {
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        wishes.asked += 1;
        let wanted = wishes.asked;
        self.kick();
        while wishes.drained < wanted && !wishes.ended {
            wishes = self.done.wait(wishes).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the thread end, when it has sent what is in rings.
    pub fn stop(&self) {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.kick();
    }
}

/// The state of the thread.
pub(super) struct Engine {
    /// None, when the connection is closed.
    links: Vec<(Option<Link>, Arc<SharedLanes>)>,
    kick: Arc<Kick>,
    session: Arc<Session>,
    bell: Box<dyn Fn() + Send + Sync>,
    /// Broken connections: the peers, why, and when to report it.
    broken: Vec<(u32, String, Instant)>,
    /// When to send no more, once the thread has been told to stop.
    stop_by: Option<Instant>,
    /// When all connections are closed at the latest, once there is nothing more to send.
    closing: Option<Instant>,
}

impl Engine {
    pub fn new(
        links: Vec<(Link, Arc<SharedLanes>)>,
        kick: Arc<Kick>,
        session: Arc<Session>,
        bell: Box<dyn Fn() + Send + Sync>,
    ) -> Engine {
        let links = links.into_iter().map(|(link, lanes)| (Some(link), lanes)).collect();
        Engine { links, kick, session, bell, broken: Vec::new(), stop_by: None, closing: None }
    }

    pub fn run(mut self) {
        let mut readable = vec![false; self.links.len()];
        loop {
            let mut moved = Moved::default();
            for (place, readable) in readable.iter_mut().enumerate() {
                let now = self.serve(place, std::mem::take(readable));
                moved.ring |= now.ring;
                moved.again |= now.again;
            }
            if moved.ring {
                (self.bell)();
            }
            self.explain();
            let deadline = match self.wishes() {
                Next::End => break,
                Next::Wait(deadline) => deadline,
            };
            self.wait(moved.again, deadline, &mut readable);
        }
        self.kick.wishes.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.kick.done.notify_all();
    }

    /// Receives from and sends to a peer what there is.
    fn serve(&mut self, place: usize, readable: bool) -> Moved {
        let (link, lanes) = &mut self.links[place];
        let Some(open) = link else { return Moved::default() };
        open.absorb(lanes);
        let received = if readable { open.receive(lanes) } else { Ok(Moved::default()) };
        let both = received.and_then(|received| {
            let sent = open.send()?;
            Ok(Moved { ring: received.ring || sent.ring, again: received.again || sent.again })
        });
        let (peer, rank) = (open.peer, self.session.rank());
        let explained_by = now() + EXPLANATION;
        match both {
            Ok(moved) => return moved,
            Err(Broken::Closed) => self.broken.push((peer, "it has been closed".to_owned(), explained_by)),
            Err(Broken::Because(why)) => self.broken.push((peer, why, explained_by)),
            Err(Broken::Malformed(what)) => {
                let message = format!("rank {peer} has sent {what} to rank {rank}");
                self.session.accuse(Failure::new(Cause::System, message).of_rank(peer));
            }
            Err(Broken::NoMemory(failure)) => self.session.accuse(failure.of_rank(rank)),
        }
        *link = None;
        Moved { ring: true, again: false }
    }

    /// Reports connections that are broken without a reason that the control plane knows.
    fn explain(&mut self) {
        if self.broken.is_empty() {
            return;
        }
        let now = now();
        let (session, closing) = (&self.session, self.closing.is_some());
        self.broken.retain(|(peer, why, until)| {
            if closing || session.has_left(*peer) || session.failure().is_some() {
                return false;
            }
            if now < *until {
                return true;
            }
            let rank = session.rank();
            let message = format!("the connection between ranks {rank} and {peer} is broken: {why}");
            session.accuse(Failure::new(Cause::Died, message).of_rank(*peer));
            false
        });
    }

    /// Looks after what the rank wants, and says how long to wait.
    fn wishes(&mut self) -> Next {
        let mut deadline = self.broken.iter().map(|(_, _, until)| *until).min();
        let mut wishes = self.kick.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        if !wishes.stop && wishes.drained == wishes.asked {
            return Next::Wait(deadline);
        }
        let failed = self.session.failure().is_some();
        if wishes.stop {
            self.stop_by.get_or_insert(now() + self.session.timeout());
        }
        let late = self.stop_by.is_some_and(|by| now() >= by);
        let open = || self.links.iter().filter_map(|(link, _)| link.as_ref());
        if failed || late || open().all(|link| link.drained() || self.session.has_left(link.peer)) {
            wishes.drained = wishes.asked;
            self.kick.done.notify_all();
            if wishes.stop && self.closing.is_none() {
                self.closing = Some(now() + CLOSING);
                for link in open() {
                    // It is closed already, if this fails.
                    let _ = link.stream().shutdown(Shutdown::Write);
                }
            }
        } else {
            deadline = Some(now() + LOOK);
        }
        if let Some(closing) = self.closing {
            if failed || open().next().is_none() || now() >= closing {
                return Next::End;
            }
            return Next::Wait(Some(closing));
        }
        Next::Wait(deadline)
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self, again: bool, deadline: Option<Instant>, readable: &mut [bool]) {
        let kick = &self.kick;
        // Whoever asks from here on finds the thread asleep, and wakes it.
        let asked = !kick.wake.lie_down();
        let limit = if again || asked { Some(now()) } else { deadline };
        let mut polled = vec![PollFd::new(&kick.event, PollFlags::IN)];
        let mut places = Vec::new();
        for (place, (link, _)) in self.links.iter().enumerate() {
            if let Some(link) = link {
                let events = if link.full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
                polled.push(PollFd::new(link.stream(), events));
                places.push(place);
            }
        }
        // Interrupted, most likely: all is looked at again.
        let _ = poll(&mut polled, poll_limit(now(), limit).as_ref());
        kick.wake.get_up();
        if !polled[0].revents().is_empty() {
            // Only empties it.
            let _ = rustix::io::read(&kick.event, &mut [0_u8; 8]);
        }
        let events: Vec<PollFlags> = polled[1..].iter().map(PollFd::revents).collect();
        for (events, place) in events.into_iter().zip(places) {
            readable[place] = events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
            if let Some(link) = &mut self.links[place].0 {
                link.full &= !events.contains(PollFlags::OUT);
            }
        }
    }
}

/// What comes after a turn.
enum Next {
    End,
    Wait(Option<Instant>),
}
