"""Experiment files that are right: defaults, variants, settings, and what the engine is told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
from syrupy.assertion import SnapshotAssertion

from support.experiments import SMALL, THREE_SYSTEMS, study
from syncline.base.document import plain, read
from syncline.base.errors import InputError
from syncline.engine import assumptions, completing, specification
from syncline.experiment import packaged as studies
from syncline.experiment.export import json_schema
from syncline.experiment.load import load_file
from syncline.fabric.topology import Topology
from syncline.results import rundir
from syncline.sections.endpoints import AceEndpoint, IdealEndpoint
from syncline.studies.searches import file as searches

MOST_SHOWN: Final = 400
"""Characters of a value that a snapshot has as they are."""


def test_plain_scalars_mean_what_they_look_like() -> None:
    text = "{a: 1, b: -2.5, c: 1e3, d: true, e: null, f: on, g: 1:30, h: 010, i: .inf, j: '5', k: 2024-01-01}"
    assert plain(read(text, "f")) == {
        "a": 1,
        "b": -2.5,
        "c": 1000.0,
        "d": True,
        "e": None,
        "f": "on",
        "g": "1:30",
        "h": "010",
        "i": ".inf",
        "j": "5",
        "k": "2024-01-01",
    }


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The fields of a description, each on a line; long lists and the layers of models as a digest."""
    if isinstance(value, dict) and value and not path.startswith("job.workload."):
        for key, below in value.items():
            yield from _flat(below, f"{path}.{key}" if path else key)
        return
    text = json.dumps(value)
    if len(text) > MOST_SHOWN:
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        text = f"{len(value)} entries, {len(text)} characters, sha256 {digest}"
    yield path, text


def _lines(specs: dict[str, dict[str, Any]]) -> list[str]:
    """Descriptions of variants: the first in full, and of the others what differs from it."""
    found: list[str] = []
    first: dict[str, str] = {}
    for name, spec in specs.items():
        fields = dict(_flat(spec))
        first = first or fields
        found.append(f"{name}:")
        found += [f"  {path} = {text}" for path, text in fields.items() if fields is first or first.get(path) != text]
        found += [f"  {path} is not there" for path in first if path not in fields]
    return found


@pytest.mark.parametrize("name", studies.names())
def test_packaged_studies_are_legal_and_keep_what_they_tell_the_engine(name: str, snapshot: SnapshotAssertion) -> None:
    path, label = studies.find(name)
    variants = load_file(path, label).variants
    specs = {v.name: completing.specification(v.experiment, v.astra_text and "...") for v in variants}
    assert _lines(specs) == snapshot
    assert assumptions.of(variants) == snapshot


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parent.parent / "examples").glob("*.yaml")), ids=lambda p: p.stem
)
def test_examples_are_legal(path: Path) -> None:
    if path.name.endswith(".search.yaml"):
        assert searches.load_file(path, path.name).axes
    else:
        assert load_file(path, path.name).variants


def test_a_mapping_and_a_string_describe_the_same_topology() -> None:
    text = SMALL.replace("Ring(4)_Ring(2)", "{dims: [{size: 4}, {block: Ring, size: 2, links: 1}]}")
    assert study(text).variants[0].experiment.topology == study(SMALL).variants[0].experiment.topology


def test_variants_are_laid_over_the_file() -> None:
    sms, engine_, ideal = study(THREE_SYSTEMS).variants
    assert (sms.name, engine_.name, ideal.name) == ("SMs", "Engine", "Ideal")
    assert sms.experiment.collective.chunk == 65536
    assert sms.experiment.endpoint.kind == "baseline"
    assert ideal.experiment.endpoint.kind == "ideal"


def test_a_variant_displaces_what_its_choice_excludes() -> None:
    text = SMALL + (
        "collective: {chunk: 64KiB, inflight: 3}\n"
        "endpoint: {kind: ace, comm_memory_bandwidth: 1GB/s, sram: 8MiB}\n"
        "network: {backend: packet, packet: 512B}\n"
        "variants:\n"
        "  - {name: A, collective: {chunks: 7}, network: analytical}\n"
        "  - {name: B, endpoint: {kind: baseline, comm_memory_bandwidth: 2GB/s, comm_sms: 1}}\n"
        "  - {name: C, endpoint: {kind: ace, fsms: 20}, workload: {collective: all-reduce, size: 1MB}}\n"
    )
    a, b, c = (v.experiment for v in study(text).variants)
    assert (a.collective.chunk, a.collective.chunks, a.collective.inflight) == (None, 7, 3)
    assert a.network.backend == "analytical"
    assert b.endpoint.kind == "baseline"
    assert isinstance(c.endpoint, AceEndpoint)
    assert (c.endpoint.sram, c.endpoint.fsms) == (8 * 2**20, 20)
    assert not c.is_training


