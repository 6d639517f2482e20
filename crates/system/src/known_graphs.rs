//! What is kept of the machine of the last run.

use crate::spec::fabric::FabricSpec;
use std::sync::{Arc, Mutex, PoisonError};
use syncline_core::NodeId;
use syncline_topology::Graph;
use syncline_topology::symmetry::{Outputs, Targets, Ways};

/// The graph that was read and built last, with the routes that have been looked for, and the ways of the messages of the
/// last run: the next run is often on the same machine, and to read it and to look for routes takes most of setting up a
/// large one.
#[derive(Debug, Default)]
pub struct KnownGraphs {
    graph: Mutex<Option<KnownGraph>>,
    text: Mutex<Option<ReadFabric>>,
    ways: Mutex<Option<KnownWays>>,
}

#[derive(Debug)]
struct KnownGraph {
    fabric: FabricSpec,
    participants: Vec<NodeId>,
    graph: Arc<Graph>,
}

/// The ways of the messages of a run: another one differs in the sizes of what it sends only.
#[derive(Debug)]
struct KnownWays {
    graph: Arc<Graph>,
    outputs: Outputs,
    targets: Targets,
    ways: Arc<Ways>,
}

/// Targets of all NPUs of which ways are kept.
const MOST_TARGETS: usize = 1 << 20;

/// A graph that was read, and the text up to its end.
#[derive(Debug)]
struct ReadFabric {
    text: String,
    fabric: FabricSpec,
}

/// How a description begins whose graph is read once.
const BEGINNING: (&str, &str) = (r#"{"fabric": "#, r#"{"kind": "graph""#);

impl KnownGraphs {
    /// The graph with which a description begins, and the text that follows it; none if that does not begin with one.
    pub fn read<'a>(&self, json: &'a str) -> Option<(FabricSpec, &'a str)> {
        let after = json.strip_prefix(BEGINNING.0).filter(|after| after.starts_with(BEGINNING.1))?;
        let mut kept = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = kept.as_ref()
            && let Some(rest) = json.strip_prefix(&read.text)
        {
            return Some((read.fabric.clone(), rest));
        }
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<FabricSpec>();
        let fabric = values.next()?.ok()?;
        let (text, rest) = json.split_at(BEGINNING.0.len() + values.byte_offset());
        *kept = Some(ReadFabric { text: text.into(), fabric: fabric.clone() });
        Some((fabric, rest))
    }

    /// The ways on a graph of what NPUs send.
    ///
    /// # Errors
    /// Why they are not looked for, if they are too many.
    pub fn ways(&self, graph: &Arc<Graph>, outputs: Outputs, targets: &Targets) -> Result<Arc<Ways>, String> {
        let is_it = |known: &&KnownWays| {
            Arc::ptr_eq(&known.graph, graph) && (known.outputs, &known.targets) == (outputs, targets)
        };
        let kept = || self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().as_ref().filter(is_it) {
            return Ok(known.ways.clone());
        }
        let ways = Arc::new(Ways::new(&**graph, outputs, targets)?);
        if targets.iter().flatten().map(Vec::len).sum::<usize>() <= MOST_TARGETS {
            let known = KnownWays { graph: graph.clone(), outputs, targets: targets.clone(), ways: ways.clone() };
            *kept() = Some(known);
        }
        Ok(ways)
    }

    /// The graph of a description, if it is the one that was built last.
    pub(crate) fn find(&self, fabric: &FabricSpec, participants: &[NodeId]) -> Option<Arc<Graph>> {
        let kept = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.as_ref()?;
        (known.participants == participants && known.fabric == *fabric).then(|| known.graph.clone())
    }

    /// Keeps a graph that was built.
    pub(crate) fn keep(&self, fabric: &FabricSpec, participants: Vec<NodeId>, graph: &Arc<Graph>) {
        let mut kept = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(KnownGraph { fabric: fabric.clone(), participants, graph: graph.clone() });
    }
}
