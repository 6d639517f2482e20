"""`syncline calibrate`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from support.command import Ended
from syncline.nccl import constants, measurements

Command = Callable[..., Ended]

OCI = str(measurements.FOLDER / "a100-8-oci.csv")
NVLS = str(measurements.FOLDER / "h100-8-nvls.csv")


def test_the_tables(syncline_command: Command, snapshot: SnapshotAssertion) -> None:
    ended = syncline_command("calibrate", OCI, "--machine", "dgx-a100")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out == snapshot


def test_json_is_one_document(syncline_command: Command) -> None:
    ended = syncline_command("calibrate", OCI, "--machine", "dgx-a100", "--json")
    document = json.loads(ended.out)
    assert (ended.status, ended.err) == (0, "")
    assert list(document)[:7] == [
        *("schema_version", "version", "status", "seed", "assumptions", "warnings", "fidelity"),
    ]
    assert (document["machine"], document["collective"], document["gpus"]) == ("dgx-a100", "all-reduce", 8)
    first = document["residuals"][0]
    assert first["size_bytes"] == 64
    assert first["error"] == pytest.approx(first["fitted_s"] / first["measured_s"] - 1)
    assert document["mean_absolute_error"]["held_out"]["from_1MiB"] < 0.05
    assert set(document["software"]["constants"]) >= {"launch_s", "efficiency_simple"}
    assert set(document["cost"]) == {"wall_time_s", "cpu_time_s", "peak_rss_bytes", "events", "packet_hops"}


def test_two_runs_are_equal_outside_cost(syncline_command: Command) -> None:
    documents = [json.loads(syncline_command("calibrate", OCI, "--machine", "dgx-a100", "--json").out) for _ in "ab"]
    for document in documents:
        document.pop("cost")
    assert documents[0] == documents[1]


def test_out_writes_what_can_be_loaded(syncline_command: Command, tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    ended = syncline_command("calibrate", OCI, "--machine", "dgx-a100", "--out", str(target), "--json")
    written = json.loads(ended.out)["software"]["constants"]
    loaded = constants.load(str(target)).constants
    assert f"constants: {target}" in ended.err
    assert loaded.launch == pytest.approx(written["launch_s"], rel=1e-3)
    again = syncline_command("calibrate", OCI, "--machine", "dgx-a100", "--software", str(target), "-q")
    assert (again.status, again.err) == (0, "")


def test_outliers_are_named(syncline_command: Command) -> None:
    ended = syncline_command("calibrate", NVLS, "--machine", "dgx-h100")
    assert "warning: an outlier hardly counts: 32 bytes took 68.1 us" in ended.err


def test_rows_that_nccl_tests_found_wrong_are_named(syncline_command: Command, tmp_path: Path) -> None:
    log = tmp_path / "wrong.log"
    times = [(2**power, 60 + 2**power / 139e3) for power in range(20, 31, 2)]
    rows = [
        f"{size} {size // 4} float sum -1 {us:.2f} {size / us / 1e3:.2f} N/A {5 * (us > 1000)}" for size, us in times
    ]
    log.write_text("\n".join(rows) + "\n")
    ended = syncline_command("calibrate", str(log), "--machine", "dgx-a100")
    assert ended.status == 0
    said = "warning: nccl-tests found wrong results (#wrong) in 2 of 6 rows (lines 5, 6): what was timed did not work"
    assert said in ended.err


def test_where_most_is_missed_nothing_is_an_outlier(syncline_command: Command, tmp_path: Path) -> None:
    """Times without order: the fit is wrong, not the table."""
    factors = (1, 9, 0.2, 7, 0.1, 8, 0.3, 10, 0.1, 6, 0.2)
    rows = "".join(f"{2**k},{2**k / 1e5 * f:.3f}\n" for k, f in zip(range(23, 34), factors, strict=True))
    table = tmp_path / "wild.csv"
    table.write_text("# coll: all_reduce\n# n: 16\n# nodes: 2\nsize_bytes,time_us\n" + rows)
    ended = syncline_command("calibrate", str(table), "--machine", "dgx-h100(nodes=2)")
    assert ended.status == 0
    assert "outlier" not in ended.err
    assert "sizes by more than 50 %: the table is described badly" in ended.err


@pytest.mark.parametrize("gpu", ["NVIDIA H100 80GB HBM3", "NVIDIA A100-PCIE-40GB", "GeForce RTX 4090"])
def test_a_table_of_another_gpu(syncline_command: Command, tmp_path: Path, gpu: str) -> None:
    table = tmp_path / "table.csv"
    rows = "".join(f"{2**k},{20 + 2**k / 1e5:.3f}\n" for k in range(10, 30))
    table.write_text(f"# gpu: {gpu}\n# coll: all_reduce\n# n: 8\nsize_bytes,time_us\n{rows}")
    ended = syncline_command("calibrate", str(table), "--machine", "dgx-a100")
    assert ended.status == 2
    assert f"gpu: the table was measured on {gpu}, dgx-a100 has A100" in ended.err
    assert "--force" in ended.err
    assert syncline_command("calibrate", str(table), "--machine", "dgx-a100", "--force").status == 0


def test_a_log_of_another_gpu(syncline_command: Command, tmp_path: Path) -> None:
    """nccl-tests prints the device of every rank."""
    ranks = "".join(
        f"#  Rank {i:2} Group  0 Pid  {100 + i} on host device {i:2} [0x{i:02x}] NVIDIA H100 80GB HBM3\n"
        for i in range(8)
    )
    rows = "".join(
        f"{2**k} {2**k // 4} float sum -1 {2**k / 1e5 + 20:.2f} {2**k / (2**k / 1e5 + 20) / 1e3:.2f} 0.0 0\n"
        for k in range(20, 30)
    )
    log = tmp_path / "all_reduce_perf.log"
    log.write_text(f"all_reduce_perf -b 1M\n{ranks}{rows}")
    assert "measured on NVIDIA H100 80GB HBM3" in syncline_command("calibrate", str(log), "--machine", "dgx-a100").err
    assert syncline_command("calibrate", str(log), "--machine", "dgx-h100").status == 0


def test_every_error_at_once(syncline_command: Command) -> None:
    ended = syncline_command(
        *("calibrate", "none.log", "--machine", "dgx-a10", "--collective", "allgatter", "--column", "in", "--json")
    )
    assert (ended.status, ended.out) == (2, "")
    errors = json.loads(ended.err)["errors"]
    assert {e["field"] for e in errors} == {"--collective", "--column", "--machine", ""}
    assert "Traceback" not in ended.err


def test_a_table_of_another_machine(syncline_command: Command) -> None:
    ended = syncline_command("calibrate", str(measurements.FOLDER / "h100-16-ring.csv"), "--machine", "dgx-h100")
    assert ended.status == 2
    assert "accepted: --machine dgx-h100(nodes=2)" in ended.err


def test_a_place_that_cannot_be_written(syncline_command: Command, tmp_path: Path) -> None:
    ended = syncline_command("calibrate", OCI, "--machine", "dgx-a100", "--out", str(tmp_path))
    assert ended.status == 2
    assert "--out: this is a directory" in ended.err


@pytest.mark.parametrize("sizes", [1, 2, 3])
def test_a_small_table_says_how_little_it_constrains(syncline_command: Command, tmp_path: Path, sizes: int) -> None:
    """Its sizes are met, and what they do not show stays where the fit began."""
    table, target = tmp_path / "t.csv", tmp_path / "mine.yaml"
    rows = [(2**30, 8166), (2**20, 76.7), (2**10, 32.0)][:sizes]
    table.write_text("size_bytes,time_us\n" + "".join(f"{size},{time}\n" for size, time in rows))
    line = ("calibrate", str(table), "--machine", "dgx-a100", "--algorithm", "ring", "--out", str(target), "--json")
    document = json.loads(syncline_command(*line).out)
    assert document["algorithm"] == "ring"
    (warning,) = (text for text in document["warnings"] if "constants" in text)
    assert warning.startswith(f"the table has {sizes} size{'s' if sizes > 1 else ''}, for 7 constants: ")
    assert max(abs(row["error"]) for row in document["residuals"]) < 0.05
    assert document["mean_absolute_error"]["held_out"] == {"from_1MiB": None, "below_1MiB": None}
    assert document["software"]["described_by"] == {"from_1MiB": "constants", "below_1MiB": "constants"}
    software = document["software"]
    assert software["constants"]["efficiency_nvls"] == software["start_constants"]["efficiency_nvls"]
    sized = ("--sizes", "1GiB", "--json")
    ended = syncline_command(
        "bench", "all-reduce", "--machine", "dgx-a100", "--algorithm", "ring", "--software", str(target), *sized
    )
    assert json.loads(ended.out)["rows"][0]["time_s"] == pytest.approx(8166e-6, rel=0.01)


def test_an_algorithm_that_is_not_known(syncline_command: Command) -> None:
    ended = syncline_command("calibrate", OCI, "--machine", "dgx-a100", "--algorithm", "rings")
    assert ended.status == 2
    assert "command line: --algorithm: this is not known; did you mean 'ring'?" in ended.err
