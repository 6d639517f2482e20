"""Draws machines in rows: NPUs in the middle, NVSwitches below, PCIe, CPUs and NICs above, the network on top. Networks
of switches have NPUs below and the switches above them, level by level; super-nodes are drawn as machines are.

A machine whose NPUs are linked to each other and that has several CPUs gets two rows of NPUs that face each other, each
with its own CPUs. Of a large cluster the first two machines and the last are drawn; of one of racks the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from syncline.fabric.graph import NODE_KINDS, NVSWITCH, Graph
from syncline.fabric.shapes import Box, Drawing, Frame, Point, Text, curve, spread, straight
from syncline.fabric.wiring import Pair, pairs, wires

MOST_HOSTS: Final = 3
MOST_BESIDE: Final = 32
"""Of machines with more NPUs, only the first is drawn."""
MOST_FACING: Final = 16
"""NPUs of a machine that are drawn in two rows."""
PADDING: Final = 24.0
NETWORK_ROW: Final = 92.0
FACING_GAP: Final = 1.5
"""Rows between NPUs that face each other."""
MORE: Final = 84.0
"""Room for saying how many machines are left out."""
CURVE_REACH: Final = 0.75
"""How far a curve gets towards the points that bend it."""


@dataclass(frozen=True, slots=True)
class Size:
    """Distances and boxes, in one machine or in one of several."""

    slot: float
    row: float
    width: float
    height: float
    small: bool


LARGE: Final = Size(92.0, 84.0, 70.0, 34.0, False)
SMALL: Final = Size(48.0, 66.0, 40.0, 26.0, True)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The nodes of a machine in rows, from the top."""

    rows: list[list[int]]
    facing: int | None = None
    """The row with which the second half begins, upside down."""


def lay_out(drawing: Drawing, graph: Graph, taking_part: frozenset[int]) -> None:
    """Adds the shapes of a fabric."""
    hosts = sorted({node.host for node in graph.nodes if node.host is not None})
    size = SMALL if len(hosts) > 1 or graph.npus > MOST_FACING else LARGE
    _Layout(drawing, graph, taking_part, size).draw(hosts)


