"""The numbers of a panel, from the rows of sweeps.

A row is a simulation: its axes, `base`, `variant`, and what came of it, under names that carry units
(`iteration_time_s`). A figure may leave the unit of a column out (`endpoint.sram`), and may write a quantity that it
looks for with a unit of its own (`4MiB`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncline.base import quantities
from syncline.base.errors import InputError, Problem, did_you_mean, one_of, shown
from syncline.engine.runs import PS_PER_S
from syncline.results import units
from syncline.studies import columns
from syncline.studies.column_names import SUFFIXES, called
from syncline.studies.figures import directions
from syncline.studies.figures.directions import Better
from syncline.studies.figures.file import UNITS, Cell, FigureFile, Panel, Published
from syncline.studies.sweeps.table import Table

Row = Mapping[str, Any]

LEAST: Final = "least "
MOST: Final = "most "
"""What stands before the column of a spread's ends, as parts of the panel."""

READERS: Final[dict[str, Callable[[str], float]]] = {
    "_bytes_per_s": lambda text: quantities.rate(text, zero=True),
    "_bytes": lambda text: quantities.size(text, zero=True),
    "_hz": quantities.frequency,
    "_s": lambda text: quantities.time(text, zero=True) / PS_PER_S,
}
"""How a quantity is read that a column of this unit is compared with; the longer suffixes first."""

UNIT_NAMES: Final = {
    **{"%": "percent", "mm\N{SUPERSCRIPT TWO}": "mm2", "\N{MICRO SIGN}s": "us", "\N{MICRO SIGN}J": "uj"},
    **{"1/(s mm\N{SUPERSCRIPT TWO})": ""},
} | {f"{prefix}B/s": f"{prefix.lower()}b_per_s" for prefix in ("", "K", "M", "G", "T")}
"""Units as parts of names, where they are not the unit in small letters."""


