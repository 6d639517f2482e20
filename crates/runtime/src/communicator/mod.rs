//! A rank's membership in a group of ranks, and the calls that it makes.

mod group;
mod peers;

pub(crate) use group::prepare;
pub use group::{Operation, run};

use crate::bootstrap::{Cause, Failure, Options, Session, UniqueId};
use crate::device::Gpu;
use crate::device::engine::Engine;
use crate::executor;
use crate::executor::exchange::Line;
use crate::executor::ports::Ports;
use crate::plan::Verified;
use crate::plan::library::Library;
use crate::plan::planner::{self, Answer, Wish};
use crate::transport::Peer;
use crate::transport::ring::{SLOT_BYTES, SLOTS};
use crate::transport::shared::Segment;
use crate::transport::tcp::Network;
use crate::value::DataType;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use syncline_collective::Kind;

/// A rank of a communicator.
pub struct Communicator {
    rank: u32,
    ranks: u32,
    session: Arc<Session>,
    /// The connections to ranks of other hosts, if there are any.
    network: Option<Network>,
    /// The segment with the bell of this rank.
    segment: Arc<Segment>,
    is_aborted: AtomicBool,
    /// How the rank reaches each peer.
    transports: Vec<&'static str>,
    /// Ranks of this host.
    neighbours: u32,
    /// What it has on its GPU, if buffers are there.
    engine: Option<Arc<Engine>>,
    /// The plans that the GPU is ready for, by collective, root and size class.
    prepared: Mutex<BTreeMap<(u8, u32, u32), Arc<Verified>>>,
    /// Which lines are open, so that a GPU reaches them.
    open_lines: Vec<AtomicBool>,
    collectives: Mutex<Collectives>,
    /// Messages to each rank and from each rank, in turn.
    lines: Vec<Mutex<Line>>,
    /// What the planner says of its plans, if it was asked.
    note: Option<String>,
}

/// What collectives use, one after the other.
struct Collectives {
    ports: Ports,
    library: Library,
    /// The number of the next one.
    next: u32,
}

/// How a collective is carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// The name of the plan: that of the algorithm, if it is one of the library's own.
    pub name: String,
    /// Bytes that go through the plan at a time: of the vector or, where ranks have shares of it, of each share.
    pub chunk_bytes: u64,
    /// How many such chunks there are.
    pub chunks: u32,
    /// Messages that a connection of two ranks holds.
    pub slots: u32,
    /// The most bytes of a message.
    pub slot_bytes: usize,
}

impl Communicator {
    /// Joins the communicator of an id as one of its ranks, and waits until all have.
    ///
    /// # Errors
    /// A [`Failure`], as [`Session::join`] has it, or if the ranks cannot reach each other.
    pub fn join(
        id: &UniqueId,
        rank: u32,
        ranks: u32,
        options: &Options,
        library: Library,
    ) -> Result<Communicator, Failure> {
        Communicator::join_on(id, rank, ranks, options, library, None)
    }

    /// The same, with buffers in memory that a GPU reaches, if one is given. All ranks have one then; they may have the same.
    ///
    /// Calls of such a communicator are ordered by streams ([`crate::device::Queue`]).
    ///
    /// # Errors
    /// As above, and if the GPU or its driver fails.
    pub fn join_on(
        id: &UniqueId,
        rank: u32,
        ranks: u32,
        options: &Options,
        library: Library,
        gpu: Option<Gpu>,
    ) -> Result<Communicator, Failure> {
        let engine = gpu.map(Engine::new).transpose()?.map(Arc::new);
        let peers::Joined { session, network, segment, peers, neighbours, is_one_host } =
            peers::join(id, rank, ranks, options)?;
        let mut library = library;
        let gpus = match &engine {
            None => vec![None; ranks as usize],
            Some(engine) => addresses(&session, engine.gpu())?,
        };
        let (plans, note) = planned(&session, &gpus, is_one_host)?;
        library.add_for_large(plans);
        if let Some(engine) = &engine {
            engine.meet(&session, &segment, &peers, options)?;
        }
        let direct = |rank| engine.as_ref().is_some_and(|engine| engine.reaches(rank));
        let name = |(rank, peer): (u32, &Arc<dyn Peer>)| if direct(rank) { "memory of GPUs" } else { peer.name() };
        let transports = (0..).zip(&peers).map(name).collect();
        let both = (0..).zip(&peers).flat_map(|(rank, peer)| [(rank, peer), (rank, peer)]);
        let lines = both.map(|(rank, peer)| Mutex::new(Line::new(peer.clone(), rank, engine.clone()))).collect();
        let open_lines = (0..2 * ranks).map(|_| AtomicBool::new(false)).collect();
        let collectives = Mutex::new(Collectives { ports: Ports::new(peers, engine.clone()), library, next: 0 });
        Ok(Communicator {
            rank,
            ranks,
            session,
            network,
            segment,
            is_aborted: AtomicBool::new(false),
            transports,
            neighbours,
            engine,
            prepared: Mutex::default(),
            open_lines,
            collectives,
            lines,
            note,
        })
    }

