//! Buses whose messages cost more than their bytes: LogGP (Alexandrov, Ionescu, Schauser and Scheiman, "LogGP:
//! Incorporating Long Messages into the LogP Model", 1995), which the first version of the ACE paper uses for the
//! NPU-NIC and the NPU-MEM bus (section 5, "Simulation Parameters": L = 50, o = g = 20 cycles).
//!
//! ```text
//!   sender   |-- o --|                                    the message is handed to the bus
//!   bus              |------ n G ------|                  its bytes follow one another
//!   bus                                |---- L ----|      the last one travels
//!   receiver                                       |- o -|
//! ```
//!
//! A message of `n` bytes that finds the bus idle is there after `o + n G + L + o`; messages that follow one
//! another begin at least `max(o, g, n G)` apart, since a sender is busy for `o`, a bus for `n G`, and takes no more
//! than one message per `g`. `G` is the time of a byte at the bandwidth of the bus.
//!
//! # Readings
//! * `n G`, not `(n-1) G`: LogGP lets the first byte enter within `o`. Here every byte takes its `G`, so that a bus
//!   is never faster than its bandwidth, however its data is cut, and with `L = o = g = 0` is the plain server. The
//!   difference is one byte per message.
//! * `g` is the time from the beginning of a message to that of the next, as in LogP; a long message covers it.
//! * A transfer that is longer than the largest message of a bus crosses it as a train of such messages and a rest.
//!   Where it goes on over a second bus, its messages do so one by one.
//! * A stream whose bytes come bit by bit is one message for as long as the bus has some of it to carry, or as a message
//!   may be.

use syncline_core::{Bytes, Ps, Rate};

/// What a message costs a bus beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGp {
    /// L: from the sending end of the bus to the receiving one.
    pub latency: Ps,
    /// o: what either end is busy with a message.
    pub overhead: Ps,
    /// g: least time between the beginnings of two messages.
    pub gap: Ps,
    /// Longer transfers are cut into messages of so many bytes; `None`: each is one message.
    pub message: Option<Bytes>,
}

/// When the first message of a transfer is at some place, and when its last one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// The first message.
    pub first: Ps,
    /// The last one.
    pub last: Ps,
}

impl Train {
    /// Everything is there at once.
    pub const fn at(time: Ps) -> Train {
        Train { first: time, last: time }
    }
}

/// How a transfer uses a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// When its first message begins.
    pub start: Ps,
    /// When the bus can take the next transfer.
    pub free: Ps,
    /// How long the bus is taken.
    pub busy: Ps,
    /// When its messages are across.
    pub done: Train,
}

impl LogGp {
    /// Lets `size` bytes whose messages are ready as `ready` says cross a bus of `rate` that is free at `free`.
    ///
    /// Of messages of equal cost, the last begins when all before it have begun, or when it is ready itself.
    pub fn cross(self, rate: Rate, free: Ps, ready: Train, size: Bytes) -> Crossing {
        let full = self.message.unwrap_or(size).0.max(1);
        let before_last = size.0.saturating_sub(1) / full;
        let rest = Bytes(size.0 - before_last * full);
        let apart = |len: Bytes| rate.time(len).max(self.overhead).max(self.gap);
        let takes = |len: Bytes| self.overhead + rate.time(len) + self.latency + self.overhead;
        let first_len = if before_last > 0 { Bytes(full) } else { rest };
        let start = free.max(ready.first);
        let before = apart(Bytes(full)).times(before_last);
        let last_start = (start + before).max(ready.last);
        let done = Train { first: start + takes(first_len), last: last_start + takes(rest) };
        Crossing { start, free: last_start + apart(rest), busy: before + apart(rest), done }
    }

