//! The executor that hands calls to NCCL itself.
//!
//! What NCCL serves it serves as if Syncline were not there. It has a communicator of its own for each of ours, and the
//! program holds ours. Callers open and end its group.
//!
//! Its library calls some of its own functions (`ncclGroupStart`, `ncclBroadcast` and others of 2.21.5) the way a
//! program would. Where ours is preloaded and NCCL's is mapped as a dependency of the program, those calls come here.
//! So whatever is called while a call of this thread is inside NCCL goes straight back to it ([`is_inside`]).

mod context;
mod library;

pub(crate) use context::Context;
pub(crate) use library::{library, version_text};

use library::Library;

use crate::abi::{CONFIG_MAGIC, Comm, Config, UNDEFINED, UniqueIdBytes, result};
use crate::device::Device;
use crate::error::Error;
use crate::log;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// A communicator of NCCL.
pub(crate) struct Nccl {
    comm: usize,
}

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread is inside a call of NCCL.
pub(crate) fn is_inside() -> bool {
    INSIDE.get() > 0
}

/// Says that NCCL serves a communicator whose ranks are all in this process, and why.
pub(crate) fn say_served(ranks: u32, reason: &str) {
    if let Ok(library) = library() {
        log::fallback(&fallback_text(&version_text(library.version()), ranks, reason));
    }
}

/// Why NCCL serves where it has been asked for.
pub(crate) const ASKED_FOR: &str = "SYNCLINE_DEVICE is nccl";

/// The line that says that NCCL takes over.
pub(crate) fn fallback_text(version: &str, ranks: u32, reason: &str) -> String {
    let ranks = if ranks == 1 { "1 rank".into() } else { format!("{ranks} ranks") };
    format!("a communicator of {ranks} is served by NCCL {version}: {reason}")
}

/// Whether NCCL serves this process, or may.
pub(crate) fn is_loaded() -> bool {
    Device::from_environment().is_ok_and(|device| device != Device::Cpu) && library().is_ok()
}

impl Nccl {
    /// What NCCL has made.
    pub(crate) fn new(comm: Comm) -> Nccl {
        Nccl { comm: comm as usize }
    }

    /// Its handle.
    pub(crate) fn comm(&self) -> Comm {
        self.comm as Comm
    }
}

/// Calls NCCL.
pub(crate) fn ask<F>(function: Result<F, Error>, call: impl FnOnce(F) -> c_int) -> Result<c_int, Error> {
    let function = function?;
    enter(|| call(function))
}

/// As [`ask`], for a function that has been found.
fn enter(call: impl FnOnce() -> c_int) -> Result<c_int, Error> {
    INSIDE.set(INSIDE.get() + 1);
    let code = call();
    INSIDE.set(INSIDE.get() - 1);
    match code {
        result::SUCCESS | result::IN_PROGRESS => Ok(code),
        _ => Err(Error::new(code, said(code))),
    }
}

