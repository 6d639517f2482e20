//! Congestion control: how the window develops outside of recovery, and by how much a loss or a mark reduces it. A file each.

pub mod cubic;
pub mod dctcp;
pub mod newreno;

use super::TcpConfig;
use cubic::Cubic;
use dctcp::Dctcp;
use syncline_core::Ps;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlKind {
    /// RFC 5681.
    NewReno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
}

/// The congestion window and the slow start threshold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Bytes that may be in flight.
    pub cwnd: u64,
    /// Below this the window grows by a segment per acknowledgement.
    pub ssthresh: u64,
}

/// An acknowledgement of new bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// When it came.
    pub now: Ps,
    /// Bytes that it covers.
    pub bytes: u64,
    /// All bytes up to here are acknowledged now.
    pub una: u64,
    /// All bytes up to here were sent.
    pub nxt: u64,
    /// The round trip of a segment that was timed, if one was.
    pub rtt: Option<Ps>,
    /// Whether it tells of congestion.
    pub marked: bool,
}

/// A congestion control with its state.
#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    /// RFC 5681.
    NewReno,
    /// RFC 9438.
    Cubic(Box<Cubic>),
    /// RFC 8257.
    Dctcp(Dctcp),
}

impl Control {
    /// One at the start of a connection.
    pub fn new(kind: ControlKind) -> Control {
        match kind {
            ControlKind::NewReno => Control::NewReno,
            ControlKind::Cubic => Control::Cubic(Box::default()),
            ControlKind::Dctcp => Control::Dctcp(Dctcp::default()),
        }
    }

    /// Outside of recovery, new bytes were acknowledged.
    #[inline(always)]
    pub fn grow(&mut self, window: &mut Window, acked: &Acked, config: &TcpConfig) {
        match self {
            Control::NewReno | Control::Dctcp(_) => newreno::grow(window, acked, config),
            Control::Cubic(cubic) => cubic.grow(window, acked, config),
        }
    }

    /// Every acknowledgement of new bytes, whether in recovery or not.
    #[inline(always)]
    pub fn hear(&mut self, acked: &Acked) {
        if let Control::Dctcp(dctcp) = self {
            dctcp.hear(acked);
        }
    }

    /// A segment was lost with `flight` bytes in flight: the new threshold.
    pub fn on_loss(&mut self, window: &Window, flight: u64, config: &TcpConfig) -> u64 {
        match self {
            Control::NewReno | Control::Dctcp(_) => newreno::threshold(flight, config),
            Control::Cubic(cubic) => cubic.threshold(window, config),
        }
    }

    /// The network marked a segment, for the first time in a round trip: the new threshold, which is the window as well.
    pub fn on_mark(&mut self, window: &Window, flight: u64, config: &TcpConfig) -> u64 {
        match self {
            Control::Dctcp(dctcp) => dctcp.threshold(window, config),
            Control::NewReno | Control::Cubic(_) => self.on_loss(window, flight, config),
        }
    }

    /// The retransmission timer has expired.
    pub fn on_timeout(&mut self) {
        if let Control::Cubic(cubic) = self {
            cubic.on_timeout();
        }
    }
}
