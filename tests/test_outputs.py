"""Files that commands and functions write: what is there and is something else, or is read, is left alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import syncline
from support import inputs
from support.command import Ended
from syncline.base import outputs
from syncline.base.errors import InputError
from syncline.results import traces
from syncline.results.timeline import Slice, Timeline

Command = Callable[..., Ended]

EXPERIMENT = 'name: mine\ntopology: "Ring(4)"\nworkload: {collective: all-reduce, size: 64KiB}\n'
RING = ("export", "all-reduce", "--algorithm", "ring", "--ranks", "4")
TREES = ("trees", "--machine", "dgx1v", "--gpus", "0,1,2")
WRITERS = {
    "calibrate": ("calibrate", "TABLE", "--machine", "dgx-a100", "--out", "OUT"),
    "diff": ("diff", "MINE", "MINE", "--html", "OUT"),
    "export": (*RING, "--out", "OUT"),
    "export msccl": (*RING, "--format", "msccl-xml", "--out", "OUT"),
    "export mscclpp": (*RING, "--format", "mscclpp-json", "--out", "OUT"),
    "export-trace": ("export-trace", "MINE", "--format", "chrome", "--out", "OUT"),
    "packed trace": ("export-trace", "MINE", "--format", "chrome", "--out", "OUT"),
    "perfetto": ("export-trace", "MINE", "--format", "perfetto", "--out", "OUT"),
    "shapes": ("measure", "gpt2", "--shapes", "OUT"),
    "picture": ("topology", "show", "Ring(4)", "--svg", "OUT"),
    "trees": (*TREES, "--svg", "OUT"),
    "page of trees": (*TREES, "--html", "OUT"),
    "plan of trees": (*TREES, "--format", "plan", "--out", "OUT"),
}
SUFFIXES = {"export-trace": ".json", "packed trace": ".json.gz", "perfetto": ".pftrace"}
TABLE = "size_bytes,time_us\n" + "".join(f"{2**i},{10 + 2**i / 2e5}\n" for i in range(10, 31))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """An experiment file, beside a measured table."""
    path = tmp_path / "mine.yaml"
    path.write_text(EXPERIMENT)
    (tmp_path / "table.csv").write_text(TABLE)
    return path


def _arguments(writer: str, folder: Path, out: Path) -> list[str]:
    stand_for = {"MINE": folder / "mine.yaml", "TABLE": folder / "table.csv", "OUT": out}
    return [str(stand_for.get(word, word)) for word in WRITERS[writer]]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_of_another_kind_is_left_alone_and_one_of_its_own_is_replaced(
    writer: str, mine: Path, tmp_path: Path, syncline_command: Command
) -> None:
    out = tmp_path / f"out{SUFFIXES.get(writer, '')}"
    shutil.copy(mine, out)
    ended = syncline_command(*_arguments(writer, tmp_path, out))
    assert (ended.status, out.read_text()) == (2, EXPERIMENT)
    assert "this file exists and is not" in ended.err
    out.write_bytes(b"")  # nothing that could be lost
    for _ in range(2):
        assert syncline_command(*_arguments(writer, tmp_path, out)).status == 0
    assert out.stat().st_size


def test_what_a_command_reads_it_does_not_write(mine: Path, tmp_path: Path, syncline_command: Command) -> None:
    fitted, table = str(tmp_path / "fitted.yaml"), str(tmp_path / "table.csv")
    calibrate = ("calibrate", table, "--machine", "dgx-a100", "--out", fitted)
    assert syncline_command(*calibrate).status == 0
    before = Path(fitted).read_text()
    (tmp_path / "again.yaml").hardlink_to(fitted)
    ended = syncline_command(*calibrate, "--software", str(tmp_path / "again.yaml"))
    assert (ended.status, Path(fitted).read_text()) == (2, before)
    assert "this file is read by the same command" in ended.err


def test_of_several_files_either_all_are_written_or_none(mine: Path, tmp_path: Path, syncline_command: Command) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    shutil.copy(mine, folder / "mine.2.et")
    ended = syncline_command("export-trace", str(mine), "--out", str(folder))
    assert (ended.status, [path.name for path in folder.iterdir()]) == (2, ["mine.2.et"])


def test_a_timeline_is_known_by_its_beginning_however_many_names_it_has(tmp_path: Path) -> None:
    """Perfetto's format writes all names first, before what is told of the trace."""
    slices = [Slice(0, "compute", f"layer.{n} forward", 1000 * n, 1000 * n + 500) for n in range(2000)]
    for suffix, kind in outputs.TIMELINES.items():
        path = tmp_path / f"timeline{suffix}"
        path.write_bytes(traces.encode(suffix, Timeline(slices), "many layers"))
        assert outputs.refusal(path, kind) is None


