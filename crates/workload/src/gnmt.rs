//! Google's neural machine translation (Wu et al.: "Google's Neural Machine Translation System: Bridging
//! the Gap between Human and Machine Translation", 2016), derived from its architecture.
//!
//! Eight encoder and eight decoder layers of LSTMs with 1024 units. The first encoder layer runs in both
//! directions, so that the second has 2048 inputs; from the third layer of each side on, a layer's input
//! is added to its output. The output of the first decoder layer is the query of the attention (Bahdanau's,
//! normalised, 1024 units) over the encoder's outputs. The resulting context is, beside the output of the
//! layer below, an input of all further decoder layers, which therefore have 2048 inputs.
//!
//! Sizes are those of the MLPerf training reference, which has four layers on each side and 160,671,297
//! parameters: a joint vocabulary of 32,320 entries (32,317 rounded up to a multiple of eight), one embedding
//! for source and target, an output projection of its own, two biases per LSTM gate. With eight layers
//! the same counting gives 244,622,913.
//!
//! A sample is a pair of sentences, by default of 25 tokens each. Sentences of WMT'16 English-German are 25 to
//! 30 pieces long on average, and batches are made of sentences of like length, so that little is padded.
//!
//! A [`Layer`] is an LSTM layer, the attention, the embedding (both of its uses; its gradient is complete
//! when back-propagation ends) or the output projection with the loss.

use crate::layer::Layer;
use crate::operators::{LayerPlan, Operator, add, fork, fully_connected, product, softmax_cross_entropy};
use crate::recurrent::{Attention, Lstm, concatenation, dense_embedding};
use crate::sizes::Sizes;

/// Tokens of a sentence if none are given.
pub const SEQUENCE: u32 = 25;

const VOCABULARY: u32 = 32_320;
const UNITS: u32 = 1024;
const DEPTH: u32 = 8;
/// The first layer whose input is added to its output.
const FIRST_RESIDUAL: u32 = 2;

/// GNMT: 19 layers and 244,622,913 parameters, `batch` pairs of sentences of `sequence` tokens. Demand beyond 64
/// bits saturates; [`crate::models::build`] refuses it.
pub fn gnmt(sizes: &Sizes) -> Vec<Layer> {
    let plans = plans(DEPTH, sizes).into_iter().enumerate();
    plans.map(|(i, plan)| plan.build(i == 0, sizes.element_bytes, sizes.counted)).collect()
}

