"""Experiments at the edge of what can be counted: a single NPU, days of simulated time, more memory than there is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.command import Ended
from support.registry import BACKENDS, ENDPOINTS, WITH_CONTENTION
from syncline.base import memory

Command = Callable[..., Ended]
MOST_WINDOWS = 2**17


def run(syncline_command: Command, *arguments: str) -> dict[str, Any]:
    """The document of a command that must succeed."""
    ended = syncline_command(*arguments, "--json")
    assert ended.status == 0, ended.err
    document: dict[str, Any] = json.loads(ended.out)
    return document


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("endpoint", [*ENDPOINTS.values(), "{kind: baseline, comm_sms: 6, contention: dynamic}"])
def test_one_npu_has_no_bandwidth_and_no_quotient_of_it(
    syncline_command: Command, tmp_path: Path, backend: str, endpoint: str
) -> None:
    alone = 'topology: "Ring(1, rate=200GB/s, latency=1ps)"\nnetwork: {backend: ' + backend + "}\n"
    file = tmp_path / "alone.yaml"
    file.write_text(f"name: alone\n{alone}endpoint: {endpoint}\nworkload: {{model: resnet18, batch: 1}}\n")
    document = run(syncline_command, "run", str(file), "--out", str(tmp_path / "out"))
    network = document["runs"][0]["network"]
    assert (network["bytes_sent_per_npu"], network["achieved_bandwidth_bytes_per_s"]) == (0, 0)
    assert network["achieved_wire_bandwidth_bytes_per_s"] is None
    assert (tmp_path / "out" / "report.html").exists()
    file.write_text(f"name: alone\n{alone}workload: {{collective: all-reduce, size: 1B}}\n")
    assert run(syncline_command, "run", str(file))["runs"][0]["total_time_s"] < 1e-6
    assert syncline_command("run", str(file)).status == 0


def test_what_ignores_contention_reports_a_demand(syncline_command: Command) -> None:
    """On a ring of 32 an all-to-all has links that carry eight times what one NPU sends of its own."""
    exchange = ("collective", "all-to-all", "--size", "32MB", "--topology", "Ring(32)", "--algorithm", "direct")
    routed = ("--set", "endpoint.transit=network")
    network = run(syncline_command, *exchange, *routed, "--backend", "analytical")["network"]
    assert network["mean_link_utilisation"] is None
    assert network["link_demand"] > 1
    for backend in WITH_CONTENTION:
        network = run(syncline_command, *exchange, *routed, "--backend", backend)["network"]
        assert network["link_demand"] is None
        assert 0 < network["mean_link_utilisation"] <= 1


def test_windows_are_few_whatever_the_time(syncline_command: Command, tmp_path: Path) -> None:
    """Nothing is busy for most of these twelve days, and the tables cover them all the same."""
    import pyarrow.parquet as pq

    file = tmp_path / "far.yaml"
    file.write_text(
        'name: far\ntopology: "FullyConnected(9, rate=1kB/s)_FullyConnected(7, rate=1MB/s, latency=1000000s)"\n'
        "workload: {collective: gather, size: 31B}\ncollective: {algorithm: direct}\n"
        "network: {backend: flow}\nendpoint: {kind: ideal}\n"
    )
    out = tmp_path / "out"
    (entry,) = run(syncline_command, "run", str(file), "--out", str(out))["runs"]
    (table,) = out.rglob("windows.parquet")
    starts = pq.read_table(table).column("start_ps").to_pylist()
    assert MOST_WINDOWS // 2 < len(starts) <= MOST_WINDOWS
    assert {later - start for start, later in pairwise(starts)} == {starts[1]}
    assert 0 <= entry["total_time_s"] * 1e12 - starts[-1] <= starts[1] * (1 + 1e-6)


def test_what_would_outlast_simulated_time_is_refused(syncline_command: Command) -> None:
    for backend in BACKENDS:
        ended = syncline_command(
            *("collective", "reduce", "--size", "7B", "--group", "0,5,2,7", "--algorithm", "direct"),
            *("--topology", "FullyConnected(2)_Ring(8, latency=9000000s)_Ring(5)", "--backend", backend),
            *("--set", "collective.slices=1048576"),
        )
        assert ended.status == 2
        assert "days of simulated time\n    accepted: up to 106 days" in ended.err


def test_a_run_that_takes_too_much_memory_is_refused_with_what_fits(
    syncline_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(memory.VARIABLE, "500MB")
    wide = ("collective", "all-reduce", "--size", "1MB", "--topology", "Ring(4194304)", "--algorithm", "ring")
    ended = syncline_command(*wide, "--fold", "off", "--json")
    (error,) = json.loads(ended.err)["errors"]
    assert (ended.status, error["field"]) == (2, "--topology")
    assert "of memory, of which 500 MB may be taken" in error["message"]
    assert "NPUs that are simulated; or a larger --memory-limit" in error["accepted"]
    crumbs = ("collective", "all-reduce", "--size", "1GB", "--topology", "Ring(4)", "--chunk", "128B", "--endpoint")
    ended = syncline_command(*crumbs, "baseline", "--json")
    (error,) = json.loads(ended.err)["errors"]
    assert (ended.status, error["field"]) == (2, "--chunk")
    assert "chunks instead of" in error["accepted"]
    assert syncline_command(*wide[:3], "1MB", "--topology", "Ring(64)").status == 0


def test_a_check_builds_no_network(tmp_path: Path) -> None:
    """A million links of the packet backend would take more than a gigabyte."""
    file = tmp_path / "wide.yaml"
    fabric = "Switch(8)_Switch(2)_Torus(3, 4)_Torus(4, 4, 4)_Ring(5)"
    file.write_text(
        f'name: wide\ntopology: "{fabric}"\nworkload: {{collective: gather, size: 1KiB}}\nfold: off\n'
        "network: packet\ncollective: {algorithm: direct, inflight: 1}\n"
    )

    script = (
        "import sys; from syncline.base import memory; from syncline.commands import cli;"
        "status = cli.run(sys.argv[1:]);"
        "print(status, memory.peak(), file=sys.stderr)"
    )
    checked = [sys.executable, "-c", script, "check", str(file), "--memory-limit", "16GB"]
    ended = subprocess.run(checked, capture_output=True, check=True, text=True)
    status, most = ended.stderr.split()
    assert "1.1 GB" in ended.stdout
    assert (status, int(most) < 400_000_000) == ("0", True)


@pytest.mark.skipif(not memory.STATUS.exists(), reason="only Linux tells the peak of one program")
def test_peak_memory_is_that_of_the_program_alone() -> None:
    """A notebook of a gigabyte that starts a small simulation is not counted with it."""
    small = ["-m", "syncline", "collective", "all-reduce", "--size", "1MB", "--topology", "Ring(4)", "--json"]
    notebook = (
        "import json, subprocess, sys; data = bytearray(2**30); data[::4096] = bytes(2**18);"
        "ended = subprocess.run(sys.argv[1:], capture_output=True, check=True);"
        "print(json.loads(ended.stdout)['cost']['peak_rss_bytes'])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", notebook, sys.executable, *small], capture_output=True, check=True, text=True
    )
    assert int(ended.stdout) < 500_000_000


class TestMemoryLimit:
    """How much a simulation may take."""

    @pytest.fixture(autouse=True)
    def unset(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(memory.VARIABLE, "1GB")  # so that what a flag sets is undone
        monkeypatch.delenv(memory.VARIABLE)

    def test_by_default_it_is_a_share_of_the_machine(self) -> None:
        assert memory.limit() == int(0.8 * memory.available())
        assert memory.available() > 10**8

    def test_a_flag_sets_it_for_this_process_and_its_children(self, syncline_command: Command) -> None:
        small = ("collective", "all-reduce", "--size", "1MB", "--topology", "Ring(4)")
        assert syncline_command(*small, "--memory-limit", "2GB").status == 0
        assert memory.limit() == 2 * 10**9
        for wrong, said in (("2", "unit"), ("1kB", "this is less than any simulation needs")):
            ended = syncline_command(*small, "--memory-limit", wrong)
            assert ended.status == 2
            assert said in ended.err

    def test_more_than_the_address_space_is_not_to_be_had(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(memory.VARIABLE, "900GB")
        assert memory.limit() == 900 * 10**9
        monkeypatch.setattr(memory, "_address_space_left", lambda: [10**9])
        assert memory.limit() == 800_000_000

    def test_a_control_group_has_no_more_than_those_around_it(self, tmp_path: Path) -> None:
        membership = tmp_path / "cgroup"
        for folder, name, text in (
            ("a", "memory.max", "5000"),
            ("a/b", "memory.max", "max"),
            ("memory/c", "memory.limit_in_bytes", "7000"),
        ):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_text(text + "\n")
        membership.write_text("12:cpu,memory:/c/d\n3:cpu:/a\n0::/a/b\n")
        assert memory.control_group_limits(membership, tmp_path) == [7000, 5000]
        assert memory.control_group_limits(tmp_path / "none", tmp_path) == []

    def test_fewer_run_side_by_side_where_all_would_not_fit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(memory.VARIABLE, "1GB")
        assert memory.at_once(8, [3 * 10**8, 10**6]) == 3
        assert memory.at_once(8, [3 * 10**9]) == 1
        assert memory.at_once(2, []) == 2


@pytest.mark.parametrize(
    ("command", "algorithm"),
    # With `auto` the engine panics in an attempt, if it did not choose before.
    [("check", "ring"), ("run", "ring"), ("attempt", "auto")],
)
def test_what_panicked_is_kept_for_the_report(
    syncline_command: Command,
    fake_engine: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    algorithm: str,
) -> None:
    class InternalError(RuntimeError):
        pass

    def panic(*_: object) -> None:
        raise InternalError("a key has 24 bits (crates/core/src/queue.rs:25)")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(fake_engine, command, panic)
    size = ("--size", "1000001B")  # which no other test has an algorithm for
    ended = syncline_command("collective", "all-reduce", *size, "--topology", "Ring(4)", "--algorithm", algorithm)
    assert (ended.status, ended.out) == (1, ""), ended.err
    assert "queue.rs:25" in ended.err
    assert "worth a report" in ended.err
    kept = [file for file in tmp_path.glob("syncline-*.json") if str(file) in ended.err]
    assert [json.loads(file.read_text())["job"]["bytes"] for file in kept] == [1_000_001]
