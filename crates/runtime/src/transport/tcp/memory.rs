//! Rings in memory of this process alone.

use crate::bootstrap::Failure;
use crate::transport::ring::{Mapped, RING_BYTES, Reader, Writer};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::NonNull;
use std::sync::Arc;

/// Pages of a ring.
struct Pages(NonNull<u8>);

// SAFETY: it only keeps the pages mapped; who may touch what in them is the matter of the ring.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Mapped for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages have been mapped by `ring`, and nobody uses them who does not hold this.
        // An error would mean that they were not mapped.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), RING_BYTES) };
    }
}

/// Both sides of a new ring. Pages that are never touched take no memory.
pub(super) fn ring() -> Result<(Writer, Reader), Failure> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: the system chooses a place where nothing is mapped.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), RING_BYTES, access, flags) }
        .map_err(|error| Failure::system("memory for a ring", error))?;
    let Some(start) = NonNull::new(start.cast::<u8>()) else {
        return Err(Failure::system("memory for a ring", "it is at address 0"));
    };
    let pages: Arc<dyn Mapped> = Arc::new(Pages(start));
    // SAFETY: there are RING_BYTES of zeros, aligned to a page, which stay mapped while `pages` is held; this is the
    // only writer.
    let writer = unsafe { Writer::new(start, Arc::clone(&pages)) };
    // SAFETY: as above; this is the only reader.
    let reader = unsafe { Reader::new(start, pages) };
    Ok((writer, reader))
}
