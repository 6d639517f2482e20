"""What a sweep keeps of a simulation: numbers for the columns of its table, under names that carry their units."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Final

from syncline import choice, engine, results
from syncline.engine import Result
from syncline.errors import InputError, SimulationFailedError
from syncline.schema.load import Study, Variant
from syncline.sweep.journal import Entry

TRAINING: Final[tuple[str, ...]] = (
    *("iterations", "iteration_time_s", "total_time_s", "compute_time_s", "exposed_comm_s", "exposed_comm_share"),
    "drain_s",
    *("engine_utilisation_forward", "engine_utilisation_backward"),
    *("compute_time_alone_s", "background_compute_time_s", "background_compute_time_alone_s", "background_wait_s"),
)
COLLECTIVE: Final[tuple[str, ...]] = (
    "time_s",
    "size_bytes",
    "ranks",
    "algorithm_bandwidth_bytes_per_s",
    "bus_bandwidth_bytes_per_s",
    "lower_bound_s",
    "lower_bound_by",
    "efficiency",
)
COMMON: Final = ("algorithm", "steps", "chunks")
NETWORK: Final = (
    "bytes_sent_per_npu",
    "achieved_bandwidth_bytes_per_s",
    "achieved_wire_bandwidth_bytes_per_s",
    "payload_bandwidth_bytes_per_s",
    "wire_bandwidth_bytes_per_s",
    *("mean_link_utilisation", "link_demand", "links", "link_bytes", "packet_hops"),
)
ENDPOINT: Final = (
    *("memory_read_bytes", "memory_write_bytes", "loaded_bytes"),
    *("sent_bytes", "transit_bytes", "sent_by_switches_bytes", "fsms", "fsm_peak"),
)
BREAKDOWN: Final = ("messages", "chunk_queue_s", "bus_queue_s", "bus_transfer_s", "network_s")
COST: Final = (
    "area_um2",
    "power_w",
    "energy_per_iteration_j",
    "energy_per_collective_j",
    "iterations_per_s_per_mm2",
    "collectives_per_s_per_mm2",
)
FIDELITY: Final = ("backend", "folded", "unfolded_because", "simulated_npus")
ROOM: Final = frozenset({"sram_room", "port_buffer"})
"""Resources that are waited for and never busy: they are held, and do not work."""


def simulate(variant: Variant) -> Entry:
    """Simulates a variant; whatever comes of it is an entry of the journal."""
    began = time.monotonic()
    try:
        variant = choice.settled(Study(variant.name, "", (variant,))).variants[0]
        result = engine.run(variant)
    except InputError as error:
        message = "; ".join(problem.message for problem in error.problems)
        return Entry("refused", message, wall_time_s=_since(began))
    except SimulationFailedError as error:
        return Entry("failed", str(error), wall_time_s=_since(began))
    return Entry("done", None, of(variant, result), _since(began), result.summary["events"])


def of(variant: Variant, result: Result) -> dict[str, Any]:
    """The measures of a simulation, in the order of the table."""
    experiment = variant.experiment
    if experiment.is_training:
        entry, own = results.run_entry(variant, result), TRAINING
    else:
        entry, own = results.collective_fields(variant, result), COLLECTIVE
    total_s = results.seconds(result.summary["total_ps"])
    return {
        **_some(entry, own),
        **_some(entry, COMMON),
        **_some(entry["network"], NETWORK),
        "bytes_sent_per_npu": float(entry["network"]["bytes_sent_per_npu"]),  # a mean, not always whole
        **_some(entry["endpoint"], ENDPOINT),
        **_some(entry["endpoint"]["breakdown"], BREAKDOWN),
        **_resources(entry["endpoint"], total_s * experiment.taking_part),
        **_partitions(entry["endpoint"]),
        **_some(entry.get("cost_model", {}), COST),
        **_some(results.fidelity(experiment, result.summary), FIDELITY),
        "warnings": "; ".join(result.summary["warnings"]) or None,
    }


def _some(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _resources(endpoint: Mapping[str, Any], npu_seconds: float) -> dict[str, Any]:
    """The share of the time that each resource of the endpoint was busy, and how long work waited for it.

    Both over all NPUs: waits are sums over everything that waited, and can exceed the time.
    """
    found: dict[str, Any] = {}
    for resource in endpoint["resources"]:
        name = resource["resource"]
        if name not in ROOM:
            found[f"{name}_utilisation"] = results.ratio(resource["busy_s"], resource["servers"] * npu_seconds)
        found[f"{name}_wait_s"] = resource["wait_s"]
    return found


def _partitions(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """How much there is, and how much was ever held, of each partition of an engine's SRAM, or of a switch's memory."""
    found: dict[str, Any] = {}
    for partition in endpoint["partitions"]:
        name = re.sub(r"[^a-z0-9]+", "_", partition["phase"])
        prefix = name if name == "switch_memory" else f"sram_{name}"
        found |= {f"{prefix}_{what}_bytes": partition[f"{what}_bytes"] for what in ("capacity", "peak")}
    return found


def _since(began: float) -> float:
    return round(time.monotonic() - began, 6)
