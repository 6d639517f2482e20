"""The least size of a chunk where a number of chunks is stated: small collectives have fewer chunks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import syncline
from syncline.base.errors import InputError
from syncline.engine import assumptions, completing, demand
from syncline.engine import runs as engine
from syncline.experiment.load import Variant
from syncline.results import rundir
from syncline.sections.workloads import CollectiveWorkload

RING = {"name": "ring", "topology": "Ring(4, rate=100GB/s)", "network": "analytical", "endpoint": "ideal"}
GRAPH = {
    "families": {"all": {"members": {"grid": [4], "along": [0]}, "collective": {"chunks": 64}}},
    "classes": {
        "all": {
            "npus": "0-3",
            "nodes": [
                {"name": size, "collective": {"family": "all", "kind": "all-reduce", "size": size}}
                for size in ("4kB", "1MB")
            ],
        }
    },
}
NO_NUMBER = "this has no effect: no number of chunks is stated"


def described(**experiment: Any) -> Variant:
    (variant,) = syncline.load({**RING, **experiment})._study.variants
    return variant


def of_size(size: str, **collective: Any) -> Variant:
    workload = {"collective": "all-reduce", "size": size}
    return described(workload=workload, collective={"algorithm": "ring", "lanes": "alternate"} | collective)


@pytest.mark.parametrize(
    ("size", "collective", "chunks"),
    [
        ("4kB", {"chunks": 1024}, 1),
        ("8191B", {"chunks": 1024}, 1),
        ("8KiB", {"chunks": 1024}, 2),
        ("4MiB", {"chunks": 1024}, 1024),
        ("64MiB", {"chunks": 1024}, 1024),
        ("64kB", {"chunks": 1024, "least_chunk": "8KiB"}, 7),
        ("64kB", {"chunks": 4, "least_chunk": "8KiB"}, 4),
        ("64kB", {"chunks": 4, "least_chunk": "1GiB"}, 1),
        ("4kB", {"chunks": 1024, "least_chunk": "1B", "padding": "none"}, 1024),
        ("64kB", {"chunks_of": {"all-reduce": 32}}, 15),
        ("64kB", {"chunks": 1, "chunks_of": {"all-reduce": 32}, "least_chunk": "16kB"}, 4),
    ],
)
def test_chunks_are_as_many_as_stated_but_none_is_below_the_least_size(
    size: str, collective: dict[str, Any], chunks: int
) -> None:
    variant = of_size(size, **collective)
    assert engine.preview(variant).chunks == chunks
    section = completing.specification(variant.experiment, None)["collectives"]
    assert isinstance(variant.experiment.workload, CollectiveWorkload)
    assert demand.chunks(section, "all-reduce", variant.experiment.workload.size) == chunks


@pytest.mark.parametrize("algorithm", ["ring", "double-binary-tree"])
def test_a_small_collective_in_many_chunks_takes_as_long_as_in_one(algorithm: str) -> None:
    """The tree is pipelined over as many slices as suit the chunk that there is."""
    cuts: tuple[dict[str, Any], ...] = ({"chunks": 1}, {"chunks": 64, "least_chunk": "1MB"}, {"chunks": 64})
    times = [engine.run(of_size("1MB", algorithm=algorithm, **cut)).summary["total_ps"] for cut in cuts]
    assert times[0] == times[1] != times[2]


def test_limits_of_chunks_in_flight_do_not_matter_where_there_is_one() -> None:
    limited = of_size("4kB", chunks=1024, inflight=3)
    assert "collective.inflight = 3 has no effect: the collective is one chunk" in assumptions.of([limited])


def test_numbers_of_families_axes_and_jobs_have_the_least_size_of_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    small: dict[str, Any] = {"collective": {"algorithm": "ring", "least_chunk": "8KiB"}}
    graph: dict[str, Any] = {"workload": {"graph": str(tmp_path / "graph.json")}}
    model = {"model": "gpt2", "parameters": {"layers": 1, "hidden": 64, "heads": 2, "vocabulary": 512, "positions": 8}}
    divided = {"workload": {**model, "global_batch": 4}, "parallel": {"collectives": {"data": {"chunks": 64}}}}
    jobs = {"jobs": [{"name": "a", "npus": [0, 1], "workload": {**model, "batch": 4}, "collective": {"chunks": 64}}]}
    for experiment in (graph, divided, {"workload": jobs}):
        rows = engine.run(described(**experiment, **small)).tables["collectives"].to_pylist()
        found = [(row["chunks"], row["bytes"]) for row in rows if row["completed_ps"] is not None]
        assert {chunks for chunks, _ in found} > {1}
        assert all(chunks == min(64, max(1, size // 8192)) for chunks, size in found)


def test_links_that_look_slow_are_told_of_by_the_chunks_that_there_are() -> None:
    """A least size of half the collective leaves two of 64 chunks."""
    experiment = {
        **{"name": "one", "topology": "Ring(4, rate=400GB/s, latency=5us)_Ring(4, rate=400GB/s)", "network": "flow"},
        "workload": {"collective": "all-reduce", "size": "256MiB"},
    }
    cuts: tuple[dict[str, Any], ...] = ({"chunks": 2}, {"chunks": 64, "least_chunk": "128MiB"})
    told = [syncline.check({**experiment, "collective": {"algorithm": "hierarchical", **cut}}) for cut in cuts]
    warnings = [[text for text in found.document["warnings"] if "links look slower" in text] for found in told]
    assert "2 chunks of 128MiB in flight" in " ".join(warnings[0])
    assert warnings[0] == warnings[1]


def test_it_is_an_assumption_where_a_number_of_chunks_is_stated() -> None:
    cuts: tuple[dict[str, Any], ...] = ({"chunks": 8}, {"chunks": 1}, {"chunk": "1kB"})
    listed = [assumptions.of([of_size("1MB", **cut)]) for cut in cuts]
    assert ["collective.least_chunk = 4KiB (default)" in lines for lines in listed] == [True, False, False]


@pytest.mark.parametrize("collective", [{}, {"chunk": "64KiB"}, {"inflight": 3}])
def test_it_is_refused_where_no_number_of_chunks_is_stated(collective: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        of_size("1MB", least_chunk="8KiB", **collective)
    (problem,) = refused.value.problems
    assert (problem.field, problem.value, problem.message) == ("collective.least_chunk", "8KiB", NO_NUMBER)
    assert problem.accepted == "no value, or collective.chunks or collective.chunks_of"


def test_it_may_stand_beside_a_single_chunk_which_settings_may_choose() -> None:
    variant = of_size("1MB", least_chunk="8KiB", chunks=1)
    assert engine.preview(variant).chunks == 1


def test_what_is_resolved_is_read_again() -> None:
    cut: dict[str, Any] = {"algorithm": "ring", "chunks": 8, "least_chunk": "1B"}
    variants = [{"name": "a"}, {"name": "b", "collective": {"chunk": "64KiB"}}]
    work = {"collective": "all-reduce", "size": "10B"}
    study = syncline.load({**RING, "workload": work, "collective": cut, "variants": variants})._study
    again = syncline.load(rundir.resolved(study))._study
    assert [variant.experiment.collective for variant in again.variants] == [
        variant.experiment.collective for variant in study.variants
    ]
