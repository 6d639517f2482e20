//! Pauses that wait for each other.

use super::{Class, Switching};
use std::collections::BTreeMap;

impl Switching {
    /// Links that will be paused for ever, each by a switch whose buffer is full of frames for the next of them, and the last one
    /// for the first: a cyclic buffer dependency. Empty if there are none.
    ///
    /// A link stays paused if, of what has come by it, more than what it may resume with waits for links that stay paused too:
    /// the largest set of which that is true.
    pub fn deadlock(&self) -> Vec<u32> {
        if !self.config.flow_control {
            return Vec::new();
        }
        let mut stuck: Vec<u32> = (0..self.ports.len() as u32).filter(|&link| self.is_held(link)).collect();
        loop {
            // What waits for these, by the link that it came by; and by switch.
            let mut waiting: BTreeMap<u32, u64> = BTreeMap::new();
            let mut used: BTreeMap<u32, u64> = BTreeMap::new();
            for &link in &stuck {
                for held in &self.ports[link as usize].queues[Class::Data as usize] {
                    *waiting.entry(held.from).or_default() += u64::from(held.frame.wire);
                    *used.entry(self.leaves[link as usize]).or_default() += u64::from(held.frame.wire);
                }
            }
            let stays = |&link: &u32| {
                let node = self.leads[link as usize];
                let Some(pool) = node.checked_sub(self.npus).and_then(|n| self.pools.get(n as usize)) else {
                    return false;
                };
                let input = self.inputs[link as usize];
                let used = used.get(&node).copied().unwrap_or(0);
                let threshold = pool.threshold_with(used, self.config.sharing, input.headroom);
                let all = waiting.get(&link).copied().unwrap_or(0);
                all > 0 && all + 2 * self.largest > threshold
            };
            let before = stuck.len();
            stuck.retain(stays);
            if stuck.len() == before {
                break;
            }
        }
        self.cycle(&stuck)
    }

    /// Whether a link is paused at the wish of the switch that it leads to, and has something to send.
    fn is_held(&self, link: u32) -> bool {
        let port = &self.ports[link as usize];
        port.is_paused() && self.inputs[link as usize].asked && !port.queues[Class::Data as usize].is_empty()
    }

    /// Of links that wait for each other, some that do so in a circle.
    fn cycle(&self, stuck: &[u32]) -> Vec<u32> {
        let Some(&first) = stuck.first() else { return Vec::new() };
        let next = |link: u32| {
            let is_next = |&&other: &&u32| {
                let held = &self.ports[other as usize].queues[Class::Data as usize];
                self.leaves[other as usize] == self.leads[link as usize] && held.iter().any(|held| held.from == link)
            };
            stuck.iter().find(is_next).copied()
        };
        let mut seen = vec![first];
        while let Some(link) = next(seen[seen.len() - 1]) {
            if let Some(begin) = seen.iter().position(|&other| other == link) {
                return seen[begin..].to_vec();
            }
            seen.push(link);
        }
        seen
    }
}
