"""HOTI 2020 (Rashidi et al., "Scalable Distributed Training of Recommendation Models"), simulated.

Claims of `METRICS` need no losses and are in the ledger. Those of `PREPARED` are about runs with TCP: their metrics are
computed from any backend, but only one with packets and losses computes what they mean. They join the ledger with
their entries in `claims.toml`, once the studies of `hoti/` name such a backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

from syncline.engine import PS_PER_S
from syncline.reproduce.ledger import Claim, Finding, Value
from syncline.reproduce.runs import Run, Runs
from syncline.schema.load import Variant

ALL_REDUCE: Final = "hoti/allreduce"
DLRM: Final = "hoti/dlrm"
SYSTEMS: Final = ("flat100", "flat800", "hier", "hierOpt")
OPTIMAL: Final = ("flat800", "hierOpt")
MIB: Final = 2**20

MODEL: Final = ("network.backend=analytical",)
"""The linear model has no contention."""
ONE_CHUNK: Final = (*MODEL, "collective.chunks=1", "workload.size=256B")
"""A collective of one message after the other, whose bytes take next to no time."""
DELAY_S: Final = 1e-3
COUNTED: Final = (*ONE_CHUNK, f"endpoint.injection_latency={DELAY_S * 1e3:g}ms")
"""The same with a delay of every message, by far the longest part of it."""
SMALL: Final = (
    *("topology=Switch(2, rate=100Gb/s, latency=500ns)", "network.backend=analytical"),
    *("training.iterations=1", "collective.chunks=1"),
)
"""A run that is soon over; sizes of gradients are those of any other."""
SLOW_INJECTION: Final = ("endpoint.injection_latency=100us",)

Computed = tuple[Value, str]


@dataclass(frozen=True, slots=True)
class Hoti:
    """Computes the simulated values of the paper's claims."""

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
        """How long a run takes."""
        return float(self.runs.result(run).summary["total_ps"] / PS_PER_S)

    def exposed_percent(self, run: Run) -> float:
        """Exposed communication as a share of the run."""
        summary = self.runs.result(run).summary
        return float(100 * summary["exposed_ps"] / summary["total_ps"])

    def latencies(self, run: Run) -> dict[str, float]:
        """By layer, the mean time in seconds from the issue of its all-reduces to their completion."""
        found: dict[str, list[float]] = {}
        for row in self.runs.result(run).tables["collectives"].to_pylist():
            if row["kind"] == "all-reduce" and row["completed_ps"] is not None:
                found.setdefault(row["layer"], []).append((row["completed_ps"] - row["issued_ps"]) / PS_PER_S)
        return {layer: sum(times) / len(times) for layer, times in found.items()}

    def exposed_by(self, run: Run, kind: str) -> dict[tuple[str, str], float]:
        """By layer and pass, the exposed communication in seconds of its collectives of a kind, over the run."""
        found: dict[tuple[str, str], float] = {}
        for row in self.runs.result(run).tables["collectives"].to_pylist():
            if row["kind"] == kind:
                key = (row["layer"], row["pass"])
                found[key] = found.get(key, 0.0) + row["exposed_ps"] / PS_PER_S
        return found


def _insertion_delay(hoti: Hoti) -> Computed:
    (run,) = RUNS["hoti-analytical"]
    return 1e3 * hoti.seconds(run), "double binary trees on the analytical backend, with the latency of their messages"


def _sizes(hoti: Hoti) -> Computed:
    (run,) = RUNS["hoti-dlrm-sizes"]
    layers = {row["layer"]: row["gradient_bytes"] / MIB for row in hoti.runs.result(run).tables["layers"].to_pylist()}
    others = {layers[f"top.{i}"] for i in range(1, 11)}
    assert len(others) == 1, "layers 1 to 10 of the top MLP are alike"
    return [layers["top.0"], others.pop()], "layer 0 has 4160 inputs; layers 1 to 10 are alike, layer 11 has one output"


def _steps(hoti: Hoti) -> Computed:
    delayed = [float(round(hoti.seconds(run) / DELAY_S)) for run in RUNS["hoti-steps"]]
    return delayed, f"injection latencies in the time of one chunk, with {DELAY_S * 1e3:g} ms each"


METRICS: Final[dict[str, Callable[[Hoti], Computed]]] = {
    "hoti-analytical": _insertion_delay,
    "hoti-dlrm-sizes": _sizes,
    "hoti-steps": _steps,
}

