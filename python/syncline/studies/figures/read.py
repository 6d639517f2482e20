"""Reads figure files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from syncline.base import document, inputs, said
from syncline.base.document import Mapping, Node
from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.sections.experiment import NAME_ACCEPTED
from syncline.studies import columns
from syncline.studies.figures import planned
from syncline.studies.figures.file import (
    KINDS,
    ONLY_FOR,
    PIXELS_PER_INCH,
    UNITS,
    ClosedForm,
    Figure,
    FigureFile,
    Layers,
    Panel,
    Published,
    Timeline,
    node_at,
)


def load(path: Path, label: str) -> FigureFile:
    """Reads the figure file at `path`. Raises [`InputError`] with everything that is wrong with it."""
    root = document.read(document.read_text(path, label), label)
    return of_tree(root, label, inputs.folder_of(path))


def of_tree(root: Node, label: str, folder: Path) -> FigureFile:
    """The same of a file that has been read, or of values that stand for one; relative paths start in `folder`."""
    if not isinstance(root, Mapping):
        message = "a figure file is a mapping, with the keys name, title and panels"
        raise InputError([root.origin.problem(message, document.plain(root))])
    problems: list[Problem] = []
    figure: Figure | None
    try:
        figure = Figure.model_validate(document.plain(root))
    except ValidationError as error:
        problems += _problems(error, root)
        figure = _rest(error, root)
    if figure is None:
        raise InputError(problems)
    found = FigureFile(figure, label, folder, root)
    problems += _contradictions(found)
    if problems:
        raise InputError([*problems, *planned.mistakes(found)])
    return found


def _contradictions(file: FigureFile) -> Iterator[Problem]:
    """What the fields of a panel mean together."""
    figure = file.figure
    abreast = min(figure.columns, len(figure.panels))
    width, height = figure.width * abreast, figure.height * -(-len(figure.panels) // abreast)
    pixels = width * height * PIXELS_PER_INCH**2
    if pixels > MOST_PIXELS or max(width, height) * PIXELS_PER_INCH >= 2**16 - PIXELS_PER_INCH:
        message = f"the panels make a figure of {width:g} by {height:g} inches, which is too large to draw"
        yield file.problem(("panels",), message, "smaller panels, or several figures")
    for i, panel in enumerate(file.figure.panels):
        place = ("panels", i)
        if isinstance(panel, Timeline):
            continue
        if panel.unit and panel.unit not in UNITS:
            yield file.problem((*place, "unit"), "there is no such unit", one_of(UNITS))
        if isinstance(panel, Layers):
            if not isinstance(panel.y, str) and len(panel.variants) > 1:
                message = "several columns can be stacked only if the panel has one variant"
                yield file.problem((*place, "y"), message, "a column, or a panel for each variant")
        elif not file.figure.sweeps and not file.figure.closed_forms:
            message = "this panel needs rows of a sweep or of a closed form, and the figure has neither"
            yield file.problem(place, message, "sweeps: [NAME]")
        else:
            yield from _of_rows(file, place, panel)
        has_no_unit = isinstance(panel, Panel) and (panel.relative_to or all(map(columns.is_count, panel.parts)))
        if panel.published and not panel.unit and not has_no_unit:
            yield file.problem(place, "published values need a unit", f"unit: {one_of(UNITS)}")


def _problems(error: ValidationError, root: Mapping) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        path = _path(details, root)
        message, accepted = MESSAGES.get(details["type"]) or said.of(details)
        key = str(path[-1]) if path else ""
        if details["type"] == "extra_forbidden":
            known = _known(path)
            message, accepted = f"{message}{did_you_mean(key, known)}", one_of(known)
        if details["type"] == "missing":
            parent = node_at(root, path[:-1])
            yield parent.origin.below(key, parent.origin.line).problem(message)
        else:
            node = node_at(root, path)
            yield node.origin.problem(message, document.plain(node), accepted)


def _rest(error: ValidationError, root: Mapping) -> Figure | None:
    """What of a figure can be read: the panels without errors, if it is known which rows they show."""
    kept: dict[str, Any] = {key: document.plain(node) for key, node in root.entries.items()}
    for details in error.errors(include_url=False):
        key, *below = _path(details, root) or [""]
        if key in ("sweeps", "closed_forms") or (key == "panels" and not below):
            return None
        if key == "panels":
            kept["panels"] = [NO_PANEL if i == below[0] else panel for i, panel in enumerate(kept["panels"])]
        else:
            kept.pop(str(key), None)
    try:
        return Figure.model_validate({"name": "figure", "title": "-"} | kept)
    except ValidationError:
        return None


MOST_PIXELS: Final = 2e8


def _of_rows(file: FigureFile, place: tuple[str, int], panel: Panel) -> Iterator[Problem]:
    if len(panel.parts) > 1 and panel.kind != "stacked":
        yield file.problem((*place, "y"), f"a panel of {panel.kind} shows one column", "a column, or kind: stacked")
    if panel.kind == "heat" and panel.series is None:
        yield file.problem(place, "a heat map needs the column of its rows", "series: COLUMN")
    if panel.kind == "scatter" and not panel.each:
        yield file.problem(place, "a scatter needs the columns that tell its points apart", "each: [COLUMN]")
    for key, kinds in ONLY_FOR.items():
        if getattr(panel, key) and panel.kind not in kinds:
            yield file.problem((*place, key), f"{key} is not for a panel of {panel.kind}", f"kind: {one_of(kinds)}")
    if panel.spread and panel.mean:
        message = "the bars of a spread lead from the least to the most of several rows, and not to their mean"
        yield file.problem((*place, "spread"), message, "spread or mean")
    for key in ("x_better", "y_better"):
        if getattr(panel, key) is not None and not panel.pareto:
            yield file.problem((*place, key), f"{key} says which points pareto marks", "pareto: true beside it")
    if panel.speedup and not panel.relative_to:
        message = "speedup needs relative_to: what the speed-up is measured against"
        yield file.problem((*place, "speedup"), message, "relative_to: {COLUMN: VALUE}")


MESSAGES: Final = {
    "extra_forbidden": ("this key is not known", None),
    "string_pattern_mismatch": ("this is not a legal name", NAME_ACCEPTED),
    "union_tag_not_found": ("a panel needs its kind", KINDS),
    "union_tag_invalid": ("there is no such kind of panel", KINDS),
}
"""What a reader is told of errors that mean something else here than in other files."""


NO_PANEL: Final = {"kind": "timeline", "title": "-", "run": "-", "variant": "-", "columns": {"links": "-"}}
"""Stands for a panel that cannot be read, so that the others keep their places."""


def _path(details: ErrorDetails, root: Mapping) -> list[str | int]:
    """The path in the file: pydantic adds the names of union members, which are no keys."""
    path: list[str | int] = []
    node: Node = root
    location = details["loc"]
    for i, key in enumerate(location):
        last = i == len(location) - 1 and details["type"] == "missing"
        if isinstance(node, Mapping) and (key in node.entries or last):
            path.append(key)
            node = node.entries.get(str(key), node)
        elif isinstance(node, document.Sequence) and isinstance(key, int) and key < len(node.items):
            path.append(key)
            node = node.items[key]
    return path


def _known(path: Sequence[str | int]) -> list[str]:
    """The keys that are accepted beside the last of a path."""
    if len(path) == 1:
        return list(Figure.model_fields)
    if "published" in path:
        return list(Published.model_fields)
    if path[0] == "closed_forms":
        return list(ClosedForm.model_fields)
    return list(dict.fromkeys(key for kind in (Panel, Timeline, Layers) for key in kind.model_fields))
