"""The Ethernet backend: switches whose queues overflow or make senders pause, and a transport that copes with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from syncline.base import quantities
from syncline.base.quantities import SIZE
from syncline.base.section import Violation
from syncline.fabric import graph, hardware
from syncline.fabric.fields import Accepted, Share, Size, Time, refused
from syncline.sections.networks import background, captures
from syncline.sections.networks.background import Traffic
from syncline.sections.networks.base import NetworkSection
from syncline.sections.networks.captures import NamedPort
from syncline.sections.networks.faults import Fault, NamedNpu, changes, number
from syncline.sections.networks.flow import FlowNetwork
from syncline.sections.networks.packet import Buffer
from syncline.sections.networks.rdma import Dcqcn

if TYPE_CHECKING:
    import pyarrow as pa

    from syncline.core.preview import Preview

LOCAL_CLASSES: Final = (graph.NVLINK, graph.NVSWITCH, graph.PCIE, graph.C2C, hardware.QPI.kind, hardware.UPI.kind)
"""Classes of links within machines, which lose nothing and have no transport."""
FLOW_CLASSES: Final = (graph.NVLINK, graph.NVSWITCH)
"""Of these, the classes on which messages may be flows."""
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


OUTSTANDING_ACCEPTED: Final = f"all, or a whole number from 1 to {2**31 - 1}"


def _outstanding(value: object) -> int | None:
    if value is None or value == "all":
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31:
        return value
    raise refused("this is no number of messages", OUTSTANDING_ACCEPTED)


Outstanding = Annotated[
    int | None,
    BeforeValidator(_outstanding),
    PlainSerializer(lambda most: "all" if most is None else most),
    Accepted(OUTSTANDING_ACCEPTED),
]
Queue = Annotated[int | None, BeforeValidator(_queue), PlainSerializer(_queue_text), Accepted(QUEUE_ACCEPTED)]
Switch = Literal["on", "off"]
Control = Literal["newreno", "cubic", "dctcp", "dcqcn", "none"]

PROFILES: Final[dict[str, dict[str, Any]]] = {
    "rfc": {"dialect": "rfc", "clock_granularity_ps": 1_000_000, "retries": 15, "idle_restart": True},
    "ns3-3.37": {"dialect": "ns3", "clock_granularity_ps": MS, "retries": 6, "idle_restart": False},
}
"""What the profiles differ in: `rfc` follows RFC 5681, 6298, 6675 and 6937; `ns3-3.37` does what that version of ns-3
does by default."""


CONTROLS: Final[dict[str, tuple[str, ...]]] = {"tcp": ("newreno", "cubic", "dctcp"), "roce": ("dcqcn", "none")}
"""The congestion controls of a transport, its usual one first."""
USUAL: Final[dict[str, dict[str, Any]]] = {
    "tcp": {
        "segment": 1448,
        "overhead": 54,
        "window": 524_288,
        "min_rto": 50 * MS,
        "flow_control": "none",
        "nic_queues": "fifo",
    },
    "roce": {
        "segment": 1024,
        "overhead": 62,
        "window": 2**63,
        "min_rto": 67_108_864_000,
        "flow_control": "pfc",
        "nic_queues": "flow",
    },
}
"""What fields come to that depend on the transport. Frames of RoCEv2 have headers of Ethernet, IPv4, UDP and
InfiniBand and two check sums; its timeout is 4.096 us times 2^14."""
RED: Final = (5_000, 200_000, Fraction(1, 100))
"""From where, up to where and how often frames are marked for DCQCN, as published (SIGCOMM 2015, section 5.2)."""
OF_BACKGROUND: Final = ("flows", "finished", "failed", "left_out", "bytes", "finished_bytes")
"""What documents say of traffic beside the run, as the table `transport` names it."""
RETRIES: Final = 7
"""Timeouts in a row after which a connection of RoCE is given up: the most that InfiniBand can express."""


class EthernetNetwork(NetworkSection):
    """Switches with output queues of limited size, and TCP or RoCE between the NPUs."""

    backend: Literal["ethernet"] = "ethernet"
    """Which network model."""
    transport: Literal["tcp", "roce"] = "tcp"
    """What sends again what is lost."""
    profile: Literal["rfc", "ns3-3.37"] = "rfc"
    """`rfc` follows the RFCs; `ns3-3.37` does what that version of ns-3 does, to be held against it."""
    congestion_control: Control | None = None
    """How the congestion window of TCP develops: RFC 5681 (by default), RFC 9438 or RFC 8257; or what sets the rate
    of RoCE: `dcqcn` (by default) or nothing but the link."""
    retransmission: Literal["go-back-n", "selective-repeat"] = "go-back-n"
    """What RoCE sends again: everything from the lost frame on, or lost frames alone."""
    dcqcn: Dcqcn = Dcqcn()
    """The parameters of DCQCN."""
    segment: Size | None = None
    """Payload of a full segment. By default 1448 B with TCP and 1024 B with RoCE."""
    overhead: Size | None = None
    """What a frame has beside its payload, and the size of a bare acknowledgement; a SACK block adds 8 B to that. By
    default 54 B with TCP and 62 B with RoCE."""
    buffer: Size = 524_288
    """What may wait at an output of a switch, without the frame that is leaving; with `pfc`, what may wait of what
    has come by an input."""
    buffer_sharing: Literal["port", "dynamic"] = "port"
    """Whether each port of a switch has its part of the buffer, or queues may hold a multiple of what is free of all
    of it."""
    buffer_alpha: Annotated[float, Field(gt=0, le=256, allow_inf_nan=False)] = 1.0
    """That multiple."""
    flow_control: Literal["pfc", "none"] | None = None
    """Whether a switch tells senders to pause when a buffer is full (priority flow control), instead of dropping
    frames. By default with RoCE."""
    headroom: Buffer = None
    """What each input of a switch keeps of its buffer for frames that come although it has asked for a pause; `auto`
    is as much as may come."""
    nic_queues: Literal["fifo", "flow"] | None = None
    """Whether connections put frames into one queue at the port of a host, or the port asks them in turn. By default
    `fifo` with TCP; RoCE has `flow`."""
    nic_queue: Queue = None
    """What may wait at the port of a host, if it has one queue."""
    outstanding: Outstanding = None
    """How many messages of a host may have been posted without having left; the others wait for their turn."""
    window: Size | None = None
    """Size of both socket buffers, and so the most that a connection has in flight. By default 512 KiB with TCP and
    unbounded with RoCE."""
    min_rto: Time | None = None
    """Least retransmission timeout; it doubles each time that it expires. With RoCE the timeout, which stays. By
    default 50 ms with TCP and 67.1 ms with RoCE."""
    initial_window: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Segments of the first congestion window. By default ten; the profile `rfc` has 14,600 B at most, or two segments
    if these are more (RFC 6928). Whatever it is, no more than 65,535 B are sent before the first acknowledgement."""
    delayed_ack: Annotated[int, Field(ge=1, le=64)] = 1
    """Full segments for which an acknowledgement waits; 1 acknowledges each. With RoCE the end of a message does not
    wait."""
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
    sixth of the buffer with DCTCP, 5 kB up to 200 kB with DCQCN, and otherwise none."""
    ecn_above: Size | None = None
    """Instead of marking all frames above the threshold, mark some between it and this size, and all above."""
    ecn_probability: Share | None = None
    """The share that is marked just below that size."""

    inside: Literal["packets", "flow"] = "packets"
    """How bytes cross links within machines: in packets of `segment`, or as a fluid. Messages that take NVLink only are
    flows then, and nothing has an event of its own that NICs read and write over PCIe."""

    watch: Annotated[list[Annotated[list[NamedNpu], Field(min_length=2, max_length=2)]], Field(max_length=100)] = Field(
        default=[]
    )
    """Sender and receiver of connections whose window, rate and round trips are recorded over time."""
    background: Annotated[list[Traffic], Field(max_length=1000)] = Field(default=[])
    """Traffic beside that of the run: flows of the same transport, with connections of their own. Nobody waits for
    them."""
    capture: Annotated[list[NamedPort], Field(max_length=100)] = Field(default=[])
    """Ports of which what leaves is written to the directory of a run, as files of captured packets (pcap)."""
    faults: Annotated[list[Fault], Field(max_length=1000)] = Field(default=[])
    """Links that go down, slow down or lose frames, and slow nodes."""

    ENGINE_NAMES: ClassVar = {
        "segment_bytes": "segment",
        "overhead_bytes": "overhead",
        "buffer_bytes": "buffer",
        "nic_queue_bytes": "nic_queue",
        "window_bytes": "window",
        "initial_window_bytes": "initial_window",
        "min_rto_ps": "min_rto",
        "delayed_ack_timeout_ps": "delayed_ack_timeout",
        "headroom_bytes": "headroom",
        "captured": "capture",
        "flow_classes": "inside",
    }
    IN_COLLECTIVES: ClassVar = {"chunks": 1}  # windows and losses decide, of which trials with flows know nothing
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

    def settled(self, name: str) -> Any:
        """A field, or what it comes to with this transport."""
        value = getattr(self, name)
        return USUAL[self.transport][name] if value is None else value

    @property
    def control(self) -> str:
        """The congestion control."""
        return self.congestion_control or CONTROLS[self.transport][0]

    def meaning_of_nothing(self, name: str) -> str:
        """What a field comes to with this transport."""
        if name == "congestion_control":
            return self.control
        if name == "initial_window":
            segment = int(self.settled("segment"))
            return f"{self.initial_window_bytes / segment:.4g} segments of {SIZE.format(segment)}"
        if name not in USUAL[self.transport]:
            return "none" if self._marking()["rule"] == "none" else "auto"
        value = self.settled(name)
        if name == "window" and self.transport == "roce":
            return "unbounded"
        if name == "min_rto":
            return quantities.TIME.format(value)
        return SIZE.format(value) if isinstance(value, int) else str(value)

    @property
    def initial_window_bytes(self) -> int:
        """The first congestion window: that of RFC 6928, section 2, or ten segments as in ns-3."""
        segment = int(self.settled("segment"))
        if self.initial_window is not None:
            return self.initial_window * segment
        most = max(2 * segment, 14_600) if self.profile == "rfc" else 10 * segment
        return min(10 * segment, most)

    @property
    def pauses(self) -> bool:
        """Whether switches have priority flow control."""
        return bool(self.settled("flow_control") == "pfc")

    @property
    def asks_connections(self) -> bool:
        """Whether the port of a host asks its connections in turn."""
        return bool(self.settled("nic_queues") == "flow")

    @property
    def tells_apart(self) -> bool:
        """What a switch marks at random, say, differs from one NPU to the other."""
        return True

    def comparable(self) -> tuple[NetworkSection, ...]:
        """This one, and flows."""
        return (self, self.on(FlowNetwork()))

    def violations(self) -> Iterator[Violation]:
        """Frames fit buffers, and marking is described completely."""
        segment, overhead, window = (self.settled(name) for name in ("segment", "overhead", "window"))
        largest = max(segment, BLOCKS_BYTES) + overhead
        if largest > LARGEST_FRAME:
            accepted = f"segment and overhead of up to {LARGEST_FRAME} B together"
            yield Violation(("network", "segment"), f"frames would have {largest} B", accepted)
            return
        yield from self._wrong_for_transport()
        for name in ("buffer", "nic_queue"):
            size = getattr(self, name)
            if size is not None and size < largest:
                yield Violation(("network", name), f"a frame of {largest} B does not fit", f"at least {largest} B")
        if self.pauses and self.headroom is not None and self.headroom > self.buffer - largest:
            message = f"no frame of {largest} B fits the buffer beside it"
            accepted = f"auto, up to {SIZE.format(max(0, self.buffer - largest))}, or a larger network.buffer"
            yield Violation(("network", "headroom"), message, accepted)
        for i, fault in enumerate(self.faults):
            for name, message, accepted in fault.wrong():
                yield Violation(("network", "faults", str(i), name), message, accepted)
        for i, traffic in enumerate(self.background):
            for name, message, accepted in traffic.wrong():
                yield Violation(("network", "background", str(i), name), message, accepted)
        if window < segment:
            yield Violation(("network", "window"), "a segment does not fit", f"at least {segment} B")
        if (self.ecn_above is None) != (self.ecn_probability is None) or (
            self.ecn_above is not None and self.ecn_threshold is None
        ):
            name = "ecn_above" if self.ecn_above is not None else "ecn_probability"
            message = "marking with a probability needs ecn_threshold, ecn_above and ecn_probability"
            yield Violation(("network", name), message, "all three of them, or ecn_threshold alone")
        elif self.ecn_above is not None and self.ecn_threshold is not None and self.ecn_above <= self.ecn_threshold:
            accepted = f"more than {SIZE.format(self.ecn_threshold)}"
            yield Violation(("network", "ecn_above"), "this is not above ecn_threshold", accepted)

    def _wrong_for_transport(self) -> Iterator[Violation]:
        known = CONTROLS[self.transport]
        if self.control not in known:
            message = f"{self.transport} has no congestion control of this name"
            yield Violation(("network", "congestion_control"), message, " or ".join(known))
        if self.transport == "roce" and not self.asks_connections:
            yield Violation(("network", "nic_queues"), "connections of RoCE wait for the port to ask them", "flow")

    def _marking(self) -> dict[str, Any]:
        if self.ecn_above is not None and self.ecn_probability is not None:
            millionths = int(self.ecn_probability * 1_000_000)
            sizes = {"least_bytes": self.ecn_threshold, "most_bytes": self.ecn_above}
            return {"rule": "red", **sizes, "millionths": millionths}
        threshold = self.ecn_threshold
        if threshold is None and self.control == "dcqcn":
            least, most, share = RED
            return {"rule": "red", "least_bytes": least, "most_bytes": most, "millionths": int(share * 1_000_000)}
        if threshold is None and self.control == "dctcp":
            threshold = self.buffer // 6
        return {"rule": "none"} if threshold is None else {"rule": "step", "bytes": threshold}

    def _switching(self) -> dict[str, Any] | None:
        """How links are served frame by frame, if anything needs that."""
        shares = self.buffer_sharing == "dynamic"
        if not (shares or self.pauses or self.asks_connections):
            return None
        return {
            "alpha_256ths": max(1, round(256 * self.buffer_alpha)) if shares else None,
            "pauses": self.pauses,
            "headroom_bytes": self.headroom,
            "per_connection": self.asks_connections,
        }

    def _roce(self) -> dict[str, Any] | None:
        if self.transport != "roce":
            return None
        dcqcn = self.dcqcn.specification() if self.control == "dcqcn" else None
        return {"selective_repeat": self.retransmission == "selective-repeat", "dcqcn": dcqcn}

    def specification(self) -> dict[str, Any]:
        """The engine's description."""
        is_tcp = self.transport == "tcp"
        return {
            "backend": self.backend,
            "local_classes": list(LOCAL_CLASSES),
            "flow_classes": list(FLOW_CLASSES) if self.inside == "flow" else [],
            "roce": self._roce(),
            "switching": self._switching(),
            "watched": [[number(end, 0) for end in pair] for pair in self.watch],
            "beside": {
                "background": background.specification(self.background),
                "captured": captures.specification(self.capture),
            },
            "segment_bytes": self.settled("segment"),
            "overhead_bytes": self.settled("overhead"),
            "buffer_bytes": self.buffer,
            "nic_queue_bytes": self.nic_queue,
            "outstanding": self.outstanding,
            "window_bytes": self.settled("window"),
            "min_rto_ps": self.settled("min_rto"),
            "initial_window_bytes": self.initial_window_bytes,
            "delayed_ack": self.delayed_ack,
            "delayed_ack_timeout_ps": self.delayed_ack_timeout,
            "sack": self.sack == "on",
            "recovery": self.recovery,
            "congestion_control": self.control if is_tcp else "newreno",
            "marking": self._marking(),
            "connection_per_pair": self.connections == "pair",
            "sprays": self.balancing == "packet",
            **PROFILES[self.profile],
            **({} if is_tcp else {"retries": RETRIES}),
        }

    def named_npus(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """The ends of connections that are watched, and those of traffic beside the run."""
        for i, pair in enumerate(self.watch):
            for j, end in enumerate(pair):
                yield ("watch", str(i), str(j)), number(end, 0)
        for path, npu in background.named_npus(self.background):
            yield ("background", *path), npu

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
            "notifications",
            "naks",
            "discards",
            "pauses",
        )
        beside = {f"background_{name}": found[f"background_{name}"] for name in OF_BACKGROUND}
        over = beside["background_finished"] + beside["background_failed"]
        beside["background_unfinished"] = beside["background_flows"] - over
        trip = {name: found[f"{name}_ps"] for name in ("rtt_p50", "rtt_p99", "flow_rtt_p50", "flow_rtt_p99")}
        return {
            **{name: found[name] for name in (*counts, "packets_forwarded")},
            **(beside if self.background else {}),
            "connections": found["connections"],
            "rto_rounds": time_ps // self.settled("min_rto"),
            "rto_stalled_s": found["rto_stalled_ps"] / PS_PER_S,
            "paused_s": found["paused_ps"] / PS_PER_S,
            "forwarded_bytes": found["forwarded_bytes"],
            "max_queue_bytes": found["max_queue_bytes"],
            **{f"{name}_s": None if time is None else time / PS_PER_S for name, time in trip.items()},
        }

    def frames(self, preview: Preview) -> float:
        """Every segment and its acknowledgement on every link, but for messages that are flows; losses bring more."""
        bytes_, messages = preview.byte_hops - preview.flow_byte_hops, preview.message_hops - preview.flow_message_hops
        return 2.0 * (bytes_ / int(self.settled("segment")) + messages)
