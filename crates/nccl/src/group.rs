//! Groups of calls.
//!
//! What a thread calls between `ncclGroupStart` and the outermost `ncclGroupEnd` is kept and done at that end: first
//! communicators are made, all at once; then calls are carried out, all at once; then communicators that the group
//! destroys are left. If any of the calls was refused, nothing of the group is done, and the end returns why.
//!
//! Calls that NCCL serves are not kept: NCCL gets them at once, in a group of its own that is opened before the first
//! of them.

use crate::abi::result;
use crate::communicators::jobs::{self, Job};
use crate::communicators::registry::Member;
use crate::communicators::slot::{Slot, end_nccl_group};
use crate::error::Error;
use crate::executors::nccl;
use crate::executors::runtime::{Call, carry_out};
use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::Arc;

/// What a thread has called in its group.
#[derive(Default)]
struct Group {
    /// How many groups are open, one in another.
    depth: u32,
    jobs: Vec<Job>,
    calls: Vec<Call>,
    /// Communicators that are left at the end.
    closing: Vec<Arc<Member>>,
    /// Whether NCCL's group is open, and the communicators that it makes.
    nccl_is_open: bool,
    slots: Vec<Slot>,
    /// The first call that was refused.
    error: Option<Error>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Opens a group.
pub(crate) fn start() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// Whether a group is open.
pub(crate) fn is_open() -> bool {
    GROUP.with_borrow(|group| group.depth > 0)
}

/// Keeps in mind that a call in the group was refused.
pub(crate) fn refuse(error: &Error) {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.error.get_or_insert_with(|| error.clone());
        }
    });
}

/// Closes a group, and does what is in it if it was the outermost one.
pub(crate) fn end() -> Result<c_int, Error> {
    let Some(group) = take()? else { return Ok(result::SUCCESS) };
    let Group { jobs, calls, closing, nccl_is_open, slots, error, .. } = group;
    if let Some(error) = error {
        jobs.iter().for_each(Job::discard);
        if nccl_is_open {
            // What NCCL has is closed in any case; the first error is the one that counts.
            let _ = end_nccl_group(slots);
        }
        return Err(Error { message: format!("a call of the group was refused: {}", error.message), ..error });
    }
    let mut code = result::SUCCESS;
    if nccl_is_open || !jobs.is_empty() {
        code = jobs::run(jobs, nccl_is_open, slots)?;
    }
    let done = carry_out(&calls);
    closing.iter().for_each(|member| member.leave());
    done.map(|()| code)
}

/// Closes a group without doing what is in it. Returns whether NCCL's group is open, which the caller has to close.
pub(crate) fn discard() -> Result<Option<(bool, Vec<Slot>)>, Error> {
    let Some(group) = take()? else { return Ok(None) };
    group.jobs.iter().for_each(Job::discard);
    if !group.nccl_is_open && !group.calls.is_empty() {
        return Err(Error::usage("an estimate of calls that Syncline carries out is not offered"));
    }
    Ok(Some((group.nccl_is_open, group.slots)))
}

/// Closes a group, and returns its content if it was the outermost one.
fn take() -> Result<Option<Group>, Error> {
    GROUP.with_borrow_mut(|group| match group.depth {
        0 => Err(Error::usage("ncclGroupEnd without ncclGroupStart")),
        1 => Ok(Some(std::mem::take(group))),
        _ => {
            group.depth -= 1;
            Ok(None)
        }
    })
}

/// Makes a call of the runtime: at once, or at the end of the group.
pub(crate) fn call(call: Call) -> Result<c_int, Error> {
    if is_open() {
        GROUP.with_borrow_mut(|group| group.calls.push(call));
        return Ok(result::SUCCESS);
    }
    carry_out(&[call]).map(|()| result::SUCCESS)
}

/// Makes communicators: at once, or at the end of the group.
pub(crate) fn make(new: Vec<Job>) -> Result<c_int, Error> {
    if is_open() {
        GROUP.with_borrow_mut(|group| group.jobs.extend(new));
        return Ok(result::SUCCESS);
    }
    jobs::run(new, false, Vec::new())
}

/// Leaves a communicator: at once, or at the end of the group.
pub(crate) fn close(member: Arc<Member>) {
    if is_open() {
        GROUP.with_borrow_mut(|group| group.closing.push(member));
    } else {
        member.leave();
    }
}

/// Makes a call of NCCL: at once, in its group if this thread's is open.
pub(crate) fn call_nccl<F>(function: Result<F, Error>, call: impl FnOnce(F) -> c_int) -> Result<c_int, Error> {
    let function = function?;
    open_nccl()?;
    nccl::ask(Ok(function), call)
}

/// Opens NCCL's group if this thread's is open, before a call that NCCL gets.
fn open_nccl() -> Result<(), Error> {
    if GROUP.with_borrow(|group| group.depth == 0 || group.nccl_is_open) {
        return Ok(());
    }
    nccl::start_group()?;
    GROUP.with_borrow_mut(|group| group.nccl_is_open = true);
    Ok(())
}

/// Keeps where NCCL writes a communicator until the group has ended; gives it back if no group is open.
pub(crate) fn keep(slot: Slot) -> Option<Slot> {
    GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Some(slot);
        }
        group.slots.push(slot);
        None
    })
}
