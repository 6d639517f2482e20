//! Output queues that are served frame by frame: needed wherever it is decided only when a link falls idle what it sends next.
//!
//! A [`super::link::Link`] alone is a queue in which the order of frames is known in advance. Here frames wait in a [`Port`]
//! before it, and the link holds only what is on the wire. That allows for
//!
//! * control frames that overtake data;
//! * a buffer that the outputs of a switch share ([`buffer::Sharing`]);
//! * priority flow control (IEEE 802.1Qbb): an input whose frames fill the buffer tells the other end of its link to pause;
//! * hosts whose port asks their connections for the next frame, in turn ([`nic::Nic`]), at the rate of each.
//!
//! What waits is counted without the frame that is leaving, as everywhere in this backend.

pub mod buffer;
mod deadlock;
pub mod nic;

use super::clock::{NEVER, Tournament};
use super::frame::{ACK, CNP, Frame, NAK, NONE, PFC};
use buffer::{Input, Pool, Sharing};
use nic::Nic;
use std::collections::VecDeque;
use syncline_core::{Bytes, NodeId, PortId};
use syncline_topology::{Fabric, all_links};

/// Bytes of a pause frame on the wire: the least of Ethernet.
pub const PAUSE_BYTES: u16 = 64;

/// How switches and hosts queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchingConfig {
    /// Who may use how much of a switch's buffer.
    pub sharing: Sharing,
    /// Whether full buffers make senders pause, instead of dropping frames.
    pub flow_control: bool,
    /// What each input keeps for frames that come although it has asked for a pause; `None` for as much as may come. It is no more
    /// than the buffer of a port holds beside a frame.
    pub headroom: Option<u64>,
    /// Whether a host's port asks its connections in turn, instead of having them put frames into one queue.
    pub per_connection: bool,
    /// Whether acknowledgements and notifications overtake data and are not paused.
    pub control_first: bool,
}

impl SwitchingConfig {
    /// Switches drop what finds the part of its port full, and hosts' ports ask connections in turn.
    pub const IN_TURN: SwitchingConfig = SwitchingConfig {
        sharing: Sharing::PerPort,
        flow_control: false,
        headroom: None,
        per_connection: true,
        control_first: false,
    };
}

/// Who goes first at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Pauses and their ends.
    Pause,
    /// Acknowledgements and notifications, if they are to overtake.
    Control,
    /// Everything else: what may be paused.
    Data,
}

/// A frame that waits.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The frame.
    pub frame: Frame,
    /// The link by which it has come, or [`NONE`] if its sender is here.
    pub from: u32,
    /// Since when.
    pub since: u64,
}

/// What waits for a link.
#[derive(Clone, Debug, Default)]
pub struct Port {
    queues: [VecDeque<Held>; 3],
    /// Bytes that wait, without pauses.
    pub waiting: u64,
    /// Frames that were queued so far.
    pub queued: u64,
    /// Since when the other end wants no data; [`NEVER`] if it does.
    paused_since: Option<u64>,
    /// How often the other end asked for a pause, and how long these were.
    pub pauses: u64,
    /// Picoseconds of them.
    pub paused: u64,
}

impl Port {
    /// Whether the other end wants no data.
    pub fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }

    /// Whether a frame of this class would be the next one.
    pub fn is_clear(&self, class: Class) -> bool {
        let before = &self.queues[..=class as usize];
        before.iter().all(VecDeque::is_empty) && !(class == Class::Data && self.is_paused())
    }

    fn push(&mut self, held: Held, class: Class) {
        if class != Class::Pause {
            self.waiting += u64::from(held.frame.wire);
        }
        self.queued += 1;
        self.queues[class as usize].push_back(held);
    }

    /// The next frame that may leave.
    fn pop(&mut self) -> Option<(Held, Class)> {
        for class in [Class::Pause, Class::Control, Class::Data] {
            if class == Class::Data && self.is_paused() {
                break;
            }
            if let Some(held) = self.queues[class as usize].pop_front() {
                if class != Class::Pause {
                    self.waiting -= u64::from(held.frame.wire);
                }
                return Some((held, class));
            }
        }
        None
    }

    /// Whether any frame that waits may leave.
    fn has_next(&self) -> bool {
        let may = if self.is_paused() { 2 } else { 3 };
        self.queues[..may].iter().any(|queue| !queue.is_empty())
    }

    /// How long the other end has wanted no data until now.
    pub fn paused_until(&self, now: u64) -> u64 {
        self.paused + self.paused_since.map_or(0, |since| now.saturating_sub(since))
    }
}

/// What becomes of a frame that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It waits.
    Waits,
    /// It waits, and the other end of the link by which it came is to pause.
    WaitsAndPauses,
    /// There is no room.
    Refused,
}

