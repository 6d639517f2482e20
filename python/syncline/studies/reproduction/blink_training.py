"""Training on allocations of a DGX-1V: section 5.4 and Fig. 18 of Blink (MLSys 2020).

Readings, which were stated before these runs:

allocations     those of three to eight GPUs that NVLinks connect. The paper takes, of each number of GPUs, "ones where
                the speed-up of Blink over NCCL is unique"; that is the speed-up of Fig. 14 in theory here, of which
                46 topologies have 22 values. Of allocations with the same one, the first is taken.
iterations      as `blink/training` has them: gradients in buckets, and a step of the optimiser that waits for all.
communication   the time of an iteration that is no compute, as in Fig. 5: what back-propagation does not hide.
means           geometric means of the ratios of times, since reductions may be zero.
two servers     Fig. 22a: GPUs 0 to 2 of one DGX-1V and 0 to 4 of the other, with a NIC of 40 Gb/s each. The paper has
                "Horovod with NCCL/MPI", and does not say how these share the work. NCCL is a ring through both here,
                which the claim counts. Horovod's hierarchical all-reduce is the other reading, and the schedule
                `plans/horovod-3-5.json`: NCCL reduces on each server to local rank 0, these two all-reduce by MPI, and
                NCCL broadcasts on each server, one after the other, since Horovod scatters over the GPUs of a server
                only if all servers have as many. NCCL's rings in a server are those of NVLinks if there are any,
                which GPUs 0 to 4 have not. MPI reads and writes the memory of GPUs and costs nothing beside its
                bytes: what it would copy through the memory of hosts is left out, to the baseline's advantage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from statistics import geometric_mean
from types import MappingProxyType
from typing import Final

from syncline.engine.runs import PS_PER_S
from syncline.studies.reproduction.ledger import Value
from syncline.studies.reproduction.runs import Run, Runs

TRAINING: Final = "blink/training"
NCCL: Final = "NCCL"
BLINK: Final = "Blink"
MODELS: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        "AlexNet": ("alexnet", 128),
        "ResNet-18": ("resnet18", 32),
        "ResNet-50": ("resnet50", 32),
        "VGG-16": ("vgg16", 64),
    }
)
"""The models, and samples of each on a GPU."""
SERVERS: Final = ('topology="dgx1v(nodes=2, nics=single, nic_rate=40Gb/s, efficiency=94%)"', 'gpus="0-2,8-12"')
"""Two servers of Fig. 22a, and the GPUs of either."""
ALLOCATIONS: Final = (
    *("0,1,2", "0,1,4", "0,2,3", "0,3,4"),
    *("0,1,2,3", "0,1,2,4", "0,1,2,6", "0,1,4,5", "0,3,4,7"),
    *("0,1,2,3,4", "0,1,2,3,6", "0,1,2,4,5", "0,1,2,4,6", "0,2,3,4,7"),
    *("0,1,2,3,4,5", "0,1,2,3,4,6", "0,1,2,4,5,6", "0,1,2,4,5,7", "0,1,2,4,6,7", "0,2,3,4,6,7"),
    "0,1,2,3,4,5,6",
    "0,1,2,3,4,5,6,7",
)
"""GPUs of a DGX-1V whose speed-ups differ, of each number of GPUs."""

Computed = tuple[Value, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same training with rings and with trees."""

    model: str
    gpus: str
    iterations: tuple[float, float]
    """Seconds of an iteration: NCCL, Blink."""
    exposed: tuple[float, float]
    """Of which no compute."""

    @property
    def iteration_ratio(self) -> float:
        """Blink's time over NCCL's."""
        return self.iterations[1] / self.iterations[0]

    @property
    def communication_ratio(self) -> float:
        """Blink's time of communication over NCCL's."""
        return self.exposed[1] / self.exposed[0] if self.exposed[0] else 1.0

    @property
    def named(self) -> str:
        """The model, and the GPUs."""
        return f"{self.model} on {self.gpus}"


def run(model: str, gpus: str, system: str) -> Run:
    """A simulation."""
    name, batch = MODELS[model]
    return Run(TRAINING, system, (f'gpus="{gpus}"', f"workload.model={name}", f"workload.batch={batch}"))


def _on_servers(model: str, system: str) -> Run:
    name, batch = MODELS[model]
    return Run(TRAINING, system, (*SERVERS, f"workload.model={name}", f"workload.batch={batch}"))


def servers_runs() -> Iterator[Run]:
    """All simulations of Fig. 22a."""
    return (_on_servers(model, system) for model in MODELS for system in (NCCL, BLINK))


def servers_gain(runs: Runs) -> tuple[float, str]:
    """The first value of `blink-fig22-multi-server`: by how many per cent an iteration is shorter, at most."""
    gains = {}
    for model in MODELS:
        nccl, blink = (_seconds(runs, _on_servers(model, system))[0] for system in (NCCL, BLINK))
        gains[model] = _reduction(blink / nccl)
    return max(gains.values()), ", ".join(f"{model} {gain:.1f} %" for model, gain in gains.items())


def fig18_runs() -> Iterator[Run]:
    """All simulations of Fig. 18."""
    return (run(*point) for point in product(MODELS, ALLOCATIONS, (NCCL, BLINK)))


def _seconds(runs: Runs, simulation: Run) -> tuple[float, float]:
    """Of an iteration, and of what it exposes."""
    summary = runs.result(simulation).summary
    iterations = summary["iterations"] * PS_PER_S
    return summary["total_ps"] / iterations, summary["exposed_ps"] / iterations


def pair(runs: Runs, model: str, gpus: str) -> Pair:
    """Both systems."""
    nccl, blink = (_seconds(runs, run(model, gpus, system)) for system in (NCCL, BLINK))
    return Pair(model, gpus, (nccl[0], blink[0]), (nccl[1], blink[1]))


def _reduction(ratio: float) -> float:
    """Per cent."""
    return 100 * (1 - ratio)


def fig18(runs: Runs) -> Computed:
    """`blink-fig18-end-to-end`."""
    pairs = [pair(runs, model, gpus) for model, gpus in product(MODELS, ALLOCATIONS)]
    most = min(pairs, key=lambda found: found.iteration_ratio)
    most_communication = min(pairs, key=lambda found: found.communication_ratio)
    values = [
        _reduction(most.iteration_ratio),
        _reduction(geometric_mean(found.iteration_ratio for found in pairs)),
        _reduction(most_communication.communication_ratio),
        _reduction(geometric_mean(found.communication_ratio for found in pairs)),
    ]
    note = f"largest: {most.named}; of communication: {most_communication.named}. " + "; ".join(
        _of_model(model, [found for found in pairs if found.model == model]) for model in MODELS
    )
    return values, note


RUNS: Final[Mapping[str, Callable[[], Iterator[Run]]]] = MappingProxyType(
    {"blink-fig18-end-to-end": fig18_runs, "blink-fig22-multi-server": servers_runs}
)
"""The simulations that a claim needs."""


def _of_model(model: str, pairs: list[Pair]) -> str:
    iteration = _reduction(geometric_mean(found.iteration_ratio for found in pairs))
    communication = _reduction(geometric_mean(found.communication_ratio for found in pairs))
    shares = [100 * found.exposed[0] / found.iterations[0] for found in pairs]
    return (
        f"{model}: means {iteration:.1f} and {communication:.0f} %, "
        f"{min(shares):.1f} to {max(shares):.0f} % of an iteration with NCCL is communication"
    )
