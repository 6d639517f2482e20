"""What the software model needs to know of a machine, and the machines that it knows by name.

| name | GPUs | NVLink, one way per GPU | NICs | software |
|---|---|---|---|---|
| dgx1p | 8 P100, hybrid cube mesh | 4 x 20 GB/s | 4 x 100 Gb/s | v100-mesh |
| dgx1v | 8 V100, hybrid cube mesh | 6 x 25 GB/s | 4 x 100 Gb/s | v100-mesh |
| dgx2 | 16 V100, NVSwitch | 6 x 25 GB/s | 8 x 100 Gb/s | v100-nvswitch |
| dgx-a100 | 8 A100, NVSwitch | 12 x 25 GB/s | 8 x 200 Gb/s | a100-nvswitch |
| dgx-h100 | 8 H100, NVSwitch with NVLS | 18 x 25 GB/s | 8 x 400 Gb/s | h100-nvswitch |

Sources: the vendor's system guides and data sheets. A cluster is written `dgx-h100(nodes=2)`; `nics=single` leaves one
NIC per node, `nics=rail` (the default) all of them; `gpus=4` uses some of the GPUs of each node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from syncline.errors import command_line, did_you_mean, one_of

MAX_NODES: Final = 65_536
FLAG: Final = "--machine"

_GB_PER_S: Final = 10**9
_GBIT_PER_S: Final = 10**9 // 8
_WRITTEN: Final = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Platform:
    """A machine or a cluster of equal machines, as far as the software model looks at it."""

    name: str
    software: str
    """The class of software constants that was fitted on such machines."""
    gpus_per_node: int
    nodes: int
    nvlinks: int
    """NVLinks of a GPU."""
    nvlink_rate: int
    """What all NVLinks of a GPU carry in one direction, in bytes per second."""
    nics: int
    """NICs of a node."""
    nic_rate: int
    """What a NIC carries in one direction, in bytes per second."""
    switched: bool
    """Whether the GPUs of a node meet in an NVSwitch."""
    nvls: bool
    """Whether the switch can sum up (NVLink SHARP)."""

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.gpus_per_node * self.nodes

    @property
    def node_nic_rate(self) -> int:
        """What the NICs of a node carry together in one direction, in bytes per second."""
        return self.nics * self.nic_rate

    def __str__(self) -> str:
        """As `--machine` accepts it."""
        full = _MACHINES[self.name]
        parts = [f"gpus={self.gpus_per_node}"] if self.gpus_per_node != full.gpus_per_node else []
        parts += [f"nodes={self.nodes}"] if self.nodes > 1 else []
        parts += ["nics=single"] if self.nics != full.nics else []
        return f"{self.name}({', '.join(parts)})" if parts else self.name

    def with_gpus(self, gpus_per_node: int) -> Platform:
        """The same with fewer GPUs in each node."""
        return replace(self, gpus_per_node=gpus_per_node)


_MACHINES: Final = MappingProxyType(
    {
        box.name: box
        for box in (
            Platform(
                name="dgx1p",
                software="v100-mesh",
                gpus_per_node=8,
                nodes=1,
                nvlinks=4,
                nvlink_rate=4 * 20 * _GB_PER_S,
                nics=4,
                nic_rate=100 * _GBIT_PER_S,
                switched=False,
                nvls=False,
            ),
            Platform(
                name="dgx1v",
                software="v100-mesh",
                gpus_per_node=8,
                nodes=1,
                nvlinks=6,
                nvlink_rate=6 * 25 * _GB_PER_S,
                nics=4,
                nic_rate=100 * _GBIT_PER_S,
                switched=False,
                nvls=False,
            ),
            Platform(
                name="dgx2",
                software="v100-nvswitch",
                gpus_per_node=16,
                nodes=1,
                nvlinks=6,
                nvlink_rate=6 * 25 * _GB_PER_S,
                nics=8,
                nic_rate=100 * _GBIT_PER_S,
                switched=True,
                nvls=False,
            ),
            Platform(
                name="dgx-a100",
                software="a100-nvswitch",
                gpus_per_node=8,
                nodes=1,
                nvlinks=12,
                nvlink_rate=12 * 25 * _GB_PER_S,
                nics=8,
                nic_rate=200 * _GBIT_PER_S,
                switched=True,
                nvls=False,
            ),
            Platform(
                name="dgx-h100",
                software="h100-nvswitch",
                gpus_per_node=8,
                nodes=1,
                nvlinks=18,
                nvlink_rate=18 * 25 * _GB_PER_S,
                nics=8,
                nic_rate=400 * _GBIT_PER_S,
                switched=True,
                nvls=True,
            ),
        )
    }
)

NAMES: Final = tuple(_MACHINES)
ACCEPTED: Final = f"{one_of(NAMES)}; a cluster such as dgx-h100(nodes=2) or dgx-a100(nodes=4, nics=single)"


def platform(text: str) -> Platform:
    """The platform that `--machine` names. Raises [`InputError`]."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise command_line(FLAG, text, "this is not a machine", ACCEPTED)
    found = _MACHINES.get(match[1].casefold())
    if found is None:
        message = f"this machine is not known{did_you_mean(match[1], NAMES)}"
        raise command_line(FLAG, text, message, ACCEPTED)
    seen: set[str] = set()
    for part in (match[2] or "").split(",") if match[2] and match[2].strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise command_line(FLAG, text, f"'{part.strip()}' is not NAME=VALUE", ACCEPTED)
        if key in seen:
            raise command_line(FLAG, text, f"{key} is written twice", ACCEPTED)
        seen.add(key)
        found = _with(found, text, key, value)
    return found


def _with(found: Platform, text: str, key: str, value: str) -> Platform:
    if key == "nodes":
        return replace(found, nodes=_count(text, key, value, MAX_NODES))
    if key == "gpus":
        return replace(found, gpus_per_node=_count(text, key, value, found.gpus_per_node))
    if key == "nics":
        if value not in ("rail", "single"):
            raise command_line(FLAG, text, f"nics={value} is not known", "nics=rail or nics=single")
        return replace(found, nics=1) if value == "single" else found
    message = f"'{key}' is not a parameter of a machine{did_you_mean(key, ('nodes', 'gpus', 'nics'))}"
    raise command_line(FLAG, text, message, "nodes=COUNT, gpus=COUNT, nics=rail|single")


def _count(text: str, key: str, value: str, limit: int) -> int:
    if re.fullmatch(r"[0-9]{1,9}", value, re.ASCII) and 1 <= int(value) <= limit:
        return int(value)
    raise command_line(FLAG, text, f"{key}={value} is out of range", f"{key}=1 to {key}={limit}")
