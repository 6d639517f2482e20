"""Training on allocations of a DGX-1: which of them Blink's figures are about, and what a part of a machine does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path

import pytest

from lab import blink_plans as blink
from support.command import Ended
from syncline.base import document
from syncline.experiment import packaged as studies
from syncline.fabric import notation
from syncline.fabric.machines import MACHINES
from syncline.plans.plan import dumps
from syncline.studies.reproduction import blink_theory, blink_training
from syncline.studies.reproduction.runs import Runs
from syncline.studies.sweeps.file import load
from syncline.treegen import pack, question

Command = Callable[..., Ended]


def _gpus(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _alike(machine: str, gpus: tuple[int, ...]) -> tuple[int, ...]:
    """The same for GPUs whose NVLinks are alike: the least table of links over all their orders."""
    links = {frozenset((a, b)): count for a, b, count in MACHINES[machine].pairs}
    places = list(combinations(range(len(gpus)), 2))
    return min(tuple(links.get(frozenset((order[a], order[b])), 0) for a, b in places) for order in permutations(gpus))


def _first_of_each(machine: str) -> list[tuple[int, ...]]:
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for gpus in blink_theory.connected(machine):
        found.setdefault(_alike(machine, gpus), gpus)
    return list(found.values())


def _in_sweep(name: str) -> list[tuple[int, ...]]:
    sweep = load(*studies.find_sweep(name))
    (axis,) = (axis for axis in sweep.axes if axis.paths == (("gpus",),))
    return [_gpus(str(document.plain(position[0]))) for position in axis.positions]


@pytest.mark.parametrize(("sweep", "machine"), [("blink/fig5", "dgx1v"), ("blink/fig5-dgx1p", "dgx1p")])
def test_figure_5_has_every_kind_of_allocation_once(sweep: str, machine: str) -> None:
    assert _in_sweep(sweep) == _first_of_each(machine)


def test_figure_18_has_each_speed_up_of_a_number_of_gpus_once() -> None:
    speedups: dict[tuple[int, Fraction], tuple[int, ...]] = {}
    for gpus in _first_of_each("dgx1v"):
        asked = question.asked(notation.parse("dgx1v").graph(), gpus)
        trees = pack.of(asked, "all-reduce").rate / asked.link_unit
        speedups.setdefault((len(gpus), trees / blink_theory.rings("dgx1v", gpus)), gpus)
    assert len(speedups) == 22
    expected = sorted(speedups.values(), key=lambda gpus: (len(gpus), gpus))
    assert [_gpus(text) for text in blink_training.ALLOCATIONS] == expected
    assert _in_sweep("blink/fig18") == expected


RATE: dict[str, float] = {"0,1,2,3": 4 * 23.5e9, "1,4,5,6": 6e9}
"""What all rings together carry: four ways over NVLinks, and one over QPI."""
CAP, FIRST = 25 * 2**20, 2**20


def _expected(layers: list[dict[str, int]], gpus: int, rate: float) -> float:
    """Exposed seconds of an iteration, worked out apart: gradients in the order of the layers fill buckets, which are
    reduced one after the other, each once back-propagation has come to its first layer.
    """
    buckets: list[list[int]] = [[]]
    for place in range(len(layers)):
        buckets[-1].append(place)
        held = sum(layers[i]["gradient_bytes"] for i in buckets[-1])
        if held >= (FIRST if len(buckets) == 1 else CAP):
            buckets.append([])
    clock, ready = 0, {}
    for place in reversed(range(len(layers))):
        clock += layers[place]["weight_grad_ps"]
        ready[place] = clock
        clock += layers[place]["input_grad_ps"] if place else 0
    free = 0.0
    for bucket in reversed([bucket for bucket in buckets if bucket]):
        size = sum(layers[i]["gradient_bytes"] for i in bucket)
        free = max(free, ready[bucket[0]] / 1e12) + 2 * (gpus - 1) / gpus * size / rate
    return free - clock / 1e12


@pytest.mark.parametrize("model", blink_training.MODELS)
@pytest.mark.parametrize("gpus", RATE)
def test_exposed_communication_is_that_of_buckets_one_after_the_other(model: str, gpus: str) -> None:
    run = blink_training.run(model, gpus, blink_training.NCCL)
    first = Runs().result(replace(run, settings=(*run.settings, "training.iterations=1")))
    expected = _expected(first.tables["layers"].to_pylist(), gpus.count(",") + 1, RATE[gpus])
    exposed = first.summary["exposed_ps"] / 1e12
    assert expected < exposed < 1.01 * expected + 20e-6  # latencies
    # GPUs that are done early with an iteration begin the next one early, which hides some of it.
    summary = Runs().result(run).summary
    assert 0.85 * expected < summary["exposed_ps"] / summary["iterations"] / 1e12 <= exposed


def test_gpus_that_do_not_take_part_change_nothing_and_carry_nothing() -> None:
    runs = Runs()
    part = runs.result(blink_training.run("AlexNet", "0,1,2", "NCCL"))
    whole = runs.result(blink_training.run("AlexNet", "0,1,2,3,4,5,6,7", "NCCL"))
    assert part.summary["compute_ps"] == whole.summary["compute_ps"]
    busy = {(row["node"], row["port"]) for row in part.tables["links"].to_pylist() if row["bytes"] > 0}
    to = {0: {1, 2}, 1: {0, 2}, 2: {0, 1}}
    assert {(node, port.rstrip("0123456789")) for node, port in busy} == {(node, "NVLink to GPU ") for node in to}
    assert {(node, int(port.rpartition(" ")[2])) for node, port in busy} == {(a, b) for a in to for b in to[a]}


@pytest.mark.parametrize(("gpus", "communicates"), [("5", False), ("0,1", True), ("2,5", True)])
def test_one_gpu_and_two(gpus: str, communicates: bool) -> None:
    summary = Runs().result(blink_training.run("ResNet-18", gpus, "NCCL")).summary
    assert (summary["exposed_ps"] > 0) == communicates
    assert summary["total_ps"] == summary["compute_ps"] + summary["exposed_ps"]


def test_horovod_reduces_on_each_server_before_it_sends(tmp_path: Path, syncline_command: Command) -> None:
    """Over rings of NVLinks: a pipeline of 16 parts on both ways around rings of 5, the NIC, and the same back."""
    nvlink, nic, size = 0.94 * 25e9, 5e9, 100_000_000
    path = tmp_path / "horovod.json"
    path.write_text(dumps(blink.horovod("horovod", blink.HOROVOD["horovod-3-5-rings"])))
    assert syncline_command("verify", str(path)).status == 0
    topology, gpus = (text.partition("=")[2].strip('"') for text in blink_training.SERVERS)
    assert gpus == "0-2,8-12"
    where = ["--machine", topology, "--gpus", "0-2,8-10,12,13", "--backend", "flow", "--plan", str(path)]
    ended = syncline_command("collective", "all-reduce", "--size", f"{size}B", *where, "--json")
    assert ended.status == 0, ended.err
    each = blink.HOROVOD_PARTS // 2
    within = size / 2 / nvlink * (each + 3) / each
    assert json.loads(ended.out)["time_s"] == pytest.approx(2 * within + size / nic, rel=0.01)


@pytest.mark.parametrize("name", blink.HOROVOD)
def test_rings_of_horovod_are_those_of_nvlinks(name: str) -> None:
    """Except that of GPUs 0 to 4, which have none, and whose ring goes along the ranks."""
    machine = MACHINES["dgx1v"]
    linked = {frozenset((a, b)) for a, b, _ in machine.pairs}
    second = {"horovod-3-5": (0, 1, 2, 3, 4), "horovod-3-5-rings": (0, 1, 2, 4, 5)}[name]
    gpus = (0, 1, 2, *second)
    for rings in blink.HOROVOD[name]:
        for ring in rings:
            around = [frozenset((gpus[a], gpus[b])) for a, b in zip(ring, (*ring[1:], ring[0]), strict=True)]
            if name == "horovod-3-5" and len(ring) == 5:
                assert ring == (3, 4, 5, 6, 7)
                assert not any(
                    all(frozenset(pair) in linked for pair in zip(order, (*order[1:], order[0]), strict=True))
                    for order in permutations(second)
                )
            else:
                assert all(hop in linked for hop in around)
