"""Values of the text of an execution plan: what is wrong with them is noted with its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from syncline.base.errors import Problem, did_you_mean, one_of, shown
from syncline.base.positions import Positions
from syncline.plans.mscclpp import OWN
from syncline.plans.mscclpp.form import Path

MAX_PROBLEMS: Final = 100
MAX_VALUE: Final = 2**31 - 1
KEYS: Final = {
    "plan": frozenset(
        [
            "name",
            "collective",
            "protocol",
            "inplace",
            "reuse_resources",
            "use_double_scratch_buffer",
            "buffer_alignment",
            "num_threads_per_block",
            "min_message_size",
            "max_message_size",
            "gpus",
        ]
    ),
    "gpu": frozenset(
        [
            "id",
            "input_chunks",
            "output_chunks",
            "scratch_chunks",
            "channels",
            "remote_buffers",
            "semaphores",
            "threadblocks",
        ]
    ),
    "thread block": frozenset({"id", "ops", "channels", "remote_buffer_refs"}),
    "operation": frozenset(
        [
            "name",
            "src_buff",
            "dst_buff",
            "channel_ids",
            "channel_type",
            "reduce_op",
            "barrier_id",
            "num_threadblocks",
            "semaphore_ids",
        ]
    ),
}


class TooManyError(Exception):
    """Reading on would only add to what is wrong."""


@dataclass(slots=True)
class Values:
    """Takes values out of mappings."""

    file: str
    positions: Positions
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    unknown: set[tuple[str, str]] = field(default_factory=set)
    moved: int = 0
    """Chunks that operations work on, all together."""
    ops: int = 0
    """Operations so far."""

    def own(self, path: Path, given: dict[str, Any]) -> dict[str, Any]:
        """What stands under the key of Syncline's own."""
        value = given.get(OWN, {})
        if isinstance(value, dict):
            return value
        self.refuse((*path, OWN), value, "this is no mapping", "a mapping")
        return {}

    def number(self, path: Path, given: dict[str, Any], key: str, most: int, least: int = 0) -> int:
        """A number that must be there."""
        value = self.required(path, given, key, f"{least} to {most}")
        if type(value) is int and least <= value <= most:
            return value
        if value is not None:
            self.refuse((*path, key), value, f"'{shown(value)}' is not accepted", f"{least} to {most}")
        return least

    def optional(self, path: Path, given: dict[str, Any], key: str, most: int) -> int | None:
        """A number, if it is there."""
        return self.number(path, given, key, most) if key in given else None

    def flag(self, path: Path, given: dict[str, Any], key: str, *, default: bool | None = None) -> bool:
        """True or false."""
        value = default if default is not None and key not in given else self.required(path, given, key, "true, false")
        if value is not None and type(value) is not bool:
            self.refuse((*path, key), value, f"'{shown(value)}' is not accepted", "true, false")
        return value is True

    def text(self, path: Path, given: dict[str, Any], key: str) -> str:
        """A text that must be there."""
        value = self.required(path, given, key, "a text")
        if value is not None and not isinstance(value, str):
            self.refuse((*path, key), value, "this is no text", "a text")
        return value if isinstance(value, str) else ""

    def word(
        self, path: Path, given: dict[str, Any], key: str, words: Sequence[str], message: str | None = None
    ) -> str:
        """One of some words; the first one in place of a wrong one."""
        value = self.required(path, given, key, one_of(words))
        if value is None or (isinstance(value, str) and value in words):
            return value or ""
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        self.refuse((*path, key), value, message or f"'{shown(value)}' is not accepted{hint}", one_of(words))
        return ""

    def is_memory(self, path: Path, entry: dict[str, Any], key: str) -> bool:
        """Whether an entry is of memory channels; others are refused by name."""
        kind = self.word(path, entry, key, ("memory", "port", "switch"))
        if kind in ("port", "switch"):
            self.refuse((*path, key), kind, f"{kind} channels are not read", "memory")
        return kind == "memory"

    def items(
        self, path: Path, given: dict[str, Any], key: str, *, of: type = dict, optional: bool = False
    ) -> list[Any]:
        """A list of mappings, or of something else; those that are none are refused and left out."""
        if optional and key not in given:
            return []
        value = self.required(path, given, key, "a list")
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse((*path, key), value, "this is no list", "a list")
            return []
        names = {dict: "a mapping", int: "a number", str: "a text"}
        for nth, item in enumerate(value):
            if type(item) is not of:
                self.refuse((*path, key, nth), item, f"this is not {names[of]}", names[of])
        return [item for item in value if type(item) is of]

    def required(self, path: Path, given: dict[str, Any], key: str, accepted: str) -> Any:
        """A value; none, and refused, if it is missing."""
        if given.get(key) is None:
            self.refuse((*path, key), None, "this is missing", accepted)
        return given.get(key)

    def check_keys(self, path: Path, given: dict[str, Any], kind: str) -> None:
        """Warns of keys that mean nothing, once of each."""
        for key in given.keys() - KEYS[kind] - {OWN}:
            if (kind, key) not in self.unknown:
                self.unknown.add((kind, key))
                known = did_you_mean(key, KEYS[kind])
                self.warn((*path, key), kind, f"the key '{shown(key)}' is not known and is ignored{known}")

    def limit(self, path: Path, given: int, most: int, what: str) -> None:
        """Warns of more than a runtime takes."""
        if given > most:
            self.warn(path, _of(path), f"{given} {what}; MSCCL++ takes up to {most}")

    def warn(self, path: Path, where: str, message: str) -> None:
        """Notes what a runtime may stumble over."""
        if len(self.warnings) < MAX_PROBLEMS:
            self.warnings.append(Problem(self.file, self.positions.line(path), where, None, message))

    def refuse(self, path: Path, value: object, message: str, accepted: str | None = None) -> None:
        """Notes what is wrong with the value at a path."""
        line = self.positions.line(path)
        self.problems.append(Problem(self.file, line, _of(path), shown(value), message, accepted))
        if len(self.problems) == MAX_PROBLEMS:
            message = f"there may be more: reading stopped after {MAX_PROBLEMS} problems"
            self.problems.append(Problem(self.file, line, "", None, message))
            raise TooManyError


def _of(path: Path) -> str:
    """A path for a person: with GPU, thread block and operation where it goes through them."""
    names = {"gpus": "GPU", "threadblocks": "thread block", "ops": "operation"}
    said: list[str] = []
    rest = list(path)
    while len(rest) >= 2 and rest[0] in names and isinstance(rest[1], int):
        said.append(f"{names[str(rest[0])]} {rest[1]}")
        rest = rest[2:]
    inside = ".".join(str(key) for key in rest)
    return ", ".join([*said, *([inside] if inside else [])])
