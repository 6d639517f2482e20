"""Modules of PyTorch as graphs: operators with shapes, found by tracing a module with torch.fx.

`from_module` needs PyTorch, which is imported when it is called and nowhere else; what it returns is a description in
plain values, which `json.dump` writes and `syncline import fx` reads. Operators become compute nodes of a training
iteration under data parallelism: forward, then backward from the last one, gradients reduced layer by layer.

Operations of an operator, forward (multiply and add count two): `linear` 2 x elements of the result x inputs of each;
`conv` 2 x elements of the result x channels in / groups x elements of the kernel, `conv-transpose` 2 x elements of the
input x channels out / groups x elements of the kernel; `matmul` 2mkn; `attention` two matrix
products, 4 x heads x queries x keys x width, and 5 for each score; norms and softmax 5 for each element, others 1.
Backward costs as much again for the gradient of each operand that has one. Bytes are those of operands and results,
each read or written once. Parameters that several operators use are exchanged and updated once, when the gradient of
the first one is there; those that are not trained have no gradients.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from syncline.base import inputs
from syncline.base.errors import InputError, command_line, one_of, shown
from syncline.importers import output
from syncline.importers.json_text import Text, load
from syncline.importers.output import Asked, Imported

FORMAT: Final = "syncline-fx"
VERSION: Final = 1
MAX_BYTES: Final = 64 * 1024 * 1024
MOST: Final = 2**62
PER_ELEMENT: Final = {"norm": 5, "softmax": 5, "pool": 1, "elementwise": 1, "other": 1, "embedding": 0}
"""Operations for each element of the result."""
OPS: Final = ("linear", "conv", "conv-transpose", "matmul", "attention", *PER_ELEMENT)
KEYS: Final = ("name", "op", "layer", "inputs", "output", "weight", "parameters", "shared", "element", "groups")
FAMILY: Final = "data"
"""The communicators that reduce gradients."""
MISSING: Final = "PyTorch is not installed: from_module needs it (see pytorch.org, 'Get Started')"
SHAPE: Final = "a list of whole numbers from 1"
"""What is accepted as a shape."""


class UntraceableError(ValueError):
    """A module that cannot be described; the message says why, and what to do."""


def from_module(module: Any, example_inputs: Sequence[Any]) -> dict[str, Any]:
    """A description of a `torch.nn.Module`: its operators with shapes, in the order in which it runs them.

    `example_inputs` are the positional arguments of a call; other arguments keep their defaults. The module is traced
    with torch.fx and run once on them, without gradients; what that changes of its buffers is undone.

    Raises [`UntraceableError`] if torch.fx cannot trace it, it does not take these inputs, or it has layers whose
    operations are not known, and `ImportError` without PyTorch.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":  # there is one, which is not whole
            raise
        raise ModuleNotFoundError(MISSING, name=error.name) from None
    from torch.fx.passes.shape_prop import ShapeProp

    if not isinstance(module, torch.nn.Module):
        raise UntraceableError(f"{shown(module)} is no torch.nn.Module")
    traced = _traced(torch, module, len(example_inputs))
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        # ShapeProp prints a traceback of its own before it raises.
        with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):
            ShapeProp(traced).propagate(*example_inputs)
    except Exception as error:
        cause = error.__cause__ or error
        message = f"{type(module).__name__} cannot be run on the example inputs: {_first_line(cause)}"
        raise UntraceableError(message) from error
    finally:
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                buffer.copy_(buffers[name])
    return described(traced)


