"""Topology files of tools: NCCL's XML, the matrix of nvidia-smi, and lists of links."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

import syncline
from support.topologies import CLOUD_XML, PLAIN, dgx1_matrix, dgx1_xml, full, matrix, nvswitch_xml
from syncline.errors import InputError
from syncline.fabric import files, notation
from syncline.fabric.gpu_products import Stated
from syncline.fabric.graph import NVLINK, NVSWITCH, PCIE, Graph

GB = 10**9
TREE = """Nodes 32
Tiers 2
Podsize 32

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 0
Oversubscribed 4

Tier 1
Downlink_speed_Gbps 400
Radix_Down 4
Downlink_Latency_ns 500
"""


def read(text: str | bytes) -> Graph:
    """The fabric in a file."""
    return files.read(text.encode() if isinstance(text, str) else text, "file")


def refusals(text: str | bytes) -> str:
    """What is said about a file."""
    with pytest.raises(InputError) as refused:
        read(text)
    return refused.value.as_text()


def of_devices(*devices: str, vendor: str = "0x10de", link: str = PLAIN, inside: str = "") -> str:
    """NCCL's dump of GPUs with these PCI device ids below one CPU."""
    gpus = "".join(
        f'<pci busid="0000:0{number}:00.0" class="0x030200" vendor="{vendor}" device="{device}" {link}>'
        f'<gpu dev="{number}" rank="{number}">{inside}</gpu></pci>'
        for number, device in enumerate(devices, 1)
    )
    return f"<system><cpu>{gpus}</cpu></system>"


def shape(graph: Graph) -> Counter[tuple[object, ...]]:
    """What a graph says, whatever its switches are called and however links are ordered."""
    kinds = [node.name if node.kind == "npu" else node.kind for node in graph.nodes]
    return Counter(
        (kinds[link.src], kinds[link.dst], link.kind, link.rate, link.latency, link.count, link.efficiency)
        for link in graph.links
    )


