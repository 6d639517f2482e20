"""The table of a sweep: a row for each simulation, in the order of the points.

Columns are named after what they hold, with units: the paths of the axes with the unit of the field
(`endpoint.sram_bytes`), then what came of it, and last what it took on this machine (`COST`), which alone differs
between two runs. A column is there if any row has a value for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from syncline import _version
from syncline.base import quantities
from syncline.base.errors import InputError, Problem
from syncline.engine.runs import PS_PER_S
from syncline.fabric import fields
from syncline.fabric.topologies import Fabric
from syncline.fabric.topology import Topology
from syncline.results import documents, parquet
from syncline.sections import experiment
from syncline.sections.networks.ethernet import QUEUE_ACCEPTED
from syncline.sections.networks.packet import BUFFER_ACCEPTED
from syncline.sections.wording import accepted_text
from syncline.studies import columns
from syncline.studies.sweeps.file import as_text
from syncline.studies.sweeps.journal import Entry
from syncline.studies.sweeps.points import Simulation

if TYPE_CHECKING:
    import pyarrow as pa

METADATA: Final = "syncline.sweep"
ACCEPTED: Final = (
    "a directory that run --out has written, or a Parquet table that sweep --out FILE.parquet has written, not CSV or "
    "JSON"
)
"""What a report is made of. CSV does not say which of its columns a sweep varies."""
COST: Final = ("wall_time_s", "events")
LABELS: Final = ("point", "name", "base", "variant", "key")
UNITS: Final = {
    quantities.SIZE.accepted: "_bytes",
    BUFFER_ACCEPTED: "_bytes",
    QUEUE_ACCEPTED: "_bytes",
    quantities.RATE.accepted: "_bytes_per_s",
    fields.RATE_OR_AUTO_ACCEPTED: "_bytes_per_s",
    quantities.TIME.accepted: "_s",
    quantities.FREQUENCY.accepted: "_hz",
    quantities.COMPUTE.accepted: "_flops_per_s",
    quantities.SHARE_ACCEPTED: "",
}
"""What a quantity's column ends with, by what its field accepts."""

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under typed columns."""

    columns: dict[str, type]
    """Each column's type: bool, int, float or str."""
    rows: list[dict[str, Any]]
    axes: tuple[str, ...]
    """The columns that the sweep varies."""

    def status(self, simulations: int) -> str:
        """`complete` if it has a row for each of so many simulations and all succeeded, else `partial`."""
        complete = len(self.rows) == simulations and all(row["status"] == "done" for row in self.rows)
        return "complete" if complete else "partial"

    def as_arrow(self, name: str, status: str) -> pa.Table:
        """The table with what it is about as metadata."""
        import pyarrow as pa

        types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
        schema = pa.schema(
            pa.field(column, types[kind], metadata=columns.metadata(column, kind, is_axis=column in self.axes) or None)
            for column, kind in self.columns.items()
        )
        about = {"name": name, "version": _version.version(), "status": status, "axes": list(self.axes)}
        return pa.Table.from_pylist(self.rows, schema.with_metadata({METADATA: json.dumps(about)}))


def of(simulations: Sequence[Simulation], entries: Mapping[str, Entry]) -> Table:
    """The table of all simulations of which something came; `entries` are under their keys.

    What the others vary has its columns, too: those of axes are the same whatever is finished.
    """
    axes = _axis_columns(simulations)
    rows: list[dict[str, Any]] = []
    for simulation in simulations:
        entry = entries.get(simulation.key)
        if entry is not None:
            rows.append(_row(simulation, axes[simulation.point.index], entry))
    names = tuple(dict.fromkeys(name for columns in axes.values() for name in columns))
    empty = Entry("done")
    to_come = [_row(s, axes[s.point.index], empty) for s in simulations if s.key not in entries]
    return Table(_typed([*rows, *to_come], _kept(names)), rows, names)


def of_rows(rows: list[dict[str, Any]], axes: tuple[str, ...]) -> Table:
    """The table of rows, of which `axes` vary."""
    return Table(_typed(rows, _kept(axes)), rows, axes)


def _kept(axes: tuple[str, ...]) -> set[str]:
    """Columns that a table has whether they have values or not."""
    return {*axes, *LABELS, "status", "error"}


