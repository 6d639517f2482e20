"""What shells complete: names of things, and files; a function for each argument that takes them.

Each returns names with what they stand for, which zsh and fish show, where that is known without reading much. Paths
of files are completed by the shell where an argument takes nothing else.

The names come from sources that `completion` fills in, which is only imported where a shell asks: listing everything
takes most of the package.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

Offered = Iterator[tuple[str, str] | str]
SOURCES: Final[dict[str, Callable[[], Iterable[str]]]] = {}
"""The names of each kind of things, by the kind."""
KINDS: Final[list[tuple[str, str]]] = []
"""Kinds of lists, and what they list."""


def _of(kind: str, incomplete: str) -> Offered:
    yield from (name for name in SOURCES[kind]() if name.startswith(incomplete))


def _files(incomplete: str, *suffixes: str) -> Iterator[str]:
    """The files that a path may go on to, and folders, with a slash behind them."""
    folder, start = os.path.split(incomplete)
    try:
        found = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except (OSError, ValueError):
        return
    for entry in found:
        if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
            path = os.path.join(folder, entry.name)  # noqa: PTH118  # what was typed stays as it is
            if entry.is_dir():
                yield f"{path}/"
            elif not suffixes or entry.name.endswith(suffixes):
                yield path


def kinds(incomplete: str) -> Offered:
    """Kinds of lists."""
    yield from (kind for kind in KINDS if kind[0].startswith(incomplete))


def experiments(incomplete: str) -> Offered:
    """Studies, examples, and files of experiments."""
    yield from _of("studies", incomplete)
    yield from _of("examples", incomplete)
    yield from _files(incomplete, ".yaml", ".yml")


def sweeps(incomplete: str) -> Offered:
    """Sweeps that come with the package, and files."""
    yield from _of("sweeps", incomplete)
    yield from _files(incomplete, ".yaml", ".yml")


def figures(incomplete: str) -> Offered:
    """Figures that come with the package, and files."""
    yield from _of("figures", incomplete)
    yield from _files(incomplete, ".yaml", ".yml")


def searches(incomplete: str) -> Offered:
    """Searches that come with the package, and files."""
    yield from _of("searches", incomplete)
    yield from _files(incomplete, ".yaml", ".yml")


def machines(incomplete: str) -> Offered:
    """Machines."""
    yield from _of("machines", incomplete)


def models(incomplete: str) -> Offered:
    """Models that come with the package, and files."""
    yield from _of("models", incomplete)
    yield from _files(incomplete, ".yaml", ".yml")


def collectives(incomplete: str) -> Offered:
    """Collectives."""
    yield from _of("collectives", incomplete)


def algorithms(incomplete: str) -> Offered:
    """Algorithms."""
    yield from _of("algorithms", incomplete)


def endpoints(incomplete: str) -> Offered:
    """Endpoint models."""
    yield from _of("endpoints", incomplete)


def backends(incomplete: str) -> Offered:
    """Network backends."""
    yield from _of("backends", incomplete)


def software(incomplete: str) -> Offered:
    """Classes of constants of the software model, and files of them."""
    yield from _of("software", incomplete)
    yield from _files(incomplete, ".yaml", ".yml")


def claims(incomplete: str) -> Offered:
    """Claims."""
    yield from _of("claims", incomplete)


def schemas(incomplete: str) -> Offered:
    """Formats that have a schema."""
    yield from _of("schemas", incomplete)
