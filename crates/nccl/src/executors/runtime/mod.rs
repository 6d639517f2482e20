//! The executor of calls that the runtime carries out, on memory of the host or of GPUs: checks arguments, and asks the runtime.

mod calls;
mod factors;

pub(crate) use calls::{Call, carry_out};

use calls::Server;
use factors::{Factor, Factors};

use crate::abi::{FIRST_OWN_REDUCTION, Stream, result};
use crate::error::Error;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use syncline_collective::Kind;
use syncline_runtime::bootstrap::{Failure, Options};
use syncline_runtime::communicator::{Chosen, Communicator, Operation};
use syncline_runtime::device::Queue;
use syncline_runtime::plan::library::Library;
use syncline_runtime::value::{Arithmetic, DataType, Reduction, Scalar};

/// What a communicator is made with, apart from its ranks. Those that are split from it get the same.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) options: Options,
    /// The plans that were given: each serves communicators of its number of ranks.
    pub(crate) library: Library,
}

impl Settings {
    /// Those of the environment.
    pub(crate) fn from_environment() -> Result<Settings, Failure> {
        Ok(Settings { options: Options::from_environment()?, library: Library::default() })
    }
}

/// A communicator of the runtime.
pub(crate) struct Runtime {
    communicator: Arc<Communicator>,
    settings: Settings,
    /// What orders its calls by streams, if buffers are in memory of a GPU.
    queue: Option<Arc<Queue>>,
    factors: Factors,
    is_finalized: AtomicBool,
}

/// The arguments of a collective, as the program has passed them.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) kind: Kind,
    pub(crate) send: *const c_void,
    pub(crate) recv: *mut c_void,
    pub(crate) count: usize,
    pub(crate) data_type: c_int,
    /// None, if nothing is reduced.
    pub(crate) reduction: Option<c_int>,
    /// None, if there is no root.
    pub(crate) root: Option<c_int>,
    pub(crate) stream: Stream,
}

impl Runtime {
    pub(crate) fn new(communicator: Arc<Communicator>, settings: Settings) -> Result<Runtime, Error> {
        let rank = communicator.rank();
        let queue = communicator.gpu().is_some().then(|| Queue::new(communicator.clone())).transpose();
        let queue = queue.map_err(|failure| Error::of_failure(&failure, rank))?.map(Arc::new);
        let (factors, is_finalized) = (Factors::default(), AtomicBool::new(false));
        Ok(Runtime { communicator, settings, queue, factors, is_finalized })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn communicator(&self) -> &Arc<Communicator> {
        &self.communicator
    }

    /// The failure of the communicator, if there is one.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.queue.as_ref().map_or_else(|| self.communicator.failure(), |queue| queue.failure())
    }

    /// That the rank may still make calls.
    pub(crate) fn check_not_finalized(&self) -> Result<(), Error> {
        if self.is_finalized.load(Ordering::SeqCst) {
            return Err(Error::usage("the communicator has been finalized"));
        }
        Ok(())
    }

    /// Waits for what is under way, and leaves the communicator. The rank makes no more calls.
    pub(crate) fn leave(&self) {
        self.is_finalized.store(true, Ordering::SeqCst);
        self.queue.iter().for_each(|queue| queue.drain());
        self.communicator.leave();
    }

