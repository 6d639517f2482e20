"""What topology files of GPUs say of their GPUs, and what links follow from it."""

from __future__ import annotations

import pytest

from support.topologies import full, matrix, nvswitch_xml, of_devices
from syncline.fabric import files
from syncline.fabric.gpu_products import Stated
from syncline.fabric.graph import PCIE, Graph

GB = 10**9

AMPERE = ("a100-40gb", "a100-80gb", "a100-pcie-40gb", "a100-pcie-80gb")
HOPPER = ("h100-pcie", "h100-nvl", "h100", "h200")


def read(text: str, stated: Stated | None = None) -> Graph:
    """The fabric in a file."""
    return files.read(text.encode(), "file", stated)


class TestNccl:
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
            ("0x20F5", None, "PCI device 0x20f5 is an A800 PCIe 80 GB, whose figures are not known"),
            ("0x2331", "h100-pcie", "PCI device 0x2331 in the file"),
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
        assert (mixed.gpu, mixed.candidates) == (None, (*AMPERE, *HOPPER[:3]))
        assert (amd.gpu, amd.candidates) == (None, ())
        assert amd.because == "its GPUs are of the PCI vendor 0x1002, of which no GPU is known"

    def test_a_compute_capability_leaves_several_gpus(self) -> None:
        known = read(nvswitch_xml(("0000:61:00.0",), 18, 90)).hardware
        assert known is not None
        assert (known.gpu, known.candidates) == (None, HOPPER)

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

    def test_a_gpu_alone_needs_no_nvlinks(self) -> None:
        assert read(of_devices("0x2330")).warnings == read(of_devices("")).warnings == ()

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
        graph = read(of_devices(device, device, link=link), stated)
        assert {found.payload_rate for found in graph.links if found.kind == PCIE} == {round(payload * GB)}
        assert graph.hardware is not None
        assert graph.hardware.leaves_pcie_open == ("GT/s" not in link)


class TestMatrix:
    @pytest.mark.parametrize(
        ("words", "rows", "gpu"),
        [
            ("NVIDIA H100 80GB HBM3", full(8, "NV18"), "h100"),
            ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nGPU 1: NVIDIA H100 80GB HBM3", full(4, "NV18"), "h100"),
            ("|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |", full(4, "NV18"), "h100"),
            ("# DGX H100", full(8, "NV18"), "h100"),
            ("8x H100", full(8, "NV18"), "h100"),
            ("H100", full(2, "PHB"), None),  # an SXM module, or a card
            ("NVIDIA H100 PCIe", full(2, "NV12"), "h100-pcie"),
            ("NVIDIA H100 NVL", full(2, "NV12"), "h100-nvl"),
            ("NVIDIA H200", full(8, "NV18"), "h200"),
            ("NVIDIA H200 NVL", full(4, "NV6"), None),
            ("NVIDIA B200", full(8, "NV18"), "b200"),
            ("NVIDIA GB200", full(4, "NV18"), "gb200"),
            ("NVIDIA A100-SXM4-40GB", full(8, "NV12"), "a100-40gb"),
            ("NVIDIA A100-SXM4-80GB", full(8, "NV12"), "a100-80gb"),
            ("A100 80GB", full(8, "NV12"), "a100-80gb"),
            ("NVIDIA A100 80GB PCIe", full(2, "NV12"), "a100-pcie-80gb"),
            ("A100-PCIE-40GB", full(2, "PHB"), "a100-pcie-40gb"),
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
        assert known.candidates == (*HOPPER, "b200", "gb200")
        assert known.because == "it does not name the GPU, and there are several with 18 NVLinks"

    @pytest.mark.parametrize(
        ("words", "because", "candidates"),
        [
            ("GPU 0: NVIDIA L40S (UUID: GPU-1)", "it names NVIDIA L40S, which is not known", ()),
            (
                "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)",
                "it names GPUs that differ (NVIDIA H100 80GB HBM3, NVIDIA H200)",
                HOPPER,
            ),
        ],
    )
    def test_names_that_decide_nothing(self, words: str, because: str, candidates: tuple[str, ...]) -> None:
        known = read(f"{words}\n\n{matrix(full(2, 'NODE'))}").hardware
        assert known is not None
        assert (known.gpu, known.because, known.candidates) == (None, because, candidates)

    def test_pairs_with_all_nvlinks_of_a_gpu_may_be_behind_switches(self) -> None:
        known = read(matrix(full(4, "NV6"))).hardware
        assert known is not None
        assert known.candidates == ("v100-16gb", "v100-32gb", *HOPPER, "b200", "gb200")

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
        graph = read(text, stated)
        assert {link.payload_rate for link in graph.links if link.kind == PCIE} == {round(payload * GB)}
        found = [line for line in graph.assumptions if line.startswith("PCIe")]
        assert found == [] if source is None else found[0].startswith(source)

    def test_sockets_are_those_of_machines_with_the_gpu(self) -> None:
        rows = matrix(full(2, "SYS"), ("0-9", "10-19"))
        assert "QPI" in read(rows).classes
        assert "xGMI" in read(f"NVIDIA A100-SXM4-40GB\n{rows}").classes
        assert "UPI" in read(f"NVIDIA H100 80GB HBM3\n{rows}").classes

    def test_a_gpu_that_is_stated_gives_what_the_text_leaves_open(self) -> None:
        text = matrix(full(8, "NV18"))
        assert read(text, Stated(gpu="b200")).link_unit == 50 * GB
        assert read(f"NVIDIA H100 80GB HBM3\n{text}", Stated(gpu="b200")).link_unit == 25 * GB

    def test_a_matrix_that_hides_nvlinks(self) -> None:
        (warning,) = read("NVIDIA H100 80GB HBM3\n" + matrix(full(2, "NODE"))).warnings
        assert warning.startswith("an H100 has 18 NVLinks, but there are none in the matrix (nvidia-smi topo -mp hides")
        assert read("NVIDIA H100 PCIe\n" + matrix(full(2, "NODE"))).warnings == ()
        assert read("NVIDIA H100 80GB HBM3\n" + matrix(full(1, "X"))).warnings == ()  # nobody to reach
