"""Networks of switches as text: `LeafSpine(leaves=4, hosts=8, spines=4)`, `FatTree(k=16)`, `SuperNodes(groups=16)`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, TypeVar

from syncline.base import quantities
from syncline.base.errors import did_you_mean, one_of
from syncline.base.quantities import QuantityError
from syncline.fabric import notation, topology
from syncline.fabric.scale_out import MOST_LINKS, Buffer, FatTree, LeafSpine, ScaleOut, SuperNodes
from syncline.fabric.topology import TopologyError

GB: Final = 10**9
SCALE_OUT_RATE: Final = 12_500_000_000
SCALE_UP_RATE: Final = 150 * GB
SUPER_NODES: Final = (16, 8)
"""Links of super-nodes, and how many there are of how many NPUs: Table III of the HOTI 2020 study."""
MAX_COUNT: Final = 2**16
MAX_K: Final = 34
"""The largest fat tree that has no more than `MOST_LINKS` links."""
MAX_LENGTH: Final = 512

ACCEPTED: Final = (
    "LeafSpine(leaves=4, hosts=8, spines=4, rate=400Gb/s, oversubscription=2), FatTree(k=16, rate=400Gb/s) or "
    "SuperNodes(groups=16, size=8)"
)

T = TypeVar("T")
Network = TypeVar("Network", bound=ScaleOut)

_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_NETWORK = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\(([^()]*)\)\s*)?", re.ASCII)


def parse(text: str) -> ScaleOut:
    """Reads a network of switches. Raises [`TopologyError`]."""
    if len(text) > MAX_LENGTH:
        raise TopologyError(f"the topology is longer than {MAX_LENGTH} characters", ACCEPTED)
    match = _NETWORK.match(text)
    if match is None:
        raise TopologyError("this is not a topology", ACCEPTED)
    name = match[1]
    if name not in NETWORKS:
        raise TopologyError(f"'{name}' is not a topology{did_you_mean(name, NETWORKS)}", ACCEPTED)
    if match.end() < len(text):
        joined = text[match.end()] == "_"
        wrong = f"{name} is a whole topology: no block is joined to it" if joined else f"this is not a {name}"
        raise TopologyError(wrong, ACCEPTED)
    network = NETWORKS[name](_Arguments(name, match[2] or ""))
    if network.links > MOST_LINKS:
        message = f"in {name}: this has {network.links:,} links, each direction counted"
        raise TopologyError(message, f"up to {MOST_LINKS:,} of them")
    if int(network.rate * network.efficiency) < 1:
        raise TopologyError(f"in {name}: rate times efficiency is less than one byte per second", "a higher rate")
    return network


class _Arguments:
    """What is written between the parentheses."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.given: dict[str, str] = {}
        self.filled_in: list[str] = []
        known = PARAMETERS[name]
        for argument in text.split(",") if text.strip() else ():
            key, equals, value = (part.strip() for part in argument.partition("="))
            if key not in known:
                message = f"in {name}: '{key}' is not a parameter{did_you_mean(key, known)}"
                raise TopologyError(message, f"the parameters {one_of(known)}")
            if not equals or not value:
                raise TopologyError(f"in {name}: {key} has no value", f"{key}=VALUE")
            if key in self.given:
                raise TopologyError(f"in {name}: {key} is given twice", f"{key} once")
            self.given[key] = value

    def value(self, key: str, read: Callable[[str], T], default: T, shown: Callable[[Any], str] | None = None) -> T:
        """A parameter; its default is shown among the assumptions, if it can be."""
        if key not in self.given:
            if shown is not None:
                self.filled_in.append(f"{key}={shown(default)}")
            return default
        try:
            return read(self.given[key])
        except QuantityError as error:
            raise self.refused(key, error.message, error.accepted) from None

    def count(self, key: str, default: int | None = None, read: Callable[[str], int] | None = None) -> int:
        """A number of things."""
        if key not in self.given and default is None:
            raise TopologyError(f"in {self.name}: {key} is missing", f"{key}=NUMBER, as in {EXAMPLES[self.name]}")
        return self.value(key, read or whole, default or 0, str)

    def rate(self, key: str, default: int) -> int:
        """Bytes per second."""
        return self.value(key, quantities.rate, default, quantities.RATE.format)

    def latency(self, key: str, default: int = topology.DEFAULT_LATENCY) -> int:
        """Picoseconds."""
        return self.value(key, lambda text: quantities.time(text, zero=True), default, quantities.TIME.format)

    def efficiency(self) -> Fraction:
        """The share of payload."""
        return self.value("efficiency", quantities.share, Fraction(1), quantities.format_share)

    def buffers(self, ports: dict[str, int]) -> dict[str, Buffer]:
        """The buffers of switches by kind; the parts of those that are divided among ports hold something."""
        found: dict[str, Buffer] = {}
        for kind in dict.fromkeys(("", *ports)):
            prefix = f"{kind}_" if kind else ""
            each, whole_switch = f"{prefix}buffer", f"{prefix}switch_buffer"
            if each in self.given and whole_switch in self.given:
                message = f"in {self.name}: {each} and {whole_switch} both state the buffer of the same switches"
                raise TopologyError(message, f"{each}, of every port, or {whole_switch}, of a whole switch")
            for key, is_whole in ((each, False), (whole_switch, True)):
                if key not in self.given:
                    continue
                found[kind] = Buffer(self.value(key, quantities.size, 0), is_whole)
                most = max(number for other, number in ports.items() if kind in ("", other))
                if found[kind].of_port(most) < 1:
                    raise self.refused(key, f"this leaves each of {most} ports less than a byte", "a larger buffer")
        return found

    def refused(self, key: str, message: str, accepted: str) -> TopologyError:
        """What is wrong with a parameter that is given."""
        return TopologyError(f"in {self.name}: {key}={self.given[key]}: {message}", accepted)

    def said(self) -> tuple[str, ...]:
        """What was filled in, as an assumption."""
        return (f"{', '.join(self.filled_in)} (default)",) if self.filled_in else ()


