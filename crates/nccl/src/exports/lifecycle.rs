//! Making communicators and leaving them, and what belongs to one.

use super::entry::{exports, not_null};
use crate::abi::{Comm, Config, NO_COLOR, UniqueIdBytes, result};
use crate::communicators::jobs::{Job, Way};
use crate::communicators::registry::{Member, find_member};
use crate::communicators::slot::Slot;
use crate::device::Device;
use crate::error::Error;
use crate::executors::Executor;
use crate::executors::nccl::{self, Context, OwnedConfig};
use crate::group;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::thread;
use syncline_runtime::bootstrap::{Failure, Options, UniqueId};
use syncline_runtime::device::Gpu;

exports! {
    /// A new id, with a bootstrap server in this process.
    fn ncclGetUniqueId/pncclGetUniqueId(id: *mut UniqueIdBytes) {
        not_null("uniqueId", id)?;
        Device::from_environment()?;
        // SAFETY: the program's promise.
        unsafe { id.write(UniqueIdBytes { internal: *new_id()?.as_bytes() }) };
        Ok(result::SUCCESS)
    }

    /// Joins a communicator.
    fn ncclCommInitRank/pncclCommInitRank(comm: *mut Comm, ranks: c_int, id: UniqueIdBytes, rank: c_int) {
        // SAFETY: the program's promise.
        unsafe { init(comm, ranks, rank, &id, ptr::null()) }
    }

    /// Joins a communicator, with settings.
    fn ncclCommInitRankConfig/pncclCommInitRankConfig(
        comm: *mut Comm,
        ranks: c_int,
        id: UniqueIdBytes,
        rank: c_int,
        config: *mut Config,
    ) {
        // SAFETY: the program's promise.
        unsafe { init(comm, ranks, rank, &id, config) }
    }

    /// Joins a communicator that has several ids (since 2.23), of which the first one is enough here.
    fn ncclCommInitRankScalable/pncclCommInitRankScalable(
        comm: *mut Comm,
        ranks: c_int,
        rank: c_int,
        id_count: c_int,
        ids: *mut UniqueIdBytes,
        config: *mut Config,
    ) {
        if id_count < 1 || id_count > ranks {
            return Err(Error::argument("nId", id_count, &format!("1 to {ranks}, the number of ranks")));
        }
        if ids.is_null() {
            return Err(Error::argument("commIds", "NULL", "where the ids are"));
        }
        // SAFETY: there is one at least; the rest is the program's promise.
        unsafe { init(comm, ranks, rank, &*ids, config) }
    }

    /// Makes a communicator of ranks that are all in this process.
    fn ncclCommInitAll/pncclCommInitAll(comms: *mut Comm, count: c_int, devices: *const c_int) {
        not_null("comm", comms)?;
        let ranks = match u32::try_from(count) {
            Ok(ranks) if ranks > 0 => ranks,
            _ => return Err(Error::argument("ndev", count, "1 and more")),
        };
        let contexts = match Device::from_environment()? {
            Device::Cpu => Ok((0..ranks).map(|_| Context::current()).collect()),
            // SAFETY: the program's promise.
            Device::Cuda | Device::Nccl => unsafe { contexts(devices, ranks) },
        };
        if let (Err(reason), Err(why)) = (&contexts, nccl::library()) {
            return Err(Error::usage(format!("no executor: {reason}, and there is no NCCL ({why})")));
        }
        let members: Vec<Arc<Member>> =
            (0..ranks).map(|rank| Member::register(Some((rank, ranks)))).collect::<Result<_, _>>()?;
        let done = match contexts {
            Ok(contexts) => {
                let id = new_id()?;
                let job = |(member, context): (&Arc<Member>, Context)| {
                    Job::within(Some(member.clone()), Way::Join(id), OwnedConfig::default(), context)
                };
                group::make(members.iter().zip(contexts).map(job).collect())
            }
            Err(reason) => {
                nccl::say_served(ranks, &reason);
                let mut places: Vec<Comm> = vec![ptr::null_mut(); ranks as usize];
                // SAFETY: there is a place for each; devices are the program's promise.
                let done = group::call_nccl(in_nccl(), |function: Function| unsafe {
                    function(places.as_mut_ptr(), count, devices)
                });
                members.iter().zip(&places).try_for_each(|(member, place)| {
                    let mut slot = Slot::new(member.clone());
                    // SAFETY: the place is that of a communicator.
                    unsafe { slot.place().write(*place) };
                    slot.fill()
                })?;
                done
            }
        };
        for (index, member) in members.iter().enumerate() {
            let handle = if done.is_ok() { member.handle() } else { ptr::null_mut() };
            // SAFETY: the program's promise.
            unsafe { comms.add(index).write(handle) };
        }
        if done.is_err() {
            members.iter().try_for_each(|member| member.remove())?;
        }
        done
    }

    /// Makes communicators of the ranks of another one, by color.
    fn ncclCommSplit/pncclCommSplit(comm: Comm, color: c_int, key: c_int, new: *mut Comm, config: *mut Config) {
        not_null("newcomm", new)?;
        if color < NO_COLOR {
            return Err(Error::argument("color", color, "0 and more, or NCCL_SPLIT_NOCOLOR (-1)"));
        }
        let parent = find_member(comm)?;
        // SAFETY: the program's promise.
        let config = unsafe { OwnedConfig::copy(config)? };
        match parent.executor()? {
            // SAFETY: as above.
            Executor::Nccl(nccl) => unsafe {
                let color_is_none = color == NO_COLOR;
                derive(new, color_is_none, |place| {
                    group::call_nccl(in_nccl(), |function: Function| {
                        function(nccl.comm(), color, key, place, config.pointer().cast())
                    })
                })
            },
            Executor::Runtime(runtime) => {
                runtime.check_not_finalized()?;
                let member = if color == NO_COLOR { None } else { Some(Member::register(None)?) };
                let handle = member.as_ref().map_or(ptr::null_mut(), |member| member.handle());
                let (parent, settings) = (runtime.communicator().clone(), runtime.settings().clone());
                let way = Way::Split { parent, settings, color, key };
                // SAFETY: as above.
                unsafe { new.write(handle) };
                let made = group::make(vec![Job::new(member, way, config)]);
                if made.is_err() {
                    // SAFETY: as above.
                    unsafe { new.write(ptr::null_mut()) };
                }
                made
            }
        }
    }

    /// Ends what is under way. The rank makes no more calls.
    fn ncclCommFinalize/pncclCommFinalize(comm: Comm) {
        let member = find_member(comm)?;
        match member.executor()? {
            // SAFETY: the program's promise.
            Executor::Nccl(nccl) => group::call_nccl(in_nccl(), |function| unsafe { function(nccl.comm()) }),
            Executor::Runtime(_) => {
                group::close(member.clone());
                Ok(result::SUCCESS)
            }
        }
    }

    /// Leaves a communicator. Its handle is of no more use.
    fn ncclCommDestroy/pncclCommDestroy(comm: Comm) {
        let member = find_member(comm)?;
        let done = match member.executor() {
            // SAFETY: the program's promise.
            Ok(Executor::Nccl(nccl)) => group::call_nccl(in_nccl(), |function| unsafe { function(nccl.comm()) }),
            Ok(Executor::Runtime(_)) => {
                group::close(member.clone());
                Ok(result::SUCCESS)
            }
            // Its group has failed.
            Err(_) => Ok(result::SUCCESS),
        };
        member.remove()?;
        done
    }

    /// Gives a communicator up: calls under way return, here and on other ranks. Waits for nobody. Its handle is of
    /// no more use.
    fn ncclCommAbort/pncclCommAbort(comm: Comm) {
        let member = find_member(comm)?;
        let done = match member.executor() {
            // SAFETY: the program's promise.
            Ok(Executor::Nccl(nccl)) => nccl::ask(in_nccl(), |function| unsafe { function(nccl.comm()) }),
            Ok(Executor::Runtime(runtime)) => {
                runtime.communicator().abort();
                Ok(result::SUCCESS)
            }
            Err(_) => Ok(result::SUCCESS),
        };
        member.remove()?;
        // The goodbye to a server that is stopped takes a second or two, which the caller must not wait for. Where
        // there is no thread for it, it does.
        let _ = thread::Builder::new().name("syncline-leave".into()).spawn(move || member.leave());
        done
    }

    /// Prepares a buffer, which takes nothing on memory of the host.
    fn ncclCommRegister/pncclCommRegister(comm: Comm, buffer: *mut c_void, size: usize, handle: *mut *mut c_void) {
        not_null("handle", handle)?;
        match find_member(comm)?.executor()? {
            // SAFETY: the program's promise.
            Executor::Nccl(nccl) => nccl::ask(in_nccl(), |function| unsafe {
                function(nccl.comm(), buffer, size, handle)
            }),
            Executor::Runtime(_) => {
                // SAFETY: the program's promise.
                unsafe { handle.write(buffer) };
                Ok(result::SUCCESS)
            }
        }
    }

    /// Forgets a buffer.
    fn ncclCommDeregister/pncclCommDeregister(comm: Comm, handle: *mut c_void) {
        match find_member(comm)?.executor()? {
            // SAFETY: the program's promise.
            Executor::Nccl(nccl) => nccl::ask(in_nccl(), |function| unsafe { function(nccl.comm(), handle) }),
            Executor::Runtime(_) => Ok(result::SUCCESS),
        }
    }

    /// Makes a reduction that multiplies each input by a factor, and adds. The factor is read now, or by each call if it is in
    /// memory of a GPU.
    fn ncclRedOpCreatePreMulSum/pncclRedOpCreatePreMulSum(
        op: *mut c_int,
        scalar: *mut c_void,
        data_type: c_int,
        residence: c_int,
        comm: Comm,
    ) {
        not_null("op", op)?;
        let member = find_member(comm)?;
        match member.executor()? {
            // SAFETY: the program's promise.
            Executor::Nccl(nccl) => nccl::ask(in_nccl(), |function| unsafe {
                function(op, scalar, data_type, residence, nccl.comm())
            }),
            Executor::Runtime(runtime) => {
                if ![0, 1].contains(&residence) {
                    let accepted = "0 (ncclScalarDevice) or 1 (ncclScalarHostImmediate)";
                    return Err(Error::argument("residence", residence, accepted));
                }
                // SAFETY: the program's promise.
                let code = unsafe { runtime.add_factor(scalar, data_type, residence == 0)? };
                // SAFETY: as above.
                unsafe { op.write(code) };
                Ok(result::SUCCESS)
            }
        }
    }

    /// Forgets a reduction.
    fn ncclRedOpDestroy/pncclRedOpDestroy(op: c_int, comm: Comm) {
        let member = find_member(comm)?;
        match member.executor()? {
            // SAFETY: the program's promise.
            Executor::Nccl(nccl) => nccl::ask(in_nccl(), |function| unsafe { function(op, nccl.comm()) }),
            Executor::Runtime(runtime) => runtime.remove_factor(op),
        }
    }

    /// Memory for buffers: of the host with SYNCLINE_DEVICE=cpu, else NCCL's, or of the current GPU if there is none.
    fn ncclMemAlloc/pncclMemAlloc(pointer: *mut *mut c_void, size: usize) {
        /// What suits the vectors of any CPU.
        const ALIGNMENT: usize = 128;
        not_null("ptr", pointer)?;
        if Device::from_environment()? != Device::Cpu {
            if is_of_gpu() {
                let address = Gpu::allocate(size).map_err(|failure| Error::of_failure(&failure, 0))?;
                // SAFETY: the program's promise.
                unsafe { pointer.write(address as *mut c_void) };
                return Ok(result::SUCCESS);
            }
            // SAFETY: the program's promise.
            return nccl::ask(in_nccl(), |function| unsafe { function(pointer, size) });
        }
        // SAFETY: the program's promise; the alignment is a power of two and a multiple of a pointer's.
        if unsafe { libc::posix_memalign(pointer, ALIGNMENT, size.max(1)) } != 0 {
            return Err(Error::new(result::SYSTEM, format!("the system has no {size} bytes of memory")));
        }
        Ok(result::SUCCESS)
    }

    /// Gives memory back.
    fn ncclMemFree/pncclMemFree(pointer: *mut c_void) {
        if Device::from_environment()? != Device::Cpu {
            if is_of_gpu() {
                Gpu::free(pointer as u64).map_err(|failure| Error::of_failure(&failure, 0))?;
                return Ok(result::SUCCESS);
            }
            // SAFETY: the program's promise.
            return nccl::ask(in_nccl(), |function| unsafe { function(pointer) });
        }
        // SAFETY: it is from ncclMemAlloc, by the program's promise.
        unsafe { libc::free(pointer) };
        Ok(result::SUCCESS)
    }
}

