"""Where the figures of an NPU come from: its machine, a named GPU, what is stated, or the ACE paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended
from support.experiments import complaints, study
from support.topologies import dgx1_xml, full, matrix, nvswitch_xml
from syncline.engine import assumptions, completing
from syncline.engine import runs as engine
from syncline.fabric.machines import MACHINES
from syncline.fabric.topologies import Wired
from syncline.sections.experiment import Experiment
from syncline.sections.npu import FIGURES

Command = Callable[..., Ended]

RESNET = """\
name: machine
topology: {topology}
workload: {{model: resnet50, batch: 64}}
training: {{iterations: 1, update: false}}
network: analytical
collective: {{algorithm: ring, chunks: 1}}
"""
ENDLESS = "9PB/s"
"""More memory bandwidth than any kernel can use."""


def experiment(topology: str, *settings: str) -> Experiment:
    """ResNet-50 on a topology."""
    return study(RESNET.format(topology=topology), *settings).variants[0].experiment


def compute_s(topology: str, *settings: str) -> float:
    """What an iteration of it computes."""
    (variant,) = study(
        RESNET.format(topology=topology), "npu.compute.kind=roofline", "endpoint.kind=ideal", *settings
    ).variants
    return float(engine.run(variant).summary["compute_ps"]) / 1e12


def said(topology: str, *settings: str) -> list[str]:
    """What is assumed of it."""
    return assumptions.of(study(RESNET.format(topology=topology), *settings).variants)


class TestFigures:
    @pytest.mark.parametrize("name", MACHINES)
    def test_a_machine_brings_its_gpu(self, name: str) -> None:
        gpu, npu = MACHINES[name].gpu, experiment(name).npu
        assert (npu.gpu, npu.peak, npu.sms, npu.clock) == (gpu.name, gpu.peaks["fp16"], gpu.sms, gpu.clock)
        assert (npu.memory, npu.memory_bandwidth) == (gpu.memory, gpu.memory_bandwidth)
        assert npu.model_fields_set == set()
        assert npu.changed == []

    def test_a_cluster_and_an_allocation_have_the_same(self) -> None:
        whole = experiment("dgx-h200").npu
        assert experiment("dgx-h200(nodes=4, nics=single)").npu == whole
        assert experiment("dgx-h200", "gpus=0-3").npu == whole

    def test_a_topology_that_is_no_machine_has_the_npu_of_the_ace_paper(self) -> None:
        npu = experiment("Ring(4)").npu
        assert (npu.gpu, npu.peak, npu.sms, npu.clock) == (None, 120 * 10**12, 80, 1_245_000_000)
        assert (npu.memory, npu.memory_bandwidth, npu.bus) == (None, 900 * 10**9, 500 * 10**9)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *(("sms", "66"), ("peak", "500TFLOP/s"), ("clock", "1GHz"), ("memory_bandwidth", "1TB/s")),
            *(("memory", "40GB"), ("bus", "2TB/s"), ("sm_read", "128B")),
        ],
    )
    def test_a_field_that_is_stated_is_the_only_one_that_changes(self, field: str, value: str) -> None:
        whole, changed = experiment("dgx-h100").npu, experiment("dgx-h100", f"npu.{field}={value}").npu
        assert [name for name in FIGURES if getattr(whole, name) != getattr(changed, name)] == [field]
        assert changed.changed == [field]

    def test_a_gpu_can_be_named(self) -> None:
        ring, other = experiment("Ring(4)", "npu.gpu=b200"), experiment("dgx-a100", "npu.gpu=a100-40gb")
        assert ring.npu.peak == 2250 * 10**12
        assert other.npu.memory_bandwidth == 1555 * 10**9

    def test_variants_have_those_of_their_own_topology(self) -> None:
        text = RESNET.format(topology="dgx1v") + "variants: [{name: A}, {name: B, topology: dgx-b200}]\n"
        assert [v.experiment.npu.gpu for v in study(text).variants] == ["v100-32gb", "b200"]

    def test_communication_is_not_throttled_by_the_figures_of_a_paper(self, syncline_command: Command) -> None:
        """A B200 sends 900 GB/s, for which a baseline reads 1.5 times as much."""
        arguments = ("--machine", "dgx-b200", "--endpoint", "baseline", "--backend", "flow", "--json")
        ended = syncline_command("collective", "all-reduce", "--size", "256MB", *arguments)
        document = json.loads(ended.out)
        assert document["bus_bandwidth_bytes_per_s"] > 0.9 * 900e9
        assert document["efficiency"] <= 1


GPT = """\
name: t
topology: {topology}
workload:
  model: gpt2
  global_batch: 8
  parameters: {{layers: 2, hidden: 256, heads: 4, vocabulary: 1024, positions: 128}}
