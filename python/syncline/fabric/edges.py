"""Fabrics written down as nodes and links, in YAML or JSON.

    nodes: [A, B, {name: S, kind: switch}]      # or npus: 8, for NPUs numbered from 0
    defaults: {rate: 25GB/s, latency: 1us}      # of links
    links:
      - {from: A, to: S}
      - {from: 1, to: S, rate: 50GB/s, links: 2, class: NVLink, efficiency: 94%}
    directed: false                             # every link leads both ways; true: only from `from` to `to`

Nodes are NPUs unless they say otherwise, and are referred to by name or by number, counted in the order of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeVar

from syncline.base import document, quantities
from syncline.base.document import Mapping, Scalar, Sequence
from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.base.quantities import QuantityError
from syncline.fabric import topology
from syncline.fabric.graph import NODE_KINDS, NVLINK, Graph, GraphError, Link, Node, NodeKind, both_ways, checked

KEYS: Final = ("name", "npus", "nodes", "defaults", "links", "directed")
NODE_KEYS: Final = ("name", "kind")
DEFAULT_KEYS: Final = ("rate", "latency", "links", "class", "efficiency")
LINK_KEYS: Final = ("from", "to", *DEFAULT_KEYS)
ACCEPTED: Final = (
    "a topology XML of NCCL (NCCL_TOPO_DUMP_FILE), the output of `nvidia-smi topo -m`, or YAML or JSON with nodes (or "
    "npus) and links"
)
"""What a file with a fabric may be; this is what is left if it is neither of the others."""
OF_THE_FILE: Final = " here; it stands at the top of the file, for all links"
"""Goes behind what is said of `directed` elsewhere."""
DEFAULT_CLASS: Final = "link"
MAX_PARALLEL: Final = 4096
MAX_NPUS: Final = 2**16
MAX_NAME: Final = 64

T = TypeVar("T")


def read(text: str, file: str) -> Graph:
    """The fabric in a text. Raises [`InputError`] with everything that is wrong."""
    root = document.read(text, file)
    importer = _Importer(file)
    if not isinstance(root, Mapping):
        raise InputError([root.origin.problem("this does not describe a fabric", document.plain(root), ACCEPTED)])
    graph = importer.fabric(root)
    if importer.problems:
        raise InputError(importer.problems)
    try:
        return checked(graph)
    except GraphError as error:
        raise InputError(Problem(file, None, "", None, message) for message in error.messages) from None


@dataclass(slots=True)
class _Importer:
    file: str
    problems: list[Problem] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    """Where a node is in `nodes`, by name."""
    written: list[str] = field(default_factory=list)
    """Names in the order of the file."""

    def fabric(self, root: Mapping) -> Graph:
        self._keys(root, KEYS)
        self._nodes(root)
        both = not self._truth(root, "directed")
        defaults = root.entries.get("defaults")
        if defaults is not None and not isinstance(defaults, Mapping):
            self._refuse(defaults, "a mapping is needed", f"a mapping with {one_of(DEFAULT_KEYS)}")
        given = defaults if isinstance(defaults, Mapping) else Mapping({}, root.origin)
        self._keys(given, DEFAULT_KEYS)
        links: list[Link] = []
        listed = root.entries.get("links")
        if listed is None and len(self.nodes) > 1:
            self.problems.append(root.origin.below("links", None).problem("this is missing", None, "a list of links"))
        elif listed is not None and not isinstance(listed, Sequence):
            self._refuse(listed, "a list is needed", "a list of links such as {from: A, to: B, rate: 25GB/s}")
        for item in listed.items if isinstance(listed, Sequence) else ():
            link = self._link(item, given)
            if link is not None:
                links.append(link)
        units = {link.payload_rate for link in links if link.kind == NVLINK}
        filled_in = "" if self._says("latency", given, listed) else quantities.TIME.format(topology.DEFAULT_LATENCY)
        return Graph(
            name=self._name(root) or self.file,
            nodes=tuple(self.nodes),
            links=tuple(both_ways(links) if both else links),
            link_unit=units.pop() if len(units) == 1 else None,
            assumptions=(f"links that do not state a latency take {filled_in}",) if filled_in and links else (),
        )

    def _says(self, key: str, defaults: Mapping, links: document.Node | None) -> bool:
        items = links.items if isinstance(links, Sequence) else []
        return key in defaults.entries or all(isinstance(i, Mapping) and key in i.entries for i in items)

    def _nodes(self, root: Mapping) -> None:
        npus, listed = root.entries.get("npus"), root.entries.get("nodes")
        found: dict[str, Node] = {}
        if npus is not None:
            count = self._whole(npus, MAX_NPUS)
            found = {f"NPU {index}": Node(f"NPU {index}", "npu") for index in range(count or 0)}
        if listed is not None and not isinstance(listed, Sequence):
            self._refuse(listed, "a list is needed", "a list of names, or of mappings with name and kind")
        for item in listed.items if isinstance(listed, Sequence) else ():
            node = self._node(item)
            if node is not None and node.name in found:
                self._refuse(item, "there is another node of this name", "every name once")
            elif node is not None:
                found[node.name] = node
        if npus is None and listed is None:
            self.problems.append(root.origin.below("nodes", None).problem("this is missing", None, "a list of nodes"))
        self.written = list(found)
        self.nodes = sorted(found.values(), key=lambda node: node.kind != "npu")
        self.numbers = {node.name: index for index, node in enumerate(self.nodes)}

    def _node(self, item: document.Node) -> Node | None:
        if isinstance(item, Mapping):
            self._keys(item, NODE_KEYS)
            name = item.entries.get("name")
            if name is None:
                self.problems.append(item.origin.below("name", item.origin.line).problem("this is missing"))
                return None
            text = self._text(name)
            return None if text is None else Node(text, self._kind(item.entries.get("kind")))
        text = self._text(item)
        return None if text is None else Node(text, "npu")

    def _kind(self, node: document.Node | None) -> NodeKind:
        if node is None:
            return "npu"
        for kind in NODE_KINDS:
            if isinstance(node, Scalar) and node.value == kind:
                return kind
        hint = did_you_mean(node.value, NODE_KINDS) if isinstance(node, Scalar) and isinstance(node.value, str) else ""
        self._refuse(node, f"this is not a kind of node{hint}", one_of(NODE_KINDS))
        return "npu"

    def _link(self, item: document.Node, defaults: Mapping) -> Link | None:
        if not isinstance(item, Mapping):
            self._refuse(item, "a mapping is needed", "such as {from: A, to: B, rate: 25GB/s, latency: 1us}")
            return None
        self._keys(item, LINK_KEYS)
        src, dst = self._end(item, "from"), self._end(item, "to")
        entries = {**defaults.entries, **item.entries}
        rate = self._quantity(entries, "rate", quantities.rate, None)
        if "rate" not in entries:
            missing = item.origin.below("rate", item.origin.line)
            self.problems.append(missing.problem("this is missing", None, quantities.RATE.accepted))
        link = Link(
            src=src or 0,
            dst=dst or 0,
            rate=rate or 1,
            latency=self._quantity(entries, "latency", _time, topology.DEFAULT_LATENCY),
            kind=self._class(entries.get("class")),
            count=(self._whole(entries["links"], MAX_PARALLEL) or 1) if "links" in entries else 1,
            efficiency=self._quantity(entries, "efficiency", quantities.share, Fraction(1)),
            together=any(end is not None and self.nodes[end].kind != "npu" for end in (src, dst)),
        )
        if rate is not None and link.payload_rate < 1:
            self._refuse(item, "rate times efficiency is less than one byte per second", "a higher rate")
        if src is not None and src == dst:
            self._refuse(item, "a link leads from a node to itself", "two different nodes")
        return None if src is None or dst is None or rate is None else link

    def _end(self, item: Mapping, key: str) -> int | None:
        node = item.entries.get(key)
        if node is None:
            self.problems.append(item.origin.below(key, item.origin.line).problem("this is missing", None, "a node"))
            return None
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, str) and value in self.numbers:
            return self.numbers[value]
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(self.written):
            return self.numbers[self.written[value]]
        hint = did_you_mean(value, self.numbers) if isinstance(value, str) else ""
        self._refuse(node, f"there is no such node{hint}", f"a name, or a number from 0 to {len(self.written) - 1}")
        return None

    def _class(self, node: document.Node | None) -> str:
        return DEFAULT_CLASS if node is None else self._text(node) or DEFAULT_CLASS

    def _name(self, root: Mapping) -> str | None:
        node = root.entries.get("name")
        return None if node is None else self._text(node)

    def _text(self, node: document.Node) -> str | None:
        value = node.value if isinstance(node, Scalar) else None
        value = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME or not value.isprintable():
            self._refuse(node, "this is not a name", f"text of up to {MAX_NAME} characters")
            return None
        return value

    def _whole(self, node: document.Node, most: int) -> int | None:
        value = node.value if isinstance(node, Scalar) else None
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            self._refuse(node, "this is not a whole number in the accepted range", f"1 to {most}")
            return None
        return value

    def _truth(self, root: Mapping, key: str) -> bool:
        node = root.entries.get(key)
        if node is not None and not (isinstance(node, Scalar) and isinstance(node.value, bool)):
            self._refuse(node, "this is neither true nor false", "true or false")
        return isinstance(node, Scalar) and node.value is True

    def _quantity(self, entries: dict[str, document.Node], key: str, read: Callable[[object], T], default: T) -> T:
        if key not in entries:
            return default
        node = entries[key]
        try:
            return read(node.value if isinstance(node, Scalar) else None)
        except QuantityError as error:
            self._refuse(node, error.message, error.accepted)
            return default

    def _keys(self, node: Mapping, known: tuple[str, ...]) -> None:
        for key, entry in node.entries.items():
            if key not in known:
                hint = OF_THE_FILE if key == "directed" else did_you_mean(key, known)
                self._refuse(entry, f"this key is not known{hint}", f"the keys {one_of(known)}")

    def _refuse(self, node: document.Node, message: str, accepted: str) -> None:
        self.problems.append(node.origin.problem(message, document.plain(node), accepted))


def _time(value: object) -> int:
    return quantities.time(value, zero=True)
