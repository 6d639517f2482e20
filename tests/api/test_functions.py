"""Each function gives the document of its command, says what is wrong as one error, and shows itself as a table."""

from __future__ import annotations

import json
import pkgutil
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
import yaml

import syncline
from support.command import Ended
from support.experiments import SMALL_GPT
from support.results import apart_from_cost, shows_itself
from support.topologies import CLOUD_XML
from syncline.nccl import measurements

Command = Callable[..., Ended]

MEASURED = measurements.FOLDER / "a100-8-oci.csv"
EXPERIMENT: Final[dict[str, Any]] = {
    "name": "tiny",
    "topology": "Ring(4)",
    "workload": {"collective": "all-reduce", "size": "64KiB"},
}
LONG: Final = {"collective": "all-reduce", "size": "64GiB"}
SWEEP: Final[dict[str, Any]] = {"name": "chunks", "base": "tiny.yaml", "axes": {"collective.chunk": ["16KiB", "32KiB"]}}
MODEL: Final[dict[str, Any]] = {
    **SMALL_GPT,
    "collective": {"chunks": 2, "algorithm": "ring"},
    "network": "flow",
    "endpoint": "ideal",
}
SEARCH: Final[dict[str, Any]] = MODEL | {"search": {"tensor": [1, 2], "pipeline": [1, 2], "simulate": 2}}
FIGURE: Final[dict[str, Any]] = {
    "name": "mine",
    "title": "Chunks & <b>sizes</b>",
    "sweeps": ["chunks.sweep.yaml"],
    "panels": [
        {"kind": "bars", "title": "Time", "x": "collective.chunk", "series": "variant", "y": "time_s", "unit": "us"}
    ],
}

ASTRA: Final = {
    "workload.txt": "DATA\n1\nonly -1 24000 NONE 0 0 NONE 0 31000 ALLREDUCE 40000 1200\n",
    "network.yml": "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 100.0 ]\nlatency: [ 100.0 ]\n",
    "system.json": '{"scheduling-policy": "LIFO", "all-reduce-implementation": ["ring"], "local-mem-bw": 1600}',
}


@dataclass(frozen=True)
class Case:
    """What a command and its function are given, and an error."""

    function: str
    given: tuple[Any, ...]
    known: dict[str, Any]
    command: tuple[str, ...]
    wrong: dict[str, Any]
    """Arguments that are wrong beside the others."""
    places: tuple[str, ...]
    """The places of the problems with them."""
    wrong_given: tuple[Any, ...] | None = None
    """In place of `given`, where that is what is wrong."""
    known_of_mappings: tuple[Any, ...] | None = field(default=None)
    """The same as values in place of files."""


