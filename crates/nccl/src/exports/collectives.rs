//! What moves data.

use super::entry::exports;
use crate::abi::{Comm, Stream};
use crate::communicators::registry::{Found, find, find_member, not_a_communicator};
use crate::executors::Executor;
use crate::executors::nccl;
use crate::executors::runtime::{Asked, Buffer};
use crate::group;
use std::ffi::{c_int, c_void};
use syncline_collective::Kind;

/// The call of a communicator: NCCL's function with NCCL's communicator, or the runtime's collective.
macro_rules! collective {
    ($comm:ident, |$own:ident| $forward:expr, $asked:expr) => {{
        let member = find_member($comm)?;
        match member.executor()? {
            Executor::Nccl(nccl) => {
                let $own = nccl.comm();
                group::call_nccl(in_nccl(), |function: Function| {
                    // SAFETY: the program's promise.
                    unsafe { $forward(function) }
                })
            }
            // SAFETY: the program's promise.
            Executor::Runtime(runtime) => group::call(unsafe { runtime.collective($asked)? }),
        }
    }};
}

exports! {
    /// All ranks get the reduction of all vectors.
    fn ncclAllReduce/pncclAllReduce(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        op: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        collective!(
            comm,
            |own| |function: Function| function(send, recv, count, data_type, op, own, stream),
            Asked { kind: Kind::AllReduce, send, recv, count, data_type, reduction: Some(op), root: None, stream }
        )
    }

    /// The root gets the reduction of all vectors.
    fn ncclReduce/pncclReduce(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        op: c_int,
        root: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        collective!(
            comm,
            |own| |function: Function| function(send, recv, count, data_type, op, root, own, stream),
            Asked { kind: Kind::Reduce, send, recv, count, data_type, reduction: Some(op), root: Some(root), stream }
        )
    }

    /// All ranks get the root's vector.
    fn ncclBroadcast/pncclBroadcast(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        root: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        if let Found::Foreign = find(comm)? {
            // NCCL's ncclBcast calls it, perhaps from a thread of NCCL's own.
            if !nccl::is_loaded() {
                return Err(not_a_communicator(comm));
            }
            // SAFETY: NCCL judges what is not ours.
            return nccl::ask(in_nccl(), |function: Function| unsafe {
                function(send, recv, count, data_type, root, comm, stream)
            });
        }
        collective!(
            comm,
            |own| |function: Function| function(send, recv, count, data_type, root, own, stream),
            Asked { kind: Kind::Broadcast, send, recv, count, data_type, reduction: None, root: Some(root), stream }
        )
    }

    /// As `ncclBroadcast`, in place.
    fn ncclBcast/pncclBcast(
        buffer: *mut c_void,
        count: usize,
        data_type: c_int,
        root: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        let (send, recv) = (buffer.cast_const(), buffer);
        collective!(
            comm,
            |own| |function: Function| function(buffer, count, data_type, root, own, stream),
            Asked { kind: Kind::Broadcast, send, recv, count, data_type, reduction: None, root: Some(root), stream }
        )
    }

    /// All ranks get the vectors of all, one after the other.
    fn ncclAllGather/pncclAllGather(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        collective!(
            comm,
            |own| |function: Function| function(send, recv, count, data_type, own, stream),
            Asked { kind: Kind::AllGather, send, recv, count, data_type, reduction: None, root: None, stream }
        )
    }

    /// Each rank gets its share of the reduction.
    fn ncclReduceScatter/pncclReduceScatter(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        op: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        collective!(
            comm,
            |own| |function: Function| function(send, recv, count, data_type, op, own, stream),
            Asked { kind: Kind::ReduceScatter, send, recv, count, data_type, reduction: Some(op), root: None, stream }
        )
    }

    /// Sends to a rank.
    fn ncclSend/pncclSend(
        send: *const c_void,
        count: usize,
        data_type: c_int,
        peer: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        let member = find_member(comm)?;
        match member.executor()? {
            // SAFETY: the program's promise.
            Executor::Nccl(nccl) => group::call_nccl(in_nccl(), |function: Function| unsafe {
                function(send, count, data_type, peer, nccl.comm(), stream)
            }),
            // SAFETY: the program's promise.
            Executor::Runtime(runtime) => group::call(unsafe {
                runtime.message(Buffer::From(send), count, data_type, peer, stream)?
            }),
        }
    }

    /// Receives from a rank.
    fn ncclRecv/pncclRecv(
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        peer: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        let member = find_member(comm)?;
        match member.executor()? {
            // SAFETY: the program's promise.
            Executor::Nccl(nccl) => group::call_nccl(in_nccl(), |function: Function| unsafe {
                function(recv, count, data_type, peer, nccl.comm(), stream)
            }),
            // SAFETY: the program's promise.
            Executor::Runtime(runtime) => group::call(unsafe {
                runtime.message(Buffer::Into(recv), count, data_type, peer, stream)?
            }),
        }
    }

    /// Each rank sends a part to every rank (since 2.28).
    fn ncclAlltoAll/pncclAlltoAll(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        collective!(
            comm,
            |own| |function: Function| function(send, recv, count, data_type, own, stream),
            Asked { kind: Kind::AllToAll, send, recv, count, data_type, reduction: None, root: None, stream }
        )
    }

    /// The root gets the vectors of all, one after the other (since 2.28).
    fn ncclGather/pncclGather(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        root: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        collective!(
            comm,
            |own| |function: Function| function(send, recv, count, data_type, root, own, stream),
            Asked { kind: Kind::Gather, send, recv, count, data_type, reduction: None, root: Some(root), stream }
        )
    }

    /// Each rank gets its share of the root's vector (since 2.28).
    fn ncclScatter/pncclScatter(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: c_int,
        root: c_int,
        comm: Comm,
        stream: Stream,
    ) {
        collective!(
            comm,
            |own| |function: Function| function(send, recv, count, data_type, root, own, stream),
            Asked { kind: Kind::Scatter, send, recv, count, data_type, reduction: None, root: Some(root), stream }
        )
    }
}
