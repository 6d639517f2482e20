"""`python -m syncline.measurements.fit TABLE.csv --gpu h200`: fits the constants of tiles and waves to a few products.

Prints them as a section of an experiment, with the errors on products that were held out. The fit is a random search
with a seed: steps shrink, and what is worse is forgotten. Its measure is the mean absolute logarithm of the ratio of
modelled and measured times. The rest of the table decides nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

from syncline.base import inputs
from syncline.base.errors import InputError, command_line, did_you_mean, one_of
from syncline.fabric.gpus import GPUS, WIDTHS, Gpu
from syncline.models import times
from syncline.models.demands import Gemm
from syncline.models.demands import Kernel as Demand
from syncline.sections import compute, compute_specification, kernel_table
from syncline.sections.kernel_table import Row
from syncline.sections.shapes import Kernel

POINTS: Final = (
    (8192, 8192, 8192), (2048, 2048, 2048), (4096, 1024, 4096), (1024, 4096, 1024), (8192, 8192, 64), (8192, 64, 8192),
    (64, 8192, 64), (128, 64, 128), (512, 512, 512), (1024, 2048, 256), (1024, 5120, 50257), (256, 256, 256),
)  # fmt: skip
"""Shapes (m, k, n) that constants are fitted to: large and small, wide and deep, and one that is not aligned. All are
in the full grid of `syncline measure`."""
PS_PER_S: Final = 10**12
STEPS: Final = 1500
SEEDS: Final = 3
SPREAD: Final = 0.2
"""The first steps change a constant by this part of it."""
CHANGED: Final = 0.4
"""How many constants a step changes."""


@dataclass(frozen=True, slots=True)
class Constants:
    """What is fitted."""

    sustained: float = 0.8
    reuse: float = 10.0
    fill: float = 100.0
    sustained_memory: float = 0.7
    split_overhead: float = 3e6
    misaligned: float = 0.15
    launch: float = 2e6
    """Picoseconds, as is `split_overhead`."""

    def described(self, gpu: Gpu, precision: str) -> dict[str, Any]:
        """The compute model of a GPU with these constants, as the engine takes it."""
        width = WIDTHS[precision]  # type: ignore[index]
        tiling = compute.Tiling()
        sizes = [size for pair in tiling.sizes for size in (pair, pair[::-1])]
        return {
            "flops_per_s": float(gpu.peaks[precision]),  # type: ignore[index]
            "memory_bytes_per_s": float(gpu.memory_bandwidth),
            "scale": 1.0,
            "launch_ps": round(self.launch),
            "model": {
                "kind": "tiles",
                "tiles": list(dict.fromkeys((rows, columns) for rows, columns in sizes)),
                "splits": tiling.splits,
                "depth": compute_specification.STEP // width,
                "fill": round(self.fill),
                "sms": gpu.sms,
                "sustained": self.sustained,
                "reuse": self.reuse,
                "sustained_memory": self.sustained_memory,
                "split_overhead_ps": round(self.split_overhead),
                "alignment": compute_specification.ALIGNMENT // width,
                "misaligned": self.misaligned,
            },
        }


_TILING: Final = compute.Tiling()
DEFAULTS: Final = Constants(
    sustained=float(_TILING.sustained),
    reuse=_TILING.reuse,
    fill=_TILING.fill,
    sustained_memory=float(_TILING.sustained_memory),
    split_overhead=_TILING.split_overhead,
    misaligned=float(_TILING.misaligned),
    launch=2.2e6,
)
"""The constants of experiments that say none, with the `launch` that goes with them (docs/compute.md)."""
LEAST: Final = Constants(0.3, 0.1, 1, 0.3, 1e4, 0.02, 5e5)
MOST: Final = Constants(1.0, 100, 2000, 1.0, 8e6, 1.0, 8e6)


def values(constants: Constants) -> dict[str, float]:
    """The constants by name."""
    return {name: getattr(constants, name) for name in Constants.__dataclass_fields__}


def demand(kernel: Kernel) -> Demand:
    """What a measured product asks of an NPU."""
    width = WIDTHS[kernel.dtype]  # type: ignore[index]
    m, k, n, count = kernel.m, kernel.k, kernel.n, kernel.count
    factors = (width * m * k * count, width * k * n * count)
    return Demand(2 * m * k * n * count, kernel.bytes, Gemm(m, k, n, count, factors))


def ratios(rows: Sequence[Row], described: Mapping[str, Any]) -> list[float]:
    """Modelled over measured times."""
    taken = times.of(described, [demand(row.kernel) for row in rows])
    return [max(1, t.time_ps) / PS_PER_S / row.time_s for t, row in zip(taken, rows, strict=True)]


def products(rows: Iterable[Row], precision: str) -> list[Row]:
    """The products of a type, each shape once, with the median of what was measured of it, as the engine's table has
    them."""
    by_shape: dict[tuple[int, ...], list[Row]] = {}
    for row in rows:
        kernel = row.kernel
        if kernel.kind == "product" and kernel.dtype == precision:
            by_shape.setdefault((kernel.m, kernel.k, kernel.n, kernel.count), []).append(row)
    return [replace(same[0], time_s=median(row.time_s for row in same)) for same in by_shape.values()]


def fitted(rows: Sequence[Row], gpu: Gpu, precision: str, seeds: Iterable[int] = range(SEEDS)) -> Constants:
    """The constants that describe measured products best, of several searches."""

    def error(constants: Constants) -> float:
        found = ratios(rows, constants.described(gpu, precision))
        return sum(abs(math.log(ratio)) for ratio in found) / len(found)

    def search(seed: int) -> tuple[float, Constants]:
        chance, best = Random(seed), Constants()
        least = error(best)
        for step in range(STEPS):
            spread = SPREAD * (1 - step / STEPS) + 0.01
            tried = Constants(
                **{
                    name: min(getattr(MOST, name), max(getattr(LEAST, name), value * math.exp(chance.gauss(0, spread))))
                    if chance.random() < CHANGED
                    else value
                    for name, value in values(best).items()
                }
            )
            if (found := error(tried)) < least:
                least, best = found, tried
        return least, best

    return min((search(seed) for seed in seeds), key=lambda found: found[0])[1]


def main(given: Iterable[str] | None = None) -> int:
    """Fits, and prints what was found; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m syncline.measurements.fit", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("table", help="a table that syncline measure has written, with the full grid")
    parser.add_argument("--gpu", required=True, help="the GPU that was measured, as npu.gpu names it")
    parser.add_argument("--precision", default="bf16", help="the data type of the products")
    arguments = parser.parse_args(None if given is None else list(given))
    try:
        print(_report(arguments.table, arguments.gpu, arguments.precision))
    except InputError as error:
        print(error.as_text(), file=sys.stderr)
        return 2
    return 0