def _traced(torch: Any, module: Any, inputs: int) -> Any:
    """A module as a graph of torch.fx, of which the first so many arguments are inputs."""

    class Tracer(torch.fx.Tracer):  # type: ignore[misc]
        def is_leaf_module(self, m: Any, name: str) -> bool:
            """Layers of PyTorch are operators, but those made of others (TransformerEncoderLayer) are looked into."""
            made_of_others = any(True for _ in m.children()) and type(m).__name__.lower() not in _KINDS
            return bool(super().is_leaf_module(m, name)) and not made_of_others

    name = type(module).__name__
    tracer = Tracer()
    if tracer.is_leaf_module(module, ""):  # one operator, which is not looked into
        graph = torch.fx.Graph()
        given = tuple(graph.placeholder(f"input_{place}") for place in range(inputs))
        graph.output(graph.call_module("module", given))
        return torch.fx.GraphModule({"module": module}, graph, name)
    parameters = list(inspect.signature(module.forward).parameters.values())
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    defaults = {
        parameter.name: parameter.default
        for parameter in parameters[inputs:]
        if parameter.kind in named and parameter.default is not inspect.Parameter.empty
    }
    try:
        with _without_fast_path(torch):
            graph = tracer.trace(module, concrete_args=defaults)
    except Exception as error:  # whatever its forward pass raises when it is given no data
        message = f"torch.fx cannot trace {name}: {_first_line(error)}; describe parts of it that do not depend on data"
        raise UntraceableError(message) from error
    return torch.fx.GraphModule(tracer.root, graph, name)


@contextlib.contextmanager
def _without_fast_path(torch: Any) -> Iterator[None]:
    """Turns off the fast path of transformer layers for a while: it is for inference, and asks for properties of data
    that there is none of. Old versions of PyTorch have no such switch."""
    settings = getattr(torch.backends, "mha", None)
    if settings is None or not settings.get_fastpath_enabled():
        yield
        return
    settings.set_fastpath_enabled(False)
    try:
        yield
    finally:
        settings.set_fastpath_enabled(True)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def described(traced: Any) -> dict[str, Any]:
    """The description of a traced module whose nodes know their shapes (`tensor_meta`).

    Raises [`UntraceableError`] if it has a layer with weights that is not known.
    """
    modules = dict(traced.named_modules())
    operators = []
    seen: set[int] = set()
    for node in traced.graph.nodes:
        shape = _shape(node)
        if node.op not in ("call_module", "call_function", "call_method") or shape is None:
            continue
        layer, owned = _layer(node, modules, traced)
        kind = _kind(node, modules)
        if kind is None:
            continue
        weight = next((list(p.shape) for p in owned if len(p.shape) > 1), None)
        if kind == "elementwise" and weight is not None and node.op == "call_module":
            of = type(modules[str(node.target)]).__name__
            message = f"the operations of layer {layer} ({of}) are not known"
            raise UntraceableError(f"{message}; accepted: layers of {one_of(sorted({k for k, _ in _WORDS}))}")
        module = modules.get(str(node.target)) if node.op == "call_module" else None
        trained = [p for p in owned if getattr(p, "requires_grad", False)]
        operators.append(
            {
                "name": str(node.name),
                "op": kind,
                "layer": layer,
                "inputs": [
                    _batch_first(size, module)
                    for size in (_shape(arg) for arg in node.all_input_nodes if arg.op != "get_attr")
                    if size
                ],
                "output": _batch_first(shape, module),
                "weight": weight,
                "parameters": sum(math.prod(p.shape) for p in trained),
                "shared": sum(math.prod(p.shape) for p in trained if id(p) in seen),
                "element": _element(node),
                "groups": int(getattr(module, "groups", 1)),
            }
        )
        seen |= {id(p) for p in trained}
    name = type(traced).__name__
    title = getattr(traced, "_get_name", lambda: name)()
    return {"format": FORMAT, "version": VERSION, "module": title, "operators": operators}


def _batch_first(shape: list[int], module: Any) -> list[int]:
    """A shape as samples x tokens x features, where a layer has tokens x samples x features."""
    return (
        [shape[1], shape[0], shape[2]] if len(shape) == 3 and getattr(module, "batch_first", True) is False else shape
    )


