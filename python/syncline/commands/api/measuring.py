"""`syncline.measure`: times the kernels of models with PyTorch."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from syncline.base import outputs
from syncline.base.errors import InputError, Problem, command_line, did_you_mean, one_of, unwritten
from syncline.base.progress import Standing
from syncline.commands.api import arguments, display, files
from syncline.commands.api.arguments import ARGUMENTS
from syncline.commands.api.documented import Documented
from syncline.commands.api.progress import Progress, warn_of, watch_of
from syncline.commands.api.tables import Table
from syncline.core import cancelling
from syncline.measurements import grid as grids
from syncline.measurements import kernels, operators
from syncline.measurements.kernels import Observer
from syncline.models import demands, evaluate, file
from syncline.models.evaluate import ParameterError
from syncline.models.model import DivisionError
from syncline.results import entries as results
from syncline.sections.shapes import COLUMNS, IMAGES, LAYOUTS, WIDTHS, described, dumps
from syncline.sections.shapes import Table as Rows

if TYPE_CHECKING:
    from syncline.base.progress import Watch
    from syncline.commands.api.files import AnyPath
    from syncline.core.cancelling import Cancellation
    from syncline.models.form import ModelFile
    from syncline.models.model import Operator
    from syncline.results.entries import Document
    from syncline.sections.shapes import Kernel, Measured

DEVICES: Final = ("auto", "cpu", "cuda")
GRIDS: Final = ("sample", "full")
MOST_SAMPLES: Final = 2**20
DEFAULT_LAYOUT: Final = "nhwc"
"""That of `workload.layout`."""
SUFFIX: Final = ".csv"
LABEL: Final = "model"
"""What stands in problems in place of the file of a model that is given as values."""
ACCEPTED: Final = "the name of a model, the path of a model file, a mapping such as a file has, or a list of them"
RENAMED: Final = replace(ARGUMENTS, called=(("model", "models"),))
"""What the arguments of the function are called that the command calls otherwise."""
SAVED: Final = replace(ARGUMENTS, called=(("out", "path"),))
SHOWN: Final = 20
"""Kernels that a notebook shows."""
MEANINGS: Final = {
    "kind": "The kind of kernel: product, softmax and so on.",
    "direction": "Forward, or which of its gradients.",
    "bytes": "The least that the kernel moves: every operand once.",
    "layout": "How images lie in memory: nchw or nhwc; none for kernels that work on none.",
    "time_s": "Median over repetitions of the time of one call.",
    "spread_s": "Distance between the quartiles of the repetitions.",
    "repetitions": "How many there are.",
    "calls": "Calls of each repetition.",
    "cache": "cold: operands exceed the last-level cache twice; warm: they may be found there.",
    "timing": "graph: one CUDA graph; events: CUDA events around single calls; host: the clock of the CPU.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be measured, as the command line says it."""

    models: Sequence[str | ModelFile] = ()
    """Names, paths of files, or what was read of them."""
    device: str = DEVICES[0]
    precision: str = "bf16"
    micro_batch: int = 1
    sequence: int | None = None
    tensor: int = 1
    layout: str = DEFAULT_LAYOUT
    launch: bool = False
    grid: str | None = None
    seconds: float | None = None
    out: Path | None = None
    seed: int = 0
    problems: tuple[Problem, ...] = ()
    """What is wrong with what is said beside all this."""

    def wrong(self) -> list[Problem]:
        """What is wrong with words and numbers."""
        problems = list(self.problems)
        words = [("--device", self.device, DEVICES), ("--precision", self.precision, tuple(WIDTHS))]
        words.append(("--layout", self.layout, LAYOUTS))
        if self.grid is not None:
            words.append(("--grid", self.grid, GRIDS))
        for flag, word, known in words:
            if word not in known:
                message = f"this is not known{did_you_mean(word, known)}"
                problems += command_line(flag, word, message, one_of(known)).problems
        numbers = [("--micro-batch", self.micro_batch), ("--tensor", self.tensor)]
        if self.sequence is not None:
            numbers.append(("--sequence", self.sequence))
        for flag, number in numbers:
            if not 1 <= number <= MOST_SAMPLES:
                problems += command_line(flag, number, "this is out of range", f"1 to {MOST_SAMPLES}").problems
        if not self.models and self.grid is None and not self.launch:
            message, accepted = "there is nothing to measure", "models by name or file, --grid, --launch"
            problems += command_line("MODEL", None, message, accepted).problems
        if self.out is not None:
            problems += out_problems(self.out)
        if self.seconds is not None and not self.seconds > 0:
            problems += command_line("--seconds", self.seconds, "this is out of range", "a number above zero").problems
        return problems

    @property
    def source(self) -> str:
        """What a file of shapes is of."""
        names = (each if isinstance(each, str) else each.name for each in self.models)
        return f"{', '.join(names)}: micro-batch {self.micro_batch}, tensor {self.tensor}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The kernels that are to be measured."""

    kernels: tuple[Kernel, ...]
    left_out: tuple[str, ...]
    """Kinds of operators of the models that are not measured."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before they are measured."""
        if not self.left_out:
            return ()
        listed = one_of(self.left_out)
        return (f"these operators are not measured, and a run takes their times from kernels like them: {listed}",)


