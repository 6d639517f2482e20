"""The page of a run: its results, its packed trees, and its reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from syncline.experiment.load import Variant
from syncline.report import html
from syncline.report.trees import of_runs
from syncline.results.entries import Document
from syncline.studies.reasons import entries

if TYPE_CHECKING:
    import pyarrow as pa


def page(
    document: Document,
    tables: Mapping[str, Mapping[str, pa.Table]],
    variants: Sequence[Variant],
    command: str,
    known: Mapping[str, Document] | None = None,
) -> str:
    """The page as HTML, from the document of `run`, the tables of each variant by its name, the variants, the command
    that repeats the run, and what is `known` of it from `explain`.
    """
    trees = of_runs.sections(variant for variant in variants if variant.name in tables)
    return html.build(document, tables, command, trees, entries.entries(document, tables, variants, known))