CASES: Final = [
    Case(
        "sweep",
        ("chunks.sweep.yaml",),
        {"threads": 1, "seed": 3, "set": {"collective.inflight": 4}},
        ("sweep", "chunks.sweep.yaml", "--threads", "1", "--seed", "3", "--set", "collective.inflight=4"),
        {"out": "table.xls", "seed": -1, "threads": 0},
        ("arguments: threads", "arguments: seed", "arguments: out"),
        known_of_mappings=(SWEEP | {"base": EXPERIMENT},),
    ),
    Case(
        "bench",
        ("all-reduce", "dgx-h100"),
        {"sizes": [1024, "64MiB"], "gpus": [0, 1, 2, 3], "small_size_time": "20us"},
        (
            *("bench", "all-reduce", "--machine", "dgx-h100", "--sizes", "1024B,64MiB"),
            *("--gpus", "0-3", "--small-size-time", "20us"),
        ),
        {"algorithm": "rong", "sizes": "8", "seed": -1},
        ("arguments: seed", "arguments: algorithm", "arguments: sizes"),
    ),
    Case(
        "bench",
        ("broadcast", "dgx1v"),
        {"sizes": "1MB,8MB", "gpus": "1,4-6", "algorithm": "packed-trees"},
        (
            *("bench", "broadcast", "--machine", "dgx1v", "--sizes", "1MB,8MB", "--gpus", "1,4-6"),
            *("--algorithm", "packed-trees"),
        ),
        {"software": "h100", "small_size_time": "2us"},
        ("arguments: software", "arguments: small_size_time"),
    ),
    Case(
        "calibrate",
        (MEASURED, "dgx-a100"),
        {"column": "out-of-place", "collective": "all-reduce"},
        ("calibrate", str(MEASURED), "--machine", "dgx-a100", "--column", "out-of-place", "--collective", "all-reduce"),
        {"column": "both", "collective": "all"},
        ("arguments: collective", "arguments: column"),
    ),
    Case(
        "trees",
        ("dgx1v",),
        {"gpus": [0, 1, 3], "collective": "all-reduce", "size": 10**8},
        ("trees", "--machine", "dgx1v", "--gpus", "0,1,3", "--collective", "all-reduce", "--size", "100000000B"),
        {"root": 7, "objective": "fast", "links": "fast"},
        ("arguments: objective", "arguments: links", "arguments: root"),
    ),
    Case(
        "search",
        ("search.yaml",),
        {"threads": 1},
        ("search", "search.yaml", "--threads", "1"),
        {"out": "x.txt", "set": {"search.tensor": ["1"], "": 3}},
        ("argument set: search.tensor.0", "arguments: set", "arguments: out"),
        known_of_mappings=(SEARCH,),
    ),
    Case(
        "figure",
        ("mine.figure.yaml",),
        {"threads": 1},
        ("figure", "mine.figure.yaml", "--threads", "1", "--out", "figures"),
        {"seed": -1, "out": "tiny.yaml"},
        ("arguments: seed", "arguments: out"),
        known_of_mappings=(FIGURE,),
    ),
    Case(
        "fit",
        ("model.yaml",),
        {"every": True, "set": {"parallel.micro_batch": 1}},
        ("fit", "model.yaml", "--all", "--set", "parallel.micro_batch=1"),
        {"set": 4},
        ("arguments: set",),
        known_of_mappings=(MODEL,),
    ),
    Case(
        "export",
        ("all-reduce",),
        {"algorithm": "ring", "ranks": 4, "format": "msccl-xml", "instances": 2, "seed": 3, "out": "ring.xml"},
        (
            *("export", "all-reduce", "--algorithm", "ring", "--ranks", "4", "--format", "msccl-xml"),
            *("--instances", "2", "--seed", "3", "--out", "ring.xml"),
        ),
        {"format": "msccl", "topology": "Ring(4)", "instances": 40, "seed": -1},
        ("arguments: seed", "arguments: format", "arguments: instances", "arguments: ranks"),
    ),
    Case(
        "export",
        ("reduce",),
        {"algorithm": "double-binary-tree", "topology": "Switch(8)", "root": 2, "set": {"collective.slices": 4}},
        (
            *("export", "reduce", "--algorithm", "double-binary-tree", "--topology", "Switch(8)"),
            *("--root", "2", "--set", "collective.slices=4"),
        ),
        {"set": None},
        ("arguments: size",),
    ),
    Case(
        "export_trace",
        ("tiny.yaml",),
        {"out": "traces", "set": {"collective.algorithm": "ring"}, "seed": 3},
        ("export-trace", "tiny.yaml", "--out", "traces", "--set", "collective.algorithm=ring", "--seed", "3"),
        {"format": "xml", "npus": [0], "overlay": "measured", "seed": -1},
        ("arguments: seed", "arguments: format", "arguments: overlay"),
        known_of_mappings=(EXPERIMENT,),
    ),
    Case(
        "export_trace",
        ("tiny.yaml",),
        {"out": "profiles", "format": "kineto", "npus": [0, 2]},
        ("export-trace", "tiny.yaml", "--out", "profiles", "--format", "kineto", "--npus", "0,2"),
        {"format": "chakra", "set": 4},
        ("arguments: set", "arguments: npus"),
    ),
    Case(
        "export_trace",
        ("tiny.yaml",),
        {"out": "tiny.pftrace", "variant": "tiny"},
        ("export-trace", "tiny.yaml", "--out", "tiny.pftrace", "--variant", "tiny"),
        {"variant": "huge"},
        ("arguments: variant",),
    ),
    Case(
        "import_trace",
        ("astra", Path("inputs")),
        {"out": "imported", "network": Path("inputs/network.yml")},
        ("import", "astra", "inputs", "--out", "imported", "--network", "inputs/network.yml"),
        {"like": {}, "times": "never", "topology": "Ring(4)", "npus": 4},
        (
            *("arguments: times", "arguments: times", "arguments: like", "arguments: npus"),
            "arguments: topology",
        ),
    ),
    Case(
        "reproduce",
        (["tutorial-torus-volume", "tutorial-six-phase-chunk"],),
        {"threads": 1, "seed": 3, "keep": Path("kept"), "experiments": True},
        (
            *("reproduce", "tutorial-torus-volume", "tutorial-six-phase-chunk", "--threads", "1", "--seed", "3"),
            *("--keep", "kept", "--experiments"),
        ),
        {"claims": "nosuch", "sources": ["tutoria"], "seed": -1, "keep": 4},
        ("arguments: seed", "arguments: sources", "arguments: keep", "arguments: claims"),
        wrong_given=(),
    ),
    Case(
        "detect",
        (),
        {"nccl_file": "nccl.xml", "sys_root": "nowhere", "nvidia_smi": "./none"},
        ("topology", "detect", "--nccl-file", "nccl.xml", "--sys", "nowhere", "--nvidia-smi", "./none"),
        {"gpus": [99]},
        ("arguments: gpus",),
    ),
]
IDS: Final = [f"{case.function}-{number}" for number, case in enumerate(CASES)]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (
        *(("tiny.yaml", EXPERIMENT), ("chunks.sweep.yaml", SWEEP), ("mine.figure.yaml", FIGURE)),
        *(("model.yaml", MODEL), ("search.yaml", SEARCH)),
    ):
        Path(name).write_text(yaml.safe_dump(content))
    Path("nccl.xml").write_text(CLOUD_XML)
    Path("inputs").mkdir()
    for name, text in ASTRA.items():
        Path("inputs", name).write_text(text)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_equals_the_command_and_shows_itself(
    syncline_command: Command, case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = syncline_command(*case.command, "--json")
    assert ended.status == 0, ended.err
    said = apart_from_cost(json.loads(ended.out))
    found = getattr(syncline, case.function)(*case.given, **case.known)
    assert apart_from_cost(found.document) == said
    assert capsys.readouterr() == ("", "")
    shows_itself(found)
    if case.known_of_mappings is not None:
        again = getattr(syncline, case.function)(*case.known_of_mappings, **case.known)
        named = {"tiny.yaml": "tiny"}  # an experiment in a sweep is called by its name, and a file by its path
        text = json.dumps(said)
        for path, name in named.items():
            text = text.replace(f'"{path}"', f'"{name}"')
        assert json.loads(
            re.sub(r'"key": "\w+"', '"key": ""', json.dumps(apart_from_cost(again.document)))
        ) == json.loads(re.sub(r'"key": "\w+"', '"key": ""', text))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_says_what_is_wrong(case: Case) -> None:
    given = case.given if case.wrong_given is None else case.wrong_given
    with pytest.raises(syncline.InputError) as caught:
        getattr(syncline, case.function)(*given, **case.known | case.wrong)
    assert tuple(f"{p.file}: {p.field}" for p in caught.value.problems) == case.places
    assert " --" not in str(caught.value)
    assert "command line" not in str(caught.value)


def test_no_function_has_the_name_of_a_module() -> None:
    """Importing the module would put it in the place of the function."""
    modules = {module.name for module in pkgutil.iter_modules(syncline.__path__)}
    assert len(modules) > 20
    assert not modules & set(syncline.__all__)


class TestTables:
    def test_a_sweep_has_the_names_of_the_terminal(self) -> None:
        """Those of an engine are more than the name of a column without its unit."""
        engine = {"kind": "ace", "comm_memory_bandwidth": "450GB/s"}
        base = EXPERIMENT | {"network": "packet", "endpoint": engine, "collective": {"algorithm": "ace-4-phase"}}
        found = syncline.sweep({"name": "fsms", "base": base, "axes": {"endpoint.fsms": [4, 8]}}, threads=1)
        shown = found._repr_html_()
        row = found.document["rows"][0]
        for name in ("endpoint.fsms", "time", "bus bandwidth", "sent per NPU", "ACE area", "ACE power", "status"):
            assert f'<th scope="col">{name}</th>' in shown
        assert f">{row['area_um2'] / 1e6:.3f} mm2</td>" in shown
        assert f">{row['power_w']:.3f} W</td>" in shown

    def test_of_a_sweep(self) -> None:
        found = syncline.sweep("chunks.sweep.yaml", threads=1, out="table.parquet")
        arrow = found.table.to_arrow()
        assert arrow.drop_columns(["wall_time_s"]) == pq.read_table("table.parquet").drop_columns(["wall_time_s"])
        assert found.axes == ("collective.chunk_bytes",)
        assert arrow.column("collective.chunk_bytes").to_pylist() == [16384, 32768]
        assert found.table.columns["time_s"]["unit"] == "s"
        assert (len(found), found.points, found.failed, found.status) == (2, 2, (), "complete")
        again = syncline.sweep("chunks.sweep.yaml", threads=1, out="table.parquet", resume=True)
        assert again.table.to_arrow() == arrow  # what took time was not done again

    def test_of_benches(self) -> None:
        found = syncline.bench("all-gather", "dgx-a100", sizes="1KiB,1GiB")
        assert found.table.to_arrow().column("time_s").to_pylist() == [row.time_s for row in found.rows]
        assert found.table.columns["bus_bandwidth_bytes_per_s"] == {"unit": "B/s"}
        assert found.rows[0].time_low_s is not None
        assert found.rows[1].time_low_s is None
        assert found.text.startswith("# all_gather_perf on")

    def test_of_a_search(self) -> None:
        found = syncline.search(SEARCH, threads=1)
        assert found.best is not None
        times = found.table.to_arrow().column("iteration_time_s").to_pylist()
        assert found.best["iteration_time_s"] == times[0] == min(t for t in times if t is not None)

    def test_of_a_figure(self) -> None:
        found = syncline.figure(FIGURE, threads=1, out="figures")
        assert Path("figures/mine.svg").read_text() == found.svg
        assert Path("figures/mine.png").read_bytes() == found.png
        assert Path("figures/mine.html").read_text() == found.page
        assert len(found.table) == 2
        assert "base64" in found._repr_html_()


def test_a_calibration_is_for_bench(tmp_path: Path) -> None:
    found = syncline.calibrate(MEASURED, "dgx-a100")
    path = found.save(tmp_path / "mine.yaml")
    assert found.error is not None
    assert found.held_out_error is not None
    assert found.constants["launch_s"] > 0
    sizes = [row.size_bytes for row in found.residuals]
    predicted = syncline.bench("all-reduce", "dgx-a100", sizes=sizes, software=path)
    for row, fitted in zip(predicted.rows, found.residuals, strict=True):
        if row.size_bytes >= 2**20:
            assert row.time_s == pytest.approx(fitted.fitted_s, rel=0.01)
    with pytest.raises(syncline.InputError, match="arguments: path: this cannot be written"):
        found.save(tmp_path / "nowhere" / "mine.yaml")


def test_a_plan_is_for_collective() -> None:
    """What was exported runs to the time of the algorithm."""
    fabric: dict[str, Any] = {"topology": "Ring(4, rate=50GB/s)"}
    found = syncline.export("all-reduce", algorithm="auto", size="1MiB", **fabric)
    assert found.plan is not None
    assert (found.format, found.ranks, found.root) == ("plan", 4, None)
    assert json.loads(found.text) == found.plan == found.document["plan"]
    path = found.save("plan.json")
    alone = syncline.collective("all-reduce", "1MiB", set={"collective.chunks": 1}, **fabric)
    assert syncline.collective("all-reduce", "1MiB", plan=path, **fabric).time_s == alone.time_s > 0
    assert syncline.verify(path)
    as_xml = syncline.export("all-reduce", algorithm=found.algorithm, ranks="4", format="msccl-xml")
    assert (as_xml.plan, as_xml.text.splitlines()[0][:5]) == (None, "<algo")
    assert syncline.verify(as_xml.save("plan.xml"))
    with pytest.raises(syncline.InputError, match="arguments: path: this cannot be written"):
        found.save("nowhere/plan.json")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"algorithm": 4}, "arguments: algorithm: this is not text"),
        ({"algorithm": None}, "arguments: algorithm: no algorithm is given"),
        ({"ranks": 0}, "arguments: ranks: these are no ranks"),
        ({"ranks": [2, 2]}, "arguments: ranks: ranks cannot be given as list"),
        ({"ranks": None}, "arguments: topology: no fabric is given"),
        ({"instances": True}, "arguments: instances: this is not a whole number"),
        ({"instances": 2}, "arguments: instances: a plan has no instances"),
        ({"algorithm": "auto"}, "arguments: algorithm: which algorithm is the fastest depends on the size"),
        ({"algorithm": "rong"}, "arguments: algorithm: "),
        ({"out": 4}, "arguments: out: a file cannot be given as int"),
        ({"out": "nowhere/plan.json"}, "arguments: out: this cannot be written"),
        ({"algorithm": "double-binary-tree"}, "arguments: size: a plan of double-binary-tree has a number of slices"),
        ({"ranks": "2x2", "algorithm": "ring", "format": "mscclpp-json", "instances": 32}, "arguments: format"),
    ],
)
def test_what_cannot_be_exported(given: dict[str, Any], said: str) -> None:
    known: dict[str, Any] = {"algorithm": "ring", "ranks": 4}
    with pytest.raises(syncline.InputError) as caught:
        syncline.export("all-reduce", **known | given)
    assert said in str(caught.value)
    assert " --" not in str(caught.value)
    assert "command line" not in str(caught.value)