    /// Lets `size` bytes more of the message that keeps the bus busy until `free` cross it.
    pub fn go_on(self, rate: Rate, free: Ps, size: Bytes) -> Crossing {
        let busy = rate.time(size);
        let done = Train::at(free + self.overhead + busy + self.latency + self.overhead);
        Crossing { start: free, free: free + busy, busy, done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::RateServer;
    use proptest::prelude::*;

    /// The NPU-NIC bus of the paper, rounded to nanoseconds; the gap is longer than the overhead, so that both show.
    const BUS: LogGp = LogGp { latency: Ps(71_000), overhead: Ps(29_000), gap: Ps(31_000), message: None };
    const RATE: u64 = 500_000_000_000; // 2 ps per byte

    fn server(bus: Option<LogGp>) -> RateServer {
        RateServer::new("bus", Rate::new(RATE).unwrap(), 1).with_protocol(bus)
    }

    #[test]
    fn one_message() {
        let expected = Ps(29_000 + 2 * 4096 + 71_000 + 29_000);
        assert_eq!(server(Some(BUS)).serve(0, Ps(5), Bytes(4096)), Ps(5) + expected);
    }

    /// Ten messages that are shorter than the gap leave the bus one per gap, ten longer ones at its bandwidth.
    #[test]
    fn a_train_of_messages() {
        for (len, apart) in [(4096u64, 31_000), (65_536, 2 * 65_536)] {
            let one = 29_000 + 2 * len + 71_000 + 29_000;
            let bus = LogGp { message: Some(Bytes(len)), ..BUS };
            let mut server = server(Some(bus));
            let done = server.transfer(0, Train::at(Ps::ZERO), Bytes(10 * len));
            assert_eq!(done, Train { first: Ps(one), last: Ps(9 * apart + one) });
            assert_eq!((server.usage.busy, server.usage.wait), (u128::from(10 * apart), 0));
            assert_eq!(server.usage.transfer, u128::from(9 * apart + one));
        }
    }

    /// A bus that always has work carries its bandwidth, or a message per gap; what comes last waits for all.
    #[test]
    fn a_saturated_bus() {
        for (len, apart) in [(1024u64, 31_000), (1 << 20, 2 << 20)] {
            let mut server = server(Some(BUS));
            let done = (0..1000).map(|_| server.serve(0, Ps::ZERO, Bytes(len))).last().unwrap();
            assert_eq!(done, Ps(999 * apart + 2 * 29_000 + 71_000 + 2 * len));
            assert_eq!(server.usage.wait, (0..1000).map(|i| u128::from(i * apart)).sum::<u128>());
        }
    }

    #[test]
    fn a_sender_that_is_slower_than_the_gap() {
        let bus = LogGp { overhead: Ps(50_000), ..BUS };
        let mut server = server(Some(bus));
        server.serve(0, Ps::ZERO, Bytes(1));
        assert_eq!(server.serve(0, Ps::ZERO, Bytes(1)), Ps(50_000 + 2 * 50_000 + 2 + 71_000));
    }

    /// Packets that come faster than the gap are one message; after a pause, another one.
    #[test]
    fn a_stream_of_packets() {
        let mut server = server(Some(BUS));
        let done: Vec<Ps> = (0..10).map(|i| server.stream(0, Ps(i * 100), Bytes(256))).collect();
        let one = 2 * 29_000 + 71_000 + 512;
        assert_eq!(done[0], Ps(one));
        assert_eq!(done[9], Ps(31_000 + 8 * 512 + one));
        assert_eq!(server.stream(0, Ps(1_000_000), Bytes(256)), Ps(1_000_000 + one));
        assert_eq!(server.usage.busy, 2 * 31_000 + 9 * 512);
    }

    /// A stream that keeps the bus busy is the train of messages that the same bytes are if they are there at once, however
    /// it is cut, where bytes and not messages are what takes the bus its time.
    #[test]
    fn a_stream_is_cut_into_messages_like_a_train() {
        let bus = LogGp { message: Some(Bytes(1000)), overhead: Ps(150), gap: Ps(200), ..BUS };
        for piece in [100u64, 250, 300, 1000, 1700] {
            let (mut stream, mut train) = (server(Some(bus)), server(Some(bus)));
            let count = 51_000 / piece;
            let last = (0..count).map(|_| stream.stream(0, Ps::ZERO, Bytes(piece))).last();
            assert_eq!(last, Some(train.transfer(0, Train::at(Ps::ZERO), Bytes(count * piece)).last), "{piece} B");
            assert_eq!(stream.usage.busy, train.usage.busy, "{piece} B");
        }
    }

    /// Every message of a stream costs the gap: the bus carries no more than one per gap.
    #[test]
    fn messages_of_a_stream_keep_the_gap() {
        let bus = LogGp { message: Some(Bytes(1024)), ..BUS };
        let mut server = server(Some(bus));
        let packets = 40;
        let last = (0..packets).map(|_| server.stream(0, Ps::ZERO, Bytes(256))).last();
        let message = 31_000 + 3 * 512; // the gap, from the first packet, and three packets more
        assert_eq!(last, Some(Ps(9 * message + 31_000 + 2 * 512 + 2 * 29_000 + 71_000 + 512)));
        assert_eq!(server.usage.busy, u128::from(10 * message));
    }

    /// The slower bus sets the pace, the other one adds its crossing of one message.
    #[test]
    fn two_buses_in_a_row() {
        let bus = LogGp { message: Some(Bytes(4096)), ..BUS };
        let one = |rate: u64| 2 * 29_000 + 71_000 + 4096 * 1_000_000_000_000 / rate;
        let (fast, slow) = (1_000_000_000_000, 10_000_000_000);
        for (first, second) in [(fast, slow), (slow, fast)] {
            let over = |rate| RateServer::new("bus", Rate::new(rate).unwrap(), 1).with_protocol(Some(bus));
            let between = over(first).transfer(0, Train::at(Ps::ZERO), Bytes(40_960));
            let done = over(second).transfer(0, between, Bytes(40_960));
            assert_eq!(done.last.0, one(first) + one(second) + 9 * 409_600);
        }
    }

    proptest! {
        #[test]
        fn without_costs_it_is_the_plain_server(jobs in prop::collection::vec((0u64..1_000_000, 0u64..100_000), 1..40)) {
            let free = LogGp { latency: Ps::ZERO, overhead: Ps::ZERO, gap: Ps::ZERO, message: None };
            let (mut plain, mut bus) = (server(None), server(Some(free)));
            for (ready, size) in jobs {
                prop_assert_eq!(plain.serve(0, Ps(ready), Bytes(size)), bus.serve(0, Ps(ready), Bytes(size)));
            }
            prop_assert_eq!(plain.usage, bus.usage);
        }

        /// A train over a second bus is what its messages are one by one.
        #[test]
        fn trains_are_their_messages(
            count in 1u64..40, len in 1u64..10_000, gap in 0u64..100_000, overhead in 0u64..50_000, busy in 0u64..500_000,
        ) {
            let bus = LogGp { latency: Ps(7), overhead: Ps(overhead), gap: Ps(gap), message: Some(Bytes(len)) };
            let (mut a, mut b) = (server(Some(bus)), server(Some(LogGp { gap: Ps(gap / 3), ..bus })));
            let (mut one_by_one, mut last) = ((a.clone(), b.clone()), Ps::ZERO);
            for server in [&mut a, &mut one_by_one.0] {
                server.serve(0, Ps::ZERO, Bytes(busy / 100));
            }
            for _ in 0..count {
                let between = one_by_one.0.serve(0, Ps::ZERO, Bytes(len));
                last = one_by_one.1.serve(0, between, Bytes(len));
            }
            let between = a.transfer(0, Train::at(Ps::ZERO), Bytes(count * len));
            prop_assert_eq!(b.transfer(0, between, Bytes(count * len)).last, last);
        }
    }
}
