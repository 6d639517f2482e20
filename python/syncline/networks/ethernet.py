"""The Ethernet backend: switches whose queues overflow, and a transport that copes with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from syncline import quantities
from syncline.networks.analytical import AnalyticalNetwork
from syncline.networks.base import NetworkSection
from syncline.networks.faults import Fault, changes
from syncline.networks.flow import FlowNetwork
from syncline.quantities import SIZE
from syncline.schema.fields import Accepted, Share, Size, Time, refused
from syncline.schema.section import Violation

if TYPE_CHECKING:
    import pyarrow as pa

    from syncline.preview import Preview

LARGEST_FRAME: Final = 65_535
"""Bytes of the largest frame."""
BLOCKS_BYTES: Final = 24
"""Bytes that SACK blocks add to an acknowledgement at most."""
QUEUE_ACCEPTED: Final = f"unbounded, or {SIZE.accepted}"
MS: Final = 1_000_000_000
PS_PER_S: Final = 1e12


def _queue_text(value: int | None) -> str:
    return "unbounded" if value is None else SIZE.format(value)


def _queue(value: object) -> int | None:
    if value is None or value == "unbounded":
        return None
    try:
        return quantities.size(value)
    except quantities.QuantityError as error:
        raise refused(error.message, QUEUE_ACCEPTED) from None


Queue = Annotated[int | None, BeforeValidator(_queue), PlainSerializer(_queue_text), Accepted(QUEUE_ACCEPTED)]
Switch = Literal["on", "off"]

PROFILES: Final[dict[str, dict[str, Any]]] = {
    "rfc": {"dialect": "rfc", "clock_granularity_ps": 1_000_000, "retries": 15, "idle_restart": True},
    "ns3-3.37": {"dialect": "ns3", "clock_granularity_ps": MS, "retries": 6, "idle_restart": False},
}
"""What the profiles differ in: `rfc` follows RFC 5681, 6298, 6675 and 6937; `ns3-3.37` does what that version of ns-3
does by default."""


class EthernetNetwork(NetworkSection):
    """Switches with output queues of limited size, and TCP between the NPUs."""

    backend: Literal["ethernet"] = "ethernet"
    """Which network model."""
    transport: Literal["tcp"] = "tcp"
    """What sends again what is lost."""
    profile: Literal["rfc", "ns3-3.37"] = "rfc"
    """`rfc` follows the RFCs; `ns3-3.37` does what that version of ns-3 does, to be held against it."""
    congestion_control: Literal["newreno", "cubic", "dctcp"] = "newreno"
    """How the congestion window develops: RFC 5681, RFC 9438 or RFC 8257."""
    segment: Size = 1448
    """Payload of a full segment."""
    overhead: Size = 54
    """What a frame has beside its payload, and the size of a bare acknowledgement; a SACK block adds 8 B to that."""
    buffer: Size = 524_288
    """What may wait at an output of a switch, without the frame that is leaving."""
    nic_queue: Queue = None
    """What may wait at the port of a host."""
    window: Size = 524_288
    """Size of both socket buffers, and so the most that a connection has in flight."""
    min_rto: Time = 50 * MS
    """Least retransmission timeout; it doubles each time that it expires."""
    initial_window: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Segments of the first congestion window."""
    delayed_ack: Annotated[int, Field(ge=1, le=64)] = 1
    """Full segments for which an acknowledgement waits; 1 acknowledges each."""
    delayed_ack_timeout: Time = 40 * MS
    """How long an acknowledgement waits at most."""
    sack: Switch = "on"
    """Whether acknowledgements say what has arrived out of order."""
    recovery: Literal["prr", "classic"] = "prr"
    """How the window develops during fast recovery: proportional rate reduction, or half of what was in flight."""
    connections: Literal["pair", "channel"] = "channel"
    """Whether two NPUs have one connection each way, or one for each channel of the collective, such as a tree."""
    balancing: Literal["flow", "packet"] = "flow"
    """Which of several equally good ways frames take: one for each connection, by a hash with the seed, or one for each
    frame."""
    ecn_threshold: Size | None = None
    """Outputs of switches mark frames that find more than this waiting, and senders reduce their window. By default a
    sixth of the buffer with DCTCP, and otherwise none."""
    ecn_above: Size | None = None
    """Instead of marking all frames above the threshold, mark some between it and this size, and all above."""
    ecn_probability: Share | None = None
    """The share that is marked just below that size."""

    faults: Annotated[list[Fault], Field(max_length=1000)] = Field(default=[])
    """Links that go down, slow down or lose frames, and slow nodes."""

    ENGINE_NAMES: ClassVar = {
        "segment_bytes": "segment",
        "overhead_bytes": "overhead",
        "buffer_bytes": "buffer",
        "nic_queue_bytes": "nic_queue",
        "window_bytes": "window",
        "min_rto_ps": "min_rto",
        "delayed_ack_timeout_ps": "delayed_ack_timeout",
    }
    PER_MESSAGE: ClassVar = 3.0
    EVENTS_PER_S: ClassVar = 6_000_000

    @property
    def is_random(self) -> bool:
        """Ways are hashed with the seed, or drawn for each frame, and so may be what is marked."""
        return True

    @property
    def transfer(self) -> str:
        """Frames."""
        return "frames"

    def cheaper(self) -> tuple[NetworkSection, ...]:
        """Flows, and the analytical one."""
        return (self.on(FlowNetwork()), self.on(AnalyticalNetwork()))

    def violations(self) -> Iterator[Violation]:
        """Frames fit buffers, and marking is described completely."""
        largest = max(self.segment, BLOCKS_BYTES) + self.overhead
        if largest > LARGEST_FRAME:
            accepted = f"segment and overhead of up to {LARGEST_FRAME} B together"
            yield Violation(("network", "segment"), f"frames would have {largest} B", accepted)
            return
        for name in ("buffer", "nic_queue"):
            size = getattr(self, name)
            if size is not None and size < largest:
                yield Violation(("network", name), f"a frame of {largest} B does not fit", f"at least {largest} B")
        for i, fault in enumerate(self.faults):
            for name, message, accepted in fault.wrong():
                yield Violation(("network", "faults", str(i), name), message, accepted)
        if self.window < self.segment:
            yield Violation(("network", "window"), "a segment does not fit", f"at least {self.segment} B")
        if (self.ecn_above is None) != (self.ecn_probability is None) or (
            self.ecn_above is not None and self.ecn_threshold is None
        ):
            name = "ecn_above" if self.ecn_above is not None else "ecn_probability"
            message = "marking with a probability needs ecn_threshold, ecn_above and ecn_probability"
            yield Violation(("network", name), message, "all three of them, or ecn_threshold alone")
        elif self.ecn_above is not None and self.ecn_threshold is not None and self.ecn_above <= self.ecn_threshold:
            accepted = f"more than {SIZE.format(self.ecn_threshold)}"
            yield Violation(("network", "ecn_above"), "this is not above ecn_threshold", accepted)

    def _marking(self) -> dict[str, Any]:
        if self.ecn_above is not None and self.ecn_probability is not None:
            millionths = int(self.ecn_probability * 1_000_000)
            sizes = {"least_bytes": self.ecn_threshold, "most_bytes": self.ecn_above}
            return {"rule": "red", **sizes, "millionths": millionths}
        threshold = self.ecn_threshold
        if threshold is None and self.congestion_control == "dctcp":
            threshold = self.buffer // 6
        return {"rule": "none"} if threshold is None else {"rule": "step", "bytes": threshold}

    def specification(self) -> dict[str, Any]:
        """The engine's description."""
        return {
            "backend": self.backend,
            "segment_bytes": self.segment,
            "overhead_bytes": self.overhead,
            "buffer_bytes": self.buffer,
            "nic_queue_bytes": self.nic_queue,
            "window_bytes": self.window,
            "min_rto_ps": self.min_rto,
            "initial_window": self.initial_window,
            "delayed_ack": self.delayed_ack,
            "delayed_ack_timeout_ps": self.delayed_ack_timeout,
            "sack": self.sack == "on",
            "recovery": self.recovery,
            "congestion_control": self.congestion_control,
            "marking": self._marking(),
            "connection_per_pair": self.connections == "pair",
            "sprays": self.balancing == "packet",
            **PROFILES[self.profile],
        }

    def changes(self, npus: int) -> list[dict[str, Any]]:
        """The faults."""
        return changes(self.faults, npus)

    def counted(self, tables: Mapping[str, pa.Table], time_ps: int) -> dict[str, Any]:
        """What the transport did (table `transport`), and how many of the least timeouts the run took."""
        found = tables["transport"].to_pylist()[0]
        counts = (
            "segments_sent",
            "retransmissions",
            "drops",
            "marks",
            "rto_events",
            "flows_with_rto",
            "fast_recoveries",
        )
        trip = {name: found[f"{name}_ps"] for name in ("rtt_p50", "rtt_p99")}
        return {
            **{name: found[name] for name in (*counts, "packets_forwarded")},
            "connections": found["connections"],
            "rto_rounds": time_ps // self.min_rto,
            "forwarded_bytes": found["forwarded_bytes"],
            "max_queue_bytes": found["max_queue_bytes"],
            **{f"{name}_s": None if time is None else time / PS_PER_S for name, time in trip.items()},
        }

    def frames(self, preview: Preview) -> float:
        """Every segment and its acknowledgement on every link; losses bring more."""
        return 2 * (preview.byte_hops / self.segment + preview.message_hops)
