//! The graph of a run, written out: what every class of NPUs does, node by node, for those who carry it elsewhere.

use crate::errors::RunError;
use crate::families::Families;
use crate::job::job;
use crate::machine::Machine;
use crate::spec::Spec;
use serde::Serialize;
use std::collections::BTreeMap;
use syncline_core::{Bytes, Refusal};
use syncline_workload::compute::Npu;
use syncline_workload::layer::Demand;
use syncline_workload::{ClassId, Cost, Order, Pass, PointToPoint, Stream, Work};

/// Nodes of all classes and iterations that are written out; a graph with more is refused.
const MOST_NODES: usize = 1 << 22;

/// The graph of a run.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The families of communicators, by number.
    pub families: Vec<ListedFamily>,
    /// The classes that have nodes.
    pub classes: Vec<Class>,
}

/// A family of communicators.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ListedFamily {
    /// Its name.
    pub name: String,
    /// The NPUs of each of its communicators, by rank.
    pub groups: Vec<Vec<u32>>,
}

/// A class of NPUs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its NPUs.
    pub npus: Vec<u32>,
    /// Which node of each stream runs next: `in-order` or `by-readiness`.
    pub streams: Vec<&'static str>,
    /// The nodes of all iterations, in order.
    pub nodes: Vec<ListedNode>,
}

/// A node of a class.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ListedNode {
    /// The layer that it belongs to.
    pub layer: String,
    /// The pass that it belongs to.
    pub pass: &'static str,
    /// The iteration that it belongs to.
    pub iteration: u32,
    /// Where it computes.
    pub stream: u8,
    /// Nodes of the class that must be done before, by their numbers in the list.
    pub after: Vec<u32>,
    /// What it does.
    #[serde(flatten)]
    pub work: ListedWork,
}

/// What a node does.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum ListedWork {
    /// Computes.
    Compute {
        /// How long, on an NPU that does nothing else.
        time_ps: u64,
        /// Floating-point operations; none are known where the time was measured.
        flops: u64,
        /// Bytes of main memory; likewise.
        bytes: u64,
    },
    /// Takes part in a collective.
    Collective {
        /// The family of the communicator.
        family: u8,
        /// Which one.
        kind: &'static str,
        /// The rank of the root.
        root: u32,
        /// Bytes of the full vector.
        bytes: u64,
    },
    /// An all-to-all with a size for each pair.
    Exchange {
        /// The family of the communicator.
        family: u8,
        /// Bytes by sender, then by receiver.
        bytes: Vec<u64>,
    },
    /// Sends a message.
    Send(ListedMessage),
    /// Receives a message.
    Recv(ListedMessage),
}

/// A message between two ranks.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ListedMessage {
    /// The family of the communicator.
    pub family: u8,
    /// The other rank: so many on, around the communicator.
    pub peer: i32,
    /// What messages between the two are told apart by.
    pub tag: u32,
    /// Its length.
    pub bytes: u64,
}

/// The graph of the run that a JSON document describes.
///
/// # Errors
/// [`RunError::Spec`] if the document does not describe a run, or one with too many nodes.
pub fn listing(spec_json: &str) -> Result<Listing, RunError> {
    let spec = Spec::read(spec_json)?;
    let npus = Machine::new(&spec)?.fabric().npus();
    let everybody: Vec<u32> = (0..npus).collect();
    let mut job = job(&spec)?;
    let families = Families::new(&spec, &job, npus)?;
    let mut groups: BTreeMap<u8, Vec<Vec<u32>>> = BTreeMap::new();
    for cohort in &families.cohorts {
        let members = cohort.spec.groups.as_ref().map_or_else(|| vec![everybody.clone()], |g| g.members.clone());
        groups.entry(cohort.family.0).or_default().extend(members);
    }
    let taking_part: Vec<u32> = match &spec.groups {
        Some(of) => of.members.iter().flatten().copied().collect(),
        None => everybody,
    };
    let name = |family: u8| spec.families.get(usize::from(family)).map_or("all", |f| &f.name).to_string();
    let families = groups.into_iter().map(|(family, groups)| ListedFamily { name: name(family), groups }).collect();
    let mut classes = Vec::new();
    let mut left = MOST_NODES;
    for class in (0..job.source.classes()).map(ClassId) {
        let npus = match job.classes.is_empty() {
            true => taking_part.clone(),
            false => job.classes.get(class.index()).map_or_else(Vec::new, |of| of.iter().map(|npu| npu.0).collect()),
        };
        let mut nodes = Vec::new();
        for iteration in 0..job.iterations {
            let found = job.source.iteration(class, iteration);
            left = left.checked_sub(found.len()).ok_or_else(|| {
                let message = format!("more than {MOST_NODES} nodes in all iterations are not written out");
                Refusal::of("job.iterations", message).accepting("fewer iterations")
            })?;
            let layers = job.source.layers();
            for node in found {
                let background = job.background.as_ref().filter(|_| node.stream != Stream::MAIN);
                let npu = background.unwrap_or(&job.npu);
                nodes.push(ListedNode {
                    layer: layers.get(node.layer as usize).map_or_else(String::new, |layer| layer.name.clone()),
                    pass: pass(node.pass),
                    iteration,
                    stream: node.stream.0,
                    after: node.after.iter().map(|n| n.0).collect(),
                    work: work(&node.work, npu),
                });
            }
        }
        if !npus.is_empty() && !nodes.is_empty() {
            let order = |order: &Order| match order {
                Order::InOrder => "in-order",
                Order::ByReadiness => "by-readiness",
                Order::Host => "host",
            };
            let streams = job.source.streams(class).iter().map(order).collect();
            classes.push(Class { name: job.source.class_name(class), npus, streams, nodes });
        }
    }
    Ok(Listing { families, classes })
}

fn pass(pass: Pass) -> &'static str {
    match pass {
        Pass::Forward => "forward",
        Pass::InputGrad => "input-grad",
        Pass::WeightGrad => "weight-grad",
        Pass::Update => "update",
    }
}

fn work(work: &Work, npu: &Npu) -> ListedWork {
    let message = |of: &PointToPoint| {
        let (family, peer, tag, bytes) = (of.family.0, of.peer.0, of.tag, of.size.0);
        ListedMessage { family, peer, tag, bytes }
    };
    match work {
        Work::Compute(cost) => {
            let kernels: &[Demand] = if let Cost::Kernels(kernels) = cost { kernels } else { &[] };
            let total = kernels.iter().fold(Demand::new(0, 0), |sum, kernel| sum.plus(*kernel));
            ListedWork::Compute { time_ps: npu.time(cost).0, flops: total.flops, bytes: total.bytes }
        }
        Work::Collective { family, kind, root, size } => {
            ListedWork::Collective { family: family.0, kind: kind.name(), root: root.0, bytes: size.0 }
        }
        Work::Exchange { family, sizes } => {
            ListedWork::Exchange { family: family.0, bytes: sizes.iter().map(|&Bytes(bytes)| bytes).collect() }
        }
        Work::Send(of) => ListedWork::Send(message(of)),
        Work::Recv(of) => ListedWork::Recv(message(of)),
    }
}
