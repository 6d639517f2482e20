//! A run that may be given up: of several ways to do something the fastest is wanted, and nothing of the others.
//!
//! An attempt ends with its run, or when simulated time is past that of a better one, or when it has cost more work
//! than it is worth. All three are the same on every machine: work is counted, in events, to which a network adds what
//! an event of its own may cost beyond one. It leaves no tables.

use serde::Serialize;

/// How far an attempt goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Picoseconds of simulated time after which it is given up.
    pub time_ps: u64,
    /// Work after which it is given up.
    pub work: u64,
}

impl Limits {
    /// Those of a run that goes on to its end.
    pub const NONE: Limits = Limits { time_ps: u64::MAX, work: u64::MAX };
}

/// Why an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The run is complete.
    Complete,
    /// It takes longer than the limit of simulated time.
    Late,
    /// It costs more work than the limit.
    Costly,
}

/// How an attempt ended, and what it was of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// How it ended.
    #[serde(flatten)]
    pub end: End,
    /// Slices of its pipelines, if it has any, and all have as many.
    pub slices: Option<u32>,
    /// Phases of a collective, at most.
    pub phases: u32,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// Why.
    pub ending: Ending,
    /// Simulated time until then.
    pub time_ps: u64,
    /// Events until then.
    pub events: u64,
    /// Those events, and what the network did beyond them ([`syncline_network::Network::further_work`]).
    pub work: u64,
    /// Bytes that the network delivered until then.
    pub delivered_bytes: u64,
    /// The longest that a link was busy; on a backend without contention a link may be asked for more than there is
    /// time.
    pub busiest_link_ps: u64,
}
