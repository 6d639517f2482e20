"""Whole training iterations on the H100 as sums of their kernels, held against what a profiler saw.

Nothing is fitted to their times; what GPUs draw is, to the time of the products in some of them, which are the slower
the less other work there is beside them. They were measured in plain PyTorch 2.11 on one NVIDIA H100 80GB HBM3 (SXM,
700 W) without communication: the time in which kernels ran, and their number. GPT has norms in front, biases and GELU;
Llama has RMS norms, rotary positions and SwiGLU; ResNet-50 is that of torchvision; Adam and SGD with momentum are
fused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lab.gpu_kernels import fit, rows
from lab.gpu_kernels.fit import Constants, Mix
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
    products_ms: float | None = None
    """Milliseconds of its products, where the profiler's kernels were added up."""

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
        parameters, tensors, is_first = 0, 0, True
        for operator, answer in zip(self.operators, json.loads(_core.demands(json.dumps(request))), strict=True):
            kind = operator["kind"]
            parameters += answer["params"]
            tensors += _tensors(operator) if answer["params"] else 0
            passes = ["forward", "weight_grad"] + ([] if is_first and kind == "convolution" else ["input_grad"])
            is_first = False
            for pass_ in passes:
                yield from ((f"{kind} {pass_}", kernel) for kernel in answer[pass_])
        step = {
            "optimiser": self.optimiser,
            "implementation": "fused",
            "decays": True,
            "element_bytes": self.weight_bytes,
        }
        yield from (("update", kernel) for kernel in rows.update(step, parameters, tensors))


def _tensors(operator: dict[str, Any]) -> int:
    return 2 if operator["kind"] in ("layer-norm", "batch-norm") or operator.get("bias") == 1 else 1


@dataclass(frozen=True)
class Decoder:
    """A transformer."""

    layers: int
    hidden: int
    heads: int
    forward: int
    vocabulary: int
    is_llama: bool = True

    def operators(self, batch: int, sequence: int) -> list[dict[str, Any]]:
        """Its operators."""
        rows, hidden, bias = batch * sequence, self.hidden, 0 if self.is_llama else 1
        norm = {"kind": "rms-norm" if self.is_llama else "layer-norm", "rows": rows, "features": hidden}
        add = {"kind": "add", "rows": rows, "features": hidden}
        attention = {"kind": "attention", "sequences": batch, "heads": self.heads, "kv_heads": self.heads}
        attention |= {"queries": sequence, "keys": sequence, "head_size": hidden // self.heads, "causal": 1, "fused": 1}

        def linear(inputs: int, outputs: int) -> dict[str, Any]:
            return {"kind": "linear", "rows": rows, "inputs": inputs, "outputs": outputs, "bias": bias}

        up = linear(hidden, self.forward)
        if self.is_llama:
            given = [linear(hidden, hidden)] * 3 + [{"kind": "rotary", "rows": rows, "features": hidden}] * ROTATED
            gated = [up, up, {"kind": "swiglu", "rows": rows, "features": self.forward}]
        else:
            given = [linear(hidden, 3 * hidden)]
            gated = [up, {"kind": "gelu", "rows": rows, "features": self.forward}]
        first = [norm, *given, attention, linear(hidden, hidden), add]
        second = [norm, *gated, linear(self.forward, hidden), add]
        table = {"rows": rows, "vocabulary": self.vocabulary}
        logits = {**linear(hidden, self.vocabulary), "bias": 0}
        ends = [norm, logits, {"kind": "softmax-cross-entropy", **table}]
        return [{"kind": "embedding", **table, "features": hidden}, *(first + second) * self.layers, *ends]


def network(name: str, samples: int) -> list[dict[str, Any]]:
    """The operators of a packaged network."""
    model = evaluate(file.load(name), samples)
    return [{"kind": operator.kind, **dict(operator.sizes)} for layer in model.layers for operator in layer.operators]


def measured() -> list[Iteration]:
    """What was measured."""
    gpt = Decoder(layers=24, hidden=1024, heads=16, forward=4096, vocabulary=50257, is_llama=False)
    small = Decoder(layers=24, hidden=2048, heads=16, forward=5504, vocabulary=32000)
    large = Decoder(layers=8, hidden=4096, heads=32, forward=11008, vocabulary=32000)
    amp = {"loss_bytes": 2}  # the profiler saw no cast of logits
    image = {"residual_bytes": 2, "loss_bytes": 4}
    return [
        Iteration("gpt2-medium b8", gpt.operators(8, 1024), 63.112, 1081, products_ms=40.275),
        Iteration(
            "gpt2-medium b8 amp",
            gpt.operators(8, 1024),
            75.898,
            1615,
            framework=amp,
            weight_bytes=4,
            products_ms=40.244,
        ),
        Iteration("gpt2-medium b2", gpt.operators(2, 1024), 19.545, 980, products_ms=10.906),
        Iteration("llama-1.3b b4", small.operators(4, 2048), 157.727, 2084, products_ms=84.165),
        Iteration(
            "llama-1.3b b4 compile", small.operators(4, 2048), 132.897, 1532, kernels_of="compile", products_ms=88.416
        ),
        Iteration("llama2-7b, 8 layers", large.operators(1, 4096), 96.300, 828, products_ms=57.533),
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


def mixes() -> list[Mix]:
    """The iterations whose products were added up, as what constants of power are fitted to."""
    return [
        Mix([kernel for _, kernel in iteration.demands()], 1e3 * iteration.products_ms)
        for iteration in measured()
        if iteration.products_ms is not None
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
