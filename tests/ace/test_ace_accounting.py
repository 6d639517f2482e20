"""What the result tables say of an ACE, against closed forms and against each other."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, seed, settings

from support.ace_model import PS, Engine, Ideal, Run
from support.ace_runs import BASELINES, ENGINES, IDEALS, paper, result, runs
from support.experiments import study
from support.registry import ENDPOINTS, FORWARDING, ON_ANY_FABRIC
from syncline.engine import runs as engine
from syncline.engine.runs import Result

SETTINGS = settings(max_examples=40, deadline=None, database=None)
ANY = runs(ENGINES | BASELINES | IDEALS)


def rows(found: Result, table: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = found.tables[table].to_pylist()
    return listed


def resources(found: Result) -> dict[str, dict[str, Any]]:
    return {r["resource"]: r for r in found.summary["endpoint"]["resources"]}


@seed(20)
@SETTINGS
@given(ANY)
def test_bytes_are_those_of_the_closed_forms(run: Run) -> None:
    found = result(run)
    endpoint, network = found.summary["endpoint"], found.summary["network"]
    all_bytes = run.npus * run.padded
    assert endpoint["sent_bytes"] == round(all_bytes * run.sent_per_byte)
    assert endpoint["transit_bytes"] == round(all_bytes * (run.hops_per_byte - run.sent_per_byte))
    assert endpoint["memory_read_bytes"] == round(all_bytes * run.read_per_byte)
    assert endpoint["memory_write_bytes"] == round(all_bytes * run.written_per_byte)
    assert endpoint["loaded_bytes"] == (endpoint["memory_read_bytes"] if isinstance(run.endpoint, Engine) else 0)
    assert network["link_bytes"] == round(all_bytes * run.hops_per_byte)
    assert network["injected_bytes"] == network["delivered_bytes"] == network["link_bytes"]
    assert network["dropped_bytes"] == 0


@seed(21)
@SETTINGS
@given(ANY)
def test_links_carry_what_the_phases_of_their_dimension_send(run: Run) -> None:
    found = result(run)
    carried: Counter[int] = Counter()
    for row in rows(found, "links"):
        carried[row["dim"]] += row["bytes"] * row["copies"]
        rate = run.rings[row["dim"]].rate
        packets = row["bytes"] / run.packet + len(run.chunks) * run.npus * 32
        assert 0 <= row["busy_ps"] - row["bytes"] * PS / rate <= packets, (
            "serialisation is rounded up, packet by packet"
        )
        assert row["busy_ps"] <= found.summary["total_ps"]
    expected = {dim: round(run.npus * run.padded * run.carried(dim)) for dim, _ in run.axes}
    assert carried == expected


@seed(22)
@SETTINGS
@given(ANY)
def test_every_chunk_goes_once_through_every_phase(run: Run) -> None:
    found = result(run)
    (collective,) = rows(found, "collectives")
    count = len(run.chunks)
    assert found.summary["chunks"] == collective["chunks"] == count
    assert found.summary["endpoint"]["breakdown"]["chunks"] == count * run.npus
    assert (collective["issued_ps"], collective["completed_ps"]) == (0, found.summary["total_ps"])
    phases = rows(found, "phases")
    assert [p["dim"] for p in phases] == ([p.dim for p in run.phases] or [0])
    if isinstance(run.endpoint, Engine):
        assert [p["chunks"] for p in phases] == [count] * len(phases)


@seed(23)
@SETTINGS
@given(runs(ENGINES))
def test_an_ace_never_holds_more_than_there_is(run: Run) -> None:
    ace = run.endpoint
    assert isinstance(ace, Engine)
    found = result(run, window="100ns")
    summary = found.summary["endpoint"]
    partitions = summary["partitions"]
    assert sum(p["capacity_bytes"] for p in partitions) <= ace.sram
    assert all(p["peak_bytes"] <= p["capacity_bytes"] for p in partitions)
    assert 1 <= summary["fsm_peak"] <= summary["fsms"] == ace.fsms
    phases = summary["phases"]
    assert [(p["fsms"], p["fsm_peak"]) for p in phases] == [(p["fsms"], p["fsm_peak"]) for p in rows(found, "phases")]
    assert all(1 <= p["fsm_peak"] <= p["fsms"] for p in phases)
    assert max(p["fsm_peak"] for p in phases) <= summary["fsm_peak"] <= sum(p["fsm_peak"] for p in phases)
    if run.kind == "all-reduce":
        even, more = divmod(ace.fsms, len(phases))
        assert [p["fsms"] for p in phases] == [even + 1] * more + [even] * (len(phases) - more)
    else:
        assert [p["fsms"] for p in phases] == [ace.fsms]
    sram = rows(found, "sram")
    assert all(0 <= r["mean_bytes"] <= r["peak_bytes"] + 1e-6 and r["peak_bytes"] <= r["capacity_bytes"] for r in sram)
    for number, partition in enumerate(partitions):
        mine = [r for r in sram if r["partition"] == number]
        assert {r["capacity_bytes"] for r in mine} == {partition["capacity_bytes"]}
        assert max(r["peak_bytes"] for r in mine) <= partition["peak_bytes"]
        # A folded all-reduce has no other NPU, and nothing in transit.
        if found.summary["simulated_npus"] == 1 and run.kind == "all-reduce":
            assert max(r["peak_bytes"] for r in mine) == partition["peak_bytes"]
    held: Counter[int] = Counter()
    for row in sram:
        held[row["window"]] += row["mean_bytes"]
    for window in rows(found, "windows"):
        assert window["sram_bytes"] == pytest.approx(held[window["window"]], abs=1e-3)
        assert window["fsm_busy"] <= summary["fsm_peak"] + 1e-6
        assert window["ace_active"] <= 1
    used = resources(found)
    length = found.summary["total_ps"] * run.npus
    for name in ("memory", "bus_tx", "bus_rx", "sram_read", "sram_write", "alu", "fsm"):
        assert used[name]["busy_ps"] <= length * used[name]["servers"], name


@seed(24)
@SETTINGS
@given(runs(ENGINES, kinds=("all-reduce",)))
def test_partitions_are_those_of_the_heuristic(run: Run) -> None:
    """Section IV-I: bandwidth times the chunk that enters the phase, the terminal one as large as the last."""
    ace = run.endpoint
    assert isinstance(ace, Engine)
    capacities = [p["capacity_bytes"] for p in result(run).summary["endpoint"]["partitions"]]
    whole = max(run.chunks)
    needs = [p.entering * whole for p in run.phases] + [whole]
    wanted = run.partitions(ace)
    if all(w >= n for w, n in zip(wanted, needs, strict=True)):
        assert capacities == pytest.approx(wanted, abs=1)
    else:
        assert all(c >= n for c, n in zip(capacities, needs, strict=True))


@seed(25)
@SETTINGS
@given(runs(ENGINES, bytes_=(1 << 20,), chunks=(65_536,)))
def test_ports_and_alus_work_as_long_as_the_walk_through_says(run: Run) -> None:
    """Section IV-D, Fig. 8c: each step's reads, sums and stores, in whole cycles of 64 B."""
    ace = run.endpoint
    assert isinstance(ace, Engine)
    found = resources(result(run))
    reads, writes, adds = run.accesses()
    for name, accesses in {"sram_read": reads, "sram_write": writes, "alu": adds}.items():
        least = run.npus * run.padded * accesses * PS / ace.pool_rate
        # The last packet of a message may fill no whole cycle, and no whole packet.
        assert least * (1 - 1e-9) <= found[name]["busy_ps"] <= least * 1.15 + found[name]["served"], name
    loaded = run.npus * run.padded * run.read_per_byte * PS
    assert found["memory"]["busy_ps"] == pytest.approx(loaded / ace.memory, rel=1e-3)
    assert found["bus_tx"]["busy_ps"] == pytest.approx(loaded / ace.bus, rel=1e-3)
    assert found["bus_rx"]["busy_ps"] == pytest.approx(loaded / ace.bus, rel=1e-2)


