"""Reads measured tables: what nccl-tests prints, with whatever a job put around it, or CSV.

A row of nccl-tests begins with size, count and type; then come `redop` and `root` where the collective has them, and
time, algorithm bandwidth, bus bandwidth and errors, out of place and (in most versions) in place. Prefixes such as
`[1,0]<stdout>:` or `0:` and lines of other programs between the rows are passed over. From the rest of the text comes
what is said of the run: ranks and hosts, the collective's name, NCCL_ALGO. Of a log with tables of several
collectives, one is taken.

A CSV has the columns `size_bytes` and `time_us` or `oop_time_us`, optionally `ip_time_us`, and `# name: value` lines.

A row that cannot be right is refused with its line: sizes that repeat, times that are no positive numbers, bandwidths
that are not size over time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from syncline.base import collective_names, inputs
from syncline.base.document import read_text
from syncline.base.errors import InputError, Problem, one_of, shown
from syncline.nccl.wire import KINDS, bus_factor

FOLDER: Final = Path(__file__).parent / "tables"

MAX_BYTES: Final = 8 * 1024 * 1024
MAX_ROWS: Final = 10_000
MAX_SIZE: Final = 2**50
MAX_TIME_S: Final = 1e4
ACCEPTED: Final = "the output of an nccl-tests program, or CSV with the columns size_bytes and time_us"

_TYPES: Final = r"(?:u?int(?:8|32|64)|float|double|half|bfloat16|float(?:16|32|64)|fp8\w*|f8e\dm\d|char|int)"
_ROW: Final = re.compile(rf"(?:^|[\s:>|])(\d{{1,19}})\s+(\d{{1,19}})\s+({_TYPES})\s+(\S.*)$")
_CUT: Final = re.compile(rf"^(?:.*[:>|])?\s*\d{{1,19}}(?:\s+\d{{1,19}}(?:\s+{_TYPES})?)?\s*$")
"""How a row begins, in the last line of a log that ends within it."""
_RANK: Final = re.compile(r"#\s*Rank\s+(\d{1,6})\s.*?\bon\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*)$")
_PROGRAM: Final = re.compile(r"\b(\w+?)_perf(?:_mpi)?\b")
_ALGORITHM: Final = re.compile(r"NCCL_ALGO\s*=\s*\"?'?([A-Za-z]+)")
_NO_NVLS: Final = re.compile(r"NCCL_NVLS_ENABLE\s*=\s*0")
_SETTING: Final = re.compile(r"NCCL_(?:ALGO|NVLS_ENABLE)\s*=")
_HEADER: Final = re.compile(r"#\s*size\s+count\s+type\b")
_META: Final = re.compile(r"#\s*([a-z_]+)\s*:\s*(.*?)\s*$")
_OPERATIONS: Final = frozenset({"sum", "prod", "max", "min", "avg", "none", "mulsum"})
_ALGORITHMS: Final = {"ring": "ring", "tree": "tree", "nvls": "nvls", "nvlstree": "nvls"}


@dataclass(frozen=True, slots=True)
class Row:
    """A measured size. Times are seconds; nothing where the table has none."""

    size: int
    out_of_place: float | None
    in_place: float | None
    line: int
    wrong: bool = False
    """Whether nccl-tests found wrong elements in the results."""


@dataclass(frozen=True, slots=True)
class Table:
    """A measured table, and what it says of the run."""

    name: str
    rows: tuple[Row, ...]
    kind: str | None = None
    gpus: int | None = None
    nodes: int | None = None
    algorithm: str = "auto"
    nvls: bool = True
    """False if the run switched NVLS off."""
    bus_factor: float | None = None
    """Bus over algorithm bandwidth, where the table has both."""
    about: dict[str, str] = field(default_factory=dict)
    """`# name: value` lines of a CSV, and the `gpu` of a log."""

    def times(self, column: str = "out-of-place") -> list[tuple[int, float]]:
        """Sizes above zero and their times in a column: out-of-place or in-place."""
        pairs = [(row.size, row.in_place if column == "in-place" else row.out_of_place) for row in self.rows]
        return [(size, time) for size, time in pairs if size > 0 and time is not None]


def read_table(path: Path, label: str | None = None, kind: str | None = None) -> Table:
    """The table in a file; of a log with several collectives, that of `kind`. Raises [`InputError`] with every bad
    row.
    """
    label = str(path) if label is None else label
    return parse(read_text(inputs.given(path), label, MAX_BYTES), label, kind)


def packaged(name: str) -> Table:
    """A table that comes with the package."""
    return replace(read_table(FOLDER / f"{name}.csv", f"{name}.csv"), name=name)


def names() -> list[str]:
    """The tables that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def parse(text: str, label: str, kind: str | None = None) -> Table:
    """The table in a text; of a log with several collectives, that of `kind`. Raises [`InputError`] with every bad
    row.
    """
    lines = re.split(r"\r\n|\n|\r", text)
    header = next((i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), None)
    if header is not None and "size_bytes" in [cell.strip() for cell in lines[header].split(",")]:
        return _Reader(label).csv(lines, header)
    return _Reader(label).log(lines, kind)


