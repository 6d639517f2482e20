//! The sending end of a queue pair.

use super::dcqcn::Dcqcn;
use super::{Repeat, RoceConfig};
use crate::ethernet::tcp::scoreboard::{Range, Scoreboard};
use crate::ethernet::tcp::sender::Counts;
use std::collections::VecDeque;
use syncline_core::{Ps, Rate};

/// What a sender has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// These bytes, from the first to the one after the last.
    Frame(u64, u32),
    /// Something, but not before this time.
    At(u64),
    /// Nothing.
    Nothing,
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct Sender {
    /// All bytes below are acknowledged.
    pub una: u64,
    /// The next byte to send.
    nxt: u64,
    /// All bytes below were sent at least once.
    pub sent: u64,
    /// All bytes below were posted.
    pub posted: u64,
    /// Where messages end that are not acknowledged.
    ends: VecDeque<u64>,
    /// When the timer expires; [`Ps::MAX`] if it is off.
    pub deadline: Ps,
    /// Timeouts since the last progress.
    tries: u32,
    has_timed_out: bool,
    /// The frame that is timed ends here; nothing is timed if that is acknowledged.
    timed_end: u64,
    timed_at: u64,
    /// With selective repeat, what is known of what has arrived beyond a gap.
    board: Option<Box<Scoreboard>>,
    rate: Option<Dcqcn>,
    /// The next frame does not leave before this time.
    next_at: u64,
}

impl Sender {
    /// A connection over a link of such a rate.
    pub fn new(config: &RoceConfig, line: Rate) -> Sender {
        Sender {
            una: 0,
            nxt: 0,
            sent: 0,
            posted: 0,
            ends: VecDeque::new(),
            deadline: Ps::MAX,
            tries: 0,
            has_timed_out: false,
            timed_end: 0,
            timed_at: 0,
            board: None,
            rate: config.dcqcn.map(|_| Dcqcn::new(line)),
            next_at: 0,
        }
    }

    /// A message of so many bytes is posted. Returns where it ends.
    pub fn post(&mut self, len: u64) -> u64 {
        self.posted += len;
        self.ends.push_back(self.posted);
        self.posted
    }

    /// There are so many bytes more, in which no message ends.
    pub fn extend(&mut self, len: u64) {
        self.posted += len;
    }

    /// Frames end where messages do.
    fn length(&self, seq: u64, to: u64, config: &RoceConfig) -> u32 {
        let message = self.ends.partition_point(|&end| end <= seq);
        let end = self.ends.get(message).copied().unwrap_or(to).min(to);
        (end - seq).min(config.segment.into()) as u32
    }

    /// The bytes that are to be sent next, without regard to the rate.
    fn wanted(&self, config: &RoceConfig) -> Option<(u64, u32)> {
        if let Some(board) = &self.board
            && let Some((from, to)) = board.hole(board.resent_to.max(self.una), board.lost_to)
        {
            return Some((from, self.length(from, to, config)));
        }
        let most = self.posted.min(self.una.saturating_add(config.window));
        if self.nxt >= most {
            return None;
        }
        let len = self.length(self.nxt, self.posted, config);
        // A window that is smaller than a frame lets one pass.
        (self.nxt + u64::from(len) <= most || self.nxt == self.una).then_some((self.nxt, len))
    }

    /// What is sent now: it is in flight then.
    pub fn next(&mut self, now: u64, overhead: u32, config: &RoceConfig, counts: &mut Counts) -> Next {
        let Some((seq, len)) = self.wanted(config) else { return Next::Nothing };
        if self.next_at > now {
            return Next::At(self.next_at);
        }
        let end = seq + u64::from(len);
        counts.segments += 1;
        if end <= self.sent {
            counts.resent += 1;
            counts.resent_bytes += u64::from(len);
            self.timed_end = self.una; // Karn's algorithm: nothing is timed meanwhile
        } else if self.timed_end <= self.una {
            (self.timed_end, self.timed_at) = (end, now);
        }
        match &mut self.board {
            Some(board) if seq < board.lost_to => board.resent_to = end,
            _ => self.nxt = end,
        }
        self.sent = self.sent.max(end);
        if self.deadline == Ps::MAX {
            self.deadline = Ps(now) + config.timeout;
        }
        if let (Some(rate), Some(dcqcn)) = (&mut self.rate, &config.dcqcn) {
            self.next_at = now + rate.sent(now, u64::from(len + overhead), dcqcn);
        }
        Next::Frame(seq, len)
    }

