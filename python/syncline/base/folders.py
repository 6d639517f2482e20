"""Folders that commands write into: looked at before there is something to write, and made when there is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from syncline.base.errors import unwritten


def refusal(folder: Path) -> str | None:
    """Why nothing can be written into a folder, which need not exist; nothing if it seems that it can."""
    try:
        nearest = next(each for each in (folder, *folder.parents) if _exists(each))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return f"this directory cannot be made: {reason}"
    except StopIteration:
        return None  # the working directory is gone: writing says so
    is_there = nearest == folder
    if not nearest.is_dir():
        return "this is not a directory" if is_there else f"this directory cannot be made: {nearest} is no directory"
    if not os.access(nearest, os.W_OK | os.X_OK):
        what = "cannot be written to" if is_there else f"cannot be made: {nearest} cannot be written to"
        return f"this directory {what}"
    return None


def _exists(path: Path) -> bool:
    """Whether something has this name. Raises [`OSError`] for what no name can be."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@contextmanager
def made(folder: Path, flag: str = "--out") -> Iterator[None]:
    """Makes a folder, and removes what it has made where nothing is in it in the end. Raises [`InputError`] where it
    cannot be made, and [`NotWrittenError`] where the disk is full.
    """
    try:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise unwritten(folder, error, flag) from None
    try:
        yield
    finally:
        for each in missing:
            with suppress(OSError):
                each.rmdir()