def test_traces_that_were_written() -> None:
    found = syncline.export_trace(syncline.load(EXPERIMENT), out="traces")
    assert found.files == tuple(Path("traces") / file for file in found.document["files"])
    assert [path.name for path in found.files] == [f"tiny.{npu}.et" for npu in range(4)]
    assert (found.folder, found.prefix, found.npus) == (Path("traces"), Path("traces/tiny"), 4)
    assert found.size_bytes == sum(path.stat().st_size for path in found.files)
    profiles = syncline.export_trace(EXPERIMENT, out="profiles", format="kineto")
    shown = syncline.export_trace(EXPERIMENT, out="both.pftrace", overlay=[profiles.prefix])
    assert [(each["rank"], each["matched"]) for each in shown.overlay] == [(n, {"all-reduce": 1}) for n in range(4)]
    cancel = syncline.Cancellation()
    cancel.cancel()
    with pytest.raises(syncline.CancelledError):
        syncline.export_trace(EXPERIMENT, out="more", cancel=cancel)
    assert not Path("more").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"out": 4}, "arguments: out: a place cannot be given as int"),
        ({"out": "tiny.yaml"}, "arguments: out: this cannot be written"),
        ({"out": "x.json", "format": "perfetto"}, "arguments: out: this is no name of a file of the format perfetto"),
        ({"npus": 4, "format": "kineto"}, "arguments: npus: these are no NPUs"),
        ({"npus": "9", "format": "kineto"}, "arguments: npus: "),
        ({"overlay": [4], "format": "chrome"}, "arguments: overlay: a profile cannot be given as int"),
        ({"overlay": "nosuch", "out": "x.json"}, "nosuch"),
        ({"source": 4}, "arguments: source: an experiment cannot be given as int"),
        ({"source": EXPERIMENT | {"variants": [{"name": "a"}, {"name": "b"}]}}, "arguments: variant: the experiment"),
    ],
)
def test_what_cannot_be_traced(given: dict[str, Any], said: str) -> None:
    known: dict[str, Any] = {"source": EXPERIMENT, "out": "traces"}
    with pytest.raises(syncline.InputError) as caught:
        syncline.export_trace(**known | given)
    assert said in str(caught.value)
    assert " --" not in str(caught.value)
    assert "command line" not in str(caught.value)


