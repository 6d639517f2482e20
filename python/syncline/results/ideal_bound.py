"""Why a variant beats the one that is called ideal.

An ideal endpoint takes no time, but it has a window: `collective.inflight` chunks that it cuts collectives into by the
same fields as others, and whole messages that it passes on. Where links idle for that, an endpoint with a window of
its own is faster, and what is called ideal is no bound. The cause is found by experiment: one field of the ideal
variant is changed at a time, and what that gains is stated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from syncline.base.errors import CancelledError, InputError, SimulationFailedError
from syncline.base.quantities import SIZE
from syncline.base.text_units import duration
from syncline.engine import estimate
from syncline.engine import runs as engine
from syncline.engine.comparison import BEATEN
from syncline.experiment.load import Variant
from syncline.results.entries import seconds
from syncline.sections.experiment import Experiment

GAINS: Final = 1.01
"""Ratio of times from which a change of the ideal variant counts as an explanation."""
MOST_EVENTS: Final = 20_000_000
"""Events of an ideal run that is not tried again with changes."""
_UNCOMPARED: Final = frozenset({"name", "description", "calibration", "output", "endpoint", "fold"})
"""Sections that are meant to differ, or change no result."""
_ORDER: Final = frozenset({"scheduling", "priority"})
"""Fields of `collective` that matter whatever a collective costs."""


def warnings(document: dict[str, Any], variants: Sequence[Variant]) -> list[str]:
    """A warning for every variant of a run that is faster than its ideal one, with the cause."""
    entries = {entry["name"]: entry for entry in document["runs"]}
    by_name = {variant.name: variant for variant in variants}
    ideal = entries.get(document["ideal"])
    if ideal is None:
        return []
    faster = [e for e in entries.values() if e["iteration_time_s"] * BEATEN < ideal["iteration_time_s"]]
    if not faster:
        return []
    gains = _experiments(by_name[ideal["name"]], ideal)
    return [_warning(by_name, entry, ideal, gains) for entry in faster]


def _warning(by_name: dict[str, Variant], entry: dict[str, Any], ideal: dict[str, Any], gains: str) -> str:
    name, bound = entry["name"], ideal["name"]
    mine, its = by_name[name].experiment, by_name[bound].experiment
    took, taken = entry["iteration_time_s"], ideal["iteration_time_s"]
    text = f"{name} takes {duration(took)} and {bound} {duration(taken)}: {bound} is not a bound here"
    causes = [*_prices(mine, its), *_differences(mine, its), *_window(mine, its, entry, ideal)]
    if causes:
        text += f", since {', and '.join(causes)}"
    text += gains
    if ideal.get("lower_bound_s"):
        text += f"; no schedule takes less than {duration(ideal['lower_bound_s'])} ({ideal['lower_bound_by']})"
    return text


def _prices(mine: Experiment, its: Experiment) -> Iterator[str]:
    """That collectives of only one of them take what the software model says."""
    if mine.endpoint.is_priced == its.endpoint.is_priced:
        return
    priced = mine if mine.endpoint.is_priced else its
    yield f"{priced.name} takes the time of NCCL's own algorithm, whatever collective.algorithm says"


def _differences(mine: Experiment, its: Experiment) -> Iterator[str]:
    """Fields other than those of the endpoint in which both differ. Where the time of one does not follow from how its
    messages are sent, fields that say how are left out.
    """
    one, other = mine.model_dump(mode="json"), its.model_dump(mode="json")
    if mine.endpoint.is_priced != its.endpoint.is_priced:
        for collective in (one["collective"], other["collective"]):
            for name in collective.keys() - _ORDER:
                del collective[name]
    found = []
    for section in one.keys() - _UNCOMPARED:
        if one[section] == other[section]:
            continue
        if isinstance(one[section], dict) and isinstance(other[section], dict):
            keys = one[section].keys() | other[section].keys()
            found += [f"{section}.{k}" for k in keys if one[section].get(k) != other[section].get(k)]
        else:
            found.append(section)
    if found:
        yield f"they differ in {', '.join(sorted(found))} as well"


def _window(mine: Experiment, its: Experiment, entry: dict[str, Any], ideal: dict[str, Any]) -> Iterator[str]:
    """What limits the ideal endpoint, where that is its window or that it passes on whole messages."""
    busy, its_busy = (e["network"]["mean_link_utilisation"] for e in (entry, ideal))
    if its_busy is not None and busy is not None and its_busy < busy:
        of = "" if its.collective.chunk is None else f" of {SIZE.format(its.collective.chunk)}"
        window = f"{its.collective.inflight} chunk{'' if its.collective.inflight == 1 else 's'}{of}"
        yield (
            f"with at most {window} in flight (collective.inflight) {ideal['name']} keeps links busy for "
            f"{100 * its_busy:.0f} % of the time, {entry['name']} for {100 * busy:.0f} %"
        )
        if mine.endpoint.has_own_window:
            yield f"the engine of {entry['name']} limits its chunks in flight itself"
    if _whole_messages(its) and mine.endpoint.streams:
        yield f"{ideal['name']} forwards whole messages (endpoint.forwarding: messages), and an engine packets"


def _whole_messages(experiment: Experiment) -> bool:
    return getattr(experiment.endpoint, "forwarding", None) == "messages"


def _experiments(variant: Variant, entry: dict[str, Any]) -> str:
    """What single changes of the ideal variant gain, those that gain something."""
    experiment, took = variant.experiment, entry["iteration_time_s"]
    if estimate.of(experiment, engine.preview(variant)).events > MOST_EVENTS:
        return ""
    found = []
    for label, changed in _changes(experiment):
        try:
            summary = engine.run(replace(variant, experiment=changed, choice=None)).summary
        except (CancelledError, InputError, SimulationFailedError):
            continue
        takes = seconds(summary["total_ps"]) / max(1, summary["iterations"])
        if takes * GAINS < took:
            found.append(f"with {label} {variant.name} takes {duration(takes)}")
    return f"; {', '.join(found)}" if found else ""


def _changes(experiment: Experiment) -> Iterator[tuple[str, Experiment]]:
    """One field changed at a time: a wider window, both directions of a ring for every chunk, packets passed on."""

    def with_collective(**update: Any) -> Experiment:
        return experiment.model_copy(update={"collective": experiment.collective.model_copy(update=update)})

    inflight = 2 * experiment.collective.inflight
    yield f"collective.inflight = {inflight}", with_collective(inflight=inflight)
    if experiment.lanes == "alternate":
        yield "collective.lanes = split", with_collective(lanes="split")
    if _whole_messages(experiment):
        packets = experiment.endpoint.model_copy(update={"forwarding": "packets"})
        yield "endpoint.forwarding = packets", experiment.model_copy(update={"endpoint": packets})
