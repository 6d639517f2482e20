"""The page of all tables.

Everything in it is what the tables declare, which is also what Parquet files say of themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from syncline.core import facts
from syncline.studies import columns, command_tables
from syncline.studies.searches import table as searches
from syncline.studies.trees import sweep_table

HEAD = """# Tables and their columns

This page is made of what the tables declare. Parquet files
say the same of themselves: every column has its `unit` and `meaning` as metadata.

```python
import pyarrow.parquet as pq

pq.read_schema("systems.parquet").field("iteration_time_s").metadata
```

The suffix of `--out FILE` says the format: `.parquet`, `.csv`, or `.json`, which is the document that the command
prints with `--json` (`syncline schema NAME`). Columns that have no value in any row are left out. Tables of a run
directory are Parquet; times in them are integers in picoseconds.
"""

Row = tuple[str, str, str]


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    yield "## Tables of commands\n"
    for form in command_tables.forms().values():
        yield from _table(f"`syncline {form.command} --out FILE`", form.meaning, _rows(form.columns))
    yield "## `syncline sweep --out FILE`\n"
    yield (
        "A row for every simulation, in the order of the points. The fields that the sweep varies are columns under\n"
        "their paths, with the unit of the field at the end: `endpoint.sram_bytes`.\n"
    )
    for title, measures in (
        ("Every row", columns.ROW),
        ("Training", (*columns.TRAINING, columns.STEADY)),
        ("A collective on its own", columns.COLLECTIVE),
        ("Algorithm", columns.COMMON),
        ("Network", columns.NETWORK),
        ("Transport, of the backend `ethernet`", columns.TRANSPORT),
        ("Endpoint", columns.ENDPOINT),
        ("Where time goes in the endpoint", columns.BREAKDOWN),
        ("Resources and partitions, by what their names end with", columns.NAMED),
        ("What an engine costs", columns.COST),
        ("Fidelity", (*columns.FIDELITY, columns.WARNINGS)),
    ):
        yield from _table(title, "", _rows(measures))
    yield "## `syncline search --out FILE`\n"
    yield from _table(
        "Candidates", "A row for every candidate, the best first.", ((n, *searches.MEANINGS[n]) for n in searches.TYPES)
    )
    yield "## `syncline trees --sweep allocations --out FILE`\n"
    yield from _table("Every row", "A row for every allocation.", _rows(sweep_table.COLUMNS))
    yield from _table("With `--compare`", "", _rows(sweep_table.COMPARED))
    yield "## Tables of a run directory\n"
    yield (
        "`syncline run --out DIR` writes them to `DIR/SYSTEM/tables/NAME.parquet`;\n"
        "`import syncline` has them as `tables` of a system.\n"
    )
    for table in facts.engine().tables.values():
        yield from _table(f"`{table.name}`", table.meaning, _rows(table.columns.values()))


def _rows(declared: Iterable[object]) -> Iterator[Row]:
    """Name, unit and meaning of columns, whoever declares them."""
    for column in declared:
        yield tuple(str(getattr(column, key)) for key in ("name", "unit", "meaning"))  # type: ignore[misc]


def _table(title: str, meaning: str, rows: Iterable[Row]) -> Iterator[str]:
    yield f"### {title}\n"
    if meaning:
        yield f"{meaning}\n"
    yield "| column | unit | meaning |\n|---|---|---|"
    for name, unit, says in rows:
        escaped = says.replace("|", "\\|")
        yield f"| `{name}` | {unit} | {escaped} |"
    yield ""
