"""`syncline trees --html`: the page of the trees of some GPUs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncline.fabric.graph import Graph
    from syncline.trees.packing import Packing
    from syncline.trees.question import Question


def write(path: Path, graph: Graph, asked: Question, packed: Packing, document: dict[str, Any]) -> None:
    """Writes the page; `packed` has the trees that were chosen. Raises [`InputError`] where it cannot be written."""
    from syncline import rundir
    from syncline.cli import trees_options
    from syncline.errors import command_line
    from syncline.trees import page

    text = page.build(page.Found(graph, asked, packed, document), trees_options.typed())
    try:
        rundir.write(path, text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise command_line("--html", str(path), f"this cannot be written: {reason}") from None
    print(f"page: {path}", file=sys.stderr)
