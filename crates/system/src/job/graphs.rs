//! Graphs that a description writes out.

use super::{Demand, Job, Sending};
use crate::errors::RunError;
use crate::spec::{ClassSpec, GraphNodeSpec, GraphSpec, MessageSpec, OrderSpec, PassSpec, Spec, WorkSpec};
use std::collections::{BTreeMap, BTreeSet};
use syncline_collective::{Kind, Rank};
use syncline_core::{Bytes, Id, NodeId, Ps, Refusal};
use syncline_workload::compute::Npu;
use syncline_workload::described::request::KernelSpec;
use syncline_workload::layer::Demand as KernelDemand;
use syncline_workload::listed::{Listed, ListedClass, ListedNode};
use syncline_workload::{ClassId, Cost, FamilyId, Order, Pass, PointToPoint, RelativeRank, Stream, Work};

/// Where a node of a description is.
struct Place<'a> {
    spec: &'a Spec,
    costs: &'a [Cost],
    class: usize,
    node: usize,
}

impl Place<'_> {
    fn refuse(&self, field: &str, message: String, accepted: String) -> RunError {
        let field = format!("job.graph.classes.{}.nodes.{}.{field}", self.class, self.node);
        Refusal::of(&field, message).accepting(accepted).into()
    }

    fn family(&self, family: u8) -> Result<FamilyId, RunError> {
        match usize::from(family) < self.spec.families.len() {
            true => Ok(FamilyId(family)),
            false => {
                let accepted = format!("the number of one of {} families", self.spec.families.len());
                Err(self.refuse("work.family", format!("there is no family {family}"), accepted))
            }
        }
    }

    fn message(&self, message: &MessageSpec) -> Result<PointToPoint, RunError> {
        let MessageSpec { family, peer, tag, bytes } = *message;
        if tag == PointToPoint::OF_EXCHANGES {
            let accepted = format!("up to {}", PointToPoint::OF_EXCHANGES - 1);
            return Err(self.refuse("work.tag", "this tag is that of exchanges".into(), accepted));
        }
        Ok(PointToPoint { family: self.family(family)?, peer: RelativeRank(peer), tag, size: Bytes(bytes) })
    }

    fn work(&self, work: &WorkSpec) -> Result<Work, RunError> {
        let collective = |family, kind, root, size| Work::Collective { family, kind, root, size };
        Ok(match work {
            WorkSpec::Time { time_ps } => Work::Compute(Cost::Measured(Ps(*time_ps))),
            WorkSpec::Compute { flops, bytes } => Work::Compute(Cost::Kernels(vec![KernelDemand::new(*flops, *bytes)])),
            WorkSpec::Kernels { cost } => match self.costs.get(*cost as usize) {
                Some(cost) => Work::Compute(cost.clone()),
                None => {
                    let accepted = format!("the number of one of {} rows", self.costs.len());
                    return Err(self.refuse("work.cost", format!("there is no row {cost} of costs"), accepted));
                }
            },
            WorkSpec::Collective { family, kind, bytes, root } => {
                let kind = kind.kind();
                let root = if kind.is_rooted() { Rank(*root) } else { Rank(0) };
                collective(self.family(*family)?, kind, root, Bytes(*bytes))
            }
            WorkSpec::Barrier { family } => {
                let element = self.spec.families.get(usize::from(*family)).map_or(1, |f| f.collectives.element_bytes);
                collective(self.family(*family)?, Kind::AllReduce, Rank(0), Bytes(element.into()))
            }
            WorkSpec::Exchange { family, bytes } => {
                let ranks = bytes.len();
                if let Some(row) = bytes.iter().find(|row| row.len() != ranks) {
                    let message = format!("a rank sends to {} ranks, and {ranks} ranks send", row.len());
                    return Err(self.refuse("work.bytes", message, "as many rows as columns".into()));
                }
                let sizes = bytes.iter().flatten().map(|&bytes| Bytes(bytes)).collect();
                Work::Exchange { family: self.family(*family)?, sizes }
            }
            WorkSpec::Send(message) => Work::Send(self.message(message)?),
            WorkSpec::Recv(message) => Work::Recv(self.message(message)?),
        })
    }
}

