"""The page of all allocations of a machine: the figure, a table that sorts, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from syncline import _version
from syncline.report.escape import html_text
from syncline.report.figures.page import drawing
from syncline.report.markup import Column, Row, hint, note, reproduce, section, table
from syncline.report.page import Around, whole
from syncline.report.trees import sweep_figure
from syncline.results.units import MISSING, factor, rate_scale, size
from syncline.studies.trees import sweep_table
from syncline.studies.trees.sweep_table import Table

TITLES: Final = (("drawing", "Figure"), ("spread", "Speed-up"), ("allocations", "Allocations"), ("facts", "Facts"))


def build(found: Table, document: Mapping[str, Any], svg: bytes, command: str) -> str:
    """The page. `command` makes it again."""
    about = found.about
    simulated = f"{about['backend']} backend, {about['endpoint']} endpoint" if found.compared else "rates in theory"
    facts = [f"{about['collective']} of {size(about['size_bytes'])}", f"links: {about['links']}", simulated]
    alike = "Each row stands for allocations whose links are alike; its numbers are those of the first. "
    what = ("" if about.get("every") else alike) + _rings()
    body = "\n".join(
        (
            section("drawing", "Figure", drawing(sweep_figure.title(found), svg.decode()) + _left_out(found)),
            section("spread", "Speed-up of trees over rings", _spreads(found)),
            section("allocations", "Allocations", hint(what) + _rows(found)),
            section("facts", "What it rests on", _facts(document) + reproduce(command)),
        )
    )
    banner = ""
    if found.status != "complete":
        told = f"Partial: {len(found.rows)} of {found.wanted} rows are there, and {len(found.failed)} of them failed."
        banner = f'<p class="banner">{html_text(told)}</p>\n'
    around = Around(sweep_figure.title(found), facts, _version.version(), banner, TITLES, "allocations")
    return whole(around, body, {})


def _rings() -> str:
    return "Rings in theory are as many cycles of NVLinks as fit, in both directions, or one over PCIe."


def _left_out(found: Table) -> str:
    drawn = len(sweep_figure.shown(found))
    left = len(found.rows) - drawn
    return note(f"{left} rows have no bars: their GPUs are apart, or there are more than fit.") if left else ""


def _spreads(found: Table) -> str:
    columns = [Column("speed-up", numeric=False), Column("GPUs"), Column("allocations")]
    columns += [Column(name) for name in ("least", "lower quarter", "median", "upper quarter", "most")]
    rows: list[Row] = []
    for column, what in (("theoretical_speedup", "in theory"), ("speedup", "simulated")):
        for spread in sweep_table.spreads(found.rows, column):
            values = (spread.least, spread.lower, spread.median, spread.upper, spread.most)
            rows.append([what, str(spread.gpu_count), f"{spread.allocations:,}", *map(factor, values)])
    return table("spreads", columns, rows) if rows else note("No allocation has both trees and rings.")


def _rows(found: Table) -> str:
    scale = rate_scale(row.get("trees_algorithm_bandwidth_bytes_per_s") for row in found.rows)
    columns = [
        Column("GPUs", numeric=False),
        Column("how many"),
        Column("alike", hint=_meaning("allocations")),
        Column("parts", hint=_meaning("components")),
        Column("rate of trees", "links", hint=_meaning("trees_rate_links")),
        Column("bound", "links", hint=_meaning("bound_rate_links")),
        Column("trees", hint=_meaning("trees")),
        Column("depth", hint=_meaning("depth")),
        Column("rate of rings", "links", hint=_meaning("rings_rate_links")),
        Column("over", numeric=False, hint=_meaning("rings_over_pcie")),
        Column("speed-up in theory", hint=_meaning("theoretical_speedup")),
    ]
    if found.compared:
        columns += [Column(f"{name}, simulated", scale.unit) for name in ("trees", "rings", "double binary trees")]
        columns.append(Column("speed-up, simulated", hint="Time of rings over that of packed trees."))
    rows: list[Row] = []
    for row in found.rows:
        if row["status"] != "done":
            rows.append([row["gpus"], str(row["gpu_count"]), f"{row['allocations']:,}", *_empty(columns, 3)])
            continue
        over = {None: MISSING, True: "PCIe", False: "NVLink"}[row["rings_over_pcie"]]
        cells = [
            row["gpus"],
            str(row["gpu_count"]),
            f"{row['allocations']:,}",
            str(row["components"]),
            _links(row["trees_rate_links"]),
            _links(row["bound_rate_links"]),
            str(row["trees"]),
            MISSING if row["depth"] is None else str(row["depth"]),
            _links(row["rings_rate_links"]),
            over,
            factor(row["theoretical_speedup"]),
        ]
        if found.compared:
            names = ("trees", "rings", "double_binary_trees")
            cells += [scale.text(row[f"{name}_algorithm_bandwidth_bytes_per_s"]) for name in names]
            cells.append(factor(row["speedup"]))
        rows.append(cells)
    return table("allocations", columns, rows)


def _empty(columns: list[Column], filled: int) -> list[str]:
    return [MISSING] * (len(columns) - filled)


def _links(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4g}"


def _meaning(name: str) -> str:
    return next(column.meaning for column in sweep_table.COLUMNS if column.name == name)


def _facts(document: Mapping[str, Any]) -> str:
    failed = [f"GPUs {row['gpus']}: {row['status']}: {row['error']}" for row in document["failed"]]
    found = ""
    for key, title, lines in (
        ("warnings", "Warnings", [*document["warnings"], *failed]),
        ("assumptions", "Assumptions in force", document["assumptions"]),
    ):
        items = "".join(f"<li>{html_text(line)}</li>" for line in lines)
        if items:
            found += f'<h3>{title}</h3><ul class="{key}">{items}</ul>'
    return found
