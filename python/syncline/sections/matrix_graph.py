"""The flows of a connection matrix as a graph: what each NPU sends and takes in, and what waits for what.

Each NPU is a class of its own. Its main stream waits from one start to the next, a flow is sent when the wait for its
start is over, and its receiver takes it in. A flow that begins by a trigger waits for the nodes that pull it. Where
these are on another NPU, a message of no bytes tells the sender of the flow, and takes the time of one: in htsim
triggers take none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from syncline.sections.connection_matrix import Flow, Matrix

if TYPE_CHECKING:
    from syncline.base.positions import Key

FAMILY: Final = "all"
"""The one communicator of the graph: all nodes of the matrix up to the last one that does something."""


@dataclass(frozen=True, slots=True)
class Lines:
    """On which lines of a matrix the nodes of its graph stand."""

    of_nodes: dict[tuple[str, int], int] = field(default_factory=dict)
    """By class and number."""

    def line(self, path: Sequence[Key]) -> int:
        """The line of the flow of the node that a path leads to; the first line, if it leads to none."""
        steps = [str(step) for step in path]
        if steps[:1] == ["classes"] and steps[2:3] == ["nodes"] and len(steps) > 3 and steps[3].isdecimal():
            return self.of_nodes.get((steps[1], int(steps[3])), 1)
        return 1


def graph_of(matrix: Matrix) -> tuple[dict[str, Any], Lines]:
    """The graph in the form of its files, and on which lines its nodes stand."""
    builder = _Builder(matrix)
    for flow in _ordered(matrix):
        builder.add(flow)
    # Nodes behind the last one that sends or receives do nothing, and need not be there.
    groups = [list(range(1 + max(builder.nodes)))]
    classes = {builder.name(npu): {"npus": [npu], "nodes": nodes} for npu, nodes in sorted(builder.nodes.items())}
    return {"families": {FAMILY: {"members": {"groups": groups}}}, "classes": classes}, builder.lines


def _ordered(matrix: Matrix) -> Iterator[Flow]:
    """The flows, those that others wait for before them; of those that wait for none, the earliest first."""
    waiting: dict[int, list[Flow]] = {}
    for flow in matrix.flows:
        if flow.trigger is not None:
            waiting.setdefault(flow.trigger, []).append(flow)
    left = {number: trigger.count for number, trigger in matrix.triggers.items()}
    ready = [flow for flow in matrix.flows if flow.trigger is None]
    ready.sort(key=lambda flow: (flow.start or 0, flow.line))
    for flow in ready:  # grows while flows are found that may begin
        yield flow
        for trigger in (flow.when_sent, flow.when_received):
            if trigger is not None:
                left[trigger] -= 1
                if left[trigger] == 0:
                    ready += waiting.get(trigger, [])


class _Builder:
    """The nodes of the NPUs so far."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.nodes: dict[int, list[dict[str, Any]]] = {}
        self.lines = Lines()
        self.tags: dict[tuple[int, int], int] = {}
        """Messages between two NPUs so far."""
        self.until: dict[int, tuple[int, str]] = {}
        """The latest start of an NPU so far, and the node that waits for it."""
        self.pulls: dict[int, list[tuple[int, str]]] = {}
        """By trigger, the nodes that pull it, each with its NPU."""
        self.told: dict[tuple[int, str, int], str] = {}
        """The nodes that take in that a node is done, by that node and the NPU that is told."""

    @staticmethod
    def name(npu: int) -> str:
        """The class of an NPU."""
        return f"NPU {npu}"

    def _node(self, npu: int, line: int, node: dict[str, Any]) -> str:
        nodes = self.nodes.setdefault(npu, [])
        self.lines.of_nodes[self.name(npu), len(nodes)] = line
        nodes.append(node)
        return str(node["name"])

    def _message(self, ends: tuple[int, int], called: str, size: int, line: int, after: list[str]) -> tuple[str, str]:
        """A message between two NPUs: the node that sends it, and the one that takes it in."""
        src, dst = ends
        tag = self.tags.get(ends, 0)
        self.tags[ends] = tag + 1
        layer = "flows" if size else "triggers"
        common = {"family": FAMILY, "tag": tag, "size": f"{size}B"}
        sent = self._node(
            src, line, {"name": called, "layer": layer, "send": {**common, "to": dst - src}, "after": after}
        )
        got = {"name": f"{called}, taken in", "layer": layer, "recv": {**common, "from": src - dst}}
        return sent, self._node(dst, line, got)

    def _wait(self, flow: Flow) -> list[str]:
        """What waits until a flow begins."""
        start = flow.start or 0
        before, node = self.until.get(flow.src, (0, ""))
        if start > before:
            node = self._node(
                flow.src, flow.line, {"name": f"until {start} ps", "layer": "waits", "time": f"{start - before}ps"}
            )
            self.until[flow.src] = (start, node)
        return [node] if node else []

    def _pulled(self, flow: Flow) -> list[str]:
        """What a flow waits for that begins by a trigger."""
        after = []
        for npu, node in self.pulls.get(flow.trigger or 0, []):
            if npu == flow.src:
                after.append(node)
                continue
            key = (npu, node, flow.src)
            if key not in self.told:
                called = f"{node}: tells NPU {flow.src}"
                self.told[key] = self._message((npu, flow.src), called, 0, flow.line, [node])[1]
            after.append(self.told[key])
        return after

    def add(self, flow: Flow) -> None:
        """A flow, after all that it waits for."""
        after = self._wait(flow) if flow.trigger is None else self._pulled(flow)
        sent, got = self._message((flow.src, flow.dst), flow.name, flow.size, flow.line, after)
        for trigger, npu, node in ((flow.when_sent, flow.src, sent), (flow.when_received, flow.dst, got)):
            if trigger is not None:
                self.pulls.setdefault(trigger, []).append((npu, node))
