//! The connection to one peer: its lanes, what is being sent, and what is being received.

use super::frame::{Head, SLOT_HEAD};
use super::memory::ring;
use crate::bootstrap::Failure;
use crate::bootstrap::codec::Put;
use crate::transport::Lane;
use crate::transport::ring::{Label, Reader, SLOT_BYTES, SLOTS, Writer};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Payloads up to this are copied, to be sent together with others.
const SMALL: usize = 8 << 10;
/// Small frames are gathered up to this, in bytes.
const GATHERED: usize = 32 << 10;
/// What is read beyond a payload at a time, in bytes: what it has of the next payload is copied.
const BEYOND: usize = 8 << 10;
/// What is sent or received before other peers have their turn, in bytes.
const TURN: usize = 1 << 20;

/// Rings that one thread has made for the other.
#[derive(Default)]
pub(super) struct Lanes {
    /// Of the rank's threads, for the I/O thread.
    outbound: Vec<(Lane, Reader)>,
    inbound: Vec<(Lane, Writer)>,
    outbound_taken: Vec<Lane>,
    /// What the rank's threads have to read; none, if they have taken it.
    arriving: BTreeMap<Lane, Option<Reader>>,
}

/// What the rank's threads and the I/O thread share of a connection.
#[derive(Default)]
pub(super) struct SharedLanes(Mutex<Lanes>);

impl SharedLanes {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`crate::transport::Peer::outbound`]. None, if it has been taken before.
    pub fn outbound(&self, lane: Lane) -> Result<Option<Writer>, Failure> {
        let mut lanes = self.lanes();
        if lanes.outbound_taken.contains(&lane) {
            return Ok(None);
        }
        let (writer, reader) = ring()?;
        lanes.outbound_taken.push(lane);
        lanes.outbound.push((lane, reader));
        Ok(Some(writer))
    }

    /// See [`crate::transport::Peer::inbound`]. None, if it has been taken before.
    pub fn inbound(&self, lane: Lane) -> Result<Option<Reader>, Failure> {
        let mut lanes = self.lanes();
        if let Some(reader) = lanes.arriving.get_mut(&lane) {
            return Ok(reader.take());
        }
        let (writer, reader) = ring()?;
        lanes.arriving.insert(lane, None);
        lanes.inbound.push((lane, writer));
        Ok(Some(reader))
    }
}

/// A lane to the peer.
struct Outbound {
    reader: Reader,
    /// Slots that the peer has got and not freed.
    unfreed: u32,
}

/// A lane from the peer.
struct Inbound {
    writer: Writer,
    /// Slots that have arrived and have not been given back to the peer.
    held: u32,
}