def read(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a table that a sweep has written, and what it is about.

    Raises [`InputError`] if it is none, or with what is wrong with it.
    """
    label = str(path)
    found = parquet.read(path, label, ACCEPTED)
    about = (found.schema.metadata or {}).get(METADATA.encode())
    if about is None:
        message = "this is not the table of a sweep"
        raise InputError([Problem(label, None, "", None, message, ACCEPTED)])
    described = documents.read(about, f"{label}: {METADATA}", documents.SweepTable)
    problems = [
        Problem(label, None, name, None, "this column does not hold text", "text")
        for name in (*LABELS[1:], "status", "error")
        if name in found.column_names and not found.schema.field(name).type.equals("string")
    ]
    if "status" not in found.column_names:
        problems.append(Problem(label, None, "status", None, "this column is missing"))
    if problems:
        raise InputError(problems)
    return found.to_pylist(), described


def _row(simulation: Simulation, axes: Mapping[str, Value], entry: Entry) -> dict[str, Any]:
    point, described = simulation.point, simulation.variant.experiment
    return {
        "point": point.index,
        "name": point.name,
        "base": point.base,
        "variant": simulation.variant.name,
        "key": simulation.key,
        **axes,
        "status": entry.status,
        "error": entry.error,
        "npus": described.topology.npus,
        "taking_part": described.taking_part,
        "topology": str(described.topology),
        **entry.measures,
        "wall_time_s": entry.wall_time_s,
        "events": entry.events,
    }


def _typed(rows: Sequence[Mapping[str, Any]], kept: set[str]) -> dict[str, type]:
    """The columns of the rows in their order, without those that have no value anywhere."""
    columns: dict[str, type] = {}
    for row in sorted(rows, key=len, reverse=True):  # the fullest rows know the order best
        for name, value in row.items():
            columns.setdefault(name, type(None))
            columns[name] = _wider(columns[name], type(value))
    order = [name for name in columns if name not in COST]
    order += [name for name in COST if name in columns]
    return {
        name: str if columns[name] is type(None) else columns[name]
        for name in order
        if name in kept or columns[name] is not type(None)
    }


def _wider(one: type, other: type) -> type:
    """The type of a column with values of both."""
    if other is type(None) or one is other:
        return one
    if one is type(None):
        return other
    return float if {one, other} == {int, float} else str


def _axis_columns(simulations: Sequence[Simulation]) -> dict[int, dict[str, Value]]:
    """The values of the axes at each point, under the names of their columns."""
    first: dict[int, list[Simulation]] = {}
    for simulation in simulations:
        first.setdefault(simulation.point.index, []).append(simulation)
    paths = [path for path, _ in simulations[0].point.values] if simulations else []
    found: dict[int, dict[str, Value]] = {index: {} for index in first}
    for position, path in enumerate(paths):
        written = {index: as_text(group[0].point.values[position][1]) for index, group in first.items()}
        read = {index: _read(path, written[index], group) for index, group in first.items()}
        units = {unit for unit, _ in read.values()}
        kinds = {type(value) for _, value in read.values()} - {type(None)}
        of_one_kind = len(units) == 1 and (len(kinds) <= 1 or kinds == {int, float})
        for index, (unit, value) in read.items():
            found[index][f"{path}{unit}" if of_one_kind else path] = value if of_one_kind else written[index]
    return found


def _read(path: str, written: str, group: Sequence[Simulation]) -> tuple[str, Value]:
    """The unit and the value of a field, as the experiments of a point have it."""
    keys = path.split(".")
    if keys[0] == "variants":
        group, keys = [s for s in group if s.variant.name == keys[1]], keys[2:]
    value, info = _field(group[0].variant.experiment, keys) if group else (None, None)
    if info is None or isinstance(value, BaseModel | list | dict | tuple):
        return "", written
    if isinstance(value, Fabric | str):  # of any kind of text, such as the name of a model
        return "", str(value)
    unit = UNITS.get(accepted_text(info) or "")
    if unit is None or value is None:
        return unit or "", value
    if unit == "_s":
        return unit, value / PS_PER_S
    return unit, value if isinstance(value, int) else float(value)


def _field(described: BaseModel, keys: Sequence[str]) -> tuple[Any, FieldInfo | None]:
    """The value at a path, and the field that holds it; none where the path does not lead to a field."""
    value: Any = described
    info: FieldInfo | None = None
    for key in keys:
        if isinstance(value, Topology):
            return _of_dimension(value, keys[1:])
        if isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, BaseModel) and key in type(value).model_fields:
            info = type(value).model_fields[key]
            value = getattr(value, key)
        else:
            return None, None
    return value, info


def _of_dimension(fabric: Topology, keys: Sequence[str]) -> tuple[Any, FieldInfo | None]:
    """A field of a dimension: `dims.1.size`."""
    fields = experiment.Dimension.model_fields
    if len(keys) != 3 or keys[0] != "dims" or keys[2] not in fields or not keys[1].isdigit():
        return None, None
    return getattr(fabric.dims[int(keys[1])], keys[2]), fields[keys[2]]
