"""Reads an experiment file: its variants, each a complete experiment, or everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from syncline.base import document, inputs, quantities
from syncline.base.document import Mapping, Node, Origin, Scalar
from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.base.quantities import QuantityError
from syncline.base.section import Violation
from syncline.experiment import merge, rules
from syncline.experiment.effect import Uses
from syncline.experiment.explain import explain
from syncline.experiment.merge import Override
from syncline.fabric import files
from syncline.fabric.fields import Unread
from syncline.fabric.gpu_products import Stated
from syncline.fabric.gpus import GPUS
from syncline.fabric.topologies import Wired
from syncline.models import file as model_files
from syncline.models.evaluate import ParameterError
from syncline.nccl import constants
from syncline.plans import load as plan_files
from syncline.plans import planned
from syncline.plans.planned import PlanFile
from syncline.sections import connection_matrix, graph_file, kernel_table
from syncline.sections.collective import PLANS_ACCEPTED
from syncline.sections.compute import TABLE_ACCEPTED
from syncline.sections.connection_matrix import Matrix
from syncline.sections.experiment import NAME_ACCEPTED, NAME_PATTERN, Experiment, TopologyFile
from syncline.sections.graph_file import GraphFile
from syncline.sections.kernel_table import KernelTable
from syncline.sections.networks import background
from syncline.sections.networks import sizes as size_files
from syncline.sections.networks.sizes import Sizes
from syncline.sections.npu import completed
from syncline.sections.software import Named
from syncline.sections.software import accepted as accepted_software
from syncline.sections.workloads import (
    GRAPH_ACCEPTED,
    TEXT_ACCEPTED,
    AstraWorkload,
    GraphWorkload,
    JobsWorkload,
    NamedModel,
    TextFile,
    models_of,
)

if TYPE_CHECKING:
    from syncline.core.cancelling import Cancellation

T = TypeVar("T")

MAX_VARIANTS: Final = 1000
MAX_WORKLOAD_BYTES: Final = 64 * 1024 * 1024
MAX_PATH: Final = 4096
RESERVED_NAMES: Final = frozenset({"inputs"})
SHARED_KEYS: Final = frozenset({"variants", "baseline"})
"""Keys that are about the whole file."""
SWEEP_KEYS: Final = frozenset({"base", "axes"})
"""What tells a sweep from an experiment."""


def _nowhere() -> Mapping:
    return Mapping({}, Origin("experiment", None))


@dataclass(frozen=True, slots=True)
class Choice:
    """What `collective.algorithm: auto` came to stand for."""

    chosen: str
    because: str
    candidates: tuple[dict[str, Any], ...]
    """Each algorithm as `documents.Candidate` describes it."""
    slices: int | None = None
    """Those of the pipelines of a single collective, if its trial has found how many."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What `collective.slices: miad` came to stand for."""

    slice_bytes: int
    """The most bytes of a slice in the steady state."""
    because: str
    iterations: tuple[dict[str, Any], ...]
    """The iterations before: `slice_bytes`, the `slices` of the largest chunk, and `time_s` of the iteration."""


BACKGROUND_FILES: Final[dict[str, tuple[int, Callable[[bytes, str], Sizes | Matrix], str]]] = {
    "sizes": (size_files.MAX_BYTES, size_files.read, size_files.ACCEPTED),
    "matrix": (connection_matrix.MAX_BYTES, connection_matrix.read, background.MATRIX_ACCEPTED),
}
"""The fields of traffic beside the run that name files: how much is read, by what, and what is accepted."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One simulation of a study."""

    name: str
    experiment: Experiment
    astra_text: str | None = None
    """The content of the file that `workload.astra_text` names."""
    choice: Choice | None = None
    """How the algorithm was chosen, if that was left open."""
    tuning: Tuning | None = None
    """How the size of slices was found, if that was left open."""
    tree: Mapping = field(default_factory=_nowhere, compare=False, repr=False)
    """What was written, and where."""
    seed: int = 0
    """The seed of random numbers."""
    memory_limit: int | None = None
    """Bytes that a simulation may take, if that is not for the process to say (`syncline.base.memory`)."""
    cancel: Cancellation | None = field(default=None, compare=False, repr=False)
    """What ends its simulations before they are finished."""

    def problem(self, path: tuple[str, ...], message: str, accepted: str | None = None) -> Problem:
        """A problem with a field, at the place where it was written."""
        return _place(Violation(path, message, accepted), self.tree)


