//! Trains of packets: small values that are copied from queue to queue.

use crate::api::MsgId;
use std::collections::VecDeque;
use syncline_core::Ps;

/// Where a train is on its path, and what kind of packets it has, in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrainState(u32);

impl TrainState {
    const TAIL: u32 = 1 << 31;
    const SHORT: u32 = 1 << 30;
    const VC: u32 = 1 << 29;
    const POSITION: u32 = Self::VC - 1;

    /// The beginning of a path, on channel 0.
    #[inline(always)]
    pub fn new(position: u32, tail: bool, short: bool) -> TrainState {
        assert!(position <= Self::POSITION, "more paths than a train can name");
        TrainState(position | if tail { Self::TAIL } else { 0 } | if short { Self::SHORT } else { 0 })
    }

    /// The index of the current hop in the table of paths.
    #[inline(always)]
    pub fn position(self) -> u32 {
        self.0 & Self::POSITION
    }

    /// The train has the last packet of its message.
    #[inline(always)]
    pub fn is_tail(self) -> bool {
        self.0 & Self::TAIL != 0
    }

    /// The train is the one packet of its message that is not full.
    #[inline(always)]
    pub fn is_short(self) -> bool {
        self.0 & Self::SHORT != 0
    }

    /// The virtual channel of the buffer that it is in or under way to.
    #[inline(always)]
    pub fn channel(self) -> u8 {
        u8::from(self.0 & Self::VC != 0)
    }

    /// The same on another channel.
    #[inline(always)]
    pub fn on_channel(self, vc: u8) -> TrainState {
        TrainState(self.0 & !Self::VC | if vc == 0 { 0 } else { Self::VC })
    }

    /// The next hop of the path.
    #[inline(always)]
    pub fn advanced(self) -> TrainState {
        TrainState(self.0 + 1)
    }

    /// The same without the last packet of the message.
    #[inline(always)]
    pub fn without_tail(self) -> TrainState {
        TrainState(self.0 & !Self::TAIL)
    }
}

/// Consecutive packets of one message. All are full, but for a short packet on its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    pub msg: MsgId,
    pub packets: u32,
    pub state: TrainState,
}

impl Train {
    /// Takes the first `n` packets off; none may be left.
    #[inline(always)]
    pub fn split(&mut self, n: u32) -> Train {
        debug_assert!(n <= self.packets, "a train has only its packets");
        let state = if n == self.packets { self.state } else { self.state.without_tail() };
        self.packets -= n;
        Train { packets: n, state, ..*self }
    }
}

/// A train under way on a link and the time of its next arrival at the far end.
#[derive(Clone, Copy, Debug)]
struct Coming {
    at: Ps,
    train: Train,
}

/// What is under way on a link, in order. One timer, for the first, suffices.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire(VecDeque<Coming>);

impl Wire {
    /// Puts a train on the wire whose next arrival is at `at`; true when it is the only one, so that
    /// a timer is due.
    #[inline(always)]
    pub fn push(&mut self, train: Train, at: Ps) -> bool {
        let only = self.0.is_empty();
        self.0.push_back(Coming { at, train });
        only
    }

    /// The same for packets that arrive one by one, every `gap` if full: the packet joins the train
    /// before it if it continues it.
    #[inline(always)]
    pub fn push_joining(&mut self, train: Train, at: Ps, gap: Ps) -> bool {
        if let Some(Coming { at: first, train: last }) = self.0.back_mut()
            && last.state == train.state.without_tail()
            && last.msg == train.msg
            && at == *first + gap.times(u64::from(last.packets))
            && let Some(packets) = last.packets.checked_add(train.packets)
        {
            *last = Train { packets, ..train };
            return false;
        }
        self.push(train, at)
    }

    /// The train that arrives next.
    #[inline(always)]
    pub fn front(&self) -> Option<Train> {
        self.0.front().map(|c| c.train)
    }

    /// When the next train arrives.
    #[inline(always)]
    pub fn next_arrival(&self) -> Option<Ps> {
        self.0.front().map(|c| c.at)
    }

    /// The first train has arrived as a whole.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Train> {
        self.0.pop_front().map(|c| c.train)
    }

    /// The first packet of the first train has arrived, the next one follows after `gap`.
    #[inline(always)]
    pub fn pop_packet(&mut self, gap: Ps) -> Option<Train> {
        let first = self.0.front_mut()?;
        let packet = first.train.split(1);
        if first.train.packets == 0 {
            self.0.pop_front();
        } else {
            first.at += gap;
        }
        Some(packet)
    }
}