/// The job of the graphs of a description: its compute is that of the class that has most of it.
///
/// # Errors
/// [`RunError::Spec`] if a node names what there is not.
pub(super) fn graphs(spec: &Spec, graph: &GraphSpec, iterations: u32, npu: Npu) -> Result<Job, RunError> {
    if graph.classes.is_empty() || graph.classes.len() >= usize::from(u16::MAX) {
        let refusal = Refusal::of("job.graph.classes", format!("{} classes", graph.classes.len()));
        return Err(refusal.accepting(format!("1 to {}", u16::MAX - 1)).into());
    }
    let costs = costs(&graph.costs)?;
    let npu = npu.throttled(&mix(graph, &costs));
    let mut names: BTreeMap<&str, u32> = BTreeMap::new();
    let mut layers: Vec<String> = Vec::new();
    let mut classes = Vec::new();
    let (mut uses, mut sends) = (Vec::new(), Vec::new());
    let mut kernels = 0;
    let nothing = vec![Demand { iterations, ..Demand::default() }; spec.families.len().max(1)];
    let mut demands = Vec::new();
    let (mut compute_ps, mut outside) = (0.0f64, 0);
    for (number, class) in graph.classes.iter().enumerate() {
        let mut nodes = Vec::new();
        let mut compute = 0.0;
        let mut asked = nothing.clone();
        let mut computing = 0;
        let mut used = BTreeSet::new();
        for (node, n) in class.nodes.iter().enumerate() {
            let place = Place { spec, costs: &costs, class: number, node };
            check(&place, class, n)?;
            let layer = *names.entry(&n.layer).or_insert_with(|| {
                layers.push(n.layer.clone());
                layers.len() as u32 - 1
            });
            let work = place.work(&n.work)?;
            match &work {
                Work::Compute(cost) => {
                    compute += npu.time(cost).0 as f64;
                    outside += npu.outside(cost);
                    computing += 1;
                }
                Work::Collective { family, kind, root, size } => {
                    used.insert(*family);
                    asked[family.index()].collectives.push((*kind, *root, size.0));
                }
                Work::Exchange { family, sizes } => {
                    used.insert(*family);
                    sends.extend(exchanged(sizes).map(|(from, peer, size)| {
                        let message = PointToPoint { family: *family, peer, tag: PointToPoint::OF_EXCHANGES, size };
                        Sending { class: ClassId::from_index(number), from, message }
                    }));
                }
                Work::Send(message) => {
                    used.insert(message.family);
                    sends.push(Sending { class: ClassId::from_index(number), from: None, message: *message });
                }
                Work::Recv(message) => {
                    used.insert(message.family);
                }
            }
            let (after, after_previous) = (n.after.clone(), n.after_previous.clone());
            nodes.push(ListedNode { layer, pass: pass(n.pass), stream: Stream(n.stream), work, after, after_previous });
        }
        compute_ps = compute_ps.max(compute);
        kernels = kernels.max(computing);
        uses.push(used.into_iter().collect());
        demands.push(asked);
        let order = |order: &OrderSpec| match order {
            OrderSpec::InOrder => Order::InOrder,
            OrderSpec::ByReadiness => Order::ByReadiness,
            OrderSpec::Host => Order::Host,
        };
        classes.push(ListedClass {
            name: class.name.clone(),
            streams: class.streams.iter().map(order).collect(),
            nodes,
        });
    }
    let npus_of = |class: &ClassSpec| class.npus.iter().map(|&npu| NodeId(npu)).collect();
    let of_classes = graph.classes.iter().map(npus_of).collect();
    let (name, streams) = ("idle".to_string(), vec![Order::InOrder]);
    classes.push(ListedClass { name, streams, nodes: Vec::new() }); // of NPUs that are of no class
    demands.push(nothing);
    let source = Box::new(Listed::new(layers, classes));
    let all = Demand { iterations, ..Demand::default() };
    Ok(Job { demands, classes: of_classes, uses, sends, kernels, compute_ps, outside, ..Job::of_all(source, all, npu) })
}

