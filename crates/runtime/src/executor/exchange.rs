//! Messages from one rank to another, outside of collectives.
//!
//! They use lane 0. Messages between two ranks match in the order in which they are sent and received.

use super::Progress;
use crate::bootstrap::{Cause, Failure};
use crate::transport::ring::{Label, Reader, SLOT_BYTES, Writer};
use crate::transport::{Lane, Peer};
use std::ptr;
use std::sync::Arc;

/// The lane of such messages.
const LANE: Lane = 0;

/// One direction of the messages between this rank and a peer. Each may be used by a thread of its own.
pub(crate) struct Line {
    peer: Arc<dyn Peer>,
    rank: u32,
    end: Option<End>,
    /// The number of the next message.
    next: u32,
}

/// The end of a lane that this rank has.
enum End {
    Writer(Writer),
    Reader(Reader),
}

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
    /// Its number among those of its line.
    number: u32,
    bytes: u64,
    done: u64,
    /// Slots so far. A message of no bytes takes one, too.
    slots: u32,
}

impl Line {
    /// A direction of the messages between this rank and the one with that number.
    pub(crate) fn new(peer: Arc<dyn Peer>, rank: u32) -> Line {
        Line { peer, rank, end: None, next: 0 }
    }

    /// The rank at the other end.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// The next message on this line, of so many bytes.
    ///
    /// # Safety
    /// The memory has so many bytes, and stays valid and otherwise unused until the message is through. All messages of a line
    /// go the same way.
    pub(crate) unsafe fn exchange(&mut self, side: Side, bytes: u64) -> Exchange {
        let number = self.next;
        self.next = number.wrapping_add(1);
        Exchange { side, number, bytes, done: 0, slots: 0 }
    }

    /// Brings a message on as far as possible.
    pub(crate) fn poll(&mut self, exchange: &mut Exchange) -> Result<Progress, Failure> {
        if self.end.is_none() {
            self.end = Some(match exchange.side {
                Side::Send(_) => End::Writer(self.peer.outbound(LANE)?),
                Side::Recv(_) => End::Reader(self.peer.inbound(LANE)?),
            });
        }
        let mut progress = Progress::Waits;
        while exchange.slots == 0 || exchange.done < exchange.bytes {
            let part = (exchange.bytes - exchange.done).min(SLOT_BYTES as u64) as usize;
            // The whole length is the digest, so that unequal lengths are found.
            let label = Label {
                bytes: part as u32,
                call: exchange.number,
                digest: exchange.bytes,
                chunk: exchange.slots,
                ..Label::default()
            };
            let done = exchange.done as usize;
            match (exchange.side, &mut self.end) {
                (Side::Send(from), Some(End::Writer(writer))) => {
                    if writer.room() == 0 {
                        return Ok(progress);
                    }
                    let payload = writer.payload().as_ptr();
                    // SAFETY: the message has the bytes that are left, and a slot takes as many.
                    unsafe { ptr::copy_nonoverlapping(from.wrapping_add(done), payload, part) };
                    writer.publish(label);
                }
                (Side::Recv(to), Some(End::Reader(reader))) => {
                    let Some((got, payload)) = reader.first() else { return Ok(progress) };
                    if got != label {
                        return Err(self.mismatch(exchange, got));
                    }
                    // SAFETY: as above.
                    unsafe { ptr::copy_nonoverlapping(payload.as_ptr(), to.wrapping_add(done), part) };
                    reader.free();
                }
                _ => unreachable!("all messages of a line go the same way"),
            }
            self.peer.notify();
            exchange.done += part as u64;
            exchange.slots += 1;
            progress = Progress::Moved;
        }
        Ok(Progress::Finished)
    }

    fn mismatch(&self, exchange: &Exchange, got: Label) -> Failure {
        let (rank, Exchange { number, bytes, .. }) = (self.rank, exchange);
        let message = format!("rank {rank} sent {} bytes as message {number}, where {bytes} were expected", got.digest);
        Failure::new(Cause::Mismatch, message).of_rank(rank)
    }
}
