"""What a simulation will cost, before it is run: rough, and said to be so.

messages   what the engine counts for the first NPU that takes part x NPUs that are simulated
packets    bytes sent / packet + half a packet per message, but at least one, x NPUs that are simulated
hops       1 between neighbours and 2 through a switch; the mean distance where everybody talks to everybody
events     3 per packet and hop (arrival, end of transmission, credit); without packets 3 per message and 1 per hop
memory     64 MB + 2 kB per NPU, 64 B per chunk of the run and 64 B per packet that can be in flight
time       events / 5 million per second
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from syncline.engine import Preview
from syncline.fabric.topologies import Wired
from syncline.schema.experiment import AnalyticalNetwork, Experiment, PacketNetwork
from syncline.schema.programs import AMONG_NEIGHBOURS
from syncline.schema.workloads import CollectiveWorkload

EVENTS_PER_PACKET: Final = 3
EVENTS_PER_MESSAGE: Final = 3
HOPS_IN_GRAPH: Final = 4
"""Between two NPUs of a machine: to a switch or NIC and from there, or somewhat more."""
EVENTS_PER_S: Final = 5_000_000
MEMORY_AT_REST: Final = 64_000_000
MEMORY_PER_NPU: Final = 2_000
MEMORY_PER_PACKET: Final = 64
MEMORY_PER_CHUNK: Final = 64
LONG_S: Final = 600
NOTICED_S: Final = 30
"""A simulation that takes longer is warned of."""
OPTIMISER_BYTES: Final = 12
"""State of the optimiser for each parameter."""
TINY: Final = 256
"""Bytes of a message that is hardly worth its events."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a variant will take, roughly."""

    npus: int
    simulated_npus: int
    steps: int
    chunks_per_npu: int
    bytes_sent_per_npu: int
    messages: int
    packets: int
    events: int
    memory_bytes: int
    time_s: float
    recommendation: str

    def as_document(self) -> dict[str, Any]:
        """The estimate as JSON."""
        return asdict(self)


def of(experiment: Experiment, preview: Preview) -> Estimate:
    """The estimate of an experiment that the engine has looked at."""
    npus = preview.simulated_npus
    messages = preview.messages_per_npu * npus
    hops = _hops(experiment)
    packets, events = 0, messages * (EVENTS_PER_MESSAGE + hops)
    if isinstance(experiment.network, PacketNetwork):
        packets = preview.bytes_sent_per_npu * npus // experiment.network.packet + messages // 2
        packets = max(packets, messages)
        events = packets * EVENTS_PER_PACKET * hops
    in_flight = min(packets, npus * max(1, experiment.collective.inflight) * 256)
    time_s = round(events / EVENTS_PER_S, 3)
    return Estimate(
        npus=preview.npus,
        simulated_npus=npus,
        steps=preview.steps,
        chunks_per_npu=preview.chunks,
        bytes_sent_per_npu=preview.bytes_sent_per_npu,
        messages=messages,
        packets=packets,
        events=events,
        memory_bytes=MEMORY_AT_REST
        + MEMORY_PER_NPU * npus
        + MEMORY_PER_CHUNK * preview.chunks
        + MEMORY_PER_PACKET * in_flight,
        time_s=time_s,
        recommendation=_recommend(experiment, time_s),
    )


def warning(name: str, estimate: Estimate) -> str | None:
    """What to know of a simulation before it is begun, if it takes long."""
    if estimate.time_s < NOTICED_S:
        return None
    minutes = max(1, estimate.time_s / 60)
    takes = f"{minutes:,.0f} min" if minutes < 600 else f"{minutes / 60:,.0f} h"
    memory = f"{estimate.memory_bytes / 1e9:,.1f} GB"
    text = f"{name}: about {takes} for {estimate.events:.1e} events, and {memory} of memory"
    per_message = estimate.bytes_sent_per_npu * estimate.simulated_npus // max(1, estimate.messages)
    if per_message < TINY:
        text += f"; a message has {per_message} B: {estimate.chunks_per_npu:,} chunks, of which fewer would cost less"
    return text


def memory_warning(name: str, experiment: Experiment, preview: Preview) -> str | None:
    """What to know of a model that the memory of its NPUs cannot hold.

    Counted are parameters and gradients with their elements and, for the optimiser, 12 B per parameter: a copy in FP32
    and the two moments of Adam (Rajbhandari et al., "ZeRO", SC 2020). Activations and embedding tables come on top.
    """
    memory, workload = experiment.npu.memory, experiment.workload
    if memory is None or isinstance(workload, CollectiveWorkload):
        return None
    parameters = preview.gradient_bytes // workload.element
    needed = parameters * (2 * workload.element + OPTIMISER_BYTES)
    if needed <= memory:
        return None
    what = f"parameters, gradients and optimiser states take {needed / 1e9:,.1f} GB"
    return f"{name}: {what}, and an NPU has {memory / 1e9:g} GB of memory (npu.memory)"


def _hops(experiment: Experiment) -> int:
    """Links that a message crosses, roughly."""
    fabric = experiment.topology
    if isinstance(fabric, Wired):
        return HOPS_IN_GRAPH
    dims = [dim for dim in fabric.dims if dim.size > 1]
    used = {experiment.composition, *experiment.collective.algorithms.values()}
    if used <= AMONG_NEIGHBOURS and experiment.groups is None:
        return max((2 if dim.block == "switch" else 1 for dim in dims), default=1)
    along = {"fully-connected": 1, "switch": 2}
    return max(1, sum(along.get(dim.block, dim.size // 4) for dim in dims))


def _recommend(experiment: Experiment, time_s: float) -> str:
    if isinstance(experiment.network, AnalyticalNetwork):
        return "analytical: fast, and blind to contention inside the network; packet shows it"
    if time_s > LONG_S:
        name = experiment.network.backend
        return f"{name}, if the time is acceptable; --backend analytical for a first answer"
    return experiment.network.backend
