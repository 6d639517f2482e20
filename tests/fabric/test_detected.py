"""The fabric of the machine at hand, from what tools and the kernel say on machines that are known."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.command import Ended
from support.topologies import (
    CLOUD_XML,
    DGX1_BUSES,
    DGX1_SWITCHES,
    dgx1_matrix,
    dgx1_xml,
    full,
    matrix,
    nvswitch_xml,
)
from syncline.base.errors import InputError
from syncline.fabric import detected, files, sysfs
from syncline.fabric.detected import Places, detect
from syncline.fabric.graph import PCIE, Graph

Command = Callable[..., Ended]
ADDRESSES = [f"0000:{bus}:00.0" for bus in DGX1_BUSES]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A machine of which nothing is known."""
    return Places(None, str(tmp_path / "nvidia-smi"), tmp_path / "sys")


def tool(places: Places, topology: str, buses: list[str], name: str = "Tesla V100-SXM2-16GB") -> None:
    """Makes an nvidia-smi that says this."""
    rows = "\n".join(f"{index}, 0000{bus.upper()}, {name}" for index, bus in enumerate(buses))
    script = Path(places.nvidia_smi)
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = topo ]; then printf %s {shlex.quote(topology)}; else echo {shlex.quote(rows)}; fi\n'
    )
    script.chmod(0o755)


def device(
    root: Path, path: str, kind: str, numa: int, *, speed: str = "8.0 GT/s PCIe", width: int = 16, number: str = ""
) -> None:
    """Adds a PCI device to a tree of the kernel, as the last part of a path below its root."""
    folder = root / "devices" / path
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"class": kind, "vendor": "0x10de", "numa_node": numa, "max_link_speed": speed, "max_link_width": width}
    texts |= {"device": number} if number else {}
    # An idle GPU saves power.
    for file, text in (texts | {"current_link_speed": "2.5 GT/s PCIe"}).items():
        (folder / file).write_text(f"{text}\n")
    devices = root / "bus/pci/devices"
    devices.mkdir(parents=True, exist_ok=True)
    (devices / folder.name).symlink_to(folder)


