//! How peers find each other: the higher rank connects to the lower one, and both show the secret before anything else.

use super::frame::{GREETING_BYTES, Greeting};
use crate::bootstrap::connection::{Connection, stop_listening};
use crate::bootstrap::texts::{ranks as names, verb};
use crate::bootstrap::token::same_token;
use crate::bootstrap::{Cause, Failure, Options, Session, address};
use crate::clock::{now, poll_limit, seconds};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How often it is looked whether the communicator has failed meanwhile.
const LOOK: Duration = Duration::from_millis(100);
/// How long a connection may take to present itself, and how many may be about to.
const PRESENTATION: Duration = Duration::from_secs(10);
const STRANGERS: usize = 512;

/// Where a rank listens for its peers on other hosts. It stops when all have connected, or when it is dropped.
pub struct Listener {
    listener: TcpListener,
    at: SocketAddr,
}

impl Listener {
    /// Listens at an address that is chosen as that of the bootstrap server is.
    ///
    /// # Errors
    /// A [`Failure`], if the options are wrong or the system refuses.
    pub fn open(options: &Options) -> Result<Listener, Failure> {
        let address = address::choose(options)?;
        let refused =
            |error: std::io::Error| Failure::system(&format!("to listen for peers at {}", address.ip()), error);
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        rustix::net::listen(&listener, 4096).map_err(|error| refused(error.into()))?;
        let at = listener.local_addr().map_err(refused)?;
        Ok(Listener { listener, at })
    }

    /// Where it listens: to be published to the peers.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// Connections to all peers, each authenticated by both sides, and made not to block.
    pub(super) fn meet(
        self,
        session: &Session,
        peers: &BTreeMap<u32, SocketAddr>,
        timeout: Duration,
    ) -> Result<BTreeMap<u32, TcpStream>, Failure> {
        let met = self.await_all(session, peers, timeout);
        stop_listening(self.listener);
        met
    }

    fn await_all(
        &self,
        session: &Session,
        peers: &BTreeMap<u32, SocketAddr>,
        timeout: Duration,
    ) -> Result<BTreeMap<u32, TcpStream>, Failure> {
        let deadline = now() + timeout;
        let rank = session.rank();
        let mut strangers = VecDeque::new();
        // The lower ones take the connection before they accept it, so that nobody waits for anybody here.
        for (&peer, at) in peers.range(..rank) {
            let left = deadline.saturating_duration_since(now()).max(Duration::from_millis(1));
            let stream = TcpStream::connect_timeout(at, left).map_err(|error| {
                let message = format!("rank {rank} cannot connect to rank {peer} at {at}: {error}");
                session.failure().unwrap_or(Failure::new(Cause::Died, message).of_rank(peer))
            })?;
            let mut stranger = Stranger::new(stream, Some(peer), deadline)?;
            stranger.greet(session, peer);
            strangers.push_back(stranger);
        }
        let mut meeting = Meeting { listener: &self.listener, session, strangers, met: BTreeMap::new() };
        while meeting.met.len() < peers.len() {
            if let Some(failure) = session.failure() {
                return Err(failure);
            }
            if let Some(&peer) = peers.keys().find(|&&peer| !meeting.met.contains_key(&peer) && session.has_left(peer))
            {
                let message = format!("rank {peer} has left the communicator without connecting to rank {rank}");
                return Err(Failure::new(Cause::Aborted, message).of_rank(peer));
            }
            let now = now();
            if now >= deadline {
                let missing: Vec<u32> = peers.keys().filter(|peer| !meeting.met.contains_key(peer)).copied().collect();
                let has = verb(missing.len(), "has", "have");
                let message =
                    format!("{} {has} not connected to rank {rank} within {}", names(&missing), seconds(timeout));
                return Err(Failure::new(Cause::TimedOut, message).of_rank(missing[0]));
            }
            meeting.turn(deadline.min(now + LOOK), peers);
        }
        Ok(meeting.met)
    }
}

/// A connection that has not shown the secret.
struct Stranger {
    connection: Connection,
    /// Who it has to be, if this rank has made the connection.
    peer: Option<u32>,
    until: Instant,
}

impl Stranger {
    fn new(stream: TcpStream, peer: Option<u32>, until: Instant) -> Result<Stranger, Failure> {
        let connection = Connection::new(stream).map_err(|error| Failure::system("a connection to a peer", error))?;
        Ok(Stranger { connection, peer, until })
    }

    /// Sends the greeting. Nothing else has been sent on the connection, so that there is room for it.
    fn greet(&mut self, session: &Session, to: u32) -> bool {
        let greeting = Greeting { token: session.token(), from: session.rank(), to };
        self.connection.push_raw(&greeting.encode());
        self.connection.flush() && self.connection.unsent() == 0
    }
}

struct Meeting<'a> {
    listener: &'a TcpListener,
    session: &'a Session,
    strangers: VecDeque<Stranger>,
    met: BTreeMap<u32, TcpStream>,
}

impl Meeting<'_> {
    /// Waits for something to come, and looks at it.
    fn turn(&mut self, until: Instant, peers: &BTreeMap<u32, SocketAddr>) {
        let ready: Vec<bool> = {
            let mut polled = vec![PollFd::new(self.listener, PollFlags::IN)];
            polled.extend(self.strangers.iter().map(|stranger| PollFd::new(&stranger.connection, PollFlags::IN)));
            if poll(&mut polled, poll_limit(now(), Some(until)).as_ref()).is_err() {
                return;
            }
            polled.iter().map(|polled| !polled.revents().is_empty()).collect()
        };
        for place in (0..self.strangers.len()).rev() {
            if ready[place + 1] && !self.hear(place, peers) {
                self.strangers.remove(place);
            }
        }
        let now = now();
        self.strangers.retain(|stranger| stranger.until > now);
        if ready[0] {
            match self.listener.accept() {
                Ok((stream, _)) => self.strangers.extend(Stranger::new(stream, None, now + PRESENTATION)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // No more descriptors, most likely: there will be when strangers have gone.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
            let made_by_others = self.strangers.iter().filter(|stranger| stranger.peer.is_none()).count();
            if made_by_others > STRANGERS
                && let Some(oldest) = self.strangers.iter().position(|stranger| stranger.peer.is_none())
            {
                self.strangers.remove(oldest);
            }
        }
    }

    /// Reads the greeting of a stranger. Returns whether to go on with it.
    fn hear(&mut self, place: usize, peers: &BTreeMap<u32, SocketAddr>) -> bool {
        let Some(stranger) = self.strangers.get_mut(place) else { return true };
        // Not a byte more than the greeting is read: what follows is for the I/O thread.
        let open = stranger.connection.receive(GREETING_BYTES);
        let bytes = stranger.connection.unread();
        if bytes.len() < GREETING_BYTES {
            return open;
        }
        let Ok(greeting) = Greeting::decode(bytes) else { return false };
        let rank = self.session.rank();
        let expected = match stranger.peer {
            Some(peer) => greeting.from == peer,
            None => greeting.from > rank && peers.contains_key(&greeting.from),
        };
        let valid = same_token(&greeting.token, &self.session.token()) && greeting.to == rank && expected;
        if !valid || self.met.contains_key(&greeting.from) {
            return false;
        }
        if stranger.peer.is_none() && !stranger.greet(self.session, greeting.from) {
            return false;
        }
        let Some(stranger) = self.strangers.remove(place) else { return true };
        self.met.insert(greeting.from, stranger.connection.into_stream());
        true
    }
}
