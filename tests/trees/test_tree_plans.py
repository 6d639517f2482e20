"""Plans of trees: verified, and as fast on the machine's links as their weights say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import msccl_rules
import mscclpp_rules
from support.command import Ended
from syncline.fabric import notation
from syncline.treegen import pack, plan, question

Command = Callable[..., Ended]

KINDS = ("broadcast", "reduce", "scatter", "gather", "all-gather", "reduce-scatter", "all-reduce")
WHERE = (
    ("dgx1v", "0-7"),
    ("dgx1v", "1,4,5,6"),
    ("dgx1v", "0,2,3,5,6,7"),
    ("dgx1p", "0-4"),
    ("dgx2", "0-4"),
    ("dgx-h100", "0-7"),
    ("dgx2(nodes=2)", "0-2,16-20"),
)
SAMPLED = [(kind, *where) for kind in KINDS for where in Random(f"rates {kind}").sample(WHERE, 3)]
"""Three of these for each kind of collectives, since each takes a second; all machines are among them."""


def _document(ended: Ended) -> dict[str, Any]:
    assert ended.status == 0, ended.err
    return dict(json.loads(ended.out))


def test_the_sample_has_every_machine() -> None:
    assert {(machine, gpus) for _, machine, gpus in SAMPLED} == set(WHERE)


@pytest.mark.parametrize(("kind", "machine", "gpus"), SAMPLED)
def test_a_large_vector_takes_the_time_of_the_rate(
    kind: str, machine: str, gpus: str, tmp_path: Path, syncline_command: Command
) -> None:
    """Within 1 %, once there are many slices: parallel links are used one by one, and shared ones in turn."""
    fabric = ["--machine", machine, "--gpus", gpus]
    path = str(tmp_path / "trees.json")
    trees = ["trees", *fabric, "--collective", kind, "--size", "500GB"]
    rate = _document(syncline_command(*trees, "--json"))["rate_bytes_per_s"]
    assert syncline_command(*trees, "--format", "plan", "-o", path).status == 0
    assert syncline_command("verify", path).status == 0
    ran = syncline_command("collective", kind, "--size", "50GB", *fabric, "--plan", path, "--backend", "flow", "--json")
    assert _document(ran)["algorithm_bandwidth_bytes_per_s"] == pytest.approx(rate, rel=0.01)


def test_slices_are_no_more_than_the_verifier_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = notation.parse("dgx1v").graph()
    asked = question.asked(graph, tuple(range(8)))
    packed = pack.of(asked, "all-reduce")

    def written(slices: int) -> tuple[int, int]:
        """The number of slices, and the most steps of a rank times the most threads."""
        ranks = plan.form(graph, asked, packed, slices, "trees")["programs"][0]["ranks"]
        steps = [sum(loop["times"] * len(loop["steps"]) for thread in rank for loop in thread) for rank in ranks]
        return ranks[0][0][0]["times"], max(steps) * max(map(len, ranks))

    slices, clocks = written(50)
    assert slices == 50
    monkeypatch.setattr(plan, "MOST_CLOCKS", clocks - 1)
    assert written(50)[0] == 49
    assert written(50)[1] < clocks
    monkeypatch.setattr(plan, "MOST_CLOCKS", 0)
    assert written(50)[0] == 1


@pytest.mark.parametrize("backend", ["analytical", "packet", "ethernet"])
def test_runs_on_other_backends(backend: str, tmp_path: Path, syncline_command: Command) -> None:
    fabric = ["--machine", "dgx1v", "--gpus", "0-4"]
    path = str(tmp_path / "trees.json")
    assert syncline_command("trees", *fabric, "--format", "plan", "-o", path, "--size", "64MB").status == 0
    ran = syncline_command(
        "collective", "broadcast", "--size", "64MB", *fabric, "--plan", path, "--backend", backend, "--json"
    )
    assert 35e9 < _document(ran)["algorithm_bandwidth_bytes_per_s"] <= 50e9


def test_a_damaged_plan_is_refused(tmp_path: Path, syncline_command: Command) -> None:
    """What the verifier finds does not come from what wrote the plan."""
    written = syncline_command("trees", "--machine", "dgx1v", "--gpus", "1,4,5,6", "--format", "plan")
    form = json.loads(written.out)
    steps = [loop for rank in form["programs"][0]["ranks"] for thread in rank for loop in thread]
    sending = next(loop for loop in steps if loop["steps"][0]["op"] == "rcs")
    sending["steps"][0]["block"] += 1
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(form))
    assert syncline_command("verify", str(path)).status == 1


@pytest.mark.parametrize(("endpoint", "least"), [("ideal", 8), ("streams", 5)])
def test_trees_as_an_algorithm(endpoint: str, least: float, syncline_command: Command) -> None:
    """GPUs without a ring of NVLinks: what Blink is for (section 5.2.1)."""

    def rate(algorithm: str) -> float:
        flags = ["--machine", "dgx1v", "--gpus", "1,4,5,6", "--backend", "flow", "--endpoint", endpoint, "--json"]
        ran = syncline_command("collective", "broadcast", "--size", "500MB", "--algorithm", algorithm, *flags)
        document = _document(ran)
        assert document["algorithm"] == algorithm
        return float(document["algorithm_bandwidth_bytes_per_s"])

    assert rate("packed-trees") > least * rate("ring")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["all-to-all", "--machine", "dgx2"], "no trees carry out all-to-all"),
        (["broadcast", "--topology", "Ring(4)"], "this topology has no links by name"),
        (["broadcast", "--machine", "dgx1v", "--group", "0-2;4,5,7"], "linked in different ways"),
        (["broadcast", "--machine", "dgx2", "--root", "16"], "there is no rank 16"),
        (["broadcast", "--machine", "dgx1v", "--gpus", "3,4,5"], "do not connect GPUs 3-5"),
        (["broadcast", "--machine", "dgx1v", "--plan", "examples/plans/ring4.xml"], "given twice"),
    ],
)
def test_what_trees_do_not_do(arguments: list[str], said: str, syncline_command: Command) -> None:
    ended = syncline_command("collective", *arguments, "--size", "1MB", "--algorithm", "packed-trees")
    assert ended.status == 2
    assert said in ended.err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("machine", "gpus"), WHERE[:5])
def test_files_of_runtimes_keep_the_rules_of_their_formats(
    kind: str, machine: str, gpus: str, tmp_path: Path, syncline_command: Command
) -> None:
    """Each is held against rules, and carried out, by code that has nothing in common with what writes it."""
    for format_, rules in (("msccl-xml", msccl_rules), ("mscclpp-json", mscclpp_rules)):
        path = tmp_path / f"trees.{format_.partition('-')[2]}"
        trees = ["trees", "--machine", machine, "--gpus", gpus, "--collective", kind, "--format", format_]
        ended = syncline_command(*trees, "-o", str(path))
        if ended.status == 2 and "semaphore" in ended.err:  # more trees than a GPU has semaphores for
            continue
        assert ended.status == 0, ended.err
        assert rules.broken_rules(path.read_text(), 0, range(2)) == {}
        assert syncline_command("verify", str(path)).status == 0
