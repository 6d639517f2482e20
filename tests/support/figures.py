"""Figures of rows whose numbers are known."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from syncline.report.figures import draw, page
from syncline.studies.figures import values
from syncline.studies.figures.file import Figure, FigureFile, Panel
from syncline.studies.figures.read import load
from syncline.studies.figures.values import Shown
from syncline.studies.sweeps import table
from syncline.studies.sweeps.table import Table

MIB = 1024**2
EXTRA = {
    "scatter": "each: [endpoint.sram, endpoint.fsms], pareto: true, published: [{value: 1, label: published}]",
    "heat": "series: endpoint.sram, published: [{x: 8, series: 4MiB, value: 1}]",
}
OTHERS = "series: endpoint.sram, published: [{x: 8, series: 4MiB, value: 1}, {value: 0.2, label: published for all}]"


def rows() -> list[dict[str, Any]]:
    """Times of `base x sram / fsms`, in milliseconds; twice as long for the slow variant."""
    found: list[dict[str, Any]] = []
    for base, sram, fsms, variant in itertools.product((1, 3), (MIB, 4 * MIB), (8, 16), ("Slow", "Fast")):
        time_s = 1e-3 * base * (sram / MIB) / fsms * (2 if variant == "Slow" else 1)
        found.append(
            {
                "base": f"b{base}",
                "variant": variant,
                "status": "done",
                "endpoint.sram_bytes": sram,
                "endpoint.fsms": fsms,
                "iteration_time_s": time_s,
                "exposed_comm_s": time_s / 4,
                "zero_s": 0.0,
                "area_um2": 1e6 * (sram / MIB + fsms / 16),
            }
        )
    found.append({**found[0], "base": "b9", "status": "failed", "iteration_time_s": None})
    return found


def space() -> Table:
    """The sweep of an engine's SRAM and FSMs: more of both are faster, larger and need more power, to a limit."""
    found: list[dict[str, Any]] = []
    for sram, fsms in itertools.product((MIB // 2, MIB, 2 * MIB, 4 * MIB), (3, 6, 12, 24)):
        time_s = 1e-6 * max(285.708 * 3 / fsms, 253.225 * (MIB / 2) / sram, 69.941)
        area, power = 0.2 + 1.22 * sram / MIB + 0.008 * fsms, 0.1 + sram / MIB + 0.008 * fsms
        found.append(
            {
                "base": "allreduce",
                "variant": "engine",
                "status": "done",
                "endpoint.sram_bytes": sram,
                "endpoint.fsms": fsms,
                "time_s": time_s,
                "bus_bandwidth_bytes_per_s": 8 * MIB * 1.875 / time_s,
                "area_um2": 1e6 * area,
                "power_w": power,
                "energy_per_collective_j": power * time_s,
                "collectives_per_s_per_mm2": 1 / time_s / area,
            }
        )
    return table.of_rows(found, ("endpoint.sram_bytes", "endpoint.fsms"))


TABLE = table.of_rows(rows(), ("endpoint.sram_bytes", "endpoint.fsms"))


def file_of(tmp_path: Path, *panels: str) -> FigureFile:
    """A figure file with panels."""
    path = tmp_path / "mine.figure.yaml"
    listed = "".join(f"  - {{title: One, {panel}}}\n" for panel in panels)
    path.write_text(f"name: mine\ntitle: A figure\nsweeps: [any]\npanels:\n{listed}")
    return load(path, "mine.figure.yaml")


def shown(file: FigureFile) -> list[Shown]:
    """The numbers of its panels."""
    return [values.of(file, i, p, [TABLE]) for i, p in enumerate(file.figure.panels) if isinstance(p, Panel)]


def panels(tmp_path: Path, kind: str) -> tuple[Figure, list[Shown]]:
    """Three panels of a kind, with published values."""
    extra = EXTRA.get(kind, OTHERS)
    panel = f"kind: {kind}, x: endpoint.fsms, y: iteration_time_s, unit: ms, mean: true, {extra}"
    file = file_of(tmp_path, panel, panel, panel)
    return file.figure, shown(file)


def build(figure: tuple[Figure, list[Shown]]) -> str:
    """The page of a figure."""
    svg, *_ = draw.draw(*figure)
    return page.build(*figure, svg, [], "syncline figure mine")
