//! The events of a run: one flat enumeration of every layer's timers, so that the queue is one type.
//!
//! Timers of backends are listed with them (`networks`), those of endpoints here.

use crate::networks::NetworkEvent;
use syncline_core::{EventQueue, Key, Ps, Schedule};
use syncline_endpoint::ace::AceEvent;
use syncline_endpoint::message::WorkDone;
use syncline_workload::Stream;

/// Anything that happens at a time.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A stream of an NPU has finished its node.
    Computed(u32, Stream),
    /// A timer of the network.
    Network(NetworkEvent),
    /// A timer of the endpoint.
    Endpoint(EndpointEvent),
}

/// A layer's timer type, and its place in [`Event`].
pub trait Timer: Copy {
    /// The timer, if the event is of this type.
    fn from_event(event: Event) -> Option<Self>;

    /// The event that the timer is.
    fn into_event(self) -> Event;
}

/// The one queue of a run, in which every layer schedules its own timers.
#[derive(Debug)]
pub struct Queue(pub EventQueue<Event>);

impl<T: Timer> Schedule<T> for Queue {
    #[inline(always)]
    fn at(&mut self, time: Ps, key: Key, timer: T) {
        self.0.push(time, key, timer.into_event());
    }
}

/// One enumeration of timers of several types, and each one's place in it.
macro_rules! timers {
    ($layer:ident, $all:ident, $doc:literal: $($name:ident($timer:ty)),+ $(,)?) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "each variant holds the timer of the model it is named after")]
        pub enum $all {
            $($name($timer)),+
        }
        $(
            impl $crate::event::Timer for $timer {
                #[inline(always)]
                fn into_event(self) -> $crate::event::Event {
                    $crate::event::Event::$layer($all::$name(self))
                }

                #[inline(always)]
                fn from_event(event: $crate::event::Event) -> Option<$timer> {
                    match event {
                        $crate::event::Event::$layer($all::$name(timer)) => Some(timer),
                        _ => None,
                    }
                }
            }
        )+
    };
}

pub(crate) use timers;

timers!(Endpoint, EndpointEvent, "Timers of endpoints.": Message(WorkDone), Ace(AceEvent));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_small() {
        assert!(size_of::<Event>() <= 16, "{} bytes", size_of::<Event>());
    }
}