class TestNccl:
    def test_a_dump_of_a_dgx1_is_the_machine(self) -> None:
        graph, machine = read(dgx1_xml()), notation.parse("dgx1v").graph()
        assert shape(graph) == shape(machine)
        assert [node.name for node in graph.nodes[:8]] == [node.name for node in machine.nodes[:8]]
        assert (graph.link_unit, graph.warnings) == (25 * GB, ())

    @pytest.mark.parametrize(
        ("switches", "links", "sm", "egress"),
        [
            (("0000:c4:00.0", "0000:c6:00.0", "0000:c9:00.0"), 4, 80, 300),
            (("fff:ffff:ff.0",), 18, 90, 450),  # hidden by a virtual machine
            (("0000:61:00.0", "0000:62:00.0"), 9, 100, 900),
        ],
    )
    def test_nvswitches_are_one_switch(self, switches: tuple[str, ...], links: int, sm: int, egress: int) -> None:
        graph = read(nvswitch_xml(switches, links, sm))
        assert [node.name for node in graph.nodes[:2]] == ["GPU 0", "GPU 1"]
        assert [node.name for node in graph.nodes if node.name == "NVSwitch"] == ["NVSwitch"]
        to_switch = [link for link in graph.links if link.kind == NVSWITCH and link.src == 0]
        assert [link.total_rate for link in to_switch] == [egress * GB]

    def test_the_rest_of_the_tree(self) -> None:
        graph = read(nvswitch_xml(("0000:c4:00.0",), 12, 80))
        assert [node.name for node in graph.nodes if node.kind == "nic"] == ["NIC 0 mlx5_4/mlx5_5"]
        assert {link.payload_rate for link in graph.links if link.kind == PCIE} == {26_240_000_000}
        assert {link.payload_rate for link in graph.links if link.kind == "xGMI"} == {16 * GB}
        assert "NICs without a PCI device are left out: docker0" in graph.assumptions
        assert [node.kind for node in graph.nodes].count("switch") == 3 + 1

    def test_files_of_clouds(self) -> None:
        graph = read(CLOUD_XML)
        kinds = Counter(node.kind for node in graph.nodes)
        assert kinds == {"npu": 3, "nic": 1, "switch": 1, "cpu": 2}
        assert {link.kind for link in graph.links} == {PCIE, "UPI"}
        assert graph.link_unit is None
        assert "GPUs are numbered in the order of the file" in graph.assumptions
        (warning,) = graph.warnings
        assert warning.startswith("the file has no NVLinks, and does not say which GPUs these are")
        assert graph.hardware is not None
        assert (graph.hardware.gpu, graph.hardware.because) == (None, "it has no PCI device ids of GPUs")

    @pytest.mark.parametrize(
        ("device", "gpu", "because"),
        [
            ("0x1db1", "v100-16gb", "PCI device 0x1db1 in the file"),
            ("0x20b0", "a100-40gb", "PCI device 0x20b0 in the file"),
            ("0x20b2", "a100-80gb", "PCI device 0x20b2 in the file"),
            ("0x2330", "h100", "PCI device 0x2330 in the file"),
            ("0x2335", "h200", "PCI device 0x2335 in the file"),
            ("0x2901", "b200", "PCI device 0x2901 in the file"),
            ("0x2941", "gb200", "PCI device 0x2941 in the file"),
            ("0x20B5", None, "PCI device 0x20b5 is an A100 PCIe 80 GB, whose figures are not known"),
            ("0x2331", None, "PCI device 0x2331 is an H100 PCIe 80 GB, whose figures are not known"),
            ("0x1fb1", None, "its PCI device 0x1fb1 is not known"),
            ("", None, "it has no PCI device ids of GPUs"),
            ("0xffff", None, "it has no PCI device ids of GPUs"),
        ],
    )
    def test_the_gpu_follows_from_its_device_id(self, device: str, gpu: str | None, because: str) -> None:
        known = read(of_devices(device, device)).hardware
        assert known is not None
        assert (None if known.gpu is None else known.gpu.name, known.because) == (gpu, because)

    def test_gpus_of_several_kinds_and_of_other_vendors(self) -> None:
        mixed, amd = read(of_devices("0x2330", "0x20b0")).hardware, read(of_devices("0x74a1", vendor="0x1002")).hardware
        assert mixed is not None
        assert amd is not None
        assert (mixed.gpu, mixed.candidates) == (None, ("a100-40gb", "a100-80gb", "h100"))
        assert (amd.gpu, amd.candidates) == (None, ())
        assert amd.because == "its GPUs are of the PCI vendor 0x1002, of which no GPU is known"

    def test_a_compute_capability_leaves_several_gpus(self) -> None:
        known = read(nvswitch_xml(("0000:61:00.0",), 18, 90)).hardware
        assert known is not None
        assert (known.gpu, known.candidates) == (None, ("h100", "h200"))

    @pytest.mark.parametrize(
        ("file", "warning"),
        [
            ("0x2330", "an H100 has 18 NVLinks, but there are none in the file (NCCL adds them when it runs)"),
            ("0x1db5", "a V100 has 6 NVLinks, but there are none in the file (NCCL adds them when it runs)"),
            ("", "the file has no NVLinks, and does not say which GPUs these are"),
            ("0x1db4", None),  # a V100 on PCIe has none
            ("0x2331", None),  # an H100 on PCIe has them only where a bridge joins two
            ("0x2237", None),  # an A10G
        ],
    )
    def test_nvlinks_that_the_device_has_but_not_the_file(self, file: str, warning: str | None) -> None:
        graph = read(of_devices(file, file))
        assert [found.partition(":")[0] for found in graph.warnings] == ([] if warning is None else [warning])
        assert ("there are no NVLinks, since the file lists none" in graph.assumptions) == (warning is None)

    def test_one_gpu_without_its_nvlinks(self) -> None:
        text = of_devices("0x2330", "0x2330", inside='<nvlink target="0:9:0.0" count="18" tclass="0x068000"/>')
        graph = read(text.replace('<nvlink target="0:9:0.0" count="18" tclass="0x068000"/>', "", 1))
        (warning,) = graph.warnings
        assert "there are none in the file for 1 of 2 GPUs" in warning

    def test_xgmi_is_warned_of(self) -> None:
        link = '<xgmi target="0000:02:00.0" count="1" tclass="0x120000"/>'
        graph = read(of_devices("0x74a1", "0x74a1", vendor="0x1002", inside=link))
        (warning,) = graph.warnings
        assert warning.startswith("the xGMI links between GPUs (<xgmi>) are left out")
        assert graph.classes == [PCIE]

    def test_nvlinks_of_a_gpu_to_itself(self) -> None:
        """So does the file that a cloud gives for A100 on PCIe."""
        link = '<nvlink target="0000:01:00.0" count="12" tclass="0x030200"/>'
        graph = read(of_devices("0x20b5", inside=link))
        assert graph.warnings == ("NVLinks of GPUs to themselves are left out: 0000:01:00.0",)

    @pytest.mark.parametrize(
        ("device", "link", "stated", "payload"),
        [
            ("0x2330", "", Stated(), 52.48),
            ("0x2330", 'link_speed="" link_width="0"', Stated(), 52.48),
            ("0x2330", 'link_speed="16.0 GT/s PCIe" link_width="8"', Stated(), 13.12),
            ("0x20b2", "", Stated(), 26.24),
            ("", "", Stated(), 13.12),
            ("", "", Stated(gpu="h100"), 52.48),
            ("", "", Stated(pcie_rate=100 * GB), 82),
            ("0x2330", "", Stated("a100-40gb", 100 * GB), 82),
            ("0x2330", 'link_speed="16 GT/s" link_width="16"', Stated("a100-40gb", 100 * GB), 26.24),
        ],
    )
    def test_pcie_is_that_of_the_file_or_of_the_gpu(
        self, device: str, link: str, stated: Stated, payload: float
    ) -> None:
        graph = files.read(of_devices(device, device, link=link).encode(), "file", stated)
        assert {found.payload_rate for found in graph.links if found.kind == PCIE} == {round(payload * GB)}
        assert graph.hardware is not None
        assert graph.hardware.leaves_pcie_open == ("GT/s" not in link)

    def test_nics_and_gpus_in_bridges_of_several_levels(self) -> None:
        """A NIC that stands in a bridge hangs off it, beside what else is in it."""
        nic = '<nic><net name="mlx5_{}" dev="{}" speed="400000"/></nic>'
        gpu = '<pci busid="0000:{}:00.0" class="0x030200" {}><gpu dev="{}" sm="90" rank="{}"/></pci>'
        gpus = [gpu.format(f"1{i}", PLAIN, i, i) for i in range(4)]
        inner = f'<pci busid="0000:03:00.0" class="0x060400" {PLAIN}>{nic.format(1, 1)}{gpus[2]}{gpus[3]}</pci>'
        middle = f'<pci busid="0000:02:00.0" class="0x060400" {PLAIN}>{gpus[1]}{inner}{nic.format(2, 2)}</pci>'
        outer = f'<pci busid="0000:01:00.0" class="0x060400" {PLAIN}>{nic.format(0, 0)}{gpus[0]}{middle}</pci>'
        graph = read(f"<system><cpu>{outer}</cpu></system>")
        names = [node.name for node in graph.nodes]
        assert Counter(node.kind for node in graph.nodes) == {"npu": 4, "switch": 3, "nic": 3, "cpu": 1}
        above = {names[link.src]: names[link.dst] for link in graph.links if link.src > link.dst or link.src < 4}
        assert [above[f"GPU {i}"] for i in range(4)] == [
            *("PCIe switch 0000:01:00.0", "PCIe switch 0000:02:00.0"),
            *("PCIe switch 0000:03:00.0", "PCIe switch 0000:03:00.0"),
        ]
        assert [above[name] for name in ("NIC 0 mlx5_0", "NIC 1 mlx5_2", "NIC 2 mlx5_1")] == [
            f"PCIe switch 0000:0{number}:00.0" for number in (1, 2, 3)
        ]
        assert not any("do not reach each other" in warning for warning in graph.warnings)

    def test_a_gpu_in_a_bridge_itself(self) -> None:
        other = '<pci busid="0000:02:00.0" class="0x030200"><gpu dev="1" sm="90" rank="1"/></pci>'
        text = f'<pci busid="0000:01:00.0" class="0x060400"><gpu dev="0" sm="90" rank="0"/>{other}</pci>'
        graph = read(f"<system><cpu>{text}</cpu></system>")
        assert Counter(node.kind for node in graph.nodes) == {"npu": 2, "switch": 1, "cpu": 1}

    def test_nvlinks_to_a_cpu(self) -> None:
        text = (
            '<system><cpu numaid="0" arch="ppc64le" vendor="IBM"><pci busid="0004:04:00.0" class="0x030200">'
            '<gpu dev="0" sm="70" rank="0"><nvlink target="0004:00:01.0" count="3" tclass="0x068001"/></gpu>'
            "</pci></cpu>"
            '<cpu numaid="8" arch="ppc64le" vendor="IBM"><pci busid="0035:03:00.0" class="0x030200">'
            '<gpu dev="1" sm="90" rank="1"><c2c bw="450000" count="1"/></gpu></pci></cpu></system>'
        )
        rates = {link.kind: link.total_rate for link in read(text).links}
        assert rates == {NVLINK: 75 * GB, PCIE: 13_120_000_000, "C2C": 450 * GB, "X-Bus": 32 * GB}

    def test_several_machines_in_one_file(self) -> None:
        hosts = "".join(
            f'<cpu host_hash="0x{host}" numaid="0"><pci busid="0000:01:00.0" class="0x030200">'
            f'<gpu dev="0" sm="80" rank="{host}"/></pci></cpu>'
            for host in range(2)
        )
        graph = read(f"<system>{hosts}</system>")
        assert [node.name for node in graph.nodes] == ["node 0 GPU 0", "node 1 GPU 0", "node 0 CPU 0", "node 1 CPU 0"]
        assert graph.warnings[-1].startswith("not every NPU reaches every other")

    def test_unknown_tags_are_left_out(self) -> None:
        text = '<system><a/><cpu><b/><pci busid="0:1:0.0" class="0x038000"><gpu dev="0" sm="90"><c/></gpu></pci></cpu>'
        said = read(f"{text}</system>").assumptions
        assert {"<a> is left out", "<b> is left out", "<c> is left out"} <= set(said)

    def test_links_to_gpus_that_are_not_there(self) -> None:
        text = f'<system><cpu><pci busid="0:1:0.0" class="0x030200" {PLAIN}><gpu dev="0">'
        nvlink = '<nvlink target="0:2:0.0" count="1" tclass="0x030200"/>'
        graph = read(f"{text}{nvlink}</gpu></pci></cpu></system>")
        assert graph.warnings == ("NVLinks to devices that are not in the file are left out: 0:2:0.0",)

    @pytest.mark.parametrize(
        "text",
        [
            dgx1_xml().replace('target="0000:07:00.0" count="1"', 'target="0000:07:00.0" count="3"', 1),
            dgx1_xml().replace('busid="0000:03:00.0"', 'busid="here"'),
            dgx1_xml().replace('count="2"', 'count="-2"', 1),
            dgx1_xml().replace("</gpu>", "", 1),
            "<system/>",
            "<graphs/>",
            "<topology/>",
            '<!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology/>',
            '<!DOCTYPE x [<!ENTITY a "b">]><system>&a;</system>',
            "<system>&a;</system>",
            '<?xml version="1.0" encoding="nothing"?><system/>',
            "<system>" + "<cpu>" * 80,
            "<system><gpu/></system>",
            "<system>" + "<cpu/>" * 600 + "</system>",
            "<system><cpu><gpu/></cpu></system>",
            '<system><cpu><pci busid="0:1:0.0"><gpu dev="0"/><gpu dev="1"/></pci></cpu></system>',
            "<",
        ],
    )
    def test_refusals(self, text: str, snapshot: SnapshotAssertion) -> None:
        assert refusals(text) == snapshot


