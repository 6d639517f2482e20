"""The matrix that `nvidia-smi topo -m` prints, as a tool writes it or as a person pastes it.

A row per GPU and NIC, a column per GPU and NIC, then affinities. NV# is a number of NVLinks; the rest says how two
devices meet over PCIe: PIX at one switch, PXB at several, PHB at a host bridge, NODE within a socket, SYS (once SOC)
across sockets. Only the best of the ways is printed, so where GPUs have NVLinks their PCIe relation is unknown, and
taken from the NICs that both are near to, and from their affinities.

*NVSwitches* are not shown as such: every GPU behind them prints all its NVLinks for every other GPU. A row with more
NVLinks than a GPU has is read as a star with as many links as one cell says. Where the text around the matrix names
the GPU, the limit is that GPU's; else it is the largest of all GPUs.

The matrix gives no rates and no latencies. They are filled in and listed as assumptions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from types import MappingProxyType
from typing import Final

from syncline import quantities
from syncline.errors import InputError, Problem, shown
from syncline.fabric import hardware
from syncline.fabric.graph import NVLINK, NVSWITCH, PCIE, Graph, GraphError, Link, Node, NodeKind, both_ways, checked
from syncline.fabric.hardware import GB

ACCEPTED: Final = "the output of `nvidia-smi topo -m`, from the line that begins with GPU0 on"
MAX_DEVICES: Final = 512
MAX_NVLINKS: Final = 64

SAME_SWITCH: Final = "PIX"
SAME_BRIDGES: Final = "PXB"
SAME_SOCKET: Final = frozenset({"PIX", "PXB", "PHB", "NODE"})
CELLS: Final = "X, NV#, PIX, PXB, PHB, NODE, SYS, SOC or N/A"

GPUS: Final = MappingProxyType(
    {"P100": (4, 20 * GB), "V100": (6, 25 * GB), "A100": (12, 25 * GB), "A800": (8, 25 * GB), "A30": (4, 25 * GB)}
    | {"H100": (18, 25 * GB), "H800": (8, 25 * GB), "H200": (18, 25 * GB), "H20": (18, 25 * GB)}
    | {"GH200": (18, 25 * GB), "B200": (18, 50 * GB), "B300": (18, 50 * GB), "GB200": (18, 50 * GB)}
)
"""NVLinks, and bytes per second of each and direction, of GPUs by name."""
MOST_NVLINKS: Final = 18

_ANSI = re.compile(r"\x1b?\[[0-9;]{0,9}m")
_DEVICE = "|".join(
    (
        *(r"GPU[0-9]{1,4}", r"NIC[0-9]{1,4}", r"mlx[0-9]{1,2}_\w{1,16}", r"(?:ib|rdma|roce)[0-9]{1,4}"),
        r"(?:ibp|rocep|efa_|hfi1_|hns_|bnxt_re|irdma)\w{1,20}",
    )
)
_HEADER = re.compile(rf"[\s#$>|]*(?=GPU[0-9])((?:(?:{_DEVICE})[\s|]*)+)(CPU|NUMA|GPU NUMA|$)", re.ASCII)
_DEVICES = re.compile(_DEVICE, re.ASCII)
_ROW = re.compile(rf"[\s#$>|]*({_DEVICE})(?:\s+|\||(?=NV[0-9]|PIX|PXB|PHB|NODE|SYS|SOC|X))(.*)", re.ASCII)
_CELL = re.compile(r"[\s|]*(X(?![A-Za-z])|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|N/A)", re.ASCII)
_AFFINITY = re.compile(r"[\s|]*([0-9]+(?:[-,][0-9]+)*)(?:\s+([0-9]+(?:-[0-9]+)?)(?![-,0-9]))?", re.ASCII)
_LEGEND = re.compile(r"\s*(NIC[0-9]{1,4})\s*:\s*(\S{1,40})", re.ASCII)
_MODEL = re.compile(r"\b(GH200|GB200|P100|V100|A100|A800|A30|H100|H800|H200|H20|B200|B300)\b", re.ASCII)


def looks_like(text: str) -> bool:
    """Whether a text has the header of a matrix."""
    return any(_HEADER.match(line) for line in _lines(text))


def gpu_numbers(text: str) -> list[int]:
    """The numbers that GPUs have in the names of a matrix, in the order of the fabric. None, if it is no matrix."""
    header = next(filter(None, map(_HEADER.match, _lines(text))), None)
    names = _DEVICES.findall(header[1]) if header else []
    return sorted(int(name[3:]) for name in names if name.startswith("GPU"))


def read(text: str, file: str) -> Graph:
    """The fabric in a text. Raises [`InputError`] with everything that is wrong."""
    matrix = _Matrix(file)
    matrix.parse(_lines(text))
    if matrix.problems:
        raise InputError(matrix.problems)
    try:
        return checked(_Builder(matrix, _model(text)).graph())
    except GraphError as error:
        raise InputError(Problem(file, None, "", None, message) for message in error.messages) from None


def _lines(text: str) -> list[str]:
    return [_ANSI.sub("", line).rstrip() for line in text.split("\n")]


def _model(text: str) -> str | None:
    """The GPU that the text around the matrix names, if it is one."""
    named = set(_MODEL.findall(text))
    return named.pop() if len(named) == 1 else None


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

    def __init__(self, matrix: _Matrix, model: str | None) -> None:
        self.matrix, self.model = matrix, model
        self.nodes = [Node(f"GPU {int(name[3:])}", "npu") for name in matrix.gpus]
        self.links: list[Link] = []
        self.assumptions: list[str] = []

    def graph(self) -> Graph:
        self._nvlinks()
        self._pcie()
        for kind, latency in dict.fromkeys((link.kind, link.latency) for link in self.links):
            self.assumptions.append(hardware.latency_assumption(kind, latency))
        self.assumptions += hardware.share_assumptions((link.kind, link.rate, link.efficiency) for link in self.links)
        has_nvlinks = any(link.kind in (NVLINK, NVSWITCH) for link in self.links)
        unit = self._nvlink_rate if has_nvlinks else None
        links = tuple(both_ways(self.links))
        return Graph(self.matrix.file, tuple(self.nodes), links, unit, tuple(self.assumptions))

    @property
    def _nvlink_rate(self) -> int:
        return GPUS[self.model][1] if self.model else hardware.DEFAULT_NVLINK_RATE

    def _nvlinks(self) -> None:
        gpus, matrix = self.matrix.gpus, self.matrix
        most = {a: max((matrix.nvlinks(a, b) for b in gpus), default=0) for a in gpus}
        total = {a: sum(matrix.nvlinks(a, b) for b in gpus) for a in gpus}
        if not any(total.values()):
            return
        limit = GPUS[self.model][0] if self.model else MOST_NVLINKS
        rate = self._nvlink_rate
        of = f"those of {self.model}" if self.model else "the matrix does not name the GPU"
        self.assumptions.append(f"an NVLink has {quantities.RATE.format(rate)} each way ({of})")
        if max(total.values()) > limit:
            switch = self._add("NVSwitch", "switch")
            latency = hardware.NVSWITCH_LATENCY
            self.links += [Link(i, switch, rate, latency, NVSWITCH, most[a]) for i, a in enumerate(gpus) if most[a]]
            why = f"a row adds up to {max(total.values())} NVLinks, and a GPU has {limit} at most"
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
                        self._wire(numbers[name], parent)
        wire = hardware.QPI
        for a, b in combinations(cpus, 2):
            self.links.append(Link(a, b, wire.rate, hardware.SOCKET_LATENCY, wire.kind, 1, wire.efficiency))
        self.assumptions.append("PCIe is of the third generation with 16 lanes (the matrix does not say)")
        if len(cpus) > 1:
            self.assumptions.append("sockets are joined as on Broadwell machines (the matrix does not say)")

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

    def _wire(self, src: int, dst: int) -> None:
        rate, efficiency, _ = hardware.pcie_rate("8 GT/s", hardware.DEFAULT_PCIE_WIDTH)
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
