"""Tables for the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from syncline import quantities

if TYPE_CHECKING:
    from syncline.estimate import Estimate
    from syncline.figure.values import Shown
    from syncline.sweep.table import Table as Sweep

PIPE_WIDTH = 160
BACKGROUND: Final = ("background_compute_time_s", "background_wait_s")
"""What the background stream does, and what the main one waits for it."""
SHOWN_ROWS: Final = 200
"""Rows of a sweep on a terminal; all are in its file."""


def show(table: Table) -> None:
    """Prints a table; in colour on a terminal unless NO_COLOR is set."""
    width = None if sys.stdout.isatty() else max(PIPE_WIDTH, shutil.get_terminal_size().columns)
    console = Console(width=width, highlight=False)
    if table.title:
        console.print(table.title, style="bold", markup=False)
        table.title = None
    console.print(table)


def runs(document: dict[str, Any]) -> Table:
    """The variants of a run, side by side."""
    entries = document["runs"]
    ideal = next((e for e in entries if e["name"].casefold() == "ideal"), None)
    table = Table(title=headline(document), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("system")
    beside = any(e["background_compute_time_s"] for e in entries)
    stretched = any(e["compute_time_s"] != e["compute_time_alone_s"] for e in entries)
    shown = {"of ideal": ideal is not None, "alone": stretched, "background": beside, "waits for it": beside}
    for heading in (
        "iteration",
        "compute",
        "alone",
        "exposed",
        "exposed %",
        "background",
        "waits for it",
        "speed-up",
        "of ideal",
        "sent per NPU",
        "bandwidth",
    ):
        if shown.get(heading, True):
            table.add_column(heading, justify="right")
    for entry in entries:
        iterations = max(1, entry["iterations"])
        cells = [
            entry["name"],
            duration(entry["iteration_time_s"]),
            duration(entry["compute_time_s"] / iterations),
            *([duration(entry["compute_time_alone_s"] / iterations)] if stretched else []),
            duration(entry["exposed_comm_s"] / iterations),
            percent(entry["exposed_comm_share"]),
            *(duration(entry[name] / iterations) for name in BACKGROUND if beside),
            times(entries[0]["iteration_time_s"], entry["iteration_time_s"]),
        ]
        if ideal is not None:
            share = ideal["iteration_time_s"] / entry["iteration_time_s"] if entry["iteration_time_s"] else None
            cells.append(percent(share))
        cells.append(size(entry["network"]["bytes_sent_per_npu"]))
        cells.append(bandwidth(entry["network"]["achieved_bandwidth_bytes_per_s"]))
        table.add_row(*cells)
    return table


def headline(document: dict[str, Any]) -> str:
    """The name of a run, and its NPUs where they are the same in all variants."""
    described = {entry["hardware"]["description"] for entry in document["runs"]}
    return f"{document['name']} on {described.pop()}" if len(described) == 1 else document["name"]


def npus(document: dict[str, Any]) -> list[str]:
    """The NPUs of each variant, where they differ."""
    described = {entry["name"]: entry["hardware"]["description"] for entry in document["runs"]}
    return [f"{name}: {npu}" for name, npu in described.items()] if len(set(described.values())) > 1 else []


def drains(document: dict[str, Any]) -> str | None:
    """A note on the table of a run: what its iterations hold that is neither compute nor exposed."""
    waits = [f"{e['name']} {duration(e['drain_s'])}" for e in document["runs"] if e["drain_s"]]
    if not waits:
        return None
    return f"after the last kernel the run waits for what is in flight (training.tail: drain): {', '.join(waits)}"


def sweep(document: dict[str, Any], found: Sweep) -> Table:
    """The rows of a sweep: what varies, and the headline."""
    table = Table(title=document["name"], title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    rows = found.rows[:SHOWN_ROWS]
    labels = [name for name in ("base", "variant") if len({row[name] for row in found.rows}) > 1]
    for label in labels:
        table.add_column(label)
    for axis in found.axes:
        table.add_column(axis.removesuffix("_bytes"), justify="left" if found.columns[axis] is str else "right")
    measures = [(heading, name, show) for heading, name, show in SWEEP_MEASURES if name in found.columns]
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
    return table


def panel(shown: Shown) -> Table:
    """The numbers of a panel of a figure, beside the published ones."""
    from syncline.figure.values import called

    drawn = shown.panel
    table = Table(title=drawn.title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    has_series = shown.values[0].series is not None
    has_parts = len(drawn.parts) > 1
    compared = any(value.published is not None for value in shown.values)
    headings = [
        drawn.x,
        *([drawn.series or "configuration"] if has_series else []),
        *(["measure"] if has_parts else []),
    ]
    for heading in headings:
        table.add_column(called(heading))
    unit = f" \\[{shown.y_scale.unit}]" if shown.y_scale.unit else ""
    table.add_column(f"{'value' if has_parts else shown.measure}{unit}", justify="right")
    if compared:
        table.add_column("published", justify="right")
    for value in shown.values:
        cells = [shown.x_text(value.x), *([shown.series_text(value.series)] if has_series else [])]
        cells += [value.part] if has_parts else []
        cells.append(f"{value.value:.4g}")
        if compared:
            cells.append("" if value.published is None else f"{value.published:g}")
        table.add_row(*cells)
    return table


def costs(document: dict[str, Any]) -> Table | None:
    """What the ACEs of a run cost; nothing if no variant has one."""
    entries = [entry for entry in document["runs"] if "cost_model" in entry]
    if not entries:
        return None
    title = "an ACE as synthesised in 28 nm; energy = power x time, an upper bound"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("system")
    for heading in ("area", "power", "energy per iteration", "iterations/s/mm2"):
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
    table = Table(title="valid; running it takes roughly", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
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
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def wrapped(text: str) -> str:
    """A remark in lines as wide as the terminal, indented but for the first."""
    width = max(40, shutil.get_terminal_size().columns - 1)
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def duration(value: float) -> str:
    """Seconds, in a unit that fits."""
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if value >= factor:
            return f"{value / factor:.3f} {unit}"
    return "0" if value == 0 else f"{value / 1e-12:.0f} ps"


def size(value: float) -> str:
    """Bytes, in a decimal unit that fits."""
    return _scaled(value, "B")


def bandwidth(value: float | None) -> str:
    """Bytes per second, in a decimal unit that fits."""
    return "-" if value is None else _scaled(value, "B/s")


def percent(share: float | None) -> str:
    """A share."""
    return "-" if share is None else f"{100 * share:.1f} %"


def times(slower: float, faster: float) -> str:
    """How many times one is the other."""
    return f"{slower / faster:.2f}x" if faster else "-"


def _scaled(value: float, unit: str) -> str:
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.1f} {prefix}{unit}"
    return f"{value:.0f} {unit}"


def _axis_value(axis: str, value: Any) -> str:
    """A value of a sweep's axis; sizes as they are written in files."""
    return quantities.SIZE.format(value) if axis.endswith("_bytes") and isinstance(value, int) else str(value)


SWEEP_MEASURES: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("iteration", "iteration_time_s", duration),
    ("exposed %", "exposed_comm_share", percent),
    ("time", "time_s", duration),
    ("bus bandwidth", "bus_bandwidth_bytes_per_s", bandwidth),
    ("efficiency", "efficiency", percent),
    ("sent per NPU", "bytes_sent_per_npu", size),
    ("bandwidth", "achieved_bandwidth_bytes_per_s", bandwidth),
    ("ACE area", "area_um2", lambda value: f"{value / 1e6:.3f} mm2"),
    ("ACE power", "power_w", lambda value: f"{value:.3f} W"),
)
"""What a sweep's table says of a simulation: heading, column and how its values are written."""


def dimensions(document: dict[str, Any]) -> Table:
    """The dimensions of a topology."""
    title = (
        f"{document['npus']:,} NPUs, {document['links_per_npu']} links each with "
        f"{bandwidth(document['payload_bandwidth_bytes_per_s'])} of payload together, "
        f"{duration(document['diameter_s'])} across"
    )
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
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