def dgx1_sys(root: Path) -> None:
    """The tree of the kernel of a DGX-1: two sockets with two PCIe switches each."""
    for number, switch in enumerate(DGX1_SWITCHES):
        bus = f"pci0000:{(0, 0, 0x80, 0x80)[number]:02x}"
        root_port = f"{bus}/{bus[3:]}:{2 + number % 2:02x}.0"
        upstream = f"{root_port}/0000:{switch}:00.0"
        device(root, root_port, "0x060400", number // 2)
        device(root, upstream, "0x060400", number // 2)
        for port in range(2):
            downstream = f"{upstream}/0000:{int(switch, 16) + 1:02x}:{8 * port + 8:02x}.0"
            device(root, downstream, "0x060400", number // 2)
            device(root, f"{downstream}/{ADDRESSES[2 * number + port]}", "0x030200", number // 2)
    device(root, "pci0000:00/0000:00:1f.0", "0x060100", 0)
    (root / "devices/system/cpu").mkdir(parents=True)
    (root / "devices/system/cpu/modalias").write_text("cpu:type:x86,ven0000fam0006mod004F:feature:,0000\n")


def pcie(graph: Graph) -> Counter[tuple[object, ...]]:
    """Links that are no NVLinks, whatever switches are called."""
    names = [node.name if node.kind == "npu" else node.kind for node in graph.nodes]
    links = (link for link in graph.links if "NV" not in link.kind)
    return Counter((names[link.src], names[link.dst], link.kind, link.rate, link.efficiency) for link in links)


def test_the_devices_of_a_dgx1_are_its_pcie(tmp_path: Path) -> None:
    dgx1_sys(tmp_path)
    text = sysfs.nccl_xml(tmp_path)
    assert text is not None
    graph = files.read(text.encode(), "/sys")
    assert pcie(graph) == pcie(files.read(dgx1_xml().encode(), "file"))


def test_a_gpu_at_the_root_and_slower_ports(tmp_path: Path) -> None:
    device(tmp_path, "pci0001:00/0001:00:01.0", "0x060400", -1, speed="16.0 GT/s PCIe", width=8)
    device(tmp_path, "pci0001:00/0001:00:01.0/0001:01:00.0", "0x030000", -1, speed="32.0 GT/s PCIe")
    text = sysfs.nccl_xml(tmp_path)
    assert text is not None
    assert 'busid="0001:01:00.0" class="0x030000" link_speed="16.0 GT/s" link_width="8"' in text
    assert 'numaid="0"' in text
    assert text.count("<pci") == 1
    (tmp_path / "bus/pci/devices/0001:01:00.0/vendor").write_text("0x1002\n")
    assert sysfs.nccl_xml(tmp_path) is None
    assert sysfs.nccl_xml(tmp_path / "nowhere") is None


def test_a_gpu_of_the_kernel_is_told_by_its_device_id(tmp_path: Path) -> None:
    device(tmp_path, "pci0001:00/0001:01:00.0", "0x030200", 0, speed="32.0 GT/s PCIe", number="0x2330")
    text = sysfs.nccl_xml(tmp_path)
    assert text is not None
    graph = files.read(text.encode(), "/sys")
    assert graph.hardware is not None
    assert graph.hardware.gpu is not None
    assert graph.hardware.gpu.name == "h100"
    assert graph.warnings == ()


@pytest.mark.parametrize(
    ("links", "payload", "said"),
    [
        ("5, 16\n5, 16", 52_480_000_000, "5, 16"),
        ("5, 8\n5, 8", 26_240_000_000, "5, 8"),
        ("[N/A], [N/A]\n[N/A], [N/A]", 52_480_000_000, ""),  # that of the GPU
        ("error", 52_480_000_000, ""),
    ],
)
def test_pcie_is_what_nvidia_smi_says_of_it(places: Places, links: str, payload: int, said: str) -> None:
    """An H100 has PCIe of the fifth generation, whatever it runs at while it is idle."""
    topology = matrix(full(2, "NV18"))
    names = "\n".join(f"{gpu}, 00000000:{gpu + 1:02X}:00.0, NVIDIA H100 80GB HBM3" for gpu in range(2))
    Path(places.nvidia_smi).write_text(
        '#!/bin/sh\ncase "$*" in\n'
        f"*topo*) printf %s {shlex.quote(topology)};;\n"
        f"*pcie.link.gen.max,pcie.link.width.max*) echo {shlex.quote(links)}; exit {int(links == 'error')};;\n"
        f"*) echo {shlex.quote(names)};;\nesac\n"
    )
    Path(places.nvidia_smi).chmod(0o755)
    found = detect(None, places)
    assert found.source == "nvidia-smi topo -m"
    assert {link.payload_rate for link in found.graph.links if link.kind == PCIE} == {payload}
    assert (f"pcie.link.gen.max, pcie.link.width.max\n{said}" in found.content) == bool(said)
    assert found.graph.hardware is not None
    assert found.graph.hardware.gpu is not None
    assert files.read(found.content.encode(), "written") == replace(found.graph, name="written")


def test_sources_are_asked_in_turn(places: Places, tmp_path: Path) -> None:
    asked = ",".join(ADDRESSES[gpu] for gpu in (5, 1, 4, 6))
    with pytest.raises(InputError, match=r"NCCL_TOPO_FILE: it is not set; .*there is no .*; /sys: there is no GPU"):
        detect(asked, places)
    dgx1_sys(places.sys)
    found = detect(asked, places)
    assert (found.source, found.gpus) == ("/sys", (5, 1, 4, 6))
    assert (found.links, found.reason) == ("all", "PCIe joins the GPUs unequally")
    tool(places, dgx1_matrix(), ADDRESSES)
    found = detect(asked, places)
    assert (found.source, found.gpus, found.links) == ("nvidia-smi topo -m", (5, 1, 4, 6), "nvlink")
    assert found.notes == ("NCCL_TOPO_FILE: it is not set",)
    assert any("those of V100" in assumption for assumption in found.graph.assumptions)
    file = tmp_path / "nccl.xml"
    file.write_text(dgx1_xml())
    whole = Places(str(file), places.nvidia_smi, places.sys)
    assert (detect(asked, whole).source, detect(asked, whole).content) == ("NCCL_TOPO_FILE", dgx1_xml())
    assert detect("0-2", whole).gpus == (0, 1, 2)
    assert detect(None, whole).gpus == tuple(range(8))


def test_gpus_are_told_by_their_addresses(places: Places) -> None:
    """The order of the tool is not that of the program, which may see a part of the GPUs in an order of its own."""
    swapped = [ADDRESSES[1], ADDRESSES[0], *ADDRESSES[2:]]
    tool(places, dgx1_matrix(), swapped)
    assert detect(",".join(ADDRESSES[:3]), places).gpus == (1, 0, 2)


def test_a_source_without_the_gpus_or_without_nvlinks_is_passed_over(places: Places, tmp_path: Path) -> None:
    tool(places, dgx1_matrix(), ADDRESSES)
    file = tmp_path / "nccl.xml"
    file.write_text(nvswitch_xml(("0000:61:00.0",), 9, 100))
    found = detect(",".join(ADDRESSES[:3]), Places(str(file), places.nvidia_smi, places.sys))
    assert found.source == "nvidia-smi topo -m"
    assert found.notes == ("NCCL_TOPO_FILE: it has no GPU at 0000:06:00.0, 0000:07:00.0, 0000:0a:00.0",)
    file.write_text(CLOUD_XML)
    tool(places, matrix(full(3, "NV12")), ["0000:10:1c.0", "0000:10:1d.0", "0001:00:00.0"], "NVIDIA A100-SXM4-40GB")
    found = detect("0000:10:1c.0,0000:10:1d.0,0001:00:00.0", Places(str(file), places.nvidia_smi, places.sys))
    assert (found.source, found.links) == ("nvidia-smi topo -m", None)
    assert found.reason == "NVSwitches join all of the GPUs equally"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no devices >&2; exit 9", "ended with status 9: no devices"),
        ("echo garbage", "the addresses of GPUs cannot be read"),
        (
            '[ "$1" = topo ] && echo garbage || echo 0, 00000000:06:00.0, V100',
            "there is no line with the names of GPUs",
        ),
    ],
)
def test_a_tool_that_fails_is_passed_over(places: Places, script: str, said: str) -> None:
    Path(places.nvidia_smi).write_text(f"#!/bin/sh\n{script}\n")
    Path(places.nvidia_smi).chmod(0o755)
    dgx1_sys(places.sys)
    found = detect(None, places)
    assert found.source == "/sys"
    assert said in found.notes[1]


@pytest.mark.parametrize("gpus", ["0000:07:00.0,7:", "0000:07:00.0,0000:07:00.0", "0000:07:00.0,1"])
def test_wrong_addresses(places: Places, gpus: str) -> None:
    with pytest.raises(InputError, match="--gpus"):
        detect(gpus, places)


DGX1 = files.read(dgx1_xml().encode(), "file")


@pytest.mark.parametrize(
    ("graph", "gpus", "links", "reason"),
    [
        (DGX1, (0, 3), None, "two GPUs have one way to each other"),
        (files.read(matrix(full(4, "NV4")).encode(), "file"), (3, 1, 2), None, "any two of the GPUs have as many"),
        (DGX1, (0, 1, 3), "nvlink", "NVLinks join the GPUs unequally"),
        (DGX1, (0, 5, 6), "all", "NVLinks join only some of the GPUs"),
        (DGX1, (0, 1, 4), "nvlink", "NVLinks join the GPUs unequally"),
        (files.read(matrix(full(4, "PIX")).encode(), "file"), (0, 1, 2), None, "one PCIe switch"),
        (files.read(matrix(full(4, "SYS")).encode(), "file"), (0, 1, 2), "all", "PCIe joins the GPUs unequally"),
        (files.read(matrix(full(8, "NV18")).encode(), "file"), (0, 1, 2), None, "NVSwitches join all"),
    ],
)
def test_trees_are_for_gpus_that_are_joined_unequally(
    graph: Graph, gpus: tuple[int, ...], links: str | None, reason: str
) -> None:
    said = detected.trees(graph, gpus)
    assert said[0] == links
    assert reason in said[1]


def test_the_command_writes_a_topology_file(tmp_path: Path, syncline_command: Command) -> None:
    file, written = tmp_path / "nccl.xml", tmp_path / "out.xml"
    file.write_text(dgx1_xml())
    ended = syncline_command("topology", "detect", "--nccl-file", str(file), "--gpus", "1,4-6", "-o", str(written))
    assert ended.status == 0
    assert "detected: NCCL_TOPO_FILE; trees over the links nvlink" in ended.err
    assert written.read_text() == dgx1_xml()
    ended = syncline_command("topology", "detect", "--nccl-file", str(file), "--gpus", "1,4-6", "--json")
    document = json.loads(ended.out)
    assert (document["gpus"], document["trees_links"], document["warnings"]) == ([1, 4, 5, 6], "nvlink", [])
    ended = syncline_command("topology", "detect", "--nccl-file", str(file), "-o", str(tmp_path / "no/file"))
    assert ended.status == 2
    assert "--out" in ended.err


def test_the_command_warns_of_nvlinks_that_the_file_lacks(tmp_path: Path, syncline_command: Command) -> None:
    file = tmp_path / "nccl.xml"
    file.write_text(CLOUD_XML)
    line = ("topology", "detect", "--nccl-file", str(file), "--nvidia-smi", "no-such-command", "--sys", str(tmp_path))
    assert "warning: the file has no NVLinks" in syncline_command(*line).err
    (warning,) = json.loads(syncline_command(*line, "--json").out)["warnings"]
    assert warning.startswith("the file has no NVLinks")


def test_a_machine_without_gpus_is_not_the_fault_of_an_option(tmp_path: Path, syncline_command: Command) -> None:
    nowhere = ("--sys", str(tmp_path), "--nvidia-smi", "no-such-command")
    ended = syncline_command("topology", "detect", *nowhere)
    assert ended.status == 2
    assert ended.err.startswith("this machine: topology: it cannot be detected: NCCL_TOPO_FILE: it is not set;")
    ended = syncline_command("topology", "detect", *nowhere, "--gpus", "0,1")
    assert ended.status == 2
    assert ended.err.startswith("command line: --gpus: it cannot be detected:")