/// What NCCL says about its last failure.
fn said(code: c_int) -> String {
    type LastError = unsafe extern "C" fn(Comm) -> *const c_char;
    let text = function::<LastError>(c"ncclGetLastError").ok().and_then(|function| {
        // SAFETY: the function returns a text or null.
        let text = unsafe { function(ptr::null_mut()) };
        // SAFETY: as above; the text is copied before anything else is called.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    let text = text.filter(|text| !text.is_empty()).unwrap_or_else(|| format!("result {code}"));
    format!("NCCL: {text}")
}

/// A function of NCCL.
pub(crate) fn function<F: Copy>(name: &CStr) -> Result<F, Error> {
    let library = library().map_err(no_library)?;
    let address = library.symbol(name).ok_or_else(|| missing(name, library))?;
    // SAFETY: types of functions are given by NCCL's interface, and pointers to them are as large as addresses.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
}

/// That NCCL lacks a function.
fn missing(name: &CStr, library: &Library) -> Error {
    let (name, version, path) = (name.to_string_lossy(), version_text(library.version()), library.path());
    Error::usage(format!("NCCL {version} ({path}), which serves this communicator, has no {name}"))
}

fn no_library(why: &str) -> Error {
    Error::usage(format!("there is no NCCL ({why}); SYNCLINE_DEVICE=cpu serves buffers in memory of the host"))
}

/// An id of NCCL's own.
pub(crate) fn unique_id() -> Result<UniqueIdBytes, Error> {
    type GetUniqueId = unsafe extern "C" fn(*mut UniqueIdBytes) -> c_int;
    let mut id = UniqueIdBytes { internal: [0; 128] };
    let function = function::<GetUniqueId>(c"ncclGetUniqueId")?;
    // SAFETY: it writes an id.
    enter(|| unsafe { function(&raw mut id) })?;
    Ok(id)
}

/// Opens NCCL's group.
pub(crate) fn start_group() -> Result<(), Error> {
    let function = function::<unsafe extern "C" fn() -> c_int>(c"ncclGroupStart")?;
    // SAFETY: it takes nothing.
    enter(|| unsafe { function() }).map(drop)
}

/// Joins a communicator of NCCL, which NCCL writes to a place: now, or when its group ends if it is open.
///
/// # Safety
/// The place can be written until then.
pub(crate) unsafe fn join(
    place: *mut Comm,
    rank: u32,
    ranks: u32,
    id: UniqueIdBytes,
    config: &OwnedConfig,
) -> Result<c_int, Error> {
    type InitRank = unsafe extern "C" fn(*mut Comm, c_int, UniqueIdBytes, c_int) -> c_int;
    type InitRankConfig = unsafe extern "C" fn(*mut Comm, c_int, UniqueIdBytes, c_int, *mut c_void) -> c_int;
    let (rank, ranks) = (rank as c_int, ranks as c_int);
    if config.is_none() {
        let function = function::<InitRank>(c"ncclCommInitRank")?;
        // SAFETY: the caller's promise.
        enter(|| unsafe { function(place, ranks, id, rank) })
    } else {
        let function = function::<InitRankConfig>(c"ncclCommInitRankConfig")?;
        // SAFETY: as above; the configuration is as long as it says.
        enter(|| unsafe { function(place, ranks, id, rank, config.pointer()) })
    }
}

/// A copy of a program's configuration, of any version.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnedConfig {
    words: Vec<u64>,
}

impl OwnedConfig {
    /// Copies and checks it.
    ///
    /// # Safety
    /// The pointer is null, or what it points to has the bytes that its first member says.
    pub(crate) unsafe fn copy(config: *const Config) -> Result<OwnedConfig, Error> {
        /// More than any version has.
        const MOST: usize = 4096;
        if config.is_null() {
            return Ok(OwnedConfig::default());
        }
        // SAFETY: every version begins with these members, at these offsets.
        let (size, magic) = unsafe { ((&raw const (*config).size).read(), (&raw const (*config).magic).read()) };
        let least = std::mem::offset_of!(Config, blocking);
        if !(least..=MOST).contains(&size) {
            return Err(Error::argument("config->size", size, "what NCCL_CONFIG_INITIALIZER sets"));
        }
        if magic != CONFIG_MAGIC {
            let accepted = "0xcafebeef, what NCCL_CONFIG_INITIALIZER sets";
            return Err(Error::argument("config->magic", format_args!("{magic:#x}"), accepted));
        }
        let mut words = vec![0; size.div_ceil(8)];
        // SAFETY: the configuration has that many bytes, and the words as many or more.
        unsafe { ptr::copy_nonoverlapping(config.cast::<u8>(), words.as_mut_ptr().cast::<u8>(), size) };
        if size >= least + size_of::<c_int>() {
            let blocking = (words[least / 8] & 0xffff_ffff) as u32 as c_int;
            if ![0, 1, UNDEFINED].contains(&blocking) {
                return Err(Error::argument("config->blocking", blocking, "0, 1, or undefined"));
            }
        }
        Ok(OwnedConfig { words })
    }

    /// Whether the program has passed none.
    fn is_none(&self) -> bool {
        self.words.is_empty()
    }

    /// What NCCL gets, which does not write to it.
    pub(crate) fn pointer(&self) -> *mut c_void {
        if self.is_none() { ptr::null_mut() } else { self.words.as_ptr().cast_mut().cast() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn a_configuration_is_read_as_far_as_it_goes() {
        let full = Config {
            size: size_of::<Config>(),
            magic: CONFIG_MAGIC,
            version: 22105,
            blocking: 7,
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: ptr::null(),
            split_share: UNDEFINED,
        };
        // SAFETY: sizes are at most that of the structure, in this and the following calls.
        let copy = |config: &Config| unsafe { OwnedConfig::copy(config) };
        assert!(copy(&full).unwrap_err().message.contains("config->blocking is 7"));
        // It is not read where the program's version does not have it.
        let short = Config { size: offset_of!(Config, blocking), ..full };
        assert_eq!(copy(&short).unwrap().words.len() * 8, 16);
        let right = Config { blocking: 0, ..full };
        assert_eq!(copy(&right).unwrap().words.len() * 8, 48);
        assert!(copy(&Config { size: 8, ..right }).unwrap_err().message.contains("config->size is 8"));
        assert!(copy(&Config { magic: 1, ..right }).unwrap_err().message.contains("config->magic is 0x1"));
        // SAFETY: null is allowed.
        assert!(unsafe { OwnedConfig::copy(ptr::null()) }.unwrap().is_none());
    }
}