    /// Everything below `next` has arrived, and perhaps `blocks` beyond; if `missing`, the receiver asks for what is next.
    /// Returns the round trip that this measures, if it does.
    pub fn acknowledge(
        &mut self,
        now: u64,
        next: u64,
        (missing, blocks): (bool, &[Range]),
        config: &RoceConfig,
        counts: &mut Counts,
    ) -> Option<Ps> {
        if next < self.una || next > self.sent {
            return None; // overtaken by others
        }
        let mut trip = None;
        if next > self.una {
            if self.timed_end > self.una && next >= self.timed_end {
                trip = Some(Ps(now - self.timed_at));
            }
            self.una = next;
            self.nxt = self.nxt.max(next);
            self.tries = 0;
            while self.ends.front().is_some_and(|&end| end <= next) {
                self.ends.pop_front();
            }
            self.deadline = if next == self.sent { Ps::MAX } else { Ps(now) + config.timeout };
        }
        match config.repeat {
            Repeat::GoBackN if missing => {
                counts.recoveries += 1;
                self.nxt = self.una;
            }
            Repeat::GoBackN => {}
            Repeat::Selective => self.hear_of(missing, blocks, counts),
        }
        trip
    }

    fn hear_of(&mut self, missing: bool, blocks: &[Range], counts: &mut Counts) {
        if self.board.is_none() && !missing {
            return;
        }
        let una = self.una;
        let board = self.board.get_or_insert_with(|| {
            counts.recoveries += 1;
            Box::new(Scoreboard::new(una))
        });
        board.acknowledge(una);
        for &(from, to) in blocks {
            if from >= una && to <= self.sent {
                board.add((from, to));
            }
        }
        match board.highest() {
            // What is below a frame that has arrived is lost.
            Some(highest) => board.lost_to = board.lost_to.max(highest),
            None if board.lost_to <= una => self.board = None,
            None => {}
        }
    }

    /// The present rate in bytes per second, if DCQCN sets it.
    pub fn rate(&mut self, now: u64, config: &RoceConfig) -> Option<u64> {
        Some(self.rate.as_mut()?.rate(now, config.dcqcn.as_ref()?) as u64)
    }

    /// A mark was seen.
    pub fn notified(&mut self, now: u64, config: &RoceConfig) {
        if let (Some(rate), Some(dcqcn)) = (&mut self.rate, &config.dcqcn) {
            rate.notified(now, dcqcn);
        }
    }

    /// The timer has expired. False if the connection is given up.
    #[must_use]
    pub fn expire(&mut self, now: u64, config: &RoceConfig, counts: &mut Counts) -> bool {
        if self.tries >= config.retries {
            return false;
        }
        self.tries += 1;
        counts.timeouts += 1;
        counts.connections_with_timeout += u64::from(!std::mem::replace(&mut self.has_timed_out, true));
        self.deadline = Ps(now) + config.timeout;
        match config.repeat {
            Repeat::GoBackN => self.nxt = self.una,
            Repeat::Selective => {
                // Everything is lost that is not known to have arrived: a lost end shows in no other way.
                let una = self.una;
                let board = self.board.get_or_insert_with(|| Box::new(Scoreboard::new(una)));
                board.lose_all(una, self.sent);
            }
        }
        true
    }

