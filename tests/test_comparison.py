"""How variants are compared: one baseline, named everywhere; what one more iteration costs; ideal that is no bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.command import Ended
from syncline.engine import comparison

Command = Callable[..., Ended]

TRAINING = """
name: two
topology: "Ring(4, rate=25GB/s, latency=500ns)"
network: analytical
workload: {model: resnet50, batch: 4}
collective: {algorithm: ring, chunks: 4}
output: {trace_npus: []}
variants:
  - {name: Slow, endpoint: {kind: baseline, comm_memory_bandwidth: 10GB/s, comm_sms: 2}}
  - {name: Fast, endpoint: {kind: baseline, comm_memory_bandwidth: 450GB/s, comm_sms: 6}}
  - {name: Ideal, endpoint: ideal}
"""
COLLECTIVE = """
name: single
topology: "Ring(8, rate=25GB/s, latency=500ns)"
network: packet
workload: {collective: all-reduce, size: 4MB}
collective: {algorithm: ring, chunk: 64KiB, inflight: 1}
output: {trace_npus: []}
variants:
  - {name: SMs, endpoint: {kind: baseline, comm_memory_bandwidth: 450GB/s, comm_sms: 6}}
  - {name: Wide, collective: {inflight: 32}, endpoint: {kind: baseline, comm_memory_bandwidth: 450GB/s, comm_sms: 6}}
  - {name: Engine, endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s}}
  - {name: Ideal, endpoint: ideal}
