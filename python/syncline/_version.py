"""The version of Syncline, and that of the form of its documents."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

SCHEMA_VERSION: Final = 1
"""The version of the form of documents (docs/documents.md). It is raised where a field is removed or means something
else; what was written before is read all the same.
"""


@cache
def version() -> str:
    """The version of the package; of a checkout that is not installed, what its `Cargo.toml` says."""
    import tomllib
    from importlib.metadata import PackageNotFoundError  # slow to read
    from importlib.metadata import version as installed

    try:
        return installed("syncline")
    except PackageNotFoundError:
        manifest = Path(__file__).parents[2] / "Cargo.toml"
        return str(tomllib.loads(manifest.read_text(encoding="utf-8"))["workspace"]["package"]["version"])


def versions() -> dict[str, int | str]:
    """The first fields of every document: the version of its form and that of Syncline."""
    return {"schema_version": SCHEMA_VERSION, "version": version()}