@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 8, 4), (2, 3, 5), (1, 3, 5), (5, 1, 1)])
def test_what_is_sent_per_byte_that_is_loaded(sizes: tuple[int, int, int]) -> None:
    """Section VI-A for any torus: 2 (L-1)/L + (2 (V-1)/V + 2 (H-1)/H) / L, where L is the first ring of two or more."""
    local, *across = [n for n in sizes if n > 1]
    expected = 2 * (local - 1) / local + sum(2 * (n - 1) / n for n in across) / local
    endpoint = result(paper(sizes, Engine(), 3_000_000)).summary["endpoint"]
    assert endpoint["sent_bytes"] / endpoint["loaded_bytes"] == pytest.approx(expected, rel=1e-12)
    assert sizes != (4, 4, 4) or expected == 2.25


def test_a_folded_run_says_what_the_whole_one_says() -> None:
    for kind in ("all-reduce", "all-to-all"):
        run = paper((2, 3, 2), Engine(), 300_000, kind)
        folded, whole = result(run), result(run, fold="off")
        for key in ("endpoint", "network", "total_ps", "chunks"):
            assert folded.summary[key] == whole.summary[key], key


TRAINING = """\
name: training
topology: Ring(2)_Ring(2)_Ring(2)
workload: {{model: {model}, batch: 32}}
training: {{tail: {tail}}}
collective: {{algorithm: ace-4-phase, {kinds}chunk: 64KiB}}
endpoint: {endpoint}
output: {{window: 10us, trace_npus: []}}
"""


def training(model: str, tail: str, endpoint: str, *settings: str) -> Result:
    kinds = "algorithms: {all-to-all: direct}, " if model == "dlrm" else ""
    text = TRAINING.format(model=model, tail=tail, kinds=kinds, endpoint=ENDPOINTS[endpoint])
    return engine.run(study(text, *settings).variants[0])


LEFT = "training.update=false"
"""Nothing is computed after the last back-propagation, so that collectives end a drained run."""
STRAGGLERS = {"alike": (), "a straggler": ("training.stragglers=[{npu: 3, factor: 1.5}]",)}


