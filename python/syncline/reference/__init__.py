"""Pages of the documentation that are made of what the code declares (`make reference`)."""

from __future__ import annotations

from syncline import table_reference
from syncline.reference import algorithms, commands, documents, keys


def pages() -> dict[str, str]:
    """The text of every page, by its path in the folder of the documentation."""
    return {
        "tables.md": table_reference.page(),
        "reference/commands.md": commands.page(),
        "reference/algorithms.md": algorithms.page(),
        "reference/documents.md": documents.page(),
        **{f"reference/{name}.md": keys.page(name) for name in keys.TITLES},
    }
