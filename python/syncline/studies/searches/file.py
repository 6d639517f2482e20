"""Reads a search file: an experiment with the section `search`, which says what is varied.

    name: gpt3
    topology: dgx-a100(nodes=128)
    workload: {model: gpt3-175b, global_batch: 1536}
    network: flow
    search:
      tensor: [1, 2, 4, 8]          # a list, or auto: all that divide
      pipeline: auto
      recompute: [selective, full]
      objective: iteration_time
      simulate: 20

The fields of `parallel` that are not varied are as the experiment says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import ValidationError

from syncline.base import document, inputs, quantities
from syncline.base.document import Mapping, Node, Scalar
from syncline.base.errors import UNKNOWN_KEY, InputError, Problem, did_you_mean, one_of
from syncline.base.quantities import QuantityError
from syncline.experiment import export, load, merge
from syncline.experiment.load import Variant
from syncline.experiment.merge import Override
from syncline.sections import wording
from syncline.sections.algorithms import Algorithm
from syncline.sections.parallel import Axis as OrderAxis
from syncline.sections.parallel import Parallel, Schedule
from syncline.sections.workloads import DividedWorkload

WAYS: Final = ("tensor", "context", "expert", "pipeline", "data")
"""Axes whose values divide the NPUs."""
NUMBERS: Final = (*WAYS, "virtual", "micro_batch", "zero")
WORDS: Final[dict[str, tuple[str, ...]]] = {
    "schedule": get_args(Schedule),
    "recompute": get_args(Parallel.model_fields["recompute"].annotation),
    "algorithm": tuple(name for name in get_args(Algorithm) if name != "auto"),
}
AXES: Final = ("topology", *NUMBERS, *WORDS, "sequence", "order")
"""What may be varied, the slowest first."""
OBJECTIVES: Final = ("iteration_time", "throughput_per_npu")
OTHERS: Final = ("objective", "simulate", "memory")
LARGEST: Final = 1_048_576
MOST_SIMULATED: Final = 100_000
MOST_VALUES: Final = 256

Objective = Literal["iteration_time", "throughput_per_npu"]
Auto = Literal["auto"]
Values = list[Any] | Auto

_BATCH: Final = ("workload", "global_batch")


@dataclass(frozen=True, slots=True)
class Search:
    """A search file."""

    name: str
    description: str
    bases: tuple[Variant, ...]
    """The experiment on each topology; what its `parallel` says of axes that vary is of no account."""
    axes: dict[str, Values]
    """The values of each axis that varies, but for `topology`."""
    objective: Objective = "iteration_time"
    simulate: int | None = 20
    """How many candidates are simulated; None for all that may be the best."""
    memory: int | None = None
    """Bytes that an NPU may use, where that is less than it has."""
    warnings: tuple[str, ...] = ()

    def available(self, base: Variant) -> int:
        """Bytes that an NPU may use."""
        return min(size for size in (self.memory, base.experiment.npu.available) if size is not None)


@dataclass(slots=True)
class _Reading:
    """The section `search` on its way to a search."""

    section: Mapping
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, node: Node, message: str, accepted: str | None = None) -> None:
        self.problems.append(node.origin.problem(message, document.plain(node), accepted))


def load_file(path: Path, label: str, overrides: Sequence[Override] = ()) -> Search:
    """Reads the search file at `path`. Raises [`InputError`] with everything that is wrong with it."""
    root = document.read(document.read_text(path, label), label)
    return of_tree(root, label, inputs.folder_of(path), overrides)


def of_tree(root: Node, label: str, folder: Path, overrides: Sequence[Override] = ()) -> Search:
    """The same of a file that has been read, or of values that stand for one; relative paths start in `folder`."""
    if not isinstance(root, Mapping):
        message = "a search file is a mapping: an experiment with the section search"
        raise InputError([root.origin.problem(message, document.plain(root))])
    problems: list[Problem] = []
    for override in overrides:
        try:
            merge.apply(root, override)
        except InputError as error:
            problems += error.problems
    section = root.entries.pop("search", None)
    for key in ("variants", "baseline"):
        if (node := root.entries.pop(key, None)) is not None:
            problems.append(node.origin.problem(f"a search has one experiment, without {key}", None, "a file for each"))
    if not isinstance(section, Mapping):
        origin = root.origin.below("search", root.origin.line) if section is None else section.origin
        message = "this is missing" if section is None else "a mapping of what varies is needed"
        problems.append(origin.problem(message, None, f"a mapping with some of {one_of(AXES)}"))
    if problems or not isinstance(section, Mapping):
        raise InputError(problems)
    reading = _Reading(section)
    axes = _axes(reading)
    objective, simulate, memory = _objective(reading), _simulate(reading), _memory(reading)
    if reading.problems:
        raise InputError(reading.problems)
    topologies = axes.pop("topology", None)
    nodes = section.entries["topology"].items if topologies and topologies != "auto" else [root.entries.get("topology")]  # type: ignore[union-attr]
    bases: list[Variant] = []
    warnings: dict[str, None] = {}
    for node in nodes:
        base, more = _base(root, label, folder, node)
        bases.append(_with_stated_algorithm(base) if "algorithm" in axes else base)
        warnings |= dict.fromkeys(more)
    search = Search(
        bases[0].name, bases[0].experiment.description, tuple(bases), axes, objective, simulate, memory, tuple(warnings)
    )
    for base in bases:
        if base.experiment.npu.memory is None and memory is None:
            message = "it is not known how much memory an NPU has"
            accepted = "search.memory, npu.memory, npu.gpu, or a machine as topology"
            raise InputError([base.problem(("npu", "memory"), message, accepted)])
    return search


def _base(root: Mapping, label: str, folder: Path, topology: Node | None) -> tuple[Variant, list[str]]:
    """The experiment on a topology, with `parallel` as written, whether or not that goes together, and warnings.

    It is read as plain data parallelism with a batch that this divides, which is always legal: the candidates are not
    that experiment, and each is checked by itself.
    """
    tree = document.copied(root)
    assert isinstance(tree, Mapping)
    if topology is not None:
        tree.entries["topology"] = document.copied(topology)
    parallel = _parallel(tree)
    workload = tree.entries.get("workload")
    batch = workload.entries.get("global_batch") if isinstance(workload, Mapping) else None
    given = batch.value if isinstance(batch, Scalar) else None
    if isinstance(workload, Mapping) and isinstance(batch, Scalar) and type(given) is int and given >= 1:
        npus = _npus(tree, label, folder)
        workload.entries["global_batch"] = Scalar(npus * max(1, -(-given // npus)), batch.origin)
    study = load.load(tree, label, folder)
    variant = study.variants[0]
    if not isinstance(variant.experiment.workload, DividedWorkload):
        message = "there is no model that could be divided"
        raise InputError([variant.problem(("workload",), message, "workload.model with workload.global_batch")])
    changed = {
        "workload": variant.experiment.workload.model_copy(update={"global_batch": given}),
        "parallel": parallel,
    }
    return replace(variant, experiment=variant.experiment.model_copy(update=changed)), list(study.warnings)


def _with_stated_algorithm(variant: Variant) -> Variant:
    """The variant as if its algorithm had been written down: what a search names is for all kinds of collectives."""
    collective = variant.experiment.collective
    changed = {"collective": collective.changed({"algorithm": collective.algorithm})}
    return replace(variant, experiment=variant.experiment.model_copy(update=changed))


def _parallel(tree: Mapping) -> Parallel:
    """The section `parallel`, legal by itself, which is taken out of the tree."""
    node = tree.entries.get("parallel")
    if node is None:
        return Parallel()
    try:
        found = Parallel.model_validate(document.plain(node))
    except ValidationError as error:
        problems: list[Problem] = []
        for violation in wording.violations(error, ("parallel",)):
            problems.append(load._place(violation, tree))
        raise InputError(problems) from None
    del tree.entries["parallel"]
    return found


def _npus(tree: Mapping, label: str, folder: Path) -> int:
    """The NPUs that take part: those of a collective among them."""
    kept = {key: document.copied(node) for key, node in tree.entries.items() if key in ("name", "topology", "gpus")}
    probe = Mapping(kept, tree.origin)
    origin = tree.entries["workload"].origin
    probe.entries["workload"] = Mapping(
        {"collective": Scalar("all-reduce", origin), "size": Scalar("1MiB", origin)}, origin
    )
    return load.load(probe, label, folder).variants[0].experiment.taking_part


def _axes(reading: _Reading) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for key, node in reading.section.entries.items():
        if key in AXES:
            values = _values(reading, key, node)
            if values:
                found[key] = values
        elif key not in OTHERS:
            known = (*AXES, *OTHERS)
            reading.refuse(node, f"{UNKNOWN_KEY}{did_you_mean(key, known)}", f"the keys {one_of(known)}")
    if not found and not reading.problems:
        reading.refuse(reading.section, "nothing varies", f"values for some of {one_of(AXES)}")
    return {name: found[name] for name in AXES if name in found}


def accepted(axis: str) -> str:
    """What values an axis may have."""
    if axis == "topology":
        return "a list of topologies"
    if axis in WORDS:
        return f"auto, or a list of some of {one_of(WORDS[axis])}"
    if axis == "sequence":
        return "auto, or a list of true and false"
    if axis == "order":
        return "auto, or a list of orders such as [tensor, context, data, pipeline]"
    return "auto, or a list of some of 0, 1, 2, 3" if axis == "zero" else "auto, or a list of numbers from 1 on"


def _values(reading: _Reading, axis: str, node: Node) -> Values | None:
    if isinstance(node, Scalar) and node.value == "auto" and axis != "topology":
        return "auto"
    if not isinstance(node, document.Sequence) or not node.items:
        reading.refuse(node, "these are no values for the axis", accepted(axis))
        return None
    if len(node.items) > MOST_VALUES:
        reading.refuse(node, f"these are {len(node.items)} values", f"at most {MOST_VALUES}")
        return None
    found: list[Any] = []
    for item in node.items:
        value = document.plain(item)
        if not _is_legal(axis, value):
            reading.refuse(item, "this is no value for the axis", accepted(axis).removeprefix("auto, or "))
        elif value in found:
            reading.refuse(item, "this is listed twice")
        else:
            found.append(value)
    return found


def _is_legal(axis: str, value: object) -> bool:
    if axis == "topology":
        return isinstance(value, str | dict)
    if axis == "sequence":
        return isinstance(value, bool)
    if axis in WORDS:
        return value in WORDS[axis]
    if axis == "order":
        return isinstance(value, list) and sorted(map(str, value)) == sorted(get_args(OrderAxis))
    least, most = (0, 3) if axis == "zero" else (1, LARGEST)
    return type(value) is int and least <= value <= most


def _objective(reading: _Reading) -> Objective:
    node = reading.section.entries.get("objective")
    value = None if node is None else document.plain(node)
    if node is not None and value not in OBJECTIVES:
        reading.refuse(node, "this is not an objective", one_of(OBJECTIVES))
    return "throughput_per_npu" if value == "throughput_per_npu" else "iteration_time"


def _simulate(reading: _Reading) -> int | None:
    node = reading.section.entries.get("simulate")
    if node is None:
        return 20
    value = document.plain(node)
    if value == "all":
        return None
    if type(value) is int and 1 <= value <= MOST_SIMULATED:
        return value
    reading.refuse(node, "this is not a number of simulations", f"1 to {MOST_SIMULATED}, or all")
    return None


def _memory(reading: _Reading) -> int | None:
    node = reading.section.entries.get("memory")
    if node is None:
        return None
    try:
        return quantities.size(document.plain(node))
    except QuantityError as error:
        reading.refuse(node, error.message, error.accepted)
        return None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of search files: that of experiments, with the section `search`."""
    schema = export.json_schema()
    for key in ("variants", "baseline"):
        schema["properties"].pop(key, None)
    properties: dict[str, Any] = {axis: _axis_schema(axis) for axis in AXES}
    properties["objective"] = {"enum": list(OBJECTIVES), "description": "What is to be best."}
    properties["simulate"] = {
        "description": "How many candidates are simulated, or all that may be the best.",
        "anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_SIMULATED}, {"const": "all"}],
    }
    properties["memory"] = {
        "description": f"Bytes that an NPU may use: {quantities.SIZE.accepted}.",
        "type": ["string", "integer"],
    }
    schema["properties"]["search"] = {
        "type": "object",
        "description": "What is varied, and what is to be best.",
        "properties": properties,
        "additionalProperties": False,
        "minProperties": 1,
    }
    schema["required"] = ["name", "search"]
    schema["title"] = "Syncline search"
    return schema


def _axis_schema(axis: str) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": LARGEST}
    if axis == "zero":
        item = {"enum": [0, 1, 2, 3]}
    elif axis in WORDS:
        item = {"enum": list(WORDS[axis])}
    elif axis == "sequence":
        item = {"type": "boolean"}
    elif axis == "order":
        item = {
            "type": "array",
            "items": {"enum": list(get_args(OrderAxis))},
            "minItems": 4,
            "maxItems": 4,
            "uniqueItems": True,
        }
    elif axis == "topology":
        item = {"type": ["string", "object"]}
    values = {"type": "array", "items": item, "minItems": 1, "maxItems": MOST_VALUES, "uniqueItems": True}
    return {
        "description": f"{accepted(axis)}.",
        **(values if axis == "topology" else {"anyOf": [{"const": "auto"}, values]}),
    }
