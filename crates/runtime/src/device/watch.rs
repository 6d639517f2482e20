//! Whether a thread is held up in a call of the driver.
//!
//! Seen on an H200 with driver 580: a copy between a GPU and memory of the host that is not pinned waits for its stream. The
//! driver makes no event, stream or memory meanwhile; and if that is the stream `NULL`, it takes no copies, kernels and events for
//! other streams either. If the stream waits for a call of Syncline, neither goes on.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

thread_local! {
    static OWN: RefCell<Option<Arc<Calls>>> = const { RefCell::new(None) };
}

/// Calls of the driver by one thread, as another thread sees them.
#[derive(Default)]
pub(super) struct Calls(Mutex<Last>);

/// The last call.
#[derive(Clone, Copy, Default)]
struct Last {
    name: &'static str,
    number: u64,
    is_under_way: bool,
}

impl Calls {
    /// Follows the calls of the current thread, from now on.
    pub(super) fn follow(self: &Arc<Calls>) {
        OWN.set(Some(self.clone()));
    }

    fn update(&self, change: impl FnOnce(&mut Last)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Makes a call of the driver.
pub(super) fn entered<T>(name: &'static str, call: impl FnOnce() -> T) -> T {
    OWN.with_borrow(|own| {
        let update = |is_under_way| {
            let begun = u64::from(is_under_way);
            own.iter().for_each(|calls| {
                calls.update(|last| *last = Last { name, number: last.number + begun, is_under_way });
            });
        };
        update(true);
        let done = call();
        update(false);
        done
    })
}

/// What one who looks at the calls of a thread from time to time has seen.
pub(super) struct Watch {
    calls: Arc<Calls>,
    seen: u64,
    since: Instant,
}

impl Watch {
    pub(super) fn new(calls: Arc<Calls>, now: Instant) -> Watch {
        Watch { calls, seen: 0, since: now }
    }

    /// The call in which the thread is, and for how long it has been seen there; nothing, if it is in none.
    pub(super) fn held_up(&mut self, now: Instant) -> Option<(&'static str, Duration)> {
        let last = *self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.number != self.seen {
            (self.seen, self.since) = (last.number, now);
        }
        last.is_under_way.then(|| (last.name, now - self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    #[test]
    fn the_time_of_a_call_is_seen_from_outside() {
        let (calls, start) = (Arc::new(Calls::default()), now());
        let mut watch = Watch::new(calls.clone(), start);
        let mut seen = |seconds| {
            let call = watch.held_up(start + Duration::from_secs(seconds));
            call.map(|(name, time)| (name, time.as_secs()))
        };
        assert_eq!(seen(1), None);
        entered("a", || assert_eq!(seen(2), None, "nobody follows this thread"));
        calls.follow();
        entered("b", || assert_eq!([seen(3), seen(4), seen(6)], [0, 1, 3].map(|time| Some(("b", time)))));
        assert_eq!(seen(7), None);
        entered("c", || assert_eq!([seen(8), seen(9)], [0, 1].map(|time| Some(("c", time)))));
        entered("c", || assert_eq!([seen(10), seen(11)], [0, 1].map(|time| Some(("c", time))), "this is another call"));
        std::thread::spawn(move || entered("d", || ())).join().unwrap();
        assert_eq!(seen(12), None);
    }
}
