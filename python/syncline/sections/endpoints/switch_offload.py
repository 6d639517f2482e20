"""Switch offload: switches add and copy, DMAs move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from syncline.base.section import Violation
from syncline.fabric.fields import Rate, RateOrAuto, Size, TimeOrZero
from syncline.sections.endpoints.base import EndpointSection, Share, Surroundings, Transit, smaller_than_an_element

if TYPE_CHECKING:
    from syncline.sections.npu import Npu


class SwitchOffloadEndpoint(EndpointSection):
    """Switches reduce and copy, and DMAs move the data (ACE paper, section IV-B, Table II).

    Values that no vendor states are assumptions.
    """

    kind: Literal["switch-offload"]
    """Which endpoint model."""
    comm_memory_bandwidth: RateOrAuto
    """Main-memory bandwidth set aside for the DMAs; `auto` is half of the NPU's, as for a baseline."""
    comm_sms: Annotated[int, Field(ge=0, le=4096)] = 0
    """SMs set aside for phases that do not go through switches, such as those of rings; the others need none."""
    charge_writes: bool = False
    """Charge memory writes as well as reads (they are recorded either way)."""
    switch_reduce_bandwidth: Rate | None = None
    """The rate of the ALU at each port of a switch; if not given, it is as fast as the port."""
    switch_memory: Size = 1024 * 1024
    """Memory of a switch for partial sums; chunks in flight share it."""
    switch_latency: TimeOrZero = 100_000
    """Time from the last addition to a piece, or from its arrival, to its departure."""
    message: Size = 4 * 1024
    """The largest piece that a switch works on, where the vector is not scattered over ranks."""

    ENGINE_NAMES: ClassVar = {
        "memory_bytes_per_s": "comm_memory_bandwidth",
        "sm_bytes_per_s": "comm_sms",
        "switch_reduce_bytes_per_s": "switch_reduce_bandwidth",
        "switch_memory_bytes": "switch_memory",
        "switch_latency_ps": "switch_latency",
        "message_bytes": "message",
    }
    # The memory bandwidth of the baseline, so that the placements differ in nothing else, and no SMs.
    PROFILE: ClassVar = {"comm_memory_bandwidth": "auto"}
    COLLECTIVE: ClassVar = {"algorithm": "hierarchical", "lanes": "alternate"}
    adds_in_switches: ClassVar = True

    @property
    def chosen_transit(self) -> Transit:
        """Switches lie between NPUs."""
        return "network"

    @property
    def set_aside(self) -> Share:
        """What is set aside."""
        return Share(self.comm_sms, self.comm_memory_bandwidth)

    def has_driving_sms(self, *, beside_switches: bool) -> bool:
        """What no switch does is driven by SMs, if there are any."""
        return self.comm_sms > 0 and beside_switches

    def faults(self, beside: Surroundings) -> Iterator[Violation]:
        """A piece holds an element."""
        yield from super().faults(beside)
        yield from smaller_than_an_element(self.message, beside.element, "a piece")

    def specification(self, npu: Npu, transit: Transit) -> dict[str, Any]:
        """The engine's description."""
        return {
            "kind": self.kind,
            "memory_bytes_per_s": self.comm_memory_bandwidth,
            "sm_bytes_per_s": self.comm_sms * npu.sm_read * npu.clock,
            "bus_bytes_per_s": npu.bus,
            "charge_writes": self.charge_writes,
            "switch_reduce_bytes_per_s": self.switch_reduce_bandwidth,
            "switch_memory_bytes": self.switch_memory,
            "switch_latency_ps": self.switch_latency,
            "message_bytes": self.message,
        }

    def meaning_of_nothing(self, name: str) -> str:
        """No ALUs are those of the ports."""
        return "that of the ports: switches add as bytes arrive"
