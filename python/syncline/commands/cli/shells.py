"""Answers shells that ask what may follow on a command line."""

from __future__ import annotations

import os
from typing import Any, Final

import typer

PROGRAM: Final = "syncline"


ASKED: Final = "_SYNCLINE_COMPLETE"
"""The variable by which a shell asks what may follow."""


def is_asked() -> bool:
    """Whether a shell asks what may follow."""
    return bool(os.environ.get(ASKED))


def answer(command: Any) -> int:
    """Answers a shell, and returns the exit status."""
    from typer import completion as shells

    command.commands["completion"]  # which knows the names of things
    shells.completion_init()  # type: ignore[attr-defined]  # makes the shells known that typer has written for
    try:
        command.main(args=[], prog_name=PROGRAM, complete_var=ASKED, standalone_mode=False)
    except SystemExit as done:
        return int(done.code or 0)
    except typer.Exit as done:
        return done.exit_code
    except (KeyError, ValueError):  # variables that no shell sets so
        return 1
    return 0
