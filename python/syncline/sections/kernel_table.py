"""Tables of measured kernels, as `syncline measure` writes them, for the compute model `table`.

A row is a kernel (`syncline.sections.shapes`). The engine is told of products by shape, and of other kernels by
bytes:

* Fused attention is what the engine takes it for (`crates/workload/src/transformer.rs`): one product of queries and
  keys whose sums are as long as those of all its products together, of half of the keys if it is causal.
* A convolution is the product that the engine takes it for (`crates/workload/src/operators.rs`).
* Products of one shape whose factors lie in memory in different ways, and other kernels of as many bytes, count once,
  with the median of their times.
* What consists of several kernels (plain attention), does arithmetic worth counting (losses), or reads at random
  (embeddings) tells nothing of others of as many bytes, and is not used; nor are launches.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from syncline.base.errors import InputError, Problem, did_you_mean, one_of, shown
from syncline.sections.shapes import COLUMNS, FORWARD, IMAGES, KINDS, LAID_OUT, LAYOUTS, MOST, WIDTHS, Kernel, legal

MAX_BYTES: Final = 64 * 2**20
NEEDED: Final = ("kind", "direction", "m", "k", "n", "count", "groups", "dtype", "bytes", "time_s")
"""Columns that a table must have; `syncline measure` writes more, and kernels on images need theirs."""
SIZES: Final = ("m", "k", "n", "count", "groups", "bytes")
STREAMS: Final = frozenset(
    {
        *("softmax", "layer-norm", "rms-norm", "gelu", "swiglu", "dropout", "add", "adam", "copy"),
        *("batch-norm", "relu", "max-pool", "average-pool"),
    }
)
"""Kernels without products that memory bounds."""
FUSED: Final = {"attention": 1, "attention-causal": 2}
"""Fused attention, and the part of the keys that a query asks, as a divisor."""
TERMS: Final = {FORWARD: 2, "backward": 5}
"""How often the elements of a head are added up in the products of fused attention."""
TWINS: Final = {"fp16": "bf16", "bf16": "fp16"}
"""Types of equal rate and width, which stand for each other."""
PS_PER_S: Final = 10**12
LONGEST_S: Final = 10**6
MOST_DIGITS: Final = 18
"""Of a number of bytes; other sizes are smaller."""


@dataclass(frozen=True, slots=True)
class Row:
    """A measured kernel."""

    kernel: Kernel
    bytes: int
    time_s: float


@dataclass(frozen=True)
class KernelTable:
    """The table in a file."""

    file: str
    """The file, as it was named."""
    content: bytes = field(repr=False)
    rows: tuple[Row, ...] = field(repr=False, compare=False)
    device: str = field(compare=False)
    """The device that was measured; empty if the table does not say."""

    def types(self) -> list[str]:
        """The data types of its products."""
        return sorted({row.kernel.dtype for row in self.rows if product(row.kernel) is not None})

    def type_for(self, precision: str) -> str | None:
        """The data type of the table that stands for a precision, if it has products of one."""
        types = self.types()
        return next((name for name in (precision, TWINS.get(precision)) if name in types), None)

    def engine(self, precision: str) -> dict[str, list[list[int]]]:
        """Products and other kernels of a precision as the engine takes them."""
        dtype = self.type_for(precision)
        products: dict[tuple[int, ...], list[Row]] = {}
        streams: dict[tuple[int, ...], list[Row]] = {}
        for row in self.rows:
            shape = product(row.kernel)
            if shape is not None and row.kernel.dtype == dtype:
                products.setdefault(shape, []).append(row)
            elif row.kernel.kind in STREAMS:
                streams.setdefault((row.bytes,), []).append(row)
        return {
            "products": [[*shape, rows[0].bytes, _median_ps(rows)] for shape, rows in products.items()],
            "streams": [[*size, _median_ps(rows)] for size, rows in streams.items()],
        }


def _median_ps(rows: Iterable[Row]) -> int:
    return max(1, round(median(row.time_s for row in rows) * PS_PER_S))


def product(kernel: Kernel) -> tuple[int, int, int, int] | None:
    """Rows, terms, columns and the number of products that a kernel is to the engine; none if it is no product."""
    if kernel.kind in ("product", "convolution"):
        return kernel.m, kernel.k, kernel.n, kernel.count
    part = FUSED.get(kernel.kind)
    if part is None:
        return None
    terms = TERMS[kernel.direction] * kernel.k
    return kernel.m * kernel.groups, terms, -(-kernel.n // part), kernel.count // kernel.groups


def read(content: bytes, file: str) -> KernelTable:
    """Reads a table. Raises [`InputError`] with what is wrong, line by line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError([Problem(file, None, "", None, "this is no text", "a CSV table")]) from None
    problems: list[Problem] = []
    lines = csv.reader(text.splitlines())
    try:
        header = next(lines, [])
        _check_header(header, file)
        rows, devices = [], []
        for number, cells in enumerate(lines, start=2):
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                message = f"{len(cells)} values, where the header has {len(header)}"
                problems.append(Problem(file, number, "", None, message))
                continue
            values = dict(zip(header, cells, strict=True))
            found = _row(values, file, number)
            if isinstance(found, Row):
                rows.append(found)
                devices.append(values.get("device", ""))
            else:
                problems += found
    except csv.Error as error:
        raise InputError([Problem(file, lines.line_num, "", None, f"this is no CSV: {error}")]) from None
    if not problems and not any(product(row.kernel) for row in rows):
        problems.append(Problem(file, None, "", None, "the table has no matrix product", "rows of kind product"))
    if len({row.kernel.layout for row in rows if row.kernel.kind in LAID_OUT}) > 1:
        message = "the table has kernels on images of two layouts, which a run cannot tell apart"
        problems.append(Problem(file, None, "layout", None, message, "a table of each layout"))
    if problems:
        raise InputError(problems)
    return KernelTable(file, content, tuple(rows), devices[0] if devices else "")


