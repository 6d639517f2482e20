"""Trees as a section of a page, and as a self-contained page of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from syncline import _version
from syncline.fabric.circle_layout import MOST_DRAWN
from syncline.fabric.graph import PCIE, Graph
from syncline.report import markup
from syncline.report.escape import html_text
from syncline.report.markup import Cell, Column, Row, hint, note, reproduce, table
from syncline.report.page import Around, whole
from syncline.report.trees import page_drawing
from syncline.results.units import MISSING, Scale, percent, rate_scale, size, time_scale
from syncline.treegen import border
from syncline.treegen.packing import Packing
from syncline.treegen.question import Question

TITLES: Final = (
    ("trees", "Trees"),
    ("certificate", "Certificate"),
    ("comparison", "Comparison"),
    ("facts", "Facts"),
)
MOST_EDGES: Final = 400
"""Edges of trees that are written out; of more, those of the first trees."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a page shows."""

    graph: Graph
    question: Question
    packing: Packing
    """With the trees that were chosen."""
    document: Mapping[str, Any]
    """What `trees.document` makes of it; with a `comparison`, if there is one."""


def section(found: Found, *, name: str = "trees", title: str = "Trees") -> str:
    """All there is to say as one section of another page, which has no other of this name. A name is a word, with
    hyphens at most. Needs the style of reports, and no script.
    """
    parts = [("", _trees(found, name)), ("Certificate", _certificate(found))]
    if found.document.get("comparison"):
        parts.append(("Comparison", comparison(found.document)))
    body = "".join(f"<h3>{heading}</h3>{text}" if heading else text for heading, text in parts)
    return markup.section(name, title, body)


def build(found: Found, command: str) -> str:
    """The page. `command` makes it again."""
    document = found.document
    gpus = len(document["gpus"])
    what = f"{document['collective']} on {document['machine']}"
    compared = bool(document.get("comparison"))
    sections = [
        markup.section("trees", "Trees", _trees(found, "trees")),
        markup.section("certificate", "Certificate", _certificate(found)),
        markup.section("comparison", "Comparison", comparison(document)) if compared else "",
        markup.section("facts", "What it rests on", facts(document) + reproduce(command)),
    ]
    about = [
        f"{gpus} GPU{'' if gpus == 1 else 's'}: {', '.join(map(str, document['gpus']))}",
        f"links: {document['links']}",
        f"objective: {document['objective']}",
    ]
    return whole(Around(what, about, _version.version(), "", TITLES, "trees"), "\n".join(filter(None, sections)), {})


def headline(document: Mapping[str, Any]) -> str:
    """The rate in a sentence."""
    trees, unit = document["trees"], document["link_unit_bytes_per_s"]
    what = f"{document['collective']} on {len(document['gpus'])} GPUs of {document['machine']}"
    if not trees:
        alone = len(document["gpus"]) == 1
        why = "there is one GPU" if alone else "the links that trees may use do not connect them"
        if document["optimal_rate_links"]:
            why = "none were found over switches that join so many GPUs by unequal links"
        return f"No trees for {what}: {why}."
    scale = rate_scale([document["rate_bytes_per_s"]])
    rate = f"{document['rate_links']:.4g} links of {rate_scale([unit]).label(unit)}"
    reached = "no trees over these links are faster"
    if document["optimal_rate_links"] > document["rate_links"] * (1 + 1e-12):
        reached = f"the bound is {document['optimal_rate_links']:.4g} links"
    many = f"{len(trees)} trees carry" if len(trees) > 1 else "1 tree carries"
    return f"{what}: {many} {rate} each, {scale.label(document['rate_bytes_per_s'])} together; {reached}."


def _trees(found: Found, name: str) -> str:
    document = found.document
    body = f'<p class="headline">{html_text(headline(document))}</p>'
    if document["fewest_possible"]:
        body += hint(f"No trees of this rate are fewer than {document['fewest_possible']}.")
    if len(document["components"]) > 1:
        groups = "; ".join(", ".join(map(str, group)) for group in document["components"])
        body += note(f"GPUs that reach each other over these links: {groups}.")
    if len(found.question.gpus) > MOST_DRAWN:
        body += note(f"More than {MOST_DRAWN} GPUs are not drawn.")
    else:
        if found.packing.stages:
            body += hint("A reduce, and then a broadcast, whose trees are drawn.")
        body += page_drawing.drawn(found.graph, found.question, found.packing, name)
    return body + (_table(document) if document["trees"] else "")


def _table(document: Mapping[str, Any]) -> str:
    staged = any("collective" in tree for tree in document["trees"])
    through = any(nodes for tree in document["trees"] for nodes in tree["via"])
    columns = [
        Column("tree"),
        *([Column("of", numeric=False)] if staged else []),
        Column("root"),
        Column("weight", "links"),
        Column("depth", hint="The most edges between the root and a GPU."),
        Column("edges", numeric=False, hint="From a GPU to the next, outwards from the root."),
        *([Column("through", numeric=False, hint="What forwards on the way of its edges.")] if through else []),
    ]
    rows: list[Row] = []
    left = MOST_EDGES
    counted: dict[str, int] = {}
    for tree in document["trees"]:
        kind = tree.get("collective", document["collective"])
        number = counted[kind] = counted.get(kind, 0) + 1
        edges = " ".join(f"{src}-{dst}" for src, dst in tree["edges"]) if left > 0 else "not shown"
        if left > 0 and "edges_to_root" in tree:
            edges += "; to the root " + " ".join(f"{src}-{dst}" for src, dst in tree["edges_to_root"])
        left -= len(tree["edges"])
        names = ", ".join(dict.fromkeys(name for nodes in tree["via"] for name in nodes))
        row = [
            str(number),
            *([kind] if staged else []),
            str(tree["root"]),
            f"{tree['weight']:.4g}",
            str(tree["depth"]),
            edges,
        ]
        rows.append([*row, names] if through else row)
    return table("trees", columns, rows)


