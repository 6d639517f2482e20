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

use super::memory;
use crate::kernel_kind::MemoryKernel::{Cast, Update};
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

impl Step {
    /// Elements that each kernel moves for each parameter.
    const fn tensors(self) -> &'static [u64] {
        match (self.implementation, self.optimiser, self.decays) {
            (Implementation::Fused, Optimiser::Sgd, _) => &[3],
            (Implementation::Fused, Optimiser::Momentum, _) => &[5],
            (Implementation::Fused, Optimiser::Adam, _) => &[7],
            (_, Optimiser::Sgd, false) => &[3],
            (_, Optimiser::Sgd, true) => &[3, 3],
            (_, Optimiser::Momentum, false) => &[2, 3, 3],
            (_, Optimiser::Momentum, true) => &[3, 2, 3, 3],
            (_, Optimiser::Adam, false) => &[3, 2, 3, 2, 2, 2, 4],
            (_, Optimiser::Adam, true) => &[2, 3, 2, 3, 2, 2, 2, 4],
        }
    }

    /// The kernels of a step over so many parameters in so many tensors.
    #[must_use]
    pub fn kernels(self, parameters: u64, tensors: u64) -> Vec<Demand> {
        let bytes = u64::from(self.element_bytes);
        let over = |elements: u64| {
            let launched: Vec<_> = self
                .tensors()
                .iter()
                .map(|&moved| memory(Update, product(&[moved, elements]), bytes))
                .chain(self.copy_bytes.map(|copy| memory(Cast, elements, bytes + u64::from(copy))))
                .collect();
            launched
        };
        match self.implementation {
            Implementation::ForLoop => (0..tensors).flat_map(|_| over(parameters / tensors.max(1))).collect(),
            _ => over(parameters),
        }
    }
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

    #[test]
    fn a_narrow_copy_is_written_too() {
        let kernels = Step { copy_bytes: Some(2), ..STEP }.kernels(100, 5);
        assert_eq!(kernels.iter().map(|kernel| kernel.bytes).collect::<Vec<_>>(), [2800, 600]);
    }
}
