//! Making communicators.
//!
//! A job has two parts. In the first, ranks meet and agree; it waits for other ranks, so that jobs of one group,
//! which may be ranks of one communicator, do it in threads of their own. The second hands the communicator to its
//! executor, in the thread of the caller, as NCCL depends on the GPU that is current there.

use super::agreement::{Agreed, agree};
use super::registry::Member;
use super::slot::{Slot, end_nccl_group};
use super::split::split;
use crate::abi::{UniqueIdBytes, result};
use crate::error::Error;
use crate::executors::Executor;
use crate::executors::nccl::{self, Context, OwnedConfig};
use crate::executors::runtime::{Runtime, Settings};
use crate::log;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use syncline_runtime::bootstrap::UniqueId;
use syncline_runtime::communicator::Communicator;
use syncline_runtime::device::Gpu;

/// A communicator to be made.
pub(crate) struct Job {
    /// What the program holds already; none for a rank that only takes part in a split.
    member: Option<Arc<Member>>,
    way: Way,
    /// For NCCL.
    config: OwnedConfig,
    context: Context,
}

/// How it is made.
pub(crate) enum Way {
    /// All ranks join with an id.
    Join(UniqueId),
    /// All ranks join with an id of NCCL's own, which rank 0 has got from it.
    JoinNccl(UniqueIdBytes),
    /// All ranks join with an id, with settings of their own, on memory of the host if there is no GPU.
    Own { id: UniqueId, settings: Settings, gpu: Option<Gpu> },
    /// Ranks of another one with the same color, with its settings.
    Split { parent: Arc<Communicator>, settings: Settings, color: c_int, key: c_int },
}

/// What a job has come to after the first part.
enum Prepared {
    Runtime(Arc<Communicator>, Settings),
    Nccl(UniqueIdBytes),
    /// The rank has no part in any communicator that a split makes.
    Nothing,
}

impl Job {
    /// A job of the calling thread.
    pub(crate) fn new(member: Option<Arc<Member>>, way: Way, config: OwnedConfig) -> Job {
        Job::within(member, way, config, Context::current())
    }

    /// A job for a context of CUDA.
    pub(crate) fn within(member: Option<Arc<Member>>, way: Way, config: OwnedConfig, context: Context) -> Job {
        Job { member, way, config, context }
    }

    /// Forgets the communicator, which is not made.
    pub(crate) fn discard(&self) {
        if let Some(member) = &self.member {
            // The only error is that of a forked process, which has no use for the list.
            let _ = member.remove();
        }
    }

    fn prepare(&self) -> Result<Prepared, Error> {
        match &self.way {
            Way::JoinNccl(id) => Ok(Prepared::Nccl(*id)),
            Way::Join(id) => {
                let Some(member) = &self.member else { return Ok(Prepared::Nothing) };
                let (rank, ranks) = member.place();
                let settings = Settings::from_environment().map_err(|failure| Error::of_failure(&failure, 0))?;
                match agree(id, rank, ranks, &settings.options, self.context.handle())? {
                    Agreed::Nccl(id) => Ok(Prepared::Nccl(id)),
                    Agreed::Host(id) => join(&id, rank, ranks, settings, None),
                    Agreed::Cuda { id, gpu } => join(&id, rank, ranks, settings, Some(gpu)),
                }
            }
            Way::Own { id, settings, gpu } => {
                let Some(member) = &self.member else { return Ok(Prepared::Nothing) };
                let (rank, ranks) = member.place();
                join(id, rank, ranks, settings.clone(), gpu.clone())
            }
            Way::Split { parent, settings, color, key } => {
                let part = split(parent, *color, *key, &settings.options)?;
                let (Some(part), Some(member)) = (part, &self.member) else { return Ok(Prepared::Nothing) };
                // The number of ranks was not known when the program got its handle.
                member.set_place(part.rank, part.ranks);
                join(&part.id, part.rank, part.ranks, settings.clone(), parent.gpu().cloned())
            }
        }
    }
}

