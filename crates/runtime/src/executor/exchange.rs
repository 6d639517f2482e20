//! Messages from one rank to another, outside of collectives.
//!
//! They use lane 0. Messages between two ranks match in the order in which they are sent and received.

use super::Progress;
use super::ports::Ports;
use crate::bootstrap::{Cause, Failure};
use crate::transport::ring::{Label, SLOT_BYTES};
use std::ptr;

const LANE: crate::transport::Lane = 0;

/// What is sent or received.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// From this memory.
    Send(*const u8),
    /// Into this memory.
    Recv(*mut u8),
}

/// A message that is under way.
#[derive(Debug)]
pub(crate) struct Exchange {
    side: Side,
    peer: u32,
    /// Its number among those that this rank sends to the peer, or receives from it.
    number: u32,
    bytes: u64,
    done: u64,
    /// Slots so far. A message of no bytes takes one, too.
    slots: u32,
}

impl Exchange {
    /// A message of so many bytes.
    ///
    /// # Safety
    /// The memory has so many bytes, and stays valid and otherwise unused until the message is through.
    pub(crate) unsafe fn new(side: Side, peer: u32, number: u32, bytes: u64) -> Exchange {
        Exchange { side, peer, number, bytes, done: 0, slots: 0 }
    }

    /// The rank at the other end.
    pub(crate) fn peer(&self) -> u32 {
        self.peer
    }

    /// Whether it is sent.
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.side, Side::Send(_))
    }

    /// Goes on as far as possible.
    pub(crate) fn poll(&mut self, ports: &mut Ports) -> Result<Progress, Failure> {
        let mut progress = Progress::Waits;
        while self.slots == 0 || self.done < self.bytes {
            let part = (self.bytes - self.done).min(SLOT_BYTES as u64) as usize;
            // The whole length is the digest, so that unequal lengths are found.
            let label = Label {
                bytes: part as u32,
                call: self.number,
                digest: self.bytes,
                chunk: self.slots,
                ..Label::default()
            };
            match self.side {
                Side::Send(from) => {
                    let writer = ports.writer(self.peer, LANE)?;
                    if writer.room() == 0 {
                        return Ok(progress);
                    }
                    // SAFETY: the message has the bytes that are left, and a slot takes as many.
                    unsafe {
                        ptr::copy_nonoverlapping(from.wrapping_add(self.done as usize), writer.payload().as_ptr(), part)
                    };
                    writer.publish(label);
                }
                Side::Recv(to) => {
                    let reader = ports.reader(self.peer, LANE)?;
                    let Some((got, payload)) = reader.first() else { return Ok(progress) };
                    if got != label {
                        return Err(self.mismatch(got));
                    }
                    // SAFETY: as above.
                    unsafe { ptr::copy_nonoverlapping(payload.as_ptr(), to.wrapping_add(self.done as usize), part) };
                    reader.free();
                }
            }
            ports.notify(self.peer);
            self.done += part as u64;
            self.slots += 1;
            progress = Progress::Moved;
        }
        Ok(Progress::Finished)
    }

    fn mismatch(&self, got: Label) -> Failure {
        let Exchange { peer, number, bytes, .. } = *self;
        let message = format!("rank {peer} sent {} bytes as message {number}, where {bytes} were expected", got.digest);
        Failure { cause: Cause::Mismatch, rank: Some(peer), call: None, message }
    }
}
