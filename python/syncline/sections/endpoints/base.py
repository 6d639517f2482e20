"""What every endpoint has, and what the rest of the program asks of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from syncline.base.quantities import RATE, SIZE
from syncline.base.section import ModelSection, Violation

if TYPE_CHECKING:
    from syncline.base.document import Plain
    from syncline.core.preview import Preview
    from syncline.sections.hardware_cost import Cost
    from syncline.sections.networks import NetworkSection
    from syncline.sections.npu import Npu

Transit: TypeAlias = Literal["endpoint", "network"]
PS_PER_S: Final = 10**12


class Share(NamedTuple):
    """A part of an NPU."""

    sms: int
    """SMs."""
    memory_bandwidth: int
    """Main-memory bandwidth, in bytes per second."""


class Surroundings(NamedTuple):
    """The sections beside an endpoint, those that are legal by themselves."""

    npu: Npu | None
    """The NPU."""
    network: NetworkSection | None
    """The network."""
    element: int | None
    """Bytes of an element."""
    is_beside_compute: bool
    """Whether compute goes on while collectives run."""


class EndpointSection(ModelSection):
    """An endpoint as an experiment describes it. What differs from the ideal endpoint is said by subclasses."""

    kind: str
    """Which endpoint model."""

    PART: ClassVar = "endpoint"
    PROFILE: ClassVar[Mapping[str, Plain]] = {}
    """Its parameters in the ACE paper, for commands that name an endpoint and nothing else."""
    COLLECTIVE: ClassVar[Mapping[str, Any]] = {}
    """What `collective` is with it for a single collective, where nothing is stated."""
    IN_EXPERIMENTS: ClassVar[Mapping[str, Any]] = {}
    """What `collective` is with it in any experiment, where nothing is stated."""

    crosses_bus: ClassVar[bool] = True
    """Whether data crosses the bus between NPU and network."""
    has_own_window: ClassVar[bool] = False
    """Whether it has limits of its own for chunks in flight."""
    streams: ClassVar[bool] = False
    """Whether it passes on packets of a message that is still arriving, through room that they may have to wait for."""
    adds_in_switches: ClassVar[bool] = False
    """Whether switches add and copy for it."""
    is_priced: ClassVar[bool] = False
    """Whether collectives cost what a model of software says of the machine."""

    @property
    def has_usual_chunks(self) -> bool:
        """Whether the fabric decides on chunks of which nothing is said (`in_flight`)."""
        return not (self.has_own_window or self.adds_in_switches or self.is_priced)

    @classmethod
    def usual_collective(cls, kind: str) -> dict[str, Any]:
        """What `collective` is with it for a single collective of a kind. An all-to-all is direct in the ACE paper
        (section V).
        """
        found = dict(cls.COLLECTIVE)
        return found | {"algorithm": "direct"} if kind == "all-to-all" and found.get("algorithm") != "auto" else found

    @property
    def chosen_transit(self) -> Transit | None:
        """Who forwards what is for distant NPUs; nothing if that depends on the topology."""
        return getattr(self, "transit", None)

    @property
    def shares(self) -> bool:
        """Whether compute and communication share the NPU while both run."""
        return False

    @property
    def gives_way(self) -> bool:
        """Whether kernels have what communication in flight leaves of the NPU."""
        return False

    @property
    def slice_overhead(self) -> int | None:
        """Picoseconds that a slice which is passed on costs beside its bytes; nothing where that is not stated."""
        return None

    @property
    def set_aside(self) -> Share | None:
        """What communication has of the NPU; nothing where it costs the NPU nothing."""
        return None

    @property
    def runs_at_npu_clock(self) -> bool:
        """Whether it has no clock or latency of its own."""
        return False

    @property
    def is_random(self) -> bool:
        """Whether results depend on the seed."""
        return False

    def has_driving_sms(self, *, beside_switches: bool) -> bool:
        """Whether SMs drive collectives, where some part is done `beside_switches` that add."""
        return False

    def left(self, npu: Npu, *, overlaps: bool) -> Share:
        """What compute has of the NPU, if it `overlaps` with communication."""
        taken = self.set_aside if overlaps else None
        sms, memory_bandwidth = taken or (0, 0)
        return Share(npu.sms - sms, npu.memory_bandwidth - memory_bandwidth)

    def least_block(self, network: NetworkSection) -> int | None:
        """Bytes below which blocks are not cut where chunks have the usual size."""
        return None

    def faults(self, beside: Surroundings) -> Iterator[Violation]:
        """What is wrong with fields of it taken together, and with others."""
        if beside.npu is not None and self.set_aside is not None:
            yield from _too_much(self.set_aside, beside.npu, shared=beside.is_beside_compute and not self.shares)

    def specification(self, npu: Npu, transit: Transit) -> dict[str, Any]:
        """The engine's description (`EndpointSpec` of `crates/system`)."""
        raise NotImplementedError

    def events(self, of_network: float, messages: int, preview: Preview, packet_bytes: int | None) -> float:
        """Events of a run with so many messages, of which the network would have so many."""
        return of_network

    def meaning_of_nothing(self, name: str) -> str:
        """What a field stands for that is not given."""
        return "auto"

    def cost(self) -> Cost | None:
        """What it costs on a die, where that is known."""
        return None


def cycle_ps(clock: int) -> int:
    """One cycle of a clock in Hz, rounded to the nearest picosecond and at least one."""
    return max(1, (PS_PER_S + clock // 2) // clock)


def smaller_than_an_element(message: int, element: int | None, what: str) -> Iterator[Violation]:
    """A message, or whatever it is called, holds one element at least."""
    if element is not None and message < element:
        least = f"at least {SIZE.format(element)}, which is workload.element"
        yield Violation(("endpoint", "message"), f"{what} is smaller than an element", least)


def _too_much(taken: Share, npu: Npu, *, shared: bool) -> Iterator[Violation]:
    """What communication takes, compute does not have, and both need something."""
    reason = "nothing would be left for compute, which overlaps with it" if shared else "this is more than the NPU has"
    if taken.sms > npu.sms or (shared and taken.sms == npu.sms):
        limit = npu.sms - 1 if shared else npu.sms
        yield Violation(("endpoint", "comm_sms"), reason, f"at most {limit}, as npu.sms is {npu.sms}")
    bandwidth, memory = taken.memory_bandwidth, npu.memory_bandwidth
    if bandwidth > memory or (shared and bandwidth == memory):
        most = f"{'less than' if shared else 'at most'} {RATE.format(memory)}, which is npu.memory_bandwidth"
        yield Violation(("endpoint", "comm_memory_bandwidth"), reason, most)
