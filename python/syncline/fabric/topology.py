"""Topology strings: `Ring(4, rate=200GB/s, efficiency=94%)_Switch(8)`, `Torus(4,8,4, latency=1us)`.

A topology is a product of dimensions, the first one innermost: NPU numbers run fastest along it. The NPUs
that differ only in their place along a dimension are a line of it. What connects a line of n NPUs is its
block:

*Ring*            a link from every NPU to each of its two neighbours; a ring of two keeps both.
*FullyConnected*  a link from every NPU to each of the n-1 others.
*Switch*          one switch, with a link up from every NPU and a link down to it; NPU to NPU is two hops.

Every link exists `links` times, and a line of one NPU has none. `Torus(a,b,c, ...)` is short for rings with
the same parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar

from syncline.base import quantities
from syncline.base.errors import did_you_mean, one_of
from syncline.base.quantities import QuantityError

Block: TypeAlias = Literal["ring", "fully-connected", "switch"]

BLOCKS: Final[MappingProxyType[str, Block]] = MappingProxyType(
    {"Ring": "ring", "FullyConnected": "fully-connected", "Switch": "switch"}
)
"""The blocks, by their names in topology strings."""
NAMES: Final[MappingProxyType[Block, str]] = MappingProxyType({block: name for name, block in BLOCKS.items()})
TORUS: Final = "Torus"
PARAMETERS: Final = ("rate", "latency", "links", "efficiency")
MAX_NPUS: Final = 2**26
MAX_PORTS: Final = 4096
"""Links of an NPU."""
MAX_SWITCH_PORTS: Final = 2**16 - 1
"""Links of a switch: the engine's ports are numbered with 16 bits."""
MAX_LINKS: Final = 32
MAX_LENGTH: Final = 4096
ACCEPTED: Final = (
    "blocks (Ring, FullyConnected, Switch) joined by _, such as Ring(4, rate=200GB/s, latency=72ns, links=1, "
    "efficiency=94%)_Switch(8), or Torus(4,8,4)"
)

DEFAULT_RATE: Final = 50_000_000_000
DEFAULT_LATENCY: Final = 500_000
DEFAULT_LINKS: Final = 1
DEFAULT_EFFICIENCY: Final = Fraction(1)

T = TypeVar("T")

_BLOCK = re.compile(r"\s*([A-Za-z]\w*)\s*\(([^()]*)\)\s*", re.ASCII)


