"""Sweeps that end before they are done: nothing is lost, nothing is simulated twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.command import Ended
from support.experiments import SMALL, study
from syncline.base.errors import InputError
from syncline.studies.sweeps import pool, progress
from syncline.studies.sweeps.journal import FORMAT, Entry, Journal, checksum
from syncline.studies.sweeps.work import WorkerDiedError

Command = Callable[..., Ended]

SLOW = """\
name: slow
base: ace/resnet50
variants: [ACE, Ideal]
axes:
  training.iterations: [1, 2, 3, 4]
  npu.memory_bandwidth: [900GB/s, 800GB/s]
"""
SIMULATIONS = 16
PATIENCE_S = 120


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A sweep that takes some seconds."""
    path = tmp_path / "slow.sweep.yaml"
    path.write_text(SLOW)
    return path


def start(sweep: Path, out: Path, *arguments: str) -> subprocess.Popen[str]:
    """A sweep as a process, with others of its own in a session of its own."""
    command = [sys.executable, "-m", "syncline", "sweep", str(sweep), "--out", str(out), "--threads", "2", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def entries(out: Path) -> list[dict[str, Any]]:
    """The whole lines of the journal, without its header."""
    journal = out.with_name(f"{out.name}.journal")
    text = journal.read_text() if journal.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True)[1:] if line.endswith("\n")]


def wait_until(
    condition: Callable[[], bool], process: subprocess.Popen[str] | None = None, patience_s: float = PATIENCE_S
) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "this takes too long"
        assert process is None or process.poll() is None, "the sweep ended too early"
        time.sleep(0.01)


