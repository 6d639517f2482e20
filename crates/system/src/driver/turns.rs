//! Collectives of a communicator that go one after the other, each launched when it has its turn.
//!
//! That is how communication libraries carry out what is called on one communicator: a collective is a kernel, and a stream
//! runs one kernel after the other. The order is that of the log, the same on all NPUs, and a collective enters it whole;
//! so whoever has its turn needs nothing that waits behind it.

use super::Simulation;
use crate::admission::CollectiveId;
use crate::cohorts::CohortId;
use crate::endpoints::EndpointEvent;
use crate::event::Event;
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use crate::turns::{Turn, Turns};
use syncline_core::{Key, NodeId, Ps};
use syncline_endpoint::api::class;
use syncline_endpoint::{Ctx, Endpoint, Held};
use syncline_network::Network;

/// Event class of the end of such a launch, told apart by cohort: after kernels that end at the time, those of a host included.
const TURN: u8 = class::SHARES + 3;

impl<N, E> Simulation<N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    /// Whether chunks of a collective may start on an NPU; if it is its turn and it has not been launched, it is now.
    #[inline]
    pub(super) fn has_turn(&mut self, npu: NodeId, id: CohortId, collective: CollectiveId, now: Ps) -> bool {
        if self.cohorts[id].turns.is_none() {
            return true;
        }
        let launch = self.cohorts[id].launch(collective);
        let Some(Turns(turns)) = &mut self.cohorts[id].turns else { return true };
        let turn = &mut turns[npu.index()];
        let begins = match *turn {
            Turn::Of(other) => return other == collective,
            Turn::Launching(_) => return false,
            Turn::Free if launch == Ps::ZERO => {
                *turn = Turn::Of(collective);
                true
            }
            Turn::Free => {
                *turn = Turn::Launching(collective);
                self.queue.0.push(now + launch, Key::new(TURN, id.0.into()), Event::Turn(npu.0, id));
                false
            }
        };
        self.hold(npu, id, collective, true, now);
        begins
    }

    /// Has an NPU's kernels make way for a collective that begins there, or no longer.
    fn hold(&mut self, npu: NodeId, id: CohortId, collective: CollectiveId, begins: bool, now: Ps) {
        let held = self.cohorts[id].held(collective);
        if held != Held::NOTHING {
            let Self { queue: q, net, ep, ep_out: out, .. } = self;
            ep.hold(npu, held, begins, &mut Ctx { now, net, q, out });
        }
    }

    /// What an NPU has launched begins.
    #[cold]
    #[inline(never)]
    pub(super) fn turn_begins(&mut self, npu: NodeId, id: CohortId, now: Ps) {
        if let Some(Turns(turns)) = &mut self.cohorts[id].turns
            && let Turn::Launching(collective) = turns[npu.index()]
        {
            turns[npu.index()] = Turn::Of(collective);
            self.offer(npu, id, now);
        }
    }

    /// A collective is complete on an NPU, where another one may be launched now.
    #[inline]
    pub(super) fn turn_ends(&mut self, npu: NodeId, id: CohortId, now: Ps) {
        if let Some(Turns(turns)) = &mut self.cohorts[id].turns {
            if let Turn::Of(collective) = std::mem::take(&mut turns[npu.index()]) {
                self.hold(npu, id, collective, false, now);
            }
            self.offer(npu, id, now);
        }
    }
}
