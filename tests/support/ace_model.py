"""What single resources of a torus of NPUs take for a collective: closed forms of the ACE paper (Rashidi et al., ISCA
2021), derived from its text and not from the engine.

Every function gives a time that no run can beat, or a number of bytes that a run moves exactly. The sources are
sections IV (SRAM, FSMs, chunks and messages), V (the four phases, direct all-to-all in XYZ order, links) and VI-A
(bytes read per byte sent). Times are picoseconds, sizes bytes, rates bytes per second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lcm, prod
from typing import Final

PS: Final = 10**12


@dataclass(frozen=True, slots=True)
class Ring:
    """A dimension of a torus: one bidirectional ring; two NPUs are joined by both of its links."""

    size: int
    rate: int
    """Payload rate of a link and direction."""
    latency: int

    @property
    def mean_load(self) -> float:
        """Bytes through the NPU's two links of the dimension, per byte that each NPU has for each coordinate of it."""
        return self.size**2 // 4


@dataclass(frozen=True, slots=True)
class Engine:
    """An ACE (section IV-I and Table V)."""

    memory: int = 128 * 10**9
    bus: int = 500 * 10**9
    clock: int = 1_245_000_000
    sram: int = 4 << 20
    banks: int = 4
    alus: int = 4
    fsms: int = 16
    message: int = 8 << 10
    port_buffer: int = 4 << 10
    width: int = 64

    @property
    def pool_rate(self) -> int:
        """Bytes per second of one bank's read port, of its write port and of one ALU."""
        return self.width * self.clock


@dataclass(frozen=True, slots=True)
class Baseline:
    """SMs and main memory (sections III and VI-A)."""

    memory: int
    sms: int
    bus: int = 500 * 10**9
    clock: int = 1_245_000_000
    inflight: int = 16


@dataclass(frozen=True, slots=True)
class Ideal:
    """Every message is processed within a cycle (Table VI)."""

    clock: int = 1_245_000_000
    inflight: int = 16


Endpoint = Engine | Baseline | Ideal


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of the all-reduce (section V) as an NPU sees it, per byte of a chunk."""

    kind: str
    ring: Ring
    dim: int
    divisor: int
    """The NPU works on one part in so many of the chunk."""

    @property
    def blocks(self) -> int:
        """Blocks that an NPU sends: a ring's steps."""
        return (self.ring.size - 1) * (2 if self.kind == "all-reduce" else 1)

    @property
    def block(self) -> float:
        """Bytes of a block per byte of the chunk."""
        return 1 / (self.divisor * self.ring.size)

    @property
    def entering(self) -> float:
        """Bytes that a chunk brings into the phase, per byte of the chunk."""
        return self.block if self.kind == "all-gather" else 1 / self.divisor

    @property
    def sent(self) -> float:
        """Bytes sent per byte of the chunk."""
        return self.blocks * self.block

    @property
    def hops_held(self) -> int:
        """Hops from the first packet that an FSM sends of a group of messages to the last one that it passes on."""
        return self.blocks - 1

    @property
    def accesses(self) -> tuple[int, int, int]:
        """Blocks read from the partition, written to the next one, and added (section IV-D, Fig. 8c)."""
        n = self.ring.size
        return {"reduce-scatter": (n, 1, n - 1), "all-reduce": (n, n, n - 1), "all-gather": (1, n, 0)}[self.kind]

    @property
    def reads_of_baseline(self) -> float:
        """Bytes that the baseline reads from memory per byte of the chunk: two per byte sent while it reduces, one
        while it gathers (section VI-A; the first send reads one, the last reduction, which is not sent, the other)."""
        n = self.ring.size
        return self.block * {"reduce-scatter": 2 * (n - 1), "all-reduce": 3 * (n - 1), "all-gather": n - 1}[self.kind]


