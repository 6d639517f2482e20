"""Streams: copies and kernels that a host issues to CUDA streams, as the code that Blink generates does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from syncline.fabric.fields import Rate, TimeOrZero
from syncline.sections.endpoints.base import EndpointSection, Transit
from syncline.treegen.costs import PEER_ACCESS_PS, REDUCE_RATE

if TYPE_CHECKING:
    from syncline.core.preview import Preview
    from syncline.sections.npu import Npu

COMMAND_PS: Final = 12_500_000
"""A command in a stream, of which nobody publishes the cost: fitted on one throughput, of forwarding along eight GPUs
(Blink, A.1.1; `reproduction/blink.py`)."""
COPY_COMMANDS: Final = 3
"""Commands of a chunk at its sender, at least (Blink, section 4.2.1): the copy, an event, and a wait for one."""
KERNEL_COMMANDS: Final = 2
"""The wait for the event that a chunk has arrived, and the launch."""
PER_CHUNK: Final = 1000
"""The engine's unit of delays: parts of a chunk's time."""


class StreamsEndpoint(EndpointSection):
    """Copies and kernels in the streams of GPUs, one after the other (Blink, MLSys 2020).

    A thread of a plan is a stream; a chunk that it copies holds it until the last byte has left.
    """

    kind: Literal["streams"]
    """Which endpoint model."""
    copy_overhead: TimeOrZero = COPY_COMMANDS * COMMAND_PS
    """Issue and synchronisation of a chunk that is sent, before its data starts on the link: three commands."""
    kernel_overhead: TimeOrZero = KERNEL_COMMANDS * COMMAND_PS
    """Wait and launch of a kernel that reduces what has arrived, before it runs; also of a local copy or reduction."""
    event_overhead: TimeOrZero = COMMAND_PS
    """Wait for the event that a chunk has arrived which is not reduced."""
    reduce_rate: Rate = REDUCE_RATE
    """Bytes of chunks that the kernels of an NPU reduce per second, all streams together."""
    start_latency: TimeOrZero = 0
    """From the call of a collective on an NPU until its first command there; once, however many chunks it has."""
    peer_access_latency: TimeOrZero = PEER_ACCESS_PS
    """Switching peer access from NVLinks to PCIe and back, for each GPU of the communicator: what GPUs with NVLinks
    send by a way over PCIe begins that much later in each collective."""
    sharing: Literal["fair", "delayed"] = "fair"
    """How streams share a link: chunk by chunk (`fair`), or so that a chunk which finds another stream of its NPU at a
    copy over the same link is delayed by a random time (`delayed`)."""
    delay: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    """With delayed sharing, the longest delay of a chunk, in multiples of its time on the link; thousandths count."""

    ENGINE_NAMES: ClassVar = {
        "copy_overhead_ps": "copy_overhead",
        "kernel_overhead_ps": "kernel_overhead",
        "event_overhead_ps": "event_overhead",
        "reduce_bytes_per_s": "reduce_rate",
        "start_latency_ps": "start_latency",
        "peer_access_latency_ps": "peer_access_latency",
        "delay_per_mille": "delay",
    }
    COLLECTIVE: ClassVar = {"algorithm": "auto", "lanes": "split"}
    crosses_bus: ClassVar = False

    @property
    def chosen_transit(self) -> Transit:
        """No GPU forwards a copy."""
        return "network"

    @property
    def slice_overhead(self) -> int:
        """A wait and a copy."""
        return self.event_overhead + self.copy_overhead

    @property
    def is_random(self) -> bool:
        """Delays are drawn."""
        return self.sharing == "delayed"

    def specification(self, npu: Npu, transit: Transit) -> dict[str, Any]:
        """The engine's description."""
        return {
            "kind": self.kind,
            "copy_overhead_ps": self.copy_overhead,
            "kernel_overhead_ps": self.kernel_overhead,
            "event_overhead_ps": self.event_overhead,
            "reduce_bytes_per_s": self.reduce_rate,
            "start_latency_ps": self.start_latency,
            "peer_access_latency_ps": self.peer_access_latency,
            "sharing": self.sharing,
            "delay_per_mille": round(PER_CHUNK * self.delay) if self.sharing == "delayed" else 0,
        }

    def events(self, of_network: float, messages: int, preview: Preview, packet_bytes: int | None) -> float:
        """A message tells its stream that it has left."""
        return of_network + messages
