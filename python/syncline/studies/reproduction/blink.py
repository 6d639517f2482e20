"""Micro-benchmarks of Blink (MLSys 2020) on a DGX-1V, simulated with streams.

One constant is fitted: what a command in a stream takes, on the throughput of forwarding 1000 MB along eight GPUs. The
rates of a link (94 % of 25 GB/s) and of reductions (a third of 900 GB/s) are those of the hardware, and the number of
chunks is the one that is best in closed form for the size of each run (`chunking.best_chunks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from syncline.engine.chunking import MB, best_chunks, miad, steady_from
from syncline.engine.runs import PS_PER_S
from syncline.experiment.load import Variant
from syncline.sections.endpoints import StreamsEndpoint
from syncline.studies.reproduction import blink_collectives, blink_theory, blink_training
from syncline.studies.reproduction.blink_links import LINKS, Links, hybrid_gain, limit
from syncline.studies.reproduction.ledger import Claim, Finding, Value
from syncline.studies.reproduction.runs import Run, Runs

MICRO: Final = "blink/micro"
DEPTHS: Final = (3, 8)
LINK_RATE: Final = 23_500_000_000
"""Bytes per second of payload over an NVLink of the study."""
LARGE: Final = 1000 * MB
MIDDLE: Final = 100 * MB
"""Between 10 MB, from which on Fig. 8 is flat, and the 1000 MB of the other tests; that of the graph of MIMO."""
BROADCAST: Final = 500 * MB
SIZES: Final = tuple(chunk * MB for chunk in range(1, 65))
"""Fixed chunk sizes among which the best is looked for."""
NO_OVERHEAD: Final = tuple(f"endpoint.{name}_overhead=0us" for name in ("copy", "kernel", "event"))

Computed = tuple[Value, str]


@dataclass(frozen=True, slots=True)
class Blink:
    """Computes the simulated values of Blink's figures."""

    runs: Runs

    def preparations(self, claims: Sequence[Claim]) -> list[tuple[str, Callable[[], Any]]]:
        """Independent pieces of work that fill the cache of simulations for the claims."""
        found: list[tuple[str, Callable[[], Any]]] = []
        for claim in claims:
            if claim.id in RUNS:
                found += [(_name(run), partial(self.runs.result, run)) for run in RUNS[claim.id]()]
            else:
                found.append((claim.id, partial(METRICS[claim.id], self)))
        return found

    def finding(self, claim: Claim) -> Finding:
        """A claim against the simulations."""
        return Finding(claim, *METRICS[claim.id](self))

    def variants(self, claims: Sequence[Claim]) -> list[Variant]:
        """The variants whose assumptions the claims rest on."""
        named = dict.fromkeys(name for claim in claims for name in VARIANTS.get(claim.id, ()))
        runs = [Run(MICRO, name) for name in named]
        of_claims = (run for claim in claims if claim.id in RUNS for run in RUNS[claim.id]())
        runs += dict.fromkeys(Run(run.study, run.variant) for run in of_claims)
        if any(claim.id == "blink-fig21-hybrid" for claim in claims):
            runs.append(Run(LINKS, "Hybrid"))
        return [self.runs.variant(run) for run in runs]

    def throughput(self, variant: str, size: int, chunks: int, settings: tuple[str, ...] = ()) -> float:
        """GB/s of an operation on so many bytes in so many chunks."""
        return size / self.seconds(variant, size, chunks, settings) / 1e9

    def seconds(self, variant: str, size: int, chunks: int, settings: tuple[str, ...] = ()) -> float:
        """How long it takes."""
        run = Run(MICRO, variant, (f"workload.size={size}B", f"collective.loops={chunks}", *settings))
        return float(self.runs.result(run).summary["total_ps"] / PS_PER_S)

    def chunks(self, variant: str, size: int) -> int:
        """The number of chunks that is best in closed form, for a chain with its depth in its name, or for MCA."""
        experiment = self.runs.variant(Run(MICRO, variant)).experiment
        streams = experiment.endpoint
        assert isinstance(streams, StreamsEndpoint)
        kind, _, last = variant.rpartition(" ")
        gpus = int(last) if kind else 3  # of either chain of MCA
        forward, reduced = size / LINK_RATE, size / LINK_RATE + size / streams.reduce_rate
        if kind == "Forward":
            return best_chunks((gpus - 2) * forward, (streams.copy_overhead + streams.event_overhead) / PS_PER_S)
        back = (gpus - 1) * forward if kind == "All-reduce" else 0.0
        overhead = (streams.copy_overhead + streams.kernel_overhead) / PS_PER_S
        return best_chunks((gpus - 2) * reduced + back, overhead)


