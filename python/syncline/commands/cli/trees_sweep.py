"""`syncline trees --sweep allocations`: rates and trees of every allocation, as they are printed and drawn."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline.base import outputs, text_units
from syncline.commands.api import tree_sweeping
from syncline.commands.api.tree_comparison import Observed
from syncline.commands.cli import layout, tables, trees_options
from syncline.report.trees import sweep_figure, sweep_page
from syncline.results import entries as results
from syncline.studies.sweeps.run import on_stderr
from syncline.studies.trees import sweep_table

if TYPE_CHECKING:
    from syncline.commands.api.tree_questions import Read
    from syncline.studies.trees.sweep_table import Table

SHOWN_ROWS: Final = 200
"""Rows on a terminal; the file and the document have all."""


@dataclass(frozen=True, slots=True)
class Files:
    """What is written."""

    table: Path | None
    svg: Path | None
    html: Path | None
    resume: bool


def run(read: Read, sizes: str | None, files: Files, threads: int | None, *, every: bool, json: bool) -> int:
    """Finds and prints the rows, and writes what is asked for. Raises [`InputError`]."""
    finished = tree_sweeping.run(
        tree_sweeping.Wanted.of(read, sizes, every=every),
        tree_sweeping.Output(files.table, files.resume),
        threads,
        Observed(warn=on_stderr),
        quiet=False,
    )
    table, document = finished.table, finished.document
    if table.rows:
        _draw(table, document, files)
    _print(table, document, files, json=json)
    if finished.interrupted:
        print(f"interrupted; {len(table.rows)} of {finished.wanted} allocations are finished", file=sys.stderr)
        return 130
    return 1 if table.failed else 0


def _draw(table: Table, document: dict[str, Any], files: Files) -> None:
    if files.svg is None and files.html is None:
        return
    drawn = sweep_figure.svg(table)
    for flag, path in (("--svg", files.svg), ("--html", files.html)):
        if path is None:
            continue
        content = drawn if flag == "--svg" else sweep_page.build(table, document, drawn, trees_options.typed())
        outputs.write(path, content, outputs.PICTURE if flag == "--svg" else outputs.PAGE, flag)


def _print(table: Table, document: dict[str, Any], files: Files, *, json: bool) -> None:
    if json:
        print(results.dumps(document))
    elif table.rows:
        _show(table)
    for failure in document["failed"]:
        print(f"GPUs {failure['gpus']}: {failure['status']}: {failure['error']}", file=sys.stderr)
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    for what, path in (("table", files.table), ("figure", files.svg), ("page", files.html)):
        if path is not None and (table.rows or what == "table"):
            print(f"{what}: {path}", file=sys.stderr)


def _show(table: Table) -> None:
    """The rows, and how speed-ups are distributed."""
    tables.show(_rows(table), 1)
    for column, what in (("theoretical_speedup", "in theory"), ("speedup", "simulated")):
        for spread in sweep_table.spreads(table.rows, column):
            counted = f"{spread.allocations:,} allocation{'' if spread.allocations == 1 else 's'}"
            print(
                f"{spread.gpu_count} GPUs, trees over rings {what}: {spread.least:.2f}x to {spread.most:.2f}x, "
                f"median {spread.median:.2f}x ({counted})"
            )


def _rows(table: Table) -> Any:
    about = table.about
    title = f"{about['collective']} of {text_units.size(about['size_bytes'])} on allocations of {about['machine']}"
    printed = layout.table(title=title)
    printed.add_column("GPUs")
    compared = ["trees, algbw", "rings, algbw", "speed-up"] if table.compared else []
    for heading in ("alike", "trees", "bound", "number", "depth", "rings", "in theory", *compared):
        printed.add_column(heading, justify="right")

    def links(value: float | None) -> str:
        return "-" if value is None else f"{value:.4g}"

    def times(value: float | None) -> str:
        return "-" if value is None else text_units.times(value)

    for row in table.rows[:SHOWN_ROWS]:
        if row["status"] != "done":
            printed.add_row(row["gpus"], f"{row['allocations']:,}", row["status"])
            continue
        rings = links(row["rings_rate_links"])
        cells = [
            row["gpus"],
            f"{row['allocations']:,}",
            links(row["trees_rate_links"]),
            links(row["bound_rate_links"]),
            str(row["trees"]),
            "-" if row["depth"] is None else str(row["depth"]),
            f"{rings} (PCIe)" if row["rings_over_pcie"] else rings,
            times(row["theoretical_speedup"]),
        ]
        if table.compared:
            cells += [
                text_units.bandwidth(row[f"{name}_algorithm_bandwidth_bytes_per_s"]) for name in ("trees", "rings")
            ]
            cells.append(times(row["speedup"]))
        printed.add_row(*cells)
    if len(table.rows) > SHOWN_ROWS:
        printed.add_row(f"and {len(table.rows) - SHOWN_ROWS} more")
    return printed
