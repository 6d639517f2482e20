"""The ideal endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from syncline.base.section import Violation
from syncline.fabric.fields import TimeOrZero
from syncline.sections.endpoints.base import EndpointSection, Surroundings, Transit, cycle_ps

if TYPE_CHECKING:
    from syncline.core.preview import Preview
    from syncline.sections.npu import Npu


class IdealEndpoint(EndpointSection):
    """Every message is processed in a fixed time."""

    kind: Literal["ideal"] = "ideal"
    """Which endpoint model."""
    step_latency: TimeOrZero | None = None
    """Time from the arrival of a message to the next step; by default one cycle of the NPU's clock. A thread of an
    algorithm takes it for one step after the other, for what it sends of its own as well."""
    injection_latency: TimeOrZero = 0
    """Time from the arrival of a message until a step can work on it, as copies between network interface and memory
    take it (HOTI 2020): a pure delay of every message, however many are delayed at a time. Only with forwarding of
    messages."""
    forwarding: Literal["messages", "packets"] = "messages"
    """What is passed on when it has arrived: whole messages, or packets, as an ACE does, where the network has some.
    With `packets` nothing is faster, but whatever passes an NPU is simulated packet by packet."""
    transit: Transit | None = None
    """Who forwards messages for distant NPUs where NPUs lie between: the endpoints, message by message, or the routers
    of the network. If not given, `endpoint` where links lead to NPUs only (products of rings and fully connected
    groups), else `network`."""

    ENGINE_NAMES: ClassVar = {"step_latency_ps": "step_latency", "injection_latency_ps": "injection_latency"}
    COLLECTIVE: ClassVar = {"algorithm": "auto", "lanes": "split"}
    crosses_bus: ClassVar = False

    @property
    def runs_at_npu_clock(self) -> bool:
        """Whether a step takes a cycle of the NPU."""
        return self.step_latency is None

    def faults(self, beside: Surroundings) -> Iterator[Violation]:
        """Packets that are passed on as they arrive have no injection latency."""
        if self.injection_latency > 0 and self.forwarding == "packets":
            message = "packets that are passed on as they arrive have no injection latency"
            yield Violation(("endpoint", "injection_latency"), message, "0ns, or forwarding: messages")

    def specification(self, npu: Npu, transit: Transit) -> dict[str, Any]:
        """The engine's description."""
        latency = cycle_ps(npu.clock) if self.step_latency is None else self.step_latency
        return {
            "kind": self.kind,
            "step_latency_ps": latency,
            **({"injection_latency_ps": self.injection_latency} if self.injection_latency else {}),
            "forwarding": self.forwarding,
            "transit": transit,
        }

    def events(self, of_network: float, messages: int, preview: Preview, packet_bytes: int | None) -> float:
        """A message that is delayed takes one event more."""
        return of_network + (messages if self.injection_latency else 0)

    def meaning_of_nothing(self, name: str) -> str:
        """No latency is a cycle."""
        return "one cycle of npu.clock"
