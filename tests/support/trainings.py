"""Every strategy by name, as the parts of an experiment that trains a toy model on eight NPUs.

Strategies that divide a model are found in the fields of `parallel`: a field that lists its values joins by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args, get_origin

from syncline.base.section import Section
from syncline.sections.parallel import GridAxis, Parallel
from syncline.sections.workloads import Training

NPUS: Final = 8

_SIZES: Final = {"layers": 4, "hidden": 32, "heads": 4, "vocabulary": 128, "positions": 16}
_GPT: Final = {"model": "gpt2", "parameters": _SIZES, "global_batch": 32}
_EXPERTS: Final = {
    "model": "mixtral-8x7b",
    "sequence": 16,
    "parameters": {"layers": 2, "hidden": 32, "heads": 4, "kv_heads": 2, "feed_forward": 64, "vocabulary": 64},
    "global_batch": 32,
}

_BESIDE: Final[Mapping[str, Mapping[str, Any]]] = {
    "sequence": {"tensor": 2},
    "context_exchange": {"context": 2},
    "expert_loads": {"expert": 2},
    "schedule": {"pipeline": 2},
    "scatter_gather": {"tensor": 2, "pipeline": 2},
    "prefetch": {"zero": 3},
    "hsdp": {"zero": 3},
    "recompute_operators": {"recompute": "operators"},
    "updates": {"parameter_server": "central"},
    "order": {"tensor": 2, "zero": 1},
    "overlap.tensor": {"tensor": 2},
    "overlap.pipeline": {"pipeline": 2},
}
"""What a field needs beside it to mean anything."""
_EXAMPLES: Final[Mapping[str, tuple[Any, ...]]] = {
    "expert_loads": ([1.0, 3.0],),
    "micro_batch": (2,),
    "recompute_operators": (["layernorm", "mlp"],),
    "zero": (1, 2, 3),
    "prefetch": (0, 2),
    "hsdp": (2,),
    "order": (["data", "tensor", "context", "pipeline"],),
    "collectives": ({"data": {"algorithm": "halving-doubling"}},),
}
"""Values of fields whose types do not list theirs."""
_ELSEWHERE: Final = frozenset({"virtual", "data", "on", "optimiser"})
"""Fields that are set by other strategies here, that need a product, or that say what is kept of a parameter."""
_TOGETHER: Final[Mapping[str, Mapping[str, Any]]] = {
    "interleaved": {"pipeline": 2, "schedule": "interleaved", "virtual": 2},
    "sharded asynchronous": {"parameter_server": "sharded", "updates": "asynchronous"},
    "tensor pipeline zero": {"tensor": 2, "sequence": True, "pipeline": 2, "zero": 1},
    "tensor expert": {"tensor": 2, "expert": 2},
}
"""Strategies of several fields."""


def _values(section: type[Section], at: str = "") -> Iterator[tuple[str, Any]]:
    """Every field of a section with every value but the usual one."""
    for name, field in section.model_fields.items():
        path, annotation = f"{at}{name}", field.annotation
        if path in _ELSEWHERE:
            continue
        if path in _EXAMPLES:
            values = _EXAMPLES[path]
        elif path in get_args(GridAxis):
            values = (2,)
        elif annotation is bool:
            values = (not field.default,)
        elif get_origin(annotation) is Literal:
            values = tuple(value for value in get_args(annotation) if value != field.default)
        elif isinstance(annotation, type) and issubclass(annotation, Section):
            yield from _values(annotation, f"{path}.")
            continue
        else:
            raise AssertionError(f"parallel.{path} needs a value in _EXAMPLES")
        yield from ((path, value) for value in values)


def _divided() -> Iterator[tuple[str, dict[str, Any]]]:
    """The strategies that divide a model."""
    yield "data", {}
    for path, value in _values(Parallel):
        if value == "interleaved":
            continue  # beside `virtual`
        *outer, name = path.split(".")
        own = {outer[0]: {name: value}} if outer else {name: value}
        yield f"{path} {value}", {**_BESIDE.get(path, {}), **own}
    yield from ((name, dict(parallel)) for name, parallel in _TOGETHER.items())


def _strategies() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, parallel in _divided():
        workload = _EXPERTS if "expert" in parallel else _GPT
        yield name, {"workload": workload, "parallel": parallel}
    copies = {"model": "gpt2", "parameters": _SIZES, "batch": 1}
    tables = {"tables": 8, "features": 8, "lookups": 2, "dense": 8, "bottom": 8, "bottom_depth": 0, "top": 8}
    models = {"hybrid": {"model": "dlrm", "batch": 8, "parameters": tables | {"top_depth": 0}}}
    for name in get_args(get_args(Training.model_fields["strategy"].annotation)[0]):
        yield f"{name} by batch", {"workload": models.get(name, copies), "training": {"iterations": 2}}
    jobs = [{"name": name, "npus": npus, "workload": copies} for name, npus in JOBS.items()]
    yield "jobs", {"jobs": jobs, "training": {"iterations": 1}}


JOBS: Final = {"one": "0-3", "two": "4-7"}
"""Two jobs and their NPUs."""
STRATEGIES: Final[Mapping[str, Mapping[str, Any]]] = dict(_strategies())
"""Every strategy by name, as the sections of an experiment that say how it trains."""
