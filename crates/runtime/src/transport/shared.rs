//! Connections through memory that processes of a host share.
//!
//! Each rank has a *segment*: a file in memory without a name (`memfd`), which vanishes with the last process that has it open.
//! It begins with a page for a token, the rank's bell, and a count for memory of its GPU, followed by the rings that others write to, by sender and lane. The
//! file is as large as all of them together, but has memory only where a ring is used. Peers open it through
//! `/proc/PID/fd`, which needs the same user, and find the token there that its owner has told them.

use super::bell::Bell;
use super::ring::{Mapped, RING_BYTES, Reader, Writer};
use super::{Lane, Peer};
use crate::bootstrap::{Cause, Failure};
use crate::plan::MAX_THREADS;
use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create, open};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Bytes in front of the rings: the token and the bell.
const HEAD_BYTES: usize = 4096;
/// Where the bell is among them.
const BELL_AT: usize = 128;
/// Where the number of ranks is that have let the owner's GPU go.
const RELEASED_AT: usize = 512;
/// Lanes of a sender.
const LANES: usize = MAX_THREADS as usize + 1;

/// The random bytes by which a segment is recognised.
pub type Token = [u8; 32];

fn refused(what: &str, error: rustix::io::Errno) -> Failure {
    Failure::new(Cause::System, format!("{what}: {error}"))
}

/// Memory that is mapped until it is dropped.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is an address range; whoever uses what is in it sees to the order of uses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}
impl Mapped for Mapping {}

impl Mapping {
    fn new(file: &OwnedFd, offset: usize, bytes: usize) -> Result<Mapping, Failure> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses an address where nothing is.
        let start = unsafe { mmap(ptr::null_mut(), bytes, access, flags, file, offset as u64) };
        let start = start.map_err(|error| refused("memory that is shared with other ranks cannot be mapped", error))?;
        Ok(Mapping { start: NonNull::new(start.cast()).expect("a mapping is not at address 0"), bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody refers to the memory any more who does not hold this. An error would mean that it was not mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The segment of a rank, its own or that of another rank.
pub struct Segment {
    file: OwnedFd,
    head: Mapping,
}

impl Segment {
    /// A segment for messages from so many ranks.
    ///
    /// # Errors
    /// A [`Failure`], if the system has no memory.
    pub fn create(ranks: u32, token: &Token) -> Result<Segment, Failure> {
        let what = "there is no memory to share with other ranks";
        let file = memfd_create(c"syncline", MemfdFlags::CLOEXEC).map_err(|error| refused(what, error))?;
        let bytes = HEAD_BYTES + ranks as usize * LANES * RING_BYTES;
        ftruncate(&file, bytes as u64).map_err(|error| refused(what, error))?;
        let head = Mapping::new(&file, 0, HEAD_BYTES)?;
        // SAFETY: the head has room for the token, and nobody else knows of it yet.
        unsafe { head.start.cast::<Token>().write(*token) };
        Ok(Segment { file, head })
    }

    /// The segment of a process, by the number of its file there; nothing, if it is not on this host, or not the one with the token.
    pub fn of_process(process: u32, number: i32, token: &Token) -> Option<Segment> {
        let path = format!("/proc/{process}/fd/{number}");
        let file = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let is_large = rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_size >= HEAD_BYTES as i64);
        let head = is_large.then(|| Mapping::new(&file, 0, HEAD_BYTES).ok()).flatten()?;
        // SAFETY: the head has room for the token, which does not change after its owner has told of it.
        let found = unsafe { head.start.cast::<Token>().read() };
        (found == *token).then_some(Segment { file, head })
    }

    /// The number of the file in this process.
    pub fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// The bell of the segment's rank.
    pub fn bell(&self) -> &Bell {
        // SAFETY: the head has room for a bell, which is aligned there; zeros are one that has not rung.
        unsafe { self.head.start.add(BELL_AT).cast::<Bell>().as_ref() }
    }

    /// How many ranks no longer write to memory of the owner's GPU.
    pub fn released(&self) -> &AtomicU32 {
        // SAFETY: the head has room for the number, which is aligned there; zeros are 0.
        unsafe { self.head.start.add(RELEASED_AT).cast::<AtomicU32>().as_ref() }
    }

    fn ring(&self, sender: u32, lane: Lane) -> Result<(NonNull<u8>, Arc<dyn Mapped>), Failure> {
        let number = sender as usize * LANES + usize::from(lane);
        let mapping = Mapping::new(&self.file, HEAD_BYTES + number * RING_BYTES, RING_BYTES)?;
        Ok((mapping.start, Arc::new(mapping)))
    }
}

/// A peer on the same host.
pub struct Neighbour {
    own_rank: u32,
    peer_rank: u32,
    own: Arc<Segment>,
    peer: Arc<Segment>,
}

impl Neighbour {
    /// The peer with that rank and segment, as the rank with the other one sees it.
    pub fn new((own_rank, own): (u32, Arc<Segment>), (peer_rank, peer): (u32, Arc<Segment>)) -> Neighbour {
        Neighbour { own_rank, peer_rank, own, peer }
    }
}

impl Peer for Neighbour {
    fn outbound(&self, lane: Lane) -> Result<Writer, Failure> {
        let (start, mapping) = self.peer.ring(self.own_rank, lane)?;
        // SAFETY: a ring of the peer's segment is for one sender and lane, and was zero when the segment was made.
        Ok(unsafe { Writer::new(start, mapping) })
    }

    fn inbound(&self, lane: Lane) -> Result<Reader, Failure> {
        let (start, mapping) = self.own.ring(self.peer_rank, lane)?;
        // SAFETY: as above.
        Ok(unsafe { Reader::new(start, mapping) })
    }

    fn notify(&self) {
        self.peer.bell().ring();
    }

    fn shared(&self) -> Option<&Segment> {
        Some(&self.peer)
    }

    fn name(&self) -> &'static str {
        "shared memory"
    }
}
