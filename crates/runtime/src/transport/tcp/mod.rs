//! Messages between hosts, over one TCP connection for each pair of ranks.
//!
//! ```text
//!   executor ─▶ ring ─▶ I/O thread ─▶ TCP ─▶ I/O thread ─▶ ring ─▶ executor
//!                           ◀──────── credits ────────┘
//! ```
//!
//! Each side has rings of its own, in private memory, made when a lane is first used. One I/O thread of a communicator
//! moves slots between them and the connections to all peers; it sleeps in poll(2) when there is nothing to do. A peer
//! may have sent [`SLOTS`](super::ring::SLOTS) slots of a lane that the receiver's rank has not freed; freed slots are
//! given back as credits. So there is always room for what arrives, and a lane that nobody reads holds no other up.
//!
//! A slot's payload goes from the slot to the connection and from the connection into the slot without a copy in
//! between, except for small payloads, which are gathered to be sent together, and for the first few KiB of a payload
//! that follows another.
//!
//! What is left out: nothing is encrypted; a peer's data connection is authenticated by the token of the communicator
//! alone.

mod engine;
mod frame;
mod link;
mod meet;
mod memory;

pub use meet::Listener;

use super::ring::{Reader, Writer};
use super::{Lane, Peer};
use crate::bootstrap::process::pid;
use crate::bootstrap::{Cause, Failure, Options, Session};
use engine::{Engine, Kick};
use link::{Link, SharedLanes};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The connections of a rank to its peers on other hosts.
///
/// When it is dropped, it hands to the system what is still in its rings, and closes the connections. A rank leaves in
/// this order: [`Network::drain`], [`Session::leave`], and then this is dropped; peers who find a connection closed by
/// a rank that has not left take that for a fault after half a second.
pub struct Network {
    peers: BTreeMap<u32, Arc<TcpPeer>>,
    kick: Arc<Kick>,
    thread: Option<JoinHandle<()>>,
    /// The process that has made it.
    pid: u32,
}

/// A peer on another host.
struct TcpPeer {
    rank: u32,
    lanes: Arc<SharedLanes>,
    kick: Arc<Kick>,
}

impl Network {
    /// Connects to the peers, by rank, at the addresses that they have published, and waits until all are connected.
    /// They have to do the same.
    ///
    /// `bell` is called, from the I/O thread, when something has arrived or slots have become free; it must not block.
    ///
    /// # Errors
    /// A [`Failure`]: [`Cause::TimedOut`] with the peers that have not connected within the join timeout, or that of
    /// the communicator.
    pub fn connect(
        listener: Listener,
        session: &Arc<Session>,
        peers: &BTreeMap<u32, SocketAddr>,
        bell: Box<dyn Fn() + Send + Sync>,
        options: &Options,
    ) -> Result<Network, Failure> {
        let streams = listener.meet(session, peers, options.join_timeout)?;
        let kick = Arc::new(Kick::new()?);
        let mut links = Vec::new();
        let mut of_ranks = BTreeMap::new();
        for (rank, stream) in streams {
            let lanes = Arc::new(SharedLanes::default());
            links.push((Link::new(rank, stream), Arc::clone(&lanes)));
            of_ranks.insert(rank, Arc::new(TcpPeer { rank, lanes, kick: Arc::clone(&kick) }));
        }
        let engine = Engine::new(links, Arc::clone(&kick), Arc::clone(session), bell);
        let thread = thread::Builder::new()
            .name("syncline-tcp".to_owned())
            .spawn(move || engine.run())
            .map_err(|error| Failure::system("a thread for connections to peers", error))?;
        Ok(Network { peers: of_ranks, kick, thread: Some(thread), pid: pid() })
    }

    /// A peer, by rank.
    pub fn peer(&self, rank: u32) -> Option<Arc<dyn Peer>> {
        self.peers.get(&rank).map(|peer| Arc::clone(peer) as Arc<dyn Peer>)
    }

    /// Waits until all that has been put into rings has been handed to the system, the communicator has failed, or the
    /// connection is broken.
    pub fn drain(&self) {
        if self.pid == pid() {
            self.kick.drain();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.pid != pid() {
            // A forked child, in which the thread does not exist; the connections are the parent's.
            std::mem::forget(thread);
            return;
        }
        self.kick.stop();
        // It has not panicked, and if it has, there is nobody to tell.
        let _ = thread.join();
    }
}

impl TcpPeer {
    fn once<T>(&self, ring: Option<T>, lane: Lane, side: &str) -> Result<T, Failure> {
        ring.ok_or_else(|| {
            let message = format!("the ring {side} rank {} on lane {lane} is in use already", self.rank);
            Failure::new(Cause::Argument, message)
        })
    }
}

impl Peer for TcpPeer {
    fn outbound(&self, lane: Lane) -> Result<Writer, Failure> {
        let writer = self.once(self.lanes.outbound(lane)?, lane, "to");
        self.notify();
        writer
    }

    fn inbound(&self, lane: Lane) -> Result<Reader, Failure> {
        self.once(self.lanes.inbound(lane)?, lane, "from")
    }

    fn notify(&self) {
        self.kick.kick();
    }

    fn name(&self) -> &'static str {
        "TCP"
    }
}