def test_what_was_imported_is_an_experiment() -> None:
    """Traces of an experiment are imported again, with its other sections, and run to its time."""
    base = EXPERIMENT | {"collective": {"algorithm": "ring", "chunk": "64KiB", "lanes": "split"}, "network": "flow"}
    traces = syncline.export_trace(base, out="traces")
    times = [syncline.run(base).systems["tiny"].iteration_time_s]
    for like in (base, syncline.Experiment(**base), "like.yaml"):
        Path("like.yaml").write_text(yaml.safe_dump(base))
        found = syncline.import_trace("chakra", traces.files, out="imported", like=like)
        assert (found.experiment, found.graph) == (Path("imported/experiment.yaml"), Path("imported/graph.json"))
        assert (found.format, found.name, found.npus, found.differences) == ("chakra", "tiny", 4, ())
        assert found.document["files"] == {"experiment": str(found.experiment), "graph": str(found.graph)}
        times.append(syncline.run(found).systems["tiny"].iteration_time_s)
    assert times == [times[0]] * 4
    swept = syncline.sweep({"name": "s", "base": found, "axes": {"network.backend": ["flow", "packet"]}}, threads=1)
    assert swept.table.to_arrow().column("iteration_time_s").to_pylist()[0] == times[0]
    assert syncline.load(found).name == "tiny"
    (first, *_) = syncline.import_trace("astra", "inputs").differences
    assert (first.what, first.here) == ("local-mem-bw", "the ideal endpoint reduces in no time")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"format": "xml"}, "arguments: format: this format is not known"),
        ({"format": None}, "arguments: format: this is not text"),
        ({"files": "nosuch"}, "arguments: files: this is no directory"),
        ({"files": []}, "arguments: files: no file is given"),
        ({"files": ["-"]}, "arguments: files: standard input is read by the command line only"),
        ({"files": ["inputs", 4]}, "arguments: files: a file cannot be given as int"),
        ({"out": "tiny.yaml/x"}, "arguments: out: this cannot be written"),
        ({"backend": "fast"}, "arguments: backend: this backend is not known"),
        ({"npus": "4"}, "arguments: npus: this is not a whole number"),
        ({"network": "nosuch.yml"}, "nosuch.yml"),
        ({"format": "kineto", "memory": "m.json"}, "arguments: memory: only a directory of ASTRA-sim has such a part"),
        ({"format": "kineto", "like": {"topology": {4}}}, "argument like: topology: a value of the type set"),
        ({"format": "kineto", "like": EXPERIMENT | {"variants": []}}, "argument like: variants"),
        ({"format": "kineto", "like": 4}, "arguments: like: a file cannot be given as int"),
    ],
)
def test_what_cannot_be_imported(given: dict[str, Any], said: str) -> None:
    known: dict[str, Any] = {"format": "astra", "files": "inputs", "out": "imported"}
    with pytest.raises(syncline.InputError) as caught:
        syncline.import_trace(**known | given)
    assert said in str(caught.value)
    assert " --" not in str(caught.value)
    assert "command line:" not in str(caught.value)


