//! The deep learning recommendation model (Naumov et al.: "Deep Learning Recommendation Model for
//! Personalization and Recommendation Systems", 2019) in the sizes of Rashidi et al., "Scalable Distributed
//! Training of Recommendation Models: An ASTRA-SIM + NS3 case-study with TCP/IP transport", HOTI 2020, Table V,
//! which are those of the ACE paper too.
//!
//! ```text
//!   1600 dense features ─▶ bottom MLP ─────────────────────▶ 64 ─┐
//!   64 sparse features ─▶ tables: 60 vectors of 64 each, summed ─┴▶ concatenation, 4160 ─▶ top MLP ─▶ click?
//! ```
//!
//! * Table V's "5+2" and "10+2" mean 5 and 10 layers of the given width, between a first one for the inputs
//!   and a last one for the result. Bottom: 1600 to 1024, five of 1024 to 1024, 1024 to 64, so
//!   that the result has the width of an embedding. Top: 4160 to 2048, ten of 2048 to 2048, 2048 to 1. The source names
//!   top layers 0 to 11, has 16.2 MiB of weights for layer 0, which are 4160 x 2048 of two bytes, and 8 MiB for
//!   1 to 10. Its sizes have no biases, so there are none here.
//! * The MLPs are copied to all NPUs; the tables are distributed. An NPU holds `64 / N` whole tables, or, where there
//!   are more NPUs than tables, `64 N / 64` of a table's columns, looks up its part for the samples of *all* NPUs, and
//!   sends every NPU the vectors of that NPU's samples: an all-to-all of `batch x 64 x 64` elements on each NPU, 4 MiB
//!   with 512 samples in FP16. Backward, gradients take the same way back.
//! * A lookup reads a row (or its columns) and an index of eight bytes for each of the 60 vectors of a sum. The
//!   gradient is applied where it arrives, row by row: indices and gradient are read, rows are read and written.
//!   That is the table's back-propagation and its update in one, and takes place whether or not updates of
//!   the other layers are counted. Rows are taken to be in main memory, however often they are used; how
//!   many there are changes nothing.

use crate::layer::{Cost, Layer};
use crate::operators::{LayerPlan, Operator, copy, embedding_sums, fully_connected, product, relu};
use crate::sizes::{ModelError, Sizes};
use syncline_core::Bytes;

/// Embedding tables.
pub const TABLES: u32 = 64;
/// Columns of all of them.
pub const COLUMNS: u32 = TABLES * DIMENSION;
const DIMENSION: u32 = 64;
const POOLING: u64 = 60;
const DENSE: u32 = 1600;
const BOTTOM: u32 = 1024;
const BOTTOM_DEPTH: usize = 5;
const TOP: u32 = 2048;
const TOP_DEPTH: usize = 10;

/// A recommendation model, by what happens where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommender {
    /// An NPU's part of the tables: lookup forward, application of gradients as weight gradient.
    pub embedding: Layer,
    /// The all-to-all of looked-up vectors, and of their gradients: bytes that an NPU puts in, and gets.
    pub exchange: Bytes,
    /// The MLP of dense features.
    pub bottom: Vec<Layer>,
    /// Where features meet.
    pub interaction: Layer,
    /// The MLP behind.
    pub top: Vec<Layer>,
}

impl Recommender {
    /// All layers: embedding, bottom MLP, interaction, top MLP.
    pub fn layers(&self) -> impl Iterator<Item = &Layer> {
        [&self.embedding].into_iter().chain(&self.bottom).chain([&self.interaction]).chain(&self.top)
    }
}