def processes_of(session: int) -> list[int]:
    """The processes of a session that are not zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(its_session) == session and state != "Z":
            found.append(int(path.parent.name))
    return found


def workers() -> list[int]:
    """The processes that this one has started and not waited for."""
    children = (path.read_text().split() for path in Path("/proc/self/task").glob("*/children"))
    return [int(pid) for each in children for pid in each]


def seconds_of(pid: int) -> float:
    """Processor time that a process has taken."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def without_cost(path: Path) -> pa.Table:
    return pq.read_table(path).drop_columns(["wall_time_s", "events"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of the slow sweep, made in one go."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "slow.sweep.yaml").write_text(SLOW)
    process = start(folder / "slow.sweep.yaml", folder / "t.parquet")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "simulations; " in err
    return folder / "t.parquet"


def test_killed_at_any_moment(slow: Path, tmp_path: Path, whole: Path) -> None:
    out = tmp_path / "t.parquet"
    process = start(slow, out)
    wait_until(lambda: len(entries(out)) >= 3, process)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    before = entries(out)
    assert 3 <= len(before) < SIMULATIONS
    assert not out.exists()
    wait_until(lambda: not processes_of(process.pid))  # workers end with whom they work for

    again = start(slow, out)
    _, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 2
    assert "--resume" in err
    assert entries(out) == before

    with out.with_name(f"{out.name}.journal").open("ab") as journal:
        journal.write(b'{"key": "torn')
    resumed = start(slow, out, "--resume", "--json")
    text, err = resumed.communicate(timeout=PATIENCE_S)
    assert resumed.returncode == 0, err
    after = entries(out)
    assert after[: len(before)] == before
    keys = [entry["key"] for entry in after]
    assert len(keys) == len(set(keys)) == SIMULATIONS
    assert without_cost(out).equals(without_cost(whole), check_metadata=True)
    assert [row["point"] for row in json.loads(text)["rows"]] == [index // 2 for index in range(SIMULATIONS)]


def test_workers_do_not_finish_what_nobody_waits_for(slow: Path, tmp_path: Path) -> None:
    slow.write_text(SLOW.replace("[1, 2, 3, 4]", "[9999, 10000]"))
    process = start(slow, tmp_path / "t.parquet")
    wait_until(lambda: sum(seconds_of(worker) > 1.5 for worker in processes_of(process.pid)) >= 2, process)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not processes_of(process.pid), patience_s=10)


@pytest.mark.parametrize("group", [False, True], ids=["the process", "all its processes"])
def test_ctrl_c_writes_what_is_finished(slow: Path, tmp_path: Path, whole: Path, group: bool) -> None:
    out = tmp_path / "t.parquet"
    process = start(slow, out)
    wait_until(lambda: len(entries(out)) >= 3, process)
    if group:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    else:
        process.send_signal(signal.SIGINT)
    text, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in text + err
    wait_until(lambda: not processes_of(process.pid))
    kept = entries(out)
    assert f"interrupted; {len(kept)} of {SIMULATIONS} simulations are finished" in err
    table = pq.read_table(out)
    assert sorted(table.column("key").to_pylist()) == sorted(entry["key"] for entry in kept)
    assert json.loads(table.schema.metadata[b"syncline.sweep"])["status"] == "partial"
    resumed = start(slow, out, "--resume")
    _, err = resumed.communicate(timeout=PATIENCE_S)
    assert resumed.returncode == 0, err
    assert without_cost(out).equals(without_cost(whole), check_metadata=True)


def test_what_does_not_hold_is_simulated_again(
    syncline_command: Command, slow: Path, tmp_path: Path, whole: Path
) -> None:
    out = tmp_path / "t.parquet"
    journal = out.with_name("t.parquet.journal")
    lines = whole.with_name("t.parquet.journal").read_text().splitlines(keepends=True)
    at = lines[3].index('"iteration_time_s": 0.00') + len('"iteration_time_s": 0.00')
    lines[3] = f"{lines[3][:at]}{(int(lines[3][at]) + 1) % 10}{lines[3][at + 1 :]}"
    journal.write_text("".join(lines))
    ended = syncline_command("sweep", str(slow), "--out", str(out), "--resume", "--threads", "1", "-q")
    assert ended.status == 0
    assert f"warning: {journal}: line 4 does not hold the checksum: it is set aside and simulated again" in ended.err
    assert without_cost(out).equals(without_cost(whole), check_metadata=True)


def test_one_after_the_other_gives_the_same(syncline_command: Command, slow: Path, tmp_path: Path, whole: Path) -> None:
    out = tmp_path / "t.parquet"
    assert syncline_command("sweep", str(slow), "--threads", "1", "--out", str(out)).status == 0
    assert without_cost(out).equals(without_cost(whole), check_metadata=True)


def test_resuming_what_is_finished_simulates_nothing(
    syncline_command: Command, slow: Path, tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "t.parquet"
    out.with_name("t.parquet.journal").write_bytes(whole.with_name("t.parquet.journal").read_bytes())

    def nothing(jobs: list[pool.Job], *_: object, **__: object) -> Iterator[tuple[str, Entry]]:
        assert jobs == []
        yield from ()

    monkeypatch.setattr(pool, "simulate", nothing)
    assert syncline_command("sweep", str(slow), "--out", str(out), "--resume").status == 0
    assert pq.read_table(out).equals(pq.read_table(whole))


def test_another_engine_or_another_value_is_another_simulation(
    syncline_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    path = tmp_path / "s.yaml"
    keys = []
    for clock, version in (("1GHz", "1.0"), ("1000MHz", "1.0"), ("2GHz", "1.0"), ("1GHz", "1.1")):
        monkeypatch.setattr("syncline._version.version", lambda version=version: version)
        path.write_text(f"name: s\nbase: small.yaml\naxes: {{npu.clock: [{clock}]}}\n")
        document = json.loads(syncline_command("sweep", str(path), "--threads", "1", "--json", "-q").out)
        keys.append(document["rows"][0]["key"])
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


class TestJournal:
    ENTRIES = (
        Entry("done", None, {"iteration_time_s": 0.1 + 0.2, "npus": 7}, 0.5, 12),
        Entry("failed", 'NPU 3 waits\nfor "\u00e4"'),
        Entry("refused", "no"),
    )

    def write(self, path: Path) -> None:
        journal = Journal.open(path, resume=False)
        for index, entry in enumerate(self.ENTRIES):
            journal.add(f"key {index}", "a name", entry)
        journal.close()

    def test_torn_anywhere(self, tmp_path: Path) -> None:
        path = tmp_path / "whole.journal"
        self.write(path)
        whole = path.read_bytes()
        for cut in range(len(whole) + 1):
            path.write_bytes(whole[:cut])
            journal = Journal.open(path, resume=True)
            kept = list(journal.entries.values())
            assert kept == list(self.ENTRIES[: max(0, whole[:cut].count(b"\n") - 1)])
            journal.add("another", "", self.ENTRIES[2])
            journal.close()
            journal = Journal.open(path, resume=True)
            assert list(journal.entries.values()) == [*kept, self.ENTRIES[2]]
            journal.close()

    @pytest.mark.parametrize(
        "content",
        ["no journal", "no journal\n", '{"kind": 3}\n', "[1]\n{}\n", "\n", '{"kind": NaN}\n', "[" * 9999 + "\n"],
    )
    def test_what_is_no_journal_is_refused_and_kept(self, tmp_path: Path, content: str) -> None:
        path = tmp_path / "j"
        path.write_text(content)
        with pytest.raises(InputError, match="this is not a sweep's journal"):
            Journal.open(path, resume=True)
        assert path.read_text() == content

    @pytest.mark.parametrize("line", [1, 2, 3, 4])
    @pytest.mark.parametrize(
        "damaged",
        [
            '{"key": 3}',
            "",
            "[]",
            "[" * 9999,
            '{"key": ' + "9" * 9999 + "}",
            '{"key": "key 0", "name": "", "status": "done", "error": null, "measures": {}, "wall_time_s": NaN}',
        ],
    )
    def test_lines_that_do_not_hold_are_named_and_count_for_nothing(
        self, tmp_path: Path, line: int, damaged: str
    ) -> None:
        path = tmp_path / "j"
        self.write(path)
        lines = path.read_text().splitlines()
        lines[line - 1] = damaged
        path.write_text("\n".join([*lines, ""]))
        journal = Journal.open(path, resume=True)
        assert journal.damaged == [line]
        assert f"line {line} does not hold" in (journal.remark or "")
        left = [entry for number, entry in enumerate(self.ENTRIES, start=2) if number != line]
        assert list(journal.entries.values()) == left
        journal.close()

    def test_every_byte_that_is_another_is_noticed(self, tmp_path: Path) -> None:
        """Whatever byte changes: what is taken from the journal is what was written, or nothing."""
        path = tmp_path / "j"
        self.write(path)
        whole = path.read_bytes()
        written = {f"key {index}": entry for index, entry in enumerate(self.ENTRIES)}
        for at, byte in enumerate(whole):
            for other in {byte ^ 1, byte ^ 32, ord("8"), ord(" "), 0} - {byte}:
                path.write_bytes(whole[:at] + bytes([other]) + whole[at + 1 :])
                try:
                    journal = Journal.open(path, resume=True)
                except InputError:
                    continue
                assert journal.entries.items() <= written.items(), (at, other)
                journal.close()

    @pytest.mark.parametrize("status", ["done", "perhaps"])
    @pytest.mark.parametrize("measures", [[], {"time_s": [1]}, {"time_s": {"a": 1}}, {"npus": 2**70}, {"x": None}])
    def test_values_of_another_type_do_not_hold_whatever_the_checksum(
        self, tmp_path: Path, status: str, measures: object
    ) -> None:
        path = tmp_path / "j"
        self.write(path)
        value = {"key": "k", "name": "", "status": status, "error": None, "measures": measures}
        value |= {"wall_time_s": 1.5, "events": 3}
        with path.open("a") as file:
            file.write(json.dumps({**value, "checksum": checksum(value)}) + "\n")
        journal = Journal.open(path, resume=True)
        assert ("k" in journal.entries) == (status == "done" and measures == {"x": None})
        journal.close()

    @pytest.mark.parametrize("resume", [False, True])
    def test_two_sweeps_cannot_write_to_one(self, tmp_path: Path, resume: bool) -> None:
        first = Journal.open(tmp_path / "j", resume=False)
        with pytest.raises(InputError, match="another sweep is writing to this journal"):
            Journal.open(tmp_path / "j", resume=resume)
        first.close()
        with pytest.raises(InputError, match="a journal of an earlier sweep"):
            Journal.open(tmp_path / "j", resume=False)

    def test_columns_of_another_version(self, tmp_path: Path) -> None:
        self.write(tmp_path / "j")
        header, *lines = (tmp_path / "j").read_text().splitlines(keepends=True)
        kept = "".join([header.replace(f'"format": {FORMAT}', '"format": 1'), *lines])
        (tmp_path / "j").write_text(kept)
        with pytest.raises(InputError, match="another version of Syncline"):
            Journal.open(tmp_path / "j", resume=True)
        assert (tmp_path / "j").read_text() == kept


def test_a_worker_that_dies_takes_one_simulation_with_it() -> None:
    variant = study(SMALL, "training.iterations=30").variants[0]
    jobs = [(str(index), variant, 1) for index in range(6)]
    others = workers()
    outcomes = pool.simulate(jobs, 2)
    found = dict([next(outcomes)])
    victim = next(pid for pid in workers() if pid not in others)
    os.kill(victim, signal.SIGKILL)
    found |= dict(outcomes)
    died = [key for key, outcome in found.items() if isinstance(outcome, WorkerDiedError)]
    assert sorted(found) == [str(index) for index in range(6)]
    assert len(died) == 1
    assert "signal 9" in str(found[died[0]])
    assert workers() == others


SCRIPT = """\
import syncline

print("began", flush=True)
sweep = syncline.sweep("s.sweep.yaml", threads=2)
print(sweep.table.to_arrow().column("status").to_pylist())
figure = syncline.figure(
    {
        "name": "f",
        "title": "F",
        "sweeps": ["s.sweep.yaml"],
        "panels": [{"kind": "bars", "title": "T", "x": "npu.sms", "series": "variant", "y": "iteration_time_s"}],
    },
    threads=2,
)
print("<svg" in figure.svg)
"""


@pytest.mark.parametrize("how", ["file", "standard input"])
def test_workers_do_not_run_the_script_again(tmp_path: Path, how: str) -> None:
    """A script needs no guard around what simulates in processes of its own."""
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "s.sweep.yaml").write_text("name: s\nbase: small.yaml\naxes: {npu.sms: [10, 20]}\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, "script.py" if how == "file" else "-"],
        cwd=tmp_path,
        input=SCRIPT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == ["began", "['done', 'done']", "True"]


@pytest.mark.parametrize("room", ["of the journal", "of the table"])
def test_a_full_disk_loses_nothing(slow: Path, tmp_path: Path, whole: Path, room: str) -> None:
    """A limit on the size of files stands for the disk."""
    out = tmp_path / "t.parquet"
    sizes = {"of the journal": whole.with_name("t.parquet.journal").stat().st_size // 2, "of the table": 1}
    if room == "of the table":
        out.with_name("t.parquet.journal").write_bytes(whole.with_name("t.parquet.journal").read_bytes())
    command = [sys.executable, "-m", "syncline", "sweep", str(slow), "--out", str(out), "--threads", "1"]
    command += ["--resume"] if room == "of the table" else []
    limited = ["sh", "-c", 'ulimit -f "$0" && exec "$@"', str(sizes[room] // 512), *command]
    process = subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said, complaint = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (1, "")
    kept = entries(out)
    written = f"{out}.journal" if room == "of the journal" else str(out)
    assert (
        f"{len(kept)} simulations are kept in {out}.journal; the same command with --resume goes on there" in complaint
    )
    assert complaint.splitlines()[-1] == f"{written}: cannot be written: File too large"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["slow.sweep.yaml", "t.parquet.journal"]
    assert 0 < len(kept) < SIMULATIONS or room == "of the table"
    resumed = start(slow, out, "--resume")
    _, err = resumed.communicate(timeout=PATIENCE_S)
    assert resumed.returncode == 0, err
    assert entries(out)[: len(kept)] == kept
    assert len({entry["key"] for entry in entries(out)}) == len(entries(out)) == SIMULATIONS
    assert without_cost(out).equals(without_cost(whole), check_metadata=True)


def test_a_folder_that_cannot_be_written_to_is_known_at_once(
    syncline_command: Command, slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    ended = syncline_command("sweep", str(slow), "--out", str(tmp_path / "t.parquet"))
    assert (ended.status, ended.out) == (2, "")
    assert "the directory of this file cannot be written to" in ended.err
    assert not (tmp_path / "t.parquet.journal").exists()


def test_points_that_take_long_to_check_are_counted(
    syncline_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    (tmp_path / "small.yaml").write_text(SMALL)
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nbase: small.yaml\naxes: {npu.sms: [10, 20, 40]}\n")
    said = syncline_command("sweep", str(path), "--threads", "1").err
    assert "2/3 points checked" in said
    assert syncline_command("sweep", str(path), "--threads", "1", "-q").err == ""


def test_what_is_left_is_estimated_from_what_was_simulated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    counter = progress.SweepProgress({"a": 10, "b": 10, "c": 40}, 5, quiet=False)
    now[0] = 160.0  # a minute for the workers to start
    counter.finished("a", failed=False)
    now[0] = 161.0
    counter.finished("b", failed=True)
    now[0] = 165.0
    counter.finished("c", failed=False)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["6/8 simulations", "7/8 simulations; 1 failed; about 4 s left", "8/8 simulations; 1 failed; 65 s"]
