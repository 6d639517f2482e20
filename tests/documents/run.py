"""Runs a page in a folder of its own, and says what differs from what it shows."""

from __future__ import annotations

import contextlib
import difflib
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import shell, shown
from .page import Block, Command, blocks


@dataclass
class Outcome:
    """What is wrong with a page, a text for each, and what it should show instead: by command."""

    failures: list[str] = field(default_factory=list)
    printed: list[tuple[Command, list[str]]] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    """What its Python has defined."""


def run(text: str, folder: Path, *, slow: bool = False, said: Callable[[str], None] = lambda _: None) -> Outcome:
    """Runs the blocks of a page one after the other; slow ones only if they are asked for. A block that fails in itself
    ends the page, since what follows depends on it; one that only prints other text does not.

    Raises:
        PageError: The page is not written as it must be.
    """
    outcome = Outcome()
    outcome.names["__name__"] = "__main__"
    with contextlib.chdir(folder), shell.settings():
        for block in blocks(text):
            if block.not_run or (block.slow and not slow):
                continue
            if not _ran(block, outcome, said):
                break
    return outcome


def _ran(block: Block, outcome: Outcome, said: Callable[[str], None]) -> bool:
    if block.kind == "file":
        path = Path(block.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return True
    if block.kind == "python":
        return _executed(block, outcome)
    return all(_holds(command, outcome, said) for command in block.commands())


def _executed(block: Block, outcome: Outcome) -> bool:
    # As many empty lines before it as there are in the page, so that a traceback names lines of the page.
    text = "\n" * block.line + block.text
    try:
        exec(compile(text, "page", "exec"), outcome.names)
    except Exception:
        outcome.failures.append(f"line {block.line}: this does not run\n{traceback.format_exc()}")
        return False
    return True


def _holds(command: Command, outcome: Outcome, said: Callable[[str], None]) -> bool:
    began = time.monotonic()
    ended = shell.run(command.text)
    said(f"{time.monotonic() - began:5.1f} s  {command.text}")
    printed = shown.lines_of(ended.text)
    if ended.status != 0:
        text = "\n".join(printed)
        outcome.failures.append(f"line {command.line}: exit status {ended.status}\n$ {command.text}\n{text}")
        return False
    outcome.printed.append((command, printed))
    expected = shown.lines_of("\n".join(command.shown))
    if expected and not shown.agrees(expected, printed):
        difference = "\n".join(difflib.unified_diff(expected, printed, "the page", "printed", lineterm=""))
        outcome.failures.append(f"line {command.line}: this prints something else\n$ {command.text}\n{difference}")
    return True


def updated(text: str, outcome: Outcome) -> str:
    """The page with the outputs that its commands have printed."""
    lines = text.split("\n")
    for command, printed in reversed(outcome.printed):
        if shown.lines_of("\n".join(command.shown)):
            first = command.shown_at - 1
            old = lines[first : first + len(command.shown)]
            indent = old[0][: len(old[0]) - len(command.shown[0])]
            new = [f"{indent}{line}".rstrip() for line in shown.updated(command.shown, printed)]
            lines[first : first + len(old)] = new
    return "\n".join(lines)
