//! RoCEv2: reliable connections of RDMA over Ethernet, as state machines that do no input or output.
//!
//! A connection is a queue pair, whose work requests are one-way messages: each becomes frames of its own, of which only the last
//! one may be short. Bytes are numbered instead of frames. There is no congestion window; [`dcqcn`] sets the rate, and the network
//! may be lossless ([`super::switching`]).
//!
//! | rule | where |
//! |---|---|
//! | go-back-N: a receiver takes frames in order only, and asks once for the one that it misses (InfiniBand Architecture Specification, volume 1, section 9.7.5.2.8) | [`sender`], [`receiver`] |
//! | selective repeat: a receiver takes all frames and tells of those beyond a gap; what is below one that has arrived is lost (Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018, section 3.1) | [`sender`], [`receiver`] |
//! | a cap on the bytes in flight (the same, section 3.2) | [`sender`] |
//! | a timeout that does not change, and a number of tries | [`sender`] |
//! | DCQCN | [`dcqcn`] |

pub mod dcqcn;
pub mod receiver;
pub mod sender;

use dcqcn::DcqcnConfig;
use syncline_core::Ps;

/// What is sent again after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Everything from the lost frame on.
    GoBackN,
    /// The lost frames.
    Selective,
}

/// What connections are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoceConfig {
    /// Payload of a full frame, in bytes: the path MTU of InfiniBand.
    pub segment: u32,
    /// The most bytes in flight.
    pub window: u64,
    /// How long a sender waits for news of what it has sent.
    pub timeout: Ps,
    /// Timeouts in a row after which the connection is given up.
    pub retries: u32,
    /// Frames for which an acknowledgement waits, unless a message ends: 1 acknowledges each.
    pub acknowledge_every: u32,
    /// What is sent again after a loss.
    pub repeat: Repeat,
    /// What sets the rate; `None` for the link alone.
    pub dcqcn: Option<DcqcnConfig>,
}

impl RoceConfig {
    /// Frames of 1 KiB; the timeout is 4.096 us times 2^14, and 7 tries are the most that InfiniBand can express.
    pub const DEFAULT: RoceConfig = RoceConfig {
        segment: 1024,
        window: u64::MAX,
        timeout: Ps(67_108_864_000),
        retries: 7,
        acknowledge_every: 1,
        repeat: Repeat::GoBackN,
        dcqcn: None,
    };
}
