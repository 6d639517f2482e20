//! TCP as state machines that do no input or output: what comes in are calls, what goes out are segments that are asked for.
//!
//! [`sender::Sender`] has the data of a connection, [`receiver::Receiver`] the other end. Bytes are numbered from 0 and do not
//! wrap around. A connection is one-way, was opened by its sender before the run (so that its handshake has measured the round
//! trip, RFC 6298, section 2), and stays open.
//!
//! | rule | where |
//! |---|---|
//! | slow start, congestion avoidance, restart after idle time (RFC 5681, sections 3.1, 4.1) | [`control`] |
//! | no more than the window of a SYN-ACK before the first acknowledgement (RFC 7323, section 2.2) | [`sender`] |
//! | fast retransmit, limited transmit (RFC 5681, section 3.2; RFC 3042) | [`sender`] |
//! | recovery from SACK (RFC 6675), or without it (RFC 6582) | [`sender`], [`scoreboard`] |
//! | proportional rate reduction (RFC 6937) | [`reduction`] |
//! | retransmission timer (RFC 6298) | [`timer`], [`sender`] |
//! | delayed acknowledgements, SACK blocks (RFC 1122, section 4.2.3.2; RFC 2018, section 4) | [`receiver`] |

pub mod control;
pub mod receiver;
pub mod reduction;
#[cfg(test)]
mod rules;
pub mod scoreboard;
pub mod sender;
pub mod timer;

use control::ControlKind;
use syncline_core::Ps;

/// Duplicate acknowledgements that mean a loss (RFC 5681, section 3.2; RFC 6675, section 2).
pub const DUP_THRESH: u32 = 3;

/// Bytes that the window field of a segment says at most without a scale. That of a SYN-ACK has none (RFC 7323, section 2.2), so
/// that who has opened a connection may send no more before the first acknowledgement of data.
pub const UNSCALED_WINDOW: u64 = 65_535;

/// SACK blocks of an acknowledgement at most: three beside a timestamp (RFC 2018, section 3).
pub const MOST_BLOCKS: usize = 3;

/// How the window develops during recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Proportional rate reduction (RFC 6937).
    Prr,
    /// It is half of what was in flight, from the start (RFC 6675, section 5, step 4.2; RFC 6582).
    Classic,
}

/// What is followed where implementations differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The RFCs.
    Rfc,
    /// ns-3.37. In slow start an acknowledgement counts for a segment whatever it covers (RFC 5681, equation 2: for the bytes that
    /// it covers, one segment at most). A loss halves the estimate of what is in flight (RFC 5681, equation 4: all that is not
    /// acknowledged). Below the target of a recovery no more is sent than arrives, unless what was sent again is acknowledged in
    /// order (RFC 6937: the slow start bound). If there are no new bytes, a recovery sends again whatever is not known to have arrived
    /// (RFC 6675, section 4, rule 3: only below what is). What was sent again and has arrived counts as in flight until it is
    /// acknowledged in order. The acknowledgement that ends a recovery makes the window grow. Delayed acknowledgements count
    /// segments, full or not, and the first one of a connection does not wait (RFC 5681, section 4.2: bytes of full segments).
    Ns3,
}

/// What connections are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Payload of a full segment, in bytes.
    pub segment: u32,
    /// Size of both socket buffers, and so the most bytes in flight.
    pub window: u64,
    /// Bytes of the first congestion window (RFC 6928, section 2).
    pub initial_window: u64,
    /// Least retransmission timeout (RFC 6298, rule 2.4).
    pub min_rto: Ps,
    /// Largest one (RFC 6298, rule 2.5).
    pub max_rto: Ps,
    /// Granularity of the clock that measures round trips (RFC 6298, section 2).
    pub granularity: Ps,
    /// Timeouts of a segment in a row after which the connection is given up.
    pub retries: u32,
    /// Full segments for which an acknowledgement waits: 1 acknowledges each.
    pub delayed_ack: u32,
    /// How long it waits at most.
    pub delayed_ack_timeout: Ps,
    /// Whether acknowledgements say what was received out of order (RFC 2018).
    pub sack: bool,
    /// How the window develops during recovery.
    pub recovery: Recovery,
    /// What it does otherwise.
    pub control: ControlKind,
    /// Whether routers mark instead of dropping, and senders reduce their window for it (RFC 3168).
    pub ecn: bool,
    /// What is followed where implementations differ.
    pub dialect: Dialect,
    /// Whether the window falls back to the first one after an idle time (RFC 5681, section 4.1).
    pub idle_restart: bool,
}

impl TcpConfig {
    /// As in the RFCs, with the settings of the study of DLRM over TCP (Rashidi et al., HOTI 2020, Table IV).
    pub const RFC: TcpConfig = TcpConfig {
        segment: 1448,
        window: 524_288,
        initial_window: 14_480,
        min_rto: Ps(50_000_000_000),
        max_rto: Ps(60_000_000_000_000),
        granularity: Ps(1_000_000),
        retries: 15,
        delayed_ack: 1,
        delayed_ack_timeout: Ps(40_000_000_000),
        sack: true,
        recovery: Recovery::Prr,
        control: ControlKind::NewReno,
        ecn: false,
        dialect: Dialect::Rfc,
        idle_restart: true,
    };

    /// As in ns-3.37.
    pub const NS3: TcpConfig = TcpConfig {
        granularity: Ps(1_000_000_000),
        retries: 6,
        dialect: Dialect::Ns3,
        idle_restart: false,
        ..TcpConfig::RFC
    };
}
