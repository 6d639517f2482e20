"""`syncline.import_trace`: foreign traces and workloads as graph files, with an experiment that runs them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base import inputs
from syncline.base.clock import Clock
from syncline.base.errors import InputError, Problem, command_line, did_you_mean, one_of
from syncline.commands.api import arguments, display, files, trace_replays
from syncline.commands.api.arguments import ARGUMENTS
from syncline.commands.api.documented import Documented
from syncline.importers import astra, chakra, fx, kineto, output, similar
from syncline.results import entries as results
from syncline.sections import networks
from syncline.sections.typed import Experiment

if TYPE_CHECKING:
    from syncline.commands.api.files import AnyPath
    from syncline.commands.api.trace_replays import Replay
    from syncline.importers.output import Asked as Wanted
    from syncline.importers.output import Difference, Imported
    from syncline.results.entries import Document

FORMATS: Final = ("chakra", "astra", "fx", "kineto")
TIMES: Final = ("recorded", "computed")
PARTS: Final = ("workload", "system", "network", "memory")
MOST_SHOWN: Final = 20
"""Differences that a notebook shows."""
RENAMED: Final = replace(ARGUMENTS, called=(("file", "files"),))
"""What the arguments of the function are called that the command calls otherwise."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be imported, and how."""

    format: str
    files: tuple[str, ...]
    topology: str | None = None
    backend: str | None = None
    like: Path | Mapping[str, object] | None = None
    groups: Path | None = None
    times: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    """Of an ASTRA-sim directory: which file is which."""
    npus: int | None = None

    def wanted(self) -> Wanted:
        """What importers are asked for beside the files. Raises [`InputError`] with everything that is wrong."""
        problems: list[Problem] = []

        def refuse(flag: str, value: str, message: str, accepted: str) -> None:
            problems.extend(command_line(flag, value, message, accepted).problems)

        if self.format not in FORMATS:
            hint = did_you_mean(self.format, FORMATS)
            refuse("FORMAT", self.format, f"this format is not known{hint}", one_of(FORMATS))
        if self.times not in (None, *TIMES):
            refuse("--times", str(self.times), "this is not known", one_of(TIMES))
        if self.times is not None and self.format != "chakra":
            refuse("--times", self.times, "this has no effect: only Chakra traces have both", "the format chakra")
        if self.groups is not None and self.format not in ("chakra", "astra"):
            refuse("--groups", str(self.groups), "this has no effect: these files say it themselves", "no --groups")
        if self.backend is not None and self.like is not None:
            refuse("--backend", self.backend, "--like says the network", "one of the two")
        if self.like is not None and self.format == "astra":
            given = str(self.like) if isinstance(self.like, Path) else "a mapping"
            refuse("--like", given, "the directory says how its workload is run", "no --like")
        if self.backend is not None and self.backend not in (names := list(networks.NETWORKS)):
            refuse("--backend", self.backend, "this backend is not known", one_of(names))
        if self.npus is not None and not 1 <= self.npus <= 2**20:
            refuse("--npus", str(self.npus), "this is out of range", "1 to 1048576")
        for name, value in self.parts.items() if self.format in FORMATS and self.format != "astra" else ():
            refuse(f"--{name}", value, "only a directory of ASTRA-sim has such a part", "the format astra")
        if self.npus is not None and self.format in ("chakra", "astra"):
            refuse("--npus", str(self.npus), "the files say how many NPUs there are", "no --npus")
        if self.topology is not None and (self.like is not None or self.format == "astra"):
            other = "--like" if self.like is not None else "the network configuration"
            refuse("--topology", self.topology, f"{other} says the topology", "one of the two")
        if problems:
            raise InputError(problems)
        like = None
        if isinstance(self.like, Path):
            like = similar.read(self.like)
        elif self.like is not None:
            like = similar.of_values(self.like, ARGUMENTS.label("like"))
        times = self.times or TIMES[0]
        return output.Asked(self.topology, self.groups, times, self.backend, like, self.parts, self.npus)


