"""Whole training iterations on the H100 as sums of their kernels, held against what a profiler saw.

Nothing is fitted to them. `MEASURED` has the time in which kernels ran and their number, of plain PyTorch 2.11 on one NVIDIA H100
80GB HBM3 (SXM, 700 W) without communication: GPT with norms in front, biases and GELU; Llama with RMS norms, rotary positions
and SwiGLU; ResNet-50 of torchvision; Adam fused, SGD foreach with momentum.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lab.gpu_kernels import fit
from lab.gpu_kernels.fit import Constants
from syncline.core import _core
from syncline.models import file
from syncline.models.evaluate import evaluate

PS_PER_MS: Final = 10**9
ROTATED: Final = 2
"""Queries and keys."""


@dataclass(frozen=True)
class Iteration:
    """A measured iteration."""

    name: str
    operators: list[dict[str, Any]]
    measured_ms: float
    kernels: int | None
    kernels_of: str = "eager"
    element_bytes: int = 2
    framework: dict[str, Any] = field(default_factory=dict)
    optimiser: str = "adam"
    weight_bytes: int = 2

    def demands(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Its kernels, each with the operator that launches it."""
        framework = {
            "kernels": self.kernels_of,
            "wide_bytes": self.weight_bytes,
            "loss_bytes": self.element_bytes,
            **self.framework,
        }
        request = {
            "operators": [
                {"kind": o["kind"], "sizes": {k: v for k, v in o.items() if k != "kind"}} for o in self.operators
            ],
            "element_bytes": self.element_bytes,
            "framework": framework,
        }
        parameters, is_first = 0, True
        for operator, answer in zip(self.operators, json.loads(_core.demands(json.dumps(request))), strict=True):
            kind = operator["kind"]
            parameters += answer["params"]
            passes = ["forward", "weight_grad"] + ([] if is_first and kind == "convolution" else ["input_grad"])
            is_first = False
            for pass_ in passes:
                yield from ((f"{kind} {pass_}", kernel) for kernel in answer[pass_])
        yield from (("update", kernel) for kernel in self._update(parameters))

    def _update(self, parameters: int) -> list[dict[str, Any]]:
        tensors = {"adam": [7], "momentum": [2, 3, 3]}[self.optimiser]
        kind = {"memory": {"kernel": "update", "wide": self.weight_bytes >= 4}}
        return [{"flops": 0, "bytes": n * parameters * self.weight_bytes, "kind": kind} for n in tensors]


def transformer(
    batch: int, sequence: int, layers: int, hidden: int, heads: int, forward: int, vocabulary: int, llama: bool
) -> list[dict[str, Any]]:
    """The operators of a decoder."""
    rows = batch * sequence
    norm = {"kind": "rms-norm" if llama else "layer-norm", "rows": rows, "features": hidden}
    bias = 0 if llama else 1
    add = {"kind": "add", "rows": rows, "features": hidden}

    def linear(inputs: int, outputs: int, bias: int = bias) -> dict[str, Any]:
        return {"kind": "linear", "rows": rows, "inputs": inputs, "outputs": outputs, "bias": bias}

    attention = {"kind": "attention", "sequences": batch, "heads": heads, "kv_heads": heads, "queries": sequence}
    attention |= {"keys": sequence, "head_size": hidden // heads, "causal": 1, "fused": 1}
    rotary = [{"kind": "rotary", "rows": rows, "features": hidden}] * (ROTATED if llama else 0)
    projections = [linear(hidden, hidden)] * 3 if llama else [linear(hidden, 3 * hidden)]
    if llama:
        mlp = [linear(hidden, forward)] * 2 + [{"kind": "swiglu", "rows": rows, "features": forward}]
    else:
        mlp = [linear(hidden, forward), {"kind": "gelu", "rows": rows, "features": forward}]
    layer = [
        norm,
        *projections,
        *rotary,
        attention,
        linear(hidden, hidden),
        add,
        norm,
        *mlp,
        linear(forward, hidden),
        add,
    ]
    ends = [
        norm,
        linear(hidden, vocabulary, 0),
        {"kind": "softmax-cross-entropy", "rows": rows, "vocabulary": vocabulary},
    ]
    return [{"kind": "embedding", "rows": rows, "vocabulary": vocabulary, "features": hidden}, *layer * layers, *ends]


def network(name: str, samples: int) -> list[dict[str, Any]]:
    """The operators of a packaged network."""
    model = evaluate(file.load(name), samples)
    return [{"kind": operator.kind, **dict(operator.sizes)} for layer in model.layers for operator in layer.operators]


def measured() -> list[Iteration]:
    """What was measured."""
    gpt = {"layers": 24, "hidden": 1024, "heads": 16, "forward": 4096, "vocabulary": 50257, "llama": False}
    small = {"layers": 24, "hidden": 2048, "heads": 16, "forward": 5504, "vocabulary": 32000, "llama": True}
    large = {"layers": 8, "hidden": 4096, "heads": 32, "forward": 11008, "vocabulary": 32000, "llama": True}
    amp = {"loss_bytes": 4}
    image = {"residual_bytes": 2, "loss_bytes": 4}
    return [
        Iteration("gpt2-medium b8", transformer(8, 1024, **gpt), 63.112, 1081),
        Iteration("gpt2-medium b8 amp", transformer(8, 1024, **gpt), 75.898, 1615, framework=amp, weight_bytes=4),
        Iteration("gpt2-medium b2", transformer(2, 1024, **gpt), 19.545, 980),
        Iteration("llama-1.3b b4", transformer(4, 2048, **small), 157.727, 2084),
        Iteration("llama-1.3b b4 compile", transformer(4, 2048, **small), 132.897, 1532, kernels_of="compile"),
        Iteration("llama2-7b, 8 layers", transformer(1, 4096, **large), 96.300, 828),
        Iteration(
            "resnet50 b64 NHWC FP16 amp",
            network("resnet50", 64),
            14.074,
            762,
            framework=image,
            optimiser="momentum",
            weight_bytes=4,
        ),
        Iteration("resnet50 b64 NCHW BF16", network("resnet50", 64), 29.303, 886, framework=image | {"layout": "nchw"}),
        Iteration(
            "resnet50 b256 NHWC FP16 amp",
            network("resnet50", 256),
            51.0,
            None,
            framework=image,
            optimiser="momentum",
            weight_bytes=4,
        ),
        Iteration(
            "resnet50 b256 NCHW BF16", network("resnet50", 256), 113.0, None, framework=image | {"layout": "nchw"}
        ),
    ]


def predicted(iteration: Iteration, constants: Constants) -> tuple[float, dict[str, tuple[float, int]]]:
    """Milliseconds in all, and those and the kernels of each kind."""
    found = list(iteration.demands())
    request = {"compute": fit.compute(constants), "kernels": [kernel for _, kernel in found], "mix": True}
    by_kind: dict[str, tuple[float, int]] = {}
    for (kind, _), answer in zip(found, json.loads(_core.times(json.dumps(request))), strict=True):
        time_ms, kernels = by_kind.get(kind, (0.0, 0))
        by_kind[kind] = (time_ms + answer["time_ps"] / PS_PER_MS, kernels + 1)
    return sum(time_ms for time_ms, _ in by_kind.values()), by_kind
