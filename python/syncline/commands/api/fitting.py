"""`syncline.fit`: which divisions of a model fit into the memory of its NPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base.errors import InputError, one_of
from syncline.base.text_units import size
from syncline.commands.api import arguments, display, sources, tables
from syncline.commands.api.documented import Documented
from syncline.commands.api.tables import Table
from syncline.core import cancelling
from syncline.engine import assumptions
from syncline.sections.workloads import DividedWorkload
from syncline.strategies import fit as divisions
from syncline.strategies import training

if TYPE_CHECKING:
    from syncline.commands.api.sources import Source
    from syncline.core.cancelling import Cancellation
    from syncline.experiment.load import Study, Variant
    from syncline.results.entries import Document

SHOWN: Final = 20
"""Rows that a notebook shows of a variant."""


def run(study: Study, *, every: bool) -> Document:
    """What fits of all variants, as the document of `fit --json`. Raises [`InputError`] where that cannot be said,
    [`CancelledError`] when what ends the variants is called.
    """
    variants = [_of(variant, every=every) for variant in study.variants]
    return {
        **_version.versions(),
        "status": "complete",
        "seed": 0,
        "assumptions": assumptions.of(study.variants),
        "warnings": list(study.warnings),
        "fidelity": {},
        "name": study.name,
        "variants": variants,
    }


def _of(variant: Variant, *, every: bool) -> dict[str, Any]:
    """What fits of a variant. Raises [`InputError`] where that cannot be said."""
    experiment, available = variant.experiment, variant.experiment.npu.available
    if not isinstance(experiment.workload, DividedWorkload):
        message = "there is no model that could be divided"
        raise InputError([variant.problem(("workload",), message, "workload.model with workload.global_batch")])
    if available is None:
        message = "it is not known how much memory an NPU has"
        raise InputError([variant.problem(("npu", "memory"), message, "npu.memory, npu.gpu, or a machine as topology")])
    rows = []
    for candidate in divisions.candidates(training.of(experiment)):
        cancelling.check(variant.cancel)
        rows.append(candidate.row(available))
    return {
        "name": variant.name,
        "npus": experiment.taking_part,
        "memory_bytes": experiment.npu.memory,
        "reserved_bytes": experiment.npu.reserved,
        "available_bytes": available,
        "candidates": len(rows),
        "fitting": sum(row["fits"] for row in rows),
        "least": min(rows, key=lambda row: int(row["memory_bytes"]), default=None),
        "rows": [row for row in rows if every or row["fits"]],
    }


class Fit(Documented):
    """Which divisions of a model fit into the memory of an NPU, by variant."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self.tables: dict[str, Table] = {
            variant["name"]: tables.of_entries(variant["name"], variant["rows"]) for variant in document["variants"]
        }
        """By variant, a row for each division: its degrees, `fits`, and the terms of its memory in bytes."""
        self.table: Table = tables.of_entries(
            "fit", [{"variant": variant["name"], **row} for variant in document["variants"] for row in variant["rows"]]
        )
        """The same of all variants, which the column `variant` names."""

    def __repr__(self) -> str:
        found = self.fitting
        counts = {name: f"{found[name]} of {of} divisions" for name, of in self.candidates.items()}
        each = counts.values() if len(counts) == 1 else [f"{name} {count}" for name, count in counts.items()]
        return f"<Fit {self.document['name']}: {one_of(each)} fit>"

    def _repr_html_(self) -> str:
        text = ""
        for variant in self.document["variants"]:
            have = f"{variant['npus']:,} NPUs with {size(variant['available_bytes'])} for a model"
            about = f"{variant['name']} on {have}: {variant['fitting']} of {variant['candidates']} divisions fit"
            names = list(variant["rows"][0]) if variant["rows"] else ["tensor"]
            text += display.rows(about, variant["rows"], names, SHOWN, "fit.tables has all of them.")
        return text

    @property
    def candidates(self) -> dict[str, int]:
        """By variant, how many divisions there are."""
        return {variant["name"]: variant["candidates"] for variant in self.document["variants"]}

    @property
    def fitting(self) -> dict[str, int]:
        """By variant, how many of them fit."""
        return {variant["name"]: variant["fitting"] for variant in self.document["variants"]}


@arguments.plain_arguments
def fit(
    source: Source,
    *,
    set: Mapping[str, object] | None = None,
    every: bool = False,
    cancel: Cancellation | None = None,
) -> Fit:
    """Lists which divisions of a model fit into the memory of the NPUs, and with what terms.

    `source` is an experiment as in [`load`], whose model has `workload.global_batch`, and whose NPU has a memory.
    Varied are `parallel.tensor`, `pipeline`, `data`, `zero` and `recompute`; all else is as the experiment says,
    changed by `set`. With `every`, those that do not fit are listed as well.

    Raises [`InputError`] with everything that is wrong, [`CancelledError`] when `cancel` is called.
    """
    settings = arguments.of_program(changes=set, cancel=cancel)
    settings = replace(settings, problems=(*settings.problems, *arguments.not_flags(every=every)))
    study = settings.loaded(lambda overrides, forced: sources.read(source, overrides, forced))
    cancelling.check(cancel)
    return Fit(run(study, every=every))
