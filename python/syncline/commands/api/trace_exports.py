"""`syncline.export_trace`: the graph of a run as Chakra execution traces, or the run itself as profiles of PyTorch or
as a timeline for viewers.
"""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base import inputs, outputs
from syncline.base.clock import Clock
from syncline.base.errors import InputError, command_line, did_you_mean, one_of
from syncline.commands.api import arguments, display, files, study, timelines
from syncline.commands.api.arguments import ARGUMENTS, Listed, Settings
from syncline.commands.api.documented import Documented
from syncline.core import cancelling
from syncline.engine import choice
from syncline.engine import runs as engine
from syncline.fabric.allocation import AllocationError
from syncline.fabric.numbers import NUMBERS_ACCEPTED, numbers
from syncline.fabric.topology import Topology
from syncline.importers import export_chakra, export_kineto
from syncline.importers.assemble import groups_of
from syncline.results import entries as results
from syncline.results import traces
from syncline.sections.workloads import GraphWorkload, JobsWorkload

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.commands.api.files import AnyPath
    from syncline.commands.api.simulate import Read
    from syncline.commands.api.sources import Source
    from syncline.commands.api.study import Study
    from syncline.core.cancelling import Cancellation
    from syncline.experiment.load import Variant
    from syncline.importers.overlay import Overlaid
    from syncline.results.entries import Document
    from syncline.sections.experiment import Experiment

FORMATS: Final = ("chakra", "kineto", "chrome", "perfetto")
MOST_FILES: Final = 65_536
MOST_TRACED: Final = 64
GROUPS: Final = "groups.json"
NPUS: Final = Listed("these are no NPUs", '"0-7", or a list of numbers')

RENAMED: Final = replace(ARGUMENTS, called=(("experiment", "source"),))
"""What the arguments of the function are called that the command calls otherwise."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be written, beside the experiment."""

    format: str | None = None
    variant: str | None = None
    npus: str | None = None
    overlay: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exported:
    """Traces that were written."""

    variant: Variant
    format: str
    folder: Path
    files: tuple[str, ...]
    """Names of the files in the folder."""
    name: str
    """What names of files begin with."""
    size: int
    """Bytes of all files."""
    overlaid: tuple[Overlaid, ...]
    """What was matched with measured profiles."""
    document: Document
    """The document of `export-trace --json`."""


class ExportedTrace(Documented):
    """Traces that were written."""

    def __init__(self, exported: Exported) -> None:
        super().__init__(exported.document)
        self.folder: Path = exported.folder
        """Where they are."""
        self.files: tuple[Path, ...] = tuple(exported.folder / name for name in exported.files)
        """The files."""
        self.prefix: Path = exported.folder / exported.name
        """What the files of NPUs are called before `.N.et` or `.N.json`, which [`import_trace`] takes."""
        self.size_bytes: int = exported.size
        """Bytes of all files."""

    def __repr__(self) -> str:
        return f"<ExportedTrace {self.format} of {self.name}: {display.counted(len(self.files), 'file')}>"

    def _repr_html_(self) -> str:
        headings = ["experiment", "format", "NPUs", "files", "bytes", "folder"]
        counts = (f"{self.document['npus']:,}" if isinstance(self.document["npus"], int) else "-", len(self.files))
        row = [self.name, self.format, counts[0], f"{counts[1]:,}", f"{self.size_bytes:,}", self.document["folder"]]
        return display.table("traces", headings, [row]) + display.paragraphs(self.warnings)

    @property
    def format(self) -> str:
        """`chakra`, `kineto`, `chrome` or `perfetto`."""
        return str(self.document["format"])

    @property
    def name(self) -> str:
        """The variant."""
        return str(self.document["name"])

    @property
    def npus(self) -> int:
        """NPUs of the fabric."""
        npus: int = self.document["npus"]
        return npus

    @property
    def overlay(self) -> tuple[Mapping[str, Any], ...]:
        """Measured profiles that are shown beside NPUs, as in the document."""
        return tuple(self.document.get("overlay", ()))


