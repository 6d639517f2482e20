//! The sending end of a connection.
//!
//! The application writes bytes ([`Sender::write`]); as many of them as the socket buffer holds become segments, in whole
//! segments as long as more follows, so that only the end of what was written is shorter. After every call, [`Sender::next`] is
//! asked for segments until there are none.

use super::control::{Acked, Control, Window};
use super::reduction::Reduction;
use super::scoreboard::{Range, Scoreboard};
use super::timer::RoundTrip;
use super::{DUP_THRESH, Dialect, Recovery, TcpConfig, UNSCALED_WINDOW};
use syncline_core::Ps;

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its first byte.
    pub seq: u64,
    /// Its bytes.
    pub len: u32,
    /// Whether it was sent before.
    pub again: bool,
    /// Whether it says that the window was reduced (RFC 3168, section 6.1.2).
    pub reduced: bool,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// The next byte that is expected.
    pub next: u64,
    /// Ranges that have arrived beyond that.
    pub blocks: &'a [Range],
    /// Whether the network marked what it acknowledges.
    pub marked: bool,
}

/// What senders have done, for all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments that were sent, again or not.
    pub segments: u64,
    /// Segments that were sent again, and their bytes.
    pub resent: u64,
    /// Bytes of these.
    pub resent_bytes: u64,
    /// Retransmission timers that expired.
    pub timeouts: u64,
    /// Connections on which one did.
    pub connections_with_timeout: u64,
    /// Fast recoveries that began.
    pub recoveries: u64,
}

/// How a connection deals with what is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There were duplicate acknowledgements, but too few.
    Disorder,
    /// Fast recovery (RFC 6675, section 5; RFC 6582).
    Recovery,
    /// Slow start after a timeout, until all that was sent before is acknowledged.
    Loss,
}

/// What is known beyond an undisturbed connection.
#[derive(Clone, Debug)]
struct Trouble {
    phase: Phase,
    board: Scoreboard,
    duplicates: u32,
    /// The estimate of what is in flight, until something changes it.
    pipe: u64,
    reduction: Reduction,
    /// Whether the first segment of the recovery is to be sent whatever is in flight (RFC 6675, section 5, step 4.3).
    first: bool,
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct Sender {
    /// All bytes below are acknowledged (SND.UNA).
    pub una: u64,
    /// All bytes below were sent (SND.NXT).
    pub nxt: u64,
    /// All bytes below are in the socket buffer.
    pub buffered: u64,
    /// All bytes below were written by the application.
    pub written: u64,
    /// Congestion window and threshold.
    pub window: Window,
    /// When the retransmission timer expires; [`Ps::MAX`] if it is off.
    pub deadline: Ps,
    /// The segment that is timed ends here; nothing is timed if that is acknowledged.
    timed_end: u64,
    timed_at: Ps,
    trouble: Option<Box<Trouble>>,
    /// What is known of the round trip.
    pub trip: RoundTrip,
    control: Control,
    /// Recoveries that began below this byte end there (RecoveryPoint), and no new one begins before.
    recover: u64,
    /// No reaction to marks until this byte is acknowledged (RFC 3168, section 6.1.2).
    reduced_to: u64,
    /// Whether the next segment of new data says that the window was reduced.
    tell_reduced: bool,
    /// Whether a timer has expired at all.
    has_timed_out: bool,
    /// When the last segment was sent.
    last_sent: Ps,
}

impl Sender {
    /// An open connection whose handshake took so long.
    pub fn new(config: &TcpConfig, round_trip: Ps) -> Sender {
        Sender {
            una: 0,
            nxt: 0,
            buffered: 0,
            written: 0,
            window: Window { cwnd: config.initial_window, ssthresh: u64::MAX },
            deadline: Ps::MAX,
            timed_end: 0,
            timed_at: Ps::ZERO,
            trouble: None,
            trip: RoundTrip::first(round_trip),
            control: Control::new(config.control),
            recover: 0,
            reduced_to: 0,
            tell_reduced: false,
            has_timed_out: false,
            last_sent: Ps::ZERO,
        }
    }

