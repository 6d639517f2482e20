"""`syncline.calibrate`: fits the software model's constants to a measured table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncline.base import outputs
from syncline.base.clock import Clock
from syncline.base.errors import InputError, command_line, did_you_mean, one_of
from syncline.base.text_units import bandwidth, percent
from syncline.commands.api import arguments, display, files, tables
from syncline.commands.api.arguments import ARGUMENTS, FLAGS
from syncline.commands.api.documented import Documented
from syncline.commands.api.systems import Entry
from syncline.commands.api.tables import Table
from syncline.nccl import calibration, constants, measurements, networks, selection
from syncline.nccl.calibration import SMALL
from syncline.nccl.constants import TIMES
from syncline.nccl.platform import platform
from syncline.nccl.wire import KINDS
from syncline.results import entries as results

if TYPE_CHECKING:
    from syncline.commands.api.files import AnyPath
    from syncline.core.cancelling import Cancellation
    from syncline.nccl.calibration import Errors, Residual, Run
    from syncline.nccl.constants import Constants, Software
    from syncline.nccl.measurements import Table as Measured
    from syncline.nccl.selection import Selected
    from syncline.results.entries import Document

COLUMNS: Final = ("out-of-place", "in-place")
ALGORITHMS: Final = ("auto", "ring", "tree", "nvls")
FAR_OFF: Final = 0.5
"""A point that the fit misses by more is reported."""
FEW: Final = 0.2
"""The part of all points that may be called outliers; where more are missed, it is the fit that is wrong."""
SAVED: Final = replace(ARGUMENTS, called=(("out", "path"),))
MOST_NAMED: Final = 10
"""Rows with wrong results that are named by their lines."""
SHOWN: Final = 40
"""Rows that a notebook shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for, as the command line says it."""

    table: Path
    machine: str
    collective: str | None = None
    column: str = COLUMNS[0]
    algorithm: str | None = None
    software: str | None = None
    force: bool = False
    seed: int = 0
    cancel: Cancellation | None = None


def run(asked: Asked) -> tuple[Document, str]:
    """The document of `calibrate --json`, and the constants as the text of a file. Raises [`InputError`] with
    everything that is wrong, [`CancelledError`] when what may cancel it is called.
    """
    problems = arguments.common_problems(FLAGS, seed=asked.seed)
    kind = None if asked.collective is None else measurements.kind_of(asked.collective)
    if asked.collective is not None and kind is None:
        message = f"this collective is not known{did_you_mean(asked.collective, KINDS)}"
        accepted = measurements.accepted_kinds()
        problems += command_line("--collective", asked.collective, message, accepted).problems
    if asked.column not in COLUMNS:
        message = f"this is not known{did_you_mean(asked.column, COLUMNS)}"
        problems += command_line("--column", asked.column, message, one_of(COLUMNS)).problems
    if asked.algorithm is not None and asked.algorithm not in ALGORITHMS:
        message = f"this is not known{did_you_mean(asked.algorithm, ALGORITHMS)}"
        problems += command_line("--algorithm", asked.algorithm, message, one_of(ALGORITHMS)).problems
    began = Clock()
    found = arguments.collected(problems, lambda: platform(asked.machine))
    measured = arguments.collected(problems, lambda: measurements.read_table(asked.table, kind=kind))
    start = None
    if found is not None:
        start = arguments.collected(problems, lambda: networks.software_of(found, asked.software))
    if problems or found is None or measured is None or start is None:
        raise InputError(problems)

    given = calibration.Given(kind=kind, algorithm=asked.algorithm, column=asked.column, force=asked.force)
    fitted = calibration.run_of(measured, found, given)
    selected = selection.select(fitted, start.constants, asked.cancel)
    result = constants.Software(
        f"{found.cluster.machine.name}-calibrated",
        f"{fitted.kind} of {fitted.platform}, fitted from {start.name}",
        (fitted.platform.machine,),
        selected.constants,
        (constants.Fitted(measured.name, measured.about.get("url", measured.about.get("source", ""))),),
        start.launch_spread,
        selected.measured,
    )
    explicit = kind is not None or measured.kind is not None
    document = _document(fitted, start, selected, asked.seed, explicit=explicit)
    document["warnings"] += [*_of_few_sizes(fitted, start), *_of_wrong_results(measured)]
    if asked.algorithm is None and fitted.kind == "all-reduce" and measured.algorithm == "auto":
        document["assumptions"].append("algorithm = auto, NCCL's own choice: the table does not say")
    if asked.force:
        document["assumptions"].append(f"the GPUs of the table ({measured.about.get('gpu', 'not named')}) are as good")
    document["cost"] = results.cost(began, [])
    return document, constants.render(result)


def _document(run: Run, start: Software, selected: Selected, seed: int, *, explicit: bool) -> Document:
    residuals, plain = selected.residuals(run), selected.line
    plain_residuals = calibration.alpha_beta_residuals(run, plain)
    document = results.document([], seed=seed, status="complete", warnings=_warnings(run, residuals))
    document["assumptions"] = start.assumptions()
    if not explicit:
        document["assumptions"].append(f"collective = {run.kind}: the table does not say")
    document["fidelity"] = {"backend": "software model", "folded": False, "transfer": "closed form"}
    document["table"] = run.name
    document["machine"] = run.platform.machine
    document["collective"] = run.kind
    document["algorithm"] = run.algorithm
    document["gpus"] = run.platform.gpus
    document["nodes"] = run.platform.nodes
    document["software"] = {
        "start": start.name,
        "constants": _constants(selected.constants),
        "start_constants": _constants(start.constants),
        "described_by": {"below_1MiB": selected.below, "from_1MiB": selected.above},
    }
    document["alpha_beta"] = {"alpha_s": plain.alpha, "beta_bytes_per_s": _finite(plain.beta)}
    document["residuals"] = [
        {
            "size_bytes": r.size,
            "measured_s": r.measured,
            "fitted_s": r.predicted,
            "error": r.error,
            "alpha_beta_s": p.predicted,
            "alpha_beta_error": p.error,
        }
        for r, p in zip(residuals, plain_residuals, strict=True)
    ]
    document["mean_absolute_error"] = {
        "fitted": _errors(calibration.errors_of(residuals)),
        "alpha_beta": _errors(calibration.errors_of(plain_residuals)),
        "held_out": _errors(selected.held_out["chosen"]),
        "constants_held_out": _errors(selected.held_out["constants"]),
        "alpha_beta_held_out": _errors(selected.held_out["line"]),
    }
    return document


def _warnings(run: Run, residuals: Sequence[Residual]) -> list[str]:
    found = []
    if run.times[0][0] >= SMALL:
        found.append("the table has no size below 64 KiB: launch and latency are those of the class")
    missed = [r for r in residuals if not 1 / (1 + FAR_OFF) < r.measured / r.predicted < 1 + FAR_OFF]
    if len(missed) > FEW * len(residuals):
        sizes = f"{len(missed)} of {len(residuals)} sizes"
        found.append(f"the fit misses {sizes} by more than {100 * FAR_OFF:.0f} %: the table is described badly")
        return found
    for r in missed:
        times = f"{r.measured * 1e6:.1f} us, where the rest suggests {r.predicted * 1e6:.1f} us"
        found.append(f"an outlier hardly counts: {r.size} bytes took {times}")
    return found


def _of_few_sizes(run: Run, start: Software) -> list[str]:
    """How little a table constrains that has too few sizes to hold any out."""
    sizes, constants = len(run.times), len(calibration.fitted_names([run]))
    if sizes >= calibration.MIN_SIZES:
        return []
    counted = display.counted(sizes, "size")
    return [
        f"the table has {counted}, for {constants} constants: what it does not show stays close to {start.name}; "
        "no size is left to hold out, so that nothing tells how well other sizes are predicted"
    ]


def _of_wrong_results(measured: Measured) -> list[str]:
    """That nccl-tests found elements with wrong values, whose times may be those of something else."""
    lines = [str(row.line) for row in measured.rows if row.wrong]
    if not lines:
        return []
    named = ", ".join(lines[:MOST_NAMED]) + (", ..." if len(lines) > MOST_NAMED else "")
    rows = f"{len(lines)} of {len(measured.rows)} rows (line{'s' if len(lines) > 1 else ''} {named})"
    return [f"nccl-tests found wrong results (#wrong) in {rows}: what was timed did not work"]


def _constants(constants: Constants) -> dict[str, float]:
    """With units in the names."""
    return {f"{name}_s" if name in TIMES else name: value for name, value in constants.as_mapping().items()}


def _errors(errors: Errors) -> dict[str, float | None]:
    return {"from_1MiB": errors.large, "below_1MiB": errors.small}


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSize(Entry):
    """A size of the measured table. Times are seconds."""

    size_bytes: int
    measured_s: float
    fitted_s: float
    """What the fitted model says."""
    error: float
    """How much the fitted time is above the measured one, as a share of it."""
    alpha_beta_s: float
    """What a straight line says: alpha + size / beta."""
    alpha_beta_error: float


class Calibration(Documented):
    """The software model of a machine, fitted to a measured table."""

    def __init__(self, document: Document, text: str) -> None:
        super().__init__(document)
        self.text: str = text
        """The constants as the text of a file, which `software` of [`bench`] takes."""
        self.residuals: tuple[FittedSize, ...] = tuple(FittedSize.of(row) for row in document["residuals"])
        """The sizes of the table, with what was measured and what was fitted."""
        self.table: Table = tables.of_entries("residuals", document["residuals"])
        """The same as a table."""

    def __repr__(self) -> str:
        return f"<Calibration of {self.collective} on {self.machine}: {percent(self.error)} off from 1 MiB>"

    def _repr_html_(self) -> str:
        about = f"{self.collective} on {self.machine}: {self.document['table']}"
        names = ("size_bytes", "measured_s", "fitted_s", "error", "alpha_beta_s", "alpha_beta_error")
        text = display.rows(about, self.document["residuals"], names, SHOWN, "calibration.table has all of them.")
        line = self.document["alpha_beta"]
        alpha, beta = display.cell("alpha_s", line["alpha_s"]), bandwidth(line["beta_bytes_per_s"])
        return text + display.paragraphs([f"straight line: {alpha} + size / {beta}", *self.warnings])

    @property
    def machine(self) -> str:
        """The machine."""
        return str(self.document["machine"])

    @property
    def collective(self) -> str:
        """The collective that was measured."""
        return str(self.document["collective"])

    @property
    def constants(self) -> dict[str, float]:
        """The fitted constants; names that end in `_s` are seconds, the others shares, factors or counts."""
        return dict(self.document["software"]["constants"])

    @property
    def error(self) -> float | None:
        """The mean absolute error of the fit from 1 MiB, as a share; `None` if the table has no such size."""
        found: float | None = self.document["mean_absolute_error"]["fitted"]["from_1MiB"]
        return found

    @property
    def held_out_error(self) -> float | None:
        """The same of sizes that were held out of the fit, one in four at a time."""
        found: float | None = self.document["mean_absolute_error"]["held_out"]["from_1MiB"]
        return found

    def save(self, path: AnyPath) -> Path:
        """Writes the constants into a file, which `software` of [`bench`] takes, and returns its path. Raises
        [`InputError`] if it cannot be written, or is something else that exists.
        """
        to = Path(files.path_of(path, "path", "a file", "the path of a file"))
        with arguments.spelled(SAVED):
            outputs.write(to, self.text, outputs.SOFTWARE)
        return to


@arguments.plain_arguments
def calibrate(
    table: AnyPath,
    machine: str,
    *,
    collective: str | None = None,
    column: str = "out-of-place",
    algorithm: str | None = None,
    software: AnyPath | None = None,
    force: bool = False,
    seed: int = 0,
    cancel: Cancellation | None = None,
) -> Calibration:
    """Fits the software model of a machine (`"dgx-h100(nodes=2)"`) to a measured table.

    `table` is the path of a file with what nccl-tests printed, or of a CSV of it; `collective` is what it measures, if
    the table does not say; `column` says which times are used, out-of-place or in-place; `algorithm` is what NCCL had
    to use (NCCL_ALGO: auto, ring, tree or nvls), if the table does not say. The fit begins at the constants `software`,
    by default those of the machine's class, and changes those that the table determines. With `force`, a table of
    another GPU than the machine's is accepted.

    Raises [`InputError`] with everything that is wrong, [`CancelledError`] when `cancel` is called.
    """
    token, problems = arguments.cancellation(cancel)
    problems += [
        *arguments.no_text(machine=machine, column=column),
        *arguments.not_text(collective=collective, algorithm=algorithm),
    ]
    problems += arguments.not_flags(force=force)
    constants = files.text_of(problems, software, "software", "a class of constants", "its name, or the path of a file")
    given = arguments.collected(problems, lambda: files.path_of(table, "table", "a table", "the path of a file"))
    if problems or given is None:
        raise InputError(problems)
    asked = Asked(
        table=Path(given),
        machine=machine,
        collective=collective,
        column=column,
        algorithm=algorithm,
        software=constants,
        force=force,
        seed=seed,
        cancel=token,
    )
    with arguments.spelled(ARGUMENTS):
        return Calibration(*run(asked))
