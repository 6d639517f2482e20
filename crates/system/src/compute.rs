//! The compute model that a description asks for.

use crate::errors::RunError;
use crate::spec::{ArraySpec, ComputeModelSpec, ComputeSpec, DataflowSpec, MeasurementsSpec, SparsitySpec, TilesSpec};
use syncline_core::{Ps, Refusal};
use syncline_workload::compute::measured::{MeasuredProduct, MeasuredStream, Measurements};
use syncline_workload::compute::sparsity::Sparsity;
use syncline_workload::compute::tiles::{Tile, Tiles};
use syncline_workload::compute::{Npu, NpuError};
use syncline_workload::systolic::{Array, Dataflow, Sram};

/// The NPU as compute sees it.
///
/// # Errors
/// A refusal whose field is within `job.compute`.
pub fn npu(spec: &ComputeSpec) -> Result<Npu, RunError> {
    described(spec).map_err(|refusal| refusal.within("job.compute").into())
}

/// The same; fields of refusals are within the compute model.
pub(crate) fn described(spec: &ComputeSpec) -> Result<Npu, Refusal> {
    let of_model = |error: NpuError| Refusal::from(error).within("model");
    let mut npu = Npu::new(spec.flops_per_s, spec.memory_bytes_per_s, spec.scale)?.with_launch(Ps(spec.launch_ps));
    if let Some(tile) = spec.tile {
        npu = npu.with_tile(tile);
    }
    if let Some(sparsity) = spec.sparsity {
        npu = npu.with_sparsity(sparse(sparsity)?);
    }
    Ok(match &spec.model {
        ComputeModelSpec::Roofline => npu,
        ComputeModelSpec::Systolic(array) => npu.with_array(systolic(array).map_err(of_model)?),
        ComputeModelSpec::Tiles(spec) => npu.with_tiles(tiles(spec).map_err(of_model)?),
        ComputeModelSpec::Table(spec) => npu.with_measurements(measurements(spec).map_err(of_model)?),
    })
}

fn sparse(spec: SparsitySpec) -> Result<Sparsity, Refusal> {
    match spec {
        SparsitySpec::Density(density) if density > 0.0 && density <= 1.0 => Ok(Sparsity::Density(density)),
        SparsitySpec::Structured([kept, of]) if 0 < kept && kept <= of => Ok(Sparsity::Structured { kept, of }),
        SparsitySpec::Density(density) => {
            Err(Refusal::of("sparsity", format!("a density of {density}")).accepting("above 0 and up to 1"))
        }
        SparsitySpec::Structured([kept, of]) => {
            let refusal = Refusal::of("sparsity", format!("{kept} of {of} elements are kept"));
            Err(refusal.accepting("one of them at least, and no more than there are"))
        }
    }
}

fn systolic(spec: &ArraySpec) -> Result<Array, NpuError> {
    let dataflow = match spec.dataflow {
        DataflowSpec::OutputStationary => Dataflow::OutputStationary,
        DataflowSpec::WeightStationary => Dataflow::WeightStationary,
        DataflowSpec::InputStationary => Dataflow::InputStationary,
    };
    let array = Array::new(spec.rows, spec.columns, dataflow, spec.clock_hz)?.times(spec.arrays);
    Ok(match spec.sram {
        None => array,
        Some(sram) => array.with_sram(Sram {
            inputs: sram.inputs_bytes,
            weights: sram.weights_bytes,
            outputs: sram.outputs_bytes,
        }),
    })
}

fn tiles(spec: &TilesSpec) -> Result<Tiles, NpuError> {
    let sizes = spec.tiles.iter();
    let sizes = sizes.map(|tile| Tile { rows: tile.rows, columns: tile.columns, sustained: tile.sustained }).collect();
    Tiles::new(sizes, spec.splits.clone(), spec.depth, spec.fill, spec.sms, spec.sustained_memory)
}

fn measurements(spec: &MeasurementsSpec) -> Result<Measurements, NpuError> {
    let products = spec.products.iter();
    let products: Vec<_> = products
        .map(|&[m, k, n, count, bytes, time_ps]| MeasuredProduct { shape: [m, k, n, count], bytes, time_ps })
        .collect();
    let streams: Vec<_> = spec.streams.iter().map(|&[bytes, time_ps]| MeasuredStream { bytes, time_ps }).collect();
    Measurements::new(&products, &streams, spec.flops_per_s, spec.memory_bytes_per_s)
}
