"""The constants that studies declare as fitted, under `calibration`."""

from __future__ import annotations

from dataclasses import dataclass

from syncline.base import document
from syncline.base.document import Mapping, Node
from syncline.experiment import packaged as studies
from syncline.experiment.load import Variant, load_file


@dataclass(frozen=True, slots=True)
class Constant:
    """A field with the same value, fitted on the same claim, in one or more studies."""

    path: str
    value: str
    """As it is written."""
    fitted_on: str
    studies: tuple[str, ...]
    notes: tuple[str, ...]


def constants(source: str) -> list[Constant]:
    """The fitted constants of the studies of a source, in the order in which the studies declare them."""
    found: dict[tuple[str, str, str], tuple[list[str], list[str]]] = {}
    for name in studies.names():
        if name.split("/")[0] != source:
            continue
        study = load_file(*studies.find(name))
        for path, calibration in study.variants[0].experiment.calibration.items():
            variant = next(v for v in study.variants if not calibration.variants or v.name in calibration.variants)
            where, notes = found.setdefault((path, _written(variant, path), calibration.fitted_on), ([], []))
            where.append(name)
            if calibration.note and calibration.note not in notes:
                notes.append(calibration.note)
    return [Constant(*key, tuple(where), tuple(notes)) for key, (where, notes) in found.items()]


def _written(variant: Variant, path: str) -> str:
    """The value of a field as the study has it."""
    node: Node = variant.tree
    for key in path.split("."):
        assert isinstance(node, Mapping), f"{variant.name} has no {path} of its own"
        node = node.entries[key]
    return str(document.plain(node))
