//! The clock of what waits for other processes, and so cannot do without one.

use std::time::{Duration, Instant};

/// The time on a clock that never goes back.
#[expect(clippy::disallowed_methods, reason = "faults of real processes are noticed by real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// What poll(2) waits at most when it has to look again at one of these times; nothing, if there is none.
pub(crate) fn poll_limit(now: Instant, deadline: Option<Instant>) -> Option<rustix::time::Timespec> {
    Some(timespec(deadline?.saturating_duration_since(now).min(Duration::from_secs(3600))))
}

/// A time of at most some hours, as the system takes it.
pub(crate) fn timespec(time: Duration) -> rustix::time::Timespec {
    rustix::time::Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// How long something was allowed to take, for a person: `10 s` or `0.25 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
