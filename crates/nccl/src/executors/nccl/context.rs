//! The GPU that is current in a thread.
//!
//! `ncclCommInitRank` takes the current GPU. Where a group makes communicators for several GPUs, NCCL is called at
//! the end of the group, with the context of CUDA that was current at the call of the program.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// What is current, if the process uses CUDA.
pub(crate) struct Context(Option<usize>);

type Get = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Set = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The functions of the CUDA driver, if the process has loaded it.
fn driver() -> Option<(Get, Set)> {
    static FOUND: OnceLock<(Get, Set)> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Some(*found);
    }
    // SAFETY: it is only looked for, and kept for as long as the process lives.
    let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    let symbol = |name: &CStr| {
        // SAFETY: the library stays loaded.
        let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    };
    let (get, set) = (symbol(c"cuCtxGetCurrent")?, symbol(c"cuCtxSetCurrent")?);
    // SAFETY: these are their types.
    let found = unsafe { (std::mem::transmute::<*mut c_void, Get>(get), std::mem::transmute::<*mut c_void, Set>(set)) };
    Some(*FOUND.get_or_init(|| found))
}

impl Context {
    /// One that the driver has given.
    pub(crate) fn of(handle: usize) -> Context {
        Context(Some(handle))
    }

    /// Its handle, if there is one.
    pub(crate) fn handle(&self) -> Option<usize> {
        self.0
    }

    /// That of the calling thread.
    pub(crate) fn current() -> Context {
        let current = driver().and_then(|(get, _)| {
            let mut context = ptr::null_mut();
            // SAFETY: it writes a context or null.
            let code = unsafe { get(&raw mut context) };
            (code == 0 && !context.is_null()).then_some(context as usize)
        });
        Context(current)
    }

    /// Does something while it is current.
    pub(crate) fn within<T>(&self, action: impl FnOnce() -> T) -> T {
        let (Some(own), Some((_, set))) = (self.0, driver()) else { return action() };
        let before = Context::current();
        if before.0 == self.0 {
            return action();
        }
        // SAFETY: the context was current in this thread at a call of the program, which keeps it.
        let _ = unsafe { set(own as *mut c_void) };
        let done = action();
        // SAFETY: as above.
        let _ = unsafe { set(before.0.unwrap_or_default() as *mut c_void) };
        done
    }
}
