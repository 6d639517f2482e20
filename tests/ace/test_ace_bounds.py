"""Single resources of an ACE, the baseline and the ideal endpoint against closed forms that know no engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, seed, settings

from support.ace_model import Baseline, Engine, Ideal, Ring, Run
from support.ace_runs import BASELINES, ENGINES, GB, IDEALS, LARGE, NS, holds_chunks, paper, runs, time_ps
from support.command import Ended

Command = Callable[..., Ended]

ROUNDING = 1e-6
"""Serialisation is rounded up in the engine and not at all here."""

SETTINGS = settings(max_examples=60, deadline=None, database=None)

NEAR = {"all-reduce": 1.75, "all-to-all": 1.75}
"""How far a large vector may be from the resource that binds it most: resources are not busy at the same time all of
the time, and FSMs are bound to chunks. The median of random runs is below 1.1."""


def nearest(run: Run) -> tuple[str, float]:
    """The resource that binds a run most, and the simulated time over what it takes."""
    bounds = run.bounds()
    resource = max(bounds, key=lambda name: bounds[name])
    return resource, time_ps(run) / bounds[resource]


def holds(run: Run) -> None:
    time, bounds = time_ps(run), run.bounds()
    beaten = {name: bound for name, bound in bounds.items() if time < bound * (1 - ROUNDING)}
    assert not beaten, f"{time} ps beats {beaten}: {run}"


@seed(1)
@SETTINGS
@given(runs(ENGINES))
def test_no_ace_beats_a_resource(run: Run) -> None:
    holds(run)


@seed(2)
@SETTINGS
@given(runs(BASELINES))
def test_no_baseline_beats_a_resource(run: Run) -> None:
    holds(run)


@seed(3)
@SETTINGS
@given(runs(IDEALS))
def test_no_ideal_endpoint_beats_the_links(run: Run) -> None:
    holds(run)


@seed(4)
@SETTINGS
@given(
    runs(ENGINES, kinds=("all-reduce",), sizes=(1, 3, 4, 5, 8), bytes_=(LARGE,), chunks=(16_384, 65_536)).filter(
        lambda run: holds_chunks(run, 4)
    )
)
def test_a_large_all_reduce_of_an_ace_is_near_what_binds_it(run: Run) -> None:
    resource, ratio = nearest(run)
    assert ratio <= NEAR["all-reduce"], f"{ratio} times what {resource} takes: {run}"


@seed(5)
@SETTINGS
@given(
    runs(
        BASELINES.filter(lambda b: b.inflight > 1) | IDEALS,
        kinds=("all-reduce",),
        bytes_=(LARGE,),
        chunks=(16_384, 65_536),
    )
)
def test_a_large_all_reduce_of_whole_messages_is_near_what_binds_it(run: Run) -> None:
    resource, ratio = nearest(run)
    assert ratio <= NEAR["all-reduce"], f"{ratio} times what {resource} takes: {run}"


@seed(6)
@settings(SETTINGS, max_examples=25)
@given(runs(ENGINES, kinds=("all-to-all",), sizes=(1, 3, 5), bytes_=(1 << 20,), chunks=(65_536,)))
def test_a_large_all_to_all_on_odd_rings_is_near_what_binds_it(run: Run) -> None:
    resource, ratio = nearest(run)
    assert ratio <= NEAR["all-to-all"], f"{ratio} times what {resource} takes: {run}"


PLENTY = Engine(memory=4000 * GB, bus=4000 * GB, banks=64, alus=64, fsms=64, sram=64 << 20, port_buffer=64 << 10)


@pytest.mark.parametrize(
    ("kind", "scarce", "resource", "factor"),
    [
        ("all-reduce", {"memory": 16 * GB}, "memory", 1.02),
        ("all-to-all", {"memory": 16 * GB}, "memory", 1.02),
        ("all-reduce", {"bus": 16 * GB}, "bus", 1.02),
        ("all-to-all", {"bus": 16 * GB}, "bus", 1.03),
        ("all-reduce", {"banks": 1}, "SRAM write ports", 1.35),
        ("all-to-all", {"banks": 1}, "SRAM read ports", 1.25),
        ("all-reduce", {"alus": 1}, "ALUs", 1.05),
        ("all-reduce", {"fsms": 4}, "FSMs of phase 2", 1.15),
        ("all-reduce", {}, "links of dimension 0", 1.05),
    ],
)
def test_what_is_scarce_sets_the_pace(kind: str, scarce: dict[str, int], resource: str, factor: float) -> None:
    """A single bank is the farthest from its rate: a packet needs its read port, its write port and an ALU at once."""
    torus = tuple(Ring(n, 50 * GB, 70 * NS) for n in (3, 4, 5))
    size = 8 << 20 if kind == "all-reduce" else 1 << 20
    changes: dict[str, Any] = scarce
    name, ratio = nearest(Run(torus, kind, size, 16 << 10, replace(PLENTY, **changes)))
    assert name == resource
    assert 1 - ROUNDING <= ratio <= factor


@pytest.mark.parametrize(("endpoint", "most"), [(Ideal(inflight=64), 1.05), (Engine(memory=900 * GB), 1.2)])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_an_all_to_all_uses_both_ways_round_an_even_ring(size: int, endpoint: Ideal | Engine, most: float) -> None:
    """Half of what is for the opposite NPU goes each way, so that an all-to-all takes what its links need; an engine
    has one FSM at a time that sends messages of its own through a port, which costs most where rings are short.
    """
    run = Run((Ring(size, 25 * GB, 400 * NS),), "all-to-all", 8 << 20, 64 << 10, endpoint)
    bound = run.bounds()["links of dimension 0"]
    assert time_ps(run) / bound < most


@pytest.mark.parametrize("sizes", [(4, 4, 4), (2, 8), (6, 4), (4, 3)])
def test_an_all_to_all_uses_both_ways_round_a_torus(sizes: tuple[int, ...]) -> None:
    """What is for the opposite NPU of a ring goes up or down by where it lies in the other dimensions, or half each
    way, so that links of both directions carry the same and the slowest dimension takes as long as its links need."""
    run = Run(
        tuple(Ring(n, 25 * GB, 400 * NS) for n in sizes), "all-to-all", 16 << 20, 64 << 10, Engine(memory=900 * GB)
    )
    bound = max(bound for name, bound in run.bounds().items() if name.startswith("links"))
    assert time_ps(run) / bound < 1.1


def test_the_bytes_of_the_paper() -> None:
    """Section VI-A: 2.25 bytes sent per byte cached on 4x4x4, 1.5 read by the baseline per byte sent."""
    ace = paper((4, 4, 4), Engine())
    assert ace.sent_per_byte == 3 / 4 + 2 * 6 / 16 + 3 / 4
    baseline = paper((4, 4, 4), Baseline(450 * GB, 6))
    assert baseline.read_per_byte == 1.5 * baseline.sent_per_byte


def test_sixteen_fsms_spread_evenly_bind_the_largest_system_of_the_paper() -> None:
    """On 4x8x4 each of the four FSMs of the vertical ring is busy with a chunk for 13 hops. They are what binds an
    all-reduce there, so that it is not the links: section IV-I finds 16 FSMs enough as a mean over all sizes."""
    run = paper((4, 8, 4), Engine(), 16 << 20)
    resource, ratio = nearest(run)
    assert resource == "FSMs of phase 1"
    assert ratio < 1.1
    links = max(bound for name, bound in run.bounds().items() if name.startswith("links"))
    assert time_ps(run) > 1.8 * links


def test_fsms_by_need_fill_the_links_of_the_largest_system_of_the_paper(syncline_command: Command) -> None:
    """Divided by how long a chunk keeps them, 16 FSMs do for 4x8x4 what they cannot when each phase has four."""

    def time_s(split: str) -> float:
        ended = syncline_command(
            *("collective", "all-reduce", "--size", "64MB", "--topology", "Torus(4,8,4)", "--backend", "packet"),
            *("--algorithm", "ace-4-phase", "--endpoint", "ace", "--chunk", "64KiB", "--json"),
            *("--set", f"endpoint.fsm_split={split}"),
        )
        assert ended.status == 0, ended.err
        return float(json.loads(ended.out)["time_s"])

    assert time_s("need") < 0.65 * time_s("even")


def test_as_many_fsms_as_phases_are_one_each(syncline_command: Command) -> None:
    def ended(split: str, fsms: int) -> Ended:
        return syncline_command(
            *("collective", "all-reduce", "--size", "4MB", "--topology", "Torus(4,8,4)", "--backend", "packet"),
            *("--algorithm", "ace-4-phase", "--endpoint", "ace", "--chunk", "64KiB", "--json"),
            *("--set", f"endpoint.fsm_split={split}", "--set", f"endpoint.fsms={fsms}"),
        )

    assert json.loads(ended("need", 4).out)["time_s"] == json.loads(ended("even", 4).out)["time_s"]
    (problem,) = json.loads(ended("need", 3).err)["errors"]
    assert (problem["field"], problem["accepted"]) == ("endpoint.fsms", "4 or more")


@pytest.mark.parametrize(("size", "gbps"), [(2, 80), (3, 160), (4, 200)])
def test_own_messages_of_one_fsm_at_a_time_bind_short_rings(size: int, gbps: int) -> None:
    """One FSM reads 64 B per cycle, 80 GB/s, and sends of its own through a port at a time: of `n - 1` messages on a
    link one is an FSM's own, so that a link carries no more than `n - 1` times as much."""
    run = Run((Ring(size, 200 * GB, 72 * NS),), "all-reduce", 8 << 20, 64 << 10, Engine(memory=900 * GB, bus=5000 * GB))
    carried = run.padded * run.carried(0) / 2 / time_ps(run) * 1000
    assert 0.85 * gbps < carried < 1.015 * gbps
