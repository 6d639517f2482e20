"""The ideal endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from syncline.endpoints.base import EndpointSection, Transit, cycle_ps
from syncline.schema.fields import TimeOrZero

if TYPE_CHECKING:
    from syncline.schema.npu import Npu


class IdealEndpoint(EndpointSection):
    """Every message is processed in a fixed time."""

    kind: Literal["ideal"] = "ideal"
    """Which endpoint model."""
    step_latency: TimeOrZero | None = None
    """Time from the arrival of a message to the next step; by default one cycle of the NPU's clock."""
    forwarding: Literal["messages", "packets"] = "messages"
    """What is passed on when it has arrived: whole messages, or packets, as an ACE does, where the network has some.
    With `packets` nothing is faster, but whatever passes an NPU is simulated packet by packet."""
    transit: Transit | None = None
    """Who forwards messages for distant NPUs where NPUs lie between: the endpoints, message by message, or the routers
    of the network. If not given, `endpoint` where links lead to NPUs only (products of rings and fully connected
    groups), else `network`."""

    ENGINE_NAMES: ClassVar = {"step_latency_ps": "step_latency"}
    COLLECTIVE: ClassVar = {"algorithm": "auto", "chunks": 1, "lanes": "split"}  # not cut, and over all lanes at once
    crosses_bus: ClassVar = False

    @property
    def runs_at_npu_clock(self) -> bool:
        """Whether a step takes a cycle of the NPU."""
        return self.step_latency is None

    def specification(self, npu: Npu, transit: Transit) -> dict[str, Any]:
        """The engine's description."""
        latency = cycle_ps(npu.clock) if self.step_latency is None else self.step_latency
        return {"kind": self.kind, "step_latency_ps": latency, "forwarding": self.forwarding, "transit": transit}

    def meaning_of_nothing(self, name: str) -> str:
        """No latency is a cycle."""
        return "one cycle of npu.clock"
