"""Experiments whose limit is known by construction, and reruns as the judge of what is named."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import pytest

from syncline import explain
from syncline.commands.api.explanations import Explanation, SystemExplanation
from syncline.studies.reasons import changes, limits

ALL_REDUCE: Final = {"collective": "all-reduce", "size": "1MiB"}
RING: Final = {"algorithm": "ring"}


def _ace(**fields: Any) -> dict[str, Any]:
    return {"kind": "ace", "comm_memory_bandwidth": "500GB/s", "sram": "32MiB", "fsms": 64, **fields}


def _baseline(memory: str, sms: int) -> dict[str, Any]:
    return {"kind": "baseline", "comm_memory_bandwidth": memory, "comm_sms": sms}


CONSTRUCTED: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    # A chunk of 4 KiB needs 14 steps of 500 ns; its bytes take 0.3 us.
    "a tiny collective": (
        changes.LATENCY,
        {"topology": "Ring(8)", "workload": {"collective": "all-reduce", "size": "4KiB"}, "collective": RING},
    ),
    # One dimension has a fortieth of the rate of the other.
    "a slow dimension": (
        changes.link("dim 1"),
        {
            "topology": "Ring(4, rate=200GB/s)_Ring(4, rate=5GB/s)",
            "workload": {"collective": "all-reduce", "size": "4MiB"},
            "collective": {"algorithm": "hierarchical-optimal", "chunk": "256KiB"},
        },
    ),
    # 20 us at 200 GB/s hold 4 MB; two chunks of 64 KiB are in flight.
    "a window below the bandwidth-delay product": (
        changes.IN_FLIGHT,
        {
            "topology": "Ring(4, rate=100GB/s, latency=20us)",
            "workload": ALL_REDUCE,
            "collective": {"algorithm": "ring", "inflight": 2, "chunk": "64KiB"},
        },
    ),
    # 30 GB/s of memory are read 1.5 times for each byte of 200 GB/s of links.
    "slow memory of a baseline": (
        changes.MEMORY,
        {
            "topology": "Ring(4, rate=100GB/s)",
            "workload": ALL_REDUCE,
            "endpoint": _baseline("30GB/s", 20),
            "collective": RING,
        },
    ),
    # One SM reads 80 GB/s.
    "one SM": (
        changes.SMS,
        {
            "topology": "Ring(4, rate=200GB/s)",
            "workload": ALL_REDUCE,
            "endpoint": _baseline("800GB/s", 1),
            "collective": RING,
        },
    ),
    "a slow bus": (
        changes.BUS,
        {
            "topology": "Ring(4, rate=200GB/s)",
            "workload": ALL_REDUCE,
            "npu": {"bus": "20GB/s"},
            "endpoint": _baseline("800GB/s", 40),
            "collective": RING,
        },
    ),
    # Half of the SRAM is the first partition, which holds four chunks; a chunk takes 12 us.
    "little SRAM": (
        changes.SRAM,
        {
            "topology": "Ring(4, rate=100GB/s, latency=2us)",
            "workload": {"collective": "all-reduce", "size": "4MiB"},
            "endpoint": _ace(sram="512KiB"),
            "collective": RING,
        },
    ),
    "one FSM": (
        changes.FSMS,
        {
            "topology": "Ring(4, rate=100GB/s, latency=2us)",
            "workload": ALL_REDUCE,
            "endpoint": _ace(fsms=1),
            "collective": RING,
        },
    ),
    "slow memory of an engine": (
        changes.MEMORY,
        {
            "topology": "Ring(4, rate=100GB/s)",
            "workload": {"collective": "all-reduce", "size": "4MiB"},
            "endpoint": _ace(comm_memory_bandwidth="20GB/s"),
            "collective": RING,
        },
    ),
    "training with next to nothing to send": (
        changes.COMPUTE,
        {
            "topology": "Ring(4, rate=100GB/s)",
            "workload": {"model": "resnet18", "batch": 64},
            "training": {"iterations": 1, "tail": "drain"},
            "collective": {"algorithm": "ring", "chunk": "4MiB"},
        },
    ),
    # Eight senders share a buffer of 16 KiB.
    "time-outs": (
        changes.TIMEOUTS,
        {
            "topology": "Switch(9, rate=100Gb/s, latency=500ns)",
            "workload": {"collective": "gather", "size": "9MiB"},
            "collective": {"algorithm": "direct", "chunks": 1},
            "network": {"backend": "ethernet", "buffer": "16KiB"},
            "fold": "off",
        },
    ),
    # A frame in a hundred is lost; the last ones of a connection are missed by a timer only.
    "time-outs of losses": (
        changes.TIMEOUTS,
        {
            "topology": "Switch(4, rate=100Gb/s, latency=500ns)",
            "workload": {"collective": "all-to-all", "size": "64KiB"},
            "collective": {"algorithm": "direct", "chunks": 1},
            "network": {"backend": "ethernet", "faults": [{"link": ["npu 0", "switch 0"], "loss": "20%"}]},
            "fold": "off",
        },
    ),
}


@pytest.fixture(autouse=True, scope="module")
def without_alternatives() -> Iterator[None]:
    """Other algorithms, endpoints and chunks name no limit, and take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "_alternatives", lambda *_: iter(()))
        yield


@cache
def explained(case: str) -> Explanation:
    """What comes of explaining an experiment with reruns."""
    return explain(CONSTRUCTED[case][1])


