"""The endpoint `nccl`: runs take what the software model says, alone; beside others, what links leave."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syncline
from support.command import Ended
from syncline.engine import pricing
from syncline.nccl import wire
from syncline.nccl.platform import NAMES

MIB = 2**20
KINDS = tuple(kind for kind in wire.KINDS if kind != "sendrecv")
CLUSTERS = (
    *("dgx-a100(nodes=2)", "dgx-a100(nodes=4, nics=single)", "dgx-h100(nodes=2)", "dgx-h100(nodes=16)"),
    *("dgx-b200(nodes=4)", "dgx2(nodes=2)", "dgx1v(nodes=2)", "dgx-h100(nodes=3, nic_rate=200Gb/s)"),
)
AGREE = 0.05
"""The 5 % within which a run has the time of `bench`."""


def simulated(machine: str, kind: str, size: int, **more: object) -> float:
    """Seconds of a collective with the endpoint."""
    endpoint = {"kind": "nccl", **({"algorithm": more.pop("nccl")} if "nccl" in more else {})}
    experiment = {
        **{"name": "one", "topology": machine, "network": more.pop("network", "flow"), "endpoint": endpoint},
        **{"workload": {"collective": kind, "size": f"{size}B"}, **more},
    }
    run = syncline.run(experiment)
    return run.systems["one"].total_time_s


def predicted(machine: str, kind: str, size: int, gpus: str | None = None, algorithm: str = "auto") -> float:
    """Seconds that `bench` says."""
    found = syncline.bench(kind, machine=machine, sizes=f"{size}B", gpus=gpus, algorithm=algorithm)
    return float(found.document["rows"][0]["time_s"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", [*NAMES, *CLUSTERS])
def test_a_run_takes_what_bench_says(machine: str, kind: str) -> None:
    for size in (MIB, 24_000_000, 1024 * MIB):
        expected = predicted(machine, kind, size)
        assert simulated(machine, kind, size) == pytest.approx(expected, rel=AGREE), size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", [*NAMES, *CLUSTERS])
def test_so_it_does_where_links_are_not_shared(machine: str, kind: str) -> None:
    expected = predicted(machine, kind, 24_000_000)
    assert simulated(machine, kind, 24_000_000, network="analytical") == pytest.approx(expected, rel=AGREE)


@pytest.mark.parametrize("machine", ["dgx-a100(nodes=3)", "dgx-h100(nodes=2)", "dgx-h100(nodes=3)"])
def test_exchanges_between_servers_do_not_wait_for_each_other(machine: str) -> None:
    for size in (MIB, 64 * MIB):
        expected = predicted(machine, "all-to-all", size)
        assert simulated(machine, "all-to-all", size) == pytest.approx(expected, rel=AGREE), size


@pytest.mark.parametrize("backend", ["analytical", "flow"])
@pytest.mark.parametrize(
    ("machine", "gpus", "kind", "algorithm"),
    [
        ("dgx1p(nodes=4)", None, "all-reduce", "ring"),
        ("dgx1v", None, "reduce-scatter", "direct"),
        ("dgx2", None, "reduce", "direct"),
        ("dgx-a100", "0-3,5-7", "all-reduce", "halving-doubling"),
        ("dgx-h100(nodes=3)", None, "all-gather", "halving-doubling"),
        ("dgx-h100(nodes=3, nics=single)", "0-3,8-11,16-19", "all-reduce", "double-binary-tree"),
    ],
)
def test_whatever_algorithm_is_simulated(
    backend: str, machine: str, gpus: str | None, kind: str, algorithm: str
) -> None:
    more: dict[str, object] = {} if gpus is None else {"gpus": gpus}
    found = simulated(machine, kind, 32 * MIB, network=backend, collective={"algorithm": algorithm}, **more)
    assert found == pytest.approx(predicted(machine, kind, 32 * MIB, gpus), rel=AGREE)


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "all-to-all"])
@pytest.mark.parametrize("machine", ["dgx1v", "dgx1p(nodes=4)", "dgx-a100(nodes=2)", "dgx-h100(nodes=3, nics=single)"])
def test_packets_take_about_as_long_as_flows(machine: str, kind: str) -> None:
    # The packets of a direct exchange queue behind each other at PCIe, which pairs without an NVLink share.
    agree = 0.25 if (machine, kind) == ("dgx1p(nodes=4)", "all-to-all") else AGREE
    for size in (MIB, 8 * MIB):
        expected = predicted(machine, kind, size)
        assert simulated(machine, kind, size, network="packet") == pytest.approx(expected, rel=agree), size


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_the_algorithm_of_nccl(algorithm: str) -> None:
    machine = "dgx-a100(nodes=8)"
    expected = predicted(machine, "all-reduce", 4 * MIB, algorithm=algorithm)
    assert simulated(machine, "all-reduce", 4 * MIB, nccl=algorithm) == pytest.approx(expected, rel=AGREE)
    assert predicted(machine, "all-reduce", 4 * MIB, algorithm="ring") > 1.2 * predicted(
        machine, "all-reduce", 4 * MIB, algorithm="tree"
    )


@pytest.mark.parametrize("kind", ["all-reduce", "all-to-all", "broadcast"])
@pytest.mark.parametrize(
    ("topology", "machine", "groups", "gpus"),
    [
        ("Switch(8, rate=450GB/s)", "dgx-h100", None, None),
        ("Switch(8, rate=450GB/s)_Switch(4, rate=50GB/s)", "dgx-h100(nodes=4)", None, None),
        ("Switch(8, rate=450GB/s)_Switch(4, rate=50GB/s)", "dgx-h100(nodes=4)", "1-4;5,6,14,15", "5,6,14,15"),
    ],
)
def test_switches_of_gpus_take_what_machines_of_such_take(
    kind: str, topology: str, machine: str, groups: str | None, gpus: str | None
) -> None:
    more: dict[str, object] = {} if groups is None else {"groups": groups}
    found = simulated(topology, kind, 16 * MIB, npu={"gpu": "h100"}, **more)
    assert found == pytest.approx(predicted(machine, kind, 16 * MIB, gpus), rel=0.01)


@settings(max_examples=20)
@given(
    size=st.integers(MIB, 2**32), kind=st.sampled_from(KINDS), gpus=st.sampled_from(["0-3", "0-7", "0,8", "0-3,8-11"])
)
def test_any_size_on_any_part(size: int, kind: str, gpus: str) -> None:
    machine = "dgx-h100(nodes=2)"
    size -= size % 64
    assert simulated(machine, kind, size, gpus=gpus) == pytest.approx(predicted(machine, kind, size, gpus), rel=AGREE)


def test_collectives_of_different_roots_cost_what_the_dearest_root_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are one to the engine."""
    costs = {0: (1000, 70), 1: (3000, 20), 2: (3000, 50), 3: (2000, 90)}

    def row(_: Any, kind: str, root: int, size: int) -> dict[str, Any]:
        wire, launch = costs[root]
        return {"collective": kind, "bytes": size, "wire_bytes": wire, "launch_ps": launch}

    monkeypatch.setattr(pricing._Priced, "row", row)
    monkeypatch.setattr(pricing._Priced, "_grid", [4])
    monkeypatch.setattr(pricing._Priced, "_way", {})
    nothing: Any = None
    priced = pricing._Priced(nothing, {}, {}, nothing, (0, 1, 2, 3), lambda _: 0, gives_way=False)
    for roots in itertools.permutations(costs):
        (found,) = priced.override([("broadcast", root, 64) for root in roots])["collectives"]["priced"]
        assert (found["wire_bytes"], found["launch_ps"]) == (3000, 50)


