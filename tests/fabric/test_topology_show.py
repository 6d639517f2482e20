"""`syncline topology show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from syrupy.assertion import SnapshotAssertion

from support.command import Ended
from support.topologies import dgx1_matrix, dgx1_xml

Command = Callable[..., Ended]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--machine", "dgx1v"),
        ("--machine", "dgx1v", "--gpus", "0,1,6-7"),
        ("--machine", "dgx2"),
        ("--machine", "dgx-h100(nodes=16, nics=rail)"),
        ("--machine", "dgx-a100(nodes=2, nics=single)", "--gpus", "0,8"),
    ],
    ids=" ".join,
)
def test_tables(syncline_command: Command, arguments: tuple[str, ...], snapshot: SnapshotAssertion) -> None:
    ended = syncline_command("topology", "show", *arguments)
    assert ended.status == 0
    assert ended.out == snapshot
    assert all(line.startswith("assumed: ") for line in ended.err.splitlines())


def test_json(syncline_command: Command) -> None:
    ended = syncline_command("topology", "show", "--machine", "dgx1v", "--gpus", "0-1,6-7", "--json")
    document = json.loads(ended.out)
    assert (ended.status, ended.err) == (0, "")
    assert document["gpus"] == [0, 1, 6, 7]
    assert document["nodes"] == {"npu": 8, "switch": 4, "nic": 0, "cpu": 2}
    assert document["nvlink_components"] == [[0, 1], [6, 7]]
    assert document["egress_bytes_per_s"] == [38_120_000_000, 38_120_000_000, 63_120_000_000, 63_120_000_000]
    assert document["link_unit_bytes_per_s"] == 25_000_000_000
    assert document["connected"] is True
    assert document["graph"]["kind"] == "graph"
    assert document["links"][0] == {
        "class": "NVLink",
        "node_pairs": 8,
        "parallel_links": 1,
        "link_bandwidth_bytes_per_s": 25_000_000_000,
        "link_payload_bandwidth_bytes_per_s": 25_000_000_000,
        "efficiency": 1.0,
        "latency_s": 5e-7,
    }
    pcie = next(links for links in document["links"] if links["class"] == "PCIe")
    assert (pcie["link_bandwidth_bytes_per_s"], pcie["efficiency"]) == (16_000_000_000, 0.82)
    assert document["hardware"]["gpu"] == "v100-32gb"
    assert document["hardware"]["peak_flops_per_s"]["fp16"] == 125e12


def ring(npus: int, directed: bool) -> str:
    links = "".join(f"  - {{from: {npu}, to: {(npu + 1) % npus}, rate: 25GB/s}}\n" for npu in range(npus))
    return f"npus: {npus}\ndirected: {str(directed).lower()}\nlinks:\n{links}"


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        *((ring(npus, directed), [(npus, 1)]) for npus in (3, 4, 7) for directed in (False, True)),
        # Both ways, each with a line of its own, and two lines for the links between the same nodes.
        (ring(2, directed=True), [(1, 1)]),
        (ring(2, directed=False), [(1, 2)]),
        # Two links one way and one back.
        (ring(2, directed=True) + "  - {from: 0, to: 1, rate: 25GB/s}\n", [(1, 1), (1, 2)]),
    ],
)
def test_pairs_of_nodes(syncline_command: Command, text: str, pairs: list[tuple[int, int]], tmp_path: Path) -> None:
    path = tmp_path / "ring.yaml"
    path.write_text(text)
    document = json.loads(syncline_command("topology", "show", str(path), "--json").out)
    assert [(links["node_pairs"], links["parallel_links"]) for links in document["links"]] == pairs


@pytest.mark.parametrize("text", [dgx1_xml(), dgx1_matrix()])
def test_files(syncline_command: Command, text: str, tmp_path: Path) -> None:
    path = tmp_path / "topology"
    path.write_text(text)
    document = json.loads(syncline_command("topology", "show", str(path), "--json").out)
    assert document["npus"] == 8
    assert document["nvlink_components"] == [list(range(8))]
    assert "NV2" in syncline_command("topology", "show", str(path)).out


@pytest.mark.parametrize("arguments", [("Ring(4)_Switch(2)",), ("--machine", "dgx1v", "--gpus", "0,1")])
def test_pictures(syncline_command: Command, arguments: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    ended = syncline_command("topology", "show", *arguments, "--svg", str(path))
    assert ended.status == 0
    assert f"picture: {path}" in ended.err
    assert ET.parse(path).getroot().tag.endswith("svg")


def test_a_file_with_an_odd_name_wins_over_a_topology(
    syncline_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Ring(4)").write_text("npus: 3\nlinks: [{from: 0, to: 1, rate: 1GB/s}]\n")
    ended = syncline_command("topology", "show", "Ring(4)")
    assert "3 NPUs" in ended.out
    assert "warning: not every NPU reaches every other" in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("Ring(4)", "--machine", "dgx1v"),
        ("Ring(4)", "--gpus", "0"),
        ("dgx1v",),
        ("nowhere/topology.xml",),
        ("nowhere.xml",),
        ("Rong(4)",),
        ("4x4",),
        ("a" * 5000,),
        ("\x00",),
        ("--machine", "dgx3"),
        ("--machine", "dgx1v", "--gpus", "0-8"),
        ("--machine",),
        ("--machine", "dgx1v", "--svg", "nowhere/at/all.svg"),
        ("--machine", "dgx1v", "--svg", "."),
        ("--machin", "dgx1v"),
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_refusals(syncline_command: Command, arguments: tuple[str, ...], snapshot: SnapshotAssertion) -> None:
    ended = syncline_command("topology", "show", *arguments)
    assert ended.status == 2
    assert ended.out == ""
    assert ended.err == snapshot
    assert json.loads(syncline_command("topology", "show", *arguments, "--json").err)["errors"]