/// DLRM for `batch` samples on each of `ranks` NPUs: 57,411,584 parameters in the MLPs. Demand beyond 64 bits
/// saturates; [`crate::models::build`] refuses it.
///
/// # Errors
/// [`ModelError::Ranks`] if the tables cannot be divided evenly.
pub fn dlrm(sizes: &Sizes) -> Result<Recommender, ModelError> {
    let Sizes { batch, element_bytes: bytes, counted, ranks, .. } = *sizes;
    let whole_tables = ranks > 0 && TABLES.is_multiple_of(ranks);
    let whole_columns = ranks > 0 && ranks.is_multiple_of(TABLES) && COLUMNS.is_multiple_of(ranks);
    if !(whole_tables || whole_columns) {
        return Err(ModelError::Ranks { ranks, most: COLUMNS });
    }
    // Tables, or parts of one, on an NPU, and their width.
    let (parts, width) = (TABLES.div_ceil(ranks), DIMENSION.min(COLUMNS / ranks));
    let samples = product(&[batch.into(), ranks.into()]);
    let exchanged = product(&[batch.into(), COLUMNS.into()]);
    let embedding = Layer {
        name: "embedding".into(),
        params: 0,
        gradient: Bytes::ZERO,
        update: Cost::NOTHING,
        ..LayerPlan::new("embedding", embedding_sums(samples, parts.into(), POOLING, width.into(), bytes))
            .build(true, bytes, counted)
    };
    let interaction = LayerPlan::new("interaction", Operator::default())
        .preceded_by(copy(product(&[batch.into(), (COLUMNS + DIMENSION).into()]), bytes))
        .build(false, bytes, counted);
    let widths = |first: u32, hidden: u32, depth: usize, last: u32| {
        let mut widths = vec![first];
        widths.extend(std::iter::repeat_n(hidden, depth + 1));
        widths.push(last);
        widths
    };
    let mlp = |name: &str, widths: &[u32]| -> Vec<Layer> {
        let last = widths.len() - 2;
        let layer = |(i, pair): (usize, &[u32])| {
            let mut plan =
                LayerPlan::new(format!("{name}.{i}"), fully_connected(batch.into(), pair[0], pair[1], false, bytes));
            if i < last {
                plan = plan.followed_by(relu(product(&[batch.into(), pair[1].into()]), bytes));
            }
            plan.build(name == "bottom" && i == 0, bytes, counted)
        };
        widths.windows(2).enumerate().map(layer).collect()
    };
    Ok(Recommender {
        embedding,
        exchange: Bytes(product(&[exchanged, bytes.into()])),
        bottom: mlp("bottom", &widths(DENSE, BOTTOM, BOTTOM_DEPTH, DIMENSION)),
        interaction,
        top: mlp("top", &widths(COLUMNS + DIMENSION, TOP, TOP_DEPTH, 1)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::Counted;

    fn model(batch: u32, ranks: u32) -> Recommender {
        dlrm(&Sizes { batch, element_bytes: 2, counted: Counted::All, sequence: None, ranks }).unwrap()
    }

    #[test]
    fn published_sizes() {
        let model = model(512, 128);
        assert_eq!(model.exchange, Bytes(4 << 20));
        assert_eq!((model.bottom.len(), model.top.len()), (7, 12));
        let mib: Vec<f64> = model.top.iter().map(|l| l.gradient.0 as f64 / f64::from(1 << 20)).collect();
        assert_eq!(mib[0], 16.25);
        assert!(mib[1..11].iter().all(|&size| size == 8.0));
        assert!(mib[11] < 0.01);
    }

    #[test]
    fn parameters_by_hand() {
        let model = model(1, 1);
        let params = |layers: &[Layer]| layers.iter().map(|l| l.params).sum::<u64>();
        assert_eq!(params(&model.bottom), 1600 * 1024 + 5 * 1024 * 1024 + 1024 * 64);
        assert_eq!(params(&model.top), 4160 * 2048 + 10 * 2048 * 2048 + 2048);
        assert_eq!(params(&model.bottom) + params(&model.top), 57_411_584);
        assert_eq!(model.layers().map(|l| l.gradient.0).sum::<u64>(), 2 * 57_411_584);
    }

    /// All NPUs together look up every vector of every sample once, however the tables are split.
    #[test]
    fn lookups_are_shared_by_all() {
        let bytes = |ranks: u32| model(512, ranks).embedding.forward.demand().unwrap().bytes;
        let vectors = 512 * 64 * 60;
        let summed = 512 * 64 * 64 * 2;
        for ranks in [1, 2, 64] {
            assert_eq!(bytes(ranks), vectors * (64 * 2 + 8) + summed, "{ranks}");
        }
        // Two NPUs for each table: half a row each, but both read the index.
        assert_eq!(bytes(128), vectors * (64 * 2 + 2 * 8) + summed);
        assert_eq!(bytes(4096), vectors * (64 * 2 + 64 * 8) + summed);
        // Gradients: rows are read and written.
        let apply = model(512, 64).embedding.weight_grad.demand().unwrap().bytes;
        assert_eq!(apply, vectors * (2 * 64 * 2 + 8) + summed);
    }

    #[test]
    fn tables_that_do_not_divide_are_refused() {
        for ranks in [0, 3, 96, 8192] {
            let sizes = Sizes { batch: 1, element_bytes: 2, counted: Counted::All, sequence: None, ranks };
            assert_eq!(dlrm(&sizes), Err(ModelError::Ranks { ranks, most: 4096 }));
        }
    }

    #[test]
    fn only_the_first_bottom_layer_has_no_input_gradient() {
        let model = model(4, 4);
        let without: Vec<_> = model.layers().filter(|l| l.input_grad.is_nothing()).map(|l| l.name.as_str()).collect();
        assert_eq!(without, ["embedding", "bottom.0"]);
    }
}
