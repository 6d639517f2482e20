"""The tables that commands write with `--out`, beside those of sweeps and searches: their columns, how they are made.

A table is made of the document that the command prints: of each entry of a list in it a row, or of the document itself
the only one. The suffix of the file says the format: `.parquet`, whose columns say their unit and meaning, `.csv`, or
`.json`, which is the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base import atomic, json_reading
from syncline.core import facts
from syncline.results import entries as results
from syncline.results import parquet
from syncline.studies import columns
from syncline.studies.columns import COUNT, INDEX, PER_SECOND, SECONDS, SHARE, TRUTH

if TYPE_CHECKING:
    import pyarrow as pa

METADATA: Final = "syncline.table"
OTHERS: Final = (".arrow", ".feather", ".gz", ".html", ".md", ".tsv", ".txt", ".xls", ".xlsx", ".yaml", ".zip")
"""Suffixes of files that somebody may mean who names one; of a directory that is to be made, they are no part."""
TEXT, BYTES = facts.TEXT, facts.BYTES
KINDS: Final[dict[str, type]] = {COUNT: int, INDEX: int, BYTES: int, TRUTH: bool, TEXT: str}
"""What values are stored as, by their unit; all else are numbers."""
BELOW: Final = ("network", "endpoint", "cost_model", "fidelity")
"""Sections of an entry whose fields are columns like its own."""
MEANS: Final = frozenset({"bytes_sent_per_npu", "message_bytes"})
"""Sizes that are means, and not always whole."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    unit: str
    meaning: str

    @property
    def kind(self) -> type:
        """The type of its values."""
        return float if self.name in MEANS else KINDS.get(self.unit, float)


@dataclass(frozen=True, slots=True)
class Form:
    """The table of a command."""

    command: str
    meaning: str
    """What a row is."""
    rows: str | None
    """The list of the document whose entries are the rows; none where the document is the only one."""
    columns: tuple[Column, ...]
    within: tuple[str, str] | None = None
    """Of entries that have lists of rows themselves, the list, and the column that has the name of the entry."""


def _measured(groups: Iterable[Iterable[columns.Measure]]) -> tuple[Column, ...]:
    """Columns that sweeps have as well, each once."""
    each = {measure.name: measure for group in groups for measure in group}
    return tuple(Column(name, measure.unit, measure.meaning) for name, measure in each.items())


_REST: Final = (
    *(columns.NETWORK, columns.TRANSPORT, columns.ENDPOINT, columns.BREAKDOWN, columns.COST, columns.FIDELITY),
    (columns.WARNINGS,),
)


def _run() -> Form:
    return Form(
        "run",
        "A row for every system.",
        "runs",
        (
            Column("name", TEXT, "Name of the variant."),
            *_measured([columns.TRAINING]),
            Column("steady_iteration_time_s", SECONDS, "What one more iteration costs in a long run."),
            Column("speedup", "ratio", "Time of the baseline divided by that of the variant."),
            Column("share_of_ideal", SHARE, "Time of the variant called ideal divided by that of this one."),
            Column("collective", TEXT, "Of a collective on its own, which."),
            *_measured([columns.COLLECTIVE, columns.COMMON]),
            Column("npus", COUNT, "NPUs of the topology."),
            Column("topology", TEXT, "Fabric of the simulation."),
            *_measured(_REST),
        ),
    )


def _collective() -> Form:
    return Form(
        "collective",
        "One row: the collective.",
        None,
        (
            Column("collective", TEXT, "Which."),
            Column("root", INDEX, "Rank of the root, where there is one."),
            *_measured([columns.COLLECTIVE, columns.COMMON]),
            Column("npus", COUNT, "NPUs of the topology."),
            Column("topology", TEXT, "Fabric of the simulation."),
            *_measured(_REST),
        ),
    )


