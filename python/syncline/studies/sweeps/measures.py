"""What a sweep keeps of a simulation: numbers for the columns of its table, under names that carry their units."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from syncline.base.errors import InputError, SimulationFailedError
from syncline.engine import choice
from syncline.engine import runs as engine
from syncline.engine.runs import Result
from syncline.experiment.load import Study, Variant
from syncline.results import entries as results
from syncline.sections.experiment import Experiment
from syncline.sections.workloads import DividedWorkload
from syncline.studies import columns
from syncline.studies.columns import Measure
from syncline.studies.sweeps.journal import Entry

LOSSES: Final = ("drops", "retransmissions", "rto_events")
"""What a simulation counts that loses frames."""
ROOM: Final = frozenset({"sram_room", "port_buffer"})
"""Resources that are waited for and never busy: they are held, and do not work."""


def simulate(variant: Variant, seeds: int = 1) -> Entry:
    """Simulates a variant; whatever comes of it is an entry of the journal.

    What loses frames is simulated with so many seeds, from the variant's own on, and each of its numbers is the median.
    """
    began = time.monotonic()
    try:
        variant = choice.settled(Study(variant.name, "", (variant,))).variants[0]
        found, events = of_seed(variant)
        samples = [found]
        if seeds > 1 and any(found.get(name) for name in LOSSES):
            for seed in range(variant.seed + 1, variant.seed + seeds):
                sample, more = of_seed(replace(variant, seed=seed))
                samples.append(sample)
                events += more
    except InputError as error:
        message = "; ".join(problem.message for problem in error.problems)
        return Entry("refused", message, wall_time_s=_since(began))
    except SimulationFailedError as error:
        return Entry("failed", str(error), wall_time_s=_since(began))
    return Entry("done", None, medians(samples), _since(began), events)


def of_seed(variant: Variant) -> tuple[dict[str, Any], int]:
    """The measures of one simulation, and its events."""
    result = engine.run(variant)
    return of(variant, result), result.summary["events"]


def medians(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The measures of simulations that differ by their seeds: of numbers the medians, and all else of the first."""
    if len(samples) == 1:
        return samples[0]
    return {name: _median([sample.get(name) for sample in samples]) for name in samples[0]} | {"seeds": len(samples)}


def _median(values: Sequence[Any]) -> Any:
    if any(not isinstance(value, int | float) or isinstance(value, bool) for value in values):
        return values[0]
    middle = statistics.median(values)
    return int(middle) if all(isinstance(value, int) for value in values) else float(middle)


def of(variant: Variant, result: Result) -> dict[str, Any]:
    """The measures of a simulation, in the order of the table."""
    experiment = variant.experiment
    if experiment.is_training:
        entry, own = results.run_entry(variant, result), columns.TRAINING
    else:
        entry, own = results.collective_fields(variant, result), columns.COLLECTIVE
    total_s = results.seconds(result.summary["total_ps"])
    return {
        **_some(entry, own),
        **_steady(experiment, entry),
        **_some(entry, columns.COMMON),
        **_some(entry["network"], columns.NETWORK),
        **_some(entry["network"], columns.TRANSPORT),
        "bytes_sent_per_npu": float(entry["network"]["bytes_sent_per_npu"]),  # a mean, not always whole
        **_some(entry["endpoint"], columns.ENDPOINT),
        **_some(entry["endpoint"]["breakdown"], columns.BREAKDOWN),
        **_resources(entry["endpoint"], total_s * experiment.taking_part),
        **_partitions(entry["endpoint"]),
        **_some(entry.get("cost_model", {}), columns.COST),
        **_some(results.fidelity(experiment, result.summary), columns.FIDELITY),
        columns.WARNINGS.name: "; ".join(result.summary["warnings"]) or None,
    }


def _some(values: Mapping[str, Any], measures: tuple[Measure, ...]) -> dict[str, Any]:
    return {measure.name: values[measure.name] for measure in measures if measure.name in values}


def _steady(experiment: Experiment, entry: Mapping[str, Any]) -> dict[str, Any]:
    """What one more iteration costs, of divided models: of others, the second may not be like all further ones."""
    seconds = entry.get(columns.STEADY.name)
    return {columns.STEADY.name: seconds} if seconds and isinstance(experiment.workload, DividedWorkload) else {}


def _resources(endpoint: Mapping[str, Any], npu_seconds: float) -> dict[str, Any]:
    """The share of the time that each resource of the endpoint was busy, and how long work waited for it.

    Both over all NPUs: waits are sums over everything that waited, and can exceed the time.
    """
    found: dict[str, Any] = {}
    for resource in endpoint["resources"]:
        name = resource["resource"]
        if name not in ROOM:
            found[name + columns.UTILISATION.name] = results.ratio(
                resource["busy_s"], resource["servers"] * npu_seconds
            )
        found[name + columns.WAIT.name] = resource["wait_s"]
    return found


def _partitions(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """How much there is, and how much was ever held, of each partition of an engine's SRAM, or of a switch's memory."""
    found: dict[str, Any] = {}
    for partition in endpoint["partitions"]:
        name = re.sub(r"[^a-z0-9]+", "_", partition["phase"])
        prefix = name if name == "switch_memory" else f"sram_{name}"
        found[prefix + columns.CAPACITY.name] = partition["capacity_bytes"]
        found[prefix + columns.PEAK.name] = partition["peak_bytes"]
    return found


def _since(began: float) -> float:
    return round(time.monotonic() - began, 6)