    /// The application writes so many bytes more. Returns where they end.
    #[inline]
    pub fn write(&mut self, now: Ps, len: u64, config: &TcpConfig) -> u64 {
        if config.idle_restart && self.una == self.nxt && now.since(self.last_sent) > self.trip.timeout(config) {
            // RFC 5681, section 4.1.
            self.window.cwnd = self.window.cwnd.min(config.initial_window);
        }
        self.written += len;
        self.fill(config);
        self.written
    }

    /// Takes from the application what the socket buffer has room for: whole segments, unless it is all.
    #[inline(always)]
    fn fill(&mut self, config: &TcpConfig) {
        if self.buffered < self.written {
            let room = self.una + config.window - self.buffered;
            let left = self.written - self.buffered;
            self.buffered += if left <= room { left } else { room - room % u64::from(config.segment) };
        }
    }

    /// An acknowledgement has come. Returns the round trip that it measures, if it does.
    #[inline(always)]
    pub fn acknowledge(&mut self, now: Ps, ack: Ack, config: &TcpConfig, counts: &mut Counts) -> Option<Ps> {
        if self.trouble.is_some() || ack.next <= self.una || !ack.blocks.is_empty() || ack.marked {
            return self.acknowledge_in_trouble(now, ack, config, counts);
        }
        let (acked, rtt) = self.advance(now, ack, config);
        self.control.hear(&acked);
        self.control.grow(&mut self.window, &acked, config);
        rtt
    }

    /// New bytes are acknowledged.
    #[inline(always)]
    fn advance(&mut self, now: Ps, ack: Ack, config: &TcpConfig) -> (Acked, Option<Ps>) {
        let bytes = ack.next - self.una;
        let mut rtt = None;
        if self.timed_end > self.una && ack.next >= self.timed_end {
            rtt = Some(now - self.timed_at);
            self.trip.measure(now - self.timed_at);
        }
        self.una = ack.next;
        // Segments carry timestamps, so that any acknowledgement of new bytes measures a round trip, and the timeout is what
        // it was before it was doubled (RFC 6298, section 5; RFC 7323, section 4).
        self.trip.doubled = 0;
        // RFC 6298, rules 5.2 and 5.3.
        self.deadline = if self.una == self.nxt { Ps::MAX } else { now + self.trip.timeout(config) };
        self.fill(config);
        (Acked { now, bytes, una: self.una, nxt: self.nxt, rtt, marked: ack.marked }, rtt)
    }

    #[cold]
    #[inline(never)]
    fn acknowledge_in_trouble(&mut self, now: Ps, ack: Ack, config: &TcpConfig, counts: &mut Counts) -> Option<Ps> {
        if ack.next < self.una || ack.next > self.nxt {
            return None; // an old one, overtaken by others
        }
        if ack.marked {
            self.react_to_mark(ack.next, config);
        }
        let mut delivered = 0;
        let mut acked = None;
        let mut rtt = None;
        let outstanding = self.nxt > self.una;
        let known = self.trouble.as_ref().map_or(0, |trouble| trouble.board.sacked());
        // Whether what was sent again is acknowledged in order.
        let repaired = ack.next > self.una && self.trouble.as_ref().is_some_and(|t| t.board.resent_to > self.una);
        if ack.next > self.una {
            delivered += ack.next - self.una;
            let (news, measured) = self.advance(now, ack, config);
            self.control.hear(&news);
            (acked, rtt) = (Some(news), measured);
        }
        if self.trouble.is_none() {
            if (acked.is_some() || !outstanding) && ack.blocks.is_empty() {
                if let Some(acked) = acked {
                    self.control.grow(&mut self.window, &acked, config);
                }
                return rtt;
            }
            self.trouble = Some(Box::new(Trouble::new(self.una, config)));
        }
        let (una, nxt) = (self.una, self.nxt);
        let segment = u64::from(config.segment);
        let trouble = self.trouble.as_mut().expect("it was made");
        trouble.board.acknowledge(una);
        for &(from, to) in ack.blocks {
            if from >= una && to <= nxt {
                trouble.board.add((from, to));
            }
        }
        // What has left the board because it is acknowledged now was delivered before (RFC 6937, section 3: DeliveredData).
        delivered = (delivered + trouble.board.sacked()).saturating_sub(known);
        if acked.is_none() && outstanding {
            trouble.duplicates += 1;
        } else if acked.is_some() && trouble.phase != Phase::Recovery {
            trouble.duplicates = 0;
        }
        trouble.board.update(segment);
        trouble.estimate(una, nxt, config);
        match trouble.phase {
            Phase::Disorder => self.in_disorder(acked, delivered, config, counts),
            Phase::Recovery => self.in_recovery(acked, delivered, repaired, config),
            Phase::Loss => self.in_loss(acked, config),
        }
        rtt
    }

