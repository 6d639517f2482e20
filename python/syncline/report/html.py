"""The report: one self-contained HTML page of a study.

The page needs nothing but itself: its style, its script, plotly's script and the data are inside,
and a content security policy forbids any network access. It is complete without scripts except for
the charts; charts take their colours from the style, so they follow the light or dark theme.
"""

from __future__ import annotations

import importlib
import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import details, sections
from .escape import html_text, script_json
from .markup import Charts
from .study import Study, Table, mapping, read, texts

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def build(
    document: Mapping[str, Any],
    variants: Mapping[str, Mapping[str, Table]],
    command: str,
) -> str:
    """The page of a study.

    `document` is the JSON document of `run`; `variants` are the tables (`pyarrow.Table` by name) of
    each variant by its name; `command` is what reproduces the study.
    """
    study = read(document, variants)
    figures: Charts = {}
    body = "\n".join(page_sections(study, figures, command))
    return page(study, body, figures)


def page_sections(study: Study, figures: Charts, command: str) -> list[str]:
    """The sections in the order in which people ask; charts are added to `figures`."""
    best = study.ranked[0] if study.ranked else None
    chosen = next((i for i, v in enumerate(study.variants) if v is best), 0)
    found = [
        sections.headline_section(study, figures),
        sections.why_section(study),
        sections.utilisation_section(study, figures),
        details.layers_section(study, chosen),
        sections.ace_section(study, figures, chosen),
        details.links_section(study, figures, chosen),
        details.collectives_section(study, chosen),
        sections.facts_section(study, command),
    ]
    return [s for s in found if s]


_NAVIGATION = [
    ("headline", "Headline"),
    ("why", "Why"),
    ("utilisation", "Utilisation"),
    ("layers", "Layers"),
    ("ace", "ACE"),
    ("links", "Links"),
    ("collectives", "Collectives"),
    ("facts", "Assumptions"),
]


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around the sections of a page."""

    name: str
    about: Sequence[str]
    """Facts below the name."""
    version: str
    banners: str
    titles: Sequence[tuple[str, str]]
    """Sections that the page may have, and what they are called in its navigation."""


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


def whole(around: Around, body: str, figures: Charts) -> str:
    """A page around its sections."""
    name = html_text(around.name)
    subtitle = " \u00b7 ".join(html_text(a) for a in around.about if a)
    links = "".join(f'<a href="#{i}">{t}</a>' for i, t in around.titles if f'<section id="{i}">' in body)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Syncline {html_text(around.version)}">
<title>{name} \u2013 Syncline report</title>
<link rel="icon" href="data:,">
<style>
{_asset("report.css")}</style>
<script>document.documentElement.classList.add("js")</script>
</head>
<body>
<header>
<p class="brand">Syncline report</p>
<h1>{name}</h1>
<p class="subtitle">{subtitle}</p>
</header>
{around.banners}<nav aria-label="Sections">{links}</nav>
<main>
{body}
</main>
<noscript><p class="note">Charts need JavaScript; the tables do not.</p></noscript>
<script type="application/json" id="charts">{script_json(figures)}</script>
<script>{_plotly()}</script>
<script>
{_asset("report.js")}</script>
</body>
</html>
"""


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


def _asset(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Plotly's script; imported here, because the import is slow and most commands need none."""
    source = str(importlib.import_module("plotly.offline").get_plotlyjs())
    return source.replace("</script", "<\\/script")