@dataclass(frozen=True, slots=True)
class Written:
    """What was imported, and where it is."""

    imported: Imported
    replays: Sequence[Replay]
    """Of the traces whose recorded time is known."""
    files: Mapping[str, str]
    """The experiment, the graph and the table of differences, as far as there are such."""
    document: Document
    """The document of `import --json`."""


class ImportedTrace(Documented, os.PathLike[str]):
    """A trace or a workload of another program, as an experiment: functions that take the path of one take this."""

    def __init__(self, written: Written) -> None:
        super().__init__(written.document)
        self.experiment: Path = Path(written.files["experiment"])
        """The file of the experiment that runs it."""
        self.graph: Path | None = Path(written.files["graph"]) if "graph" in written.files else None
        """The graph file; `None` where another file is the workload."""
        self.differences: tuple[Difference, ...] = tuple(written.imported.differences)
        """What differs in meaning: `what`, what it means `there`, and `here`. It is beside the experiment as a page."""
        self._replays = written.replays

    def __fspath__(self) -> str:
        return str(self.experiment)

    def __repr__(self) -> str:
        return f"<ImportedTrace {self.name} from {self.format}: {self.experiment.name}>"

    def _repr_html_(self) -> str:
        facts = [("format", self.format), ("experiment", str(self.experiment))]
        facts += [
            (name, f"{self.document[name]:,}") for name in ("npus", "nodes") if _is_count(self.document.get(name))
        ]
        facts += trace_replays.facts(self._replays)
        text = display.table(self.name, ["", ""], facts)
        differences = self.document["differences"]
        if differences:
            rows = [(str(each["what"]), str(each["there"]), str(each["here"])) for each in differences[:MOST_SHOWN]]
            text += display.table("what differs in meaning", ["what", "there", "here"], rows)
        left = len(differences) - MOST_SHOWN
        more = [f"{left:,} further differences are in imported.differences."] if left > 0 else []
        said = [*(f"warning: {each}" for each in self.warnings), *(f"assumed: {each}" for each in self.assumptions)]
        return text + display.paragraphs([*more, *said])

    @property
    def format(self) -> str:
        """What the files were: `chakra`, `astra`, `fx` or `kineto`."""
        return str(self.document["format"])

    @property
    def name(self) -> str:
        """What the import is called."""
        return str(self.document["name"])

    @property
    def npus(self) -> int | None:
        """NPUs of the trace, where the files say how many there are."""
        npus: int | None = self.document.get("npus")
        return npus

    @property
    def nodes(self) -> int | None:
        """Nodes of its graph, where it has one."""
        nodes: int | None = self.document.get("nodes")
        return nodes

    @property
    def record(self) -> Mapping[str, Any] | None:
        """The recorded time of the slowest NPU (`time_s`, `iteration_time_s`, `exposed_comm_s`, ...) and what a replay
        takes with communication as recorded, with those of all `npus`; `None` where the trace has no such time.
        """
        record: Mapping[str, Any] | None = self.document["record"]
        return record


def _is_count(value: object) -> bool:
    return isinstance(value, int)


