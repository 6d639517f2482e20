//! Payloads in memory of GPUs, between ranks of a host whose GPUs reach each other.
//!
//! Each rank has *slots on its GPU* for the first lanes of every rank, beside the rings in memory of the host, which keep labels and
//! counts. A sender writes into those of the receiver: by their address, if both are in one context of a process, else through the
//! handle that the driver gives for memory that other processes open (`cuIpcGetMemHandle`). Both sides have to know where a
//! payload is: the sender tries, and tells. Where it cannot, payloads stay in the ring.

use super::driver::{Address, IpcHandle, LAZY_PEER_ACCESS, call};
use super::gpu::{Context, Gpu};
use crate::bootstrap::process::Process;
use crate::bootstrap::{Cause, Failure, Options, Session};
use crate::transport::ring::{SLOT_BYTES, SLOTS};
use crate::transport::shared::Segment;
use crate::transport::{Lane, Peer};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Lanes of each rank that have such slots. Direct plans of a few ranks need no more; the others go through memory of the host.
const LANES: u32 = 16;
/// Bytes of the slots of a lane.
const LANE_BYTES: u64 = SLOTS as u64 * SLOT_BYTES as u64;

/// What a rank tells of its slots.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Offer {
    /// Equal where processes see each other's memory.
    host: u64,
    process: u32,
    context: usize,
    bus_id: String,
    address: Address,
    handle: Vec<u8>,
}

/// The slots on GPUs of this rank and of the ranks that it sends to.
pub(crate) struct Direct {
    own: Option<Memory>,
    rank: u32,
    /// Which ranks write to this one's slots.
    writers: Vec<bool>,
    /// Where the slots of each rank are, if this one writes to them.
    targets: Vec<Option<Target>>,
}

/// Slots of another rank, as this one reaches them.
struct Target {
    start: Address,
    /// If they have been opened by a handle, which is closed at the end.
    opened: Option<Context>,
    peer: Arc<dyn Peer>,
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(context) = self.opened {
            // What fails here has gone with the context.
            let _ = context.within(|| call!(context.driver, close_ipc(self.start)));
        }
        // All that this rank has given to its streams is done.
        if let Some(segment) = self.peer.shared() {
            segment.released().fetch_add(1, Ordering::Release);
        }
    }
}

/// Memory that other ranks write to, and may have open.
///
/// It must not be given back to the driver, nor be used for anything else, as long as they do. When the communicator goes it is kept,
/// and the next one of this context that needs as much takes it over once all who wrote to it have let it go. One who dies never does.
struct Memory {
    number: usize,
    start: Address,
    bytes: u64,
    /// Where ranks count who have let it go, and how many there are.
    segment: Arc<Segment>,
    writers: u32,
}

/// Memory of communicators that are gone.
static KEPT: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

impl Memory {
    /// The context is current.
    fn take(context: Context, bytes: u64, segment: Arc<Segment>) -> Result<Memory, Failure> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = |memory: &Memory| {
            let fits = (memory.number, memory.bytes) == (context.number(), bytes);
            fits && memory.segment.released().load(Ordering::Acquire) == memory.writers
        };
        let found = kept.iter().position(is_free).map(|found| kept.swap_remove(found));
        let start = match found {
            Some(memory) => memory.start,
            None => {
                let mut start = 0;
                // It writes an address.
                call!(context.driver, allocate(&raw mut start, bytes as usize))?;
                start
            }
        };
        Ok(Memory { number: context.number(), start, bytes, segment, writers: 0 })
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).extend(self.own.take());
    }
}

