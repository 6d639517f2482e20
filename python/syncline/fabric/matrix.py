"""The matrix that `nvidia-smi topo -m` prints, as a tool writes it or as a person pastes it.

A row per GPU and NIC, a column per GPU and NIC, then affinities. NV# is a number of NVLinks; the rest says how two
devices meet over PCIe: PIX at one switch, PXB at several, PHB at a host bridge, NODE within a socket, SYS (once SOC)
across sockets. Only the best of the ways is printed, so where GPUs have NVLinks their PCIe relation is unknown, and
taken from the NICs that both are near to, and from their affinities.

*NVSwitches* are not shown as such: every GPU behind them prints all its NVLinks for every other GPU. A row with more
NVLinks than a GPU has is read as a star with as many links as one cell says. Where the text around the matrix names
the GPU, the limit is that GPU's; else it is the largest of all GPUs.

The matrix gives no rates and no latencies. They are filled in and listed as assumptions: those of NVLinks, PCIe and
sockets are those of the GPU that the text names (`gpu_products`), or that is stated beside the file; PCIe also as
`nvidia-smi` says it in the text (`nvidia_smi`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from syncline.base import quantities
from syncline.base.errors import InputError, Problem, shown
from syncline.fabric import gpu_products, hardware, nvidia_smi
from syncline.fabric.gpu_products import MOST_NVLINKS, PRODUCTS, SXM, Hardware, Pcie, Product, Stated
from syncline.fabric.graph import NVLINK, NVSWITCH, PCIE, Graph, GraphError, Link, Node, NodeKind, both_ways, checked

ACCEPTED: Final = "the output of `nvidia-smi topo -m`, from the line that begins with GPU0 on"
MAX_DEVICES: Final = 512
MAX_NVLINKS: Final = 64

SAME_SWITCH: Final = "PIX"
SAME_BRIDGES: Final = "PXB"
SAME_SOCKET: Final = frozenset({"PIX", "PXB", "PHB", "NODE"})
CELLS: Final = "X, NV#, PIX, PXB, PHB, NODE, SYS, SOC or N/A"

_ANSI = re.compile(r"\x1b?\[[0-9;]{0,9}m")
_DEVICE = "|".join(
    (
        *(r"GPU[0-9]{1,4}", r"NIC[0-9]{1,4}", r"mlx[0-9]{1,2}_\w{1,16}", r"(?:ib|rdma|roce)[0-9]{1,4}"),
        r"(?:ibp|rocep|rdmap|efa_|hfi1_|hns_|bnxt_re|irdma)\w{1,20}",
    )
)
_HEADER = re.compile(rf"[\s#$>|]*(?=GPU[0-9])((?:(?:{_DEVICE})[\s|]*)+)(CPU|NUMA|GPU NUMA|$)", re.ASCII)
_DEVICES = re.compile(_DEVICE, re.ASCII)
_ROW = re.compile(rf"[\s#$>|]*({_DEVICE})(?:\s+|\||(?=NV[0-9]|PIX|PXB|PHB|NODE|SYS|SOC|X))(.*)", re.ASCII)
_CELL = re.compile(r"[\s|]*(X(?![A-Za-z])|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|N/A)", re.ASCII)
_AFFINITY = re.compile(r"[\s|]*([0-9]+(?:[-,][0-9]+)*)(?:\s+([0-9]+(?:-[0-9]+)?)(?![-,0-9]))?", re.ASCII)
_LEGEND = re.compile(r"\s*(NIC[0-9]{1,4})\s*:\s*(\S{1,40})", re.ASCII)


def looks_like(text: str) -> bool:
    """Whether a text has the header of a matrix."""
    return any(_HEADER.match(line) for line in _lines(text))


def gpu_numbers(text: str) -> list[int]:
    """The numbers that GPUs have in the names of a matrix, in the order of the fabric. None, if it is no matrix."""
    header = next(filter(None, map(_HEADER.match, _lines(text))), None)
    names = _DEVICES.findall(header[1]) if header else []
    return sorted(int(name[3:]) for name in names if name.startswith("GPU"))


def read(text: str, file: str, stated: Stated | None = None) -> Graph:
    """The fabric in a text. Raises [`InputError`] with everything that is wrong."""
    matrix = _Matrix(file)
    matrix.parse(_lines(text))
    if matrix.problems:
        raise InputError(matrix.problems)
    try:
        return checked(_Builder(matrix, text, stated or Stated()).graph())
    except GraphError as error:
        raise InputError(Problem(file, None, "", None, message) for message in error.messages) from None


def _lines(text: str) -> list[str]:
    return [_ANSI.sub("", line).rstrip() for line in text.split("\n")]


@dataclass(slots=True)
class _Matrix:
    """The cells, by the names of row and column."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    rows: dict[str, dict[str, str]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    affinity: dict[str, str] = field(default_factory=dict)
    legend: dict[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> list[str]:
        """Names of the GPUs, by number."""
        return sorted((name for name in self.devices if name.startswith("GPU")), key=lambda name: int(name[3:]))

    @property
    def nics(self) -> list[str]:
        """Names of the NICs."""
        return [name for name in self.devices if not name.startswith("GPU")]

    def parse(self, lines: Sequence[str]) -> None:
        at = next((number for number, line in enumerate(lines) if _HEADER.match(line)), None)
        if at is None:
            return self._refuse(None, "", None, "there is no line with the names of GPUs", ACCEPTED)
        header = _HEADER.match(lines[at])
        self.devices = _DEVICES.findall(header[1]) if header else []
        if len(self.devices) > MAX_DEVICES:
            return self._refuse(at, "", None, f"there are more than {MAX_DEVICES} devices", None)
        if len(set(self.devices)) != len(self.devices):
            return self._refuse(at, "", None, "a device is listed twice", "every GPU and NIC once")
        for number in range(at + 1, len(lines)):
            named = _LEGEND.match(lines[number])
            row = _ROW.match(lines[number])
            if named is not None:
                self.legend[named[1]] = named[2]
            elif row is not None and row[1] in self.devices:
                self._row(row[1], row[2], number)
        self._check_complete()
        self._check_symmetry()
        return None

    def _row(self, name: str, text: str, number: int) -> None:
        if name in self.rows:
            return self._refuse(number, name, None, "there are two rows of this name", None)
        self.lines[name] = number
        cells = self.rows[name] = {}
        end = 0
        for column in self.devices:
            match = _CELL.match(text, end)
            if match is None:
                rest = text[end:].split(maxsplit=1)
                value = rest[0] if rest else None
                return self._refuse(number, f"{name}, {column}", value, "this cell cannot be read", CELLS)
            cells[column] = match[1]
            end = match.end()
            if (match[1] == "X") != (name == column):
                message = "X belongs on the diagonal, where row and column are the same device"
                return self._refuse(number, f"{name}, {column}", match[1], message, CELLS)
            if match[1].startswith("NV") and not 1 <= int(match[1][2:]) <= MAX_NVLINKS:
                return self._refuse(
                    number, f"{name}, {column}", match[1], "so many NVLinks cannot be", f"1 to {MAX_NVLINKS}"
                )
        affinity = _AFFINITY.match(text, end)
        if affinity is not None:
            self.affinity[name] = affinity[2] or affinity[1]
        return None

    def _check_complete(self) -> None:
        for name in self.gpus:
            if name not in self.rows:
                self._refuse(None, name, None, "its row is missing", "a row for every GPU of the header")

    def _check_symmetry(self) -> None:
        for a, b in combinations(self.rows, 2):
            there, back = self.rows[a].get(b), self.rows[b].get(a)
            if there is not None and back is not None and there != back:
                message = f"this is {there}, but the other way round it is {back}"
                self._refuse(self.lines[a], f"{a}, {b}", there, message, "the same in both directions")

    def _refuse(self, number: int | None, name: str, value: str | None, message: str, accepted: str | None) -> None:
        line = None if number is None else number + 1
        self.problems.append(Problem(self.file, line, name, shown(value), message, accepted))

    def cell(self, a: str, b: str) -> str:
        """What a row says about a column, or the other way round."""
        return self.rows.get(a, {}).get(b) or self.rows.get(b, {}).get(a) or ""

    def nvlinks(self, a: str, b: str) -> int:
        """NVLinks between two GPUs."""
        cell = self.cell(a, b)
        return int(cell[2:]) if cell.startswith("NV") else 0


class _Builder:
    """The graph of a matrix. GPUs are the first nodes, in order of their numbers."""

    def __init__(self, matrix: _Matrix, text: str, stated: Stated) -> None:
        self.matrix = matrix
        self.nodes = [Node(f"GPU {int(name[3:])}", "npu") for name in matrix.gpus]
        self.links: list[Link] = []
        self.assumptions: list[str] = []
        self.warnings: list[str] = []
        self.named = gpu_products.named(text)
        self.listed = gpu_products.listed(text)
        self.stated = stated
        self.is_stated = not self.named and stated.gpu is not None
        known = (gpu_products.like(stated.gpu),) if not self.named and stated.gpu is not None else self.named
        self.most = {a: max((matrix.nvlinks(a, b) for b in matrix.gpus), default=0) for a in matrix.gpus}
        self.total = {a: sum(matrix.nvlinks(a, b) for b in matrix.gpus) for a in matrix.gpus}
        self.limit = max((product.nvlinks for product in known), default=MOST_NVLINKS)
        self.is_star = max(self.total.values()) > self.limit
        fitting = self._fitting(known)
        has_nvlinks = any(self.total.values())
        self.known = gpu_products.narrowed(fitting, lambda p: p.form == SXM) if has_nvlinks else fitting
        """The products that the GPUs may be, if the text or what is stated beside it names any. Where they have
        NVLinks and nothing says in what form they are sold, they are modules."""
        self.pcie_of = dict(zip(matrix.gpus, nvidia_smi.pcie_links(text), strict=False))
        self.pcie = Pcie.of(stated, self.known, [per_lane for per_lane, _ in self.pcie_of.values()])

    def _fitting(self, products: tuple[Product, ...]) -> tuple[Product, ...]:
        """The products that have as many NVLinks as the GPUs of the matrix."""
        if self.is_star:
            return gpu_products.narrowed(products, lambda p: p.nvlinks == max(self.most.values()))
        return gpu_products.narrowed(products, lambda p: p.nvlinks >= max(self.total.values()))

    def graph(self) -> Graph:
        self._nvlinks()
        self._pcie()
        for kind, latency in dict.fromkeys((link.kind, link.latency) for link in self.links):
            self.assumptions.append(hardware.latency_assumption(kind, latency))
        self.assumptions += hardware.share_assumptions((link.kind, link.rate, link.efficiency) for link in self.links)
        has_nvlinks = any(link.kind in (NVLINK, NVSWITCH) for link in self.links)
        lacks_nvlinks = not has_nvlinks and len(self.matrix.gpus) > 1
        if lacks_nvlinks and self.known and all(product.always_has_nvlinks for product in self.known):
            self.warnings.append(
                gpu_products.without_nvlinks(self.known, "the matrix (nvidia-smi topo -mp hides them)")
            )
        return Graph(
            self.matrix.file,
            tuple(self.nodes),
            tuple(both_ways(self.links)),
            self._nvlink_rate if has_nvlinks else None,
            tuple(self.assumptions),
            tuple(self.warnings),
            hardware=self._hardware(),
        )

    def _hardware(self) -> Hardware:
        products: Sequence[Product] = self.known if self.named else self._fitting(PRODUCTS)
        gpu = gpu_products.figures(products) if self.named else None
        if gpu is not None:
            because = "as the file names it"
        elif self.named:
            because = gpu_products.undecided(products, "it names")
        elif self.listed:
            products = [product for name in self.listed for product in gpu_products.named(name)]
            several = f"GPUs that differ ({', '.join(self.listed)})"
            because = f"it names {several if len(self.listed) > 1 else f'{self.listed[0]}, which is not known'}"
        else:
            because = "it does not name the GPU"
            if any(self.total.values()):
                products = [*products, *self._behind_switches()]
                links = max((self.most if self.is_star else self.total).values())
                because += f", and there are several with {links} {'' if self.is_star else 'or more '}NVLinks"
        return Hardware(gpu, because, gpu_products.candidates(products), self.is_stated, leaves_pcie_open=True)

    def _behind_switches(self) -> Sequence[Product]:
        """The products of which the matrix shows a machine with NVSwitches, if all pairs have as many NVLinks."""
        counts = {self.matrix.nvlinks(a, b) for a, b in combinations(self.matrix.gpus, 2)}
        return [product for product in PRODUCTS if counts == {product.nvlinks}]

    @property
    def _nvlink_rate(self) -> int:
        return gpu_products.common(product.nvlink_rate for product in self.known) or hardware.DEFAULT_NVLINK_RATE

    def _nvlinks(self) -> None:
        gpus, matrix = self.matrix.gpus, self.matrix
        if not any(self.total.values()):
            return
        rate = self._nvlink_rate
        unknown = "the matrix does not name one known GPU" if self.listed else "the matrix does not name the GPU"
        of = f"those of {self.known[0].model}" if self.known else unknown
        self.assumptions.append(f"an NVLink has {quantities.RATE.format(rate)} each way ({of})")
        if self.is_star:
            switch = self._add("NVSwitch", "switch")
            latency = hardware.NVSWITCH_LATENCY
            self.links += [
                Link(i, switch, rate, latency, NVSWITCH, self.most[a]) for i, a in enumerate(gpus) if self.most[a]
            ]
            why = f"a row adds up to {max(self.total.values())} NVLinks, and a GPU has {self.limit} at most"
            self.assumptions.append(f"GPUs are behind NVSwitches: {why}")
            return
        for (i, a), (j, b) in combinations(enumerate(gpus), 2):
            count = matrix.nvlinks(a, b)
            if count:
                self.links.append(Link(i, j, rate, hardware.NVLINK_LATENCY, NVLINK, count))
        pairs = {matrix.nvlinks(a, b) for a, b in combinations(gpus, 2)}
        if len(gpus) > 2 and len(pairs) == 1:
            self.assumptions.append("NVLinks lead to the GPUs themselves: no row adds up to more than a GPU can have")

    def _pcie(self) -> None:
        """A tree of what is near to what: switches, host bridges, sockets."""
        matrix = self.matrix
        numbers = {name: index for index, name in enumerate(matrix.gpus)}
        numbers |= {name: self._add(self._nic_name(name), "nic") for name in matrix.nics}
        sockets = self._sockets(list(numbers))
        cpus = [self._add(f"CPU {index}", "cpu") for index in range(len(sockets))]
        at_switch = 0
        for cpu, members in zip(cpus, sockets, strict=True):
            for bridge in _groups(members, lambda a, b: matrix.cell(a, b) in (SAME_SWITCH, SAME_BRIDGES)):
                switches = _groups(bridge, lambda a, b: matrix.cell(a, b) == SAME_SWITCH)
                top = cpu
                if len(switches) > 1:
                    top = self._add(f"PCIe switch {at_switch}", "switch")
                    at_switch += 1
                    self._wire(top, cpu)
                for members_of_one in switches:
                    parent = top
                    if len(members_of_one) > 1:
                        parent = self._add(f"PCIe switch {at_switch}", "switch")
                        at_switch += 1
                        self._wire(parent, top)
                    for name in members_of_one:
                        self._wire(numbers[name], parent, name)
        self._join(cpus)
        if sum(link.kind == PCIE for link in self.links) > len(self.pcie_of):
            everywhere = "PCIe of NICs and switches" if self.pcie_of else "PCIe"
            is_stated = self.stated.pcie_rate is not None
            self.assumptions.append(f"{everywhere} is {self.pcie}{'' if is_stated else ' (the matrix does not say)'}")

    def _join(self, cpus: Sequence[int]) -> None:
        """Links between sockets: those of NVIDIA's machines with the GPU."""
        sockets = {product.socket for product in self.known}
        wire = sockets.pop() if len(sockets) == 1 else hardware.QPI
        for a, b in combinations(cpus, 2):
            self.links.append(Link(a, b, wire.rate, hardware.SOCKET_LATENCY, wire.kind, 1, wire.efficiency))
        if len(cpus) > 1:
            where = f"NVIDIA's machines with {self.known[0].model}" if self.known else "Broadwell machines"
            self.assumptions.append(f"sockets are joined as on {where} (the matrix does not say)")

    def _sockets(self, names: list[str]) -> list[list[str]]:
        """Devices of one socket each: those near to each other, or with the same affinity; strays go with the first."""
        matrix = self.matrix

        def together(a: str, b: str) -> bool:
            if matrix.cell(a, b) in SAME_SOCKET:
                return True
            known = matrix.affinity.get(a)
            return known is not None and known == matrix.affinity.get(b) and matrix.cell(a, b) not in ("SYS", "SOC")

        groups = _groups(names, together)
        apart = [
            group
            for group in groups
            if any(matrix.cell(a, b) in ("SYS", "SOC") for a in group for b in names)
            or any(a in matrix.affinity for a in group)
        ]
        strays = [name for group in groups if group not in apart for name in group]
        if not apart:
            return [strays]
        return [[*apart[0], *strays], *apart[1:]]

    def _nic_name(self, name: str) -> str:
        return f"NIC {name}" if name not in self.matrix.legend else f"NIC {self.matrix.legend[name]}"

    def _wire(self, src: int, dst: int, device: str = "") -> None:
        rate, efficiency = self.pcie.link(*self.pcie_of.get(device, (None, None)))
        self.links.append(Link(src, dst, rate, hardware.PCIE_LATENCY, PCIE, 1, efficiency))

    def _add(self, name: str, kind: NodeKind) -> int:
        self.nodes.append(Node(name, kind))
        return len(self.nodes) - 1


def _groups(names: Sequence[str], together: Callable[[str, str], bool]) -> list[list[str]]:
    """The names in groups that hang together, in order of their first members."""
    left, groups = list(names), []
    while left:
        group = [left.pop(0)]
        for member in group:
            near = [name for name in left if together(member, name)]
            group += near
            left = [name for name in left if name not in near]
        groups.append(sorted(group, key=list(names).index))
    return groups
