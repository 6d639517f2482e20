"""JSON that others have written: whatever it holds, it is read, or it is said why not and on which line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import Ended
from syncline.base import json_reading

Command = Callable[..., Ended]
LONG = "1" + "0" * 4300
"""An integer with one digit more than Python converts."""
DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        (f'{{"a": 1,\n"b": {LONG}}}', "an integer has more than 4,300 digits", 2),
        (f'{{"a":\n-{LONG}}}', "an integer has more than 4,300 digits", 2),
        (DEEP, "it is nested too deeply", None),
        ("[\nNaN]", "NaN is no number of JSON", None),
        ("[-Infinity]", "-Infinity is no number of JSON", None),
        ('{"a": 1\n"b"}', "Expecting ',' delimiter", 2),
    ],
    ids=["integer", "negative", "deep", "nan", "infinity", "syntax"],
)
def test_what_is_no_json_is_said_with_its_line(text: str, reason: str, line: int | None) -> None:
    with pytest.raises(json_reading.NotJsonError) as caught:
        json_reading.parse(text)
    assert (caught.value.reason, caught.value.line) == (reason, line)


def test_other_long_numbers_are_read() -> None:
    assert json_reading.parse(f'[{"1" * 4300}, {LONG}.5, "{LONG}"]')[2] == LONG


FILES = {
    "graph": ("e.yaml", "topology: Ring(2)\nname: e\nworkload: {graph: f.json}\n", ["check", "e.yaml"]),
    "plan": ("e.yaml", "", ["verify", "f.json"]),
    "kineto": ("e.yaml", "", ["import", "kineto", "f.json"]),
    "fx": ("e.yaml", "", ["import", "fx", "f.json"]),
    "topology": ("e.yaml", "", ["topology", "show", "f.json"]),
    "report": ("e.yaml", "", ["report", "f.json"]),
    "groups": ("t.0.et", "\n", ["import", "chakra", "t", "--groups", "f.json"]),
    "summary": ("run/manifest.json", "", ["report", "run"]),
    "table to replace": ("e.yaml", "", ["bench", "all-reduce", "--machine", "dgx1v", "--out", "f.json"]),
}
"""Commands that read JSON: a file beside it with its content, and the command line. `f.json` is what is wrong."""


@pytest.mark.parametrize("content", [f'{{"format": {LONG}}}', f'{{"a": {DEEP}'], ids=["integer", "deep"])
@pytest.mark.parametrize("what", FILES)
def test_every_reader_refuses_what_python_cannot_hold(
    what: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncline_command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    other, text, line = FILES[what]
    Path(other).parent.mkdir(exist_ok=True)
    Path(other).write_text(text or content)
    Path("f.json").write_text(content)
    ended = syncline_command(*line)
    assert (ended.status, ended.out) == (2, "")
    assert "Traceback" not in ended.err
    assert len(ended.err) < 2000


def test_a_key_that_looks_like_a_place_is_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncline_command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.yaml").write_text(FILES["graph"][1])
    Path("f.json").write_text(json.dumps({"families": {"9" * 5000: {}}, "classes": {}}))
    ended = syncline_command("check", "e.yaml")
    assert ended.status == 2
    assert "f.json:1" in ended.err
