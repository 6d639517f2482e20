"""HOTI 2020 (Rashidi et al., "Scalable Distributed Training of Recommendation Models"), simulated.

Runs that lose frames differ from seed to seed, so each of their values is the median over five.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import correlation, median
from typing import Any, Final

from syncline.engine.runs import PS_PER_S, Result
from syncline.experiment import packaged as studies
from syncline.experiment.load import Variant
from syncline.studies.reproduction.ledger import Claim, Finding, Value
from syncline.studies.reproduction.runs import Run, Runs
from syncline.studies.sweeps.measures import LOSSES

ALL_REDUCE: Final = "hoti/allreduce"
DLRM: Final = "hoti/dlrm"
SYSTEMS: Final = ("flat100", "flat800", "hier", "hierOpt")
OPTIMAL: Final = ("flat800", "hierOpt")
MIB: Final = 2**20
SEEDS: Final = 5
"""Seeds of a run that loses frames."""
LINK: Final = 12.5e9
"""Bytes per second of a link to the switch."""

SIZES: Final = (8, 16, 32, 64, 128, 256)
"""MB of single all-reduces."""
SMALL_SIZES: Final = (8, 16)
LARGE_SIZES: Final = (128, 256)
SMALL_BUFFER: Final = "network.buffer=512KiB"
"""A switch of 64 MB; without it, the study's has 1 GB."""

MODEL: Final = ("network={backend: analytical}",)
"""The linear model has no contention."""
ONE_CHUNK: Final = (*MODEL, "collective.chunks=1", "workload.size=256B")
"""A collective of one message after the other, whose bytes take next to no time."""
DELAY_S: Final = 1e-3
COUNTED: Final = (*ONE_CHUNK, f"endpoint.injection_latency={DELAY_S * 1e3:g}ms")
"""The same with a delay of every message, by far the longest part of it."""
SMALL: Final = (
    *("topology=Switch(2, rate=100Gb/s, latency=500ns)", *MODEL),
    *("training.iterations=1", "collective.chunks=1"),
)
"""A run that is soon over; sizes of gradients are those of any other."""
SLOW_INJECTION: Final = ("endpoint.injection_latency=100us",)

ALIKE: Final = 1.5
"""Shares of a link in use that are about the same differ by this factor at most."""
NOTHING: Final = 0.005
"""What counts as no exposed communication, as a share of the run."""
HANDFUL: Final = 50
"""Timeouts that are but a few."""
THOUSANDS: Final = 600
"""Timeouts that are many."""
LEAST_CORRELATION: Final = 0.9
"""Of the order in which layers are issued and the order of their latencies."""

Computed = tuple[Value, str]


@dataclass(frozen=True, slots=True)
class Hoti:
    """Computes the simulated values of the paper's claims."""

    runs: Runs

    def preparations(self, claims: Sequence[Claim]) -> list[tuple[str, Callable[[], Any]]]:
        """Independent pieces of work that fill the cache of simulations for the claims."""
        wanted = dict.fromkeys(run for claim in claims for run in RUNS[claim.id])
        return [(f"{run.study} {run.variant}", partial(self.results, run)) for run in wanted]

    def finding(self, claim: Claim) -> Finding:
        """A claim against the simulations."""
        return Finding(claim, *METRICS[claim.id](self))

    def variants(self, claims: Sequence[Claim]) -> list[Variant]:
        """The variants whose assumptions the claims rest on."""
        plain = dict.fromkeys(Run(run.study, run.variant) for claim in claims for run in RUNS[claim.id])
        return [self.runs.variant(run) for run in plain]

    def results(self, run: Run) -> list[Result]:
        """A run, or if it loses frames the run with each of five seeds."""
        first = self.runs.result(run)
        if not _loses(first):
            return [first]
        return [first, *(self.runs.of_seed(self.runs.seed + i).result(run) for i in range(1, SEEDS))]

    def median(self, run: Run, value: Callable[[Result], float]) -> float:
        """A value of a run, or its median over the seeds."""
        return float(median(value(result) for result in self.results(run)))

    def seconds(self, run: Run) -> float:
        """How long a run takes."""
        return self.median(run, lambda result: result.summary["total_ps"] / PS_PER_S)

    def exposed_percent(self, run: Run) -> float:
        """Exposed communication as a share of the run."""
        return self.median(run, lambda result: 100 * result.summary["exposed_ps"] / result.summary["total_ps"])

    def count(self, run: Run, *names: str) -> float:
        """The sum of some counts of the transport."""
        return self.median(run, lambda result: sum(_transport(result)[name] for name in names))

    def utilisation(self, run: Run) -> float:
        """Percent of what all ports could have sent: bytes on the wire, acknowledgements included."""
        return self.median(run, lambda result: 100 * result.summary["network"]["mean_link_utilisation"])

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


