"""Sweeps: points, columns, rows that fail, and what is wrong with a file. The engine takes no time here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
from syrupy.assertion import SnapshotAssertion

from support import fake_core
from support.command import Ended
from support.experiments import THREE_SYSTEMS
from syncline.base.document import plain, read
from syncline.experiment import packaged as studies
from syncline.studies.sweeps.export import json_schema

Command = Callable[..., Ended]

pytestmark = pytest.mark.usefixtures("fake_engine")

SWEEP = """\
name: space
base: three.yaml
variants: [Engine]
set: {training.iterations: 3}
axes:
  endpoint.sram: [1MiB, 4MiB]
  endpoint.fsms: [8, 16]
"""
COST = {"wall_time_s", "events"}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep of four points, beside the experiment that it is about."""
    (tmp_path / "three.yaml").write_text(THREE_SYSTEMS)
    path = tmp_path / "space.sweep.yaml"
    path.write_text(SWEEP)
    return path


def rows_of(ended: Ended) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(ended.out)["rows"]
    return rows


def run(command: Command, path: Path, text: str, *arguments: str) -> list[dict[str, Any]]:
    """The rows of a sweep."""
    path.write_text(text)
    ended = command("sweep", str(path), "--threads", "1", "--json", "-q", *arguments)
    assert (ended.status, ended.err) == (0, "")
    return rows_of(ended)


