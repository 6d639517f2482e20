"""All-reduces against what another simulator says of them: ASTRA-sim 2.x (commit 518bd513), analytical backends.

Its times were taken with 50 GB/s (of 2^30 bytes) and 500 ns per link and direction, four chunks, one active chunk per
dimension, 10 ns of endpoint delay, 1600 GB/s of local memory. What means the same in both:

* links: rate and latency; its rings use one direction only, as `ring-unidirectional` and `lanes: one` do;
* one active chunk per dimension of a ring: `inflight_per_dimension: 1`; on a torus up to four chunks are under way;
* endpoint delay per message received: the ideal endpoint's `step_latency`.

What an ideal endpoint does not have is its time to reduce, three accesses of local memory per byte of a message. It is
added here to our times, and to nothing else. Its congestion-unaware backend lets messages pass each other on a
link; ours does so only between different senders, with the analytical backend.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from support import registry
from support.experiments import study
from syncline.engine import runs as engine

PUBLISHED = Path(__file__).parents[2] / "shared" / "data" / "astra" / "analytical_results.csv"
"""The same numbers, where they lie beside the repository."""

MIB = 2**20
GIB = 2**30
BYTES_PER_NS = 50 * GIB / 1e9
LATENCY_NS = 500
DELAY_NS = 10
MEMORY_BYTES_PER_NS = 1600
CHUNKS = 4
LINKS = f"rate={50 * GIB}B/s, latency={LATENCY_NS}ns"
AGREE = 0.02
NEIGHBOURS = registry.EXACT
"""Between neighbours on a ring all backends without a transport mean the same."""


def reduction_ns(*messages: float) -> int:
    """What the peer adds for reducing messages of so many bytes, one after the other."""
    return sum(3 * int(size / MEMORY_BYTES_PER_NS) for size in messages)


def closed_form_ns(kind: str, npus: int, size: int) -> int:
    """Its time of a ring, found by varying one parameter at a time; exact on 4 to 512 NPUs, 1 MiB to 1 GiB.

    `size` is what it counts: the vector of an NPU, for all-gather only its share.
    """
    message = size / CHUNKS if kind == "all-gather" else size / CHUNKS / npus
    step = int(LATENCY_NS + message / BYTES_PER_NS) + DELAY_NS
    reducing = reduction_ns(message)
    steps = {
        "all-reduce": (npus - 1) * (2 * step + reducing),
        "reduce-scatter": (npus - 1) * (step + reducing),
        "all-gather": (npus - 1) * step,
        "all-to-all": npus * (npus - 1) // 2 * step,  # relayed from neighbour to neighbour, block by block
    }
    return CHUNKS * (DELAY_NS + steps[kind])


@lru_cache(maxsize=64)
def ours_ns(topology: str, size: int, algorithm: str, backend: str, active: int = 1, kind: str = "all-reduce") -> float:
    """Our time with so many active chunks per dimension."""
    text = f"""name: peer
topology: "{topology}"
network: {{backend: {backend}}}
workload: {{collective: {kind}, size: {size}B, element: 4B}}
collective: {{algorithm: {algorithm}, chunks: {CHUNKS}, inflight_per_dimension: {active}, scheduling: fifo, lanes: one}}
endpoint: {{kind: ideal, step_latency: {DELAY_NS}ns, transit: network}}
output: {{trace_npus: []}}
"""
    return float(engine.run(study(text).variants[0]).summary["total_ps"] / 1000)


@dataclass(frozen=True)
class Reference:
    """A time of the peer."""

    label: str
    theirs_ns: int
    ours_ns: Callable[[str], float]
    """Ours by backend, without reducing."""
    reducing_ns: int = 0


def ring(npus: int, size: int, active: int = 1) -> Callable[[str], float]:
    return lambda backend: ours_ns(f"Ring({npus}, {LINKS})", size, "ring-unidirectional", backend, active)


def torus(size: int) -> Callable[[str], float]:
    return lambda backend: ours_ns(f"Torus(4, 4, 4, {LINKS})", size, "six-phase", backend, CHUNKS)


RINGS = (
    Reference("unaware_ring8_1048576", 64_440, ring(8, MIB), reduction_ns(*[MIB / 32] * 28)),
    Reference("unaware_ring8_67108864", 2_326_112, ring(8, 64 * MIB), reduction_ns(*[2 * MIB] * 28)),
    Reference("unaware_ring64_1048576", 296_896, ring(64, MIB), reduction_ns(*[MIB / 256] * 252)),
)
FOUR_ACTIVE = Reference("aware_ring64_a4_1GB", 39_375_520, ring(64, GIB, CHUNKS))
"""Four chunks under way, which hide what they reduce behind each other."""
TORI = (
    # The first dimension is never idle, and reduces four chunks in three steps of a quarter each.
    Reference("unaware_t444_67108864", 1_981_676, torus(64 * MIB), reduction_ns(*[4 * MIB] * 12)),
    Reference("unaware_t444_1073741824", 31_522_268, torus(GIB), reduction_ns(*[64 * MIB] * 12)),
)
SWITCH = Reference(
    "aware_sw64_direct_64MB",
    2_509_660,
    lambda backend: ours_ns(f"Switch(64, {LINKS})", 64 * MIB, "direct", backend),
)
"""Its switch passes a message on once all of it is there; what it reduces, the next message hides."""
HALVING = Reference(
    "unaware_ring64_halvingDoubling_64MB",
    2_774_352,
    lambda backend: ours_ns(f"Ring(64, {LINKS})", 64 * MIB, "halving-doubling", backend),
    # After a message it charges for one of half its size; nothing after the last one.
    CHUNKS * reduction_ns(*[16 * MIB / 2**k for k in range(2, 7)]),
)
ALL = (*RINGS, FOUR_ACTIVE, *TORI, SWITCH, HALVING)


def ratio(reference: Reference, backend: str) -> float:
    """Our time, with what reducing adds, over the peer's."""
    return (reference.ours_ns(backend) + reference.reducing_ns) / reference.theirs_ns


