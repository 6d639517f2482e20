"""Ctrl-C at any moment of any command: status 130, a line that says so, no traceback; what is finished can be read."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

PATIENCE_S = 120
LONG = """\
name: long
topology: "Ring(4)_Ring(4)"
workload: {model: resnet50, batch: 8}
training: {iterations: 60}
variants: [{name: A}, {name: B, training: {iterations: 4000}}, {name: C, training: {iterations: 4000}}]
"""
SWEEP = """\
name: batches
base: long.yaml
variants: [A]
axes: {workload.batch: [64, 128, 256, 512], training.iterations: [400, 401, 402]}
"""
FIGURE = """\
name: long-figure
title: Takes long
sweeps: [batches.sweep.yaml]
panels: [{kind: bars, title: t, x: workload.batch, y: iteration_time_s, mean: true}]
"""
RUN_FIGURE = """\
name: run-figure
title: Takes long
panels: [{kind: layers, title: t, run: long.yaml, variants: [B]}]
"""
COMMANDS: dict[str, list[str]] = {
    "run": ["run", "long.yaml", "--out", "run"],
    "check": ["check", "long.yaml", "--json"],
    "sweep": ["sweep", "batches.sweep.yaml", "--out", "t.parquet"],
    "sweep alone": ["sweep", "batches.sweep.yaml", "--threads", "1", "--json"],
    "figure": ["figure", "long.figure.yaml"],
    "figure of a run": ["figure", "run.figure.yaml", "-q"],
    "collective": ["collective", "all-to-all", "--size", "1GB", "--topology", "Torus(8,8,8)", "--backend", "packet"],
    "bench": ["bench", "all-reduce", "--machine", "dgx-h100", "--sizes", "1KiB:4GiB:+1MiB"],
    "reproduce": ["reproduce", "ace"],
    "topology": ["topology", "show", "--machine", "dgx-h100(nodes=64)"],
    "schema": ["schema"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with inputs."""
    texts = {"long.yaml": LONG, "batches.sweep.yaml": SWEEP, "long.figure.yaml": FIGURE, "run.figure.yaml": RUN_FIGURE}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def start(folder: Path, *arguments: str, python: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [sys.executable, *python, "-m", "syncline", *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, start_new_session=True, **pipes)


def until_it_listens(process: subprocess.Popen[str]) -> None:
    """Waits until it has started so far that it watches for interrupts, which it does on a thread, or has ended."""
    while process.poll() is None and "\nThreads:\t1\n" in Path(f"/proc/{process.pid}/status").read_text():
        time.sleep(0.002)


def until_it_simulates(process: subprocess.Popen[str]) -> None:
    """Waits until it has a thread that simulates beside those that listen, or a process that does."""
    place = Path(f"/proc/{process.pid}/task")
    while len(list(place.iterdir())) < 3 and not (place / f"{process.pid}/children").read_text():
        assert process.poll() is None
        time.sleep(0.01)


def interrupted(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it says once it has been interrupted, as a terminal does that to all its processes."""
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("name", COMMANDS)
def test_one_line_whatever_the_command_is_at(name: str, folder: Path) -> None:
    chance = random.Random(name)
    for delay_s in (0.0, chance.uniform(0, 0.3), chance.uniform(0.3, 1.5)):
        process = start(folder, *COMMANDS[name], *(["--resume"] if (folder / "t.parquet.journal").exists() else []))
        until_it_listens(process)
        time.sleep(delay_s)
        if process.poll() is not None:  # some end before
            process.communicate()
            continue
        out, err = interrupted(process)
        if process.returncode == 0 and delay_s:  # it had just ended
            continue
        assert process.returncode == 130, (delay_s, err)
        assert err.splitlines()[-1].startswith("interrupted"), (delay_s, err)
        assert "Traceback" not in err + out
        assert "KeyboardInterrupt" not in err + out


@pytest.mark.parametrize("after", ["typer", "syncline.sections.experiment", "syncline.base.errors"])
def test_one_line_while_it_starts(after: str, folder: Path) -> None:
    """`-X importtime` says what has been imported."""
    process = start(folder, "run", "long.yaml", python=("-X", "importtime"))
    assert process.stderr is not None
    while after not in process.stderr.readline():
        assert process.poll() is None
    _, err = interrupted(process)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err


def test_finished_variants_can_be_read(folder: Path) -> None:
    process = start(folder, "run", "long.yaml", "--out", "run", "--threads", "1", "--json")
    manifest = folder / "run/manifest.json"
    while not (manifest.exists() and json.loads(manifest.read_text())["variants"]):
        assert process.poll() is None
        time.sleep(0.01)
    out, err = interrupted(process)
    assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted; 1 of 3 variants are finished")
    document = json.loads(out)
    assert (document["status"], [run["name"] for run in document["runs"]]) == ("partial", ["A"])
    assert document == json.loads((folder / "run/summary.json").read_text())
    report = start(folder, "report", "run")
    report.communicate(timeout=PATIENCE_S)
    assert report.returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        ["run", "long.yaml", "--out", "new/out", "--set", "training.iterations=4000"],
        ["figure", "long.figure.yaml", "--out", "new/out"],
    ],
    ids=["run", "figure"],
)
def test_of_what_is_not_finished_nothing_is_left(line: list[str], folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    process = start(folder, *line, "--threads", "1")
    until_it_simulates(process)
    time.sleep(0.5)
    _, err = interrupted(process)
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith("interrupted")
    assert sorted(folder.rglob("*")) == before


def test_what_a_batch_system_sends_is_an_interrupt(folder: Path) -> None:
    process = start(folder, "run", "long.yaml", "--out", "run", "--threads", "1", "--json")
    manifest = folder / "run/manifest.json"
    while not (manifest.exists() and json.loads(manifest.read_text())["variants"]):
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted; 1 of 3 variants are finished")
    assert json.loads(out)["status"] == "partial"


def test_a_sweep_of_which_nothing_is_finished(folder: Path) -> None:
    """Its table has the columns of a finished one, and no rows."""
    process = start(folder, "sweep", "batches.sweep.yaml", "--out", "t.parquet", "--set", "training.tail=drain")
    journal = folder / "t.parquet.journal"
    while not Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text():  # its workers begin
        assert process.poll() is None
        time.sleep(0.005)
    _, err = interrupted(process)
    assert process.returncode == 130
    kept = len(journal.read_text().splitlines()) - 1
    assert err.splitlines()[-1] == f"interrupted; {kept} of 12 simulations are finished"
    table = pq.read_table(folder / "t.parquet")
    assert table.num_rows == kept
    assert {"point", "name", "workload.batch", "training.iterations", "status"} <= set(table.column_names)
    for arguments in (["report", "t.parquet"], ["sweep", "batches.sweep.yaml", "--set", "training.tail=drain"]):
        again = start(folder, *arguments, *(["--out", "t.parquet", "--resume"] if arguments[0] == "sweep" else []))
        if arguments[0] == "sweep":
            until_it_listens(again)
            interrupted(again)
            assert again.returncode == 130
        else:
            again.communicate(timeout=PATIENCE_S)
            assert again.returncode == 0


def test_native_code_that_does_not_listen() -> None:
    """A lock that never opens stands for the engine making a large topology: no signal ends the wait."""
    code = "import ctypes; from syncline.base import interrupts; interrupts.listen(); c = ctypes.CDLL(None); "
    code += "lock = ctypes.create_string_buffer(64); c.pthread_mutex_lock(lock); print('locked', flush=True); "
    code += "c.pthread_mutex_lock(lock)"
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code], **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (130, "interrupted\n")


def test_what_was_started_deaf_stays_deaf(folder: Path) -> None:
    """A shell has its background processes ignore Ctrl-C, which is for the one in front."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = start(folder, "sweep", "batches.sweep.yaml", "--set", "training.tail=drain", "--json")
    finally:
        signal.signal(signal.SIGINT, before)
    for _ in range(15):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1)
    assert process.poll() is None
    process.kill()
    process.communicate(timeout=PATIENCE_S)


def test_an_interrupt_that_a_library_wraps(folder: Path) -> None:
    """Pydantic, while it builds a model, makes an error of its own of every exception."""
    code = (
        "import os, signal\nfrom syncline.commands import cli\n"
        "def run(_):\n    try:\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt:\n        raise RuntimeError('wrapped')\n"
        "cli.run = run\ncli.main([])\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (130, "interrupted\n")