def whole(text: str) -> int:
    """A whole number. Raises [`QuantityError`]."""
    if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= MAX_COUNT:
        raise QuantityError("this is not a whole number in the accepted range", f"a whole number from 1 to {MAX_COUNT}")
    return int(text)


def _even(text: str) -> int:
    """The number of ports of a switch, half of which lead up."""
    if not _WHOLE.fullmatch(text) or not 2 <= int(text) <= MAX_K or int(text) % 2:
        raise QuantityError("this is not an even number in the accepted range", f"an even number from 2 to {MAX_K}")
    return int(text)


def _leaf_spine(arguments: _Arguments) -> LeafSpine:
    leaves, hosts, spines = (arguments.count(key) for key in ("leaves", "hosts", "spines"))
    rate = arguments.rate("rate", topology.DEFAULT_RATE)
    over = arguments.value("oversubscription", notation.oversubscription, None)
    derived = int(Fraction(hosts * rate, spines) / (over or 1))
    uplink_rate = arguments.value("uplink_rate", quantities.rate, derived)
    if over is not None and uplink_rate != derived:
        ratio = Fraction(hosts * rate, spines * uplink_rate)
        message = f"in LeafSpine: uplink_rate={arguments.given['uplink_rate']} makes an oversubscription of "
        message += f"{float(ratio):.4g}, not {arguments.given['oversubscription']}"
        raise TopologyError(message, "either uplink_rate or oversubscription = hosts * rate / (spines * uplink_rate)")
    latency, efficiency = arguments.latency("latency"), arguments.efficiency()
    if int(uplink_rate * efficiency) < 1 or uplink_rate > quantities.LARGEST:
        message = f"in LeafSpine: a link between leaf and spine would carry {uplink_rate} B/s"
        raise TopologyError(message, "a rate such as 400Gb/s")
    said = arguments.said()
    if "uplink_rate" not in arguments.given:
        stated = "1 by default" if over is None else arguments.given["oversubscription"]
        said = (*said, f"uplink_rate={quantities.RATE.format(uplink_rate)} (oversubscription={stated})")
    network = LeafSpine(
        leaves=leaves,
        hosts=hosts,
        spines=spines,
        rate=rate,
        uplink_rate=uplink_rate,
        latency=latency,
        efficiency=efficiency,
        filled_in=said,
    )
    return _buffered(network, arguments)


