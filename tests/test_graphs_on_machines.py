"""Graphs of files and several jobs on clusters of real machines, and what is assumed of graphs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command import Ended
from syncline.engine import rank_order

Command = Callable[..., Ended]
Graph = dict[str, Any]

SERVERS, GPUS = 4, 8


def pipeline() -> Graph:
    """Two stages on every other server each: tensor groups in servers, data groups and pipelines across them."""

    def npu(server: int, gpu: int) -> int:
        return server * GPUS + gpu

    def stage(number: int) -> Graph:
        nodes: list[Graph] = []
        for i in range(3):
            if number == 1:
                nodes.append({"name": f"in{i}", "recv": {"family": "pipe", "from": -1, "size": "8MB"}})
            waits = [f"in{i}"] if number == 1 else []
            nodes.append({"name": f"forward{i}", "time": "500us", "after": waits})
            tensor = {"family": "tensor", "kind": "all-reduce", "size": "16MB"}
            nodes.append({"name": f"sum{i}", "collective": tensor, "after": [f"forward{i}"]})
            if number == 0:
                sent = {"family": "pipe", "to": 1, "size": "8MB"}
                nodes.append({"name": f"out{i}", "send": sent, "after": [f"sum{i}"]})
        gradients = {"family": "data", "kind": "all-reduce", "size": "64MB"}
        nodes.append({"name": "gradients", "collective": gradients, "after": ["sum2"]})
        servers = range(number, SERVERS, 2)
        return {"npus": [npu(server, gpu) for server in servers for gpu in range(GPUS)], "nodes": nodes}

    tensor = [[npu(server, gpu) for gpu in range(GPUS)] for server in range(SERVERS)]
    data = [[npu(server, gpu) for server in range(first, SERVERS, 2)] for first in range(2) for gpu in range(GPUS)]
    pipes = [[npu(first + i, gpu) for i in range(2)] for first in range(0, SERVERS, 2) for gpu in range(GPUS)]
    families = {"tensor": tensor, "data": data, "pipe": pipes}
    return {
        "families": {name: {"members": {"groups": groups}} for name, groups in families.items()},
        "classes": {"first": stage(0), "second": stage(1)},
    }


def result(ended: Ended) -> dict[str, Any]:
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def written(folder: Path, graph: Graph, topology: str, more: str = "") -> str:
    (folder / "graph.json").write_text(json.dumps(graph))
    path = folder / "graph.yaml"
    path.write_text(f"name: graph\ntopology: {topology}\nworkload: {{graph: graph.json}}\nnetwork: flow\n{more}")
    return str(path)


@pytest.mark.parametrize(("network", "simulated"), [("flow", 2), ("packet", 4)])
def test_a_pipeline_on_servers_folds_and_is_the_whole_run(
    network: str, simulated: int, tmp_path: Path, syncline_command: Command
) -> None:
    path = written(tmp_path, pipeline(), f"dgx-h100(nodes={SERVERS})")
    folded, whole = (
        result(syncline_command("run", path, "--json", "--set", f"network.backend={network}", "--set", f"fold={f}"))
        for f in ("auto", "off")
    )
    assert folded["fidelity"]["simulated_npus"] == simulated
    assert whole["fidelity"]["simulated_npus"] == SERVERS * GPUS
    for run in (folded["runs"][0], whole["runs"][0]):
        for name in ("npu", "fidelity", "events"):
            run.pop(name, None)
    assert folded["runs"] == whole["runs"]
    assert [entry["npus"] for entry in folded["runs"][0]["classes"]] == [16, 16]


def test_jobs_share_the_network_of_a_cluster(tmp_path: Path, syncline_command: Command) -> None:
    """Two jobs on both servers each, apart in NVLinks and NICs, and on one NIC for each server."""

    def slowdowns(cluster: str) -> list[float]:
        path = tmp_path / "jobs.yaml"
        jobs = "".join(
            f"  - {{name: {name}, npus: '{npus}', workload: {{model: gnmt, batch: 1}}}}\n"
            for name, npus in (("one", "0-3,8-11"), ("two", "4-7,12-15"))
        )
        how = "network: flow\nendpoint: ideal\nnpu: {host_kernel_time: 0s, compute: {kind: roofline}}"
        path.write_text(f"name: jobs\ntopology: {cluster}\n{how}\njobs:\n{jobs}")
        (run,) = result(syncline_command("run", str(path), "--json"))["runs"]
        return [entry["slowdown"] for entry in run["jobs"]]

    assert slowdowns("dgx-h100(nodes=2)") == [1, 1]
    # The second one is behind the link between sockets, of 22 GB/s, which leaves 28 GB/s of the NIC to the first one.
    first, second = slowdowns("dgx-h100(nodes=2, nics=single)")
    assert 1.3 < first < 50 / 28
    assert second == 1


def test_a_job_is_as_wide_as_its_servers(tmp_path: Path, syncline_command: Command) -> None:
    """A job of four GPUs on either server runs hierarchical collectives as the allocation of these GPUs does."""
    common = "topology: dgx-h100(nodes=2)\nnetwork: flow\ncollective: {algorithm: hierarchical}\n"
    model = "workload: {model: resnet50, batch: 1}"
    (tmp_path / "job.yaml").write_text(f"name: job\n{common}jobs: [{{name: one, npus: '0-3,8-11', {model}}}]\n")
    (tmp_path / "alone.yaml").write_text(f"name: alone\n{common}gpus: 0-3,8-11\n{model}\n")
    job, alone = (
        result(syncline_command("run", str(tmp_path / f"{name}.yaml"), "--json"))["runs"][0]
        for name in ("job", "alone")
    )
    assert job["iteration_time_s"] == alone["iteration_time_s"]
    assert job["exposed_comm_s"] == alone["exposed_comm_s"]


def gather(folder: Path, members: Graph) -> str:
    """An all-gather of a family with these members on two servers, by rings."""
    node = {"name": "weights", "collective": {"family": "data", "kind": "all-gather", "size": "64MB"}}
    graph = {"families": {"data": {"members": members}}, "classes": {"all": {"npus": "0-15", "nodes": [node]}}}
    return written(folder, graph, "dgx-h100(nodes=2)", "collective: {algorithm: ring}\n")


@pytest.mark.parametrize(
    ("by_rule", "groups"),
    [
        ({"grid": [16], "along": [0]}, ["0-15"]),
        ({"grid": [8, 2], "along": [0, 1]}, ["0-15"]),
        ({"grid": [2, 8], "along": [1]}, [list(range(0, 16, 2)), list(range(1, 16, 2))]),
    ],
)
def test_communicators_by_rule_know_servers_as_lists_do(
    tmp_path: Path, syncline_command: Command, by_rule: Graph, groups: list[Any]
) -> None:
    ruled, listed = (
        result(syncline_command("run", gather(tmp_path, members), "--json"))
        for members in (by_rule, {"groups": groups})
    )
    assert ruled["runs"][0]["total_time_s"] == listed["runs"][0]["total_time_s"]
    assert ruled["warnings"] == listed["warnings"] == []


BACK = "at NPU 1, ranks come back to a server that they have left"


@pytest.mark.parametrize("members", [{"grid": [8, 2], "along": [1, 0]}, {"groups": [[0, 8, 1, 9]]}])
def test_ranks_that_come_back_to_a_server_are_told_of(
    tmp_path: Path, syncline_command: Command, members: Graph
) -> None:
    path = gather(tmp_path, members)
    if "groups" in members:
        graph = json.loads((tmp_path / "graph.json").read_text())
        graph["classes"]["all"]["npus"] = members["groups"][0]
        (tmp_path / "graph.json").write_text(json.dumps(graph))
    (warning,) = result(syncline_command("check", path, "--json"))["warnings"]
    assert warning.startswith(f"graph: family data: {BACK}")
    # Whose ranks do not matter is not told.
    assert result(syncline_command("check", path, "--json", "--algorithm", "direct"))["warnings"] == []


def test_groups_and_jobs_that_come_back_to_a_server_are_told_of(tmp_path: Path, syncline_command: Command) -> None:
    ring = ("collective", "all-gather", "--size", "1MB", "--backend", "flow", "--algorithm", "ring", "--json")
    common = (*ring, "--machine", "dgx-h100(nodes=2)")

    def warnings(*more: str) -> list[str]:
        found: list[str] = result(syncline_command(*common, *more))["warnings"]
        return [warning for warning in found if "come back" in warning]

    (warning,) = warnings("--group", "0,8,1,9")
    assert warning.startswith(f"groups: {BACK}")
    assert warnings("--group", "0,1,8,9") == warnings("--gpus", "0,8,1,9") == []
    assert warnings("--group", "0,8,1,9", "--endpoint", "nccl") == []
    job = "jobs: [{name: one, npus: '0,8,1,9', workload: {model: gnmt, batch: 1}}]\n"
    path = tmp_path / "jobs.yaml"
    how = "network: flow\nendpoint: ideal\ncollective: {algorithm: ring}\n"
    path.write_text(f"name: jobs\ntopology: dgx-h100(nodes=2)\n{how}{job}")
    assert f"jobs: job one: {BACK}" in " ".join(result(syncline_command("check", str(path), "--json"))["warnings"])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_who_comes_back_to_a_server_is_the_first_after_others_that_is_in_one_of_before(hosts: list[int]) -> None:
    """Whichever server it is: that of the first rank, or one on the way."""
    back = [npu for npu in range(1, len(hosts)) if hosts[npu] in hosts[: npu - 1] and hosts[npu] != hosts[npu - 1]]
    assert rank_order._back(range(len(hosts)), hosts) == next(iter(back), None)


def exchange(folder: Path, sizes: list[list[str]]) -> str:
    """An experiment in which four ranks on a switch send these sizes to each other, and no more."""
    node = {"name": "experts", "exchange": {"family": "all", "sizes": sizes}}
    graph = {
        "families": {"all": {"members": {"groups": ["0-3"]}}},
        "classes": {"all": {"npus": "0-3", "nodes": [node]}},
    }
    endpoint = "endpoint: {kind: ideal, step_latency: 0s}\n"
    return written(folder, graph, "Switch(4, rate=50GB/s, latency=500ns)", endpoint)


def test_a_graph_is_run_once_to_its_last_node(tmp_path: Path, syncline_command: Command) -> None:
    """10 MB of each of four ranks to each other, over 50 GB/s: 30 MB each way, and the latencies of two links."""
    sizes = [["0B" if a == b else "10MB" for b in range(4)] for a in range(4)]
    path = exchange(tmp_path, sizes)
    document = result(syncline_command("run", path, "--json"))
    (run,) = document["runs"]
    assert run["total_time_s"] == pytest.approx(30e6 / 50e9 + 2 * 500e-9, rel=1e-6)
    assert (run["iterations"], run["steady_iteration_time_s"]) == (1, None)
    assert {"training.iterations = 1 (default)", "training.tail = drain (default)"} <= set(document["assumptions"])


def test_an_uneven_exchange_does_not_fold(tmp_path: Path, syncline_command: Command) -> None:
    """One rank sends more than the others: 30 MB over 50 GB/s, where the others send nothing."""
    sizes = [["10MB" if a == 1 != b else "0B" for b in range(4)] for a in range(4)]
    path = exchange(tmp_path, sizes)
    (run,) = result(syncline_command("run", path, "--json"))["runs"]
    assert run["total_time_s"] == pytest.approx(30e6 / 50e9 + 2 * 500e-9, rel=1e-6)


def test_jobs_and_another_workload_exclude_each_other(tmp_path: Path, syncline_command: Command) -> None:
    path = tmp_path / "both.yaml"
    jobs = "jobs: [{name: one, npus: 0-3, workload: {model: resnet50, batch: 1}}]\n"
    path.write_text(f"name: both\ntopology: Ring(4)\nworkload: {{model: resnet50, batch: 1}}\n{jobs}")
    ended = syncline_command("check", str(path))
    assert ended.status == 2
    assert "model and jobs exclude each other" in ended.err
    # What is set displaces what the file says.
    path.write_text(f"name: set\ntopology: Ring(4)\n{jobs}")
    model = ("--set", "workload.model=resnet50", "--set", "workload.batch=1")
    (run,) = result(syncline_command("run", str(path), "--json", *model))["runs"]
    assert run["jobs"] == []
