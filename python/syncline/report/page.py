"""The frame of every page: one self-contained HTML file.

A page needs nothing but itself: its style, its script, and, where it has charts, their data and plotly's script are
inside, the last two compressed (see [`packed`][syncline.report.packed]). A content security policy forbids any network
access. It is complete without scripts except for the charts; these take their colours from the style, so they follow
the light or dark theme.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass

from syncline.report import packed
from syncline.report.escape import html_text, script_json
from syncline.report.markup import Charts

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


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
    kind: str = "report"
    """What the page is."""


def whole(around: Around, body: str, charts: Charts) -> str:
    """A page around its sections."""
    name = html_text(around.name)
    subtitle = " \u00b7 ".join(html_text(a) for a in around.about if a)
    links = "".join(f'<a href="#{i}">{t}</a>' for i, t in around.titles if f'<section id="{i}">' in body)
    kind = f"Syncline {around.kind}"
    note = '<noscript><p class="note">Charts need JavaScript; the tables do not.</p></noscript>\n' if charts else ""
    plotly = f'<script type="text/plain" id="plotly">{packed.plotly()}</script>\n' if charts else ""
    data = packed.packed(script_json(charts)) if charts else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Syncline {html_text(around.version)}">
<title>{name} \u2013 {kind}</title>
<link rel="icon" href="data:,">
<style>
{_asset("report.css")}</style>
<script>document.documentElement.classList.add("js")</script>
</head>
<body>
<header>
<p class="brand">{kind}</p>
<h1>{name}</h1>
<p class="subtitle">{subtitle}</p>
</header>
{around.banners}<nav aria-label="Sections">{links}</nav>
<main>
{body}
</main>
{note}<script type="text/plain" id="charts">{data}</script>
{plotly}<script>
{_asset("report.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