RUNS: Final[dict[str, tuple[Run, ...]]] = {
    "hoti-analytical": (Run(ALL_REDUCE, "DBT", MODEL),),
    "hoti-dlrm-sizes": (Run(DLRM, "flat100", SMALL),),
    "hoti-steps": (Run(ALL_REDUCE, "DBT", COUNTED), Run(ALL_REDUCE, "hierOpt", COUNTED)),
}
"""The simulations that each claim needs."""


# --- with TCP


def _system(name: str, *settings: str) -> Run:
    return Run(DLRM, name, settings)


def _exposed(hoti: Hoti) -> Computed:
    return [hoti.exposed_percent(_system(name)) for name in SYSTEMS], ""


def _speedup(hoti: Hoti) -> Computed:
    times = {name: hoti.seconds(_system(name)) for name in SYSTEMS}
    return [times["flat100"] / times["flat800"], times["hier"] / times["hierOpt"]], ""


def _exchanges(hoti: Hoti) -> Computed:
    """Whether flat800 alone hides its all-to-alls, and the backward one takes longer where they are exposed."""
    parts, holds = [], True
    for name in SYSTEMS:
        exposed = hoti.exposed_by(_system(name), "all-to-all")
        forward, backward = (1e6 * exposed["embedding", which] for which in ("forward", "weight_grad"))
        parts.append(f"{name}: {forward:.4g} and {backward:.4g} us")
        hidden = name == "flat800"
        holds = holds and (forward + backward == 0 if hidden else 0 < forward < backward)
    return float(holds), f"exposed forward and backward, two iterations: {'; '.join(parts)}"


def _lifo(hoti: Hoti) -> Computed:
    latencies = {name: hoti.latencies(_system(name)) for name in SYSTEMS}
    holds = True
    for own in latencies.values():
        top = [own[f"top.{i}"] for i in range(12)]
        holds = holds and top[11] == min(own.values()) and all(early < late for early, late in pairwise(top[1:11]))
    totals = {name: sum(own.values()) for name, own in latencies.items()}
    holds = holds and min(totals, key=lambda name: totals[name]) == "hierOpt"
    each = "; ".join(f"{name}: {1e3 * total:.4g} ms" for name, total in totals.items())
    return float(holds), f"latencies of all layers added up: {each}"


def _top_layer(hoti: Hoti) -> Computed:
    parts, holds = [], True
    for name in SYSTEMS:
        exposed = hoti.exposed_by(_system(name), "all-reduce")
        (layer, _), most = max(exposed.items(), key=lambda item: item[1])
        holds = holds and layer == "top.0" and most > 0
        parts.append(f"{name}: {layer} with {1e3 * most:.4g} ms")
    return float(holds), "; ".join(parts)


def _injection(hoti: Hoti) -> Computed:
    return [100 - hoti.exposed_percent(_system(name, *SLOW_INJECTION)) for name in OPTIMAL], ""


def _degradation(hoti: Hoti) -> Computed:
    ratio = [hoti.seconds(_system(name, *SLOW_INJECTION)) / hoti.seconds(_system(name)) for name in OPTIMAL]
    return ratio, ""


def _concurrent(name: str) -> list[Run]:
    """The points of Figure 16: numbers of chunks, and how many are outstanding along a dimension."""

    def outstanding(most: int) -> tuple[str, ...]:
        if name == "flat800":
            return (f"collective.inflight={most}",)
        return (f"collective.inflight={2 * most}", f"collective.inflight_per_dimension={most}")

    points = [(chunks, most) for chunks in (1024, 128, 32) for most in (64, 128)]
    return [_system(name, f"collective.chunks={chunks}", *outstanding(most)) for chunks, most in points]


def _spread(value: Callable[[Run], float]) -> list[float]:
    """The largest value over the smallest, of each optimal system in Figure 16."""
    found = []
    for name in OPTIMAL:
        values = [value(run) for run in _concurrent(name)]
        found.append(max(values) / min(values))
    return found


def _concurrency(hoti: Hoti) -> Computed:
    return _spread(lambda run: hoti.exposed_percent(run) * hoti.seconds(run)), ""


def _iterations(hoti: Hoti) -> Computed:
    return [100 * (ratio - 1) for ratio in _spread(hoti.seconds)], ""


PREPARED: Final[dict[str, Callable[[Hoti], Computed]]] = {
    "hoti-fig13-exposed": _exposed,
    "hoti-fig13-speedup": _speedup,
    "hoti-fig12-flat800-alltoall": _exchanges,
    "hoti-fig11-lifo": _lifo,
    "hoti-fig12-top0": _top_layer,
    "hoti-fig14-injection-latency": _injection,
    "hoti-fig14-degradation": _degradation,
    "hoti-fig16-concurrency": _concurrency,
    "hoti-fig16-iteration": _iterations,
}
