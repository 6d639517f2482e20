//! The connections of a rank to all others, opened when they are first used.

use super::Asked;
use crate::bootstrap::{Cause, Failure};
use crate::transport::ring::{Label, Reader, Writer};
use crate::transport::{Lane, Peer};
use std::sync::Arc;

/// Both directions of the connections to a peer, by lane.
#[derive(Default)]
struct Port {
    readers: Vec<Option<Reader>>,
    writers: Vec<Option<Writer>>,
}

/// The connections of a rank.
pub(crate) struct Ports {
    peers: Vec<Arc<dyn Peer>>,
    ports: Vec<Port>,
}

impl Ports {
    /// The connections to these peers, by rank; a rank is its own peer, too.
    pub(crate) fn new(peers: Vec<Arc<dyn Peer>>) -> Ports {
        let ports = peers.iter().map(|_| Port::default()).collect();
        Ports { peers, ports }
    }

    /// What a peer sends on a lane.
    pub(crate) fn reader(&mut self, peer: u32, lane: Lane) -> Result<&mut Reader, Failure> {
        let (peer, open) = (peer as usize, || self.peers[peer as usize].inbound(lane));
        opened(&mut self.ports[peer].readers, lane, open)
    }

    /// What takes messages to a peer on a lane.
    pub(crate) fn writer(&mut self, peer: u32, lane: Lane) -> Result<&mut Writer, Failure> {
        let (peer, open) = (peer as usize, || self.peers[peer as usize].outbound(lane));
        opened(&mut self.ports[peer].writers, lane, open)
    }

    /// Says to a peer that there is something for it, or room for more.
    pub(crate) fn notify(&self, peer: u32) {
        self.peers[peer as usize].notify();
    }
}

/// The side of a lane, opened if it was not.
fn opened<T>(
    sides: &mut Vec<Option<T>>,
    lane: Lane,
    open: impl FnOnce() -> Result<T, Failure>,
) -> Result<&mut T, Failure> {
    let lane = usize::from(lane);
    if sides.len() <= lane {
        sides.resize_with(lane + 1, || None);
    }
    if sides[lane].is_none() {
        sides[lane] = Some(open()?);
    }
    Ok(sides[lane].as_mut().expect("it has just been opened"))
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