def test_settings_reach_the_file_its_variants_and_items_of_lists() -> None:
    text = THREE_SYSTEMS.replace("Ring(4)", "{dims: [{size: 4}]}")
    found = study(
        text,
        "training.iterations=5",
        "topology.dims.0.size=8",
        "variants.Engine.endpoint.sram=8MiB",
        "variants.0.npu.sms=40",
        "output.trace_npus=[0, 1]",
        "variants.Ideal.endpoint.step_latency=2ns",
    )
    sms, ace, ideal = (v.experiment for v in found.variants)
    assert {e.training.iterations for e in (sms, ace, ideal)} == {5}
    assert sms.topology.npus == 8
    assert (sms.npu.sms, ace.npu.sms) == (40, 80)
    assert isinstance(ace.endpoint, AceEndpoint)
    assert ace.endpoint.sram == 8 * 2**20
    assert isinstance(ideal.endpoint, IdealEndpoint)
    assert ideal.endpoint.step_latency == 2000
    assert sms.output.trace_npus == [0, 1]


def test_a_least_size_of_chunks_goes_with_the_number_that_it_is_for() -> None:
    text = SMALL + (
        "collective: {chunks: 384, least_chunk: 1B}\nvariants:\n  - name: A\n  - {name: B, collective: {chunk: 1KiB}}\n"
    )

    def least(text: str, *settings: str) -> list[int]:
        return [variant.experiment.collective.least_chunk for variant in study(text, *settings).variants]

    assert least(text) == [1, 4096]
    assert least(text, "collective.chunk=2KiB") == [4096, 4096]
    assert least(text, "variants.A.collective.chunk=2KiB", "variants.B.collective.chunks=7") == [4096, 1]
    assert least(text, "collective.chunks=7") == [1, 4096]
    beside = text.replace("least_chunk: 1B", "least_chunk: 1B, chunks_of: {all-reduce: 3}")
    assert least(beside, "variants.A.collective.chunk=2KiB") == [1, 1]


