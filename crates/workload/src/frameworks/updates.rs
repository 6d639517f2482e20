//! Kernels of an optimiser's step.
//!
//! PyTorch has three implementations of each optimiser (`torch/optim/adam.py`, `sgd.py`). *Fused* is one kernel over many
//! tensors, which reads every state once and writes once what changes. *Foreach* is one kernel over many tensors for each
//! operation of the step, which reads and writes all that the operation works on; so is *for-loop*, but with a kernel for
//! each tensor. With gradient `g`, weight `w`, and states `m` and `v`:
//!
//! | optimiser | fused | foreach |
//! |---|---|---|
//! | SGD | read `g w`, write `w`: 3 | `w += g`: 3 |
//! | SGD with momentum | read `g w m`, write `w m`: 5 | `m *= a`: 2, `m += g`: 3, `w += m`: 3 |
//! | Adam, AdamW | read `g w m v`, write `w m v`: 7 | decay of `w`: 2, `m` to `g`: 3, `v *= b`: 2, `v += g g`: 3, root of `v`: 2, two divisions: 2 each, `w += m / root`: 4 |
//!
//! A decay of weights that is added to the gradient (SGD) costs a foreach step another 3. States are as wide as weights;
//! gradients are too. Where products use narrow copies of wide weights which the step writes (`copy_bytes`: Megatron, DeepSpeed),
//! it writes these as well.
//!
//! A kernel over many tensors takes as many as its arguments have room for: 110, 64, 48 or 36 of one to four lists, and 320
//! chunks of 65,536 elements (`aten/src/ATen/native/cuda/MultiTensorApply.cuh`).

use super::{WIDE, memory};
use crate::kernel_kind::MemoryKernel::{Elementwise, Update};
use crate::kernel_kind::{KernelKind, Traffic};
use crate::layer::Demand;
use crate::operators::product;
use serde::{Deserialize, Serialize};

/// Which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimiser {
    /// Without state.
    Sgd,
    /// With a state of momenta.
    Momentum,
    /// With two moments.
    Adam,
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Implementation {
    /// One kernel over many tensors.
    Fused,
    /// A kernel over many tensors for each operation.
    Foreach,
    /// A kernel for each operation and tensor.
    ForLoop,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Of which optimiser.
    pub optimiser: Optimiser,
    /// In which implementation.
    pub implementation: Implementation,
    /// Whether a decay of weights is a part of it.
    #[serde(default)]
    pub decays: bool,
    /// Bytes of an element of weights, gradients and states.
    pub element_bytes: u32,
    /// Bytes of an element of the copy of weights that products use, if the step writes one.
    #[serde(default)]
    pub copy_bytes: Option<u32>,
}

/// Elements of a chunk.
const CHUNK: u64 = 65_536;
/// Chunks of a kernel.
const CHUNKS: u64 = 320;
/// Tensors of a kernel that works on one to four lists.
const TENSORS: [u64; 4] = [110, 64, 48, 36];

/// An operation: elements that it moves for each parameter, and lists of tensors that it works on.
#[derive(Clone, Copy)]
struct Operation(u64, usize);