    /// The number of this rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The GPU that reaches the buffers, if they are not in memory of the host.
    pub fn gpu(&self) -> Option<&Gpu> {
        self.engine.as_ref().map(|engine| engine.gpu())
    }

    pub(crate) fn engine(&self) -> Option<&Arc<Engine>> {
        self.engine.as_ref()
    }

    /// How this rank reaches each other one, by rank.
    pub fn transports(&self) -> &[&'static str] {
        &self.transports
    }

    /// How a collective of `count` elements (of a share, where ranks have shares) would be carried out. No message is
    /// sent.
    ///
    /// # Errors
    /// A [`Failure`], as for the call itself.
    pub fn chosen(&self, kind: Kind, root: u32, count: u64, data_type: DataType) -> Result<Chosen, Failure> {
        self.session.usable()?;
        let element = data_type.size() as u32;
        let plan = locked(&self.collectives).library.plan(kind, root, self.ranks, count * u64::from(element))?;
        let (chunk_bytes, chunks) = executor::chunks(&plan, self.rank, count, element);
        Ok(Chosen { name: plan.name().into(), chunk_bytes, chunks, slots: SLOTS, slot_bytes: SLOT_BYTES })
    }

    /// What the planner says of its plans, if it was asked for some.
    pub fn planner_note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The failure of the communicator, if there is one: after it, no call succeeds.
    pub fn failure(&self) -> Option<Failure> {
        if self.is_aborted.load(Ordering::SeqCst) {
            return Some(self.aborted());
        }
        self.session.failure()
    }

    /// How long a call may wait without any progress.
    pub(crate) fn timeout(&self) -> Duration {
        self.session.timeout()
    }

    /// Gives the communicator up, from any thread: calls under way return, here and on all other ranks.
    pub fn abort(&self) {
        self.is_aborted.store(true, Ordering::SeqCst);
        self.segment.bell().ring();
        self.session.abort();
    }

    /// Says that this rank makes no more calls.
    pub fn leave(&self) {
        // What is on its way to other hosts has been accepted, and arrives.
        self.network.iter().for_each(Network::drain);
        self.session.leave();
    }

    /// What each rank has passed, by rank. All ranks have to take part.
    ///
    /// # Errors
    /// A [`Failure`], as [`Session::exchange`] has it.
    pub fn exchange(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        self.session.exchange(bytes)
    }

    /// Tells all ranks of a failure that this one has found. Returns the one that they agree on.
    pub(crate) fn report(&self, failure: Failure) -> Failure {
        // The driver knows nothing of ranks.
        let named = match failure {
            Failure { cause: Cause::Device, rank: None, .. } => {
                let message = format!("on rank {}, {}", self.rank, failure.message);
                Failure { message, ..failure }.of_rank(self.rank)
            }
            other => other,
        };
        self.session.report(named)
    }

    fn aborted(&self) -> Failure {
        Failure::new(Cause::Aborted, "the communicator was aborted").of_rank(self.rank)
    }

    /// Messages to a rank, or from it.
    fn line(&self, rank: u32, is_sent: bool) -> usize {
        2 * rank as usize + usize::from(!is_sent)
    }
}

/// The PCI addresses of the GPUs of all ranks, by rank.
fn addresses(session: &Session, gpu: &Gpu) -> Result<Vec<Option<String>>, Failure> {
    let told = session.exchange(gpu.bus_id().as_bytes())?;
    Ok(told.into_iter().map(|address| String::from_utf8(address).ok()).collect())
}

/// The plans of the planner, if any rank wants some, and what it says of them. The first rank that does asks for all.
/// `gpus` are the PCI addresses of the ranks' GPUs, where they have some.
fn planned(
    session: &Session,
    gpus: &[Option<String>],
    is_one_host: bool,
) -> Result<(Vec<Verified>, Option<String>), Failure> {
    let wish = Wish::from_environment(gpus);
    let wishes = session.exchange(&[u8::from(wish.is_some())])?;
    let Some(first) = wishes.iter().position(|wish| wish == &[1]) else { return Ok((Vec::new(), None)) };
    let answer = match wish {
        Some(wish) if first == session.rank() as usize => wish.answer(session.ranks(), is_one_host),
        _ => Ok(Answer::default()),
    };
    let text = serde_json::to_vec(&answer).map_err(|error| Failure::new(Cause::System, error.to_string()))?;
    let answers = session.exchange(&text)?;
    let answer: Result<Answer, Failure> = serde_json::from_slice(&answers[first])
        .map_err(|error| Failure::new(Cause::System, format!("what the planner found cannot be read: {error}")))?;
    let answer = answer?;
    match planner::verified(&answer.plans, session.ranks()) {
        Ok(plans) => Ok((plans, Some(answer.note))),
        Err(failure) if answer.may_fail => Ok((Vec::new(), Some(format!("no trees: {}", failure.message)))),
        Err(failure) => Err(failure),
    }
}

/// What a lock protects, also after a panic: the communicator is of no use then, but says so by itself.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
