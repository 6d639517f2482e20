"""What a simulation will cost, before it is run: rough, and said to be so.

messages   chunks x steps of the composition x NPUs
packets    bytes sent / packet + half a packet per message, x NPUs
events     3 per packet and hop (arrival, end of transmission, credit); 4 per message without packets
memory     64 MB + 2 kB per NPU and 64 B per packet that can be in flight
time       events / 5 million per second
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from syncline import bounds
from syncline.schema.experiment import (
    DEFAULT_CHUNK,
    AstraWorkload,
    CollectiveWorkload,
    Experiment,
    ModelWorkload,
    PacketNetwork,
)
from syncline.schema.load import Variant

PARAMETERS: Final = {"resnet18": 11_689_512, "resnet50": 25_557_032}
"""Trainable parameters of the models."""
LAYERS: Final = {"resnet18": 21, "resnet50": 54}
"""Layers with a gradient collective of their own."""

EVENTS_PER_PACKET: Final = 3
EVENTS_PER_MESSAGE: Final = 4
EVENTS_PER_S: Final = 5_000_000
MEMORY_AT_REST: Final = 64_000_000
MEMORY_PER_NPU: Final = 2_000
MEMORY_PER_PACKET: Final = 64
LONG_S: Final = 600


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a variant will take, roughly."""

    npus: int
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


def of(variant: Variant) -> Estimate:
    """The estimate of a variant."""
    experiment = variant.experiment
    topology = experiment.topology
    kind, collectives = _collectives(variant)
    phases = bounds.phases(kind, experiment.composition, topology)
    steps = sum(phase.steps for phase in phases)
    chunks = sum(_chunks(experiment, size) for size in collectives)
    sent = int(sum(collectives) * bounds.sent_per_byte(kind, experiment.composition, topology))
    messages = chunks * steps * topology.npus
    packets, events = 0, messages * EVENTS_PER_MESSAGE
    if isinstance(experiment.network, PacketNetwork):
        packets = sent * topology.npus // experiment.network.packet + messages // 2
        events = packets * EVENTS_PER_PACKET
    in_flight = min(packets, topology.npus * max(1, experiment.collective.inflight) * 256)
    memory = MEMORY_AT_REST + MEMORY_PER_NPU * topology.npus + MEMORY_PER_PACKET * in_flight
    time_s = round(events / EVENTS_PER_S, 3)
    return Estimate(
        npus=topology.npus,
        steps=steps,
        chunks_per_npu=chunks,
        bytes_sent_per_npu=sent,
        messages=messages,
        packets=packets,
        events=events,
        memory_bytes=memory,
        time_s=time_s,
        recommendation=_recommend(experiment, time_s),
    )


def _recommend(experiment: Experiment, time_s: float) -> str:
    if not isinstance(experiment.network, PacketNetwork):
        return "analytical: fast, and blind to contention inside the network; packet shows it"
    if time_s > LONG_S:
        return "packet, if the time is acceptable; --backend analytical for a first answer"
    return "packet"


def _collectives(variant: Variant) -> tuple[str, list[int]]:
    """The kind and the sizes of all collectives of a run."""
    workload, iterations = variant.experiment.workload, variant.experiment.training.iterations
    if isinstance(workload, CollectiveWorkload):
        return workload.collective, [workload.size]
    if isinstance(workload, ModelWorkload):
        layers = LAYERS[workload.model]
        return "all-reduce", [PARAMETERS[workload.model] * workload.element // layers] * layers * iterations
    assert isinstance(workload, AstraWorkload)
    return "all-reduce", _astra_sizes(variant.astra_text or "") * iterations


def _astra_sizes(text: str) -> list[int]:
    """Sizes of the weight-gradient collectives of a text workload; lines that are not layers are left out."""
    sizes: list[int] = []
    for line in text.splitlines()[2:]:
        fields = line.split()
        if len(fields) >= 11 and fields[9] != "NONE" and fields[10].isascii() and fields[10].isdigit():
            sizes.append(int(fields[10][:18]))
    return sizes


def _chunks(experiment: Experiment, size: int) -> int:
    collective = experiment.collective
    if collective.chunks is not None:
        return min(collective.chunks, max(1, size // experiment.workload.element))
    return max(1, -(-size // (collective.chunk or DEFAULT_CHUNK)))
