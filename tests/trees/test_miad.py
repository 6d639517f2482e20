"""`collective.slices: miad`: the size of slices is found over iterations, and `collective.slice` states one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from support.command import Ended
from support.experiments import study
from syncline.base.errors import InputError
from syncline.engine import assumptions, choice
from syncline.engine import runs as engine
from syncline.engine.chunking import MB
from syncline.experiment.load import Variant
from syncline.results import entries as results
from syncline.studies.sweeps import measures

Command = Callable[..., Ended]

COLLECTIVE: Final = (
    'name: c\ntopology: dgx1v\ngpus: "GPUS"\nnetwork: flow\nendpoint: {kind: streams}\n'
    "workload: {collective: KIND, size: SIZE, element: 4B}\ncollective: {algorithm: packed-trees, slices: SLICES}\n"
)
TRAINING: Final = (
    'name: t\ntopology: dgx1v\ngpus: "1,4-6"\nnetwork: flow\nendpoint: {kind: streams}\n'
    "npu: {compute: {kind: roofline}}\n"
    "workload: {model: alexnet, batch: 32, element: 4B}\ntraining: {tail: drain, iterations: 3}\n"
    "collective: {algorithm: packed-trees, slices: miad}\n"
)
JOBS: Final = (
    "name: j\ntopology: dgx1v\nnetwork: flow\njobs:\n"
    '  - {name: one, npus: "0-3", workload: {model: resnet50, batch: 1, element: 4B}, collective: {OWN}}\n'
    "collective: {algorithm: packed-trees, ALL}\n"
)


def collective(gpus: str, kind: str, size: int) -> str:
    return COLLECTIVE.replace("GPUS", gpus).replace("KIND", kind).replace("SIZE", f"{size}B")


def settled(text: str) -> Variant:
    return choice.settled(study(text)).variants[0]


def picoseconds(text: str) -> int:
    return engine.attempt(study(text).variants[0]).time_ps


@pytest.mark.parametrize("gpus", ["0-2", "1,4-6", "0,1,3,4,7"])
@pytest.mark.parametrize("kind", ["broadcast", "all-reduce"])
@pytest.mark.parametrize("size", [8 * MB, 100 * MB])
def test_what_is_found_is_as_fast_as_the_best_number_of_all(gpus: str, kind: str, size: int) -> None:
    text = collective(gpus, kind, size)
    found = settled(text.replace("SLICES", "miad"))
    took = engine.run(found).summary["total_ps"]
    best = min(picoseconds(text.replace("SLICES", str(slices))) for slices in range(1, 25))
    assert took <= 1.04 * best
    worst = picoseconds(text.replace("SLICES", "200"))
    assert worst > 1.5 * best  # so that there is something to be found


def test_sizes_are_multiplied_and_then_lowered() -> None:
    found = settled(collective("0-2", "broadcast", 100 * MB).replace("SLICES", "miad")).tuning
    assert found is not None
    sizes = [each["slice_bytes"] for each in found.iterations]
    top = sizes.index(max(sizes))
    assert sizes[: top + 1] == [MB * 2**n for n in range(top + 1)]
    assert sizes[top:] == sorted(sizes[top:], reverse=True)
    assert len(sizes) > top + 1
    assert [each["slices"] for each in found.iterations] == [-(-100 * MB // size) for size in sizes]
    numbers = [each["slices"] for each in found.iterations[top:]]
    assert numbers == sorted(set(numbers))  # each step down is another number of slices
    times = {each["slice_bytes"]: each["time_s"] for each in found.iterations}
    assert times[found.slice_bytes] == min(times.values())


def test_the_run_has_the_slices_of_the_fastest_iteration() -> None:
    variant = settled(collective("1,4-6", "broadcast", 100 * MB).replace("SLICES", "miad"))
    assert variant.tuning is not None
    times = {each["slice_bytes"]: each["time_s"] for each in variant.tuning.iterations}
    result = engine.run(variant)
    entry = results.run_entry(variant, result)
    assert entry["time_s"] == times[variant.tuning.slice_bytes]
    assert entry["slices_choice"]["slice_bytes"] == variant.tuning.slice_bytes
    assert entry["slices_choice"]["iterations"] == list(variant.tuning.iterations)
    stated = collective("1,4-6", "broadcast", 100 * MB).replace(
        "slices: SLICES", f"slice: {variant.tuning.slice_bytes}B"
    )
    assert picoseconds(stated) == result.summary["total_ps"]


def test_iterations_of_a_training_come_to_the_size_that_is_best_for_all_of_its_collectives() -> None:
    variant = settled(TRAINING)
    assert variant.tuning is not None
    assert len(variant.tuning.iterations) > 3
    took = engine.run(variant).summary["total_ps"]
    sweep = [TRAINING.replace("slices: miad", f"slice: {2**n}MB") for n in range(7)]
    assert took <= 1.01 * min(map(picoseconds, sweep))
    assert picoseconds(sweep[0]) > 1.3 * took
    assert settled(TRAINING) == variant


def test_a_small_collective_begins_with_smaller_slices() -> None:
    found = settled(collective("0-2", "broadcast", 64_000).replace("SLICES", "miad")).tuning
    assert found is not None
    assert found.iterations[0]["slice_bytes"] == 1000


@pytest.mark.parametrize("size", [0, 4])
def test_hardly_anything_to_cut(size: int) -> None:
    assert settled(collective("0-2", "broadcast", size).replace("SLICES", "miad")).tuning is not None


def test_the_command_and_the_experiment_find_the_same(tmp_path: Path, syncline_command: Command) -> None:
    flags = ["--machine", "dgx1v", "--gpus", "0-2", "--backend", "flow", "--endpoint", "streams"]
    line = ["broadcast", "--size", "100MB", *flags, "--algorithm", "packed-trees", "--slices", "miad"]
    document = json.loads(syncline_command("collective", *line, "--json").out)
    again = json.loads(syncline_command("collective", *line, "--json").out)
    assert document | {"cost": None} == again | {"cost": None}
    found: dict[str, Any] = document["slices_choice"]
    assert found["by"] == "miad"
    shown = syncline_command("collective", *line)
    assert "MIAD chose slices of" in shown.out
    (tmp_path / "e.yaml").write_text(collective("0-2", "broadcast", 100 * MB).replace("SLICES", "miad"))
    out = tmp_path / "run"
    ended = syncline_command("run", str(tmp_path / "e.yaml"), "--out", str(out), "--set", "workload.element=2B")
    assert ended.status == 0, ended.err
    (entry,) = json.loads((out / "summary.json").read_text())["runs"]
    assert entry["slices_choice"] == found
    assert "Slices of c (MIAD)" in (out / "report.html").read_text()


def test_a_point_of_a_sweep_finds_slices_of_its_own() -> None:
    text = collective("0-2", "broadcast", 8 * MB)
    miad, one = (measures.simulate(study(text.replace("SLICES", slices)).variants[0]) for slices in ("miad", "1"))
    assert miad.status == one.status == "done"
    assert miad.measures is not None
    assert one.measures is not None
    assert miad.measures["time_s"] < one.measures["time_s"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TRAINING.replace("packed-trees", "ring"), "no trees are packed"),
        (TRAINING.replace("packed-trees", "auto"), "no trees are packed"),
        (TRAINING.replace("miad", "3, slice: 1MB"), "exclude each other"),
        (TRAINING.replace("miad", "miad, slice: 1MB"), "exclude each other"),
        (TRAINING.replace("miad", "maid"), "not a number of slices"),
        (JOBS.replace("OWN", "slices: miad").replace("ALL", "slice: 1MB"), "for a whole run"),
        (JOBS.replace("OWN", "slice: 1MB").replace("ALL", "slices: miad"), "several jobs"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(text)


def test_a_size_of_slices_without_trees_is_told() -> None:
    found = assumptions.of(study(TRAINING.replace("packed-trees, slices: miad", "ring, slice: 1MB")).variants, {})
    assert any(line.startswith("collective.slice = 1MB has no effect: no trees are packed") for line in found), found