def test_published_figures_beside_simulated_ones() -> None:
    found = syncline.reproduce("tutorial-torus-dimension", sources=["tutorial"], threads=1, keep="kept")
    by_id = {each.id: each for each in found.findings}
    assert len(by_id) == 5
    assert {each.source for each in found.findings} == {"tutorial"}
    volume = by_id["tutorial-torus-volume"]
    assert (volume.published, volume.simulated, volume.unit, volume.inside) == ([3.5, 4.25], [3.5, 4.25], "x", True)
    rows = [row for row in found.table.to_arrow().to_pylist() if row["id"] == volume.id]
    assert [(row["published"], row["simulated"]) for row in rows] == [(3.5, 3.5), (4.25, 4.25)]
    (row,) = syncline.reproduce("blink-rings-dgx1p").table.to_arrow().to_pylist()
    assert (row["least"], row["most"], row["inside"]) == (2.285, 2.286, True)
    assert row["least"] <= row["simulated"] <= row["most"]
    assert (found.differences, found.experiments, found.status) == ((), (), "complete")
    assert repr(found) == "<Reproduction of 5 claims: 5 inside their range>"
    again = syncline.reproduce("tutorial-torus-dimension", keep="kept", threads=1)  # from what was kept
    assert again.findings == (by_id["tutorial-torus-dimension"],)
    for wrong, said in (
        ({"claims": 4}, "claims: these are no names"),
        ({"claims": "tutorial", "threads": 0}, "threads: this is out of range"),
        ({"claims": "tutorial", "experiments": "no"}, "experiments: this is neither true nor false"),
        ({"claims": "tutorial", "keep": "tiny.yaml"}, "keep: this folder cannot be written to"),
    ):
        with pytest.raises(syncline.InputError, match=f"arguments: {said}"):
            syncline.reproduce(**wrong)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_sweep_is_cancelled(threads: int) -> None:
    """Between simulations that are finished and one that would take days."""
    cancel = syncline.Cancellation()
    sizes = ["16KiB", "32KiB", "64GiB"]
    base = EXPERIMENT | {"network": "packet", "collective": {"algorithm": "ring", "chunk": "64KiB"}}

    def hear(standing: syncline.Standing) -> None:
        if standing.done == 2:
            threading.Thread(target=cancel.cancel).start()

    described = {"name": "sizes", "base": base, "axes": {"workload.size": sizes}}
    with pytest.raises(syncline.CancelledError, match="2 of 3 simulations are finished"):
        syncline.sweep(described, threads=threads, cancel=cancel, progress=hear, out="sizes.csv")
    assert Path("sizes.csv").read_text().count("done") == 2


