//! What peers send each other over a connection.
//!
//! A connection begins with a [`Greeting`] from either side. Then there are frames: a slot of a lane, which is a head
//! of [`SLOT_HEAD`] bytes and the payload, or a credit of [`CREDIT`] bytes, which gives slots of a lane back. Numbers
//! are little-endian.

use crate::bootstrap::codec::{Malformed, Put, Take};
use crate::transport::Lane;
use crate::transport::ring::{Label, SLOT_BYTES, SLOTS};

/// The beginning of every greeting, with the version of the protocol.
const GREETING: [u8; 6] = *b"SYND\x01\0";
/// Bytes of a greeting.
pub(super) const GREETING_BYTES: usize = GREETING.len() + 32 + 8;
/// Bytes in front of a payload.
pub(super) const SLOT_HEAD: usize = 32;
/// Bytes of a credit.
pub(super) const CREDIT: usize = 8;

/// First bytes of frames.
const SLOT: u8 = 1;
const CREDITS: u8 = 2;

/// The first that either side sends: who it is, to whom it speaks, and that it knows the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub token: [u8; 32],
    pub from: u32,
    pub to: u32,
}

impl Greeting {
    pub fn encode(&self) -> Vec<u8> {
        let mut put = Put::default();
        put.raw(&GREETING).raw(&self.token).u32(self.from).u32(self.to);
        put.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Greeting, Malformed> {
        let mut take = Take(bytes);
        if take.array()? != GREETING {
            return Err(Malformed);
        }
        let greeting = Greeting { token: take.array()?, from: take.u32()?, to: take.u32()? };
        take.end()?;
        Ok(greeting)
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A payload of `label.bytes` follows.
    Slot { lane: Lane, label: Label },
    /// So many slots of a lane have been freed.
    Credit { lane: Lane, slots: u32 },
}

impl Head {
    pub fn put(&self, put: &mut Put) {
        match *self {
            Head::Slot { lane, label } => {
                put.u8(SLOT).u8(0).u16(lane).u32(label.bytes).u32(label.call).u32(label.chunk);
                put.u64(label.digest).u16(label.phase).u16(label.thread).u32(label.pc);
            }
            Head::Credit { lane, slots } => {
                put.u8(CREDITS).u8(0).u16(lane).u32(slots);
            }
        }
    }

    /// The head at the front of `bytes` and its length, if it is complete.
    pub fn take(bytes: &[u8]) -> Result<Option<(Head, usize)>, Malformed> {
        let length = match bytes.first() {
            None => return Ok(None),
            Some(&SLOT) => SLOT_HEAD,
            Some(&CREDITS) => CREDIT,
            Some(_) => return Err(Malformed),
        };
        let Some(head) = bytes.get(..length) else { return Ok(None) };
        let mut take = Take(head);
        let kind = take.u8()?;
        if take.u8()? != 0 {
            return Err(Malformed);
        }
        let (lane, count) = (take.u16()?, take.u32()?);
        if kind == CREDITS {
            let valid = (1..=SLOTS).contains(&count);
            return if valid { Ok(Some((Head::Credit { lane, slots: count }, length))) } else { Err(Malformed) };
        }
        if count as usize > SLOT_BYTES {
            return Err(Malformed);
        }
        let (call, chunk, digest) = (take.u32()?, take.u32()?, take.u64()?);
        let (phase, thread, pc) = (take.u16()?, take.u16()?, take.u32()?);
        let label = Label { bytes: count, call, digest, chunk, phase, thread, pc };
        Ok(Some((Head::Slot { lane, label }, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heads() -> impl Strategy<Value = Head> {
        let slot = (any::<u16>(), 0..=SLOT_BYTES as u32, any::<[u32; 3]>(), any::<u64>(), any::<[u16; 2]>()).prop_map(
            |(lane, bytes, [call, chunk, pc], digest, [phase, thread])| Head::Slot {
                lane,
                label: Label { bytes, call, digest, chunk, phase, thread, pc },
            },
        );
        prop_oneof![slot, (any::<u16>(), 1..=SLOTS).prop_map(|(lane, slots)| Head::Credit { lane, slots })]
    }

    proptest! {
        #[test]
        fn heads_are_read_as_they_were_written(head in heads(), cut in 0_usize..40) {
            let mut put = Put::default();
            head.put(&mut put);
            prop_assert_eq!(Head::take(&put.0), Ok(Some((head, put.0.len()))));
            if cut < put.0.len() {
                prop_assert_eq!(Head::take(&put.0[..cut]), Ok(None));
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..100), first in 0_u8..4) {
            let _ = Greeting::decode(&bytes);
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            if let Ok(Some((Head::Slot { label, .. }, _))) = Head::take(&bytes) {
                prop_assert!(label.bytes as usize <= SLOT_BYTES);
            }
        }
    }
}