BENCH: Final = Form(
    "bench",
    "A row for every size, as nccl-tests counts it.",
    "rows",
    (
        Column("size_bytes", BYTES, "Size of the collective."),
        Column("count", COUNT, "Elements of a rank's part, as nccl-tests counts them."),
        Column("type", TEXT, "Type of the elements."),
        Column("redop", TEXT, "Reduction, or none."),
        Column("root", INDEX, "Rank of the root; -1 without one."),
        Column("time_s", SECONDS, "Time of the collective: predicted, or with --execute measured."),
        Column("time_low_s", SECONDS, "Nine of ten systems of the class take no less, and no more than time_high_s."),
        Column("time_high_s", SECONDS, "The other end of that interval."),
        Column("algorithm_bandwidth_bytes_per_s", PER_SECOND, "Size divided by time, as in nccl-tests."),
        Column(
            "bus_bandwidth_bytes_per_s",
            PER_SECOND,
            "Algorithm bandwidth times the factor of nccl-tests for the collective.",
        ),
        Column("algorithm", TEXT, "Algorithm that NCCL, or the collective library, takes."),
        Column("protocol", TEXT, "Protocol that NCCL takes."),
        Column("least_s", SECONDS, "With --execute, the shortest time that was measured."),
        Column("wrong", COUNT, "With --execute, elements of results that were wrong."),
        Column("predicted_s", SECONDS, "With --execute, the time that the simulator predicts."),
        Column("error", SHARE, "With --execute, predicted time divided by measured time, less one."),
        Column("is_fitted_on", TRUTH, "With --execute, whether constants were fitted on this size."),
    ),
)
CHECK: Final = Form(
    "check",
    "A row for every system: what running it takes.",
    "estimates",
    (
        Column("name", TEXT, "Name of the variant."),
        Column("npus", COUNT, "NPUs of the topology."),
        Column("simulated_npus", COUNT, "NPUs that are simulated; the others are like them."),
        Column("steps", COUNT, "Steps of the longest path of a collective."),
        Column("chunks_per_npu", COUNT, "Chunks of an NPU, over the whole run."),
        Column("bytes_sent_per_npu", BYTES, "Mean payload that an NPU sends."),
        Column("messages", COUNT, "Messages of simulated NPUs."),
        Column("packets", COUNT, "Packets of simulated NPUs."),
        Column("message_bytes", BYTES, "Mean size of a message."),
        Column("events", COUNT, "Events of the simulation, roughly."),
        Column("memory_bytes", BYTES, "Memory that the simulation takes, roughly."),
        Column("time_s", SECONDS, "Time that the simulation takes on this machine, roughly."),
        Column("time_told_apart_s", SECONDS, "The same where NPUs that are alike have to be told apart."),
        Column("recommendation", TEXT, "Which backend suits the run."),
    ),
)
FIT: Final = Form(
    "fit",
    "A row for every division of a model that fits; with --all, for every one.",
    "variants",
    (
        Column("variant", TEXT, "Name of the variant."),
        Column("tensor", COUNT, "NPUs that share each layer."),
        Column("pipeline", COUNT, "Stages of the pipeline."),
        Column("data", COUNT, "Copies of the model."),
        Column("zero", INDEX, "Stage of ZeRO."),
        Column("recompute", TEXT, "What is computed again in back-propagation."),
        Column("micro_batches", COUNT, "Micro-batches of an iteration."),
        Column("fits", TRUTH, "Whether the memory of an NPU suffices."),
        Column("memory_bytes", BYTES, "Memory of an NPU of the stage that needs most."),
        Column("stage", INDEX, "That stage."),
        Column("weights_bytes", BYTES, "Weights in it."),
        Column("gradients_bytes", BYTES, "Gradients in it."),
        Column("optimiser_bytes", BYTES, "State of the optimiser in it."),
        Column("activations_bytes", BYTES, "Activations in it."),
        Column("exchange_bytes", BYTES, "Buffers of communication in it."),
        Column("libraries_bytes", BYTES, "Workspaces of matrix products in it."),
    ),
    within=("rows", "variant"),
)
REPRODUCE: Final = Form(
    "reproduce",
    "A row for every claim. Claims of several figures have them as JSON lists.",
    "claims",
    (
        Column("id", TEXT, "Name of the claim."),
        Column("source", TEXT, "Paper that it is from."),
        Column("where", TEXT, "Section, figure or table of the paper."),
        Column("metric", TEXT, "What the figure says."),
        Column("unit", TEXT, "Unit of the figures."),
        Column("published", TEXT, "Published figure, or figures."),
        Column("simulated", TEXT, "Simulated ones."),
        Column("accept", TEXT, "Least and most that count as reproduced."),
        Column("inside", TRUTH, "Whether the simulated ones are inside."),
        Column("note", TEXT, "What the simulation found beside them."),
    ),
)
LIST: Final = Form(
    "list",
    "A row for everything that has a name.",
    "lists",
    (
        Column("kind", TEXT, "Kind of the thing."),
        Column("name", TEXT, "Its name."),
        Column("says", TEXT, "What it is."),
    ),
    within=("entries", "kind"),
)


def forms() -> dict[str, Form]:
    """The tables by command."""
    return {form.command: form for form in (_run(), _collective(), BENCH, CHECK, FIT, REPRODUCE, LIST)}


def as_arrow(form: Form, document: Mapping[str, Any]) -> pa.Table:
    """The table of a document, without columns that have no value in any row, its columns with unit and meaning."""
    import pyarrow as pa

    rows = [{column.name: _value(column, row) for column in form.columns} for row in _rows(form, document)]
    kept = [column for column in form.columns if not rows or any(row[column.name] is not None for row in rows)]
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema(
        pa.field(column.name, types[column.kind], metadata={"unit": column.unit, "meaning": column.meaning})
        for column in kept
    )
    about = {"command": form.command, "version": _version.version(), "status": document["status"]}
    return pa.Table.from_pylist(rows, schema.with_metadata({METADATA: json.dumps(about)}))


def write(path: Path, form: Form, document: Mapping[str, Any]) -> None:
    """Writes the table in the format of its suffix, as a whole or not at all."""
    if path.suffix == ".json":
        atomic.write(path, results.dumps(dict(document)) + "\n")
    else:
        atomic.write(path, parquet.content(as_arrow(form, document), path.suffix))


def is_ours(form: Form, path: Path) -> bool:
    """Whether a file looks like the table of a command, which may be written anew."""
    if path.suffix == ".json":
        return is_document(path, *([form.rows] if form.rows else [column.name for column in form.columns[:2]]))
    return parquet.looks_like(path, METADATA, [column.name for column in form.columns[:1]])


def is_document(path: Path, *keys: str) -> bool:
    """Whether a file is a document that some command has printed, with these keys."""
    try:
        found = json_reading.parse(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"schema_version", *keys} <= found.keys()


def _rows(form: Form, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    entries = [document] if form.rows is None else document[form.rows]
    for entry in entries:
        if form.within is None:
            below = (entry[part] for part in BELOW if isinstance(entry.get(part), Mapping))
            sections = [part for each in below for part in (each, each.get("breakdown")) if part]
            yield {key: value for part in (*reversed(sections), entry) for key, value in part.items()}
        else:
            rows, column = form.within
            for row in entry[rows]:
                yield {**row, column: entry.get("name", entry.get("kind"))}


def _value(column: Column, row: Mapping[str, Any]) -> Any:
    value = row.get(column.name)
    if value is None or (column.name == "warnings" and not value):
        return None
    if column.name == "warnings":
        return "; ".join(value)
    if column.kind is str:
        return value if isinstance(value, str) else json.dumps(value)
    return column.kind(value)
