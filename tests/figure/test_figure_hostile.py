"""Figure files that ask for what cannot be drawn, or only looks as if it could not."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import Ended
from support.experiments import SMALL

Command = Callable[..., Ended]

TITLES = ["$", "a $ b $ c", "$\\frac$", "\\frac{1}{2}", "$\\undefined{$", "50 % & <b>", "{x}", "%s %d", "\u03bc\u2082"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sweep of four points."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL.replace("resnet50", "resnet18") + "network: analytical\n")
    axes = "{npu.sms: [40, 80], endpoint.kind: [ideal]}"
    (tmp_path / "s.sweep.yaml").write_text(f"name: s\nbase: small.yaml\naxes: {axes}\n")
    return tmp_path


def figure(folder: Path, panels: str, rest: str = "", title: str = "t") -> None:
    quoted = title.replace("\\", "\\\\").replace('"', '\\"')
    (folder / "f.figure.yaml").write_text(
        f'name: f\ntitle: "{quoted}"\nsweeps: [s.sweep.yaml]\n{rest}panels: {panels}\n'
    )


@pytest.mark.parametrize("title", TITLES)
def test_names_are_not_formulae(title: str, folder: Path, syncline_command: Command) -> None:
    quoted = title.replace("\\", "\\\\")
    labels = f'title: "{quoted}", x_label: "{quoted}", y_label: "{quoted}"'
    line = f'published: [{{value: 1, label: "{quoted}"}}], unit: ms'
    panel = f"[{{kind: lines, {labels}, x: npu.sms, y: iteration_time_s, {line}}}]"
    figure(folder, panel, title=title)
    ended = syncline_command("figure", "f.figure.yaml", "--threads", "1")
    assert ended.status == 0, ended.err
    drawn = (folder / "figures/f.svg").read_text()
    ET.fromstring(drawn)
    written = "".join(text for element in ET.fromstring(drawn).iter() for text in [element.text or ""])
    assert written.count(title) >= 4


@pytest.mark.parametrize(
    ("panel", "said"),
    [
        ("kind: scatter, each: [npu.sms], x: topology, y: iteration_time_s", "x: Ring(4"),
        ("kind: lines, log: true, x: topology, y: iteration_time_s", "log: Ring(4"),
        ("kind: lines, log_y: true, x: npu.sms, y: exposed_comm_s, published: [{value: 0}], unit: s", "log_y: 0"),
        ("kind: bars, x: npu.sms, y: iteration_time_s, published: [{value: 1e99}], unit: s", "this is too large"),
        ('kind: bars, x: npu.sms, y: iteration_time_s, y_label: "\\x01"', "a character that cannot be drawn"),
        ('kind: bars, x: npu.sms, y: iteration_time_s, y_label: "\\ud800"', "half a character"),
    ],
)
def test_what_has_no_place_is_named(panel: str, said: str, folder: Path, syncline_command: Command) -> None:
    figure(folder, f"\n  - {{title: t, {panel}}}")
    ended = syncline_command("figure", "f.figure.yaml", "--threads", "1", "-q")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("f.figure.yaml:5: panels.0.")
    assert said in ended.err


def test_sizes_that_no_picture_has(folder: Path, syncline_command: Command) -> None:
    panel = "{kind: bars, title: t, x: npu.sms, y: iteration_time_s}"
    figure(folder, f"[{', '.join([panel] * 64)}]", "columns: 6\nwidth: 20\nheight: 20\n")
    ended = syncline_command("figure", "f.figure.yaml", "--threads", "1")
    assert (ended.status, ended.out) == (2, "")
    assert "f.figure.yaml:7: panels: the panels make a figure of 120 by 220 inches, which is too large" in ended.err


def test_remarks_of_the_drawing_are_said_in_words(folder: Path, syncline_command: Command) -> None:
    label = "many lines\\n" * 60
    figure(folder, f'[{{kind: bars, title: "{label}", x: npu.sms, y: iteration_time_s, x_label: "{label} \u4e2d"}}]')
    ended = syncline_command("figure", "f.figure.yaml", "--threads", "1")
    assert ended.status == 0
    assert "warning: f.figure.yaml: names and legends leave no room for the panels" in ended.err
    assert "the PNG lacks some characters" in ended.err
    assert "UserWarning" not in ended.err


def test_a_time_line_of_a_run_that_takes_no_time(folder: Path, syncline_command: Command) -> None:
    (folder / "no.yaml").write_text("name: n\ntopology: Ring(1)\nworkload: {collective: all-reduce, size: 1B}\n")
    panel = "{kind: timeline, title: t, run: no.yaml, variant: n, columns: {links: links}}"
    (folder / "f.figure.yaml").write_text(f"name: f\ntitle: t\npanels: [{panel}]\n")
    ended = syncline_command("figure", "f.figure.yaml", "--threads", "1")
    assert (ended.status, ended.out) == (2, "")
    assert "takes no time" in ended.err
