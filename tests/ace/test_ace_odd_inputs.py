"""Fabrics of one or two NPUs, vectors of no byte or one, and what is refused: one message with field, value and what is
accepted, and exit status 2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import get_args

import pytest

from support.ace_model import Baseline, Engine, Ideal, Ring, Run
from support.ace_runs import GB, NS, result
from support.command import Ended
from support.registry import ON_ANY_FABRIC
from syncline.base import quantities
from syncline.sections.algorithms import Algorithm

Command = Callable[..., Ended]

ENDPOINTS = (Engine(), Baseline(128 * GB, 6), Ideal())
ODD_SHAPES = ((1, 1, 1), (2, 1, 1), (1, 2, 1), (4, 1, 1), (1, 1, 7), (2, 2, 2), (7, 5, 1), (3, 1, 11))
ODD_SIZES = (1, 2, 7, 65_535, 65_537, 1_000_003)

ON_TORUS = ("--topology", "Torus(4,4,4)", "--backend", "packet", "--endpoint", "ace", "--json")
REDUCE = ("all-reduce", "--size", "1MiB", *ON_TORUS)  # ace-4-phase, with this endpoint
EXCHANGE = ("all-to-all", "--size", "1MiB", "--algorithm", "direct", *ON_TORUS)


def torus(sizes: tuple[int, int, int]) -> tuple[Ring, ...]:
    return tuple(Ring(n, 25 * GB, 400 * NS) for n in sizes)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("kind", ["all-reduce", "all-to-all"])
@pytest.mark.parametrize("sizes", ODD_SHAPES, ids=str)
def test_odd_tori_and_sizes(sizes: tuple[int, int, int], kind: str, endpoint: Engine | Baseline | Ideal) -> None:
    times: dict[int, list[int]] = {}
    for size in ODD_SIZES:
        run = Run(torus(sizes), kind, size, 64 << 10, endpoint)
        summary = result(run).summary
        times.setdefault(len(run.chunks), []).append(summary["total_ps"])
        if run.npus == 1:
            assert summary["total_ps"] == summary["network"]["link_bytes"] == 0
            continue
        assert summary["total_ps"] >= max(run.bounds().values()) * (1 - 1e-6)
        assert summary["endpoint"]["sent_bytes"] == round(run.npus * run.padded * run.sent_per_byte)
    # A second chunk goes the other way round, so that a byte more may take less time.
    assert all(of_count == sorted(of_count) for of_count in times.values())


@pytest.mark.parametrize("endpoint", ON_ANY_FABRIC)
@pytest.mark.parametrize("kind", ["all-reduce", "all-to-all"])
def test_nothing_takes_no_time(syncline_command: Command, kind: str, endpoint: str) -> None:
    ended = syncline_command("collective", kind, "--size", "0B", *ON_TORUS[:4], "--endpoint", endpoint, "--json")
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    assert found["time_s"] == found["network"]["link_bytes"] == found["endpoint"]["memory_read_bytes"] == 0


@pytest.mark.parametrize(
    ("arguments", "setting", "field", "value", "accepted"),
    [
        (REDUCE, "endpoint.sram=0B", "endpoint.sram", "0B", "a size with a unit"),
        (EXCHANGE, "endpoint.sram=1KiB", "endpoint.sram", "1KiB", "at least 68864B"),
        (REDUCE, "endpoint.fsms=0", "endpoint.fsms", "0", "from 1 to 4096"),
        (REDUCE, "endpoint.fsms=3", "endpoint.fsms", "3", "4 or more"),
        (REDUCE, "endpoint.banks=0", "endpoint.banks", "0", "from 1 to 4096"),
        (REDUCE, "endpoint.alus=0", "endpoint.alus", "0", "from 1 to 4096"),
        (REDUCE, "endpoint.clock=0MHz", "endpoint.clock", "0MHz", "a frequency with a unit"),
        (REDUCE, "endpoint.port_width=0B", "endpoint.port_width", "0B", "a size with a unit"),
        (REDUCE, "endpoint.message=0B", "endpoint.message", "0B", "a size with a unit"),
        (REDUCE, "endpoint.message=1B", "endpoint.message", "1B", "at least 2B"),
        (REDUCE, "endpoint.port_buffer=100B", "endpoint.port_buffer", "100B", "at least 256B"),
        (
            REDUCE,
            "endpoint.comm_memory_bandwidth=0GB/s",
            "endpoint.comm_memory_bandwidth",
            "0GB/s",
            "a rate with a unit",
        ),
        (REDUCE, "endpoint.comm_memory_bandwidth=901GB/s", "endpoint.comm_memory_bandwidth", "901GB/s", "900GB/s"),
        (REDUCE, "npu.bus=0GB/s", "npu.bus", "0GB/s", "a rate with a unit"),
        (REDUCE, "endpoint.inflight=4", "endpoint.inflight", "4", "the keys"),
        (REDUCE, "network.buffer=512B", "network.buffer", "512B", "at least 131584B"),
        (REDUCE, "endpoint.sram=64KiB", "endpoint.sram", "64KiB", "at least 176KiB"),
        (REDUCE, "endpoint.sram=128KiB", "endpoint.sram", "128KiB", "at least 176KiB"),
        (
            REDUCE,
            "collective.algorithm=halving-doubling",
            "collective.algorithm",
            "halving-doubling",
            "ring, ring-unidirectional, hierarchical",
        ),
        (REDUCE, "collective.chunk=1B", "collective.chunk", "1B", "at least 2B"),
    ],
)
def test_a_refusal_is_one_message(
    syncline_command: Command, arguments: tuple[str, ...], setting: str, field: str, value: str, accepted: str
) -> None:
    ended = syncline_command("collective", *arguments, "--set", setting)
    assert (ended.status, ended.out) == (2, "")
    (problem,) = json.loads(ended.err)["errors"]
    assert (problem["field"], problem["value"]) == (field, value)
    assert accepted in problem["accepted"]
    assert problem["message"]


def test_a_slow_last_ring_stalls_nothing() -> None:
    slow_last = (Ring(7, 200 * GB, 72 * NS), Ring(6, 25 * GB, 400 * NS), Ring(2, GB, 400 * NS))
    result(Run(slow_last, "all-to-all", 2 << 20, 64 << 10, Engine()))


@pytest.mark.parametrize(("setting", "value"), [("network.buffer", "512B"), ("endpoint.sram", "64KiB")])
def test_what_a_refusal_says_is_enough_is_enough_and_no_less(
    syncline_command: Command, setting: str, value: str
) -> None:
    ended = syncline_command("collective", *REDUCE, "--set", f"{setting}={value}")
    (problem,) = json.loads(ended.err)["errors"]
    least = re.search(r"at least (\S+?)(,|;|$)", problem["accepted"])
    assert least is not None, problem
    assert syncline_command("collective", *REDUCE, "--set", f"{setting}={least[1]}").status == 0
    less = quantities.size(least[1]) - 256
    assert syncline_command("collective", *REDUCE, "--set", f"{setting}={less}B").status == 2


def test_algorithms_that_a_refusal_names_fit_and_others_do_not(syncline_command: Command) -> None:
    def ends(name: str) -> int:
        return syncline_command("collective", *REDUCE, "--set", f"collective.algorithm={name}").status

    ended = syncline_command("collective", *REDUCE, "--set", "collective.algorithm=double-binary-tree")
    named = json.loads(ended.err)["errors"][0]["accepted"].split(", ")
    known = [name for name in get_args(Algorithm) if name != "auto"]
    assert [name for name in known if ends(name) == 0] == named


@pytest.mark.parametrize(("arguments", "least"), [(REDUCE, "180224B"), (EXCHANGE, "68864B")])
def test_the_least_sram_works(syncline_command: Command, arguments: tuple[str, ...], least: str) -> None:
    ended = syncline_command("collective", *arguments, "--set", f"endpoint.sram={least}")
    assert ended.status == 0, ended.err


@pytest.mark.parametrize("arguments", [("all-reduce", "--algorithm", "ring"), ("all-to-all", "--algorithm", "direct")])
def test_one_fsm_runs_collectives_of_one_phase(syncline_command: Command, arguments: tuple[str, ...]) -> None:
    rest = ("--size", "100kB", "--topology", "Ring(5)", *ON_TORUS[2:], "--set", "endpoint.fsms=1")
    ended = syncline_command("collective", *arguments, *rest)
    assert ended.status == 0, ended.err
    assert json.loads(ended.out)["endpoint"]["fsm_peak"] == 1


def test_rings_of_gpus_without_the_first_are_refused_like_others(syncline_command: Command) -> None:
    for gpus in ("0,1", "6,7"):
        arguments = ("gather", "--size", "1MB", "--machine", "dgx1p", "--gpus", gpus, "--algorithm", "ring")
        ended = syncline_command("collective", *arguments, "--endpoint", "ace", "--backend", "packet")
        assert ended.status == 2, ended.err
        assert "an ACE carries out" in ended.err
