"""What the layers of a run compute and wait for, from its table of layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from syncline.core import facts
from syncline.engine import runs as engine
from syncline.engine.runs import PS_PER_S
from syncline.studies.figures import values
from syncline.studies.figures.file import FigureFile, Layers
from syncline.studies.figures.values import Shown
from syncline.studies.sweeps import table

PASSES: Final = ("forward_s", "input_grad_s", "weight_grad_s")
"""Compute of every iteration; whether the last one updates its weights depends on how the run ends."""


def of(file: FigureFile, place: int, panel: Layers, results: Mapping[str, engine.Result]) -> Shown:
    """The layers of the variants; `results` are by their names. Raises [`InputError`] for columns that layers lack."""
    listed = [row for name in panel.variants for row in rows(panel.run, name, results[name])]
    return values.of(file, place, panel.as_panel(), [table.of_rows(listed, ("layer",))])


def rows(run: str, variant: str, result: engine.Result) -> list[dict[str, Any]]:
    """A row for each layer, with times in seconds: those of passes for one iteration, `compute_s` for all.

    A layer with collectives in several passes, such as embeddings with all-to-alls both ways, has a row for each pass.
    """
    layers = result.tables["layers"].to_pylist()
    counts = Counter(layer["layer"] for layer in layers)
    declared = facts.engine().tables["layers"].columns
    passes = _by_pass(result)
    found = []
    for layer in layers:
        row: dict[str, Any] = {"base": run, "variant": variant, "status": "done"}
        for name, value in layer.items():
            is_time = declared[name].unit == facts.PICOSECONDS
            if value is not None:
                row[f"{name.removesuffix(facts.SUFFIXES[facts.PICOSECONDS])}_s" if is_time else name] = (
                    value / PS_PER_S if is_time else value
                )
        if counts[layer["layer"]] > 1:
            row["layer"] = f"{layer['layer']} ({layer['index']})"
        row["compute_s"] = _repeats(result) * sum(row[name] for name in PASSES)
        parts = passes.get(layer["layer"], {}) if counts[layer["layer"]] == 1 else {}
        found += [row] if len(parts) < 2 else [_of_pass(row, name, part, result) for name, part in parts.items()]
    return found


def _repeats(result: engine.Result) -> int:
    """How often the layers are computed: a graph may have several iterations, in which each layer is once."""
    iterations: int = result.summary["iterations"]
    return iterations // int(result.summary.get("graph_steps", 1))


def _by_pass(result: engine.Result) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The collectives of each layer, by the pass that issues them."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for collective in result.tables["collectives"].to_pylist():
        found.setdefault(collective["layer"], {}).setdefault(collective["pass"], []).append(collective)
    return found


def _of_pass(
    row: dict[str, Any], name: str, collectives: list[dict[str, Any]], result: engine.Result
) -> dict[str, Any]:
    """The part of a layer's row that is of one pass."""
    own = f"{name}_s"
    part = {key: row[key] for key in ("base", "variant", "status", "index", "params", "gradient_bytes")}
    part["layer"] = f"{row['layer']}, {name.replace('_', ' ')}"
    part |= {other: row[other] if other == own else 0.0 for other in PASSES}
    part["compute_s"] = _repeats(result) * row[own]
    part["exposed_s"] = sum(c["exposed_ps"] for c in collectives) / PS_PER_S
    if raw := [c["completed_ps"] - c["issued_ps"] for c in collectives if c["completed_ps"] is not None]:
        part["raw_latency_s"] = sum(raw) / len(raw) / PS_PER_S
    return part
