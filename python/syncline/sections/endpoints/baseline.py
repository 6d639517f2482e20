"""The baseline endpoint: SMs drive collectives through main memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from syncline.base.quantities import RATE
from syncline.base.section import Violation
from syncline.fabric.fields import Rate, RateOrAuto, SmallCountOrAuto, Warps
from syncline.sections.endpoints.base import EndpointSection, Share, Surroundings, Transit
from syncline.sections.endpoints.buses import Buses

if TYPE_CHECKING:
    from syncline.sections.npu import Npu


def _set_aside(value: int | None, info: ValidationInfo) -> int | None:
    """Refuses nothing where something has to be set aside, along with whatever else is wrong with the endpoint."""
    if value is None and info.data.get("contention") == "static":
        raise PydanticCustomError("missing", "this is missing")
    return value


class BaselineEndpoint(EndpointSection):
    """SMs drive collectives through main memory."""

    kind: Literal["baseline"]
    """Which endpoint model."""
    contention: Literal["static", "dynamic"] = "static"
    """`static`: what is set aside for communication, compute never has. `dynamic`: both share SMs and main memory, as
    fairly as their warps compete for them, and only while both run."""
    comm_memory_bandwidth: Annotated[RateOrAuto | None, AfterValidator(_set_aside)] = Field(None, validate_default=True)
    """Main-memory bandwidth set aside for communication; with static contention only, and then needed. `auto` is half
    of what the NPU has, as in the system of the ACE paper that is optimised for communication."""
    comm_sms: SmallCountOrAuto
    """SMs set aside for communication; with dynamic contention, SMs that communication runs on. `auto` is as many as
    read what the memory bandwidth of `auto` delivers."""
    comm_warps: Annotated[int, Field(ge=1, le=64)] = 16
    """Warps of communication on each of its SMs, with dynamic contention."""
    kernel_warps: Warps = 64.0
    """Warps of a compute kernel on each SM, with dynamic contention."""
    memory_bandwidth: Rate | None = None
    """Main-memory bandwidth that can be had in effect, which compute and communication share with dynamic contention;
    that of the NPU if not given."""
    charge_writes: bool = False
    """Charge memory writes as well as reads (they are recorded either way)."""
    buses: Buses = Buses()
    """The buses to the network and to memory; with `loggp` a step's data is stored between them."""
    transit: Transit | None = None
    """Who forwards messages for distant NPUs where NPUs lie between: the endpoints, through their memory, or the
    routers of the network. If not given, `endpoint` where links lead to NPUs only (products of rings and fully
    connected groups), else `network`."""

    ENGINE_NAMES: ClassVar = {"memory_bytes_per_s": "memory_bandwidth", "sm_bytes_per_s": "comm_sms"}
    PROFILE: ClassVar = {"comm_memory_bandwidth": "auto", "comm_sms": "auto"}
    COLLECTIVE: ClassVar = {"algorithm": "ace-4-phase", "lanes": "alternate"}

    @property
    def shares(self) -> bool:
        """Whether contention is dynamic."""
        return self.contention == "dynamic"

    @property
    def set_aside(self) -> Share:
        """What is set aside, or the SMs that communication runs on."""
        return Share(self.comm_sms, self.comm_memory_bandwidth or 0)

    def has_driving_sms(self, *, beside_switches: bool) -> bool:
        """All of them are driven by SMs."""
        return True

    def left(self, npu: Npu, *, overlaps: bool) -> Share:
        """With dynamic contention everything, while nothing else runs."""
        if self.shares:
            return Share(npu.sms, self.memory_bandwidth or npu.memory_bandwidth)
        return super().left(npu, overlaps=overlaps)

    def faults(self, beside: Surroundings) -> Iterator[Violation]:
        """Where an NPU is shared, nothing is set aside, and there is enough to share."""
        npu = beside.npu
        yield from super().faults(beside)
        if self.shares:
            if self.comm_memory_bandwidth is not None:
                message = "with dynamic contention, nothing is set aside"
                accepted = "no value, or endpoint.contention static; endpoint.memory_bandwidth says how much is shared"
                yield Violation(("endpoint", "comm_memory_bandwidth"), message, accepted)
            if self.buses.kind != "rate":
                message = "with dynamic contention, a message on a bus costs its bytes only"
                yield Violation(("endpoint", "buses", "kind"), message, "rate, or endpoint.contention static")
            if npu is not None and (self.memory_bandwidth or 0) > npu.memory_bandwidth:
                most = f"at most {RATE.format(npu.memory_bandwidth)}, which is npu.memory_bandwidth"
                yield Violation(("endpoint", "memory_bandwidth"), "this is more than the NPU has", most)
        yield from self.buses.faults(npu)

    def specification(self, npu: Npu, transit: Transit) -> dict[str, Any]:
        """The engine's description. Memory is that of its bus, or what is set aside, or all there is to share."""
        set_aside = self.buses.to_memory or self.comm_memory_bandwidth
        shared = {
            "sms": npu.sms,
            "comm_sms": self.comm_sms,
            "comm_warps": self.comm_warps,
            "kernel_milliwarps": round(1000 * self.kernel_warps),
        }
        return {
            "kind": self.kind,
            "memory_bytes_per_s": set_aside or self.memory_bandwidth or npu.memory_bandwidth,
            "sm_bytes_per_s": self.comm_sms * npu.sm_read * npu.clock,
            "bus_bytes_per_s": npu.bus,
            "charge_writes": self.charge_writes,
            "buses": self.buses.specification(),
            "transit": transit,
            **({"contention": shared} if self.shares else {}),
        }

    def meaning_of_nothing(self, name: str) -> str:
        """No bandwidth is that of the NPU."""
        return "npu.memory_bandwidth"
