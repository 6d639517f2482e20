"""How long a collective takes, from the wires, the software's constants and the size.

    T = launch + latency + wire                     within a node
    T = launch + sqrt(latency^2 + wire^2)           between nodes

*latency* is the number of steps on the longest path times what a step takes with the protocol (LL, LL128 or Simple)
over NVLink or the network; *wire* is the bytes of the busiest link over what the protocol reaches of its rate
(`wire.py`). LL128 and Simple take a base more than LL, whatever the steps; LL adds `ramp` for every doubling of
the message. Within a node the threads that move the data also wait for its flags, so latency and wire add; between
nodes a proxy sends one chunk while the next is reduced, so the longer hides most of the shorter.

NCCL chooses algorithm and protocol by its own estimate. Here an algorithm is the fastest of those that the machine
has, for each protocol; the protocols are joined by a smooth minimum, (sum T^-p)^(-1/p) with p = 8, since the change
from one to the next is gradual (NCCL first changes how many threads and channels it uses). The fitted constants
know of that: the join lies below each of its parts by 8 % where two are equal.

Left out: the number of channels and threads as such, the granularity of chunks (measured tables jump by 10 % where
it changes), contention between rings and NICs, CollNet/SHARP, PCIe, other traffic, slow GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from syncline.errors import command_line, one_of
from syncline.software import wire
from syncline.software.constants import (
    LIMITS,
    LL_NETWORK_RATES,
    NETWORK_STEPS_S,
    ONE_PASS_LL,
    PAYLOAD,
    PROTOCOLS,
    STEP_TREE_SIMPLE_S,
    STEPS_S,
    TREE_EFFICIENCY,
    Constants,
    Software,
    load,
    names,
)
from syncline.software.platform import Platform

SHARPNESS: Final = 8
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
        """Every way to run it, the fastest first."""
        found = _candidates(self.platform, self.software.constants, self.kind, self.algorithm, size)
        return sorted(found, key=lambda c: c.time)

    def time(self, size: int) -> float:
        """Seconds."""
        return time(self.platform, self.software.constants, self.kind, self.algorithm, size)

    def predict(self, size: int) -> Prediction:
        """The time with its interval."""
        best = self.candidates(size)[0]
        middle = self.time(size)
        share = best.wire / (best.launch + best.latency + best.wire)
        spread = ANCHORED_SPREAD if self.anchored or self.calibrated else self.software.launch_spread
        deviation = math.hypot(spread * (1 - share), WIRE_SPREAD * share)
        factor = math.exp(NINETY_PERCENT * deviation)
        return Prediction(size, middle, middle / factor, middle * factor, best.algorithm, best.protocol)

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
        software = replace(self.software, constants=with_value(high))
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
    named = load(platform.software if software is None else software)
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
    fastest: dict[str, float] = {}
    for candidate in _candidates(platform, constants, kind, algorithm, size):
        known = fastest.get(candidate.protocol)
        fastest[candidate.protocol] = candidate.time if known is None else min(known, candidate.time)
    return smooth_minimum(tuple(fastest.values()))


def smooth_minimum(times: Sequence[float]) -> float:
    """(sum T^-p)^(-1/p), which is close to the smallest."""
    least = min(times)
    return least / math.pow(math.fsum((least / t) ** SHARPNESS for t in times), 1 / SHARPNESS)


def algorithms(platform: Platform, kind: str, algorithm: str = "auto") -> tuple[str, ...]:
    """The algorithms that are considered."""
    if kind in ("all-to-all", "gather", "scatter", "sendrecv"):
        return (wire.DIRECT,)
    if kind != "all-reduce":
        return (wire.RING,)
    several = platform.nodes > 1
    known = [wire.RING]
    if several:
        known.append(wire.TREE)
    if platform.nvls and platform.gpus_per_node > 2:  # NCCL leaves NVLS out for two GPUs
        known.append(wire.NVLS_TREE if several else wire.NVLS)
    if algorithm == "auto":
        return tuple(known)
    asked = wire.NVLS_TREE if algorithm == wire.NVLS and several else algorithm
    return (asked,) if asked in known else ()


def _candidates(platform: Platform, constants: Constants, kind: str, algorithm: str, size: int) -> list[Candidate]:
    if platform.gpus == 1:
        return [Candidate("copy", "Simple", constants.launch, 0.0, 0.0, constants.launch)]
    found: list[Candidate] = []
    for name in algorithms(platform, kind, algorithm):
        task = _Task(platform, kind, name, size)
        protocols = PROTOCOLS if name in (wire.RING, wire.TREE) else ("Simple",)
        found += [_candidate(task, constants, protocol) for protocol in protocols]
    if not found:
        raise ValueError(f"{platform} has no algorithm '{algorithm}' for {kind}")
    return found


@lru_cache(maxsize=8192)
def _wire(task: _Task) -> wire.Wire:
    gpus, nodes, size = task.platform.gpus, task.platform.nodes, task.size
    if task.algorithm == wire.RING:
        return wire.ring(task.kind, gpus, nodes, size)
    if task.algorithm == wire.TREE:
        return wire.tree(gpus, nodes, size)
    if task.algorithm == wire.NVLS:
        return wire.nvls(gpus, size)
    if task.algorithm == wire.NVLS_TREE:
        return wire.nvls_tree(gpus, nodes, size)
    if task.kind == "sendrecv":
        return wire.sendrecv(nodes, task.platform.nics, size)
    if task.kind in ("gather", "scatter"):
        return wire.rooted(gpus, nodes, task.platform.nics, size)
    return wire.direct(gpus, nodes, size)


def _candidate(task: _Task, constants: Constants, protocol: str) -> Candidate:
    platform, on_wire = task.platform, _wire(task)
    in_switch = task.algorithm in (wire.NVLS, wire.NVLS_TREE)
    launch = constants.launch
    latency = on_wire.steps_intra * STEPS_S[protocol]
    if in_switch:
        latency = constants.nvls_latency
    elif protocol == "LL":
        launch += constants.ramp * math.log2(1 + task.size / (8 * platform.gpus))
    elif protocol == "LL128":
        launch += constants.base_ll128
    else:
        launch += constants.base_simple
        if task.algorithm == wire.TREE:
            latency = on_wire.steps_intra * STEP_TREE_SIMPLE_S
    steps = NETWORK_STEPS_S["tree" if task.algorithm in (wire.TREE, wire.NVLS_TREE) else "ring"]
    latency += on_wire.steps_inter * steps[protocol] * constants.network_latency_scale
    network = platform.node_nic_rate * constants.efficiency_network * PAYLOAD[protocol]
    if protocol == "LL":
        network = min(network, LL_NETWORK_RATES[0 if platform.nodes == 2 else 1])
    nvlink = platform.nvlink_rate * _efficiency(constants, task, protocol)
    wire_time = on_wire.seconds(nvlink, network)
    both = math.hypot(latency, wire_time) if platform.nodes > 1 else latency + wire_time
    return Candidate(task.algorithm, protocol, launch, latency, wire_time, launch + both)


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
    return share * ONE_PASS_LL if protocol == "LL" and task.kind != "all-reduce" else share
