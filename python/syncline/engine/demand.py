"""What communicators of a run are asked for, and the part of the engine's description that says how it is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from syncline.base import description
from syncline.base.errors import InputError, Problem

KEPT: Final = 64
"""Descriptions whose answers are kept: runs are set up several times."""
Ask = Callable[[str], str]
"""The engine's answer to a description (`asked` of `_core`)."""


class DemandError(InputError):
    """What a run asks for cannot be had; `path` leads to the field of the experiment that is to blame."""

    def __init__(self, path: tuple[str, ...], message: str, accepted: str | None = None) -> None:
        super().__init__([Problem("experiment", None, ".".join(path), None, message, accepted)])
        self.path, self.message, self.accepted = path, message, accepted


@dataclass(frozen=True, slots=True)
class Asked:
    """What communicators that are alike are asked for."""

    family: int
    """The number of their family, as `overrides` of the engine's description name it."""
    members: tuple[tuple[int, ...], ...]
    """NPUs of each communicator by rank."""
    collectives: tuple[tuple[str, int, int], ...]
    """Kind, root and bytes of each."""
    counts: tuple[int, ...]
    """How often an iteration asks for each."""
    shape: int
    """Communicators of a run with the same number have the same links between their ranks."""


def sections(specified: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All parts of a description that say how collectives are carried out."""
    yield specified["collectives"]
    for family in specified.get("families", ()):
        yield family["collectives"]
    for job in specified["job"].get("jobs", ()):
        yield job["collectives"]
    for own in specified.get("overrides", ()):
        yield own["collectives"]


def parts(specified: dict[str, Any], ask: Ask) -> Iterator[tuple[Asked, dict[str, Any]]]:
    """What communicators are asked for, and the part of the description that says how."""
    own = {(own["family"], npu): own["collectives"] for own in specified.get("overrides", ()) for npu in own["first"]}
    jobs = {npu: job["collectives"] for job in specified["job"].get("jobs", ()) for npu in job["npus"]}
    families = specified.get("families", ())
    for part in _answer(description.text(specified), ask):
        first = part.members[0][0]
        if (part.family, first) in own:
            yield part, own[part.family, first]
        elif jobs:
            yield part, jobs[first]
        else:
            yield part, families[part.family]["collectives"] if families else specified["collectives"]


@lru_cache(KEPT)
def _answer(request: str, ask: Ask) -> tuple[Asked, ...]:
    return tuple(map(_asked, json.loads(ask(request))))


def _asked(part: dict[str, Any]) -> Asked:
    return Asked(
        family=part["family"],
        members=tuple(map(tuple, part["members"])),
        collectives=tuple(map(tuple, part["collectives"])),
        counts=tuple(part["counts"]),
        shape=part["shape"],
    )


def chunks(section: dict[str, Any], kind: str, size: int) -> int:
    """The number of chunks of a collective of so many bytes, before padding."""
    stated = dict(section.get("chunks_of", ())).get(kind) or section["chunking"].get("chunks")
    if stated is None:
        return -(-size // int(section["chunking"]["bytes"]))
    return min(int(stated), max(1, size // int(section.get("least_chunk_bytes", 1))))


def alone(
    specified: dict[str, Any], section: dict[str, Any], groups: dict[str, Any] | None, kind: str, root: int
) -> dict[str, Any]:
    """The description of a collective of no bytes that `groups` carry out as `section` says, and nothing beside it. It
    is the same whatever the algorithms of other kinds, so that answers about it hold for all of these.
    """
    own = [(other, name) for other, name in section["algorithms"] if other == kind]
    return {
        **{key: specified[key] for key in ("fabric", "fold", "network", "endpoint")},
        "groups": groups,
        "collectives": section | {"algorithms": own},
        "job": {"kind": "collective", "collective": kind, "bytes": 0, "root": root},
        "output": {"window_ps": 10**12, "trace_npus": [], "trace_limit": 0},
    }
