//! Timers of endpoints that share NPUs: which room one belongs to, and the order of those of different rooms.

use crate::ace::AceEvent;
use crate::api::RoomId;
use crate::work_done::WorkDone;
use syncline_core::{Key, Owned, Ps, Schedule};

/// Bits of an NPU's number that name the room.
const ROOM_BITS: u32 = 12;
/// Rooms that timers tell apart.
pub const MAX_ROOMS: usize = 1 << ROOM_BITS;
/// NPUs that timers tell apart where there are rooms.
pub const MAX_NPUS: u32 = 1 << (u32::BITS - ROOM_BITS);

/// Bits of a key that name a room of an NPU.
const NUMBER_BITS: u32 = 4;
/// Rooms of an NPU that keys tell apart, the one of messages between two ranks among them.
pub const MAX_NUMBERS: u8 = 1 << NUMBER_BITS;

/// A timer that names its NPU, or what else it happens at.
pub trait RoomTimer: Copy {
    /// That number.
    fn npu_mut(&mut self) -> &mut u32;
}

impl RoomTimer for WorkDone {
    #[inline]
    fn npu_mut(&mut self) -> &mut u32 {
        match self {
            WorkDone::Step { npu, .. }
            | WorkDone::Packet { npu, .. }
            | WorkDone::Transit { npu, .. }
            | WorkDone::Passing { npu, .. }
            | WorkDone::Injected { npu }
            | WorkDone::Shares { npu } => npu,
        }
    }
}

impl RoomTimer for AceEvent {
    #[inline]
    fn npu_mut(&mut self) -> &mut u32 {
        match self {
            AceEvent::Loaded { npu, .. }
            | AceEvent::Received { npu, .. }
            | AceEvent::Fetched { npu, .. }
            | AceEvent::Written { npu, .. }
            | AceEvent::Read { npu, .. }
            | AceEvent::Stored { npu }
            | AceEvent::Port { npu, .. }
            | AceEvent::Crossed { npu, .. }
            | AceEvent::Drained { npu, .. } => npu,
        }
    }
}

/// The timer of a room, as the queue has it.
fn marked<T: RoomTimer>(mut timer: T, room: RoomId) -> T {
    *timer.npu_mut() |= u32::from(room.0) << (u32::BITS - ROOM_BITS);
    timer
}

/// The room of a timer, and the timer as the room has set it.
pub(super) fn unmarked<T: RoomTimer>(mut timer: T) -> (RoomId, T) {
    let npu = timer.npu_mut();
    let room = RoomId((*npu >> (u32::BITS - ROOM_BITS)) as u16);
    *npu &= MAX_NPUS - 1;
    (room, timer)
}

/// A timer of the network below the rooms.
#[derive(Clone, Copy, Debug)]
pub struct Below<T>(T);

/// The queue as a room sees it.
#[derive(Debug)]
pub struct RoomQueue<'a, Q> {
    pub(super) queue: &'a mut Q,
    pub(super) room: RoomId,
    /// What tells the rooms of an NPU apart in keys.
    pub(super) number: u8,
}

impl<T: RoomTimer, Q: Schedule<T>> Schedule<T> for RoomQueue<'_, Q> {
    #[inline]
    fn at(&mut self, time: Ps, key: Key, timer: T) {
        let timer = self.owned(key, timer);
        self.at_for_owner(time, timer);
    }

    #[inline]
    fn owned(&self, key: Key, timer: T) -> Owned<T> {
        Owned { key: key.of_part(self.number, NUMBER_BITS), event: marked(timer, self.room) }
    }

    #[inline]
    fn at_for_owner(&mut self, time: Ps, timer: Owned<T>) {
        self.queue.at_for_owner(time, timer);
    }
}

impl<T, Q: Schedule<T>> Schedule<Below<T>> for RoomQueue<'_, Q> {
    #[inline]
    fn at(&mut self, time: Ps, key: Key, Below(timer): Below<T>) {
        self.queue.at(time, key, timer);
    }
}

/// A queue for timers of the network, as the network sees it through a room.
pub(super) struct Lower<'a, Q>(pub &'a mut Q);

impl<T, Q: Schedule<Below<T>>> Schedule<T> for Lower<'_, Q> {
    #[inline]
    fn at(&mut self, time: Ps, key: Key, timer: T) {
        self.0.at(time, key, Below(timer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ChunkId;

    #[test]
    fn a_timer_comes_back_with_its_room() {
        for (npu, room) in [(0, 0), (MAX_NPUS - 1, MAX_ROOMS as u16 - 1), (17, 3)] {
            let step = WorkDone::Step { npu, seq: ChunkId(5), thread: 1, stage: 2 };
            let (found, mut timer) = unmarked(marked(step, RoomId(room)));
            assert_eq!((found, *timer.npu_mut()), (RoomId(room), npu));
        }
    }
}
