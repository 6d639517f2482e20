"""What NPUs of different classes do, and how much several jobs slow each other down."""

from __future__ import annotations

from typing import Final

from syncline.report.markup import Column, Row, hint, table
from syncline.results.study import Study, items
from syncline.results.units import MISSING, factor, number, time_scale

PARTS: Final = {
    "compute": "Compute of its main stream",
    "exposed": "Waits for collectives, and for messages of its own class",
    "bubble": "Waits for messages of other classes",
    "background_wait": "Waits for compute of other streams",
    "drain": "From the end of its main stream to the end of the run",
}
"""What the time of a class consists of."""


def class_tables(study: Study) -> str:
    """Classes of NPUs, and jobs, of the variants that have several."""
    return _classes(study) + _jobs(study)


def _classes(study: Study) -> str:
    """Times over the whole run of the NPU of each class that ended last; they add up to the total."""
    found = [(v.name, entry) for v in study.variants for entry in items(v.run.get("classes"))]
    if not found:
        return ""
    scale = time_scale(number(entry.get("total_s")) for _, entry in found)
    shown = [part for part in PARTS if any(number(entry.get(f"{part}_s")) for _, entry in found)]
    columns = [
        Column("variant", numeric=False),
        Column("class", numeric=False),
        Column("NPUs"),
        Column("total", scale.unit, hint="Length of the run"),
        *(Column(part.replace("_", " "), scale.unit, hint=PARTS[part]) for part in shown),
    ]
    rows: list[Row] = []
    for name, entry in found:
        npus = number(entry.get("npus"))
        times = (number(entry.get(f"{part}_s")) for part in ("total", *shown))
        npus_text = MISSING if npus is None else f"{npus:,.0f}"
        rows.append([name, str(entry.get("name", "")), npus_text, *map(scale.text, times)])
    return (
        "<h3>Classes of NPUs</h3>" + hint("Of each class, the NPU that ended last.") + table("classes", columns, rows)
    )


def _jobs(study: Study) -> str:
    """Jobs that share a fabric, beside the others and alone."""
    found = [(v.name, entry) for v in study.variants for entry in items(v.run.get("jobs"))]
    if not found:
        return ""
    both = ("iteration_time_s", "iteration_time_alone_s")
    scale = time_scale(number(entry.get(key)) for _, entry in found for key in both)
    columns = [
        Column("variant", numeric=False),
        Column("job", numeric=False),
        Column("iteration", scale.unit, hint="Beside the other jobs"),
        Column("alone", scale.unit, hint="An iteration of the job alone on the fabric"),
        Column("slow-down", hint="Beside the others, divided by alone"),
    ]
    rows: list[Row] = [
        [
            name,
            str(entry.get("name", "")),
            *(scale.text(number(entry.get(key))) for key in both),
            factor(number(entry.get("slowdown"))),
        ]
        for name, entry in found
    ]
    return "<h3>Jobs</h3>" + table("jobs", columns, rows)
