//! Lines on standard error, each beginning with `syncline:`.
//!
//! Without `SYNCLINE_DEBUG` there is at most one a process: that NCCL serves its communicators.

use std::env;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Only the fallback, once.
    Quiet,
    /// Communicators and failures.
    Info,
    /// Every call as well.
    Trace,
}

/// The level that the environment asks for.
fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| match env::var("SYNCLINE_DEBUG").ok().as_deref() {
        None | Some("") => Level::Quiet,
        Some("info") => Level::Info,
        Some("trace") => Level::Trace,
        Some(other) => {
            eprintln!("syncline: SYNCLINE_DEBUG is {other:?}; accepted: info, trace; taken as info");
            Level::Info
        }
    })
}

/// Says something at level `info`.
pub(crate) fn info(text: impl FnOnce() -> String) {
    if level() >= Level::Info {
        eprintln!("syncline: {}", text());
    }
}

/// Says something at level `trace`.
pub(crate) fn trace(text: impl FnOnce() -> String) {
    if level() >= Level::Trace {
        eprintln!("syncline: {}", text());
    }
}

/// Says that NCCL takes over: the first time always, later at level `info`.
pub(crate) fn fallback(text: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) || level() >= Level::Info {
        eprintln!("syncline: {text}");
    }
}
