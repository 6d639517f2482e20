//! Payload that a network has accepted and delivered, counted apart from the bytes that it put on the wire for it.

/// Bytes of payload that were handed to a network. Each byte is counted once, however often it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Bytes that the network took.
    pub accepted: u64,
    /// Bytes that arrived at their destination.
    pub delivered: u64,
    /// Bytes of messages that a transport gave up.
    pub failed: u64,
}

impl Books {
    /// Bytes on their way; `None` if more came out than went in.
    pub fn in_flight(&self) -> Option<u64> {
        self.accepted.checked_sub(self.delivered)?.checked_sub(self.failed)
    }

    /// Whether everything that went in came out, or was given up.
    pub fn are_settled(&self) -> bool {
        self.in_flight() == Some(0)
    }
}

/// Bytes that senders put on the wire. Packets without payload, such as acknowledgements, are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Bytes that were sent, those that were sent again included.
    pub sent: u64,
    /// Bytes that were lost on their way.
    pub dropped: u64,
    /// Bytes that were sent again.
    pub resent: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_is_delivered_given_up_or_on_its_way() {
        let mut books = Books { accepted: 10, delivered: 6, failed: 3 };
        assert_eq!((books.in_flight(), books.are_settled()), (Some(1), false));
        books.delivered += 1;
        assert!(books.are_settled());
        books.failed += 1;
        assert_eq!((books.in_flight(), books.are_settled()), (None, false));
    }
}