@dataclass(frozen=True, slots=True)
class Study:
    """An experiment file, read."""

    name: str
    description: str
    variants: tuple[Variant, ...]
    warnings: tuple[str, ...] = ()
    baseline: str = ""
    """The variant that speed-ups are against; the first if not given."""

    def seeded(self, seed: int) -> Study:
        """The same study, with random numbers of another seed."""
        return replace(self, variants=tuple(replace(variant, seed=seed) for variant in self.variants))

    def limited(self, memory_limit: int | None) -> Study:
        """The same study, each of whose simulations may take so many bytes of memory."""
        return replace(self, variants=tuple(replace(variant, memory_limit=memory_limit) for variant in self.variants))

    def ended_by(self, cancel: Cancellation | None) -> Study:
        """The same study, whose simulations end when `cancel` is called."""
        return replace(self, variants=tuple(replace(variant, cancel=cancel) for variant in self.variants))


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different from a file when it is read."""

    overrides: Sequence[Override] = ()
    """These change the file and can be displaced by its variants."""
    forced: Sequence[Override] = ()
    """These change every variant."""
    only: Collection[str] | None = None
    """The variants that are read, if not all; there must be one of them."""
    folders: dict[str, Path] = field(default_factory=dict)
    """Where relative paths start that are written in other files, from which changes come."""
    uses: Uses | None = None
    """Takes what acts and what does not, which is then not refused: in other readings of the file it may act."""


@dataclass(slots=True)
class _Loading:
    """A file on its way to a study."""

    folders: dict[str, Path]
    """Where relative paths start that are written in a file."""
    forced: Sequence[Override]
    fabrics: dict[tuple[Path, Stated], Wired] = field(default_factory=dict)
    plans: dict[Path, PlanFile | None] = field(default_factory=dict)
    """Those that were read; None for what is no plan, which has been said."""
    graphs: dict[Path, GraphFile | Unread] = field(default_factory=dict)
    tables: dict[Path, KernelTable | Unread] = field(default_factory=dict)
    software: dict[Path, Named | Unread] = field(default_factory=dict)
    """What was measured of kernels."""
    models: dict[Path, NamedModel | Unread] = field(default_factory=dict)
    traffic: dict[Path, Sizes | Matrix | Unread] = field(default_factory=dict)
    """What is in files of traffic beside the run."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def load_file(path: Path, label: str, overrides: Sequence[Override] = (), forced: Sequence[Override] = ()) -> Study:
    """Reads the experiment file at `path`. Raises [`InputError`] with everything that is wrong with it.

    `overrides` change the file and can be displaced by its variants; `forced` ones change every variant.
    """
    root = document.read(document.read_text(path, label), label)
    return load(root, label, inputs.folder_of(path), overrides, forced)


def load(
    root: Node, label: str, folder: Path, overrides: Sequence[Override] = (), forced: Sequence[Override] = ()
) -> Study:
    """Reads an experiment from a tree; `folder` is where relative paths of the file start."""
    return load_changed(root, label, folder, Changes(overrides, forced))