impl Drop for Link {
    fn drop(&mut self) {
        // Even if a forked child still holds a copy of the socket. It is closed already, if this fails.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// The rank's threads have something to look at.
    pub ring: bool,
    /// There is more to do at once.
    pub again: bool,
}

/// Why a connection has ended.
#[derive(Debug)]
pub(super) enum Broken {
    /// The peer has closed it, between two frames.
    Closed,
    /// It is broken.
    Because(String),
    /// The peer has sent what makes no sense.
    Malformed(&'static str),
    /// There is no memory for a ring.
    NoMemory(Failure),
}

/// The connection, for the I/O thread.
pub(super) struct Link {
    pub peer: u32,
    stream: TcpStream,
    outbound: BTreeMap<Lane, Outbound>,
    inbound: BTreeMap<Lane, Inbound>,
    /// The lane that has been served last, for the others to have their turn.
    last: Lane,
    /// Frames that are to be sent before the payload of `large`, and how much of them is sent.
    gathered: Put,
    gathered_sent: usize,
    /// The lane of which a payload is being sent from its slot, its bytes, and how many are sent.
    large: Option<(Lane, usize, usize)>,
    /// The connection takes no more for now.
    pub full: bool,
    /// What has been read and not looked at.
    buffer: Box<[u8; BEYOND]>,
    unread: std::ops::Range<usize>,
    /// The slot that is being filled, and how much of it is.
    filling: Option<(Lane, Label, usize)>,
}

impl Link {
    pub fn new(peer: u32, stream: TcpStream) -> Link {
        Link {
            peer,
            stream,
            outbound: BTreeMap::new(),
            inbound: BTreeMap::new(),
            last: 0,
            gathered: Put::default(),
            gathered_sent: 0,
            large: None,
            full: false,
            buffer: Box::new([0; BEYOND]),
            unread: 0..0,
            filling: None,
        }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Takes over rings that the rank's threads have made.
    pub fn absorb(&mut self, shared: &SharedLanes) {
        let mut lanes = shared.lanes();
        for (lane, reader) in lanes.outbound.drain(..) {
            self.outbound.insert(lane, Outbound { reader, unfreed: 0 });
        }
        for (lane, writer) in lanes.inbound.drain(..) {
            self.inbound.insert(lane, Inbound { writer, held: 0 });
        }
    }

    /// Whether everything that the rank's threads have put into rings has been handed to the system.
    pub fn drained(&self) -> bool {
        self.gathered.0.is_empty()
            && self.large.is_none()
            && self.outbound.values().all(|lane| lane.reader.first().is_none())
    }

    /// Sends what there is to send, until the connection is full.
    pub fn send(&mut self) -> Result<Moved, Broken> {
        let mut moved = Moved::default();
        let mut sent = 0;
        while !self.full {
            if self.large.is_none() && self.gathered_sent == 0 {
                self.gather(&mut moved);
            }
            if self.gathered.0.is_empty() && self.large.is_none() {
                break;
            }
            if sent >= TURN {
                moved.again = true;
                break;
            }
            sent += self.write(&mut moved)?;
        }
        Ok(moved)
    }

    /// Gathers credits and small frames, up to a large one.
    fn gather(&mut self, moved: &mut Moved) {
        for (&lane, inbound) in &mut self.inbound {
            let filled = SLOTS - inbound.writer.room();
            let slots = inbound.held - filled;
            if slots > 0 {
                Head::Credit { lane, slots }.put(&mut self.gathered);
                inbound.held = filled;
            }
        }
        while self.large.is_none() && self.gathered.0.len() < GATHERED {
            let ready =
                |(_, outbound): &(&Lane, &Outbound)| outbound.unfreed < SLOTS && outbound.reader.first().is_some();
            let after = (std::ops::Bound::Excluded(self.last), std::ops::Bound::Unbounded);
            let next = self.outbound.range(after).find(ready).or_else(|| self.outbound.iter().find(ready));
            let Some((&lane, _)) = next else { return };
            self.last = lane;
            let Some(outbound) = self.outbound.get_mut(&lane) else { return };
            let Some((label, payload)) = outbound.reader.first() else { return };
            let bytes = (label.bytes as usize).min(SLOT_BYTES);
            Head::Slot { lane, label: Label { bytes: bytes as u32, ..label } }.put(&mut self.gathered);
            outbound.unfreed += 1;
            if bytes <= SMALL {
                // SAFETY: the slot is filled with `bytes`, and stays so until it is freed.
                self.gathered.raw(unsafe { std::slice::from_raw_parts(payload.as_ptr(), bytes) });
                outbound.reader.free();
                moved.ring = true;
            } else {
                self.large = Some((lane, bytes, 0));
            }
        }
    }

    /// Writes once, and returns how much.
    fn write(&mut self, moved: &mut Moved) -> Result<usize, Broken> {
        let mut payload: &[u8] = &[];
        if let Some((lane, bytes, sent)) = self.large
            && let Some((_, start)) = self.outbound.get(&lane).and_then(|outbound| outbound.reader.first())
        {
            // SAFETY: the slot is filled with `bytes`, and stays so until it is freed, below.
            payload = unsafe { &std::slice::from_raw_parts(start.as_ptr(), bytes)[sent..] };
        }
        let gathered = &self.gathered.0[self.gathered_sent..];
        let written = match self.stream.write_vectored(&[IoSlice::new(gathered), IoSlice::new(payload)]) {
            Ok(0) => return Err(Broken::Because("it takes no more".to_owned())),
            Ok(written) => written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.full = true;
                return Ok(0);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(Broken::Because(error.to_string())),
        };
        let of_gathered = written.min(gathered.len());
        self.gathered_sent += of_gathered;
        if self.gathered_sent == self.gathered.0.len() {
            self.gathered.0.clear();
            self.gathered_sent = 0;
        }
        if let Some((lane, bytes, sent)) = &mut self.large {
            *sent += written - of_gathered;
            if sent == bytes {
                if let Some(outbound) = self.outbound.get_mut(lane) {
                    outbound.reader.free();
                }
                self.large = None;
                moved.ring = true;
            }
        }
        Ok(written)
    }

    /// Receives what has come, into the slots of its lanes.
    pub fn receive(&mut self, shared: &SharedLanes) -> Result<Moved, Broken> {
        let mut moved = Moved::default();
        let mut received = 0;
        loop {
            self.distribute(shared, &mut moved)?;
            if received >= TURN {
                moved.again = true;
                return Ok(moved);
            }
            match self.read() {
                Ok(0) => {
                    let between = self.filling.is_none() && self.unread.is_empty();
                    let within = || Broken::Because("it has been closed within a message".to_owned());
                    return if moved.ring {
                        // What has come before counts; the end is found again at the next turn.
                        Ok(Moved { again: true, ..moved })
                    } else if between {
                        Err(Broken::Closed)
                    } else {
                        Err(within())
                    };
                }
                Ok(length) => received += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(moved),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Broken::Because(error.to_string())),
            }
        }
    }