@pytest.mark.parametrize("function", ["sweep", "search", "figure"])
def test_what_was_cancelled_does_not_begin(function: str) -> None:
    cancel = syncline.Cancellation()
    cancel.cancel()
    given = {"sweep": "chunks.sweep.yaml", "search": "search.yaml", "figure": "mine.figure.yaml"}
    with pytest.raises(syncline.CancelledError):
        getattr(syncline, function)(given[function], threads=1, cancel=cancel)


def test_two_threads_give_what_they_give_one_after_the_other() -> None:
    tasks: list[Callable[[], Any]] = [
        lambda: syncline.sweep(SWEEP | {"base": EXPERIMENT}, threads=1),
        lambda: syncline.sweep(SWEEP | {"base": EXPERIMENT}, threads=1, seed=4, backend="flow"),
        lambda: syncline.collective("all-reduce", "64KiB", topology="Ring(4)"),
        lambda: syncline.collective("all-reduce", "64KiB", machine="dgx1v", backend="flow", seed=2),
    ]
    alone = [apart_from_cost(task().document) for task in tasks]
    beside: list[Any] = [None] * len(tasks)

    def run(index: int) -> None:
        beside[index] = apart_from_cost(tasks[index]().document)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert beside == alone


def test_the_interpreter_runs_beside_a_simulation() -> None:
    """A thread that counts while another simulates: the engine does not hold the interpreter lock."""
    counts: list[int] = []
    cancel = syncline.Cancellation()
    done = threading.Event()

    def simulate() -> None:
        with pytest.raises(syncline.CancelledError):
            syncline.run(
                EXPERIMENT | {"network": "packet", "workload": LONG, "collective": {"chunk": "64KiB"}},
                cancel=cancel,
                progress=lambda standing: counts.append(sum(each.events for each in standing.underway)),
            )
        done.set()

    threading.Thread(target=simulate).start()
    while not any(counts):
        done.wait(0.01)
    cancel.cancel()
    assert done.wait(60)
