//! How messages of phases are named in the network.

use crate::api::ChunkId;
use syncline_collective::PhaseId;

/// The name of a message of a phase, in 63 bits: the last one is that of packets of direct all-to-alls
/// ([`super::packet`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageTag {
    /// The chunk.
    pub seq: ChunkId,
    /// The phase.
    pub phase: PhaseId,
    /// In a direct phase: whether it is part of the result, rather than something to add.
    pub is_result: bool,
    /// Around a ring: its number in the phase, as the receiver expects them; numbers begin anew after
    /// [`MessageTag::NUMBERS`].
    pub number: u32,
}

impl MessageTag {
    const PHASES: u64 = 0x7f;
    const RESULT: u64 = 0x80;
    const SEQ_AT: u32 = 8;
    const NUMBER_AT: u32 = 40;
    /// The largest number.
    pub const NUMBERS: u32 = 0x7f_ffff;

    /// The message with a name.
    #[inline]
    pub fn of(tag: u64) -> MessageTag {
        MessageTag {
            seq: ChunkId((tag >> Self::SEQ_AT) as u32),
            phase: PhaseId((tag & Self::PHASES) as u8),
            is_result: tag & Self::RESULT != 0,
            number: (tag >> Self::NUMBER_AT) as u32,
        }
    }

    /// Its name.
    ///
    /// # Panics
    /// If its number or that of its phase is too large.
    #[inline]
    pub fn tag(self) -> u64 {
        assert!(self.number <= Self::NUMBERS, "message {} of a phase, more than a tag can name", self.number);
        assert!(u64::from(self.phase.0) <= Self::PHASES, "phase {} of a plan, more than a tag can name", self.phase);
        let result = if self.is_result { Self::RESULT } else { 0 };
        u64::from(self.number) << Self::NUMBER_AT
            | u64::from(self.seq.0) << Self::SEQ_AT
            | result
            | u64::from(self.phase.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::is_of_all_to_all;
    use super::*;

    #[test]
    fn a_message_is_known_by_its_name() {
        for (seq, phase, is_result, number) in
            [(0, 0, false, 0), (u32::MAX, 0x7f, true, MessageTag::NUMBERS), (7, 3, true, 5)]
        {
            let message = MessageTag { seq: ChunkId(seq), phase: PhaseId(phase), is_result, number };
            assert_eq!(MessageTag::of(message.tag()), message);
            assert!(!is_of_all_to_all(message.tag()));
        }
    }

    #[test]
    #[should_panic(expected = "message 8388608 of a phase, more than a tag can name")]
    fn numbers_that_do_not_begin_anew_have_no_name() {
        let number = MessageTag::NUMBERS + 1;
        MessageTag { seq: ChunkId(0), phase: PhaseId(0), is_result: false, number }.tag();
    }

    #[test]
    #[should_panic(expected = "phase 128 of a plan, more than a tag can name")]
    fn a_phase_too_many_has_no_name() {
        MessageTag { seq: ChunkId(0), phase: PhaseId(0x80), is_result: false, number: 0 }.tag();
    }
}
