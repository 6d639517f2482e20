"""`syncline.export`: an algorithm written down, as a plan, as MSCCL XML or as an execution plan of MSCCL++."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base import outputs
from syncline.base.clock import Clock
from syncline.base.errors import InputError, Problem, command_line, did_you_mean, one_of
from syncline.commands.api import arguments, display, files, single
from syncline.commands.api.arguments import ARGUMENTS, FLAGS, Settings, Spelling
from syncline.commands.api.documented import Documented
from syncline.core import cancelling
from syncline.engine import choice, in_flight
from syncline.engine import runs as engine
from syncline.experiment import programs
from syncline.experiment.programs import COMPOSITIONS, FLAT
from syncline.plans import msccl_write, mscclpp, plan_form
from syncline.plans.mscclpp import write as mscclpp_write
from syncline.results import entries as results
from syncline.sections.workloads import ROOTED, kinds_of

if TYPE_CHECKING:
    from syncline.commands.api.files import AnyPath
    from syncline.core.cancelling import Cancellation
    from syncline.experiment.load import Variant
    from syncline.results.entries import Document

FORMATS: Final = ("plan", "msccl-xml", "mscclpp-json")
PLAN, MSCCL, MSCCLPP = FORMATS
KINDS: Final = {PLAN: outputs.PLAN, MSCCL: outputs.MSCCL_XML, MSCCLPP: outputs.MSCCLPP_JSON}
"""What files of the formats are."""
NO_SIZE: Final = "1MiB"
"""The size of what is exported where nothing depends on it."""
IN_SWITCH: Final = "in-switch"
THREADS: Final = 256
"""What `nthreads` of MSCCL XML says: threads of a thread block; they do not matter here."""
MOST_INSTANCES: Final = 32
"""As many as MSCCL takes channels."""
MOST_LETTERS: Final = 63
"""Of a name in MSCCL XML."""
ONE_WAY: Final = "a plan says nothing of lanes: it is ring-unidirectional if it runs with --set collective.lanes=one"
_FORMAL: Final = {PLAN: "syncline-plan"}
"""What documents call formats that they do not call as `--format` does."""
_RANKS: Final = re.compile(r"[1-9][0-9]{0,6}(x[1-9][0-9]{0,6})*", re.ASCII)

FABRICS: Final = 'ranks=8, topology="Torus(4,8,4)", machine="dgx-a100" or topology_file="FILE"'


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be written down, beside how the collective is described."""

    algorithm: str
    ranks: str | None = None
    size: str | None = None
    format: str = PLAN
    instances: int | None = None

    @property
    def grid(self) -> list[str]:
        """The ranks along each dimension."""
        return (self.ranks or "").split("x")

    @property
    def is_of_dimensions(self) -> bool:
        """Whether the algorithm goes along the dimensions of a grid."""
        return self.algorithm.startswith("ring") or self.algorithm in (IN_SWITCH, *COMPOSITIONS)

    def fabric(self) -> str:
        """The fabric that `--ranks` stands for; one of one rank where it stands for none, which is said."""
        if _RANKS.fullmatch(self.ranks or "") is None:
            return "Ring(1)"
        rings = self.algorithm.startswith("ring") or (len(self.grid) > 1 and self.algorithm != IN_SWITCH)
        return "_".join(f"{'Ring' if rings else 'Switch'}({size})" for size in self.grid)

    def problems(self, is_fabric_given: bool) -> list[Problem]:
        """What is wrong with it."""
        found: list[Problem] = []

        def refuse(flag: str, value: str | None, message: str, accepted: str) -> None:
            found.extend(command_line(flag, value, message, accepted).problems)

        if self.format not in FORMATS:
            hint = did_you_mean(self.format, FORMATS)
            refuse("--format", self.format, f"this format is not known{hint}", one_of(FORMATS))
        if self.instances is not None and not 1 <= self.instances <= MOST_INSTANCES:
            refuse("--instances", str(self.instances), "this is no number of instances", f"1 to {MOST_INSTANCES}")
        elif self.instances is not None and self.format == PLAN:
            accepted = f"--format {MSCCL} or {MSCCLPP} with it"
            refuse("--instances", str(self.instances), "a plan has no instances", accepted)
        if self.algorithm == "auto" and self.size is None:
            refuse("--algorithm", "auto", "which algorithm is the fastest depends on the size", "--size SIZE with it")
        if self.ranks is None:
            return found
        if is_fabric_given:
            refuse("--ranks", self.ranks, "the fabric is given twice", "--ranks, or a fabric")
        elif _RANKS.fullmatch(self.ranks) is None:
            refuse("--ranks", self.ranks, "these are no ranks", "a number, or a grid such as 4x8")
        elif len(self.grid) > 1 and not self.is_of_dimensions:
            message = f"{self.algorithm} takes ranks as a line, whatever their grid"
            refuse("--ranks", self.ranks, message, "the number of ranks")
        return found