@arguments.plain_arguments
def import_trace(
    format: str,
    files: AnyPath | Sequence[AnyPath],
    *,
    out: AnyPath | None = None,
    topology: str | None = None,
    backend: str | None = None,
    like: AnyPath | Mapping[str, object] | Experiment | None = None,
    groups: AnyPath | None = None,
    times: str | None = None,
    workload: AnyPath | None = None,
    system: AnyPath | None = None,
    network: AnyPath | None = None,
    memory: AnyPath | None = None,
    npus: int | None = None,
) -> ImportedTrace:
    """Imports a trace or a workload of another program as a graph, and writes an experiment that runs it.

    `format` says what the files are: `"chakra"` execution traces, the directory of `"astra"` (ASTRA-sim 2.x), what
    `syncline.importers.fx` has written of a PyTorch module (`"fx"`), or profiles of PyTorch (`"kineto"`). `files` are
    paths of files, a folder, or the prefix of files with a number for each NPU. What is written goes into the folder
    `out`, by default one named like the files, or into the file `out` and one beside it. `docs/importing.md` says what
    is taken of each format.

    `topology` and `backend` are those of the experiment, by default one switch; `like` is an experiment (a path, a
    mapping or an [`Experiment`]) from which everything but the workload is taken. Of Chakra: `groups` is a file with
    communicators as JSON, and `times` says whether compute takes what was `"recorded"` or is `"computed"` from
    operations and bytes. `workload`, `system`, `network` and `memory` say which file of an ASTRA-sim directory is
    which. `npus` train a module of fx together, or are those of the whole job of a profile.

    The result may be given to [`run`] and other functions that take the path of an experiment. Raises [`InputError`]
    with everything that is wrong.
    """
    problems = arguments.not_text(topology=topology, backend=backend, times=times)
    if not isinstance(format, str):
        problems.append(ARGUMENTS.problem("format", type(format).__name__, "this is not text"))
    if isinstance(npus, bool) or not isinstance(npus, int | None):
        problems.append(ARGUMENTS.problem("npus", npus, "this is not a whole number", "1 to 1048576"))
    places = {
        "out": out,
        "groups": groups,
        "workload": workload,
        "system": system,
        "network": network,
        "memory": memory,
    }
    paths = {name: _path(value, name, problems) for name, value in places.items() if value is not None}
    given = [_path(each, "files", problems) for each in _several(files)]
    if not given:
        problems.append(ARGUMENTS.problem("files", None, "no file is given", "paths"))
    experiment = _like(like, problems)
    if problems:
        raise InputError(problems)
    asked = Asked(
        format=format,
        files=tuple(given),
        topology=topology,
        backend=backend,
        like=experiment,
        groups=Path(paths["groups"]) if "groups" in paths else None,
        times=times,
        parts={name: paths[name] for name in PARTS if name in paths},
        npus=npus,
    )
    with arguments.spelled(RENAMED):
        return ImportedTrace(write(asked, Path(paths["out"]) if "out" in paths else None))


def _several(given: object) -> Sequence[object]:
    return given if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _path(given: object, argument: str, problems: list[Problem]) -> str:
    """The path that is given; what is wrong with it is added to `problems`."""
    try:
        return files.path_of(given, argument, "a file", "a path")
    except InputError as error:
        problems += error.problems
        return ""


def _like(given: object, problems: list[Problem]) -> Path | Mapping[str, object] | None:
    """The experiment whose sections are taken, as a path or as values."""
    if given is None or isinstance(given, Mapping):
        return given
    if isinstance(given, Experiment):
        return given.as_mapping()
    return Path(_path(given, "like", problems))


@inputs.remembered()
def write(asked: Asked, out: Path | None) -> Written:
    """Imports files, and writes graph and experiment, by default into a folder named like them, for programs and for
    the command line. Raises [`InputError`] with everything that is wrong.
    """
    began = Clock()
    wanted = asked.wanted()

    imported = _imported(asked.format, list(asked.files), wanted)
    if wanted.like is not None:
        similar.take(imported, wanted.like)
    replays = trace_replays.of(imported)
    imported.warnings += trace_replays.warnings(replays)
    if imported.graph is not None and imported.warnings:
        imported.graph["warnings"] = imported.warnings
    written = output.save(imported, out)
    return Written(imported, replays, written, _document(imported, replays, written, began))


def _imported(format_: str, files: list[str], asked: Wanted) -> Imported:
    if format_ == "chakra":
        return chakra.imported(files, asked)
    if format_ == "astra":
        return astra.imported(files, asked)
    if format_ == "fx":
        return fx.imported(files, asked)
    return kineto.imported(files, asked)


def _document(imported: Imported, replays: Sequence[Replay], written: dict[str, str], began: Clock) -> Document:
    return {
        **_version.versions(),
        "status": "complete",
        "seed": 0,
        "assumptions": imported.assumptions,
        "warnings": imported.warnings,
        "fidelity": {"backend": imported.sections.get("network")},
        "format": imported.format,
        "name": imported.name,
        "files": written,
        **imported.facts,
        "record": trace_replays.document(replays),
        "differences": [{"what": d.what, "there": d.there, "here": d.here} for d in imported.differences],
        "cost": results.cost(began, []),
    }
