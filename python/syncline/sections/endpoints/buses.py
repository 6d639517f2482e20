"""What messages cost the buses of an endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from syncline.base.quantities import RATE, TIME
from syncline.base.section import Section, Violation
from syncline.fabric.fields import Rate, Size, TimeOrZero

if TYPE_CHECKING:
    from syncline.sections.npu import Npu


class Buses(Section):
    """What a message costs the buses between an NPU, its memory and the network beside its bytes."""

    kind: Literal["rate", "loggp"] = "rate"
    """`rate`: a message costs its bytes only. `loggp`: the LogGP model, with the bandwidths of the buses as its G."""
    latency: TimeOrZero | None = None
    """L: latency from the sending end of a bus to the receiving end."""
    overhead: TimeOrZero | None = None
    """o: time for which either end is busy with a message."""
    gap: TimeOrZero | None = None
    """g: the least time between the beginnings of two messages."""
    message: Size | None = None
    """Longer transfers are cut into messages of this size; each is one message if not given."""
    memory: Rate | None = None
    """Bandwidth of the bus to memory; what is set aside for communication (`comm_memory_bandwidth`) if not given."""

    @property
    def to_memory(self) -> int | None:
        """The bandwidth of the bus to memory, if it has one of its own."""
        return self.memory if self.kind == "loggp" else None

    def faults(self, npu: Npu | None) -> Iterator[Violation]:
        """LogGP needs its three parameters, and no bus to memory is faster than the memory."""
        for name in ("latency", "overhead", "gap"):
            if self.kind == "loggp" and getattr(self, name) is None:
                yield Violation(("endpoint", "buses", name), "buses of kind loggp need this", TIME.accepted)
        if npu is not None and self.memory is not None and self.memory > npu.memory_bandwidth:
            most = f"at most {RATE.format(npu.memory_bandwidth)}, which is npu.memory_bandwidth"
            yield Violation(("endpoint", "buses", "memory"), "this is more than the NPU has", most)

    def specification(self) -> dict[str, Any]:
        """The engine's description (`BusSpec`)."""
        if self.kind == "rate":
            return {"kind": "rate"}
        return {
            "kind": "loggp",
            "latency_ps": self.latency,
            "overhead_ps": self.overhead,
            "gap_ps": self.gap,
            "message_bytes": self.message,
        }
