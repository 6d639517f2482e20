"""Whatever is in an experiment file: exit status 0 or 2, and never a traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.experiments import THREE_SYSTEMS
from syncline.commands import cli
from syncline.experiment import packaged as studies

FRAGMENTS = st.sampled_from(
    [
        *("name", "topology", "workload", "npu", "network", "collective", "endpoint", "variants", "training", "output"),
        *(
            ": ",
            ":",
            "\n",
            "\n  ",
            "\n  - ",
            "- ",
            "{",
            "}",
            "[",
            "]",
            ", ",
            "? ",
            "| ",
            "> ",
            "# ",
            "'",
            '"',
            "&a ",
            "*a",
        ),
        *("!!str ", "!x ", "%", "---\n", "...\n", "\t", "\\", "\x00", "\u2028", "\ufeff", "\U0001f600", "<<: "),
        *("Ring(4)", "resnet50", "ideal", "ace", "64KiB", "25GB/s", "1e999", "0", "-1", "on", ".nan", "null", "1:30"),
        *("dgx1v", "gpus", "groups", "0-3", "0-1;2-3", "size 2", "stride 2", "file", "fold", "root", "per_dimension"),
        *("kind", "backend", "dims", "chunk", "chunks", "model", "batch", "size", "astra_text", "calibration"),
    ]
)
MANY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(path: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """`syncline check --json`, with the promises about its output."""
    status = cli.run(["check", str(path), "--json"])
    captured = capsys.readouterr()
    if status == 0:
        assert json.loads(captured.out)["estimates"]
        assert captured.err == ""
    else:
        assert status == 2
        assert captured.out == ""
        assert json.loads(captured.err)["errors"]
    return status


@MANY
@given(text=st.lists(FRAGMENTS, max_size=40).map("".join))
def test_fragments(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fuzz.yaml"
    path.write_text(text, encoding="utf-8")
    check(path, capsys)


@MANY
@given(data=st.binary(max_size=200))
def test_bytes(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fuzz.yaml"
    path.write_bytes(data)
    check(path, capsys)


@MANY
@given(seed=st.integers(0, 2**32), changes=st.integers(1, 4), fragment=FRAGMENTS)
def test_damaged_experiments(
    seed: int, changes: int, fragment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)
    text = chance.choice([THREE_SYSTEMS, studies.find("ace/resnet50")[0].read_text()])
    for _ in range(changes):
        at = chance.randrange(len(text))
        until = at + chance.choice([0, 0, 1, 3, 20])
        text = text[:at] + chance.choice([fragment, "", text[at:until] * 2]) + text[until:]
    path = tmp_path / "fuzz.yaml"
    path.write_text(text, encoding="utf-8")
    check(path, capsys)


@MANY
@given(setting=st.text(max_size=30) | st.tuples(FRAGMENTS, FRAGMENTS, FRAGMENTS).map(lambda p: f"{p[0]}.{p[1]}={p[2]}"))
def test_settings(setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "three.yaml"
    path.write_text(THREE_SYSTEMS)
    status = cli.run(["check", str(path), f"--set={setting}", "--json"])
    captured = capsys.readouterr()
    assert status in (0, 2), captured.err
