"""Fat trees as htsim describes them (`.topo`): nodes, pods, and what the switches of each tier have.

    Nodes 32
    Tiers 2
    Podsize 32

    Tier 0
    Downlink_Speed_Gbps 100
    Radix_Down 8
    Radix_Up 2
    Downlink_Latency_ns 1000
    Oversubscribed 4

    Tier 1
    Downlink_Speed_Gbps 100
    Radix_Down 4
    Downlink_Latency_ns 1000

Tier 0 has the switches of the nodes, tier 1 those above them in each pod, and tier 2, if there is one, the cores. From
the speeds and the oversubscription of tiers follow how many links lead up, and from these how many switches there are.
Switch `i` of tier 1 of each pod is linked to the cores `i`, `i + n` and so on, `n` being the number of these switches.
A `Bundle` is so many links between the same two switches, each on its own.

A switch here takes no time; `Switch_Latency_ns` is added to the latency of the links that leave it. `Queue_Up` and
`Queue_Down`, in bytes, are the buffer of each of its ports; both have to be the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncline.base.errors import InputError, Problem, did_you_mean, one_of, shown
from syncline.fabric.graph import BY_DESTINATION, Graph, GraphError, Link, Node, checked
from syncline.fabric.scale_out import AGGREGATION, CORE, HOST, MOST_LINKS, UPLINK

GBPS: Final = 125_000_000
"""Bytes per second."""
NS: Final = 1_000
"""Picoseconds."""
HEADER: Final = {"nodes": (1, 1 << 20), "tiers": (2, 3), "podsize": (1, 1 << 20)}
"""Names of the header, and the numbers that they may have."""
KEYS: Final = {
    "downlink_speed_gbps": (1, 100_000),
    "radix_down": (1, 65_535),
    "radix_up": (1, 65_535),
    "downlink_latency_ns": (1, 10**12),
    "switch_latency_ns": (0, 10**12),
    "oversubscribed": (1, 65_535),
    "bundle": (1, 65_535),
    "queue_up": (1, 1 << 40),
    "queue_down": (1, 1 << 40),
}
"""Names of a tier."""
NEEDED: Final = ("downlink_speed_gbps", "radix_down", "downlink_latency_ns")
"""What every tier says, beside `radix_up`, which all but the last say."""
USUAL: Final = {"switch_latency_ns": 0, "oversubscribed": 1, "bundle": 1}
MOST_PROBLEMS: Final = 50
_WHOLE: Final = re.compile(r"[0-9]{1,15}")


def looks_like(text: str) -> bool:
    """Whether a text has the header of such a file."""
    words = [line.split() for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    named = [word[0].lower() for word in words[:4] if len(word) == 2]
    return (named[:1] == ["nodes"] and "tiers" in named) or named[:1] in (["tiers"], ["podsize"])


def read(text: str, file: str) -> Graph:
    """The fabric in a text. Raises [`InputError`] with everything that is wrong."""
    reader = _Reader(file)
    reader.lines(text)
    reader.complete()
    if reader.problems:
        raise InputError(reader.problems[:MOST_PROBLEMS])
    tree = reader.tree()
    if tree is None:
        raise InputError(reader.problems[:MOST_PROBLEMS])
    try:
        nodes, links = tuple(tree.nodes()), tuple(tree.links())
        return checked(Graph(file, nodes, links, assumptions=tree.assumptions, routing=BY_DESTINATION))
    except GraphError as error:
        raise InputError(Problem(file, None, "", None, message) for message in error.messages) from None


@dataclass(slots=True)
class _Reader:
    """A file that is being read."""

    file: str
    header: dict[str, int] = field(default_factory=dict)
    tiers: dict[int, dict[str, int]] = field(default_factory=dict)
    at: dict[tuple[int | None, str], int] = field(default_factory=dict)
    """The lines of names: of the header, and of tiers."""
    problems: list[Problem] = field(default_factory=list)
    _tier: int | None = None

    def _refuse(self, line: int | None, name: str, value: object, message: str, accepted: str | None) -> None:
        self.problems.append(Problem(self.file, line, name, shown(value), message, accepted))

    def lines(self, text: str) -> None:
        for number, line in enumerate(text.split("\n"), start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(self.problems) >= MOST_PROBLEMS:
                return
            self._line(number, words[0].lower(), words)

    def _line(self, number: int, key: str, words: Sequence[str]) -> None:
        value = int(words[1]) if len(words) == 2 and _WHOLE.fullmatch(words[1]) else None
        known = ("tier", *HEADER) if self._tier is None else ("tier", *KEYS)
        if key not in known:
            accepted = one_of(known)
            return self._refuse(
                number, "", words[0][:60], f"this name is not known{did_you_mean(key, known)}", accepted
            )
        least, most = (0, 2) if key == "tier" else HEADER[key] if self._tier is None else KEYS[key]
        if value is None or not least <= value <= most:
            given = " ".join(words[1:])[:60] or None
            return self._refuse(number, words[0], given, "this is no such number", f"{least} to {most}")
        if key == "tier":
            if value in self.tiers:
                return self._refuse(number, words[0], value, "this tier is described twice", "each tier once")
            self._tier = value
            self.tiers[value] = {}
            self.at[value, "tier"] = number
            return None
        into = self.header if self._tier is None else self.tiers[self._tier]
        if key in into:
            return self._refuse(number, words[0], value, "this is said twice", "each name once")
        into[key] = value
        self.at[self._tier, key] = number
        return None

    def complete(self) -> None:
        """What is missing."""
        if self.problems:
            return
        for name in HEADER:
            if name not in self.header:
                self._refuse(None, name.capitalize(), None, "this is missing", f"a line such as {name.capitalize()} 2")
        for tier in range(self.header.get("tiers", 0)):
            if tier not in self.tiers:
                self._refuse(None, f"Tier {tier}", None, "this tier is missing", "a line for each tier")
                continue
            is_last = tier == self.header["tiers"] - 1
            for name in (*NEEDED, *(() if is_last else ("radix_up",))):
                if name not in self.tiers[tier]:
                    line = self.at[tier, "tier"]
                    self._refuse(line, f"Tier {tier}, {name}", None, "this is missing", "a number of 1 or more")
        for tier, said in self.tiers.items():
            if tier >= self.header.get("tiers", 3):
                accepted = f"tiers below {self.header['tiers']}"
                self._refuse(self.at[tier, "tier"], f"Tier {tier}", None, "there are fewer tiers", accepted)
            elif tier == self.header.get("tiers", 3) - 1 and "radix_up" in said:
                line = self.at[tier, "radix_up"]
                self._refuse(line, f"Tier {tier}, radix_up", said["radix_up"], "nothing is above the last tier", "none")
            up, down = said.get("queue_up"), said.get("queue_down")
            if up is not None and down is not None and up != down:
                message = f"ports up have {up} B and ports down {down} B: those of a switch are equal here"
                self._refuse(self.at[tier, "queue_up"], f"Tier {tier}, queue_up", up, message, str(down))

    def _divided(self, what: str, whole: int, by: int, at: tuple[int | None, str]) -> int | None:
        """A number of equal parts, if there are whole ones."""
        if by and whole and whole % by == 0:
            return whole // by
        where = at[1] if at[0] is None else f"Tier {at[0]}, {at[1]}"
        self._refuse(self.at.get(at), where, None, f"{whole} {what} cannot be divided by {by}", f"a divisor of {whole}")
        return None

    def tree(self) -> _Tree | None:
        """The tree; nothing once it is said what does not fit."""
        nodes, pod_size = self.header["nodes"], self.header["podsize"]
        tiers = [USUAL | self.tiers[tier] for tier in range(self.header["tiers"])]
        speeds = [tier["downlink_speed_gbps"] for tier in tiers]
        if tiers[0]["bundle"] != 1:
            line = self.at[0, "bundle"]
            self._refuse(line, "Tier 0, bundle", tiers[0]["bundle"], "a node has one link", "1")
            return None
        pods = self._divided("nodes", nodes, pod_size, (None, "podsize"))
        edges = self._divided("nodes of a pod", pod_size, tiers[0]["radix_down"], (0, "radix_down"))
        if pods is None or edges is None:
            return None
        counts = [edges * pods]
        links = nodes
        for tier in range(1, len(tiers)):
            over = speeds[tier] * tiers[tier - 1]["oversubscribed"]
            below = f"Gb/s of links up from tier {tier - 1}"
            up = self._divided(below, links * speeds[tier - 1], over, (tier - 1, "oversubscribed"))
            if up is None:
                return None
            switches = self._divided(f"links to tier {tier}", up, tiers[tier]["radix_down"], (tier, "radix_down"))
            if switches is None:
                return None
            links = up
            counts.append(switches)
        in_pod = self._divided("switches of tier 1", counts[1], pods, (1, "radix_down"))
        if in_pod is None:
            return None
        tree = _Tree(nodes, pods, edges, in_pod, tuple(counts), tuple(tiers))
        for (tier, name), expected in tree.radices().items():
            if tiers[tier][name] != expected:
                message = f"with what else the file says it would be {expected}"
                self._refuse(self.at[tier, name], f"Tier {tier}, {name}", tiers[tier][name], message, str(expected))
        if tree.link_count > MOST_LINKS:
            self._refuse(
                None,
                "Nodes",
                nodes,
                f"the tree has {tree.link_count} links",
                f"up to {MOST_LINKS}, both ways counted",
            )
        return None if self.problems else tree


@dataclass(frozen=True, slots=True)
class _Tree:
    """A tree whose numbers fit."""

    hosts: int
    pods: int
    edges: int
    """Switches of tier 0 of a pod."""
    in_pod: int
    """Switches of tier 1 of a pod."""
    counts: tuple[int, ...]
    """Switches of each tier."""
    tiers: tuple[dict[str, int], ...]

    def radices(self) -> dict[tuple[int, str], int]:
        """The ports that switches come to have."""
        bundles = [tier["bundle"] for tier in self.tiers]
        found = {(0, "radix_up"): self.in_pod * bundles[1], (1, "radix_down"): self.edges * bundles[1]}
        if len(self.tiers) == 3:
            # Of the cores each switch of a pod has its part.
            found[1, "radix_up"] = (
                self.counts[2] // self.in_pod * bundles[2] if self.counts[2] % self.in_pod == 0 else 0
            )
            found[2, "radix_down"] = self.pods * bundles[2]
        return found

    @property
    def link_count(self) -> int:
        """Links, each direction counted."""
        up = [self.hosts, self.counts[0] * self.tiers[0]["radix_up"]]
        if len(self.tiers) == 3:
            up.append(self.counts[1] * self.tiers[1]["radix_up"])
        return 2 * sum(up)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the file says that is understood in some way."""
        if not any(tier["switch_latency_ns"] for tier in self.tiers):
            return ()
        return ("the latency of a switch is part of that of the links that leave it",)

    def nodes(self) -> Iterator[Node]:
        """NPUs, then the switches of each tier."""
        for host in range(self.hosts):
            yield Node(f"NPU {host}", "npu")
        names = ("edge", "aggregation" if len(self.tiers) == 3 else "spine", "core")
        for tier, count in enumerate(self.counts):
            said = self.tiers[tier]
            buffer = said.get("queue_down", said.get("queue_up"))
            in_pod = (self.edges, self.in_pod)[tier] if tier < 2 else count
            has_pods = tier < 2 and self.pods > 1
            for number in range(count):
                name = f"{number // in_pod}/{number % in_pod}" if has_pods else str(number)
                yield Node(f"{names[tier]} {name}", "switch", None, buffer)

    def links(self) -> Iterator[Link]:
        """All links, both ways."""
        edge, upper, core = self.hosts, self.hosts + self.counts[0], self.hosts + self.counts[0] + self.counts[1]
        has_cores = len(self.tiers) == 3
        for host in range(self.hosts):
            yield from self._both(host, edge + host // self.tiers[0]["radix_down"], 0, HOST)
        for number in range(self.counts[0]):
            first = number // self.edges * self.in_pod
            for above in range(first, first + self.in_pod):
                yield from self._both(edge + number, upper + above, 1, AGGREGATION if has_cores else UPLINK)
        for number in range(self.counts[1] if has_cores else 0):
            for above in range(number % self.in_pod, self.counts[2], self.in_pod):
                yield from self._both(upper + number, core + above, 2, CORE)

    def _both(self, below: int, above: int, tier: int, kind: str) -> Iterator[Link]:
        """The links between a switch of a tier and what is below it."""
        said = self.tiers[tier]
        rate, bundle = said["downlink_speed_gbps"] * GBPS, said["bundle"]
        leaving_below = self.tiers[tier - 1]["switch_latency_ns"] if tier else 0
        for src, dst, more in ((below, above, leaving_below), (above, below, said["switch_latency_ns"])):
            yield Link(src, dst, rate, (said["downlink_latency_ns"] + more) * NS, kind, bundle)
