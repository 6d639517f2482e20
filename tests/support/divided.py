"""Trainings that are divided: a GPT and a mixture of experts by hand, what their graphs exchange, and simulations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from syncline.base import document
from syncline.core import _core
from syncline.engine import completing
from syncline.experiment.load import load
from syncline.models.model import Layer, Model, Operator
from syncline.sections.parallel import Parallel
from syncline.strategies import build, checks
from syncline.strategies.build import Divided
from syncline.strategies.costs import Costs
from syncline.strategies.mesh import Mesh
from syncline.strategies.nodes import Node
from syncline.strategies.setting import Setting

ELEMENT: Final = 2
SHAPE: Final = {"layers": 4, "hidden": 48, "heads": 4, "vocabulary": 96, "tokens": 16}
"""A GPT that is small enough for whole simulations; its sizes have many divisors."""


def gpt(samples: int, shape: Mapping[str, int] = SHAPE, *, ends: bool = True) -> Model:
    """A GPT as Megatron-LM has it; with `ends`, embedding and head, which share a table."""
    layers, h, a, v, s = (shape[name] for name in ("layers", "hidden", "heads", "vocabulary", "tokens"))
    r = samples * s
    block = (
        _each("norm.1", "layer-norm", r, h),
        _linear("attention.qkv", r, h, 3 * h, "outputs"),
        core(samples, a, s, h // a),
        _linear("attention.output", r, h, h, "inputs"),
        *_residual(1, r, h),
        _each("norm.2", "layer-norm", r, h),
        _linear("mlp.up", r, h, 4 * h, "outputs"),
        _each("mlp.gelu", "gelu", r, 4 * h, {"tensor": "features"}),
        _linear("mlp.down", r, 4 * h, h, "inputs"),
        *_residual(2, r, h),
    )
    blocks = tuple(Layer(f"block.{number}", block) for number in range(layers))
    first, last = _ends(r, h, v, s)
    return Model("gpt", (first, *blocks, last) if ends else blocks, s, samples, h, (("embedding", "head"),) * ends)


def without_messages(model: Model) -> Model:
    """The same model, whose layers hand nothing on."""
    return replace(model, hidden=0)


def mixture(samples: int, experts: int, chosen: int, shape: Mapping[str, int] = SHAPE) -> Model:
    """Blocks with attention and a mixture of experts, without embedding and head."""
    layers, h, a, s = (shape[name] for name in ("layers", "hidden", "heads", "tokens"))
    r = samples * s

    def of_experts(name: str, inputs: int, outputs: int, divided: str) -> Operator:
        sizes = {"experts": experts, "rows": r * chosen, "inputs": inputs, "outputs": outputs}
        return Operator(name, "experts", sizes, {"expert": "experts", "tensor": divided})

    block = (
        _each("norm.1", "layer-norm", r, h),
        _linear("attention.qkv", r, h, 3 * h, "outputs"),
        core(samples, a, s, h // a),
        _linear("attention.output", r, h, h, "inputs"),
        _each("norm.2", "layer-norm", r, h),
        of_experts("experts.up", h, 4 * h, "outputs"),
        of_experts("experts.down", 4 * h, h, "inputs"),
    )
    return Model("mixture", tuple(Layer(f"block.{number}", block) for number in range(layers)), s, samples, h)


def core(samples: int, heads: int, tokens: int, size: int) -> Operator:
    """A core of attention whose scores go through memory."""
    sizes = {"sequences": samples, "heads": heads, "kv_heads": heads, "queries": tokens, "keys": tokens}
    sizes |= {"head_size": size, "value_size": size, "causal": 1, "fused": 0, "dropout": 1}
    return Operator("attention.core", "attention", sizes, {"tensor": "heads"})


def _linear(name: str, rows: int, inputs: int, outputs: int, divided: str) -> Operator:
    sizes = {"rows": rows, "inputs": inputs, "outputs": outputs, "bias": int(name != "logits")}
    return Operator(name, "linear", sizes, {"tensor": divided})


def _each(name: str, kind: str, rows: int, features: int, split: Mapping[Any, str] | None = None) -> Operator:
    return Operator(name, kind, {"rows": rows, "features": features}, split or {"sequence": "rows"})


def _residual(number: int, rows: int, features: int) -> tuple[Operator, Operator]:
    return _each(f"dropout.{number}", "dropout", rows, features), _each(f"add.{number}", "add", rows, features)


def _ends(r: int, h: int, v: int, s: int) -> tuple[Layer, Layer]:
    table = Operator("table", "embedding", {"rows": r, "vocabulary": v, "features": h}, {"tensor": "vocabulary"})
    places = Operator("places", "position-embedding", {"rows": r, "positions": s, "features": h}, {"sequence": "rows"})
    loss = Operator("loss", "softmax-cross-entropy", {"rows": r, "vocabulary": v}, {"tensor": "vocabulary"})
    first = Layer("embedding", (table, places, _each("dropout", "dropout", r, h)), block=False)
    norm = _each("norm", "layer-norm", r, h)
    return first, Layer("head", (norm, _linear("logits", r, h, v, "outputs"), loss), block=False)


def setting(parallel: Mapping[str, Any], npus: int, micros: int, model: Model | None = None, **more: Any) -> Setting:
    """A training on so many NPUs, in so many micro-batches for each copy of the model."""
    settled = checks.settled(Parallel.model_validate(dict(parallel)), npus, None)
    found = model or gpt(settled.micro_batch)
    return Setting(found, settled, Mesh.of(settled, npus), Costs(ELEMENT), micros, **more)


Exchanged = Counter[tuple[str, str]]


def exchanged(divided: Divided, *, nodes: bool = False) -> dict[str, Exchanged]:
    """By class, the bytes of each family and operation in an iteration of one NPU, or with `nodes` how many."""
    names = list(divided.families)
    found: dict[str, Exchanged] = {}
    for of in divided.classes:
        counted = found[of.name] = Counter()
        for node in of.nodes:
            work = node.work
            if "family" in work and work["op"] != "recv":
                size = work["bytes"] if work["op"] != "exchange" else sum(map(sum, work["bytes"]))
                counted[names[work["family"]], work.get("kind", work["op"])] += 1 if nodes else size
    return found


def of_one_class(parallel: Mapping[str, Any], npus: int, micros: int = 1, **more: Any) -> Exchanged:
    """The bytes that an NPU exchanges where all have the same program."""
    (found,) = exchanged(build.graph(setting(parallel, npus, micros, **more))).values()
    return found


def total(parallel: Mapping[str, Any], npus: int, micros: int = 1, **more: Any) -> Exchanged:
    """The bytes that one NPU of each class exchanges, together."""
    return sum(exchanged(build.graph(setting(parallel, npus, micros, **more))).values(), Counter())


def flops(divided: Divided, node: Node) -> int:
    """Operations of a node."""
    work = node.work
    return sum(kernel.flops for kernel in divided.costs[work["cost"]]) if work["op"] == "kernels" else 0


def simulated(divided: Divided, topology: str, fold: str = "auto") -> dict[str, Any]:
    """The summary of a run of some graphs on a network and endpoints without latency."""
    text = (
        f"name: a\ntopology: {topology}\nworkload: {{collective: all-reduce, size: 1MB}}\nnetwork: flow\n"
        f"endpoint: {{kind: ideal, step_latency: 0s}}\ncollective: {{algorithm: ring}}\nfold: '{fold}'\n"
    )
    (variant,) = load(document.read(text, "file.yaml"), "file.yaml", Path()).variants
    spec = completing.specification(variant.experiment)
    compute = {"flops_per_s": 1e12, "memory_bytes_per_s": 1e12, "scale": 1.0, "tile": None}
    families = [
        {"name": name, "members": members, "collectives": spec["collectives"]}
        for name, members in divided.families.items()
    ]
    job = {"kind": "graph", "graph": divided.engine_graph(), "iterations": 1, "drain": True, "compute": compute}
    asked = spec | {"families": families, "job": {**job, "stragglers": []}}
    found: dict[str, Any] = json.loads(_core.run(json.dumps(asked))["summary"])
    return found
