"""Whether the engine can be used: it exists, and was built from the Rust sources beside this package.

An engine built from other sources may expect other descriptions, or give other results. Where the package is installed
without the sources, both were built together.
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from typing import Final

from syncline.base.errors import EngineDefectError, Problem

CRATES: Final = Path(__file__).parents[3] / "crates"
"""The engine's sources in a checkout."""
APART: Final = frozenset({"runtime", "nccl"})
"""Those of the collective library, which the engine knows nothing of."""
PANICS: Final = ("InternalError", "PanicException")
"""What the engine raises when it panics, by name: the classes cannot be relied upon where the engine is missing."""
REBUILD: Final = "an engine that is built from these sources: run make"


class EngineUnusableError(Exception):
    """The engine is missing, or not the one that belongs to this package."""

    def __init__(self, message: str) -> None:
        self.problem = Problem("syncline", None, "engine", None, message, REBUILD)
        super().__init__(str(self.problem))


def sources() -> int | None:
    """The fingerprint that an engine of these sources has (`crates/python/build.rs`); `None` where there are none."""
    if not (CRATES / "python" / "build.rs").is_file():
        return None
    fingerprint = 0
    names = sorted((file.relative_to(CRATES).as_posix(), file) for file in CRATES.glob("*/src/**/*.rs"))
    for name, file in names:
        if name.split("/")[0] in APART:
            continue
        fingerprint = zlib.crc32(file.read_bytes(), zlib.crc32(name.encode(), fingerprint))
    return fingerprint


@cache
def require() -> None:
    """Raises [`EngineUnusableError`] unless the engine can be used."""
    try:
        from syncline.core import _core
    except ImportError as error:
        raise EngineUnusableError(f"it cannot be loaded ({error})") from None
    expected = sources()
    if expected is not None and (not hasattr(_core, "sources") or _core.sources() != expected):
        raise EngineUnusableError("it was built from other sources")


def defect(error: BaseException, request: str) -> BaseException:
    """A failure with what is worth a report, if the engine has panicked; any other error as it is."""
    if type(error).__name__ not in PANICS:
        return error
    import tempfile

    message = f"the engine stopped at an error of its own, which is worth a report: {error}"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="syncline-", suffix=".json", delete=False) as file:
            file.write(request)
        message += f"; what it was to simulate is in {file.name}"
    except OSError:
        pass  # the message is what matters
    return EngineDefectError(message)
