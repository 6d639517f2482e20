"""The section of docs/validation.md about iteration times."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lab.training_times.points import FOLDER, GPUS_PER_SERVER, TABLES, Constants, Point, points

RECORD: Final = FOLDER / "record.csv"
CHANGES_RECORD: Final = FOLDER / "changes.csv"
MEMORY_ROWS: Final = (
    "megatron h6144 l48 s2048 b4 m4 t8 d1 p1 selective",
    "vtrain-cluster h3072 l30 s2048 b512 m8 t1 d64 p1 full",
)
DISPATCH_ROWS: Final = (
    "vtrain-server h1024 l20 s1024 b32 m1 t1 d4 p1 full",
    "vtrain-server h2048 l20 s1024 b32 m1 t2 d2 p1 full",
)
FITTED: Final = (*MEMORY_ROWS, *DISPATCH_ROWS)
"""Names of the points that the two constants were fitted on."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something in the model that is taken to explain errors, as it is without it."""

    name: str
    rows: str
    """The points that are simulated so, in words."""
    constants: Constants
    applies: Callable[[Point], bool]

    def points(self) -> list[Point]:
        """The points that are simulated so."""
        return [point for point in points() if self.applies(point)]


CHANGES: Final = (
    Change(
        "hosts take no time",
        "`vtrain-server`, tensor parallelism, 1 or 2 samples",
        Constants(dispatch=None),
        lambda point: point.table == "vtrain-server" and point.tensor > 1 and point.micro_batch <= 2,
    ),
    Change(
        "all-reduces have no base time",
        "`vtrain-server`, 4-way tensor parallelism, 8 samples",
        Constants(all_reduce_excess_s=0),
        lambda point: point.table == "vtrain-server" and (point.tensor, point.micro_batch) == (4, 8),
    ),
    Change(
        "hosts on several servers, too",
        "`vtrain-cluster`, 3,072 features",
        Constants(hosts_of_several_servers=True),
        lambda point: point.table == "vtrain-cluster" and point.hidden == 3072,
    ),
    Change(
        "one ring across two servers",
        "`vtrain-cluster`, 16-way tensor parallelism",
        Constants(one_ring_across_servers=True),
        lambda point: point.table == "vtrain-cluster" and point.tensor > GPUS_PER_SERVER,
    ),
)
"""What is left out, or put in, one at a time, to see what share of the errors it has."""
AIMS: Final = {"megatron": 0.10, "vtrain-server": 0.15, "vtrain-cluster": 0.15}

TEXT: Final = """## Iteration times of GPT training

Generated from `lab/training_times/record.csv`, which `python -m lab.training_times --record` writes:
iterations of GPT training as they were measured and published, and as simulated (flow network, folded, all
micro-batches). The tables, with their sources, are in `lab/training_times/tables`; the machine and all
constants, with what they were fitted on, in `a100.yaml` beside them. An error is simulated over measured time, minus
one.

Two constants are fitted, on four rows, which the means below leave out (marked *fitted*): what kernels reach of the
memory bandwidth (70 %; 80 % on an H200) on two, and what a host takes to launch a kernel (64 us;
`npu.host_kernel_time`) on two. The rest is not fitted here: products as on the H200, NVLink's rate and the base time of
an all-reduce from tables of nccl-tests. That hosts are simulated at all, that all-reduces have a base time, and which
algorithm crosses servers was decided with these rows in view: the means are of rows that no constant was fitted to, not
of rows that nobody saw.

Readings, where sources are silent:

* vTrain's rows recompute whole layers (`use_checkpoint` of its configurations; at 8 operations per parameter and token
  the fastest rows reach 203 TFLOP/s, at 6 they would reach 152), with 1F1B and gradients all-reduced behind
  back-propagation in FP16 (`use_gradient_bucket: false`). Its servers have 800 Gb/s together, which are taken to be
  eight NICs of 100 Gb/s. All A100 are taken to be those of 80 GB (2039 GB/s).
* Attention is not fused: scores are in memory. The vocabulary is padded as Megatron-LM does.
* Hosts are simulated on one server only. On several, GPUs work several times as long as hosts (see below).
* Megatron's full recomputation divides what stages send (scatter-gather); its other mode does so by itself."""

WHY: Final = """### What explains the errors

What is in the model because of these rows is left out, or put in, one at a time. The rows that it is about were
simulated both ways (`lab/training_times/changes.csv`): the mean error, the least and the largest.

TABLE

* *Hosts.* Small models are bound by the host: a layer takes 3.3 to 4 ms (forward, again, backward) whether its GPU has
  1,024 or 2,048 features, one or two samples. On several servers GPUs have more to do than their hosts.
* *All-reduces* of 4 to 64 MiB take as long as their bytes and a base time, by tables of nccl-tests.

What follows was seen, and not simulated otherwise:

* *The head.* With one GPU in a tensor-parallel group, embedding, head and loss take two to three times as long as
  modelled (a line through rows of 12 to 24 layers leaves 11 and 20 ms per micro-batch of 1 and 2 samples of 2,048
  features). Pipelines of four stages wait for it. Why is not known; with two GPUs it is as modelled.
* *8-way tensor parallelism of small models* takes 4 to 5 ms for a layer that takes 3.5 ms with fewer GPUs; 4-way takes
  3.2 ms with 2,048 features. The host has one time for all.
* *Bubbles.* On several servers the error grows with the bubble of the pipeline, (p - 1) over micro-batches: with 8-way
  tensor parallelism and 8,192 features from about +2 % at 7 % to +17 and +20 % at 47 and 94 %. The measured runs lose
  less in a bubble than the schedule says, as if layers were computed again before the gradient arrives.
* *One row of 64 samples in a micro-batch* was measured at 1.9 times the time of 8 samples, at equal work. Nothing in
  the model does that; running out of memory may. The row stays in the mean."""


