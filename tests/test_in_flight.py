"""Chunks of which nothing is said follow the fabric: links can be busy all the time, and what is found is said."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syncline
from support.experiments import study
from syncline import core, load
from syncline.base import quantities
from syncline.core import _core
from syncline.engine import chunk_search, completing, demand, in_flight, specification
from syncline.engine import runs as engine
from syncline.experiment.load import Variant

FABRIC = "Ring(4, rate={rate}, latency={latency})_Ring(4, rate={rate}, latency={latency})"


PIPELINE = 'name: one\ntopology: "{}"\nnetwork: flow\nworkload: {{collective: {}, size: 64MiB}}\n'


def run(topology: str, size: str, **collective: Any) -> Any:
    """A single all-reduce."""
    return syncline.run(
        {
            **{"name": "one", "topology": topology, "network": "flow"},
            **{"workload": {"collective": "all-reduce", "size": size}, "collective": collective},
        }
    )


def line(found: Any) -> str:
    """What is said of chunks."""
    texts: list[str] = found.document["assumptions"]
    return next(text for text in texts if text.startswith("collective") and "in flight" in text)


def cut(found: Any) -> dict[str, Any]:
    """The chunks that were found, as settings."""
    said = line(found).split()
    return {"inflight": int(said[1]), "chunk": said[4]}


def test_what_is_found_is_said_and_may_be_stated() -> None:
    found = run(FABRIC.format(rate="25GB/s", latency="50ns"), "64MB", algorithm="six-phase")
    assert line(found).endswith(
        "the fastest that were tried, with the busiest link busy for 100 % of the time (default)"
    )
    same = run(FABRIC.format(rate="25GB/s", latency="50ns"), "64MB", algorithm="six-phase", **cut(found))
    assert found.systems["one"].total_time_s == same.systems["one"].total_time_s


@settings(max_examples=6)
@given(
    rate=st.sampled_from(["10GB/s", "50GB/s", "400GB/s"]),
    latency=st.sampled_from(["0ns", "700ns", "5us", "50us"]),
    algorithm=st.sampled_from(["ring", "six-phase", "hierarchical", "direct"]),
)
def test_links_are_busy(rate: str, latency: str, algorithm: str) -> None:
    """With twice the chunks in flight of twice the size, hardly anything is gained: the first is enough."""
    topology = FABRIC.format(rate=rate, latency=latency)
    found = run(topology, "8GiB", algorithm=algorithm)
    number, size = cut(found).values()
    more = run(topology, "8GiB", algorithm=algorithm, chunk=f"{2 * quantities.size(size)}B", inflight=2 * number)
    assert found.systems["one"].total_time_s < 1.15 * more.systems["one"].total_time_s


@pytest.mark.parametrize(
    ("topology", "size", "algorithm"),
    [
        ("dgx-b200", "256MB", None),  # where the law holds with 256 KiB, which takes 11 % longer than 1 MiB
        ("dgx-h200(nodes=2)", "64MB", None),
        (FABRIC.format(rate="400GB/s", latency="700ns"), "64MB", "hierarchical"),  # with 4 MiB by the law, 45 % longer
        (FABRIC.format(rate="50GB/s", latency="5us"), "64MB", "six-phase"),
    ],
)
def test_no_other_chunks_are_much_faster(topology: str, size: str, algorithm: str | None) -> None:
    """The law is not enough where chunks go in step, and where there are few of them."""
    stated = {} if algorithm is None else {"algorithm": algorithm}
    usual = run(topology, size, **stated).systems["one"].total_time_s
    for chunk in ("256KiB", "1MiB", "4MiB"):
        for inflight in (16, 64):
            other = run(topology, size, chunk=chunk, inflight=inflight, **stated).systems["one"].total_time_s
            assert usual < 1.05 * other


def test_what_is_slower_for_usual_collectives_is_not_taken() -> None:
    """Later waves take three times as long as by the law; a collective of few chunks has none."""

    def attempt(request: str, most_work: int) -> chunk_search.Tried | None:
        read = json.loads(request)
        chunks, inflight = number_of_chunks(read), read["collectives"]["inflight"]
        t = read["job"]["bytes"] // chunks
        whole, first = 1_000_000 + 3 * t, min(chunks, inflight)
        time = whole + (first - 1) * t + (chunks - first) * max(t, 3 * whole // inflight)
        return chunk_search.Tried(time, chunks * t, chunks)

    alone = chunk_search.Alone("{}", ALONE, attempt)
    found = [in_flight._found(alone, (2**26, middle), 16, is_only=True) for middle in (2**26, 2**19)]
    sizes = [0 if one is None else one.usual.chunk for one in found]
    assert sizes[1] < sizes[0]  # of a usual one, several chunks are in flight


@given(st.dictionaries(st.integers(0, 10**9), st.integers(1, 10**6), min_size=1, max_size=6))
def test_half_of_all_bytes_are_in_collectives_of_the_usual_size_or_smaller_ones(counts: dict[int, int]) -> None:
    """It is the least such size, and counts every time that an iteration asks for a collective."""
    sizes = list(counts)
    asked = [*(("all-reduce", 0, size) for size in sizes), ("all-gather", 0, 10**12)]
    part = demand.Asked(0, ((0, 1),), tuple(asked), (*counts.values(), 1), 0)
    held = {most: sum(size * counts[size] for size in sizes if size <= most) for most in sizes}
    assert in_flight._middle(part, "all-reduce", 0) == min(
        most for most in sizes if 2 * held[most] >= max(held.values())
    )


def test_collectives_of_a_training_do_not_wait_long_for_chunks_in_flight() -> None:
    """The gradients of the last layers are large and come first; those of the first layers end the iteration."""
    training = {
        **{"name": "one", "topology": "Ring(4, rate=100GB/s, latency=500ns)", "network": "flow"},
        "workload": {"model": "alexnet", "batch": 32, "element": "2B"},
    }
    found = syncline.run(training).systems["one"]
    assert (found.exposed_comm_s or 0) < 0.01 * found.total_time_s
    whole = syncline.run({**training, "collective": {"chunks": 1}}).systems["one"]
    assert (whole.exposed_comm_s or 0) > 10 * (found.exposed_comm_s or 0)


def test_a_large_collective_has_1024_chunks_at_most() -> None:
    found = run(FABRIC.format(rate="25GB/s", latency="50ns"), "1GiB", algorithm="six-phase")
    assert quantities.size(cut(found)["chunk"]) >= 2**20


def test_a_collective_of_latencies_is_not_cut() -> None:
    found = run(FABRIC.format(rate="400GB/s", latency="50us"), "3MB", algorithm="six-phase")
    assert cut(found) == {"inflight": 1, "chunk": "4MiB"}


@pytest.mark.parametrize("stated", [{"chunk": "64KiB"}, {"chunks": 8}])
def test_what_is_stated_stays(stated: dict[str, Any]) -> None:
    found = run(FABRIC.format(rate="400GB/s", latency="50us"), "64MB", **stated)
    assert not any("to keep the busiest" in text for text in found.document["assumptions"])


def test_a_stated_number_is_kept_and_the_size_follows() -> None:
    topology = FABRIC.format(rate="100GB/s", latency="5us")
    sizes = []
    for number in (2, 16, 64):
        found = cut(run(topology, "64MiB", algorithm="six-phase", inflight=number))
        assert found["inflight"] == number
        sizes.append(quantities.size(found["chunk"]))
    assert sizes[0] > sizes[1] >= sizes[2]


def test_what_was_found_comes_with_a_run_that_is_repeated(tmp_path: Path) -> None:
    """The resolved experiment of a directory leaves open what was left open, and gives the same run."""
    experiment = {
        **{"name": "one", "topology": FABRIC.format(rate="400GB/s", latency="5us"), "network": "flow"},
        **{"workload": {"collective": "all-reduce", "size": "64MB"}},
    }
    first = syncline.run(experiment, out=tmp_path / "first").systems["one"]
    again = syncline.run(tmp_path / "first" / "experiment.resolved.yaml").systems["one"]
    assert again.total_time_s == first.total_time_s
    stated = syncline.run({**experiment, "collective": {"chunk": "64KiB"}}).systems["one"]
    assert stated.total_time_s > 1.2 * first.total_time_s


def test_a_slow_network_and_its_chunks_react_to_the_rate() -> None:
    """What a user sees first: twice the rate is nearly twice as fast, whatever the latency."""
    times = [
        run(FABRIC.format(rate=rate, latency="5us"), "1GB").systems["one"].total_time_s for rate in ("25GB/s", "50GB/s")
    ]
    assert times[0] / times[1] > 1.8


ALONE = '{"collectives": {"lanes": "split"}, "job": {"bytes": 0}}'
"""A description, as far as the search reads it."""


def number_of_chunks(description: dict[str, Any]) -> int:
    """Chunks of the collective of a trial."""
    return -(-int(description["job"]["bytes"]) // int(description["collectives"]["chunking"]["bytes"]))


@given(size=st.integers(1, 2**40), chunk=st.integers(1, 2**40))
def test_equal_chunks_are_as_many_and_their_last_one_is_hardly_shorter(size: int, chunk: int) -> None:
    equal = chunk_search.equal(size, chunk)
    chunks = -(-size // chunk)
    assert -(-size // equal) == chunks
    assert equal <= chunk
    assert chunks == 1 or equal - (size - (chunks - 1) * equal) <= chunk_search.ALIGNED * chunks


@pytest.mark.parametrize("size", ["1MB", "300kB", "12345678B"])
@pytest.mark.parametrize("algorithm", ["themis", "hierarchical", "six-phase"])
def test_a_run_takes_what_was_found_for_its_chunks(size: str, algorithm: str) -> None:
    """Sizes that are no multiple of a chunk: as few as all chunks are simulated in the search."""
    text = (
        f'name: a\ntopology: "dgx-h100(nodes=5)"\nworkload: {{collective: all-gather, size: {size}}}\nnetwork: flow\n'
    )
    (variant,) = study(f"{text}collective: {{algorithm: {algorithm}}}\n").variants
    ((_, usual),) = completing.usual_chunks(variant)
    assert engine.run(variant).summary["total_ps"] == pytest.approx(usual.time_ps)


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_a_pipeline_along_one_dimension_is_one_chunk_in_slices(kind: str) -> None:
    (variant,) = study(f"{PIPELINE.format('Ring(8)', kind)}collective: {{algorithm: ring}}\n").variants
    ((_, usual),) = completing.usual_chunks(variant)
    assert (usual.chunk, usual.inflight, usual.is_sliced) == (2**26, 1, True)
    assert (engine.preview(variant).slices or 0) > 8
    assert "its slices follow one another" in str(usual)


@pytest.mark.parametrize("endpoint", ["streams", "{kind: baseline, comm_sms: 4, comm_memory_bandwidth: 128GB/s}"])
@pytest.mark.parametrize("topology", ["Ring(8)", "Torus(4,4)", "dgx1v"])
def test_chunks_of_a_pipeline_are_looked_for_where_endpoints_take_time(topology: str, endpoint: str) -> None:
    """Several chunks are in their copies and reductions at once."""
    text = f"{PIPELINE.format(topology, 'reduce')}endpoint: {endpoint}\ncollective: {{algorithm: ring"
    found, whole = (
        engine.run(study(f"{text}{cut}}}\n").variants[0]).summary["total_ps"] for cut in ("", ", chunks: 1")
    )
    assert found < 0.75 * whole


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_a_pipeline_through_several_dimensions_is_chunks_of_one_slice(kind: str) -> None:
    """Slices of a chunk are all in one dimension; chunks keep the links of every dimension busy."""
    text = PIPELINE.format("Torus(4,4,4)", kind)
    (variant,) = study(f"{text}collective: {{algorithm: ring}}\n").variants
    ((_, usual),) = completing.usual_chunks(variant)
    summary = engine.run(variant).summary
    assert engine.preview(variant).slices == usual.slices == 1
    assert summary["total_ps"] == pytest.approx(usual.time_ps)
    assert (usual.busy or 0.0) > 0.9
    (whole,) = study(f"{text}collective: {{algorithm: ring, chunks: 1}}\n").variants
    assert summary["total_ps"] < 0.6 * engine.run(whole).summary["total_ps"]  # a dimension after the other
    (stated,) = study(f"{text}collective: {{algorithm: ring, slices: 4}}\n").variants
    assert engine.preview(stated).slices == 4


@pytest.mark.parametrize("is_only", [True, False])
def test_the_search_on_a_chain_of_known_times(is_only: bool) -> None:
    """C chunks, n of them in flight, take T + (C - 1) max(t, T / n): as fast as the best of all is what is found."""

    def time(size: int, chunks: int, inflight: int) -> int:
        t = size // chunks
        whole = 1_000_000 + 3 * t
        return whole + (chunks - 1) * (t if chunks <= inflight else max(t, whole // inflight))

    def attempt(request: str, most_work: int) -> chunk_search.Tried | None:
        read = json.loads(request)
        collectives, size = read["collectives"], read["job"]["bytes"]
        chunks = number_of_chunks(read)
        return chunk_search.Tried(time(size, chunks, collectives["inflight"]), size, chunks)

    found = in_flight._found(chunk_search.Alone("{}", ALONE, attempt), (2**26, 2**26), None, is_only)
    assert found is not None
    cuts = [(2**c, 2**n) for c in range(11) for n in range(9)]
    best = min(time(2**26, *of) for of in cuts)
    assert time(2**26, 2**26 // found.usual.chunk, found.usual.inflight) <= 1.03 * best
    assert found.usual.time_ps == pytest.approx(time(2**26, 2**26 // found.usual.chunk, found.usual.inflight))


def told(found: Any) -> list[str]:
    """What is said of links that look slow."""
    return [text for text in found.document["warnings"] if "links look slower" in text]


@pytest.mark.parametrize("stated", [{"chunk": "64KiB"}, {"inflight": 2, "chunk": "1MiB"}, {"chunks": 1}])
@pytest.mark.parametrize("algorithm", ["six-phase", "hierarchical"])
def test_stated_chunks_that_make_links_look_slow_are_told_of(stated: dict[str, Any], algorithm: str) -> None:
    """What is said holds: so long it takes, and so long with what is named in its place."""
    topology = FABRIC.format(rate="400GB/s", latency="5us")
    found = run(topology, "256MiB", algorithm=algorithm, **stated)
    (text,) = told(found)
    said = re.fullmatch(
        r".*with (\d+) chunks? of (\S+) in .* takes about (\S+ \S+), and with (\d+) of (\S+), (\S+ \S+)", text
    )
    assert said is not None
    slow, fast = (quantities.time(said[group].replace(" ", "")) / 1e12 for group in (3, 6))
    changed = run(topology, "256MiB", algorithm=algorithm, chunk=said[5], inflight=int(said[4]))
    assert found.systems["one"].total_time_s == pytest.approx(slow, rel=0.1)
    assert changed.systems["one"].total_time_s == pytest.approx(fast, rel=0.1)
    assert not told(changed)


def test_nothing_is_told_of_links_that_can_be_busy() -> None:
    slow = FABRIC.format(rate="400GB/s", latency="5us")
    assert not told(run(FABRIC.format(rate="25GB/s", latency="50ns"), "64MB", chunk="64KiB"))
    assert not told(run(slow, "64MB"))
    assert not told(run(slow, "64KiB", chunk="64KiB"))  # which is short, whatever its chunks


def test_fitted_chunks_are_as_fast_as_was_measured() -> None:
    experiment = {
        **{"name": "one", "topology": FABRIC.format(rate="400GB/s", latency="5us"), "network": "flow"},
        **{"workload": {"collective": "all-reduce", "size": "64MB"}, "collective": {"chunk": "64KiB"}},
    }
    assert told(syncline.check(experiment))
    fitted = {"collective.chunk": {"fitted_on": "a measurement"}}
    assert not told(syncline.check({**experiment, "calibration": fitted}))


def test_stages_of_a_pipeline_are_tried_out_once() -> None:
    """Communicators have the same shape if their links are alike, and only then."""
    variant = of_pipeline(micro_batches=2)
    described = specification.incomplete(variant.experiment, None)
    in_flight.marked(described)
    shapes: dict[str, set[int]] = {}
    for part, section in demand.parts(described, _core.asked):
        (family,) = (f["name"] for f in described["families"] if f["collectives"] is section)
        shapes.setdefault(family, set()).add(part.shape)
        assert len(part.counts) == len(part.collectives)
    assert len(shapes["tensor"]) == 1  # within each server
    assert shapes["tensor"].isdisjoint(shapes["data"])  # between servers


def of_tables(exchange: str, reduction: str) -> dict[str, Any]:
    """The engine's description of a model with tables of embeddings, its chunks left open."""
    (variant,) = load(
        {
            **{"name": "one", "topology": "Torus(4,2)", "network": "flow"},
            "workload": {"model": "dlrm", "batch": 512},
            "collective": {"algorithm": reduction, "algorithms": {"all-to-all": exchange}},
        }
    )._study.variants
    return specification.incomplete(variant.experiment, None)


