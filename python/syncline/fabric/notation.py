"""Machine strings: `dgx1v`, `dgx-a100(nodes=4)`, `dgx-h100(nodes=16, nics=rail, nic_rate=400Gb/s)`.

`gb200-nvl72(trays=9)` is half a rack.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeVar

from syncline.base import quantities
from syncline.base.errors import did_you_mean, one_of
from syncline.base.quantities import QuantityError
from syncline.fabric import hardware
from syncline.fabric.machines import MACHINES, MAX_HOSTS, MAX_NICS_PER_GPU, NETWORKS, NICS, Cluster, Machine, Nics

PARAMETERS: Final = (
    *("nodes", "nics", "nic_rate", "network", "latency", "oversubscription", "efficiency"),
    *("pcie_rate", "pcie_efficiency", "trays"),
)
NETWORK_PARAMETERS: Final = ("nics", "nic_rate", "network", "latency", "oversubscription")
"""What a single machine has no use for."""
MACHINES_ACCEPTED: Final = one_of(MACHINES)
ACCEPTED: Final = (
    f"{MACHINES_ACCEPTED}, or a cluster such as dgx-a100(nodes=4, nics=rail, nic_rate=200Gb/s, latency=500ns)"
)
MAX_LENGTH: Final = 512
MAX_OVERSUBSCRIPTION: Final = 64
MAX_NICS_SHOWN: Final = 4
"""NICs of a GPU up to which messages list what is accepted."""

T = TypeVar("T")

_MACHINE = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\(([^()]*)\)\s*)?", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)


class MachineError(ValueError):
    """A text that is not a machine."""

    def __init__(self, message: str, accepted: str = ACCEPTED) -> None:
        self.message = message
        self.accepted = accepted
        super().__init__(message)


def parse(text: str) -> Cluster:
    """Reads a machine string."""
    if len(text) > MAX_LENGTH:
        raise MachineError(f"the machine is longer than {MAX_LENGTH} characters")
    match = _MACHINE.fullmatch(text)
    if match is None:
        raise MachineError("this is not a machine" if text.strip() else "the machine is empty")
    machine = MACHINES.get(match[1].lower())
    if machine is None:
        raise MachineError(f"'{match[1]}' is not a machine{did_you_mean(match[1], MACHINES)}")
    name = machine.name
    given = _arguments(name, match[2] or "")

    def value(key: str, read: Callable[[str], T], default: T) -> T:
        if key not in given:
            return default
        try:
            return read(given[key])
        except QuantityError as error:
            raise MachineError(f"in {name}: {key}={given[key]}: {error.message}", error.accepted) from None

    if "trays" in given:
        most = machine.trays
        if not most:
            raise MachineError(f"in {name}: it has no trays", "no trays; they belong to gb200-nvl72")
        machine = machine.with_trays(value("trays", lambda text: _count(text, "trays", most), most))
    hosts = value("nodes", lambda text: _count(text, "machines", MAX_HOSTS), 1)
    cluster = Cluster(
        machine=machine,
        hosts=hosts,
        nics=value("nics", lambda text: _nics(text, machine), "rail"),
        nic_rate=value("nic_rate", quantities.rate, None),
        network=value("network", _network, NETWORKS[0]),
        latency=value("latency", lambda text: quantities.time(text, zero=True), hardware.NETWORK_LATENCY),
        oversubscription=value("oversubscription", oversubscription, Fraction(1)),
        efficiency=value("efficiency", quantities.share, Fraction(1)),
        pcie_efficiency=value("pcie_efficiency", quantities.share, None),
        pcie_rate=value("pcie_rate", quantities.rate, None),
    )
    _check_use(cluster, given)
    return cluster


def _check_use(cluster: Cluster, given: dict[str, str]) -> None:
    """Refuses parameters without effect, and rates of less than nothing."""
    name = cluster.machine.name
    idle = [key for key in NETWORK_PARAMETERS if key in given]
    if idle and cluster.hosts == 1:
        message = f"in {name}: {idle[0]} has no meaning for a single server"
        raise MachineError(message, f"no {idle[0]}, or nodes=2 or more")
    if cluster.nics == "single" and cluster.machine.socket is None:
        message = f"in {name}: nics=single: not all GPUs reach one common NIC: each has its own"
        raise MachineError(message, "nics=rail")
    for key in ("pcie_rate", "pcie_efficiency"):
        if key in given and not cluster.has_pcie:
            message = f"in {name}: {key} has no meaning for a single server whose GPUs are joined by NVSwitches"
            raise MachineError(message, f"no {key}, or nodes=2 or more")
    if cluster.nics == "single" and "oversubscription" in given:
        message = f"in {name}: with nics=single there is one switch, so no spine to oversubscribe"
        raise MachineError(message, "no oversubscription, or nics=rail")
    leaf = cluster.nic * cluster.nics_per_group * cluster.hosts * (cluster.nic_groups // cluster.rails)
    if leaf > quantities.LARGEST or leaf < cluster.oversubscription:
        raise MachineError(f"in {name}: nic_rate={given['nic_rate']}: this is out of range", "a rate such as 400Gb/s")
    if int(cluster.machine.nvlink_rate * cluster.efficiency) < 1:
        message = f"in {name}: efficiency={given['efficiency']}: this leaves an NVLink less than 1 B/s"
        raise MachineError(message, "a share such as 94%")
    if cluster.pcie_payload < 1:
        key, usual = ("pcie_efficiency", "a share such as 82%") if "pcie_efficiency" in given else ("pcie_rate", "more")
        raise MachineError(f"in {name}: {key}={given[key]}: this leaves a PCIe link less than 1 B/s", usual)


def _arguments(machine: str, text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for argument in text.split(",") if text.strip() else ():
        key, equals, value = (part.strip() for part in argument.partition("="))
        if key not in PARAMETERS:
            raise MachineError(
                f"in {machine}: '{key}' is not a parameter{did_you_mean(key, PARAMETERS)}",
                f"the parameters {one_of(PARAMETERS)}",
            )
        if not equals:
            raise MachineError(f"in {machine}: {key} has no value", f"{key}=VALUE")
        if key in given:
            raise MachineError(f"in {machine}: {key} is given twice")
        given[key] = value
    return given


def _count(text: str, what: str, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or not 1 <= int(text) <= most:
        raise QuantityError(f"this is not a number of {what}", f"a whole number from 1 to {most}")
    return int(text)


def _network(text: str) -> str:
    if text not in NETWORKS:
        raise QuantityError(f"this is not known{did_you_mean(text, NETWORKS)}", one_of(NETWORKS))
    return text


def _nics(text: str, machine: Machine) -> Nics | int:
    """`rail`, `single`, or a number of NICs that GPUs share evenly; one is `single`, the machine's own is `rail`."""
    for known in NICS:
        if text == known:
            return known
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise QuantityError(f"this is not known{did_you_mean(text, NICS)}", f"{one_of(NICS)}, or a number of NICs")
    count = int(text)
    accepted = [number for number in _numbers_of_nics(machine) if number <= MAX_NICS_SHOWN * machine.gpus]
    if count not in _numbers_of_nics(machine):
        message = f"so many NICs cannot be shared evenly by {machine.gpus} GPUs"
        if machine.socket is None:
            message += f" of {machine.pcie_switches} CPUs"
        raise QuantityError(message, f"{one_of(NICS)}, {one_of(map(str, accepted))}, ...")
    if count == machine.nics:
        return "rail"
    return "single" if count == 1 else count


def _numbers_of_nics(machine: Machine) -> list[int]:
    """The numbers of NICs that divide the GPUs, or that the GPUs divide. Every CPU has one where none joins them."""
    gpus = machine.gpus
    fewer = [number for number in range(1, gpus) if gpus % number == 0]
    numbers = [*fewer, *(gpus * each for each in range(1, MAX_NICS_PER_GPU + 1))]
    return numbers if machine.socket is not None else [n for n in numbers if n % machine.pcie_switches == 0]


def oversubscription(text: str) -> Fraction:
    """A ratio such as 2 or 1.5, or 3:2. Raises [`QuantityError`]."""
    above, colon, below = text.partition(":")
    parts = [Fraction(part) if _NUMBER.fullmatch(part) else Fraction(0) for part in (above, below if colon else "1")]
    if 0 in parts or not 1 <= parts[0] / parts[1] <= MAX_OVERSUBSCRIPTION:
        raise QuantityError("this is not a ratio", f"a ratio from 1 to {MAX_OVERSUBSCRIPTION}, such as 2 or 1.5")
    return parts[0] / parts[1]
