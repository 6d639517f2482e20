"""The ledger of claims and the searches behind it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import fake_core
from support.command import Ended
from syncline.engine import completing
from syncline.experiment import packaged as studies
from syncline.studies.reproduction import ace, ace1, blink, hoti, ledger, sources, training, tutorial
from syncline.studies.reproduction.runs import Run, Runs, least
from syncline.studies.sweeps import points
from syncline.studies.sweeps.file import load

Command = Callable[..., Ended]

ORDERED = [*tutorial.RUNS["tutorial-torus-dimension"], *tutorial.RUNS["tutorial-asymmetric"]]


def test_every_claim_has_a_metric_and_a_legal_range() -> None:
    claims = ledger.claims()
    by_source = {
        "ace": set(ace.METRICS) | set(training.METRICS),
        "ace1": set(ace1.METRICS),
        "tutorial": set(tutorial.METRICS),
        "hoti": set(hoti.METRICS),
        "blink": set(blink.METRICS),
    }
    assert by_source == {name: {claim.id for claim in claims if claim.source == name} for name in sources.SOURCES}
    assert {claim.source for claim in claims} == set(sources.SOURCES)
    for claim in claims:
        published = claim.published if isinstance(claim.published, list) else [claim.published]
        ranges = claim.accept if isinstance(claim.published, list) else [claim.accept]
        assert len(published) == len(ranges)
        assert all(low <= value <= high for value, (low, high) in zip(published, ranges, strict=True))
        assert claim.holds(claim.published)


def test_a_claim_with_several_values_holds_if_all_do() -> None:
    claim = next(c for c in ledger.claims() if c.id == "ace-resnet50-speedup")
    assert claim.holds([2.5, 2.5])
    assert not claim.holds([2.5, 3.5])
    assert not claim.holds([2.5])


@given(low=st.integers(-50, 50), length=st.integers(0, 100), goal=st.integers(-60, 170))
def test_the_search_finds_the_least_value(low: int, length: int, goal: int) -> None:
    high = low + length
    expected = None if goal > high else max(low, goal)
    assert least(low, high, lambda value: value >= goal) == expected


def test_each_simulation_is_run_once(
    syncline_command: Command, fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: list[str] = []
    lock = threading.Lock()

    def count(spec: str, monitor: object = None) -> dict[str, object]:
        with lock:
            specs.append(spec)
        return fake_core.run(spec)

    monkeypatch.setattr(fake_engine, "run", count)
    ended = syncline_command("reproduce", "ace", "--json")
    assert (ended.status, ended.err) == (0, "")
    assert len(specs) == len(set(specs))
    claims = json.loads(ended.out)["claims"]
    assert [c["id"] for c in claims] == [c.id for c in ledger.claims() if c.source == "ace"]
    for claim in claims:
        assert {"id", "published", "simulated", "accept", "inside", "note"} <= set(claim)


def test_what_is_kept_is_not_simulated_again(
    syncline_command: Command, fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulated: list[str] = []

    def count(spec: str, monitor: object = None) -> dict[str, object]:
        simulated.append(spec)
        return fake_core.run(spec)

    monkeypatch.setattr(fake_engine, "run", count)
    claim, folder = "ace-resnet50-speedup", tmp_path / "made" / "kept"

    def reproduce() -> tuple[int, dict[str, object]]:
        simulated.clear()
        ended = syncline_command("reproduce", claim, "--json", "--keep", str(folder))
        assert (ended.status, ended.err) == (0, "")
        document = json.loads(ended.out)
        del document["cost"]
        return len(simulated), document

    count_at_first, at_first = reproduce()
    assert count_at_first > 1
    assert reproduce() == (0, at_first)
    # A killed process leaves what it was writing, and a summary may be damaged.
    (folder / ".incomplete-x").mkdir()
    next(folder.glob("*/summary.json")).write_text("{")
    assert reproduce() == (1, at_first)
    assert not (folder / ".incomplete-x").exists()
    # Another engine may come to other results.
    monkeypatch.setattr(fake_engine, "sources", lambda: 12345)
    assert reproduce() == (count_at_first, at_first)


def test_a_folder_that_cannot_be_is_one_error(syncline_command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = syncline_command("reproduce", "ace-analytic-memory", "--keep", str(tmp_path / "file"))
    assert (ended.status, ended.out) == (2, "")
    assert "command line: --keep: this folder cannot be written to" in ended.err


@pytest.mark.usefixtures("fake_engine")
def test_the_closed_form_needs_no_simulation(syncline_command: Command) -> None:
    ended = syncline_command("reproduce", "ace-analytic-memory", "--json")
    document = json.loads(ended.out)
    assert document["claims"][0]["simulated"] == [450.0, pytest.approx(400 / 3)]
    assert document["claims"][0]["inside"]
    assert document["cost"]["events"] == 0


@pytest.mark.usefixtures("fake_engine")
def test_claims_outside_their_range_are_no_failure(syncline_command: Command) -> None:
    ended = syncline_command("reproduce", "ace-resnet50-iteration-time")
    assert ended.status == 0
    assert "OUTSIDE" in ended.out
    assert "0 of 1 claims inside their range" in ended.out


def test_a_goal_that_is_never_reached_is_a_claim_outside_its_range(
    syncline_command: Command, fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(spec: str, monitor: object = None) -> dict[str, object]:
        described = json.loads(spec)
        if described["endpoint"]["kind"] == "ace":
            described["endpoint"]["memory_bytes_per_s"] //= 100
        return fake_core.run(json.dumps(described))

    monkeypatch.setattr(fake_engine, "run", slow)
    ended = syncline_command("reproduce", "ace-fig5-ace-memory-bandwidth", "--json")
    claim = json.loads(ended.out)["claims"][0]
    assert ended.status == 0
    assert (claim["simulated"], claim["inside"]) == (None, False)
    assert "ACE with endpoint.comm_memory_bandwidth=900GB/s reaches" in claim["note"]
    assert "-" in syncline_command("reproduce", "ace-fig5-ace-memory-bandwidth").out


class TestTutorial:
    """On the real engine, which needs no time for these."""

    def test_all_claims_hold(self, syncline_command: Command) -> None:
        ended = syncline_command("reproduce", "tutorial", "--json")
        document = json.loads(ended.out)
        assert (ended.status, ended.err) == (0, "")
        assert all(claim["inside"] for claim in document["claims"])
        assert document["claims"][0]["simulated"] == [12, 6, 3, 1, 3, 6]
        assert "the halves send 22 MB per NPU, the all-reduce 22 MB" in document["claims"][0]["note"]
        assert any(line.startswith("collective.algorithm") or "topology" in line for line in document["assumptions"])

    def test_claims_of_several_sources_together(self, syncline_command: Command) -> None:
        ended = syncline_command("reproduce", "tutorial-torus-volume", "ace-analytic-memory")
        assert ended.status == 0
        assert "2 of 2 claims inside their range" in ended.out

    def test_an_order_that_does_not_hold_is_zero(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tutorial, "GROWING", tutorial.GROWING[::-1])
        claim = next(c for c in ledger.claims() if c.id == "tutorial-torus-dimension")
        finding = tutorial.Tutorial(Runs()).finding(claim)
        assert (finding.simulated, finding.inside) == (0, False)

    def test_packets_take_as_long(self) -> None:
        found = tutorial.Tutorial(Runs())
        for run in ORDERED:
            packets = Run(run.study, run.variant, (*run.settings, "network.backend=packet"))
            assert found.seconds(packets) == pytest.approx(found.seconds(run), rel=0.02)
            assert found.sent_per_byte(packets) == found.sent_per_byte(run)

    def test_flows_keep_the_order(self) -> None:
        """Chunks share a link that they use in turn otherwise, so that all of them finish late: by up to half."""
        found = tutorial.Tutorial(Runs())
        times = {}
        for run in ORDERED:
            flows = Run(run.study, run.variant, (*run.settings, "network.backend=flow"))
            times[run] = found.seconds(flows)
            assert 0.99 < times[run] / found.seconds(run) < 1.5
        asymmetric = [run for run in ORDERED if run.study == tutorial.ASYMMETRIC]
        for size in (tutorial.SMALL, tutorial.LARGE):
            of_size = [times[run] for run in asymmetric if run.settings == (f"workload.size={size}",)]
            assert len(of_size) == 3
            assert of_size == sorted(of_size, reverse=True)


def test_the_inter_package_links_are_all_used() -> None:
    """Where there is one row or column of packages, the other dimension has two rings; switches have four links."""
    machines = ace1.Ace1(Runs())
    for shape in ace1.TORI:
        local, rows, columns = machines.topology(shape).dims
        assert (local.size, rows.size, columns.size) == shape
        assert (local.links_per_npu, rows.links_per_npu + columns.links_per_npu) == (2, 4)
    for joined in ace1.ALLTOALL:
        local, switches = machines.topology(joined).dims
        assert (local.size, switches.size) == joined
        assert (switches.block, switches.links_per_npu, switches.rate) == ("switch", 4, 25 * 10**9)


@pytest.mark.parametrize("model", sorted(ace1.TRAINED))
def test_a_larger_baseline_computes_like_an_ace_and_communicates_like_the_baseline(model: str) -> None:
    runs = Runs()
    machine = ace1.Ace1(runs).topology((4, 2, 1))
    settings = (f"topology={machine}", "training.iterations=1")
    found = {s: runs.result(Run(ace1.TRAINED[model], s, settings)).summary for s in ace1.TRAINERS}
    assert {s: r["unfolded"] for s, r in found.items()} == dict.fromkeys(ace1.TRAINERS)
    # Rates round to whole bytes per second.
    assert found["Baseline++"]["compute_ps"] == pytest.approx(found["ACE"]["compute_ps"], rel=1e-9)
    assert found["Ideal"]["compute_ps"] <= found["ACE"]["compute_ps"] < found["Baseline"]["compute_ps"]
    variants = [runs.variant(Run(ace1.TRAINED[model], s, settings)).experiment for s in ("Baseline", "Baseline++")]
    endpoints = [completing.specification(experiment, None)["endpoint"] for experiment in variants]
    assert endpoints[0] == endpoints[1]


def test_sweeps_run_the_machines_of_the_claims() -> None:
    machines = ace1.Ace1(Runs())
    for name, shapes in (("tori", ace1.TORI), ("training", ace1.TORI), ("packages", ace1.ALLTOALL)):
        simulations, warnings = points.simulations(load(*studies.find_sweep(f"ace1/{name}")))
        assert not warnings
        found = {str(s.variant.experiment.topology) for s in simulations}
        assert found == {str(machines.topology(shape)) for shape in shapes}


@given(cores=st.integers(1, 64), size=st.floats(1e3, 1e9))
def test_the_closed_form_of_steps(cores: int, size: float) -> None:
    """Sixteen NPUs on four links: 12 steps, 15/16 of the vector sent twice, and read three times."""
    model = ace1.AS_GIVEN
    expected = 12 * 2e-6 + 3 * 15 / 16 * size / (cores * 64e9) + 2 * 15 / 16 * size / 95e9
    assert model.spent(size, (4, 4), cores).total == pytest.approx(expected)
    assert model.utilisation(size, (4, 4), cores) == pytest.approx(15 / 8 * size / expected / 100e9)
    assert model.utilisation(size, (4, 4), cores) < 0.95
    assert ace1.CONTENDED.utilisation(size, (4, 4), cores) < model.utilisation(size, (4, 4), cores)