    /// Reads once: into the slot that is being filled, and beyond it into the buffer. All of the buffer has been looked
    /// at, except the beginning of a head.
    fn read(&mut self) -> io::Result<usize> {
        let Some((lane, label, filled)) = self.filling else {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            let length = self.stream.read(&mut self.buffer[self.unread.end..])?;
            self.unread.end += length;
            return Ok(length);
        };
        let rest = match self.inbound.get_mut(&lane) {
            // SAFETY: the slot has room for SLOT_BYTES, `label.bytes` is no more, and nobody else touches it before it
            // is published.
            Some(inbound) => unsafe {
                let start = inbound.writer.payload().add(filled);
                std::slice::from_raw_parts_mut(start.as_ptr(), label.bytes as usize - filled)
            },
            None => &mut [],
        };
        let missing = rest.len();
        let length = self.stream.read_vectored(&mut [IoSliceMut::new(rest), IoSliceMut::new(&mut self.buffer[..])])?;
        let of_payload = length.min(missing);
        self.filling = Some((lane, label, filled + of_payload));
        self.unread = 0..length - of_payload;
        Ok(length)
    }

    /// Looks at what has been read, and publishes slots that are complete.
    fn distribute(&mut self, shared: &SharedLanes, moved: &mut Moved) -> Result<(), Broken> {
        let malformed = |what| Err(Broken::Malformed(what));
        loop {
            if let Some((lane, label, filled)) = self.filling {
                let Some(inbound) = self.inbound.get_mut(&lane) else { return malformed("a slot of no lane") };
                let copied = self.unread.len().min(label.bytes as usize - filled);
                let source = &self.buffer[self.unread.start..self.unread.start + copied];
                // SAFETY: as in `read`; the buffer is no part of the slot.
                unsafe {
                    let target = inbound.writer.payload().add(filled);
                    std::ptr::copy_nonoverlapping(source.as_ptr(), target.as_ptr(), copied);
                }
                self.unread.start += copied;
                if filled + copied < label.bytes as usize {
                    self.filling = Some((lane, label, filled + copied));
                    return Ok(());
                }
                inbound.writer.publish(label);
                inbound.held += 1;
                self.filling = None;
                moved.ring = true;
            }
            let Ok(head) = Head::take(&self.buffer[self.unread.clone()]) else {
                return malformed("what is no message of the data plane");
            };
            let Some((head, length)) = head else { return Ok(()) };
            debug_assert!(length <= SLOT_HEAD);
            self.unread.start += length;
            match head {
                Head::Credit { lane, slots } => match self.outbound.get_mut(&lane) {
                    Some(outbound) if outbound.unfreed >= slots => outbound.unfreed -= slots,
                    _ => return malformed("more slots back than it has got"),
                },
                Head::Slot { lane, label } => {
                    if !self.inbound.contains_key(&lane) {
                        self.arrive(lane, shared).map_err(Broken::NoMemory)?;
                    }
                    if self.inbound.get(&lane).is_none_or(|inbound| inbound.held >= SLOTS || inbound.writer.room() == 0)
                    {
                        return malformed("more messages than there are slots");
                    }
                    self.filling = Some((lane, label, 0));
                }
            }
        }
    }

    /// A message has come on a lane that the I/O thread does not know: makes its ring, unless the rank's threads have
    /// just done so.
    fn arrive(&mut self, lane: Lane, shared: &SharedLanes) -> Result<(), Failure> {
        self.absorb(shared);
        if self.inbound.contains_key(&lane) {
            return Ok(());
        }
        let mut lanes = shared.lanes();
        let writer = match lanes.inbound.iter().position(|(made, _)| *made == lane) {
            Some(place) => lanes.inbound.swap_remove(place).1,
            None => {
                let (writer, reader) = ring()?;
                lanes.arriving.insert(lane, Some(reader));
                writer
            }
        };
        self.inbound.insert(lane, Inbound { writer, held: 0 });
        Ok(())
    }
}
