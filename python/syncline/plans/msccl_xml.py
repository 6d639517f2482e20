"""MSCCL's XML, read. `msccl_write` writes it.

    <algo coll ngpus inplace ...><gpu id i_chunks o_chunks s_chunks><tb id send recv chan><step s type .../>

Some attributes are Syncline's own, and runtimes ignore them: `thread` of a tb (the thread of which it is a part),
`pacing` and `queues` of the algo (how messages of a thread follow one another, and which threads share a connection),
and `way`, `pace` and `whole` of a step (which way its message goes, when the next one follows, and the step of an
algorithm of which it is a part).

Only elements and attributes mean something. Document types, and with them entities, are refused before
anything is expanded. Attributes that are not known are ignored with a warning, as runtimes ignore them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast
from xml.parsers import expat

from syncline.base import json_reading, xml_errors
from syncline.base.errors import InputError, Problem, did_you_mean, one_of, shown
from syncline.plans import plan as form
from syncline.plans.plan import Buffer, Dependency, Pacing, Place, Plan, Rank, Step, ThreadBlock, Way

MAX_PROBLEMS: Final = 100
MAX_VALUE: Final = 2**31 - 1
MAX_QUEUES: Final = 2**16 - 1
MAX_MESSAGE_BYTES: Final = 2**63 - 1

CHILD: Final = {"": "algo", "algo": "gpu", "gpu": "tb", "tb": "step"}
ATTRIBUTES: Final = {
    "algo": frozenset(
        {
            *("name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace"),
            *("minBytes", "maxBytes", "nthreads", "redop", "pacing", "queues"),
        }
    ),
    "gpu": frozenset({"id", "i_chunks", "o_chunks", "s_chunks"}),
    "tb": frozenset({"id", "send", "recv", "chan", "thread"}),
    "step": frozenset(
        {
            *("s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"),
            *("way", "pace", "whole"),
        }
    ),
}
OWN: Final = frozenset({"pacing", "queues", "thread", "way", "pace", "whole"})
"""Those that only Syncline knows; runtimes ignore them."""
SPELLINGS: Final = {"reducescatter": "reduce_scatter"}
"""One of MSCCL's executors spells some collectives differently."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)

Site = tuple[int | None, int | None, int | None]
"""Rank, thread block and step, as far as they are known."""


@dataclass(slots=True)
class Document:
    """What an XML file says, and where."""

    plan: Plan
    lines: dict[Site, int]
    warnings: list[Problem]


def read(text: str, file: str) -> Document:
    """Parses a file. Raises [`InputError`] with everything that is wrong with its form."""
    reader = _Reader(file)
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.buffer_text = True
    reader.line = lambda: parser.CurrentLineNumber
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        reader.gpus = None  # what is missing has not been read
        message = xml_errors.message(error, reader.still_open)
        reader.problems.append(Problem(file, error.lineno, "", None, message))
    except _TooManyError:
        pass
    return reader.document()


class _TooManyError(Exception):
    """Reading on would only add to what is wrong."""


