"""The accelerator collectives engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from syncline.base.quantities import SIZE
from syncline.base.section import Violation
from syncline.fabric.fields import Frequency, Rate, Size, SmallCount
from syncline.sections import hardware_cost
from syncline.sections.endpoints.base import EndpointSection, Share, Surroundings, Transit, smaller_than_an_element
from syncline.sections.endpoints.buses import Buses
from syncline.sections.networks.packet import PacketNetwork

if TYPE_CHECKING:
    from syncline.core.preview import Preview
    from syncline.sections.hardware_cost import Cost
    from syncline.sections.networks import NetworkSection
    from syncline.sections.npu import Npu

PER_PACKET: Final = 2.2
"""Events of a packet and link, fitted to random runs (`estimate.py`)."""


class AceEndpoint(EndpointSection):
    """The accelerator collectives engine. Defaults: the ACE paper (section IV-I and Table V)."""

    kind: Literal["ace"]
    """Which endpoint model."""
    comm_memory_bandwidth: Rate
    """Main-memory bandwidth set aside for ACE's DMAs."""
    comm_sms: Annotated[int, Field(ge=0, le=4096)] = 0
    """SMs set aside for communication; ACE needs none."""
    charge_writes: bool = False
    """Charge memory writes as well as reads (they are recorded either way)."""
    buses: Buses = Buses()
    """The buses to the network and to memory, which the DMAs cross."""
    clock: Frequency | None = None
    """Clock of the engine; that of the NPU if not given."""
    sram: Size = 4 * 1024 * 1024
    """SRAM in all banks."""
    banks: SmallCount = 4
    """Banks of the SRAM; each reads and writes one port width per cycle."""
    port_width: Size = 64
    """Bytes per cycle of SRAM ports, ALUs and internal buses."""
    alus: SmallCount = 4
    """Reduction units."""
    fsms: SmallCount = 16
    """Finite state machines that run chunks."""
    fsm_split: Literal["even", "need"] = "even"
    """How FSMs are divided among the phases of a collective: `even`ly, or in proportion to what each phase `need`s to
    fill its links, one at least."""
    message: Size = 8 * 1024
    """The largest message; longer blocks are cut into several."""
    port_buffer: Size = 4 * 1024
    """Buffer of each output port."""
    transit: Transit | None = None
    """Who forwards packets of an all-to-all for distant NPUs where NPUs lie between: the engines, through their SRAM,
    or the routers of the network. If not given, `endpoint` where links lead to NPUs only (products of rings and fully
    connected groups), else `network`."""

    ENGINE_NAMES: ClassVar = {
        "memory_bytes_per_s": "comm_memory_bandwidth",
        "clock_hz": "clock",
        "sram_bytes": "sram",
        "sram_banks": "banks",
        "port_bytes_per_cycle": "port_width",
        "message_bytes": "message",
        "port_buffer_bytes": "port_buffer",
    }
    PROFILE: ClassVar = {"comm_memory_bandwidth": "128GB/s"}
    COLLECTIVE: ClassVar = {"algorithm": "ace-4-phase", "lanes": "alternate"}
    has_own_window: ClassVar = True
    streams: ClassVar = True

    @property
    def set_aside(self) -> Share:
        """What is set aside."""
        return Share(self.comm_sms, self.comm_memory_bandwidth)

    @property
    def runs_at_npu_clock(self) -> bool:
        """Whether the engine does."""
        return self.clock is None

    def least_block(self, network: NetworkSection) -> int:
        """A packet of the network, or of one that has packets."""
        return network.packet_bytes or PacketNetwork().packet

    def faults(self, beside: Surroundings) -> Iterator[Violation]:
        """A message holds an element, a port buffer a packet."""
        yield from super().faults(beside)
        yield from smaller_than_an_element(self.message, beside.element, "a message")
        packet = None if beside.network is None else beside.network.packet_bytes
        if packet is not None and self.port_buffer < packet:
            least = f"at least {SIZE.format(packet)}, which is network.packet"
            yield Violation(("endpoint", "port_buffer"), "a port buffer has to hold at least one packet", least)
        yield from self.buses.faults(beside.npu)

    def specification(self, npu: Npu, transit: Transit) -> dict[str, Any]:
        """The engine's description."""
        return {
            "kind": self.kind,
            "memory_bytes_per_s": self.buses.to_memory or self.comm_memory_bandwidth,
            "bus_bytes_per_s": npu.bus,
            "charge_writes": self.charge_writes,
            "buses": self.buses.specification(),
            "clock_hz": self.clock or npu.clock,
            "sram_bytes": self.sram,
            "sram_banks": self.banks,
            "port_bytes_per_cycle": self.port_width,
            "alus": self.alus,
            "fsms": self.fsms,
            "fsm_split": self.fsm_split,
            "message_bytes": self.message,
            "port_buffer_bytes": self.port_buffer,
            "transit": transit,
        }

    def events(self, of_network: float, messages: int, preview: Preview, packet_bytes: int | None) -> float:
        """What is sent between neighbours goes packet by packet, without packets in messages of the engine."""
        units = preview.packet_hops
        if packet_bytes is None:
            units = max(messages, preview.byte_hops // self.message)
        return PER_PACKET * units

    def meaning_of_nothing(self, name: str) -> str:
        """No clock is that of the NPU."""
        return "npu.clock" if name == "clock" else super().meaning_of_nothing(name)

    def cost(self) -> Cost:
        """The paper's synthesis (Table IV), scaled."""
        return hardware_cost.ace(sram_bytes=self.sram, fsms=self.fsms, alus=self.alus)
