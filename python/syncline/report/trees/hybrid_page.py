"""Trees over NVLinks and PCIe at the same time as a self-contained page: the split, and the trees of either part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from syncline import _version
from syncline.fabric.graph import Graph
from syncline.report import markup
from syncline.report.escape import html_text
from syncline.report.markup import Row, hint, reproduce, table
from syncline.report.page import Around, whole
from syncline.report.trees import page
from syncline.results.units import rate_scale, size, time_scale
from syncline.treegen.hybrid import Part

OVER: Final = {"nvlink": "over NVLinks", "pcie": "over PCIe"}


def build(
    graph: Graph, parts: Sequence[tuple[Part, Mapping[str, Any]]], document: Mapping[str, Any], command: str
) -> str:
    """The page. `parts` are the trees of either kind of links with what `trees.document` says of them, `document` is
    that of both, and `command` makes the page again.
    """
    sections = {"parts": ("Parts", markup.section("parts", "Parts", _parts(document)))}
    for part, described in parts:
        links = part.asked.links
        title = f"Trees {OVER[links]}"
        found = page.Found(graph, part.asked, part.packed, described)
        sections[links] = (title, page.section(found, name=links, title=title))
    if document.get("comparison"):
        compared = markup.section("comparison", "Comparison", page.comparison(document))
        sections["comparison"] = ("Comparison", compared)
    rests = page.facts(document) + reproduce(command)
    sections["facts"] = ("Facts", markup.section("facts", "What it rests on", rests))
    gpus = document["gpus"]
    about = [f"{len(gpus)} GPUs: {', '.join(map(str, gpus))}", "links: NVLinks and PCIe"]
    titles = tuple((name, title) for name, (title, _) in sections.items())
    what = f"{document['collective']} on {document['machine']}"
    body = "\n".join(text for _, text in sections.values())
    return whole(Around(what, about, _version.version(), "", titles, "parts"), body, {})


def _parts(document: Mapping[str, Any]) -> str:
    """What goes over either kind of links, and how long that takes."""
    parts = document["parts"]
    times = time_scale(
        [document["predicted_time_s"], document["nvlink_only_time_s"], *(part["predicted_time_s"] for part in parts)]
    )
    rates = rate_scale(part["rate_bytes_per_s"] for part in parts)
    columns = [
        markup.Column("over", numeric=False),
        markup.Column("bytes"),
        markup.Column("trees"),
        markup.Column("rate", rates.unit),
        markup.Column("predicted", times.unit, hint="Without the time to switch peer access."),
    ]
    rows: list[Row] = [
        [
            OVER[part["links"]].removeprefix("over "),
            size(part["size_bytes"]),
            str(len(part["trees"])),
            rates.text(part["rate_bytes_per_s"]),
            times.text(part["predicted_time_s"]),
        ]
        for part in parts
    ]
    said = (
        f"{size(document['size_bytes'])} take {times.label(document['predicted_time_s'])} as predicted, and "
        f"{times.label(document['nvlink_only_time_s'])} over NVLinks alone."
    )
    waits = hint(f"What goes over PCIe waits {times.label(document['switch_s'])} for peer access to be switched.")
    return f'<p class="headline">{html_text(said)}</p>{waits}' + table("parts", columns, rows)
