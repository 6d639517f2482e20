"""Collectives on networks of switches: times in closed form, on every backend that stands the size."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from support.command import Ended
from support.experiments import study
from support.registry import FOLDING, WITH_CONTENTION
from syncline.core import facts
from syncline.engine import assumptions, completing
from syncline.fabric.graph import BUFFER

Command = Callable[..., Ended]

GB = 10**9
HOP = 0.5e-6
"""Seconds of a link, by default."""

EXACT = tuple(name for name in WITH_CONTENTION if name in FOLDING)
"""Backends in which messages take the time of their payload, and share links."""


def document(command: Command, *arguments: str) -> dict[str, Any]:
    ended = command("collective", *arguments, "--endpoint", "ideal", "--json")
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def seconds(command: Command, *arguments: str) -> float:
    found: float = document(command, *arguments)["time_s"]
    return found


@pytest.mark.parametrize("backend", FOLDING)
def test_two_peers_share_a_local_link(syncline_command: Command, backend: str) -> None:
    """All but the first and the last NPU of eight send to two peers over one of their seven links, by (a + b) mod 7, so
    that an all-to-all takes twice the time of a switch to which all of them have the same rate in one link.
    """
    direct = ("all-to-all", "--size", "8MB", "--algorithm", "direct", "--backend", backend)
    shared = seconds(syncline_command, *direct, "--topology", "SuperNodes(groups=1, size=8, local_rate=175GB/s)")
    full = seconds(syncline_command, *direct, "--topology", "Switch(8, rate=175GB/s)")
    block = 1e6 / (25 * GB)
    assert full == pytest.approx(block + 2 * HOP, rel=0.01)
    assert shared == pytest.approx(2 * block + 2 * HOP, rel=0.01)


@pytest.mark.parametrize("backend", FOLDING)
@pytest.mark.parametrize(
    ("topology", "gpus", "rate", "hops"),
    [
        ("SuperNodes(groups=2, size=4, local_rate=30GB/s, rate=5GB/s)", "0,3", 10 * GB, 2),
        ("SuperNodes(groups=2, size=4, local_rate=30GB/s, rate=800Gb/s)", "0,3", 10 * GB, 2),
        ("SuperNodes(groups=2, size=4, local_rate=30GB/s, rate=5GB/s)", "1,5", 5 * GB, 2),
        ("FatTree(k=4, rate=5GB/s)", "0,1", 5 * GB, 2),
        ("FatTree(k=4, rate=5GB/s)", "0,3", 5 * GB, 4),
        ("FatTree(k=4, rate=5GB/s)", "0,15", 5 * GB, 6),
        ("LeafSpine(leaves=2, hosts=2, spines=4, rate=8GB/s, uplink_rate=4GB/s)", "0,3", 4 * GB, 4),
    ],
)
def test_one_message(syncline_command: Command, backend: str, topology: str, gpus: str, rate: int, hops: int) -> None:
    """Backends agree where nothing else is in the network: bytes at the rate of the slowest link, and its links."""
    line = ("broadcast", "--size", "10MB", "--topology", topology, "--gpus", gpus, "--algorithm", "direct")
    assert seconds(syncline_command, *line, "--backend", backend) == pytest.approx(1e7 / rate + hops * HOP, rel=5e-4)


@pytest.mark.parametrize("backend", EXACT)
@pytest.mark.parametrize("topology", ["FatTree(k=4, rate=400Gb/s)", "LeafSpine(leaves=4, hosts=4, spines=4)"])
def test_nothing_is_in_the_way_of_an_all_to_all(syncline_command: Command, backend: str, topology: str) -> None:
    """D-mod-k routing spreads it over a network that does not block: it takes the time of the links of NPUs."""
    line = ("all-to-all", "--size", "16MB", "--topology", topology, "--algorithm", "direct", "--backend", backend)
    own = 15 * 1e6 / (50 * GB)
    tolerance = 1e-3 if backend == "flow" else 0.1
    assert own < seconds(syncline_command, *line) <= (own + 6 * HOP) * (1 + tolerance)


def test_links_up_hold_an_oversubscribed_all_to_all_back(syncline_command: Command) -> None:
    """All that the four NPUs of a leaf send elsewhere leaves over links with half of their rate."""
    topology = "LeafSpine(leaves=4, hosts=4, spines=4, rate=50GB/s, oversubscription=2)"
    line = ("all-to-all", "--size", "16MB", "--topology", topology, "--algorithm", "direct", "--backend", "flow")
    up = 4 * 12 * 1e6 / (4 * 50 * GB / 2)
    assert seconds(syncline_command, *line) == pytest.approx(up + 4 * HOP, rel=1e-3)
    tree = ("--topology", "FatTree(k=4, oversubscription=2, rate=50GB/s)")
    line = ("all-to-all", "--size", "32MB", *tree, "--algorithm", "direct", "--backend", "flow")
    edges = 4 * 28 * 1e6 / (4 * 50 * GB / 2)  # of an edge switch with four NPUs and two links up
    assert seconds(syncline_command, *line) == pytest.approx(edges + 6 * HOP, rel=1e-3)


ALIKE = (
    "SuperNodes(groups=16, size=8, local_rate=175GB/s, rate=100Gb/s)",
    "Switch(8, rate=175GB/s)_Switch(16, rate=100Gb/s)",
)
"""Super-nodes, and the product with the same rates, whose local links are not shared."""

ONE_CHUNK = ("--set", "collective.chunks=1")
"""Phases come one after the other, so that their times add up."""


@pytest.mark.parametrize(
    ("collective", "algorithm", "more", "local"),
    [
        ("all-reduce", "hierarchical", (), 2 * 8e6 / (25 * GB)),
        ("all-reduce", "hierarchical-optimal", (), 2 * 8e6 / (25 * GB)),
        ("all-to-all", "hierarchical", (), 8e6 / (25 * GB)),
        ("reduce-scatter", "hierarchical", (), 8e6 / (25 * GB)),
        (
            "all-reduce",
            "hierarchical-optimal",
            ("--set", "collective.per_dimension=[direct, ring]"),
            2 * 8e6 / (25 * GB),
        ),
    ],
)
def test_compositions_see_two_dimensions(
    syncline_command: Command, collective: str, algorithm: str, more: tuple[str, ...], local: float
) -> None:
    """What super-nodes take longer than the product is the second half of what two peers share in local phases: the
    eighth of the vector that goes to each of them.
    """
    line = (collective, "--size", "64MB", "--algorithm", algorithm, "--backend", "flow", *more, *ONE_CHUNK)
    nodes, product = (seconds(syncline_command, *line, "--topology", topology) for topology in ALIKE)
    assert nodes - product == pytest.approx(local, rel=0.01)


def test_the_second_dimension_is_that_of_equal_places(syncline_command: Command) -> None:
    """Along it, NPUs use the links to the global switch only, and in super-nodes those to local switches only."""
    line = ("all-reduce", "--size", "64MB", "--algorithm", "hierarchical-optimal", "--backend", "flow")
    found = document(syncline_command, *line, "--topology", "SuperNodes()")
    sent = found["network"]["link_bytes"]
    local, outer = 2 * 7 * 8e6, 2 * 15 * 0.5e6  # what an NPU sends in all phases; over two links each
    assert sent == pytest.approx(128 * 2 * (local + outer), rel=1e-3)


def test_a_thousand_hosts(syncline_command: Command) -> None:
    line = ("all-reduce", "--size", "64MB", "--topology", "FatTree(k=16, rate=400Gb/s)", "--algorithm")
    ring = document(syncline_command, *line, "ring", "--backend", "flow", "--chunk", "64MB")
    assert ring["time_s"] == pytest.approx(2 * 1023 / 1024 * 64e6 / (50 * GB) + 2046 * 2 * HOP, rel=0.1)


def experiment(topology: str, backend: str = "packet") -> str:
    run = "workload: {collective: all-reduce, size: 1MB}\ncollective: {algorithm: ring}"
    return f"name: x\ntopology: {json.dumps(topology)}\n{run}\nnetwork: {{backend: {backend}}}\n"


@pytest.mark.parametrize("backend", FOLDING)
def test_buffers_without_effect_are_listed(backend: str) -> None:
    (variant,) = study(experiment("SuperNodes(switch_buffer=1GB)", backend)).variants
    (plain,) = study(experiment("SuperNodes()", backend)).variants
    said = f"topology: the buffers of switches have no effect: the backend {backend} does not know them"
    knows = BUFFER in facts.engine().networks[backend].attributes
    assert (said in assumptions.of([variant])) is not knows
    assert said not in assumptions.of([plain])
    assert ("attributes" in completing.specification(variant.experiment)) is knows


def test_buffers_go_to_backends_that_know_them(monkeypatch: pytest.MonkeyPatch) -> None:
    known = facts.engine()
    packet = replace(known.networks["packet"], attributes=[BUFFER])
    monkeypatch.setattr(facts, "engine", lambda: replace(known, networks={**known.networks, "packet": packet}))
    (variant,) = study(experiment("LeafSpine(leaves=2, hosts=2, spines=1, spine_switch_buffer=5kB)")).variants
    told = completing.specification(variant.experiment)["attributes"]
    assert told == [{"node": 6, "name": BUFFER, "value": 2500}]
    assert not [line for line in assumptions.of([variant]) if "no effect" in line]


@pytest.mark.parametrize(
    ("topology", "backend"),
    [
        *((topology, "flow") for topology in ("FatTree(k=4)", "SuperNodes(groups=4, size=4)")),
        *((topology, "packet") for topology in ("FatTree(k=4)", "LeafSpine(leaves=4, hosts=4, spines=2)")),
    ],
)
def test_folded_runs_are_the_same(syncline_command: Command, topology: str, backend: str) -> None:
    line = ("all-to-all", "--size", "1MB", "--topology", topology, "--algorithm", "direct", "--backend", backend)
    folded, whole = (document(syncline_command, *line, "--fold", fold) for fold in ("on", "off"))
    assert folded["fidelity"]["simulated_npus"] < whole["fidelity"]["simulated_npus"] == 16
    assert (folded["time_s"], folded["network"]["link_bytes"]) == (whole["time_s"], whole["network"]["link_bytes"])
