"""What a user sees of an error that nobody foresaw: one line, and a file with what whoever mends it needs."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final, NoReturn

from syncline.base.errors import InputError, Problem, shown

STATUS: Final = 1
"""The exit status, that of simulations that fail."""
LIBRARIES: Final = ("typer", "pydantic", "pyarrow", "PyYAML", "numpy", "protobuf")


def leave(error: BaseException, arguments: Sequence[str]) -> NoReturn:
    """Says that a command ended in an error of the program itself, and ends the process, whatever still runs."""
    report(error, arguments)
    os._exit(STATUS)


def report(error: BaseException, arguments: Sequence[str]) -> None:
    """Says that a command came to an error of the program itself, and where its details are."""
    details = _kept(error, arguments)
    message = f"this ended in an error of Syncline itself, which is worth a report ({_named(error)}); {details}"
    command = shown(shlex.join(["syncline", *arguments])) or ""
    with suppress(OSError, ValueError, AttributeError):  # where standard output or error is closed
        sys.stdout.flush()
    with suppress(OSError, ValueError, AttributeError):
        if "--json" in arguments:
            print(InputError([Problem("command line", None, "", command, message)]).as_json(), file=sys.stderr)
        else:
            print(f"{command}: {message}", file=sys.stderr)
        sys.stderr.flush()


def _named(error: BaseException) -> str:
    text = shown(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _kept(error: BaseException, arguments: Sequence[str]) -> str:
    """Writes the details into a file, and says where they are."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", errors="backslashreplace", prefix="syncline-", suffix=".txt", delete=False
        ) as file:
            file.writelines(f"{line}\n" for line in _details(error, arguments))
    except OSError as full:
        return f"its details could not be written: {full.strerror}"
    return f"details are in {file.name}"


def _details(error: BaseException, arguments: Sequence[str]) -> Iterator[str]:
    yield f"command: {shlex.join(['syncline', *arguments])}"
    with suppress(OSError):
        yield f"folder: {Path.cwd()}"
    yield f"system: {platform.platform()}, Python {platform.python_version()}"
    for name in ("syncline", *LIBRARIES):
        with suppress(metadata.PackageNotFoundError):
            yield f"{name}: {metadata.version(name)}"
    yield ""
    yield "".join(traceback.format_exception(error))
