"""`syncline diff` and `syncline.diff`: steps add up exactly, and name what was changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import syncline
from support.command import Ended
from support.pages import check_page
from syncline.base.errors import InputError
from syncline.commands import catalogue
from syncline.studies.reasons import waterfall

Command = Callable[..., Ended]

TRAINED: dict[str, Any] = {
    "topology": "Ring(4, rate=20GB/s)_Ring(2, rate=5GB/s, latency=1us)",
    "workload": {"model": "resnet18", "batch": 2},
    "training": {"iterations": 3, "tail": "drain"},
    "collective": {"chunk": "1MiB"},
    "variants": [
        {"name": "Ideal", "endpoint": "ideal"},
        {"name": "SMs", "endpoint": {"kind": "baseline", "comm_memory_bandwidth": "64GB/s", "comm_sms": 2}},
    ],
}
ALONE: dict[str, Any] = {"topology": "Ring(4)", "workload": {"collective": "all-reduce", "size": "1MiB"}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run with two systems."""
    directory = tmp_path_factory.mktemp("runs") / "trained"
    syncline.run({"name": "trained", **TRAINED}, out=directory)
    return directory


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with slower links between packages, and one system more."""
    directory = tmp_path_factory.mktemp("runs") / "slower"
    changes = {"topology": "Ring(4, rate=20GB/s)_Ring(2, rate=2GB/s, latency=1us)", "training.iterations": 2}
    more = [*TRAINED["variants"], {"name": "Other", "endpoint": "ideal"}]
    syncline.run({"name": "slower", **TRAINED, "variants": more}, set=changes, out=directory)
    return directory


def holds(document: dict[str, Any]) -> None:
    """Whether the document is as its schema says, and all its sums are exact."""
    jsonschema.validate(document, catalogue.SCHEMAS["diff"]())
    for pair in document["pairs"]:
        for side in ("a", "b", "delta"):
            assert sum(step[f"{side}_ps"] for step in pair["steps"]) == pair[f"{side}_ps"]
        for side in ("a", "b"):
            assert -0.001 < pair[f"iteration_time_{side}_s"] * 1e12 - pair[f"{side}_ps"] < 1.001


def test_steps_add_up_and_name_what_was_changed(trained: Path, slower: Path) -> None:
    difference = syncline.diff(trained, slower)
    holds(difference.document)
    assert [pair.system_a for pair in difference.pairs] == ["Ideal", "SMs"]
    assert difference.document["unmatched"] == {"a": [], "b": ["Other"]}
    ideal = difference.pairs[0]
    assert ideal.delta_ps > 0
    longest = max(ideal.steps, key=lambda step: step.delta_ps)
    assert "dim 1" in longest.name
    passes = [s for s in ideal.steps if s.name.startswith("compute") and s.name != "compute: update"]
    assert all(abs(step.delta_ps) <= 2 for step in passes)  # updates follow all iterations but the last


def test_one_way_is_the_other_with_signs_turned(trained: Path, slower: Path) -> None:
    there, back = syncline.diff(trained, slower), syncline.diff(slower, trained)
    for one, other in zip(there.pairs, back.pairs, strict=True):
        assert {s.name: s.delta_ps for s in one.steps} == {s.name: -s.delta_ps for s in other.steps}


def test_a_run_does_not_differ_from_itself(trained: Path) -> None:
    assert all(step.delta_ps == 0 for pair in syncline.diff(trained, trained).pairs for step in pair.steps)


def test_systems_of_different_names_are_compared_on_request(trained: Path) -> None:
    (pair,) = syncline.diff(trained, trained, system="Ideal=SMs").pairs
    assert (pair.system_a, pair.system_b) == ("Ideal", "SMs")
    compute = sum(step.delta_ps for step in pair.steps if step.name.startswith("compute"))
    assert compute > 0  # what is set aside for communication


def test_collectives_on_their_own_and_experiments_are_compared(tmp_path: Path) -> None:
    alone = {**ALONE, "collective": {"algorithm": "six-phase"}}
    difference = syncline.diff(alone, {**alone, "topology": "Ring(4, latency=5us)"})
    holds(difference.document)
    (pair,) = difference.pairs
    assert pair.delta_ps > 0
    phases = {f"all-reduce: {phase} dim 0" for phase in ("reduce-scatter", "all-gather")}
    assert {step.name for step in pair.steps if "chunks" not in step.name} == phases


def test_a_run_without_a_record_is_not_divided_further_than_its_accounts(tmp_path: Path) -> None:
    """Neither is the other: parts of the one would stand beside the whole of the other."""
    experiment = {"name": "plain", **TRAINED, "variants": TRAINED["variants"][:1]}
    for name, trace in (("traced", [0]), ("untraced", [])):
        syncline.run(experiment, set={"output.trace_npus": trace}, out=tmp_path / name)
    for a, b in (("traced", "untraced"), ("untraced", "traced")):
        document = syncline.diff(tmp_path / a, tmp_path / b).document
        holds(document)
        (pair,) = document["pairs"]
        assert all(step["delta_ps"] == 0 for step in pair["steps"])
        assert [step["name"] for step in pair["steps"]] == ["compute", "communication"]


def test_what_does_not_match_is_refused(trained: Path) -> None:
    with pytest.raises(InputError, match="a training loop cannot be compared with a collective on its own"):
        syncline.diff(trained, ALONE, system="Ideal=experiment")
    with pytest.raises(InputError, match="no system of one has the name of a system of the other"):
        syncline.diff(trained, {**ALONE, "name": "alone"})
    with pytest.raises(InputError, match="there is no such system"):
        syncline.diff(trained, trained, system="ideal=SMs")


def test_the_command_prints_writes_a_page_and_gives_the_same_document(
    trained: Path, slower: Path, tmp_path: Path, syncline_command: Command
) -> None:
    page = tmp_path / "diff.html"
    ended = syncline_command("diff", str(trained), str(slower), "--html", str(page), "-q")
    assert ended.status == 0, ended.err
    assert "Not compared, for want of a partner: Other of B." in ended.out
    assert "all-reduce dim 1" in ended.out or "dim 1" in ended.out
    text = page.read_text()
    check_page(text)
    assert text.count("<svg") == 2
    assert len(text) < 100_000
    document = json.loads(syncline_command("diff", str(trained), str(slower), "--json").out)
    holds(document)
    mine = syncline.diff(trained, slower).document
    assert {**mine, "cost": None} == {**document, "cost": None}
    ended = syncline_command("diff", str(trained), str(slower), "--html", str(tmp_path / "none" / "x.html"))
    assert ended.status == 2
    assert "--html" in ended.err


def test_bars_of_the_page_lead_from_one_time_to_the_other(trained: Path, slower: Path) -> None:
    import re

    page = syncline.diff(trained, slower).page()
    drawn = page.split("<svg", 1)[1].split("</svg>", 1)[0]
    bars = [
        (kind, float(left), float(left) + float(width))
        for kind, left, width in re.findall(r'<rect class="(\w+)" x="([\d.]+)"[^>]*? width="([\d.]+)"', drawn)
    ]
    assert (bars[0][0], bars[-1][0]) == ("whole", "whole")
    at = bars[0][2]
    for kind, left, right in bars[1:-1]:
        begins, ends = (left, right) if kind == "longer" else (right, left)
        assert begins == pytest.approx(at, abs=1.2)  # a bar is a pixel wide at least
        at = ends
    assert at == pytest.approx(bars[-1][2], abs=1.2 * len(bars))


@pytest.mark.parametrize(
    ("lengths", "total"), [([1, 1, 1], 2), ([5], 3), ([0, 7, 0, 2], 9), ([3, 3, 3], 100), ([2**62, 1], 2**61)]
)
def test_rounding_keeps_sums(lengths: Sequence[int], total: int) -> None:
    found = waterfall._rounded(lengths, total, sum(lengths))
    assert sum(found) == total
    assert all(each >= 0 for each in found)
