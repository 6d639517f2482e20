"""How a table fits a terminal: nothing of it is ever cut.

A pipe or a file gets the table as wide as it is; columns of prose, which have `overflow="fold"`, are wrapped. On a
terminal that is too narrow for it, headings are broken into lines; where that is not enough, columns are laid out in
several tables below one another, each with the names of the rows; and where not even that fits, every row becomes a
block of lines.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from syncline.base.text_units import cells

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.table import Table
    from rich.text import Text

PIPED: Final = 160
"""Characters of a line that is not on a terminal; more if a table needs them."""
MOST_PARTS: Final = 4
"""Tables that the columns of one are laid out in; rather than in more, rows are laid out in blocks."""
PROSE: Final = 30
"""Characters that a column of prose has at least."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a table as text."""

    heading: str
    justify: JustifyMethod
    is_prose: bool
    cells: tuple[str, ...]

    @property
    def cell_width(self) -> int:
        """Characters of the longest cell; prose needs no more than some."""
        longest = max(map(_longest, self.cells), default=0)
        return min(longest, PROSE) if self.is_prose else longest

    @property
    def width(self) -> int:
        """Characters of the column."""
        return max(_longest(self.heading), self.cell_width)

    def broken(self) -> _Column:
        """The same with its heading in lines that are no longer than its cells, or than its longest word."""
        first, *others = self.heading.split(" ")
        most = max(self.cell_width, cells(first), *map(cells, others), 0)
        lines = [first]
        for word in others:
            joined = f"{lines[-1]} {word}"
            if cells(joined) <= most:
                lines[-1] = joined
            else:
                lines.append(word)
        return replace(self, heading="\n".join(lines))


def table(title: str | None = None, *, show_header: bool = True) -> Table:
    """A table to be filled in."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_header=show_header)


def show(table: Table, labels: int = 1) -> None:
    """Prints a table, whose first `labels` columns name its rows; plainly into pipes and where NO_COLOR is set."""
    from rich.console import Console

    columns = shutil.get_terminal_size().columns
    width = columns if sys.stdout.isatty() else max(PIPED, columns, _width(_columns(table)))
    console = Console(
        width=width, highlight=False, markup=False, color_system=None if os.environ.get("NO_COLOR") else "auto"
    )
    if table.title:
        console.print(str(table.title), style="bold")
    for part in fitted(table, labels, width):
        console.print(part)


def fits(text: str) -> bool:
    """Whether no line of a text is longer than those of the terminal."""
    return _longest(text) <= shutil.get_terminal_size().columns


def fitted(table: Table, labels: int, width: int) -> list[Table | Text]:
    """The table, without its title, in the first layout that is no wider than `width`."""
    columns = _columns(table)
    for shape in (columns, [column.broken() for column in columns]):
        if _width(shape) <= width:
            return [_table(table, shape)]
    names, others = shape[:labels], shape[labels:]
    if not table.show_header or not others or any(_width([*names, column]) > width for column in others):
        return [_block(table, columns, row, width) for row in range(table.row_count)]
    parts: list[list[_Column]] = [[]]
    for column in others:
        if parts[-1] and _width([*names, *parts[-1], column]) > width:
            parts.append([])
        parts[-1].append(column)
    if len(parts) > MOST_PARTS:
        return [_block(table, columns, row, width) for row in range(table.row_count)]
    return [_table(table, [*names, *part]) for part in parts]


def _columns(table: Table) -> list[_Column]:
    return [
        _Column(str(c.header), c.justify, c.overflow == "fold", tuple(str(cell) for cell in c.cells))
        for c in table.columns
    ]


def _width(columns: Sequence[_Column]) -> int:
    """Characters of a line: two blanks between columns and one on either side of them and of the table."""
    return sum(column.width for column in columns) + 3 * (len(columns) - 1) + 2


def _longest(text: str) -> int:
    return max(map(cells, text.split("\n")), default=0)


def _table(whole: Table, columns: Sequence[_Column]) -> Table:
    from rich.table import Table
    from rich.text import Text

    part = Table(box=whole.box, pad_edge=whole.pad_edge, show_header=whole.show_header)
    for column in columns:
        part.add_column(Text(column.heading), justify=column.justify, no_wrap=not column.is_prose)
    for row in zip(*(column.cells for column in columns), strict=True):
        part.add_row(*map(Text, row))
    return part


def _block(table: Table, columns: Sequence[_Column], row: int, width: int) -> Text:
    """A row as lines of heading and value; values that are too long for a line go on in the next."""
    from rich.text import Text

    if not table.show_header:
        name, *values = (column.cells[row] for column in columns)
        return Text("\n".join([name, *(f"  {piece}" for value in values for piece in _pieces(value, width - 2))]))
    indent = min(max(cells(column.heading) for column in columns) + 2, max(2, width // 2))
    lines = []
    for column in columns:
        value = column.cells[row]
        if cells(column.heading) < indent and cells(value) <= width - indent:
            lines.append(f"{column.heading}{' ' * (indent - cells(column.heading))}{value}")
        else:
            lines += [column.heading, *(f"  {piece}" for piece in _pieces(value, width - 2))]
    return Text("\n".join([*lines, ""]))


def _pieces(text: str, room: int) -> list[str]:
    """A text in lines of so many columns of a terminal, of which some characters take two."""
    pieces: list[str] = [""]
    width = 0
    for character in text:
        own = cells(character)
        if width + own > room and pieces[-1]:
            pieces.append("")
            width = 0
        pieces[-1] += character
        width += own
    return pieces