class TopologyError(ValueError):
    """A text or a list of dimensions that is not a topology."""

    def __init__(self, message: str, accepted: str = ACCEPTED) -> None:
        self.message = message
        self.accepted = accepted
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Dimension:
    """What connects NPUs that differ only in their place along this dimension."""

    block: Block
    size: int
    """NPUs along the dimension."""
    rate: int = DEFAULT_RATE
    """Bytes per second of one link and direction, on the wire."""
    latency: int = DEFAULT_LATENCY
    """Picoseconds of one link; through a switch there are two."""
    links: int = DEFAULT_LINKS
    """Parallel links per direction and neighbour, or to the switch."""
    efficiency: Fraction = DEFAULT_EFFICIENCY
    """The share of the wire that payload gets."""
    filled_in: frozenset[str] = field(default=frozenset(), compare=False)
    """The parameters that were left to their defaults."""

    @property
    def payload_rate(self) -> int:
        """Payload bytes per second of one link and direction, rounded down."""
        return int(self.rate * self.efficiency)

    @property
    def links_per_npu(self) -> int:
        """Outgoing links of an NPU along this dimension."""
        if self.size == 1:
            return 0
        return self.links * {"ring": 2, "fully-connected": self.size - 1, "switch": 1}[self.block]

    @property
    def hop_latency(self) -> int:
        """Picoseconds of link latency between neighbours."""
        return 2 * self.latency if self.block == "switch" else self.latency

    @property
    def diameter(self) -> int:
        """Picoseconds of link latency between two NPUs that are farthest apart along the dimension."""
        hops = self.size // 2 if self.block == "ring" else min(1, self.size - 1)
        return hops * self.hop_latency

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters as they are written."""
        values = {
            "rate": quantities.RATE.format(self.rate),
            "latency": quantities.TIME.format(self.latency),
            "links": str(self.links),
            "efficiency": quantities.format_share(self.efficiency),
        }
        return {name: f"{name}={value}" for name, value in values.items()}

    def __str__(self) -> str:
        return f"{NAMES[self.block]}({', '.join([str(self.size), *self.parameters.values()])})"


@dataclass(frozen=True, slots=True)
class Topology:
    """A product of dimensions."""

    dims: tuple[Dimension, ...]

    @property
    def npus(self) -> int:
        """NPUs in all."""
        product = 1
        for dim in self.dims:
            product *= dim.size
        return product

    @property
    def egress_rate(self) -> int:
        """Payload bytes per second over all outgoing links of one NPU."""
        return sum(d.links_per_npu * d.payload_rate for d in self.dims)

    @property
    def wire_rate(self) -> int:
        """Bytes per second on the wire over all outgoing links of one NPU."""
        return sum(d.links_per_npu * d.rate for d in self.dims)

    @property
    def diameter(self) -> int:
        """Picoseconds of link latency between two NPUs that are farthest apart."""
        return sum(d.diameter for d in self.dims)

    @property
    def shortest_latency(self) -> int:
        """Picoseconds of the link with the least latency."""
        return min((dim.latency for dim in self.dims), default=0)

    @property
    def fastest(self) -> int:
        """Payload bytes per second into or out of the NPU that has most; all have the same."""
        return self.egress_rate

    @property
    def forwards(self) -> bool:
        """Whether NPUs lie on the way between others."""
        longer = [dim for dim in self.dims if dim.size > 1]
        return len(longer) > 1 or any(dim.block == "ring" and dim.size > 3 for dim in longer)

    @property
    def has_switches(self) -> bool:
        """Whether links lead to switches."""
        return any(dim.block == "switch" and dim.size > 1 for dim in self.dims)

    @property
    def is_switched(self) -> bool:
        """Its dimensions are what their blocks say, also for groups that are not along them."""
        return False

    @property
    def shape(self) -> str:
        """Sizes only, such as `4x8x4`."""
        return "x".join(str(d.size) for d in self.dims)

    @property
    def classes(self) -> list[str]:
        """The classes of links, by the numbers that the engine gives them."""
        return [f"dim {index}" for index in range(len(self.dims))]

    @property
    def file(self) -> str | None:
        """No file describes a product."""
        return None

    @property
    def gpu(self) -> None:
        """What the NPUs are is not a matter of a product."""
        return None

    @property
    def content(self) -> bytes:
        """What is in that file: nothing."""
        return b""

    def narrowed(self, _: object) -> Topology:
        """The fabric as the members of groups see it: NPUs without work forward, so that nothing changes."""
        return self

    def specification(self) -> dict[str, Any]:
        """The engine's description."""
        return {
            "kind": "product",
            "dims": [
                {
                    "block": dim.block,
                    "size": dim.size,
                    "rate_bytes_per_s": dim.payload_rate,
                    "latency_ps": dim.latency,
                    "links": dim.links,
                }
                for dim in self.dims
            ],
        }

    def attributes(self) -> list[dict[str, Any]]:
        """Attributes of nodes: its switches have none."""
        return []

    def __str__(self) -> str:
        return "_".join(str(d) for d in self.dims)


