"""The studies of HOTI 2020: their settings are those of the tables, and their metrics are what they are said to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from syncline.engine import completing
from syncline.engine import runs as engine
from syncline.engine.runs import Result
from syncline.experiment import packaged as studies
from syncline.fabric import scale_out_notation
from syncline.fabric.scale_out import SuperNodes
from syncline.fabric.topologies import Wired
from syncline.fabric.topology import Topology
from syncline.sections.endpoints import IdealEndpoint
from syncline.sections.networks.ethernet import EthernetNetwork
from syncline.studies.reproduction import hoti, ledger
from syncline.studies.reproduction.hoti import DLRM, SYSTEMS, Hoti
from syncline.studies.reproduction.runs import Run, Runs
from syncline.studies.sweeps import points
from syncline.studies.sweeps.file import load

GBIT = 10**9 // 8
QUICK = ("network={backend: analytical}", "collective.chunks=1", "collective.chunks_of={}")


def experiment(name: str, *settings: str) -> Any:
    return Runs().variant(Run(DLRM, name, settings)).experiment


def test_the_systems_are_those_of_the_tables() -> None:
    for name in SYSTEMS:
        found = experiment(name)
        flat = name.startswith("flat")
        if flat:
            assert isinstance(found.topology, Topology)
            assert [dim.size for dim in found.topology.dims] == [128]
            assert found.topology.dims[0].rate == (800 if name == "flat800" else 100) * GBIT
            assert found.topology.dims[0].latency == 500_000
        else:
            assert isinstance(found.topology, Wired)
            fabric = scale_out_notation.parse(found.topology.graph.name)
            assert isinstance(fabric, SuperNodes)
            assert (fabric.groups, fabric.size, fabric.switches) == (16, 8, 7)
            assert (fabric.local_rate, fabric.rate) == (1200 * GBIT, 100 * GBIT)
            assert fabric.local_latency == fabric.latency == 500_000
            assert fabric.buffer("local") == 64 * 2**20 // 8
        assert isinstance(found.network, EthernetNetwork)
        assert (found.network.buffer, found.network.window) == (2**30 // 128, 512 * 2**10)
        assert found.network.min_rto == 50 * 10**9
        assert found.npu.peak == 60 * 10**12
        assert found.workload.batch * 128 == 65536
        collective = found.collective
        assert (collective.scheduling, collective.priority) == ("lifo", ["all-to-all"])
        assert (collective.chunks, collective.chunks_of["all-to-all"]) == ((1024, 256) if flat else (128, 128))
        assert collective.least_chunk == 1  # the number holds for the smallest layer, too
        assert (collective.inflight if flat else collective.inflight_per_dimension) == 64
        assert isinstance(found.endpoint, IdealEndpoint)
        assert (found.endpoint.step_latency, found.endpoint.injection_latency) == (0, 10_000)
        assert found.training.iterations == 2


def test_algorithms_go_along_the_dimensions_that_the_paper_names() -> None:
    """By name of the phases that a chunk goes through; an all-to-all goes through the super-node first."""
    settings = (*QUICK, "training.iterations=1")
    runs = Runs()
    expected = {
        "flat100": ["all-reduce dim 0", "all-to-all dim 0"],
        "hier": ["all-reduce dim 0", "all-reduce dim 1", "all-to-all dim 0", "all-to-all dim 1"],
        "hierOpt": [
            *("reduce-scatter dim 0", "all-reduce dim 1", "all-gather dim 0"),
            *("all-to-all dim 0", "all-to-all dim 1"),
        ],
    }
    for name, phases in expected.items():
        result = runs.result(Run(DLRM, name, settings))
        assert sorted(result.tables["phases"].column("name").to_pylist()) == sorted(phases)


def test_compute_is_that_of_the_products() -> None:
    """Forward, input gradient and weight gradient of 57 million weights and 512 samples at 60 TFLOP/s; the first layer
    of the bottom MLP has no input gradient. Sums of embeddings add less than 0.2 %, all other kernels nothing.
    """
    settings = (*QUICK, "training.iterations=1")
    summary = Runs().result(Run(DLRM, "flat100", settings)).summary
    products = 2 * 512 * (3 * 57_411_584 - 1600 * 1024)
    assert summary["compute_ps"] / 1e12 == pytest.approx(products / 60e12, rel=0.002)


def test_sweeps_reach_the_variants_that_they_name() -> None:
    simulations, warnings = points.simulations(load(*studies.find_sweep("hoti/fig16")))
    assert not warnings
    found = {
        (s.variant.name, c.chunks, c.inflight_per_dimension or c.inflight)
        for s in simulations
        for c in (s.variant.experiment.collective,)
    }
    counts = [(chunks, most) for chunks in (1024, 128, 32) for most in (64, 128)]
    assert found == {(name, *count) for name in ("flat800", "hierOpt") for count in counts}

    def simulated(experiment: Any) -> str:
        specification = completing.specification(experiment, None)
        return str([specification[part] for part in ("fabric", "collectives", "endpoint", "job")])

    in_claims = {simulated(experiment(name, *run.settings)) for name in hoti.OPTIMAL for run in hoti._concurrent(name)}
    assert in_claims == {simulated(s.variant.experiment) for s in simulations}


@dataclass
class Faked(Runs):
    """Results that are made up, by variant and settings."""

    made_up: Mapping[Any, Result | list[Result]] = field(default_factory=dict)

    def result(self, run: Run) -> Result:
        made_up = self.made_up[run.variant, *run.settings]
        return made_up[self.seed] if isinstance(made_up, list) else made_up


def _made_up(total: int, exposed: int, collectives: list[dict[str, Any]] | None = None) -> Result:
    tables = {} if collectives is None else {"collectives": pa.Table.from_pylist(collectives)}
    return Result({"total_ps": total, "exposed_ps": exposed}, tables)


def _exchange(which: str, exposed: int) -> dict[str, Any]:
    times = {"issued_ps": 0, "completed_ps": 1}
    return {"layer": "embedding", "pass": which, "kind": "all-to-all", "exposed_ps": exposed, **times}


def test_metrics_of_training_by_hand() -> None:
    totals = {"flat100": (300, 240), "flat800": (100, 20), "hier": (250, 100), "hierOpt": (125, 25)}
    slow = {"flat800": (5000, 4900), "hierOpt": (500, 400)}
    made_up: dict[tuple[str, ...], Result | list[Result]] = {
        (name,): _made_up(*times) for name, times in totals.items()
    }
    made_up |= {(name, *hoti.SLOW_INJECTION): _made_up(*times) for name, times in slow.items()}
    found = Hoti(Faked(made_up=made_up))
    assert hoti.METRICS["hoti-fig13-exposed"](found)[0] == [80, 20, 40, 20]
    assert hoti.METRICS["hoti-fig13-speedup"](found)[0] == [3, 2]
    assert hoti.METRICS["hoti-fig14-injection-latency"](found)[0] == [2, 20]
    assert hoti.METRICS["hoti-fig14-degradation"](found)[0] == [50, 4]


@pytest.mark.parametrize(
    ("flat800", "others", "holds"), [((0, 0), (1, 2), 1), ((0, 1), (1, 2), 0), ((0, 0), (2, 1), 0), ((0, 0), (0, 1), 0)]
)
def test_only_flat800_is_to_hide_its_exchanges(flat800: tuple[int, int], others: tuple[int, int], holds: int) -> None:
    made_up = {
        (name,): _made_up(
            1, 1, [_exchange(*part) for part in zip(("forward", "weight_grad"), exposed, strict=True) for _ in range(2)]
        )
        for name in SYSTEMS
        for exposed in (flat800 if name == "flat800" else others,)
    }
    assert hoti.METRICS["hoti-fig12-flat800-alltoall"](Hoti(Faked(made_up=made_up)))[0] == holds


def _reductions(latencies: list[int], exposed_of_0: int = 5) -> Result:
    rows = [
        {
            "layer": f"top.{i}",
            "pass": "weight_grad",
            "kind": "all-reduce",
            "issued_ps": 10,
            "completed_ps": 10 + latency,
        }
        | {"exposed_ps": exposed_of_0 if i == 0 else 1}
        for i, latency in enumerate(latencies)
    ]
    return _made_up(1, 1, rows)


def test_orders_of_latencies_by_hand() -> None:
    good = [90, *range(20, 30), 1]
    fast = [80, *range(20, 30), 1]
    made_up = {(name,): _reductions(fast if name == "hierOpt" else good) for name in SYSTEMS}
    lifo, top = (hoti.METRICS[name] for name in ("hoti-fig11-lifo", "hoti-fig12-top0"))
    assert lifo(Hoti(Faked(made_up=made_up)))[0] == top(Hoti(Faked(made_up=made_up)))[0] == 1
    swapped = [90, 21, 20, *range(22, 30), 1]
    assert lifo(Hoti(Faked(made_up=made_up | {("hierOpt",): _reductions([value - 1 for value in swapped])})))[0] == 1
    unordered = [90, 24, 23, 22, 21, 20, *range(25, 30), 1]
    for wrong in (unordered, [90, *range(20, 30), 95], [200, *range(20, 30), 1]):
        assert lifo(Hoti(Faked(made_up=made_up | {("hierOpt",): _reductions(wrong)})))[0] == 0
    assert top(Hoti(Faked(made_up=made_up | {("hier",): _reductions(good, exposed_of_0=0)})))[0] == 0


def test_layers_of_a_recommender_are_apart_by_pass() -> None:
    from syncline.studies.figures import layers

    settings = (
        "topology=Switch(16, rate=100Gb/s, latency=500ns)",
        "network={backend: analytical}",
        "training.iterations=2",
        "collective.chunks=1",
        "npu.memory_bandwidth=900GB/s",
    )
    runs = Runs()
    result = engine.run(runs.variant(Run(DLRM, "flat100", settings)))
    rows = {row["layer"]: row for row in layers.rows("run", "flat100", result)}
    assert "embedding" not in rows
    forward, backward = (rows[f"embedding, {which}"] for which in ("forward", "weight grad"))
    assert 0 < forward["compute_s"] < backward["compute_s"]
    collectives = result.tables["collectives"].to_pylist()
    for row, which in ((forward, "forward"), (backward, "weight_grad")):
        mine = [c for c in collectives if (c["layer"], c["pass"]) == ("embedding", which)]
        assert len(mine) == 2
        assert row["exposed_s"] == sum(c["exposed_ps"] for c in mine) / 1e12 > 0
        assert row["raw_latency_s"] == pytest.approx(sum(c["completed_ps"] - c["issued_ps"] for c in mine) / 2e12)
    total = sum(row["exposed_s"] for row in rows.values())
    assert total == pytest.approx(result.summary["exposed_ps"] / 1e12)
    assert sum(row["compute_s"] for row in rows.values()) == pytest.approx(result.summary["compute_ps"] / 1e12)


USED_PS = 10**6
"""How long links are in use in runs that are made up."""


def _lossy(total: int, **counts: int) -> Result:
    table = pa.Table.from_pylist([dict.fromkeys(("drops", "retransmissions", "rto_events"), 0) | counts])
    network = {"mean_link_utilisation": USED_PS / total}
    return Result({"total_ps": total, "exposed_ps": 0, "network": network}, {"transport": table})


def test_values_of_lossy_runs_are_medians_over_five_seeds() -> None:
    run = Run(hoti.ALL_REDUCE, "A2A")
    times = [5, 1, 2, 9, 3]
    lossy = [_lossy(total, drops=total, rto_events=10 * total) for total in times]
    found = Hoti(Faked(made_up={("A2A",): lossy}))
    assert found.seconds(run) == 3e-12
    assert found.count(run, "drops", "rto_events") == 33
    lossless = [_lossy(total) for total in times]
    assert Hoti(Faked(made_up={("A2A",): lossless})).seconds(run) == 5e-12
    once = Hoti(Faked(made_up={("A2A",): [_lossy(5, retransmissions=1), *lossless[1:]]}))
    assert once.seconds(run) == 3e-12


def _by_system(**values: tuple[float, int]) -> dict[tuple[str, ...], Result | list[Result]]:
    """Single all-reduces by name, size and buffer: times in multiples of the linear model, and timeouts."""
    made_up: dict[tuple[str, ...], Result | list[Result]] = {}
    for size in hoti.SIZES:
        for buffer in ((), (hoti.SMALL_BUFFER,)):
            for name in ("DBT", "A2A"):
                kind = f"{name}_{'small' if size < 32 else 'middle' if size < 128 else 'large'}"
                multiple, timeouts = values[kind] if buffer else (values[f"{name}_1GB"][0], 0)
                total = round(multiple * 2 * size * 1e6 / hoti.LINK * 1e12)
                result = _lossy(total, rto_events=timeouts)
                made_up[name, f"workload.size={size}MB", *buffer] = [result] * 5
    return made_up


def test_orders_of_single_all_reduces_by_hand() -> None:
    orderings = hoti.METRICS["hoti-fig7-orderings"]
    good = {"DBT_1GB": (1.1, 0), "A2A_1GB": (1.3, 0)}
    good |= {"DBT_small": (1.1, 0), "A2A_small": (1.2, 0), "DBT_middle": (10.0, 5), "A2A_middle": (12.0, 2000)}
    good |= {"DBT_large": (9.0, 7), "A2A_large": (5.0, 2000)}
    assert orderings(Hoti(Faked(made_up=_by_system(**good))))[0] == 1
    for name, value in (
        ("DBT_1GB", (1.4, 0)),
        ("A2A_small", (1.0, 0)),
        ("A2A_large", (10.0, 2000)),
        ("A2A_middle", (16.0, 2000)),
        ("A2A_middle", (12.0, 100)),
        ("DBT_middle", (10.0, 0)),
    ):
        assert orderings(Hoti(Faked(made_up=_by_system(**(good | {name: value})))))[0] == 0


def test_two_all_reduces_follow_each_other_on_the_same_connections() -> None:
    """Here on four nodes, each of which begins the second when it has its part of the first."""
    topology = "topology=Switch(4, rate=100Gb/s, latency=500ns)"
    run = hoti._twice("A2A", 8, topology)
    result = Runs().result(run)
    first, second = result.tables["collectives"].to_pylist()
    assert 0.95 * first["completed_ps"] < second["issued_ps"] <= first["completed_ps"] < second["completed_ps"]
    single = Runs().result(hoti._all_reduce("A2A", 8, topology))
    once, twice = (found.tables["transport"].to_pylist()[0] for found in (single, result))
    assert twice["connections"] == once["connections"] == 12
    assert twice["segments_sent"] == pytest.approx(2 * once["segments_sent"], rel=0.05)


def test_every_claim_says_what_it_simulates() -> None:
    """The runs of a claim are those that its metric asks for, so that they are simulated side by side."""

    @dataclass
    class Asked(Runs):
        runs: set[Run] = field(default_factory=set)

        def result(self, run: Run) -> Result:
            self.runs.add(run)
            lossless = _lossy(10**9).tables
            rows = _reductions([90, *range(20, 30), 1]).tables["collectives"].to_pylist()
            rows += [_exchange(which, 1) for which in ("forward", "weight_grad")]
            layers = [{"layer": f"top.{i}", "gradient_bytes": 1} for i in range(12)]
            tables = {"collectives": pa.Table.from_pylist(rows), "layers": pa.Table.from_pylist(layers)}
            return Result(_lossy(10**9).summary | {"exposed_ps": 10**8}, lossless | tables)

    assert set(hoti.METRICS) == set(hoti.RUNS) == {claim.id for claim in ledger.select(["hoti"])}
    for name, metric in hoti.METRICS.items():
        asked = Asked()
        metric(Hoti(asked))
        assert asked.runs == set(hoti.RUNS[name]), name