@dataclass(frozen=True, slots=True)
class Exported:
    """An algorithm that was written down."""

    variant: Variant
    text: str
    form: dict[str, Any]
    """The plan, or the schedule, before it became text."""
    document: Document
    """The document of `export --json`."""


class Export(Documented):
    """An algorithm that was written down."""

    def __init__(self, exported: Exported, format_: str) -> None:
        super().__init__(exported.document)
        self.text: str = exported.text
        """What a file of it has."""
        self.format: str = format_
        """What the text is: `plan`, `msccl-xml` or `mscclpp-json`."""
        self.plan: dict[str, Any] | None = exported.form if format_ == PLAN else None
        """The plan as values; `None` of other formats."""

    def __repr__(self) -> str:
        return f"<Export of {self.collective} over {self.ranks} ranks by {self.algorithm}, as {self.format}>"

    def _repr_html_(self) -> str:
        headings = ["collective", "algorithm", "ranks", "topology", "format", "bytes"]
        size = f"{len(self.text.encode()):,}"
        row = [self.collective, self.algorithm, f"{self.ranks}", self.topology, self.format, size]
        return display.table("export", headings, [row]) + display.paragraphs(self.warnings)

    @property
    def collective(self) -> str:
        """What is carried out."""
        return str(self.document["collective"])

    @property
    def algorithm(self) -> str:
        """How; where `auto` was asked for, what it chose."""
        return str(self.document["algorithm"])

    @property
    def ranks(self) -> int:
        """How many ranks take part."""
        ranks: int = self.document["ranks"]
        return ranks

    @property
    def root(self) -> int | None:
        """The rank of the root, where there is one."""
        root: int | None = self.document["root"]
        return root

    @property
    def topology(self) -> str:
        """The fabric that it was written for."""
        return str(self.document["topology"])

    def save(self, path: AnyPath) -> Path:
        """Writes the text into a file, which `plan` of [`collective`] takes, and returns its path. Raises
        [`InputError`] if it cannot be written, or is something else that exists.
        """
        to = Path(files.path_of(path, "path", "a file", "the path of a file"))
        with arguments.spelled(replace(ARGUMENTS, called=(("out", "path"),))):
            outputs.write(to, self.text, KINDS[self.format])
        return to


