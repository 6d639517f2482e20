//! The rules of the RFCs one by one: a sender and a receiver with a wire between them that loses what a script says.

use super::control::ControlKind;
use super::receiver::{Answer, Blocks, Receiver};
use super::sender::{Ack, Counts, Sender};
use super::{Recovery, TcpConfig};
use proptest::prelude::*;
use std::collections::VecDeque;
use syncline_core::Ps;
use syncline_core::random::RandomStream;

const MS: u64 = 1_000_000_000;
/// From one end to the other.
const DELAY: u64 = MS / 10;
/// A segment, and the time that it takes to leave.
const SEGMENT: u64 = 1000;
const SERIALISATION: u64 = DELAY / 100;

/// The profiles, in segments of that length.
const RFC: TcpConfig = TcpConfig { segment: SEGMENT as u32, initial_window: 10 * SEGMENT, ..TcpConfig::RFC };
const NS3: TcpConfig = TcpConfig { segment: SEGMENT as u32, initial_window: 10 * SEGMENT, ..TcpConfig::NS3 };

/// What is under way.
#[derive(Clone, Copy, Debug)]
enum Frame {
    Data { seq: u64, len: u32 },
    Ack { next: u64, blocks: Blocks, marked: bool },
}

/// A segment as it was sent: when, which, and whether again.
type Sent = (u64, u64, bool);

struct Connection<'a> {
    config: TcpConfig,
    sender: Sender,
    receiver: Receiver,
    counts: Counts,
    now: u64,
    /// When the sender's port is free.
    free: u64,
    /// What arrives when, in order.
    wire: VecDeque<(u64, Frame)>,
    /// Whether the n-th transmission of the segment that begins at a byte is lost.
    lose: Box<dyn FnMut(u64, u32) -> bool + 'a>,
    times_sent: Vec<(u64, u32)>,
    sent: Vec<Sent>,
    blocks: Vec<Vec<(u64, u64)>>,
    most_in_flight: u64,
}

impl<'a> Connection<'a> {
    fn new(config: TcpConfig, lose: impl FnMut(u64, u32) -> bool + 'a) -> Connection<'a> {
        Connection {
            sender: Sender::new(&config, Ps(2 * DELAY)),
            receiver: Receiver::default(),
            counts: Counts::default(),
            now: 0,
            free: 0,
            wire: VecDeque::new(),
            lose: Box::new(lose),
            times_sent: Vec::new(),
            sent: Vec::new(),
            blocks: Vec::new(),
            most_in_flight: 0,
            config,
        }
    }

    fn put(&mut self, time: u64, frame: Frame) {
        let at = self.wire.partition_point(|&(t, _)| t <= time);
        self.wire.insert(at, (time, frame));
    }

    fn pump(&mut self) {
        while let Some(segment) = self.sender.next(Ps(self.now), &self.config, &mut self.counts) {
            self.free = self.free.max(self.now) + SERIALISATION;
            self.sent.push((self.now, segment.seq, segment.again));
            let at = self.times_sent.iter().position(|&(seq, _)| seq == segment.seq).unwrap_or(self.times_sent.len());
            if at == self.times_sent.len() {
                self.times_sent.push((segment.seq, 0));
            }
            self.times_sent[at].1 += 1;
            if !(self.lose)(segment.seq, self.times_sent[at].1) {
                self.put(self.free + DELAY, Frame::Data { seq: segment.seq, len: segment.len });
            }
            self.most_in_flight = self.most_in_flight.max(self.sender.nxt - self.sender.una);
        }
    }

    /// Sends so many bytes; false if the connection was given up.
    fn transfer(&mut self, bytes: u64) -> bool {
        self.sender.write(Ps(self.now), bytes, &self.config);
        self.pump();
        while !self.sender.is_idle() {
            let timer = self.sender.deadline.0.min(self.receiver.deadline.0);
            match self.wire.front().copied().filter(|&(time, _)| time <= timer) {
                Some((time, frame)) => {
                    self.now = time;
                    self.wire.pop_front();
                    self.arrive(frame);
                }
                None if self.receiver.deadline <= self.sender.deadline => {
                    assert_ne!(self.receiver.deadline, Ps::MAX, "it stalls");
                    self.now = self.receiver.deadline.0;
                    self.answer();
                }
                None => {
                    self.now = self.sender.deadline.0;
                    if !self.sender.expire(Ps(self.now), &self.config, &mut self.counts) {
                        return false;
                    }
                    self.pump();
                }
            }
        }
        true
    }

    fn arrive(&mut self, frame: Frame) {
        match frame {
            Frame::Data { seq, len } => {
                if self.receiver.take(Ps(self.now), seq, len, &self.config) == Answer::Now {
                    self.answer();
                }
            }
            Frame::Ack { next, blocks, marked } => {
                let ack = Ack { next, blocks: blocks.all(), marked };
                self.sender.acknowledge(Ps(self.now), ack, &self.config, &mut self.counts);
                self.pump();
            }
        }
    }

    fn answer(&mut self) {
        self.receiver.answered();
        let blocks = if self.config.sack { self.receiver.blocks().unwrap_or_default() } else { Blocks::default() };
        self.blocks.push(blocks.all().to_vec());
        self.put(self.now + DELAY, Frame::Ack { next: self.receiver.next, blocks, marked: false });
    }

    /// Segments that were sent again, by number, with when.
    fn again(&self) -> Vec<(u64, u64)> {
        self.sent.iter().filter(|sent| sent.2).map(|&(time, seq, _)| (time, seq / SEGMENT)).collect()
    }
}

/// Loses the first transmission of these segments.
fn first_of(segments: &[u64]) -> impl FnMut(u64, u32) -> bool + '_ {
    |seq, times| times == 1 && segments.contains(&(seq / SEGMENT))
}