def _transport(result: Result) -> dict[str, Any]:
    row: dict[str, Any] = result.tables["transport"].to_pylist()[0]
    return row


def _loses(result: Result) -> bool:
    if "transport" not in result.tables:
        return False
    counts = _transport(result)
    return any(counts[name] > 0 for name in LOSSES)


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


# --- single all-reduces with TCP


def _all_reduce(variant: str, size: int, *settings: str) -> Run:
    return Run(ALL_REDUCE, variant, (f"workload.size={size}MB", *settings))


def _twice(variant: str, size: int, *settings: str) -> Run:
    """Two all-reduces, the second of which begins when the first has ended, on the same connections."""
    file = studies.find(ALL_REDUCE)[0].parent / f"allreduce-{size}MB.txt"
    workload, training = f"workload={{astra_text: {file}, element: 2B}}", "training={iterations: 2, tail: drain}"
    return Run(ALL_REDUCE, variant, (workload, training, *settings))


def _linear_s(size: int) -> float:
    """The linear model: twice the vector at the rate of a link (section IV-A1)."""
    return 2 * size * 1e6 / LINK


def _multiple(hoti: Hoti, run: Run, size: int) -> float:
    return hoti.seconds(run) / _linear_s(size)


def _seeds(hoti: Hoti, runs: Iterable[Run]) -> str:
    return f"median of {SEEDS} seeds" if any(len(hoti.results(run)) > 1 for run in runs) else "nothing is lost"


def _a2a_8(hoti: Hoti) -> Computed:
    (run,) = RUNS["hoti-fig7-a2a-8mb-small-buffer"]
    values = [_multiple(hoti, run, 8), hoti.utilisation(run), hoti.count(run, "rto_events")]
    resent = f"{hoti.count(run, 'retransmissions'):.0f} segments sent again"
    return values, f"{_seeds(hoti, [run])}; {resent}; chunks in flight are fitted on this claim"


def _a2a_16(hoti: Hoti) -> Computed:
    (run,) = RUNS["hoti-fig7-a2a-16mb-small-buffer"]
    return _multiple(hoti, run, 16), f"{_seeds(hoti, [run])}; {hoti.count(run, 'rto_events'):.0f} timeouts"


def _dbt_1gb(hoti: Hoti) -> Computed:
    runs = RUNS["hoti-fig7-dbt-large-buffer"]
    multiples = [_multiple(hoti, run, size) for run, size in zip(runs, SIZES, strict=True)]
    return [max(multiples), sum(hoti.count(run, "rto_events", "retransmissions") for run in runs)], _seeds(hoti, runs)


def _dbt_64mb(hoti: Hoti) -> Computed:
    runs = RUNS["hoti-fig7-dbt-small-buffer"]
    multiples = [_multiple(hoti, run, size) for run, size in zip(runs, SMALL_SIZES, strict=True)]
    return [max(multiples), sum(hoti.count(run, "drops") for run in runs)], _seeds(hoti, runs)


def _a2a_1gb(hoti: Hoti) -> Computed:
    *small, large = RUNS["hoti-fig7-a2a-large-buffer"]
    resent = f"{sum(hoti.count(run, 'retransmissions') for run in small):.0f} segments sent again at 8 to 64 MB"
    note = f"{_seeds(hoti, [large])}; {hoti.count(large, 'rto_events'):.0f} timeouts at 256 MB; {resent}"
    return hoti.utilisation(large), note