def _report(table: str, name: str, precision: str) -> str:
    gpu = GPUS.get(name)
    if gpu is None:
        raise command_line("--gpu", name, f"this is not known{did_you_mean(name, GPUS)}", one_of(GPUS))
    if precision not in gpu.peaks:
        raise command_line("--precision", precision, f"the {gpu.title} has no units for this", one_of(gpu.peaks))
    read = kernel_table.read(inputs.read_bytes(Path(table), table, kernel_table.MAX_BYTES), table)
    rows = products(read.rows, precision)
    chosen = [row for row in rows if (row.kernel.m, row.kernel.k, row.kernel.n) in POINTS and row.kernel.count == 1]
    if len(chosen) < len(POINTS) // 2:
        message = f"the table has {len(chosen)} of {len(POINTS)} products that constants are fitted to"
        raise command_line("TABLE", table, message, "a table of syncline measure --grid full")
    constants = fitted(chosen, gpu, precision)
    held_out = [row for row in rows if row not in chosen]
    lines = [f"npu:\n  gpu: {name}\n  compute:\n    kind: tiles", f"    launch: {constants.launch / 1e6:.2g}us"]
    lines.append("    tiles:")
    for field, value in values(constants).items():
        if field != "launch":
            lines.append(f"      {field}: {_written(field, value)}")
    lines.append(f"# fitted to {len(chosen)} products of {table} in {precision}; mean absolute errors:")
    for said, found in (("these constants", constants), ("the defaults", DEFAULTS)):
        described = found.described(gpu, precision)
        of_chosen, of_others = (_errors(some, described) for some in (chosen, held_out))
        line = f"# {said}: {sum(of_chosen) / len(of_chosen):.1%} of these products"
        if of_others:
            line += (
                f", {sum(of_others) / len(of_others):.1%} of {len(of_others)} others (median {median(of_others):.1%}, "
                f"90 % below {of_others[int(0.9 * len(of_others))]:.1%})"
            )
        lines.append(line)
    return "\n".join(lines)


def _errors(rows: Sequence[Row], described: Mapping[str, Any]) -> list[float]:
    """Absolute relative errors, in ascending order."""
    return sorted(abs(ratio - 1) for ratio in ratios(rows, described))


def _written(field: str, value: float) -> str:
    if field in ("sustained", "sustained_memory", "misaligned"):
        return f"{100 * value:.2g}%"
    if field == "split_overhead":
        return f"{value / 1e6:.2g}us"
    return f"{value:.2g}" if field == "reuse" else str(round(value))


if __name__ == "__main__":
    sys.exit(main())
