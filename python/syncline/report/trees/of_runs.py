"""The trees of runs, as sections of their page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from syncline.base.errors import InputError
from syncline.engine import runs as engine
from syncline.report.trees import page
from syncline.studies.trees import document

if TYPE_CHECKING:
    from syncline.experiment.load import Variant

OVER: Final = {"nvlink": " over NVLinks", "pcie": " over PCIe"}
MOST: Final = 12
"""Sections of a page: studies may have a thousand variants, whose trees are often the same."""


def sections(variants: Iterable[Variant]) -> str:
    """A section for each network and collective whose trees runs used; nothing where none packs trees."""
    found: dict[str, tuple[page.Found, list[str]]] = {}
    for variant in variants:
        try:
            used = engine.trees(variant)
        except InputError:
            continue  # which the run has been refused for
        for each in used:
            described = document.of(each.graph, each.asked, each.best, each.goal)
            key = repr((each.graph.name, each.asked.gpus, each.best.packing.trees, each.best.packing.collective))
            if key not in found and len(found) < MOST:
                found[key] = page.Found(each.graph, each.asked, each.best.packing, described), []
            if key in found:
                found[key][1].append(variant.name)
    return "\n".join(
        page.section(
            shown,
            name="trees" if number == 0 else f"trees-{number}",
            title=f"Trees of the {_called(shown)}: {', '.join(dict.fromkeys(names))}",
        )
        for number, (shown, names) in enumerate(found.values())
    )


def _called(shown: page.Found) -> str:
    return f"{shown.document['collective']}{OVER.get(shown.document['links'], '')}"
