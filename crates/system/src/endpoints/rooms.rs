//! What the endpoints of several rooms are built of.

use super::{Contention, EndpointModel, EndpointNeeds, EndpointParts, WithEndpoint};
use crate::endpoints::EndpointEvent;
use crate::errors::RunError;
use crate::setup::RunPlan;
use crate::spec::{JobSpec, Spec};
use crate::timer::Timer;
use std::cmp::Reverse;
use syncline_core::{NodeId, Refusal};
use syncline_endpoint::rooms::{Engine, MAX_NPUS, MAX_ROOMS, POSTS, RoomNet};
use syncline_endpoint::{Endpoint, RoomId, RoomPart, RoomsOn};
use syncline_network::Network;
use syncline_workload::FamilyId;

/// The rooms of endpoints: one for each cohort of communicators.
#[derive(Debug)]
pub struct Rooms<'a> {
    parts: Vec<EndpointParts<'a>>,
    /// What tells the rooms of an NPU apart; none if there is one room and nothing beside it.
    numbers: Option<Vec<u8>>,
    /// By room, the family.
    families: Vec<FamilyId>,
    /// By family, its priority and the precedence of its messages.
    ranks: Vec<(u8, u8)>,
    /// Whether there are messages between two ranks.
    posts: bool,
}

/// Packets of an input buffer that are left to messages between two ranks: what a router's rule against deadlock needs.
const LEFT_TO_POSTS: u32 = 2;

impl<'a> Rooms<'a> {
    /// Those of a run, of such parts.
    ///
    /// # Errors
    /// [`RunError::Spec`] if there are more than timers and keys tell apart.
    pub fn new(spec: &Spec, plan: &RunPlan, parts: Vec<EndpointParts<'a>>) -> Result<Rooms<'a>, RunError> {
        let families: Vec<FamilyId> = plan.cohorts.iter().map(|cohort| cohort.family).collect();
        let ranks = match spec.families.is_empty() {
            true => vec![(0, 0)],
            false => spec.families.iter().map(|family| (family.priority, family.traffic_class)).collect(),
        };
        // Only graphs that are written out have messages between two ranks.
        if parts.len() == 1 && !matches!(spec.job, JobSpec::Graph { .. } | JobSpec::Jobs { .. }) {
            return Ok(Rooms { parts, numbers: None, families, ranks, posts: false });
        }
        let npus = plan.fabric.npus();
        if parts.len() >= MAX_ROOMS || npus > MAX_NPUS {
            let refusal = Refusal::of("families", format!("{} cohorts of communicators on {npus} NPUs", parts.len()));
            return Err(refusal.accepting(format!("up to {} on {MAX_NPUS}", MAX_ROOMS - 1)).into());
        }
        let priorities: Vec<u8> = families.iter().map(|family| ranks[family.index()].0).collect();
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|&room| Reverse(priorities[room]));
        let mut numbers = vec![0; parts.len()];
        let mut taken = vec![0u16; npus as usize];
        for of_priority in order.chunk_by(|&a, &b| priorities[a] == priorities[b]) {
            // By NPU, the first number behind all rooms of larger priority.
            let behind: Vec<u32> = taken.iter().map(|taken| u16::BITS - taken.leading_zeros()).collect();
            for &room in of_priority {
                let members = || (0..npus).filter(|&npu| parts[room].layout.takes_part(NodeId(npu)));
                // Endpoints that forward have timers of rooms that they are not in.
                let around: Vec<u32> = if plan.transit { (0..npus).collect() } else { members().collect() };
                let used = around
                    .iter()
                    .fold(0, |all, &npu| all | taken[npu as usize] | ((1u32 << behind[npu as usize]) - 1) as u16);
                let number = used.trailing_ones() as u8;
                if number >= POSTS {
                    let refusal = Refusal::of("families", "an NPU is in too many communicators");
                    return Err(refusal.accepting(format!("up to {POSTS} of an NPU")).into());
                }
                members().for_each(|npu| taken[npu as usize] |= 1 << number);
                numbers[room] = number;
            }
        }
        Ok(Rooms { parts, numbers: Some(numbers), families, ranks, posts: !plan.job.sends.is_empty() })
    }

