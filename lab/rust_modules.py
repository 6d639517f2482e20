"""Circles among the modules of the Rust crates: `python -m lab.rust_modules` prints them.

A module is a file. It depends on the modules that its paths name (`use crate::a::b`, `super::c`, `crate::d::f()`).
That a child uses its ancestors and they use it is idiomatic, and no circle; one among siblings or cousins is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

Module = tuple[str, ...]
"""The path of a module in its crate; that of the crate itself is empty."""

ROOT = Path(__file__).parents[1]
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_TESTS = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*mod \w+ \{.*\Z", re.DOTALL)
_RENAMED = re.compile(r"\s+as\s+\w+")
_PATH = re.compile(r"\b(crate|super|self)((?:::(?:\w+))+)?(::\{)?")


def modules(source: Path) -> dict[Module, str]:
    """The modules of the crate whose sources are in a folder, with their texts, without comments and tests."""
    found = {}
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[0] in ("bin", "main"):
            continue
        name = parts[:-1] if parts[-1] in ("mod", "lib") else parts
        text = _STRING.sub('""', _COMMENT.sub("", path.read_text(encoding="utf-8")))
        if name[-1:] != ("tests",):
            found[name] = _RENAMED.sub("", _TESTS.sub("", text))
    return found


def _braced(text: str, at: int) -> Iterator[tuple[str, ...]]:
    """The paths in the braces that open at a place, as in `use a::{b, c::d}`."""
    depth, word = 0, ""
    path: list[list[str]] = [[]]
    for character in text[at:]:
        if character in "{},;":
            if word:
                yield tuple(step for steps in path for step in steps) + tuple(word.split("::"))
            if character == "{":
                path.append([step for step in word.split("::") if step])
                depth += 1
            elif character == "}":
                path.pop()
                depth -= 1
            word = ""
            if depth == 0:
                return
        elif character.isalnum() or character in "_:":
            word += character


def named(module: Module, text: str) -> Iterator[Module]:
    """The paths that a module names, from the root of its crate."""
    for match in _PATH.finditer(text):
        base: Module = () if match[1] == "crate" else module if match[1] == "self" else module[:-1]
        steps = [step for step in (match[2] or "").split("::") if step]
        while steps[:1] == ["super"]:
            base, steps = base[:-1], steps[1:]
        if match[3]:
            yield from ((*base, *steps, *inner) for inner in _braced(text, match.end() - 1))
        elif steps:
            yield (*base, *steps)


def dependencies(found: Mapping[Module, str]) -> dict[Module, set[Module]]:
    """What each module depends on, beside its ancestors and descendants."""
    graph: dict[Module, set[Module]] = {}
    for module, text in found.items():
        graph[module] = set()
        for path in named(module, text):
            to = next((path[:n] for n in range(len(path), -1, -1) if path[:n] in found), ())
            if to[: len(module)] != module and module[: len(to)] != to:
                graph[module].add(to)
    return graph


def circles(graph: Mapping[Module, set[Module]]) -> list[list[Module]]:
    """The sets of modules that depend on each other (Tarjan 1972)."""
    index: dict[Module, int] = {}
    low: dict[Module, int] = {}
    stack: list[Module] = []
    found: list[list[Module]] = []

    def visit(module: Module) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for to in sorted(graph[module]):
            if to not in index:
                visit(to)
            if to in stack:
                low[module] = min(low[module], low[to])
        if low[module] == index[module]:
            circle = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for module in graph:
        if module not in index:
            visit(module)
    return found


def all_circles() -> dict[str, list[list[str]]]:
    """The circles of every crate that has any."""
    found = {}
    for source in sorted(ROOT.glob("crates/*/src")):
        of_crate = circles(dependencies(modules(source)))
        if of_crate:
            found[source.parent.name] = [["::".join(module) for module in circle] for circle in of_crate]
    return found


if __name__ == "__main__":
    for crate, of_crate in all_circles().items():
        for circle in of_crate:
            print(f"{crate}: {', '.join(circle)}")
    sys.exit(bool(all_circles()))
