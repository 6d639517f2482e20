"""Statements of the ASTRA-sim tutorial (ISCA 2022) about all-reduce on tori, simulated, and about memory, computed.

Orderings are 1 where they hold for every size that is simulated, and 0 otherwise; the note has the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

from syncline.engine.runs import PS_PER_S, Result
from syncline.experiment.load import Variant
from syncline.fabric.gpus import GPUS
from syncline.models import counts
from syncline.models.evaluate import evaluate
from syncline.models.file import load
from syncline.sections.workloads import CollectiveWorkload
from syncline.strategies.memory import states
from syncline.studies.reproduction.ledger import Claim, Finding, Value
from syncline.studies.reproduction.runs import Run, Runs

SIX_PHASE: Final = "tutorial/six-phase"
TORUS: Final = "tutorial/torus"
ASYMMETRIC: Final = "tutorial/asymmetric"
GROWING: Final = ("1x64x1", "1x8x8", "4x4x4")
VOLUME: Final = ("1x8x8", "2x8x4")
STEPS_TO_SPEED: Final = ("Symmetric", "Fast local links", "Local dimension first")
SMALL: Final = "64KiB"
LARGE: Final = "64MiB"

FIT_GPU: Final = "a100-40gb"
FIT_NPUS: Final = 1024
"""The tutorial does not say which NPUs; it names 1,024 GPUs for the training of GPT-3."""

Computed = tuple[Value, str]


@dataclass(frozen=True, slots=True)
class Tutorial:
    """Computes the simulated values of the tutorial's statements."""

    runs: Runs

    def preparations(self, claims: Sequence[Claim]) -> list[tuple[str, Callable[[], Any]]]:
        """Independent pieces of work that fill the cache of simulations for the claims."""
        wanted = dict.fromkeys(run for claim in claims for run in RUNS[claim.id])
        return [(f"{run.study} {run.variant}", partial(self.runs.result, run)) for run in wanted]

    def finding(self, claim: Claim) -> Finding:
        """A claim against the simulations."""
        return Finding(claim, *METRICS[claim.id](self))

    def variants(self, claims: Sequence[Claim]) -> list[Variant]:
        """The variants whose assumptions the claims rest on."""
        plain = dict.fromkeys(Run(run.study, run.variant) for claim in claims for run in RUNS[claim.id])
        return [self.runs.variant(run) for run in plain]

    def seconds(self, run: Run) -> float:
        """How long a collective takes."""
        return float(self.runs.result(run).summary["total_ps"] / PS_PER_S)

    def sent_per_byte(self, run: Run) -> float:
        """Bytes that an NPU sends, over those of the vector."""
        workload = self.runs.variant(run).experiment.workload
        assert isinstance(workload, CollectiveWorkload)
        summary = self.runs.result(run).summary
        return float(summary["network"]["injected_bytes"] / summary["npus"] / workload.size)


def sent_by_dimension(result: Result) -> dict[int, float]:
    """Bytes that an NPU sends along each dimension: over all links, as each is a hop between neighbours."""
    links = result.tables["links"].to_pydict()
    totals: dict[int, int] = {}
    for dim, copies, sent in zip(links["dim"], links["copies"], links["bytes"], strict=True):
        totals[dim] = totals.get(dim, 0) + copies * sent
    return {dim: total / result.summary["npus"] for dim, total in totals.items()}


def _six_phases(tutorial: Tutorial) -> Computed:
    """What enters a phase, from what is sent in it: all but the own block of it in a reduce-scatter, one block to
    each other in an all-gather. The links of an all-reduce do not tell the two apart; its halves run alone do.
    """
    whole, inwards, outwards = (tutorial.runs.result(run) for run in RUNS["tutorial-six-phase-chunk"])
    sizes = _sizes(tutorial, SIX_PHASE, "All-reduce")
    scattered, gathered = sent_by_dimension(inwards), sent_by_dimension(outwards)
    entering: list[float] = []
    phases = whole.tables["phases"].to_pydict()
    for name, dim in zip(phases["name"], phases["dim"], strict=True):
        others = sizes[dim] - 1
        into = scattered[dim] * sizes[dim] / others if "reduce-scatter" in name else gathered[dim] / others
        entering.append(into / 1e6)
    halves = sum(scattered.values()) + sum(gathered.values())
    together = sum(sent_by_dimension(whole).values())
    order = ", ".join(f"{name.split()[0]} {dim}" for name, dim in zip(phases["name"], phases["dim"], strict=True))
    note = f"{order}; the halves send {halves / 1e6:g} MB per NPU, the all-reduce {together / 1e6:g} MB"
    return entering, note


