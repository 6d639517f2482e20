"""A case: files, and the command lines that meet them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final


@dataclass(frozen=True, slots=True)
class Case:
    """What a generator makes. Every command runs in a folder with the files, one after the other."""

    commands: list[list[str]]
    files: dict[str, bytes] = field(default_factory=dict)
    """Contents by their paths in the folder."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is mutated."""

    folder: Path
    """With results that commands have written."""

    def files(self, under: str) -> dict[str, bytes]:
        """The files of a folder of the corpus, by their paths in it."""
        folder = self.folder / under
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


Generator = Callable[[Random, Corpus], Case]

GENERATORS: Final[dict[str, tuple[Generator, int]]] = {}
"""Generators by name, and how often each has its turn."""


def generator(name: str, weight: int) -> Callable[[Generator], Generator]:
    """Registers a generator."""

    def register(make: Generator) -> Generator:
        GENERATORS[name] = (make, weight)
        return make

    return register


def turn(seed: int, number: int, among: Sequence[str] = ()) -> str:
    """The generator whose turn it is, among some or all."""
    names = list(among or GENERATORS)
    return Random(f"turn {seed} {number}").choices(names, [GENERATORS[name][1] for name in names])[0]


def case_of(seed: int, name: str, number: int, corpus: Corpus) -> Case:
    """The case of a number; the same whenever it is made."""
    return GENERATORS[name][0](Random(f"case {seed} {name} {number}"), corpus)