class TestMatrix:
    @pytest.mark.parametrize("separator", ["\t", "     ", " | "])
    @pytest.mark.parametrize("far", ["SYS", "SOC"])
    def test_a_dgx1_is_the_machine(self, separator: str, far: str) -> None:
        graph, machine = read(dgx1_matrix(separator, far)), notation.parse("dgx1v").graph()
        assert shape(machine) - shape(graph) == Counter()
        assert {node.kind for node in graph.nodes if node.name.startswith("NIC mlx5_")} == {"nic"}
        assert graph.npus == 8

    def test_what_people_paste(self) -> None:
        pasted = (
            "root@node:~# nvidia-smi topo -m\n"
            + dgx1_matrix("  ").replace("\tGPU0", "\x1b[4m\tGPU0")
            + "root@node:~#\n"
        )
        assert shape(read(pasted)) == shape(read(dgx1_matrix()))
        assert shape(read(pasted.replace("\n", "\r\n"))) == shape(read(dgx1_matrix()))
        assert shape(read("\n".join(f"> {line}" for line in pasted.split("\n")))) == shape(read(dgx1_matrix()))
        assert shape(read("\n".join(f"# {line}" for line in pasted.split("\n")))) == shape(read(dgx1_matrix()))

    def test_glued_columns(self) -> None:
        graph = read("GPU0GPU1GPU2CPU Affinity\nGPU0 X PHBSOC0-7\nGPU1PHB X SOC 0-7\nGPU2 SOCSOC X 8-15\n")
        assert Counter(node.kind for node in graph.nodes) == {"npu": 3, "cpu": 2}

    @pytest.mark.parametrize(
        ("gpus", "cell", "words", "links"),
        [
            (16, "NV6", "", 6),
            (8, "NV12", "", 12),
            (8, "NV18", "", 18),
            (3, "NV12", "", 12),  # three GPUs of a box
            (3, "NV6", "GPU 0: Tesla V100-SXM3-32GB", 6),
            (8, "NV8", "NVIDIA A800", 8),
        ],
    )
    def test_nvswitches(self, gpus: int, cell: str, words: str, links: int) -> None:
        graph = read(words + "\n" + matrix(full(gpus, cell)))
        assert {
            (link.src >= gpus or link.dst >= gpus, link.count) for link in graph.links if link.kind == NVSWITCH
        } == {(True, links)}
        assert NVLINK not in graph.classes
        assert any("behind NVSwitches" in line for line in graph.assumptions)

    @pytest.mark.parametrize(("gpus", "cell"), [(4, "NV2"), (4, "NV4"), (4, "NV6"), (2, "NV12"), (2, "NV4")])
    def test_meshes(self, gpus: int, cell: str) -> None:
        graph = read(matrix(full(gpus, cell)))
        assert NVSWITCH not in graph.classes
        assert sum(link.count for link in graph.links if link.kind == NVLINK) == gpus * (gpus - 1) * int(cell[2:])

    def test_the_gpu_that_is_named_has_its_rate(self) -> None:
        assert read("Tesla P100-SXM2-16GB\n" + matrix(full(4, "NV1"))).link_unit == 20 * GB
        assert read(matrix(full(4, "NV1"))).link_unit == 25 * GB

    @pytest.mark.parametrize(
        ("words", "rows", "gpu"),
        [
            ("NVIDIA H100 80GB HBM3", full(8, "NV18"), "h100"),
            ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nGPU 1: NVIDIA H100 80GB HBM3", full(4, "NV18"), "h100"),
            ("|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |", full(4, "NV18"), "h100"),
            ("# DGX H100", full(8, "NV18"), "h100"),
            ("8x H100", full(8, "NV18"), "h100"),
            ("H100", full(2, "PHB"), None),  # an SXM module, or a card
            ("NVIDIA H100 PCIe", full(2, "NV12"), None),
            ("NVIDIA H100 NVL", full(2, "NV12"), None),
            ("NVIDIA H200", full(8, "NV18"), "h200"),
            ("NVIDIA H200 NVL", full(4, "NV6"), None),
            ("NVIDIA B200", full(8, "NV18"), "b200"),
            ("NVIDIA GB200", full(4, "NV18"), "gb200"),
            ("NVIDIA A100-SXM4-40GB", full(8, "NV12"), "a100-40gb"),
            ("NVIDIA A100-SXM4-80GB", full(8, "NV12"), "a100-80gb"),
            ("A100 80GB", full(8, "NV12"), "a100-80gb"),
            ("NVIDIA A100 80GB PCIe", full(2, "NV12"), None),
            ("A100-PCIE-40GB", full(2, "PHB"), "a100-40gb"),
            ("A100", full(8, "NV12"), None),  # 40 or 80 GB
            ("|   0  NVIDIA A100-SXM...  On  |\n|      0MiB / 81251MiB |", full(8, "NV12"), "a100-80gb"),
            ("NVIDIA A800-SXM4-80GB", full(8, "NV8"), "a100-80gb"),
            ("Tesla V100-SXM2-32GB", full(4, "NV1"), "v100-32gb"),
            ("Tesla V100-SXM3-32GB", full(16, "NV6"), "v100-32gb"),
            ("Tesla V100-PCIE-16GB", full(2, "PHB"), None),
            ("Tesla P100-SXM2-16GB", full(4, "NV1"), "p100"),
            ("NVIDIA H20", full(8, "NV18"), None),
            ("NVIDIA A10G", full(4, "PHB"), None),
            ("an A100 and an H100", full(8, "NV12"), None),
            ("", full(8, "NV18"), None),
        ],
    )
    def test_the_gpu_follows_from_its_name(self, words: str, rows: list[str], gpu: str | None) -> None:
        known = read(f"{words}\n\n{matrix(rows)}").hardware
        assert known is not None
        assert (None if known.gpu is None else known.gpu.name) == gpu

    def test_what_nvlinks_leave_open(self) -> None:
        known = read(matrix(full(8, "NV18"))).hardware
        assert known is not None
        assert known.candidates == ("h100", "h200", "b200", "gb200")
        assert known.because == "it does not name the GPU, and there are several with 18 NVLinks"

    @pytest.mark.parametrize(
        ("words", "stated", "payload", "source"),
        [
            ("", Stated(), 13.12, "PCIe is gen 3 with 16 lanes (the matrix does not say)"),
            ("NVIDIA H100 80GB HBM3", Stated(), 52.48, "PCIe is gen 5 with 16 lanes, that of the H100"),
            ("NVIDIA A100-SXM4-40GB", Stated(), 26.24, "PCIe is gen 4 with 16 lanes, that of the A100"),
            ("", Stated(gpu="b200"), 52.48, "PCIe is gen 5 with 16 lanes, that of the B200"),
            ("NVIDIA A10G\npcie.link.gen.max, pcie.link.width.max\n4, 8\n4, 8", Stated(), 13.12, None),
            ("index, name, pcie.link.gen.max\n0, NVIDIA A10G, 4\n1, NVIDIA A10G, 4", Stated(), 26.24, None),
            ("pcie.link.gen.max, pcie.link.width.max\n[N/A], [N/A]", Stated(), 13.12, "PCIe is gen 3 with 16 lanes"),
            (
                "        GPU Link Info\n            PCIe Generation\n                Max                       : 5\n"
                "                Current                   : 1\n            Link Width\n"
                "                Max                       : 16x\n                Current                   : 16x\n"
                * 2,
                *(Stated(), 52.48, None),
            ),
            ("H100", Stated(pcie_rate=100 * GB), 82, "PCIe is 100GB/s on the wire (topology.pcie_rate)"),
        ],
    )
    def test_pcie_is_that_of_the_gpu(self, words: str, stated: Stated, payload: float, source: str | None) -> None:
        text = f"{words}\n\n{matrix(full(2, 'NODE'))}"
        graph = files.read(text.encode(), "file", stated)
        assert {link.payload_rate for link in graph.links if link.kind == PCIE} == {round(payload * GB)}
        found = [line for line in graph.assumptions if line.startswith("PCIe")]
        assert found == [] if source is None else found[0].startswith(source)

    def test_sockets_are_those_of_machines_with_the_gpu(self) -> None:
        rows = matrix(full(2, "SYS"), ("0-9", "10-19"))
        assert "QPI" in read(rows).classes
        assert "xGMI" in read(f"NVIDIA A100-SXM4-40GB\n{rows}").classes
        assert "UPI" in read(f"NVIDIA H100 80GB HBM3\n{rows}").classes

    def test_a_gpu_that_is_stated_gives_what_the_text_leaves_open(self) -> None:
        text = matrix(full(8, "NV18")).encode()
        assert files.read(text, "file", Stated(gpu="b200")).link_unit == 50 * GB
        named = b"NVIDIA H100 80GB HBM3\n" + text
        assert files.read(named, "file", Stated(gpu="b200")).link_unit == 25 * GB

    def test_a_matrix_that_hides_nvlinks(self) -> None:
        (warning,) = read("NVIDIA H100 80GB HBM3\n" + matrix(full(2, "NODE"))).warnings
        assert warning.startswith("an H100 has 18 NVLinks, but there are none in the matrix (nvidia-smi topo -mp hides")
        assert read("NVIDIA H100 PCIe\n" + matrix(full(2, "NODE"))).warnings == ()

    def test_a_box_without_nvlinks(self) -> None:
        rows = ["X PIX PHB SYS", "PIX X PHB SYS", "PHB PHB X SYS", "SYS SYS SYS X"]
        graph = read(matrix(rows, ("0-9", "0-9", "0-9", "10-19")))
        assert Counter(node.kind for node in graph.nodes) == {"npu": 4, "switch": 1, "cpu": 2}
        assert graph.link_unit is None
        assert graph.warnings == ()

    def test_links_that_are_down(self) -> None:
        graph = read(matrix(["X NV2 N/A", "NV2 X N/A", "N/A N/A X"]))
        assert {link.count for link in graph.links if link.kind == NVLINK} == {2}

    def test_names_of_nics(self) -> None:
        text = "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tPXB\t0-55,112-167\t0\t\tN/A\n"
        graph = read(text + "NIC0\tPXB\t X \n\nNIC Legend:\n\n  NIC0: mlx5_bond_0\n")
        assert [node.name for node in graph.nodes if node.kind == "nic"] == ["NIC mlx5_bond_0"]

    @pytest.mark.parametrize(
        "text",
        [
            matrix(["X NV1", "NV2 X"]),
            matrix(["X NV1", "X NV1"]),
            matrix(["X OK", "OK X"]),
            matrix(["X", "NV1 X"]),
            matrix(["X NV99", "NV99 X"]),
            "\tGPU0\tGPU1\nGPU0\t X \tNV1\n",
            "\tGPU0\tGPU0\nGPU0\t X \tNV1\n",
            "\tGPU0\nGPU0\t X \nGPU0\t X\n",
        ],
    )
    def test_refusals(self, text: str, snapshot: SnapshotAssertion) -> None:
        assert refusals(text) == snapshot


