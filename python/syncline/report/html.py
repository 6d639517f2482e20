"""The report: the page of a study, its sections in the order in which people ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from syncline.report import details, sections, transport, why
from syncline.report.markup import Charts
from syncline.report.page import Around, whole
from syncline.report.why import Entry
from syncline.results.study import Study, Table, mapping, read, texts


def build(
    document: Mapping[str, Any],
    variants: Mapping[str, Mapping[str, Table]],
    command: str,
    trees: str = "",
    explained: Sequence[Entry] = (),
) -> str:
    """The page of a study.

    `document` is the JSON document of `run`; `variants` are the tables (`pyarrow.Table` by name) of
    each variant by its name; `command` is what reproduces the study; `trees` are sections on packed trees;
    `explained` is what `explain` says of the variants.
    """
    study = read(document, variants)
    figures: Charts = {}
    *found, facts = page_sections(study, figures, command, why.reasons(explained))
    body = "\n".join([*found, *filter(None, [trees]), facts])
    return page(study, body, figures)


def page_sections(study: Study, figures: Charts, command: str, reasons: str) -> list[str]:
    """The sections in the order in which people ask, `reasons` before what else is said of them; charts are added to
    `figures`.
    """
    best = study.ranked[0] if study.ranked else None
    chosen = next((i for i, v in enumerate(study.variants) if v is best), 0)
    found = [
        sections.headline_section(study, figures),
        sections.why_section(study, reasons),
        sections.utilisation_section(study, figures),
        transport.transport_section(study, figures, chosen),
        details.layers_section(study, chosen),
        sections.ace_section(study, figures, chosen),
        details.links_section(study, figures, chosen),
        details.collectives_section(study, chosen),
        sections.facts_section(study, command),
    ]
    return [s for s in found if s]


_NAVIGATION = [
    ("headline", "Headline"),
    ("settings", "What differs"),
    ("why", "Why"),
    ("utilisation", "Utilisation"),
    ("transport", "Transport"),
    ("layers", "Layers"),
    ("ace", "ACE"),
    ("links", "Links"),
    ("collectives", "Collectives"),
    ("trees", "Trees"),
    ("facts", "Assumptions"),
]


def page(study: Study, body: str, figures: Charts) -> str:
    """The page of a study around its sections."""
    document = study.document
    fidelity = mapping(document.get("fidelity"))
    about = [
        str(document.get("topology") or ""),
        f"{len(study.variants)} variant{'' if len(study.variants) == 1 else 's'}",
        f"{fidelity['backend']} network" if fidelity.get("backend") else "",
    ]
    name, version = str(document.get("name") or "Simulation"), str(document.get("version") or "")
    return whole(Around(name, about, version, _banners(study), _NAVIGATION), body, figures)


def _banners(study: Study) -> str:
    """What a reader must know before any number."""
    text = ""
    if study.document.get("status") == "partial":
        text += '<p class="banner">Partial: the study did not finish; this is what there is.</p>\n'
    count = len(texts(study.document.get("warnings")))
    if count:
        what = "1 warning" if count == 1 else f"{count} warnings"
        text += f'<p class="banner"><a href="#facts">{what}</a> on these results.</p>\n'
    return text
