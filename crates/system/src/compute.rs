//! The compute model that a description asks for, and what it says of kernels outside of runs.

use crate::errors::RunError;
use crate::spec::{ArraySpec, BasisSpec, ComputeModelSpec, ComputeSpec, DataflowSpec, MeasurementsSpec, SparsitySpec};
use serde::{Deserialize, Serialize};
use syncline_core::{Ps, Refusal};
use syncline_workload::compute::measured::{Basis, MeasuredProduct, MeasuredStream, Measurements};
use syncline_workload::compute::sparsity::Sparsity;
use syncline_workload::compute::{Npu, NpuError};
use syncline_workload::described::request::KernelSpec;
use syncline_workload::systolic::{Array, Dataflow, Sram};

/// Kernels, and the NPU on which they run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    compute: ComputeSpec,
    kernels: Vec<KernelSpec>,
    /// Whether the kernels run one after the other, over and over; else each does alone.
    #[serde(default)]
    mix: bool,
}

/// What a kernel takes.
#[derive(Serialize)]
struct Answer {
    /// How long it runs, its launch included.
    time_ps: u64,
    /// Bytes that it moves between the NPU and main memory.
    moved_bytes: u64,
    /// Where the time comes from.
    basis: BasisSpec,
}

/// Answers a request in JSON, a compute model and a list of kernels, with a list in JSON of what each kernel takes
/// that runs over and over, alone or in their mix.
///
/// # Errors
/// A refusal if the request is none; its field begins with `compute` if that describes no NPU.
pub fn times(request: &str) -> Result<String, Refusal> {
    let request: Request = serde_json::from_str(request).map_err(|e| Refusal::of("", e.to_string()))?;
    let npu = described(&request.compute).map_err(|refusal| refusal.within("compute"))?;
    let all: Vec<_> = request.kernels.iter().map(|&kernel| (kernel.into(), 1)).collect();
    let mixed = request.mix.then(|| npu.clone().throttled(&all));
    let answer = |kernel: KernelSpec| {
        let kernel = kernel.into();
        let timed = match &mixed {
            Some(npu) => npu.timed(kernel),
            None => npu.clone().throttled(&[(kernel, 1)]).timed(kernel),
        };
        let basis = match timed.basis {
            Basis::Model => BasisSpec::Model,
            Basis::Measured => BasisSpec::Measured,
            Basis::Interpolated => BasisSpec::Interpolated,
            Basis::Outside => BasisSpec::Outside,
        };
        Answer { time_ps: timed.time.0, moved_bytes: timed.moved.0, basis }
    };
    let answers: Vec<Answer> = request.kernels.into_iter().map(answer).collect();
    serde_json::to_string(&answers).map_err(|e| Refusal::of("", e.to_string()))
}

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
    if let Some(narrow) = &spec.narrow {
        npu = npu.with_narrow(described(narrow).map_err(|refusal| refusal.within("narrow"))?);
    }
    Ok(match &spec.model {
        ComputeModelSpec::Roofline => npu,
        ComputeModelSpec::Systolic(array) => npu.with_array(systolic(array).map_err(of_model)?),
        ComputeModelSpec::Tiles(tiles) => npu.with_tiles(tiles.clone().checked().map_err(of_model)?),
        ComputeModelSpec::Gpu(gpu) => npu.with_gpu((**gpu).clone().checked().map_err(of_model)?),
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

fn measurements(spec: &MeasurementsSpec) -> Result<Measurements, NpuError> {
    let products = spec.products.iter();
    let products: Vec<_> = products
        .map(|&[m, k, n, count, bytes, time_ps]| MeasuredProduct { shape: [m, k, n, count], bytes, time_ps })
        .collect();
    let streams: Vec<_> = spec.streams.iter().map(|&[bytes, time_ps]| MeasuredStream { bytes, time_ps }).collect();
    Measurements::new(&products, &streams, spec.alignment, spec.flops_per_s, spec.memory_bytes_per_s)
}