def _fewer_steps(tutorial: Tutorial) -> Computed:
    small, large = ([Run(TORUS, shape, (f"workload.size={size}",)) for shape in GROWING] for size in (SMALL, LARGE))
    steps = [int(tutorial.runs.result(run).summary["steps"]) for run in small]
    times = [tutorial.seconds(run) for run in small]
    sent = [tutorial.sent_per_byte(run) for run in large]
    note = (
        f"{', '.join(GROWING)}: {_list(steps, 'd')} steps; {SMALL} in {_us(times)} us, {LARGE} in "
        f"{_us([tutorial.seconds(run) for run in large])} us; {_list(sent, '.2f')} bytes sent per byte"
    )
    return float(_falling(steps) and _falling(times)), note


def _volume(tutorial: Tutorial) -> Computed:
    return [tutorial.sent_per_byte(Run(TORUS, shape)) for shape in VOLUME], "counted over the run"


def _asymmetric(tutorial: Tutorial) -> Computed:
    parts, holds = [], True
    for size in (SMALL, LARGE):
        times = [tutorial.seconds(Run(ASYMMETRIC, name, (f"workload.size={size}",))) for name in STEPS_TO_SPEED]
        holds = holds and _falling(times)
        parts.append(f"{size}: {_us(times)} us")
    return float(holds), f"links alike, local ones eight times as fast, and used first; {'; '.join(parts)}"


def _model_fit(_: Tutorial) -> Computed:
    """The least model-parallel degree, a power of two, with which the states of a model fit into an NPU.

    The states of a parameter take 16 bytes (Rajbhandari et al., "ZeRO", SC 2020, section 3.1). All are divided by model
    parallelism, and by ZeRO stage 2 gradients and states of the optimiser once more, among the copies of a part.
    """
    gpu = GPUS[FIT_GPU]
    found: list[float] = []
    parts = []
    for name in ("gpt3-175b", "transformer-1t"):
        parameters = counts.parameters(evaluate(load(name), 1))
        sizes = {
            ways: sum(states(-(-parameters // ways), FIT_NPUS // ways, 2, (2, 2, 12)))
            for ways in (2**power for power in range(FIT_NPUS.bit_length()))
        }
        least = min(ways for ways, size in sizes.items() if size <= gpu.memory)
        found.append(float(least))
        parts.append(
            f"{name} ({parameters / 1e9:,.1f} billion parameters): {sizes[least] / 1e9:.1f} GB on {least} NPUs, "
            f"{sizes[least // 2] / 1e9:.1f} GB on {least // 2}"
        )
    where = f"{gpu.title}, {FIT_NPUS:,} of them: model parallelism m, ZeRO 2 among "
    return found, f"{where}{FIT_NPUS:,} / m copies; {'; '.join(parts)}"


METRICS: Final[dict[str, Callable[[Tutorial], Computed]]] = {
    "tutorial-six-phase-chunk": _six_phases,
    "tutorial-torus-dimension": _fewer_steps,
    "tutorial-torus-volume": _volume,
    "tutorial-asymmetric": _asymmetric,
    "tutorial-model-fit": _model_fit,
}

RUNS: Final[dict[str, tuple[Run, ...]]] = {
    "tutorial-six-phase-chunk": tuple(Run(SIX_PHASE, name) for name in ("All-reduce", "Reduce-scatter", "All-gather")),
    "tutorial-torus-dimension": tuple(
        Run(TORUS, shape, (f"workload.size={size}",)) for shape in GROWING for size in (SMALL, LARGE)
    ),
    "tutorial-torus-volume": tuple(Run(TORUS, shape) for shape in VOLUME),
    "tutorial-asymmetric": tuple(
        Run(ASYMMETRIC, name, (f"workload.size={size}",)) for name in STEPS_TO_SPEED for size in (SMALL, LARGE)
    ),
    "tutorial-model-fit": (),
}
"""The simulations that each claim needs."""


def _sizes(tutorial: Tutorial, study: str, variant: str) -> list[int]:
    return tutorial.runs.variant(Run(study, variant)).experiment.grid


def _falling(values: Sequence[float]) -> bool:
    return all(after < before for before, after in pairwise(values))


def _us(seconds: Sequence[float]) -> str:
    return _list([value * 1e6 for value in seconds], ".4g")


def _list(values: Sequence[float], form: str) -> str:
    return ", ".join(f"{value:{form}}" for value in values)
