"""The columns of a sweep's table: what each is measured in, and what it says.

What comes from the summary of a run is declared by the engine; what is made of it, or of the experiment, is declared
here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from syncline.core import facts

TIMES = ("iteration_time_s", "time_s")
"""What points are compared by, the first that a row has."""

SECONDS: Final = "s"
PER_SECOND: Final = "B/s"
COUNT, SHARE, INDEX, TRUTH = "count", "share", "index", "truth value"
ENDINGS: Final = {
    "_bytes_per_s": PER_SECOND,
    "_flops_per_s": "FLOP/s",
    "_bytes": facts.BYTES,
    "_hz": "Hz",
    "_s": SECONDS,
}
"""Units by what the names of columns end with, the longest first."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A column with a number, or a text, that a simulation comes to."""

    name: str
    says: str = ""
    """What a value says, beside what `of` says."""
    unit_: str = ""
    of: str = ""
    """The field of the summary that it is, or is made of, by its path; times are then in seconds."""

    @property
    def unit(self) -> str:
        """What its values are measured in."""
        if self.unit_ or not self.of:
            return self.unit_
        unit = facts.field(self.of).unit
        return SECONDS if unit == facts.PICOSECONDS else unit

    @property
    def meaning(self) -> str:
        """What a value says, in a full phrase."""
        return f"{facts.field(self.of).meaning} {self.says}".rstrip() if self.of else self.says


