//! Functions that came after 2.21.5 and take a communicator: they go to NCCL where it serves the communicator and has
//! them, and are refused otherwise. A program that finds one of them elsewhere would hand NCCL a communicator that is
//! not NCCL's.

use super::entry::{exports, not_null};
use super::lifecycle::derive;
use crate::abi::{Comm, Config, SimInfo, Stream, UniqueIdBytes, Window, result};
use crate::communicators::registry::find_member;
use crate::communicators::slot::Slot;
use crate::device::Device;
use crate::error::Error;
use crate::executors::Executor;
use crate::executors::nccl::{self, OwnedConfig};
use crate::group;
use std::ffi::{c_int, c_uint, c_void};

/// NCCL's function, if it serves the communicator.
macro_rules! forward {
    ($comm:ident, |$own:ident| $forward:expr) => {{
        match find_member($comm)?.executor()? {
            Executor::Nccl(nccl) => {
                let $own = nccl.comm();
                group::call_nccl(in_nccl(), |function: Function| {
                    // SAFETY: the program's promise.
                    unsafe { $forward(function) }
                })
            }
            Executor::Runtime(_) => Err(refused()),
        }
    }};
}

fn refused() -> Error {
    Error::usage(
        "this function is not offered where Syncline serves the communicator; accepted: SYNCLINE_DEVICE=nccl, with NCCL",
    )
}

