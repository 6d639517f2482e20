"""The endpoint `nccl` on topologies that are no machine by name: strategies run, and costs follow from the links."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

import syncline
from support.experiments import study
from support.topologies import dgx1_xml
from syncline.engine import runs as engine
from syncline.fabric import topologies
from syncline.nccl import derived

MIB = 2**20
SERVERS = "\n".join(
    [
        "nodes: [A, B, C, D, E, F, G, H, {name: S, kind: switch}, {name: T, kind: switch}, {name: N, kind: switch}]",
        "links:",
        *(f"- {{from: {gpu}, to: {'S' if gpu < 'E' else 'T'}, rate: 450GB/s}}" for gpu in "ABCDEFGH"),
        *(f"- {{from: {switch}, to: N, rate: 200GB/s}}" for switch in "ST"),
    ]
)
"""Two servers of four GPUs, whose network carries 200 GB/s."""
H100 = "\nnpu: {gpu: h100}"
TOPOLOGIES = {
    "part": 'dgx-h100\ngpus: "0-3"',
    "three servers": 'dgx-h100(nodes=3)\ngpus: "0-3,8,9,16,17"',
    "unequal parts": 'dgx-h100(nodes=2)\ngpus: "0-5,8,9"',
    "unequal parts of meshes": 'dgx1v(nodes=2)\ngpus: "0-6,8"',
    "shares of links": 'dgx-a100(nodes=2, efficiency=90%, pcie_efficiency=80%)\ngpus: "0-3,8-11"',
    "rings": '"Ring(4, rate=450GB/s)_Ring(2, rate=50GB/s)"' + H100,
    "one level": '"Torus(2,2,2, rate=50GB/s)"\nnpu: {gpu: p100}',
    "group and switch": '"FullyConnected(4, rate=150GB/s)_Switch(2, rate=50GB/s)"' + H100,
    "three switches": '"Switch(2, rate=450GB/s)_Switch(2, rate=50GB/s)_Switch(2, rate=25GB/s)"' + H100,
    "leaves and spines": '"LeafSpine(leaves=2, hosts=4, spines=2, rate=400Gb/s)"' + H100,
    "fat tree": '"FatTree(k=4, rate=400Gb/s)"\ngpus: "0-7"' + H100,
    "super-nodes": '"SuperNodes(groups=2, size=4, local_rate=450GB/s)"' + H100,
    "file": "{file: servers.yaml}" + H100,
    "dump": "{file: dgx1.xml}\nnpu: {gpu: v100-32gb}",
    "rack": 'gb200-nvl72\ngpus: "0-7"',
}
SMALL = "{model: gpt2, parameters: {layers: 4, hidden: 64, heads: 4, vocabulary: 256, positions: 64}, "
EXPERTS = "{model: mixtral-8x7b, parameters: {layers: 2, hidden: 64, heads: 4, kv_heads: 2}, sequence: 64, "
WORKLOADS = {
    "batch": f"{SMALL}batch: 2}}",
    **{f"zero {zero}": f"{SMALL}global_batch: 8}}\nparallel: {{zero: {zero}}}" for zero in range(4)},
    "tensor": f"{SMALL}global_batch: 8}}\nparallel: {{tensor: 2}}",
    "sequence": f"{SMALL}global_batch: 8}}\nparallel: {{tensor: 4, sequence: true}}",
    "pipeline": f"{SMALL}global_batch: 8}}\nparallel: {{pipeline: 4}}",
    "interleaved": f"{SMALL}global_batch: 8}}\nparallel: {{pipeline: 2, virtual: 2, schedule: interleaved}}",
    "context": f"{SMALL}global_batch: 8}}\nparallel: {{context: 4}}",
    "gathered context": f"{SMALL}global_batch: 8}}\nparallel: {{context: 4, context_exchange: all-gather}}",
    "expert": f"{EXPERTS}global_batch: 8}}\nparallel: {{expert: 2}}",
    "hybrid": "{model: dlrm, batch: 4}\ntraining: {strategy: hybrid}",
    "central server": f"{SMALL}global_batch: 8}}\nparallel: {{parameter_server: central}}",
    "sharded server": f"{SMALL}global_batch: 8}}\nparallel: {{parameter_server: sharded}}",
}
"""Trainings of up to eight GPUs."""
JOBS = """{jobs: [
  {name: a, npus: "0-2", workload: {model: resnet18, batch: 1}},
  {name: b, npus: "4,5", workload: {model: resnet18, batch: 1}},
]}"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "servers.yaml").write_text(SERVERS)
    (tmp_path / "dgx1.xml").write_text(dgx1_xml())
    monkeypatch.chdir(tmp_path)


