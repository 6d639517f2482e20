"""Predicted times of trees, held against simulated streams whose overheads they are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended
from syncline.fabric import notation
from syncline.sections.endpoints import streams
from syncline.treegen import choice, pack, question

Command = Callable[..., Ended]

OVERHEAD = f"{(streams.COPY_COMMANDS + 1) * streams.COMMAND_PS // 1000}ns"
"""Of a slice that is received and sent on."""


def _document(ended: Ended) -> dict[str, Any]:
    assert ended.status == 0, ended.err
    return dict(json.loads(ended.out))


def _error(kind: str, machine: str, gpus: str, size: str, folder: Path, command: Command) -> float:
    """The predicted time over the simulated one, less 1."""
    fabric = ["--machine", machine, "--gpus", gpus]
    trees = ["trees", *fabric, "--collective", kind, "--size", size, "--overhead", OVERHEAD]
    path = str(folder / "trees.json")
    predicted = _document(command(*trees, "--json"))
    assert command(*trees, "--format", "plan", "-o", path).status == 0
    run = ["collective", kind, "--size", size, *fabric, "--plan", path, "--backend", "flow", "--endpoint", "streams"]
    return float(predicted["predicted_time_s"] / _document(command(*run, "--json"))["time_s"] - 1)


@pytest.mark.parametrize(
    ("machine", "gpus"), [("dgx1v", "0-7"), ("dgx1v", "1,4,5,6"), ("dgx1p", "0-4"), ("dgx2", "0-7")]
)
@pytest.mark.parametrize(
    ("kind", "within"), [("broadcast", 0.05), ("reduce", 0.1), ("scatter", 0.1), ("gather", 0.1), ("all-reduce", 0.1)]
)
def test_times_of_streams(
    kind: str, within: float, machine: str, gpus: str, tmp_path: Path, syncline_command: Command
) -> None:
    assert abs(_error(kind, machine, gpus, "500MB", tmp_path, syncline_command)) < within


def test_a_chain_takes_the_time_of_its_closed_form() -> None:
    """One tree along links that are full, with the number of slices that is best of all."""
    asked = question.asked(notation.parse("dgx1p").graph(), (1, 5, 6))
    packed = pack.of(asked, "broadcast")
    (tree,) = packed.trees
    assert tree.depth(packed.arcs) == 2
    assert packed.rate == asked.link_unit
    for size, overhead in ((10**6, 1e-6), (10**8, 5e-6), (10**9, 1e-3)):
        times = {k: (k + 1) * (size / (k * asked.link_unit) + overhead) for k in range(1, 300)}
        assert choice.seconds(packed, packed.trees, size, overhead) == pytest.approx(min(times.values()))
        assert times[choice.slices(packed, packed.trees, size, overhead)] == pytest.approx(min(times.values()))