    /// Whether there are several, or messages between two ranks beside one.
    pub fn are_several(&self) -> bool {
        self.numbers.is_some()
    }

    /// Whether the network has to tell messages apart by precedence.
    pub fn have_precedences(&self) -> bool {
        self.ranks.windows(2).any(|pair| pair[0].1 != pair[1].1)
    }

    /// What each is built of.
    pub fn parts(&self) -> &[EndpointParts<'a>] {
        &self.parts
    }

    /// How communication and compute share an NPU.
    pub fn contention(&self) -> Option<Contention> {
        self.parts[0].contention.clone()
    }

    /// What they need of the network.
    ///
    /// # Errors
    /// A [`Refusal`] of a field of the description.
    pub fn needs(&self, model: &dyn EndpointModel) -> Result<EndpointNeeds, Refusal> {
        let each = self.parts.iter().map(|part| model.needs(part)).collect::<Result<Vec<_>, Refusal>>()?;
        // What arrives for one room may wait for it in an input buffer that another room's messages need, too.
        let buffer = each.iter().map(|needs| needs.buffer_packets).fold(0, u32::saturating_add);
        let passing = if self.posts && buffer > 0 { LEFT_TO_POSTS } else { 0 };
        Ok(EndpointNeeds {
            buffer_packets: buffer.saturating_add(passing),
            classes: each.iter().map(|needs| needs.classes).max().unwrap_or(1),
            in_order: each.iter().any(|needs| needs.in_order),
        })
    }

    /// The only room.
    ///
    /// # Errors
    /// A [`Refusal`] if there are several, or the job is one that may have messages between two ranks.
    pub fn only(self) -> Result<EndpointParts<'a>, Refusal> {
        match <[EndpointParts<'a>; 1]>::try_from(self.parts) {
            Ok([part]) if self.numbers.is_none() => Ok(part),
            _ => {
                let message = "this endpoint carries out single collectives and copies of a model, not graphs or jobs";
                let refusal = Refusal::of("endpoint.kind", message);
                Err(refusal.accepting("another endpoint; or a collective, or a model with `batch` as the workload"))
            }
        }
    }

    /// Builds an endpoint in each room, all on hardware that `hardware` makes.
    pub fn build<N, E, W>(
        self,
        mut engine: impl FnMut(EndpointParts<'a>) -> E,
        hardware: impl FnOnce(&EndpointParts<'a>) -> E::Hardware,
        then: W,
    ) -> Result<W::Output, Refusal>
    where
        N: Network + 'static,
        W: WithEndpoint<N>,
        E: Engine<Timer: Timer<Layer = EndpointEvent>>
            + Endpoint<N, Event: Timer<Layer = EndpointEvent>>
            + for<'b> Endpoint<RoomNet<'b, N>, Event = <E as Engine>::Timer>,
    {
        let Rooms { parts, numbers, families, ranks, .. } = self;
        let Some(numbers) = numbers else {
            let part = parts.into_iter().next().expect("there is a room");
            return Ok(then.with(|| engine(part)));
        };
        Ok(then.with(|| {
            let layout = parts[0].layout.clone();
            let npus = layout.npus();
            let rooms_of = |npu: u32| {
                let of = |room: &usize| parts[*room].layout.takes_part(NodeId(npu));
                (0..parts.len()).filter(of).map(|room| RoomId(room as u16)).collect()
            };
            let on = RoomsOn {
                fabric: layout.shared_fabric(),
                whole: layout.is_folded().then(|| (0..npus).map(|npu| layout.whole(NodeId(npu))).collect()),
                rooms: (0..npus).map(rooms_of).collect(),
                precedences: ranks.iter().map(|rank| rank.1).collect(),
            };
            let hardware = hardware(&parts[0]);
            let room = |((part, number), family): ((_, _), FamilyId)| {
                let (priority, precedence) = ranks[family.index()];
                RoomPart { engine: engine(part), number, priority, precedence }
            };
            let parts = parts.into_iter().zip(numbers).zip(families);
            syncline_endpoint::Rooms::new(parts.map(room).collect(), hardware, on)
        }))
    }
}