fn join(id: &UniqueId, rank: u32, ranks: u32, settings: Settings, gpu: Option<Gpu>) -> Result<Prepared, Error> {
    let joined = Communicator::join_on(id, rank, ranks, &settings.options, settings.library.clone(), gpu);
    let communicator = joined.map_err(|failure| Error::of_failure(&failure, rank))?;
    Ok(Prepared::Runtime(Arc::new(communicator), settings))
}

/// Does jobs, and ends NCCL's group if it is open. If any fails, none of the communicators is made.
pub(crate) fn run(jobs: Vec<Job>, nccl_is_open: bool, slots: Vec<Slot>) -> Result<c_int, Error> {
    let prepared = match &jobs[..] {
        [only] => vec![only.prepare()],
        several => thread::scope(|scope| {
            let threads: Vec<_> = several
                .iter()
                .map(|job| thread::Builder::new().name("syncline-join".into()).spawn_scoped(scope, || job.guarded()))
                .collect();
            let done = |thread: std::io::Result<thread::ScopedJoinHandle<'_, _>>| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|_| Err(panicked())),
                Err(error) => Err(Error::new(result::SYSTEM, format!("the system refuses a thread: {error}"))),
            };
            threads.into_iter().map(done).collect()
        }),
    };
    let made = match prepared.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(prepared) => {
            let needs_group = prepared.iter().filter(|prepared| matches!(prepared, Prepared::Nccl(_))).count() > 1;
            hand_over(&jobs, prepared, nccl_is_open, needs_group, slots)
        }
        Err(error) => {
            if nccl_is_open {
                // The first failure is the one that counts.
                let _ = end_nccl_group(slots);
            }
            Err(error)
        }
    };
    if made.is_err() {
        jobs.iter().for_each(Job::discard);
    }
    made
}

impl Job {
    fn guarded(&self) -> Result<Prepared, Error> {
        catch_unwind(AssertUnwindSafe(|| self.prepare())).unwrap_or_else(|_| Err(panicked()))
    }
}

fn panicked() -> Error {
    Error::new(result::INTERNAL, "internal error while a communicator was made")
}

/// The second part.
fn hand_over(
    jobs: &[Job],
    prepared: Vec<Prepared>,
    nccl_is_open: bool,
    needs_group: bool,
    mut slots: Vec<Slot>,
) -> Result<c_int, Error> {
    if needs_group && !nccl_is_open {
        nccl::start_group()?;
    }
    let mut code = result::SUCCESS;
    let mut failed = None;
    for (job, prepared) in jobs.iter().zip(prepared) {
        let Some(member) = &job.member else { continue };
        match prepared {
            Prepared::Nothing => {}
            Prepared::Runtime(communicator, settings) => {
                log::info(|| {
                    let (rank, ranks) = (communicator.rank(), communicator.ranks());
                    let mut transports: Vec<&str> = communicator.transports().to_vec();
                    if ranks > 1 {
                        transports.remove(rank as usize); // how it reaches itself
                    }
                    transports.sort_unstable();
                    transports.dedup();
                    let place = communicator
                        .gpu()
                        .map_or_else(|| "memory of the host".to_owned(), |gpu| format!("the GPU {}", gpu.bus_id()));
                    format!("rank {rank} of {ranks} is served on {place}, over {}", transports.join(" and "))
                });
                if let (0, Some(note)) = (communicator.rank(), communicator.planner_note()) {
                    log::info(|| note.to_owned());
                }
                match Runtime::new(communicator, settings) {
                    Ok(runtime) => member.serve(Executor::Runtime(runtime)),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            Prepared::Nccl(id) => {
                let (rank, ranks) = member.place();
                let mut slot = Slot::new(member.clone());
                let place = slot.place();
                // SAFETY: the slot lives until NCCL's group has ended, if there is one.
                let made = job.context.within(|| unsafe { nccl::join(place, rank, ranks, id, &job.config) });
                match made {
                    Ok(new_code) => {
                        code = code.max(new_code);
                        slots.push(slot);
                    }
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
    }
    let ended = if needs_group || nccl_is_open {
        end_nccl_group(slots)
    } else {
        slots.into_iter().try_for_each(Slot::fill).map(|()| code)
    };
    match failed {
        Some(error) => Err(error),
        None => ended,
    }
}
