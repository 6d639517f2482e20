"""NPUs and links that are not like the others, on the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import Ended

Command = Callable[..., Ended]

HEAD = """
name: uneven
topology: Torus(4,4, rate=25GB/s)
network: {backend: analytical}
workload: {collective: all-reduce, size: 8MB}
collective: {algorithm: ring, chunks: 1}
"""


def _write(folder: Path, text: str) -> str:
    path = folder / "uneven.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return str(path)


def _time(command: Command, folder: Path, text: str) -> float:
    outcome = command("run", _write(folder, text), "--json")
    assert outcome.status == 0, outcome.err
    return float(json.loads(outcome.out)["runs"][0]["total_time_s"])


def test_a_slow_link_holds_everybody_up(syncline_command: Command, tmp_path: Path) -> None:
    even = _time(syncline_command, tmp_path, "")
    slow = _time(syncline_command, tmp_path, "slow_links: [{npu: 3, dim: 1, way: up, rate: 5GB/s}]")
    assert slow > 2 * even


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slow_links: [{npu: 16, dim: 1, way: up, rate: 5GB/s}]", "there is no NPU 16: the topology has 16"),
        ("slow_links: [{npu: 1, dim: 2, way: up, rate: 5GB/s}]", "there is no dimension 2: the topology has 2"),
        ("slow_links: [{npu: 1, dim: 1, way: switch, rate: 5GB/s}]", "NPU 1 has no link switch #0 of dimension 1"),
        ("slow_links: [{npu: 1, dim: 1, way: left, rate: 5GB/s}]", "slow_links.0.way"),
        ("slow_links: [{npu: 1, dim: 1, way: up, rate: 5GB/s}]\nfold: on", "a link of NPU 1 is slower"),
    ],
)
def test_links_that_are_none_are_refused(syncline_command: Command, tmp_path: Path, text: str, said: str) -> None:
    outcome = syncline_command("run", _write(tmp_path, text))
    assert outcome.status == 2
    assert said in outcome.err


def test_machines_have_no_dimensions(syncline_command: Command, tmp_path: Path) -> None:
    text = "slow_links: [{npu: 1, dim: 0, way: up, rate: 5GB/s}]"
    outcome = syncline_command("run", _write(tmp_path, text), "--set", "topology=dgx1v")
    assert outcome.status == 2
    assert "slow_links name dimensions, which only products have" in outcome.err
