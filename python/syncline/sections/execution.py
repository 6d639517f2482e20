"""How an NPU runs a model: whose kernels, with which attention, and what its host takes to launch them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from syncline.fabric.gpus import GPUS
from syncline.models.model import Layout, Model, has_kind, with_attention
from syncline.sections.data_types import Widths
from syncline.sections.npu import Npu
from syncline.sections.workloads import Fusion, Training

KIB: Final = 1024
WIDE_LOSS = 4
"""Bytes of a logit where Megatron-LM computes the loss, whatever the types are."""
THREADS: Final = 2
"""Threads that launch products: that of the forward pass, and that of PyTorch's backward pass."""
WORKSPACES: Final = {True: 4096 * 8 * KIB, False: (4096 * 2 + 16 * 8) * KIB}
"""Bytes of cuBLAS's workspace in PyTorch, by whether the GPU is a Hopper or a later one: `:4096:8` and `:4096:2:16:8`
of `CUBLAS_WORKSPACE_CONFIG`. There is one for each thread and stream; a CUDA graph is captured on another stream."""


def workspace(npu: Npu, training: Training) -> int:
    """Bytes of the workspaces of matrix products that PyTorch keeps on a GPU."""
    if npu.gpu is None:
        return 0
    streams = 2 if training.launch == "graph" else 1
    return THREADS * streams * WORKSPACES["fp8" in GPUS[npu.gpu].peaks]


@dataclass(frozen=True, slots=True)
class Execution:
    """How an NPU runs a model."""

    kernels: Fusion | None = None
    """Whose kernels; the least kernels that operators need if none, for compute models that know no kinds of them."""
    fused: bool | None = None
    """Whether attention is one kernel; as the model has it if none."""
    host_kernel_time: int = 0
    """Picoseconds that the host takes to launch a kernel; 0 where it launches nothing."""
    fused_loss: bool = False
    """Whether cross-entropy takes logits as they are, without a cast."""
    workspace: int = 0
    """Bytes of the workspaces of matrix products, which the library keeps; 0 of an NPU that is no GPU."""

    @classmethod
    def of(cls, npu: Npu, training: Training) -> Execution:
        """That of an experiment."""
        return cls(
            kernels=training.kernels if npu.compute.kind == "gpu" else None,
            fused=None if training.attention is None else training.attention != "unfused",
            host_kernel_time=npu.host_kernel_time if training.launch == "host" else 0,
            fused_loss=npu.compute.kind == "gpu" and training.loss == "fused",
            workspace=workspace(npu, training),
        )

    @property
    def optimiser(self) -> Literal["fused", "foreach"]:
        """The implementation of an optimiser where none is stated: Megatron-LM takes Apex's fused one, and
        `torch.optim` lists of tensors.
        """
        return "foreach" if self.kernels in ("eager", "compile") else "fused"

    def model(self, model: Model) -> Model:
        """A model with its attention."""
        return model if self.fused is None else with_attention(model, fused=self.fused)

    def framework(self, widths: Widths, model: Model, layout: Layout, *, casts_whole: bool) -> dict[str, Any] | None:
        """The framework as the engine takes it (`Framework` in `crates/workload/src/frameworks.rs`); `casts_whole` says
        that an NPU casts whole weights before it uses them: what passes between layers is then as wide as weights are.
        """
        if self.kernels is None:
            return None
        wide = max(widths.compute, widths.weights) if casts_whole else widths.compute
        loss = WIDE_LOSS if self.kernels == "megatron" else widths.compute if self.fused_loss else widths.widest
        found: dict[str, Any] = {"kernels": self.kernels, "wide_bytes": wide, "loss_bytes": max(loss, widths.compute)}
        if has_kind(model, "convolution"):
            # What convolutions return is what is added, in their type: nothing makes it wider.
            found |= {"residual_bytes": widths.compute, "layout": layout}
        return found
