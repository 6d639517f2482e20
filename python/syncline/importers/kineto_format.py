"""Profiles of PyTorch (Kineto): one JSON document in Chrome's trace-event format for each rank, gzip or not.

What is used: `distributedInfo` (rank, world_size, pg_config), and complete events (`ph` X) of the categories below.
Times (`ts`, `dur`) are microseconds, with fractions. They are read exactly: since 1970 there have been so many of them
that a binary number of 64 bits has no room for nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from syncline.base.errors import InputError, Problem, shown
from syncline.importers.json_text import load
from syncline.importers.packed import inflated

MAX_BYTES: Final = 512 * 1024 * 1024
MOST_RANKS: Final = 65_536
MOST_RANK_DIGITS: Final = 9
ACCEPTED: Final = "a profile of PyTorch: a JSON object with distributedInfo and traceEvents"
ON_DEVICE: Final = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of what runs on streams of the GPU."""
RUNTIME: Final = ("cuda_runtime", "cuda_driver", "runtime", "hip_runtime")
"""Categories of calls that launch it, or wait for it."""
WAITS: Final = ("DeviceSynchronize", "StreamSynchronize", "EventSynchronize", "CtxSynchronize")
"""How calls end that wait for the GPU."""
PARAMS: Final = "record_param_comms"
"""The event of the host that says what a collective is."""
STEP: Final = "ProfilerStep#"
"""How annotations begin that say which iteration the host is in."""
ON_HOST: Final = "user_annotation"
"""The category of annotations by the clock of the host."""
ON_GPU: Final = "gpu_user_annotation"
"""The same by the clock of the GPU: from the first to the last kernel that was launched within."""
MOST_EXACT_DIGITS: Final = 40
"""Digits of a number that is read exactly."""
LATEST_PS: Final = 2**62
ELEMENTS: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short", "UInt16"), 2),
    **dict.fromkeys(("Float", "Int", "UInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Double", "Long", "UInt64", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
"""Bytes of an element, by the names that PyTorch gives data types."""


@dataclass(frozen=True, slots=True)
class Event:
    """A span of time."""

    index: int
    """Its place in `traceEvents`."""
    name: str
    category: str
    start: int
    """Picoseconds."""
    end: int
    thread: str
    args: Mapping[str, Any]

    @property
    def place(self) -> str:
        """What messages call its place."""
        return f"traceEvents.{self.index}"

    @property
    def correlation(self) -> int | None:
        """What a launch and what it launches have in common."""
        value = self.args.get("correlation")
        return value if isinstance(value, int) and value > 0 else None

    @property
    def external(self) -> int | None:
        """What events of the host and of the GPU that belong together have in common."""
        value = self.args.get("External id")
        return value if isinstance(value, int) else None


@dataclass(slots=True)
class Profile:
    """The profile of a rank."""

    file: str
    rank: int
    ranks: int
    """Ranks of the job."""
    events: list[Event] = field(repr=False)
    groups: dict[str, list[int]] = field(default_factory=dict)
    """Ranks of process groups, by name."""

    def refuse(self, event: Event, message: str, accepted: str | None = None) -> InputError:
        """Something that is wrong with an event."""
        said = f"{shown(event.name)}: {message}"
        return InputError([Problem(self.file, None, event.place, None, said, accepted)])


def read(content: bytes, file: str) -> Profile:
    """A profile. Raises [`InputError`] with the place of what is wrong."""
    text = load(inflated(content, file, MAX_BYTES), file, _number)
    values = text.values
    if not isinstance(values, dict) or not isinstance(values.get("traceEvents"), list):
        raise InputError([Problem(file, 1, "traceEvents", None, "this is no profile", ACCEPTED)])
    info = values.get("distributedInfo")
    if info is None:
        info = {"rank": 0, "world_size": 1}
    rank, ranks = (info.get(key) for key in ("rank", "world_size")) if isinstance(info, dict) else (None, None)
    if type(rank) is not int or type(ranks) is not int or not 0 <= rank < ranks <= MOST_RANKS:
        message = "these are no rank and world_size"
        accepted = f"rank from 0, world_size above it and up to {MOST_RANKS}"
        raise InputError([text.problem(["distributedInfo"], message, None, accepted)])
    groups = _groups(info.get("pg_config"), ranks)
    events = [made for index, raw in enumerate(values["traceEvents"]) if (made := _event(index, raw, file)) is not None]
    events.sort(key=lambda event: (event.start, event.end, event.index))
    return Profile(file, rank, ranks, events, groups)


def _groups(config: Any, ranks: int) -> dict[str, list[int]]:
    """The process groups that a profile lists; those without ranks are of all."""
    found: dict[str, list[int]] = {}
    for entry in config if isinstance(config, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("pg_name"), str):
            members = entry.get("ranks")
            if isinstance(members, list) and members and all(type(rank) is int for rank in members):
                found[entry["pg_name"]] = members
            elif members == [] and entry.get("pg_size", ranks) == ranks:
                found[entry["pg_name"]] = list(range(ranks))
    return found


def _event(index: int, raw: Any, file: str) -> Event | None:
    """An event that is used, or nothing."""
    if not isinstance(raw, dict):
        raise InputError([Problem(file, None, f"traceEvents.{index}", shown(raw), "this is no event", "an object")])
    category, name = raw.get("cat"), raw.get("name")
    if raw.get("ph") != "X" or not isinstance(category, str) or not isinstance(name, str):
        return None
    category = category.lower()
    is_params = category == "cpu_op" and name == PARAMS
    is_step = category in (ON_HOST, ON_GPU) and name.startswith(STEP)
    if not is_params and not is_step and category not in (*ON_DEVICE, *RUNTIME, "cuda_sync"):
        return None
    times = [_picoseconds(raw.get(key, 0 if key == "dur" else None), index, key, file) for key in ("ts", "dur")]
    args = raw.get("args")
    thread = f"{shown(raw.get('pid'))} {shown(raw.get('tid'))}"
    start = times[0]
    return Event(index, name, category, start, start + times[1], thread, args if isinstance(args, dict) else {})


def _number(text: str) -> Decimal | float:
    """A number with a fraction or an exponent: exactly, unless it is out of all proportion."""
    return Decimal(text) if len(text) <= MOST_EXACT_DIGITS and "e" not in text.lower() else float(text)


def _picoseconds(value: object, index: int, key: str, file: str) -> int:
    """The time of an event."""
    us = value
    if isinstance(value, str) and len(value) <= MOST_EXACT_DIGITS and value.replace(".", "", 1).isdecimal():
        us = Decimal(value)
    if isinstance(us, bool) or not isinstance(us, int | float | Decimal) or not 0 <= us < LATEST_PS // 10**3:
        message = f"{key} of this event is out of range"
        place = f"traceEvents.{index}.{key}"
        raise InputError([Problem(file, None, place, shown(value), message, "microseconds, from 0")])
    # Nanoseconds are the finest that profiles have.
    return round(us * 1000) * 1000


def ranks_of(args: Mapping[str, Any]) -> list[int] | None:
    """The ranks of a process group as an event lists them; nothing if the list is left out or cut short."""
    value = args.get("Process Group Ranks")
    if isinstance(value, str):
        words = [word.strip() for word in value.strip().strip("[]").split(",")]
        is_whole = all(word.isdecimal() and len(word) <= MOST_RANK_DIGITS for word in words)
        return [int(word) for word in words] if is_whole else None
    if isinstance(value, list) and value and all(type(rank) is int for rank in value):
        return value
    return None


def bytes_of(args: Mapping[str, Any], which: str) -> int | None:
    """Bytes of a message, `In` or `Out`."""
    count, dtype = args.get(f"{which} msg nelems"), args.get("dtype")
    element = ELEMENTS.get(dtype) if isinstance(dtype, str) else None
    if type(count) is not int or not 0 <= count < 2**56 or element is None:
        return None
    return count * element


def is_communication(name: str) -> bool:
    """Whether a kernel is one of NCCL or RCCL."""
    return name.lower().startswith(("nccl", "rccl", "mscclpp"))


def stream_of(event: Event) -> str:
    """The stream of the GPU on which an event runs."""
    return f"stream {event.args.get('stream', event.thread)}"


def launches(events: Sequence[Event]) -> dict[int, Event]:
    """Calls of the host, by correlation."""
    return {event.correlation: event for event in events if event.category in RUNTIME and event.correlation is not None}
