//! From a description to a fabric.

use crate::errors::RunError;
use crate::spec::{
    BlockSpec, DimSpec, FabricSpec, GraphLinkSpec, GroupsSpec, NodeSpec, OddLinkSpec, RoutingSpec, Spec, TransitSpec,
};
use std::sync::Arc;
use syncline_core::{NodeId, Ps, Rate, Refusal};
use syncline_topology::{Block, Dimension, Fabric, Graph, GraphLink, GraphNode, LinkSpec, Product, Routing, Way};

/// The fabric of a run.
#[derive(Clone, Debug)]
pub enum Machine {
    /// A product of dimensions.
    Product(Arc<Product>),
    /// Any other shape.
    Graph(Arc<Graph>),
}

impl Machine {
    /// Builds the fabric of a description.
    ///
    /// # Errors
    /// [`RunError::Spec`] if it describes none.
    pub fn new(spec: &Spec) -> Result<Machine, RunError> {
        match &spec.fabric {
            FabricSpec::Product { dims, odd_links } => {
                let dims = dims.iter().enumerate().map(dimension).collect::<Result<Vec<_>, RunError>>()?;
                let mut product = Product::new(dims).map_err(|e| Refusal::from(e).within("fabric"))?;
                for (i, l) in odd_links.iter().enumerate() {
                    set_odd_link(&mut product, i, l)?;
                }
                Ok(Machine::Product(Arc::new(product)))
            }
            FabricSpec::Graph { npus, nodes, classes, links, routing } => {
                let participants = participants(spec.groups.as_ref(), *npus)?;
                if let Some(known) = spec.graphs.find(&spec.fabric, &participants) {
                    return Ok(Machine::Graph(known));
                }
                let graph = graph(*npus, nodes, classes, links, &participants)?;
                let routed = graph.with_routing(self::routing(*routing));
                let built = Arc::new(routed.map_err(|e| Refusal::from(e).within("fabric"))?);
                spec.graphs.keep(&spec.fabric, participants, &built);
                Ok(Machine::Graph(built))
            }
        }
    }

    /// Whether the endpoints of a run forward what is for distant NPUs: if it asks for that, and if messages pass
    /// through NPUs at all.
    ///
    /// # Errors
    /// [`RunError::Spec`] if the endpoints would have to forward where links lead through anything but NPUs, or
    /// where routes are not in the order of dimensions, so that packets could wait for each other in a circle.
    pub fn transit(&self, spec: &Spec) -> Result<bool, RunError> {
        if spec.endpoint.model().transit() == TransitSpec::Network {
            return Ok(false);
        }
        let refused = |why: &str| {
            let accepted = "network; endpoint only on products of rings and fully connected dimensions";
            Err(Refusal::of("endpoint.transit", why).accepting(accepted).into())
        };
        let Machine::Product(product) = self else {
            return refused("endpoints do not forward on machines and topology files");
        };
        let longer: Vec<Block> = product.dims().iter().filter(|d| d.size > 1).map(|d| d.block).collect();
        match longer[..] {
            [Block::FullyConnected | Block::Switch] | [] => Ok(false),
            _ if longer.contains(&Block::Switch) => refused("endpoints do not forward to and from switches"),
            _ => Ok(true),
        }
    }

    /// Whether this is a network of switches, in which NPUs send to each other directly as well as to neighbours in a ring.
    pub fn is_switched(&self) -> bool {
        matches!(self, Machine::Graph(graph) if graph.routing() != Routing::BySource)
    }

    /// The fabric, whatever its shape.
    pub fn fabric(&self) -> Arc<dyn Fabric> {
        match self {
            Machine::Product(product) => product.clone(),
            Machine::Graph(graph) => graph.clone(),
        }
    }
}

fn link_rate(field: impl FnOnce() -> String, bytes_per_s: u64) -> Result<Rate, RunError> {
    Rate::new(bytes_per_s).ok_or_else(|| Refusal::of(&field(), "a link needs a rate").at_least(1).into())
}

fn dimension((i, d): (usize, &DimSpec)) -> Result<Dimension, RunError> {
    let block = match d.block {
        BlockSpec::Ring => Block::Ring,
        BlockSpec::FullyConnected => Block::FullyConnected,
        BlockSpec::Switch => Block::Switch,
    };
    // The links between an NPU and its switch are one thick link.
    let (bonded, links) = if block == Block::Switch && d.links > 0 { (d.links.into(), 1) } else { (1, d.links) };
    let rate = link_rate(|| format!("dims.{i}"), d.rate_bytes_per_s.saturating_mul(bonded))?;
    Ok(Dimension { block, size: d.size, rate, latency: Ps(d.latency_ps), links })
}