/// The kernels of rows of costs that all NPUs run in an iteration, and how often.
fn mix(graph: &GraphSpec, costs: &[Cost]) -> Vec<(KernelDemand, u64)> {
    let mut often = vec![0; costs.len()];
    for class in &graph.classes {
        for node in &class.nodes {
            if let WorkSpec::Kernels { cost } = node.work
                && let Some(count) = often.get_mut(cost as usize)
            {
                *count += class.npus.len() as u64;
            }
        }
    }
    let rows = costs.iter().zip(often).filter(|(_, count)| *count > 0);
    rows.flat_map(|(cost, count)| cost.each().map(move |kernel| (kernel, count))).collect()
}

/// The rows of a table of costs. Refuses matrix products whose operations are not those of their kernel: compute models that know
/// shapes and those that do not would disagree.
fn costs(rows: &[Vec<KernelSpec>]) -> Result<Vec<Cost>, RunError> {
    let mut costs = Vec::with_capacity(rows.len());
    for (number, row) in rows.iter().enumerate() {
        let kernels: Vec<KernelDemand> = row.iter().map(|&kernel| kernel.into()).collect();
        for (kernel, demand) in kernels.iter().enumerate() {
            if let Some(gemm) = demand.gemm.filter(|gemm| gemm.flops() != demand.flops) {
                let message = format!("{} operations, of matrix products of {}", demand.flops, gemm.flops());
                let refusal = Refusal::of(&format!("job.graph.costs.{number}.{kernel}.flops"), message);
                return Err(refusal.accepting("2 m k n count").into());
            }
        }
        costs.push(Cost::Kernels(kernels));
    }
    Ok(costs)
}

/// The messages of an all-to-all with a size for each pair: who sends them, how far on, and bytes. All ranks send those of the
/// first one where every rank sends as much so many ranks on.
fn exchanged(sizes: &[Bytes]) -> impl Iterator<Item = (Option<Rank>, RelativeRank, Bytes)> + use<'_> {
    let ranks = sizes.len().isqrt();
    let size = move |from: usize, on: usize| sizes[from * ranks + (from + on) % ranks];
    let alike = (1..ranks).all(|from| (1..ranks).all(|on| size(from, on) == size(0, on)));
    (0..if alike { 1 } else { ranks })
        .flat_map(move |from| (1..ranks).map(move |on| (from, on)))
        .map(move |(from, on)| ((!alike).then_some(Rank(from as u32)), RelativeRank(on as i32), size(from, on)))
        .filter(|message| message.2 > Bytes::ZERO)
}

/// Refuses a node that names a stream or a node that there is not.
fn check(place: &Place<'_>, class: &ClassSpec, node: &GraphNodeSpec) -> Result<(), RunError> {
    if usize::from(node.stream) >= class.streams.len() {
        let accepted = format!("the number of one of {} streams", class.streams.len());
        return Err(place.refuse("stream", format!("there is no stream {}", node.stream), accepted));
    }
    if let Some(n) = node.after.iter().find(|&&n| n as usize >= place.node) {
        let accepted = "numbers of nodes before this one".to_string();
        return Err(place.refuse("after", format!("node {n} does not come before node {}", place.node), accepted));
    }
    if let Some(n) = node.after_previous.iter().find(|&&n| n as usize >= class.nodes.len()) {
        let accepted = format!("0 to {}", class.nodes.len() - 1);
        return Err(place.refuse("after_previous", format!("there is no node {n}"), accepted));
    }
    Ok(())
}

fn pass(pass: PassSpec) -> Pass {
    match pass {
        PassSpec::Forward => Pass::Forward,
        PassSpec::InputGrad => Pass::InputGrad,
        PassSpec::WeightGrad => Pass::WeightGrad,
        PassSpec::Update => Pass::Update,
    }
}