TRAINING: Final[tuple[Measure, ...]] = (
    Measure("iterations", of="iterations"),
    Measure("iteration_time_s", "Length of the run divided by its iterations.", SECONDS),
    Measure("total_time_s", of="total_ps"),
    Measure("compute_time_s", of="compute_ps"),
    Measure("exposed_comm_s", of="exposed_ps"),
    Measure("exposed_comm_share", "Share of the total time that the compute engine waited for communication.", SHARE),
    Measure("drain_s", of="drain_ps"),
    Measure("engine_utilisation_forward", "Share of the forward passes in which an ACE held a chunk.", SHARE),
    Measure("engine_utilisation_backward", "Share of the back-propagations in which an ACE held a chunk.", SHARE),
    Measure("compute_time_alone_s", of="compute_alone_ps"),
    Measure("background_compute_time_s", of="background_compute_ps"),
    Measure("background_compute_time_alone_s", of="background_compute_alone_ps"),
    Measure("background_wait_s", of="background_wait_ps"),
    Measure("bubble_s", of="bubble_ps"),
)
STEADY: Final = Measure(
    "steady_iteration_time_s",
    "What one more iteration costs in a long run; only of divided models that are simulated for several.",
    SECONDS,
)
COLLECTIVE: Final[tuple[Measure, ...]] = (
    Measure("time_s", of="total_ps"),
    Measure("size_bytes", "Size of the collective, as nccl-tests counts it.", facts.BYTES),
    Measure("ranks", "NPUs of a group.", COUNT),
    Measure("algorithm_bandwidth_bytes_per_s", "Size divided by time, as in nccl-tests.", PER_SECOND),
    Measure(
        "bus_bandwidth_bytes_per_s",
        "Algorithm bandwidth times the factor of nccl-tests for the collective.",
        PER_SECOND,
    ),
    Measure("lower_bound_s", of="lower_bound_ps"),
    Measure("lower_bound_by", of="lower_bound_by"),
    Measure("efficiency", "Lower bound divided by time.", SHARE),
)
COMMON: Final[tuple[Measure, ...]] = (
    Measure("algorithm", "Algorithm of the collectives; with auto, the one that was chosen.", facts.TEXT),
    Measure("steps", of="steps"),
    Measure("chunks", of="chunks"),
)
NETWORK: Final[tuple[Measure, ...]] = (
    Measure(
        "bytes_sent_per_npu",
        "Mean payload that an NPU sends of its own, without what it forwards for others.",
        facts.BYTES,
    ),
    Measure(
        "achieved_bandwidth_bytes_per_s", "Payload that an NPU sends, divided by the length of the run.", PER_SECOND
    ),
    Measure("achieved_wire_bandwidth_bytes_per_s", "Achieved bandwidth on the wire, headers included.", PER_SECOND),
    Measure("payload_bandwidth_bytes_per_s", "Payload per second that the links of an NPU carry together.", PER_SECOND),
    Measure(
        "wire_bandwidth_bytes_per_s",
        "Bytes per second that the links of an NPU carry together, headers included.",
        PER_SECOND,
    ),
    Measure("mean_link_utilisation", of="network.mean_link_utilisation"),
    Measure(
        "link_demand",
        "Time that links would need for their bytes, divided by the time of the run; may exceed 1. Only where the "
        "backend ignores contention.",
        SHARE,
    ),
    Measure("links", of="network.links"),
    Measure("link_bytes", of="network.link_bytes"),
    Measure("packet_hops", of="network.packet_hops"),
)
TRANSPORT: Final[tuple[Measure, ...]] = (
    Measure("segments_sent", "Segments that connections sent, those that were sent again included.", COUNT),
    Measure("retransmissions", "Segments that connections sent again.", COUNT),
    Measure("drops", "Frames that found a full queue, acknowledgements included.", COUNT),
    Measure("marks", "Frames that switches marked.", COUNT),
    Measure("rto_events", "Expirations of retransmission timers.", COUNT),
    Measure("rto_stalled_s", "Time in which nothing was on any link until a timer expired.", SECONDS),
    Measure("fast_recoveries", "Entries of connections into fast recovery.", COUNT),
    Measure("pauses", "Pauses that switches asked for.", COUNT),
    Measure("paused_s", "Time for which links were paused, all together.", SECONDS),
    Measure("max_queue_bytes", "Longest queue at any output of a switch.", facts.BYTES),
    Measure("rtt_p50_s", "Median of the round trips of connections.", SECONDS),
    Measure("rtt_p99_s", "99th percentile of the round trips of connections.", SECONDS),
    Measure("flow_rtt_p50_s", "Median over connections of their mean round trips, sampled each millisecond.", SECONDS),
    Measure("flow_rtt_p99_s", "99th percentile of these means.", SECONDS),
)
"""What the transport of the Ethernet backend did."""
ENDPOINT: Final[tuple[Measure, ...]] = tuple(
    Measure(name, of=f"endpoint.{name}")
    for name in (
        *("memory_read_bytes", "memory_write_bytes", "loaded_bytes"),
        *("sent_bytes", "transit_bytes", "sent_by_switches_bytes", "fsms", "fsm_peak"),
    )
)
BREAKDOWN: Final[tuple[Measure, ...]] = (
    Measure("messages", of="endpoint.breakdown.messages"),
    Measure("chunk_queue_s", "Mean of a chunk.", of="endpoint.breakdown.chunk_queue_ps"),
    Measure("bus_queue_s", "Mean of a message.", of="endpoint.breakdown.bus_queue_ps"),
    Measure("bus_transfer_s", "Mean of a message.", of="endpoint.breakdown.bus_transfer_ps"),
    Measure("network_s", "Mean of a message.", of="endpoint.breakdown.network_ps"),
)
COST: Final[tuple[Measure, ...]] = (
    Measure("area_um2", "Area of an engine as synthesised in 28 nm and scaled to its configuration.", "um2"),
    Measure("power_w", "Power of an engine as synthesised in 28 nm and scaled to its configuration.", "W"),
    Measure("energy_per_iteration_j", "Power of an engine times the time of an iteration, an upper bound.", "J"),
    Measure("energy_per_collective_j", "Power of an engine times the time of a collective, an upper bound.", "J"),
    Measure("iterations_per_s_per_mm2", "Iterations per second and area of an engine.", "1/(s mm2)"),
    Measure("collectives_per_s_per_mm2", "Collectives per second and area of an engine.", "1/(s mm2)"),
)
FIDELITY: Final[tuple[Measure, ...]] = (
    Measure("backend", "Network backend of the simulation.", facts.TEXT),
    Measure("folded", "Whether NPUs that are alike were simulated once.", TRUTH),
    Measure("unfolded_because", of="unfolded"),
    Measure("simulated_npus", of="simulated_npus"),
)
WARNINGS: Final = Measure("warnings", of="warnings")
UTILISATION: Final = Measure("_utilisation", "Share of the time in which servers of the resource are busy.", SHARE)
"""Of a resource, after its name; so is how long work waits for it."""
WAIT: Final = Measure("_wait_s", of="endpoint.resources.wait_ps")
CAPACITY: Final = Measure("_capacity_bytes", of="endpoint.partitions.capacity_bytes")
"""Of a partition of an SRAM or of the memory of a switch, after its name; so is the most that it held."""
PEAK: Final = Measure("_peak_bytes", of="endpoint.partitions.peak_bytes")
NAMED: Final = (UTILISATION, WAIT, CAPACITY, PEAK)
"""Columns of which there is one for every resource, or partition."""
ROW: Final = (
    Measure("point", "Number of the point of the sweep.", INDEX),
    Measure("name", "Values of the point.", facts.TEXT),
    Measure("base", "Experiment of the point.", facts.TEXT),
    Measure("variant", "Variant of the experiment.", facts.TEXT),
    Measure("key", "Key of the simulation, equal where experiment and engine are the same.", facts.TEXT),
    Measure("status", "Outcome of the simulation: done, failed, or refused by the engine.", facts.TEXT),
    Measure("error", "Reason why the simulation has no result.", facts.TEXT),
    Measure("npus", of="npus"),
    Measure("taking_part", "NPUs that take part, of those that there are.", COUNT),
    Measure("topology", "Fabric of the simulation.", facts.TEXT),
    Measure("wall_time_s", "Time that the simulation took on this machine.", SECONDS),
    Measure("events", of="events"),
    Measure("seeds", "Seeds of which the numbers of the row are medians; one if nothing is said.", COUNT),
)
"""What every row has."""
_BY_NAME: Final = {
    measure.name: measure
    for measures in (
        TRAINING,
        (STEADY,),
        COLLECTIVE,
        COMMON,
        NETWORK,
        TRANSPORT,
        ENDPOINT,
        BREAKDOWN,
        COST,
        FIDELITY,
        (WARNINGS,),
        ROW,
    )
    for measure in measures
}


