//! Versions, errors, groups, and what a communicator knows.

use super::entry::{enter, exports, not_null};
use crate::abi::{Comm, VERSION, result};
use crate::communicators::registry::{Found, find, find_member, not_a_communicator};
use crate::error::{Error, describe, last};
use crate::executors::Executor;
use crate::executors::nccl;
use crate::{group, log};
use std::ffi::{c_char, c_int};

exports! {
    /// The code of the version whose interface this is.
    fn ncclGetVersion/pncclGetVersion(version: *mut c_int) {
        not_null("version", version)?;
        // SAFETY: the program's promise.
        unsafe { version.write(VERSION) };
        Ok(result::SUCCESS)
    }

    /// Opens a group of calls.
    fn ncclGroupStart/pncclGroupStart() {
        group::start();
        Ok(result::SUCCESS)
    }

    /// Closes a group of calls, and carries them out.
    fn ncclGroupEnd/pncclGroupEnd() {
        group::end()
    }

    /// The failure of a communicator, whether or not a call is under way.
    fn ncclCommGetAsyncError/pncclCommGetAsyncError(comm: Comm, async_error: *mut c_int) {
        not_null("asyncError", async_error)?;
        let member = match find(comm)? {
            Found::Member(member) => member,
            // NCCL asks itself, in threads of its own.
            Found::Foreign if nccl::is_loaded() => {
                // SAFETY: NCCL judges what is not ours.
                return nccl::ask(in_nccl(), |function| unsafe { function(comm, async_error) });
            }
            Found::Foreign => return Err(not_a_communicator(comm)),
        };
        let Ok(executor) = member.executor() else {
            // SAFETY: the program's promise.
            unsafe { async_error.write(result::IN_PROGRESS) };
            return Ok(result::SUCCESS);
        };
        match executor {
            Executor::Nccl(nccl) => {
                // SAFETY: the program's promise.
                nccl::ask(in_nccl(), |function| unsafe { function(nccl.comm(), async_error) })
            }
            Executor::Runtime(runtime) => {
                let code = runtime.failure().map_or(result::SUCCESS, |failure| {
                    let error = Error::of_failure(&failure, runtime.communicator().rank());
                    log::info(|| format!("ncclCommGetAsyncError finds: {} (result {})", error.message, error.code));
                    last::set(&error.message);
                    error.code
                });
                // SAFETY: the program's promise.
                unsafe { async_error.write(code) };
                Ok(result::SUCCESS)
            }
        }
    }

    /// How many ranks a communicator has.
    fn ncclCommCount/pncclCommCount(comm: Comm, count: *mut c_int) {
        not_null("count", count)?;
        match find_member(comm)?.executor()? {
            // SAFETY: the program's promise.
            Executor::Nccl(nccl) => nccl::ask(in_nccl(), |function| unsafe { function(nccl.comm(), count) }),
            Executor::Runtime(runtime) => {
                // SAFETY: as above.
                unsafe { count.write(runtime.communicator().ranks() as c_int) };
                Ok(result::SUCCESS)
            }
        }
    }

    /// The number of this rank.
    fn ncclCommUserRank/pncclCommUserRank(comm: Comm, rank: *mut c_int) {
        not_null("rank", rank)?;
        match find_member(comm)?.executor()? {
            // SAFETY: the program's promise.
            Executor::Nccl(nccl) => nccl::ask(in_nccl(), |function| unsafe { function(nccl.comm(), rank) }),
            Executor::Runtime(runtime) => {
                // SAFETY: as above.
                unsafe { rank.write(runtime.communicator().rank() as c_int) };
                Ok(result::SUCCESS)
            }
        }
    }

    /// The number of the GPU, -1 for memory of the host.
    fn ncclCommCuDevice/pncclCommCuDevice(comm: Comm, device: *mut c_int) {
        not_null("device", device)?;
        match find_member(comm)?.executor()? {
            // SAFETY: the program's promise.
            Executor::Nccl(nccl) => nccl::ask(in_nccl(), |function| unsafe { function(nccl.comm(), device) }),
            Executor::Runtime(runtime) => {
                let number = runtime.communicator().gpu().map_or(-1, |gpu| gpu.ordinal());
                // SAFETY: as above.
                unsafe { device.write(number) };
                Ok(result::SUCCESS)
            }
        }
    }
}

/// A sentence about a code.
#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    describe(code).as_ptr()
}

/// As `ncclGetErrorString`.
#[unsafe(no_mangle)]
extern "C" fn pncclGetErrorString(code: c_int) -> *const c_char {
    describe(code).as_ptr()
}

/// The text of the last failure of the process. It stays valid until the thread asks again.
#[unsafe(no_mangle)]
extern "C" fn ncclGetLastError(comm: Comm) -> *const c_char {
    last_error(comm)
}

/// As `ncclGetLastError`.
#[unsafe(no_mangle)]
extern "C" fn pncclGetLastError(comm: Comm) -> *const c_char {
    last_error(comm)
}

/// The failure of the communicator, if it has one; else the last of the process.
fn last_error(comm: Comm) -> *const c_char {
    let mut text = c"".as_ptr();
    enter("ncclGetLastError", || {
        if let Ok(Found::Member(member)) = find(comm)
            && let Ok(Executor::Runtime(runtime)) = member.executor()
            && let Some(failure) = runtime.failure()
        {
            last::set(&failure.message);
        }
        text = last::get();
        Ok(result::SUCCESS)
    });
    text
}