@pytest.mark.parametrize("settings", [("chunk=64KiB", "least_chunk=8KiB"), ("least_chunk=8KiB", "chunk=64KiB")])
def test_a_least_size_beside_a_size_is_refused_in_either_order(settings: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as error:
        study(SMALL + "collective: {chunks: 384}\n", *(f"collective.{setting}" for setting in settings))
    (problem,) = error.value.problems
    assert (problem.field, problem.message) == (
        "collective.least_chunk",
        "this has no effect: no number of chunks is stated",
    )


def test_settings_that_exclude_each_other_are_refused_together() -> None:
    with pytest.raises(InputError) as error:
        study(SMALL, "collective.chunk=64KiB", "collective.chunks=7")
    (problem,) = error.value.problems
    assert (problem.field, problem.value, problem.accepted) == ("collective.chunks", "7", "one of chunk, chunks")
    assert problem.message == "chunk and chunks exclude each other, and both are set"


@pytest.mark.parametrize(
    ("setting", "field", "accepted"),
    [
        ("training={iterations: 0}", "training.iterations", "a whole number from 1 to 10000"),
        (
            "training.stragglers=[{npu: 1, factor: 0}]",
            "training.stragglers.0.factor",
            "a number above 0 and up to 1000",
        ),
        ("variants.A.npu.sms=3", "variants.A.npu.sms", "npu.sms=VALUE, for all that the file describes"),
        ("workload.batch.x=3", "workload.batch.x", "workload.batch=VALUE"),
        ("output.trace_npus=3", "output.trace_npus", "a list of whole numbers"),
        ("training.stragglers=3", "training.stragglers", "a list of mappings"),
        ("calibration=3", "calibration", "to mappings with fitted_on"),
        ("collective.algorithms=3", "collective.algorithms", "a mapping from any of all-reduce"),
    ],
)
def test_a_wrong_setting_is_told_where_it_is_and_what_it_may_be(setting: str, field: str, accepted: str) -> None:
    with pytest.raises(InputError) as error:
        study(SMALL, setting)
    (problem,) = error.value.problems
    assert (problem.file, problem.line, problem.field) == ("--set", None, field)
    assert accepted in (problem.accepted or "")


def test_a_setting_reaches_into_a_topology_string() -> None:
    text = (
        "name: a\ntopology: Switch(8, rate=100GB/s, latency=500ns)_Torus(2,4, rate=12.5GB/s, links=2, efficiency=94%)\n"
    )
    text += "workload: {collective: all-reduce, size: 1MB}\n"
    (set_,) = study(text, "topology.dims.1.rate=25GB/s", "topology.dims.0.size=4").variants
    written = text.replace(
        "Torus(2,4, rate=12.5GB/s", "Ring(2, rate=25GB/s, links=2, efficiency=94%)_Ring(4, rate=12.5GB/s"
    )
    (same,) = study(written.replace("Switch(8", "Switch(4")).variants
    ours, theirs = set_.experiment.topology, same.experiment.topology
    assert isinstance(ours, Topology)
    assert isinstance(theirs, Topology)
    assert ours == theirs
    assert [each.filled_in for each in ours.dims] == [each.filled_in for each in theirs.dims]
    with pytest.raises(InputError, match="'2' is not an item"):
        study(
            "name: a\ntopology: Torus(2,4)\nworkload: {collective: all-reduce, size: 1MB}\n", "topology.dims.2.size=2"
        )
    with pytest.raises(InputError, match="'topology' is a value"):
        study("name: a\ntopology: dgx-a100\nworkload: {collective: all-reduce, size: 1MB}\n", "topology.dims.0.size=2")


def test_a_setting_reaches_into_the_topology_that_a_variant_inherits() -> None:
    text = (
        "name: a\ntopology: {}\nworkload: {{collective: all-reduce, size: 1MB}}\nvariants:\n  - name: A\n  - name: B\n"
    )
    listed = "{dims: [{block: Ring, size: 4, rate: 100GB/s}, {block: Ring, size: 2, rate: 10GB/s}]}"
    for topology in ("Ring(4, rate=100GB/s)_Ring(2, rate=10GB/s)", listed):
        a, b = study(text.format(topology), "variants.B.topology.dims.1.rate=20GB/s").variants
        rates = [
            [dim.rate for dim in each.experiment.topology.dims]
            for each in (a, b)
            if isinstance(each.experiment.topology, Topology)
        ]
        assert rates == [[100 * 10**9, 10 * 10**9], [100 * 10**9, 20 * 10**9]]


def test_the_only_system_goes_by_its_name_in_settings() -> None:
    """As results and suggestions of `explain` name it."""
    (by_name,) = study(SMALL, f"variants.{study(SMALL).name}.training.iterations=5").variants
    (set_,) = study(SMALL, "training.iterations=5").variants
    assert by_name == set_
    with pytest.raises(InputError, match="the file has no variants"):
        study(SMALL, f"variants.{study(SMALL).name}.name=b")


def test_a_setting_displaces_what_the_file_says() -> None:
    text = SMALL + "collective: {chunk: 64KiB}\nvariants:\n  - name: A\n  - {name: B, collective: {chunk: 1KiB}}\n"
    a, b = (v.experiment.collective for v in study(text, "collective.chunks=7").variants)
    assert ((a.chunk, a.chunks), (b.chunk, b.chunks)) == ((None, 7), (1024, None))
    each = study(text, "collective.chunk=2KiB", "variants.B.collective.chunks=7").variants
    assert [(v.experiment.collective.chunk, v.experiment.collective.chunks) for v in each] == [(2048, None), (None, 7)]


def test_a_setting_that_a_variant_displaces_is_remarked_on() -> None:
    text = SMALL + "variants:\n  - {name: A, training: {iterations: 3}}\n  - {name: B}\n"
    found = study(text, "training.iterations=5")
    assert [v.experiment.training.iterations for v in found.variants] == [3, 5]
    assert found.warnings == ("training.iterations was set, but A has a value of its own",)


def test_what_communication_takes_compute_does_not_have() -> None:
    sms, ace, ideal = (v.experiment for v in study(THREE_SYSTEMS).variants)
    assert specification.compute_share(sms) == (74, 450 * 10**9)
    assert specification.compute_share(ace) == (80, 772 * 10**9)
    assert specification.compute_share(ideal) == (80, 900 * 10**9)


def test_without_overlap_both_have_everything() -> None:
    text = (
        SMALL + "training: {overlap: false}\nendpoint: {kind: baseline, comm_memory_bandwidth: 900GB/s, comm_sms: 80}\n"
    )
    assert specification.compute_share(study(text).variants[0].experiment) == (80, 900 * 10**9)


def test_embeddings_in_the_background_have_what_compute_lacks() -> None:
    text = SMALL.replace("resnet50", "dlrm") + (
        "training: {background_embedding: true}\n"
        "endpoint: {kind: baseline, comm_memory_bandwidth: 128GB/s, comm_sms: 2}\n"
    )
    job = completing.specification(study(text).variants[0].experiment)["job"]
    assert job["strategy"] == "hybrid"
    assert job["compute"]["flops_per_s"] == 120e12 * 77 / 80
    assert job["compute"]["memory_bytes_per_s"] == 692e9
    assert job["background"] == {**job["compute"], "flops_per_s": 1.5e12, "memory_bytes_per_s": 80e9}


def test_an_array_is_slowed_by_the_share_of_sms_that_it_lacks() -> None:
    text = THREE_SYSTEMS + "npu: {clock: 1GHz, compute: {kind: systolic, rows: 128}}\n"
    sms, ace, _ = (completing.specification(v.experiment)["job"]["compute"]["model"] for v in study(text).variants)
    array = {"kind": "systolic", "rows": 128, "columns": 256, "dataflow": "output-stationary", "clock_hz": 1e9}
    assert ace == array | {"arrays": 1, "sram": None}
    assert sms == {**ace, "clock_hz": 1e9 * 74 / 80}


def test_what_is_filled_in_for_the_new_workloads_is_said() -> None:
    gnmt = list(assumptions.of(study(SMALL.replace("resnet50", "gnmt")).variants))
    assert "workload.sequence = 25 (default)" in gnmt
    assert not any("background" in line or "strategy" in line for line in gnmt)
    dlrm = SMALL.replace("resnet50", "dlrm") + "npu: {compute: {kind: systolic, rows: 128}}\n"
    said = list(assumptions.of(study(dlrm, "training.background_embedding=true").variants))
    for line in (
        "training.strategy = hybrid (default)",
        "training.background_sms = 1 (default)",
        "training.background_memory_bandwidth = 80GB/s (default)",
        "npu.compute.columns = 256 (default)",
        "npu.compute.clock = npu.clock (default)",
    ):
        assert line in said
    assert "training.background_embedding = false (default)" in assumptions.of(study(dlrm).variants)


@pytest.mark.parametrize("text", [SMALL, THREE_SYSTEMS], ids=["one", "three"])
def test_the_resolved_experiment_means_the_same(text: str) -> None:
    first = study(text)
    second = study(rundir.resolved_yaml(first))
    assert rundir.config_hash(first) == rundir.config_hash(second)
    for a, b in zip(first.variants, second.variants, strict=True):
        assert completing.specification(a.experiment) == completing.specification(b.experiment)


def test_names_that_look_like_numbers_survive_resolution() -> None:
    first = study(SMALL + "variants: [{name: '1e3'}, {name: 'true'}, {name: '07'}]\n")
    assert [v.name for v in study(rundir.resolved_yaml(first)).variants] == ["1e3", "true", "07"]


def test_the_json_schema_refuses_typing_errors() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    for text in (SMALL + "colective: {}\n", SMALL + "npu: {sm: 3}\n", SMALL + "variants: [{nam: x}]\n"):
        assert not validator.is_valid(plain(read(text, "f")))


LOGGP = "{kind: loggp, latency: 50cycles@700MHz, overhead: 20cycles@700MHz, gap: 20cycles@700MHz"


def with_buses(buses: str) -> str:
    return SMALL + f"\nendpoint: {{kind: baseline, comm_memory_bandwidth: 180GB/s, comm_sms: 5, buses: {buses}}}\n"


def test_buses_reach_the_engine() -> None:
    (variant,) = study(with_buses(LOGGP + ", message: 4KiB, memory: 900GB/s}")).variants
    told = completing.specification(variant.experiment)["endpoint"]
    assert told["memory_bytes_per_s"] == 900 * 10**9
    costs = {"latency_ps": 71_429, "overhead_ps": 28_571, "gap_ps": 28_571, "message_bytes": 4096}
    assert told["buses"] == {"kind": "loggp", **costs}
    (variant,) = study(with_buses(LOGGP + "}")).variants
    assert completing.specification(variant.experiment)["endpoint"]["memory_bytes_per_s"] == 180 * 10**9
    assert "endpoint.buses.memory = comm_memory_bandwidth (default)" in assumptions.of([variant])


@pytest.mark.parametrize(
    ("buses", "path", "said"),
    [
        ("{kind: loggp, latency: 1us, overhead: 1us}", "endpoint.buses.gap", "buses of kind loggp need this"),
        ("{latency: 1us}", "endpoint.buses.latency", "buses of kind rate have no such cost"),
        (LOGGP + ", memory: 9TB/s}", "endpoint.buses.memory", "this is more than the NPU has"),
        ("{kind: logp}", "endpoint.buses.kind", "is not a known"),
    ],
)
def test_buses_that_are_none_are_refused(buses: str, path: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        study(with_buses(buses))
    (problem,) = refused.value.problems
    assert problem.field == path
    assert said in problem.message
    assert problem.accepted