_FREE: Final = frozenset(
    {
        *("view", "reshape", "permute", "transpose", "flatten", "squeeze", "unsqueeze", "expand", "contiguous", "size"),
        *(
            "getitem",
            "getattr",
            "chunk",
            "split",
            "t",
            "detach",
            "identity",
            "dropout",
            "unflatten",
            "unbind",
            "narrow",
        ),
    }
)
"""Operators that move no data, or none in training that is worth counting."""
_WORDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("attention", ("scaled_dot_product_attention", "multiheadattention")),
    ("embedding", ("embedding", "embeddingbag", "embedding_bag")),
    ("linear", ("linear",)),
    ("conv", ("conv1d", "conv2d", "conv3d")),
    ("conv-transpose", ("convtranspose1d", "convtranspose2d", "convtranspose3d")),
    ("conv-transpose", ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")),
    ("matmul", ("matmul", "bmm", "mm", "einsum", "baddbmm", "addmm")),
    ("norm", ("norm", "layernorm", "rmsnorm", "groupnorm", "instancenorm2d", "layer_norm", "batch_norm", "rms_norm")),
    ("norm", ("batchnorm1d", "batchnorm2d", "batchnorm3d", "group_norm")),
    ("softmax", ("softmax", "log_softmax", "logsoftmax", "cross_entropy", "crossentropyloss")),
    ("pool", ("maxpool2d", "avgpool2d", "adaptiveavgpool2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d")),
)
"""Kinds of operators, by the names that torch has for them in lower case."""
_KINDS: Final = {name: kind for kind, names in _WORDS for name in names}


def _kind(node: Any, modules: Mapping[str, Any]) -> str | None:
    """The kind of an operator; none for those that only look at data in another way."""
    if node.op == "call_module":
        name = type(modules[str(node.target)]).__name__.lower()
    else:
        name = getattr(node.target, "__name__", str(node.target)).lower()
    if name in _FREE:
        return None
    return _KINDS.get(name, "elementwise")


def _layer(node: Any, modules: Mapping[str, Any], traced: Any) -> tuple[str, list[Any]]:
    """What an operator is accounted to, and the parameters (and constants) that it reads."""
    if node.op == "call_module":
        target = str(node.target)
        return target, list(modules[target].parameters())
    owned, layer = [], str(node.name)
    for argument in node.all_input_nodes:
        if argument.op != "get_attr":
            continue
        value: Any = traced
        for part in str(argument.target).split("."):
            value = getattr(value, part)
        if hasattr(value, "requires_grad"):
            owned.append(value)
            layer = str(argument.target).rpartition(".")[0] or layer
    return layer, owned


def _shape(node: Any) -> list[int] | None:
    meta = getattr(node, "meta", {}).get("tensor_meta")
    if isinstance(meta, tuple) and not hasattr(meta, "shape"):
        meta = meta[0] if meta else None
    shape = getattr(meta, "shape", None)
    return None if shape is None else [int(size) for size in shape]


def _element(node: Any) -> int:
    meta = node.meta.get("tensor_meta")
    meta = meta[0] if isinstance(meta, tuple) and not hasattr(meta, "dtype") else meta
    return int(getattr(getattr(meta, "dtype", None), "itemsize", 4))


def imported(arguments: Sequence[str], asked: Asked) -> Imported:
    """A saved description as a graph, with an experiment. Raises [`InputError`]."""
    if len(arguments) != 1:
        raise command_line("FILE", " ".join(arguments), "this is more than one file", "one description of a module")
    label = arguments[0]
    text = load(inputs.read_bytes(inputs.given(label), label, MAX_BYTES), label)
    operators = _read(text)
    npus = asked.npus or 1
    assumptions: list[str] = []
    if asked.npus is None:
        assumptions.append("npus = 1 (--npus says how many train the module together)")
    topology = asked.topology
    if asked.like is None:
        topology = output.checked_topology(topology, npus, assumptions)
    nodes = training(operators, npus)
    graph = {
        "format": "syncline-graph",
        "families": {FAMILY: {"members": {"groups": [list(range(npus)) if npus < 3 else f"0-{npus - 1}"]}}},
        "classes": {"all NPUs": {"npus": f"0-{npus - 1}" if npus > 1 else [0], "nodes": nodes}},
    }
    name = text.values.get("module")
    made = Imported("fx", name if isinstance(name, str) and name else Path(label).stem, graph, topology=topology)
    made.sections = output.sections_of_default(asked.backend)
    made.workload["element"] = f"{max((op['element'] for op in operators), default=4)}B"
    made.assumptions = [*assumptions, "updates read weights and gradients, and write weights (no state)"]
    made.facts = {
        "npus": npus,
        "nodes": len(nodes) * npus,
        "operators": len(operators),
        "parameters": sum(map(own, operators)),
        "forward_flops": sum(flops(op) for op in operators),
        "classes": [{"name": "all NPUs", "nodes": len(nodes)}],
        "families": [{"name": FAMILY, "communicators": 1}],
    }
    return made


