"""The page of a search: the best candidate, the Pareto front of time and memory or NPUs, and every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from syncline.report.charts import Figure
from syncline.report.escape import chart_text
from syncline.report.markup import Charts, Column, chart, hint, note, section, table
from syncline.report.page import Around, whole
from syncline.report.sweep import called, pareto, setting, value_text
from syncline.results.units import byte_scale, significant, time, time_scale

Row = Mapping[str, Any]

TITLES = (("headline", "Headline"), ("pareto", "Pareto front"), ("rows", "Candidates"))
GIGABYTE = 1e9


def build(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """The page of the rows of a search (`search.table`), the best first, and what they are about."""
    varied = [name for name in about["axes"] if len({row[name] for row in rows}) > 1]
    figures: Charts = {}
    body = "\n".join((_headline(rows, varied), _fronts(rows, varied, figures), _table(rows, varied)))
    facts = [f"{len(rows)} candidates", f"{sum(row['rank'] is not None for row in rows)} simulated"]
    return whole(Around(str(about["name"]), facts, str(about["version"]), "", TITLES, "search"), body, figures)


def _headline(rows: Sequence[Row], varied: Sequence[str]) -> str:
    best = next((row for row in rows if row["rank"] == 1), None)
    if best is None:
        return section("headline", "Headline", note("No candidate has a simulated time."))
    text = f"Best with {time(best['iteration_time_s'])} an iteration: {setting(best, varied)}."
    return section("headline", "Headline", hint(text))


def _fronts(rows: Sequence[Row], varied: Sequence[str], figures: Charts) -> str:
    by_npus = len({row["npus"] for row in rows}) > 1
    fitting = [row for row in rows if row["estimate_s"] is not None]
    if not fitting:
        return section("pareto", "Pareto front", note("No candidate fits into memory."))
    text = "A line joins the simulated candidates that no other beats in both. Estimates are pale."
    body = hint(text) + chart(
        figures, "chart-memory", front(fitting, varied, "memory_bytes"), "", "Time against memory"
    )
    if by_npus:
        body += chart(figures, "chart-npus", front(fitting, varied, "npus"), "", "Time against the number of NPUs")
    return section("pareto", "Pareto front", body)


def front(rows: Sequence[Row], varied: Sequence[str], against: str) -> Figure:
    """Time of an iteration against memory or NPUs: estimates, simulations, and a line through the best of these."""
    done = [row for row in rows if row["iteration_time_s"] is not None]
    times = time_scale([row["iteration_time_s"] or row["estimate_s"] for row in rows])
    unit = GIGABYTE if against == "memory_bytes" else 1.0
    best = pareto([(row[against], -row["iteration_time_s"]) for row in done])
    groups = (
        ("estimated", "markers", [row for row in rows if row["iteration_time_s"] is None], "@other", "estimate_s"),
        ("simulated", "markers", done, "@compute", "iteration_time_s"),
        ("Pareto front", "lines+markers", [done[i] for i in best], "@exposed", "iteration_time_s"),
    )
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": mode,
            "name": name,
            "x": [significant(row[against] / unit, 6) for row in chosen],
            "y": [times.of(row[column]) for row in chosen],
            "customdata": [[chart_text(setting(row, varied)), time(row[column])] for row in chosen],
            "hovertemplate": "%{customdata[0]}<br>%{x}, %{customdata[1]}<extra></extra>",
            "opacity": 0.4 if name == "estimated" else 1,
            "marker": {"color": colour, "size": 6 if name == "estimated" else 8},
            "line": {"color": colour, "shape": "hv", "width": 2},
        }
        for name, mode, chosen, colour, column in groups
    ]
    title = "memory of an NPU (GB)" if against == "memory_bytes" else "NPUs"
    return {
        "data": traces,
        "layout": {
            "height": 420,
            "margin": {"l": 10, "r": 12, "t": 64, "b": 48},
            "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
            "showlegend": True,
            "xaxis": {"title": {"text": title}},
            "yaxis": {"title": {"text": f"time of an iteration ({times.unit})"}, "rangemode": "tozero"},
        },
    }


def _table(rows: Sequence[Row], varied: Sequence[str]) -> str:
    times = time_scale(row["iteration_time_s"] or row["estimate_s"] for row in rows)
    sizes = byte_scale(row["memory_bytes"] for row in rows)
    columns = [Column(called(name), numeric=not isinstance(rows[0][name], str)) for name in varied]
    columns += [Column(name, times.unit) for name in ("bound", "estimate", "simulated")]
    columns += [Column("memory", sizes.unit), Column("status", numeric=False)]
    cells = [
        [
            *(value_text(name, row[name]) for name in varied),
            *(times.text(row[name]) for name in ("bound_s", "estimate_s", "iteration_time_s")),
            sizes.text(row["memory_bytes"]),
            f"{row['status']}: {row['reason']}"
            if row["status"] in ("too large", "refused", "failed")
            else row["status"],
        ]
        for row in rows
    ]
    return section("rows", "Candidates", table("rows", columns, cells))