def tried(described: dict[str, Any], attempt: chunk_search.Try) -> None:
    """Looks for the chunks of a run."""
    list(in_flight.completed(described, in_flight.marked(described), _core.asked, attempt))


def test_chunks_are_looked_for_in_collectives_that_have_them() -> None:
    """Trees of an all-reduce cut it themselves, however large it is."""
    kinds: set[str] = set()

    def attempt(request: str, most_work: int) -> chunk_search.Tried | None:
        kinds.add(json.loads(request)["job"]["collective"])
        return chunk_search.Tried(1000, 1000, 1)

    tried(of_tables("direct", "double-binary-tree"), attempt)
    assert kinds == {"all-to-all"}
    tried(of_tables("direct", "ring"), attempt)
    assert kinds == {"all-to-all", "all-reduce"}


def test_chunks_are_looked_for_once_whatever_the_algorithms_of_other_kinds() -> None:
    requests: list[str] = []

    def attempt(request: str, most_work: int) -> chunk_search.Tried | None:
        requests.append(request)
        return chunk_search.Tried(1000, 1000, 1)

    tried(of_tables("direct", "ring"), attempt)
    assert len(requests) == len(set(requests)) > 0
    first = len(requests)
    tried(of_tables("ring", "ring"), attempt)
    assert len(requests) == first
    tried(of_tables("ring", "direct"), attempt)
    assert len(requests) > first


def of_pipeline(micro_batches: int) -> Variant:
    """GPT-2 on four servers: two stages, two copies, each divided among the GPUs of a server."""
    (variant,) = load(
        {
            **{"name": "one", "topology": "dgx-h100(nodes=4)", "network": "flow"},
            "workload": {"model": "gpt2", "global_batch": 2 * micro_batches, "parameters": {"vocabulary": 50304}},
            "parallel": {"tensor": 4, "pipeline": 2, "micro_batch": 1},
            "training": {"iterations": 1},
        }
    )._study.variants
    return variant


def test_what_another_engine_said_is_not_kept_for_this_one(fake_engine: ModuleType) -> None:
    """Chunks are those of the engine that simulates, whichever was asked before it in the same process."""
    variant = load(
        {
            **{"name": "one", "topology": "Ring(4, rate=31GB/s)", "collective": {"algorithm": "ring"}},
            "workload": {"collective": "all-reduce", "size": "64MiB"},
        }
    )._study.variants[0]
    before = completing.usual_chunks(variant)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "syncline.core._core", _core)
        patch.setattr(core, "_core", _core)
        assert _core is not fake_engine
        assert completing.usual_chunks(variant) != before