def load_changed(root: Node, label: str, folder: Path, changes: Changes) -> Study:
    """Reads an experiment from a tree, which is changed for good."""
    loading = _Loading({label: folder, **changes.folders}, changes.forced)
    if not isinstance(root, Mapping):
        message = "an experiment file is a mapping, with keys such as name, topology and workload"
        raise InputError([root.origin.problem(message, document.plain(root))])
    if root.entries.keys() >= SWEEP_KEYS:
        raise InputError([root.origin.problem("this is a sweep: syncline sweep runs it")])
    loading.problems += merge.rivals([*changes.overrides, *changes.forced])
    _with_jobs(root)
    for override in changes.overrides:
        try:
            merge.apply(root, override)
        except InputError as error:
            loading.problems += error.problems
    trees = list(_variant_trees(root, loading))
    _warn_of_displaced(root, changes.overrides, loading)
    read = [(name, tree) for name, tree in trees if changes.only is None or name in changes.only]
    variants = [variant for name, tree in read if (variant := _variant(name, tree, loading)) is not None]
    if not loading.problems:
        names = [name or variants[0].name for name, _ in trees]
        loading.problems += _calibrated_strangers(root, variants, names)
        loading.problems += _no_baseline(root, names)
    uses = Uses()
    for variant in variants if not loading.problems else ():
        uses.add(variant.experiment, variant.tree)
    if changes.uses is not None:
        changes.uses.take(uses)
    elif changes.only is None:  # what is not read may be where something acts
        loading.problems += uses.problems()
    if loading.problems:
        raise InputError(loading.problems)
    base = variants[0].experiment
    name = _text(root, "name") or base.name
    baseline = _text(root, "baseline")
    return Study(name, _text(root, "description"), tuple(variants), tuple(loading.warnings), baseline)


def _calibrated_strangers(root: Mapping, variants: Sequence[Variant], names: Sequence[str]) -> Iterator[Problem]:
    """Calibrations for variants that do not exist."""
    for path, calibration in variants[0].experiment.calibration.items():
        for name in calibration.variants:
            if name not in names:
                message = f"there is no variant '{name}'{did_you_mean(name, names)}"
                yield _place(Violation(("calibration", path, "variants"), message, one_of(names)), root)


def _no_baseline(root: Mapping, names: Sequence[str]) -> Iterator[Problem]:
    """What is wrong with a baseline that is none of the variants."""
    node = root.entries.get("baseline")
    if node is None or _text(root, "baseline") in names:
        return
    given = document.plain(node)
    near = did_you_mean(given, names) if isinstance(given, str) else ""
    yield node.origin.problem(f"there is no such variant{near}", given, one_of(names))


def _variant_trees(root: Mapping, loading: _Loading) -> Iterator[tuple[str, Mapping]]:
    """The merged tree of each variant, or the file itself if it has none."""
    base = Mapping({k: v for k, v in root.entries.items() if k not in SHARED_KEYS}, root.origin)
    listed = root.entries.get("variants")
    if listed is not None:
        loading.problems += _name_problems(root)
    if listed is None:
        yield _text(root, "name"), base
        return
    if not isinstance(listed, document.Sequence) or not listed.items:
        loading.problems.append(listed.origin.problem("a list of variants is needed", document.plain(listed)))
        yield _text(root, "name"), base
        return
    if len(listed.items) > MAX_VARIANTS:
        raise InputError([listed.origin.problem(f"there are more than {MAX_VARIANTS} variants")])
    seen: dict[str, Origin] = {}
    for item in listed.items:
        if not isinstance(item, Mapping):
            message = "a variant has to be a mapping with a name"
            loading.problems.append(item.origin.problem(message, document.plain(item)))
            continue
        for key in ("variants", "calibration", "baseline"):
            if (node := item.entries.pop(key, None)) is not None:
                loading.problems.append(node.origin.problem(f"a variant cannot have {key} of its own"))
        name = _variant_name(item, seen, loading)
        over = {key: node for key, node in item.entries.items() if key != "name"}
        changed = Mapping(over, item.origin)
        _with_jobs(changed)
        merged = merge.overlay(base, changed)
        if name:
            merged.entries["name"] = Scalar(name, item.entries["name"].origin)
        yield name, merged


def _name_problems(root: Mapping) -> Iterator[Problem]:
    """What is wrong with the name of a file that has variants, which have names of their own."""
    node = root.entries.get("name")
    if node is None:
        yield root.origin.below("name", root.origin.line).problem("this is missing", None, NAME_ACCEPTED)
    elif not re.fullmatch(NAME_PATTERN, _text(root, "name")):
        yield node.origin.problem("this is not a legal name", document.plain(node), NAME_ACCEPTED)