def is_best(system: SystemExplanation, document: Mapping[str, Any]) -> bool:
    """Whether relieving what is named gains as much as any relief of one thing, or about as much; several things
    together are named only where no single one gains most of what they do.
    """
    reliefs = [w for w in document["what_if"] if w["what"] == "relief" and w["gain"] is not None and w["relieves"]]
    best = max(w["gain"] for w in reliefs)
    single = max(w["gain"] for w in reliefs if w["relieves"] not in changes.COMBINED)
    if system.limit == limits.NOTHING:
        return bool(best < limits.NOTICED)
    named = max((w["gain"] for w in reliefs if w["relieves"] == system.limit), default=-1.0)
    if system.limit in changes.COMBINED:
        return bool(single < 0.8 * best and named >= best - max(limits.ALIKE * best, limits.NOTICED / 2))
    return bool(single >= 0.8 * best and named >= single - max(limits.ALIKE * single, limits.NOTICED / 2))


@pytest.mark.parametrize("case", CONSTRUCTED)
def test_names_the_limit_that_was_built_in(case: str) -> None:
    expected, experiment = CONSTRUCTED[case]
    explanation = explained(case)
    (system,) = explanation.systems.values()
    assert system.limit == expected, system.because
    assert system.limit_by == "reruns"
    assert is_best(system, explanation.document["systems"][0])
    assert explanation.document["systems"][0]["limit"]["by_accounting"] == expected
    (alone,) = explain(experiment, what_if=False).systems.values()
    assert (alone.limit, alone.limit_by, alone.what_if) == (expected, "accounting", None)


@pytest.mark.parametrize("case", ["slow memory of a baseline", "time-outs", "training with next to nothing to send"])
def test_a_run_that_does_not_react_to_its_network_says_so(case: str) -> None:
    expected, _ = CONSTRUCTED[case]
    (system,) = explained(case).systems.values()
    assert system.network_is_idle is not None
    assert "does not react to the network" in system.network_is_idle
    assert system.network_is_idle.endswith(f"what limits it is {expected}")
    assert system.what_if is not None
    doubled = [w for w in system.what_if if "link rate" in w.change]
    assert doubled
    assert all(abs(w.gain or 0.0) < limits.NOTICED for w in doubled)


def test_links_inside_of_machines_are_not_said_to_be_without_effect() -> None:
    """Tensor parallelism within servers keeps NVLinks busy, and only the NICs can be changed."""
    experiment = {
        "topology": "dgx-a100(nodes=2)",
        "npu": {"compute": {"kind": "roofline"}},
        "workload": {
            "model": "gpt",
            "parameters": {"layers": 2, "hidden": 512, "heads": 8, "vocabulary": 1024},
            "sequence": 512,
            "global_batch": 256,
        },
        "parallel": {"tensor": 8, "micro_batch": 8},
        "collective": {"chunks": 2, "algorithm": "hierarchical"},
        "network": "flow",
        "endpoint": "ideal",
        "training": {"iterations": 1},
    }
    (system,) = explain(experiment).systems.values()
    assert system.critical_path[0].name.startswith("all-reduce: tensor")
    assert system.network_is_idle is not None
    assert "does not react to the network between machines" in system.network_is_idle


def test_a_run_that_reacts_to_its_network_does_not_say_so() -> None:
    (system,) = explained("a slow dimension").systems.values()
    assert system.network_is_idle is None


def drawn(seed: int) -> dict[str, Any]:
    """An experiment of any kind."""
    draw = random.Random(seed)
    dims = draw.choice([1, 2])
    blocks = [
        f"Ring({draw.choice([2, 4])}, rate={draw.choice([5, 25, 100])}GB/s, "
        f"latency={draw.choice(['50ns', '500ns', '5us'])})"
        for _ in range(dims)
    ]
    endpoint = draw.choice(
        [
            {"kind": "ideal"},
            _baseline(f"{draw.choice([30, 128, 450])}GB/s", draw.choice([1, 2, 6])),
            _ace(comm_memory_bandwidth="64GB/s", sram=draw.choice(["1MiB", "4MiB"]), fsms=draw.choice([4, 16])),
        ]
    )
    collective = {"algorithm": "hierarchical-optimal" if dims > 1 else "ring", "chunk": "128KiB"}
    window = {} if endpoint["kind"] == "ace" else {"inflight": draw.choice([2, 16])}
    workload = draw.choice([{"collective": "all-reduce", "size": draw.choice(["64KiB", "1MiB"])}] * 3 + [TRAINED])
    return {
        "topology": "_".join(blocks),
        "workload": workload,
        "endpoint": endpoint,
        "collective": collective | window,
        **({"training": {"iterations": 1, "tail": "drain"}} if workload is TRAINED else {}),
    }


TRAINED: Final = {"model": "resnet18", "batch": 4}
SAMPLE: Final = 12


def test_what_is_named_is_what_helps_most() -> None:
    agreed = 0
    for seed in range(SAMPLE):
        explanation = explain(drawn(seed))
        (system,) = explanation.systems.values()
        (entry,) = explanation.document["systems"]
        assert is_best(system, entry), (seed, system.because)
        agreed += entry["limit"]["by_accounting"] in (system.limit, limits.NOTHING)
    # Accounting is right more often than not, and what it says alone is said to be that.
    assert agreed >= SAMPLE * 2 // 3
