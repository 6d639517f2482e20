//! Messages from one rank to another, outside of collectives.
//!
//! They use lane 0. Messages between two ranks match in the order in which they are sent and received.

use super::Progress;
use super::ports::{self, reader, writer};
use crate::bootstrap::{Cause, Failure};
use crate::device::engine::{Engine, Event};
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
    /// The GPU that messages come from and go to.
    engine: Option<Arc<Engine>>,
    end: Option<End>,
    /// The number of the next message.
    next: u32,
}

/// The end of a lane that this rank has.
enum End {
    Writer(ports::End<Writer>),
    Reader(ports::End<Reader>),
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
pub(crate) struct Exchange {
    side: Side,
    /// Its number among those of its line.
    number: u32,
    bytes: u64,
    done: u64,
    /// Slots so far. A message of no bytes takes one, too.
    slots: u32,
    /// What the next slot waits for, which is being copied from or to.
    copying: Option<Event>,
}

impl Exchange {
    /// The label of the next slot. The whole length is the digest, so that unequal lengths are found.
    fn label(&self, part: usize) -> Label {
        Label { bytes: part as u32, call: self.number, digest: self.bytes, chunk: self.slots, ..Label::default() }
    }

    /// Whether a copy is under way, which ends by itself.
    pub(crate) fn is_busy(&self) -> bool {
        self.copying.is_some()
    }
}

impl Line {
    /// A direction of the messages between this rank and the one with that number.
    pub(crate) fn new(peer: Arc<dyn Peer>, rank: u32, engine: Option<Arc<Engine>>) -> Line {
        Line { peer, rank, engine, end: None, next: 0 }
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
        Exchange { side, number, bytes, done: 0, slots: 0, copying: None }
    }

    /// Opens the connection, if it is not open.
    pub(crate) fn open(&mut self, is_sent: bool) -> Result<(), Failure> {
        if self.end.is_some() {
            return Ok(());
        }
        let (place, engine) = ((self.rank, LANE), self.engine.as_ref());
        let end = if is_sent {
            End::Writer(writer(&self.peer, place, engine)?)
        } else {
            End::Reader(reader(&self.peer, place, engine)?)
        };
        self.end = Some(end);
        Ok(())
    }

    /// Brings a message on as far as possible.
    pub(crate) fn poll(&mut self, exchange: &mut Exchange) -> Result<Progress, Failure> {
        self.open(matches!(exchange.side, Side::Send(_)))?;
        let mut progress = Progress::Waits;
        while exchange.slots == 0 || exchange.done < exchange.bytes {
            let part = (exchange.bytes - exchange.done).min(SLOT_BYTES as u64) as usize;
            if let Some(event) = &exchange.copying {
                if !event.is_done()? {
                    return Ok(progress);
                }
                exchange.copying = None;
            } else {
                if !self.begin(exchange, part)? {
                    return Ok(progress);
                }
                progress = Progress::Moved;
                if exchange.copying.is_some() {
                    continue;
                }
            }
            match &mut self.end {
                Some(End::Writer(writer)) => writer.ring.publish(exchange.label(part)),
                Some(End::Reader(reader)) => reader.ring.free(),
                None => {}
            }
            self.peer.notify();
            exchange.done += part as u64;
            exchange.slots += 1;
            progress = Progress::Moved;
        }
        Ok(Progress::Finished)
    }

    /// Copies to the next slot or from it, if it is there; a GPU may not have ended that when this returns.
    fn begin(&mut self, exchange: &mut Exchange, part: usize) -> Result<bool, Failure> {
        let done = exchange.done as usize;
        let (from, to) = match (exchange.side, &mut self.end) {
            (Side::Send(from), Some(End::Writer(writer))) => {
                if writer.ring.room() == 0 {
                    return Ok(false);
                }
                (from.wrapping_add(done), writer.ring.payload().as_ptr())
            }
            (Side::Recv(to), Some(End::Reader(reader))) => {
                let Some((got, payload)) = reader.ring.first() else { return Ok(false) };
                if got != exchange.label(part) {
                    return Err(self.mismatch(exchange, got));
                }
                (payload.as_ptr().cast_const(), to.wrapping_add(done))
            }
            _ => unreachable!("all messages of a line go the same way"),
        };
        match &self.engine {
            // SAFETY: the message has the bytes that are left, and a slot takes as many.
            Some(engine) if part > 0 => exchange.copying = Some(unsafe { engine.copy(self.stream(), to, from, part)? }),
            // SAFETY: as above.
            _ => unsafe { ptr::copy_nonoverlapping(from, to, part) },
        }
        Ok(true)
    }

    /// The stream for its copies.
    fn stream(&self) -> usize {
        2 * self.rank as usize + usize::from(matches!(self.end, Some(End::Writer(_))))
    }

    fn mismatch(&self, exchange: &Exchange, got: Label) -> Failure {
        let (rank, Exchange { number, bytes, .. }) = (self.rank, exchange);
        let message = format!("rank {rank} sent {} bytes as message {number}, where {bytes} were expected", got.digest);
        Failure::new(Cause::Mismatch, message).of_rank(rank)
    }
}