def _orderings(hoti: Hoti) -> Computed:
    def faster(size: int, *settings: str) -> str:
        times = {name: hoti.seconds(_all_reduce(name, size, *settings)) for name in ("DBT", "A2A")}
        return min(times, key=lambda name: times[name])

    large_buffer = [faster(size) for size in SIZES]
    small, large = ([faster(size, SMALL_BUFFER) for size in sizes] for sizes in (SMALL_SIZES, LARGE_SIZES))
    trees, direct = (_all_reduce(name, 32, SMALL_BUFFER) for name in ("DBT", "A2A"))
    used = [hoti.utilisation(run) for run in (trees, direct)]
    timeouts = [hoti.count(run, "rto_events") for run in (trees, direct)]
    lock_step = max(used) <= ALIKE * min(used) and 0 < timeouts[0] <= HANDFUL and timeouts[1] >= THOUSANDS
    left = [
        f"{count:.0f} timeouts leave {name} {share:.1f} %"
        for name, count, share in zip(("DBT", "A2A"), timeouts, used, strict=True)
    ]
    parts = {
        "1 GB: DBT faster at every size": set(large_buffer) == {"DBT"},
        "64 MB: DBT faster at 8 and 16 MB": set(small) == {"DBT"},
        "A2A faster at 128 and 256 MB": set(large) == {"A2A"},
        f"32 MB: {', '.join(left)}": lock_step,
    }
    return float(all(parts.values())), "; ".join(f"{what}: {'yes' if holds else 'no'}" for what, holds in parts.items())


def _counts(hoti: Hoti) -> Computed:
    eight, sixteen, trees, direct = RUNS["hoti-fig8-counts"]
    timeouts = [hoti.count(run, "rto_events") for run in (sixteen, trees, direct)]
    return [hoti.count(eight, "retransmissions"), *timeouts], f"two all-reduces each; {_seeds(hoti, [sixteen])}"


# --- DLRM


def _system(name: str, *settings: str) -> Run:
    return Run(DLRM, name, settings)


def _exposed(hoti: Hoti) -> Computed:
    return [hoti.exposed_percent(_system(name)) for name in SYSTEMS], _seeds(hoti, map(_system, SYSTEMS))


def _speedup(hoti: Hoti) -> Computed:
    times = {name: hoti.seconds(_system(name)) for name in SYSTEMS}
    return [times["flat100"] / times["flat800"], times["hier"] / times["hierOpt"]], ""


def _exchanges(hoti: Hoti) -> Computed:
    """Whether flat800 alone hides its all-to-alls, and the backward one takes longer where they are exposed."""
    parts, holds = [], True
    for name in SYSTEMS:
        exposed = hoti.exposed_by(_system(name), "all-to-all")
        forward, backward = (exposed["embedding", which] for which in ("forward", "weight_grad"))
        parts.append(f"{name}: {1e6 * forward:.4g} and {1e6 * backward:.4g} us")
        nothing = NOTHING * hoti.seconds(_system(name))
        holds = holds and (forward + backward < nothing if name == "flat800" else nothing < forward < backward)
    return float(holds), f"exposed forward and backward, two iterations: {'; '.join(parts)}"


def _rank_correlation(values: Sequence[float]) -> float:
    """Spearman's, of values with their places; 0 if they are all alike."""
    ranks = [sorted(values).index(value) for value in values]
    return correlation(range(len(values)), ranks) if len(set(ranks)) > 1 else 0.0


def _lifo(hoti: Hoti) -> Computed:
    latencies = {name: hoti.latencies(_system(name)) for name in SYSTEMS}
    totals = {name: sum(own.values()) for name, own in latencies.items()}
    last, order, parts = True, True, []
    for name, own in latencies.items():
        top = [own[f"top.{i}"] for i in range(12)]
        last = last and top[11] == min(own.values())
        rank = _rank_correlation(top[1:11])
        order = order and rank >= LEAST_CORRELATION
        parts.append(f"{name}: {1e3 * totals[name]:.4g} ms, order {rank:.2f}, layer 11 {1e6 * top[11]:.4g} us")
    holds = last and order and min(totals, key=lambda name: totals[name]) == "hierOpt"
    said = "layer 11 is fastest" if last else "layer 11 is not fastest everywhere"
    return float(holds), f"{said}; latencies of all layers added up: {'; '.join(parts)}"


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


def _compute_share(hoti: Hoti) -> Computed:
    runs = RUNS["hoti-compute-share"]
    return [100 - hoti.exposed_percent(run) for run in runs], _seeds(hoti, runs[2:])


def _buffer(hoti: Hoti) -> Computed:
    names = ("hierOpt", "flat100", "flat800")
    ratios = [hoti.seconds(_system(name, SMALL_BUFFER)) / hoti.seconds(_system(name)) for name in names]
    timeouts = hoti.count(_system("hierOpt", SMALL_BUFFER), "rto_events")
    seeds = _seeds(hoti, [_system("hierOpt", SMALL_BUFFER)])
    return ratios, f"{seeds}; {timeouts:.0f} timeouts of hierOpt; chunks of all-to-alls are fitted on this claim"


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