def _variant_name(item: Mapping, seen: dict[str, Origin], loading: _Loading) -> str:
    node = item.entries.get("name")
    if node is None:
        loading.problems.append(
            item.origin.below("name", item.origin.line).problem("this is missing", None, NAME_ACCEPTED)
        )
        return ""
    name = node.value if isinstance(node, Scalar) else None
    if not isinstance(name, str):
        loading.problems.append(node.origin.problem("a name has to be text (put it in quotes)", document.plain(node)))
        return ""
    if name.casefold() in RESERVED_NAMES:
        loading.problems.append(node.origin.problem("this name is reserved for a folder of the run directory", name))
    first = seen.setdefault(name.casefold(), node.origin)
    if first is not node.origin:
        where = f"by {first.path}" if first.line is None else f"on line {first.line}"  # values in Python have no line
        loading.problems.append(node.origin.problem(f"this name is already used, {where}", name))
    return name


def _warn_of_displaced(root: Mapping, overrides: Sequence[Override], loading: _Loading) -> None:
    """Says so when a variant displaces what `--set` put into the file."""
    listed = root.entries.get("variants")
    if not isinstance(listed, document.Sequence):
        return
    for override in overrides:
        if override.path[0] == "variants":
            continue
        names = [merge.name_of(item) for item in listed.items if _has(item, override.path)]
        if names:
            have = "has a value of its own" if len(names) == 1 else "have values of their own"
            loading.warnings.append(f"{override.text} was set, but {one_of(names)} {have}")