def test_devices_are_not_replaced(syncline_command: Command) -> None:
    ended = syncline_command(*RING, "--out", "/dev/null")
    assert "this exists and is not a regular file" in ended.err
    assert Path("/dev/null").is_char_device()


def test_functions_have_the_same_rule(mine: Path, tmp_path: Path) -> None:
    ring = syncline.export("all-reduce", algorithm="ring", ranks=4)
    fitted = syncline.calibrate(tmp_path / "table.csv", "dgx-a100")
    for write in (ring.save, fitted.save, lambda to: syncline.export("all-reduce", algorithm="ring", ranks=4, out=to)):
        with pytest.raises(InputError, match="this file exists and is not"):
            write(mine)
    assert mine.read_text() == EXPERIMENT
    assert outputs.refusal(fitted.save(tmp_path / "new.yaml"), outputs.SOFTWARE) is None


WRONG = {
    "run": ("run", "wrong.yaml", "--out", "new/out"),
    "run that the engine refuses": ("run", "refused.yaml", "--out", "new/out"),
    "figure": ("figure", "wrong.yaml", "--out", "new/out"),
    "figure of a sweep that is wrong": ("figure", "wrong.figure.yaml", "--out", "new/out"),
    "figure of a closed form that cannot be shown": ("figure", "form.figure.yaml", "--out", "new/out"),
    "sweep": ("sweep", "wrong.sweep.yaml", "--out", "new/t.parquet"),
    "search": ("search", "wrong.yaml", "--out", "new/t.parquet"),
    "export-trace": ("export-trace", "wrong.yaml", "--out", "new/out"),
    "import": ("import", "kineto", "wrong.yaml", "--out", "new/out"),
    "import of what is no experiment": ("import", "fx", "module.json", "--like", "like.yaml", "--out", "new/out"),
    "init": ("init", "new/out/", "--machine", "nothing"),
    "trees": ("trees", "--machine", "nothing", "--out", "new/out", "--format", "plan"),
}
"""Commands whose input is wrong."""


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_leaves_no_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncline_command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    inputs.write(tmp_path)
    Path("wrong.yaml").write_text("name: wrong\ntopology: Ring(0)\n")
    Path("wrong.sweep.yaml").write_text("name: s\nbase: wrong.yaml\naxes: {npu.sms: [40, 80]}\n")
    panel = "{kind: bars, title: t, x: npu.sms, y: iteration_time_s}"
    Path("wrong.figure.yaml").write_text(f"name: f\ntitle: t\nsweeps: [wrong.sweep.yaml]\npanels: [{panel}]\n")
    form = "{form: design-space, set: {nothing: 1}}"
    Path("form.figure.yaml").write_text(f"name: f\ntitle: t\nclosed_forms: [{form}]\npanels: [{panel}]\n")
    Path("refused.yaml").write_text(EXPERIMENT + "endpoint: {kind: ace, sram: 1KiB}\n")
    Path("like.yaml").write_text("name: like\ntopology: Ring(2)\nnetwork: {backend: flow, nothing: 1}\n")
    before = sorted(tmp_path.rglob("*"))
    ended = syncline_command(*WRONG[name])
    assert ended.status == 2, ended.err
    assert sorted(tmp_path.rglob("*")) == before


def test_folders_that_cannot_be_made_are_refused_first(
    mine: Path, tmp_path: Path, syncline_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def access(path: Path, _: int) -> bool:
        return path != tmp_path

    inputs.write(tmp_path)
    for below, reason in (
        (mine / "out", f"this directory cannot be made: {mine} is no directory"),
        (tmp_path / ("x" * 300) / "out", "File name too long"),
    ):
        for line in (("run", str(mine)), ("figure", str(tmp_path / "short.figure.yaml"))):
            ended = syncline_command(*line, "--out", str(below))
            assert (ended.status, ended.out) == (2, "")
            assert reason in ended.err
    monkeypatch.setattr("os.access", access)
    ended = syncline_command("run", str(mine), "--out", str(tmp_path / "new/out"))
    assert f"this directory cannot be made: {tmp_path} cannot be written to" in ended.err