@arguments.plain_arguments
def export(
    kind: str,
    *,
    algorithm: str,
    ranks: int | str | None = None,
    topology: str | Mapping[str, object] | None = None,
    machine: str | None = None,
    topology_file: str | os.PathLike[str] | None = None,
    gpus: str | Sequence[int] | None = None,
    groups: str | Sequence[Sequence[int] | str] | None = None,
    root: int | None = None,
    size: str | int | None = None,
    format: str = PLAN,
    instances: int | None = None,
    endpoint: str | None = None,
    backend: str | None = None,
    set: Mapping[str, object] | None = None,
    seed: int = 0,
    out: AnyPath | None = None,
    memory_limit: str | int | None = None,
    cancel: Cancellation | None = None,
) -> Export:
    """Writes an algorithm down, as a plan, as MSCCL XML or as an execution plan of MSCCL++.

    `kind` is the collective. `ranks` (8, or a grid such as `"4x8"`) stands for a fabric that says nothing of itself; or
    one of `topology`, `machine` and `topology_file` names the fabric, as in [`collective`], for which the plan is
    exactly what runs there. `format` is `"plan"` (JSON of syncline-plan), `"msccl-xml"` or `"mscclpp-json"`;
    `instances` copies of the algorithm share the vector of the last two. `size` (`"64MB"`, or bytes) is that for which
    `auto`, and the number of slices of trees and chains, are chosen; the latter may be set instead,
    `set={"collective.slices": 16}`. The text is written into the file `out`, if that is given.

    Raises [`InputError`] with everything that is wrong, also where the format cannot hold the algorithm;
    [`CancelledError`] when `cancel` is called.
    """
    settings = arguments.of_program(changes=set, seed=seed, memory_limit=memory_limit, cancel=cancel)
    problems = list(settings.problems)
    size = arguments.sized(size)
    problems += [*arguments.not_text(algorithm=algorithm), *arguments.no_text(format=format)]
    if not isinstance(size, str | None):
        problems.append(ARGUMENTS.problem("size", type(size).__name__, *single.NOT_A_SIZE))
    problems += _not_counts(ranks, instances)
    problems += [ARGUMENTS.problem("algorithm", None, "no algorithm is given", "its name")] if algorithm is None else []
    given = (
        None
        if out is None
        else arguments.collected(problems, lambda: files.path_of(out, "out", "a file", "the path of a file"))
    )
    if len(problems) > len(settings.problems):
        raise InputError(problems)
    asked = Asked(algorithm, None if ranks is None else str(ranks), size, format, instances)
    described = single.Single(
        kind=kind,
        size=size or NO_SIZE,
        topology=topology,
        machine=machine,
        topology_file=topology_file,
        gpus=gpus,
        groups=groups or (),
        root=root,
        endpoint=endpoint,
        algorithm=algorithm,
        backend=backend,
        fabrics=FABRICS,
        spelling=ARGUMENTS,
    )
    path = None if given is None else Path(given)
    with arguments.spelled(ARGUMENTS):
        return Export(write(described, asked, settings, path), format)


def _not_counts(ranks: object, instances: object) -> list[Problem]:
    """What is wrong with the types of two arguments that are numbers."""
    found: list[Problem] = []
    if isinstance(ranks, bool) or not isinstance(ranks, int | str | None):
        message = f"ranks cannot be given as {type(ranks).__name__}"
        found.append(ARGUMENTS.problem("ranks", ranks, message, 'a number, or a grid such as "4x8"'))
    if isinstance(instances, bool) or not isinstance(instances, int | None):
        accepted = f"1 to {MOST_INSTANCES}"
        found.append(ARGUMENTS.problem("instances", instances, "this is not a whole number", accepted))
    return found


def write(described: single.Single, asked: Asked, settings: Settings, out: Path | None) -> Exported:
    """Writes down the algorithm of a single collective, into a file if `out` is given, for programs and for the command
    line. Raises [`InputError`] with everything that is wrong.
    """
    began = Clock()
    named = (described.topology, described.machine, described.topology_file)
    fabric = next((of for of in named if of is not None), None)
    asked_for = {"size": asked.size, "topology": described.topology, "endpoint": described.endpoint}
    described = replace(
        described,
        assumed=frozenset(name for name, value in asked_for.items() if value is None),
        topology=described.topology if asked.ranks is None or fabric is not None else asked.fabric(),
        endpoint=described.endpoint or ("switch-offload" if asked.algorithm == IN_SWITCH else None),
    )
    settings = replace(settings, problems=(*settings.problems, *asked.problems(fabric is not None)))
    study, _ = single.load(described, settings)

    cancelling.check(settings.cancel)
    as_schedule = asked.format != PLAN
    warnings = list(study.warnings)
    if asked.algorithm == "ring-unidirectional" and not as_schedule:
        warnings.append(ONE_WAY)
    study = replace(study, variants=tuple(_whole(variant) for variant in study.variants))
    variant, assumed = _sliced(choice.settled(study).variants[0], asked)
    form: Any = written(variant, instances=(asked.instances or 1) if as_schedule else None, spelling=described.spelling)
    form["name"] = _name(variant)[:MOST_LETTERS]
    if asked.format == MSCCL and form.get("threads") is None:
        form["threads"] = THREADS
        assumed.append(f"nthreads = {THREADS} (default)")
    if asked.format == MSCCLPP:
        assumed.append(f"num_threads_per_block = {mscclpp_write.THREADS} (default)")
        if form["collective"] not in mscclpp.NAMED:
            warnings.append(f"MSCCL++ has no name for {form['collective']}: name the plan to its executor yourself")
    writers: dict[str, Callable[[Any], str]] = {
        PLAN: plan_form.dumps,
        MSCCL: msccl_write.write,
        MSCCLPP: mscclpp_write.write,
    }
    text = writers[asked.format](form)
    if out is not None:
        outputs.write(out, text, KINDS[asked.format])
    what = {PLAN: {"plan": form}, MSCCL: {"xml": text}, MSCCLPP: {"text": text}}[asked.format]
    said = {"format": _FORMAL.get(asked.format, asked.format), **what}
    return Exported(variant, text, form, _document(variant, warnings, assumed, out, said, began))


