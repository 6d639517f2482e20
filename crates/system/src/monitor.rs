//! What other threads see of a simulation under way, and how they end it.
//!
//! The driver looks here once in many events: it writes down how far it is, and asks whether it is still wanted. Nothing
//! that it finds changes what a simulation does before it ends, so results are the same whoever looks on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Work between two looks, in events: about a thousandth of a second.
pub const EVERY: u64 = 1 << 13;

/// Says of any number of simulations that they are no longer wanted.
#[derive(Debug, Default)]
pub struct Cancellation(AtomicBool);

impl Cancellation {
    /// Ends what looks here, now and from now on.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has been called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How far a simulation is, and whether it is still wanted.
#[derive(Debug, Default)]
pub struct Monitor {
    own: Cancellation,
    shared: Option<Arc<Cancellation>>,
    time_ps: AtomicU64,
    events: AtomicU64,
}

impl Monitor {
    /// A monitor of a simulation that is ended by `shared` as well, along with others.
    pub fn sharing(shared: Arc<Cancellation>) -> Monitor {
        Monitor { shared: Some(shared), ..Monitor::default() }
    }

    /// Ends the simulation.
    pub fn cancel(&self) {
        self.own.cancel();
    }

    /// Whether the simulation is no longer wanted.
    pub fn is_cancelled(&self) -> bool {
        self.own.is_cancelled() || self.shared.as_ref().is_some_and(|shared| shared.is_cancelled())
    }

    /// Simulated time at the last look, in picoseconds. It begins anew where a run simulates more than once.
    pub fn time_ps(&self) -> u64 {
        self.time_ps.load(Ordering::Relaxed)
    }

    /// Events at the last look, over all that a run has simulated.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Writes down simulated time, and that there were so many more events.
    pub fn advance(&self, time_ps: u64, events: u64) {
        self.time_ps.store(time_ps, Ordering::Relaxed);
        self.events.fetch_add(events, Ordering::Relaxed);
    }
}