@dataclass(slots=True)
class _Reader:
    file: str
    line: Callable[[], int] = lambda: 1
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    lines: dict[Site, int] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    """The elements that have not ended."""
    still_open: list[tuple[str, int]] = field(default_factory=list)
    """The same as they are written, with their lines."""
    plan: Plan | None = None
    gpus: int | None = None
    ignored: set[tuple[str, str]] = field(default_factory=set)

    def document(self) -> Document:
        """What was read."""
        if self.plan is not None and self.gpus is not None and self.gpus != len(self.plan["ranks"]):
            given = len(self.plan["ranks"])
            elements = "1 gpu element" if given == 1 else f"{given} gpu elements"
            message = f"this says {self.gpus}, but the file has {elements}"
            self._refuse("algo.ngpus", self.gpus, message, str(given), self.lines[None, None, None])
        if self.problems or self.plan is None:
            raise InputError(self.problems or [Problem(self.file, None, "", None, "there is no algo element")])
        return Document(self.plan, self.lines, self.warnings)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        parent = self.path[-1] if self.path else ""
        self.path.append(name)
        self.still_open.append((name, self.line()))
        if parent not in CHILD:  # within an element that was refused, or within a step
            self.path[-1] = "refused"
            if parent == "step":
                self._refuse("step", None, f"an element '{shown(name)}' within a step", "nothing")
            return
        if name != CHILD[parent]:
            self.path[-1] = "refused"
            self._refuse_element(parent, name)
            return
        for key in attributes.keys() - ATTRIBUTES[name] - {k for e, k in self.ignored if e == name}:
            self.ignored.add((name, key))
            known = did_you_mean(key, ATTRIBUTES[name])
            message = f"the attribute '{shown(key)}' is not known and is ignored{known}"
            self.warnings.append(Problem(self.file, self.line(), name, None, message))
        {"algo": self._algo, "gpu": self._gpu, "tb": self._block, "step": self._step}[name](attributes)

    def end(self, _name: str) -> None:
        self.path.pop()
        self.still_open.pop()

    def characters(self, text: str) -> None:
        if text.strip() and self.path and self.path[-1] != "refused":
            self._refuse(self.path[-1], text.strip(), "there is text between the elements", "elements only")

    def doctype(self, *_: object) -> None:
        self._refuse("", None, "a document type is not accepted: write everything out")
        raise _TooManyError

    def _algo(self, attributes: dict[str, str]) -> None:
        self.lines[None, None, None] = self.line()
        values = _Attributes(self, "algo", attributes)
        collective = values.word("coll", form.COLLECTIVES, SPELLINGS)
        self.gpus = values.number("ngpus")
        self.plan = Plan(
            format=form.FORMAT,
            version=form.VERSION,
            name=attributes.get("name", ""),
            collective=collective,
            in_place=values.flag("inplace", default=False),
            protocol=values.word("proto", form.PROTOCOLS, {}, default="Simple"),
            ranks=[],
        )
        if "minBytes" in attributes:
            self.plan["min_bytes"] = values.number("minBytes", 0, MAX_MESSAGE_BYTES)
        if "maxBytes" in attributes:
            self.plan["max_bytes"] = values.number("maxBytes", 0, MAX_MESSAGE_BYTES)
        if "nthreads" in attributes:
            self.plan["threads"] = values.number("nthreads")
        if "nchannels" in attributes:
            self.plan["channels"] = values.number("nchannels")
        if "nchunksperloop" in attributes:
            self.plan["chunks_per_loop"] = values.number("nchunksperloop")
        if "pacing" in attributes or "queues" in attributes:
            self.plan["pacing"] = values.pacing()

    def _gpu(self, attributes: dict[str, str]) -> None:
        assert self.plan is not None
        values = _Attributes(self, "gpu", attributes)
        rank = Rank(
            id=values.number("id"),
            input_chunks=values.number("i_chunks"),
            output_chunks=values.number("o_chunks"),
            scratch_chunks=values.number("s_chunks"),
            thread_blocks=[],
        )
        self.plan["ranks"].append(rank)
        self.lines.setdefault((rank["id"], None, None), self.line())

    def _block(self, attributes: dict[str, str]) -> None:
        assert self.plan is not None
        values = _Attributes(self, "tb", attributes)
        rank = self.plan["ranks"][-1]
        send, recv = values.or_none("send"), values.or_none("recv")
        # Without peers there is no connection, and so no channel: writers put 0 or -1.
        channel = values.or_none("chan") if send is None and recv is None else values.number("chan")
        block = ThreadBlock(id=values.number("id"), send=send, recv=recv, channel=channel or 0, steps=[])
        if "thread" in attributes:
            block["thread"] = values.or_none("thread")
        rank["thread_blocks"].append(block)
        self.lines.setdefault((rank["id"], block["id"], None), self.line())

    def _step(self, attributes: dict[str, str]) -> None:
        assert self.plan is not None
        values = _Attributes(self, "step", attributes)
        rank = self.plan["ranks"][-1]
        block = rank["thread_blocks"][-1]
        kind = values.word("type", form.STEP_TYPES, {})
        step = Step(id=values.number("s"), type=kind, count=0 if kind == "nop" else values.number("cnt"))
        # A receive names what its peer sends as its source, and so on; only local memory means something.
        if kind in form.READS_LOCALLY:
            step["src"] = values.place("srcbuf", "srcoff")
        if kind in form.WRITES_LOCALLY:
            step["dst"] = values.place("dstbuf", "dstoff")
        on_block, on_step = values.or_none("depid"), values.or_none("deps")
        if on_block is not None and on_step is not None:
            step["depends_on"] = Dependency(thread_block=on_block, step=on_step)
        elif on_block is not None or on_step is not None:
            text = f"{attributes.get('depid')}, {attributes.get('deps')}"
            self._refuse("step.depid", text, "of depid and deps only one is -1", "both -1, or neither")
        if "way" in attributes:
            step["way"] = values.way("way")
        if "pace" in attributes:
            step["pace"] = values.word("pace", form.PACES, {})
        if "whole" in attributes:
            step["whole"] = values.or_none("whole")
        if values.flag("hasdep", default=False):
            step["has_dependents"] = True
        block["steps"].append(step)
        self.lines.setdefault((rank["id"], block["id"], step["id"]), self.line())

    def _refuse_element(self, parent: str, name: str) -> None:
        wanted = CHILD[parent]
        if name == "op" and parent == "tb":
            message = "the form with 'op' elements is not read: write the file with 'step' elements (old_format)"
        elif parent:
            message = f"an element '{shown(name)}' is not allowed within '{parent}'"
        else:
            message = f"the file begins with an element '{shown(name)}'"
        self._refuse(parent, name, message, wanted)

    def _refuse(
        self, path: str, value: object, message: str, accepted: str | None = None, line: int | None = None
    ) -> None:
        self.problems.append(Problem(self.file, line or self.line(), path, shown(value), message, accepted))
        if len(self.problems) == MAX_PROBLEMS:
            message = f"there may be more: reading stopped after {MAX_PROBLEMS} problems"
            self.problems.append(Problem(self.file, line or self.line(), "", None, message))
            raise _TooManyError