class TestPoints:
    def test_every_value_with_every_other_the_last_axis_fastest(self, syncline_command: Command, sweep: Path) -> None:
        rows = run(syncline_command, sweep, SWEEP)
        assert [(row["point"], row["endpoint.sram_bytes"] >> 20, row["endpoint.fsms"]) for row in rows] == [
            *((0, 1, 8), (1, 1, 16), (2, 4, 8), (3, 4, 16)),
        ]
        assert {row["iterations"] for row in rows} == {3}
        assert rows[1]["name"] == "endpoint.sram=1MiB, endpoint.fsms=16"

    def test_an_axis_holds_whatever_the_variant_says(self, syncline_command: Command, sweep: Path) -> None:
        text = SWEEP.replace("endpoint.fsms: [8, 16]", "endpoint.comm_memory_bandwidth: [64GB/s, 1GB/s]")
        rows = run(syncline_command, sweep, text)
        assert [row["endpoint.comm_memory_bandwidth_bytes_per_s"] for row in rows[:2]] == [64e9, 1e9]
        assert rows[0]["iteration_time_s"] != rows[1]["iteration_time_s"]

    def test_fields_that_vary_together(self, syncline_command: Command, sweep: Path) -> None:
        zipped = "zip: [{endpoint.alus: [1, 2, 4], training.compute_scale: [1.5, 2.5, 3.5]}]\n"
        rows = run(syncline_command, sweep, SWEEP.replace("  endpoint.fsms: [8, 16]\n", "") + zipped)
        assert [(row["endpoint.alus"], row["training.compute_scale"]) for row in rows] == [
            (1, 1.5),
            (2, 2.5),
            (4, 3.5),
        ] * 2

    def test_several_bases(self, syncline_command: Command, sweep: Path) -> None:
        (sweep.parent / "other.yaml").write_text(THREE_SYSTEMS.replace("Ring(4)", "Ring(8)"))
        rows = run(syncline_command, sweep, SWEEP.replace("base: three.yaml", "base: [three.yaml, other.yaml]"))
        assert [row["base"] for row in rows] == ["three.yaml"] * 4 + ["other.yaml"] * 4
        assert [row["npus"] for row in rows] == [4] * 4 + [8] * 4
        assert [row["point"] for row in rows] == list(range(8))

    def test_one_variant_varies_and_the_others_are_simulated_once(
        self, syncline_command: Command, sweep: Path, fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        simulated: list[str] = []

        def note(spec: str, monitor: object = None) -> dict[str, Any]:
            simulated.append(json.loads(spec)["endpoint"]["kind"])
            return fake_core.run(spec)

        monkeypatch.setattr(fake_engine, "run", note)
        text = SWEEP.replace("variants: [Engine]", "variants: [Engine, Ideal]")
        text = text.replace("endpoint.sram", "variants.Engine.endpoint.sram").replace("  endpoint.fsms: [8, 16]\n", "")
        rows = run(syncline_command, sweep, text)
        assert [(row["point"], row["variant"]) for row in rows] == [
            *((0, "Engine"), (0, "Ideal"), (1, "Engine"), (1, "Ideal")),
        ]
        assert sorted(simulated) == ["ace", "ace", "ideal"]
        assert rows[1]["key"] == rows[3]["key"]
        assert [row["variants.Engine.endpoint.sram_bytes"] >> 20 for row in rows] == [1, 1, 4, 4]

    def test_files_are_looked_for_beside_the_file_that_names_them(
        self, syncline_command: Command, sweep: Path, tmp_path: Path
    ) -> None:
        folder = tmp_path / "workloads"
        folder.mkdir()
        for name in ("a", "b"):
            (tmp_path / f"{name}.txt").write_text("DATA\n1\na -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1\n")
        (folder / "three.yaml").write_text(THREE_SYSTEMS.replace("{model: resnet50, batch: 32}", "{astra_text: w.txt}"))
        text = "name: files\nbase: workloads/three.yaml\naxes: {workload.astra_text: [a.txt, b.txt]}\n"
        rows = run(syncline_command, sweep, text)
        assert [row["workload.astra_text"] for row in rows] == ["a.txt"] * 3 + ["b.txt"] * 3

    def test_models_by_name(self, syncline_command: Command, sweep: Path, tmp_path: Path) -> None:
        text = "name: models\nbase: three.yaml\naxes: {workload.model: [resnet18, vgg16]}\n"
        out = tmp_path / "models.parquet"
        rows = run(syncline_command, sweep, text, "--out", str(out))
        assert [row["workload.model"] for row in rows] == ["resnet18"] * 3 + ["vgg16"] * 3
        assert str(pq.read_table(out).schema.field("workload.model").type) == "string"

    def test_settings_of_the_command_line_hold_for_every_point(self, syncline_command: Command, sweep: Path) -> None:
        rows = run(syncline_command, sweep, SWEEP, "--set", "training.iterations=5", "--backend", "analytical")
        assert {row["iterations"] for row in rows} == {5}
        assert {row["backend"] for row in rows} == {"analytical"}


class TestTable:
    def test_columns_carry_types_and_units(self, syncline_command: Command, sweep: Path, tmp_path: Path) -> None:
        text = (
            "name: kinds\nbase: three.yaml\nvariants: [Engine]\naxes:\n"
            "  topology: ['Ring(4)', 'Torus(4, 2, rate=25GB/s)']\n"
            "  endpoint.charge_writes: [true, false]\n"
            "  training.compute_scale: [1, 0.5]\n"
            "zip: {collective.scheduling: [fifo, lifo], network: [packet, {backend: packet, buffer: 1MiB}]}\n"
        )
        out = tmp_path / "kinds.parquet"
        run(syncline_command, sweep, text, "--out", str(out))
        table = pq.read_table(out)
        kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
        assert {name: kinds[name] for name in kinds if "." in name or name == "network"} == {
            "endpoint.charge_writes": "bool",
            "training.compute_scale": "double",
            "collective.scheduling": "string",
            "network": "string",
        }
        assert kinds["point"] == "int64"
        assert kinds["iteration_time_s"] == "double"
        topologies = table.column("topology").to_pylist()
        assert topologies[0].startswith("Ring(4, rate=50GB/s")
        assert topologies[-1].startswith("Ring(4, rate=25GB/s")
        assert table.column_names[-2:] == ["wall_time_s", "events"]

    def test_what_an_engine_costs_and_how_busy_it_was(self, syncline_command: Command, sweep: Path) -> None:
        row = run(syncline_command, sweep, SWEEP)[3]
        assert row["area_um2"] == 5339031
        assert row["energy_per_iteration_j"] == pytest.approx(4.254537 * row["iteration_time_s"])
        assert row["memory_utilisation"] == pytest.approx(0.5 / row["npus"])
        assert (row["chunk_queue_s"], row["bus_transfer_s"]) == (pytest.approx(20e-12), pytest.approx(5e-12))

    def test_collectives(self, syncline_command: Command, sweep: Path) -> None:
        text = (
            "name: sizes\nbase: three.yaml\nset: {workload: {collective: all-reduce, size: 1GB}}\n"
            "axes: {workload.size: [1MB, 2MB]}\n"
        )
        rows = run(syncline_command, sweep, text)
        assert [row["workload.size_bytes"] for row in rows] == [10**6] * 3 + [2 * 10**6] * 3
        for row in rows:
            assert row["efficiency"] == row["lower_bound_s"] / row["time_s"]
            assert "iteration_time_s" not in row

    def test_training_and_collectives_in_one_table(self, syncline_command: Command, sweep: Path) -> None:
        workloads = "[{model: resnet50, batch: 32}, {collective: all-reduce, size: 1MB}]"
        rows = run(syncline_command, sweep, f"name: both\nbase: three.yaml\naxes: {{workload: {workloads}}}\n")
        assert [("time_s" in row, "iteration_time_s" in row) for row in rows] == [(False, True)] * 3 + [
            (True, False)
        ] * 3

    def test_algorithms_that_are_chosen(self, syncline_command: Command, sweep: Path) -> None:
        text = "name: auto\nbase: three.yaml\nvariants: [Ideal]\naxes: {collective.algorithm: [auto, direct]}\n"
        rows = run(syncline_command, sweep, text.replace("axes", "set: {collective.chunk: 1MiB}\naxes"))
        assert [row["algorithm"] for row in rows] == ["six-phase", "direct"]

    def test_two_runs_are_equal_outside_cost(self, syncline_command: Command, sweep: Path, tmp_path: Path) -> None:
        tables, documents = [], []
        for name in ("a.parquet", "b.parquet"):
            ended = syncline_command("sweep", str(sweep), "--threads", "1", "--json", "--out", str(tmp_path / name))
            documents.append({k: v for k, v in json.loads(ended.out).items() if k != "cost"})
            table = pq.read_table(tmp_path / name)
            tables.append(table.drop_columns(sorted(COST)))
        assert json.dumps(documents[0]) == json.dumps(documents[1])
        assert tables[0].equals(tables[1], check_metadata=True)

    def test_the_terminal(self, syncline_command: Command, sweep: Path, snapshot: SnapshotAssertion) -> None:
        ended = syncline_command("sweep", str(sweep), "--threads", "1")
        assert ended.out == snapshot
        assert "4/4 simulations" in ended.err

    def test_quantities_on_axes_are_shown_as_they_are_written(self, syncline_command: Command, sweep: Path) -> None:
        axes = (
            "axes:\n  topology.dims.0.rate: [12.5GB/s]\n  topology.dims.0.latency: [1.5us]\n  npu.peak: [120TFLOP/s]\n"
        )
        sweep.write_text(SWEEP.partition("axes:")[0] + axes + "  endpoint.clock: [1245MHz]\n  endpoint.sram: [4MiB]\n")
        heading, _, row = syncline_command("sweep", str(sweep), "--threads", "1").out.split("\n")[2:5]
        names = ["topology.dims.0.rate", "topology.dims.0.latency", "npu.peak", "endpoint.clock", "endpoint.sram"]
        assert heading.split()[:5] == names
        assert row.split()[:5] == ["12500MB/s", "1500ns", "120TFLOP/s", "1245MHz", "4MiB"]

    def test_the_document(self, syncline_command: Command, sweep: Path) -> None:
        document = json.loads(syncline_command("sweep", str(sweep), "--threads", "1", "--json").out)
        assert list(document)[:7] == [
            *("schema_version", "version", "status", "seed", "assumptions", "warnings", "fidelity"),
        ]
        assert (document["status"], document["points"], document["simulations"]) == ("complete", 4, 4)
        assert document["axes"] == ["endpoint.sram_bytes", "endpoint.fsms"]
        assert not COST & set(document["rows"][0])
        assert [set(row) for row in document["cost"]["rows"]] == [COST] * 4
        assert "endpoint.banks = 4 (default)" in document["assumptions"]


class TestRowsThatFail:
    def test_a_failure_is_a_row_and_the_others_go_on(
        self,
        syncline_command: Command,
        sweep: Path,
        tmp_path: Path,
        fake_engine: ModuleType,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def fail(spec: str, monitor: object = None) -> dict[str, Any]:
            if json.loads(spec)["endpoint"]["fsms"] == 8:
                raise fake_core.SimulationError("NPU 3 waits for a slot")
            return fake_core.run(spec)

        monkeypatch.setattr(fake_engine, "run", fail)
        out = tmp_path / "t.parquet"
        ended = syncline_command("sweep", str(sweep), "--threads", "1", "--json", "--out", str(out))
        document = json.loads(ended.out)
        assert (ended.status, document["status"]) == (1, "partial")
        assert [failure["point"] for failure in document["failed"]] == [0, 2]
        assert "failed: NPU 3 waits for a slot" in ended.err
        table = pq.read_table(out)
        assert table.column("status").to_pylist() == ["failed", "done"] * 2
        assert table.column("error").to_pylist() == ["NPU 3 waits for a slot", None] * 2
        assert table.column("iteration_time_s").to_pylist()[0] is None
        assert syncline_command("sweep", str(sweep), "--threads", "1", "--out", str(out), "--resume").status == 1

    def test_what_the_engine_refuses_is_a_row_unless_it_is_everything(
        self, syncline_command: Command, sweep: Path, fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(most: int) -> Callable[[str], str]:
            def check(spec: str) -> str:
                if json.loads(spec)["endpoint"]["sram_bytes"] <= most:
                    raise fake_core.refused("endpoint.sram_bytes", "too small", least=2**30)
                return fake_core.check(spec)

            return check

        monkeypatch.setattr(fake_engine, "check", refuse(2**20))
        ended = syncline_command("sweep", str(sweep), "--threads", "1", "--json")
        assert ended.status == 1
        assert [row["status"] for row in rows_of(ended)] == ["refused", "refused", "done", "done"]
        monkeypatch.setattr(fake_engine, "check", refuse(2**23))
        ended = syncline_command("sweep", str(sweep), "--threads", "1", "--json")
        assert (ended.status, ended.out) == (2, "")
        error = json.loads(ended.err)["errors"][0]
        assert (error["line"], error["field"]) == (6, "axes.endpoint.sram.0")
        assert "at point 0: endpoint.sram=1MiB, endpoint.fsms=8" in error["message"]


class TestWrongInput:
    @pytest.mark.parametrize(
        "change",
        [
            ("base: three.yaml", "base: [three.yaml, nowhere.yaml]"),
            ("base: three.yaml", "base: []"),
            ("base: three.yaml\n", ""),
            ("name: space", "name: a/b"),
            ("[Engine]", "[Engin]"),
            ("[Engine]", "[Engine, Ideal]"),
            ("[1MiB, 4MiB]", "[1MiB, 4]"),
            ("[1MiB, 4MiB]", "1MiB"),
            ("[8, 16]", "[]"),
            ("endpoint.fsms", "endpoint.fsm"),
            ("endpoint.fsms", "endpoint.sram.x"),
            ("endpoint.fsms", "name"),
            ("training.iterations", "endpoint.fsms"),
            ("training.iterations: 3", "training.iterations: 0"),
            ("endpoint.fsms: [8, 16]", "variants.Engine.endpoint.sram: [2MiB]"),
            ("endpoint.fsms: [8, 16]", "endpoint.kind: [ace, ideal]"),
            ("endpoint.fsms: [8, 16]", "collective.chunk: [64KiB]\n  collective.chunks: [7]"),
            ("endpoint.fsms", "variants.Ideal.npu.sms"),
            ("{training.iterations: 3}", "{npu.sms: 4}\nzip: [{variants.Engine.npu.sms: [8]}]"),
            ("axes:", "axis:"),
            ("axes:", "zip: {npu.sms: [1, 2], npu.clock: [1GHz]}\naxes:"),
            (SWEEP, "[1, 2]"),
            (SWEEP, "name: none\nbase: three.yaml\n"),
            (
                SWEEP,
                f"name: many\nbase: three.yaml\naxes: {{npu.sms: {[*range(1, 400)]}, npu.peak: {[*range(1, 400)]}}}",
            ),
        ],
        ids=lambda change: change[1][:40].replace("\n", " "),
    )
    def test_is_said_with_its_place(
        self, syncline_command: Command, sweep: Path, change: tuple[str, str], snapshot: SnapshotAssertion
    ) -> None:
        sweep.write_text(SWEEP.replace(*change))
        ended = syncline_command("sweep", str(sweep))
        assert (ended.status, ended.out) == (2, "")
        assert ended.err.replace(str(sweep.parent), "DIR") == snapshot

    def test_every_error_at_once(self, syncline_command: Command, sweep: Path) -> None:
        sweep.write_text(SWEEP.replace("4MiB", "4").replace("16", "0"))
        arguments = ("--json", "--threads", "0", "--resume")
        errors = json.loads(syncline_command("sweep", str(sweep), *arguments).err)["errors"]
        assert [error["field"] for error in errors] == ["--threads", "--resume"]
        errors = json.loads(syncline_command("sweep", str(sweep), "--json").err)["errors"]
        assert [(error["line"], error["field"]) for error in errors] == [
            (6, "axes.endpoint.sram.1"),
            (7, "axes.endpoint.fsms.1"),
        ]

    @pytest.mark.parametrize("what", ["directory", "someone's file", "no directory"])
    def test_an_output_that_cannot_be(self, syncline_command: Command, sweep: Path, tmp_path: Path, what: str) -> None:
        out = tmp_path / ("nowhere/t.parquet" if what == "no directory" else "t.parquet")
        if what == "directory":
            out.mkdir()
        elif what == "someone's file":
            out.write_text("mine")
        ended = syncline_command("sweep", str(sweep), "--out", str(out))
        assert (ended.status, ended.out) == (2, "")
        assert "--out" in ended.err
        assert not list(tmp_path.rglob("*.journal"))

    def test_sweeps_and_experiments_are_told_apart(self, syncline_command: Command, sweep: Path) -> None:
        assert "syncline sweep runs it" in syncline_command("run", str(sweep)).err
        assert "syncline sweep ace/design-space runs it" in syncline_command("check", "ace/design-space").err
        assert "syncline run ace/resnet50 runs it" in syncline_command("sweep", "ace/resnet50").err


class TestSchema:
    def test_accepts_what_is_legal_and_refuses_what_is_not(self) -> None:
        validator = jsonschema.Draft202012Validator(json_schema())
        for name in studies.sweeps():
            path, label = studies.find_sweep(name)
            validator.validate(plain(read(path.read_text(), label)))
        validator.validate(plain(read(SWEEP, "f")))
        for change in (
            ("axes:", "axis:"),
            ("[8, 16]", "[]"),
            ("endpoint.fsms", "endpoint..fsms"),
            ("endpoint.fsms", "name"),
            ("endpoint.fsms", "variants.Engine"),
            ("base: three.yaml\n", ""),
        ):
            assert not validator.is_valid(plain(read(SWEEP.replace(*change), "f"))), change

    def test_both_are_printed(self, syncline_command: Command) -> None:
        assert json.loads(syncline_command("schema").out)["title"] == "Syncline experiment"
        assert json.loads(syncline_command("schema", "sweep").out)["title"] == "Syncline sweep"
        assert syncline_command("schema", "sweeep").status == 2
