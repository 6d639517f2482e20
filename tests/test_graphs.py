"""Graphs in files: classes of NPUs, families of communicators, and what the command line makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.command import Ended
from syncline.base.errors import InputError
from syncline.sections import graph_file

Command = Callable[..., Ended]
Graph = dict[str, Any]

EXPERIMENT = """\
name: graph
topology: {topology}
workload: {{graph: graph.json}}
endpoint: {{kind: ideal, step_latency: 0s}}
network: flow
collective: {{algorithm: ring}}
training: {{iterations: {iterations}}}
"""


def experiment(folder: Path, graph: Graph | str, topology: str, iterations: int = 1) -> Path:
    """An experiment file with a graph beside it."""
    text = graph if isinstance(graph, str) else json.dumps(graph, indent=1)
    (folder / "graph.json").write_text(text)
    path = folder / "graph.yaml"
    path.write_text(EXPERIMENT.format(topology=topology, iterations=iterations))
    return path


def document(ended: Ended) -> dict[str, Any]:
    """What a command printed."""
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def stage(number: int, stages: int, micro: int, npus: list[int], size: str = "0B") -> Graph:
    """A stage of GPipe: the forward of all micro-batches, then their backward."""
    nodes: list[Graph] = []
    is_first, is_last = number == 0, number == stages - 1
    for tag, (name, time, before, after) in enumerate((("f", "1ms", -1, 1), ("b", "2ms", 1, -1))):
        starts, ends = (is_first, is_last) if name == "f" else (is_last, is_first)
        for i in range(micro):
            if not starts:
                received = {"family": "pipeline", "from": before, "tag": tag, "size": size}
                nodes.append({"name": f"r{name}{i}", "recv": received})
            waits = [] if starts else [f"r{name}{i}"]
            nodes.append({"name": f"{name}{i}", "layer": name, "time": time, "after": waits})
            if not ends:
                sent = {"family": "pipeline", "to": after, "tag": tag, "size": size}
                nodes.append({"name": f"s{name}{i}", "send": sent, "after": [f"{name}{i}"]})
    return {"npus": npus, "nodes": nodes}


def pipeline(stages: int = 4, micro: int = 8, replicas: int = 2) -> Graph:
    """GPipe in replicas."""
    npus = [[replica * stages + number for replica in range(replicas)] for number in range(stages)]
    return {
        "families": {"pipeline": {"members": {"grid": [stages, replicas], "along": [0]}}},
        "classes": {f"stage {n}": stage(n, stages, micro, npus[n]) for n in range(stages)},
    }


def test_the_bubble_of_a_pipeline_is_that_of_the_formula(tmp_path: Path, syncline_command: Command) -> None:
    stages, micro = 4, 8
    path = experiment(tmp_path, pipeline(stages, micro), "Switch(8, rate=1GB/s, latency=0s)")
    (run,) = document(syncline_command("run", str(path), "--json"))["runs"]
    assert run["bubble_s"] / run["total_time_s"] == pytest.approx((stages - 1) / (micro + stages - 1), abs=1e-12)
    assert [of["name"] for of in run["classes"]] == [f"stage {n}" for n in range(stages)]
    parts = ("compute_s", "exposed_s", "bubble_s", "background_wait_s", "drain_s")
    for of in run["classes"]:
        assert sum(of[part] for part in parts) == pytest.approx(of["total_s"], abs=1e-12)
        assert (of["npus"], of["compute_s"]) == (2, pytest.approx(0.024))


def test_matrix_products_of_nodes_keep_their_shape(tmp_path: Path, syncline_command: Command) -> None:
    """Two products of 256 x 234 and 234 x 256 take two folds of 1000 cycles on an array of 256 x 256; for a roofline
    they are operations and bytes like any other.
    """

    def compute_s(compute: Graph, *changes: str) -> float:
        nodes = [{"name": "a", "compute": compute}]
        graph = {"classes": {"all": {"npus": "0-1", "nodes": nodes}}}
        path = experiment(tmp_path, graph, "Ring(2)")
        settings = [part for change in changes for part in ("--set", change)]
        (run,) = document(syncline_command("run", str(path), "--json", *settings))["runs"]
        found: float = run["total_time_s"]
        return found

    flops = 2 * 256 * 234 * 256 * 2
    shaped: Graph = {"kernels": [{"gemm": [256, 234, 256, 2], "bytes": "1kB"}]}
    assert compute_s(shaped) == compute_s({"flops": flops, "bytes": "1kB"}) > 0
    array = ("npu.compute={kind: systolic, rows: 256, columns: 256, clock: 1GHz}",)
    assert compute_s(shaped, *array) == pytest.approx(2e-6, abs=1e-12)
    assert compute_s({"flops": flops, "bytes": "1kB"}, *array) < 1e-8
    twice: Graph = {"kernels": [*shaped["kernels"], {"flops": flops, "bytes": "1kB"}]}
    assert compute_s(twice) == pytest.approx(2 * compute_s(shaped), abs=2e-12)


def test_every_endpoint_and_backend_runs_a_pipeline_with_data(tmp_path: Path, syncline_command: Command) -> None:
    graph = pipeline(micro=2)
    graph["families"]["data"] = {
        "members": {"grid": [4, 2], "along": [1]},
        "collective": {"algorithm": "ring", "chunks": 2},
    }
    for of in graph["classes"].values():
        call = {"family": "data", "kind": "all-reduce", "size": "1MB"}
        of["nodes"].append({"name": "gradients", "collective": call, "after": ["b1"], "pass": "weight-grad"})
        of["nodes"].append({"name": "meet", "barrier": "pipeline", "after": ["gradients"]})
        of["nodes"].append({"name": "update", "time": "1us", "after": ["meet"], "pass": "update"})
    path = experiment(tmp_path, graph, "Ring(4)_Ring(2)", iterations=2)
    for endpoint in ("ideal", "{kind: baseline, comm_memory_bandwidth: 450GB/s, comm_sms: 6}",
                     "{kind: ace, comm_memory_bandwidth: 128GB/s}"):  # fmt: skip
        for backend in ("analytical", "flow", "packet"):
            ended = syncline_command("run", str(path), "--json", "--set", f"endpoint={endpoint}", "--backend", backend)
            (run,) = document(ended)["runs"]
            assert run["exposed_comm_s"] > 0
            assert run["bubble_s"] > 0


def test_two_stages_that_wait_for_each_other_are_named(tmp_path: Path, syncline_command: Command) -> None:
    def of(npu: int, peer: int) -> Graph:
        nodes = [
            {"name": "in", "recv": {"family": "pair", "from": peer, "size": "8B"}},
            {"name": "work", "time": "1us", "after": ["in"]},
            {"name": "out", "send": {"family": "pair", "to": peer, "size": "8B"}, "after": ["work"]},
        ]
        return {"npus": [npu], "nodes": nodes}

    graph = {"families": {"pair": {"members": {"groups": ["0-1"]}}}, "classes": {"one": of(0, 1), "two": of(1, -1)}}
    ended = syncline_command("run", str(experiment(tmp_path, graph, "Switch(2)")))
    assert ended.status == 1
    for name, peer in (("one", "+1"), ("two", "-1")):
        assert f"of class {name} waits for the receive from rank {peer} of in" in ended.err


def broken(change: Callable[[Graph], object]) -> str:
    """A graph with something wrong."""
    graph = pipeline(2, 1, 1)
    change(graph)
    return json.dumps(graph, indent=1)


def nodes(graph: Graph) -> list[Graph]:
    """The nodes of the first stage."""
    found: list[Graph] = graph["classes"]["stage 0"]["nodes"]
    return found


def kernels(graph: Graph, **kernel: object) -> None:
    """Gives the first node a kernel in place of a time."""
    del nodes(graph)[0]["time"]
    nodes(graph)[0]["compute"] = {"kernels": [kernel]}


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        (lambda g: nodes(g)[0].update(tme="1ms"), "classes.stage 0.nodes.0.tme", "did you mean 'time'?"),
        (lambda g: nodes(g)[0].update(time=5), "classes.stage 0.nodes.0.time", "the number has no unit"),
        (lambda g: nodes(g)[0].pop("time"), "classes.stage 0.nodes.0", "this node does nothing"),
        (lambda g: nodes(g)[0].update(barrier="pipeline"), "classes.stage 0.nodes.0", "this node does 2 things"),
        (lambda g: nodes(g)[0].update(after=["sf0"]), "classes.stage 0.nodes.0.after.0", "does not come before"),
        (lambda g: nodes(g)[1].update(after=["ff"]), "classes.stage 0.nodes.1.after.0", "there is no such node"),
        (lambda g: nodes(g)[0].update(stream=1), "classes.stage 0.nodes.0.stream", "there is no such stream"),
        (lambda g: nodes(g)[1].update(name="f0"), "classes.stage 0.nodes.1.name", "another node"),
        (lambda g: nodes(g)[1]["send"].update(family="pipe"), "classes.stage 0.nodes.1.send.family",
         "there is no such family"),
        (lambda g: g["classes"]["stage 0"].update(npus="0-9"), "classes.stage 0.npus", "there is no NPU 9"),
        (lambda g: g["classes"]["stage 0"].update(npus=[0, 0]), "classes.stage 0.npus", "listed twice"),
        (lambda g: g["classes"]["stage 0"].update(npus=[1]), "classes.stage 1.npus", "NPU 1 is of two classes"),
        (lambda g: g["families"]["pipeline"]["members"].update(along=[2]), "families.pipeline.members.along",
         "there is no such dimension"),
        (lambda g: g["families"]["pipeline"]["members"].update(groups=["0-1"]), "families.pipeline.members", "twice"),
        (lambda g: g["families"]["pipeline"]["members"].update(grid=[3, 1]), "families.pipeline.members.sizes", "grid"),
        (lambda g: g["families"]["pipeline"].update(collective={"chunk": 5}), "families.pipeline.collective.chunk",
         "the number has no unit"),
        (lambda g: g["families"]["pipeline"].update(priority=9), "families.pipeline.priority", "too large"),
        (lambda g: g["families"]["pipeline"].update(traffic_class=-1), "families.pipeline.traffic_class",
         "too small"),
        (lambda g: g.pop("classes"), "classes", "this is missing"),
        (lambda g: kernels(g, gemm=[1, 2, 3, 4], flops=47), "classes.stage 0.nodes.0.compute.kernels.0.flops",
         "the matrix products are 48 operations"),
        (lambda g: kernels(g, gemm=[1, 2, 3]), "classes.stage 0.nodes.0.compute.kernels.0.gemm", ""),
        (lambda g: kernels(g, gemm=[2**31, 2**31, 2**31, 1]), "classes.stage 0.nodes.0.compute.kernels.0.gemm",
         "more operations than 63 bits"),
        (lambda g: kernels(g, flops=1, operands=[1, 2]), "classes.stage 0.nodes.0.compute.kernels.0.operands.0",
         "the number has no unit"),
        (lambda g: kernels(g, flops=1, operands=["1B", "2B"]), "classes.stage 0.nodes.0.compute.kernels.0.operands",
         "there are no matrix products"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_place(
    tmp_path: Path, syncline_command: Command, change: Callable[[Graph], object], field: str, message: str
) -> None:
    path = experiment(tmp_path, broken(change), "Switch(2)")
    ended = syncline_command("check", str(path), "--json")
    assert ended.status == 2
    problems = json.loads(ended.err)["errors"]
    found = [p for p in problems if p["field"] == field]
    assert found, problems
    assert message in found[0]["message"]
    assert found[0]["file"] == "graph.json"
    assert found[0]["line"] >= 1


def test_a_priority_that_there_is_not_is_shown_with_what_is_accepted(tmp_path: Path, syncline_command: Command) -> None:
    for key in ("priority", "traffic_class"):
        graph = pipeline(2, 1, 1)
        graph["families"]["pipeline"][key] = 9
        text = json.dumps(graph, indent=1)
        ended = syncline_command("check", str(experiment(tmp_path, text, "Switch(2)")), "--json")
        (problem,) = json.loads(ended.err)["errors"]
        assert (problem["file"], problem["field"]) == ("graph.json", f"families.pipeline.{key}")
        assert problem["value"] == "9"
        assert "0" in problem["accepted"]
        assert "7" in problem["accepted"]


def test_the_family_of_larger_class_ends_as_if_alone(tmp_path: Path, syncline_command: Command) -> None:
    def ends(classes: tuple[int, int]) -> list[float]:
        def of(npu: int, family: str) -> Graph:
            send = {"name": "send", "send": {"family": family, "to": 1, "size": "1MB"}}
            return {"npus": [npu], "nodes": [send, {"name": "end", "time": "0ns", "after": ["send"]}]}

        recv = [{"name": name, "recv": {"family": name, "from": -1, "size": "1MB"}} for name in ("low", "high")]
        groups = {"low": [[0, 2]], "high": [[1, 2]]}
        graph = {
            "families": {
                name: {"members": {"groups": groups[name]}, "traffic_class": number, "priority": number}
                for name, number in zip(groups, classes, strict=True)
            },
            "classes": {"a": of(0, "low"), "b": of(1, "high"), "c": {"npus": [2], "nodes": recv}},
        }
        path = experiment(tmp_path, graph, "Switch(3, rate=1GB/s, latency=0ns)")
        (run,) = document(syncline_command("run", str(path), "--json", "--backend", "flow"))["runs"]
        return [of["total_s"] - of["drain_s"] for of in run["classes"][:2]]

    low, high = ends((0, 7))
    assert low == pytest.approx(2 * high, rel=0.02)
    equal = ends((3, 3))
    assert equal == pytest.approx([low, low], rel=0.02)


def test_a_schema_describes_the_file(syncline_command: Command) -> None:
    schema = document(syncline_command("schema", "graph"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(pipeline(), schema)
    for key in ("priority", "traffic_class"):
        found = schema["$defs"]["Family"]["properties"][key]
        assert (found["minimum"], found["maximum"], found["default"]) == (0, 7, 0)
        assert "larger" in found["description"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"classes": {"a": {"nodes": []}}}, schema)


def jobs(folder: Path, *placed: Graph, topology: str = "Ring(8, rate=10GB/s)") -> Path:
    """An experiment with several jobs."""
    path = folder / "jobs.yaml"
    path.write_text(
        json.dumps(
            {
                "name": "jobs",
                "topology": topology,
                "jobs": placed,
                "network": "flow",
                "endpoint": "ideal",
                "collective": {"algorithm": "ring"},
                "training": {"iterations": 2},
            }
        )
    )
    return path


def job(name: str, npus: object, model: str = "resnet50", **more: object) -> Graph:
    """The training of a model on some NPUs."""
    return {"name": name, "npus": npus, "workload": {"model": model, "batch": 1}, **more}


def test_jobs_that_share_links_slow_each_other_down_and_others_do_not(
    tmp_path: Path, syncline_command: Command
) -> None:
    def slowdowns(first: str, second: str) -> list[Graph]:
        ended = syncline_command("run", str(jobs(tmp_path, job("one", first), job("two", second))), "--json")
        (run,) = document(ended)["runs"]
        found: list[Graph] = run["jobs"]
        assert [entry["name"] for entry in found] == ["one", "two"]
        for entry in found:
            beside, alone = entry["iteration_time_s"], entry["iteration_time_alone_s"]
            assert entry["slowdown"] == pytest.approx(beside / alone)
        return found

    for entry in slowdowns("0-3", "4-7"):  # their shortest paths have no link in common
        assert entry["slowdown"] == 1
    for entry in slowdowns("0,2,4,6", "1,3,5,7"):  # every link carries the messages of both
        assert 1.5 < entry["slowdown"] <= 2


def test_a_job_alone_is_the_run_of_its_allocation(tmp_path: Path, syncline_command: Command) -> None:
    placed = jobs(tmp_path, job("only", "2-6"), topology="dgx-h100")
    (run,) = document(syncline_command("run", str(placed), "--json"))["runs"]
    only = tmp_path / "only.yaml"
    only.write_text(
        "name: only\ntopology: dgx-h100\ngpus: 2-6\nworkload: {model: resnet50, batch: 1}\nnetwork: flow\n"
        "endpoint: ideal\ncollective: {algorithm: ring}\ntraining: {iterations: 2}\n"
    )
    (alone,) = document(syncline_command("run", str(only), "--json"))["runs"]
    assert run["iteration_time_s"] == alone["iteration_time_s"]
    assert run["jobs"][0]["slowdown"] == 1


def test_jobs_have_iterations_and_collectives_of_their_own(tmp_path: Path, syncline_command: Command) -> None:
    placed = [job("one", "0-3"), job("two", [4, 5, 6], "resnet18", iterations=3, collective={"algorithm": "direct"})]
    (run,) = document(syncline_command("run", str(jobs(tmp_path, *placed)), "--json"))["runs"]
    assert [entry["iterations"] for entry in run["jobs"]] == [2, 3]
    assert run["iterations"] == 1  # the headline is the time until both are done
    longest = max(entry["iterations"] * entry["iteration_time_s"] for entry in run["jobs"])
    assert run["iteration_time_s"] == pytest.approx(longest)
    assert run["steady_iteration_time_s"] is None


@pytest.mark.parametrize(
    ("placed", "field", "message"),
    [
        ([job("a", "0-3"), job("b", "3-7")], "jobs.1.npus", "another job has NPU 3"),
        ([job("a", "0-3"), job("a", "4-7")], "jobs.1.name", "another job has this name"),
        ([job("a", "0-8")], "jobs.0.npus", "there is no NPU 8"),
        ([job("a", "0-3", "dlrm")], "jobs.0.workload.model", "jobs are data-parallel"),
        ([job("a", "0-3", collective={"chunk": 5})], "jobs.0.collective.chunk", "the number has no unit"),
        ([], "jobs", ""),
        ([job("a", "0-3") | {"npus": None}], "jobs.0.npus", ""),
        ([job("a", "0-3", iterations=0)], "jobs.0.iterations", ""),
    ],
)
def test_what_is_wrong_with_jobs_is_said(
    tmp_path: Path, syncline_command: Command, placed: list[Graph], field: str, message: str
) -> None:
    ended = syncline_command("check", str(jobs(tmp_path, *placed)), "--json")
    assert ended.status == 2
    problems = json.loads(ended.err)["errors"]
    found = [p for p in problems if p["field"].startswith(field)]
    assert found, problems
    assert message in found[0]["message"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["0-1", "1ms", "8B"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["classes", "families", "nodes", "npus", "name", "send", "members"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_hostile_files_are_refused_in_words(data: st.DataObject) -> None:
    graph: Any = pipeline(2, 2, 1)
    at: Any = graph
    # Replaces something at a random depth.
    for _ in range(data.draw(st.integers(0, 6))):
        if not isinstance(at, dict | list) or not at:
            break
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or data.draw(st.booleans()):
            at[key] = data.draw(VALUES)
            break
        at = at[key]
    try:
        found = graph_file.read(json.dumps(graph).encode(), "graph.json")
    except InputError as error:
        assert all(problem.message for problem in error.problems)
        return
    list(found.violations(2))
