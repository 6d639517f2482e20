"""`collective.slices: miad`: the size of slices that is fast, found over iterations as in Blink (MLSys 2020, 4.2.1).

Blink uses the first iterations of a training to find the size of its chunks, which are slices here, and the rest of
the training has the best one. The plans of a simulation stay the same from its beginning to its end, so that these
iterations are simulations of their own, which come before the run: a single collective each, or as much of a training
as tells what an iteration takes. The run itself is the steady state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from syncline.base import text_units
from syncline.engine import chunking, trials
from syncline.engine import runs as engine
from syncline.engine.runs import PS_PER_S
from syncline.experiment.load import Tuning, Variant
from syncline.sections.packed import MOST_SLICES

PARTS: Final = 64
"""Slices begin with 1 MB as in the paper, or with one over this of the largest chunk if that is less."""
ITERATIONS: Final = 2
"""Iterations of a training that tell what one takes: what the first one sends may be waited for in the second."""


def settled(variant: Variant) -> Variant:
    """The variant with a size of slices, if that was left open. Raises [`InputError`] if it cannot be carried out."""
    if not variant.experiment.has_open_slices:
        return variant
    largest = max(1, engine.largest_sliced(variant))
    first = max(min(chunking.MB, max(1, largest // PARTS)), -(-largest // MOST_SLICES))
    tried = trials.unwatched(variant)
    training = tried.experiment.training
    iterations = min(ITERATIONS, tried.experiment.iterations)
    if tried.experiment.is_training:
        update = {"training": training.model_copy(update={"iterations": iterations})}
        tried = replace(tried, experiment=tried.experiment.model_copy(update=update))
    else:
        iterations = 1
    times: dict[int, int] = {}

    def throughput(size: int) -> float:
        times[size] = engine.attempt(_sliced(tried, size)).time_ps
        return 1 / max(1, times[size])

    def lower(size: int) -> int:
        """A step less, and more if that is as many slices: a chunk consists of whole slices of one size."""
        slices = -(-largest // size)
        return min(size - first, -(-largest // (slices + 1)))

    history = chunking.miad(throughput, start=first, step=lower, largest=largest)
    best = max(history, key=lambda trial: trial.throughput)
    found = tuple(
        {
            "slice_bytes": trial.chunk,
            "slices": -(-largest // trial.chunk),
            "time_s": times[trial.chunk] / iterations / PS_PER_S,
        }
        for trial in history
    )
    return replace(_sliced(variant, best.chunk), tuning=Tuning(best.chunk, _because(found), found))


def _because(iterations: Sequence[dict[str, Any]]) -> str:
    """The sizes of slices and the times of iterations, one after the other."""
    tried = (f"{text_units.size(each['slice_bytes'])} in {text_units.duration(each['time_s'])}" for each in iterations)
    return f"the fastest of {len(iterations)} iterations: {', '.join(tried)}"


def _sliced(variant: Variant, size: int) -> Variant:
    """The variant with slices of so many bytes."""
    experiment = variant.experiment
    collective = experiment.collective.model_copy(update={"slices": None, "slice": size})
    return replace(variant, experiment=experiment.model_copy(update={"collective": collective}))
