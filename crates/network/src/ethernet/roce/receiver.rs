//! The receiving end of a queue pair.

use super::dcqcn::DcqcnConfig;
use super::{Repeat, RoceConfig};
use crate::ethernet::tcp::TcpConfig;
use crate::ethernet::tcp::receiver::Receiver;
use syncline_core::Ps;

/// What a frame calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nothing,
    /// An acknowledgement of everything in order.
    Ack,
    /// The same, and a request for what is missing.
    Nak,
}

/// What the receiving end knows beyond which bytes have arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Responder {
    /// Whether what is missing was asked for.
    asked: bool,
    /// Frames in order that are not acknowledged.
    owed: u32,
    /// No notification is due before this time.
    notifies_at: u64,
    /// Frames that were thrown away because others before them were missing.
    pub discarded: u64,
}

impl Responder {
    /// A frame has arrived; `boundary` is where the present message ends.
    pub fn take(&mut self, bytes: &mut Receiver, (seq, len): (u64, u32), boundary: u64, config: &RoceConfig) -> Reply {
        if seq > bytes.next && config.repeat == Repeat::GoBackN {
            self.discarded += 1;
            return if std::mem::replace(&mut self.asked, true) { Reply::Nothing } else { Reply::Nak };
        }
        let in_order = seq == bytes.next;
        // Nothing of the configuration of TCP matters to which bytes have arrived.
        bytes.take(Ps::ZERO, seq, len, &TcpConfig::RFC);
        if !in_order {
            // A frame beyond a gap; or one that has come before, whose acknowledgement was lost.
            self.owed = 0;
            return if seq > bytes.next { Reply::Nak } else { Reply::Ack };
        }
        self.asked = false;
        self.owed += 1;
        if self.owed < config.acknowledge_every && bytes.next < boundary {
            return Reply::Nothing;
        }
        self.owed = 0;
        Reply::Ack
    }

    /// The network has marked a frame. Whether the sender is to be notified (DCQCN, section 3.2: at most once in a time).
    pub fn notifies(&mut self, now: u64, config: &DcqcnConfig) -> bool {
        let due = now >= self.notifies_at;
        if due {
            self.notifies_at = now + config.notification.0;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_back_n_asks_once_and_takes_nothing_out_of_order() {
        let (mut bytes, mut end) = (Receiver::default(), Responder::default());
        let mut take = |seq| (end.take(&mut bytes, (seq, 100), u64::MAX, &RoceConfig::DEFAULT), bytes.next);
        assert_eq!(take(0), (Reply::Ack, 100));
        assert_eq!(take(200), (Reply::Nak, 100));
        assert_eq!(take(300), (Reply::Nothing, 100));
        assert_eq!(take(100), (Reply::Ack, 200));
        assert_eq!(take(0), (Reply::Ack, 200)); // once more: the acknowledgement was lost
        assert_eq!(take(300), (Reply::Nak, 200));
        assert_eq!(end.discarded, 3);
    }

    #[test]
    fn selective_repeat_takes_everything_and_tells_of_gaps() {
        let config = RoceConfig { repeat: Repeat::Selective, ..RoceConfig::DEFAULT };
        let (mut bytes, mut end) = (Receiver::default(), Responder::default());
        let mut take = |seq| (end.take(&mut bytes, (seq, 100), u64::MAX, &config), bytes.next);
        assert_eq!(take(100), (Reply::Nak, 0));
        assert_eq!(take(300), (Reply::Nak, 0));
        assert_eq!(take(0), (Reply::Ack, 200));
        assert_eq!(take(200), (Reply::Ack, 400));
    }

    #[test]
    fn acknowledgements_wait_for_more_unless_a_message_ends() {
        let config = RoceConfig { acknowledge_every: 3, ..RoceConfig::DEFAULT };
        let (mut bytes, mut end) = (Receiver::default(), Responder::default());
        let replies: Vec<Reply> = (0..5).map(|i| end.take(&mut bytes, (100 * i, 100), 500, &config)).collect();
        assert_eq!(replies, [Reply::Nothing, Reply::Nothing, Reply::Ack, Reply::Nothing, Reply::Ack]);
    }

    #[test]
    fn notifications_keep_their_distance() {
        let mut end = Responder::default();
        let config = DcqcnConfig::PUBLISHED;
        let told: Vec<u64> = (0..200).map(|us| us * 1_000_000).filter(|&now| end.notifies(now, &config)).collect();
        assert_eq!(told, [0, 50_000_000, 100_000_000, 150_000_000]);
    }
}
