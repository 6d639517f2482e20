"""The endpoint `nccl` where communicators are placed unlike: each has the price of its own GPUs, wherever it stands in
the list, as a group, a communicator of a graph or of a division, or a job.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import syncline

MIB = 2**20
EXACT = 1e-3
"""The share by which a collective alone may differ from `bench`."""


def experiment(machine: str, **more: Any) -> dict[str, Any]:
    """An experiment with NCCL's times."""
    return {"name": "one", "topology": machine, "network": "flow", "endpoint": "nccl", **more}


def groups(machine: str, named: str, kind: str = "all-reduce", size: int = 64 * MIB) -> float:
    """Seconds of a collective of groups side by side."""
    workload = {"collective": kind, "size": f"{size}B"}
    return syncline.run(experiment(machine, workload=workload, groups=named)).systems["one"].total_time_s


def predicted(machine: str, gpus: str, kind: str = "all-reduce", size: int = 64 * MIB) -> float:
    """Seconds that `bench` says."""
    found = syncline.bench(kind, machine=machine, sizes=f"{size}B", gpus=gpus)
    return float(found.document["rows"][0]["time_s"])


def in_graph(folder: Path, machine: str, named: list[str]) -> float:
    """Seconds of a graph in which the communicators of a family reduce."""
    near_far = ",".join(named)
    node = {"name": "sum", "collective": {"family": "all", "kind": "all-reduce", "size": "64MiB"}}
    graph = {
        "families": {"all": {"members": {"groups": named}}},
        "classes": {"all": {"npus": near_far, "nodes": [node]}},
    }
    path = folder / "graph.json"
    path.write_text(json.dumps(graph))
    return syncline.run(experiment(machine, workload={"graph": str(path)})).systems["one"].total_time_s


@pytest.mark.parametrize(
    ("machine", "near", "far"),
    [
        ("dgx-h100(nodes=2)", "0-3", "4,5,8,9"),
        ("dgx-a100(nodes=3)", "2,3,4", "6,12,20"),
        ("dgx-a100(nodes=2, nics=single)", "1,2", "4,12"),
        ("gb200-nvl72(nodes=2)", "4-7", "8,9,80,81"),
        ("dgx1v", "0,1,2", "4,5,6"),
        ("dgx1v(nodes=2)", "0,3", "4,12"),
        ("dgx2(nodes=2)", "0-5", "8,9,10,24,25,26"),
    ],
)
def test_each_group_takes_what_bench_says_and_all_take_what_the_slowest_does(
    tmp_path: Path, machine: str, near: str, far: str
) -> None:
    alone = [groups(machine, named) for named in (near, far)]
    assert alone == [pytest.approx(predicted(machine, named), rel=EXACT) for named in (near, far)]
    assert groups(machine, f"{near};{far}") == max(alone)
    assert groups(machine, f"{far};{near}") == max(alone)
    assert in_graph(tmp_path, machine, [near, far]) == max(alone)


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "gather"])
def test_so_do_all_kinds(kind: str) -> None:
    machine, near, far = "dgx-h100(nodes=2)", "0-3", "4,5,8,9"
    alone = [groups(machine, named, kind, 16 * MIB) for named in (near, far)]
    assert alone == [pytest.approx(predicted(machine, named, kind, 16 * MIB), rel=EXACT) for named in (near, far)]
    assert (
        groups(machine, f"{far};{near}", kind, 16 * MIB)
        == groups(machine, f"{near};{far}", kind, 16 * MIB)
        == max(alone)
    )


def test_jobs_take_what_each_takes_alone() -> None:
    """Each trains without overlap on GPUs of its own, one of them over the network."""
    near, far = (
        {"name": name, "npus": npus, "workload": {"model": "resnet50", "batch": 1}}
        for name, npus in (("near", "0-3"), ("far", "4,5,8,9"))
    )
    more = {"npu": {"compute": {"kind": "roofline"}}, "training": {"overlap": False, "iterations": 1, "tail": "drain"}}
    found = [
        syncline.run(experiment("dgx-h100(nodes=2)", jobs=jobs, **more)).document["runs"][0]["jobs"]
        for jobs in ([near, far], [far, near])
    ]
    times = [{job["name"]: job["iteration_time_s"] for job in run} for run in found]
    assert times[0] == times[1]
    assert all(job["slowdown"] == 1 for run in found for job in run)
    size = 2 * 25_557_032
    apart = times[0]["far"] - times[0]["near"]
    assert apart == pytest.approx(
        predicted("dgx-h100(nodes=2)", "4,5,8,9", size=size) - predicted("dgx-h100(nodes=2)", "0-3", size=size),
        rel=0.01,
    )


def test_tensor_groups_within_a_server_and_across_two_have_their_prices() -> None:
    """Racks of 12 GPUs: of three tensor groups of eight, each a stage, the middle one is on both."""
    machine = "gb200-nvl72(trays=3, nodes=2)"
    tiny = {"layers": 3, "hidden": 256, "heads": 8, "vocabulary": 1024, "positions": 128}
    workload = {"model": "gpt2", "parameters": tiny, "global_batch": 1}
    found = syncline.run(experiment(machine, workload=workload, parallel={"tensor": 8, "pipeline": 3}))
    rows = found.systems["one"].tables["collectives"].to_pandas()
    rows = rows[rows.layer.isin(["block.0", "block.1"]) & (rows["pass"] == "forward")]
    taken = ((rows.completed_ps - rows.issued_ps) / 1e12).groupby(rows.layer).min()
    (size,) = set(rows.bytes)
    assert taken["block.0"] == pytest.approx(predicted(machine, "0-7", size=size), rel=EXACT)
    # Half of the ranks of the second stage have what the first one computes later, from the other rack.
    across = predicted(machine, "8-15", size=size)
    assert 1.2 * taken["block.0"] < across <= taken["block.1"] < 1.1 * across


def test_what_is_refused_names_what_the_user_wrote() -> None:
    """Two algorithms for one dimension of some communicators, two of others; and trees for a gather."""
    workload = {"collective": "all-reduce", "size": "1MiB"}
    for more, field in (
        ({"groups": "4,5,8,9;0-3", "collective": {"per_dimension": ["direct", "direct"]}}, "collective.per_dimension"),
        (
            {"collective": {"algorithm": "one-hop-trees"}, "workload": {**workload, "collective": "gather"}},
            "collective.algorithm",
        ),
    ):
        with pytest.raises(syncline.InputError) as raised:
            syncline.run(experiment("dgx-h100(nodes=2)", **{"workload": workload, **more}))
        assert [problem.field for problem in raised.value.problems] == [field], raised.value.as_text()
