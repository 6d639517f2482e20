//! The question what operators ask of an NPU, and the answer, as JSON.

use super::{Execution, OperatorSpec, Passes, Widths};
use crate::frameworks::Framework;
use crate::frameworks::updates::Step;
use crate::kernel_kind::KernelKind;
use crate::layer::{Demand, Gemm};
use crate::operators::Counted;
use serde::{Deserialize, Serialize};
use syncline_core::Refusal;

/// Operators, and how they are counted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The operators.
    operators: Vec<OperatorSpec>,
    /// Bytes of an element of activations, weights and gradients.
    element_bytes: u32,
    /// Bytes of an element of the factors of linear layers' products; those of other elements if left out.
    #[serde(default)]
    linear_bytes: Option<u32>,
    /// The framework whose kernels they are; the least kernels that operators need if left out.
    #[serde(default)]
    framework: Option<Framework>,
    /// Which kernels cost time.
    #[serde(default)]
    counted: Counted,
    /// Steps of optimisers, which are answered after the operators.
    #[serde(default)]
    updates: Vec<Update>,
}

/// A step over so many parameters in so many tensors.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    step: Step,
    parameters: u64,
    tensors: u64,
}

/// What an operator asks, or a step.
#[derive(Default, Serialize)]
struct Answer {
    /// Trainable parameters.
    params: u64,
    /// Bytes that are kept until the backward pass.
    saved_bytes: u64,
    /// Elements that go in, parameters not included.
    input_elements: u64,
    /// Elements that come out.
    output_elements: u64,
    forward: Vec<KernelSpec>,
    weight_grad: Vec<KernelSpec>,
    input_grad: Vec<KernelSpec>,
    /// Of a step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    update: Vec<KernelSpec>,
}

/// A kernel, or a run of equal ones, as descriptions have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes to and from main memory.
    pub bytes: u64,
    /// Its matrix products, if that is what it does.
    #[serde(default)]
    pub gemm: Option<GemmSpec>,
    /// Whether the factors of its products are in the narrow data type of linear layers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub narrow: bool,
    /// What it does, for compute models that know kinds of kernels apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KernelKind>,
}

/// The shape of matrix products: `count` of them, each `m x k` times `k x n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmSpec {
    /// Rows of the result.
    pub m: u64,
    /// Terms of each sum.
    pub k: u64,
    /// Columns of the result.
    pub n: u64,
    /// Products of this shape, one after the other.
    pub count: u64,
    /// Bytes of both factors of all products.
    pub operands: [u64; 2],
}

impl From<Demand> for KernelSpec {
    fn from(demand: Demand) -> KernelSpec {
        let gemm = |Gemm { m, k, n, count, operands }: Gemm| GemmSpec { m, k, n, count, operands };
        let Demand { flops, bytes, narrow, kind, .. } = demand;
        KernelSpec { flops, bytes, gemm: demand.gemm.map(gemm), narrow, kind }
    }
}

impl From<KernelSpec> for Demand {
    fn from(kernel: KernelSpec) -> Demand {
        let gemm = |GemmSpec { m, k, n, count, operands }: GemmSpec| Gemm { m, k, n, count, operands };
        let KernelSpec { flops, bytes, narrow, kind, .. } = kernel;
        Demand { flops, bytes, gemm: kernel.gemm.map(gemm), narrow, kind }
    }
}

/// Answers a request in JSON with an answer in JSON, in which operators stand in the order of the request.
///
/// # Errors
/// A [`Refusal`] if the request is no request, or one of its operators is none; its field begins with `operators` and the
/// number of the operator.
pub fn answer(request: &str) -> Result<String, Refusal> {
    let request: Request = serde_json::from_str(request).map_err(|e| Refusal::of("", e.to_string()))?;
    let widths = Widths { element_bytes: request.element_bytes, linear_bytes: request.linear_bytes }.checked()?;
    let execution = Execution { widths, framework: request.framework };
    let kernels = |demands: Vec<Demand>| demands.into_iter().map(KernelSpec::from).collect();
    let mut answers = Vec::with_capacity(request.operators.len());
    for (number, operator) in request.operators.iter().enumerate() {
        let described =
            operator.described_in(execution).map_err(|refusal| refusal.within(&format!("operators.{number}")))?;
        let Passes { forward, weight_grad, input_grad } = described.passes(request.counted);
        answers.push(Answer {
            params: described.params(),
            saved_bytes: described.saved_bytes,
            input_elements: described.input_elements,
            output_elements: described.output_elements,
            forward: kernels(forward),
            weight_grad: kernels(weight_grad),
            input_grad: kernels(input_grad),
            update: Vec::new(),
        });
    }
    for Update { step, parameters, tensors } in request.updates {
        answers.push(Answer { update: kernels(step.kernels(parameters, tensors)), ..Answer::default() });
    }
    serde_json::to_string(&answers).map_err(|e| Refusal::of("", e.to_string()))
}