def total(topology: str, workload: str, network: str = "flow", endpoint: str = "nccl") -> int:
    """Picoseconds of a training of two iterations whose host takes no time, which would hide communication."""
    text = f"name: x\ntopology: {topology}\nworkload: {workload}\nnetwork: {network}\nendpoint: {endpoint}\n"
    found: int = engine.run(study(text, "npu.host_kernel_time=0s").variants[0]).summary["total_ps"]
    return found


USUAL = ("batch", "zero 3", "sequence", "pipeline")
EVERYTHING = ("rings", "fat tree", "file")


@pytest.mark.parametrize(
    ("topology", "workload"),
    [pair for pair in product(TOPOLOGIES, WORKLOADS) if pair[0] in EVERYTHING or pair[1] in USUAL],
)
def test_every_strategy_trains_on_every_topology(topology: str, workload: str) -> None:
    """Small collectives take NCCL longer than links, whose times have no launch."""
    where = TOPOLOGIES[topology]
    with_nccl, by_links = (total(where, WORKLOADS[workload], endpoint=kind) for kind in ("nccl", "ideal"))
    assert with_nccl > by_links


@pytest.mark.parametrize("topology", ["dgx-h100", TOPOLOGIES["rings"], TOPOLOGIES["file"]])
def test_jobs_beside_each_other_train(topology: str) -> None:
    assert total(topology, JOBS) > total(topology, JOBS, endpoint="ideal")


@pytest.mark.parametrize("network", ["analytical", "packet", "ethernet"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_backend_carries_it(topology: str, network: str) -> None:
    where = TOPOLOGIES[topology]
    assert total(where, WORKLOADS["zero 3"], network) > total(where, WORKLOADS["zero 3"], network, "ideal")


def test_a_single_gpu_has_nothing_to_pay() -> None:
    for topology in ('"Ring(1)"' + H100, 'dgx-h100\ngpus: "3"', '"Ring(1)"'):
        assert total(topology, WORKLOADS["batch"]) == total(topology, WORKLOADS["batch"], endpoint="ideal")


def simulated(topology: Any, kind: str, size: int, gpu: str | None = None, **more: object) -> float:
    """Seconds of a collective."""
    npu = {} if gpu is None else {"npu": {"gpu": gpu}}
    experiment = {
        **{"name": "one", "topology": topology, "network": "flow", "endpoint": "nccl", **npu},
        **{"workload": {"collective": kind, "size": f"{size}B"}, **more},
    }
    return syncline.run(experiment).systems["one"].total_time_s


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "all-to-all", "broadcast"])
def test_what_is_wired_like_a_machine_costs_what_the_machine_does(kind: str) -> None:
    size = 256 * MIB
    one_each = simulated("dgx-h100(nodes=8)", kind, size, gpus="0,8,16,24,32,40,48,56")
    network = "LeafSpine(leaves=2, hosts=4, spines=4, rate=400Gb/s)"
    assert simulated(network, kind, size, "h100") == pytest.approx(one_each, rel=0.05)
    mesh = simulated("dgx1v", kind, size)
    assert simulated({"file": "dgx1.xml"}, kind, size, "v100-32gb") == pytest.approx(mesh, rel=0.01)
    if kind != "all-reduce":  # of which switches of the machine add a part
        servers = simulated("dgx-h100(nodes=2)", kind, size, gpus="0-3,8-11")
        assert simulated({"file": "servers.yaml"}, kind, size, "h100") == pytest.approx(servers, rel=0.1)
        switch = simulated("Switch(8, rate=448GB/s)", kind, size, "h100")
        group = simulated("FullyConnected(8, rate=64GB/s)", kind, size, "h100")
        assert group == pytest.approx(switch, rel=0.02)


@pytest.mark.parametrize(
    ("slow", "fast", "factor"),
    [
        ("Ring(4, rate=400GB/s)_Ring(2, rate=10GB/s)", "Ring(4, rate=400GB/s)_Ring(2, rate=20GB/s)", 2),
        ("Torus(2,2,2, rate=50GB/s)", "Torus(2,2,2, rate=100GB/s)", 2),
        ("FatTree(k=4, rate=100Gb/s)", "FatTree(k=4, rate=200Gb/s)", 2),
    ],
)
@pytest.mark.parametrize("kind", ["all-reduce", "all-to-all"])
def test_large_collectives_follow_the_rates_of_links(kind: str, slow: str, fast: str, factor: int) -> None:
    found = [simulated(topology, kind, 1024 * MIB, "h100") for topology in (slow, fast)]
    assert found[0] / found[1] == pytest.approx(factor, rel=0.05)


