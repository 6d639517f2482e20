"""The packet backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, PlainSerializer

from syncline.base import quantities
from syncline.base.quantities import SIZE
from syncline.base.section import Violation
from syncline.fabric.fields import Accepted, Size, refused
from syncline.sections.networks.base import NetworkSection
from syncline.sections.networks.flow import FlowNetwork

if TYPE_CHECKING:
    from syncline.core.preview import Preview

BUFFER_ACCEPTED: Final = f"auto, or {SIZE.accepted}"
MOST_PACKETS: Final = 2**32 - 1
PER_TRAIN: Final = 3.0
"""Events of a train on a link, where endpoints forward and messages are trains between neighbours."""
PER_PACKET_OF_TRAIN: Final = 0.02
"""Events of each of its packets."""


def _buffer_text(value: int | None) -> str:
    return "auto" if value is None else SIZE.format(value)


def _buffer(value: object) -> int | None:
    if value is None or value == "auto":
        return None
    try:
        return quantities.size(value)
    except quantities.QuantityError as error:
        raise refused(error.message, BUFFER_ACCEPTED) from None


Buffer = Annotated[int | None, BeforeValidator(_buffer), PlainSerializer(_buffer_text), Accepted(BUFFER_ACCEPTED)]


class PacketNetwork(NetworkSection):
    """Packets, input-buffered routers, credits and dimension-order routing."""

    backend: Literal["packet"] = "packet"
    """Which network model."""
    packet: Size = 256
    """Payload of a packet."""
    buffer: Buffer = None
    """Input buffer of a link, as a size; `auto` is twice the bandwidth-delay product of the link. It has a slot for
    each packet that fits, and a short packet takes one like a full one: messages of a few bytes fill it as fast."""
    deadlock_rule: Literal["bubble", "dateline", "none"] = "bubble"
    """How rings are kept free of deadlock; `none` shows what happens without a rule."""
    mode: Literal["trains", "reference"] = "trains"
    """`trains` moves packets of one message together where that is exact; `reference` moves every packet by itself."""

    ENGINE_NAMES: ClassVar = {"buffer_packets": "buffer", "packet_bytes": "packet"}
    PER_MESSAGE: ClassVar = 1.5
    EVENTS_PER_S: ClassVar = 6_000_000

    @property
    def packet_bytes(self) -> int | None:
        """The payload of a packet."""
        return self.packet

    @property
    def transfer(self) -> str:
        """Packets, or trains of them."""
        return "trains" if self.mode == "trains" else "packets"

    @property
    def has_least_buffers(self) -> bool:
        """Whether a buffer holds a single packet."""
        return self.buffer is not None and self.buffer < 2 * self.packet

    def comparable(self) -> tuple[NetworkSection, ...]:
        """This one, by trains, which take as long as packets that are looked at one by one; and flows."""
        return (self.model_copy(update={"mode": "trains"}), self.on(FlowNetwork()))

    def violations(self) -> Iterator[Violation]:
        """A buffer holds whole packets, and as many as the rule against deadlock needs."""
        if self.buffer is None:
            return
        slots, rest = divmod(self.buffer, self.packet)
        least = 1 if self.deadlock_rule == "none" else 2  # a free slot beside the packet's, or one per channel
        if rest or not least <= slots <= MOST_PACKETS:
            accepted = f"auto, or a multiple of {SIZE.format(self.packet)}, at least {least} of them"
            yield Violation(("network", "buffer"), "this does not hold a usable number of whole packets", accepted)

    def specification(self) -> dict[str, Any]:
        """The engine's description."""
        return {
            "backend": self.backend,
            "packet_bytes": self.packet,
            "buffer_packets": None if self.buffer is None else self.buffer // self.packet,
            "deadlock_rule": self.deadlock_rule,
            "trains": self.mode == "trains",
        }

    def events(self, preview: Preview, messages: int, *, forwards: bool) -> float:
        """One for each packet and link, and some for each message; trains between neighbours cost less."""
        hops = preview.packet_hops
        if forwards and self.mode == "trains":
            return min(PER_TRAIN * messages + PER_PACKET_OF_TRAIN * hops, PER_TRAIN * max(1, hops))
        return hops + self.PER_MESSAGE * messages