@dataclass(frozen=True, slots=True)
class _Section:
    """The lines of a log that belong to one table."""

    lines: range
    header: int
    kind: str | None
    """The collective that was named last before the rows."""


class _Reader:
    """Collects rows and problems."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.problems: list[Problem] = []
        self.rows: list[Row] = []
        self.lines: dict[int, int] = {}
        self.ratios: list[tuple[float, float]] = []

    def log(self, lines: list[str], kind: str | None) -> Table:
        """What nccl-tests prints; of several collectives `kind`."""
        sections = _sections(lines)
        several = len({section.kind for section in sections if section.kind is not None}) > 1
        if several:
            lines = self._only(kind, sections, lines)
        for number, line in enumerate(lines, 1):
            if (found := _row(line)) is not None:
                self._log_row(number, found)
        last = max((number for number, line in enumerate(lines, 1) if line.strip()), default=0)
        if self.rows and last > self.rows[-1].line and _CUT.search(lines[last - 1]) and "#" not in lines[last - 1]:
            message = "the log ends within this row"
            self._refuse(last, "row", lines[last - 1].strip(), message, "whole rows, or the log without this line")
        ranks = dict(self._ranks(lines))
        text = "\n".join(lines)
        program = kind if several else next(_programs(text), None)
        on_bus = self._gpus_from_bandwidths(program)
        gpus = max(ranks) + 1 if ranks else on_bus
        if gpus is not None and on_bus not in (None, gpus):
            message = f"the lines of ranks are those of {gpus} GPUs, and busbw over algbw is that of {on_bus}"
            accepted = "the lines of all ranks, or of none"
            self.problems.append(Problem(self.label, None, "Rank", str(gpus), message, accepted))
        self._finish("no row of nccl-tests is in it")
        algorithm, nvls = _algorithm(text)
        hosts = {host for host, _ in ranks.values()}
        return Table(
            name=self.label,
            rows=tuple(self.rows),
            kind=program,
            gpus=gpus,
            nodes=len(hosts) if len(ranks) == gpus else None,
            algorithm=algorithm,
            nvls=nvls,
            bus_factor=self._factor(),
            about={"gpu": next(iter(ranks.values()))[1]} if ranks else {},
        )

    def _only(self, kind: str | None, sections: list[_Section], lines: list[str]) -> list[str]:
        """The lines of the tables of a collective, each in its place, with settings of NCCL that stand before them.
        Raises [`InputError`] where none is chosen, or there is none of it.
        """
        chosen = [section for section in sections if section.kind == kind]
        if kind is None or not chosen:
            named = ", ".join(f"{s.kind or 'one without a name'} (line {s.header + 1})" for s in sections)
            message = f"these are tables of several collectives: {named}"
            known = dict.fromkeys(section.kind for section in sections if section.kind is not None)
            accepted = f"{one_of(list(known))} as the collective, or a log with one table"
            raise InputError([Problem(self.label, sections[1].header + 1, "", None, message, accepted)])
        own = {number for section in chosen for number in section.lines}
        before = {n for n in range(min(own)) if _row(lines[n]) is None and _SETTING.search(lines[n]) is not None}
        return [line if number in own | before else "" for number, line in enumerate(lines)]

    def csv(self, lines: list[str], header: int) -> Table:
        """Comma-separated values with a header."""
        about = {m[1]: m[2] for m in map(_META.match, lines[:header]) if m is not None}
        columns = [cell.strip() for cell in lines[header].split(",")]
        time = next((c for c in ("time_us", "oop_time_us") if c in columns), None)
        if time is None and "ip_time_us" not in columns:
            self._refuse(header + 1, "", lines[header], "there is no column of times", "time_us or oop_time_us")
        for number, line in enumerate(lines[header + 1 :], header + 2):
            if line.strip() and not line.lstrip().startswith("#"):
                self._csv_row(number, line, columns, time)
        kind = kind_of(about.get("coll", about.get("collective", "")))
        self._finish("it has no rows")
        said = "\n".join([*lines[:header], f"NCCL_ALGO={about.get('algorithm', '')}"])
        algorithm, nvls = _algorithm(said)
        return Table(
            name=self.label,
            rows=tuple(self.rows),
            kind=kind,
            gpus=self._count(about, "n", "gpus") or self._gpus_from_bandwidths(kind),
            nodes=self._count(about, "nodes"),
            algorithm=algorithm,
            nvls=nvls,
            bus_factor=self._factor(),
            about=about,
        )

    def _log_row(self, number: int, found: re.Match[str]) -> None:
        rest = found[4].partition("#")[0].split() or [""]
        if rest[0].casefold() in _OPERATIONS:
            del rest[0]
        groups = {3: (3,), 4: (4,), 6: (3, 3), 8: (4, 4)}
        if len(rest) in (5, 7, 9) and re.fullmatch(r"-?\d{1,6}", rest[0]):
            del rest[0]
        widths = groups.get(len(rest))
        if widths is None:
            message = "this row has neither one nor two sets of time, algbw, busbw and errors"
            self._refuse(number, "row", found[0].strip(), message, "size count type redop root time algbw busbw #wrong")
            return
        times: list[float | None] = []
        wrong = False
        start = 0
        for width in widths:
            times.append(self._time(number, rest[start], int(found[1]), rest[start + 1], rest[start + 2]))
            # A count of elements; older versions print the largest error there, with an exponent.
            wrong = wrong or (width == 4 and re.fullmatch(r"[0-9]*[1-9][0-9]*", rest[start + 3], re.ASCII) is not None)
            start += width
        self._add(number, found[1], times[0], times[1] if len(times) > 1 else None, wrong=wrong)

    def _csv_row(self, number: int, line: str, columns: list[str], time: str | None) -> None:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(columns):
            message = f"this row has {len(cells)} cells, the header {len(columns)}"
            self._refuse(number, "row", line, message, f"{len(columns)} cells")
            return
        values = dict(zip(columns, cells, strict=True))
        size = values["size_bytes"]
        if not re.fullmatch(r"[0-9]{1,19}", size, re.ASCII):
            self._refuse(number, "size_bytes", size, "this is not a number of bytes", "a whole number")
            return
        parts: list[float | None] = []
        for column, prefix in ((time, "oop"), ("ip_time_us", "ip")):
            if column is None or column not in values:
                parts.append(None)
                continue
            algorithm, bus = values.get(f"{prefix}_algbw_GBps", ""), values.get(f"{prefix}_busbw_GBps", "")
            parts.append(self._time(number, values[column], int(size), algorithm, bus))
        self._add(number, size, parts[0], parts[1])

    def _time(self, number: int, text: str, size: int, algorithm: str, bus: str) -> float | None:
        """Seconds, or nothing where the table says that it has none."""
        if text.casefold() in ("n/a", "-", ""):
            return None
        value = _number(text)
        if value is None or not 0 < value * 1e-6 <= MAX_TIME_S:
            self._refuse(number, "time", text, "this is not a time", "microseconds, more than 0 and up to 1e10")
            return None
        rate, on_bus = _number(algorithm), _number(bus)
        if rate is None:
            return value * 1e-6
        expected = size / value / 1e3
        if abs(rate - expected) > 0.02 * expected + 0.051:
            message = f"the columns disagree: {size} bytes in {text} us are {expected:.2f} GB/s, not {algorithm}"
            self._refuse(number, "algbw", algorithm, message, f"about {expected:.2f}")
        elif on_bus is not None and rate >= 1:
            self.ratios.append((rate, on_bus / rate))
        return value * 1e-6

    def _add(
        self, number: int, size_text: str, out_of_place: float | None, in_place: float | None, *, wrong: bool = False
    ) -> None:
        size = int(size_text)
        if size > MAX_SIZE:
            self._refuse(number, "size", size_text, "the size is too large", f"at most {MAX_SIZE} bytes")
        elif size > 0 and size in self.lines:
            message = f"the size is measured twice; the first is on line {self.lines[size]}"
            self._refuse(number, "size", size_text, message, "one table, each size once")
        else:
            self.lines[size] = number
            self.rows.append(Row(size, out_of_place, in_place, number, wrong))

    def _finish(self, empty: str) -> None:
        if len(self.rows) > MAX_ROWS:
            self._refuse(self.rows[MAX_ROWS].line, "", None, "the table is too long", f"at most {MAX_ROWS} rows")
        if not self.rows and not self.problems:
            self.problems.append(Problem(self.label, None, "", None, empty, ACCEPTED))
        if self.problems:
            raise InputError(self.problems)
        self.rows.sort(key=lambda row: row.size)

    def _refuse(self, line: int, name: str, value: str | None, message: str, accepted: str) -> None:
        self.problems.append(Problem(self.label, line, name, shown(value), message, accepted))

    def _ranks(self, lines: list[str]) -> Iterator[tuple[int, tuple[str, str]]]:
        for line in lines:
            found = _RANK.search(line)
            if found is not None:
                yield int(found[1]), (found[2], found[3].strip())

    def _factor(self) -> float | None:
        """Bus over algorithm bandwidth of the fastest row, which has the most digits."""
        return max(self.ratios)[1] if self.ratios else None

    def _gpus_from_bandwidths(self, kind: str | None) -> int | None:
        """The number of GPUs that the factor between the two bandwidths stands for, if it is clear."""
        factor = self._factor()
        if factor is None or factor == 1 or bus_factor(kind or "all-reduce", 8) == 1:
            return None
        if kind is None and factor < 1:
            return None
        kind = kind or "all-reduce"
        passes = 2 if kind == "all-reduce" else 1
        if not 0 < passes - factor <= passes / 2 + 0.01:
            return None
        gpus = round(passes / (passes - factor))
        exact = math.isclose(float(bus_factor(kind, gpus)), factor, rel_tol=1e-3)
        return gpus if 2 <= gpus <= 64 and exact else None

    def _count(self, about: dict[str, str], *keys: str) -> int | None:
        text = next((about[key] for key in keys if key in about), None)
        if text is None:
            return None
        if re.fullmatch(r"[1-9][0-9]{0,6}", text, re.ASCII):
            return int(text)
        problem = Problem(self.label, None, keys[0], shown(text), "this is not a number", "a whole number above zero")
        raise InputError([problem])


def _row(line: str) -> re.Match[str] | None:
    """A row of a log; not one in a comment."""
    found = _ROW.search(line)
    return found if found is not None and "#" not in line[: found.start(1)] else None


def _programs(text: str) -> Iterator[str]:
    """The collectives that programs are named after in a text."""
    return (kind for found in _PROGRAM.finditer(text) if (kind := kind_of(found[1])) is not None)


def _sections(lines: list[str]) -> list[_Section]:
    """The tables of a log, one after the other: each with what stands behind the rows of the one before."""
    found: list[_Section] = []
    begin, header, first, last = 0, 0, -1, -1

    def close(end: int) -> None:
        named = [None, *_programs("\n".join(lines[begin:first]))]
        found.append(_Section(range(begin, end), header, named[-1]))

    for number, line in enumerate(lines):
        if _row(line) is not None:
            first, last = (number if first < 0 else first), number
        elif _HEADER.search(line) is not None:
            if first >= 0:
                close(last + 1)
                begin, first = last + 1, -1
            header = number
    if first >= 0:
        close(len(lines))
    return found


def _algorithm(text: str) -> tuple[str, bool]:
    """What NCCL_ALGO was set to, and whether NVLS was left on."""
    named = [_ALGORITHMS.get(found[1].casefold(), "auto") for found in _ALGORITHM.finditer(text)]
    return named[-1] if named else "auto", _NO_NVLS.search(text) is None


def kind_of(text: str) -> str | None:
    """A collective as people write it: all-reduce, all_reduce or AllReduce."""
    found = collective_names.settled(text, KINDS)
    return found if found in KINDS else None


def accepted_kinds() -> str:
    """For messages."""
    return one_of(KINDS)


def _number(text: str) -> float | None:
    """A decimal number as nccl-tests prints it."""
    if not re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{1,9})?(?:e[+-]?[0-9]{1,2})?", text, re.ASCII):
        return None
    return float(text)