/// All ports, by link.
#[derive(Clone, Debug)]
pub struct Switching {
    config: SwitchingConfig,
    /// When each link is to be served next.
    pub service: Tournament,
    /// What waits for each link.
    pub ports: Vec<Port>,
    /// What connections of the host wait for each link.
    pub nics: Vec<Nic>,
    /// What has come by each link and waits at its end.
    inputs: Vec<Input>,
    /// By node after the NPUs.
    pools: Vec<Pool>,
    /// The most that may wait before a link of a host.
    nic_limit: u64,
    /// By link: the node that it leaves, the one that it leads to, and the link in the other direction.
    leaves: Vec<u32>,
    leads: Vec<u32>,
    back: Vec<u32>,
    npus: u32,
    /// By link: whether it is one within a machine, before which anything may wait.
    local: Vec<bool>,
    has_local: bool,
    /// The largest frame.
    largest: u64,
}

impl Switching {
    /// Empty queues. `buffer` says how many bytes a port of a node may hold, and `local` which links are within machines.
    pub fn new(
        fabric: &impl Fabric,
        config: SwitchingConfig,
        (largest, nic_limit): (u16, u64),
        buffer: impl Fn(NodeId) -> u64,
        local: Vec<bool>,
    ) -> Switching {
        let links: Vec<(NodeId, PortId)> = all_links(fabric).collect();
        let number = |node: NodeId, port: PortId| fabric.first_link(node) + u32::from(port.0);
        let ends: Vec<(NodeId, PortId)> = links.iter().map(|&(node, port)| fabric.next(node, port)).collect();
        let back = ends.iter().map(|&(node, port)| if port.0 < fabric.ports(node) { number(node, port) } else { NONE });
        let back: Vec<u32> = back.collect();
        let largest = u64::from(largest);
        let headroom = |link: usize| {
            if !config.flow_control || local[link] {
                return 0;
            }
            let wanted = config.headroom.unwrap_or_else(|| {
                // What may come after the frame that fills the buffer: until the pause has left behind a frame that is on its
                // way out, until it has arrived there, until the frame that is leaving there has left, and what is on the wire.
                let (node, port) = links[link];
                let forth = fabric.link(node, port);
                let there = ends[link];
                let other = if back[link] == NONE { forth } else { fabric.link(there.0, there.1) };
                let wait = other.rate.time(Bytes(largest + u64::from(PAUSE_BYTES))) + other.latency + forth.latency;
                forth.rate.size(wait).0 + 2 * largest
            });
            // A buffer that is too small for it keeps what it has, but for a frame.
            wanted.min(buffer(ends[link].0).saturating_sub(largest))
        };
        let inputs: Vec<Input> = (0..links.len()).map(|link| Input::new(headroom(link))).collect();
        let pools = (fabric.npus()..fabric.nodes()).map(NodeId).map(|node| {
            let reserved: u64 =
                ends.iter().zip(&inputs).filter(|(end, _)| end.0 == node).map(|(_, i)| i.headroom).sum();
            Pool::new(buffer(node), fabric.ports(node).into(), reserved)
        });
        let pools = pools.collect();
        Switching {
            config,
            service: Tournament::new(fabric.links().max(1)),
            ports: vec![Port::default(); links.len()],
            nics: vec![Nic::default(); links.len()],
            inputs,
            pools,
            nic_limit,
            leaves: links.iter().map(|link| link.0.0).collect(),
            leads: ends.iter().map(|end| end.0.0).collect(),
            back,
            npus: fabric.npus(),
            has_local: local.contains(&true),
            local,
            largest,
        }
    }

    /// Whether hosts' ports ask their connections.
    pub fn asks_connections(&self) -> bool {
        self.config.per_connection
    }

    /// Whether a link is one within a machine.
    pub fn is_local(&self, link: u32) -> bool {
        self.local[link as usize]
    }

    /// Whether any is.
    pub fn has_local(&self) -> bool {
        self.has_local
    }

    /// The class of a frame.
    pub fn class(&self, frame: Frame) -> Class {
        if frame.is(PFC) {
            Class::Pause
        } else if self.config.control_first && frame.flags & (ACK | NAK | CNP) != 0 {
            Class::Control
        } else {
            Class::Data
        }
    }

    /// Whether a frame can wait for a link; if it can, it does.
    pub fn queue(&mut self, now: u64, link: u32, frame: Frame, from: u32) -> Admission {
        let class = self.class(frame);
        let wire = u64::from(frame.wire);
        let waiting = self.ports[link as usize].waiting;
        let node = self.leaves[link as usize];
        let (sharing, lossless) = (self.config.sharing, self.config.flow_control);
        let admission = if class == Class::Pause || self.local[link as usize] {
            Admission::Waits
        } else if node < self.npus {
            if waiting + wire > self.nic_limit { Admission::Refused } else { Admission::Waits }
        } else if lossless && (class == Class::Control || from == NONE) {
            // It has no input whose sender could pause; the little that there is of it is not limited.
            Admission::Waits
        } else {
            let pool = &mut self.pools[(node - self.npus) as usize];
            let input = self.inputs.get_mut(from as usize).filter(|_| lossless);
            match input {
                Some(input) => pool.admit_from(input, wire, sharing),
                None => pool.admit(waiting, wire, sharing),
            }
        };
        if admission != Admission::Refused {
            self.ports[link as usize].push(Held { frame, from, since: now }, class);
        }
        admission
    }

