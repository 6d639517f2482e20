"""What results have in common that are a JSON document with fields beside it."""

from __future__ import annotations

from typing import Any


class Documented:
    """A result with the document that its command prints with `--json`."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document: dict[str, Any] = document
        """The document that the command prints with `--json`."""

    @property
    def status(self) -> str:
        """`complete`; or `partial`, if something failed or was interrupted."""
        return str(self.document["status"])

    @property
    def seed(self) -> int:
        """The seed of random numbers."""
        return int(self.document.get("seed") or 0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before the numbers are relied on."""
        return tuple(self.document.get("warnings", ()))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What nobody stated, and was filled in."""
        return tuple(self.document.get("assumptions", ()))
