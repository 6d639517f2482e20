//! What tells nodes apart that are simulated as one.
//!
//! On a folded fabric a node stands for several that are alike, and so does everything that happens there. That holds as long as
//! nothing depends on which of them it is. Here five things do:
//!
//! * what is drawn at a port, of numbers that are its own: whether a frame is marked, and which of several ways it takes;
//! * who goes first of frames that come to an output, or to a host, by several links at the same picosecond: what was known
//!   first decides, and among nodes that are alike that may differ;
//! * whose turn it is at a NIC of several GPUs that get in line for it at the same picosecond;
//! * a pause, which may reach the queue of an input before or after that is served at the same time;
//! * a drop, for the same reason.
//!
//! So a folded run is given up as soon as one of them happens, and is carried out again with all nodes. What is left is the run
//! of all nodes, to the last bit.

use super::clock::NEVER;
use super::frame::NONE;
use syncline_core::NodeId;
use syncline_topology::Fabric;

/// Finds out whether nodes that are simulated as one would differ.
#[derive(Clone, Debug)]
pub struct Apart {
    /// How they differ, once they do.
    pub why: Option<&'static str>,
    /// By link: the node that it leads to.
    leads: Vec<u32>,
    /// By node: what came last.
    nodes: Vec<Came>,
    /// By link: when a frame last came to it, and by which link.
    outputs: Vec<(u64, u32)>,
    /// By link: when a connection last got in line for it, and the NPU that sends.
    lines: Vec<(u64, u32)>,
}

/// What has come to a node at a time.
#[derive(Clone, Copy, Debug)]
struct Came {
    at: u64,
    /// The link by which something came that ends at the node, and the one by which something came that goes on. [`NONE`] if
    /// nothing did, and [`SEVERAL`] for several.
    ends: u32,
    goes_on: u32,
}

/// Connections of several NPUs get in line for a link.
pub const SEVERAL_IN_LINE: &str = "several NPUs have something for a NIC at the same picosecond";

/// More than one link.
const SEVERAL: u32 = NONE - 1;

impl Apart {
    /// For a fabric whose nodes stand for several; `None` if they do not.
    pub fn new(fabric: &impl Fabric) -> Option<Box<Apart>> {
        let is_folded = (0..fabric.nodes()).any(|node| fabric.multiplicity(NodeId(node)) > 1);
        is_folded.then(|| {
            let leads = syncline_topology::all_links(fabric).map(|(node, port)| fabric.next(node, port).0.0);
            let nothing = Came { at: NEVER, ends: NONE, goes_on: NONE };
            Box::new(Apart {
                why: None,
                leads: leads.collect(),
                nodes: vec![nothing; fabric.nodes() as usize],
                outputs: vec![(NEVER, NONE); fabric.links() as usize],
                lines: vec![(NEVER, NONE); fabric.links() as usize],
            })
        })
    }

    /// A frame comes by a link, and goes on by another one or ends at the node.
    pub fn come(&mut self, now: u64, link: u32, out: Option<u32>) {
        let came = &mut self.nodes[self.leads[link as usize] as usize];
        if came.at != now {
            *came = Came { at: now, ends: NONE, goes_on: NONE };
        }
        let is_other = |of: u32| of != NONE && of != link;
        let meets = match out {
            None => {
                let meets = is_other(came.ends) || is_other(came.goes_on);
                came.ends = if is_other(came.ends) { SEVERAL } else { link };
                meets
            }
            Some(out) => {
                let output = &mut self.outputs[out as usize];
                let meets = is_other(came.ends) || (output.0 == now && output.1 != link);
                *output = (now, link);
                came.goes_on = if is_other(came.goes_on) { SEVERAL } else { link };
                meets
            }
        };
        self.note(meets);
    }

    /// Bytes that take links from now on, without events of their own, cross one of them.
    pub fn cross(&mut self, now: u64, first: u32, link: u32) {
        let crossed = &mut self.outputs[link as usize];
        let meets = crossed.0 == now && crossed.1 != first;
        *crossed = (now, first);
        self.note(meets);
    }

    /// A connection of an NPU gets in line for a link.
    pub fn line_up(&mut self, now: u64, link: u32, npu: NodeId) {
        let before = std::mem::replace(&mut self.lines[link as usize], (now, npu.0));
        if before.0 == now && before.1 != npu.0 {
            self.why = Some(SEVERAL_IN_LINE);
        }
    }

    fn note(&mut self, meets: bool) {
        if meets {
            self.why = Some("frames reach a node by several links at the same picosecond");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use syncline_core::{Ps, Rate};
    use syncline_topology::quotient::classes_of_uniform;
    use syncline_topology::{Block, Dimension, Product, Quotient};

    /// Two dimensions of switches, folded to one NPU with a switch in each.
    fn folded() -> Box<Apart> {
        let (rate, latency) = (Rate::new(1_000_000_000).expect("positive"), Ps(1000));
        let dimension = || Dimension { block: Block::Switch, size: 4, rate, latency, links: 1 };
        let product = Arc::new(Product::new(vec![dimension(), dimension()]).expect("two switches"));
        assert!(Apart::new(&*product).is_none());
        let colours = classes_of_uniform(&product);
        Apart::new(&Quotient::new(product, &colours)).expect("it is folded")
    }

    /// The links of the NPU are 0 and 1, those of the switches back to it 2 and 3.
    #[test]
    fn frames_meet_at_a_host_or_at_an_output() {
        let mut apart = folded();
        assert_eq!(apart.leads, [1, 2, 0, 0]);
        apart.come(5, 2, None);
        apart.come(5, 2, None); // the same link
        apart.come(6, 3, None); // another time
        apart.come(6, 0, Some(2)); // another node
        assert_eq!(apart.why, None);
        apart.come(6, 2, None);
        assert!(apart.why.is_some());
        let mut apart = folded();
        apart.come(7, 2, Some(0));
        apart.come(7, 3, Some(1)); // another output
        assert_eq!(apart.why, None);
        apart.come(7, 3, Some(0));
        assert!(apart.why.is_some());
        let mut apart = folded();
        apart.come(7, 2, Some(0));
        apart.come(7, 3, None);
        assert!(apart.why.is_some());
        let mut apart = folded();
        apart.cross(7, 0, 2);
        apart.cross(7, 0, 2);
        apart.cross(8, 1, 2);
        assert_eq!(apart.why, None);
        apart.cross(8, 0, 2);
        assert!(apart.why.is_some());
        let mut apart = folded();
        apart.line_up(7, 0, NodeId(0));
        apart.line_up(7, 0, NodeId(0));
        apart.line_up(7, 1, NodeId(1)); // another link
        apart.line_up(8, 0, NodeId(1));
        assert_eq!(apart.why, None);
        apart.line_up(8, 0, NodeId(0));
        assert!(apart.why.is_some());
    }
}