    /// The call of a collective, its arguments checked.
    ///
    /// # Safety
    /// Buffers that are not null have the sizes of the call, and are used by nobody else until it is done, or only on its stream.
    pub(crate) unsafe fn collective(&self, asked: Asked) -> Result<Call, Error> {
        let Asked { kind, send, recv, count, .. } = asked;
        let ranks = self.communicator.ranks();
        self.check_use(asked.stream)?;
        let data_type = data_type(asked.data_type)?;
        let (reduction, factor) = match asked.reduction {
            Some(code) => self.reduction(code, data_type)?,
            None => (Reduction::Sum, None),
        };
        let root = match asked.root {
            Some(root) => rank("root", root, ranks)?,
            None => 0,
        };
        let shares = if matches!(kind, Kind::AllReduce | Kind::Broadcast | Kind::Reduce) { 1 } else { ranks as usize };
        check_count(count, data_type, shares)?;
        let is_root = self.communicator.rank() == root;
        if count > 0 {
            let has_input = !matches!(kind, Kind::Broadcast | Kind::Scatter) || is_root;
            let has_output = !matches!(kind, Kind::Reduce | Kind::Gather) || is_root;
            if has_input && send.is_null() {
                return Err(no_buffer("sendbuff", count));
            }
            if has_output && recv.is_null() {
                return Err(no_buffer("recvbuff", count));
            }
        }
        let arithmetic = Arithmetic::new(data_type, reduction, ranks)
            .map_err(|unsupported| Error::new(result::INVALID_ARGUMENT, format!("op: {unsupported}")))?;
        let operation = Operation::Collective {
            kind,
            root,
            count: count as u64,
            arithmetic,
            input: send.cast(),
            output: recv.cast(),
        };
        // Null buffers are those of ranks that have none, or of calls without elements.
        Ok(self.call(operation, asked.stream, factor))
    }

    /// How a collective would be carried out.
    pub(crate) fn chosen(&self, name: &str, count: usize, data_type_code: c_int, root: c_int) -> Result<Chosen, Error> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            Error::argument("collective", format_args!("{name:?}"), &names.join(", "))
        })?;
        let ranks = self.communicator.ranks();
        let data_type = data_type(data_type_code)?;
        check_count(count, data_type, ranks as usize)?;
        let root = if kind.is_rooted() { rank("root", root, ranks)? } else { 0 };
        let chosen = self.communicator.chosen(kind, root, count as u64, data_type);
        chosen.map_err(|failure| Error::of_failure(&failure, self.communicator.rank()))
    }

    /// The call of a message to a rank or from one, its arguments checked.
    ///
    /// # Safety
    /// As for [`Runtime::collective`].
    pub(crate) unsafe fn message(
        &self,
        buffer: Buffer,
        count: usize,
        data_type_code: c_int,
        peer: c_int,
        stream: Stream,
    ) -> Result<Call, Error> {
        self.check_use(stream)?;
        let data_type = data_type(data_type_code)?;
        let peer = rank("peer", peer, self.communicator.ranks())?;
        check_count(count, data_type, 1)?;
        let bytes = (count * data_type.size()) as u64;
        let (name, is_null, operation) = match buffer {
            Buffer::From(from) => ("sendbuff", from.is_null(), Operation::Send { peer, bytes, from: from.cast() }),
            Buffer::Into(into) => ("recvbuff", into.is_null(), Operation::Recv { peer, bytes, into: into.cast() }),
        };
        if count > 0 && is_null {
            return Err(no_buffer(name, count));
        }
        Ok(self.call(operation, stream, None))
    }

    fn call(&self, operation: Operation, stream: Stream, factor: Option<u64>) -> Call {
        let server = match &self.queue {
            Some(queue) => Server::Queue { queue: queue.clone(), stream: stream as usize, factor },
            None => Server::Caller(self.communicator.clone()),
        };
        Call { server, operation }
    }

    /// Makes a reduction that multiplies each input by a factor. On the host it is read now, wherever it is said to be; so is one that
    /// is said to be there.
    ///
    /// # Safety
    /// The pointer is null or has an element of the type; in memory that the GPU reaches, if it is said to be there.
    pub(crate) unsafe fn add_factor(
        &self,
        scalar: *const c_void,
        data_type_code: c_int,
        is_on_device: bool,
    ) -> Result<c_int, Error> {
        let data_type = data_type(data_type_code)?;
        if scalar.is_null() {
            return Err(Error::argument("scalar", "NULL", "where the factor is"));
        }
        if is_on_device && self.queue.is_some() {
            return Ok(self.factors.add(Factor::OnGpu(data_type, scalar as u64)));
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(scalar.cast::<u8>(), data_type.size()) };
        let factor = Scalar::from_bytes(data_type, bytes).expect("as many bytes as an element has");
        Ok(self.factors.add(Factor::Value(factor)))
    }

    /// Forgets a reduction.
    pub(crate) fn remove_factor(&self, code: c_int) -> Result<c_int, Error> {
        if code < FIRST_OWN_REDUCTION || !self.factors.remove(code) {
            let accepted = "what ncclRedOpCreatePreMulSum has given for this communicator, once";
            return Err(Error::argument("op", code, accepted));
        }
        Ok(result::SUCCESS)
    }

    /// The reduction with a code, and where its factor is on a GPU, if it is there.
    fn reduction(&self, code: c_int, data_type: DataType) -> Result<(Reduction, Option<u64>), Error> {
        if let Some(fixed) = u32::try_from(code).ok().and_then(Reduction::from_code) {
            return Ok((fixed, None));
        }
        let accepted = "0 (ncclSum) to 4 (ncclAvg), or what ncclRedOpCreatePreMulSum has given for this communicator";
        let factor = self.factors.get(code).ok_or_else(|| Error::argument("op", code, accepted))?;
        let (own, value, address) = match factor {
            Factor::Value(value) => (value.data_type(), value, None),
            // Each call reads the value on its stream.
            Factor::OnGpu(own, address) => (own, zero(own), Some(address)),
        };
        if own != data_type {
            let (own, asked) = (own.name(), data_type.name());
            return Err(Error::argument("datatype", asked, &format!("{own}, the type of the factor of op {code}")));
        }
        Ok((Reduction::PreMulSum(value), address))
    }

    fn check_use(&self, stream: Stream) -> Result<(), Error> {
        self.check_not_finalized()?;
        let Some(queue) = &self.queue else {
            if stream.is_null() {
                return Ok(());
            }
            let accepted = "NULL, as SYNCLINE_DEVICE is cpu: calls return when they are done";
            return Err(Error::argument("stream", format_args!("{stream:p}"), accepted));
        };
        let ours = |failure: Failure| Error::of_failure(&failure, self.communicator.rank());
        if queue.is_captured(stream as usize).map_err(ours)? {
            let message = "the stream is being captured for a graph, which Syncline does not support";
            return Err(Error::usage(format!("{message}; accepted: other streams, or SYNCLINE_DEVICE=nccl")));
        }
        Ok(())
    }
}