training: {{iterations: 1, update: false}}
network: analytical
collective: {{algorithm: ring, chunks: 1}}
"""
NV18 = matrix(full(4, "NV18"))
NAMED = f"NVIDIA H100 80GB HBM3\n\n{NV18}"
OF_ANOTHER = "or npu.peak and npu.memory_bandwidth of another GPU"


class TestTopologyFiles:
    """Files of machines of GPUs say what their GPU is, or a training asks."""

    def file(self, tmp_path: Path, text: str, name: str = "topo.txt") -> str:
        path = tmp_path / name
        path.write_text(text)
        return f"{{file: {path}}}"

    @pytest.mark.parametrize("template", [GPT, RESNET])
    def test_the_gpu_follows_and_is_assumed(self, tmp_path: Path, template: str) -> None:
        (variant,) = study(template.format(topology=self.file(tmp_path, NAMED))).variants
        assert (variant.experiment.npu.gpu, variant.experiment.npu.peak) == ("h100", 989_400 * 10**9)
        lines = assumptions.of([variant])
        assert "npu.gpu = h100 (NVIDIA H100 SXM5, as the file names it)" in lines
        xml = nvswitch_xml(("0000:61:00.0",), 18, 90).replace('class="0x030200"', 'class="0x030200" device="0x2335"')
        (variant,) = study(template.format(topology=self.file(tmp_path, xml))).variants
        assert variant.experiment.npu.gpu == "h200"
        lines = assumptions.of([variant])
        assert "npu.gpu = h200 (NVIDIA H200 SXM5, PCI device 0x2335 in the file)" in lines

    @pytest.mark.parametrize("command", ["run", "check", "explain", "fit", "search", "sweep"])
    def test_a_training_asks_where_it_does_not_follow(
        self, syncline_command: Command, tmp_path: Path, command: str
    ) -> None:
        self.file(tmp_path, NV18)
        text = GPT.format(topology="{file: topo.txt}")
        if command == "search":
            text += "search: {tensor: [1, 2]}\n"
        if command == "sweep":
            body = "".join(f"  {line}\n" for line in text.splitlines() if not line.startswith("name"))
            text = f"name: t\nbase:\n{body}axes:\n  parallel.micro_batch: [1, 2]\n"
        (tmp_path / "t.yaml").write_text(text)
        ended = syncline_command(command, str(tmp_path / "t.yaml"))
        assert (ended.status, ended.out) == (2, "")
        assert "npu.gpu: which GPU trains does not follow from topo.txt: it does not name the GPU, and there are" in (
            ended.err
        )
        assert f"accepted: h100-pcie, h100-nvl, h100, h200, b200, gb200; {OF_ANOTHER}" in ended.err
        assert ended.err.count("accepted:") == 1

    def test_what_it_may_be_told(self, tmp_path: Path) -> None:
        text = GPT.format(topology=self.file(tmp_path, NV18))
        (variant,) = study(text, "npu.gpu=b200").variants
        assert variant.experiment.npu.memory_bandwidth == 8000 * 10**9
        assert variant.experiment.topology.graph.link_unit == 50 * 10**9  # type: ignore[union-attr]
        (variant,) = study(text, "npu.peak=148TFLOP/s", "npu.memory_bandwidth=4TB/s").variants
        assert (variant.experiment.npu.gpu, variant.experiment.npu.peak) == (None, 148 * 10**12)
        assert "npu.gpu: which GPU trains" in complaints(text, "npu.peak=148TFLOP/s")
        assert "npu.gpu: which GPU trains" in complaints(text, "workload.precision=bf16")
        assert "one peak rate" not in complaints(text, "workload.precision=bf16")

    def test_a_gpu_whose_figures_are_not_known(self, tmp_path: Path) -> None:
        card = self.file(tmp_path, f"NVIDIA H200 NVL\n{matrix(full(2, 'NODE'))}")
        found = complaints(GPT.format(topology=card))
        assert "it names an H200 NVL 141 GB, whose figures are not known" in found
        assert f"accepted: h200; {OF_ANOTHER}" in found
        xml = '<system><cpu><pci busid="0:1:0.0" class="0x120000" vendor="0x1002" device="0x74a1"><gpu dev="0"/></pci>'
        found = complaints(GPT.format(topology=self.file(tmp_path, f"{xml}</cpu></system>", "amd.xml")))
        assert "its GPUs are of the PCI vendor 0x1002, of which no GPU is known" in found
        assert "accepted: npu.peak and npu.memory_bandwidth of the GPU; or the GPU that is nearest" in found

    def test_only_trainings_ask_and_only_of_gpus(self, tmp_path: Path) -> None:
        collective = "name: c\ntopology: {topology}\nworkload: {{collective: all-reduce, size: 1MB}}\n"
        assert study(collective.format(topology=self.file(tmp_path, NV18))).variants[0].experiment.npu.gpu is None
        links = "npus: 4\nlinks: [{from: 0, to: 1, rate: 1GB/s}, {from: 1, to: 2, rate: 1GB/s}, "
        links += "{from: 2, to: 3, rate: 1GB/s}, {from: 3, to: 0, rate: 1GB/s}]\n"
        for topology in (self.file(tmp_path, links, "links.yaml"), "Torus(2,2)", '"FatTree(k=2, rate=1GB/s)"'):
            assert study(RESNET.format(topology=topology)).variants[0].experiment.npu.peak == 120 * 10**12

    @pytest.mark.parametrize("text", [NAMED, NV18])
    def test_pcie_is_stated_where_the_file_leaves_it_open(self, tmp_path: Path, text: str) -> None:
        rate = "topology.pcie_rate=128GB/s"
        (variant,) = study(GPT.format(topology=self.file(tmp_path, text)), rate, "npu.gpu=h100").variants
        fabric = variant.experiment.topology
        assert isinstance(fabric, Wired)
        assert {link.rate for link in fabric.graph.links if link.kind == "PCIe"} == {128 * 10**9}
        assert variant.experiment.model_dump(mode="json")["topology"]["pcie_rate"] == "128GB/s"

    def test_pcie_that_cannot_be_stated(self, tmp_path: Path) -> None:
        xml = self.file(tmp_path, dgx1_xml(), "topo.xml")
        text = "name: c\ntopology: {topology}\nworkload: {{collective: all-reduce, size: 1MB}}\n"
        found = complaints(text.format(topology=xml), "topology.pcie_rate=16GB/s")
        assert "topology.pcie_rate: the file says the rate of all its links" in found
        found = complaints(text.format(topology=self.file(tmp_path, NV18)), "topology.pcie_rate=16")
        assert "topology.pcie_rate: the number has no unit" in found

    def test_a_resolved_experiment_is_the_same(self, syncline_command: Command, tmp_path: Path) -> None:
        path, out = tmp_path / "t.yaml", tmp_path / "out"
        self.file(tmp_path, NV18)
        path.write_text(GPT.format(topology="{file: topo.txt, pcie_rate: 128GB/s}") + "npu: {gpu: b200}\n")
        assert syncline_command("run", str(path), "--out", str(out)).status == 0
        documents = [
            json.loads(syncline_command("run", str(file), "--json").out)["runs"][0]
            for file in (path, out / "experiment.resolved.yaml")
        ]
        assert documents[0]["hardware"] == documents[1]["hardware"]
        assert documents[0]["total_time_s"] == documents[1]["total_time_s"]


class TestPrecision:
    @pytest.mark.parametrize(
        ("machine", "settings", "precision", "tflops", "element"),
        [
            ("dgx-h100", [], "fp16", 989.4, 2),
            ("dgx1p", [], "fp16", 21.2, 2),
            ("dgx-h100", ["workload.element=1B"], "fp8", 1978.9, 1),
            ("dgx1v", ["workload.element=1B"], "fp16", 125, 1),
            ("dgx-a100", ["workload.element=4B"], "fp32", 19.5, 4),
            ("dgx-a100", ["workload.precision=tf32"], "tf32", 156, 4),
            ("dgx-a100", ["workload.precision=bf16"], "bf16", 312, 2),
            ("dgx-b200", ["workload.precision=fp8", "workload.element=2B"], "fp8", 4500, 2),
            ("gb200-nvl72", ["workload.precision=fp64"], "fp64", 40, 8),
        ],
    )
    def test_it_decides_on_the_peak(
        self, machine: str, settings: list[str], precision: str, tflops: float, element: int
    ) -> None:
        found = experiment(machine, *settings)
        assert (found.precision, found.npu.peak) == (precision, round(tflops * 1e12))
        assert found.workload.element == element

    @pytest.mark.parametrize(
        ("topology", "settings", "message"),
        [
            ("dgx1v", ["workload.precision=bf16"], "the NVIDIA V100 SXM2 32 GB has no units for this data type"),
            ("Ring(4)", ["workload.precision=fp16"], "the NPU of the ACE paper has one peak rate"),
            (
                "dgx-h100",
                ["workload.precision=bf16", "npu.peak=1PFLOP/s", "workload.element=4B"],
                "npu and workload.element state all that the precision would decide",
            ),
            ("dgx1v", ["workload.precision=fp12"], "this is not a known data type"),
            ("dgx1v", ["npu.gpu=gb20"], "this is not a known GPU; did you mean 'gb200'?"),
        ],
    )
    def test_it_is_honoured_or_refused(self, topology: str, settings: list[str], message: str) -> None:
        assert message in complaints(RESNET.format(topology=topology), *settings)

    def test_a_stated_peak_leaves_the_width(self) -> None:
        found = experiment("Ring(4)", "npu.peak=50TFLOP/s", "workload.precision=fp32")
        assert (found.npu.peak, found.workload.element) == (50 * 10**12, 4)


class TestComputeTime:
    """Of the roofline, each ceiling alone is a closed form."""

    @pytest.mark.parametrize("name", ["dgx1p", "dgx1v", "dgx-a100", "dgx-h100", "dgx-b200"])
    def test_without_a_memory_ceiling_it_is_operations_over_the_peak(self, name: str) -> None:
        """4.09 billion multiply-accumulates per image, three passes of two operations each, but for the input gradient
        of the first layer (0.12 billion)."""
        operations = 64 * 2e9 * (3 * 4.09 - 0.12)
        found = compute_s(name, f"npu.memory_bandwidth={ENDLESS}")
        assert found == pytest.approx(operations / MACHINES[name].gpu.peaks["fp16"], rel=0.02)

    def test_the_ceilings_scale_as_the_figures_do(self) -> None:
        h100, a100 = MACHINES["dgx-h100"].gpu, MACHINES["dgx-a100"].gpu
        by_peak = [compute_s(name, f"npu.memory_bandwidth={ENDLESS}") for name in ("dgx-a100", "dgx-h100")]
        assert by_peak[0] / by_peak[1] == pytest.approx(h100.peaks["fp16"] / a100.peaks["fp16"], rel=1e-6)
        by_memory = [compute_s(name, "npu.peak=9000PFLOP/s") for name in ("dgx-a100", "dgx-h100")]
        assert by_memory[0] / by_memory[1] == pytest.approx(h100.memory_bandwidth / a100.memory_bandwidth, rel=1e-6)
        both = compute_s("dgx-h100")
        assert max(by_peak[1], by_memory[1]) <= both <= by_peak[1] + by_memory[1]

    def test_every_generation_is_faster(self) -> None:
        times = [compute_s(name) for name in ("dgx1p", "dgx1v", "dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200")]
        assert times == sorted(times, reverse=True)
        assert len(set(times)) == len(times)


class TestWhatIsSaid:
    def test_assumptions(self) -> None:
        lines = said("dgx-h100", "npu.sms=100", "npu.compute.kind=roofline")
        for line in (
            "npu.gpu = h100 (NVIDIA H100 SXM5, that of the machine)",
            "npu.peak = 989.4TFLOP/s (dense peak of the GPU for fp16)",
            "npu.memory_bandwidth = 3350GB/s (of the GPU)",
            "npu.memory = 81080MiB (of the GPU)",
            "npu.reserved = 1GiB (of npu.memory, assumed for CUDA's context and the buffers of NCCL)",
            "workload.precision = fp16 (elements have 2B)",
            "kernels run at npu.peak or at full memory bandwidth, whichever takes longer; real kernels are slower",
        ):
            assert line in lines
        assert not [line for line in lines if line.startswith("npu.sms") and "of the GPU" in line]
        assert "npu.peak = 120TFLOP/s (default)" in said("Ring(4)")
        assert not [line for line in said("Ring(4)") if "npu.gpu" in line or "npu.memory =" in line]

    def test_shares_that_follow_from_the_npu(self, syncline_command: Command, tmp_path: Path) -> None:
        """450 GB/s and 6 SMs of the ACE paper's NPU, and the same proportion of others."""
        (tmp_path / "a.yaml").write_text(RESNET.format(topology="Ring(4)"))
        ended = syncline_command("run", str(tmp_path / "a.yaml"), "--endpoint", "baseline", "--json")
        lines = json.loads(ended.out)["assumptions"]
        share = "auto: half of npu.memory_bandwidth, as CommOpt of the ACE paper"
        assert f"endpoint.comm_memory_bandwidth = 450GB/s ({share})" in lines
        assert "endpoint.comm_sms = 6 (auto: as many SMs as that bandwidth needs, as CommOpt of the ACE paper)" in lines
        endpoint = "endpoint={kind: baseline, comm_memory_bandwidth: auto, comm_sms: auto}"
        specification = completing.specification(experiment("dgx-h100", endpoint))["endpoint"]
        assert specification["memory_bytes_per_s"] == 3350 * 10**9 // 2
        reads = specification["sm_bytes_per_s"] / (64 * 1830 * 10**6)
        assert specification["memory_bytes_per_s"] <= specification["sm_bytes_per_s"]
        assert reads == 15

    def test_the_headline_and_the_documents(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "m.yaml"
        path.write_text(RESNET.format(topology="dgx-h200"))
        line = "NVIDIA H200 SXM5: 989.4 TFLOP/s (fp16), 132 SMs, 4.8 TB/s, 139.8 GiB"
        assert syncline_command("run", str(path)).out.startswith(f"machine on {line}\n")
        (entry,) = json.loads(syncline_command("run", str(path), "--json").out)["runs"]
        assert entry["hardware"] == {
            "npu": "NVIDIA H200 SXM5",
            "gpu": "h200",
            "stated": [],
            "precision": "fp16",
            "peak_flops_per_s": 989_400_000_000_000,
            "sms": 132,
            "clock_hz": 1_830_000_000,
            "memory_bandwidth_bytes_per_s": 4_800_000_000_000,
            "memory_bytes": 143_165 * 2**20,
            "bus_bytes_per_s": 4_800_000_000_000,
            "description": line,
        }
        out = tmp_path / "out"
        assert syncline_command("run", str(path), "--out", str(out), "--set", "npu.sms=66").status == 0
        assert "NPUs: NVIDIA H200 SXM5 (stated: sms): " in (out / "report.html").read_text()

    def test_variants_on_different_npus(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "m.yaml"
        path.write_text(RESNET.format(topology="dgx1p") + "variants: [{name: A}, {name: B, topology: Ring(8)}]\n")
        out = syncline_command("run", str(path)).out
        assert "A: NVIDIA P100 SXM2: 21.2 TFLOP/s (fp16), 56 SMs, 732 GB/s, 15.9 GiB\n" in out
        assert "B: NPU of the ACE paper: 120 TFLOP/s, 80 SMs, 900 GB/s\n" in out

    def test_a_resolved_experiment_says_the_same(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "m.yaml"
        path.write_text(RESNET.format(topology="dgx-b200") + "endpoint: ideal\n")
        assert syncline_command("run", str(path), "--out", str(tmp_path / "out")).status == 0
        documents: list[dict[str, Any]] = []
        for file in (path, tmp_path / "out" / "experiment.resolved.yaml"):
            documents.append(json.loads(syncline_command("run", str(file), "--json").out)["runs"][0])
        assert documents[0]["hardware"] == documents[1]["hardware"]
        assert documents[0]["total_time_s"] == documents[1]["total_time_s"]

    def test_the_schema(self, syncline_command: Command) -> None:
        schema = json.loads(syncline_command("schema").out)["$defs"]
        assert set(schema["Npu"]["properties"]) == {"gpu", "compute", "power", "host_kernel_time", *FIGURES}
        assert "precision" in schema["ModelWorkload"]["properties"]
        assert "auto" in json.dumps(schema["BaselineEndpoint"]["properties"]["comm_sms"])


class TestCollective:
    def test_what_nobody_stated_stands_on_the_terminal(self, syncline_command: Command) -> None:
        ended = syncline_command("collective", "all-reduce", "--size", "64MB", "--topology", "Torus(4,8,4)")
        text = " ".join(ended.err.split())
        for part in (
            "assumed (-v says more): topology: rate=50GB/s, latency=500ns, links=1, efficiency=100%;",
            *("network.backend = flow", "endpoint.kind = ideal", "the fastest that were tried"),
        ):
            assert part in text
        assert "auto chose " in ended.out
        assert "assumed" not in syncline_command("collective", *COLLECTIVE, "-q").err
        assert "assumed" not in syncline_command("collective", *COLLECTIVE, "--json").err

    def test_what_is_stated_is_not_assumed(self, syncline_command: Command) -> None:
        stated = ("--backend", "flow", "--endpoint", "ideal", "--algorithm", "ring", "--chunk", "64MB")
        err = syncline_command("collective", *COLLECTIVE, *stated).err
        text = " ".join(err.split())
        assert "topology: links=1, efficiency=100%;" in text
        assert not [word for word in ("backend", "endpoint.kind", "algorithm", "collective.chunk") if word in text]

    def test_what_is_set_is_not_assumed(self, syncline_command: Command) -> None:
        settings = ("collective.chunks=4", "network.backend=flow", "endpoint.kind=ideal")
        flags = [word for setting in settings for word in ("--set", setting)]
        lines = json.loads(syncline_command("collective", *COLLECTIVE, *flags, "--json").out)["assumptions"]
        paths = {line.split(" = ")[0] for line in lines}
        assert paths >= {"collective.lanes"}
        assert not paths & {"collective.chunks", "network.backend", "endpoint.kind"}

    def test_clusters(self, syncline_command: Command) -> None:
        arguments = ("--size", "1MB", "--machine", "dgx-h100(nodes=2)", "--algorithm", "ring")
        ended = syncline_command("collective", "all-reduce", *arguments)
        text = " ".join(ended.err.split())
        for part in (
            "links of class PCIe carry 52.48GB/s of payload, 82 % of 64GB/s on the wire",
            *("a NIC has 50GB/s each way", "links of class InfiniBand take 500ns each", "npu.gpu = h100"),
        ):
            assert part in text
        assert "NVIDIA H100 SXM5: 132 SMs, 3.35 TB/s, 79.18 GiB" in ended.out

    def test_a_nic_that_pcie_cannot_feed_is_warned_of(self, syncline_command: Command) -> None:
        machine = "dgx-h100(nodes=2, nic_rate=100GB/s)"
        ended = syncline_command("collective", *("all-reduce", "--size", "1MB", "--machine", machine))
        assert "a NIC has 100GB/s each way, but the PCIe link that it is on carries 52.48GB/s" in ended.err


COLLECTIVE = ("all-reduce", "--size", "64MB", "--topology", "Ring(8, rate=25GB/s, latency=1us)")
