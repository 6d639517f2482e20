"""How much memory a command may take: 80 % of what there is, or what is given.

`SYNCLINE_MEMORY_LIMIT` in the environment, or `--memory-limit`, say otherwise. A process in a control group (of a
container or a batch job), or with a limit of its address space (`ulimit -v`), has no more than that allows, the latter
whatever is given. The engine refuses what would take more before it takes it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from syncline.base.errors import command_line
from syncline.base.quantities import SIZE, QuantityError, size

VARIABLE: Final = "SYNCLINE_MEMORY_LIMIT"
SHARE: Final = 0.8
CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")
MEMBERSHIP: Final = Path("/proc/self/cgroup")
TAKEN: Final = Path("/proc/self/statm")
STATUS: Final = Path("/proc/self/status")
LEAST: Final = 150_000_000
"""Bytes that a small simulation takes, Python included."""
ACCEPTED: Final = f"a size such as 8GB, {SIZE.format(LEAST)} or more"


def set_limit(text: str) -> None:
    """Sets the limit of this process and those that it starts. Raises [`InputError`]."""
    _read(text, "--memory-limit")
    os.environ[VARIABLE] = text


def limit(given: int | None = None) -> int:
    """Bytes that a simulation may take: those that are `given`, if any are. Raises [`InputError`] where the environment
    names no size.
    """
    text = os.environ.get(VARIABLE)
    # What is left of the address space changes as the process grows; there is no more, whatever is given.
    left = [int(SHARE * rest) for rest in _address_space_left()]
    if given is not None:
        return min([given, *left])
    return min([int(SHARE * available()) if text is None else _read(text, VARIABLE), *left])


def at_once(threads: int | None, needed: Iterable[int], given: int | None = None) -> int:
    """Simulations that may run side by side, if each may need as much as the largest; `given` as in [`limit`]."""
    most = threads or os.cpu_count() or 1
    return max(1, min(most, limit(given) // max([1, *needed])))


def peak() -> int:
    """The most bytes that this process had in memory so far.

    What `getrusage` tells is at least what the program that started this one had then (a notebook, say), because Linux
    counts the process before it runs a program of its own; so the kernel's mark of the present program comes first.
    """
    for line in _lines(STATUS):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@cache
def available() -> int:
    """Bytes of memory that this process may have: those of the machine, or fewer in a control group."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *control_group_limits(MEMBERSHIP, CONTROL_GROUPS)])


def _address_space_left() -> list[int]:
    """What the limit of the address space leaves beside libraries and stacks, if there is one."""
    limited, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _lines(TAKEN)[:1] or ["0"]
    taken = int(pages[0].split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return [] if limited == resource.RLIM_INFINITY else [max(0, limited - taken)]


def control_group_limits(membership: Path, mounted: Path) -> list[int]:
    """The limits of a process's control groups and of those around them, of both versions of control groups."""
    found: list[int] = []
    for line in _lines(membership):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            base, name = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            base, name = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = base / path.strip().lstrip("/")
        for folder in (group, *group.parents):
            found += [int(text) for text in _lines(folder / name)[:1] if text.isdigit()]
            if folder == base:
                break
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").split("\n")
    except OSError:
        return []


def _read(text: str, name: str) -> int:
    try:
        found = size(text)
    except QuantityError as error:
        raise command_line(name, text, error.message, error.accepted) from None
    if found < LEAST:
        raise command_line(name, text, "this is less than any simulation needs", ACCEPTED)
    return found
