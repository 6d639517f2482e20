"""NCCL topology XML: what `NCCL_TOPO_DUMP_FILE` writes and `NCCL_TOPO_FILE` reads.

    <system> > <cpu numaid arch vendor modelid> > <pci busid class link_speed link_width> (nested)
             > <gpu dev sm rank> > <nvlink target count tclass>;  <pci> > <nic> > <net name speed>

A PCI device with others inside is a PCIe switch. Others are told by what is inside, <gpu> or <nic>, or by their class:
0x03 a GPU, 0x02 a NIC. The link of a device is the one upwards. A <nic> in a PCIe switch, as NCCL writes it for NICs
that it has joined, hangs off that switch.

Files that clouds provide list GPUs by class alone, without <gpu> and its NVLinks, which NCCL adds itself when it runs;
here they are missing, which is warned of. An NVLink goes to a GPU, to a CPU (tclass 0x068001) or to an NVSwitch
(tclass 0x068000, whatever the target says, which virtual machines hide); all NVSwitches are one switch here, as in
NCCL. NVLinks without an equal in the other direction are refused, as NCCL refuses them. NICs without a PCI device are
left out, and so are unknown tags and the xGMI of AMD's GPUs, of which there is a warning.

Which GPUs these are follows from their PCI device ids (`gpu_products`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from syncline.base import quantities
from syncline.base.errors import InputError, Problem
from syncline.fabric import elements, gpu_products, hardware
from syncline.fabric.elements import Element
from syncline.fabric.gpu_products import NVIDIA, PRODUCTS, Hardware, Pcie, Product, Stated
from syncline.fabric.graph import (
    C2C,
    NVLINK,
    NVSWITCH,
    PCIE,
    Graph,
    GraphError,
    Link,
    Node,
    NodeKind,
    both_ways,
    checked,
)

ACCEPTED: Final = "a <system> with <cpu> and <pci>, as NCCL writes to NCCL_TOPO_DUMP_FILE"
NVSWITCH_CLASS: Final = "0x068000"
CPU_BRIDGE_CLASS: Final = "0x068001"
GPU_CLASS: Final = "0x03"
NIC_CLASS: Final = "0x02"
KNOWN: Final = frozenset({"system", "cpu", "pci", "gpu", "nvlink", "xgmi", "nic", "net", "c2c"})
MAX_NVLINKS: Final = 64
MAX_CPUS: Final = 512
"""All CPUs of a machine are linked to each other."""
MAX_WIDTH: Final = 32
"""Virtual machines report 63 or 255 lanes where they mean that they do not know."""
MAX_C2C_RATE: Final = 10**15
C2C_UNIT: Final = 10**6
"""`bw` of a <c2c> is in MB/s."""

_BUS_ID = re.compile(r"([0-9a-fA-F]{1,8}):([0-9a-fA-F]{1,4}):([0-9a-fA-F]{1,4})\.([0-9a-fA-F]{1,2})")
_ID = re.compile(r"(?:0x)?([0-9a-fA-F]{4})")
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


def read(data: bytes, file: str, stated: Stated | None = None) -> Graph:
    """The fabric in a file. Raises [`InputError`] with everything that is wrong."""
    return _imported(data, file, stated)[0]


def gpu_buses(data: bytes, file: str) -> list[tuple[int, ...]]:
    """The addresses of the GPUs of a file, by their numbers in the fabric. Raises [`InputError`], as `read` does."""
    gpus = _imported(data, file)[1].gpus
    return [bus(gpu.pci.get("busid")) or () for gpu in gpus]


def bus(text: str) -> tuple[int, ...] | None:
    """The domain, bus, device and function in the address of a PCI device; nothing, if it is none."""
    match = _BUS_ID.fullmatch(text)
    return _bus(match) if match else None


def _imported(data: bytes, file: str, stated: Stated | None = None) -> tuple[Graph, _Importer]:
    root = elements.read(data, file)
    if root.tag != "system":
        hint = {"topology": "; this is a file of hwloc", "graphs": "; this is a graph file of NCCL"}.get(root.tag, "")
        message = f"this is not a topology of NCCL: it begins with <{root.tag[:20]}>{hint}"
        raise InputError([Problem(file, root.line, "", None, message, ACCEPTED)])
    importer = _Importer(file, stated or Stated())
    importer.system(root)
    return importer.graph(), importer


@dataclass(slots=True)
class _Gpu:
    pci: Element
    gpu: Element | None
    parent: int
    """The PCIe switch or CPU above, by its number among the nodes that are not GPUs."""
    cpu: int
    host: int | None

    @property
    def sm(self) -> int | None:
        """Compute capability, times ten; that of AMD's GPUs means something else."""
        if self.vendor not in (None, NVIDIA):
            return None
        stated = _whole(self.gpu.get("sm")) if self.gpu is not None else None
        return stated if stated is not None or self.product is None else self.product.sm

    @property
    def vendor(self) -> int | None:
        """The PCI vendor, where the file has it."""
        return _hexadecimal(self.pci.get("vendor"))

    @property
    def device(self) -> int | None:
        """The PCI device id, where the file has it."""
        return _hexadecimal(self.pci.get("device"))

    @property
    def product(self) -> Product | None:
        """What it is, if its device id says so."""
        known = self.device is not None and self.vendor in (None, NVIDIA)
        return gpu_products.by_id(self.device) if known and self.device is not None else None

    def below(self, tag: str) -> list[Element]:
        """The elements of a tag inside its <gpu>."""
        return [child for child in self.gpu.children if child.tag == tag] if self.gpu is not None else []


