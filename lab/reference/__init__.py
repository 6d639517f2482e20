"""Pages of the documentation that are made of what the code declares, when the site is built (`website/reference`)."""

from __future__ import annotations

import re

from lab.reference import algorithms, commands, documents, keys
from lab.reference import tables as table_reference


def pages() -> dict[str, str]:
    """The text of every page, by its path in the folder of the documentation."""
    reference = {
        "commands": commands.page(),
        "algorithms": algorithms.page(),
        "documents": documents.page(),
        **{name: keys.page(name) for name in keys.TITLES},
    }
    return {
        "tables.md": table_reference.page(),
        **{f"reference/{name}.md": _linked(text) for name, text in reference.items()},
    }


def _linked(page: str) -> str:
    """The page with links in place of the paths of other pages, which stand in texts of the code."""
    fence = re.compile(r"(```.*?```)", re.DOTALL)
    parts = fence.split(page)
    parts[::2] = [re.sub(r"`?\bdocs/(\w+)\.md`?", r"[\1](../\1.md)", part) for part in parts[::2]]
    return "".join(parts)