def written(variant: Variant, *, instances: int | None, spelling: Spelling = FLAGS) -> dict[str, Any]:
    """What the engine writes: a plan, or with `instances` a schedule. Raises [`InputError`]; what a format cannot hold
    is a matter of the format."""
    try:
        return engine.export(variant, instances=instances)
    except InputError as error:
        field = spelling.name("format")
        raise InputError(replace(p, field=field) if p.field == "plan" else p for p in error.problems) from None


def _name(variant: Variant) -> str:
    """What the plan is called: what it is a plan of."""
    experiment = variant.experiment
    (kind,) = kinds_of(experiment.workload)
    algorithm = experiment.collective.algorithm_of(kind)
    is_line = algorithm in FLAT or len(experiment.grid) == 1
    shape = [experiment.ranks] if is_line else experiment.grid
    return f"{algorithm} {kind} {'x'.join(str(size) for size in shape)}"


def _whole(variant: Variant) -> Variant:
    """The variant as one chunk, unless it states how it is cut: a plan is carried out once for all of the data."""
    collective = variant.experiment.collective
    if in_flight.left_open(collective) is None:
        return variant
    whole = collective.model_copy(update={"chunks": 1})
    return replace(variant, experiment=variant.experiment.model_copy(update={"collective": whole}))


def _sliced(variant: Variant, asked: Asked) -> tuple[Variant, list[str]]:
    """The variant with the number of slices that its plan has, and what was assumed. Raises [`InputError`] where
    neither that nor a size is given.
    """
    assumed: list[str] = []
    experiment = variant.experiment
    if asked.ranks is not None:
        assumed.append(f"topology = {experiment.topology} (--ranks {asked.ranks})")
    pipelined = experiment.collective.slices is None and programs.has_pipelines(experiment)
    switched = any(program.name == IN_SWITCH for program in programs.of(experiment))
    if asked.size is None and (pipelined or switched):
        message = f"a plan of {experiment.collective.algorithm} has a number of slices, which depends on the size"
        raise command_line("--size", None, message, "a size" if switched else "a size, or --set collective.slices=N")
    if not pipelined:
        return variant, assumed
    slices = engine.preview(variant).slices
    if slices is None:
        return variant, assumed
    assumed.append(f"collective.slices = {slices} (auto, for {asked.size})")
    collective = experiment.collective.model_copy(update={"slices": slices})
    return replace(variant, experiment=experiment.model_copy(update={"collective": collective})), assumed


def _document(
    variant: Variant,
    warnings: Sequence[str],
    assumed: list[str],
    out: Path | None,
    what: dict[str, Any],
    began: Clock,
) -> Document:
    experiment = variant.experiment
    (kind,) = kinds_of(experiment.workload)
    return {
        **_version.versions(),
        "status": "complete",
        "seed": variant.seed,
        "assumptions": assumed,
        "warnings": list(warnings),
        "fidelity": {"backend": experiment.network.backend},
        "collective": kind,
        "root": experiment.root if kind in ROOTED else None,
        "ranks": experiment.ranks,
        "topology": str(experiment.topology),
        **results.algorithm(variant),
        "file": None if out is None else str(out),
        **what,
        "cost": results.cost(began, []),
    }
