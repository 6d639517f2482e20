"""`syncline trees --html` and `--svg`: the page of the trees of some GPUs, and their picture."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.base import outputs
from syncline.base.errors import command_line
from syncline.commands.cli import trees_options
from syncline.fabric.circle_layout import MOST_DRAWN
from syncline.report.trees import page

if TYPE_CHECKING:
    from syncline.fabric.graph import Graph
    from syncline.treegen.packing import Packing
    from syncline.treegen.question import Question


def write(path: Path, graph: Graph, asked: Question, packed: Packing, document: dict[str, Any]) -> None:
    """Writes the page; `packed` has the trees that were chosen. Raises [`InputError`] where it cannot be written."""
    save(path, page.build(page.Found(graph, asked, packed, document), trees_options.typed()))


def save(path: Path, text: str) -> None:
    """Writes a page. Raises [`InputError`] where it cannot be written."""
    outputs.write(path, text, outputs.PAGE, "--html")
    print(f"page: {path}", file=sys.stderr)


def draw(path: Path, gpus: int, picture: Callable[[], str]) -> None:
    """Writes a picture of trees on so many GPUs. Raises [`InputError`] for too many, or where it cannot be written."""
    if gpus > MOST_DRAWN:
        message = f"trees of {gpus} GPUs are not drawn"
        raise command_line("--svg", str(path), message, f"up to {MOST_DRAWN} GPUs")
    outputs.write(path, picture(), outputs.PICTURE, "--svg")
    print(f"picture: {path}", file=sys.stderr)
