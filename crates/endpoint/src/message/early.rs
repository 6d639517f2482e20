//! What arrives before its step.

use super::tag::Tag;
use syncline_network::Segment;

/// Packets, or a whole message, that arrived before their step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    pub tag: Tag,
    pub segment: Segment,
}
