"""The runs of a figure: variants of experiments, each simulated once, whatever panels show of it."""

from __future__ import annotations

from collections.abc import Iterator

from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.experiment import packaged as studies
from syncline.experiment.load import Variant, load_file
from syncline.studies.figures.file import FigureFile, Layers, Timeline

Run = tuple[str, str]
"""An experiment, as the figure names it, and a variant."""


def variants(file: FigureFile, seed: int = 0) -> dict[Run, Variant]:
    """The variants that panels show, with random numbers of a seed.

    Raises [`InputError`] with every run that there is not.
    """
    found: dict[Run, Variant] = {}
    problems: list[Problem] = []
    for i, panel in enumerate(file.figure.panels):
        if isinstance(panel, Timeline | Layers):
            try:
                found |= _of_panel(file, i, panel, seed)
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)
    return found


def _of_panel(file: FigureFile, place: int, panel: Timeline | Layers, seed: int) -> dict[Run, Variant]:
    try:
        study = load_file(*studies.find(panel.run, file.folder)).seeded(seed)
    except InputError as error:
        problem = error.problems[0]
        raise InputError([file.problem(("panels", place, "run"), problem.message, problem.accepted)]) from None
    known = {variant.name: variant for variant in study.variants}
    problems: list[Problem] = []
    for path, name in _named(panel):
        if name not in known:
            message = f"{panel.run} has no variant of this name{did_you_mean(name, known)}"
            problems.append(file.problem(("panels", place, *path), message, one_of(known)))
        elif isinstance(panel, Layers) and not known[name].experiment.is_training:
            message = "a single collective has no layers"
            problems.append(file.problem(("panels", place, "run"), message, "an experiment that trains a model"))
    if problems:
        raise InputError(problems)
    return {(panel.run, name): known[name] for _, name in _named(panel)}


def _named(panel: Timeline | Layers) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The names of a panel's variants, and where they stand in it."""
    if isinstance(panel, Timeline):
        yield ("variant",), panel.variant
    else:
        yield from ((("variants", i), name) for i, name in enumerate(panel.variants))
