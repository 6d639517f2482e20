//! Deadlock rules: how many free slots, of which virtual channel, a packet must find to start.
//!
//! Packets that circle a ring can fill its buffers so that each waits for the next. A rule breaks
//! that cycle by what it demands of a packet before the packet may start. Everything the rest of the
//! backend knows of a rule is the *lane* of a packet: packets of one lane have equal demands, so the
//! first of them that is blocked blocks all of its lane and nobody else.

use crate::api::TrafficClass;

/// How rings are kept free of deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlockRule {
    /// A packet that enters a ring (from the local NPU, or from another dimension) leaves at least
    /// one slot of the next buffer free; a packet that stays in its ring needs one slot and may
    /// overtake a packet that waits to enter. A ring then always keeps a free slot to move into, and
    /// all nodes stay alike. (Bubble flow control: Carrion et al. 1997, Puente et al. 1999.)
    Bubble,
    /// Two virtual channels, each half of a buffer: a packet enters a ring on the first and moves to
    /// the second where it crosses the ring's wrap-around link. (Dally and Seitz 1987.)
    Dateline,
    /// Two virtual channels, each half of a buffer: one for the first [buffers](TrafficClass::buffers), one for all others. For
    /// networks whose routers forward nothing, so that receivers are all that a packet may have to wait for.
    Classes,
    /// No rule: rings may deadlock. For tests, and for fabrics without cycles.
    None,
}

/// Packets of equal demands at one output port; see [`DeadlockRule::lane`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lane(u8);

impl Lane {
    /// Both lanes; a rule may use only the first.
    pub const ALL: [Lane; 2] = [Lane(0), Lane(1)];

    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The lane that is not this one.
    #[inline(always)]
    pub const fn other(self) -> Lane {
        Lane(1 - self.0)
    }
}

impl DeadlockRule {
    /// Virtual channels into which an input buffer is divided.
    pub const fn channels(self) -> u32 {
        match self {
            DeadlockRule::Dateline | DeadlockRule::Classes => 2,
            DeadlockRule::Bubble | DeadlockRule::None => 1,
        }
    }

    /// The smallest input buffer, in packets, with which a packet can ever start.
    pub const fn smallest_buffer(self) -> u32 {
        match self {
            DeadlockRule::Bubble | DeadlockRule::Dateline | DeadlockRule::Classes => 2,
            DeadlockRule::None => 1,
        }
    }

    /// The virtual channel of a class, where it depends on that alone.
    #[inline(always)]
    pub(super) fn channel_for(self, class: TrafficClass) -> Option<u8> {
        (self == DeadlockRule::Classes).then_some(u8::from(class.buffers() != 0))
    }

    /// The virtual channel behind a link, for a packet that came on channel `vc`.
    #[inline(always)]
    pub(super) fn next_channel(self, enters: bool, vc: u8, wraps: bool) -> u8 {
        match self {
            DeadlockRule::Dateline => u8::from(wraps || (!enters && vc == 1)),
            DeadlockRule::Classes => vc,
            DeadlockRule::Bubble | DeadlockRule::None => 0,
        }
    }

    /// The lane of a packet that is going to use channel `vc`.
    #[inline(always)]
    pub(super) fn lane(self, enters: bool, vc: u8) -> Lane {
        match self {
            DeadlockRule::Bubble => Lane(u8::from(!enters)),
            DeadlockRule::Dateline | DeadlockRule::Classes => Lane(vc),
            DeadlockRule::None => Lane(0),
        }
    }

    /// Free slots that a packet of a lane must find; it takes one of them.
    #[inline(always)]
    pub(super) fn slots_needed(self, lane: Lane) -> u64 {
        match (self, lane) {
            (DeadlockRule::Bubble, Lane(0)) => 2,
            _ => 1,
        }
    }

    /// The channel that the packets of a lane use.
    #[inline(always)]
    pub(super) fn channel_of(self, lane: Lane) -> usize {
        match self {
            DeadlockRule::Dateline | DeadlockRule::Classes => lane.index(),
            DeadlockRule::Bubble | DeadlockRule::None => 0,
        }
    }
}
