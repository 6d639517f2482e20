"""What the report says of the reasons: the limit of each variant, its critical path, and what would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from syncline.report.escape import html_text
from syncline.report.markup import Cell, Column, Row, hint, table
from syncline.results.units import MISSING, percent, time_scale
from syncline.studies.reasons import said

Entry = Mapping[str, Any]
"""A system in the document of `explain`."""

TOP: Final = 12
"""Parts of critical paths that are shown."""
BEST: Final = 6
"""Reruns of each variant that are shown."""


def reasons(entries: Sequence[Entry]) -> str:
    """What `explain` says of the variants; nothing where nothing is known."""
    if not entries:
        return ""
    sentences = [f"{entry['name']}: {said.limit(entry)}." for entry in entries]
    sentences += [remark for entry in entries for remark in said.remarks(entry)]
    listed = "".join(f"<li>{html_text(sentence)}</li>" for sentence in sentences)
    return f'<ul class="causes">{listed}</ul>' + _path(entries) + _what_if(entries)


def _path(entries: Sequence[Entry]) -> str:
    """Parts by variants, the longest first."""
    shares: dict[str, list[float]] = {}
    for number, entry in enumerate(entries):
        for part in entry["critical_path"]:
            of = shares.setdefault(said.part(part), [0.0] * len(entries))
            of[number] += part["share"] or 0.0
    ordered = sorted(shares, key=lambda name: (-max(shares[name]), name))
    shown, rest = ordered[:TOP], ordered[TOP:]
    columns = [
        Column("part", numeric=False),
        *(Column(str(entry["name"]), "%", width=72 // len(entries)) for entry in entries),
    ]

    def cell(share: float) -> Cell | str:
        return Cell(percent(share).removesuffix(" %"), bar=share) if share else MISSING

    rows: list[Row] = [[name, *map(cell, shares[name])] for name in shown]
    if rest:
        rows.append([f"{len(rest)} more", *(cell(sum(shares[name][i] for name in rest)) for i in range(len(entries)))])
    how = hint(
        "From the end of the run back to its beginning, through what held it up: compute, or the phases of the chunks "
        "that were waited for. Shares of the time; they add up to 100 %."
    )
    in_use = "".join(hint(said.resources(entry)) for entry in entries)
    return "<h3>Critical path</h3>" + how + table("critical-path", columns, rows) + in_use


def _what_if(entries: Sequence[Entry]) -> str:
    """Reruns that were faster, of the variants of which there are any."""
    helpful = [(entry, rerun) for entry in entries for rerun in said.helpful(entry)[:BEST]]
    if not helpful:
        return ""
    scale = time_scale(rerun["iteration_time_s"] for _, rerun in helpful)
    columns = [
        Column("variant", numeric=False),
        Column("change", numeric=False, hint="Below it: the settings that repeat it"),
        Column("time", scale.unit, hint="Of an iteration, or of a collective on its own"),
        Column("saves", "%", width=20),
    ]
    rows: list[Row] = [
        [
            str(entry["name"]),
            Cell(str(rerun["change"]), below=" ".join(f"--set '{text}'" for text in rerun["set"])),
            scale.text(rerun["iteration_time_s"]),
            Cell(percent(rerun["gain"]).removesuffix(" %"), bar=rerun["gain"]),
        ]
        for entry, rerun in helpful
    ]
    how = hint(f"Reruns with one thing changed, the {BEST} best of each variant; explain.json has all.")
    return "<h3>What would help</h3>" + how + table("what-if", columns, rows)
