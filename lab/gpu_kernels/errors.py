"""Errors of constants: of kernels that they were fitted to, of kernels that a fit left out, and of another GPU's."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Final

import yaml

from lab.gpu_kernels import fit, iterations, rows, tables
from lab.gpu_kernels.fit import Constants
from lab.gpu_kernels.rows import Row
from syncline import kernels, measurements

FOLDER: Final = Path(kernels.__file__).parent
TABLES: Final = Path(measurements.__file__).with_name("tables")
BANDWIDTHS: Final = {"h100": fit.H100, "h200": fit.H200}
ANOTHER: Final = ("batch-norm", "nchw")
"""Rows of FP16 in NCHW, which cuDNN normalises, where the model is PyTorch's kernels of BF16."""


def known(gpu: str = "h100") -> Constants:
    """The constants of a GPU as they were fitted last."""
    found: Constants = yaml.safe_load((FOLDER / f"{gpu}.yaml").read_text())
    return found


def modelled(gpu: str = "h100") -> list[Row]:
    """The rows of a GPU that the model is for."""
    if gpu == "h200":
        return [row for name in ("nvidia-h200", "nvidia-h200-images") for row in tables.read(TABLES / f"{name}.csv")]
    return [row for row in rows.read() if (row.operator, row.library) != ANOTHER]


def errors(found: Sequence[Row], constants: Constants, gpu: str = "h100") -> list[float]:
    """Predicted over measured times, minus one."""
    predicted = fit.predicted_us(found, constants, BANDWIDTHS[gpu])
    return [us / row.time_us - 1 for us, row in zip(predicted, found, strict=True)]


FOLDS: Final = 4
RECORD: Final = Path(__file__).with_name("errors.csv")
OTHERS: Final = {"h100": "h200", "h200": "h100"}
SIZES: Final = ((0, 10), (10, 100), (100, 10**9))
"""Microseconds that kernels take."""


@dataclass(frozen=True, slots=True)
class Error:
    """Errors of one kernel: predicted over measured time, minus one."""

    gpu: str
    group: str
    measured_us: float
    fitted: float
    held_out: float
    """By constants that were fitted to three quarters of the rows, without it."""
    of_other: float
    """By the constants of the other GPU."""


def refitted(gpu: str, found: Sequence[Row]) -> Constants:
    """The constants of a GPU fitted to some of its rows."""
    if gpu == "h200":
        return fit.h200(found, known("h200"), known())
    return fit.h100(found, known(), known("h200"), iterations.mixes())


def held_out(gpu: str, fold: int) -> list[float]:
    """Errors of every fourth row, by constants that were fitted to the others."""
    found = modelled(gpu)
    constants = refitted(gpu, [row for number, row in enumerate(found) if number % FOLDS != fold])
    return errors(found[fold::FOLDS], constants, gpu)


def every() -> Iterator[Error]:
    """The errors of all kernels."""
    for gpu, other in OTHERS.items():
        found = modelled(gpu)
        left_out = [0.0] * len(found)
        for fold in range(FOLDS):
            left_out[fold::FOLDS] = held_out(gpu, fold)
        own, of_other = errors(found, known(gpu), gpu), errors(found, known(other), gpu)
        for number, row in enumerate(found):
            yield Error(gpu, group(row), row.time_us, own[number], left_out[number], of_other[number])


def group(row: Row) -> str:
    """Products, attention by library, convolutions by layout, or what memory bounds."""
    if row.kind == "products" or row.operator == "attention":
        return row.kind
    return f"{row.operator} {row.layout}" if row.operator == "convolution" else "memory-bound"


def keep() -> None:
    """Writes the errors of all kernels for docs/validation.md."""
    with RECORD.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Error.__dataclass_fields__)
        writer.writerows(
            [of.gpu, of.group, *(f"{value:.4g}" for value in (of.measured_us, of.fitted, of.held_out, of.of_other))]
            for of in every()
        )


def kept() -> list[Error]:
    """What was written."""
    with RECORD.open(encoding="utf-8", newline="") as file:
        return [
            Error(row["gpu"], row["group"], *(float(row[name]) for name in list(row)[2:]))
            for row in csv.DictReader(file)
        ]


TEXT: Final = """## Kernels of named GPUs

Generated from `lab/gpu_kernels/errors.csv`, which `python -m lab.gpu_kernels --record` writes: kernels that were
measured alone, against the constants of `python/syncline/kernels`. *Fitted* are the errors of the constants as they
are; *left out* those of constants that were fitted four times, each time without every fourth row; *other GPU* those of
the constants of the H200 for kernels of the H100, and the reverse, which is how GPUs without measurements are treated.
An error is predicted over measured time, minus one: its mean, and in parentheses the mean of absolute errors."""


def section() -> Iterator[str]:
    """The section of docs/validation.md."""
    lines = [
        TEXT,
        "",
        "| GPU | kernels | measured to take | rows | fitted | left out | other GPU |",
        "|---|---|---|" + "---:|" * 4,
    ]
    found = kept()
    for gpu in OTHERS:
        for name in sorted({of.group for of in found if of.gpu == gpu}):
            for least, most in ((0, SIZES[-1][1]), *SIZES):
                of = [
                    each for each in found if (each.gpu, each.group) == (gpu, name) and least <= each.measured_us < most
                ]
                if of:
                    cells = [gpu, name, _range(least, most), str(len(of))]
                    cells += [_both([each.fitted for each in of]), _both([each.held_out for each in of])]
                    lines.append(f"| {' | '.join([*cells, _both([each.of_other for each in of])])} |")
    yield "\n".join(lines)


def _range(least: int, most: int) -> str:
    if most == SIZES[-1][1]:
        return f"{least} us or more" if least else "any time"
    return f"{least} to {most} us" if least else f"below {most} us"


def _both(of: Sequence[float]) -> str:
    return f"{100 * mean(of):+.1f} % ({100 * mean(map(abs, of)):.1f} %)"