@dataclass(slots=True)
class _Attributes:
    """The attributes of an element as values; what is wrong with them goes to the reader."""

    reader: _Reader
    element: str
    given: dict[str, str]

    def number(self, name: str, low: int = 0, high: int = MAX_VALUE) -> int:
        """A number that must be there."""
        text = self._text(name)
        if text is None:
            return low
        if _INTEGER.fullmatch(text) and low <= int(text) <= high:
            return int(text)
        self._refuse(name, text, f"{low} to {high}")
        return low

    def or_none(self, name: str) -> int | None:
        """A number, or -1 for nobody."""
        value = self.number(name, -1)
        return None if value == -1 else value

    def flag(self, name: str, *, default: bool) -> bool:
        """0 or 1."""
        return self.number(name, 0, 1) == 1 if name in self.given else default

    def word(self, name: str, words: tuple[str, ...], spellings: Mapping[str, str], default: str | None = None) -> str:
        """One of some words; in place of a wrong one, the last, which asks for nothing else."""
        if default is not None and name not in self.given:
            return default
        text = self._text(name, one_of(words))
        if text is None:
            return words[-1]
        text = spellings.get(text, text)
        if text not in words:
            self._refuse(name, text, one_of(words), did_you_mean(text, words))
            return words[-1]
        return text

    def pacing(self) -> Pacing:
        """Words that say how messages follow one another, separated by spaces (there may be none), and a number."""
        words = self.given.get("pacing", form.PACING[0]).split()
        for word in words:
            if word not in form.PACING:
                self._refuse("pacing", word, one_of(form.PACING), did_you_mean(word, form.PACING))
        one_by_one, spreads = (word in words for word in form.PACING)
        queues = self.number("queues", 0, MAX_QUEUES) if "queues" in self.given else 0
        return Pacing(one_by_one=one_by_one, spreads=spreads, queues=queues)

    def way(self, name: str) -> Way:
        """`choice:1`, `over:PCIe`, `link:0` or `through:["NIC 0", "leaf 0"]`."""
        kind, _, value = self.given[name].strip().partition(":")
        if kind == "over" and value:
            return {kind: value}
        most = {"choice": 65_535, "link": 65_535}.get(kind, -1)
        if _INTEGER.fullmatch(value) and 0 <= int(value) <= most:
            return {kind: int(value)}
        nodes = _names(value) if kind == "through" else None
        if nodes is not None:
            return {kind: nodes}
        self._refuse(name, self.given[name], "choice:1, over:CLASS, link:NUMBER or through:[NAMES]")
        return {"choice": 0}

    def place(self, buffer: str, offset: str) -> Place:
        """A buffer and an offset within it."""
        return Place(buffer=cast(Buffer, self.word(buffer, form.BUFFERS, {})), offset=self.number(offset))

    def _text(self, name: str, accepted: str = "a number") -> str | None:
        if name not in self.given:
            self.reader._refuse(f"{self.element}.{name}", None, "this attribute is missing", accepted)
            return None
        return self.given[name].strip()

    def _refuse(self, name: str, text: str, accepted: str, hint: str = "") -> None:
        message = f"'{shown(text)}' is not accepted{hint}"
        self.reader._refuse(f"{self.element}.{name}", text, message, accepted)


def _names(text: str) -> list[str] | None:
    """The names in a list as JSON has it; None if this is no such list."""
    try:
        names = json_reading.parse(text)
    except json_reading.NotJsonError:
        return None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None