def _has(node: Node, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(node, Mapping):
            return True
        if key not in node.entries:
            return False
        node = node.entries[key]
    return True


def _variant(name: str, tree: Mapping, loading: _Loading) -> Variant | None:
    _expand(tree)
    before = len(loading.problems)
    for override in loading.forced:
        try:
            merge.apply(tree, override)
        except InputError as error:
            loading.problems += error.problems
    _expand(tree)
    loading.problems += merge.contradictions(tree)
    values: dict[str, Any] = {key: document.plain(node) for key, node in tree.entries.items()}
    fabric = _topology_file(tree, loading)
    if fabric is not None:
        values["topology"] = fabric
    plans = _plans(tree, loading)
    if plans is not None:
        values["collective"]["plan"] = plans
    text = _astra_text(tree, loading)
    if text is not None:
        values["workload"]["astra_text"] = text[0]
    _models(tree, values, loading)
    graph = _graph(tree, loading)
    if graph is not None:
        values["workload"]["graph"] = graph
    software = _software(tree, loading)
    if software is not None:
        values["endpoint"]["software"] = software
    table = _kernel_table(tree, loading)
    if table is not None:
        values["npu"]["compute"]["table"] = table
    matrices = [value for value in _background(tree, values, loading) if isinstance(value, Matrix)]
    experiment: Experiment | None = None
    try:
        experiment = Experiment.model_validate(values)
        parts = _parts_of(experiment)
    except ValidationError as error:
        loading.problems += explain(error, tree)
        parts = _legal_parts(values)
    for violation in (*rules.violations(parts), *(() if experiment is None else rules.of_whole(experiment))):
        loading.problems.append(_place(violation, tree))
    if isinstance(parts.topology, Wired):
        loading.warnings += [w for w in parts.topology.graph.warnings if w not in loading.warnings]
    for plan in plans if isinstance(plans, tuple) else ():
        loading.warnings += [w for w in plan.warnings if w not in loading.warnings]
    if isinstance(parts.workload, GraphWorkload):
        loading.warnings += [w for w in parts.workload.file.graph.warnings if w not in loading.warnings]
        if parts.topology is not None:
            loading.problems += parts.workload.file.violations(parts.topology.npus)
    if experiment is not None and len(loading.problems) == before:
        loading.problems += _evaluated(experiment, tree)
    npus = None if parts.topology is None else parts.topology.npus
    loading.problems += [problem for matrix in matrices if npus is not None for problem in matrix.violations(npus)]
    if experiment is None or len(loading.problems) > before:
        return None
    described = text[1] if text is not None and isinstance(experiment.workload, AstraWorkload) else None
    return Variant(name or experiment.name, experiment, described, tree=tree)


def _with_jobs(tree: Mapping) -> None:
    """Puts `jobs`, which are a workload, where they belong."""
    jobs, workload = tree.entries.get("jobs"), tree.entries.get("workload")
    if jobs is None or not isinstance(workload, Mapping | None):
        return
    del tree.entries["jobs"]
    beside = {} if workload is None else workload.entries
    tree.entries["workload"] = Mapping(
        {**beside, "jobs": jobs}, replace(jobs.origin, path="workload") if workload is None else workload.origin
    )


def _expand(tree: Mapping) -> None:
    """Writes sections in full that are written in short."""
    _with_jobs(tree)
    for key, node in tree.entries.items():
        tree.entries[key] = merge.expand(key, node)


def _parts_of(experiment: Experiment) -> rules.Parts:
    return rules.Parts(**{name: getattr(experiment, name) for name in rules.Parts.__dataclass_fields__})


def _legal_parts(values: dict[str, Any]) -> rules.Parts:
    """The sections that are legal by themselves, when the whole is not."""
    parts: dict[str, Any] = {}
    for name in rules.Parts.__dataclass_fields__:
        info = Experiment.model_fields[name]
        if name not in values:
            parts[name] = None if info.is_required() else info.get_default()
            continue
        try:
            parts[name] = _adapter(name).validate_python(values[name], strict=True)
        except ValidationError:
            parts[name] = None
    if parts["npu"] is not None:
        gpu = None if parts["topology"] is None else parts["topology"].gpu
        parts |= completed(gpu, parts["npu"], parts["workload"], parts["endpoint"])
    return rules.Parts(**parts)


@cache
def _adapter(section: str) -> TypeAdapter[Any]:
    return TypeAdapter(get_type_hints(Experiment, include_extras=True)[section])


def _place(violation: Violation, tree: Mapping) -> Problem:
    """The problem at the place of the field to blame, or of the nearest mapping around it."""
    node: Node = tree
    for depth, key in enumerate(violation.path):
        if isinstance(node, Mapping) and key in node.entries:
            node = node.entries[key]
        elif isinstance(node, document.Sequence) and key.isdigit():
            node = node.items[int(key)]
        else:
            origin = node.origin
            for missing in violation.path[depth:]:
                origin = origin.below(missing, origin.line)
            return origin.problem(violation.message, None, violation.accepted)
    return node.origin.problem(violation.message, document.plain(node), violation.accepted)


def _astra_text(tree: Mapping, loading: _Loading) -> tuple[TextFile | Unread, str] | None:
    """The text workload that the file names, and what is in it. It is looked for beside the file that names it."""
    section = tree.entries.get("workload")
    node = section.entries.get("astra_text") if isinstance(section, Mapping) else None
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not 0 < len(node.value) <= MAX_PATH:
        return None
    folder = loading.folders.get(node.origin.file, Path())
    try:
        text = document.read_text(folder / node.value, node.value, MAX_WORKLOAD_BYTES)
    except InputError as error:
        loading.problems.append(node.origin.problem(error.problems[0].message, node.value, TEXT_ACCEPTED))
        return Unread(), ""
    return TextFile.of(node.value, text), text


def _models(tree: Mapping, values: dict[str, Any], loading: _Loading) -> None:
    """Puts what is in the model files that the file names into the values of the experiment. They are looked for beside
    the file that names them.
    """
    for section, place in _workloads(tree.entries.get("workload"), values.get("workload")):
        node = section.entries.get("model")
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or not 0 < len(node.value) <= MAX_PATH:
            continue
        if not model_files.is_path(node.value):
            continue
        path = loading.folders.get(node.origin.file, Path()) / node.value
        if path not in loading.models:
            loading.models[path] = _model(node, path, loading)
        place["model"] = loading.models[path]


def _workloads(node: Node | None, values: Any) -> Iterator[tuple[Mapping, dict[str, Any]]]:
    """The sections that may name a model, with their values."""
    if not isinstance(node, Mapping):
        return
    yield node, values
    jobs = node.entries.get("jobs")
    for number, job in enumerate(jobs.items if isinstance(jobs, document.Sequence) else ()):
        workload = job.entries.get("workload") if isinstance(job, Mapping) else None
        if isinstance(workload, Mapping):
            yield workload, values["jobs"][number]["workload"]


def _model(node: Scalar, path: Path, loading: _Loading) -> NamedModel | Unread:
    name = str(node.value)
    try:
        text = document.read_text(path, name)
    except InputError as error:
        loading.problems.append(node.origin.problem(error.problems[0].message, name, model_files.ACCEPTED))
        return Unread()
    try:
        return NamedModel.of(name, model_files.read(text, name))
    except InputError as error:
        loading.problems += error.problems
        return Unread()


def _evaluated(experiment: Experiment, tree: Mapping) -> Iterator[Problem]:
    """What is wrong with models in the sizes that are asked for."""
    of_jobs = isinstance(experiment.workload, JobsWorkload)
    for number, workload in enumerate(models_of(experiment.workload)):
        path = ("workload", "jobs", str(number), "workload") if of_jobs else ("workload",)
        try:
            _ = workload.evaluated
        except ParameterError as error:
            within = ("sequence",) if error.name == "sequence" else ("parameters", error.name)
            yield _place(Violation((*path, *within), error.message, error.accepted), tree)
        except InputError as error:
            if not workload.file.is_packaged:
                yield from error.problems
                continue
            # The file is right by itself: what is asked of it is not.
            to_blame = "parameters" if workload.parameters else "sequence" if workload.sequence else "model"
            first = error.problems[0]
            place = first.file if first.line is None else f"{first.file}:{first.line}"
            message = f"{first.message} ({place})"
            yield _place(Violation((*path, to_blame), message, first.accepted), tree)


def _graph(tree: Mapping, loading: _Loading) -> GraphFile | Unread | None:
    """The graph in the file that `workload.graph` names, if it names one. It is looked for beside the file that names
    it.
    """
    section = tree.entries.get("workload")
    node = section.entries.get("graph") if isinstance(section, Mapping) else None
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value:
        return None
    return _file_of(node, loading, loading.graphs, (graph_file.MAX_BYTES, graph_file.read, GRAPH_ACCEPTED))


def _kernel_table(tree: Mapping, loading: _Loading) -> KernelTable | Unread | None:
    """The measurements in the file that `npu.compute.table` names, if it names one."""
    node: Node | None = tree
    for key in ("npu", "compute", "table"):
        node = node.entries.get(key) if isinstance(node, Mapping) else None
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not 0 < len(node.value) <= MAX_PATH:
        return None
    return _file_of(node, loading, loading.tables, (kernel_table.MAX_BYTES, kernel_table.read, TABLE_ACCEPTED))


def _software(tree: Mapping, loading: _Loading) -> Named | Unread | None:
    """The constants in the file that `endpoint.software` names, if it names one."""
    section = tree.entries.get("endpoint")
    node = section.entries.get("software") if isinstance(section, Mapping) else None
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not 0 < len(node.value) <= MAX_PATH:
        return None
    if node.value in constants.names():
        return None
    return _file_of(node, loading, loading.software, (inputs.MAX_TABLE_BYTES, _constants, accepted_software()))


def _constants(content: bytes, name: str) -> Named:
    return Named(name, constants.parse(document.decode(content, name), name), content)


def _background(tree: Mapping, values: dict[str, Any], loading: _Loading) -> Iterator[Sizes | Matrix | Unread]:
    """What is in the files that `network.background` names, which is put into the values of the experiment."""
    section = tree.entries.get("network")
    listed = section.entries.get("background") if isinstance(section, Mapping) else None
    for i, item in enumerate(listed.items if isinstance(listed, document.Sequence) else ()):
        for key, form in BACKGROUND_FILES.items():
            node = item.entries.get(key) if isinstance(item, Mapping) else None
            if not isinstance(node, Scalar) or not isinstance(node.value, str) or not 0 < len(node.value) <= MAX_PATH:
                continue
            if key == "sizes" and node.value in size_files.NAMED:
                continue
            found = _file_of(node, loading, loading.traffic, form)
            values["network"]["background"][i][key] = found
            yield found


def _file_of(
    node: Scalar, loading: _Loading, known: dict[Path, T | Unread], form: tuple[int, Callable[[bytes, str], T], str]
) -> T | Unread:
    """What is in a file that is looked for beside the file that names it. `form`: the most bytes, what reads them, and
    what is accepted. Each file is read once.
    """
    most, read, accepted = form
    name = str(node.value)
    path = loading.folders.get(node.origin.file, Path()) / name
    if path not in known:
        known[path] = Unread()
        try:
            content = inputs.read_bytes(path, name, most)
        except InputError as error:
            loading.problems.append(node.origin.problem(error.problems[0].message, name, accepted))
            return known[path]
        try:
            known[path] = read(content, name)
        except InputError as error:
            loading.problems += error.problems
    return known[path]


def _topology_file(tree: Mapping, loading: _Loading) -> Wired | Unread | None:
    """The fabric in the file that `topology` names, if it names one. It is looked for beside the file that names it."""
    section = tree.entries.get("topology")
    if not isinstance(section, Mapping) or not section.entries.keys() <= TopologyFile.model_fields.keys():
        return None
    node = section.entries.get("file")
    stated = _stated(tree, section)
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value or stated is None:
        return None
    key = (loading.folders.get(node.origin.file, Path()) / node.value, stated)
    if key not in loading.fabrics:
        try:
            content = files.content(key[0], node.value)
        except InputError as error:
            accepted = "the path of a file, relative to the experiment file"
            loading.problems.append(node.origin.problem(error.problems[0].message, node.value, accepted))
            return Unread()
        try:
            graph = files.read(content, node.value, stated)
        except InputError as error:
            loading.problems += error.problems
            return Unread()
        loading.fabrics[key] = Wired(graph, node.value, content, pcie_rate=stated.pcie_rate)
    known = loading.fabrics[key].graph.hardware
    if stated.pcie_rate is not None and (known is None or not known.leaves_pcie_open):
        pcie_rate = section.entries["pcie_rate"]
        message = "the file says the rate of all its links"
        loading.problems.append(pcie_rate.origin.problem(message, document.plain(pcie_rate), "no pcie_rate"))
    return loading.fabrics[key]


def _stated(tree: Mapping, section: Mapping) -> Stated | None:
    """What is stated of the machine in a topology file; nothing, if it is not legal."""
    npu, rate = tree.entries.get("npu"), section.entries.get("pcie_rate")
    gpu = npu.entries.get("gpu") if isinstance(npu, Mapping) else None
    name = gpu.value if isinstance(gpu, Scalar) and isinstance(gpu.value, str) else ""
    try:
        pcie_rate = None if rate is None else quantities.rate(document.plain(rate))
    except QuantityError:
        return None
    return Stated(name if name in GPUS else None, pcie_rate)


def _plans(tree: Mapping, loading: _Loading) -> tuple[PlanFile, ...] | Unread | None:
    """The plans in the files that `collective.plan` names, if it names any."""
    section = tree.entries.get("collective")
    node = section.entries.get("plan") if isinstance(section, Mapping) else None
    listed = node.items if isinstance(node, document.Sequence) else [node]
    named = [item for item in listed if isinstance(item, Scalar) and isinstance(item.value, str) and item.value]
    if not named or len(named) != len(listed):
        return None
    read = [_plan(item, loading) for item in named]
    found = tuple(plan for plan in read if plan is not None)
    return found if len(found) == len(read) else Unread()


def _plan(node: Scalar, loading: _Loading) -> PlanFile | None:
    """The plan in a file, which is looked for beside the file that names it; nothing, once it is said what is wrong."""
    text = str(node.value)
    folder = loading.folders.get(node.origin.file, Path())
    path = inputs.given(text) if node.origin.line is None and folder == Path() else folder / text
    if path not in loading.plans:
        loading.plans[path] = None
        try:
            content = inputs.read_bytes(path, text, plan_files.MAX_BYTES)
        except InputError as error:
            loading.problems.append(node.origin.problem(error.problems[0].message, text, PLANS_ACCEPTED))
            return None
        try:
            loading.plans[path] = planned.read(content, text)
        except InputError as error:
            loading.problems += error.problems
    return loading.plans[path]


def _text(root: Mapping, key: str) -> str:
    node = root.entries.get(key)
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
