"""Tables for the terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from syncline.base import quantities
from syncline.base.text_units import bandwidth, duration, percent, size, times
from syncline.commands.api.display import MEASURES
from syncline.commands.cli import layout
from syncline.studies.column_names import called

if TYPE_CHECKING:
    from rich.table import Table

    from syncline.engine.estimate import Estimate
    from syncline.studies.figures.values import Shown
    from syncline.studies.sweeps.table import Table as Sweep

show: Final = layout.show
BACKGROUND: Final = ("background_compute_time_s", "background_wait_s")
"""What the background stream does, and what the main one waits for it."""
SHOWN_ROWS: Final = 200
"""Rows of a sweep on a terminal; all are in its file."""


def runs(document: dict[str, Any]) -> list[Table]:
    """The variants of a run side by side: those that train, and those that are a collective on its own; either may be
    missing.
    """
    entries = document["runs"]
    training = [entry for entry in entries if entry["iterations"]]
    single = [entry for entry in entries if not entry["iterations"]]
    tables = ([_training(document, training)] if training else []) + ([_single(document, single)] if single else [])
    tables += [_classes(entry) for entry in training if entry["classes"]]
    tables += [_jobs(entry) for entry in training if entry["jobs"]]
    if tables:
        tables[0].title = headline(document)
    return tables


def _training(document: dict[str, Any], entries: Sequence[dict[str, Any]]) -> Table:
    """Training loops: everything but the bytes is of one iteration."""
    beside = any(e["background_compute_time_s"] for e in entries)
    bubbles = any(e["bubble_s"] for e in entries)
    stretched = any(e["compute_time_s"] != e["compute_time_alone_s"] for e in entries)
    steady = any(e["steady_iteration_because"] for e in entries)
    compared = _compared(document)

    def cells(e: dict[str, Any]) -> list[str]:
        iterations = e["iterations"]
        return [
            e["name"],
            duration(e["iteration_time_s"]),
            *([_or_dash(e["steady_iteration_time_s"], duration)] if steady else []),
            duration(e["compute_time_s"] / iterations),
            *([duration(e["compute_time_alone_s"] / iterations)] if stretched else []),
            duration(e["exposed_comm_s"] / iterations),
            percent(e["exposed_comm_share"]),
            *([duration(e["bubble_s"] / iterations)] if bubbles else []),
            *(duration(e[name] / iterations) for name in BACKGROUND if beside),
            *(written(e[name]) for _, name, written in compared),
            size(e["network"]["bytes_sent_per_npu"] / iterations),
            bandwidth(e["network"]["achieved_bandwidth_bytes_per_s"]),
        ]

    headings = [
        "iteration",
        *(["steady"] if steady else []),
        "compute",
        *(["alone"] if stretched else []),
        "exposed",
        "exposed %",
        *(["bubble"] if bubbles else []),
        *(["background", "waits for it"] if beside else []),
        *(heading for heading, _, _ in compared),
        "sent per NPU",
        "bandwidth",
    ]
    return _of_systems(headings, [cells(e) for e in entries])


def _classes(entry: dict[str, Any]) -> Table:
    """What the NPUs of each class did, over all iterations."""
    parts = ("compute", "exposed", "bubble", "background_wait", "drain")
    shown = [part for part in parts if any(of[f"{part}_s"] for of in entry["classes"])]
    table = layout.table(title=f"{entry['name']}: classes of NPUs")
    table.add_column("class")
    for heading in ("NPUs", "total", *(part.replace("_", " ") for part in shown)):
        table.add_column(heading, justify="right")
    for of in entry["classes"]:
        table.add_row(
            of["name"], str(of["npus"]), duration(of["total_s"]), *(duration(of[f"{part}_s"]) for part in shown)
        )
    return table


def _jobs(entry: dict[str, Any]) -> Table:
    """How much several jobs slow each other down."""
    table = layout.table(title=f"{entry['name']}: jobs")
    table.add_column("job")
    for heading in ("iteration", "alone", "slow-down"):
        table.add_column(heading, justify="right")
    for job in entry["jobs"]:
        alone, beside = job["iteration_time_alone_s"], job["iteration_time_s"]
        table.add_row(job["name"], duration(beside), duration(alone), _or_dash(job["slowdown"], times))
    return table


def _single(document: dict[str, Any], entries: Sequence[dict[str, Any]]) -> Table:
    """Collectives on their own, in the terms of nccl-tests."""
    compared = _compared(document)
    kinds = {e["collective"] for e in entries}
    headings = [
        *(["collective"] if len(kinds) > 1 else []),
        "size",
        "time",
        "algbw",
        "busbw",
        "lower bound",
        "efficiency",
        *(heading for heading, _, _ in compared),
        "sent per NPU",
    ]

    def cells(e: dict[str, Any]) -> list[str]:
        return [
            e["name"],
            *([e["collective"]] if len(kinds) > 1 else []),
            size(e["size_bytes"]),
            duration(e["time_s"]),
            bandwidth(e["algorithm_bandwidth_bytes_per_s"]),
            bandwidth(e["bus_bandwidth_bytes_per_s"]),
            duration(e["lower_bound_s"]),
            percent(e["efficiency"]),
            *(written(e[name]) for _, name, written in compared),
            size(e["network"]["bytes_sent_per_npu"]),
        ]

    return _of_systems(headings, [cells(e) for e in entries])


def _of_systems(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = layout.table()
    table.add_column("system")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def headline(document: dict[str, Any]) -> str:
    """The name of a run, and its NPUs where they are the same in all variants."""
    described = {entry["hardware"]["description"] for entry in document["runs"]}
    return f"{document['name']} on {described.pop()}" if len(described) == 1 else document["name"]


def npus(document: dict[str, Any]) -> list[str]:
    """The NPUs of each variant, where they differ."""
    described = {entry["name"]: entry["hardware"]["description"] for entry in document["runs"]}
    return [f"{name}: {npu}" for name, npu in described.items()] if len(set(described.values())) > 1 else []


def _compared(document: dict[str, Any]) -> list[tuple[str, str, Callable[[float | None], str]]]:
    """What compares variants with the baseline and with the bound: heading, name in the entries, how it is written."""
    if len(document["runs"]) == 1:
        return []
    found: list[tuple[str, str, Callable[[float | None], str]]] = [
        (f"speed-up over {document['baseline']}", "speedup", lambda value: _or_dash(value, times)),
    ]
    if any(entry["share_of_ideal"] is not None for entry in document["runs"]):
        found.append((f"of {document['ideal']}", "share_of_ideal", percent))
    return found


def _or_dash(value: float | None, written: Callable[[float], str]) -> str:
    return "-" if value is None else written(value)


def steady(document: dict[str, Any]) -> list[str]:
    """Notes on the table of a run: why one more iteration costs something else than the headline."""
    reasons: dict[str, list[str]] = {}
    for entry in document["runs"]:
        if entry.get("steady_iteration_because"):
            reasons.setdefault(entry["steady_iteration_because"], []).append(entry["name"])
    unsettled = [e["name"] for e in document["runs"] if e.get("steady_iteration_settled") is False]
    found = [f"steady iteration time ({', '.join(names)}): {reason}" for reason, names in reasons.items()]
    if unsettled and found:
        found.append(f"{', '.join(unsettled)}: iterations had not settled when this was given up; one more is a mean")
    return found


def drains(document: dict[str, Any]) -> str | None:
    """A note on the table of a run: what its iterations hold that is neither compute nor exposed."""
    waits = [f"{e['name']} {duration(e['drain_s'])}" for e in document["runs"] if e["drain_s"]]
    if not waits:
        return None
    return f"after the last kernel the run waits for what is in flight (training.tail: drain): {', '.join(waits)}"


def sweep(document: dict[str, Any], found: Sweep) -> tuple[Table, int]:
    """The rows of a sweep: what varies, and the headline; and how many columns say what varies."""
    table = layout.table(title=document["name"])
    rows = found.rows[:SHOWN_ROWS]
    labels = [name for name in ("base", "variant") if len({row[name] for row in found.rows}) > 1]
    for label in labels:
        table.add_column(label)
    for axis in found.axes:
        table.add_column(_axis_name(axis), justify="left" if found.columns[axis] is str else "right")
    measures = [(heading, name, show) for heading, name, show in MEASURES if name in found.columns]
    for heading, _, _ in measures:
        table.add_column(heading, justify="right")
    for row in rows:
        cells = [str(row[label]) for label in labels]
        cells += [_axis_value(axis, row[axis]) for axis in found.axes]
        if row["status"] == "done":
            cells += ["-" if row.get(name) is None else show(row[name]) for _, name, show in measures]
        else:
            cells += [row["status"], *("" for _ in measures[1:])]
        table.add_row(*cells)
    if len(found.rows) > SHOWN_ROWS:
        table.add_row(f"and {len(found.rows) - SHOWN_ROWS} more")
    return table, max(1, len(labels) + len(found.axes))


def panel(shown: Shown) -> tuple[Table, int]:
    """The numbers of a panel of a figure, beside the published ones; and how many columns say what they are of."""
    drawn = shown.panel
    table = layout.table(title=drawn.title)
    has_series = shown.values[0].series is not None
    has_parts = drawn.spread or len(drawn.parts) > 1
    compared = any(value.published is not None for value in shown.values)
    headings = [
        drawn.x,
        *([drawn.series or "configuration"] if has_series else []),
        *(["measure"] if has_parts else []),
    ]
    for heading in headings:
        table.add_column(called(heading))
    unit = f" [{shown.y_scale.unit}]" if shown.y_scale.unit else ""
    table.add_column(f"{'value' if has_parts else shown.measure}{unit}", justify="right")
    if compared:
        table.add_column("published", justify="right")
    for value in shown.values:
        cells = [shown.x_text(value.x), *([shown.series_text(value.series)] if has_series else [])]
        cells += [called(value.part)] if has_parts else []
        cells.append(f"{value.value:.4g}")
        if compared:
            cells.append("" if value.published is None else f"{value.published:g}")
        table.add_row(*cells)
    return table, len(headings)


def costs(document: dict[str, Any]) -> Table | None:
    """What the ACEs of a run cost; nothing if no variant has one."""
    entries = [entry for entry in document["runs"] if "cost_model" in entry]
    if not entries:
        return None
    title = "an ACE as synthesised in 28 nm; energy = power x time, an upper bound"
    table = layout.table(title=title)
    table.add_column("system")
    per = "iteration" if any("energy_per_iteration_j" in entry["cost_model"] for entry in entries) else "collective"
    for heading in ("area", "power", f"energy per {per}", f"{per}s/s/mm2"):
        table.add_column(heading, justify="right")
    for entry in entries:
        table.add_row(entry["name"], *cost_cells(entry["cost_model"]))
    return table


def cost_cells(cost: dict[str, Any]) -> list[str]:
    """Area, power, energy and performance per area, of an iteration or of a collective on its own."""
    per = "iteration" if "energy_per_iteration_j" in cost else "collective"
    performance = cost[f"{per}s_per_s_per_mm2"]
    return [
        f"{cost['area_um2'] / 1e6:.3f} mm2",
        f"{cost['power_w']:.3f} W",
        f"{1e3 * cost[f'energy_per_{per}_j']:.3f} mJ",
        "-" if performance is None else f"{performance:.1f}",
    ]


def estimates(rows: Sequence[tuple[str, Estimate]]) -> Table:
    """What running the variants takes."""
    table = layout.table(title="valid; running it takes roughly")
    table.add_column("system")
    for heading in ("NPUs", "simulated", "steps", "chunks", "messages", "packets", "events", "memory", "time"):
        table.add_column(heading, justify="right")
    table.add_column("fidelity")
    for name, e in rows:
        numbers = (e.npus, e.simulated_npus, e.steps, e.chunks_per_npu, e.messages, e.packets, e.events)
        cells = [f"{number:,}" for number in numbers]
        table.add_row(name, *cells, size(e.memory_bytes), duration(e.time_s), e.recommendation)
    return table


def pairs(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Names and values."""
    table = layout.table(title=title, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def wrapped(text: str) -> str:
    """A remark in lines as wide as the terminal, indented but for the first."""
    width = max(40, shutil.get_terminal_size().columns - 1)
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


_AXIS_UNITS: Final[Mapping[str, quantities.Kind]] = {
    "_bytes_per_s": quantities.RATE,
    "_bytes": quantities.SIZE,
    "_flops_per_s": quantities.COMPUTE,
    "_hz": quantities.FREQUENCY,
    "_s": quantities.TIME,
}
"""Units in names of columns, the longest first, and what is written with them in files."""


def _axis_name(axis: str) -> str:
    """The heading of a sweep's axis; values with a unit need none in their heading."""
    return next((axis.removesuffix(unit) for unit in _AXIS_UNITS if axis.endswith(unit)), axis)


def _axis_value(axis: str, value: Any) -> str:
    """A value of a sweep's axis; quantities as they are written in files."""
    kind = next((kind for unit, kind in _AXIS_UNITS.items() if axis.endswith(unit)), None)
    if kind is quantities.TIME and isinstance(value, float):
        value = round(value * 1e12)
    return str(value) if kind is None or not isinstance(value, int) else kind.format(value)


def dimensions(document: dict[str, Any]) -> Table:
    """The dimensions of a topology."""
    title = (
        f"{document['npus']:,} NPUs, {document['links_per_npu']} links each with "
        f"{bandwidth(document['payload_bandwidth_bytes_per_s'])} of payload together, "
        f"{duration(document['diameter_s'])} across"
    )
    table = layout.table(title=title)
    for heading in ("dimension", "block", "NPUs", "links", "link", "payload", "latency"):
        table.add_column(heading, justify="left" if heading == "block" else "right")
    for index, dim in enumerate(document["dims"]):
        table.add_row(
            str(index),
            dim["block"],
            f"{dim['size']:,}",
            str(dim["links_per_npu"]),
            bandwidth(dim["link_bandwidth_bytes_per_s"]),
            bandwidth(dim["link_payload_bandwidth_bytes_per_s"]),
            duration(dim["latency_s"]),
        )
    return table
