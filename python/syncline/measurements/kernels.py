"""`python -m syncline.measurements.kernels SHAPES.json --out table.csv`: times kernels where only PyTorch is installed.

Needs PyTorch and the standard library. What is measured is what launches and copies cost (`--launch`), what files of
shapes list (`syncline measure --shapes` writes one), and a grid of products (`--grid`), in this order. A row is written
as soon as it is measured. Exit status: 0 done, 2 an input is wrong or PyTorch is missing.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncline.base import outputs
from syncline.measurements import grid
from syncline.measurements.operations import UnsupportedError
from syncline.measurements.timing import Clock
from syncline.sections.shapes import IMAGES, LAID_OUT, WIDTHS, Kernel, Measured, ShapesError, Table, loads

DEVICES: Final = ("auto", "cpu", "cuda")
MISSING: Final = "PyTorch is not installed: measurements need it (see pytorch.org, 'Get Started')"
MOST_BYTES: Final = 64 * 2**20
SPARE_LOAD: Final = 0.5
"""What others may load the processors beyond those that PyTorch leaves free, before a warning says so."""


class UnusableError(Exception):
    """There is no PyTorch, or it has no such device."""


Warn = Callable[[str], None]
"""Hears what there is to know of what is measured."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Who hears of what is measured; standard error, where nobody is named. An exception of theirs ends it."""

    warn: Warn | None = None
    heard: Callable[[int, bool], None] | None = None
    """Hears how many kernels are done with, and whether it is over."""


def clock(device: str, seed: int, warn: Warn | None = None) -> Clock:
    """A clock on a device; `auto` is a GPU if there is one. `warn` hears what is said on standard error otherwise.
    Raises [`UnusableError`].
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise UnusableError(MISSING) from None
    is_there = torch.cuda.is_available()
    if device == "cuda" and not is_there:
        raise UnusableError("PyTorch finds no GPU with CUDA; accepted: cpu")
    torch.manual_seed(seed)
    if device == "cpu" or not is_there:
        _warn_if_busy(torch.get_num_threads(), warn or _say)
    return Clock(torch, "cuda" if device != "cpu" and is_there else "cpu")


def _warn_if_busy(threads: int, warn: Warn) -> None:
    """Says that times will be too long, where other programs leave too few processors for so many threads."""
    processors = _processors()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # not on Windows
    if load + threads > processors + SPARE_LOAD:
        warn(
            f"other programs are busy (a load of {load:.1f} on {processors} processors), for which PyTorch with its "
            f"threads ({threads}) will wait: times come out too long; measure when the machine is idle, and with fewer "
            "threads than processors (OMP_NUM_THREADS in the environment)"
        )


def _processors() -> int:
    """How many processors this program may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure(
    on: Clock, kernels: Sequence[Kernel], table: Table, seconds: float | None, observer: Observer | None = None
) -> list[Measured]:
    """Measures kernels one by one until the time is up, and says what it had to leave out, and how far it is."""
    observer = observer or Observer()
    began = time.monotonic()
    warn, heard = observer.warn or _say, observer.heard or _count(len(kernels))
    found: list[Measured] = []
    for index, kernel in enumerate(kernels):
        if seconds is not None and time.monotonic() - began > seconds:
            warn(f"the time is up: {len(kernels) - index} of {len(kernels)} kernels are not measured")
            break
        row = _measured(on, kernel, warn)
        if row is not None:
            found.append(row)
            table.add(row)
        heard(index + 1, False)
    heard(len(kernels), True)
    return found


def _measured(on: Clock, kernel: Kernel, warn: Warn) -> Measured | None:
    """The time of a kernel; nothing where it cannot be measured."""
    try:
        return on.measure(kernel)
    except UnsupportedError as error:
        warn(f"{_named(kernel)} is not measured: {error}")
    except (RuntimeError, TypeError, NotImplementedError) as error:
        warn(f"{_named(kernel)} is not measured: {str(error).strip().splitlines()[0]}")
    return None


def _count(kernels: int) -> Callable[[int, bool], None]:
    """Counts kernels on a terminal."""

    def heard(done: int, is_over: bool) -> None:
        if sys.stderr.isatty() and kernels:
            text = "\n" if is_over else f"\r{done} of {kernels}"
            print(text, end="", file=sys.stderr, flush=True)

    return heard


def _say(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr, flush=True)


def _named(kernel: Kernel) -> str:
    sizes = f"m={kernel.m} k={kernel.k} n={kernel.n} count={kernel.count}"
    sizes += "".join(f" {name}={getattr(kernel, name)}" for name in IMAGES if getattr(kernel, name))
    layout = f" {kernel.layout}" if kernel.kind in LAID_OUT else ""
    return f"{kernel.kind} {kernel.direction} {sizes} {kernel.dtype}{layout}"


def shapes(path: Path) -> list[Kernel]:
    """The kernels of a file. Raises [`ShapesError`] that names it."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ShapesError(f"{path}: the file is larger than {MOST_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ShapesError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return loads(text)
    except ShapesError as error:
        raise ShapesError(f"{path}: {error}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m syncline.measurements.kernels", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("shapes", nargs="*", type=Path, metavar="SHAPES.json", help="files of shapes")
    parser.add_argument("--out", type=Path, required=True, metavar="TABLE.csv", help="the table to write")
    parser.add_argument(
        "--device", choices=DEVICES, default="auto", help="the device; by default a GPU if there is one"
    )
    parser.add_argument("--grid", choices=("sample", "full"), help="measure the grid of matrix products")
    parser.add_argument(
        "--precision", default="bf16,fp16,tf32,fp32", metavar="TYPES", help="types of the grid, the first in full"
    )
    parser.add_argument("--launch", action="store_true", help="measure what launches and copies cost")
    parser.add_argument("--seconds", type=float, metavar="S", help="stop after so many seconds")
    parser.add_argument("--seed", type=int, default=0, help="seed of the operands")
    return parser


def wanted(arguments: Any) -> list[Kernel]:
    """What is to be measured. Raises [`ShapesError`]."""
    types = arguments.precision.split(",")
    unknown = [name for name in types if name not in WIDTHS]
    if unknown:
        raise ShapesError(f"--precision: {unknown[0]!r} is not known; accepted: {', '.join(WIDTHS)}")
    kernels: list[Kernel] = grid.device() if arguments.launch else []
    for path in arguments.shapes:
        kernels += shapes(path)
    if arguments.grid is not None:
        kernels += grid.products(types, full=arguments.grid == "full")
    if not kernels:
        raise ShapesError("there is nothing to measure; accepted: files of shapes, --grid, --launch")
    return list(dict.fromkeys(kernels))


def main(given: Iterable[str] | None = None) -> int:
    """Measures, and returns the exit status."""
    arguments = _parser().parse_args(None if given is None else list(given))
    try:
        kernels = wanted(arguments)
        if (refused := outputs.refusal(arguments.out, outputs.KERNELS)) is not None:
            print(f"{arguments.out}: {refused[0]}; accepted: {refused[1]}", file=sys.stderr)
            return 2
        on = clock(arguments.device, arguments.seed)
        file = arguments.out.open("w", encoding="utf-8", newline="")
    except (ShapesError, UnusableError) as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{arguments.out}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    with file:
        rows = measure(on, kernels, Table(file, on.name, on.torch.__version__), arguments.seconds)
    print(f"{len(rows)} of {len(kernels)} kernels measured on {on.about()}: {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
