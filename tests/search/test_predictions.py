"""Bounds and estimates of a search: bounds never exceed simulations, and rates are those of the links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from syncline.engine import runs as engine
from syncline.fabric import topologies
from syncline.fabric.topology import Topology
from syncline.models import times
from syncline.models.demands import Kernel
from syncline.sections.parallel import Parallel
from syncline.strategies import schedules
from syncline.strategies.mesh import Mesh
from syncline.studies.searches import file, predict, space
from syncline.studies.searches.file import Search
from syncline.studies.searches.predict import Predicted, Predictor
from syncline.studies.searches.rates import Rates
from syncline.studies.searches.space import Candidate

TINY = "{layers: 4, hidden: 64, heads: 4, vocabulary: 256, positions: 32}"
EXPERIMENT = """\
name: gpt
topology: {topology}
workload: {{model: gpt2, parameters: {tiny}, global_batch: {batch}}}
parallel: {parallel}
collective: {{chunks: 2, algorithm: ring}}
network: flow
endpoint: ideal
search: {search}
{more}
"""


def search(
    folder: Path, axes: str, parallel: str = "{}", topology: str = "dgx-a100", batch: int = 16, more: str = ""
) -> Search:
    """A search of divisions of a small GPT."""
    path = folder / "gpt.yaml"
    path.write_text(
        EXPERIMENT.format(topology=topology, tiny=TINY, batch=batch, parallel=parallel, search=axes, more=more)
    )
    return file.load_file(path, "gpt.yaml")


def predicted(found: Search) -> list[tuple[Candidate, Predicted]]:
    """All candidates with their predictions."""
    predictors: dict[tuple[int, str], Predictor] = {}
    result = []
    for candidate in space.candidates(found).candidates:
        key = (id(candidate.base), candidate.algorithm)
        if key not in predictors:
            predictors[key] = Predictor(candidate.base, candidate.algorithm)
        result.append((candidate, predictors[key].of(candidate)))
    return result


def simulated(candidate: Candidate) -> float:
    """Picoseconds of an iteration, or of one more."""
    summary = engine.run(candidate.variant()).summary
    if summary["steady"] is not None:
        return float(summary["steady"]["iteration_ps"])
    return float(summary["total_ps"]) / int(summary["iterations"])


@pytest.mark.parametrize(
    ("axes", "parallel", "more"),
    [
        ("{tensor: [1, 4], pipeline: [1, 2], recompute: [none, full]}", "{zero: 1}", ""),
        ("{tensor: [2], sequence: [true], zero: [0, 1, 2], micro_batch: [1, 2]}", "{}", ""),
        ("{schedule: [gpipe, 1f1b, interleaved], virtual: [1, 2]}", "{pipeline: 2, tensor: 2}", ""),
        ("{pipeline: [2, 4]}", "{recompute: selective, schedule: pipedream}", "training: {iterations: 1}"),
        ("{context: [2, 4], tensor: [1, 2]}", "{context_exchange: all-gather, recompute: selective}", ""),
        ("{context: [2], zero: [0, 3]}", "{}", "training: {iterations: 3}"),
        ("{tensor: [1, 2]}", "{parameter_server: central}", ""),
        ("{tensor: [2], pipeline: [2]}", "{parameter_server: sharded, updates: asynchronous}", ""),
        ("{tensor: [2, 8], algorithm: [direct, halving-doubling, double-binary-tree]}", "{}", ""),
        ("{pipeline: [1, 2], order: [[data, tensor, context, pipeline]]}", "{tensor: 2, scatter_gather: true}", ""),
        ("{tensor: [2], pipeline: [1, 2]}", "{}", "network: {backend: analytical}\n"),
        ("{tensor: [1, 2]}", "{}", "training: {stragglers: [{npu: 3, factor: 0.5}], tail: stop}"),
        ("{tensor: [1, 2]}", "{pipeline: 2}", "npu: {compute: {kind: tiles, launch: 2us}}\n"),
    ],
)
def test_no_bound_is_above_a_simulation(tmp_path: Path, axes: str, parallel: str, more: str) -> None:
    text = more
    found = search(tmp_path, axes, parallel, more="" if "network:" in text else text)
    if "network:" in text:
        path = tmp_path / "gpt.yaml"
        path.write_text(path.read_text().replace("network: flow\n", text))
        found = file.load_file(path, "gpt.yaml")
    candidates = predicted(found)
    for candidate, prediction in candidates:
        took = simulated(candidate)
        assert 0 < prediction.bound <= took, candidate.name
        assert prediction.bound <= prediction.estimate
    assert candidates


def test_the_bound_is_compute_and_bubble_where_nothing_is_exchanged(tmp_path: Path) -> None:
    found = search(tmp_path, "{pipeline: [1], memory: 80GB}", topology='"Ring(1)"', batch=4)
    ((candidate, prediction),) = predicted(found)
    assert prediction.bound == prediction.estimate == simulated(candidate)


@pytest.mark.parametrize(
    "parallel",
    ["{schedule: gpipe}", "{recompute: full}", "{schedule: interleaved, virtual: 2}", "{schedule: pipedream}"],
)
def test_bounds_are_tight_where_messages_are_short(tmp_path: Path, parallel: str) -> None:
    """Nothing but passes and the bubble takes time, and blocks cost much more than what stands before and behind them,
    so that any larger bubble in the bound would be seen.
    """
    shape = "{layers: 8, hidden: 4096, heads: 4, vocabulary: 64, positions: 512}"
    axes, topology = "{pipeline: [4], memory: 800GB}", '"Ring(4, rate=10TB/s, latency=1ns)"'
    search(tmp_path, axes, parallel, topology, 8, "training: {update: false}")
    path = tmp_path / "gpt.yaml"
    path.write_text(path.read_text().replace(TINY, shape))
    ((candidate, prediction),) = predicted(file.load_file(path, "gpt.yaml"))
    took = simulated(candidate)
    assert prediction.bound <= took <= 1.02 * prediction.bound
    assert took == pytest.approx(prediction.estimate, rel=0.02)


def test_rates_are_those_of_the_links() -> None:
    """A DGX A100: 12 NVLinks of 25 GB/s for each GPU, and 8 NICs of 25 GB/s."""
    fabric = topologies.parse("dgx-a100(nodes=2)")
    parallel = Parallel(tensor=4, pipeline=2, data=2)
    mesh = Mesh.of(parallel, 16)
    rates = Rates(fabric)
    assert rates.along(mesh, ("tensor",)).rate == 300e9
    assert rates.along(mesh, ("data",)).rate == 300e9
    # Each of 8 pairs of GPUs in different servers has an eighth of 8 NICs.
    assert rates.along(mesh, ("pipeline",)).rate == 25e9
    family = rates.along(mesh, ("tensor",))
    assert family.collective("all-reduce", 300 * 10**6) == pytest.approx(1.5e9 + 2 * family.latency)
    torus = topologies.parse("Ring(4, rate=200GB/s)_Ring(2, rate=25GB/s)")
    on = Mesh.of(Parallel(tensor=4), 8, (4, 2))
    assert isinstance(torus, Topology)
    dims = [2 * dim.links * dim.payload_rate for dim in torus.dims]
    assert [Rates(torus).along(on, (axis,)).rate for axis in ("tensor", "data")] == dims


def test_rates_are_those_of_the_slowest_communicator() -> None:
    """Racks of 12 GPUs with 12 NICs of 50 GB/s: of three tensor groups of 8 the middle one has four GPUs in each; of
    six GPUs, two in one rack.
    """
    rates = Rates(topologies.parse("gb200-nvl72(trays=3, nodes=2)"))
    assert rates.along(Mesh.of(Parallel(tensor=8), 24), ("tensor",)).rate == 4 * 50e9
    assert rates.along(Mesh.of(Parallel(tensor=4), 24), ("tensor",)).rate >= 18 * 50e9
    rates = Rates(topologies.parse("dgx-a100(nodes=3)"))
    assert rates.along(Mesh.of(Parallel(tensor=6), 24), ("tensor",)).rate == 2 * 25e9


def test_kernels_are_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    of = times.of

    def noted(compute: Mapping[str, Any], kernels: Sequence[Kernel]) -> list[times.Taken]:
        asked.extend(kernels)
        return of(compute, kernels)

    monkeypatch.setattr(times, "of", noted)
    candidates = predicted(search(tmp_path, "{pipeline: [1, 2, 4], zero: [0, 1], schedule: [gpipe, 1f1b]}"))
    assert len(candidates) == 2 + 8
    assert len(asked) == len(set(asked)) > 0


def test_estimates_tell_algorithms_apart(tmp_path: Path) -> None:
    """Three algorithms of an all-reduce that two servers wait for: the slowest takes much longer than the fastest."""
    path = tmp_path / "gpt.yaml"
    path.write_text(
        """\