@arguments.plain_arguments
def export_trace(
    source: Source | Study,
    *,
    out: AnyPath,
    format: str | None = None,
    variant: str | None = None,
    npus: str | Sequence[int] | None = None,
    overlay: AnyPath | Sequence[AnyPath] = (),
    set: Mapping[str, object] | None = None,
    seed: int = 0,
    memory_limit: str | int | None = None,
    cancel: Cancellation | None = None,
) -> ExportedTrace:
    """Writes what NPUs do in an experiment as traces that other programs read.

    `source` and `set` are as in [`run`]; `variant` is needed where the experiment has several. `out` is the folder, or
    the file of a timeline. `format` is `"chakra"` (execution traces of what NPUs are to do, which [`import_trace`]
    reads again), or of a simulation `"kineto"` (profiles as PyTorch's profiler writes them), `"chrome"` or `"perfetto"`
    (timelines for viewers); by default what the suffix of `out` says. `npus` (`"0-7"`, or numbers) are those whose
    profiles are written or that are shown. `overlay` has files or folders with measured profiles, which timelines show
    beside the NPUs of their ranks.

    Raises [`InputError`] with everything that is wrong, [`SimulationFailedError`] if the simulation fails,
    [`CancelledError`] when `cancel` is called.
    """
    settings = arguments.of_program(changes=set, seed=seed, memory_limit=memory_limit, cancel=cancel)
    problems = [*settings.problems, *arguments.not_text(format=format, variant=variant)]
    wanted = "the path of a folder, or of a file"
    place = arguments.collected(problems, lambda: files.path_of(out, "out", "a place", wanted))
    profiles = _paths(overlay, problems)
    listed = arguments.listed(problems, "npus", npus, NPUS)
    if len(problems) > len(settings.problems) or place is None:
        raise InputError(problems)
    asked = Asked(format, variant, listed, profiles)
    with arguments.spelled(RENAMED):
        return ExportedTrace(write(study.reader(source), asked, settings, Path(place)))


def _paths(overlay: object, problems: list[Problem]) -> tuple[str, ...]:
    """The files with profiles; what is wrong with them is added to `problems`."""
    found: list[str] = []
    for of in overlay if isinstance(overlay, Sequence) and not isinstance(overlay, str) else [overlay]:
        try:
            found.append(files.path_of(of, "overlay", "a profile", "paths of files, of folders, or prefixes"))
        except InputError as error:
            problems += error.problems
    return tuple(found)


@inputs.remembered()
def write(read: Read, asked: Asked, settings: Settings, out: Path | None) -> Exported:
    """Writes traces of an experiment into a folder or a file, by default named like the variant, for programs and for
    the command line. Raises [`InputError`] with everything that is wrong.
    """
    began = Clock()
    format_ = _format_of(out, asked.overlay) if asked.format is None else asked.format
    settings = replace(settings, problems=(*settings.problems, *_problems(asked, format_)))
    chosen = _variant(read, asked.variant, settings)
    name = "".join(c if c.isalnum() or c in "_-+" else "-" for c in chosen.name)
    if format_ in timelines.FORMATS:
        suffix = timelines.suffix(format_, out)
        path = Path(f"{name}{suffix}") if out is None else out
        traced = None if asked.npus is None else _traced(chosen, asked.npus)
        written = timelines.write(chosen, traced, asked.overlay, path, suffix)
        overlaid = tuple(written.overlaid)
        more = {"overlay": [of.document() for of in overlaid]} if overlaid else {}
        document = _document(chosen, format_, path.parent, [path.name], [], began, more)
        return Exported(chosen, format_, path.parent, (path.name,), name, written.size, overlaid, document)

    warnings: list[str] = []
    made = _chakra(chosen, warnings) if format_ == "chakra" else _kineto(chosen, _traced(chosen, asked.npus), warnings)
    folder = Path(name) if out is None else out
    contents = [(f"{name}.{suffix}" if suffix != GROUPS else suffix, content) for suffix, content in made]
    kind = outputs.CHAKRA if format_ == "chakra" else outputs.KINETO
    outputs.write_into(
        folder, {file: (content, outputs.COMMUNICATORS if file == GROUPS else kind) for file, content in contents}
    )
    names = [file for file, _ in contents]
    document = _document(chosen, format_, folder, names, warnings, began)
    size = sum(len(content) for _, content in contents)
    return Exported(chosen, format_, folder, tuple(names), name, size, (), document)


def _problems(asked: Asked, format_: str) -> list[Problem]:
    """What is wrong with what is asked for beside the experiment."""
    found: list[Problem] = []
    if format_ not in FORMATS:
        message = f"this format is not known{did_you_mean(format_, FORMATS)}"
        found += command_line("--format", format_, message, one_of(FORMATS)).problems
    if asked.npus is not None and format_ == "chakra":
        accepted = "--format kineto, chrome or perfetto"
        found += command_line("--npus", asked.npus, "traces are written for all NPUs", accepted).problems
    if asked.overlay and format_ not in timelines.FORMATS:
        message = "profiles are shown beside a timeline"
        found += command_line("--overlay", asked.overlay[0], message, "--format chrome or perfetto").problems
    return found


def _format_of(out: Path | None, overlay: Sequence[str]) -> str:
    """The format that the name of the file stands for."""
    suffix = None if out is None or out.is_dir() else traces.suffix_of(out.name)
    if suffix is None:
        return "perfetto" if overlay and out is None else "chakra"
    return "perfetto" if suffix in traces.PERFETTO else "chrome"


def _variant(read: Read, name: str | None, settings: Settings) -> Variant:
    """The variant that is exported, with its algorithm chosen."""
    study = settings.loaded(read)
    names = [of.name for of in study.variants]
    if name is None and len(names) > 1:
        raise command_line("--variant", None, "the experiment has several variants", one_of(names))
    if name is not None and name not in names:
        raise command_line("--variant", name, "there is no such variant", one_of(names))
    cancelling.check(settings.cancel)
    return next(of for of in choice.settled(study).variants if name is None or of.name == name)