"""


@pytest.fixture
def training(tmp_path: Path) -> str:
    path = tmp_path / "training.yaml"
    path.write_text(TRAINING)
    return str(path)


@pytest.fixture
def collective(tmp_path: Path) -> str:
    path = tmp_path / "collective.yaml"
    path.write_text(COLLECTIVE)
    return str(path)


def entries(ended: Ended) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in json.loads(ended.out)["runs"]}


class TestBaseline:
    def test_speedups_are_against_the_first_variant_if_none_is_named(
        self, syncline_command: Command, training: str
    ) -> None:
        ended = syncline_command("run", training, "--json")
        runs = entries(ended)
        assert json.loads(ended.out)["baseline"] == "Slow"
        for run in runs.values():
            assert run["speedup"] == runs["Slow"]["iteration_time_s"] / run["iteration_time_s"]
            assert run["share_of_ideal"] == runs["Ideal"]["iteration_time_s"] / run["iteration_time_s"]
        assert runs["Slow"]["speedup"] == 1.0

    @pytest.mark.parametrize("by", ["flag", "file", "set"])
    def test_it_can_be_named(self, syncline_command: Command, training: str, by: str) -> None:
        if by == "file":
            Path(training).write_text(TRAINING.replace("name: two", "name: two\nbaseline: Fast"))
        flags = {"flag": ["--baseline", "Fast"], "file": [], "set": ["--set", "baseline=Fast"]}[by]
        runs = entries(syncline_command("run", training, "--json", *flags))
        assert runs["Fast"]["speedup"] == 1.0
        assert runs["Slow"]["speedup"] < 1.0
        assert "speed-up over Fast" in syncline_command("run", training, *flags).out

    def test_terminal_json_and_report_agree(self, syncline_command: Command, training: str, tmp_path: Path) -> None:
        ended = syncline_command("run", training, "--baseline", "Fast", "--out", str(tmp_path / "out"))
        runs = entries(syncline_command("run", training, "--baseline", "Fast", "--json"))
        page = (tmp_path / "out/report.html").read_text()
        assert "speed-up over Fast" in page
        for run in runs.values():
            (line,) = (line for line in ended.out.splitlines() if line.split()[:1] == [run["name"]])
            assert f"{run['speedup']:.2f}x" in line
            assert f">{run['speedup']:.2f}\N{MULTIPLICATION SIGN}<" in page
        assert "baseline: Fast" in (tmp_path / "out/experiment.resolved.yaml").read_text()
        again = syncline_command("run", str(tmp_path / "out/experiment.resolved.yaml"), "--json")
        assert json.loads(again.out)["baseline"] == "Fast"
        assert syncline_command("report", str(tmp_path / "out"), "--baseline", "Slow").status == 0
        assert "speed-up over Slow" in (tmp_path / "out/report.html").read_text()

    @pytest.mark.parametrize("command", [("run", "--baseline", "Fats"), ("check", "--set", "baseline=Fats")])
    def test_a_variant_that_is_missing_is_refused(
        self, syncline_command: Command, training: str, command: tuple[str, ...]
    ) -> None:
        name, *flags = command
        ended = syncline_command(name, training, *flags)
        assert ended.status == 2
        assert "baseline: there is no such variant; did you mean 'Fast'?" in ended.err
        assert "Slow, Fast, Ideal" in ended.err

    def test_of_a_directory_as_well(self, syncline_command: Command, training: str, tmp_path: Path) -> None:
        syncline_command("run", training, "--out", str(tmp_path / "out"))
        ended = syncline_command("report", str(tmp_path / "out"), "--baseline", "nobody")
        assert ended.status == 2
        assert "Slow, Fast, Ideal" in ended.err

    def test_a_variant_has_none_of_its_own(self, syncline_command: Command, training: str) -> None:
        Path(training).write_text(TRAINING.replace("{name: Slow,", "{name: Slow, baseline: Fast,"))
        assert "a variant cannot have baseline of its own" in syncline_command("check", training).err


class TestOneMoreIteration:
    def test_it_is_the_increment_of_a_longer_run(self, syncline_command: Command, training: str) -> None:
        total: dict[int, dict[str, float]] = {}
        for n in (2, 6, 7):
            runs = entries(syncline_command("run", training, "--json", "--set", f"training.iterations={n}"))
            total[n] = {name: run["total_time_s"] for name, run in runs.items()}
            for name, run in runs.items():
                assert run["steady_iteration_settled"], name
        runs = entries(syncline_command("run", training, "--json"))
        for name, run in runs.items():
            assert run["iteration_time_s"] == total[2][name] / 2
            assert run["steady_iteration_time_s"] == pytest.approx(total[7][name] - total[6][name], rel=1e-6)

    def test_it_is_said_where_it_differs(self, syncline_command: Command, training: str, tmp_path: Path) -> None:
        runs = entries(syncline_command("run", training, "--json"))
        slow, ideal = runs["Slow"], runs["Ideal"]
        assert slow["steady_iteration_time_s"] > 1.02 * slow["iteration_time_s"]
        assert "the first waits for nothing before it" in slow["steady_iteration_because"]
        ended = syncline_command("run", training, "--out", str(tmp_path / "out"))
        assert "steady" in ended.out
        assert "steady iteration time (Slow" in ended.out
        page = (tmp_path / "out/report.html").read_text()
        assert "the first waits for nothing before it" in page
        close = abs(ideal["steady_iteration_time_s"] / ideal["iteration_time_s"] - 1) <= 0.02
        assert (ideal["steady_iteration_because"] is None) == close

    def test_what_is_in_flight_at_the_end_has_no_times(
        self, syncline_command: Command, training: str, tmp_path: Path
    ) -> None:
        syncline_command("run", training, "--out", str(tmp_path / "out"), "--set", "collective.inflight=1")
        table = pq.read_table(tmp_path / "out/Slow/tables/collectives.parquet").to_pydict()
        waiting = [i for i, started in enumerate(table["started_ps"]) if started is None]
        flying = [i for i, done in enumerate(table["completed_ps"]) if done is None]
        assert set(waiting) < set(flying)
        assert {table["iteration"][i] for i in flying} == {1}
        assert all(
            time for name in ("issued_ps", "started_ps", "completed_ps") for time in table[name] if time is not None
        )
        page = (tmp_path / "out/report.html").read_text()
        assert ">in flight<" in page
        assert ">waiting<" in page

    @pytest.mark.parametrize(
        ("steady", "tail", "reason"),
        [
            (1.019, "stop", None),
            (1.03, "stop", "nothing waits for what is then in flight"),
            (0.9, "drain", "training.tail: drain"),
            (1.1, "drain", "waits for nothing before it"),
            (0.9, "stop", "take longer than further ones"),
        ],
    )
    def test_the_reason(self, steady: float, tail: str, reason: str | None) -> None:
        entry = {"iterations": 2, "iteration_time_s": 1.0, "steady_iteration_time_s": steady}
        said = comparison.steady_because(entry, tail)
        assert (said is None) if reason is None else (said is not None and reason in said)


class TestCollective:
    def test_it_is_reported_as_nccl_tests_does(
        self, syncline_command: Command, collective: str, tmp_path: Path
    ) -> None:
        ended = syncline_command("run", collective, "--out", str(tmp_path / "out"))
        head = ended.out.splitlines()[2]
        assert head.split("  ")[0].strip() == "system"
        for heading in ("size", "time", "algbw", "busbw", "lower bound", "efficiency"):
            assert heading in head
        assert "compute" not in head
        assert "exposed" not in head
        document = json.loads((tmp_path / "out/summary.json").read_text())
        for run in document["runs"]:
            assert run["time_s"] == run["total_time_s"] == run["iteration_time_s"]
            assert run["algorithm_bandwidth_bytes_per_s"] == pytest.approx(4e6 / run["time_s"])
            assert run["bus_bandwidth_bytes_per_s"] == pytest.approx(4e6 / run["time_s"] * 2 * 7 / 8)
            assert run["efficiency"] == pytest.approx(run["lower_bound_s"] / run["time_s"])
            assert run["compute_time_s"] is None
            assert run["exposed_comm_s"] is None
        page = (tmp_path / "out/report.html").read_text()
        assert "algbw" in page
        assert "busbw" in page
        assert "No communication is exposed" not in page


class TestIdealThatIsNoBound:
    def test_it_is_a_warning_with_its_cause(self, syncline_command: Command, collective: str, tmp_path: Path) -> None:
        ended = syncline_command("run", collective, "--json", "--out", str(tmp_path / "out"))
        runs = entries(ended)
        warnings = [text for text in json.loads(ended.out)["warnings"] if "links look slower" not in text]
        beaten = {name for name, run in runs.items() if run["time_s"] < runs["Ideal"]["time_s"]}
        assert beaten == {"Wide", "Engine"}
        assert len(warnings) == 2
        wide, engine = warnings
        assert wide.startswith("Wide takes ")
        assert "Ideal is not a bound here" in wide
        assert "they differ in collective.inflight" in wide
        assert "with at most 1 chunk of 64KiB in flight (collective.inflight)" in engine
        assert "the engine of Engine limits its chunks in flight itself" in engine
        # What is said of the cause holds.
        wider = entries(syncline_command("run", collective, "--json", "--set", "variants.Ideal.collective.inflight=2"))
        assert f"with collective.inflight = 2 Ideal takes {1e6 * wider['Ideal']['time_s']:.3f} us" in engine
        page = (tmp_path / "out/report.html").read_text()
        assert "is not a bound here" in page
        assert "of the performance of Ideal" not in page

    def test_the_algorithm_of_nccl_is_its_own(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "nccl.yaml"
        path.write_text(
            "name: faster\ntopology: dgx-h100\nnetwork: analytical\ncollective: {algorithm: double-binary-tree}\n"
            "workload: {collective: all-reduce, size: 256MiB}\n"
            "variants: [{name: Ideal, endpoint: ideal}, {name: NCCL, endpoint: nccl}]\n"
        )
        ended = syncline_command("run", str(path), "--json")
        (warning,) = [text for text in json.loads(ended.out)["warnings"] if "is not a bound" in text]
        assert "since NCCL takes the time of NCCL's own algorithm, whatever collective.algorithm says" in warning
        assert "collective.lanes" not in warning

    def test_a_bound_that_holds_is_no_warning(self, syncline_command: Command, training: str) -> None:
        ended = syncline_command("run", training, "--json")
        assert json.loads(ended.out)["warnings"] == []

    def test_in_sweeps_it_is_counted(self) -> None:
        rows: list[dict[str, Any]] = [
            {"base": "b", "point": point, "variant": name, "iteration_time_s": None, "time_s": time}
            for point, times in enumerate([(2.0, 3.0), (2.0, 2.0), (4.0, 1.0), (1.0, 4.0), (1.0, None)])
            for name, time in zip(("ACE", "Ideal"), times, strict=True)
        ]
        (warning,) = comparison.beaten_in_sweep(rows)
        assert warning.startswith("ACE is faster than Ideal at 2 of 5 points, up to 4.00 times")
        assert comparison.beaten_in_sweep([row for row in rows if row["variant"] == "ACE"]) == []

    def test_in_sweeps_of_several_experiments_each_has_points_of_its_own(self) -> None:
        """What is faster in one of them is held against the bound of that one."""
        rows: list[dict[str, Any]] = [
            {"base": base, "point": 0, "variant": name, "time_s": time}
            for base, times in (("a", (2.0, 3.0)), ("b", (9.0, 8.0)))
            for name, time in zip(("ACE", "Ideal"), times, strict=True)
        ]
        (warning,) = comparison.beaten_in_sweep(rows)
        assert warning.startswith("ACE is faster than Ideal at 1 of 2 points, up to 1.50 times")
