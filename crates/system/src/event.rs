//! The events of a run: one flat enumeration of every layer's timers, so that the queue is one type.
//!
//! Timers of backends are listed with them ([`crate::networks`]), as are those of endpoints ([`crate::endpoints`]).

use crate::cohorts::CohortId;
use crate::endpoints::EndpointEvent;
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use syncline_core::{EventQueue, Key, Ps, Schedule};
use syncline_workload::{NodeIndex, Stream};

/// Anything that happens at a time.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A stream of an NPU has finished its node.
    Computed(u32, Stream),
    /// An NPU begins.
    Begun(u32),
    /// The collective of a node has been launched on an NPU.
    Launched(u32, NodeIndex),
    /// Chunks are entered into logs that are written at the end of an instant.
    Enter,
    /// The collective of a cohort whose turn it is has been launched on an NPU.
    Turn(u32, CohortId),
    /// A timer of the network.
    Network(NetworkEvent),
    /// A timer of the endpoint.
    Endpoint(EndpointEvent),
}

impl From<NetworkEvent> for Event {
    #[inline(always)]
    fn from(timer: NetworkEvent) -> Event {
        Event::Network(timer)
    }
}

impl From<EndpointEvent> for Event {
    #[inline(always)]
    fn from(timer: EndpointEvent) -> Event {
        Event::Endpoint(timer)
    }
}

/// The one queue of a run, in which every layer schedules its own timers.
#[derive(Debug)]
pub struct Queue(pub EventQueue<Event>);

impl<T: Timer<Layer: Into<Event>>> Schedule<T> for Queue {
    #[inline(always)]
    fn at(&mut self, time: Ps, key: Key, timer: T) {
        self.0.push(time, key, timer.into_layer().into());
    }

    fn next_time(&self) -> Ps {
        self.0.next_time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_small() {
        assert!(size_of::<Event>() <= 16, "{} bytes", size_of::<Event>());
    }
}
