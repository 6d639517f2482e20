"""The points of a sweep: every combination of its axes, as validated experiments.

A point is a combination of values; it has a simulation for each variant. Points are in the order of the file: bases
first, then axes, the last of which varies fastest.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from syncline import _version
from syncline.base import document
from syncline.base.document import Node, Scalar
from syncline.base.errors import UNKNOWN_KEY, InputError, Problem, one_of
from syncline.core import binding, cancelling
from syncline.engine import estimate, in_flight
from syncline.engine import runs as engine
from syncline.experiment import load as experiments
from syncline.experiment import merge
from syncline.experiment.effect import Uses
from syncline.experiment.load import Variant
from syncline.experiment.merge import Override
from syncline.studies.sweeps.file import Base, Sweep, as_text, variant_names

if TYPE_CHECKING:
    from syncline.core.cancelling import Cancellation

_OF_VALUE: Final = re.compile(r"\.[0-9]+$")
"""The end of the path of an axis's value."""
UNSAID: Final = {"name", "description", "calibration", "output"}
"""Fields of an experiment that change nothing of what a sweep reports."""


@dataclass(frozen=True, slots=True)
class Point:
    """A combination of values."""

    index: int
    base: str
    name: str
    values: tuple[tuple[str, Node], ...]
    """Paths and values of the axes, as written."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """A variant at a point."""

    point: Point
    variant: Variant
    key: str
    """Equal for two simulations if and only if they are of the same experiment and by the same engine."""
    expected: estimate.Estimate | None = None
    """What it will take, where that is known."""
    refusal: str | None = None
    """Why the engine will not simulate it."""
    seeds: int = 1
    """With how many seeds it is run if it loses frames."""

    @property
    def events(self) -> int:
        """Events that are expected; 0 if nothing is."""
        return 0 if self.expected is None else self.expected.events

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.point.name}: {self.variant.name}"


def simulations(
    sweep: Sweep,
    checked: Callable[[int], None] = lambda _: None,
    seed: int = 0,
    *,
    memory_limit: int | None = None,
    cancel: Cancellation | None = None,
) -> tuple[list[Simulation], list[str]]:
    """Everything that the sweep simulates, in the order of its points, and warnings.

    `checked` hears how many points have been looked at, after each; `seed` is that of random numbers; a simulation may
    take `memory_limit` bytes, if that is not for the process to say; `cancel` ends them, and this.
    Raises [`InputError`] with everything that is wrong at any point. What only the engine refuses (a chunk that does
    not fit into an SRAM, say) is no mistake in a sweep as long as something can be simulated.
    """
    found: list[Simulation] = []
    warnings: dict[str, None] = {}
    problems: list[tuple[str, Problem]] = []
    refusals: list[tuple[str, Problem]] = []
    uses = Uses()
    for point, base, settings in _points(sweep):
        checked(point.index)
        cancelling.check(cancel)
        try:
            study = _study(base, settings, sweep, _chosen(sweep, base), uses)
        except InputError as error:
            problems += _attributed(error, point, sweep, base, settings)
            continue
        warnings |= dict.fromkeys(study.warnings)
        problems += [(_place(point), problem) for problem in _without_effect(study.variants, point)]
        for variant in study.seeded(seed).limited(memory_limit).ended_by(cancel).variants:
            simulation, refused = _simulation(point, variant, sweep.seeds)
            found.append(simulation)
            refusals += [(_place(point), problem) for problem in refused]
    if problems:
        raise InputError(_with_points(problems))
    # A variant of a base that is not simulated may be the one in which something acts.
    besides = () if sweep.variants is None else {base.label for base in sweep.bases}
    if idle := list(uses.problems(besides)):
        raise InputError(idle)
    if all(simulation.refusal is not None for simulation in found):
        raise InputError(_with_points(refusals))
    return found, list(warnings)


def _points(sweep: Sweep) -> Iterator[tuple[Point, Base, list[Override]]]:
    """The points with the overrides that make them."""
    paths = [path for axis in sweep.axes for path in axis.paths]
    combinations = itertools.product(*(axis.positions for axis in sweep.axes))
    for index, (base, positions) in enumerate(itertools.product(sweep.bases, combinations)):
        values = list(zip(paths, itertools.chain(*positions), strict=True))
        written = ", ".join(f"{'.'.join(path)}={as_text(value)}" for path, value in values)
        name = written if len(sweep.bases) == 1 else f"{base.name}: {written}"
        point = Point(index, base.name, name, tuple((".".join(path), value) for path, value in values))
        yield point, base, [*sweep.settings, *(Override(path, value) for path, value in values)]


def _study(
    base: Base, settings: Sequence[Override], sweep: Sweep, only: Sequence[str] | None, uses: Uses
) -> experiments.Study:
    own = [Override(s.path, document.copied(s.value)) for s in settings]
    of_variants = [s for s in own if s.path[0] == "variants"]
    of_all = [s for s in own if s.path[0] != "variants"]
    changes = experiments.Changes(
        overrides=of_variants,
        forced=of_all,
        only=only,
        folders={sweep.label: sweep.folder},
        uses=uses,
    )
    return experiments.load_changed(document.copied(base.root), base.label, base.folder, changes)


def _without_effect(variants: Sequence[Variant], point: Point) -> Iterator[Problem]:
    """Values of the point that are not those of its variants, because something else was set in their place.

    A mapping is not looked at: parts of it may well be set otherwise.
    """
    for text, value in point.values:
        path, about = text.split("."), list(variants)
        if path[0] == "variants":
            path, about = path[2:], [variant for variant in variants if variant.name == path[1]]
        if not about:
            message = f"{text} has no effect here: the sweep does not simulate that variant"
            yield value.origin.problem(message, None, one_of(variant.name for variant in variants))
        elif isinstance(value, Scalar) and not all(_holds(variant.tree, path, value) for variant in about):
            message = f"{text} has no effect here: the point sets another value"
            yield value.origin.problem(message, value.value, "one of them")


def _holds(tree: Node, path: Sequence[str], value: Scalar) -> bool:
    """Whether a value stands at a path, or in the section that it is short for."""
    node: Node | None = tree
    for key in path:
        if isinstance(node, document.Sequence):
            node = node.items[int(key)] if key.isdigit() else next(i for i in node.items if merge.name_of(i) == key)
        else:
            node = node.entries.get(key) if isinstance(node, document.Mapping) else None
    return node is value or (isinstance(node, document.Mapping) and any(n is value for n in node.entries.values()))


def _simulation(point: Point, variant: Variant, seeds: int) -> tuple[Simulation, list[Problem]]:
    """A variant at a point, and what the engine refuses it for. Algorithms are chosen when it runs."""
    untraced = variant.experiment.output.model_copy(update={"trace_npus": []})
    variant = replace(variant, experiment=variant.experiment.model_copy(update={"output": untraced}))
    key = key_of(variant, seeds)
    if variant.experiment.has_open_algorithms or variant.experiment.has_open_slices:
        return Simulation(point, variant, key, seeds=seeds), []
    try:
        expected = estimate.of(variant.experiment, engine.preview(variant))
    except InputError as error:
        refusal = "; ".join(problem.message for problem in error.problems)
        return Simulation(point, variant, key, refusal=refusal, seeds=seeds), list(error.problems)
    return Simulation(point, variant, key, expected, seeds=seeds), []


def key_of(variant: Variant, seeds: int = 1) -> str:
    """A name for what is simulated: the complete experiment, files it reads included, the engine's version, and the
    seed, or seeds, where something is random.
    """
    binding.require()
    from syncline.core import _core

    experiment = variant.experiment
    described = experiment.model_dump(mode="json", exclude=UNSAID)
    whole: list[Any] = [
        _version.version(),
        _core.version(),
        described,
        # What is left open is found by a rule, whose numbers may be other ones with the next version of it.
        [in_flight.RULE, in_flight.left_open(experiment.collective)],
        variant.astra_text,
        *experiment.contents,
    ]
    if experiment.network.is_random or experiment.endpoint.is_random:
        whole += [variant.seed] if seeds == 1 else [variant.seed, seeds]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _attributed(
    error: InputError, point: Point, sweep: Sweep, base: Base, settings: Sequence[Override]
) -> Iterator[tuple[str, Problem]]:
    """The problems of a point, with the variant that has them where it is not said by their place."""
    for name in _chosen(sweep, base) or []:
        try:
            _study(base, settings, sweep, [name], Uses())
        except InputError as own:
            yield from ((f"{_place(point)}, variant {name}", problem) for problem in own.problems)
    yield from ((_place(point), problem) for problem in error.problems)


def _chosen(sweep: Sweep, base: Base) -> list[str] | None:
    """The variants of a base that are simulated; None if it has none."""
    names = variant_names(base)
    return [name for name in names if sweep.variants is None or name in sweep.variants] or None


def _place(point: Point) -> str:
    return f"at point {point.index}: {point.name}"


def _of_axis(problem: Problem) -> Problem:
    """The problem, which is one of the axis and of none of its values if there is no such field."""
    if not problem.message.startswith(UNKNOWN_KEY):
        return problem
    return replace(problem, field=_OF_VALUE.sub("", problem.field), value=None)


def _with_points(problems: Sequence[tuple[str, Problem]]) -> Iterator[Problem]:
    """Problems with the first place that has them."""
    first: dict[Problem, str] = {}
    for place, problem in problems:
        first.setdefault(_of_axis(problem), place)
    for problem, place in first.items():
        yield replace(problem, message=f"{problem.message} ({place})")
