"""What the report of a run says of its reasons: what was kept of `explain`, or what records tell without reruns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.base import inputs
from syncline.base.errors import InputError
from syncline.results import documents, rundir
from syncline.results.entries import Document
from syncline.studies import answers
from syncline.studies.reasons import answer, limits
from syncline.studies.reasons.seen import Seen

if TYPE_CHECKING:
    import pyarrow as pa

    from syncline.experiment.load import Variant


def entries(
    document: Mapping[str, Any],
    tables: Mapping[str, Mapping[str, pa.Table]],
    variants: Iterable[Variant],
    known: Mapping[str, Document] | None = None,
) -> list[Document]:
    """The systems as `explain` has them: those that are `known`, and the others without reruns; nothing of those whose
    records or experiment are not known.
    """
    found: list[Document] = []
    runs = {str(entry.get("name")): entry for entry in document.get("runs", ())}
    for variant in variants:
        entry = runs.get(variant.name)
        if known and variant.name in known:
            found.append(known[variant.name])
        elif entry is not None and variant.name in tables and entry.get("total_time_s"):
            seen = Seen(entry, tables[variant.name])
            if seen.has_path:
                reasons = answer.of(seen, variant.experiment)
                found.append(answer.entry(reasons, limits.decided(reasons.accounting, ()), None))
    return found


def kept(directory: Path) -> dict[str, Document]:
    """The systems that `explain` has run again with changes, from the directory of a run; none if it was not asked, or
    if what it wrote cannot be read.
    """
    file = directory / rundir.EXPLAINED
    try:
        if not file.is_file():
            return {}
        read = documents.read(inputs.read_bytes(file, str(file)), str(file), answers.ExplainDocument)
    except (InputError, OSError):
        return {}
    return {str(entry["name"]): entry for entry in read["systems"]}