@dataclass(frozen=True, slots=True)
class Device:
    """What kernels were measured on."""

    name: str
    torch: str
    """The version of PyTorch."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What was measured."""

    wanted: Wanted
    rows: tuple[Measured, ...]
    device: Device | None
    """None where nothing was to be measured."""
    document: Document
    """The document of `measure --json`."""


def out_problems(out: Path) -> list[Problem]:
    """What is wrong with the name of a table, or with what is there."""
    if out.suffix != SUFFIX:
        return list(command_line("--out", str(out), "measurements are written as CSV", f"FILE{SUFFIX}").problems)
    wrong = outputs.refusal(out, outputs.KERNELS)
    return [] if wrong is None else list(command_line("--out", str(out), *wrong).problems)


def wanted(asked: Asked) -> Wanted:
    """What is to be measured. Raises [`InputError`] with everything that is wrong."""
    problems = asked.wrong()
    if problems:
        raise InputError(problems)

    def updated(operator: Operator) -> int:
        return demands.of([operator], WIDTHS[asked.precision])[0].params

    models = []
    for given in asked.models:
        described = file.load(given) if isinstance(given, str) else given
        name = given if isinstance(given, str) else described.name
        try:
            models.append(evaluate.evaluate(described, asked.micro_batch, asked.sequence))
        except ParameterError as error:
            raise command_line(f"--{error.name}", asked.sequence, f"{name}: {error.message}", error.accepted) from None
    try:
        found = operators.of(models, operators.Setting(asked.tensor, asked.precision, asked.layout), updated)
    except DivisionError as error:
        raise command_line("--tensor", asked.tensor, str(error), "a number that divides it") from None
    beside: list[Kernel] = grids.device() if asked.launch else []
    if asked.grid is not None:
        beside += grids.products([asked.precision], full=asked.grid == "full")
    return Wanted((*beside, *found.kernels), found.left_out)


def run(asked: Asked, found: Wanted, observer: Observer | None = None) -> Finished:
    """Measures the kernels, and writes each into the table as soon as it is measured. Without an `observer`, progress
    and warnings are on standard error. Raises [`InputError`] where there is no PyTorch, no such device, or no place for
    the table.
    """
    try:
        on = kernels.clock(asked.device, asked.seed, None if observer is None else observer.warn)
    except kernels.UnusableError as error:
        raise command_line("--device", asked.device, str(error)) from None
    device = Device(on.name, str(on.torch.__version__))
    try:
        with io.StringIO() if asked.out is None else _opened(asked.out) as file:
            table = Rows(file, device.name, device.torch)
            rows = kernels.measure(on, found.kernels, table, asked.seconds, observer)
    except OSError as error:
        raise unwritten(Path(str(asked.out)), error) from None
    about = {} if asked.out is None else {"table": str(asked.out)}
    about |= {"device": device.name, "torch": device.torch}
    return Finished(found, tuple(rows), device, document(found, rows, about))


def unmeasured(found: Wanted, shapes: Path) -> Finished:
    """The outcome where only a file of shapes was asked for."""
    return Finished(found, (), None, document(found, [], {"shapes": str(shapes)}))


def document(found: Wanted, rows: Sequence[Measured], about: Mapping[str, str]) -> Document:
    """The document of `measure --json`."""
    made = results.document([], seed=0, status="complete", warnings=[])
    made |= {"assumptions": [], **about, "kernels": len(found.kernels)}
    made["measured"] = [
        {**described(row.kernel), "bytes": row.kernel.bytes, "time_s": row.time_s, "spread_s": row.spread_s}
        for row in rows
    ]
    return made


def carried_out(
    asked: Asked,
    found: Wanted,
    shapes: Path | None,
    observer: Observer | None = None,
    cancel: Cancellation | None = None,
) -> Finished:
    """Writes the shapes into a file, if one is named for them, and measures unless that is all that is wanted.

    Raises [`CancelledError`] if it was cancelled before, which leaves an older table as it is.
    """
    if shapes is not None:
        write_shapes(shapes, asked, found)
        if asked.out is None:
            return unmeasured(found, shapes)
    cancelling.check(cancel)
    return run(asked, found, observer)


