//! Where NCCL writes communicators of its own, until they are ready for members of ours.
//!
//! In a group, NCCL writes them when its group ends, and nothing of them is known before.

use super::registry::Member;
use crate::abi::Comm;
use crate::error::Error;
use crate::executors::Executor;
use crate::executors::nccl::{self, Nccl};
use crate::log;
use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

/// Where NCCL writes a communicator, for one of ours.
pub(crate) struct Slot {
    member: Arc<Member>,
    comm: Box<Comm>,
}

impl Slot {
    /// For a communicator that is not ready yet.
    pub(crate) fn new(member: Arc<Member>) -> Slot {
        Slot { member, comm: Box::new(ptr::null_mut()) }
    }

    /// The place, which stays where it is until the slot is filled or dropped.
    pub(crate) fn place(&mut self) -> *mut Comm {
        &raw mut *self.comm
    }

    /// Takes what has been written. Without anything the communicator is forgotten.
    pub(crate) fn fill(self) -> Result<(), Error> {
        if self.comm.is_null() {
            return self.member.remove();
        }
        log::info(|| format!("a communicator is served by NCCL, as {:p}", *self.comm));
        self.member.serve(Executor::Nccl(Nccl::new(*self.comm)));
        Ok(())
    }
}

/// Ends NCCL's group, and takes the communicators that it has made.
pub(crate) fn end_nccl_group(slots: Vec<Slot>) -> Result<c_int, Error> {
    let function = nccl::function::<unsafe extern "C" fn() -> c_int>(c"ncclGroupEnd")?;
    // SAFETY: it takes nothing; where it writes communicators to lives until then.
    let ended = nccl::ask(Ok(function), |function| unsafe { function() });
    slots.into_iter().try_for_each(Slot::fill)?;
    ended
}
