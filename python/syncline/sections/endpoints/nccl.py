"""NCCL on a machine: what its collectives take by the software model of the machine's class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from syncline.base.section import Violation
from syncline.sections.endpoints.base import EndpointSection, Share, Surroundings, Transit, cycle_ps
from syncline.sections.software import SoftwareField

if TYPE_CHECKING:
    from syncline.core.preview import Preview
    from syncline.sections.npu import Npu


class NcclEndpoint(EndpointSection):
    """Collectives cost what NCCL takes on the machine, as `syncline bench` predicts it: launch, protocol, channels,
    and the share of its links that it reaches. They go one after the other in a communicator; several communicators
    share links."""

    kind: Literal["nccl"]
    """Which endpoint model."""
    software: SoftwareField = None
    """The constants: a class of machines that comes with the package, or a file of `syncline calibrate`, beside the
    experiment file; by default the class of the machine."""
    algorithm: Literal["auto", "ring", "tree", "nvls"] = "auto"
    """The algorithm of NCCL whose time an all-reduce takes, as `NCCL_ALGO` has it; `auto`: the one that NCCL chooses
    for its size. What is simulated are messages of `collective.algorithm`, scaled to it."""
    comm_sms: Annotated[int, Field(ge=0, le=65_536)] | None = None
    """SMs that compute does not have from beginning to end if it overlaps with communication, 0 for none. By default
    kernels lack what collectives hold while these are in flight: an SM for each channel that NCCL uses, and the
    memory bandwidth that their copies take."""

    COLLECTIVE: ClassVar = {"algorithm": "hierarchical-optimal", "chunks": 1, "lanes": "split"}
    IN_EXPERIMENTS: ClassVar = {**COLLECTIVE, "scheduling": "fifo"}
    crosses_bus: ClassVar = False
    is_priced: ClassVar = True

    @property
    def chosen_transit(self) -> Transit:
        """GPUs of a machine forward nothing."""
        return "network"

    @property
    def runs_at_npu_clock(self) -> bool:
        """A step takes a cycle of the NPU; everything else is in the times of the software model."""
        return True

    @property
    def gives_way(self) -> bool:
        """Kernels give way unless it is stated what they never have."""
        return self.comm_sms is None

    @property
    def set_aside(self) -> Share | None:
        """The SMs of channels."""
        return Share(self.comm_sms, 0) if self.comm_sms else None

    def faults(self, beside: Surroundings) -> Iterator[Violation]:
        """Channels leave SMs for compute."""
        if self.comm_sms:
            yield from super().faults(beside)

    def specification(self, npu: Npu, transit: Transit) -> dict[str, Any]:
        """The engine's description: an endpoint that takes a cycle, whose collectives are priced apart."""
        found = {"kind": "ideal", "step_latency_ps": cycle_ps(npu.clock), "forwarding": "messages", "transit": transit}
        if not self.gives_way:
            return found
        return found | {"gives_way": {"sms": npu.sms, "memory_bytes_per_s": npu.memory_bandwidth}}

    def meaning_of_nothing(self, name: str) -> str:
        """No SMs are those of what is in flight."""
        return "the channels in flight" if name == "comm_sms" else super().meaning_of_nothing(name)

    def events(self, of_network: float, messages: int, preview: Preview, packet_bytes: int | None) -> float:
        """Nothing more than those of the network."""
        return of_network