_A2A_8: Final = _all_reduce("A2A", 8, SMALL_BUFFER)
_ALL: Final = tuple(map(_system, SYSTEMS))
_SLOW: Final = tuple(_system(name, *SLOW_INJECTION) for name in OPTIMAL)
_FIG16: Final = tuple(run for name in OPTIMAL for run in _concurrent(name))

METRICS: Final[dict[str, Callable[[Hoti], Computed]]] = {
    "hoti-analytical": _insertion_delay,
    "hoti-fig7-a2a-8mb-small-buffer": _a2a_8,
    "hoti-fig7-a2a-16mb-small-buffer": _a2a_16,
    "hoti-fig7-dbt-large-buffer": _dbt_1gb,
    "hoti-fig7-dbt-small-buffer": _dbt_64mb,
    "hoti-fig7-a2a-large-buffer": _a2a_1gb,
    "hoti-fig7-orderings": _orderings,
    "hoti-fig8-counts": _counts,
    "hoti-dlrm-sizes": _sizes,
    "hoti-fig11-lifo": _lifo,
    "hoti-fig12-top0": _top_layer,
    "hoti-fig12-flat800-alltoall": _exchanges,
    "hoti-fig13-exposed": _exposed,
    "hoti-fig13-speedup": _speedup,
    "hoti-steps": _steps,
    "hoti-fig14-injection-latency": _injection,
    "hoti-fig14-degradation": _degradation,
    "hoti-compute-share": _compute_share,
    "hoti-fig15-buffer": _buffer,
    "hoti-fig16-concurrency": _concurrency,
    "hoti-fig16-iteration": _iterations,
}

RUNS: Final[dict[str, tuple[Run, ...]]] = {
    "hoti-analytical": (Run(ALL_REDUCE, "DBT", MODEL),),
    "hoti-fig7-a2a-8mb-small-buffer": (_A2A_8,),
    "hoti-fig7-a2a-16mb-small-buffer": (_all_reduce("A2A", 16, SMALL_BUFFER),),
    "hoti-fig7-dbt-large-buffer": tuple(_all_reduce("DBT", size) for size in SIZES),
    "hoti-fig7-dbt-small-buffer": tuple(_all_reduce("DBT", size, SMALL_BUFFER) for size in SMALL_SIZES),
    "hoti-fig7-a2a-large-buffer": tuple(_all_reduce("A2A", size) for size in (8, 16, 32, 64, 256)),
    "hoti-fig7-orderings": tuple(
        [_all_reduce(name, size) for name in ("DBT", "A2A") for size in SIZES]
        + [_all_reduce(name, size, SMALL_BUFFER) for name in ("DBT", "A2A") for size in (8, 16, 32, 128, 256)]
    ),
    "hoti-fig8-counts": (
        *(_twice("A2A", size, SMALL_BUFFER) for size in SMALL_SIZES),
        *(_twice(name, 32, SMALL_BUFFER) for name in ("DBT", "A2A")),
    ),
    "hoti-dlrm-sizes": (Run(DLRM, "flat100", SMALL),),
    "hoti-fig11-lifo": _ALL,
    "hoti-fig12-top0": _ALL,
    "hoti-fig12-flat800-alltoall": _ALL,
    "hoti-fig13-exposed": _ALL,
    "hoti-fig13-speedup": _ALL,
    "hoti-steps": (Run(ALL_REDUCE, "DBT", COUNTED), Run(ALL_REDUCE, "hierOpt", COUNTED)),
    "hoti-fig14-injection-latency": _SLOW,
    "hoti-fig14-degradation": (*map(_system, OPTIMAL), *_SLOW),
    "hoti-compute-share": (*map(_system, OPTIMAL), _system("hierOpt", SMALL_BUFFER)),
    "hoti-fig15-buffer": tuple(
        _system(name, *settings) for name in ("hierOpt", "flat100", "flat800") for settings in ((), (SMALL_BUFFER,))
    ),
    "hoti-fig16-concurrency": _FIG16,
    "hoti-fig16-iteration": _FIG16,
}
"""The simulations that each claim needs."""
