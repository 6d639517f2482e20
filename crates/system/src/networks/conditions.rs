//! What a description says of single nodes and links, for the backend: what they are like beyond rate and latency, and how
//! they change.

use super::{LinkChange, NetworkModel, NodeAttribute};
use crate::errors::RunError;
use crate::spec::{AttributeSpec, ChangeSpec, Spec};
use syncline_core::{NodeId, PortId, Ps, Rate, Refusal};
use syncline_topology::{Fabric, all_links};

/// The attributes of nodes, as they are listed.
///
/// # Errors
/// A refusal of a field of the description.
pub fn attributes(
    spec: &Spec,
    fabric: &dyn Fabric,
    network: &impl NetworkModel,
) -> Result<Vec<NodeAttribute>, RunError> {
    let known = network.attributes();
    let attribute = |(i, AttributeSpec { node, name, value }): (usize, &AttributeSpec)| {
        let Some(&name) = known.iter().find(|known| *known == name) else {
            let refusal =
                Refusal::of(&format!("attributes.{i}.name"), format!("this backend knows no {name:?} of nodes"));
            let accepted = if known.is_empty() { "none".into() } else { known.join(", ") };
            return Err(refusal.accepting(accepted).into());
        };
        let node = existing(fabric, &format!("attributes.{i}.node"), *node)?;
        Ok(NodeAttribute { node, name, value: *value })
    };
    spec.attributes.iter().enumerate().map(attribute).collect()
}

fn existing(fabric: &dyn Fabric, field: &str, node: u32) -> Result<NodeId, Refusal> {
    if node < fabric.nodes() {
        return Ok(NodeId(node));
    }
    let refusal = Refusal::of(field, format!("there is no node {node}"));
    Err(refusal.accepting(format!("0 to {}", fabric.nodes() - 1)))
}

/// The links that change, in the order of time.
///
/// # Errors
/// A refusal of a field of the description.
pub fn changes(spec: &Spec, fabric: &dyn Fabric, network: &impl NetworkModel) -> Result<Vec<LinkChange>, RunError> {
    if !spec.changes.is_empty() && !network.takes_changes() {
        let refusal = Refusal::of("changes", "this backend cannot change the rate and latency of links");
        return Err(refusal.accepting("none, or another backend").into());
    }
    let mut changes = Vec::new();
    for (i, change) in spec.changes.iter().enumerate() {
        match *change {
            ChangeSpec::Link { at_ps, node: number, port, rate_bytes_per_s, latency_ps } => {
                let node = existing(fabric, &format!("changes.{i}.node"), number)?;
                if port >= fabric.ports(node) {
                    let refusal =
                        Refusal::of(&format!("changes.{i}.port"), format!("node {number} has no port {port}"));
                    return Err(refusal.accepting(format!("less than {}", fabric.ports(node))).into());
                }
                let rate = rate_bytes_per_s.map(|rate| {
                    let field = format!("changes.{i}.rate_bytes_per_s");
                    let zero = || Refusal::of(&field, "a link needs a rate, or none while it is down").at_least(1);
                    Rate::new(rate).ok_or_else(zero)
                });
                let (at, port, latency) = (Ps(at_ps), PortId(port), Ps(latency_ps));
                changes.push(LinkChange { at, node, port, rate: rate.transpose()?, latency, loss_millionths: 0 });
            }
            ChangeSpec::Between { at_ps, from, to, rate_percent, loss_millionths } => {
                let from = existing(fabric, &format!("changes.{i}.from"), from)?;
                let to = existing(fabric, &format!("changes.{i}.to"), to)?;
                let field = |name: &str| format!("changes.{i}.{name}");
                if rate_percent > 100 {
                    let refusal = Refusal::of(&field("rate_percent"), "a link does not become faster than it is");
                    return Err(refusal.accepting("a whole number from 0 to 100").into());
                }
                if loss_millionths > 1_000_000 {
                    let refusal = Refusal::of(&field("loss_millionths"), "of a million packets no more get lost");
                    return Err(refusal.accepting("a whole number from 0 to 1000000").into());
                }
                let before = changes.len();
                for port in (0..fabric.ports(from)).map(PortId).filter(|&port| fabric.next(from, port).0 == to) {
                    let link = fabric.link(from, port);
                    let rate = link.rate.percent(rate_percent);
                    let (at, latency) = (Ps(at_ps), link.latency);
                    changes.push(LinkChange { at, node: from, port, rate, latency, loss_millionths });
                }
                if changes.len() == before {
                    let (from, to) = (fabric.node_name(from), fabric.node_name(to));
                    let refusal = Refusal::of(&field("to"), format!("there is no link from {from} to {to}"));
                    return Err(refusal.accepting("a neighbour").into());
                }
            }
            ChangeSpec::Node { at_ps, node: number, rate_percent } => {
                let changed = existing(fabric, &format!("changes.{i}.node"), number)?;
                if rate_percent > 100 {
                    let field = format!("changes.{i}.rate_percent");
                    let refusal = Refusal::of(&field, "a node makes its links no faster than they are");
                    return Err(refusal.accepting("a whole number from 0 to 100").into());
                }
                let its = |&(node, port): &(NodeId, PortId)| node == changed || fabric.next(node, port).0 == changed;
                changes.extend(all_links(fabric).filter(its).map(|(node, port)| {
                    let link = fabric.link(node, port);
                    let rate = link.rate.percent(rate_percent);
                    LinkChange { at: Ps(at_ps), node, port, rate, latency: link.latency, loss_millionths: 0 }
                }));
            }
        }
    }
    changes.sort_by_key(|change| change.at);
    Ok(changes)
}