@dataclass(slots=True)
class _Layout:
    drawing: Drawing
    graph: Graph
    taking_part: frozenset[int]
    size: Size
    near: dict[int, dict[int, str]] = field(default_factory=dict)
    """The classes of links to the neighbours of every node."""
    at: dict[int, Point] = field(default_factory=dict)
    facing: float | None = None
    """The height in the middle between two rows of NPUs that face each other."""

    def draw(self, hosts: Sequence[int]) -> None:
        self.near = {index: {} for index in range(len(self.graph.nodes))}
        for pair in pairs(self.graph):
            self.near[pair.a][pair.b] = self.near[pair.b][pair.a] = pair.kind
        if len(hosts) < 2:
            self._host(None, list(range(len(self.graph.nodes))), 0.0)
        else:
            self._hosts(hosts)
            self._network()
        self.drawing.wires += wires(self.graph, self.taking_part, self._path, self.at)
        self.drawing.boxes += [self._box(node, place) for node, place in self.at.items()]

    def _hosts(self, hosts: Sequence[int]) -> None:
        wide = self.graph.npus > MOST_BESIDE * len(hosts)
        few = not wide and len(hosts) <= MOST_HOSTS
        shown = list(hosts if few else hosts[:1] if wide else hosts[: MOST_HOSTS - 1])
        last = [] if few or wide else [hosts[-1]]
        left = 0.0
        for host in [*shown, *last]:
            if host in last:
                left = self._more(left, len(hosts) - len(shown) - 1)
            members = [i for i, node in enumerate(self.graph.nodes) if node.host == host]
            left = self._host(host, members, left) + 2 * PADDING
        if not last and len(shown) < len(hosts):
            self._more(left, len(hosts) - len(shown))

    def _more(self, left: float, count: int) -> float:
        """Says how many machines are left out. Returns where the next one begins."""
        ys = [y for _, y in self.at.values()]
        middle = (min(ys) + max(ys)) / 2
        self.drawing.texts.append(Text(left + MORE / 2 - PADDING, middle, "\u22ef", strong=True))
        self.drawing.texts.append(Text(left + MORE / 2 - PADDING, middle + 20, f"{count} more"))
        return left + MORE

    def _host(self, host: int | None, members: Sequence[int], left: float) -> float:
        """Places the nodes of a machine from `left` on. Returns where its right end is."""
        graph, size = self.graph, self.size
        rows = _Rows(self._rows(members))
        npus = [node for node in members if graph.nodes[node].kind == "npu"]
        direct = any(graph.nodes[b].kind == "npu" for a in npus for b in self.near[a])
        cpus = [node for node in members if graph.nodes[node].kind == "cpu"]
        if host is None and direct and len(cpus) > 1 and 4 < len(npus) <= MOST_FACING:
            rows = self._facing(rows.rows, cpus)
        places = self._places(rows)
        if rows.facing is not None:
            heights = [places[npu][1] for npu in npus]
            self.facing = (min(heights) + max(heights)) / 2
        xs, ys = [place[0] for place in places.values()], [place[1] for place in places.values()]
        shift = left - min(xs) + size.width / 2
        self.at |= {node: (x + shift, y) for node, (x, y) in places.items()}
        right = max(xs) + shift + size.width / 2
        if host is not None:
            below = CURVE_REACH * _depth(0.6 * (right - left)) if direct else 0.0
            top, bottom = min(ys) - size.height / 2 - 14, max(ys) + size.height / 2 + 30 + below
            name = graph.nodes[members[0]].name.split(" ")[0]  # a node of a cluster, or a super-node
            frame = Frame(left - 14, top, right - left + 28, bottom - top, f"{name} {host}")
            self.drawing.frames.append(frame)
        return right

    def _rows(self, members: Sequence[int]) -> list[list[int]]:
        """NICs, CPUs, switches by their distance from the CPUs (from the NPUs, without CPUs), NPUs, NVSwitches."""
        inside = frozenset(members)
        of: dict[str, list[int]] = {kind: [] for kind in NODE_KINDS}
        for node in members:
            of[self.graph.nodes[node].kind].append(node)
        nvswitches = [node for node in of["switch"] if NVSWITCH in self.near[node].values()]
        others = [node for node in of["switch"] if node not in nvswitches]
        depth = self._distances(of["cpu"] or of["npu"], inside)
        levels = sorted({depth.get(node, 1) for node in others}, reverse=not of["cpu"])
        switches = [[node for node in others if depth.get(node, 1) == level] for level in levels]
        return [row for row in (of["nic"], of["cpu"], *switches, of["npu"], nvswitches) if row]

    def _distances(self, start: Sequence[int], inside: frozenset[int]) -> dict[int, int]:
        """Links from the nearest node of `start` to every switch."""
        distance = dict.fromkeys(start, 0)
        waiting = list(start)
        for node in waiting:
            for neighbour in self.near[node]:
                if neighbour in inside and neighbour not in distance and self.graph.nodes[neighbour].kind == "switch":
                    distance[neighbour] = distance[node] + 1
                    waiting.append(neighbour)
        return distance

    def _facing(self, rows: list[list[int]], cpus: Sequence[int]) -> _Rows:
        """The same in two halves, the second one upside down, by the CPU that is nearest."""
        half = {cpu: index >= (len(cpus) + 1) // 2 for index, cpu in enumerate(cpus)}
        waiting = list(cpus)
        for node in waiting:
            for neighbour in self.near[node]:
                if neighbour not in half and self.graph.nodes[node].kind != "npu":
                    half[neighbour] = half[node]
                    waiting.append(neighbour)
        halves = [[[node for node in row if half.get(node, False) == lower] for row in rows] for lower in (False, True)]
        upper, lower = ([row for row in part if row] for part in halves)
        if not all(any(self.graph.nodes[row[0]].kind == "npu" for row in part) for part in (upper, lower)):
            return _Rows(rows)
        return _Rows([*upper, *reversed(lower)], len(upper))

    def _places(self, rows: _Rows) -> dict[int, Point]:
        """NPUs side by side; everything else above or below the middle of what it is linked to."""
        size = self.size
        y, heights = 0.0, []
        for index, row in enumerate(rows.rows):
            y += FACING_GAP * size.row if index == rows.facing else 0.0
            y -= 0.2 * size.row if any(NVSWITCH in self.near[node].values() for node in row[:1] if index) else 0.0
            heights.append(y)
            y += size.row
        with_npus = [i for i, row in enumerate(rows.rows) if self.graph.nodes[row[0]].kind == "npu"]
        places: dict[int, Point] = {}
        for index in with_npus:
            places |= {node: (slot * size.slot, heights[index]) for slot, node in enumerate(rows.rows[index])}
        others = [i for i in range(len(rows.rows)) if i not in with_npus]
        for index in sorted(others, key=lambda i: min(abs(i - j) for j in with_npus)):
            row, wanted = rows.rows[index], []
            for node in row:
                known = [places[other][0] for other in self.near[node] if other in places]
                wanted.append(sum(known) / len(known) if known else 0.0)
            xs = spread(wanted, max(size.slot, *(8 + self._width(node) for node in row)))
            places |= {node: (x, heights[index]) for node, x in zip(row, xs, strict=True)}
        return places

    def _network(self) -> None:
        """Places switches that machines share: those with NICs in a row, the others above them."""
        nodes, frames = self.graph.nodes, self.drawing.frames
        shared = [index for index, node in enumerate(nodes) if node.host is None]
        leaves = [node for node in shared if any(nodes[other].host is not None for other in self.near[node])]
        left, right = min(f.x for f in frames), max(f.x + f.width for f in frames)
        top = min(f.y for f in frames)
        for row, switches in enumerate((leaves, [node for node in shared if node not in leaves])):
            gap = min((right - left) / max(1, len(switches)), 3 * self.size.slot)
            for index, node in enumerate(switches):
                x = (left + right) / 2 + (index - (len(switches) - 1) / 2) * gap
                self.at[node] = (x, top - NETWORK_ROW * (row + 1))

    def _path(self, pair: Pair) -> str:
        size = self.size
        (ax, ay), (bx, by) = self.at[pair.a], self.at[pair.b]
        kinds = (self.graph.nodes[pair.a].kind, self.graph.nodes[pair.b].kind)
        far = abs(bx - ax) > 1.5 * size.slot
        if pair.kind == NVSWITCH:
            x = ax if kinds[0] == "npu" else bx
            return straight((x, ay), (x, by))
        if kinds == ("npu", "npu") and ay == by and far:
            inward = 1.0 if self.facing is None or ay < self.facing else -1.0
            edge, depth = ay + inward * size.height / 2, inward * _depth(abs(bx - ax))
            aside = 10 if bx > ax else -10
            return curve((ax + aside, edge), (bx - aside, edge), (0, depth))
        if kinds == ("cpu", "cpu") and ay != by:
            side = min(x for x, _ in self.at.values()) - size.width
            return curve((ax, ay), (bx, by), ((side - max(ax, bx)) / CURVE_REACH, 0))
        if kinds == ("cpu", "cpu") and far:
            edge = ay - size.height / 2
            return curve((ax, edge), (bx, edge), (0, -0.08 * abs(bx - ax) - 10))
        return straight((ax, ay), (bx, by))

    def _width(self, index: int) -> float:
        """How wide a small box is: that of a node of no machine has room for its name."""
        node, width = self.graph.nodes[index], self.size.width
        if node.host is not None or not self.size.small:
            return width
        return max(width, 7.0 * len(_label(node.name, node.kind)) + 16)

    def _box(self, index: int, place: Point) -> Box:
        node, size, width = self.graph.nodes[index], self.size, self.size.width
        label = _label(node.name, node.kind if size.small else "")
        if NVSWITCH in self.near[index].values() and node.kind == "switch":
            xs = [self.at[other][0] for other in self.near[index] if other in self.at]
            place = ((min(xs) + max(xs)) / 2, place[1])
            width = max(xs) - min(xs) + size.width
        elif size.small:
            width = self._width(index)
        else:
            width = max(width, min(6.8 * len(label) + 12, size.slot - 6))
        most = max(3, int((width - 6) / (5.4 if size.small else 6.4)))
        idle = node.kind == "npu" and index not in self.taking_part
        return Box(*place, width, size.height, label[:most], node.kind, node.name, idle, size.small)


def _depth(distance: float) -> float:
    """How far a curve between NPUs of a row is bent."""
    return 18 + 0.2 * distance


def _label(name: str, kind: str) -> str:
    """The part of a name that is worth its room: numbers where boxes are small."""
    words = name.split(" ")
    if words[0] in ("node", "super-node") and len(words) > 2:
        words = words[2:]
    short = " ".join(words).replace("PCIe switch", "PCIe").replace("0000:", "").removesuffix(".0")
    short = short.replace("aggregation ", "agg ")
    if kind == "npu":
        return short.removeprefix("GPU ").removeprefix("NPU ")
    if kind == "switch" and short.startswith("switch "):
        return short.replace("switch ", "S ")
    return short.replace("PCIe ", "P ") if kind == "switch" and short.startswith("PCIe") else short