def _read(text: Text) -> list[dict[str, Any]]:
    """The operators of a description. Raises [`InputError`] with all that is wrong."""
    values = text.values
    if not isinstance(values, dict) or values.get("format") != FORMAT or values.get("version") != VERSION:
        accepted = f'an object with "format": "{FORMAT}", "version": {VERSION}, as from_module returns it'
        raise InputError([text.problem([], "this is no description of a module", None, accepted)])
    operators = values.get("operators")
    if not isinstance(operators, list) or not operators:
        raise InputError([text.problem(["operators"], "there are no operators", None, "a list")])
    problems = []
    shape_of: Callable[[Any], bool] = lambda v: (  # noqa: E731
        isinstance(v, list) and len(v) <= 16 and all(type(n) is int and 0 < n < MOST for n in v)
    )
    for place, of in enumerate(operators):
        path: list[str | int] = ["operators", place]
        if not isinstance(of, dict):
            problems.append(text.problem(path, "this is no operator", shown(of), "an object"))
            continue
        checks: dict[str, tuple[bool, str]] = {
            "name": (isinstance(of.get("name"), str) and 0 < len(of["name"]) <= 200, "text"),
            "op": (of.get("op") in OPS if isinstance(of.get("op"), str) else False, one_of(OPS)),
            "layer": (isinstance(of.get("layer"), str) and 0 < len(of["layer"]) <= 200, "text"),
            "inputs": (isinstance(of.get("inputs"), list) and all(map(shape_of, of["inputs"])), f"lists: {SHAPE}"),
            "output": (shape_of(of.get("output")), SHAPE),
            "weight": (of.get("weight") is None or shape_of(of["weight"]), f"null, or {SHAPE}"),
            "parameters": (type(of.get("parameters")) is int and 0 <= of["parameters"] < MOST, "a whole number"),
            "shared": (type(of.get("shared", 0)) is int and 0 <= of.get("shared", 0) < MOST, "a whole number"),
            "element": (type(of.get("element")) is int and 0 < of["element"] <= 64, "bytes, from 1 to 64"),
            "groups": (type(of.get("groups", 1)) is int and 0 < of.get("groups", 1) < MOST, "a whole number from 1"),
        }
        for key, (is_legal, accepted) in checks.items():
            if not is_legal:
                problems.append(text.problem([*path, key], "this is not accepted", shown(of.get(key)), accepted))
        for key in of.keys() - set(KEYS):
            problems.append(text.problem([*path, key], "this key is not known", None, one_of(KEYS)))
        legal = all(is_legal for is_legal, _ in checks.values())
        if legal and of.get("shared", 0) > of["parameters"]:
            accepted = f"up to parameters, {of['parameters']}"
            problems.append(text.problem([*path, "shared"], "this is out of range", str(of["shared"]), accepted))
        if legal and max(flops(of), moved(of), 3 * of["parameters"]) >= 2**60:
            problems.append(text.problem(path, "this operator is too large", None, "up to 2^60 operations and bytes"))
        if len(problems) >= 50:
            break
    if problems:
        raise InputError(problems)
    return operators


def own(of: Mapping[str, Any]) -> int:
    """Trained parameters of an operator that no operator before it has."""
    return int(of["parameters"] - of.get("shared", 0))


def flops(of: Mapping[str, Any]) -> int:
    """Operations of an operator, forward."""
    out: int = math.prod(of["output"])
    first: list[int] = (of["inputs"] or [of["output"]])[0]
    weight: list[int] | None = of.get("weight")
    match of["op"]:
        case "linear":
            return 2 * out * int(weight[-1] if weight else (first or [1])[-1])
        case "conv":
            # A weight has the shape of channels out, channels in over groups, kernel.
            return 2 * out * (math.prod(weight[1:]) if weight else 1)
        case "conv-transpose":
            # Channels in, channels out over groups, kernel.
            return 2 * math.prod(first) * (math.prod(weight[1:]) if weight else 1)
        case "matmul":
            return 2 * out * (first or [1])[-1]
        case "attention":
            return _attention(of, first)
    return int(PER_ELEMENT[of["op"]] * out)


