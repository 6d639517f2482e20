//! Random delays of chunks that share a link with another stream, as Blink has them (`streams`).

use std::collections::BTreeMap;
use syncline_core::random::RandomStream;
use syncline_core::{PortId, Ps};

/// What tells the random numbers of delays from those of others: "stream" in ASCII.
const ENTITY: u64 = 0x73_74_72_65_61_6d;
/// Delays are given in thousandths of a chunk's time.
pub const PER_CHUNK: u32 = 1000;

/// Which stream of an NPU it is: the room, the chunk and the thread of its program.
pub type Stream = (u16, u32, u16);

/// A copy that is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// The NPU.
    pub npu: u32,
    /// The port that it leaves by.
    pub port: PortId,
    /// Its stream.
    pub stream: Stream,
    /// The step of that.
    pub pc: u32,
    /// The time of its bytes on the link.
    pub time: Ps,
}

/// How long chunks are held up that find another stream at a copy over their link.
#[derive(Clone, Debug)]
pub struct LinkDelays {
    /// At most, in thousandths of a chunk's time.
    most: u32,
    seed: u64,
    /// By NPU and port, the copies that have begun and not left.
    copying: BTreeMap<(u32, PortId), u32>,
}

impl LinkDelays {
    /// Delays of at most so many thousandths of a chunk's time, drawn from a seed.
    pub fn new(most: u32, seed: u64) -> LinkDelays {
        LinkDelays { most, seed, copying: BTreeMap::new() }
    }

    /// How long a copy is held up. A function of which copy it is and of whether it finds another one, so that it depends on
    /// no order of simultaneous events of different NPUs.
    pub fn delay(&self, copy: Copy) -> Ps {
        if !self.copying.contains_key(&(copy.npu, copy.port)) {
            return Ps::ZERO;
        }
        let (room, seq, thread) = copy.stream;
        let entity = [ENTITY, copy.npu.into(), room.into(), seq.into(), thread.into()];
        let most = u128::from(copy.time.0) * u128::from(self.most) / u128::from(PER_CHUNK);
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        Ps(RandomStream::new(self.seed, &entity).below(copy.pc.into(), most.saturating_add(1)))
    }

    /// A copy begins.
    pub fn begins(&mut self, npu: u32, port: PortId) {
        *self.copying.entry((npu, port)).or_default() += 1;
    }

    /// A copy has left.
    pub fn ends(&mut self, npu: u32, port: PortId) {
        let Some(copies) = self.copying.get_mut(&(npu, port)) else { return };
        *copies -= 1;
        if *copies == 0 {
            self.copying.remove(&(npu, port));
        }
    }
}
