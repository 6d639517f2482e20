"""The section of docs/validation.md about iteration times."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, TypeAlias

from lab.training_times.parts import Causes, Parts, causes
from lab.training_times.points import FOLDER, Point, points, recipes, sources

RECORD: Final = FOLDER / "record.csv"
CHANGES_RECORD: Final = FOLDER / "changes.csv"
FITTED: Final = (
    "vtrain-server h1024 l20 s1024 b32 m1 t1 d4 p1 full",
    "vtrain-server h2048 l20 s1024 b32 m1 t2 d2 p1 full",
    "vtrain-server h1024 l24 s1024 b2 m1 t2 d1 p1 full",
)
"""Names of the points that hosts' time of `vtrain-server` was fitted on."""
SEARCHED: Final = ("foundry",)
"""Sources whose errors are taken apart (`parts`)."""
SLOW_HOSTS: Final = recipes()["vtrain-server"]["npu"]
"""What was fitted."""
DIFFERENT: Final = 0.08
"""Divisions of a model whose times differ by more are compared by their order."""

Errors: TypeAlias = list[tuple[Point, float]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was simulated of a point, in seconds."""

    simulated_s: float
    products_s: float | None = None
    attention_s: float | None = None


@dataclass(frozen=True, slots=True)
class Aim:
    """Points of which a mean absolute error is to be reached."""

    name: str
    most: float
    applies: Callable[[Point], bool]


PUBLIC: Final = ("foundry", "torchtitan", "fms-fsdp")
AIMS: Final = (
    Aim("public trainings in BF16 on H100", 0.14, lambda point: point.source in PUBLIC and point.gpu == "h100"),
    Aim("public trainings on A100", 0.11, lambda point: point.source in PUBLIC and point.gpu == "a100"),
    Aim("vTrain on 8 A100", 0.10, lambda point: point.source == "vtrain-server"),
    Aim("vTrain on 64 to 512 A100", 0.10, lambda point: point.source == "vtrain-cluster"),
)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is put otherwise to see what share of the errors it has."""

    name: str
    rows: str
    """The points that are simulated so, in words."""
    sections: Mapping[str, Mapping[str, Any]]
    applies: Callable[[Point], bool]

    def points(self) -> list[Point]:
        """The points that are simulated so."""
        return [point for point in points() if self.applies(point)]


def _is_on_8(*names: str) -> Callable[[Point], bool]:
    return lambda point: point.source in names and point.gpu == "h100" and point.gpus <= 8


CHANGES: Final = (
    Change(
        "kernels take their roofline",
        "`foundry`, `torchtitan` on 8 H100",
        {"npu": {"compute": {"kind": "roofline"}}, "training": {"kernels": None, "attention": None, "loss": None}},
        _is_on_8("foundry", "torchtitan"),
    ),
    Change(
        "collectives as fast as the links",
        "`foundry`, `torchtitan` on 8 H100",
        {"endpoint": {"kind": "ideal"}},
        _is_on_8("foundry", "torchtitan"),
    ),
    Change(
        "attention of FlashAttention 2",
        "`foundry` on 8 H100",
        {"training": {"attention": "flash2"}},
        _is_on_8("foundry"),
    ),
    Change(
        "hosts as fast as by default",
        "`vtrain-server`, tensor parallelism, 1 or 2 samples",
        {"npu": dict.fromkeys(SLOW_HOSTS)},
        lambda point: point.source == "vtrain-server" and point.tensor > 1 and point.micro_batch <= 2,
    ),
    Change(
        "stages send everything from each GPU",
        "`vtrain-cluster`, 8,192 features, 16 stages, 8-way tensor parallelism",
        {"parallel": {"scatter_gather": False}},
        lambda point: (point.source, point.hidden, point.pipeline, point.tensor) == ("vtrain-cluster", 8192, 16, 8),
    ),
    Change(
        "hosts of vtrain-server",
        "`vtrain-cluster`, 3,072 features",
        {"npu": SLOW_HOSTS},
        lambda point: point.source == "vtrain-cluster" and point.hidden == 3072,
    ),
)
"""One at a time."""


@dataclass(frozen=True, slots=True)
class Divided:
    """A model that was trained on the same GPUs in several divisions."""

    name: str
    applies: Callable[[Point], bool]


DIVIDED: Final = (
    Divided("BLOOM, 72 layers, 384 A100", lambda point: point.name.startswith("bloom-L72")),
    Divided("vTrain, 39.1B", lambda point: point.source == "vtrain-cluster" and point.hidden == 8192),
    Divided("vTrain, 3.6B", lambda point: point.source == "vtrain-cluster" and point.hidden == 3072),
)

TEXT: Final = f"""## Iteration times of training

Generated from `lab/training_times/record.csv`, which `python -m lab.training_times --record` writes: iterations as
they were measured and published, and as Syncline answers by default, given what a source states (flow network, folded,
all micro-batches). The tables, with their sources, are in `lab/training_times/tables`; what the sources state of their
software in `recipes.yaml` beside them. An error is simulated over measured time, minus one.

No constant of a GPU, a network or a host is fitted to an iteration, but for one: what hosts of `vtrain-server` take for
a kernel ({SLOW_HOSTS["host_kernel_time"]}), on three rows that the means leave out. All GPUs' constants are of kernels
that were measured alone on an H100 and an H200 (`lab.gpu_kernels`), and of publications. So each source, each GPU and
each value of `training.kernels` is one that nothing was fitted to, and leaving it out would change no number. Rows were
in view when the model was made: the means are of rows that no constant was fitted to, not of rows that nobody saw."""

READINGS: Final = """Readings, where sources are silent:

* vTrain's rows recompute whole layers (`use_checkpoint` of its configurations), with gradients all-reduced in FP16
  after back-propagation (`use_gradient_bucket: false`), and divide what stages send among the GPUs of a stage, as
  DeepSpeed's pipelines do (`is_pipe_partitioned` of its engine). Its servers have 800 Gb/s together, which are taken to
  be eight NICs of 100 Gb/s. All A100 are taken to be those of 80 GB.
* Attention of Megatron-LM is not fused there: scores are in memory. The vocabulary is padded as Megatron-LM does.
* `foundry` is taken to have Triton's attention, as its scripts of that time have by default; it is as fast as the first
  FlashAttention. With FlashAttention 2, rows come out the faster the longer their sequences are, and
  taken apart as below they give it a factor of 2.0 on both GPUs.
* `torchtitan`'s H100 have 96 GB, 2.4 TB/s and 500 W. Its RMS norms, which PyTorch computed by several kernels in FP32
  in 2024, are taken to be one kernel, as in PyTorch 2.11."""

CHANGED_TEXT: Final = """### What explains the errors

The rows of a source were simulated with one thing put otherwise (`lab/training_times/changes.csv`): the mean error, the
least and the largest."""

APART_TEXT: Final = """*`foundry`, taken apart.* A factor for all matrix products, one for attention, and a time for
each forward pass of a layer, fitted to its rows on one GPU, and the mean absolute error that remains (`parts.py`; no
part of the model):"""

SEEN_TEXT: Final = """Attention is as fast as stated on both GPUs, and products are within 7 %. What is missing most is
a time that does not depend on how many tokens a layer works on. No kernel is like that; hosts are that wait for the GPU
in each layer, as they may have in software of 2023.

What follows was seen, and not simulated otherwise:

* *HSDP.* `fms-fsdp`'s 7B is 17 to 36 % too fast, as if the all-reduce between servers were not hidden behind
  back-propagation at all.
* *The head.* With one GPU in a tensor-parallel group, embedding, head and loss of `vtrain-server` take two to three
  times as long as modelled (a line through rows of 12 to 24 layers leaves 11 and 20 ms per micro-batch of 1 and 2
  samples of 2,048 features). Why is not known; with two GPUs it is as modelled.
* *Four-way tensor parallelism on 8 stages* of vTrain's 39.1B took 23 to 25 ms for a layer and sample (measured time
  over micro-batches and bubble), where 4 and 16 stages took 21 to 22. The model has no reason for it, and most pairs in
  the wrong order are with these two rows.
* *Llama 3 405B* is simulated as its row says, without interleaved stages, which its paper describes.
* *One row of 64 samples in a micro-batch* was measured at 1.9 times the time of 8 samples, at equal work. Nothing in
  the model does that; running out of memory may. The row stays in the mean."""


def section() -> Iterator[str]:
    """The section; nothing before anything was recorded."""
    if RECORD.is_file():
        yield "\n".join(_lines())


def recorded() -> dict[str, Outcome]:
    """What came of points in simulations, by name."""
    with RECORD.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row.pop("point"): Outcome(**{name: float(text) for name, text in row.items() if text}) for row in rows}


