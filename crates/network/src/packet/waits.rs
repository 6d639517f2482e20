//! Who waits for what, in words.

use super::Packet;
use super::port::{Link, LinkId};
use crate::wait_text;
use syncline_core::Wait;
use syncline_topology::Fabric;

impl<F: Fabric> Packet<F> {
    /// Everything that is blocked.
    pub(super) fn blocked(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (link, backlog) in self.links.iter().zip(&self.backlogs) {
            self.waiting_for_slots(link, &mut waits);
            let in_line: u64 = backlog.line.iter().map(|waiting| u64::from(waiting.train.packets)).sum();
            if in_line > 0 {
                let (node, port) = (self.fabric.node_name(link.from), self.fabric.port_name(link.from, link.out));
                let who = format!("{in_line} packet(s) at the port {port} of {node}");
                waits.push(Wait { who, what: "the packets before them to leave".to_owned() });
            }
            self.waiting_behind_the_head(link, &mut waits);
        }
        let unfed = self.messages.unfed();
        waits.extend(unfed.map(|flight| wait_text::unfed(&self.fabric, &flight.message, flight.fed())));
        waits
    }

    /// Trains that have requested an output and lack a slot in the buffer behind it.
    fn waiting_for_slots(&self, link: &Link, waits: &mut Vec<Wait>) {
        let buffer = self.buffer_name(link);
        let held: u64 = link.held.iter().map(|h| h.packets).sum();
        let what = match held {
            0 => format!("a free slot in {buffer}"),
            n => format!("a free slot in {buffer}, of which its NPU holds {n}"),
        };
        for request in link.lanes.iter().flatten() {
            let train = request.train;
            let message = wait_text::message(&self.fabric, &self.messages[train.msg].message);
            let node = self.fabric.node_name(link.from);
            let at = match request.input {
                LinkId::LOCAL => format!("at the port {} of {node}", self.fabric.port_name(link.from, link.out)),
                input => format!("in {}", self.buffer_name(&self.links[input.index()])),
            };
            let who = format!("{} packet(s) of a {message}, {at}", train.packets);
            waits.push(Wait { who, what: what.clone() });
        }
    }

    /// Packets in transit that are not the head of their input queue.
    fn waiting_behind_the_head(&self, link: &Link, waits: &mut Vec<Wait>) {
        for channel in &link.channels {
            let packets = channel.fifo.len();
            if packets > 0 {
                let buffer = self.buffer_name(link);
                let who = format!("{packets} packet(s) in {buffer}");
                waits.push(Wait { who, what: "the packet at the head of that buffer to leave".to_owned() });
            }
        }
    }

    fn buffer_name(&self, link: &Link) -> String {
        format!("the input buffer {} of {}", self.fabric.port_name(link.to, link.input), self.fabric.node_name(link.to))
    }
}