def _certificate(found: Found) -> str:
    packing, question, unit = found.packing, found.question, found.question.link_unit
    if packing.bound is None:
        return note("There is one GPU, and nothing to limit.")
    names = [found.graph.nodes[node].name for node in question.nodes]
    if packing.bound.shares:
        return f"<p>{html_text(border.reason(question, packing))}</p>{_shares(found)}"
    held = border.sets(question, packing)
    several = len(held) > 1
    sets = "".join(
        f"<li>{f'{page_drawing.set_name(number)}: ' if several else ''}"
        f"{html_text(', '.join(names[node] for node in sorted(nodes)))}</li>"
        for number, nodes in enumerate(held)
    )
    crossing = border.crossings(question, packing)
    columns = [Column("from", numeric=False), Column("to", numeric=False), Column("capacity", "links")]
    rows: list[Row] = [[names[each.src], names[each.dst], f"{each.rate / unit:.4g}"] for each in crossing]
    total = sum(each.rate for each in crossing)
    foot = ["together", "", f"{total / unit:.4g}"]
    links = table("border", columns, rows, foot) if rows else note("No link leads across the border.")
    what = "These are the sets:" if several else "The border is that of these nodes:"
    return f"<p>{html_text(border.reason(question, packing))}</p>{hint(what)}<ul>{sets}</ul>{links}"


def _shares(found: Found) -> str:
    columns = [Column("set", numeric=False), Column("what counts", numeric=False), Column("times")]
    assert found.packing.bound is not None
    rows: list[Row] = [
        [
            ", ".join(found.graph.nodes[found.question.nodes[node]].name for node in share.nodes),
            "what leads into it" if share.inward else "what leads out of it",
            str(share.times),
        ]
        for share in found.packing.bound.shares
    ]
    return table("border", columns, rows)


def comparison(document: Mapping[str, Any]) -> str:
    """The comparison of a document that has one."""
    entries, unit = document["comparison"], document["link_unit_bytes_per_s"]
    fidelity = document["fidelity"]
    times = time_scale(entry["time_s"] for entry in entries)
    rates = rate_scale(entry[key] for entry in entries for key in ("theory_bytes_per_s", *_BANDWIDTHS))
    columns = [
        Column("schedule", numeric=False),
        Column("in theory", "links", hint="Rate of the whole vector, without latency or overhead."),
        Column("in theory", rates.unit),
        Column("time", times.unit, hint="Simulated."),
        Column("algorithm bandwidth", rates.unit, hint="Size divided by time, as in nccl-tests."),
        Column("bus bandwidth", rates.unit, hint="Algorithm bandwidth times the factor of nccl-tests."),
        Column("of the bound", "%", hint="Algorithm bandwidth over the bound of the certificate."),
        Column("over", numeric=False, hint="The classes of the links that carried something."),
    ]
    rows: list[Row] = [_compared(entry, unit, times, rates) for entry in entries]
    how = f"{size(document['size_bytes'])}, {fidelity['backend']} backend, {fidelity['endpoint']} endpoint."
    reasons = "".join(
        f"<li>{html_text(entry['name'])}: {html_text(entry['reason'])}</li>" for entry in entries if entry["reason"]
    )
    missing = f'<ul class="causes">{reasons}</ul>' if reasons else ""
    return hint(how) + table("comparison", columns, rows) + missing


_BANDWIDTHS: Final = ("algorithm_bandwidth_bytes_per_s", "bus_bandwidth_bytes_per_s")


def _compared(entry: Mapping[str, Any], unit: int, times: Scale, rates: Scale) -> Row:
    theory = entry["theory_bytes_per_s"]
    over_pcie = "over PCIe" if entry["theory_over"] == PCIE else ""
    share = entry["share_of_bound"]
    return [
        entry["name"],
        Cell(MISSING if theory is None else f"{theory / unit:.4g}", below=over_pcie),
        rates.text(theory),
        times.text(entry["time_s"]),
        rates.text(entry["algorithm_bandwidth_bytes_per_s"]),
        rates.text(entry["bus_bandwidth_bytes_per_s"]),
        percent(share).removesuffix(" %"),
        ", ".join(entry["over"] or ()),
    ]


def facts(document: Mapping[str, Any]) -> str:
    """Warnings and assumptions of a document."""
    found = ""
    for key, title in (("warnings", "Warnings"), ("assumptions", "Assumptions in force")):
        items = "".join(f"<li>{html_text(line)}</li>" for line in document[key])
        if items:
            found += f'<h3>{title}</h3><ul class="{key}">{items}</ul>'
    return found