/// RFC 6928, section 2: the first window has ten segments.
#[test]
fn the_first_window_goes_at_once() {
    let mut connection = Connection::new(RFC, |_, _| false);
    assert!(connection.transfer(100 * SEGMENT));
    assert_eq!(connection.sent.iter().filter(|sent| sent.0 == 0).count(), 10);
    assert_eq!((connection.counts.resent, connection.counts.segments), (0, 100));
}

/// RFC 7323, section 2.2: the window of a SYN-ACK is not scaled. The first acknowledgement of data, or the first duplicate, has a
/// scale, whatever was to come after the first window.
#[test]
fn before_the_first_acknowledgement_no_more_is_sent_than_a_window_without_a_scale() {
    let first_flight = |config: TcpConfig| {
        let mut connection = Connection::new(config, |_, _| false);
        assert!(connection.transfer(400 * SEGMENT));
        connection
            .sent
            .iter()
            .filter(|sent| sent.0 == 0)
            .map(|sent| sent.1)
            .max()
            .map(|last| last + u64::from(config.segment))
    };
    for base in [RFC, NS3] {
        assert_eq!(first_flight(TcpConfig { initial_window: 100 * SEGMENT, ..base }), Some(65 * SEGMENT));
        assert_eq!(first_flight(TcpConfig { initial_window: 30 * SEGMENT, ..base }), Some(30 * SEGMENT));
        // Seven segments of 8,948 B fit, and no part of an eighth goes.
        let jumbo = TcpConfig { segment: 8948, initial_window: 89_480, ..base };
        assert_eq!(first_flight(jumbo), Some(7 * 8948));
        let small = TcpConfig { window: 40 * SEGMENT, initial_window: 100 * SEGMENT, ..base };
        assert_eq!(first_flight(small), Some(40 * SEGMENT), "socket buffers that need no scale");
    }
    let mut lost = Connection::new(TcpConfig { initial_window: 100 * SEGMENT, ..RFC }, first_of(&[0]));
    assert!(lost.transfer(400 * SEGMENT));
    let duplicate = 2 * SERIALISATION + 2 * DELAY;
    let then = lost.sent.iter().filter(|sent| sent.0 == duplicate).map(|sent| sent.1 / SEGMENT);
    assert_eq!(then.collect::<Vec<_>>(), (65..101).collect::<Vec<_>>(), "a duplicate acknowledgement has a scale");
}

/// RFC 5681, section 3.2: the third duplicate sends the lost segment again. RFC 6675, section 5: no other is.
#[test]
fn the_third_duplicate_sends_again() {
    let mut connection = Connection::new(RFC, first_of(&[2]));
    assert!(connection.transfer(20 * SEGMENT));
    // Segments 3, 4 and 5 have left when three more were sent after the lost one.
    let third = 6 * SERIALISATION + 2 * DELAY;
    assert_eq!(connection.again(), [(third, 2)]);
    assert_eq!((connection.counts.recoveries, connection.counts.timeouts), (1, 0));
}

