"""Every table of every command at any width: no name, axis or number is cut, whatever they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from support.command import Ended
from support.inputs import EXAMPLES
from syncline.commands.cli import layout

Command = Callable[..., Ended]

MOST_ROWS = 10
"""So many rows of a table are tried under other names."""
WIDTHS = (60, 80, 120, 200)
LONG = "a-name-as-long-as-people-give-to-systems-with-variants"
WIDE = "\u96c6\u56e3\u901a\u4fe1\u306e\u8a2d\u5b9a" * 4
"""Of 56 columns, two for each character."""
AXIS = "variants.Engine.endpoint.partition_of_phases.sram_bytes"
MORE: dict[str, list[str]] = {
    "bench": ["bench", "all-reduce", "--machine", "dgx-a100", "--sizes", "1KiB,1MiB"],
    "collective, group": ["collective", "all-reduce", "--size", "1MB", "--topology", "Ring(4)", "--group", "0,1,3"],
    "fit": ["fit", "divided.yaml", "--all"],
    "list": ["list"],
    "models": ["list", "models"],
    "machine": ["topology", "show", "--machine", "dgx1v"],
    "trees, swept": ["trees", "--machine", "dgx1v", "--gpus", "0-3", "--sweep", "allocations", "--sizes", "3"],
    "trees, compared": ["trees", "--machine", "dgx1v", "--gpus", "1,4,5,6", "--compare"],
}
LINES = {name: [*name.split(), *line] for name, line in EXAMPLES.items()} | MORE


def tables_of(line: list[str], command: Command, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Table, int]]:
    """The tables that a command shows, and how many of their columns are names of rows."""
    found: list[tuple[Table, int]] = []
    fitted = layout.fitted

    def recorded(table: Table, labels: int, width: int) -> Any:
        found.append((table, labels))
        return fitted(table, labels, width)

    with monkeypatch.context() as patch:
        patch.setattr(layout, "fitted", recorded)
        assert command(*line).status == 0
    return found


def renamed(table: Table, name: str) -> Table:
    """The same table with a longer name, or a wide one, in its first column, and a longer one of the column."""
    made = Table(title=table.title, box=table.box, pad_edge=False, show_header=table.show_header)
    for number, column in enumerate(table.columns):
        header = column.header if number or not table.show_header else AXIS
        made.add_column(header, justify=column.justify, overflow=column.overflow)
    for row in islice(zip(*(column.cells for column in table.columns), strict=True), MOST_ROWS):
        made.add_row(name, *row[1:])
    return made


def printed(parts: Any, width: int) -> Iterator[str]:
    out = StringIO()
    console = Console(file=out, width=width, markup=False, highlight=False)
    for part in parts:
        console.print(part)
    yield from out.getvalue().splitlines()


def holds(table: Table, labels: int, width: int) -> None:
    lines = [*printed(layout.fitted(table, labels, width), width)]
    assert all(cell_len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert "\u2026" not in text
    joined = "".join(text.split())
    for column in table.columns:
        for word in str(column.header).split() if table.show_header and table.row_count else ():
            assert cell_len(word) > width - 4 or any(word in line for line in lines), (width, word)
        for cell in map(str, column.cells):
            if column.overflow == "fold":
                assert all(word in joined for word in cell.split() if cell_len(word) < layout.PROSE)
            elif cell_len(cell) <= width - 4:
                assert any(cell.strip() in line for line in lines), (width, cell)
            else:
                assert "".join(cell.split()) in joined


@pytest.mark.parametrize("name", LINES)
def test_nothing_is_cut(name: str, folder: Path, syncline_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for table, labels in tables_of(LINES[name], syncline_command, monkeypatch):
        for shown in (table, renamed(table, LONG), renamed(table, WIDE)):
            for width in WIDTHS:
                holds(shown, labels, width)