/// Whether memory for buffers is of the current GPU, from its driver: NCCL's own is preferred, if there is one.
fn is_of_gpu() -> bool {
    nccl::library().is_err() && Device::from_environment().is_ok_and(|device| device == Device::Cuda)
}

/// The contexts of the GPUs of a program's list, or why the runtime cannot use them.
///
/// # Safety
/// The list is null, or has so many numbers.
unsafe fn contexts(devices: *const c_int, ranks: u32) -> Result<Vec<Context>, String> {
    if Device::from_environment().is_ok_and(|device| device == Device::Nccl) {
        return Err(nccl::ASKED_FOR.into());
    }
    // SAFETY: the caller's promise.
    let number = |rank: u32| if devices.is_null() { rank as c_int } else { unsafe { *devices.add(rank as usize) } };
    let context = |rank| Gpu::default_context(number(rank)).map(Context::of);
    let found = (0..ranks).map(context).collect::<Result<_, _>>();
    found.map_err(|failure| format!("Syncline cannot serve these GPUs ({})", failure.message))
}

fn new_id() -> Result<UniqueId, Error> {
    let ours = |failure: Failure| Error::of_failure(&failure, 0);
    UniqueId::create(&Options::from_environment().map_err(ours)?).map_err(ours)
}

/// Joins a communicator.
///
/// # Safety
/// The handle can be written, and a configuration has the bytes that it says.
unsafe fn init(
    comm: *mut Comm,
    ranks: c_int,
    rank: c_int,
    id: &UniqueIdBytes,
    config: *const Config,
) -> Result<c_int, Error> {
    not_null("comm", comm)?;
    let ranks = match u32::try_from(ranks) {
        Ok(ranks) if ranks > 0 => ranks,
        _ => return Err(Error::argument("nranks", ranks, "1 and more")),
    };
    let rank = match u32::try_from(rank) {
        Ok(rank) if rank < ranks => rank,
        _ => return Err(Error::argument("rank", rank, &format!("0 to {}, as nranks is {ranks}", ranks - 1))),
    };
    // SAFETY: the caller's promise.
    let config = unsafe { OwnedConfig::copy(config)? };
    let way = match (UniqueId::from_bytes(&id.internal), Device::from_environment()?) {
        (Ok(id), _) => Way::Join(id),
        // Rank 0 has got it from NCCL without Syncline, so that all ranks have to join there.
        (Err(_), Device::Cuda | Device::Nccl) if nccl::library().is_ok() => Way::JoinNccl(*id),
        (Err(failure), _) => return Err(Error::of_failure(&failure, rank)),
    };
    let member = Member::register(Some((rank, ranks)))?;
    // SAFETY: the caller's promise.
    unsafe { comm.write(member.handle()) };
    let made = group::make(vec![Job::new(Some(member), way, config)]);
    if made.is_err() {
        // SAFETY: as above; no group is open, as jobs are not done in one.
        unsafe { comm.write(ptr::null_mut()) };
    }
    made
}

/// Has NCCL make a communicator out of another one: now, or when the group ends.
///
/// # Safety
/// The handle can be written.
pub(super) unsafe fn derive(
    new: *mut Comm,
    makes_none: bool,
    make: impl FnOnce(*mut Comm) -> Result<c_int, Error>,
) -> Result<c_int, Error> {
    let member = Member::register(None)?;
    let mut slot = Slot::new(member.clone());
    let made = make(slot.place());
    let handle = if makes_none || made.is_err() { ptr::null_mut() } else { member.handle() };
    // SAFETY: the caller's promise.
    unsafe { new.write(handle) };
    if let Some(slot) = group::keep(slot) {
        slot.fill()?;
    }
    made
}
