"""Pages as blocks: commands with what they print, files that a reader types, and Python.

A fenced block `console` holds commands, lines that begin with `$ `, each with all that it prints below it. A block
with `title="NAME"` is a file. Blocks `python` are executed. Everything else is not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
GENERATED: Final = ("reference", "reproduction.md", "validation.md")
"""Pages and folders of docs/ that a program writes; they show no commands of their own."""
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<info>.*)$")
_TITLE = re.compile(r'title="([^"]*)"')
_SLOW = "<!-- slow -->"
_NOT_RUN = re.compile(r"^<!-- not run: (?P<reason>.*) -->$")
_LOOSE = re.compile(r"^(\$ |(    )+(\$ )?syncline [a-z]|(\$ )?syncline [a-z].*( --|\.yaml))")


class PageError(Exception):
    """A page is not written as it must be, with its place."""


@dataclass(frozen=True)
class Command:
    """A command, its line in the page (from 1), and the lines that the page shows below it."""

    text: str
    line: int
    shown: list[str]
    shown_at: int


@dataclass(frozen=True)
class Block:
    """A block that is run: its kind (`console`, `file`, `python`), its line, and its content."""

    kind: str
    line: int
    content: list[str]
    title: str = ""
    slow: bool = False
    not_run: str = ""

    @property
    def text(self) -> str:
        """The content as a text."""
        return "".join(f"{line}\n" for line in self.content)

    def commands(self) -> list[Command]:
        """The commands of a console block."""
        found: list[Command] = []
        number = self.line
        lines = iter(self.content)
        for text in lines:
            number += 1
            if text.startswith("$ "):
                first, command = number, text[2:]
                while command.endswith("\\"):
                    command = f"{command[:-1]} {next(lines, '').strip()}"
                    number += 1
                found.append(Command(command, first, [], number + 1))
            elif found:
                found[-1].shown.append(text)
            else:
                raise PageError(f"line {number}: a console block begins with a command, `$ ...`")
        return found


def all_pages() -> list[Path]:
    """README and every page of the documentation that a person writes."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    written = [page for page in pages if page.relative_to(ROOT / "docs").parts[0] not in GENERATED]
    return [ROOT / "README.md", *written]


def blocks(text: str) -> list[Block]:
    """What of a page is run.

    Raises:
        PageError: A block does not end, has no title where it needs one, or shows a command in another form.
    """
    return list(_blocks(text.split("\n")))


def _blocks(lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        begin = _FENCE.match(lines[number])
        if begin is None:
            if _LOOSE.match(lines[number]):
                raise PageError(f"line {number + 1}: commands stand in a block ```console, so that they are run")
            number += 1
            continue
        end = next((at for at in range(number + 1, len(lines)) if _closes(lines[at], begin)), None)
        if end is None:
            raise PageError(f"line {number + 1}: this block does not end")
        indent = len(begin["indent"])
        content = [line[indent:] if not line[:indent].strip() else line for line in lines[number + 1 : end]]
        found = _block(begin["info"].strip(), number + 1, content, lines[number - 1].strip() if number else "")
        if found is not None:
            yield found
        number = end + 1


def _closes(line: str, begin: re.Match[str]) -> bool:
    return line.strip() == begin["ticks"] and len(line) - len(line.lstrip()) <= len(begin["indent"])


def _block(info: str, line: int, content: list[str], before: str) -> Block | None:
    language = info.partition(" ")[0]
    title = _TITLE.search(info)
    refused = _NOT_RUN.match(before)
    if before.startswith("<!-- not run") and (refused is None or len(refused["reason"].split()) < 3):
        raise PageError(f"line {line}: why this is not run is a sentence, `<!-- not run: ... -->`")
    if title is not None:
        kind = "file"
        path = Path(title[1])
        if path.is_absolute() or ".." in path.parts or not title[1]:
            raise PageError(f"line {line}: a file of a page is in the folder of the page")
    elif language in ("console", "python"):
        kind = language
    else:
        if any(text.startswith("$ ") for text in content) or language in ("bash", "sh", "shell"):
            raise PageError(f"line {line}: commands stand in a block ```console, so that they are run")
        return None
    return Block(
        kind, line, content, title[1] if title else "", before == _SLOW, "" if refused is None else refused["reason"]
    )