impl Step {
    const fn operations(self) -> &'static [Operation] {
        const SCALED: Operation = Operation(2, 1);
        const ADDED: Operation = Operation(3, 2);
        const SUMMED: Operation = Operation(3, 3);
        const ROOT: Operation = Operation(2, 2);
        const QUOTIENT: Operation = Operation(4, 3);
        match (self.implementation, self.optimiser, self.decays) {
            (Implementation::Fused, Optimiser::Sgd, _) => &[Operation(3, 2)],
            (Implementation::Fused, Optimiser::Momentum, _) => &[Operation(5, 3)],
            (Implementation::Fused, Optimiser::Adam, _) => &[Operation(7, 4)],
            (_, Optimiser::Sgd, false) => &[ADDED],
            (_, Optimiser::Sgd, true) => &[SUMMED, ADDED],
            (_, Optimiser::Momentum, false) => &[SCALED, ADDED, ADDED],
            (_, Optimiser::Momentum, true) => &[SUMMED, SCALED, ADDED, ADDED],
            (_, Optimiser::Adam, false) => &[ADDED, SCALED, SUMMED, ROOT, SCALED, SCALED, QUOTIENT],
            (_, Optimiser::Adam, true) => &[SCALED, ADDED, SCALED, SUMMED, ROOT, SCALED, SCALED, QUOTIENT],
        }
    }

    /// The kernels of a step over so many parameters in so many tensors.
    #[must_use]
    pub fn kernels(self, parameters: u64, tensors: u64) -> Vec<Demand> {
        let (tensors, bytes) = (tensors.max(1), u64::from(self.element_bytes));
        let copies = self.copy_bytes.map(|copy| memory(Elementwise, parameters, bytes + u64::from(copy)));
        let each = parameters / tensors;
        let launched = |Operation(moved, lists): Operation| {
            let kernels = match self.implementation {
                Implementation::ForLoop => tensors,
                _ => tensors.div_ceil(TENSORS[lists - 1]).max(parameters.div_ceil(CHUNK * CHUNKS)),
            };
            let kernel = match self.implementation {
                Implementation::ForLoop => memory(Elementwise, product(&[moved, each]), bytes),
                _ => update(product(&[moved, parameters / kernels]), each.min(CHUNK), bytes),
            };
            (0..kernels).map(move |_| kernel)
        };
        self.operations().iter().copied().flat_map(launched).chain(copies).collect()
    }
}

/// A kernel over many tensors that moves so many elements, in chunks of so many.
fn update(elements: u64, chunk: u64, bytes: u64) -> Demand {
    let columns = u32::try_from(chunk).expect("a chunk is small");
    let kind = KernelKind::Memory(Traffic { kernel: Update, wide: bytes >= WIDE, columns });
    Demand::new(0, product(&[elements, bytes])).as_kind(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Step = Step {
        optimiser: Optimiser::Adam,
        implementation: Implementation::Fused,
        decays: true,
        element_bytes: 4,
        copy_bytes: None,
    };

    fn moved(step: Step) -> u64 {
        step.kernels(100, 5).iter().map(|kernel| kernel.bytes).sum::<u64>() / 400
    }

    #[test]
    fn a_fused_step_reads_all_and_writes_all_but_the_gradient() {
        let of = |optimiser| moved(Step { optimiser, ..STEP });
        assert_eq!([Optimiser::Sgd, Optimiser::Momentum, Optimiser::Adam].map(of), [3, 5, 7]);
        assert_eq!(STEP.kernels(100, 5).len(), 1);
    }

    #[test]
    fn foreach_moves_what_each_operation_works_on() {
        let of = |optimiser, decays| moved(Step { optimiser, decays, implementation: Implementation::Foreach, ..STEP });
        assert_eq!([Optimiser::Sgd, Optimiser::Momentum, Optimiser::Adam].map(|o| of(o, true)), [6, 11, 20]);
        assert_eq!([Optimiser::Sgd, Optimiser::Momentum, Optimiser::Adam].map(|o| of(o, false)), [3, 8, 18]);
    }

    #[test]
    fn a_loop_has_a_kernel_for_each_tensor_and_operation() {
        let step = Step { implementation: Implementation::ForLoop, ..STEP };
        assert_eq!(step.kernels(100, 5).len(), 40);
        assert_eq!(moved(step), 20);
    }

    /// As many as a profiler saw: GPT-2 (medium), Llama of 1.3 billion parameters and ResNet-50.
    #[test]
    fn a_kernel_takes_some_tensors_and_some_chunks() {
        assert_eq!(STEP.kernels(354_823_168, 292).len(), 17);
        assert_eq!(STEP.kernels(1_345_423_360, 219).len(), 65);
        assert_eq!(STEP.kernels(25_557_032, 161).len(), 5);
        assert_eq!(Step { optimiser: Optimiser::Momentum, ..STEP }.kernels(25_557_032, 161).len(), 4);
        let chunk = |parameters| match STEP.kernels(parameters, 2)[0].kind {
            Some(KernelKind::Memory(traffic)) => traffic.columns,
            _ => 0,
        };
        assert_eq!([100, 1 << 20].map(chunk), [50, 65_536]);
    }

    #[test]
    fn a_narrow_copy_is_written_too() {
        let kernels = Step { copy_bytes: Some(2), ..STEP }.kernels(100, 5);
        assert_eq!(kernels.iter().map(|kernel| kernel.bytes).collect::<Vec<_>>(), [2800, 600]);
    }
}