/// The buffer of a message.
#[derive(Clone, Copy)]
pub(crate) enum Buffer {
    /// It is sent from there.
    From(*const c_void),
    /// It is received there.
    Into(*mut c_void),
}

/// The data type with a code.
pub(crate) fn data_type(code: c_int) -> Result<DataType, Error> {
    let known = u32::try_from(code).ok().and_then(DataType::from_code);
    known.ok_or_else(|| Error::argument("datatype", code, "0 (ncclInt8) to 11 (ncclFloat8e5m2)"))
}

fn rank(name: &str, value: c_int, ranks: u32) -> Result<u32, Error> {
    match u32::try_from(value) {
        Ok(rank) if rank < ranks => Ok(rank),
        _ => Err(Error::argument(name, value, &format!("0 to {}, a rank of the communicator", ranks - 1))),
    }
}

fn check_count(count: usize, data_type: DataType, shares: usize) -> Result<(), Error> {
    let most = isize::MAX as usize / data_type.size() / shares;
    if count > most {
        return Err(Error::argument("count", count, &format!("0 to {most}, the elements that memory can have")));
    }
    Ok(())
}

fn no_buffer(name: &str, count: usize) -> Error {
    Error::argument(name, "NULL", &format!("a buffer, as there are {count} elements"))
}

/// A factor whose value is not known yet.
fn zero(data_type: DataType) -> Scalar {
    Scalar::from_bytes(data_type, &[0; 8][..data_type.size()]).expect("as many bytes as an element has")
}