PREFIXED: Final[dict[str, tuple[tuple[str, float], ...]]] = {
    "_j": (("J", 1.0), ("mJ", 1e-3), ("\N{MICRO SIGN}J", 1e-6), ("nJ", 1e-9)),
    "_hz": (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0)),
    "_flops_per_s": (("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("FLOP/s", 1.0)),
}
"""Units of the columns that end so, the largest first."""


WORDS: Final = {
    **{word: word.upper() for word in ("npu", "sram", "ace", "nic", "gpu", "ecn", "pfc", "rto", "tcp", "dma")},
    **{"npus": "NPUs", "fsms": "FSMs", "sms": "SMs", "gpus": "GPUs", "comm": "communication", "grad": "gradient"},
    **{"util": "utilisation", "bw": "bandwidth", "inflight": "chunks in flight", "params": "parameters"},
}
"""Parts of the names of columns that people write otherwise."""
TIMELIKE: Final = ("time", "latency", "delay", "wait", "jitter", "window")
"""Words that say themselves that a column is a time."""


def human(column: str) -> str:
    """What an axis or a legend calls a column: in words, of which there are two at least where it is a time (`total_s`
    is the total time).
    """
    words = called(column.removesuffix("_per_s_per_mm2")).split(" ")
    is_time = column.endswith("_s") and not column.endswith("_per_s") and "." not in column
    if is_time and len(words) == 1 and words[0] not in TIMELIKE:
        words.append("time")
    return " ".join(WORDS.get(word, word) for word in words)


@dataclass(frozen=True, slots=True)
class Value:
    """A number of a panel, in the panel's unit."""

    x: Cell
    series: Cell | None
    part: str
    value: float
    published: float | None = None


TOO_SMALL: Final = 0.1
"""Numbers below this, in a common unit, are easier to read in a unit of their own."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A panel with its numbers."""

    panel: Panel
    values: Sequence[Value]
    x_scale: units.Scale
    """The unit of x on an axis of numbers."""
    y_scale: units.Scale
    lines: Sequence[Published]
    """Published values that belong to no x."""
    x_column: str = ""
    """The column of x, with its unit."""
    y_column: str = ""
    """The column of the values, with its unit; of stacked ones, the first."""
    series_column: str = ""
    """The column of the series, with its unit."""
    better: tuple[Better | None, Better | None] = (None, None)
    """Whether less or more is better of x, and of the values as they are shown."""

    def part_name(self, part: str) -> str:
        """The name of a value among others: what it is, and the unit that it is shown in."""
        name = called(part).replace(" ", "_")
        if self.panel.relative_to:
            return f"{'speedup_by' if self.panel.speedup else 'relative'}_{name}"
        unit = self.y_scale.unit
        return f"{name}_{UNIT_NAMES.get(unit, unit.lower())}".rstrip("_") if unit else part

    @property
    def measure(self) -> str:
        """What the values are called, without their unit; of stacked columns, the first."""
        column = self.y_column or self.panel.parts[0]
        name = human(column)
        if not self.panel.relative_to:
            return name
        if self.panel.y_label:
            return self.panel.y_label.partition(" [")[0]
        if not self.panel.speedup:
            return f"relative {name}"
        if self.better[1] == "less":  # of a rate, over which the other one's is
            return f"inverse of the relative {name}"
        return "speed-up" if column in columns.TIMES or name == "total time" else f"speed-up by {name}"

    def x_text(self, value: Cell) -> str:
        """An x for people, in the unit that suits it alone."""
        return _text(value, _own_scale(value, self.x_column))

    @property
    def is_wide(self) -> bool:
        """Whether no unit suits all x of a logarithmic axis."""
        numbers = [n for v in self.values if (n := units.number(v.x))]
        is_logarithmic = self.panel.kind == "lines" and self.panel.log
        return is_logarithmic and bool(numbers) and min(numbers) < TOO_SMALL * self.x_scale.factor

    def series_text(self, value: Cell | None) -> str:
        """A series for people, in the unit that suits it alone."""
        return "" if value is None else _text(value, _own_scale(value, self.series_column))


def of(file: FigureFile, place: int, panel: Panel, tables: Sequence[Table]) -> Shown:
    """The numbers of a panel. Raises [`InputError`] for columns and values that no row has."""
    return _Reading(file, place, _named_by_all(panel), tables).shown()


def check(file: FigureFile, place: int, panel: Panel, tables: Sequence[Table]) -> None:
    """Raises [`InputError`] with what is wrong with a panel whatever the rows of the tables hold."""
    _Reading(file, place, _named_by_all(panel), tables).check()


def _named_by_all(panel: Panel) -> Panel:
    """The panel, of a scatter with its `series` among the columns that tell points apart."""
    if panel.kind != "scatter" or panel.series is None:
        return panel
    each = list(dict.fromkeys([panel.series, *panel.each]))
    return panel.model_copy(update={"series": None, "each": each})


@dataclass(frozen=True, slots=True)
class _Point:
    x: Cell
    series: Cell | None
    part: str
    value: float


@dataclass(slots=True)
class _Reading:
    file: FigureFile
    place: int
    panel: Panel
    tables: Sequence[Table]

    def shown(self) -> Shown:
        panel = self.panel
        self.check()
        points = [point for table in self.tables for point in self._points(table)]
        if not points:
            raise self._nothing()
        problems: list[Problem] = []
        try:
            points = list(self._merged(points))
        except InputError as error:
            problems += error.problems
        try:
            self._every_place_exists(points)
        except InputError as error:
            problems += error.problems
        if problems:
            raise InputError(problems)
        y_scale = self._y_scale(points)
        x_scale = _scale([p.x for p in points], self._column(panel.x))
        values = [Value(p.x, p.series, p.part, p.value / y_scale.factor, self._published(p)) for p in points]
        self._every_published_is_shown(values)
        lines = [p for p in panel.published if p.x is None]
        x_column, y_column = self._column(panel.x), self._column(panel.parts[0])
        series_column = "" if panel.series is None else self._column(panel.series)
        better = self._better(x_column, y_column)
        return Shown(panel, values, x_scale, y_scale, lines, x_column, y_column, series_column, better)

    def check(self) -> None:
        """Raises [`InputError`] for columns that there are not, and a front that has no direction."""
        if problems := list(self._unknown()):
            raise InputError(problems)
        self._better(self._column(self.panel.x), self._column(self.panel.parts[0]))

    def _better(self, x: str, y: str) -> tuple[Better | None, Better | None]:
        """Whether less or more is better of x and of what is shown of y. Raises [`InputError`] if a front needs it."""
        panel = self.panel
        axes = {axis for table in self.tables for axis in table.axes}
        of_y = directions.of(y, axes)
        if panel.speedup:
            of_y = directions.other(of_y or "less")
        better = panel.x_better or directions.of(x, axes), panel.y_better or of_y
        problems = [
            self._refused(
                "pareto",
                f"whether less or more of {column} is better does not follow from its name",
                f"{key}_better: less, or {key}_better: more, beside it",
            ).problems[0]
            for key, column, known in zip("xy", (x, y), better, strict=True)
            if panel.pareto and known is None
        ]
        if problems:
            raise InputError(problems)
        return better

    def _nothing(self) -> InputError:
        """Why there is nothing to be shown."""
        panel = self.panel
        found = [(row, table) for table in self.tables for row in self._rows(table)]
        if not found:
            return self._refused("where", "no simulation that succeeded has these values")
        if all(row.get(self._column(panel.x)) is None for row, _ in found):
            return self._refused("x", "no simulation that is shown has a value of this")
        if not panel.relative_to:
            return self._refused("y", "no simulation that is shown has a value of this")
        others = {self._other(row, table, part) for row, table in found for part in panel.parts}
        if others == {None}:
            return self._refused("relative_to", "no simulation that succeeded has these values beside those shown")
        if 0 in others:
            return self._refused("relative_to", f"{' and '.join(panel.parts)} is 0 there, and nothing relative to 0")
        return self._refused("y", "this is 0 in all simulations that are shown")

    def _rows(self, table: Table) -> Iterable[Row]:
        """The simulations that are shown."""
        wanted = {self._column(name): _listed(value) for name, value in self.panel.where.items()}
        for row in table.rows:
            if row.get("status") == "done" and all(_among(row.get(n), options, n) for n, options in wanted.items()):
                yield row

    def _points(self, table: Table) -> Iterable[_Point]:
        panel = self.panel
        for row in self._rows(table):
            x = row.get(self._column(panel.x))
            series = None if panel.series is None else row.get(self._column(panel.series))
            if panel.kind == "scatter":
                series = ", ".join(self._named(row, name) for name in panel.each)
            for part in panel.parts:
                value = units.number(row.get(self._column(part)))
                if value is None or x is None:
                    continue
                if panel.relative_to:
                    other = self._other(row, table, part)
                    if other is None or not other or not value:
                        continue
                    value = other / value if panel.speedup else value / other
                yield _Point(x, series, part, value)

    def _named(self, row: Row, name: str) -> str:
        column = self._column(name)
        return f"{name.rpartition('.')[2]} {_text(row.get(column), _own_scale(row.get(column), column))}"

    def _other(self, row: Row, table: Table, part: str) -> float | None:
        """The value of the row that differs in the given columns only."""
        differing = {self._column(name): value for name, value in self.panel.relative_to.items()}
        same = [name for name in ("base", "variant", *table.axes) if name not in differing]
        for other in table.rows:
            if all(other.get(name) == row.get(name) for name in same) and all(
                _equal(other.get(name), value, name) for name, value in differing.items()
            ):
                return units.number(other.get(self._column(part)))
        return None

    def _merged(self, points: Sequence[_Point]) -> Iterable[_Point]:
        """One point for each x, series and part; of a scatter's means one for each series, of a spread the least
        and the most.
        """
        scatter = self.panel.kind == "scatter"
        groups: dict[tuple[object, ...], list[_Point]] = {}
        for point in points:
            is_mean = scatter and self.panel.mean  # of x as well
            key = (point.series, point.part) if is_mean else (point.x, point.series, point.part)
            groups.setdefault(key, []).append(point)
        for group in groups.values():
            first = group[0]
            if self.panel.spread:
                for end, which in ((LEAST, min), (MOST, max)):
                    yield _Point(first.x, first.series, end + first.part, which(p.value for p in group))
                continue
            if len(group) > 1 and not self.panel.mean and len({p.value for p in group}) > 1:
                message = f"{len(group)} simulations have the same {self.panel.x} and the same series"
                raise self._refused("x", message, "where: {COLUMN: VALUE}, or mean: true")
            x = first.x
            if scatter and isinstance(x, int | float):
                x = statistics.fmean(float(p.x) for p in group)
            yield _Point(x, first.series, first.part, statistics.fmean(p.value for p in group))

    def _published(self, point: _Point) -> float | None:
        x, series = point.x, point.series
        if point.part.startswith(LEAST):
            return None
        of_x, of_series = self._column(self.panel.x), self.panel.series and self._column(self.panel.series)
        for published in self.panel.published:
            if published.x is None or not _equal(x, published.x, of_x):
                continue
            if published.series is None or _equal(series, published.series, of_series or ""):
                return published.value
        return None

    def _every_published_is_shown(self, values: Sequence[Value]) -> None:
        """Refuses a published value that would not be seen."""
        x, series = self._column(self.panel.x), self.panel.series and self._column(self.panel.series)
        for i, published in enumerate(self.panel.published):
            if published.x is None or any(
                _equal(value.x, published.x, x)
                and (published.series is None or _equal(value.series, published.series, series or ""))
                for value in values
            ):
                continue
            path = ("panels", self.place, "published", i)
            raise InputError([self.file.problem(path, "the panel shows nothing at this x and series")])

    def _every_place_exists(self, points: Sequence[_Point]) -> None:
        """Refuses what has no place on the axes of the panel."""
        if self.panel.kind == "scatter" and (names := [p.x for p in points if units.number(p.x) is None]):
            message = f"{shown(names[0])} is not a number, and the axis of a scatter has numbers only"
            raise self._refused("x", message, "a column of numbers, or kind: bars")
        lines = [p.value for p in self.panel.published]
        for key, values in (("log", [p.x for p in points]), ("log_y", [*(p.value for p in points), *lines])):
            wrong = [v for v in values if not (number := units.number(v)) or number < 0]
            if getattr(self.panel, key) and wrong:
                message = f"{shown(wrong[0])} cannot be shown on a logarithmic axis"
                raise self._refused(key, message, "numbers above zero; or an axis that is not logarithmic")

    def _y_scale(self, points: Sequence[_Point]) -> units.Scale:
        if self.panel.unit:
            return units.Scale(self.panel.unit, UNITS[self.panel.unit], 2)
        if self.panel.relative_to:
            return units.Scale("", 1.0, 3)
        part = self.panel.parts[0]
        return _scale([p.value for p in points], self._column(part))

    def _column(self, name: str) -> str:
        """The name of a column, which may be given without its unit."""
        known = list(dict.fromkeys(column for table in self.tables for column in table.columns))
        if name in known:
            return name
        with_unit = [name + suffix for suffix in SUFFIXES if name + suffix in known]
        if len(with_unit) == 1:
            return with_unit[0]
        message = f"no simulation has a column '{name}'{did_you_mean(name, known)}"
        raise self._refused(self._key_of(name), message, one_of(known))

    def _key_of(self, name: str) -> str:
        return next(key for key, names in named(self.panel).items() if name in names)

    def _unknown(self) -> Iterable[Problem]:
        """Columns that the panel names and no row has."""
        for name in dict.fromkeys(name for names in named(self.panel).values() for name in names):
            try:
                self._column(name)
            except InputError as error:
                yield from error.problems

    def _refused(self, key: str, message: str, accepted: str | None = None) -> InputError:
        panel = self.file.figure.panels[self.place]
        if key == "each" and isinstance(panel, Panel) and not panel.each:
            key = "series"
        return InputError([self.file.problem(("panels", self.place, key), message, accepted)])


def named(panel: Panel) -> dict[str, list[str]]:
    """The columns that each key of a panel names."""
    return {
        "x": [panel.x],
        "series": [panel.series] if panel.series else [],
        "each": panel.each,
        "where": list(panel.where),
        "relative_to": list(panel.relative_to),
        "y": panel.parts,
    }


def _listed(value: Cell | list[Cell]) -> list[Cell]:
    return value if isinstance(value, list) else [value]


def _among(value: Any, options: Sequence[Cell], column: str) -> bool:
    return any(_equal(value, option, column) for option in options)


def _equal(value: Any, wanted: Cell, column: str) -> bool:
    """Whether a cell has a value, which may be written as a quantity."""
    if value == wanted:
        return True
    if isinstance(wanted, str) and isinstance(value, int | float) and not isinstance(value, bool):
        reader = next((read for suffix, read in READERS.items() if column.endswith(suffix)), None)
        if reader is not None:
            try:
                return value == reader(wanted)
            except quantities.QuantityError:
                return False
    return False


def _scale(values: Sequence[Any], column: str) -> units.Scale:
    """The unit that suits the values of a column."""
    numbers = [units.number(v) for v in values]
    if column.endswith("_bytes_per_s"):
        return units.rate_scale(numbers)
    if _is_size(column):
        binary = all(n is None or n % 1024 == 0 for n in numbers)
        return units.binary_scale(numbers) if binary else units.byte_scale(numbers)
    if column.endswith("_s") and not column.endswith("_per_s"):
        return units.time_scale(numbers)
    if column.endswith("_um2"):
        return units.Scale("mm\N{SUPERSCRIPT TWO}", 1e6, 2)
    if column.endswith("_w"):
        return units.Scale("W", 1.0, 3)
    if column.endswith("_per_s_per_mm2"):
        return units.Scale("1/(s mm\N{SUPERSCRIPT TWO})", 1.0, 3)
    if own := next((names for suffix, names in PREFIXED.items() if column.endswith(suffix)), None):
        largest = max((abs(n) for n in numbers if n is not None), default=0.0)
        return next((units.Scale(*each, 3) for each in own if largest >= each[1]), units.Scale(*own[-1], 3))
    if column.endswith(("_utilisation", "_share", "efficiency")):
        return units.Scale("%", 0.01, 1)
    return units.Scale("", 1.0, 3)


def _is_size(column: str) -> bool:
    """Whether the values of a column are bytes, which the names of a few say in front."""
    return column.endswith("_bytes") or columns.is_size(column)


def _own_scale(value: Any, column: str) -> units.Scale:
    """The unit that suits one value of a column; a size is binary unless decimal units say it in fewer letters, as of
    16 MB, which is a multiple of 1024 too.
    """
    scale = _scale([value], column)
    if not _is_size(column):
        return scale
    return min((scale, units.byte_scale([units.number(value)])), key=lambda each: len(_text(value, each)))


def _text(value: Any, scale: units.Scale) -> str:
    number = units.number(value)
    if number is None or (isinstance(value, int) and not scale.unit):  # a count is not rounded
        return str(value)
    return f"{units.significant(number / scale.factor, 5):g} {scale.unit}".rstrip()