impl Direct {
    /// Offers slots, and opens those of others. All ranks of a communicator on GPUs take part. The segment is that of this
    /// rank.
    ///
    /// # Errors
    /// A [`Failure`] of the session, or if the GPU has no memory.
    pub(crate) fn meet(
        gpu: &Gpu,
        session: &Session,
        segment: &Arc<Segment>,
        peers: &[Arc<dyn Peer>],
        options: &Options,
    ) -> Result<Direct, Failure> {
        let (rank, ranks) = (session.rank(), session.ranks());
        let context = gpu.context();
        let this = Process::this();
        let lanes = if options.uses_peer_memory { LANES } else { 0 };
        let mut own = context.within(|| {
            if lanes == 0 || peers.iter().filter(|peer| peer.shared().is_some()).count() < 2 {
                return Ok(None);
            }
            Memory::take(context, u64::from(ranks * lanes) * LANE_BYTES, segment.clone()).map(Some)
        })?;
        let mut handle = IpcHandle { bytes: [0; 64] };
        // It writes a handle. A driver that gives none does not share memory; or the memory has gone with an earlier context.
        let mut ask = |start| context.within(|| call!(context.driver, ipc_handle(&raw mut handle, start)));
        if own.as_ref().map(|memory| memory.start).is_some_and(|start| ask(start).is_err()) {
            own = None;
        }
        let offer = own.as_ref().map(|memory| Offer {
            host: this.host(),
            process: this.pid(),
            context: context.number(),
            bus_id: gpu.bus_id().to_owned(),
            address: memory.start,
            handle: handle.bytes.to_vec(),
        });
        let told = session.exchange(&text(&offer)?)?;
        let offers: Vec<Option<Offer>> = told.iter().map(|text| read(text)).collect::<Result<_, _>>()?;
        let targets: Vec<Option<Target>> = (offers.iter().zip(peers))
            .map(|(offer, peer)| {
                let is_near = |offer: &&Offer| peer.shared().is_some() && offer.host == this.host();
                let (start, opened) = open(gpu, offer.as_ref().filter(is_near)?, this.pid())?;
                Some(Target { start, opened, peer: peer.clone() })
            })
            .collect();
        let reaches: Vec<bool> = targets.iter().map(Option::is_some).collect();
        let told = session.exchange(&text(&reaches)?)?;
        let reached: Vec<Vec<bool>> = told.iter().map(|text| read(text)).collect::<Result<_, _>>()?;
        let writers: Vec<bool> = reached.iter().map(|reaches| reaches.get(rank as usize) == Some(&true)).collect();
        if let Some(own) = &mut own {
            own.writers = writers.iter().filter(|writes| **writes).count() as u32;
        }
        Ok(Direct { own, rank, writers, targets })
    }

    /// Where payloads from a rank lie on this one's GPU, if they do.
    pub(crate) fn inbound(&self, peer: u32, lane: Lane) -> Option<Address> {
        let own = self.own.as_ref().filter(|_| self.writers[peer as usize])?;
        place(own.start, peer, lane)
    }

    /// Where payloads to a rank lie on its GPU, if they do.
    pub(crate) fn outbound(&self, peer: u32, lane: Lane) -> Option<Address> {
        place(self.targets[peer as usize].as_ref()?.start, self.rank, lane)
    }

    /// Whether this rank writes to slots on the GPU of another one.
    pub(crate) fn reaches(&self, peer: u32) -> bool {
        self.targets[peer as usize].is_some()
    }
}

/// Where the slots of a sender's lane begin.
fn place(start: Address, sender: u32, lane: Lane) -> Option<Address> {
    let lane = u32::from(lane);
    (lane < LANES).then(|| start + u64::from(sender * LANES + lane) * LANE_BYTES)
}

/// Opens the slots of another rank: where they are, and the context if they have been opened there. Nothing, if the driver does not reach them.
fn open(gpu: &Gpu, offer: &Offer, process: u32) -> Option<(Address, Option<Context>)> {
    let context = gpu.context();
    if offer.process == process {
        // Contexts of one process reach each other's memory only if they have been told to, which is the program's affair.
        return (offer.context == context.number()).then_some((offer.address, None));
    }
    let opened = context.within(|| {
        if offer.bus_id != gpu.bus_id() {
            let name = CString::new(offer.bus_id.clone()).map_err(|_| unreadable("a bus id with a zero"))?;
            let (mut theirs, mut can) = (0, 0);
            // It writes the number that the GPU has here, if it is visible to this process.
            call!(context.driver, device_by_bus_id(&raw mut theirs, name.as_ptr()))?;
            // It writes a number.
            call!(context.driver, can_access_peer(&raw mut can, gpu.ordinal(), theirs))?;
            if can == 0 {
                return Ok(None);
            }
        }
        let bytes = offer.handle.clone().try_into().map_err(|_| unreadable("a handle of another length"))?;
        let mut start = 0;
        // It writes an address.
        call!(context.driver, open_ipc(&raw mut start, IpcHandle { bytes }, LAZY_PEER_ACCESS))?;
        Ok(Some((start, Some(context))))
    });
    // Whatever the driver does not like, there is another way.
    opened.ok().flatten()
}

fn text(of: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(of).map_err(|error| Failure::new(Cause::System, error.to_string()))
}

fn read<T: for<'a> Deserialize<'a>>(text: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(text).map_err(unreadable)
}

fn unreadable(error: impl std::fmt::Display) -> Failure {
    Failure::new(Cause::System, format!("a rank has told of its GPU what cannot be read: {error}"))
}