EDGES = """\
nodes: [A, B, {name: S, kind: switch}]
defaults: {rate: 25GB/s, latency: 1us}
links:
  - {from: A, to: S}
  - {from: 1, to: S, rate: 50GB/s, links: 2, class: NVLink, efficiency: 94%}
"""


class TestEdges:
    def test_links_lead_both_ways(self) -> None:
        graph = read(EDGES)
        assert [node.name for node in graph.nodes] == ["A", "B", "S"]
        ends = [(link.src, link.dst, link.rate, link.latency, link.kind, link.count) for link in graph.links]
        assert ends == [
            (0, 2, 25 * GB, 1_000_000, "link", 1),
            (2, 0, 25 * GB, 1_000_000, "link", 1),
            (1, 2, 50 * GB, 1_000_000, "NVLink", 2),
            (2, 1, 50 * GB, 1_000_000, "NVLink", 2),
        ]
        assert (graph.link_unit, graph.assumptions, graph.warnings) == (47 * GB, (), ())

    @pytest.mark.parametrize(
        ("kind", "pairs", "seconds"),
        [("switch", ["AS", "BS", "CS"], 320e6 / 20e9), ("npu", ["AB", "AC", "AS", "BC", "BS", "CS"], 120e6 / 10e9)],
    )
    def test_parallel_links_to_a_switch_carry_messages_together(
        self, kind: str, pairs: list[str], seconds: float, tmp_path: Path
    ) -> None:
        """As those of `Switch(3, links=2)` do; of those between two NPUs a message takes one."""
        file = tmp_path / "t.yaml"
        links = "".join(f"  - {{from: {pair[0]}, to: {pair[1]}}}\n" for pair in pairs)
        file.write_text(
            f"nodes: [A, B, C, {{name: S, kind: {kind}}}]\n"
            f"defaults: {{rate: 10GB/s, latency: 1us, links: 2}}\nlinks:\n{links}"
        )
        found = syncline.collective("all-gather", "480MB", topology_file=file, algorithm="direct", backend="flow")
        assert found.time_s == pytest.approx(seconds, rel=1e-3)

    def test_directed_links_lead_one_way(self) -> None:
        graph = read(EDGES + "directed: true\nname: half\n")
        assert (len(graph.links), graph.name) == (2, "half")
        assert len(graph.warnings) == 2

    def test_directed_is_said_of_the_file(self) -> None:
        text = "npus: 2\nlinks: [{from: 0, to: 1, rate: 1GB/s, directed: true}]\n"
        assert "links.0.directed: this key is not known here; it stands at the top of the file" in refusals(text)

    def test_npus_by_number(self) -> None:
        graph = read("npus: 3\nlinks:\n  - {from: 0, to: 1, rate: 1GB/s}\n  - {from: 1, to: NPU 2, rate: 1GB/s}\n")
        assert (graph.npus, len(graph.links)) == (3, 4)
        assert graph.assumptions == ("links that do not state a latency take 500ns",)

    @pytest.mark.parametrize("indent", [None, 2, "\t"])
    def test_json(self, indent: int | str | None) -> None:
        value = {
            "nodes": ["A", "B", {"name": "S", "kind": "switch"}],
            "defaults": {"rate": "25GB/s", "latency": "1us"},
            "links": [
                {"from": "A", "to": "S"},
                {"from": 1, "to": "S", "rate": "50GB/s", "links": 2, "class": "NVLink", "efficiency": "94%"},
            ],
        }
        assert shape(read(json.dumps(value, indent=indent))) == shape(read(EDGES))

    def test_switches_may_come_first(self) -> None:
        graph = read(
            "nodes: [{name: S, kind: switch}, A, B]\n"
            "links: [{from: 0, to: 1, rate: 1GB/s}, {from: 0, to: B, rate: 1GB/s}]"
        )
        assert [node.name for node in graph.nodes] == ["A", "B", "S"]
        assert {(link.src, link.dst) for link in graph.links} == {(0, 2), (2, 0), (1, 2), (2, 1)}

    @pytest.mark.parametrize(
        "text",
        [
            "- 1\n",
            "links: []\n",
            "nodes: [A, B]\n",
            "nodes: [A, A]\nlinks: []\n",
            "nodes: [{kind: switch}, {name: B, kind: swich}, 3.5]\nlinks: []\n",
            "nodes: 3\nlinks: 4\ndirected: maybe\nnpus: -1\ndefaults: 3\nname: [1]\n",
            "npus: 2\nlink: []\nlinks:\n  - {from: 0}\n  - {from: 0, to: 2, rate: 1GB/s}\n  - 7\n",
            "npus: 2\nlinks:\n  - {from: 0, to: 1, rate: 25, latency: 1GB/s, links: 0, efficiency: 2, weight: 3}\n",
            "npus: 2\nlinks:\n  - {from: 0, to: 0, rate: 1B/s, efficiency: 1%}\n",
            "nodes: [Alpha, Beta]\nlinks:\n  - {from: Alhpa, to: Beta, rate: 1GB/s}\n",
            "nodes: [{name: S, kind: switch}]\nlinks: []\n",
            "hello: [",
            "",
            b"\xff\xfe\x00",
            b"abc\n\xffdef",
        ],
    )
    def test_refusals(self, text: str | bytes, snapshot: SnapshotAssertion) -> None:
        assert refusals(text) == snapshot


