"""`syncline bench`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from support.command import Ended
from syncline.nccl import printing, wire

Command = Callable[..., Ended]


def test_the_table(syncline_command: Command, snapshot: SnapshotAssertion) -> None:
    ended = syncline_command("bench", "all-reduce", "--machine", "dgx-h100", "--sizes", "1KiB:8GiB:x32")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out == snapshot


def test_json_is_one_document(syncline_command: Command) -> None:
    arguments = ("bench", "all-gather", "--machine", "dgx-a100(nodes=2)", "--gpus", "0-3,8-11", "--sizes", "4KiB,1GiB")
    ended = syncline_command(*arguments, "--json")
    document = json.loads(ended.out)
    assert (ended.status, ended.err) == (0, "")
    assert list(document)[:7] == [
        *("schema_version", "version", "status", "seed", "assumptions", "warnings", "fidelity"),
    ]
    assert (document["machine"], document["gpus"]) == ("dgx-a100(nodes=2, nics=rail)", "0-3,8-11")
    assert (document["ranks"], document["nodes"], document["collective"]) == (8, 2, "all-gather")
    assert "a100-8-oci" in [fitted["table"] for fitted in document["software"]["fitted_on"]]
    small, large = document["rows"]
    assert (small["size_bytes"], small["count"]) == (4096, 4096 // 4 // 8)
    assert small["time_low_s"] < small["time_s"] < small["time_high_s"]
    assert large["time_low_s"] is None
    assert large["algorithm_bandwidth_bytes_per_s"] == pytest.approx(2**30 / large["time_s"])
    assert set(document["cost"]) == {"wall_time_s", "cpu_time_s", "peak_rss_bytes", "events", "packet_hops"}
    again = json.loads(syncline_command(*arguments, "--json").out)
    assert {**again, "cost": None} == {**document, "cost": None}


@pytest.mark.parametrize("kind", wire.KINDS)
def test_every_kind_of_nccl_tests(syncline_command: Command, kind: str) -> None:
    ended = syncline_command("bench", kind, "--machine", "dgx-a100", "--sizes", "1MiB:1GiB:x4", "-q")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith(f"# {printing.PROGRAMS[kind]} on dgx-a100: 8 ranks")


def test_names_of_nccl_tests_will_do(syncline_command: Command) -> None:
    both = [
        syncline_command("bench", k, "--machine", "dgx2", "--sizes", "1MiB").out for k in ("all_reduce", "all-reduce")
    ]
    assert both[0] == both[1]


def test_calibrate_reads_what_it_prints(syncline_command: Command, tmp_path: Path) -> None:
    predicted = syncline_command("bench", "all-reduce", "--machine", "dgx-a100", "--sizes", "1KiB:8GiB:x2").out
    log = tmp_path / "predicted.log"
    log.write_text(predicted)
    ended = syncline_command("calibrate", str(log), "--machine", "dgx-a100", "--json")
    assert (ended.status, ended.err) == (0, "")
    errors = json.loads(ended.out)["mean_absolute_error"]["fitted"]
    assert errors["from_1MiB"] < 0.005
    assert errors["below_1MiB"] < 0.005


def test_constants_of_ones_own(syncline_command: Command, tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    table = str(Path(wire.__file__).parent / "tables" / "a100-8-oci.csv")
    assert syncline_command("calibrate", table, "--machine", "dgx-a100", "--out", str(own), "-q").status == 0
    ended = syncline_command("bench", "all-reduce", "--machine", "dgx-a100", "--software", str(own), "--sizes", "1KiB")
    assert "# software: dgx-a100-calibrated; fitted on" in ended.out
    assert "a100-8-oci.csv" in ended.out


def test_a_small_size_time(syncline_command: Command) -> None:
    arguments = ("bench", "all-reduce", "--machine", "dgx-a100", "--sizes", "8B", "--small-size-time", "20us")
    ended = syncline_command(*arguments)
    assert "set to the small-size time" in ended.out
    assert ended.out.splitlines()[-1].split()[5] == "20.00"


def test_a_mesh_has_its_warnings(syncline_command: Command) -> None:
    ended = syncline_command("bench", "all-to-all", "--machine", "dgx1v", "--gpus", "0-2", "--sizes", "1MiB")
    assert "warning: what goes directly between GPUs of a hybrid cube mesh was not compared" in ended.err
    apart = syncline_command("bench", "all-reduce", "--machine", "dgx1v", "--gpus", "1,4", "--sizes", "1MiB")
    assert "warning: no ring of NVLinks leads through these GPUs" in apart.err
    assert syncline_command("bench", "all-reduce", "--machine", "dgx1v", "--sizes", "1MiB").err == ""


def test_nics_that_pcie_cannot_feed_are_warned_of(syncline_command: Command) -> None:
    machine = "dgx-h100(nodes=2, nic_rate=100GB/s)"
    ended = syncline_command("bench", "all-reduce", "--machine", machine, "--sizes", "1GiB", "--json")
    warnings = json.loads(ended.out)["warnings"]
    assert any("a NIC has 100GB/s each way, but the PCIe link that it is on carries 52.48GB/s" in w for w in warnings)


@pytest.mark.parametrize(
    ("machine", "flags", "warning"),
    [
        ("dgx1p", (), "v100-mesh was fitted on tables of dgx1v, none of dgx1p"),
        (
            "dgx-h100",
            ("--software", "a100-nvswitch"),
            "a100-nvswitch was fitted on tables of dgx-a100, none of dgx-h100",
        ),
        ("dgx2(nodes=2, network=tcp)", (), "network = tcp: not fitted, as no table was there"),
        ("dgx2(nodes=2)", (), ""),
        ("dgx-a100(nodes=2)", (), ""),
    ],
)
def test_constants_from_elsewhere(
    syncline_command: Command, machine: str, flags: tuple[str, ...], warning: str
) -> None:
    ended = syncline_command("bench", "all-reduce", "--machine", machine, "--sizes", "1MiB", *flags)
    assert ended.status == 0
    assert warning in ended.err
    assert bool(ended.err) == bool(warning)


def test_every_error_at_once(syncline_command: Command, snapshot: SnapshotAssertion) -> None:
    ended = syncline_command(
        *("bench", "allgatter", "--machine", "dgxh100", "--sizes", "1KiB:2,3,6B", "--algorithm", "nvl"),
        *("--software", "h100", "--small-size-time", "5"),
    )
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == snapshot


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--algorithm", "nvls"), "dgx-a100 does not run all-reduce with it"),
        (("--algorithm", "tree"), "dgx-a100 does not run all-reduce with it"),
        (("--small-size-time", "1us"), "this cannot be: 8 bytes take"),
        (("--gpus", "0-9"), "there is no GPU 9"),
    ],
)
def test_what_the_machine_cannot_do(syncline_command: Command, flags: tuple[str, str], reason: str) -> None:
    ended = syncline_command("bench", "all-reduce", "--machine", "dgx-a100", "--sizes", "1MiB", "--json", *flags)
    assert (ended.status, ended.out) == (2, "")
    (error,) = json.loads(ended.err)["errors"]
    assert error["field"] == flags[0]
    assert reason in error["message"]
    assert error["accepted"]


def test_packed_trees_are_simulated(syncline_command: Command) -> None:
    """The rows are those of the command that simulates a collective, and of other software nothing is taken."""
    line = ("bench", "broadcast", "--machine", "dgx1v", "--gpus", "1,4-6", "--algorithm", "packed-trees")
    ended = syncline_command(*line, "--sizes", "8B,64MiB", "--json")
    assert ended.status == 0, ended.err
    rows = json.loads(ended.out)["rows"]
    assert [(row["size_bytes"], row["count"], row["time_low_s"]) for row in rows] == [
        (8, 2, None),
        (2**26, 2**24, None),
    ]
    flags = ("--machine", "dgx1v", "--gpus", "1,4-6", "--algorithm", "packed-trees", "--backend", "flow")
    more = ("--endpoint", "streams", "--set", "workload.element=4B", "--json")
    alone = json.loads(syncline_command("collective", "broadcast", "--size", "64MiB", *flags, *more).out)
    assert rows[1]["time_s"] == alone["time_s"]
    assert "packed-trees streams" in syncline_command(*line, "--sizes", "8B").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["all-to-all", "--machine", "dgx1v"], "no trees carry out all-to-all"),
        (["broadcast", "--machine", "dgx1v", "--gpus", "0,6"], "do not connect GPUs 0,6"),
        (["broadcast", "--machine", "dgx1v", "--software", "v100-mesh"], "packed-trees is simulated"),
        (["broadcast", "--machine", "dgx1v", "--sizes", "2x"], "--sizes"),
    ],
)
def test_what_packed_trees_refuse(arguments: list[str], said: str, syncline_command: Command) -> None:
    ended = syncline_command("bench", *arguments, "--algorithm", "packed-trees")
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