def parse(text: str) -> Topology:
    """Reads a topology string."""
    if len(text) > MAX_LENGTH:
        raise TopologyError(f"the topology is longer than {MAX_LENGTH} characters")
    if not text.strip():
        raise TopologyError("the topology is empty")
    dims: list[Dimension] = []
    at = 0
    while True:
        match = _BLOCK.match(text, at)
        if match is None:
            raise TopologyError(f"no block such as Ring(4) at character {at + 1}")
        dims += _block(match[1], match[2])
        at = match.end()
        if at == len(text):
            break
        if text[at] != "_":
            raise TopologyError(f"blocks are joined by _, found '{text[at]}' at character {at + 1}")
        at += 1
    return checked(dims)


def checked(dims: Sequence[Dimension]) -> Topology:
    """A topology whose dimensions fit the engine."""
    if not dims:
        raise TopologyError("a topology needs at least one dimension")
    topology = Topology(tuple(dims))
    if topology.npus > MAX_NPUS:
        raise TopologyError(f"the topology has more than {MAX_NPUS} NPUs", f"up to {MAX_NPUS} NPUs")
    if any(d.payload_rate == 0 for d in dims):
        raise TopologyError("rate times efficiency is less than one byte per second", "a higher rate")
    ports = sum(d.links_per_npu for d in dims)
    if ports > MAX_PORTS:
        raise TopologyError(f"an NPU would have {ports} links", f"up to {MAX_PORTS} links per NPU")
    widest = max((d.size * d.links for d in dims if d.block == "switch"), default=0)
    if widest > MAX_SWITCH_PORTS:
        raise TopologyError(f"a switch would have {widest} links", f"up to {MAX_SWITCH_PORTS} links per switch")
    return topology


def _block(name: str, arguments: str) -> list[Dimension]:
    known = (*BLOCKS, TORUS)
    if name not in known:
        raise TopologyError(f"'{name}' is not a block{did_you_mean(name, known)}", f"the blocks {one_of(known)}")
    sizes: list[int] = []
    given: dict[str, str] = {}
    for argument in arguments.split(","):
        key, equals, value = (part.strip() for part in argument.partition("="))
        if not equals:
            if given:
                raise TopologyError(f"in {name}: the size '{key}' comes after a parameter")
            sizes.append(_count(name, "size", key))
        elif key in given:
            raise TopologyError(f"in {name}: {key} is given twice")
        else:
            given[_parameter(name, key)] = value
    if name != TORUS and len(sizes) != 1:
        raise TopologyError(f"{name} takes one size, not {len(sizes)}; Torus(4,8,4) takes several")
    if not sizes:
        raise TopologyError(f"in {name}: the sizes are missing")
    return [_dimension(name, size, given) for size in sizes]


def _parameter(block: str, key: str) -> str:
    if key not in PARAMETERS:
        raise TopologyError(
            f"in {block}: '{key}' is not a parameter{did_you_mean(key, PARAMETERS)}",
            f"the parameters {one_of(PARAMETERS)}",
        )
    return key


def _dimension(name: str, size: int, given: dict[str, str]) -> Dimension:
    def value(key: str, read: Callable[[str], T], default: T) -> T:
        if key not in given:
            return default
        try:
            return read(given[key])
        except QuantityError as error:
            raise TopologyError(f"in {name}: {key}={given[key]}: {error.message}", error.accepted) from None

    return Dimension(
        block=BLOCKS.get(name, "ring"),
        size=size,
        rate=value("rate", quantities.rate, DEFAULT_RATE),
        latency=value("latency", lambda text: quantities.time(text, zero=True), DEFAULT_LATENCY),
        links=_count(name, "links", given["links"], MAX_LINKS) if "links" in given else DEFAULT_LINKS,
        efficiency=value("efficiency", quantities.share, DEFAULT_EFFICIENCY),
        filled_in=frozenset(PARAMETERS) - given.keys(),
    )


def _count(block: str, what: str, text: str, most: int = MAX_NPUS) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or not 1 <= int(text) <= most:
        raise TopologyError(
            f"in {block}: {what} '{text}' is not a whole number from 1 to {most}", f"a {what} from 1 to {most}"
        )
    return int(text)
