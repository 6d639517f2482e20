"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from syncline.base.errors import NotWrittenError


def write(path: Path, content: str | bytes) -> None:
    """Writes a file as a whole or not at all. Raises [`NotWrittenError`] with the file's own name."""
    try:
        handle, name = tempfile.mkstemp(prefix=".incomplete-", dir=path.parent)
        staged = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
            staged.chmod(0o644)
            staged.replace(path)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise not_written(error, path) from None


def not_written(error: OSError, path: Path) -> NotWrittenError:
    """The error with the name of what was to be written, in place of one of a file that is there for a moment only."""
    if isinstance(error, NotWrittenError):
        return error
    reason = str(error) if error.errno is None else os.strerror(error.errno)
    return NotWrittenError(error.errno, reason, str(path))
