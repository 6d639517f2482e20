//! Why a call has failed, as a code of NCCL and a sentence.
//!
//! | [`Cause`] | `ncclResult_t` |
//! | --- | --- |
//! | a rank has died, or is silent for the timeout | `ncclRemoteError` |
//! | another rank has aborted or left | `ncclRemoteError` |
//! | this rank has aborted | `ncclInvalidUsage` |
//! | ranks have made different calls | `ncclInvalidUsage` |
//! | the system refuses something | `ncclSystemError` |
//! | a GPU or its driver fails | `ncclUnhandledCudaError` |
//! | a wrong argument or setting | `ncclInvalidArgument` |
//!
//! [`last`] keeps the sentence of the last failure of the process for `ncclGetLastError`, whichever thread asks.

use crate::abi::result;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use syncline_runtime::bootstrap::{Cause, Failure};

/// Why a call has failed.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    /// The code that the call returns.
    pub(crate) code: c_int,
    /// For a person.
    pub(crate) message: String,
}

impl Error {
    pub(crate) fn new(code: c_int, message: impl Into<String>) -> Error {
        Error { code, message: message.into() }
    }

    /// An argument has a value that is not accepted.
    pub(crate) fn argument(name: &str, value: impl std::fmt::Display, accepted: &str) -> Error {
        Error::new(result::INVALID_ARGUMENT, format!("{name} is {value}; accepted: {accepted}"))
    }

    /// The call is not allowed here.
    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error::new(result::INVALID_USAGE, message)
    }

    /// A failure of a communicator, as its rank `own` sees it.
    pub(crate) fn of_failure(failure: &Failure, own: u32) -> Error {
        let code = match failure.cause {
            Cause::Aborted if failure.rank == Some(own) => result::INVALID_USAGE,
            Cause::Died | Cause::TimedOut | Cause::Aborted => result::REMOTE,
            Cause::Mismatch => result::INVALID_USAGE,
            Cause::System => result::SYSTEM,
            Cause::Device => result::CUDA,
            Cause::Argument => result::INVALID_ARGUMENT,
        };
        Error::new(code, failure.message.clone())
    }
}

/// What `ncclGetErrorString` tells.
pub(crate) fn describe(code: c_int) -> &'static CStr {
    match code {
        result::SUCCESS => c"no error",
        result::CUDA => c"CUDA has failed (see ncclGetLastError)",
        result::SYSTEM => c"the operating system has refused something (see ncclGetLastError)",
        result::INTERNAL => c"internal error of the library: please report it",
        result::INVALID_ARGUMENT => c"invalid argument (see ncclGetLastError)",
        result::INVALID_USAGE => c"invalid usage (see ncclGetLastError)",
        result::REMOTE => c"another rank has failed or cannot be reached (see ncclGetLastError)",
        result::IN_PROGRESS => c"the operation is in progress",
        result::TIMEOUT => c"the operation has taken too long (see ncclGetLastError)",
        _ => c"unknown result code",
    }
}

/// The text of the last failure of the process.
pub(crate) mod last {
    use super::*;

    static TEXT: Mutex<String> = Mutex::new(String::new());
    thread_local! {
        /// What this thread has been given. It stays valid until the thread asks again.
        static GIVEN: RefCell<CString> = RefCell::default();
    }

    /// The text, with a limit to how long it is waited for: in a process that was forked while another thread held
    /// the lock, nobody will release it.
    fn lock() -> Option<MutexGuard<'static, String>> {
        const TRIES: u32 = 10_000;
        for _ in 0..TRIES {
            match TEXT.try_lock() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
        None
    }

    /// Keeps a text.
    pub(crate) fn set(text: &str) {
        if let Some(mut kept) = lock() {
            text.clone_into(&mut kept);
        }
    }

    /// The text, which is empty before the first failure. Never null.
    pub(crate) fn get() -> *const c_char {
        let text = lock().map(|kept| kept.replace('\0', " ")).unwrap_or_default();
        let text = CString::new(text).unwrap_or_default();
        // A thread that ends has nobody left to read it.
        GIVEN
            .try_with(|given| {
                *given.borrow_mut() = text;
                given.borrow().as_ptr()
            })
            .unwrap_or(c"".as_ptr())
    }
}
