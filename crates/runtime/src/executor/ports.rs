//! The connections of a rank to all others, opened when they are first used.

use super::Asked;
use crate::bootstrap::{Cause, Failure};
use crate::device::Registered;
use crate::device::engine::Engine;
use crate::transport::ring::{Label, Reader, Writer};
use crate::transport::{Lane, Peer};
use std::sync::Arc;

/// Both directions of the connections to a peer, by lane.
#[derive(Default)]
struct Port {
    readers: Vec<Option<End<Reader>>>,
    writers: Vec<Option<End<Writer>>>,
}

/// The end of a connection that this rank has. The GPU lets go of its memory before that is given back.
pub(super) struct End<T> {
    _reached: Option<Registered>,
    pub(super) ring: T,
}

/// The connections of a rank.
pub(crate) struct Ports {
    peers: Vec<Arc<dyn Peer>>,
    ports: Vec<Port>,
    /// What reads from slots and writes to them, if that is a GPU.
    engine: Option<Arc<Engine>>,
}

impl Ports {
    /// The connections to these peers, by rank; a rank is its own peer, too.
    pub(crate) fn new(peers: Vec<Arc<dyn Peer>>, engine: Option<Arc<Engine>>) -> Ports {
        let ports = peers.iter().map(|_| Port::default()).collect();
        Ports { peers, ports, engine }
    }

    /// What a peer sends on a lane.
    pub(crate) fn reader(&mut self, peer: u32, lane: Lane) -> Result<&mut Reader, Failure> {
        let (port, engine) = (&mut self.ports[peer as usize], self.engine.as_ref());
        opened(&mut port.readers, lane, || reader(&self.peers[peer as usize], (peer, lane), engine))
    }

    /// What takes messages to a peer on a lane.
    pub(crate) fn writer(&mut self, peer: u32, lane: Lane) -> Result<&mut Writer, Failure> {
        let (port, engine) = (&mut self.ports[peer as usize], self.engine.as_ref());
        opened(&mut port.writers, lane, || writer(&self.peers[peer as usize], (peer, lane), engine))
    }

    /// Says to a peer that there is something for it, or room for more.
    pub(crate) fn notify(&self, peer: u32) {
        self.peers[peer as usize].notify();
    }
}

/// Opens what a peer sends on a lane. A GPU, if there is one, gets to reach it.
pub(super) fn reader(
    peer: &Arc<dyn Peer>,
    (rank, lane): (u32, Lane),
    engine: Option<&Arc<Engine>>,
) -> Result<End<Reader>, Failure> {
    let mut ring = peer.inbound(lane)?;
    let Some(engine) = engine else { return Ok(End { _reached: None, ring }) };
    if let Some(start) = engine.inbound(rank, lane) {
        // SAFETY: the slots are for this lane of this rank.
        unsafe { ring.place_payloads(start) };
        return Ok(End { _reached: None, ring });
    }
    let (start, bytes) = ring.memory();
    Ok(End { _reached: Some(engine.gpu().register(start, bytes)?), ring })
}

/// Opens what takes messages to a peer on a lane. A GPU, if there is one, gets to reach it.
pub(super) fn writer(
    peer: &Arc<dyn Peer>,
    (rank, lane): (u32, Lane),
    engine: Option<&Arc<Engine>>,
) -> Result<End<Writer>, Failure> {
    let mut ring = peer.outbound(lane)?;
    let Some(engine) = engine else { return Ok(End { _reached: None, ring }) };
    if let Some(start) = engine.outbound(rank, lane) {
        // SAFETY: the slots are for this lane of this rank.
        unsafe { ring.place_payloads(start) };
        return Ok(End { _reached: None, ring });
    }
    let (start, bytes) = ring.memory();
    Ok(End { _reached: Some(engine.gpu().register(start, bytes)?), ring })
}

/// The ring of a lane, opened if it was not.
fn opened<T>(
    ends: &mut Vec<Option<End<T>>>,
    lane: Lane,
    open: impl FnOnce() -> Result<End<T>, Failure>,
) -> Result<&mut T, Failure> {
    let lane = usize::from(lane);
    if ends.len() <= lane {
        ends.resize_with(lane + 1, || None);
    }
    if ends[lane].is_none() {
        ends[lane] = Some(open()?);
    }
    Ok(&mut ends[lane].as_mut().expect("it has just been opened").ring)
}

/// What it means that a message is not the one that is expected.
pub(crate) fn mismatch(from: u32, asked: &Asked, got: Label, expected: Label) -> Failure {
    let call = asked.call;
    let text = asked.request.signature().text;
    let message = if (got.call, got.digest) == (expected.call, expected.digest) {
        // Both ranks follow the same plan, so that this is a defect.
        format!("rank {from} sent {got:?} in call {call} ({text}), where {expected:?} was expected")
    } else {
        format!("rank {from} asked for something else than {text} in call {call}")
    };
    Failure::new(Cause::Mismatch, message).of_rank(from).in_call(call)
}