/// The layers of a model with `depth` layers on each side, in forward order.
fn plans(depth: u32, sizes: &Sizes) -> Vec<LayerPlan> {
    let Sizes { batch, element_bytes: bytes, .. } = *sizes;
    let steps = sizes.sequence.unwrap_or(SEQUENCE);
    let tokens = product(&[batch.into(), steps.into()]);
    let activations = product(&[tokens, UNITS.into()]);
    let with =
        |name: String, (weighted, between): (Operator, Operator)| LayerPlan::new(name, weighted).followed_by(between);
    let residual = |plan: LayerPlan, i: u32| match i {
        FIRST_RESIDUAL.. => plan.preceded_by(fork(activations, bytes)).followed_by(add(activations, bytes)),
        _ => plan,
    };
    let lstm = |name: String, inputs: u32, directions: u32| {
        with(name, Lstm { inputs, hidden: UNITS, directions }.operators(batch, steps, bytes))
    };
    let encoder = |i: u32| match i {
        0 => lstm("encoder.0".into(), UNITS, 2),
        1 => lstm("encoder.1".into(), 2 * UNITS, 1),
        _ => residual(lstm(format!("encoder.{i}"), UNITS, 1), i),
    };
    let decoder = |i: u32| {
        let plan = lstm(format!("decoder.{i}"), 2 * UNITS, 1).preceded_by(concatenation(activations, bytes));
        residual(plan, i)
    };
    let attention = Attention { units: UNITS, queries: steps, keys: steps };
    let lookups = product(&[2, tokens]);
    let mut plans = vec![LayerPlan::new("embedding", dense_embedding(VOCABULARY, UNITS, lookups, bytes))];
    plans.extend((0..depth).map(encoder));
    plans.push(lstm("decoder.0".into(), UNITS, 1));
    plans.push(with("attention".into(), attention.operators(batch, bytes)));
    plans.extend((1..depth).map(decoder));
    plans.push(
        LayerPlan::new("projection", fully_connected(tokens, UNITS, VOCABULARY, true, bytes))
            .followed_by(softmax_cross_entropy(tokens, VOCABULARY, bytes)),
    );
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Demand;
    use crate::operators::Counted;
    use syncline_core::Bytes;

    fn sizes(batch: u32, sequence: Option<u32>) -> Sizes {
        Sizes { batch, element_bytes: 2, counted: Counted::All, sequence, ranks: 1 }
    }

    fn params(depth: u32) -> u64 {
        plans(depth, &sizes(1, None)).into_iter().map(|p| p.build(false, 2, Counted::All).params).sum()
    }

    #[test]
    fn published_parameters() {
        assert_eq!(params(4), 160_671_297); // MLPerf's
        // Four layers more on each side: of 1024 inputs in the encoder, of 2048 in the decoder.
        let (narrow, wide) = (4 * 1024 * 2048 + 8192, 4 * 1024 * 3072 + 8192);
        assert_eq!(params(8), 160_671_297 + 4 * narrow + 4 * wide);
        assert_eq!(params(8), 244_622_913);
    }

    #[test]
    fn layers_and_gradients() {
        let layers = gnmt(&sizes(128, None));
        let names: Vec<&str> = layers.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names[..3], ["embedding", "encoder.0", "encoder.1"]);
        assert_eq!(names[8..12], ["encoder.7", "decoder.0", "attention", "decoder.1"]);
        assert_eq!((names.len(), names[18]), (19, "projection"));
        assert!(layers.iter().all(|l| l.gradient == Bytes(2 * l.params) && l.params > 0));
        assert!(layers[0].input_grad.is_nothing());
        assert!(layers[1..].iter().all(|l| !l.input_grad.is_nothing()));
    }

    /// Per token, every weight but the embedding's works once, those of the attention's keys and queries on their
    /// side; the scores and contexts come on top.
    #[test]
    fn multiply_accumulates_by_hand() {
        let (batch, steps) = (4, 10);
        let layers = gnmt(&sizes(batch, Some(steps)));
        let products = |l: &Layer| -> u64 {
            let crate::Cost::Kernels(kernels) = &l.forward else { panic!("a model has no measured times") };
            kernels.iter().filter_map(|k: &Demand| k.gemm).map(|g| g.flops() / 2).sum()
        };
        let tokens = u64::from(batch * steps);
        let lstm = |inputs: u64| tokens * 4096 * (inputs + 1024);
        let encoder = 2 * lstm(1024) + lstm(2048) + 6 * lstm(1024);
        let decoder = lstm(1024) + 7 * lstm(2048);
        let attention = tokens * (2 * 1024 * 1024 + 2 * u64::from(steps) * 1024);
        let projection = tokens * 1024 * 32_320;
        assert_eq!(layers.iter().map(products).sum::<u64>(), encoder + decoder + attention + projection);
    }

    #[test]
    fn demand_grows_with_the_sequence_and_its_square_in_the_attention() {
        let of = |steps: u32, name: &str| {
            let layers = gnmt(&sizes(8, Some(steps)));
            layers.iter().find(|l| l.name == name).and_then(|l| l.forward.demand()).unwrap().bytes
        };
        assert!((1.9..=2.0).contains(&(of(200, "encoder.4") as f64 / of(100, "encoder.4") as f64)));
        assert!((3.9..=4.0).contains(&(of(2000, "attention") as f64 / of(1000, "attention") as f64)));
    }
}