/// RFC 3042, section 2: the first two duplicates each send a segment beyond the window.
#[test]
fn the_first_two_duplicates_send_a_new_segment_each() {
    for sack in [true, false] {
        let mut connection = Connection::new(TcpConfig { sack, ..RFC }, first_of(&[0]));
        assert!(connection.transfer(30 * SEGMENT));
        let at = |segment: u64| 2 * DELAY + (segment + 1) * SERIALISATION;
        let new: Vec<u64> = connection
            .sent
            .iter()
            .filter(|&&(time, _, _)| time == at(1) || time == at(2))
            .map(|s| s.1 / SEGMENT)
            .collect();
        assert_eq!(new, [10, 11], "sack {sack}");
        assert_eq!(connection.again()[0], (at(3), 0));
    }
}

/// RFC 6675, section 5, step 4: half of what was in flight is the new threshold, and the window when all is acknowledged.
#[test]
fn a_recovery_halves_the_window() {
    for recovery in [Recovery::Prr, Recovery::Classic] {
        let mut connection = Connection::new(TcpConfig { recovery, ..RFC }, first_of(&[0]));
        assert!(connection.transfer(12 * SEGMENT)); // two by limited transmit
        assert_eq!(connection.sender.window.ssthresh, 6 * SEGMENT, "{recovery:?}");
        assert_eq!(connection.sender.window.cwnd, 6 * SEGMENT, "{recovery:?}");
    }
}

/// RFC 6675: all that was lost in a window is sent again within a round trip; RFC 6582 takes a round trip for each.
#[test]
fn sack_repairs_many_losses_in_a_round_trip() {
    let lost = [0, 2, 4, 6];
    let mut with = Connection::new(RFC, first_of(&lost));
    assert!(with.transfer(20 * SEGMENT));
    assert_eq!(with.again().iter().map(|again| again.1).collect::<Vec<_>>(), lost);
    assert!(with.again()[3].0 - with.again()[0].0 < 2 * DELAY);
    let mut without = Connection::new(TcpConfig { sack: false, ..RFC }, first_of(&lost));
    assert!(without.transfer(20 * SEGMENT));
    assert_eq!(without.again().iter().map(|again| again.1).collect::<Vec<_>>(), lost);
    for pair in without.again().windows(2) {
        assert!(pair[1].0 - pair[0].0 >= 2 * DELAY);
    }
    assert_eq!((with.counts.timeouts, without.counts.timeouts), (0, 0));
}

/// RFC 2018, section 4: blocks begin with the one that the segment at hand belongs to.
#[test]
fn blocks_tell_the_latest_first() {
    let mut connection = Connection::new(RFC, first_of(&[1, 3, 5]));
    assert!(connection.transfer(8 * SEGMENT));
    let ranges =
        |ranges: &[(u64, u64)]| ranges.iter().map(|&(from, to)| (from * SEGMENT, to * SEGMENT)).collect::<Vec<_>>();
    assert_eq!(connection.blocks[1], ranges(&[(2, 3)]));
    assert_eq!(connection.blocks[2], ranges(&[(4, 5), (2, 3)]));
    assert_eq!(connection.blocks[3], ranges(&[(6, 7), (4, 5), (2, 3)]));
    assert_eq!(connection.blocks[4], ranges(&[(6, 8), (4, 5), (2, 3)]));
}

/// RFC 6298, rules 5.4 to 5.6: the earliest segment is sent again after the timeout, then after twice that, and so on. RFC
/// 5681, section 3.1: the window is a segment then, and the threshold half of what was in flight at the first of them.
#[test]
fn the_timeout_doubles() {
    let rto = RFC.min_rto.0;
    let mut connection = Connection::new(RFC, |seq, times| seq == 0 && times <= 4);
    assert!(connection.transfer(SEGMENT));
    assert_eq!(connection.again(), [(rto, 0), (3 * rto, 0), (7 * rto, 0), (15 * rto, 0)]);
    assert_eq!(connection.counts.timeouts, 4);
    assert_eq!(connection.sender.window.ssthresh, 2 * SEGMENT);
    // An acknowledgement of new bytes ends the doubling.
    assert_eq!(connection.sender.trip.timeout(&connection.config), RFC.min_rto);
}

