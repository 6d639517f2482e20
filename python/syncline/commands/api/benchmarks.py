"""`syncline.bench`: the table that nccl-tests would print on a machine, as the software model predicts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncline.base import quantities
from syncline.base.clock import Clock
from syncline.base.errors import InputError, command_line, did_you_mean, one_of
from syncline.commands.api import arguments, bench_execute, bench_trees, display, files, tables
from syncline.commands.api.arguments import ARGUMENTS, FLAGS, Listed
from syncline.commands.api.documented import Documented
from syncline.commands.api.progress import Progress, watch_of
from syncline.commands.api.systems import Entry
from syncline.commands.api.tables import Table
from syncline.engine.runs import PS_PER_S
from syncline.fabric import allocation
from syncline.nccl import constants, measurements, model, networks, printing, systems
from syncline.nccl import sizes as listing
from syncline.nccl.model import UNMEASURED, algorithms, extrapolated
from syncline.nccl.platform import platform
from syncline.nccl.wire import DIRECT, KINDS
from syncline.results import entries as results
from syncline.sections.packed import PACKED

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.base.progress import Watch
    from syncline.commands.api.files import AnyPath
    from syncline.core.cancelling import Cancellation
    from syncline.nccl.model import Model
    from syncline.results.entries import Document

DEFAULT_SIZES: Final = "1KiB:8GiB:x2"
ALGORITHMS: Final = ("auto", "ring", "tree", "nvls", "packed-trees")
SIZES: Final = Listed(
    "these are no sizes", 'a range such as "1KiB:8GiB:x2", or a list of sizes', of_bytes=True, alone=True
)
SHOWN: Final = 40
"""Rows that a notebook shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for, as the command line says it."""

    kind: str
    machine: str | None = None
    sizes: str | None = None
    gpus: str | None = None
    algorithm: str = ALGORITHMS[0]
    software: str | None = None
    small_size_time: str | None = None
    execute: bool = False
    ranks: int | None = None
    html: Path | None = None
    """A page, which is for what is carried out alone."""
    seed: int = 0
    watch: Watch | None = None
    """What hears of simulations, where there are any."""
    cancel: Cancellation | None = None


def run(asked: Asked) -> tuple[Document, str]:
    """The document of `bench --json`, and the table as text. Raises [`InputError`] with everything that is wrong."""
    began = Clock()
    sizes = DEFAULT_SIZES if asked.sizes is None else asked.sizes
    if asked.execute:
        document, text = _executed(asked)
    elif asked.algorithm == PACKED:
        document, text = _of_trees(asked, _named(asked), sizes)
    else:
        model, listed, small = _read(asked, _named(asked), sizes)
        predictions = [model.predict(size) for size in listed]
        document = _document(model, small, asked.seed)
        document["rows"] = printing.rows(model, predictions)
        text = printing.table(model, predictions)
    document["cost"] = results.cost(began, [])
    return document, text


def _named(asked: Asked) -> str:
    """The machine. Raises [`InputError`] where there is none, or where something is said that goes with --execute."""
    problems: list[Problem] = []
    if asked.machine is None:
        message = "no machine is given"
        problems += command_line("--machine", None, message, "a machine such as dgx-h100, or --execute").problems
    for flag, value in (("--ranks", asked.ranks), ("--html", asked.html)):
        if value is not None:
            problems += command_line(flag, str(value), "nothing is carried out", "it with --execute").problems
    if problems or asked.machine is None:
        raise InputError(problems)
    return asked.machine


def _kind(text: str, problems: list[Problem]) -> str | None:
    """The collective by its name. What is wrong goes to `problems`."""
    named = measurements.kind_of(text)
    if named is None:
        message = f"this collective is not known{did_you_mean(text, KINDS)}"
        problems += command_line("KIND", text, message, measurements.accepted_kinds()).problems
    return named


def _executed(asked: Asked) -> tuple[Document, str]:
    """The document and the table of what is measured. Raises [`InputError`] with everything that is wrong."""
    flags = {
        "--machine": asked.machine,
        "--gpus": asked.gpus,
        "--software": asked.software,
        "--small-size-time": asked.small_size_time,
    }
    given = [flag for flag, value in flags.items() if value is not None]
    given += ["--algorithm"] if asked.algorithm != ALGORITHMS[0] else []
    problems = arguments.common_problems(FLAGS, seed=asked.seed)
    named = _kind(asked.kind, problems)
    sizes = asked.sizes or bench_execute.DEFAULT_SIZES
    listed = arguments.collected(problems, lambda: listing.parse(sizes))
    problems += bench_execute.problems(named, asked.ranks, listed, given)
    if problems or named is None or listed is None:
        raise InputError(problems)
    return bench_execute.table(named, listed, 2 if asked.ranks is None else asked.ranks)


def _of_trees(asked: Asked, machine: str, sizes: str) -> tuple[Document, str]:
    """The document and the table of packed trees. Raises [`InputError`] with everything that is wrong."""
    problems = arguments.common_problems(FLAGS, seed=asked.seed)
    problems += bench_trees.problems(asked.software, asked.small_size_time)
    named = _kind(asked.kind, problems)
    listed = arguments.collected(problems, lambda: listing.parse(sizes))
    if problems or named is None or listed is None:
        raise InputError(problems)
    where = bench_trees.Where(named, machine, asked.gpus, asked.seed, asked.cancel)
    return bench_trees.table(where, listed, asked.watch)


def _read(asked: Asked, machine: str, sizes: str) -> tuple[Model, tuple[int, ...], float | None]:
    """The model, the sizes and the small-size time. Raises [`InputError`] with everything that is wrong."""
    software, algorithm = asked.software, asked.algorithm
    problems = arguments.common_problems(FLAGS, seed=asked.seed)
    named = _kind(asked.kind, problems)
    if algorithm not in ALGORITHMS:
        message = f"this is not known{did_you_mean(algorithm, ALGORITHMS)}"
        problems += command_line("--algorithm", algorithm, message, one_of(ALGORITHMS)).problems
    found = arguments.collected(problems, lambda: platform(machine, asked.gpus))
    listed = arguments.collected(problems, lambda: listing.parse(sizes))
    if software is not None:
        arguments.collected(problems, lambda: constants.load(software))
    small = arguments.collected(problems, lambda: _seconds(asked.small_size_time))
    if problems or named is None or found is None or listed is None:
        raise InputError(problems)
    opened = model.open_model(found, kind=named, algorithm=algorithm, software=software, small_size_time=small)
    return opened, listed, small


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return quantities.time(text) / PS_PER_S
    except quantities.QuantityError as error:
        raise command_line("--small-size-time", text, error.message, error.accepted) from None


def _document(model: Model, small_size_time: float | None, seed: int) -> Document:
    platform = model.platform
    document = results.document([], seed=seed, status="complete", warnings=_warnings(model))
    document["assumptions"] = model.software.assumptions()
    if not model.is_measured:
        document["assumptions"] += [] if model.calibrated else networks.assumptions(platform)
        document["assumptions"] += extrapolated([model.kind], platform.nodes)
    document["fidelity"] = {"backend": "software model", "folded": False, "transfer": "closed form"}
    document["collective"] = model.kind
    document["program"] = printing.PROGRAMS[model.kind]
    document["size_means"] = results.SIZE_MEANS.get(model.kind, "what each rank sends")
    document["machine"] = platform.machine
    document["gpus"] = allocation.canonical(platform.members)
    document["ranks"] = platform.gpus
    document["nodes"] = platform.nodes
    document["algorithm"] = model.algorithm
    document["software"] = {
        "name": model.software.name,
        "fitted_on": [{"table": f.table, "source": f.source} for f in model.software.fitted_on],
        "calibrated": model.calibrated,
        "small_size_time_s": small_size_time,
    }
    return document


def _warnings(model: Model) -> list[str]:
    platform, software = model.platform, model.software
    found = list(platform.cluster.warnings)
    name, fitted = platform.cluster.machine.name, systems.fitted_machines(software)
    if name not in fitted:
        found.append(
            f"{software.name} was fitted on tables of {' and '.join(sorted(fitted)) or 'nothing'}, none of {name}"
        )
    if not model.is_measured and not model.calibrated:
        found += networks.warnings(platform)
    if platform.on_pcie:
        found.append("no ring of NVLinks leads through these GPUs; no table was measured over PCIe")
    elif not platform.switched and DIRECT in algorithms(platform, model.kind):
        found.append("what goes directly between GPUs of a hybrid cube mesh was not compared with any measured table")
    if model.kind in UNMEASURED:
        found.append(f"{model.kind} was not compared with any measured table")
    elif model.kind == "all-to-all" and platform.nodes > 1 and not model.is_measured:
        found.append("all-to-all over several nodes was not compared with any measured table")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow(Entry):
    """A size of the table. Times are seconds, rates bytes per second, both as nccl-tests counts them."""

    size_bytes: int
    count: int
    """Elements, as nccl-tests prints them."""
    time_s: float
    time_low_s: float | None = None
    """Nine of ten systems of the class take at least this; only for sizes below 1 MiB, or over a network that no table
    was there to fit."""
    time_high_s: float | None = None
    """Nine of ten systems of the class take at most this."""
    algorithm_bandwidth_bytes_per_s: float
    bus_bandwidth_bytes_per_s: float
    algorithm: str
    """What NCCL would use, or what was carried out."""
    protocol: str | None = None
    """The protocol of NCCL; `None` of what was carried out."""
    predicted_s: float | None = None
    """Of what was carried out, what the simulator predicts."""


class Bench(Documented):
    """The table that nccl-tests would print, or that was measured between processes of this host."""

    def __init__(self, document: Document, text: str) -> None:
        super().__init__(document)
        self.text: str = text
        """The table as nccl-tests prints it."""
        self.rows: tuple[BenchRow, ...] = tuple(BenchRow.of(row) for row in document["rows"])
        """A row for each size."""
        self.table: Table = tables.of_entries("bench", document["rows"])
        """The same as a table, with all columns of the document."""

    def __repr__(self) -> str:
        where = self.document.get("machine") or self.document.get("host")
        return f"<Bench {self.collective} on {where}: {display.counted(len(self.rows), 'size')}>"

    def _repr_html_(self) -> str:
        where = self.document.get("machine") or self.document.get("host")
        names = (
            *("size_bytes", "time_s", "time_low_s", "time_high_s", "algorithm_bandwidth_bytes_per_s"),
            *("bus_bandwidth_bytes_per_s", "algorithm", "protocol", "predicted_s"),
        )
        text = display.rows(
            f"{self.collective} on {where}", self.document["rows"], names, SHOWN, "bench.table has all of them."
        )
        return text + display.paragraphs(self.warnings)

    @property
    def collective(self) -> str:
        """The collective that is measured."""
        return str(self.document["collective"])

    @property
    def ranks(self) -> int:
        """The GPUs, or processes, that take part."""
        return int(self.document["ranks"])


@arguments.plain_arguments
def bench(
    kind: str,
    machine: str | None = None,
    *,
    sizes: str | int | Sequence[int | str] | None = None,
    gpus: str | Sequence[int] | None = None,
    algorithm: str = "auto",
    software: AnyPath | None = None,
    small_size_time: str | None = None,
    execute: bool = False,
    ranks: int | None = None,
    seed: int = 0,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> Bench:
    """Predicts the table that nccl-tests would print for a collective on a machine (`"dgx-h100(nodes=2)"`).

    The times come from a model of NCCL whose constants were fitted to published tables, not from a simulation;
    docs/validation.md says how well it predicts. `sizes` is a range (`"1KiB:8GiB:x2"`, which is the default), a list,
    or one size; whole numbers are bytes. `gpus` take part, all if not given. `algorithm` is what NCCL has to use: auto,
    ring, tree or nvls; packed-trees are simulated, of which `progress` hears, and which `cancel` ends. `software` is a
    class of constants, or a file that [`calibrate`] has written; `small_size_time` is how long 8 bytes take on your
    system (`"25us"`), if you know it.

    With `execute`, Syncline's collective library carries the collective out between `ranks` processes of this host, on
    float32 in its memory, and predictions of the simulator stand beside what was measured.

    Raises [`InputError`] with everything that is wrong, [`SimulationFailedError`] where something cannot be carried
    out.
    """
    problems = arguments.no_text(kind=kind, algorithm=algorithm)
    problems += arguments.not_text(machine=machine, small_size_time=small_size_time)
    problems += arguments.not_flags(execute=execute)
    listed = arguments.listed(problems, "sizes", sizes, SIZES)
    members = arguments.listed(problems, "gpus", gpus, arguments.GPUS)
    constants = files.text_of(problems, software, "software", "a class of constants", "its name, or the path of a file")
    token, wrong = arguments.cancellation(cancel)
    if problems + wrong:
        raise InputError([*problems, *wrong])
    with arguments.spelled(ARGUMENTS):
        asked = Asked(
            kind=kind,
            machine=machine,
            sizes=listed,
            gpus=members,
            algorithm=algorithm,
            software=constants,
            small_size_time=small_size_time,
            execute=execute,
            ranks=ranks,
            seed=seed,
            watch=watch_of(progress),
            cancel=token,
        )
        return Bench(*run(asked))
