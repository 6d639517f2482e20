"""The page of a measurement beside its prediction."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.report.figures.draw import COLOURS, STYLE
from syncline.report.figures.page import drawing
from syncline.report.markup import Column, Row, hint, reproduce, section, table
from syncline.report.page import Around, whole
from syncline.results.entries import Document
from syncline.results.units import percent, rate_scale, size, time_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES: Final = (("drawing", "Figure"), ("rows", "Sizes"), ("constants", "Constants"))


def build(document: Document, command: str) -> str:
    """The page of a document of `syncline bench --execute`. `command` makes it again."""
    title = f"{document['collective']} between {document['ranks']} processes"
    about = [f"measured on {document['host']}", f"over {document['transport']}"]
    errors = document["errors"]
    held = f"Sizes that the constants were not fitted on: {percent(errors['held_out_mean'])} off on average."
    body = "\n".join(
        (
            section("drawing", "Measured and predicted", drawing(title, svg(document).decode()) + hint(held)),
            section("rows", "Sizes", _rows(document["rows"])),
            section("constants", "Constants", _constants(document) + reproduce(command)),
        )
    )
    return whole(Around(title, about, _version.version(), "", TITLES, "bench"), body, {})


def _rows(rows: Sequence[dict[str, Any]]) -> str:
    scale = time_scale(row["time_s"] for row in rows)
    columns = [
        Column("size"),
        Column("measured", scale.unit),
        Column("predicted", scale.unit),
        Column("error"),
        Column("fitted on", numeric=False),
        Column("algorithm bandwidth", "GB/s"),
        Column("wrong elements"),
    ]
    body: list[Row] = [
        [
            size(row["size_bytes"]),
            scale.text(row["time_s"]),
            scale.text(row["predicted_s"]),
            percent(row["error"]),
            "yes" if row["is_fitted_on"] else "no",
            f"{row['algorithm_bandwidth_bytes_per_s'] / 1e9:.2f}",
            f"{row['wrong']}",
        ]
        for row in rows
    ]
    return table("sizes", columns, body)


def _constants(document: Document) -> str:
    constants = document["constants"]
    rows: list[Row] = [
        ["a message, beside its bytes", time_scale([constants["message_s"]]).label(constants["message_s"])],
        ["bytes, from memory to memory", _rate(constants["bytes_per_s"])],
        ["bytes that are added", _rate(constants["reduced_bytes_per_s"])],
    ]
    return table("fitted", [Column("what", numeric=False), Column("value")], rows)


def _rate(value: float | None) -> str:
    return "no time" if value is None else rate_scale([value]).label(value)


def svg(document: Document) -> bytes:
    """The figure as SVG: times of all sizes, measured as points and predicted as a line."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 3.2), layout="constrained")
        FigureCanvasAgg(figure)
        times, rates = figure.subplots(1, 2)
        rows = document["rows"]
        _panel(times, rows, "time [us]", lambda row, name: row[name] * 1e6)
        _panel(rates, rows, "algorithm bandwidth [GB/s]", lambda row, name: row["size_bytes"] / row[name] / 1e9)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "Syncline"})
    return out.getvalue()


def _panel(axes: Axes, rows: Sequence[dict[str, Any]], label: str, value: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    sizes = [row["size_bytes"] for row in rows]
    axes.loglog(sizes, [value(row, "predicted_s") for row in rows], color=COLOURS[0], label="predicted")
    for is_fitted_on, marker, name in ((True, "o", "measured, fitted on"), (False, "s", "measured, held out")):
        chosen = [row for row in rows if row["is_fitted_on"] is is_fitted_on]
        points = ([row["size_bytes"] for row in chosen], [value(row, "time_s") for row in chosen])
        axes.loglog(*points, marker, color=COLOURS[1], markersize=4, label=name, markerfacecolor=_face(is_fitted_on))
    axes.set_xlabel("size")
    axes.xaxis.set_major_locator(LogLocator(base=1000, numticks=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel(label)
    axes.legend()


def _face(is_fitted_on: bool) -> str:
    return "none" if is_fitted_on else COLOURS[1]