exports! {
    /// Closes a group without carrying it out, and estimates how long it would take, which only NCCL does (since 2.22).
    fn ncclGroupSimulateEnd/pncclGroupSimulateEnd(info: *mut SimInfo) {
        match group::discard()? {
            None => Ok(result::SUCCESS),
            Some((false, _)) if Device::from_environment()? == Device::Cpu => Err(refused()),
            Some((is_open, slots)) => {
                if !is_open {
                    nccl::start_group()?;
                }
                // SAFETY: the program's promise.
                let done = nccl::ask(in_nccl(), |function| unsafe { function(info) });
                slots.into_iter().try_for_each(Slot::fill)?;
                done
            }
        }
    }

    /// A communicator without some ranks (since 2.27).
    fn ncclCommShrink/pncclCommShrink(
        comm: Comm,
        excluded: *mut c_int,
        excluded_count: c_int,
        new: *mut Comm,
        config: *mut Config,
        flags: c_int,
    ) {
        not_null("newcomm", new)?;
        // SAFETY: the program's promise.
        let config = unsafe { OwnedConfig::copy(config)? };
        match find_member(comm)?.executor()? {
            // SAFETY: as above.
            Executor::Nccl(nccl) => unsafe {
                derive(new, false, |place| {
                    group::call_nccl(in_nccl(), |function: Function| {
                        function(nccl.comm(), excluded, excluded_count, place, config.pointer().cast(), flags)
                    })
                })
            },
            Executor::Runtime(_) => Err(refused()),
        }
    }

    /// A communicator with more ranks (since 2.29). New ranks have none to begin with.
    fn ncclCommGrow/pncclCommGrow(
        comm: Comm,
        ranks: c_int,
        id: *const UniqueIdBytes,
        rank: c_int,
        new: *mut Comm,
        config: *mut Config,
    ) {
        not_null("newcomm", new)?;
        // SAFETY: the program's promise.
        let config = unsafe { OwnedConfig::copy(config)? };
        let own = if comm.is_null() && Device::from_environment()? != Device::Cpu {
            comm
        } else {
            match find_member(comm)?.executor()? {
                Executor::Nccl(nccl) => nccl.comm(),
                Executor::Runtime(_) => return Err(refused()),
            }
        };
        // SAFETY: as above.
        unsafe {
            derive(new, false, |place| {
                group::call_nccl(in_nccl(), |function: Function| {
                    function(own, ranks, id, rank, place, config.pointer().cast())
                })
            })
        }
    }

    /// An id for ranks that a communicator grows by (since 2.29).
    fn ncclCommGetUniqueId/pncclCommGetUniqueId(comm: Comm, id: *mut UniqueIdBytes) {
        forward!(comm, |own| |function: Function| function(own, id))
    }

    /// Stops a communicator without leaving it (since 2.29).
    fn ncclCommRevoke/pncclCommRevoke(comm: Comm, flags: c_int) {
        forward!(comm, |own| |function: Function| function(own, flags))
    }

    /// Gives memory back for a while (since 2.29).
    fn ncclCommSuspend/pncclCommSuspend(comm: Comm, flags: c_int) {
        forward!(comm, |own| |function: Function| function(own, flags))
    }

    /// Takes memory again (since 2.29).
    fn ncclCommResume/pncclCommResume(comm: Comm) {
        forward!(comm, |own| |function: Function| function(own))
    }

    /// How much memory a communicator has (since 2.29).
    fn ncclCommMemStats/pncclCommMemStats(comm: Comm, stat: c_int, value: *mut u64) {
        forward!(comm, |own| |function: Function| function(own, stat, value))
    }

    /// What a communicator can do (since 2.29).
    fn ncclCommQueryProperties/pncclCommQueryProperties(comm: Comm, properties: *mut c_void) {
        forward!(comm, |own| |function: Function| function(own, properties))
    }

    /// Memory that all ranks of a communicator know (since 2.27).
    fn ncclCommWindowRegister/pncclCommWindowRegister(
        comm: Comm,
        buffer: *mut c_void,
        size: usize,
        window: *mut Window,
        flags: c_int,
    ) {
        forward!(comm, |own| |function: Function| function(own, buffer, size, window, flags))
    }

    /// Forgets such memory (since 2.27).
    fn ncclCommWindowDeregister/pncclCommWindowDeregister(comm: Comm, window: Window) {
        forward!(comm, |own| |function: Function| function(own, window))
    }

    /// Where such memory is (since 2.29).
    fn ncclWinGetUserPtr/pncclWinGetUserPtr(comm: Comm, window: Window, pointer: *mut *mut c_void) {
        forward!(comm, |own| |function: Function| function(own, window, pointer))
    }

    /// What kernels of the program need to use a communicator (since 2.28).
    fn ncclDevCommCreate/pncclDevCommCreate(comm: Comm, requirements: *const c_void, device: *mut c_void) {
        forward!(comm, |own| |function: Function| function(own, requirements, device))
    }

    /// Gives it back (since 2.28).
    fn ncclDevCommDestroy/pncclDevCommDestroy(comm: Comm, device: *const c_void) {
        forward!(comm, |own| |function: Function| function(own, device))
    }

    /// Writes to a window of another rank, and signals (since 2.29).
    fn ncclPutSignal/pncclPutSignal(
        buffer: *const c_void,
        count: usize,
        data_type: c_int,
        peer: c_int,
        window: Window,
        offset: usize,
        signal: c_int,
        context: c_int,
        flags: c_uint,
        comm: Comm,
        stream: Stream,
    ) {
        forward!(comm, |own| |function: Function| function(
            buffer, count, data_type, peer, window, offset, signal, context, flags, own, stream
        ))
    }

    /// Signals to another rank (since 2.29).
    fn ncclSignal/pncclSignal(
        peer: c_int,
        signal: c_int,
        context: c_int,
        flags: c_uint,
        comm: Comm,
        stream: Stream,
    ) {
        forward!(comm, |own| |function: Function| function(peer, signal, context, flags, own, stream))
    }

    /// Waits for signals (since 2.29).
    fn ncclWaitSignal/pncclWaitSignal(count: c_int, signals: *mut c_void, comm: Comm, stream: Stream) {
        forward!(comm, |own| |function: Function| function(count, signals, own, stream))
    }

    /// `ncclAllReduce` with settings of its own (in the newest versions).
    fn ncclAllReduceConfig/pncclAllReduceConfig(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        op: c_int,
        comm: Comm,
        stream: Stream,
        config: *const c_void,
    ) {
        forward!(comm, |own| |function: Function| function(send, recv, count, data_type, op, own, stream, config))
    }

    /// `ncclReduceScatter` with settings of its own (in the newest versions).
    fn ncclReduceScatterConfig/pncclReduceScatterConfig(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        op: c_int,
        comm: Comm,
        stream: Stream,
        config: *const c_void,
    ) {
        forward!(comm, |own| |function: Function| function(send, recv, count, data_type, op, own, stream, config))
    }

    /// `ncclReduce` with settings of its own (in the newest versions).
    fn ncclReduceConfig/pncclReduceConfig(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        op: c_int,
        root: c_int,
        comm: Comm,
        stream: Stream,
        config: *const c_void,
    ) {
        forward!(comm, |own| |function: Function| function(
            send, recv, count, data_type, op, root, own, stream, config
        ))
    }

    /// `ncclBroadcast` with settings of its own (in the newest versions).
    fn ncclBroadcastConfig/pncclBroadcastConfig(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        root: c_int,
        comm: Comm,
        stream: Stream,
        config: *const c_void,
    ) {
        forward!(comm, |own| |function: Function| function(send, recv, count, data_type, root, own, stream, config))
    }

    /// `ncclGather` with settings of its own (in the newest versions).
    fn ncclGatherConfig/pncclGatherConfig(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        root: c_int,
        comm: Comm,
        stream: Stream,
        config: *const c_void,
    ) {
        forward!(comm, |own| |function: Function| function(send, recv, count, data_type, root, own, stream, config))
    }

    /// `ncclScatter` with settings of its own (in the newest versions).
    fn ncclScatterConfig/pncclScatterConfig(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        root: c_int,
        comm: Comm,
        stream: Stream,
        config: *const c_void,
    ) {
        forward!(comm, |own| |function: Function| function(send, recv, count, data_type, root, own, stream, config))
    }

    /// `ncclAllGather` with settings of its own (in the newest versions).
    fn ncclAllGatherConfig/pncclAllGatherConfig(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        comm: Comm,
        stream: Stream,
        config: *const c_void,
    ) {
        forward!(comm, |own| |function: Function| function(send, recv, count, data_type, own, stream, config))
    }

    /// `ncclAlltoAll` with settings of its own (in the newest versions).
    fn ncclAlltoAllConfig/pncclAlltoAllConfig(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        comm: Comm,
        stream: Stream,
        config: *const c_void,
    ) {
        forward!(comm, |own| |function: Function| function(send, recv, count, data_type, own, stream, config))
    }
}