    /// The next frame that leaves by a link, if one may, and whether the sender of its input may go on then.
    pub fn next(&mut self, link: u32) -> Option<(Held, bool)> {
        let (held, class) = self.ports[link as usize].pop()?;
        let node = self.leaves[link as usize];
        let (sharing, lossless, slack) = (self.config.sharing, self.config.flow_control, 2 * self.largest);
        let unlimited = class == Class::Pause || node < self.npus || self.local[link as usize];
        if unlimited || (lossless && (class == Class::Control || held.from == NONE)) {
            return Some((held, false));
        }
        let pool = &mut self.pools[(node - self.npus) as usize];
        let wire = u64::from(held.frame.wire);
        let goes_on = match self.inputs.get_mut(held.from as usize).filter(|_| lossless) {
            Some(input) => pool.release_to(input, wire, sharing, slack),
            None => {
                pool.release(wire);
                false
            }
        };
        Some((held, goes_on))
    }

    /// The frame that tells the other end of a link to pause or to go on, and the link that it takes; `None` if there is no way.
    pub fn pause(&mut self, input: u32, pauses: bool) -> Option<(u32, Frame)> {
        self.inputs[input as usize].asked = pauses;
        let back = self.back[input as usize];
        let epoch = self.inputs[input as usize].epoch;
        let frame = Frame {
            seq: pauses.into(),
            connection: input,
            route: epoch,
            wire: PAUSE_BYTES,
            flags: PFC,
            ..Frame::NOTHING
        };
        (back != NONE).then_some((back, frame))
    }

    /// The other end of a link wants no data, or wants some again, says a frame that [`Switching::pause`] has made. What was said
    /// before the link was down does not count.
    pub fn hear(&mut self, now: u64, frame: Frame) {
        if self.inputs[frame.connection as usize].epoch == frame.route {
            self.set_paused(now, frame.connection, frame.seq != 0);
        }
    }

    fn set_paused(&mut self, now: u64, link: u32, pauses: bool) {
        let port = &mut self.ports[link as usize];
        match (pauses, port.paused_since) {
            (true, None) => {
                port.pauses += 1;
                port.paused_since = Some(now);
            }
            (false, Some(since)) => {
                port.paused += now - since;
                port.paused_since = None;
            }
            _ => {}
        }
    }

    /// A link goes down: whatever was asked for by way of it, in either direction, is forgotten.
    pub fn forget(&mut self, now: u64, link: u32) {
        for link in [link, self.back[link as usize]] {
            if link != NONE {
                self.set_paused(now, link, false);
                self.inputs[link as usize].asked = false;
                self.inputs[link as usize].epoch += 1;
            }
        }
    }

    /// The link in the other direction, or [`NONE`].
    pub fn back_of(&self, link: u32) -> u32 {
        self.back[link as usize]
    }

    /// When a link that is free at a time is to be served next.
    pub fn plan(&mut self, link: u32, free: u64) {
        let (port, nic) = (&self.ports[link as usize], &self.nics[link as usize]);
        let next = if port.has_next() {
            free
        } else if port.is_paused() {
            NEVER
        } else {
            nic.next_at().max(free)
        };
        self.service.set(link, next);
    }

    /// Whether a link is planned to be served.
    pub fn is_planned(&self, link: u32) -> bool {
        self.service.time(link) != NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_core::{Ps, Rate};
    use syncline_topology::{Block, Dimension, Product};

    /// A pause that was asked for holds until it is ended, and what was said before a link was down no longer counts.
    #[test]
    fn a_pause_from_before_a_link_went_down_is_not_heard() {
        let rate = Rate::new(12_500_000_000).expect("100 Gb/s");
        let line = Dimension { block: Block::Switch, size: 2, rate, latency: Ps(1), links: 1 };
        let star = Product::new(vec![line]).expect("a star");
        let config = SwitchingConfig { flow_control: true, ..SwitchingConfig::IN_TURN };
        let mut ports = Switching::new(&star, config, (1000, u64::MAX), |_| 10_000, vec![false; 4]);
        let (_, before) = ports.pause(0, true).expect("a way back");
        ports.hear(1, before);
        assert!(ports.ports[0].is_paused());
        ports.forget(2, 0);
        assert!(!ports.ports[0].is_paused(), "it is down");
        ports.hear(3, before);
        assert!(!ports.ports[0].is_paused(), "said before");
        let (_, after) = ports.pause(0, true).expect("a way back");
        ports.hear(4, after);
        assert!(ports.ports[0].is_paused());
        let (_, end) = ports.pause(0, false).expect("a way back");
        ports.hear(9, end);
        assert_eq!((ports.ports[0].is_paused(), ports.ports[0].pauses, ports.ports[0].paused), (false, 2, 6));
    }
}
