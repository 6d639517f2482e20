//! The layers of a model: what each computes and communicates, and what of that is waited for.

use super::{View, ints, optional_ints, total, wide};
use crate::cohorts::CollectiveTimes;
use crate::endpoints::EndpointEvent;
use crate::graphs::{Call, NodeWork};
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use syncline_endpoint::Endpoint;
use syncline_network::Network;
use syncline_workload::Stream;
use syncline_workload::graph::Pass;
use syncline_workload::layer::{Cost, Layer};

/// How many passes there are.
const PASSES: usize = Pass::Update as usize + 1;

syncline_core::table! {
    /// A row for every layer of the model, in forward order; a collective on its own has none.
    "layers" => Layers {
        /// Number of the layer.
        index: Vec<i64> as Index,
        /// Name of the layer.
        layer: Vec<String> as Text,
        /// Parameters of the layer, without those that it shares with an earlier one; null where a graph does not say.
        params: Vec<Option<i64>> as Count,
        /// Bytes of gradients of the layer that an NPU has in every iteration; null where a graph does not say.
        gradient_bytes: Vec<Option<i64>> as Bytes,
        /// Compute time of the forward pass of one iteration, with nothing beside it.
        forward_ps: Vec<i64> as Picoseconds,
        /// Compute time of the gradients of the inputs in one iteration, with nothing beside it.
        input_grad_ps: Vec<i64> as Picoseconds,
        /// Compute time of the gradients of the weights in one iteration, with nothing beside it.
        weight_grad_ps: Vec<i64> as Picoseconds,
        /// Compute time of the update of the weights in one iteration, with nothing beside it.
        update_ps: Vec<i64> as Picoseconds,
        /// Time that the main stream of the compute engine was busy with the layer.
        compute_ps: Vec<i64> as Picoseconds,
        /// Collectives of the layer.
        collectives: Vec<i64> as Count,
        /// Sum of the sizes of the collectives of the layer.
        comm_bytes: Vec<i64> as Bytes,
        /// Time from the issue of a collective of the layer to its completion, the mean of those that completed.
        raw_latency_ps: Vec<Option<i64>> as Picoseconds,
        /// Time from the issue of a collective of the layer to the start of its first chunk, the mean of those that started.
        queue_ps: Vec<Option<i64>> as Picoseconds,
        /// Time that the main stream of the compute engine waited for collectives of the layer.
        exposed_ps: Vec<i64> as Picoseconds,
    }
}

impl<N, E> View<'_, N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    pub(super) fn layers(&self) -> Layers {
        let executor = self.simulation.executor();
        let layers = executor.source().layers();
        // A layer that runs in several streams runs in the main one only to begin with.
        let graph = executor.graph(self.npu);
        let mut streams = vec![Stream::MAIN; layers.len()];
        let mut of_layer: Vec<Vec<Call>> = vec![Vec::new(); layers.len()];
        // Where layers do not say what their passes cost: the nodes of the first iteration, which others repeat.
        let mut listed: Vec<[u64; PASSES]> = vec![[0; PASSES]; layers.len()];
        for node in graph.nodes() {
            if let (NodeWork::Compute(time), 0, Some(passes)) =
                (node.work, node.iteration, listed.get_mut(node.layer as usize))
            {
                passes[node.pass as usize] += time.0;
            }
            if let (Some(stream), true) = (streams.get_mut(node.layer as usize), node.stream != Stream::MAIN) {
                *stream = node.stream;
            }
            if let (Some(calls), NodeWork::Collective(call)) = (of_layer.get_mut(node.layer as usize), node.work) {
                calls.push(call);
            }
        }
        let cohorts = self.simulation.cohorts();
        // Collectives of an iteration of which nothing was issued are not known to the driver.
        let times = |call: &Call| -> CollectiveTimes {
            let cohort = cohorts.of(call.family, self.npu).map(|id| &cohorts[id].times);
            cohort.and_then(|times| times.get(call.id.index())).copied().unwrap_or_default()
        };
        let mean = |calls: &Vec<Call>, f: &dyn Fn(&Call) -> Option<u64>| {
            let known: Vec<u64> = calls.iter().filter_map(f).collect();
            total(known.iter().copied()).checked_div(known.len() as u128).map(|mean| mean as u64) // no more than the largest
        };
        let raw = |call: &Call| Some((times(call).completed? - times(call).issued?).0);
        let queued = |call: &Call| Some((times(call).started? - times(call).issued?).0);
        let exposed = |call: &Call| self.exposed_to(graph.calls(call.family)[call.id.index()]);
        let all: Vec<_> = layers.iter().zip(&of_layer).collect();
        let numbered: Vec<usize> = (0..layers.len()).collect();
        let described = |layer: usize| executor.source().describes(layer as u32);
        let pass_times = |pass: Pass, cost: fn(&Layer) -> &Cost| {
            ints(&numbered, |layer| match described(layer) {
                true => executor.time(streams[layer], cost(&layers[layer])).0,
                false => listed[layer][pass as usize],
            })
        };
        let known = |count: fn(&Layer) -> u64| {
            optional_ints(&numbered, |layer| described(layer).then(|| count(&layers[layer])))
        };
        Layers {
            index: (0..all.len() as i64).collect(),
            layer: layers.iter().map(|l| l.name.clone()).collect(),
            params: known(|layer| layer.params),
            gradient_bytes: known(|layer| layer.gradient.0),
            forward_ps: pass_times(Pass::Forward, |layer| &layer.forward),
            input_grad_ps: pass_times(Pass::InputGrad, |layer| &layer.input_grad),
            weight_grad_ps: pass_times(Pass::WeightGrad, |layer| &layer.weight_grad),
            update_ps: pass_times(Pass::Update, |layer| &layer.update),
            compute_ps: ints(executor.compute_by_layer(self.npu), |busy| busy),
            collectives: ints(&all, |(_, calls)| calls.len() as u64),
            comm_bytes: wide(&all, |(_, calls)| total(calls.iter().map(|call| call.bytes))),
            raw_latency_ps: optional_ints(&all, |(_, calls)| mean(calls, &raw)),
            queue_ps: optional_ints(&all, |(_, calls)| mean(calls, &queued)),
            exposed_ps: wide(&all, |(_, calls)| total(calls.iter().map(exposed))),
        }
    }
}
