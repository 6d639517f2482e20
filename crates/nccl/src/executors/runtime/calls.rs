//! Calls whose arguments have been checked, carried out together.

use crate::error::Error;
use std::sync::Arc;
use syncline_runtime::bootstrap::Failure;
use syncline_runtime::communicator::{Communicator, Operation, run};
use syncline_runtime::device::{self, Queue};

/// A call that the runtime carries out. It keeps what serves it until it is done.
///
/// Whoever made it has promised that its buffers have the sizes of the call, and are used by nobody else until it is done,
/// or only on its stream.
pub(crate) struct Call {
    pub(super) server: Server,
    pub(super) operation: Operation,
}

/// Who carries a call out.
pub(super) enum Server {
    /// The thread that makes it.
    Caller(Arc<Communicator>),
    /// The thread of the communicator, in the order of a stream.
    Queue { queue: Arc<Queue>, stream: usize, factor: Option<u64> },
}

/// Carries calls out, or has the threads of their communicators do it.
pub(crate) fn carry_out(calls: &[Call]) -> Result<(), Error> {
    let mut queued: Vec<(&Arc<Queue>, Vec<device::Call>)> = Vec::new();
    let mut own = Vec::new();
    for Call { server, operation } in calls {
        match server {
            Server::Caller(communicator) => own.push((communicator.clone(), *operation)),
            Server::Queue { queue, stream, factor } => {
                let call = device::Call { operation: *operation, stream: *stream, factor: *factor };
                match queued.iter_mut().find(|(other, _)| Arc::ptr_eq(other, queue)) {
                    Some((_, calls)) => calls.push(call),
                    None => queued.push((queue, vec![call])),
                }
            }
        }
    }
    let ours = |queue: &Queue, done: Result<(), Failure>| {
        done.map_err(|failure| Error::of_failure(&failure, queue.communicator().rank()))
    };
    // Before any stream waits for a call, as one GPU may be that of several communicators.
    for (queue, calls) in &queued {
        ours(queue, queue.prepare(calls))?;
    }
    for (queue, calls) in &queued {
        // SAFETY: whoever made the calls has promised what their buffers are.
        ours(queue, unsafe { queue.submit(calls) })?;
    }
    let Some((first, _)) = own.first() else { return Ok(()) };
    // SAFETY: as above.
    unsafe { run(&own) }.map_err(|failure| {
        // Whose failure it is: that of the one that has failed, for the difference between its own abort and another's.
        let failed = own.iter().find(|(communicator, _)| communicator.failure().is_some());
        Error::of_failure(&failure, failed.map_or(first, |(communicator, _)| communicator).rank())
    })
}