def recorded_changes() -> dict[tuple[str, str], float]:
    """Seconds that points took with something changed, by the name of the change and theirs."""
    with CHANGES_RECORD.open(encoding="utf-8", newline="") as file:
        return {(row["change"], row["point"]): float(row["simulated_s"]) for row in csv.DictReader(file)}


def errors(applies: Callable[[Point], bool]) -> Errors:
    """Points with their errors, without those that something was fitted on."""
    found = recorded()
    each = [point for point in points() if applies(point) and point.name not in FITTED]
    return [(point, found[point.name].simulated_s / point.iteration_s - 1) for point in each]


def mean(of: Errors) -> float:
    """The mean absolute error."""
    return statistics.mean(abs(error) for _, error in of)


def errors_of(change: Change) -> tuple[list[float], list[float]]:
    """The errors of the points of a change: as simulated, and with the change."""
    as_simulated, changed = recorded(), recorded_changes()
    each = change.points()
    return (
        [as_simulated[point.name].simulated_s / point.iteration_s - 1 for point in each],
        [changed[change.name, point.name] / point.iteration_s - 1 for point in each],
    )


def ordered(divided: Divided) -> tuple[int, int]:
    """Of pairs of divisions whose time per sample differs, how many are in the right order, and how many there are."""
    found = recorded()
    each = [point for point in points() if divided.applies(point)]
    measured = {point: point.iteration_s / point.batch for point in each}
    simulated = {point: found[point.name].simulated_s / point.batch for point in each}
    pairs = [
        (one, other)
        for one, other in combinations(each, 2)
        if max(measured[one], measured[other]) > (1 + DIFFERENT) * min(measured[one], measured[other])
    ]
    right = [
        pair for pair in pairs if (measured[pair[0]] < measured[pair[1]]) == (simulated[pair[0]] < simulated[pair[1]])
    ]
    return len(right), len(pairs)