@dataclass(frozen=True, slots=True)
class _Cpu:
    element: Element
    number: int
    host: int | None


@dataclass(slots=True)
class _Importer:
    """Collects GPUs apart from other nodes, which are numbered from 0 and shifted behind the GPUs in the end."""

    file: str
    stated: Stated
    problems: list[Problem] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    gpus: list[_Gpu] = field(default_factory=list)
    others: list[Node] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    """From an `_other` node, or from a GPU, to an `_other` node; GPUs are negative: -1 is the first."""
    pcie: list[tuple[Element, int, int]] = field(default_factory=list)
    """PCI devices, with the ends of the links upwards, numbered as those of `links`."""
    cpus: list[_Cpu] = field(default_factory=list)
    nics: int = 0
    leaves_pcie_open: bool = False

    def system(self, root: Element) -> None:
        if sum(child.tag == "cpu" for child in root.children) > MAX_CPUS:
            return self._refuse(root, "", "there are too many CPUs", f"up to {MAX_CPUS}")
        hosts: dict[str, int] = {}
        for child in root.children:
            if child.tag == "cpu":
                hosts.setdefault(child.get("host_hash"), len(hosts))
        for child in root.children:
            if child.tag == "cpu":
                self._cpu(child, hosts[child.get("host_hash")] if len(hosts) > 1 else None)
            elif child.tag in KNOWN:
                self._refuse(child, "", f"<{child.tag}> must be inside a <cpu>", "<cpu>")
            else:
                self._left_out(child)
        return None

    def _cpu(self, element: Element, host: int | None) -> None:
        numa = element.get("numaid") or str(len(self.cpus))
        number = self._other(f"CPU {numa[:20]}", "cpu", host)
        self.cpus.append(_Cpu(element, number, host))
        for child in element.children:
            if child.tag == "pci":
                self._pci(child, number, number, host)
            elif child.tag == "nic":
                names = ", ".join(net.get("name")[:20] for net in child.children if net.tag == "net")
                self.assumptions.append(f"NICs without a PCI device are left out: {names or 'one without a name'}")
            elif child.tag == "gpu":
                self._refuse(child, "", "a <gpu> must be inside a <pci>", "<pci>")
            else:
                self._left_out(child)

    def _left_out(self, element: Element) -> None:
        if element.tag not in KNOWN:
            self.assumptions.append(f"<{element.tag[:20]}> is left out")

    def _pci(self, element: Element, parent: int, cpu: int, host: int | None) -> None:
        if self._bus_id(element, "busid") is None:
            return
        if any(child.tag == "pci" for child in element.children):
            switch = self._other(f"PCIe switch {element.get('busid').lower()}", "switch", host)
            self.pcie.append((element, switch, parent))
            parent = switch
        self._device(element, parent, cpu, host)
        for child in element.children:
            if child.tag == "pci":
                self._pci(child, parent, cpu, host)
            else:
                self._left_out(child)

    def _device(self, element: Element, parent: int, cpu: int, host: int | None) -> None:
        """Adds the GPU or NIC that a PCI device is, or that a PCIe switch has inside; `parent` is what is above it."""
        tags = [child.tag for child in element.children]
        kind = element.get("class").lower() if "pci" not in tags else ""
        gpus = [child for child in element.children if child.tag == "gpu"]
        if len(gpus) > 1:
            return self._refuse(gpus[1], "", "there are several <gpu> in one <pci>", "a <pci> for each <gpu>")
        if gpus or (kind.startswith(GPU_CLASS) and "nic" not in tags):
            self.gpus.append(_Gpu(element, gpus[0] if gpus else None, parent, cpu, host))
            for child in gpus[0].children if gpus else ():
                self._left_out(child)
        nets = [net for nic in element.children if nic.tag == "nic" for net in nic.children if net.tag == "net"]
        if nets or (kind.startswith(NIC_CLASS) and not gpus):
            names = "/".join(net.get("name")[:20] for net in nets if net.get("name"))
            nic = self._other(f"NIC {self.nics}" + (f" {names}" if names else ""), "nic", host)
            self.nics += 1
            self.pcie.append((element, nic, parent))
        return None

    def graph(self) -> Graph:
        self._number_gpus()
        self._pcie_links()
        for index, gpu in enumerate(self.gpus):
            self._c2c(index, gpu)
        pairs = list(both_ways([*self._nvlinks(), *self.links, *self._sockets()]))
        if not self.gpus and not self.problems:
            message = "there is no GPU in it: no <pci> with a <gpu> inside, or of class 0x03"
            self.problems.append(Problem(self.file, None, "", None, message, ACCEPTED))
        if self.problems:
            raise InputError(self.problems)
        shift = len(self.gpus)
        nodes = [Node(name, "npu", gpu.host) for name, gpu in zip(self._gpu_names(), self.gpus, strict=True)]
        links = [
            Link(*_ends(link, shift), link.rate, link.latency, link.kind, link.count, link.efficiency) for link in pairs
        ]
        rates = {self._nvlink_rate(gpu) for gpu in self.gpus if gpu.below("nvlink")}
        self.warnings += self._missing_links()
        whole = Graph(
            self.file,
            (*nodes, *_unique(self.others)),
            tuple(links),
            rates.pop() if len(rates) == 1 else None,
            (*self.assumptions, *self._assumed(links)),
            tuple(self.warnings),
            hardware=self._hardware(),
        )
        try:
            return checked(whole)
        except GraphError as error:
            raise InputError(Problem(self.file, None, "", None, message) for message in error.messages) from None

    def _number_gpus(self) -> None:
        """GPUs in the order of `dev`, or of `rank` if `dev` is not enough; or else of the file."""
        for attribute in ("dev", "rank"):
            numbers = [_whole(gpu.gpu.get(attribute)) if gpu.gpu else None for gpu in self.gpus]
            if None not in numbers and len(set(numbers)) == len(numbers):
                order = sorted(range(len(numbers)), key=lambda index: numbers[index] or 0)
                self.gpus = [self.gpus[index] for index in order]
                return
        if self.gpus:
            self.assumptions.append("GPUs are numbered in the order of the file")

    def _gpu_names(self) -> list[str]:
        hosts = len({gpu.host for gpu in self.gpus}) > 1
        names = []
        for index, gpu in enumerate(self.gpus):
            dev = _whole(gpu.gpu.get("dev")) if gpu.gpu else None
            name = f"GPU {index if dev is None else dev}"
            names.append(f"node {gpu.host} {name}" if hosts else name)
        return names if len(set(names)) == len(names) else [f"GPU {index}" for index in range(len(names))]

    def _nvlinks(self) -> Iterator[Link]:
        """NVLinks of pairs of GPUs once, to NVSwitches and CPUs from the GPU."""
        by_bus = {self._bus_id(gpu.pci, "busid"): index for index, gpu in enumerate(self.gpus)}
        counts: dict[tuple[int, int], tuple[int, Element]] = {}
        switch: dict[int, int] = {}
        absent: list[str] = []
        to_itself: list[str] = []
        for index, gpu in enumerate(self.gpus):
            for nvlink in gpu.below("nvlink"):
                count = self._whole(nvlink, "count", 1, MAX_NVLINKS)
                target = bus(nvlink.get("target"))
                if nvlink.get("tclass").lower().startswith(NVSWITCH_CLASS):
                    switch[index] = switch.get(index, 0) + count
                elif nvlink.get("tclass").lower().startswith(CPU_BRIDGE_CLASS):
                    yield self._nvlink(-1 - index, gpu.cpu, NVLINK, count, gpu)
                elif target not in by_bus:
                    absent.append(nvlink.get("target")[:20])
                elif by_bus[target] == index:
                    to_itself.append(nvlink.get("target")[:20])
                else:
                    pair = (index, by_bus[target])
                    counts[pair] = (counts.get(pair, (0, nvlink))[0] + count, nvlink)
        for text, targets in (("to devices that are not in the file", absent), ("of GPUs to themselves", to_itself)):
            if targets:
                self.warnings.append(f"NVLinks {text} are left out: {', '.join(dict.fromkeys(targets))}")
        yield from self._pairs(counts)
        yield from self._switched(switch)

    def _pairs(self, counts: dict[tuple[int, int], tuple[int, Element]]) -> Iterator[Link]:
        for (a, b), (count, element) in counts.items():
            if counts.get((b, a), (0, element))[0] != count:
                back = counts.get((b, a), (0, element))[0]
                message = f"there are {count} NVLinks to this GPU, but {back} back"
                self._refuse(element, "target", message, "as many in both directions")
            elif a < b:
                yield self._nvlink(-1 - a, -1 - b, NVLINK, count, self.gpus[a])

    def _switched(self, switch: dict[int, int]) -> Iterator[Link]:
        hosts = {self.gpus[index].host for index in switch}
        number = {host: self._other("NVSwitch", "switch", host) for host in sorted(hosts, key=lambda h: h or 0)}
        for index, count in switch.items():
            gpu = self.gpus[index]
            yield self._nvlink(-1 - index, number[gpu.host], NVSWITCH, count, gpu)

    def _nvlink(self, src: int, dst: int, kind: str, count: int, gpu: _Gpu) -> Link:
        latency = hardware.NVSWITCH_LATENCY if kind == NVSWITCH else hardware.NVLINK_LATENCY
        return Link(src, dst, self._nvlink_rate(gpu), latency, kind, count)

    def _nvlink_rate(self, gpu: _Gpu) -> int:
        """Bytes per second of an NVLink and direction, by compute capability, or else by the GPU that is stated."""
        stated = None if self.stated.gpu is None else gpu_products.like(self.stated.gpu).sm
        return hardware.nvlink_rate(stated if gpu.sm is None else gpu.sm)

    def _c2c(self, index: int, gpu: _Gpu) -> None:
        for c2c in gpu.below("c2c"):
            count = self._whole(c2c, "count", 1, MAX_NVLINKS)
            rate = self._whole(c2c, "bw", 1, MAX_C2C_RATE // C2C_UNIT) * C2C_UNIT
            self.links.append(Link(-1 - index, gpu.cpu, rate, hardware.NVLINK_LATENCY, C2C, count))

    def _sockets(self) -> Iterator[Link]:
        for a, b in combinations(self.cpus, 2):
            if a.host == b.host:
                kind = a.element
                wire = hardware.socket(kind.get("arch"), kind.get("vendor"), _whole(kind.get("modelid")) or 0)
                yield Link(a.number, b.number, wire.rate, hardware.SOCKET_LATENCY, wire.kind, 1, wire.efficiency)

    def _pcie_links(self) -> None:
        """Adds the links of all PCI devices upwards."""
        devices = [(gpu.pci, -1 - index, gpu.parent) for index, gpu in enumerate(self.gpus)] + self.pcie
        speeds = [hardware.pcie_speed(element.get("link_speed")) for element, _, _ in devices]
        widths = [_lanes(element) for element, _, _ in devices]
        products = [product for gpu in self.gpus if (product := self._product(gpu)) is not None]
        usual = Pcie.of(self.stated, products, [] if products else [speed for speed in speeds if speed is not None])
        for (_, node, parent), speed, width in zip(devices, speeds, widths, strict=True):
            rate, efficiency = usual.link(speed, width)
            self.links.append(Link(node, parent, rate, hardware.PCIE_LATENCY, PCIE, 1, efficiency))
        self.leaves_pcie_open = None in speeds or None in widths
        if usual.rate is not None and self.leaves_pcie_open:
            self.assumptions.append(f"PCI devices without a known link_speed and link_width have {usual}")
            return
        if None in widths:
            lanes = hardware.DEFAULT_PCIE_WIDTH
            self.assumptions.append(f"PCI devices without a usable link_width have {lanes} lanes")
        if None in speeds:
            source = f", {usual.source}" if usual.source else ""
            name = hardware.pcie_name(usual.per_lane)
            self.assumptions.append(f"PCI devices without a known link_speed are of PCIe {name}{source}")

    def _missing_links(self) -> Iterator[str]:
        """Warnings about links between GPUs that machines have, but not the graph."""
        if any(gpu.below("xgmi") for gpu in self.gpus):
            yield (
                "the xGMI links between GPUs (<xgmi>) are left out: here the GPUs reach each other over PCIe only, "
                "which is far slower"
            )
        of_host = Counter(gpu.host for gpu in self.gpus)
        lacking = [gpu for gpu in self.gpus if not gpu.below("nvlink") and not gpu.below("xgmi")]
        without = [gpu for gpu in lacking if of_host[gpu.host] > 1]
        known = [product for gpu in without if (product := self._product(gpu)) and product.always_has_nvlinks]
        whose = "" if len(without) == len(self.gpus) else f" for {len(without)} of {len(self.gpus)} GPUs"
        if known:
            yield gpu_products.without_nvlinks(known, f"the file{whose} (NCCL adds them when it runs)")
        elif any(self._may_have_nvlinks(gpu) for gpu in without):
            yield (
                f"the file has no NVLinks{whose}, and does not say which GPUs these are: where GPUs have NVLinks, NCCL "
                "adds them when it runs, but here the GPUs reach each other over PCIe only"
            )
        elif not any(gpu.below("nvlink") or gpu.below("xgmi") for gpu in self.gpus):
            self.assumptions.append("there are no NVLinks, since the file lists none")

    def _product(self, gpu: _Gpu) -> Product | None:
        """What a GPU is: by its device id, or as stated beside the file."""
        if gpu.product is None and self.stated.gpu is not None and gpu.device is None:
            return gpu_products.like(self.stated.gpu)
        return gpu.product

    def _may_have_nvlinks(self, gpu: _Gpu) -> bool:
        """Whether nothing says that a GPU has no NVLinks."""
        is_unknown = self._product(gpu) is None and gpu.device is None and gpu.vendor in (None, NVIDIA)
        return is_unknown and (gpu.sm is None or any(product.sm == gpu.sm for product in PRODUCTS))

    def _hardware(self) -> Hardware:
        """What GPUs these are, by their PCI device ids."""
        found = [gpu.product for gpu in self.gpus if gpu.product is not None]
        products = tuple(dict.fromkeys(found))
        ids = ", ".join(dict.fromkeys(f"0x{gpu.device:04x}" for gpu in self.gpus if gpu.device is not None))
        foreign = ", ".join(dict.fromkeys(f"0x{v:04x}" for gpu in self.gpus if (v := gpu.vendor) not in (None, NVIDIA)))
        is_known = len(found) == len(self.gpus)
        gpu = gpu_products.figures(products) if is_known else None
        if gpu is not None:
            because = f"PCI device {ids} in the file"
        elif is_known:
            because = gpu_products.undecided(products, f"PCI device {ids} is")
        elif foreign:
            because = f"its GPUs are of the PCI vendor {foreign}, of which no GPU is known"
        elif ids:
            because = f"its PCI device {ids} is not known"
        else:
            because = "it has no PCI device ids of GPUs"
        possible = products or tuple(PRODUCTS if not foreign else ())
        capabilities = {gpu.sm for gpu in self.gpus} - {None}
        if not products and len(capabilities) == 1:
            possible = tuple(product for product in possible if product.sm in capabilities)
        is_stated = self.stated.gpu is not None and not products
        return Hardware(gpu, because, gpu_products.candidates(possible), is_stated, self.leaves_pcie_open)

    def _assumed(self, links: Sequence[Link]) -> Iterator[str]:
        for kind, latency in dict.fromkeys((link.kind, link.latency) for link in links):
            yield hardware.latency_assumption(kind, latency)
        yield from hardware.share_assumptions((link.kind, link.rate, link.efficiency) for link in links)
        if any(gpu.sm is None for gpu in self.gpus if gpu.below("nvlink")):
            rates = {self._nvlink_rate(gpu) for gpu in self.gpus if gpu.sm is None}
            rate, whose = quantities.RATE.format(min(rates)), "" if self.stated.gpu is None else ", those of npu.gpu"
            yield f"GPUs without a compute capability (sm) have NVLinks of {rate}{whose}"

    def _other(self, name: str, kind: NodeKind, host: int | None) -> int:
        self.others.append(Node(name if host is None else f"node {host} {name}", kind, host))
        return len(self.others) - 1

    def _bus_id(self, element: Element, attribute: str) -> tuple[int, ...] | None:
        match = _BUS_ID.fullmatch(element.get(attribute))
        if match is None:
            self._refuse(element, attribute, "this is not the address of a PCI device", "such as 0000:07:00.0")
            return None
        return _bus(match)

    def _whole(self, element: Element, attribute: str, least: int, most: int) -> int:
        value = _whole(element.get(attribute))
        if value is None or not least <= value <= most:
            self._refuse(element, attribute, "this is not a number in the accepted range", f"{least} to {most}")
            return least
        return value

    def _refuse(self, element: Element, attribute: str, message: str, accepted: str) -> None:
        self.problems.append(element.problem(self.file, attribute, message, accepted))


def _ends(link: Link, gpus: int) -> tuple[int, int]:
    """The ends of a link with GPUs first."""
    src, dst = (-1 - end if end < 0 else end + gpus for end in (link.src, link.dst))
    return src, dst


def _unique(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with names that occur once: the second of a name becomes `name (2)`."""
    seen: dict[str, int] = {}
    unique = []
    for node in nodes:
        times = seen[node.name] = seen.get(node.name, 0) + 1
        unique.append(node if times == 1 else Node(f"{node.name} ({times})", node.kind, node.host))
    return unique


def _lanes(element: Element) -> int | None:
    """The width of a link, if it is usable."""
    width = _whole(element.get("link_width"))
    return width if width is not None and 1 <= width <= MAX_WIDTH else None


def _hexadecimal(text: str) -> int | None:
    """A PCI vendor or device, such as 0x10de; nothing for what is none, as files of virtual machines have it."""
    match = _ID.fullmatch(text.strip())
    return int(match[1], 16) if match and match[1].lower() not in ("0000", "ffff") else None


def _bus(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in match.groups())


def _whole(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None
