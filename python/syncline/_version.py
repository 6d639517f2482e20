"""The version of Syncline, and that of the form of its documents."""

from __future__ import annotations

from functools import cache
from typing import Final

SCHEMA_VERSION: Final = 1
"""The version of the form of documents (docs/documents.md). It is raised where a field is removed or means something
else; what was written before is read all the same.
"""


@cache
def version() -> str:
    """The version of the package; of a checkout that is not installed, that of the engine."""
    from importlib.metadata import PackageNotFoundError  # slow to read
    from importlib.metadata import version as installed

    try:
        return installed("syncline")
    except PackageNotFoundError:
        from syncline import _core

        return _core.version()


def versions() -> dict[str, int | str]:
    """The first fields of every document: the version of its form and that of Syncline."""
    return {"schema_version": SCHEMA_VERSION, "version": version()}