@pytest.mark.parametrize("settings", STRAGGLERS.values(), ids=STRAGGLERS)
@pytest.mark.parametrize(("tail", "updates"), [("stop", True), ("drain", False), ("drain", True)])
@pytest.mark.parametrize("endpoint", ON_ANY_FABRIC)
@pytest.mark.parametrize("model", ["resnet50", "dlrm"])
def test_an_iteration_is_compute_exposed_communication_and_drain(
    model: str, endpoint: str, tail: str, updates: bool, settings: tuple[str, ...]
) -> None:
    summary = training(model, tail, endpoint, *(() if updates else (LEFT,)), *settings).summary
    assert summary["total_ps"] == summary["compute_ps"] + summary["exposed_ps"] + summary["drain_ps"]
    # Where weights are updated by them, the last gradients are waited for by these updates.
    assert (summary["drain_ps"] > 0) == (tail == "drain" and not updates)
    assert summary["npu"] == (3 if settings else 0), "the numbers are those of the slowest"


@pytest.mark.parametrize("settings", STRAGGLERS.values(), ids=STRAGGLERS)
@pytest.mark.parametrize("endpoint", ON_ANY_FABRIC)
def test_a_drained_iteration_with_tables_in_the_background_adds_up(endpoint: str, settings: tuple[str, ...]) -> None:
    beside = (LEFT, "training.background_embedding=true", "training.background_sms=4")
    summary = training(
        "dlrm", "drain", endpoint, *beside, "training.background_memory_bandwidth=90GB/s", *settings
    ).summary
    parts = ("compute_ps", "exposed_ps", "background_wait_ps", "drain_ps")
    assert summary["total_ps"] == sum(summary[part] for part in parts)
    assert summary["background_compute_ps"] > 0 < summary["drain_ps"]


@pytest.mark.parametrize("endpoint", ON_ANY_FABRIC)
@pytest.mark.parametrize("model", ["resnet50", "dlrm"])
def test_training_is_compute_and_exposed_communication(model: str, endpoint: str) -> None:
    found = training(model, "stop", endpoint)
    summary = found.summary
    assert summary["total_ps"] == summary["compute_ps"] + summary["exposed_ps"]
    for table in ("collectives", "layers"):
        assert sum(row["exposed_ps"] for row in rows(found, table)) == summary["exposed_ps"]
    assert sum(e["exposed_ps"] for e in summary["exposed_by"]) == summary["exposed_ps"]
    assert sum(row["chunks"] for row in rows(found, "collectives")) == summary["chunks"]


@pytest.mark.parametrize("endpoint", ON_ANY_FABRIC)
@pytest.mark.parametrize("model", ["resnet50", "dlrm"])
def test_a_drained_training_run_moves_every_byte(model: str, endpoint: str) -> None:
    found = training(model, "drain", endpoint, LEFT)
    summary, network = found.summary, found.summary["network"]
    collectives = rows(found, "collectives")
    assert all(0 <= c["issued_ps"] <= c["started_ps"] < c["completed_ps"] for c in collectives)
    # Nothing is padded: all sizes are multiples of what divides evenly into blocks.
    reduced = sum(c["bytes"] for c in collectives if c["kind"] == "all-reduce")
    exchanged = sum(c["bytes"] for c in collectives if c["kind"] == "all-to-all")
    sent, crossed = reduced * 2 + exchanged * 7 // 8, reduced * 2 + exchanged * 3 // 2
    assert summary["endpoint"]["sent_bytes"] == 8 * sent
    # Where endpoints forward, every hop is a message of its own.
    injected = crossed if endpoint in FORWARDING else sent
    assert network["link_bytes"] == 8 * crossed
    assert network["injected_bytes"] == network["delivered_bytes"] == 8 * injected
    assert summary["total_ps"] == max(c["completed_ps"] for c in collectives)
    if endpoint == "ace":
        assert summary["endpoint"]["loaded_bytes"] == 8 * (reduced + exchanged * 7 // 8)
        assert summary["endpoint"]["memory_write_bytes"] == summary["endpoint"]["loaded_bytes"]
        assert all(p["peak_bytes"] <= p["capacity_bytes"] for p in summary["endpoint"]["partitions"])
        assert sum(p["capacity_bytes"] for p in summary["endpoint"]["partitions"]) <= 4 << 20
        assert summary["endpoint"]["fsm_peak"] <= 16
        for window in rows(found, "windows"):
            assert window["fsm_busy"] <= 16
        assert all(row["peak_bytes"] <= row["capacity_bytes"] for row in rows(found, "sram"))
        fsms = {p["phase"]: p for p in summary["endpoint"]["phases"]}
        assert all(1 <= p["fsm_peak"] <= p["fsms"] for p in fsms.values())
        if model == "dlrm":
            assert [p["fsms"] for p in fsms.values()] == [4, 4, 4, 4, 16], "all may run the all-to-all"


def test_an_ideal_endpoint_needs_no_memory() -> None:
    endpoint = result(paper((2, 2, 2), Ideal(), 100_000)).summary["endpoint"]
    assert endpoint["memory_read_bytes"] == endpoint["memory_write_bytes"] == 0