name: gpt
topology: "dgx-a100(nodes=2)"
workload:
  model: gpt
  parameters: {hidden: 2048, layers: 4, heads: 16, vocabulary: 50304}
  global_batch: 64
collective: {algorithm: hierarchical, chunks: 4}
endpoint: ideal
network: flow
npu: {host_kernel_time: 0s, compute: {kind: roofline}}
search: {tensor: [1], pipeline: [1], micro_batch: [4], zero: [0], algorithm: [hierarchical, six-phase, ring]}
"""
    )
    candidates = predicted(file.load_file(path, "gpt.yaml"))
    took = [simulated(candidate) for candidate, _ in candidates]
    estimates = [prediction.estimate for _, prediction in candidates]
    assert max(took) > 1.4 * min(took)
    for (candidate, prediction), time in zip(candidates, took, strict=True):
        assert prediction.bound <= time
        assert prediction.estimate == pytest.approx(time, rel=0.08), candidate.algorithm
    assert sorted(range(3), key=estimates.__getitem__) == sorted(range(3), key=took.__getitem__)


SLOW: dict[str, Any] = {"topology": '"Switch(4, rate=5GB/s, latency=1us)"', "batch": 16}
"""A network on which most of an iteration is the exchange of gradients and weights."""
SMALL = "{layers: 4, hidden: 512, heads: 8, vocabulary: 512, positions: 128}"


def slow(folder: Path, axes: str) -> list[tuple[Candidate, Predicted]]:
    """Candidates of a model whose gradients take several times as long as its passes, in micro-batches of one."""
    search(folder, axes, "{micro_batch: 1}", **SLOW)
    path = folder / "gpt.yaml"
    path.write_text(path.read_text().replace(TINY, SMALL))
    return predicted(file.load_file(path, "gpt.yaml"))


def test_estimates_exchange_gradients_as_often_as_stages_of_zero_do(tmp_path: Path) -> None:
    """Of four micro-batches: once up to ZeRO 1, in each from ZeRO 2 on, with weights as well with ZeRO 3."""
    found = slow(tmp_path, "{tensor: [1], zero: [1, 2, 3], memory: 800GB}")
    took = [simulated(candidate) for candidate, _ in found]
    assert [prediction.estimate for _, prediction in found] == pytest.approx(took, rel=0.02)
    assert took[1] > 2 * took[0]
    assert took[2] > 2 * took[1]


def test_weights_are_waited_for_as_in_the_order_of_passes(tmp_path: Path) -> None:
    """Each layer of a chunk has to be there for the first micro-batch; the others give the next chunk time."""
    axes = "{tensor: [1], pipeline: [2], zero: [1], schedule: [interleaved], virtual: [2], memory: 800GB}"
    ((candidate, _),) = slow(tmp_path, axes)
    setting, predictor = candidate.setting, Predictor(candidate.base)
    for number, stage in enumerate(predictor._of_stages(setting)[0]):
        arrival = 0.0
        there: list[list[float]] = []
        for chunk in stage.ahead:
            there.append([])
            for _, held in chunk:
                arrival += predictor._collective(setting, "data", "all-gather", held.total * setting.element)
                there[-1].append(arrival)
        now = waited = 0.0
        for turn in schedules.turns("interleaved", number, 2, setting.micros, 2):
            if not turn.forward or turn.micro >= 2:
                break
            for (computed, _), arrived in zip(stage.ahead[turn.chunk], there[turn.chunk], strict=True):
                waited += max(0.0, arrived - now)
                now = max(now, arrived) + computed
        assert waited > 0
        assert predictor._brought(stage, setting) == pytest.approx(waited)


def test_what_has_to_reach_an_npu_is_what_it_ends_with_and_did_not_have() -> None:
    """By parts of a vector for four ranks, of which an NPU begins with one (all-gather) or all; sums may be made on the
    way, so that one number for each that it ends with is enough.
    """
    begins = {"all-gather": 1, "all-to-all": 1, "reduce-scatter": 0, "all-reduce": 0}
    ends = {"all-gather": 4, "all-to-all": 4, "reduce-scatter": 1, "all-reduce": 4}
    for kind, parts in ends.items():
        assert predict._arriving(kind, 400, 4) == 100 * (parts - begins[kind])
        assert predict._arriving(kind, 400, 1) == 0


@pytest.mark.parametrize("overlap", ["true", "false"])
def test_estimates_have_weights_beside_the_next_forward_pass(tmp_path: Path, overlap: str) -> None:
    """Of ZeRO 1 and 2; a first iteration that waits for them at its end takes 15 % longer."""
    more = f"training: {{overlap: {overlap}}}"
    search(tmp_path, "{tensor: [1], zero: [1, 2]}", "{micro_batch: 2}", batch=16, more=more)
    path = tmp_path / "gpt.yaml"
    path.write_text(path.read_text().replace(TINY, "{layers: 4, hidden: 1024, heads: 16, vocabulary: 1024}"))
    for candidate, prediction in predicted(file.load_file(path, "gpt.yaml")):
        took = simulated(candidate)
        assert prediction.bound <= took
        assert prediction.estimate == pytest.approx(took, rel=0.02)
