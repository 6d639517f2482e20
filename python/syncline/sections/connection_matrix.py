"""Connection matrices of htsim (`.cm`): flows between nodes, with sizes, and when each begins.

    Nodes 16
    Connections 2
    Triggers 1
    1->0 id 1 start 0 size 2000000 send_done_trigger 1
    1->2 id 2 trigger 1 size 2000000
    trigger id 1 oneshot

The header says how many nodes, connections and triggers there are. A flow begins at its start, in picoseconds, or when
its trigger fires: once the flow that names it is sent (`send_done_trigger`) or received (`recv_done_trigger`), or once
`count` such flows are, with a `barrier`. Lines that begin with # say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncline.base.document import decode
from syncline.base.errors import InputError, Problem, one_of, shown

ACCEPTED: Final = "a connection matrix of htsim: Nodes, Connections, and lines such as 1->0 id 1 start 0 size 2000000"
MAX_BYTES: Final = 16 * 1024 * 1024
MOST_CONNECTIONS: Final = 100_000
MOST_NODES: Final = 2**20
LARGEST: Final = 2**40
"""Bytes of the largest flow."""
LATEST: Final = 2**62
"""Picoseconds of the latest start."""
MOST_PROBLEMS: Final = 50

_HEADER: Final = {"Nodes": MOST_NODES, "Connections": MOST_CONNECTIONS, "Triggers": MOST_CONNECTIONS, "Failures": 0}
_ARROW: Final = re.compile(r"([0-9]{1,9})->([0-9]{1,9})")
_WHOLE: Final = re.compile(r"[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"([0-9]{1,19})(?:\.[0-9]{0,19})?")
_KEYS: Final = ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio")
KINDS: Final = ("oneshot", "multishot", "barrier")


@dataclass(frozen=True, slots=True)
class Flow:
    """A connection of the file: so many bytes from one node to another."""

    src: int
    dst: int
    size: int
    line: int
    number: int | None = None
    """Its id."""
    start: int | None = None
    """When it begins, in picoseconds, unless a trigger says so."""
    trigger: int | None = None
    """The trigger by which it begins."""
    when_sent: int | None = None
    """The trigger that it pulls when all of it is sent."""
    when_received: int | None = None
    """The trigger that it pulls when all of it is received."""

    @property
    def name(self) -> str:
        """What it is called: by its id, if it has one."""
        return f"flow {self.number}" if self.number is not None else f"flow of line {self.line}"


@dataclass(frozen=True, slots=True)
class Trigger:
    """What lets flows begin."""

    number: int
    kind: str
    count: int
    """How often a barrier has to be pulled."""
    line: int


@dataclass(frozen=True)
class Matrix:
    """A connection matrix that has been read."""

    file: str
    """The file, as it was named."""
    content: bytes = field(repr=False)
    nodes: int = field(repr=False, compare=False)
    flows: tuple[Flow, ...] = field(repr=False, compare=False)
    triggers: dict[int, Trigger] = field(repr=False, compare=False)

    def problem(self, line: int, name: str, value: object, message: str, accepted: str | None) -> Problem:
        """A problem at a line of the file."""
        return Problem(self.file, line, name, shown(value), message, accepted)

    def violations(self, npus: int) -> Iterator[Problem]:
        """What is wrong with the file on a fabric of so many NPUs."""
        for flow in self.flows:
            for name, npu in (("source", flow.src), ("destination", flow.dst)):
                if npu >= npus:
                    message = f"there is no NPU {npu}: the topology has {npus} NPUs"
                    yield self.problem(flow.line, name, npu, message, f"0 to {npus - 1}")
                    return


def looks_like(text: str) -> bool:
    """Whether a text may be a connection matrix: its first line that says something is of the header."""
    first = next((line.split() for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")), [])
    return len(first) == 2 and first[0] in _HEADER


def read(content: bytes, file: str) -> Matrix:
    """Reads the content of a file. Raises [`InputError`] with all that is wrong with it."""
    reader = _Reader(file)
    reader.lines(decode(content, file))
    reader.whole()
    if reader.problems:
        raise InputError(reader.problems[:MOST_PROBLEMS])
    return Matrix(file, content, reader.header["Nodes"], tuple(reader.flows), reader.triggers)


@dataclass(slots=True)
class _Reader:
    """A file that is being read."""

    file: str
    header: dict[str, int] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    """The lines of the header."""
    flows: list[Flow] = field(default_factory=list)
    triggers: dict[int, Trigger] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("Connections", "Triggers"), 0))
    """Lines of flows and triggers, the wrong ones included."""
    problems: list[Problem] = field(default_factory=list)

    def _refuse(self, line: int | None, name: str, value: object, message: str, accepted: str | None) -> None:
        self.problems.append(Problem(self.file, line, name, shown(value), message, accepted))

    def lines(self, text: str) -> None:
        for number, line in enumerate(text.split("\n"), start=1):
            if len(self.problems) >= MOST_PROBLEMS or max(self.seen.values()) > MOST_CONNECTIONS:
                return
            tokens = line.split()
            if not tokens or tokens[0].startswith("#"):
                continue
            if tokens[0] in _HEADER:
                self._head(number, tokens)
            elif "->" in tokens[0]:
                self.seen["Connections"] += 1
                self._flow(number, tokens)
            elif tokens[0] == "trigger":
                self.seen["Triggers"] += 1
                self._trigger(number, tokens)
            elif tokens[0] == "failure":
                message = "failures of a file are not simulated"
                self._refuse(number, "failure", " ".join(tokens)[:60], message, "network.faults of the experiment")
            else:
                accepted = f"{one_of((*_HEADER, 'trigger'))}, or a flow such as 1->0"
                self._refuse(number, "", tokens[0][:60], "this line says nothing", accepted)

    def _head(self, number: int, tokens: Sequence[str]) -> None:
        name = tokens[0]
        if name in self.header:
            return self._refuse(number, name, None, "this is said twice", "one line of this name")
        least, most = (1 if name == "Nodes" else 0), _HEADER[name]
        value = int(tokens[1]) if len(tokens) == 2 and _WHOLE.fullmatch(tokens[1]) else -1
        if not least <= value <= most:
            said = "failures of a file are not simulated" if name == "Failures" else "this is no such number"
            accepted = "0; network.faults of the experiment" if name == "Failures" else f"{least} to {most}"
            return self._refuse(number, name, " ".join(tokens[1:])[:60], said, accepted)
        self.header[name], self.at[name] = value, number
        return None

    def _flow(self, number: int, tokens: Sequence[str]) -> None:
        ends = _ARROW.fullmatch(tokens[0])
        if ends is None:
            return self._refuse(number, "", tokens[0][:60], "this is no flow", "source->destination, such as 1->0")
        said = self._said(number, tokens[1:], _KEYS, ())
        if said is None:
            return None
        src, dst = int(ends[1]), int(ends[2])
        for name, node in (("source", src), ("destination", dst)):
            if "Nodes" in self.header and node >= self.header["Nodes"]:
                message = f"there is no node {node}: the file has {self.header['Nodes']}"
                return self._refuse(number, name, node, message, f"0 to {self.header['Nodes'] - 1}")
        if src == dst:
            return self._refuse(number, "destination", dst, "a node would send to itself", "another node")
        if "size" not in said:
            return self._refuse(number, "size", None, "this is missing", f"1 to {LARGEST} bytes")
        if ("start" in said) == ("trigger" in said):
            message = "a flow begins at a time or by a trigger"
            return self._refuse(number, "start", None, message, "start or trigger, and not both")
        pulled = (said.get("send_done_trigger"), said.get("recv_done_trigger"))
        found = (said.get("id"), said.get("start"), said.get("trigger"), *pulled)
        self.flows.append(Flow(src, dst, said["size"], number, *found))
        return None

    def _trigger(self, number: int, tokens: Sequence[str]) -> None:
        said = self._said(number, tokens[1:], ("id", "count"), KINDS)
        if said is None:
            return None
        kinds = [kind for kind in KINDS if kind in said]
        if "id" not in said or len(kinds) != 1:
            message = "a trigger has an id and one kind"
            return self._refuse(number, "trigger", None, message, f"id N and one of {one_of(KINDS)}")
        if said["id"] in self.triggers:
            return self._refuse(number, "id", said["id"], "another trigger has this id", "an id of its own")
        if kinds == ["barrier"] and said.get("count", 0) < 1:
            return self._refuse(
                number, "count", said.get("count"), "a barrier counts how often it is pulled", "1 or more"
            )
        self.triggers[said["id"]] = Trigger(said["id"], kinds[0], said.get("count", 1), number)
        return None

    def _said(
        self, number: int, tokens: Sequence[str], keys: Sequence[str], flags: Sequence[str]
    ) -> dict[str, int] | None:
        """The values of a line by their keys, those of flags being 1; nothing once it is said what is wrong."""
        said: dict[str, int] = {}
        rest = iter(tokens)
        for key in rest:
            if key in said:
                self._refuse(number, key, None, "this is said twice", "each key once")
                return None
            if key in flags:
                said[key] = 1
                continue
            if key not in keys:
                self._refuse(number, "", key[:60], "this key is not known", one_of((*keys, *flags)))
                return None
            text = next(rest, "")
            value = _value(key, text)
            if value is None:
                least, most = _range(key)
                self._refuse(number, key, text[:60] or None, "this is no such number", f"{least} to {most}")
                return None
            said[key] = value
        return said

    def whole(self) -> None:
        """What is wrong with the file as a whole."""
        if max(self.seen.values()) > MOST_CONNECTIONS:
            self._refuse(
                None, "Connections", None, "there are too many", f"up to {MOST_CONNECTIONS} flows and triggers"
            )
        if self.problems:
            return
        for name in ("Nodes", "Connections"):
            if name not in self.header:
                self._refuse(None, name, None, "this line is missing", ACCEPTED)
        if self.problems:
            return
        for name, count in self.seen.items():
            said = self.header.get(name, 0)
            if said != count:
                message = f"the file has {count}"
                self._refuse(self.at.get(name), name, said, message, str(count))
        if not self.flows:
            self._refuse(None, "Connections", None, "there is no flow", "one or more")
        numbers: dict[int, int] = {}
        for flow in self.flows:
            if flow.number is not None and numbers.setdefault(flow.number, flow.line) != flow.line:
                message = f"the flow of line {numbers[flow.number]} has this id"
                self._refuse(flow.line, "id", flow.number, message, "an id of its own")
        for flow in self.flows:
            named = {"trigger": flow.trigger, "send_done_trigger": flow.when_sent}
            named["recv_done_trigger"] = flow.when_received
            for key, number in named.items():
                if number is not None and number not in self.triggers:
                    self._refuse(flow.line, key, number, "there is no such trigger", "the id of a trigger line")
        self._pulls()

    def _pulls(self) -> None:
        """Triggers fire as often as they are pulled, which has to be known."""
        pulls = dict.fromkeys(self.triggers, 0)
        for flow in self.flows:
            for number in (flow.when_sent, flow.when_received):
                if number in pulls:
                    pulls[number] += 1
        waited = {flow.trigger for flow in self.flows}
        for trigger in self.triggers.values():
            count = pulls[trigger.number]
            if trigger.number not in waited or count == trigger.count:
                continue
            message = f"{count} flows pull this trigger, which lets flows begin after {trigger.count}"
            accepted = "as many flows that pull it as it waits for: one, or the count of a barrier"
            self._refuse(trigger.line, "trigger", trigger.number, message, accepted)
        if not self.problems:
            self._circle()

    def _circle(self) -> None:
        """Flows that wait for each other."""
        begun = {flow.line for flow in self.flows if flow.trigger is None}
        left = {number: trigger.count for number, trigger in self.triggers.items()}
        waiting: dict[int, list[Flow]] = {}
        for flow in self.flows:
            if flow.trigger is not None:
                waiting.setdefault(flow.trigger, []).append(flow)
        pending = [flow for flow in self.flows if flow.trigger is None]
        while pending:
            flow = pending.pop()
            for trigger in (flow.when_sent, flow.when_received):
                if trigger is None:
                    continue
                left[trigger] -= 1
                if left[trigger] == 0:
                    pending += waiting.get(trigger, [])
                    begun |= {after.line for after in waiting.get(trigger, [])}
        for flow in self.flows:
            if flow.line not in begun:
                message = "this flow never begins: its trigger waits for flows that wait for it"
                self._refuse(flow.line, "trigger", flow.trigger, message, "a trigger that fires")
                return


def _range(key: str) -> tuple[int, int]:
    if key == "size":
        return 1, LARGEST
    if key in ("start", "prio"):
        return 0, LATEST
    return (0, MOST_CONNECTIONS) if key == "count" else (1, 2**32 - 1)


def _value(key: str, text: str) -> int | None:
    """The number of a key; times may have a fraction of a picosecond, which does not count."""
    pattern: Callable[[str], re.Match[str] | None] = (_DECIMAL if key == "start" else _WHOLE).fullmatch
    match = pattern(text)
    if match is None:
        return None
    value = int(match[1] if key == "start" else match[0])
    least, most = _range(key)
    return value if least <= value <= most else None