    fn in_disorder(&mut self, acked: Option<Acked>, delivered: u64, config: &TcpConfig, counts: &mut Counts) {
        let Some(trouble) = &mut self.trouble else { return };
        if let Some(acked) = acked {
            self.control.grow(&mut self.window, &acked, config);
            if trouble.board.is_empty() {
                self.trouble = None;
                return;
            }
        }
        let is_lost = trouble.board.lost_to > self.una;
        // No second reduction for losses of one window (RFC 6582, section 3.2, step 2). Without SACK, what was sent twice brings
        // duplicates too, just at the end of what was sent before.
        let is_new = self.una > self.recover || self.recover == 0 || (config.sack && self.una == self.recover);
        if (trouble.duplicates >= DUP_THRESH || is_lost) && is_new {
            self.recover_fast(delivered, config, counts);
        }
    }

    /// Enters fast recovery (RFC 6675, section 5, step 4).
    fn recover_fast(&mut self, delivered: u64, config: &TcpConfig, counts: &mut Counts) {
        let Some(trouble) = &mut self.trouble else { return };
        counts.recoveries += 1;
        let segment = u64::from(config.segment);
        trouble.phase = Phase::Recovery;
        trouble.first = true;
        let before = trouble.board.pipe(self.una, self.nxt);
        self.recover = self.nxt;
        // The first segment is lost, whatever the board says.
        let end = trouble.board.hole(self.una, self.nxt).map_or(self.nxt, |hole| hole.1);
        trouble.board.lost_to = trouble.board.lost_to.max(end.min(self.una + segment));
        trouble.board.resent_to = self.una;
        trouble.estimate(self.una, self.nxt, config);
        let outstanding = self.nxt - self.una;
        let flight = if config.dialect == Dialect::Ns3 { before } else { outstanding };
        self.window.ssthresh = self.control.on_loss(&self.window, flight, config);
        trouble.reduction = Reduction::begin(outstanding);
        self.reduced_to = self.nxt;
        self.tell_reduced = config.ecn;
        self.window.cwnd = match config.recovery {
            Recovery::Prr => trouble.reduction.window(delivered, trouble.pipe, self.window.ssthresh, segment, true),
            Recovery::Classic => self.window.ssthresh,
        };
    }

    fn in_recovery(&mut self, acked: Option<Acked>, delivered: u64, repaired: bool, config: &TcpConfig) {
        let Some(trouble) = &mut self.trouble else { return };
        if self.una >= self.recover {
            // RFC 6937, section 3; RFC 6582, section 3.2, step 3.
            self.window.cwnd = self.window.ssthresh;
            self.trouble_is_over();
            if let (Dialect::Ns3, Some(acked)) = (config.dialect, acked) {
                self.control.grow(&mut self.window, &acked, config);
            }
            return;
        }
        let segment = u64::from(config.segment);
        if !config.sack && acked.is_some() {
            // A partial acknowledgement: the next segment is lost too (RFC 6582, section 3.2, step 3).
            trouble.duplicates = trouble.duplicates.saturating_sub((delivered / segment) as u32);
            trouble.board.lost_to = (self.una + segment).min(self.nxt);
            trouble.estimate(self.una, self.nxt, config);
        }
        if config.recovery == Recovery::Prr {
            let delivered = if config.sack || acked.is_some() { delivered } else { segment };
            let (pipe, ssthresh) = (trouble.pipe, self.window.ssthresh);
            let catches_up = config.dialect == Dialect::Rfc || repaired;
            self.window.cwnd = trouble.reduction.window(delivered, pipe, ssthresh, segment, catches_up);
        }
    }