/// The whole window is lost, and what is sent after the first timeout, too. RFC 6298, rule 5.5: the second one comes after twice
/// as long. RFC 5681, section 3.1: it leaves the threshold as the first one has set it, and the window at a segment, from which slow
/// start sends all that was lost again, once.
#[test]
fn a_second_timeout_repeats_the_first_with_the_rest_of_the_window_still_lost() {
    let rto = RFC.min_rto.0;
    let controls = [ControlKind::NewReno, ControlKind::Cubic, ControlKind::Dctcp];
    for (base, control, sack) in [RFC, NS3]
        .into_iter()
        .flat_map(|base| controls.into_iter().flat_map(move |control| [true, false].map(|sack| (base, control, sack))))
    {
        let what = format!("{:?}, {control:?}, SACK {sack}", base.dialect);
        let config = TcpConfig { control, sack, ..base };
        let lost = |seq: u64, times: u32| seq < 10 * SEGMENT && times == 1 || seq == 0 && times == 2;
        let mut connection = Connection::new(config, lost);
        connection.sender.write(Ps(0), 10 * SEGMENT, &config);
        connection.pump();
        let mut thresholds = Vec::new();
        for at in [rto, 3 * rto] {
            assert_eq!(connection.sender.deadline, Ps(at), "{what}");
            connection.now = at;
            assert!(connection.sender.expire(Ps(at), &config, &mut connection.counts));
            assert_eq!(connection.sender.window.cwnd, SEGMENT, "{what}");
            thresholds.push(connection.sender.window.ssthresh);
            connection.pump();
        }
        assert_eq!(thresholds[0], thresholds[1], "{what}");
        assert!(thresholds[0] >= 5 * SEGMENT, "{what}: half of ten segments, or more");
        assert!(connection.transfer(0));
        let again = connection.again();
        // The first acknowledgement lets two segments go, and these four.
        assert_eq!(again[..2], [(rto, 0), (3 * rto, 0)], "{what}");
        let rounds: Vec<u64> = again[2..].iter().map(|&(at, _)| (at - 3 * rto) / (2 * DELAY)).collect();
        assert_eq!(again[2..].iter().map(|again| again.1).collect::<Vec<_>>(), (1..10).collect::<Vec<_>>(), "{what}");
        assert_eq!(rounds[..6], [1, 1, 2, 2, 2, 2], "{what}");
        assert_eq!((connection.counts.timeouts, connection.counts.recoveries), (2, 0), "{what}");
        assert_eq!(connection.receiver.next, 10 * SEGMENT);
        assert_eq!(connection.sender.trip.timeout(&config), base.min_rto, "{what}");
    }
}

/// RFC 6298, section 3 (Karn's algorithm): a segment that was sent again measures no round trip.
#[test]
fn what_is_sent_again_measures_nothing() {
    let mut connection = Connection::new(RFC, first_of(&[0]));
    let handshake = connection.sender.trip;
    assert!(connection.transfer(4 * SEGMENT));
    assert_eq!((connection.counts.recoveries, connection.counts.timeouts), (1, 0));
    assert_eq!(connection.sender.trip, handshake);
    assert!(connection.transfer(SEGMENT));
    assert_ne!(connection.sender.trip, handshake, "the next one does");
}

/// RFC 6298, rules 5.1 to 5.3: the timer starts with the first segment, and anew with every acknowledgement of new bytes.
#[test]
fn the_timer_begins_anew_with_every_acknowledgement_of_new_bytes() {
    let rto = RFC.min_rto.0;
    let mut connection = Connection::new(RFC, |_, _| true);
    connection.sender.write(Ps(MS), 3 * SEGMENT, &RFC);
    connection.now = MS;
    connection.pump();
    assert_eq!(connection.sender.deadline, Ps(MS + rto));
    let mut hear = |now, next| {
        let ack = Ack { next, blocks: &[], marked: false };
        connection.sender.acknowledge(Ps(now), ack, &RFC, &mut connection.counts);
        connection.sender.deadline
    };
    assert_eq!(hear(2 * MS, SEGMENT), Ps(2 * MS + rto));
    assert_eq!(hear(3 * MS, SEGMENT), Ps(2 * MS + rto), "nothing new");
    assert_eq!(hear(4 * MS, 2 * SEGMENT), Ps(4 * MS + rto));
    assert_eq!(hear(5 * MS, 3 * SEGMENT), Ps::MAX, "nothing is under way");
}

/// RFC 1122, section 4.2.3.5: a connection is given up some time.
#[test]
fn a_connection_without_an_answer_is_given_up() {
    let mut connection = Connection::new(NS3, |_, _| true);
    assert!(!connection.transfer(SEGMENT));
    assert_eq!(connection.counts.timeouts, 6);
}

/// A lost retransmission is noticed by the timer only (RFC 6675, section 5.1).
#[test]
fn a_lost_retransmission_waits_for_the_timer() {
    let mut connection = Connection::new(RFC, |seq, times| seq == 0 && times <= 2);
    assert!(connection.transfer(20 * SEGMENT));
    let again = connection.again();
    assert_eq!((again[0].1, again[1].1), (0, 0));
    assert!(again[1].0 - again[0].0 >= RFC.min_rto.0 - 3 * DELAY);
    assert_eq!((connection.counts.recoveries, connection.counts.timeouts), (1, 1));
}

