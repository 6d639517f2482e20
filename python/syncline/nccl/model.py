"""How long a collective takes, from the wires, the software's constants and the size.

    T = launch + latency + wire

*latency* is the number of steps on the longest path times what a step takes with the protocol (LL, LL128 or Simple)
over NVLink or the network; *wire* is the bytes of the busiest link over what the protocol reaches of its rate
(`wire.py`). LL128 and Simple take a base more than LL, whatever the steps; LL adds `ramp` for every doubling of
the message. Trees reach a share of their rate that depends on the size, and NVLS trees no more than their
channels carry (`tuning.py`; both published).

*Direct collectives* of several nodes exchange messages with all peers at the same time, so that their latency is the
longer one of the steps within the node and of one step of the network and the posting of all messages (`wire.py`,
`tuning.POSTING`). No measured table says how far that is right: it follows from how NCCL works.

*NVLS* is a pipeline, within a node and over trees: until all of its stages are busy, it takes the time of some rounds
of chunks, whose sizes NCCL's rules give (`chunks.py`). For trees without NVLS, NCCL's published factors of their rates
have that in them; with more than two nodes they carry no more than NCCL's channels do. Rings have no such part: every
GPU sends in every step.

*Protocols* are joined by a smooth minimum, (sum T^-p)^(-1/p) with p = 8, since the change from one to the next is
gradual (NCCL first changes how many threads and channels it uses). The fitted constants know of that: the join lies
below each of its parts by 8 % where two are equal, but never below what the wires take.

*Algorithms.* Which one it is, NCCL decides by an estimate of its own, which depends on its version and on what the
plugin of a network tells it. Between nodes, and for all-gather and reduce-scatter, that estimate is followed
(`tuning.py`): the time is the geometric mean of those of all algorithms, each with the weight (its estimate)^-p with
p = 12, so that the one that NCCL takes decides, and two that it finds nearly equal count equally; versions of NCCL
differ in where they switch. Of all-reduces within a node the fastest is taken, for each protocol.

*The network's share* is `efficiency_network` between two nodes, whose flows have the switches to themselves
(`efficiency_single` with a single NIC per node), and with more nodes `efficiency_spread` of that: flows share links by
chance (ECMP), and every NIC waits for the slowest. No NIC carries more than its PCIe link.

Left out: the number of channels and threads as such, the granularity of chunks (measured tables jump by 10 % where
it changes), CollNet/SHARP, other traffic, slow GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from syncline.base.errors import command_line, one_of
from syncline.nccl import chunks, mesh_exchange, networks, tuning, wire
from syncline.nccl.constants import (
    LIMITS,
    ONE_PASS,
    PAYLOAD,
    PROTOCOLS,
    TREE_EFFICIENCY,
    Constants,
    Software,
    names,
)
from syncline.nccl.platform import Platform

SHARPNESS: Final = 8
CHOICE_SHARPNESS: Final = 12
CHOICE_SHARPNESS_WITHIN: Final = 48
"""The same within a node, whose estimates are of nothing but NVLinks."""
ANCHOR_SIZE: Final = 8
"""The size that a small-size time is taken to be of, unless said otherwise."""
WIRE_SPREAD: Final = 0.03
"""How far the rates that systems of a class reach stray: standard deviation of the logarithm."""
UNMEASURED: Final = frozenset({"gather", "scatter", "sendrecv"})
"""Kinds that no table of this package is of."""
NINETY_PERCENT: Final = 1.645
"""Standard deviations on each side of the mean that nine of ten lie between."""
ANCHORED_SPREAD: Final = 0.15
"""What remains of the spread of latencies once one small-size time is known."""


@dataclass(frozen=True, slots=True)
class _Task:
    """What one algorithm has to do."""

    platform: Platform
    kind: str
    algorithm: str
    size: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a collective, and its time in parts (seconds)."""

    algorithm: str
    protocol: str
    launch: float
    latency: float
    wire: float
    time: float
    estimate: float
    """What NCCL expects of its algorithm, by which that is chosen; the time itself where the fastest is taken."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The time of one size, in seconds."""

    size: int
    time: float
    low: float
    """Nine of ten systems of the class lie above this..."""
    high: float
    """... and below this, as far as their spread is known."""
    algorithm: str
    """What has the largest part in it."""
    protocol: str
    assumed: bool = False
    """Whether the interval is the range of assumed figures, as no table of the network was there to fit."""

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes per second: size over time."""
        return self.size / self.time


@dataclass(frozen=True, slots=True)
class Model:
    """The time model of a machine with a set of constants."""

    platform: Platform
    software: Software
    kind: str = "all-reduce"
    algorithm: str = "auto"
    """`auto`, or the only one to consider: ring, tree or nvls (nvls-tree between nodes)."""
    calibrated: bool = False
    """Whether the constants are those of this very system."""
    anchored: bool = False

    def candidates(self, size: int) -> list[Candidate]:
        """Every way to run it, the algorithm that NCCL takes first, and of each the fastest protocol."""
        found = _candidates(self.platform, self.software.constants, self.kind, self.algorithm, size)
        return sorted(found, key=lambda c: (c.estimate, c.time))

    def time(self, size: int) -> float:
        """Seconds."""
        found = time(self.platform, self.software.constants, self.kind, self.algorithm, size)
        measured = self.software.measured
        return measured.time(size, found) if measured is not None and self.is_measured else found

    @property
    def is_measured(self) -> bool:
        """Whether the constants come with a table of this very collective, of as many GPUs and nodes."""
        table, where = self.software.measured, self.platform
        return table is not None and (table.machine, table.kind, table.algorithm, table.gpus, table.nodes) == (
            *(where.machine, self.kind, self.algorithm, where.gpus, where.nodes),
        )

    def predict(self, size: int) -> Prediction:
        """The time with its interval."""
        best = self.candidates(size)[0]
        middle = self.time(size)
        share = best.wire / (best.launch + best.latency + best.wire)
        spread = ANCHORED_SPREAD if self.anchored or self.calibrated else self.software.launch_spread
        deviation = math.hypot(spread * (1 - share), WIRE_SPREAD * share)
        factor = math.exp(NINETY_PERCENT * deviation)
        low, high = middle / factor, middle * factor
        ends = None if self.calibrated else networks.ends(self.platform, self.software.constants)
        if ends is not None:
            fastest, slowest = (time(self.platform, end, self.kind, self.algorithm, size) for end in ends)
            low, high = min(low, fastest), max(high, slowest)
        return Prediction(size, middle, low, high, best.algorithm, best.protocol, assumed=ends is not None)

    def at_small_size(self, small_time: float, size: int = ANCHOR_SIZE) -> Model:
        """The model with which `size` takes `small_time` seconds: with another launch, or between nodes with another
        latency of the network, since the launch is the node's.

        Raises [`ValueError`] if the steps alone take longer than that, or no latency explains the time.
        """
        name = "network_latency_scale" if self.platform.nodes > 1 else "launch"
        low, high = LIMITS[name]

        def with_value(value: float) -> Constants:
            return self.software.constants.changed({name: value})

        def reached(value: float) -> float:
            return time(self.platform, with_value(value), self.kind, self.algorithm, size)

        if not reached(low) <= small_time <= reached(high):
            least, most = reached(low) * 1e6, reached(high) * 1e6
            raise ValueError(f"{size} bytes take {least:.1f} us to {most:.1f} us, whatever the {name}")
        for _ in range(60):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if reached(middle) < small_time else (low, middle)
        software = replace(self.software, constants=with_value(high), measured=None)
        return replace(self, software=software, anchored=True)


def open_model(
    platform: Platform,
    *,
    kind: str = "all-reduce",
    algorithm: str = "auto",
    software: str | None = None,
    small_size_time: float | None = None,
) -> Model:
    """The model of a platform with the constants of its class, or of `software`: a class or a file of `calibrate`.

    `small_size_time` is the time of 8 bytes on the very system, in seconds, if it is known. Raises
    [`InputError`] if the file is wrong, the algorithm is not there or nothing explains that time.
    """
    named = networks.software_of(platform, software)
    platform = networks.as_measured(platform, named)
    if platform.gpus > 1 and not algorithms(platform, kind, algorithm):
        offered = one_of(("auto", *algorithms(platform, kind)))
        raise command_line("--algorithm", algorithm, f"{platform} does not run {kind} with it", offered)
    calibrated = software is not None and software not in names()
    model = Model(platform, named, kind, algorithm, calibrated)
    if small_size_time is None:
        return model
    try:
        return model.at_small_size(small_size_time)
    except ValueError as error:
        shown = f"{small_size_time * 1e6:g}us"
        raise command_line("--small-size-time", shown, f"this cannot be: {error}", "a time in that range") from None


def time(platform: Platform, constants: Constants, kind: str, algorithm: str, size: int) -> float:
    """Seconds of a collective of `size` bytes as nccl-tests counts them."""
    found = _candidates(platform, constants, kind, algorithm, size)
    if platform.nodes > 1 or kind != "all-reduce":
        ways = [[c for c in found if c.algorithm == name] for name in dict.fromkeys(c.algorithm for c in found)]
        sharpness = CHOICE_SHARPNESS if platform.nodes > 1 else CHOICE_SHARPNESS_WITHIN
        return chosen([way[0].estimate for way in ways], [_joined(constants.launch, way) for way in ways], sharpness)
    fastest: dict[str, Candidate] = {}
    for candidate in sorted(found, key=lambda c: c.time):
        fastest.setdefault(candidate.protocol, candidate)
    return _joined(constants.launch, list(fastest.values()))


def _joined(launch: float, protocols: Sequence[Candidate]) -> float:
    """The smooth minimum, but no less than the launch and what the wires take."""
    return max(smooth_minimum([c.time for c in protocols]), launch + min(c.wire for c in protocols))


def chosen(estimates: Sequence[float], times: Sequence[float], sharpness: int = CHOICE_SHARPNESS) -> float:
    """The geometric mean of the times, each with the weight (its estimate)^-p."""
    least = min(estimates)
    weights = [(least / estimate) ** sharpness for estimate in estimates]
    logarithm = math.fsum(w * math.log(t) for w, t in zip(weights, times, strict=True)) / math.fsum(weights)
    return math.exp(logarithm)


def smooth_minimum(times: Sequence[float]) -> float:
    """(sum T^-p)^(-1/p), which is close to the smallest."""
    least = min(times)
    return least / math.pow(math.fsum((least / t) ** SHARPNESS for t in times), 1 / SHARPNESS)


def algorithms(platform: Platform, kind: str, algorithm: str = "auto") -> tuple[str, ...]:
    """The algorithms that are considered."""
    if kind in ("all-to-all", "gather", "scatter", "sendrecv"):
        return (wire.DIRECT,)
    if kind != "all-reduce":
        return (wire.RING, wire.NVLS) if _gathers_by_nvls(platform, kind) else (wire.RING,)
    several = platform.nodes > 1
    usable = networks.of(platform).algorithms
    known = [wire.RING]
    if several and wire.TREE in usable:
        known.append(wire.TREE)
    # NCCL leaves NVLS out for two GPUs.
    nvls = platform.nvls and platform.nccl >= tuning.NVLS_SINCE
    if nvls and platform.gpus_per_node > 2 and (not several or wire.NVLS_TREE in usable):
        known.append(wire.NVLS_TREE if several else wire.NVLS)
    if algorithm == "auto":
        return tuple(known)
    asked = wire.NVLS_TREE if algorithm == wire.NVLS and several else algorithm
    return (asked,) if asked in known else ()


def _gathers_by_nvls(platform: Platform, kind: str) -> bool:
    """Whether NVLS is considered for an all-gather or a reduce-scatter."""
    able = platform.nvls and platform.nodes == 1 and 2 < platform.gpus <= tuning.MOST_NVLS_GPUS
    known = tuning.NVLS_SINCE <= platform.nccl < tuning.MEASURED_NVLS_TREES
    return able and known and kind in ("all-gather", "reduce-scatter")


def extrapolated(kinds: Iterable[str], nodes: int) -> list[str]:
    """What times of direct collectives between nodes rest on, of which there is no measured table."""
    direct = [kind for kind in kinds if kind in ("all-to-all", "gather", "scatter")]
    if nodes == 1 or not direct:
        return []
    posting = f"{tuning.POSTING * 1e6:g}us"
    return [
        f"latency of {' and '.join(direct)} between servers: messages to all GPUs of others are under way at once, and "
        f"a CPU posts one in {posting}; from how NCCL works, as no table of several servers was there to fit"
    ]


def _candidates(platform: Platform, constants: Constants, kind: str, algorithm: str, size: int) -> list[Candidate]:
    if platform.gpus == 1:
        return [Candidate("copy", "Simple", constants.launch, 0.0, 0.0, constants.launch, constants.launch)]
    found: list[Candidate] = []
    for name in algorithms(platform, kind, algorithm):
        task = _Task(platform, kind, name, size)
        protocols: tuple[str, ...] = PROTOCOLS if name in (wire.RING, wire.TREE) else ("Simple",)
        if platform.nodes > 1:
            protocols = tuple(p for p in protocols if p in networks.of(platform).protocols)
        if platform.nccl < tuning.LL128_SINCE:
            protocols = tuple(p for p in protocols if p != "LL128")
        expected = None
        if (platform.nodes > 1 or kind in ("all-gather", "reduce-scatter")) and name != wire.DIRECT:
            expected = min(_estimate(task, protocol) for protocol in protocols)
        found += [_candidate(task, constants, protocol, expected) for protocol in protocols]
    if not found:
        raise ValueError(f"{platform} has no algorithm '{algorithm}' for {kind}")
    return found


@lru_cache(maxsize=8192)
def _wire(task: _Task) -> wire.Wire:
    gpus, nodes, size = task.platform.gpus, task.platform.nodes, task.size
    if task.algorithm == wire.RING:
        found = wire.ring(task.kind, gpus, nodes, size)
        # Over PCIe, what enters and leaves a node takes the same links as what stays.
        return replace(found, nvlink_bytes=found.nic_bytes) if task.platform.on_pcie and nodes > 1 else found
    if task.algorithm == wire.TREE:
        return wire.tree(gpus, nodes, size)
    if task.algorithm == wire.NVLS:
        return wire.nvls(task.kind, gpus, size)
    if task.algorithm == wire.NVLS_TREE:
        return wire.nvls_tree(gpus, nodes, size)
    if task.kind == "sendrecv":
        found = wire.sendrecv(nodes, task.platform.nic_groups, size)
    elif task.kind in ("gather", "scatter"):
        found = wire.rooted(gpus, nodes, task.platform.nic_groups, size)
    else:
        found = wire.direct(gpus, nodes, size)
    return (
        found
        if task.platform.switched
        else replace(found, nvlink_bytes=mesh_exchange.direct(task.platform, task.kind, size))
    )


@lru_cache(maxsize=16384)
def _estimate(task: _Task, protocol: str) -> float:
    return tuning.estimate(task.platform, task.kind, task.algorithm, protocol, task.size)


def _candidate(task: _Task, constants: Constants, protocol: str, expected: float | None) -> Candidate:
    platform, on_wire = task.platform, _wire(task)
    launch = constants.launch
    direct = task.algorithm == wire.DIRECT
    steps = tuning.NVLINK_STEPS[wire.RING if direct else task.algorithm]
    if task.algorithm in (wire.NVLS, wire.NVLS_TREE):
        latency = constants.nvls_latency * on_wire.steps_intra / 2
    else:
        latency = on_wire.steps_intra * steps[protocol]
        if protocol == "LL":
            launch += constants.ramp * math.log2(1 + task.size / (8 * platform.gpus))
        else:
            launch += constants.base_ll128 if protocol == "LL128" else constants.base_simple
    step = tuning.NETWORK_STEPS[wire.RING if direct else task.algorithm][protocol]
    step = step * constants.network_latency_scale + constants.network_delay
    between = on_wire.steps_inter * step + on_wire.posted * tuning.POSTING
    latency = max(latency, between) if direct else latency + between
    nvlink = platform.nvlink_rate * _efficiency(constants, task, protocol)
    wire_time = on_wire.seconds(nvlink, _network(platform, constants, protocol))
    if task.algorithm == wire.TREE:
        if platform.nodes > 2:
            wire_time = max(wire_time, 2 * task.size / tuning.tree_rate(platform, protocol))
        wire_time /= tuning.tree_factor(protocol, task.size)
    elif task.algorithm == wire.NVLS_TREE:
        wire_time = max(wire_time, task.size / tuning.nvls_tree_rate(platform))
        latency += _fill(task, nvlink, _network(platform, constants, protocol), wire_time)
    elif task.algorithm == wire.NVLS:
        latency += on_wire.steps_intra * wire_time * chunks.loop(platform, task.size) / max(task.size, 1)
    total = launch + latency + wire_time
    estimate = total if expected is None else expected
    return Candidate(task.algorithm, protocol, launch, latency, wire_time, total, estimate)


def _fill(task: _Task, nvlink: float, network: float, wire_time: float) -> float:
    """Seconds until the pipeline of an NVLS tree is full (`chunks.py`)."""
    if task.size == 0:
        return 0.0
    on_wire = _wire(task)
    within = float(on_wire.nvlink_bytes) / nvlink
    between = task.size / network
    part = chunks.loop(task.platform, task.size) / task.size
    return max(0.0, part * (2 * within + on_wire.steps_inter * between - wire_time))


def _network(platform: Platform, constants: Constants, protocol: str) -> float:
    """Bytes per second that the NICs of a node carry."""
    share = constants.efficiency_single if platform.single_nic else constants.efficiency_network
    if platform.nodes > 2:
        share *= constants.efficiency_spread
    rate = PAYLOAD[protocol] * min(platform.node_nic_rate * share, platform.nic_groups * platform.pcie_rate)
    return min(rate, tuning.LL_RATES[min(platform.nodes, 3) - 1]) if protocol == "LL" else rate


def _efficiency(constants: Constants, task: _Task, protocol: str) -> float:
    """The share of the NVLink rate that data reaches."""
    if task.algorithm in (wire.NVLS, wire.NVLS_TREE):
        return constants.efficiency_nvls
    share = {
        "LL": constants.efficiency_ll,
        "LL128": constants.efficiency_ll128,
        "Simple": constants.efficiency_simple,
    }[protocol]
    if task.algorithm == wire.TREE:
        return share * TREE_EFFICIENCY
    one_pass = task.kind != "all-reduce" if protocol == "LL" else task.kind in ("all-gather", "reduce-scatter")
    return share * ONE_PASS if protocol != "Simple" and one_pass else share