def _fat_tree(arguments: _Arguments) -> FatTree:
    k = arguments.count("k", read=_even)
    over = arguments.value("oversubscription", notation.oversubscription, Fraction(1))
    if (k // 2 * over).denominator != 1:
        message = f"an edge switch would have {k // 2} x {float(over):.4g} NPUs, which is not a whole number"
        raise arguments.refused("oversubscription", message, f"a ratio whose product with k/2 = {k // 2} is whole")
    network = FatTree(
        k=k,
        oversubscription=over,
        rate=arguments.rate("rate", topology.DEFAULT_RATE),
        latency=arguments.latency("latency"),
        efficiency=arguments.efficiency(),
        filled_in=arguments.said(),
    )
    return _buffered(network, arguments)


def _super_nodes(arguments: _Arguments) -> SuperNodes:
    groups, size = (arguments.count(key, number) for key, number in zip(("groups", "size"), SUPER_NODES, strict=True))
    local = ("switches", *(key for key in PARAMETERS["SuperNodes"] if key.startswith("local_")))
    idle = [key for key in local if key in arguments.given]
    if size == 1 and idle:
        message = f"in SuperNodes: {idle[0]} has no meaning for super-nodes of size 1, without local switches"
        raise TopologyError(message, f"no {idle[0]}, or size=2 or more")
    switches = arguments.count("switches", size - 1) if size > 1 else 0
    local_rate = arguments.rate("local_rate", SCALE_UP_RATE) if size > 1 else SCALE_UP_RATE
    local_latency = arguments.latency("local_latency") if size > 1 else topology.DEFAULT_LATENCY
    network = SuperNodes(
        groups=groups,
        size=size,
        switches=switches,
        local_rate=local_rate,
        local_latency=local_latency,
        rate=arguments.rate("rate", SCALE_OUT_RATE),
        latency=arguments.latency("latency"),
        efficiency=arguments.efficiency(),
        filled_in=arguments.said(),
    )
    if switches and int(network.link_rate * network.efficiency) < 1:
        message = f"in SuperNodes: each of {switches} links to local switches would carry less than one byte per second"
        raise TopologyError(message, "a higher local_rate")
    return _buffered(network, arguments)


def _buffered(network: Network, arguments: _Arguments) -> Network:
    """The network with the buffers of its switches."""
    return replace(network, buffers=arguments.buffers(network.ports))


def _buffer_parameters(*kinds: str) -> tuple[str, ...]:
    return tuple(f"{kind}_{name}" if kind else name for kind in kinds for name in ("buffer", "switch_buffer"))


NETWORKS: Final[MappingProxyType[str, Callable[[_Arguments], ScaleOut]]] = MappingProxyType(
    {"LeafSpine": _leaf_spine, "FatTree": _fat_tree, "SuperNodes": _super_nodes}
)
"""What reads the networks, by name."""
PARAMETERS: Final = MappingProxyType(
    {
        "LeafSpine": (
            *("leaves", "hosts", "spines", "rate", "uplink_rate", "oversubscription", "latency", "efficiency"),
            *_buffer_parameters("", *LeafSpine.KINDS),
        ),
        "FatTree": (
            *("k", "oversubscription", "rate", "latency", "efficiency"),
            *_buffer_parameters("", *FatTree.KINDS),
        ),
        "SuperNodes": (
            *("groups", "size", "switches", "local_rate", "local_latency", "rate", "latency", "efficiency"),
            *_buffer_parameters("", "local"),
        ),
    }
)
EXAMPLES: Final = MappingProxyType(
    {
        "LeafSpine": "LeafSpine(leaves=4, hosts=8, spines=4)",
        "FatTree": "FatTree(k=16)",
        "SuperNodes": "SuperNodes(groups=16, size=8)",
    }
)