/// The last segments of a transfer bring no duplicates.
#[test]
fn a_lost_tail_waits_for_the_timer() {
    let mut tail = Connection::new(RFC, first_of(&[19]));
    assert!(tail.transfer(20 * SEGMENT));
    assert_eq!((tail.counts.timeouts, tail.counts.recoveries), (1, 0));
}

/// RFC 5681, section 4.2: every second full segment is acknowledged, and a single one after the time that is set.
#[test]
fn acknowledgements_wait_for_a_second_segment() {
    let config = TcpConfig { delayed_ack: 2, ..RFC };
    let mut connection = Connection::new(config, |_, _| false);
    assert!(connection.transfer(10 * SEGMENT));
    assert_eq!(connection.blocks.len(), 5);
    let mut odd = Connection::new(config, |_, _| false);
    assert!(odd.transfer(SEGMENT));
    assert_eq!(odd.now, SERIALISATION + 2 * DELAY + config.delayed_ack_timeout.0);
}

/// ns-3.37 acknowledges the first segment of a connection at once, and counts short segments as full ones.
#[test]
fn ns3_counts_segments_and_acknowledges_the_first_at_once() {
    let acknowledged = |base: TcpConfig, writes: &[u64]| {
        let mut connection = Connection::new(TcpConfig { delayed_ack: 2, ..base }, |_, _| false);
        let config = connection.config;
        let mut at = Vec::new();
        for (place, &len) in (0..).zip(writes) {
            let seq = connection.receiver.next;
            if connection.receiver.take(Ps(place), seq, len as u32, &config) == Answer::Now {
                connection.receiver.answered();
                at.push(place);
            }
        }
        at
    };
    assert_eq!(acknowledged(NS3, &[SEGMENT; 6]), [0, 2, 4]);
    assert_eq!(acknowledged(RFC, &[SEGMENT; 6]), [1, 3, 5]);
    let short = [SEGMENT, SEGMENT, 10, SEGMENT, 10, 10];
    assert_eq!(acknowledged(NS3, &short), [0, 2, 4]);
    assert_eq!(acknowledged(RFC, &short), [1]);
}

/// RFC 5681, section 4.1: after a timeout's length without traffic the window is the first one again.
#[test]
fn an_idle_connection_starts_again() {
    for (config, segments) in [(RFC, 10), (NS3, 40)] {
        let mut connection = Connection::new(config, |_, _| false);
        assert!(connection.transfer(100 * SEGMENT));
        connection.now += 60 * MS;
        let before = connection.sent.len();
        connection.sender.write(Ps(connection.now), 40 * SEGMENT, &connection.config);
        connection.pump();
        assert_eq!(connection.sent.len() - before, segments);
    }
}

/// No more than both socket buffers hold is in flight.
#[test]
fn the_socket_buffer_limits_what_is_in_flight() {
    let config = TcpConfig { window: 7300, ..RFC };
    let mut connection = Connection::new(config, |_, _| false);
    assert!(connection.transfer(100 * SEGMENT));
    assert_eq!(connection.most_in_flight, 7 * SEGMENT);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Whatever is lost and however the sender is set, every byte arrives, or the connection is given up after as many timeouts as
    /// it may have; and never is more in flight than both buffers hold.
    #[test]
    fn every_byte_arrives(
        seed in any::<u64>(), bytes in 1u64..200_000, percent in 0u32..60, window in 1000u64..60_000, initial in 1u64..40,
        sack: bool, classic: bool, profile: bool, delayed in 1u32..4,
        control in prop_oneof![Just(ControlKind::NewReno), Just(ControlKind::Cubic), Just(ControlKind::Dctcp)],
    ) {
        let recovery = if classic { Recovery::Classic } else { Recovery::Prr };
        let base = if profile { RFC } else { NS3 };
        let config = TcpConfig {
            window, initial_window: initial * SEGMENT, sack, recovery, control, delayed_ack: delayed, retries: 60, ..base
        };
        let stream = RandomStream::new(seed, &[]);
        let mut drawn = 0;
        let mut connection = Connection::new(config, |_, _| { drawn += 1; stream.happens(drawn, percent, 100) });
        prop_assert!(connection.transfer(bytes));
        prop_assert_eq!(connection.receiver.next, bytes);
        prop_assert!(!connection.receiver.has_gap());
        prop_assert!(connection.most_in_flight <= window);
        prop_assert_eq!(connection.counts.segments, connection.sent.len() as u64);
    }
}