def section() -> Iterator[str]:
    """The section; nothing before anything was recorded."""
    if RECORD.is_file():
        yield "\n".join(_lines())


def recorded() -> dict[str, float]:
    """Seconds that points took in simulations, by name."""
    with RECORD.open(encoding="utf-8", newline="") as file:
        return {row["point"]: float(row["simulated_s"]) for row in csv.DictReader(file)}


def recorded_changes() -> dict[tuple[str, str], float]:
    """Seconds that points took with something changed, by the name of the change and theirs."""
    with CHANGES_RECORD.open(encoding="utf-8", newline="") as file:
        return {(row["change"], row["point"]): float(row["simulated_s"]) for row in csv.DictReader(file)}


def errors_of(change: Change) -> tuple[list[float], list[float]]:
    """The errors of the points of a change: as simulated, and with the change."""
    as_simulated, changed = recorded(), recorded_changes()
    each = change.points()
    return (
        [as_simulated[point.name] / point.iteration_s - 1 for point in each],
        [changed[change.name, point.name] / point.iteration_s - 1 for point in each],
    )


def errors(table: str) -> list[tuple[Point, float]]:
    """The points of a table that were simulated, with their errors."""
    found = recorded()
    return [(p, found[p.name] / p.iteration_s - 1) for p in points(table) if p.name in found]


def mean(of: Sequence[tuple[Point, float]]) -> float:
    """The mean absolute error of points that were not fitted on."""
    return statistics.mean(abs(error) for point, error in of if point.name not in FITTED)


def _lines() -> Iterator[str]:
    yield from (TEXT, "", "| table | points | not fitted | mean absolute error | median | 90 % below | largest | aim |")
    yield "|---|" + "---:|" * 7
    for table in TABLES:
        all_of = errors(table)
        free = sorted(abs(error) for point, error in all_of if point.name not in FITTED)
        cells = [table, str(sum(1 for _ in points(table))), str(len(free)), _percent(mean(all_of))]
        cells += [_percent(statistics.median(free)), _percent(free[int(0.9 * (len(free) - 1))]), _percent(free[-1])]
        yield f"| {' | '.join([*cells, _percent(AIMS[table])])} |"
    yield from ("", "By ways and sizes, mean error and mean absolute error of `vtrain-server`:", "")
    yield from _groups(errors("vtrain-server"))
    before, after = WHY.split("TABLE\n")
    yield from ("", before.rstrip("\n"), "", *_changes(), after.rstrip("\n"), "", "### Point by point", "")
    yield (
        "| table | GPUs | hidden | layers | batch | micro-batch | tensor | data | pipeline | again | s | simulated "
        "| error | |"
    )
    yield "|---|" + "---:|" * 8 + "---|" + "---:|" * 3 + "---|"
    for table in TABLES:
        for point, error in errors(table):
            yield _row(point, error)


def _changes() -> Iterator[str]:
    yield "| changed | rows | points | as simulated | least, largest | changed | least, largest |"
    yield "|---|---|" + "---:|" * 5
    for change in CHANGES:
        cells = [change.name, change.rows, str(len(change.points()))]
        for found in errors_of(change):
            signed = [f"{100 * error:+.1f} %" for error in (statistics.mean(found), min(found), max(found))]
            cells += [signed[0], f"{signed[1]}, {signed[2]}"]
        yield f"| {' | '.join(cells)} |"


GROUPS: Final[dict[str, Callable[[Point], int]]] = {
    "tensor": lambda point: point.tensor,
    "pipeline": lambda point: point.pipeline,
    "micro-batch": lambda point: point.micro_batch,
    "hidden": lambda point: point.hidden,
}


def _groups(of: Sequence[tuple[Point, float]]) -> Iterator[str]:
    yield "| | points | mean | absolute |"
    yield "|---|---:|---:|---:|"
    for name, key in GROUPS.items():
        for value in sorted({key(point) for point, _ in of}):
            these = [error for point, error in of if key(point) == value]
            absolute = statistics.mean(map(abs, these))
            yield f"| {name} {value} | {len(these)} | {100 * statistics.mean(these):+.1f} % | {_percent(absolute)} |"


def _row(point: Point, error: float) -> str:
    sizes = (point.gpus, point.hidden, point.layers, point.batch, point.micro_batch, point.tensor, point.data)
    cells = [point.table, *map(str, sizes), str(point.pipeline), point.mode, f"{point.iteration_s:.4g}"]
    cells += [f"{point.iteration_s * (1 + error):.4g}", f"{100 * error:+.1f} %"]
    return f"| {' | '.join([*cells, 'fitted' if point.name in FITTED else ''])} |"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
