"""The engine's description of an experiment, with what the engine is asked for before a run: plans of packed trees,
prices of collectives, and chunks that follow the fabric.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syncline.core import binding, cancelling
from syncline.core.attempt import NO_LIMIT, Attempt
from syncline.engine import chunk_search, demand, in_flight, planned, pricing, rank_order
from syncline.engine.specification import incomplete
from syncline.experiment.effect import effective
from syncline.sections.experiment import Experiment

if TYPE_CHECKING:
    from syncline.experiment.load import Variant

SET_UP: Final = 256
"""Work of setting up an NPU with its links, in events."""


def specification(experiment: Experiment, astra_text: str | None = None) -> dict[str, Any]:
    """The engine's description of an experiment: of what acts in it. Raises [`DemandError`] or `_core.SpecError` where
    what is to be found out cannot be, which is then said of the experiment.
    """
    return described(effective(experiment), astra_text)


def described(experiment: Experiment, astra_text: str | None = None) -> dict[str, Any]:
    """The engine's description of all that an experiment says. Raises as [`specification`]."""
    return _completed(experiment, incomplete(experiment, astra_text))[0]


def usual_chunks(variant: Variant) -> list[tuple[str | None, in_flight.Usual]]:
    """What chunks are where the experiment does not say it, with the family that it is for, if there are any. Nothing
    is found as long as algorithms are to be chosen.
    """
    experiment = effective(variant.experiment)
    if experiment.has_open_algorithms or experiment.has_open_slices:
        return []
    specified = incomplete(experiment, variant.astra_text)
    if not any(in_flight.MARK in section for section in demand.sections(specified)):
        return []
    from syncline.core import _core

    try:
        return _completed(experiment, specified)[1]
    except (demand.DemandError, _core.SpecError):
        return []  # which the run is refused for


def least_time(variant: Variant) -> float | None:
    """The picoseconds that a single collective takes at least, whatever its chunks; nothing where they are stated, or
    where that cannot be found out quickly.
    """
    experiment = effective(variant.experiment)
    specified = incomplete(experiment, variant.astra_text)
    if not in_flight.marked(specified) or experiment.topology.npus > in_flight.MOST_NPUS:
        return None
    from syncline.core import _core

    try:
        return in_flight.least_time(specified, _core.asked, _Glimpse(_core.attempt, experiment.topology.npus))
    except _core.SpecError:
        return None


def slow_links(variant: Variant) -> list[str]:
    """A sentence for all that an experiment says of ranks or chunks which makes links look slower than they are.

    There is none as long as algorithms are to be chosen. Of chunks there is none on large machines, nor where what it
    says was fitted: then links are as slow as was measured.
    """
    experiment = effective(variant.experiment)
    return [] if experiment.has_open_algorithms else [*rank_order.warnings(experiment), *_chunks(variant, experiment)]


def _chunks(variant: Variant, experiment: Experiment) -> list[str]:
    """The same of chunks."""
    if experiment.has_open_slices or not experiment.endpoint.has_usual_chunks:
        return []
    if experiment.topology.npus > in_flight.MOST_NPUS or _has_fitted_chunks(experiment):
        return []
    if in_flight.left_open(experiment.collective) == in_flight.BOTH and not experiment.is_graph:
        return []
    from syncline.core import _core

    try:
        specified = described(experiment, variant.astra_text)
        found = list(in_flight.few(specified, _core.asked, _Glimpse(_core.attempt, experiment.topology.npus)))
    except (demand.DemandError, _core.SpecError):
        return []
    said = [str(few) if family is None else f"family {family}: {few}" for family, few in found]
    return list(dict.fromkeys(said))


def _has_fitted_chunks(experiment: Experiment) -> bool:
    fitted = {
        path for path, of in experiment.calibration.items() if experiment.name in (of.variants or [experiment.name])
    }
    return not fitted.isdisjoint(f"collective.{name}" for name in ("chunk", "chunks", "inflight"))


def _completed(
    experiment: Experiment, specified: dict[str, Any]
) -> tuple[dict[str, Any], list[tuple[str | None, in_flight.Usual]]]:
    """The engine's description with what it takes the engine to find out; and what chunks are where nothing is said."""
    usual, packs, prices = in_flight.marked(specified), planned.is_wanted(specified), experiment.endpoint.is_priced
    found: list[tuple[str | None, in_flight.Usual]] = []
    if not usual and not packs and not prices:
        return specified, found
    from syncline.core import _core

    if packs:
        specified = planned.completed(experiment, specified, _core.asked)
    npus = experiment.topology.npus
    glimpse = _Glimpse(_core.attempt, npus) if npus <= in_flight.MOST_NPUS else None
    found = list(in_flight.completed(specified, usual, _core.asked, glimpse))
    if prices:
        specified = pricing.completed(experiment, specified, _core.asked, _time)
    return specified, found


@dataclass(frozen=True, slots=True)
class _Glimpse:
    """Tries runs out with an engine; answers that are kept are those of that engine."""

    attempt: Callable[..., str]
    npus: int
    """Of the machine, which is set up for each trial."""

    def __call__(self, request: str, most_work: int) -> chunk_search.Tried | None:
        """What a described run takes; nothing if it is costly or cannot be carried out."""
        from syncline.core import _core

        try:
            seen = Attempt(**json.loads(self.attempt(request, NO_LIMIT, most_work, cancelling.monitor(None))))
        except (_core.SpecError, _core.SimulationError):
            return None
        except BaseException as error:
            raise binding.defect(error, request) from None
        if seen.ending != "complete":
            return None
        setup = SET_UP * self.npus
        return chunk_search.Tried(seen.time_ps, seen.busiest_link_ps, seen.work, setup, seen.slices, seen.phases)


def _time(request: str) -> int:
    """Picoseconds that a described run takes."""
    from syncline.core import _core

    try:
        return Attempt(**json.loads(_core.attempt(request, NO_LIMIT, NO_LIMIT, cancelling.monitor(None)))).time_ps
    except BaseException as error:
        raise binding.defect(error, request) from None
