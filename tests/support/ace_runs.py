"""Runs of the closed forms in `ace_model` by the engine."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from support.ace_model import Baseline, Endpoint, Engine, Ideal, Ring, Run
from support.experiments import study
from syncline.engine import runs as engine

GB = 10**9
NS = 1000

LARGE = 2 << 20
MOST_NPUS = 130
MOST_PACKETS = 20_000
"""Packet hops per NPU of an all-to-all, so that no single run takes seconds."""


def _endpoint(endpoint: Endpoint, transit: str) -> tuple[str, int]:
    if isinstance(endpoint, Engine):
        fields = {
            "kind": "ace",
            "comm_memory_bandwidth": f"{endpoint.memory}B/s",
            "sram": f"{endpoint.sram}B",
            "banks": endpoint.banks,
            "alus": endpoint.alus,
            "fsms": endpoint.fsms,
            "message": f"{endpoint.message}B",
            "port_buffer": f"{endpoint.port_buffer}B",
            "port_width": f"{endpoint.width}B",
        }
    elif isinstance(endpoint, Baseline):
        fields = {"kind": "baseline", "comm_memory_bandwidth": f"{endpoint.memory}B/s", "comm_sms": endpoint.sms}
    else:
        fields = {"kind": "ideal"}
    fields["transit"] = transit
    inflight = 16 if isinstance(endpoint, Engine) else endpoint.inflight
    return "{" + ", ".join(f"{name}: {value}" for name, value in fields.items()) + "}", inflight


def experiment(run: Run, *, fold: str = "auto", transit: str = "endpoint", window: str = "1ms") -> str:
    """The experiment file of a run."""
    rings = "_".join(f"Ring({r.size}, rate={r.rate}B/s, latency={r.latency / NS}ns)" for r in run.rings)
    endpoint, inflight = _endpoint(run.endpoint, transit)
    bus = 500 * GB if isinstance(run.endpoint, Ideal) else run.endpoint.bus
    algorithm = "ace-4-phase" if run.kind == "all-reduce" else "direct"
    return f"""name: run
topology: "{rings}"
npu: {{bus: {bus}B/s, clock: {run.endpoint.clock}Hz, memory_bandwidth: 100TB/s, sms: 4096}}
network: {{packet: {run.packet}B}}
workload: {{collective: {run.kind}, size: {run.size}B, element: {run.element}B}}
collective: {{algorithm: {algorithm}, chunk: {run.chunk}B, inflight: {inflight}, lanes: alternate}}
endpoint: {endpoint}
fold: {fold}
output: {{trace_npus: [0], window: {window}}}
"""


def result(run: Run, **options: str) -> engine.Result:
    """What the engine makes of a run."""
    return engine.run(study(experiment(run, **options)).variants[0])


@lru_cache(maxsize=4096)
def time_ps(run: Run) -> int:
    """How long a run takes."""
    return int(result(run).summary["total_ps"])


def is_small(run: Run) -> bool:
    """Whether it takes milliseconds to simulate."""
    hops = run.hops_per_byte * run.padded / run.packet
    if run.kind == "all-to-all":
        hops = max(hops, len(run.chunks) * run.npus * 3)
    return 1 < run.npus <= MOST_NPUS and hops <= MOST_PACKETS


def holds_chunks(run: Run, count: int) -> bool:
    """Whether every partition of an ACE holds so many chunks."""
    if not isinstance(run.endpoint, Engine) or not run.phases:
        return True
    whole = max(run.chunks)
    needs = [p.entering * whole for p in run.phases] + [whole]
    return all(part >= count * need for part, need in zip(run.partitions(run.endpoint), needs, strict=True))


def rings(sizes: tuple[int, ...]) -> st.SearchStrategy[tuple[Ring, ...]]:
    """Tori LxVxH."""
    ring = st.builds(
        Ring,
        size=st.sampled_from(sizes),
        rate=st.sampled_from([25 * GB, 50 * GB, 200 * GB]),
        latency=st.sampled_from([0, 70 * NS, 400 * NS, 1000 * NS]),
    )
    return st.tuples(ring, ring, ring)


ENGINES = st.builds(
    Engine,
    memory=st.sampled_from([32 * GB, 64 * GB, 128 * GB, 256 * GB, 500 * GB]),
    bus=st.sampled_from([100 * GB, 500 * GB, 1000 * GB]),
    sram=st.sampled_from([2 << 20, 4 << 20, 8 << 20]),
    banks=st.sampled_from([1, 2, 4, 8]),
    alus=st.sampled_from([1, 2, 4, 8]),
    fsms=st.sampled_from([4, 5, 8, 16, 32]),
    message=st.sampled_from([2 << 10, 8 << 10]),
)
BASELINES = st.builds(
    Baseline,
    memory=st.sampled_from([64 * GB, 128 * GB, 450 * GB, 900 * GB]),
    sms=st.sampled_from([1, 2, 6, 20]),
    bus=st.sampled_from([100 * GB, 500 * GB]),
    inflight=st.sampled_from([1, 4, 16, 64]),
)
IDEALS = st.builds(Ideal, inflight=st.sampled_from([1, 4, 16, 64]))


def runs(
    endpoints: st.SearchStrategy[Endpoint],
    *,
    kinds: tuple[str, ...] = ("all-reduce", "all-to-all"),
    sizes: tuple[int, ...] = (1, 2, 3, 4, 5, 8),
    bytes_: tuple[int, ...] = (1, 3, 1001, 65_537, 1 << 20, 3_333_333, LARGE),
    chunks: tuple[int, ...] = (4096, 16_384, 65_536, 100_001),
) -> st.SearchStrategy[Run]:
    """Collectives on tori that are simulated fast."""
    built = st.builds(
        Run,
        rings=rings(sizes),
        kind=st.sampled_from(kinds),
        size=st.sampled_from(bytes_),
        chunk=st.sampled_from(chunks),
        endpoint=endpoints,
    )
    return built.filter(is_small)


def doubled(run: Run, resource: str) -> Run:
    """The run with twice a resource of its endpoint."""
    more: dict[str, Any] = {resource: 2 * getattr(run.endpoint, resource)}
    return replace(run, endpoint=replace(run.endpoint, **more))


def paper(sizes: tuple[int, int, int], endpoint: Endpoint, size: int = 64_000_000, kind: str = "all-reduce") -> Run:
    """A run on the links of the ACE paper's Table V, 94 % of which payload gets."""
    local, across = int(200 * GB * 0.94), int(25 * GB * 0.94)
    latencies = (72_289, 401_606, 401_606)
    torus = tuple(Ring(n, rate, far) for n, rate, far in zip(sizes, (local, across, across), latencies, strict=True))
    return Run(torus, kind, size, 64 << 10, endpoint)
