//! The tables and the summary of a run.
//!
//! Every table is declared beside the code that fills it ([`syncline_core::table!`]), so that it has the columns that are
//! declared and no others; the summary is declared in [`crate::results`].

mod collectives;
mod layers;
mod messages;
mod slices;
mod summary;
mod usage;
mod windows;

use crate::bound::Bound;
use crate::cohorts::CollectiveTimes;
use crate::cohorts::{Cohort, CohortId};
use crate::driver::{Outcome, Simulation};
use crate::endpoints::EndpointEvent;
use crate::executor::MainWait;
use crate::graphs::{Call, GraphNode};
use crate::networks::NetworkEvent;
use crate::results::Results;
use crate::setup::Folded;
use crate::spec::Spec;
use crate::timer::Timer;
use collectives::{Collectives, Phases};
use layers::Layers;
use messages::{LinkSpans, Messages};
use slices::Slices;
use syncline_core::table::{Declaration, Declared, Table};
use syncline_core::{NodeId, Ps};
use syncline_endpoint::Endpoint;
use syncline_network::Network;
use syncline_topology::all_links;
use syncline_workload::{ClassId, NodeIndex};
use usage::{Links, Resources};
use windows::{Sram, Utilisation};

/// The results of a finished simulation.
pub fn results<N, E>(spec: &Spec, simulation: &Simulation<N, E>, outcome: Outcome, folded: Folded) -> Results
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    let fabric = simulation.layout().fabric();
    let copies = all_links(fabric).map(|(node, port)| fabric.link_multiplicity(node, port)).collect();
    let bound = folded.bound(spec);
    let view = View { spec, simulation, outcome: &outcome, npu: slowest(simulation), folded, bound, copies };
    let counters = simulation.network().counters();
    let known = |table: &Table| DECLARATIONS.iter().any(|declared| declared.name == table.name);
    assert!(!counters.iter().any(known), "a table of the network has the name of one that every run has");
    Results { summary: view.summary(), tables: view.tables().into_iter().chain(counters).collect() }
}

/// The NPU that computed its last node last; the first of them.
fn slowest<N, E>(simulation: &Simulation<N, E>) -> NodeId
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    let npus = simulation.layout().npus();
    let end = |n: u32| simulation.executor().finished(NodeId(n)).unwrap_or(Ps::ZERO);
    NodeId((0..npus).rev().max_by_key(|&n| end(n)).unwrap_or(0))
}

/// A finished simulation as results see it.
struct View<'a, N: Network, E: Endpoint<N>> {
    spec: &'a Spec,
    simulation: &'a Simulation<N, E>,
    outcome: &'a Outcome,
    npu: NodeId,
    folded: Folded,
    /// What no schedule of a single collective can beat.
    bound: Option<Bound>,
    /// Links of the machine for which each simulated one stands.
    copies: Vec<u64>,
}

fn ints<T: Copy>(values: &[T], f: impl Fn(T) -> u64) -> Vec<i64> {
    wide(values, |v| f(v).into())
}

/// A column of integers of which some may exceed 64 bits: the largest that these hold stands for them.
fn wide<T: Copy>(values: &[T], f: impl Fn(T) -> u128) -> Vec<i64> {
    values.iter().map(|&v| i64::try_from(f(v)).unwrap_or(i64::MAX)).collect()
}

fn optional_ints<T: Copy>(values: &[T], f: impl Fn(T) -> Option<u64>) -> Vec<Option<i64>> {
    let of = |v| f(v).map(|v| i64::try_from(v).unwrap_or(i64::MAX));
    values.iter().map(|&v| of(v)).collect()
}

macro_rules! tables {
    ($($declared:ident: $filled:ident),+ $(,)?) => {
        /// Every table of a run, in order.
        pub const DECLARATIONS: &[&Declaration] = &[$($declared::DECLARATION),+];

        impl<N, E> View<'_, N, E>
        where
            N: Network,
            E: Endpoint<N>,
            N::Event: Timer<Layer = NetworkEvent>,
            E::Event: Timer<Layer = EndpointEvent>,
        {
            fn tables(&self) -> Vec<Table> {
                vec![$($declared::into_table(self.$filled())),+]
            }
        }
    };
}

tables! {
    Layers: layers,
    Collectives: collectives,
    Phases: phases,
    Links: links,
    Resources: resources,
    Utilisation: windows,
    Sram: sram,
    Slices: slices,
    Messages: messages,
    LinkSpans: link_spans,
}

impl<N, E> View<'_, N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    fn layer_name(&self, layer: u32) -> String {
        let layers = self.simulation.executor().source().layers();
        layers.get(layer as usize).map_or_else(|| "collective".to_string(), |l| l.name.clone())
    }

    /// The number of a node of the machine for which a simulated one stands; switches keep their own.
    fn node_number(&self, node: NodeId) -> u32 {
        let layout = self.simulation.layout();
        if node.0 < layout.npus() { layout.whole(node).0 } else { node.0 }
    }

    /// How long the main stream of the slowest NPU waited for a collective of a cohort, or for a message.
    fn exposed_to(&self, node: NodeIndex) -> u64 {
        let waits = self.simulation.executor().waits_of(self.npu);
        waits.iter().filter(|wait| wait.exposed_to() == Some(node)).map(MainWait::time).sum()
    }

    /// The node of a collective in the graph of a class.
    fn node(&self, class: ClassId, call: Call) -> (NodeIndex, &GraphNode) {
        let graph = self.simulation.executor().graphs().of(class);
        let node = graph.calls(call.family)[call.id.index()];
        (node, graph.node(node))
    }

    /// The collectives of which the run knows, cohort by cohort.
    fn ran(&self) -> Vec<Ran<'_>> {
        let cohorts = self.simulation.cohorts();
        let of_cohort = |(cohort, id): (&'_ Cohort, CohortId)| -> Vec<Ran<'_>> {
            let outcome = (&self.outcome.collectives[id.index()], &self.outcome.chunks[id.index()]);
            let each = cohort.calls().zip(outcome.0).zip(outcome.1);
            let ran = |(((class, call), &times), &chunks): ((_, &CollectiveTimes), &u64)| Ran {
                cohort: id,
                call,
                node: self.node(class, call).1,
                times,
                chunks,
            };
            each.map(ran).collect()
        };
        cohorts.iter().zip((0..).map(CohortId)).flat_map(of_cohort).collect()
    }
}

/// A collective of a run.
#[derive(Clone, Copy)]
struct Ran<'a> {
    cohort: CohortId,
    call: Call,
    /// Its node in the graph of the class that asked for it first.
    node: &'a GraphNode,
    times: CollectiveTimes,
    chunks: u64,
}

/// A sum that may exceed 64 bits.
fn total(values: impl IntoIterator<Item = u64>) -> u128 {
    values.into_iter().map(u128::from).sum()
}

fn share(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
