//! Messages that are leaving their senders, per port in the order in which they do: a sender hears of two
//! that leave in the same picosecond, as empty ones may, in the order in which it sent them.

use crate::api::NetOut;
use std::collections::{BTreeMap, VecDeque};
use syncline_core::NodeId;

/// Receipts that are still to be reported, by link (or whatever else serves in order).
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipts(BTreeMap<u32, VecDeque<(NodeId, u64)>>);

impl Receipts {
    /// A message leaves by a link, after all others that have been added; an event is due when it has.
    pub fn add(&mut self, link: u32, at: NodeId, receipt: u64) {
        self.0.entry(link).or_default().push_back((at, receipt));
    }

    /// The next message of a link has left.
    pub fn next(&mut self, link: u32) -> Option<NetOut> {
        let waiting = self.0.get_mut(&link)?;
        let (at, receipt) = waiting.pop_front()?;
        if waiting.is_empty() {
            self.0.remove(&link);
        }
        Some(NetOut::Left { at, receipt })
    }
}