def write_shapes(path: Path, asked: Asked, found: Wanted) -> None:
    """Writes down what is to be measured. Raises [`InputError`] where it cannot be written."""
    outputs.write(path, dumps(found.kernels, asked.source), outputs.SHAPES, "--shapes")


def _opened(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8", newline="")
    except ValueError as error:  # zeros in the name
        raise unwritten(path, error) from None


class Measurement(Documented):
    """Times of the kernels of models on a device."""

    def __init__(self, finished: Finished, shapes: str, said: Sequence[str]) -> None:
        super().__init__(finished.document)
        self.measured: tuple[Measured, ...] = finished.rows
        """The kernels that were measured, each with its shape and its time."""
        self.table: Table = _table(finished)
        """The same as a table: the columns of the file that `npu.compute.table` takes."""
        self.shapes: str = shapes
        """What was to be measured, as the text of a file for `python -m syncline.measurements.kernels`."""
        self._device = finished.device
        self._said = tuple(said)

    def __repr__(self) -> str:
        on = "" if self.device is None else f" on {self.device}"
        return f"<Measurement of {len(self.measured)} of {display.counted(self.kernels, 'kernel')}{on}>"

    def __len__(self) -> int:
        return len(self.measured)

    def _repr_html_(self) -> str:
        rows = [{**row, "size_bytes": row["bytes"]} for row in self.document["measured"]]
        names = ("kind", "direction", "m", "k", "n", "count", "dtype", "size_bytes", "time_s", "spread_s")
        caption = f"{len(rows)} of {display.counted(self.kernels, 'kernel')}"
        caption += f" on {self.document['device']}" if "device" in self.document else ", not measured"
        text = display.rows(caption, rows, names, SHOWN, "measurement.table has all of them.")
        return text + display.paragraphs(self.warnings)

    @property
    def kernels(self) -> int:
        """How many kernels were to be measured."""
        return int(self.document["kernels"])

    @property
    def device(self) -> str | None:
        """What they were measured on; `None` where nothing was to be measured."""
        return None if self._device is None else self._device.name

    @property
    def torch(self) -> str | None:
        """The version of PyTorch."""
        return None if self._device is None else self._device.torch

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be measured, and what made times too long."""
        return self._said

    def save(self, path: AnyPath) -> Path:
        """Writes the table that `npu.compute.table` takes (.csv), and returns its path. Raises [`InputError`] if it
        cannot be written, or if nothing was measured.
        """
        found = Path(files.path_of(path, "path", "a file", "the path of a file"))
        with arguments.spelled(SAVED):
            problems = out_problems(found)
            if self._device is None:
                problems += command_line("--out", str(found), "nothing was measured", "a measurement").problems
            if problems or self._device is None:
                raise InputError(problems)
            outputs.write(found, _text(self.measured, self._device), outputs.KERNELS)
        return found


def _text(rows: Sequence[Measured], device: Device) -> str:
    """The table as CSV."""
    text = io.StringIO(newline="")
    table = Rows(text, device.name, device.torch)
    for row in rows:
        table.add(row)
    return text.getvalue()


def _table(finished: Finished) -> Table:
    """The columns of a file of measurements, with times that are not rounded."""
    import pyarrow as pa

    texts = ("kind", "direction", "layout", "dtype", "cache", "timing", "device", "torch")
    kinds = {name: pa.string() for name in texts} | {"time_s": pa.float64(), "spread_s": pa.float64()}
    schema = pa.schema(pa.field(name, kinds.get(name, pa.int64()), metadata=_about(name)) for name in COLUMNS)
    device = finished.device
    on = {} if device is None else {"device": device.name, "torch": device.torch}
    rows = []
    for row in finished.rows:
        known = {name: getattr(row, name) for name in ("time_s", "spread_s", "repetitions", "calls", "cache", "timing")}
        sizes = {name: getattr(row.kernel, name) for name in (*IMAGES, "bytes")}
        rows.append({**sizes, **described(row.kernel), **known, **on})
    return Table("kernels", pa.Table.from_pylist(rows, schema))


def _about(name: str) -> dict[str, str]:
    unit = "B" if name == "bytes" else "s" if name.endswith("_s") else None
    about = {"unit": unit, "meaning": MEANINGS.get(name)}
    return {key: value for key, value in about.items() if value is not None}


@arguments.plain_arguments
def measure(
    models: AnyPath | Mapping[str, object] | Sequence[AnyPath | Mapping[str, object]] = (),
    *,
    device: str = DEVICES[0],
    precision: str = "bf16",
    micro_batch: int = 1,
    sequence: int | None = None,
    tensor: int = 1,
    layout: str = DEFAULT_LAYOUT,
    launch: bool = False,
    grid: str | None = None,
    shapes: AnyPath | None = None,
    out: AnyPath | None = None,
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> Measurement:
    """Times the kernels of models with PyTorch, as a table that `npu.compute.table` takes.

    `models` are names (`"gpt2"`), paths of model files, or what a model file would say as a mapping. Their kernels are
    those of `micro_batch` samples of `sequence` tokens, by default as many as the model says, in the data type
    `precision` (bf16, fp16, tf32, fp32 or fp64), of layers that are divided among `tensor` NPUs; images lie in memory
    in a `layout`, nhwc (`channels_last`) or nchw. With `launch`, what launches and copies cost is measured as well, and
    with a `grid` (sample or full), a grid of matrix products.
    `device` is cpu, cuda, or auto: a GPU if PyTorch finds one. `seed` is that of operands, which are random.

    Into `out` (.csv), each kernel is written as soon as it is measured; after so many `seconds`, others are left out.
    Into `shapes`, what would be measured is written, for `python -m syncline.measurements.kernels` on another machine;
    then nothing is measured here unless `out` is given as well.

    PyTorch is needed, which Syncline does not install. Raises [`InputError`] where there is none, and with everything
    that is wrong, [`CancelledError`] when `cancel` is called: between two kernels.
    """
    problems = arguments.common_problems(ARGUMENTS, seed=seed)
    problems += [*arguments.no_text(device=device, precision=precision, layout=layout), *arguments.not_text(grid=grid)]
    problems += _no_numbers(micro_batch=micro_batch, sequence=sequence, tensor=tensor, seconds=seconds)
    problems += arguments.not_flags(launch=launch)
    token, wrong = arguments.cancellation(cancel)
    problems += wrong
    table, written = (files.place_of(problems, given, name) for given, name in ((out, "out"), (shapes, "shapes")))
    described = _models(models, problems)
    if problems:
        raise InputError(problems)
    asked = Asked(
        models=described,
        device=device,
        precision=precision,
        micro_batch=micro_batch,
        sequence=sequence,
        tensor=tensor,
        layout=layout,
        launch=launch,
        grid=grid,
        seconds=seconds,
        out=table,
        seed=seed,
    )
    watch, tell = watch_of(progress), warn_of(progress)
    said: list[str] = []

    def warn(warning: str) -> None:
        said.append(warning)
        if tell is not None:
            tell(warning)

    with arguments.spelled(RENAMED):
        found = wanted(asked)
        for warning in found.warnings:
            warn(warning)
        finished = carried_out(asked, found, written, Observer(warn, _heard(found, watch, token)), token)
    return Measurement(finished, dumps(found.kernels, asked.source), said)


def _heard(found: Wanted, watch: Watch | None, cancel: Cancellation | None) -> Callable[[int, bool], None]:
    """Tells of progress, and ends the measurement when `cancel` is called."""
    began = time.monotonic()

    def heard(done: int, is_over: bool) -> None:
        if not is_over:
            cancelling.check(cancel)
        if watch is not None:
            waiting = tuple(f"{kernel.kind} {kernel.direction}" for kernel in found.kernels[done:])
            watch(Standing(done, len(found.kernels), waiting, time.monotonic() - began, is_over))

    return heard


def _no_numbers(**given: object) -> list[Problem]:
    """What is wrong with arguments that have to be numbers; those of seconds may have a fraction."""
    found = []
    for name, value in given.items():
        kinds = (int, float) if name == "seconds" else (int,)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            what = "a number" if name == "seconds" else "a whole number"
            found.append(ARGUMENTS.problem(name, value, f"this is not {what}"))
        elif value is None and name in ("micro_batch", "tensor"):
            found.append(ARGUMENTS.problem(name, None, "this is not a whole number"))
    return found


def _models(given: object, problems: list[Problem]) -> list[str | ModelFile]:
    """Models that are given, those that are values read; what is wrong with them is added to `problems`."""
    several = [given] if isinstance(given, str | os.PathLike | Mapping) else given
    if not isinstance(several, Sequence) or isinstance(several, bytes):
        message = f"models cannot be given as {type(given).__name__}"
        problems.append(ARGUMENTS.problem("models", None, message, ACCEPTED))
        return []
    found = (arguments.collected(problems, partial(_model, each)) for each in several)
    return [each for each in found if each is not None]


def _model(given: object) -> str | ModelFile:
    """The name or path of a model, or a model that is given as values. Raises [`InputError`]."""
    if isinstance(given, Mapping):
        return file.of_tree(files.tree_of(given, LABEL), json.dumps(given, default=str).encode())
    return files.path_of(given, "models", "a model", ACCEPTED)