    /// How often the timer has expired since the last progress.
    pub fn tries(&self) -> u32 {
        self.tries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::roce::dcqcn::DcqcnConfig;

    const CONFIG: RoceConfig = RoceConfig { segment: 100, ..RoceConfig::DEFAULT };

    struct Scripted(Sender, Counts, RoceConfig);

    impl Scripted {
        fn new(config: RoceConfig) -> Scripted {
            let line = Rate::new(1_000_000_000_000).expect("a byte per picosecond");
            Scripted(Sender::new(&config, line), Counts::default(), config)
        }

        fn all(&mut self) -> Vec<(u64, u32)> {
            std::iter::from_fn(|| match self.0.next(0, 0, &self.2, &mut self.1) {
                Next::Frame(seq, len) => Some((seq, len)),
                _ => None,
            })
            .collect()
        }

        fn ack(&mut self, next: u64, missing: bool, blocks: &[Range]) {
            self.0.acknowledge(1, next, (missing, blocks), &self.2, &mut self.1);
        }
    }

    #[test]
    fn frames_end_where_messages_do() {
        let mut pair = Scripted::new(CONFIG);
        pair.0.post(250);
        pair.0.post(30);
        assert_eq!(pair.all(), [(0, 100), (100, 100), (200, 50), (250, 30)]);
    }

    #[test]
    fn go_back_n_sends_everything_again_from_what_is_missing() {
        let mut pair = Scripted::new(CONFIG);
        pair.0.post(450);
        pair.all();
        pair.ack(100, false, &[]);
        pair.ack(100, true, &[]);
        assert_eq!(pair.all(), [(100, 100), (200, 100), (300, 100), (400, 50)]);
        assert_eq!((pair.1.resent, pair.1.resent_bytes, pair.1.recoveries), (4, 350, 1));
        pair.ack(450, false, &[]);
        assert_eq!(pair.0.deadline, Ps::MAX);
    }

    #[test]
    fn selective_repeat_sends_what_is_below_something_that_has_arrived() {
        let mut pair = Scripted::new(RoceConfig { repeat: Repeat::Selective, ..CONFIG });
        pair.0.post(1000);
        pair.all();
        pair.ack(100, true, &[(300, 400)]);
        assert_eq!(pair.all(), [(100, 100), (200, 100)]);
        pair.ack(100, true, &[(300, 500)]);
        assert_eq!(pair.all(), []); // once is enough
        pair.ack(100, true, &[(600, 700), (300, 500)]);
        assert_eq!(pair.all(), [(500, 100)]);
        pair.ack(700, false, &[]);
        assert_eq!(pair.all(), []);
        pair.0.post(50);
        assert_eq!(pair.all(), [(1000, 50)]);
        assert_eq!(pair.1.resent, 3);
    }

    #[test]
    fn a_timeout_repeats_and_does_not_double() {
        for repeat in [Repeat::GoBackN, Repeat::Selective] {
            let mut pair = Scripted::new(RoceConfig { repeat, retries: 2, ..CONFIG });
            pair.0.post(300);
            pair.all();
            assert!(pair.0.expire(7, &pair.2, &mut pair.1));
            assert_eq!(pair.0.deadline, Ps(7) + CONFIG.timeout);
            assert_eq!(pair.all().len(), 3);
            assert!(pair.0.expire(8, &pair.2, &mut pair.1));
            assert!(!pair.0.expire(9, &pair.2, &mut pair.1));
            assert_eq!((pair.0.tries(), pair.1.timeouts, pair.1.connections_with_timeout), (2, 2, 1));
        }
    }

    /// Only timeouts in a row count: as many as one likes are survived if something is acknowledged between.
    #[test]
    fn progress_between_timeouts_gives_all_tries_back() {
        for repeat in [Repeat::GoBackN, Repeat::Selective] {
            let mut pair = Scripted::new(RoceConfig { repeat, retries: 2, ..CONFIG });
            pair.0.post(1000);
            pair.all();
            for acknowledged in 1..=5 {
                assert!(pair.0.expire(7, &pair.2, &mut pair.1) && pair.0.expire(8, &pair.2, &mut pair.1));
                assert_eq!(pair.0.tries(), 2);
                pair.ack(100 * (acknowledged - 1), false, &[]);
                assert_eq!(pair.0.tries(), 2, "an acknowledgement of nothing new is no progress");
                pair.ack(100 * acknowledged, false, &[]);
                assert_eq!((pair.0.tries(), pair.0.deadline), (0, Ps(1) + CONFIG.timeout));
                assert_eq!(pair.all().len(), 10 - acknowledged as usize, "{repeat:?}");
            }
            assert_eq!((pair.1.timeouts, pair.1.connections_with_timeout), (10, 1));
            assert!(pair.0.expire(9, &pair.2, &mut pair.1) && pair.0.expire(10, &pair.2, &mut pair.1));
            assert!(!pair.0.expire(11, &pair.2, &mut pair.1));
        }
    }

    #[test]
    fn no_more_than_the_window_is_in_flight() {
        let mut pair = Scripted::new(RoceConfig { window: 250, ..CONFIG });
        pair.0.post(1000);
        assert_eq!(pair.all(), [(0, 100), (100, 100)]);
        pair.ack(100, false, &[]);
        assert_eq!(pair.all(), [(200, 100)]);
    }

    #[test]
    fn frames_keep_the_distance_that_their_rate_asks_for() {
        let mut pair = Scripted::new(RoceConfig { dcqcn: Some(DcqcnConfig::PUBLISHED), ..CONFIG });
        pair.0.post(1000);
        pair.0.notified(0, &pair.2); // half of a byte per picosecond
        assert_eq!(pair.0.next(0, 20, &pair.2, &mut pair.1), Next::Frame(0, 100));
        assert_eq!(pair.0.next(0, 20, &pair.2, &mut pair.1), Next::At(240));
        assert_eq!(pair.0.next(240, 20, &pair.2, &mut pair.1), Next::Frame(100, 100));
    }
}
