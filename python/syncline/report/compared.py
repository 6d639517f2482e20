"""Several runs in one report: the systems of all of them, and the settings in which these differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from syncline.report import html
from syncline.report.markup import Cell, Charts, Column, Row, hint, section, table
from syncline.results.study import Table, mapping, read, texts

MOST_SETTINGS: Final = 60
"""Settings that are listed; of more, the first ones and how many there are."""
MOST_LETTERS: Final = 60
"""Letters of a value that is shown whole; of a longer one, what it has in common with the others is left out."""
MOST_DIFFERENT: Final = 240
"""Letters of the part of a value in which it differs; the end of a longer one is cut."""
ABSENT: Final = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class Compared:
    """A run that is compared with others."""

    label: str
    document: Mapping[str, Any]
    tables: Mapping[str, Mapping[str, Table]]
    settings: Mapping[str, Mapping[str, Any]]
    """What each variant was run with, by name."""

    def name_of(self, variant: str) -> str:
        """What a variant is called among those of all runs."""
        return self.label if len(self.document["runs"]) == 1 else f"{self.label}: {variant}"


def labels(paths: Sequence[Path]) -> list[str]:
    """Short names of directories, each of its own: their last parts, as many as tell them apart."""
    resolved = [path.absolute().parts for path in paths]
    for depth in range(1, max(map(len, resolved)) + 1):
        found = ["/".join(parts[-depth:]) for parts in resolved]
        if len(set(found)) == len(found):
            return found
    return [str(path) for path in paths]


def build(runs: Sequence[Compared], command: str) -> str:
    """The page. `command` makes it again; speed-ups are against the first system of the first run."""
    document = together(runs)
    tables = {run.name_of(name): of for run in runs for name, of in run.tables.items()}
    study = read(document, tables)
    figures: Charts = {}
    alone = hint("What limits each system, and its critical path, are in the report of its own run.")
    *found, facts = html.page_sections(study, figures, command, alone)
    headline, *rest = found
    body = "\n".join([headline, settings_section(runs), *rest, facts])
    return html.page(study, body, figures)


def together(runs: Sequence[Compared]) -> dict[str, Any]:
    """One document of all runs."""
    documents = [run.document for run in runs]
    systems = [{**entry, "name": run.name_of(entry["name"])} for run in runs for entry in run.document["runs"]]
    first = systems[0]
    for entry in systems:
        ours, theirs = (e.get("iteration_time_s") or e.get("time_s") for e in (entry, first))
        entry["speedup"] = theirs / ours if ours and theirs else None
        entry["share_of_ideal"] = None
    fidelities = [mapping(document.get("fidelity")) for document in documents]
    names = list(dict.fromkeys(str(document.get("name") or "") for document in documents))
    return {
        "version": documents[0].get("version"),
        "status": "partial" if any(document.get("status") == "partial" for document in documents) else "complete",
        "name": f"{len(runs)} runs: {', '.join(names)}",
        "topology": _common(entry.get("topology") for entry in systems),
        "fidelity": {
            key: _common(fidelity.get(key) for fidelity in fidelities) or "mixed"
            for key in dict.fromkeys(key for fidelity in fidelities for key in fidelity)
        },
        "seed": _common(document.get("seed") for document in documents),
        "assumptions": _of_each(runs, "assumptions"),
        "warnings": [*_of_each(runs, "warnings"), *_of_workloads(runs)],
        "baseline": first["name"],
        "runs": systems,
        "failed": [failure for document in documents for failure in document.get("failed") or ()],
    }


def _common(values: Iterable[Any]) -> Any:
    """What all have; nothing if they differ."""
    found = list(values)
    return found[0] if all(value == found[0] for value in found) else None


def _of_each(runs: Sequence[Compared], key: str) -> list[str]:
    """What is said of every run; what is said of some only has their names before it."""
    said: dict[str, list[str]] = {}
    for run in runs:
        for text in texts(run.document.get(key)):
            said.setdefault(text, []).append(run.label)
    return [text if len(by) == len(runs) else f"{', '.join(by)}: {text}" for text, by in said.items()]


def _of_workloads(runs: Sequence[Compared]) -> list[str]:
    """A warning where systems do not have the same work, so that the faster one need not be the better one."""
    work = {repr(mapping(of.get("workload"))) for run in runs for of in run.settings.values()}
    return ["workloads differ: times are those of different work"] if len(work) > 1 else []


def settings_section(runs: Sequence[Compared]) -> str:
    """The settings in which systems differ, a row each."""
    each = {run.name_of(name): _flat(of) for run in runs for name, of in run.settings.items()}
    if not each:
        return ""
    keys = list(dict.fromkeys(key for settings in each.values() for key in settings))
    different = [key for key in keys if len({repr(settings.get(key)) for settings in each.values()}) > 1]
    if not different:
        return section("settings", "What differs", hint("Nothing: all systems were run with the same settings."))
    columns = [Column("setting", numeric=False), *(Column(name, numeric=False) for name in each)]
    rows: list[Row] = [
        [key, *_shown([settings.get(key) for settings in each.values()])] for key in different[:MOST_SETTINGS]
    ]
    more = len(different) - len(rows)
    rest = hint(f"{more} more settings differ.") if more > 0 else ""
    how = hint("Of long values, the part in which they differ; the whole value appears under the pointer.")
    cut = any(isinstance(cell, Cell) for row in rows for cell in row)
    return section("settings", "What differs", (how if cut else "") + table("settings", columns, rows) + rest)


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Settings by their dotted paths. Descriptions and names are none."""
    if not isinstance(value, Mapping):
        return {path: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if path or key not in ("name", "description"):
            found |= _flat(inner, f"{path}.{key}" if path else str(key))
    return found


def _shown(values: Sequence[Any]) -> list[str | Cell]:
    """The values of a setting, of long ones the part in which they differ, with the whole for a pointer."""
    whole = [ABSENT if value is None else str(value) for value in values]
    present = [text for text, value in zip(whole, values, strict=True) if value is not None]
    if max(map(len, whole)) <= MOST_LETTERS:
        return list(whole)
    before = _common_words(present)
    after = _common_words([text[before:][::-1] for text in present])
    if any(len(text) - before - after <= 0 for text in present) or len(set(present)) == 1:
        before = after = 0
    return [
        text if value is None or (len(text) <= MOST_DIFFERENT and not before + after) else _cut(text, before, after)
        for text, value in zip(whole, values, strict=True)
    ]


def _common_words(values: Sequence[str]) -> int:
    """How many letters at their beginning values have in common, up to a space or a separator behind a word."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*values, strict=False))
    common = "".join(letters[0] for letters in same)
    return max((common.rfind(separator) + 1 for separator in " ,;_([{"), default=0)


def _cut(text: str, before: int, after: int) -> Cell:
    """A value without what it has in common with the others."""
    part = text[before : len(text) - after]
    if len(part) > MOST_DIFFERENT:
        part, after = part[: MOST_DIFFERENT - 1], 1
    dots = "\N{HORIZONTAL ELLIPSIS}"
    return Cell(f"{dots if before else ''}{part}{dots if after else ''}", hint=text)