def _attention(of: Mapping[str, Any], queries: Sequence[int]) -> int:
    """Two products of queries, keys and values, and the softmax between; with weights, their projections as well."""
    keys = of["inputs"][1] if len(of["inputs"]) > 1 else queries
    if len(queries) < 2 or len(keys) < 2:
        return int(math.prod(of["output"]))
    rows = math.prod(queries[:-1])
    scores: int = rows * keys[-2]
    return int(4 * scores * queries[-1] + 5 * scores + 2 * of["parameters"] * rows)


def moved(of: Mapping[str, Any]) -> int:
    """Bytes of an operator, forward."""
    out = math.prod(of["output"])
    if of["op"] == "embedding":
        return int(2 * out * of["element"])
    weights = max(of["parameters"], math.prod(of.get("weight") or [0]))  # which may not be trained
    return int((out + sum(math.prod(shape) for shape in of["inputs"]) + weights) * of["element"])


def training(operators: Sequence[Mapping[str, Any]], npus: int) -> list[dict[str, Any]]:
    """The nodes of an iteration: forward, backward from the last operator, gradients of a layer reduced when the last
    of its operators is done, and its update, which the next iteration's forward waits for.
    """
    names = _names(operators)
    nodes: list[dict[str, Any]] = []
    owners: dict[str, list[int]] = {}
    for place, of in enumerate(operators):
        if own(of):
            owners.setdefault(of["layer"], []).append(place)
    for of, name in zip(operators, names, strict=True):
        node = _compute(f"{name} forward", of["layer"], "forward", flops(of), moved(of))
        if of["layer"] in owners:
            node["after_previous"] = [f"{of['layer']} update"]
        nodes.append(node)
    learnt = False
    trains: list[bool] = []
    """Whether something before an operator has parameters, so that its input has a gradient."""
    for of in operators:
        trains.append(learnt)
        learnt = learnt or bool(of["parameters"])
    for place in reversed(range(len(operators))):
        of, name, layer = operators[place], names[place], operators[place]["layer"]
        work, size = flops(of), moved(of)
        if of["parameters"]:
            nodes.append(_compute(f"{name} weight-grad", layer, "weight-grad", work, size))
            if owners.get(layer, [None])[0] == place:
                nodes += _reduced(layer, f"{name} weight-grad", operators, owners[layer], npus)
        if trains[place]:
            # A product of two activations has a gradient for each of them.
            twice = 2 if of["op"] in ("matmul", "attention") and not of["parameters"] else 1
            nodes.append(_compute(f"{name} input-grad", layer, "input-grad", twice * work, twice * size))
    updates = [node for node in nodes if node.get("pass") == "update"]
    return [node for node in nodes if node.get("pass") != "update"] + updates


def _reduced(
    layer: str, after: str, operators: Sequence[Mapping[str, Any]], owned: Sequence[int], npus: int
) -> list[dict[str, Any]]:
    """The all-reduce of a layer's gradients, and its update."""
    parameters = sum(own(operators[place]) for place in owned)
    size = sum(own(operators[place]) * operators[place]["element"] for place in owned)
    name, found = after, []
    if npus > 1:
        name = f"{layer} gradients"
        call = {"family": FAMILY, "kind": "all-reduce", "size": f"{size}B"}
        found.append({"name": name, "layer": layer, "pass": "weight-grad", "collective": call, "after": [after]})
    update = _compute(f"{layer} update", layer, "update", 2 * parameters, 3 * size)
    return [*found, update | {"after": [name]}]


def _compute(name: str, layer: str, pass_: str, ops: int, size: int) -> dict[str, Any]:
    return {"name": name, "layer": layer, "pass": pass_, "compute": {"flops": ops, "bytes": f"{size}B"}}


def _names(operators: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of operators, each once."""
    taken: set[str] = set()
    names: list[str] = []
    for place, of in enumerate(operators):
        name = of["name"][:150]
        name = f"{name} #{place}" if name in taken else name
        taken.add(name)
        names.append(name)
    return names