def _traced(variant: Variant, npus: str | None) -> list[int]:
    """The NPUs whose profiles are asked for."""
    count = variant.experiment.topology.npus
    if npus is None:
        return list(range(min(count, MOST_TRACED)))
    try:
        found = list(numbers(npus, count))
    except AllocationError as error:
        raise command_line("--npus", npus, str(error), NUMBERS_ACCEPTED) from None
    if len(found) > MOST_TRACED:
        raise command_line("--npus", npus, f"these are {len(found)} NPUs", f"up to {MOST_TRACED}")
    return found


def _chakra(variant: Variant, warnings: list[str]) -> list[tuple[str, bytes]]:
    experiment = variant.experiment
    npus = experiment.topology.npus
    if npus > MOST_FILES:
        raise command_line("EXPERIMENT", variant.name, f"traces of {npus} NPUs", f"up to {MOST_FILES}")
    listing, iterations = export_chakra.repeated(engine.listing(variant))
    families = _families(experiment, listing)
    if iterations < experiment.iterations and experiment.is_training:
        warnings.append("iterations are not alike: the traces hold all of them as one")
    if experiment.training.stragglers:
        warnings.append("traces say nothing of training.stragglers: times are those of an NPU that is none")
    if experiment.shares:
        warnings.append("times are those of NPUs that only compute; in the run, communication slows them down")
    if len(listing["families"]) == 1 and experiment.members is not None and len(experiment.grid) > 1:
        warnings.append("groups are written as lines: a graph file has no groups with a grid of their own")
    run = {
        "element": experiment.workload.element,
        "tail": experiment.tail if experiment.is_training else "drain",
        "iterations": iterations,
    }
    traces = export_chakra.traces(listing, npus, families, run)
    files = [(f"{npu}.et", traces.content(npu)) for npu in range(npus)]
    if traces.groups:
        files.append((GROUPS, (json_text.dumps(traces.groups) + "\n").encode()))
    return files


def _families(experiment: Experiment, listing: Mapping[str, Any]) -> dict[str, Any]:
    """The families of the run in the form of a graph file."""
    if isinstance(experiment.workload, GraphWorkload):
        graph = experiment.workload.file.graph
        return {
            name: family.model_dump(mode="json", exclude_defaults=True, by_alias=True)
            for name, family in graph.families.items()
        }
    found: dict[str, Any] = {}
    is_product = isinstance(experiment.topology, Topology) and experiment.members is None
    sizes = experiment.grid if is_product else []
    for family in listing["families"]:
        members: dict[str, Any] = {"groups": family["groups"]}
        if len(sizes) > 1:
            # Communicators along dimensions use their rings in both directions.
            wanted = sorted(tuple(group) for group in family["groups"])
            for mask in range(1, 2 ** min(len(sizes), 8)):
                grid = {"grid": list(sizes), "along": [dim for dim in range(len(sizes)) if mask >> dim & 1]}
                if sorted(groups_of({"members": grid})) == wanted:
                    members = grid
                    break
        found[family["name"]] = {"members": members}
    for name, settings in experiment.parallel.collectives.items():
        if name in found:
            found[name]["collective"] = dict(settings)
    if isinstance(experiment.workload, JobsWorkload):
        for job in experiment.workload.jobs:
            for part in ("all", "model", "data") if job.collective else ():
                if f"{job.name} {part}" in found:
                    found[f"{job.name} {part}"]["collective"] = job.collective
    return found


def _kineto(variant: Variant, traced: list[int], warnings: list[str]) -> list[tuple[str, bytes]]:
    experiment = variant.experiment
    listing = engine.listing(variant)
    output = experiment.output.model_copy(update={"trace_npus": traced, "trace_limit": 10_000_000})
    result = engine.run(replace(variant, experiment=experiment.model_copy(update={"output": output})))
    rows = result.tables["slices"].to_pylist()
    npus, element = experiment.topology.npus, experiment.workload.element
    found = export_kineto.profiles(listing, rows, npus, element, variant.name)
    if found.unfinished:
        missing = f"{found.unfinished} of {found.collectives} collectives of an NPU"
        warnings.append(
            f"profiles lack {missing}, which are in flight when the run ends; with training.tail=drain they have all"
        )
    return [(f"{npu}.json", content) for npu, content in found.contents.items()]


def _document(
    variant: Variant,
    format_: str,
    folder: Path,
    files: list[str],
    warnings: list[str],
    began: Clock,
    more: Mapping[str, Any] = {},
) -> Document:
    return {
        **_version.versions(),
        "status": "complete",
        "seed": variant.seed,
        "assumptions": [],
        "warnings": warnings,
        "fidelity": {"backend": variant.experiment.network.backend},
        "format": format_,
        "name": variant.name,
        "npus": variant.experiment.topology.npus,
        "folder": str(folder),
        "files": files,
        **more,
        "cost": results.cost(began, []),
    }