@pytest.mark.parametrize("backend", NEIGHBOURS)
@pytest.mark.parametrize("reference", RINGS, ids=lambda r: r.label)
def test_rings(reference: Reference, backend: str) -> None:
    assert ratio(reference, backend) == pytest.approx(1, abs=0.001)


@pytest.mark.parametrize("backend", NEIGHBOURS)
def test_chunks_share_a_ring(backend: str) -> None:
    """With its backend that knows congestion; the other one gives every chunk the whole link, four times as fast."""
    assert ratio(FOUR_ACTIVE, backend) == pytest.approx(1, abs=AGREE)
    bound = 2 * 63 / 64 * GIB / BYTES_PER_NS
    assert FOUR_ACTIVE.ours_ns(backend) >= bound


@pytest.mark.parametrize("backend", NEIGHBOURS)
@pytest.mark.parametrize("reference", TORI, ids=lambda r: r.label)
def test_tori(reference: Reference, backend: str) -> None:
    assert ratio(reference, backend) == pytest.approx(1, abs=AGREE)


def test_flows_on_a_torus_pipeline() -> None:
    """What goes to one neighbour queues, so that dimensions are busy side by side, as with packets."""
    assert ratio(TORI[0], "flow") == pytest.approx(ratio(TORI[0], "packet"), rel=AGREE)


@pytest.mark.parametrize("backend", NEIGHBOURS)
def test_direct_on_a_switch(backend: str) -> None:
    assert ratio(SWITCH, backend) == pytest.approx(1, abs=AGREE)
    assert SWITCH.ours_ns(backend) < SWITCH.theirs_ns


def test_halving_and_doubling_without_contention() -> None:
    assert ratio(HALVING, "analytical") == pytest.approx(1, abs=0.001)


def test_halving_and_doubling_share_the_links_of_a_ring() -> None:
    """Which the peer's backend does not know: to the other side of the ring, 32 messages need each link."""
    assert ratio(HALVING, "flow") > 2


@pytest.mark.parametrize("backend", NEIGHBOURS)
@pytest.mark.parametrize(
    ("kind", "size", "theirs"),
    [("reduce-scatter", MIB, 33_080), ("all-gather", MIB, 151_016), ("all-to-all", GIB, None)],
)
def test_other_collectives(kind: str, size: int, theirs: int | None, backend: str) -> None:
    """All-to-all sends in one message what the peer sends in several, so that only large ones take as long."""
    expected = closed_form_ns(kind, 8, size)
    assert theirs in (None, expected)
    counted = 8 * size if kind == "all-gather" else size
    ours = ours_ns(f"Ring(8, {LINKS})", counted, "ring-unidirectional", backend, kind=kind)
    reducing = reduction_ns(*[size / 32] * 28) if kind == "reduce-scatter" else 0
    assert (ours + reducing) / expected == pytest.approx(1, abs=0.001)


@pytest.mark.parametrize("npus", [4, 5, 16, 100])
@pytest.mark.parametrize("size", [MIB, 40_000_000, GIB])
def test_its_closed_form_of_a_ring(npus: int, size: int) -> None:
    message = size / CHUNKS / npus
    ours = ours_ns(f"Ring({npus}, {LINKS})", size, "ring-unidirectional", "analytical")
    reducing = reduction_ns(*[message] * (CHUNKS * (npus - 1)))
    assert (ours + reducing) / closed_form_ns("all-reduce", npus, size) == pytest.approx(1, abs=0.002)


def test_the_closed_form_is_what_it_prints() -> None:
    sizes = {"unaware_ring8_1048576": (8, MIB), "unaware_ring8_67108864": (8, 64 * MIB)}
    sizes |= {"unaware_ring64_1048576": (64, MIB)}
    for reference in RINGS:
        assert closed_form_ns("all-reduce", *sizes[reference.label]) == reference.theirs_ns
    assert closed_form_ns("all-to-all", 8, MIB) == 125_480
    assert closed_form_ns("all-gather", 16, MIB) == 323_560


def test_the_numbers_are_the_published_ones() -> None:
    if not PUBLISHED.is_file():
        pytest.skip(f"{PUBLISHED.name} does not lie beside the repository; the numbers here are copies of it")
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        rows = {row["label"]: int(row["sim_time_ns(cycles)"]) for row in csv.DictReader(file)}
    assert {reference.label: reference.theirs_ns for reference in ALL} == rows
