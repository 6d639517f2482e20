"""Runs the commands of a page as a terminal of 80 columns without colours would.

`syncline ...` runs within this process, which saves the second that Python takes to start; everything else by bash.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest import mock

from syncline.commands import cli

COLUMNS: Final = 80
SETTINGS: Final = {"COLUMNS": str(COLUMNS), "LINES": "50", "NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
_LIMIT_S: Final = 600
_STATUS = "; echo $?"


@dataclass(frozen=True)
class Printed:
    """What a command printed, standard output before standard error, and its exit status."""

    text: str
    status: int


class _Stream(io.TextIOWrapper):
    """A stream that is kept, and says whether it is a terminal."""

    def __init__(self, terminal: bool) -> None:
        self._kept = io.BytesIO()
        self._terminal = terminal
        super().__init__(self._kept, encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        self.flush()
        return self._kept.getvalue().decode()


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """The environment in which commands run; nothing of it stays."""
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', os.defpath)}"  # noqa: PTH120
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SYNCLINE_")}
    with mock.patch.dict(os.environ, {**kept, **SETTINGS, "PATH": path}, clear=True):
        yield


def run(command: str) -> Printed:
    """Runs a command in the folder at hand."""
    asked = command.removesuffix(_STATUS)
    call = _plain(asked)
    printed = _by_bash(asked) if call is None else _within(*call)
    if asked == command:
        return printed
    end = "" if not printed.text or printed.text.endswith("\n") else "\n"
    return Printed(f"{printed.text}{end}{printed.status}\n", 0)


def _plain(command: str) -> tuple[list[str], Path | None] | None:
    """The words of a call of `syncline` that needs no shell, and the file that its output goes to; none for anything
    else.
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    words = list(lexer)
    into = Path(words.pop()) if words[-2:-1] == [">"] else None
    if into is not None:
        words.pop()
    if words[:1] != ["syncline"] or "$" in command or any(set(word) <= set("|&;<>") for word in words):
        return None
    quoted = shlex.split(command, comments=True)
    return (quoted[1:] if into is None else quoted[1:-2]), into


def _within(words: list[str], into: Path | None) -> Printed:
    out, err = _Stream(terminal=into is None), _Stream(terminal=False)
    with (
        settings(),
        mock.patch.object(sys, "argv", ["syncline", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = cli.run(words)
    if into is None:
        return Printed(out.text() + err.text(), status)
    into.write_text(out.text(), encoding="utf-8")
    return Printed(err.text(), status)


def _by_bash(command: str) -> Printed:
    """Standard output is a terminal of its own, so that a command behaves as it does before a reader."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    with settings(), io.BytesIO() as kept:
        started = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE
        )
        os.close(theirs)
        with contextlib.suppress(OSError):  # what a terminal says at its end
            while read := os.read(ours, 65_536):
                kept.write(read)
        os.close(ours)
        _, err = started.communicate(timeout=_LIMIT_S)
        text = kept.getvalue().decode().replace("\r\n", "\n")
    return Printed(text + err.decode(), started.returncode)