def test_files_that_are_none(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere.xml"):
        with pytest.raises(InputError):
            files.load(path)
    path = tmp_path / "dgx1.xml"
    path.write_text(dgx1_xml())
    assert files.load(path).name == str(path)


PIECES = st.sampled_from(
    [
        *(
            "<system>",
            "</system>",
            "<cpu ",
            ">",
            "</cpu>",
            "<pci ",
            "</pci>",
            "<gpu ",
            "</gpu>",
            "<nvlink ",
            "/>",
            "<nic>",
        ),
        *('busid="0:1:0.0" ', 'class="0x030200" ', 'count="1" ', 'target="0:1:0.0" ', 'tclass="0x068000" ', 'dev="0" '),
        *(
            "GPU0",
            "GPU1",
            "\t",
            "\n",
            " X ",
            "NV1",
            "NV18",
            "SYS",
            "PIX",
            "NIC0",
            "mlx5_0",
            "CPU Affinity",
            "0-7",
            "Legend:",
        ),
        *(
            "nodes: ",
            "npus: 2\n",
            "links: ",
            "- ",
            "{from: 0, to: 1, rate: 1GB/s}",
            "[",
            "]",
            "{",
            "}",
            ", ",
            "kind: switch",
        ),
        *(
            "Nodes 4\n",
            "Tiers 2\n",
            "Podsize 4\n",
            "Tier 1\n",
            "Radix_Down 2\n",
            "Bundle 0\n",
        ),
        *(
            "directed: true\n",
            "&a",
            "<!DOCTYPE x>",
            "<!-- ",
            " -->",
            "\x00",
            "\x1b[4m",
            "\u2028",
            "99999999999999999999",
        ),
    ]
)
MANY = settings(max_examples=400, deadline=None)


def is_graph_or_refused(data: bytes) -> None:
    """What every file comes to."""
    try:
        graph = files.read(data, "fuzz")
    except InputError as error:
        assert all(problem.message for problem in error.problems)
    else:
        assert graph.specification()["npus"] >= 1


@MANY
@given(st.lists(PIECES, max_size=40).map("".join))
def test_fragments(text: str) -> None:
    is_graph_or_refused(text.encode("utf-8", "surrogatepass"))


@MANY
@given(st.binary(max_size=200))
def test_bytes(data: bytes) -> None:
    is_graph_or_refused(data)


@MANY
@given(
    st.sampled_from(
        [
            dgx1_xml(),
            nvswitch_xml(("0000:c4:00.0",), 12, 80),
            CLOUD_XML,
            dgx1_matrix(),
            matrix(full(8, "NV12")),
            EDGES,
            TREE,
        ]
    ),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), PIECES | st.just("")), min_size=1, max_size=4),
)
def test_damaged_files(text: str, changes: list[tuple[float, int, str]]) -> None:
    for place, length, piece in changes:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + length :]
    is_graph_or_refused(text.encode())
