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
from syncline.base.errors import InputError
from syncline.fabric import files, notation
from syncline.fabric.graph import C2C, NVLINK, NVSWITCH, PCIE, Graph

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

    def test_all_links_of_a_gpu_to_its_cpu_count(self) -> None:
        """`bw` is that of one, in MB/s."""
        gpu = '<gpu dev="0" sm="90" rank="0"><c2c bw="45000" count="10"/></gpu>'
        graph = read(f'<system><cpu><pci busid="0000:01:00.0" class="0x030200">{gpu}</pci></cpu></system>')
        found = {(link.rate, link.count, link.total_rate) for link in graph.links if link.kind == C2C}
        assert found == {(45 * GB, 10, 450 * GB)}

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

    def test_a_box_without_nvlinks(self) -> None:
        rows = ["X PIX PHB SYS", "PIX X PHB SYS", "PHB PHB X SYS", "SYS SYS SYS X"]
        graph = read(matrix(rows, ("0-9", "0-9", "0-9", "10-19")))
        assert Counter(node.kind for node in graph.nodes) == {"npu": 4, "switch": 1, "cpu": 2}
        assert graph.link_unit is None
        assert graph.warnings == ()

    def test_what_is_near_by_numa_is_of_one_socket_whatever_its_cpus_are(self) -> None:
        """GPUs of one NUMA node may each have cores of their own; where no NUMA nodes are named, cores decide."""
        cores = ("0-7", "8-15", "16-23", "24-31")
        for numa, sockets in ((("0", "0", "1", "1"), 2), (("0", "1", "2", "3"), 4), (("0", "0", "0", "0"), 1)):
            affinities = [f"{own}\t{node}" for own, node in zip(cores, numa, strict=True)]
            graph = read(matrix(full(4, "NV4"), affinities))
            assert Counter(node.kind for node in graph.nodes) == {"npu": 4, "cpu": sockets}
        assert Counter(node.kind for node in read(matrix(full(4, "NV4"), cores)).nodes) == {"npu": 4, "cpu": 4}

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
            "<xgmi>",
            "/>",
            "<nic>",
        ),
        *('vendor="0x10de" ', 'device="0x2330" ', 'sm="90" ', 'link_speed="32 GT/s" ', 'link_width="255" '),
        *("NVIDIA H100 80GB HBM3\n", "A100", "pcie.link.gen.max, pcie.link.width.max\n", "5, 16\n", "/ 81559MiB"),
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