def _name(run: Run) -> str:
    return " ".join([run.study, run.variant, *run.settings])


def _of_runs(metric: Callable[[Runs], Computed], blink: Blink) -> Computed:
    return metric(blink.runs)


def _servers(blink: Blink) -> Computed:
    gain, of_models = blink_training.servers_gain(blink.runs)
    gigabits, note = limit(Links(blink.runs))
    assert isinstance(gigabits, float)
    return [gain, gigabits], f"training: {of_models}. {note}"


def _depth(blink: Blink) -> Computed:
    values: list[float] = []
    used: list[str] = []
    for kind in ("Reduce", "Forward", "All-reduce"):
        for gpus in DEPTHS:
            name = f"{kind} {gpus}"
            chunks = blink.chunks(name, LARGE)
            values.append(blink.throughput(name, LARGE, chunks))
            used.append(f"{LARGE / chunks / MB:.3g}")
    small = [blink.throughput(name, 10 * MB, blink.chunks(name, 10 * MB)) for name in ("Reduce 8", "Forward 8")]
    note = (
        f"in chunks of {', '.join(used)} MB; the command of a stream is fitted on forwarding along 8 GPUs; of 10 MB, "
        f"reduce+forward and forward along 8 reach {small[0]:.3g} and {small[1]:.3g} GB/s"
    )
    return values, note


def _mimo_mca(blink: Blink) -> Computed:
    seconds = blink.runs.result(Run(MICRO, "MIMO")).summary["total_ps"] / PS_PER_S
    mca = {size: blink.throughput("MCA", size, blink.chunks("MCA", size)) for size in (20 * MB, MIDDLE, LARGE)}
    note = f"100 MB; MCA of 20 MB {mca[20 * MB]:.3g}, of 1000 MB {mca[LARGE]:.3g} GB/s"
    return [MIDDLE / seconds / 1e9, mca[MIDDLE]], note


def _chunking(blink: Blink) -> Computed:
    one, two = (blink.seconds("Forward 4", LARGE, chunks, NO_OVERHEAD) for chunks in (1, 2))
    return two / one, "3 latencies of 500 ns of a link are the difference from two thirds"


def _miad(blink: Blink) -> Computed:
    def measure(chunk: int) -> float:
        return blink.throughput("Forward 4", BROADCAST, -(-BROADCAST // chunk))

    history = miad(measure, largest=BROADCAST)
    best = max(measure(chunk) for chunk in SIZES)
    steady = steady_from(history, best)
    first = next((n for n, trial in enumerate(history, start=1) if trial.throughput >= 0.98 * best), None)
    sizes = ", ".join(f"{trial.chunk / MB:g}" for trial in history)
    note = f"chunks of {sizes} MB; first within 2 % of {best:.4g} GB/s in iteration {first}"
    return float(steady or len(history) + 1), note


RUNS: Final = {**blink_collectives.RUNS, **blink_training.RUNS}
"""The simulations that each claim needs, where these are many."""
METRICS: Final[dict[str, Callable[[Blink], Computed]]] = {
    **{name: partial(_of_runs, metric) for name, metric in blink_collectives.METRICS.items()},
    "blink-unique-topologies": lambda _: blink_theory.unique_topologies(),
    "blink-dgx1v-trees": lambda _: blink_theory.unit_trees(),
    "blink-dgx1v-mwu-trees": lambda _: blink_theory.multiplicative_trees(),
    "blink-fig14-theory": lambda _: blink_theory.speedups(),
    "blink-rings-dgx1p": lambda _: blink_theory.ring_rate(),
    "blink-fig21-hybrid": lambda blink: hybrid_gain(Links(blink.runs)),
    "blink-fig7-depth": _depth,
    "blink-mimo-mca": _mimo_mca,
    "blink-fig11-chunking": _chunking,
    "blink-fig12-miad": _miad,
    "blink-fig18-end-to-end": lambda blink: blink_training.fig18(blink.runs),
    "blink-fig22-multi-server": _servers,
}

VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "blink-fig7-depth": tuple(f"{kind} {gpus}" for kind in ("Reduce", "Forward", "All-reduce") for gpus in DEPTHS),
    "blink-mimo-mca": ("MIMO", "MCA"),
    "blink-fig11-chunking": ("Forward 4",),
    "blink-fig12-miad": ("Forward 4",),
}
"""The variants that each claim runs; those of `blink_theory` run none."""
