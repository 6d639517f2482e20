//! What NCCL does not have.

use super::entry::{enter, not_null};
use crate::abi::{Comm, UniqueIdBytes, result};
use crate::communicators::jobs::{Job, Way};
use crate::communicators::registry::{Member, find_member};
use crate::device::Device;
use crate::error::Error;
use crate::executors::Executor;
use crate::executors::nccl::{Context, OwnedConfig};
use crate::executors::runtime::Settings;
use crate::group;
use serde::Deserialize;
use std::ffi::{CStr, c_char, c_int};
use std::fs;
use std::time::Duration;
use syncline_runtime::bootstrap::{Options, UniqueId};
use syncline_runtime::device::Gpu;
use syncline_runtime::plan::Verified;
use syncline_runtime::plan::library::Library;

/// What may be said of a communicator, in JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wish {
    /// `cpu`, if it is not given: buffers are in memory of the host. `cuda`: of the GPU that is current.
    device: Option<Device>,
    /// How long a call may wait without any progress, in seconds.
    timeout_s: Option<f64>,
    /// Files with plans that go before the built-in algorithms.
    plans: Vec<String>,
    /// The same, as texts.
    plan_texts: Vec<String>,
}

/// Joins a communicator of the runtime, whatever `SYNCLINE_DEVICE` says: on memory of the host, if the options do not say otherwise.
///
/// `options` is a text of JSON, or null: `device` (`cpu` or `cuda`, the same for all ranks), `timeout_s` (seconds), `plans` (names of
/// files) and `plan_texts` (what is in them).
#[unsafe(no_mangle)]
unsafe extern "C" fn synclineCommInit(
    comm: *mut Comm,
    ranks: c_int,
    id: *const UniqueIdBytes,
    rank: c_int,
    options: *const c_char,
) -> c_int {
    enter("synclineCommInit", || {
        not_null("comm", comm)?;
        not_null("commId", id)?;
        let place = match (u32::try_from(rank), u32::try_from(ranks)) {
            (Ok(rank), Ok(ranks)) if rank < ranks => (rank, ranks),
            _ => return Err(Error::argument("rank", rank, &format!("0 and more, below {ranks}"))),
        };
        // SAFETY: the program's promise.
        let wish = unsafe { wish(options)? };
        // SAFETY: as above.
        let id =
            UniqueId::from_bytes(unsafe { &(*id).internal }).map_err(|failure| Error::of_failure(&failure, place.0))?;
        let mut options = Options::from_environment().map_err(|failure| Error::of_failure(&failure, place.0))?;
        if let Some(seconds) = wish.timeout_s {
            let timeout =
                Duration::try_from_secs_f64(seconds).map_err(|_| Error::argument("timeout_s", seconds, "seconds"))?;
            (options.call_timeout, options.join_timeout) = (timeout, timeout);
        }
        let library = library(&wish, place.1)?;
        let gpu = match wish.device {
            None | Some(Device::Cpu) => None,
            Some(Device::Cuda) => {
                let gpu = Gpu::of_context(Context::current().handle());
                Some(gpu.map_err(|failure| Error::of_failure(&failure, place.0))?)
            }
            Some(Device::Nccl) => return Err(Error::argument("device", "nccl", "cpu or cuda")),
        };
        let member = Member::register(Some(place))?;
        let way = Way::Own { id, settings: Settings { options, library }, gpu };
        let done = group::make(vec![Job::new(Some(member.clone()), way, OwnedConfig::default())]);
        if done.is_ok() {
            // SAFETY: as above.
            unsafe { comm.write(member.handle()) };
        }
        done.map(|code| code.max(result::SUCCESS))
    })
}

/// Tells how a communicator of the runtime would carry a collective out, as a text of JSON: `name` (of the
/// algorithm or the plan), `chunk_bytes` and `chunks` (of the vector or, where ranks have shares, of a share), `slots`
/// and `slot_bytes` (what a connection of two ranks holds). No message is sent, so that one rank may ask alone.
///
/// `collective` is a name such as `all-reduce`, `count` as in the call itself, `root` counts for rooted ones. The text
/// is written to `text`, which has room for `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn synclineCommPlan(
    comm: Comm,
    collective: *const c_char,
    count: usize,
    data_type: c_int,
    root: c_int,
    text: *mut c_char,
    size: usize,
) -> c_int {
    enter("synclineCommPlan", || {
        not_null("collective", collective)?;
        not_null("text", text)?;
        // SAFETY: a text of C ends with a zero.
        let name = unsafe { CStr::from_ptr(collective) }.to_string_lossy();
        let member = find_member(comm)?;
        let Executor::Runtime(runtime) = member.executor()? else {
            return Err(Error::usage("NCCL serves the communicator, and does not tell its algorithms"));
        };
        let chosen = runtime.chosen(&name, count, data_type, root)?;
        let told = serde_json::to_vec(&chosen).map_err(|error| Error::new(result::INTERNAL, error.to_string()))?;
        if told.len() >= size {
            return Err(Error::argument("size", size, &format!("{} and more", told.len() + 1)));
        }
        // SAFETY: there is room for the text and its zero, as the program has promised.
        unsafe {
            text.cast::<u8>().copy_from_nonoverlapping(told.as_ptr(), told.len());
            text.add(told.len()).write(0);
        }
        Ok(result::SUCCESS)
    })
}

/// What a text says; nothing, if there is none.
unsafe fn wish(options: *const c_char) -> Result<Wish, Error> {
    if options.is_null() {
        return Ok(Wish::default());
    }
    // SAFETY: a text of C ends with a zero.
    let text = unsafe { CStr::from_ptr(options) }.to_string_lossy();
    serde_json::from_str(&text).map_err(|error| Error::argument("options", &text, &format!("JSON ({error})")))
}

/// The plans, verified.
fn library(wish: &Wish, ranks: u32) -> Result<Library, Error> {
    let mut library = Library::default();
    for file in &wish.plans {
        let refused = |what: String| Error::argument("plans", file, &format!("a file with a plan: {what}"));
        let text = fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
        library.add([plan(&text, ranks).map_err(refused)?]);
    }
    for (number, text) in wish.plan_texts.iter().enumerate() {
        let refused = |what: String| Error::argument("plan_texts", number, &format!("a plan: {what}"));
        library.add([plan(text, ranks).map_err(refused)?]);
    }
    Ok(library)
}

fn plan(text: &str, ranks: u32) -> Result<Verified, String> {
    let plan = Verified::of_json(text).map_err(|failure| failure.message)?;
    if plan.ranks() == ranks { Ok(plan) } else { Err(format!("this one is for {} ranks", plan.ranks())) }
}
