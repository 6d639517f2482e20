"""Experiments with one thing changed, each as the settings that make it: what would help is found by running them.

A *relief* makes one resource twice as good: links, latency, chunks in flight, memory, SRAM and so on. Its gain is the
measure of how much that resource limits a run. An *alternative* is another choice: algorithm, endpoint, chunk size.

Every change is written as `--set` settings for the very file or study that is explained, and is read by the reader of
experiments, so that whoever pastes a setting gets what was reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal

from syncline.base import quantities
from syncline.base.document import Plain
from syncline.base.quantities import FREQUENCY, RATE, SIZE, TIME
from syncline.engine import choice
from syncline.engine.in_flight import Usual
from syncline.experiment import programs
from syncline.fabric import hardware, notation
from syncline.fabric.machines import MACHINES
from syncline.fabric.topologies import Wired
from syncline.fabric.topology import Topology
from syncline.sections.collective import DEFAULT_CHUNK, EXCHANGE
from syncline.sections.endpoints.ace import AceEndpoint
from syncline.sections.experiment import Experiment
from syncline.sections.networks.ethernet import EthernetNetwork
from syncline.sections.workloads import CollectiveWorkload

COMPUTE: Final = "compute"
LATENCY: Final = "latency"
IN_FLIGHT: Final = "chunks in flight"
ALL_LINKS: Final = "links"
MEMORY: Final = "endpoint memory"
SMS: Final = "SMs of communication"
MEMORY_AND_SMS: Final = "endpoint memory and SMs"
BUS: Final = "bus"
SRAM: Final = "SRAM"
FSMS: Final = "FSMs"
SRAM_AND_FSMS: Final = "SRAM and FSMs"
NICS_AND_PCIE: Final = "links of InfiniBand and PCIe"
COMBINED: Final = frozenset({ALL_LINKS, NICS_AND_PCIE, MEMORY_AND_SMS, SRAM_AND_FSMS})
"""Limits of several things together."""
ENGINE_CLOCK: Final = "engine clock"
TIMEOUTS: Final = "time-outs"
WINDOW: Final = "window of connections"
SWITCHES: Final = "switches that reduce"
COMMANDS: Final = "commands of copies"
MOST_INFLIGHT: Final = 65_536
ALGORITHM: Final = "ace-4-phase"
"""What an engine runs if it cannot run the algorithm of the experiment."""

_PARAMETER: Final = re.compile(r"\b([a-z_]+)=([^,()]+)")
CLASSES_OF_RATES: Final[Mapping[str, Mapping[str, str]]] = {
    "LeafSpine": {"rate": "host", "uplink_rate": "uplink"},
    "SuperNodes": {"local_rate": "scale-up", "rate": "scale-out"},
}
"""The class of links whose rate a parameter of a network of switches is; elsewhere it is that of all of them."""
NIC_LINKS: Final = "InfiniBand"


def link(name: str) -> str:
    """The limit that a class of links is."""
    return f"links of {name}"


@dataclass(frozen=True, slots=True)
class Change:
    """An experiment with one thing changed."""

    label: str
    settings: tuple[tuple[str, Plain], ...]
    """Paths within an experiment, and their values."""
    what: Literal["relief", "alternative"]
    limit: str | None = None
    """The limit that a relief takes away."""
    instead: tuple[tuple[str, Plain], ...] = ()
    """What is set as well if the engine refuses the change alone."""


def of(experiment: Experiment, *, timeouts: bool, usual: Usual | None = None) -> list[Change]:
    """What may help an experiment; `timeouts`: whether retransmission timers expired in its run, `usual`: what its
    chunks are where it does not say it. The reader of experiments and the engine may refuse some.
    """
    chunks = _Chunks.of(experiment, usual)
    return [*_reliefs(experiment, chunks, timeouts=timeouts), *_alternatives(experiment, chunks)]


@dataclass(frozen=True, slots=True)
class _Chunks:
    """What chunks are in a run. Where that was found, whoever changes their size states how many are in flight as well,
    and the other way round: what is not stated would follow.
    """

    size: int
    inflight: int
    is_stated: bool

    @classmethod
    def of(cls, experiment: Experiment, usual: Usual | None) -> _Chunks:
        """Those of an experiment."""
        collective = experiment.collective
        if usual is not None:
            return cls(usual.chunk, usual.inflight, is_stated=False)
        return cls(collective.chunk or DEFAULT_CHUNK, collective.inflight, is_stated=True)

    def settings(self, size: int, inflight: int) -> list[tuple[str, Plain]]:
        """What leads from these to others."""
        found: list[tuple[str, Plain]] = []
        if inflight != self.inflight or not self.is_stated:
            found.append(("collective.inflight", inflight))
        if size != self.size or not self.is_stated:
            found.append(("collective.chunk", SIZE.format(size)))
        return found


def settings_text(settings: Sequence[tuple[str, Plain]], prefix: str) -> list[str]:
    """Settings as `--set` takes them; `prefix` leads to the system within its file, as in `variants.ACE.`."""
    return [f"{prefix}{path}={text(value)}" for path, value in settings]


def text(value: Plain) -> str:
    """A value as it is written after `PATH=`."""
    if isinstance(value, dict | list):
        return json.dumps(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return str(value)


def _relief(label: str, limit: str | None, *settings: tuple[str, Plain]) -> Change:
    return Change(label, settings, "relief", limit)


def _reliefs(experiment: Experiment, chunks: _Chunks, *, timeouts: bool) -> Iterator[Change]:
    yield from _of_compute(experiment)
    yield from _of_links(experiment)
    yield from _of_latency(experiment)
    collective = experiment.collective
    if not experiment.endpoint.has_own_window:
        twice = min(MOST_INFLIGHT, 2 * chunks.inflight)
        yield _relief("twice the chunks in flight", IN_FLIGHT, *chunks.settings(chunks.size, twice))
    if collective.inflight_per_dimension is not None:
        twice = min(MOST_INFLIGHT, 2 * collective.inflight_per_dimension)
        settings: list[tuple[str, Plain]] = [("collective.inflight_per_dimension", twice)]
        yield _relief("twice the chunks in flight along each dimension", IN_FLIGHT, *settings)
    yield from _of_endpoint(experiment)
    if timeouts:
        yield from _of_timeouts(experiment)
    if isinstance(experiment.network, EthernetNetwork) and (window := experiment.network.settled("window")):
        yield _relief("twice the window of connections", WINDOW, ("network.window", SIZE.format(2 * window)))


def _of_compute(experiment: Experiment) -> Iterator[Change]:
    if not isinstance(experiment.workload, CollectiveWorkload):
        half = experiment.training.compute_scale / 2
        yield _relief("compute twice as fast", COMPUTE, ("training.compute_scale", half))


def _of_links(experiment: Experiment) -> Iterator[Change]:
    topology = experiment.topology
    if isinstance(topology, Topology):
        dims = topology.dims
        used = [index for index, dim in enumerate(dims) if dim.size > 1]
        for index in used:
            faster = (*dims[:index], replace(dims[index], rate=2 * dims[index].rate), *dims[index + 1 :])
            name = topology.classes[index]
            yield _topology(f"twice the link rate of {name}", link(name), Topology(faster))
        if len(used) > 1:
            whole = Topology(tuple(replace(dim, rate=2 * dim.rate) for dim in dims))
            yield _topology("twice the rate of all links", ALL_LINKS, whole)
        if experiment.slow_links:
            yield _relief("no slow links", link("slow_links"), ("slow_links", []))
    elif topology.file is None:
        yield from _of_wired_links(topology, is_priced=experiment.endpoint.is_priced)


def _of_wired_links(topology: Wired, *, is_priced: bool) -> Iterator[Change]:
    name = str(topology)
    word = name.partition("(")[0]
    if word in MACHINES:
        cluster = notation.parse(name)
        if cluster.hosts > 1:
            label, doubled = "twice the rate of the NICs", replace(cluster, nic_rate=2 * cluster.nic)
            behind = f", behind PCIe of {hardware.gb(cluster.pcie_payload)}" if doubled.warnings else ""
            yield _topology(label + behind, link(NIC_LINKS), doubled)
            if behind and not is_priced:
                yield _topology(f"{label} and of PCIe", NICS_AND_PCIE, replace(doubled, pcie_rate=2 * cluster.pcie[0]))
            if cluster.oversubscription != 1:
                fairer = replace(cluster, oversubscription=Fraction(1))
                yield _topology("no oversubscription", link(NIC_LINKS), fairer)
        return
    rates = [match for match in _PARAMETER.finditer(name) if match[1].endswith("rate")]
    classes = CLASSES_OF_RATES.get(word, {})
    for match in rates:
        limit = link(classes[match[1]]) if match[1] in classes else ALL_LINKS
        faster = name[: match.start(2)] + RATE.format(2 * _quantity(RATE, match[2])) + name[match.end(2) :]
        yield _topology(f"twice the {match[1].replace('_', ' ')} of links", limit, faster)
    if len(rates) > 1:
        yield _topology("twice the rate of all links", ALL_LINKS, _scaled(name, "rate", RATE, 2, 1))


def _of_latency(experiment: Experiment) -> Iterator[Change]:
    settings: list[tuple[str, Plain]] = []
    topology = experiment.topology
    if isinstance(topology, Topology):
        dims = tuple(replace(dim, latency=dim.latency // 2) for dim in topology.dims)
        if dims != topology.dims:
            settings.append(("topology", str(Topology(dims))))
    elif topology.file is None:
        name = str(topology)
        if name.partition("(")[0] in MACHINES:
            cluster = notation.parse(name)
            slower = str(replace(cluster, latency=cluster.latency // 2)) if cluster.hosts > 1 else name
        else:
            slower = _scaled(name, "latency", TIME, 1, 2)
        if slower != name:
            settings.append(("topology", slower))
    for field in ("step_latency", "injection_latency"):
        if value := getattr(experiment.endpoint, field, None):
            settings.append((f"endpoint.{field}", TIME.format(max(1, value // 2))))
    if settings:
        yield _relief("half the latency", LATENCY, *settings)


_OF_ENDPOINTS: Final[Mapping[str, Sequence[tuple[str, str, str, Any, int]]]] = {
    "baseline": (
        ("twice the memory bandwidth for communication", MEMORY, "comm_memory_bandwidth", RATE, 2),
        ("twice the SMs for communication", SMS, "comm_sms", None, 2),
    ),
    "ace": (
        ("twice the memory bandwidth for communication", MEMORY, "comm_memory_bandwidth", RATE, 2),
        ("twice the SRAM", SRAM, "sram", SIZE, 2),
        ("twice the FSMs", FSMS, "fsms", None, 2),
    ),
    "switch-offload": (
        ("twice the memory bandwidth for communication", MEMORY, "comm_memory_bandwidth", RATE, 2),
        ("twice the memory of switches", SWITCHES, "switch_memory", SIZE, 2),
    ),
    "streams": (("twice the rate of reductions", COMMANDS, "reduce_rate", RATE, 2),),
}
"""What of an endpoint can be twice as much: label, limit, field, unit."""


def _of_endpoint(experiment: Experiment) -> Iterator[Change]:
    endpoint = experiment.endpoint
    each: dict[str, tuple[str, Plain]] = {}
    for label, limit, name, unit, factor in _OF_ENDPOINTS.get(endpoint.kind, ()):
        value = getattr(endpoint, name, None)
        if value:
            each[limit] = (f"endpoint.{name}", factor * value if unit is None else unit.format(factor * value))
            yield _relief(label, limit, each[limit])
    if MEMORY in each and SMS in each:
        label = "twice the memory bandwidth and SMs for communication"
        yield _relief(label, MEMORY_AND_SMS, each[MEMORY], each[SMS])
    if SRAM in each and FSMS in each:
        yield _relief("twice the SRAM and the FSMs", SRAM_AND_FSMS, each[SRAM], each[FSMS])
    if isinstance(endpoint, AceEndpoint):
        clock = FREQUENCY.format(2 * (endpoint.clock or experiment.npu.clock))
        yield _relief("twice the clock of the engine", ENGINE_CLOCK, ("endpoint.clock", clock))
    if endpoint.crosses_bus and endpoint.kind != "ideal":
        yield _relief("twice the bus", BUS, ("npu.bus", RATE.format(2 * experiment.npu.bus)))
    if endpoint.kind == "streams":
        names = ("copy_overhead", "kernel_overhead", "event_overhead")
        halves = [(f"endpoint.{n}", TIME.format(max(1, getattr(endpoint, n) // 2))) for n in names]
        yield _relief("half the time of commands", COMMANDS, *halves)


def _of_timeouts(experiment: Experiment) -> Iterator[Change]:
    network = experiment.network
    assert isinstance(network, EthernetNetwork), "no other network has timers"
    least = network.settled("min_rto")
    yield _relief("half the least time-out", TIMEOUTS, ("network.min_rto", TIME.format(max(1, least // 2))))
    yield _relief("twice the buffers of switches", TIMEOUTS, ("network.buffer", SIZE.format(2 * network.buffer)))


def _alternatives(experiment: Experiment, chunks: _Chunks) -> Iterator[Change]:
    collective = experiment.collective
    if not collective.plan:
        for name in choice.candidates(experiment):
            if name != collective.algorithm:
                yield Change(f"algorithm {name}", (("collective.algorithm", name),), "alternative")
    kinds = programs.kinds(experiment)
    relayed = collective.algorithm_of(EXCHANGE) != programs.DIRECT and experiment.plan_of(EXCHANGE) is None
    if EXCHANGE in kinds and len(kinds) > 1 and relayed:
        setting = (f"collective.algorithms.{EXCHANGE}", programs.DIRECT)
        yield Change(f"{EXCHANGE} {programs.DIRECT}", (setting,), "alternative")
    if collective.chunks is not None:
        yield Change("twice as many chunks", (("collective.chunks", 2 * collective.chunks),), "alternative")
        if collective.chunks > 1:
            yield Change("half as many chunks", (("collective.chunks", collective.chunks // 2),), "alternative")
    else:
        for label, size in (("twice the chunk size", 2 * chunks.size), ("half the chunk size", chunks.size // 2)):
            if size:
                yield Change(label, tuple(chunks.settings(size, chunks.inflight)), "alternative")
    if experiment.endpoint.kind != "ideal":
        yield Change("an ideal endpoint", (("endpoint", {"kind": "ideal"}),), "alternative")
    if experiment.endpoint.kind != "ace":
        engine: list[tuple[str, Plain]] = [("endpoint", {"kind": "ace", **AceEndpoint.PROFILE})]
        if collective.chunks is not None:  # an engine takes chunks of a size that fits its SRAM
            engine.append(("collective.chunk", SIZE.format(DEFAULT_CHUNK)))
        other: tuple[tuple[str, Plain], ...] = (("collective.algorithm", ALGORITHM),)
        yield Change("an engine (ACE)", tuple(engine), "alternative", instead=other)


def _topology(label: str, limit: str, topology: object) -> Change:
    return _relief(label, limit, ("topology", str(topology)))


def _scaled(name: str, suffix: str, unit: Any, factor: int, divisor: int) -> str:
    """A network's text with all parameters of a suffix scaled."""

    def scaled(match: re.Match[str]) -> str:
        if not match[1].endswith(suffix):
            return match[0]
        return f"{match[1]}={unit.format(factor * _quantity(unit, match[2]) // divisor)}"

    return _PARAMETER.sub(scaled, name)


def _quantity(unit: Any, text: str) -> int:
    read = quantities.rate if unit is RATE else lambda given: quantities.time(given, zero=True)
    return int(read(text.strip()))