@dataclass(frozen=True, slots=True)
class Run:
    """A collective of `size` bytes per NPU, in chunks."""

    rings: tuple[Ring, ...]
    kind: str
    size: int
    chunk: int
    endpoint: Endpoint
    element: int = 2
    packet: int = 256
    phases: tuple[Phase, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "phases", tuple(self._phases()) if self.kind == "all-reduce" else ())

    @property
    def npus(self) -> int:
        return prod(ring.size for ring in self.rings)

    @property
    def axes(self) -> list[tuple[int, Ring]]:
        return [(dim, ring) for dim, ring in enumerate(self.rings) if ring.size > 1]

    def _phases(self) -> list[Phase]:
        if not self.axes:
            return []
        (dim, local), *others = self.axes
        across = [Phase("all-reduce", ring, d, local.size) for d, ring in others]
        return [Phase("reduce-scatter", local, dim, 1), *across, Phase("all-gather", local, dim, 1)]

    @property
    def chunks(self) -> list[int]:
        """Lengths of the chunks: multiples of what divides evenly into blocks everywhere, as equal as they can be; an
        all-to-all halves its blocks where one ring only has an NPU on the far side.
        """
        far_sides = sum(ring.size % 2 == 0 for ring in self.rings)
        parts = [p.divisor * p.ring.size for p in self.phases] or [self.npus * (2 if far_sides == 1 else 1)]
        unit = lcm(*parts) * self.element
        units = -(-self.size // unit)
        count = min(-(-self.size // self.chunk), units)
        return [(units // count + (i < units % count)) * unit for i in range(count)]

    @property
    def padded(self) -> int:
        return sum(self.chunks)

    # Bytes per NPU.

    @property
    def sent_per_byte(self) -> float:
        """Bytes sent per byte of the vector; 2.25 of an all-reduce on 4x4x4."""
        return sum(p.sent for p in self.phases) if self.kind == "all-reduce" else (self.npus - 1) / self.npus

    @property
    def hops_per_byte(self) -> float:
        """The same, counted on every link that they cross."""
        if self.kind == "all-reduce":
            return self.sent_per_byte
        return sum(ring.mean_load / ring.size for ring in self.rings)

    def carried(self, dim: int) -> float:
        """Bytes through an NPU's links of a dimension per byte of the vector."""
        if self.kind == "all-reduce":
            return sum(p.sent for p in self.phases if p.dim == dim)
        return self.rings[dim].mean_load / self.rings[dim].size

    @property
    def read_per_byte(self) -> float:
        """Bytes read from main memory per byte of the vector."""
        if isinstance(self.endpoint, Ideal) or self.npus == 1:
            return 0.0
        if isinstance(self.endpoint, Engine):
            return 1.0 if self.kind == "all-reduce" else self.sent_per_byte
        return sum(p.reads_of_baseline for p in self.phases) if self.phases else self.hops_per_byte

    @property
    def written_per_byte(self) -> float:
        """Bytes written to main memory per byte of the vector: results, or everything that arrives."""
        if isinstance(self.endpoint, Engine):
            return self.read_per_byte
        return 0.0 if isinstance(self.endpoint, Ideal) else self.hops_per_byte

    # What no run can beat.

    def bounds(self) -> dict[str, float]:
        """Times that no run can beat, by the resource that forces them."""
        if self.npus == 1 or not self.chunks:
            return {"nothing": 0.0}
        found = {f"links of dimension {dim}": self._links(dim) for dim, _ in self.axes}
        found["latency"] = self._latency()
        if isinstance(self.endpoint, Ideal):
            found["window"] = self._window(self.endpoint.inflight)
        elif isinstance(self.endpoint, Baseline):
            found |= self._baseline(self.endpoint)
        else:
            found |= self._engine(self.endpoint)
        return found

    def _links(self, dim: int) -> float:
        """Chunks take the two directions of a ring in turn."""
        ring = self.rings[dim]
        if self.kind == "all-reduce":
            lane = max(sum(self.chunks[0::2]), sum(self.chunks[1::2]))
            return lane * self.carried(dim) * PS / ring.rate + ring.latency
        return self.padded * self.carried(dim) * PS / (2 * ring.rate) + ring.latency

    def _step(self, p: Phase, chunk: int) -> float:
        """A chunk's time in a phase: an engine passes packets on as they come, other endpoints whole blocks."""
        block = chunk * p.block
        packets = isinstance(self.endpoint, Engine)
        first = min(block, self.packet) if packets else block
        # The last packet of the last block comes after everything before it, and after all groups before its own.
        groups = self._groups(p, chunk) - 1
        before = groups * p.hops_held * p.ring.latency
        rest = (block / (groups + 1) if groups else block) - first
        return before + p.blocks * (p.ring.latency + first * PS / p.ring.rate) + max(rest, 0.0) * PS / p.ring.rate

    def _groups(self, p: Phase, chunk: int) -> int:
        """Groups of messages of an engine, which its FSM works on one after the other (footnote 3)."""
        if not isinstance(self.endpoint, Engine):
            return 1
        return max(1, -(-int(chunk * p.block) // self.endpoint.message))

    def _way(self, chunk: int) -> float:
        """The way of a chunk's last data: every step of every ring, or to the farthest NPU."""
        if not self.phases:
            return float(sum((ring.size // 2) * ring.latency for ring in self.rings))
        return sum(self._step(p, chunk) for p in self.phases)

    def _latency(self) -> float:
        chunk = max(self.chunks)
        ends = 0.0
        if isinstance(self.endpoint, Engine):
            load = chunk if self.phases else chunk * self.sent_per_byte
            ends = load * PS / min(self.endpoint.memory, self.endpoint.bus)
            ends += (chunk if self.phases else 0) * PS / self.endpoint.bus
        return self._way(chunk) + ends

    def _window(self, inflight: int) -> float:
        """Little's law: no more than so many chunks are under way."""
        return sum(self._way(c) for c in self.chunks) / inflight

    def _baseline(self, endpoint: Baseline) -> dict[str, float]:
        return {
            "memory": self.padded * self.read_per_byte * PS / endpoint.memory,
            "SMs": self.padded * self.read_per_byte * PS / (endpoint.sms * 64 * endpoint.clock),
            "bus": self.padded * self.hops_per_byte * PS / endpoint.bus,
            "window": self._window(endpoint.inflight),
        }

    def _engine(self, engine: Engine) -> dict[str, float]:
        reads, writes, adds = self.accesses()
        found = {
            "memory": self.padded * self.read_per_byte * PS / engine.memory,
            "bus": self.padded * self.read_per_byte * PS / engine.bus,
            "SRAM read ports": self.padded * reads * PS / (engine.banks * engine.pool_rate),
            "SRAM write ports": self.padded * writes * PS / (engine.banks * engine.pool_rate),
            "ALUs": self.padded * adds * PS / (engine.alus * engine.pool_rate),
        }
        for at in range(len(self.phases)):
            found[f"FSMs of phase {at}"] = self._fsms(engine, at)
            found[f"SRAM of phase {at}"] = self._sram(engine, at)
            found[f"room for results of phase {at}"] = self._results(engine, at)
        return found

    def accesses(self) -> tuple[float, float, float]:
        """Bytes read from the SRAM, written to it and added, per byte of the vector; DMAs have ports of their own."""
        if not self.phases:
            return self.hops_per_byte, self.hops_per_byte, 0.0
        each = [tuple(count * p.block for count in p.accesses) for p in self.phases]
        return sum(e[0] for e in each), sum(e[1] for e in each), sum(e[2] for e in each)

    def fsms_of(self, engine: Engine, at: int) -> int:
        """FSMs are spread evenly over the phases."""
        each, more = divmod(engine.fsms, len(self.phases))
        return each + (at < more)

    def _fsms(self, engine: Engine, at: int) -> float:
        """An FSM works on one chunk at a time, and on one group of messages after the other (footnote 3): it is done
        with a group once it has passed its last message on, and it passes on what has come all the way."""
        p = self.phases[at]

        def held(chunk: int) -> float:
            block = chunk * p.block
            groups = self._groups(p, chunk)
            hops = groups * p.hops_held * (p.ring.latency + min(block / groups, 1) * PS / p.ring.rate)
            return max(hops, (chunk * p.sent - engine.port_buffer - self.packet) * PS / p.ring.rate, 0.0)

        number = self.fsms_of(engine, at)
        return max(sum(held(c) for c in self.chunks[first::number]) for first in range(number))

    def partitions(self, engine: Engine) -> list[float]:
        """Section IV-I: bandwidth of a phase times what a chunk brings into it; the terminal one is like the last."""
        weights = [2 * p.ring.rate * p.entering for p in self.phases]
        weights.append(weights[-1])
        return [engine.sram * weight / sum(weights) for weight in weights]

    def _sram(self, engine: Engine, at: int) -> float:
        """Little's law for a partition: block `k` of a group stays until it is needed in step `k`."""
        p, whole = self.phases[at], max(self.chunks)
        capacity = max(self.partitions(engine)[at], whole * p.entering)
        kept = 0.0 if p.kind == "all-gather" else sum(range(p.ring.size)) * p.block * p.ring.latency
        kept += (self._groups(p, whole) - 1) / 2 * p.hops_held * p.ring.latency * p.entering
        load = p.entering * whole * PS / min(engine.memory, engine.bus) if at == 0 else 0.0
        return self.padded * (kept + p.entering * load) / capacity

    def _results(self, engine: Engine, at: int) -> float:
        """Room for the results of a reduce-scatter or an all-gather is set aside when its phase begins (section IV-F:
        the context of a chunk has the address range of its results): a whole number of chunks is in the phase."""
        p, whole = self.phases[at], max(self.chunks)
        if p.kind == "all-reduce":
            return 0.0
        result = whole * (1.0 if p.kind == "all-gather" else p.block)
        fit = max(1, int(self.partitions(engine)[at + 1] // result))
        drained = whole * PS / engine.bus if at + 1 == len(self.phases) else 0.0
        return self.padded / whole * (self._step(p, whole) + drained) / fit