    fn in_loss(&mut self, acked: Option<Acked>, config: &TcpConfig) {
        if let Some(acked) = acked {
            self.control.grow(&mut self.window, &acked, config);
            if self.una >= self.recover {
                self.trouble_is_over();
            }
        }
    }

    /// All that was sent before is acknowledged; what came after may have gaps of its own.
    fn trouble_is_over(&mut self) {
        match &mut self.trouble {
            Some(trouble) if !trouble.board.is_empty() => {
                trouble.phase = Phase::Disorder;
                trouble.duplicates = 0;
            }
            trouble => *trouble = None,
        }
    }

    /// The network has marked a segment: as after a loss, once in a round trip, but nothing is sent again.
    fn react_to_mark(&mut self, una: u64, config: &TcpConfig) {
        if una <= self.reduced_to || self.trouble.as_ref().is_some_and(|trouble| trouble.phase != Phase::Disorder) {
            return;
        }
        self.window.ssthresh = self.control.on_mark(&self.window, self.nxt - self.una, config);
        self.window.cwnd = self.window.ssthresh;
        self.reduced_to = self.nxt;
        self.tell_reduced = true;
    }

    /// The retransmission timer has expired (RFC 6298, rules 5.4 to 5.6; RFC 5681, section 3.1, equation 4). False if the
    /// connection is given up.
    #[must_use]
    pub fn expire(&mut self, now: Ps, config: &TcpConfig, counts: &mut Counts) -> bool {
        if self.trip.doubled >= config.retries {
            return false;
        }
        counts.timeouts += 1;
        counts.connections_with_timeout += u64::from(!std::mem::replace(&mut self.has_timed_out, true));
        let trouble = self.trouble.get_or_insert_with(|| Box::new(Trouble::new(self.una, config)));
        if self.trip.doubled == 0 {
            let pipe =
                if trouble.phase == Phase::Disorder { trouble.board.pipe(self.una, self.nxt) } else { trouble.pipe };
            let flight = if config.dialect == Dialect::Ns3 { pipe } else { self.nxt - self.una };
            self.window.ssthresh = self.control.on_loss(&self.window, flight, config);
        }
        self.control.on_timeout();
        self.trip.doubled += 1;
        self.window.cwnd = config.segment.into();
        self.timed_end = self.una;
        self.recover = self.nxt;
        self.reduced_to = self.nxt;
        trouble.phase = Phase::Loss;
        trouble.duplicates = 0;
        trouble.first = false;
        trouble.board.lose_all(self.una, self.nxt);
        trouble.estimate(self.una, self.nxt, config);
        self.deadline = now + self.trip.timeout(config);
        true
    }

    /// The next segment that may be sent now, which is then in flight.
    #[inline(always)]
    pub fn next(&mut self, now: Ps, config: &TcpConfig, counts: &mut Counts) -> Option<Segment> {
        if self.trouble.is_some() {
            return self.next_in_trouble(now, config, counts);
        }
        let len = (self.buffered - self.nxt).min(config.segment.into());
        // Before anything is acknowledged, the receiver's window is that of its SYN-ACK. (A duplicate acknowledgement, which has
        // a scale, is trouble.)
        let allowed = if self.una == 0 { self.window.cwnd.min(UNSCALED_WINDOW) } else { self.window.cwnd };
        if len == 0 || self.nxt + len - self.una > allowed {
            return None;
        }
        Some(self.new_segment(now, len, config, counts))
    }

