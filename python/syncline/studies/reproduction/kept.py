"""Simulations that are kept on the disk, so that a reproduction that was ended is taken up again.

A simulation is a folder under a hash of what was simulated and of the engine that did it: the summary as JSON, and the
tables that claims read as Parquet. The folder gets its name when all is written, so that there are no halves; one that
cannot be read counts for nothing, and is written again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncline import _version
from syncline.base.errors import InputError, NotWrittenError, command_line
from syncline.engine.runs import Result
from syncline.results import parquet

SUMMARY: Final = "summary.json"
_STAGED: Final = ".incomplete-"


@dataclass(frozen=True, slots=True)
class Kept:
    """A folder of simulations. Threads may share it."""

    folder: Path

    def prepare(self) -> None:
        """Makes the folder, and removes what an earlier process left unfinished. Raises [`InputError`]."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for leftover in self.folder.glob(f"{_STAGED}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            tempfile.TemporaryFile(dir=self.folder).close()
        except (OSError, ValueError) as error:  # ValueError: the name has zeros in it
            message = f"this folder cannot be written to: {getattr(error, 'strerror', None) or error}"
            raise command_line("--keep", str(self.folder), message, "a folder, which is made if need be") from None

    def has(self, key: str) -> bool:
        """Whether a simulation with this description was kept."""
        return self._place(key).is_dir()

    def find(self, key: str) -> Result | None:
        """What came of a simulation with this description, if it was kept."""
        place = self._place(key)
        if not place.is_dir():
            return None
        try:
            summary = json.loads((place / SUMMARY).read_text("utf-8"))
            tables = {file.stem: parquet.read(file, str(file)) for file in sorted(place.glob("*.parquet"))}
        except (OSError, ValueError, InputError):
            shutil.rmtree(place, ignore_errors=True)
            return None
        return Result(summary, tables)

    def add(self, key: str, result: Result) -> None:
        """Keeps what came of a simulation. Raises [`NotWrittenError`] if it cannot be written."""
        try:
            self._write(key, result)
        except OSError as error:
            raise NotWrittenError(error.errno, error.strerror or str(error), str(self.folder)) from None

    def _write(self, key: str, result: Result) -> None:
        staged = Path(tempfile.mkdtemp(prefix=_STAGED, dir=self.folder))
        try:
            (staged / SUMMARY).write_text(json.dumps(result.summary), "utf-8")
            for name, table in result.tables.items():
                (staged / f"{name}.parquet").write_bytes(parquet.content(table, ".parquet"))
            with suppress(FileExistsError):  # another process has kept it in the meantime
                staged.rename(self._place(key))
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def _place(self, key: str) -> Path:
        from syncline.core import _core

        text = f"{_version.version()} {_core.sources()} {key}"
        return self.folder / hashlib.sha256(text.encode()).hexdigest()[:40]