def causes_of(source: str, gpu: str) -> Causes:
    """What the errors of a source on a GPU have in common."""
    found, rows = recorded(), []
    for point in points(source):
        of = found[point.name]
        if point.gpu == gpu and of.products_s is not None and of.attention_s is not None:
            rows.append((point, of.simulated_s, Parts(of.products_s, of.attention_s)))
    return causes(rows)


def _lines() -> Iterator[str]:
    yield from (TEXT, "", "| | rows | mean error | mean absolute error | bar |", "|---|" + "---:|" * 4)
    for aim in AIMS:
        of = errors(aim.applies)
        yield f"| {aim.name} | {len(of)} | {_bias(of)} | {_percent(mean(of))} | {_percent(aim.most)} |"
    yield from ("", "By source, GPU and whose kernels it has:", "")
    yield "| source | GPU | kernels | rows | mean error | mean absolute error | median | largest |"
    yield "|---|---|---|" + "---:|" * 5
    groups = dict.fromkeys((point.source, point.gpu, point.kernels) for point in points())
    for source, gpu, kernels in groups:
        of = errors(_is_of(source, gpu))
        yield f"| {source} | {gpu} | {kernels} | {' | '.join(_of_group(of))} |"
    yield from ("", f"Pairs of divisions whose times differ by more than {100 * DIFFERENT:.0f} %:", "")
    yield from ("| model | pairs | in the right order |", "|---|---:|---:|")
    for divided in DIVIDED:
        right, pairs = ordered(divided)
        yield f"| {divided.name} | {pairs} | {_percent(right / pairs)} |"
    yield from ("", READINGS, "", "By ways and sizes, mean error and mean absolute error of `vtrain-server`:", "")
    yield from _groups(errors(lambda point: point.source == "vtrain-server"))
    yield from ("", CHANGED_TEXT, "", *_changes(), "", APART_TEXT, "", *_causes(), "", SEEN_TEXT)
    yield from ("", "### Point by point", "")
    yield "| source | row | GPUs | measured (s) | simulated (s) | error |"
    yield "|---|---|" + "---:|" * 4
    for source in sources():
        for point, error in errors(_is_of(source)):
            cells = (source, point.name.removeprefix(f"{source} "), str(point.gpus), f"{point.iteration_s:.4g}")
            yield f"| {' | '.join(cells)} | {point.iteration_s * (1 + error):.4g} | {100 * error:+.1f} % |"


def _is_of(source: str, gpu: str | None = None) -> Callable[[Point], bool]:
    return lambda point: point.source == source and gpu in (None, point.gpu)


def _of_group(of: Errors) -> list[str]:
    absolute = sorted(abs(error) for _, error in of)
    shares = (mean(of), statistics.median(absolute), absolute[-1])
    return [str(len(of)), _bias(of), *map(_percent, shares)]


def _changes() -> Iterator[str]:
    yield "| changed | rows | number | as simulated | least, largest | changed | least, largest |"
    yield "|---|---|" + "---:|" * 5
    for change in CHANGES:
        cells = [change.name, change.rows, str(len(change.points()))]
        for found in errors_of(change):
            signed = [f"{100 * error:+.1f} %" for error in (statistics.mean(found), min(found), max(found))]
            cells += [signed[0], f"{signed[1]}, {signed[2]}"]
        yield f"| {' | '.join(cells)} |"


def _causes() -> Iterator[str]:
    yield "| source | GPU | products | attention | a forward pass of a layer | remaining error |"
    yield "|---|---|" + "---:|" * 4
    for source in SEARCHED:
        for gpu in sorted({point.gpu for point in points(source)}):
            of = causes_of(source, gpu)
            cells = (
                source,
                gpu,
                f"{of.products:.2f}",
                f"{of.attention:.2f}",
                f"{of.pass_ms:.1f} ms",
                _percent(of.error),
            )
            yield f"| {' | '.join(cells)} |"


GROUPS: Final[dict[str, Callable[[Point], int]]] = {
    "tensor": lambda point: point.tensor,
    "pipeline": lambda point: point.pipeline,
    "micro-batch": lambda point: point.micro_batch,
    "hidden": lambda point: point.hidden,
}


def _groups(of: Errors) -> Iterator[str]:
    yield "| | rows | mean | absolute |"
    yield "|---|---:|---:|---:|"
    for name, key in GROUPS.items():
        for value in sorted({key(point) for point, _ in of}):
            these = [(point, error) for point, error in of if key(point) == value]
            yield f"| {name} {value} | {len(these)} | {_bias(these)} | {_percent(mean(these))} |"


def _bias(of: Sequence[tuple[Point, float]]) -> str:
    return f"{100 * statistics.mean(error for _, error in of):+.1f} %"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