def test_exchanges_wait_for_an_oversubscribed_spine() -> None:
    """Half of what eight GPUs exchange crosses it, or the whole of what goes once around a ring."""
    networks = [f"LeafSpine(leaves=2, hosts=4, spines=4, rate=400Gb/s, oversubscription={over})" for over in (1, 4)]
    for kind in ("all-to-all", "all-reduce", "all-gather"):
        free, over = (simulated(network, kind, 256 * MIB, "h100") for network in networks)
        assert 2 * free < over < 4 * free


def test_unequal_servers_wait_for_the_one_with_the_fewest_nics() -> None:
    parts = ("0-3,8-11", "0-5,8,9", "0-6,8")
    found = [simulated("dgx-h100(nodes=2)", "all-gather", 1024 * MIB, gpus=gpus) for gpus in parts]
    assert found[1] / found[0] == pytest.approx(2, rel=0.05)
    assert found[2] / found[0] == pytest.approx(4, rel=0.05)


def test_shares_of_links_change_no_collective_of_a_machine() -> None:
    """The constants have what data reaches of links."""
    shares = "efficiency=90%, pcie_efficiency=80%"
    for plain, stated in (
        ("dgx-a100", "dgx-a100(efficiency=90%)"),
        ("dgx-a100(nodes=2)", f"dgx-a100(nodes=2, {shares})"),
    ):
        found = [simulated(machine, "all-gather", 256 * MIB) for machine in (plain, stated)]
        assert found[1] == pytest.approx(found[0], rel=0.01)
    found = [
        simulated(f"FullyConnected(4, rate=50GB/s{share})", "all-gather", 256 * MIB, "h100")
        for share in ("", ", efficiency=90%")
    ]
    assert found[1] == pytest.approx(found[0], rel=0.01)


@pytest.mark.parametrize(
    ("topology", "servers"),
    [
        ("Ring(4)_Ring(2)", 1),
        ("Ring(4, rate=100GB/s)_Ring(2, rate=60GB/s)_Ring(3, rate=10GB/s)", 3),
        ("FullyConnected(8)_Switch(4)", 4),
        ("Ring(1)_Ring(4)", 1),
        ("LeafSpine(leaves=2, hosts=4, spines=2)", 8),
        ("SuperNodes(groups=4, size=4)", 4),
    ],
)
def test_what_a_server_is(topology: str, servers: int) -> None:
    assert derived.derived(topologies.parse(topology), "h100").hosts == servers


def test_communicators_that_share_links_wait_for_each_other() -> None:
    """Two groups on the same ring have half of its links each."""
    ring = "Ring(8, rate=100GB/s)"
    alone = simulated(ring, "all-gather", 1024 * MIB, "h100", groups="0,2,4,6")
    both = simulated(ring, "all-gather", 1024 * MIB, "h100", groups="0,2,4,6;1,3,5,7")
    assert both > 1.3 * alone
    apart = simulated(ring, "all-gather", 1024 * MIB, "h100", groups="0-3;4-7")
    assert apart == pytest.approx(simulated(ring, "all-gather", 1024 * MIB, "h100", groups="0-3"), rel=0.01)


@pytest.mark.parametrize(
    ("more", "endpoint"),
    [
        ("topology: dgx-h100\nworkload: {model: resnet18, batch: 4}", "nccl"),
        ("topology: dgx-h100\nworkload: {model: gpt2, global_batch: 8}", "nccl"),
        ("topology: Ring(4)\nnpu: {gpu: h100}\nworkload: {model: resnet18, batch: 4}", "nccl"),
        (f"topology: dgx-h100\nworkload: {JOBS}", "nccl"),
        ("topology: dgx-h100\nworkload: {model: resnet18, batch: 4}\ncollective: {algorithm: ring}", "nccl"),
        ("topology: dgx-h100\nworkload: {model: resnet18, batch: 4}\nendpoint: ideal", "ideal"),
        ("topology: dgx-h100\nworkload: {model: resnet18, batch: 4}\ncollective: {algorithm: auto}", "ideal"),
        ("topology: dgx1v\nworkload: {model: resnet18, batch: 4}\ncollective: {algorithm: packed-trees}", "ideal"),
        ("topology: Ring(4)\nworkload: {model: resnet18, batch: 4}", "ideal"),
        ("topology: dgx-h100\nworkload: {collective: all-reduce, size: 1MiB}", "ideal"),
    ],
)
def test_trainings_on_known_gpus_have_the_collectives_of_nccl(more: str, endpoint: str) -> None:
    """Unless another endpoint is stated, or something that NCCL does not have."""
    (variant,) = study(f"name: x\n{more}\n").variants
    assert variant.experiment.endpoint.kind == endpoint