def test_groups_that_share_nics_take_longer() -> None:
    """Each of four groups of one GPU per server has a NIC to itself; four that share one, on its socket, have a quarter
    each.
    """
    rail, single = "dgx-a100(nodes=2)", "dgx-a100(nodes=2, nics=single)"
    pairs = "0,8;1,9;2,10;3,11"
    for machine, longer in ((rail, 1.0), (single, 4.0)):
        alone = simulated(machine, "all-reduce", 1024 * MIB, groups="0,8")
        beside = simulated(machine, "all-reduce", 1024 * MIB, groups=pairs)
        assert beside / alone == pytest.approx(longer, rel=0.02), machine


def test_more_latency_slows_a_run() -> None:
    """It counts on top of the model, whose constants have the usual one."""
    assert simulated("dgx-a100(nodes=4, latency=1ms)", "all-reduce", MIB) > 1e-3


def test_own_constants(tmp_path: Path, syncline_command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = Path(syncline.__file__).with_name("nccl").joinpath("classes", "a100-nvswitch.yaml").read_text()
    Path("mine.yaml").write_text(text.replace("launch: 23.63us", "launch: 123.63us"))
    Path("e.yaml").write_text(
        "name: e\ntopology: dgx-a100\nworkload: {collective: all-reduce, size: 1MiB}\n"
        "endpoint: {kind: nccl, software: mine.yaml}\nnetwork: flow\n"
    )
    slower = syncline.run("e.yaml").systems["e"].total_time_s - predicted("dgx-a100", "all-reduce", MIB)
    assert slower == pytest.approx(100e-6, rel=0.1)
    ended = syncline_command("run", "e.yaml", "--set", "endpoint.software=your.yaml")
    assert ended.status == 2
    assert "endpoint.software" in ended.err
    assert "a100-nvswitch" in ended.err


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"topology": "Ring(8)"}, "npu.gpu"),
        ({"topology": "Switch(8)"}, "npu.gpu"),
        ({"topology": "LeafSpine(leaves=2, hosts=2, spines=1)"}, "npu.gpu"),
        ({"collective": {"algorithm": "auto"}}, "collective.algorithm"),
        ({"endpoint": {"kind": "nccl", "software": "tpu"}}, "endpoint.software"),
        ({"endpoint": {"kind": "nccl", "algorithm": "collnet"}}, "endpoint.algorithm"),
    ],
)
def test_what_the_model_cannot_say_is_refused(changes: dict[str, object], field: str) -> None:
    experiment = {
        **{"name": "one", "topology": "dgx-a100(nodes=2)", "endpoint": "nccl"},
        **{"workload": {"collective": "all-reduce", "size": "1MiB"}, **changes},
    }
    with pytest.raises(syncline.InputError) as raised:
        syncline.run(experiment)
    assert field in [problem.field for problem in raised.value.problems]


def test_training_waits_for_what_nccl_takes() -> None:
    """Without overlap all gradients are one all-reduce, behind the last back-propagation."""
    machine = "dgx-a100(nodes=2)"
    experiment = {
        **{"name": "train", "topology": machine, "endpoint": "nccl", "network": "flow"},
        "workload": {"model": "resnet50", "batch": 32},
        "training": {"iterations": 1, "overlap": False, "tail": "drain"},
    }
    system = syncline.run(experiment).systems["train"]
    size = int(system.tables["collectives"].to_pandas()["bytes"].sum())
    assert system.exposed_comm_s == pytest.approx(predicted(machine, "all-reduce", size), rel=AGREE)
