//! What several engines of an NPU share: DMAs, SRAM ports and ALUs. SRAM, FSMs, port buffers and pools in transit are each
//! engine's own ([`crate::rooms`]).

use super::banks::Banks;
use super::config::AceConfig;
use super::dma::Dmas;
use super::engine::Ace;
use super::event::{AceEvent, class};
use crate::api::{ChunkId, chunk_key};
use crate::rooms::{Engine, PostWork};
use syncline_collective::Op;
use syncline_core::{NodeId, Ps, Schedule};

/// DMAs, SRAM ports and ALUs of all NPUs.
#[derive(Debug)]
pub struct AceHardware {
    dmas: Dmas,
    banks: Banks,
}

impl AceHardware {
    /// Those of `npus` NPUs, all idle, for packets of at most `packet` bytes.
    pub fn new(config: &AceConfig, packet: u32, npus: u32) -> AceHardware {
        AceHardware { dmas: Dmas::new(config, npus), banks: Banks::new(config, packet, npus) }
    }
}

/// Messages between two ranks pass no FSM: the TX DMA reads what is sent, the RX DMA writes what has arrived.
impl Engine for Ace {
    type Timer = AceEvent;
    type Hardware = AceHardware;

    fn share<'a>(mut engines: impl Iterator<Item = &'a mut Self>, hardware: &mut AceHardware) {
        if let Some(first) = engines.next() {
            first.exchange(hardware);
        }
    }

    fn exchange(&mut self, hardware: &mut AceHardware) {
        std::mem::swap(&mut self.dmas, &mut hardware.dmas);
        std::mem::swap(&mut self.banks, &mut hardware.banks);
    }

    fn is_shared(resource: &str) -> bool {
        !matches!(resource, "fsm" | "sram_room" | "port_buffer" | "transit_pool")
    }

    fn tell_apart(&mut self, chunks: u32) {
        self.span = chunks;
    }

    fn stages(_: &AceHardware, _: Op) -> u8 {
        1
    }

    fn work<Q: Schedule<AceEvent>>(hardware: &mut AceHardware, work: PostWork, now: Ps, q: &mut Q) {
        let PostWork { npu, id, op, len, .. } = work;
        let (done, class, timer) = match op.sends() {
            true => {
                let loaded = hardware.dmas.load(npu.index(), now, len);
                (loaded, class::LOADED, AceEvent::Loaded { npu: npu.0, seq: id })
            }
            false => {
                let stored = hardware.dmas.store(npu.index(), now, len);
                (stored, class::DRAINED, AceEvent::Drained { npu: npu.0, seq: id })
            }
        };
        q.at(done, chunk_key(class, id, 0), timer);
    }

    fn worked(timer: AceEvent) -> (NodeId, ChunkId, u8) {
        match timer {
            AceEvent::Loaded { npu, seq } | AceEvent::Drained { npu, seq } => (NodeId(npu), seq, 0),
            other => unreachable!("messages between two ranks set no timer {other:?}"),
        }
    }
}
