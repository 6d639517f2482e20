"""What every network backend has, and what the rest of the program asks of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from syncline.base.section import ModelSection, Violation
from syncline.fabric.fields import TimeOrZero

if TYPE_CHECKING:
    import pyarrow as pa

    from syncline.core.preview import Preview

COMMON: Final = ("posting", "jitter")
"""The fields that every backend has."""
LONG_S = 600
"""A simulation that takes longer than this may call for a cheaper backend."""


class NetworkSection(ModelSection):
    """A backend as an experiment describes it. What differs from a backend without packets is said by subclasses."""

    backend: str
    """Which network model."""
    posting: Literal["rotated", "sequential", "random"] = "rotated"
    """The order in which a rank of a direct algorithm posts its messages: `rotated` begins with the nearest, so that no
    two ranks turn to the same one at a time; `sequential` goes by number; `random` draws an order for every rank."""
    jitter: TimeOrZero = 0
    """Every NPU begins at a random time below this."""

    PART: ClassVar = "network"
    PER_MESSAGE: ClassVar[float]
    """Events of a message, fitted to random runs (`estimate.py`)."""
    IN_COLLECTIVES: ClassVar[Mapping[str, Any]] = {}
    """What `collective` is with it for a single collective, where nothing is stated."""
    EVENTS_PER_S: ClassVar[int]
    """Events that a second of wall time is enough for, fitted likewise."""

    @property
    def is_random(self) -> bool:
        """Whether results depend on the seed."""
        return self.posting == "random" or self.jitter > 1

    @property
    def packet_bytes(self) -> int | None:
        """The payload of a packet; nothing without packets."""
        return None

    @property
    def transfer(self) -> str:
        """What moves through it: messages, packets, or trains of them."""
        return "messages"

    @property
    def has_contention(self) -> bool:
        """Whether messages that share a link slow each other."""
        return True

    @property
    def tells_apart(self) -> bool:
        """Whether NPUs that are simulated as one may turn out to differ in a run, which is then repeated."""
        return False

    @property
    def has_dear_shares(self) -> bool:
        """Whether finding out how messages share links may cost more than its events."""
        return False

    @property
    def has_least_buffers(self) -> bool:
        """Whether input buffers are so small that only a rule against deadlock would refuse them."""
        return False

    def comparable(self) -> tuple[NetworkSection, ...]:
        """Backends on which algorithms are compared, which count contention: this one where it does, then cheaper
        ones with similar results.
        """
        return (self,)

    def on(self, backend: NetworkSection) -> NetworkSection:
        """Another backend, with what all backends have in common as it is here."""
        return backend.model_copy(update={name: getattr(self, name) for name in COMMON})

    def violations(self) -> Iterator[Violation]:
        """What is wrong with fields of it taken together."""
        return iter(())

    def named_npus(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """NPUs that its fields name: the path of the field within the section, and the number."""
        return iter(())

    def meaning_of_nothing(self, name: str) -> str:
        """What a field stands for that is not given."""
        return "auto"

    def specification(self) -> dict[str, Any]:
        """The engine's description (`NetworkSpec` of `crates/system`)."""
        return {"backend": self.backend}

    def changes(self, npus: int) -> list[dict[str, Any]]:
        """What happens to links and nodes during the run, in the engine's description."""
        return []

    def counted(self, tables: Mapping[str, pa.Table], time_ps: int) -> dict[str, Any]:
        """What a document says of the network beyond what it says of every one: from the tables of a run that took
        so long.
        """
        return {}

    def events(self, preview: Preview, messages: int, *, forwards: bool) -> float:
        """Events of a run with so many messages between neighbours or, unless endpoints forward, between any NPUs."""
        return self.PER_MESSAGE * messages

    def frames(self, preview: Preview) -> float:
        """What it handles beyond events, in the cost of an event."""
        return 0.0

    def recommendation(self, time_s: float) -> str:
        """Advice about a simulation that takes so long."""
        if time_s > LONG_S:
            return f"{self.backend}, if the time is acceptable; --backend analytical for a first answer"
        return self.backend
