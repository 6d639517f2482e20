//! Layers of operators that are data, as training loops take them.

use super::{Execution, OperatorSpec};
use crate::hybrid::Recommender;
use crate::layer::{Cost, Demand, Layer};
use crate::operators::{Counted, Operator, product, sgd_momentum};
use serde::Deserialize;
use syncline_core::{Bytes, Refusal};

/// A layer of a model file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// Its name, unique within the model.
    pub name: String,
    /// Its operators in forward order.
    pub operators: Vec<OperatorSpec>,
    /// Parameters that an earlier layer has as well (the head of GPT is tied to the embedding): that layer counts, exchanges
    /// and updates them.
    #[serde(default)]
    pub shared: u64,
}

/// A recommendation model, by what happens where.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct RecommenderSpec {
    /// An NPU's part of the tables.
    pub embedding: LayerSpec,
    /// Bytes that an NPU puts into the all-to-all of looked-up vectors, and gets.
    pub exchange_bytes: u64,
    /// The MLP of dense features.
    pub bottom: Vec<LayerSpec>,
    /// Where features meet.
    pub interaction: LayerSpec,
    /// The MLP behind.
    pub top: Vec<LayerSpec>,
}

/// How layers are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// How operators are carried out.
    pub execution: Execution,
    /// Which kernels cost time.
    pub counted: Counted,
}

impl LayerSpec {
    /// The layer; `first` says that it is the model's first, whose input needs no gradient.
    ///
    /// The first weighted operator divides the backward pass: what follows it runs before its weight gradient and belongs to
    /// that pass, what precedes it runs behind its input gradient. A layer without one has an input gradient only.
    ///
    /// # Errors
    /// A [`Refusal`] of an operator, or of more shared parameters than there are.
    pub fn layer(&self, first: bool, counting: Counting) -> Result<Layer, Refusal> {
        let Counting { execution, counted } = counting;
        let element_bytes = execution.widths.element_bytes;
        let mut parts: Vec<(Operator, bool)> = Vec::new();
        for (number, operator) in self.operators.iter().enumerate() {
            let described = operator.described_in(execution);
            parts.extend(described.map_err(|refusal| refusal.within(&format!("operators.{number}")))?.parts);
        }
        let all = parts.iter().fold(0, |sum: u64, (operator, _)| sum.saturating_add(operator.params));
        let Some(params) = all.checked_sub(self.shared) else {
            let message = format!("{} parameters are shared, of {all} that the layer has", self.shared);
            return Err(Refusal::of("shared", message).accepting(format!("0 to {all}")));
        };
        let dividing = parts.iter().position(|(_, weighted)| *weighted).unwrap_or(parts.len());
        let counts = |weighted: bool| weighted || counted == Counted::All;
        let backward = |of: &[(Operator, bool)]| -> Vec<Demand> {
            let kernels = of.iter().rev().filter(|(_, weighted)| counts(*weighted));
            kernels.flat_map(|(o, _)| o.weight_grad.iter().chain(&o.input_grad).copied()).collect()
        };
        let forward = parts.iter().filter(|(_, weighted)| counts(*weighted)).flat_map(|(o, _)| o.forward.clone());
        let forward = forward.collect();
        let (before, from) = parts.split_at(dividing);
        let (mut weight_grad, mut input_grad) = (Vec::new(), Vec::new());
        if let Some(((weighted, _), after)) = from.split_first() {
            weight_grad = backward(after);
            weight_grad.extend(&weighted.weight_grad);
            input_grad.extend(&weighted.input_grad);
        }
        input_grad.extend(backward(before));
        if first {
            input_grad.clear();
        }
        Ok(Layer {
            name: self.name.clone(),
            params,
            forward: Cost::Kernels(forward),
            input_grad: Cost::Kernels(input_grad),
            weight_grad: Cost::Kernels(weight_grad),
            update: Cost::Kernels(vec![sgd_momentum(params, element_bytes)]),
            gradient: Bytes(product(&[params, element_bytes.into()])),
        })
    }
}

/// Layers in forward order.
///
/// # Errors
/// A [`Refusal`] of an operator, or of layers whose demand together does not fit 64 bits.
pub fn chain(layers: &[LayerSpec], counting: Counting) -> Result<Vec<Layer>, Refusal> {
    let numbered = layers.iter().enumerate();
    let layer = |(number, layer): (usize, &LayerSpec)| {
        layer.layer(number == 0, counting).map_err(|refusal| refusal.within(&format!("layers.{number}")))
    };
    let layers: Vec<Layer> = numbered.map(layer).collect::<Result<_, _>>()?;
    fitting(&layers, "layers")?;
    Ok(layers)
}

impl RecommenderSpec {
    /// The model. The gradients of tables are applied where they arrive, so that nothing is reduced.
    ///
    /// # Errors
    /// As [`chain`].
    pub fn recommender(&self, counting: Counting) -> Result<Recommender, Refusal> {
        let embedding = self.embedding.layer(true, counting).map_err(|refusal| refusal.within("embedding"))?;
        let mlp = |layers: &[LayerSpec], name: &str, first: bool| -> Result<Vec<Layer>, Refusal> {
            let of = |(number, layer): (usize, &LayerSpec)| {
                let within = |refusal: Refusal| refusal.within(&format!("{name}.{number}"));
                layer.layer(first && number == 0, counting).map_err(within)
            };
            layers.iter().enumerate().map(of).collect()
        };
        let model = Recommender {
            embedding: Layer { params: 0, gradient: Bytes::ZERO, update: Cost::NOTHING, ..embedding },
            exchange: Bytes(self.exchange_bytes),
            bottom: mlp(&self.bottom, "bottom", true)?,
            interaction: self.interaction.layer(false, counting).map_err(|refusal| refusal.within("interaction"))?,
            top: mlp(&self.top, "top", false)?,
        };
        if model.bottom.is_empty() || model.top.is_empty() {
            let field = if model.bottom.is_empty() { "bottom" } else { "top" };
            return Err(Refusal::of(field, "there are no layers").accepting("1 or more"));
        }
        fitting(model.layers(), "")?;
        Ok(model)
    }
}

/// Refuses layers whose demand together is beyond what 64 bits hold (sums saturate).
fn fitting<'a>(layers: impl IntoIterator<Item = &'a Layer>, field: &str) -> Result<(), Refusal> {
    let passes = layers.into_iter().flat_map(|l| [&l.forward, &l.input_grad, &l.weight_grad, &l.update]);
    let demands = passes.filter_map(Cost::demand);
    let sum = demands.fold(Demand::default(), |sum, demand| sum.plus(demand));
    if sum.flops < u64::MAX && sum.bytes < u64::MAX {
        return Ok(());
    }
    Err(Refusal::of(field, "all layers together need more operations or bytes than 64 bits count")
        .accepting("fewer samples"))
}

#[cfg(test)]
mod tests;