def _check_header(header: Sequence[str], file: str) -> None:
    missing = [name for name in NEEDED if name not in header]
    if missing:
        close = did_you_mean(missing[0], header)
        message = f"the table has no column {missing[0]}{close}"
        raise InputError([Problem(file, 1, "", None, message, one_of(COLUMNS))])
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise InputError([Problem(file, 1, twice, None, "this column is there more than once")])


def _row(values: Mapping[str, str], file: str, line: int) -> Row | list[Problem]:
    """A row, or what is wrong with it."""
    problems = [*_wrong_words(values, file, line)]
    sizes: dict[str, int] = {}
    for name in (*SIZES, *IMAGES):
        text = values[name].strip() if name in NEEDED else values.get(name, "").strip() or "0"
        if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS:
            sizes[name] = int(text)
        else:
            problems.append(Problem(file, line, name, shown(text), "this is no size", f"0 to {MOST}"))
    time_s = _number(values["time_s"])
    if time_s is None or not 0 < time_s <= LONGEST_S:
        accepted = f"seconds, above 0 and up to {LONGEST_S}"
        problems.append(Problem(file, line, "time_s", shown(values["time_s"]), "this is no time", accepted))
    if problems or time_s is None:
        return problems
    moved = sizes.pop("bytes")
    layout = values.get("layout", "").strip() or LAYOUTS[0]
    kernel = Kernel(values["kind"], values["direction"], dtype=values["dtype"], layout=layout, **sizes)
    wrong = legal(kernel)
    if wrong is None and moved < 1:
        wrong = "bytes 0 is out of range; accepted: 1 or more"
    if wrong is not None:
        message, _, accepted = wrong.partition("; accepted: ")
        return [Problem(file, line, "", None, message, accepted or None)]
    return Row(kernel, moved, time_s)


def _wrong_words(values: Mapping[str, str], file: str, line: int) -> Iterator[Problem]:
    kind, dtype = values["kind"], values["dtype"]
    if kind not in KINDS:
        yield Problem(file, line, "kind", shown(kind), f"this is not known{did_you_mean(kind, KINDS)}", one_of(KINDS))
    if dtype not in WIDTHS:
        message = f"this is not known{did_you_mean(dtype, WIDTHS)}"
        yield Problem(file, line, "dtype", shown(dtype), message, one_of(WIDTHS))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