/// Gives a link of a product its own rate and latency.
fn set_odd_link(product: &mut Product, i: usize, l: &OddLinkSpec) -> Result<(), RunError> {
    let way = match l.way.as_str() {
        "up" => Some(Way::Up),
        "down" => Some(Way::Down),
        "switch" => Some(Way::Switch),
        other => other.strip_prefix('+').and_then(|k| k.parse().ok()).map(Way::Across),
    };
    let port = way.and_then(|way| product.port(l.dim.into(), way, l.parallel));
    let (Some(port), true) = (port, l.npu < product.npus()) else {
        let message = format!("NPU {} has no link {} #{} of dimension {}", l.npu, l.way, l.parallel, l.dim);
        let last = product.npus() - 1;
        return Err(Refusal::of(&format!("fabric.odd_links.{i}"), message)
            .accepting(format!("NPUs 0 to {last}, and up, down, switch or +k as the dimension has them"))
            .into());
    };
    let rate = link_rate(|| format!("fabric.odd_links.{i}"), l.rate_bytes_per_s)?;
    product.set_link(NodeId(l.npu), port, rate, Ps(l.latency_ps));
    Ok(())
}

fn graph(
    npus: u32,
    nodes: &[NodeSpec],
    classes: &[String],
    links: &[GraphLinkSpec],
    participants: &[NodeId],
) -> Result<Graph, RunError> {
    for (i, n) in nodes.iter().enumerate() {
        if (i < npus as usize) != (n.kind == "npu") {
            let message = format!("NPUs are the first {npus} nodes; {} is a {}", n.name, n.kind);
            return Err(Refusal::of(&format!("fabric.nodes.{i}"), message).into());
        }
    }
    let node =
        |(i, n): (u32, &NodeSpec)| GraphNode { name: n.name.clone(), forwards: participants.contains(&NodeId(i)) };
    let nodes = (0..).zip(nodes).map(node).collect();
    let link = |(i, l): (usize, &GraphLinkSpec)| {
        let rate = link_rate(|| format!("fabric.links.{i}"), l.rate_bytes_per_s)?;
        let spec = LinkSpec { rate, latency: Ps(l.latency_ps), class: l.class };
        Ok(GraphLink { from: NodeId(l.from), to: NodeId(l.to), spec })
    };
    let links = links.iter().enumerate().map(link).collect::<Result<Vec<_>, RunError>>()?;
    Graph::new(nodes, npus, classes.to_vec(), links, participants).map_err(|e| Refusal::from(e).within("fabric").into())
}

fn routing(spec: RoutingSpec) -> Routing {
    match spec {
        RoutingSpec::Source => Routing::BySource,
        RoutingSpec::Destination => Routing::ByDestination,
        RoutingSpec::Groups { size, class } => Routing::InGroups { size, class },
    }
}

/// The NPUs that communicate.
///
/// # Errors
/// [`RunError::Spec`] of groups that are none.
pub fn participants(groups: Option<&GroupsSpec>, npus: u32) -> Result<Vec<NodeId>, RunError> {
    let Some(groups) = groups else { return Ok((0..npus).map(NodeId).collect()) };
    let size = groups.members.first().map_or(0, Vec::len);
    let mut seen = vec![false; npus as usize];
    for (g, members) in groups.members.iter().enumerate() {
        if members.len() != size || size == 0 {
            let refusal = Refusal::of("groups", format!("group {g} has {} members", members.len()));
            return Err(refusal.accepting("equally many in each group, at least 1").into());
        }
        for &m in members {
            let known = seen.get_mut(m as usize).ok_or_else(|| {
                Refusal::of("groups", format!("there is no NPU {m}")).accepting(format!("0 to {}", npus - 1))
            })?;
            if std::mem::replace(known, true) {
                let refusal = Refusal::of("groups", format!("NPU {m} is listed twice"));
                return Err(refusal.accepting("each NPU in at most one group").into());
            }
        }
    }
    if size == 0 {
        return Err(Refusal::of("groups", "there is none").accepting("at least one").into());
    }
    Ok(groups.members.iter().flatten().map(|&m| NodeId(m)).collect())
}