    #[inline(always)]
    fn new_segment(&mut self, now: Ps, len: u64, config: &TcpConfig, counts: &mut Counts) -> Segment {
        let seq = self.nxt;
        self.nxt += len;
        counts.segments += 1;
        self.last_sent = now;
        if self.timed_end <= self.una {
            (self.timed_end, self.timed_at) = (self.nxt, now);
        }
        if self.deadline == Ps::MAX {
            self.deadline = now + self.trip.timeout(config); // RFC 6298, rule 5.1
        }
        let reduced = std::mem::replace(&mut self.tell_reduced, false);
        Segment { seq, len: len as u32, again: false, reduced }
    }

    #[cold]
    #[inline(never)]
    fn next_in_trouble(&mut self, now: Ps, config: &TcpConfig, counts: &mut Counts) -> Option<Segment> {
        let trouble = self.trouble.as_mut()?;
        let segment = u64::from(config.segment);
        let new = (self.buffered - self.nxt).min(segment);
        // The receiver's window ends a window after what is acknowledged.
        let may_be_new = new > 0 && self.nxt + new - self.una <= config.window;
        if trouble.phase == Phase::Disorder {
            // RFC 6675, section 5, step 3; without SACK two more segments than the window (RFC 3042, section 2).
            let allowed = if config.sack { self.window.cwnd } else { self.window.cwnd + 2 * segment };
            let flight = if config.sack { trouble.pipe } else { self.nxt - self.una };
            if !may_be_new || flight + new > allowed {
                return None;
            }
            trouble.pipe += new;
            return Some(self.new_segment(now, new, config, counts));
        }
        let first = std::mem::replace(&mut trouble.first, false);
        if !first && trouble.pipe + segment > self.window.cwnd {
            return None;
        }
        let from = trouble.board.resent_to.max(self.una);
        // RFC 6675, section 4, NextSeg, rules 1 to 3. Rule 4, which sends the last segment again in case it is lost too, is
        // left out, as in most implementations: it would do so in almost every recovery.
        let lost = trouble.board.hole(from, trouble.board.lost_to);
        let (seq, end) = if let Some(lost) = lost {
            lost
        } else if may_be_new {
            trouble.pipe += new;
            trouble.reduction.sent(new);
            return Some(self.new_segment(now, new, config, counts));
        } else if trouble.phase == Phase::Recovery {
            let highest = match config.dialect {
                Dialect::Rfc => trouble.board.highest()?,
                Dialect::Ns3 => self.nxt,
            };
            trouble.board.hole(from, highest)?
        } else {
            return None;
        };
        let end = end.min(seq + segment);
        trouble.board.resent_to = end;
        trouble.pipe += end - seq;
        trouble.reduction.sent(end - seq);
        self.last_sent = now;
        Some(Self::again(&mut self.timed_end, self.una, (seq, end), counts))
    }

    /// A segment is sent again: nothing is timed meanwhile (Karn's algorithm, RFC 6298, section 3).
    fn again(timed_end: &mut u64, una: u64, (seq, end): Range, counts: &mut Counts) -> Segment {
        *timed_end = una;
        counts.segments += 1;
        counts.resent += 1;
        counts.resent_bytes += end - seq;
        Segment { seq, len: (end - seq) as u32, again: true, reduced: false }
    }

    /// How often the timer has expired for the present segment.
    pub fn tries(&self) -> u32 {
        self.trip.doubled
    }

    /// Whether nothing is under way and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.una == self.written
    }
}

impl Trouble {
    fn new(una: u64, config: &TcpConfig) -> Trouble {
        let board = match config.dialect {
            Dialect::Rfc => Scoreboard::new(una),
            Dialect::Ns3 => Scoreboard::with_ghosts(una),
        };
        Trouble { phase: Phase::Disorder, board, duplicates: 0, pipe: 0, reduction: Reduction::begin(1), first: false }
    }

    /// Estimates what is in flight. Without SACK, every duplicate acknowledgement stands for a segment that has arrived (RFC
    /// 5681, section 3.2).
    fn estimate(&mut self, una: u64, nxt: u64, config: &TcpConfig) {
        let pipe = self.board.pipe(una, nxt);
        let arrived = if config.sack { 0 } else { u64::from(self.duplicates) * u64::from(config.segment) };
        self.pipe = pipe.saturating_sub(arrived);
    }
}
