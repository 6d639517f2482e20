"""`syncline.load`, `check` and `run` give what the command line gives, and their results say so in fields."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest
import yaml
from pydantic import ConfigDict, TypeAdapter

import syncline
from support.command import Ended
from support.experiments import SMALL, THREE_SYSTEMS
from syncline.base import memory
from syncline.commands.api import systems
from syncline.commands.api.systems import System

Command = Callable[..., Ended]

TINY: dict[str, Any] = {"topology": "Ring(4)", "workload": {"collective": "all-reduce", "size": "64KiB"}}
"""A collective of which the real engine makes short work."""
GRAPHS: dict[str, Any] = {
    "name": "jobs",
    "topology": "Ring(4)",
    "network": "flow",
    "jobs": [
        {"name": "one", "npus": "0-1", "workload": {"model": "resnet50", "batch": 1}},
        {"name": "two", "npus": "2-3", "workload": {"model": "resnet50", "batch": 1}},
    ],
}


def apart_from_cost(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what differs between two runs of the same input."""
    return {key: value for key, value in document.items() if key != "cost"}


class TestEqualsTheCommandLine:
    @pytest.mark.parametrize("text", [SMALL, THREE_SYSTEMS])
    @pytest.mark.usefixtures("fake_engine")
    def test_run(self, syncline_command: Command, tmp_path: Path, text: str) -> None:
        path = tmp_path / "e.yaml"
        path.write_text(text)
        arguments = ("--set", "training.iterations=3", "--endpoint", "ace", "--chunk", "32KiB", "--seed", "5")
        ended = syncline_command("run", str(path), "--json", *arguments)
        changes: Any = {"set": {"training.iterations": 3}, "endpoint": "ace", "chunk": "32KiB", "seed": 5}
        said = apart_from_cost(json.loads(ended.out))
        assert said["runs"]
        for source in (path, str(path), yaml.safe_load(text), syncline.Experiment(**yaml.safe_load(text))):
            assert apart_from_cost(syncline.run(source, **changes).document) == said

    @pytest.mark.parametrize("source", ["hoti/allreduce", "ace1/alltoall"])
    @pytest.mark.usefixtures("fake_engine")
    def test_studies(self, syncline_command: Command, source: str) -> None:
        ended = syncline_command("run", source, "--json", "--baseline", self.last(source))
        run = syncline.run(source, baseline=self.last(source))
        assert apart_from_cost(run.document) == apart_from_cost(json.loads(ended.out))

    def last(self, source: str) -> str:
        return syncline.load(source).variants[-1]

    @pytest.mark.usefixtures("fake_engine")
    def test_check(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "e.yaml"
        path.write_text(THREE_SYSTEMS)
        ended = syncline_command("check", str(path), "--json", "--backend", "flow")
        found = syncline.check(path, backend="flow")
        assert found.document == json.loads(ended.out)
        assert list(found.estimates) == ["SMs", "Engine", "Ideal"]
        assert found.estimates["SMs"].time_s == found.document["estimates"][0]["time_s"]
        assert "<td" in found._repr_html_()

    @pytest.mark.parametrize("mapping", [TINY, GRAPHS, {**TINY, "endpoint": "ideal", "network": "analytical"}])
    def test_the_engine_itself(self, syncline_command: Command, tmp_path: Path, mapping: dict[str, Any]) -> None:
        path = tmp_path / "e.yaml"
        path.write_text(yaml.safe_dump({"name": "experiment", **mapping}))
        ended = syncline_command("run", str(path), "--json")
        assert apart_from_cost(syncline.run(mapping).document) == apart_from_cost(json.loads(ended.out))

    @pytest.mark.usefixtures("fake_engine")
    def test_the_directory(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "e.yaml"
        path.write_text(THREE_SYSTEMS)
        syncline_command("run", str(path), "--out", str(tmp_path / "command"))
        syncline.run(path, out=tmp_path / "api")
        said = [written(tmp_path / name) for name in ("command", "api")]
        assert len(said[0]) > 20
        assert said[0] == said[1]


def written(directory: Path) -> dict[str, Any]:
    """The files of a run's directory, without what differs between two runs or names the command."""
    found: dict[str, Any] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name != "report.html":
            found[str(path.relative_to(directory))] = path.read_bytes()
    summary, manifest = json.loads(found.pop("summary.json")), json.loads(found.pop("manifest.json"))
    del manifest["command"]
    return found | {"summary": apart_from_cost(summary), "manifest": manifest}


class TestFields:
    @pytest.mark.parametrize("source", [TINY, GRAPHS, {**TINY, "endpoint": {"kind": "streams"}}])
    def test_are_those_of_the_document(self, source: dict[str, Any]) -> None:
        run = syncline.run(source)
        for entry in run.document["runs"]:
            system = run.systems[entry["name"]]
            known = {f.name for f in fields(System)} - {"tables"}
            assert entry.keys() <= known
            assert {name: as_written(getattr(system, name)) for name in entry} == entry
            typed(system)

    @pytest.mark.usefixtures("fake_engine")
    def test_with_the_fake_engine(self) -> None:
        run = syncline.run(yaml.safe_load(THREE_SYSTEMS))
        assert [system.name for system in run.systems.values()] == ["SMs", "Engine", "Ideal"]
        for entry in run.document["runs"]:
            system = run.systems[entry["name"]]
            assert {name: as_written(getattr(system, name)) for name in entry} == entry
            typed(system)

    def test_every_field_of_the_documents_schema_is_one(self) -> None:
        from syncline.results import documents

        assert documents.Run.model_fields.keys() - {f.name for f in fields(System)} == set()


def as_written(value: object) -> object:
    """A field as the document has it."""
    if isinstance(value, tuple):
        return [as_written(item) for item in value]
    if isinstance(value, systems.Entry):
        return {f.name.removesuffix("_"): as_written(getattr(value, f.name)) for f in fields(value)}  # type: ignore[arg-type]
    return value


def typed(system: System) -> None:
    """Fails if a field has another type than it says."""
    hints = get_type_hints(System)
    lenient = ConfigDict(arbitrary_types_allowed=True)
    for f in fields(System):
        of_entry = "tuple" in str(hints[f.name]) and getattr(system, f.name) and "str" not in str(hints[f.name])
        if f.name != "tables" and not of_entry:
            TypeAdapter(hints[f.name], config=lenient).validate_python(getattr(system, f.name), strict=True)


class TestResult:
    @pytest.mark.usefixtures("fake_engine")
    def test_looks_like_a_table(self) -> None:
        named = syncline.run(TINY | {"name": "experiment"})
        named.document["name"] = "<script>alert(1)</script>"
        named.document["failed"] = [{"name": "<b>", "message": "a & b"}]
        html = named._repr_html_()
        assert "<script" not in html
        assert "&lt;script&gt;" in html
        assert "<b>" not in html
        assert "a &amp; b" in html
        assert "GB/s" in html

    def test_parts_look_like_tables_too(self) -> None:
        hostile = "<b>&"
        run = syncline.run({**TINY, "name": "experiment", "topology": "Ring(4)"})
        system = run.systems["experiment"]
        object.__setattr__(system, "name", hostile)
        table = system.tables["links"]
        named = type(table)(hostile, table.to_arrow().append_column(hostile, [[hostile] * len(table)]))
        study = syncline.load(TINY)
        for shown in (run, run.systems, system, named, study, syncline.check(TINY)):
            html = shown._repr_html_()
            assert "<table>" in html
            assert "<b>" not in html
        assert "&lt;b&gt;&amp;" in system._repr_html_()
        assert "&lt;b&gt;&amp;" in named._repr_html_()
        collective = syncline.collective("all-reduce", "64KiB", topology="Ring(4)", algorithm="ring")
        object.__setattr__(collective, "algorithm", hostile)
        assert "&lt;b&gt;&amp;" in collective._repr_html_()

    @pytest.mark.usefixtures("fake_engine")
    def test_is_short(self) -> None:
        run = syncline.run(yaml.safe_load(THREE_SYSTEMS))
        for shown in (run, run.systems, run.systems["SMs"], run.systems["SMs"].tables, syncline.load("hoti/dlrm")):
            assert len(repr(shown)) < 200
        assert repr(run) == "<Run three: SMs, Engine, Ideal>"

    @pytest.mark.usefixtures("fake_engine")
    def test_names_what_there_is(self) -> None:
        run = syncline.run(yaml.safe_load(THREE_SYSTEMS))
        with pytest.raises(KeyError, match="did you mean 'Engine'"):
            run.systems["engin"]
        with pytest.raises(KeyError, match="did you mean 'layers'"):
            run.systems["SMs"].tables["layer"]

    @pytest.mark.usefixtures("fake_engine")
    def test_goes_through_files(self, tmp_path: Path) -> None:
        run = syncline.run(yaml.safe_load(THREE_SYSTEMS), seed=3)
        assert run.directory is None
        run.save(tmp_path / "run")
        again = syncline.read(tmp_path / "run")
        assert again.document == run.document
        assert again.directory == run.directory == tmp_path / "run"
        assert (again.seed, again.status, again.name) == (3, "complete", "three")
        assert again.report() == run.report() == (tmp_path / "run/report.html").read_text()
        for name, system in run.systems.items():
            read = again.systems[name]
            assert {key: table.to_arrow() for key, table in read.tables.items()} == {
                key: table.to_arrow() for key, table in system.tables.items()
            }
            assert read.tables["layers"].columns == system.tables["layers"].columns
            assert read.tables["layers"].columns["compute_ps"]["unit"] == "ps"
            assert read == type(read).of_run(next(e for e in run.document["runs"] if e["name"] == name), read.tables)
        with pytest.raises(syncline.InputError, match="was read from"):
            again.save(tmp_path / "other")
        assert not (tmp_path / "other").exists()

    @pytest.mark.usefixtures("fake_engine")
    def test_a_report_against_another_baseline(self) -> None:
        run = syncline.run(yaml.safe_load(THREE_SYSTEMS))
        assert run.report(baseline="Ideal") != run.report()
        assert run.document["baseline"] == "SMs"
        with pytest.raises(syncline.InputError, match="arguments: baseline: there is no such variant"):
            run.report(baseline="ideal ")

    def test_a_directory_that_is_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(syncline.InputError, match="arguments: directory: this is not the directory of a run"):
            syncline.read(tmp_path)

    @pytest.mark.usefixtures("fake_engine")
    def test_a_run_of_an_older_version(self, tmp_path: Path) -> None:
        run = syncline.run(TINY, out=tmp_path / "run")
        summary = tmp_path / "run/summary.json"
        del run.document["runs"][0]["chunks"]
        summary.write_text(json.dumps(run.document))
        with pytest.raises(syncline.InputError, match=r"runs\.experiment: chunks: this is missing"):
            _ = syncline.read(tmp_path / "run").systems

    @pytest.mark.usefixtures("fake_engine")
    def test_tables_for_other_libraries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import sys

        table = syncline.run(TINY).systems["experiment"].tables["layers"]
        for name in ("pandas", "polars"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match="to_pandas needs pandas"):
            table.to_pandas()
        with pytest.raises(ImportError, match="to_polars needs polars"):
            table.to_polars()
        stand_in = ModuleType("polars")
        stand_in.from_arrow = lambda arrow: ("polars", arrow)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "polars", stand_in)
        assert table.to_polars() == ("polars", table.to_arrow())


class TestFailures:
    @pytest.fixture
    def failing(self, fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        """The simulation of ideal endpoints fails."""
        run = fake_engine.run

        def fail(spec: str, monitor: object = None) -> Any:
            if json.loads(spec)["endpoint"]["kind"] == "ideal":
                raise fake_engine.SimulationError("stuck")
            return run(spec)

        monkeypatch.setattr(fake_engine, "run", fail)

    @pytest.mark.usefixtures("failing")
    def test_are_raised_with_what_is_finished(self) -> None:
        with pytest.raises(syncline.SimulationFailedError, match="Ideal: stuck") as caught:
            syncline.run(yaml.safe_load(THREE_SYSTEMS))
        assert caught.value.run is not None
        assert list(caught.value.run.systems) == ["SMs", "Engine"]

    @pytest.mark.usefixtures("failing")
    def test_are_kept(self) -> None:
        run = syncline.run(yaml.safe_load(THREE_SYSTEMS), errors="keep")
        assert run.failed == {"Ideal": "stuck"}
        assert run.status == "partial"
        with pytest.raises(KeyError, match="failed: stuck"):
            run.systems["Ideal"]


class TestProgress:
    @pytest.mark.usefixtures("fake_engine")
    def test_is_told(self, capsys: pytest.CaptureFixture[str]) -> None:
        heard: list[syncline.Standing] = []
        syncline.run(yaml.safe_load(THREE_SYSTEMS), progress=heard.append, threads=1)
        finished = [standing for standing in heard if not standing.is_over]
        assert [standing.done for standing in finished] == [1, 2, 3]
        assert finished[0].waiting == ("Engine", "Ideal")
        assert heard[-1].is_over
        assert capsys.readouterr() == ("", "")

    @pytest.mark.usefixtures("fake_engine")
    def test_is_a_line_for_each(self, capsys: pytest.CaptureFixture[str]) -> None:
        syncline.run(yaml.safe_load(THREE_SYSTEMS), progress=True, threads=1)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.splitlines()[-1].startswith("3/3 done")

    @pytest.mark.usefixtures("fake_engine")
    def test_ends_a_run(self, tmp_path: Path) -> None:
        def interrupt(standing: syncline.Standing) -> None:
            if standing.done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            syncline.run(yaml.safe_load(THREE_SYSTEMS), progress=interrupt, threads=1, out=tmp_path / "run")
        assert list(syncline.read(tmp_path / "run").systems) == ["SMs"]


def test_two_threads_give_what_they_give_one_after_the_other() -> None:
    """Experiments that differ in all that could be shared: seeds, limits of memory, `auto` and progress."""
    jittered = {**TINY, "network": {"backend": "analytical", "jitter": "1us"}}
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (jittered, {"seed": 1}),
        (jittered, {"seed": 2, "memory_limit": "3GB"}),
        (TINY | {"collective": {"algorithm": "auto"}}, {"memory_limit": "2GB"}),
        (TINY | {"collective": {"algorithm": "auto"}}, {"backend": "flow", "progress": True}),
    ]
    alone = [apart_from_cost(syncline.run(source, **arguments).document) for source, arguments in cases]
    beside: list[Any] = [None] * len(cases)

    def run(index: int) -> None:
        source, arguments = cases[index]
        beside[index] = apart_from_cost(syncline.run(source, **arguments).document)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert beside == alone
    assert alone[0] != alone[1]


def test_a_limit_of_memory_is_that_of_one_run(fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []
    prepared = fake_engine.Prepared

    def prepare(spec: str) -> Any:
        limits.append(json.loads(spec)["memory_limit_bytes"])
        return prepared(spec)

    monkeypatch.setattr(fake_engine, "Prepared", prepare)
    syncline.run(TINY, memory_limit="2GB")
    syncline.run(TINY, memory_limit=3_000_000_000)
    syncline.run(TINY)
    assert limits == [2_000_000_000, 3_000_000_000, memory.limit()]