def meaning(name: str) -> str:
    """What a column says that is no axis, and none of a resource or partition."""
    return _BY_NAME[name].meaning


def is_count(name: str) -> bool:
    """Whether a column counts something, so that its values have no unit."""
    return name in _BY_NAME and _BY_NAME[name].unit == COUNT


def is_size(name: str) -> bool:
    """Whether the values of a column that sweeps have are bytes."""
    return name in _BY_NAME and _BY_NAME[name].unit == facts.BYTES


def metadata(name: str, kind: type, *, is_axis: bool) -> dict[str, str]:
    """What a column says of itself in a file; `kind` is the type of its values."""
    if is_axis:
        return {"unit": _unit(name, kind), "meaning": "Value of the field of this name, which the sweep varies."}
    measure = _BY_NAME.get(name) or next((m for m in NAMED if name.endswith(m.name)), None)
    if measure is None:
        return {}
    if measure in NAMED:
        what = re.sub(r"^sram_", "", name.removesuffix(measure.name)).replace("_", " ")
        return {"unit": measure.unit, "meaning": f"{measure.meaning} ({what})"}
    return {"unit": measure.unit, "meaning": measure.meaning}


def _unit(name: str, kind: type) -> str:
    """The unit of an axis, with which its name ends; of one without, what its values are."""
    unit = next((unit for ending, unit in ENDINGS.items() if name.endswith(ending)), None)
    return unit or {bool: TRUTH, str: facts.TEXT}.get(kind, "number")
