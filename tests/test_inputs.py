"""Files of a user: regular ones and standard input are read, and nothing that may never end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.command import Ended
from support.experiments import SMALL
from syncline.base import inputs
from syncline.base.errors import InputError

Command = Callable[..., Ended]
PATIENCE_S = 60

READERS: dict[str, list[str]] = {
    "experiment": ["check", "FILE"],
    "experiment that is run": ["run", "FILE"],
    "workload": ["check", "workload.yaml"],
    "topology of an experiment": ["check", "topology.yaml"],
    "flows beside a run": ["check", "matrix.yaml"],
    "sizes of flows beside a run": ["check", "sizes.yaml"],
    "base of a sweep": ["sweep", "base.sweep.yaml"],
    "sweep": ["sweep", "FILE"],
    "figure": ["figure", "FILE"],
    "sweep of a figure": ["figure", "sweep.figure.yaml"],
    "topology": ["topology", "show", "FILE"],
    "topology that is detected": ["topology", "detect", "--nccl-file", "FILE", "--nvidia-smi", "none", "--sys", "."],
    "topology of a collective": ["collective", "all-reduce", "--size", "1MB", "--topology-file", "FILE"],
    "schedule": ["verify", "FILE"],
    "plan of a collective": ["collective", "all-reduce", "--size", "1MB", "--topology", "Ring(4)", "--plan", "FILE"],
    "plan of an experiment": ["check", "plan.yaml"],
    "measured kernels of an experiment": ["check", "kernels.yaml"],
    "measured table": ["calibrate", "FILE", "--machine", "dgx-a100"],
    "software": ["bench", "all-reduce", "--machine", "dgx-a100", "--sizes", "1MiB", "--software", "FILE"],
    "trace of an import": ["import", "chakra", "FILE"],
    "profile of an import": ["import", "kineto", "FILE"],
    "module of an import": ["import", "fx", "FILE"],
    "network of an import": ["import", "astra", ".", "--network", "FILE"],
    "experiment like which an import is": ["import", "fx", "module.json", "--like", "FILE"],
    "table of a sweep": ["report", "FILE"],
    "manifest of a run": ["report", "run"],
    "document of a run": ["report", "run2"],
    "output of a sweep": ["sweep", "good.sweep.yaml", "--out", "FILE"],
    "journal": ["sweep", "good.sweep.yaml", "--out", "table.parquet", "--resume"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files lead to `FILE`, which is to be made."""
    monkeypatch.chdir(tmp_path)
    workload = "{astra_text: FILE.parquet}"
    (tmp_path / "workload.yaml").write_text(f"name: w\ntopology: Ring(4)\nworkload: {workload}\n")
    one = "workload: {collective: all-reduce, size: 1MB}"
    (tmp_path / "plan.yaml").write_text(f"name: w\ntopology: Ring(4)\n{one}\ncollective: {{plan: FILE.parquet}}\n")
    compute = "npu: {compute: {kind: table, table: FILE.parquet}}"
    (tmp_path / "kernels.yaml").write_text(
        f"name: w\ntopology: Ring(4)\nworkload: {{model: resnet18, batch: 1}}\n{compute}\n"
    )
    for key, more in (("matrix", ""), ("sizes", ", load: 5%")):
        traffic = f"network: {{backend: ethernet, background: [{{{key}: FILE.parquet{more}}}]}}"
        (tmp_path / f"{key}.yaml").write_text(f"name: w\ntopology: Switch(4)\n{one}\n{traffic}\n")
    topology = "{file: FILE.parquet}"
    (tmp_path / "topology.yaml").write_text(f"name: w\ntopology: {topology}\nworkload: {{model: resnet50}}\n")
    (tmp_path / "good.yaml").write_text(SMALL)
    operator = '{"name": "a", "op": "norm", "layer": "a", "inputs": [], "output": [1], "parameters": 0, "element": 4}'
    (tmp_path / "module.json").write_text(f'{{"format": "syncline-fx", "version": 1, "operators": [{operator}]}}')
    (tmp_path / "base.sweep.yaml").write_text("name: s\nbase: FILE.parquet\naxes: {npu.sms: [1]}\n")
    (tmp_path / "good.sweep.yaml").write_text("name: s\nbase: good.yaml\naxes: {npu.sms: [40]}\n")
    panel = "{kind: bars, title: t, x: npu.sms, y: iteration_time_s}"
    (tmp_path / "sweep.figure.yaml").write_text(f"name: f\ntitle: t\nsweeps: [FILE.parquet]\npanels: [{panel}]\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/manifest.json").symlink_to(tmp_path / "FILE.parquet")
    (tmp_path / "run2").mkdir()
    manifest = '{"kind": "syncline run", "status": "complete", "variants": []}'
    (tmp_path / "run2/manifest.json").write_text(manifest)
    (tmp_path / "run2/summary.json").symlink_to(tmp_path / "FILE.parquet")
    (tmp_path / "table.parquet.journal").symlink_to(tmp_path / "FILE.parquet")
    return tmp_path


@contextmanager
def nobody_waits() -> Iterator[None]:
    """Fails if what is done takes too long, as it would if it waited for a writer."""
    import signal

    def too_long(*_: object) -> None:
        raise TimeoutError("this waits for something that never comes")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ["pipe", "zeros", "random", "socket", "kernel log", "folder"])
@pytest.mark.parametrize("reader", READERS)
def test_what_never_ends_is_not_read(reader: str, kind: str, folder: Path, syncline_command: Command) -> None:
    file = folder / "FILE.parquet"
    devices = {"zeros": "/dev/zero", "random": "/dev/urandom", "kernel log": "/proc/kmsg"}
    opened = None
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "socket":
        opened = socket.socket(socket.AF_UNIX)
        opened.bind("FILE.parquet")
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to(devices[kind])
    with nobody_waits():
        ended = syncline_command(*("FILE.parquet" if word == "FILE" else word for word in READERS[reader]))
    if opened is not None:
        opened.close()
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.endswith((" error\n", " errors\n"))


def test_sizes_are_limited(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(100))
    assert inputs.read_bytes(file, "f", 100) == bytes(100)
    with pytest.raises(InputError, match="larger than 99 bytes"):
        inputs.read_bytes(file, "f", 99)
    with file.open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(InputError, match="larger than 1000 bytes"):
        inputs.read_bytes(file, "f", 1000)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("check",), SMALL),
        (("topology", "show"), "npus: 2\nlinks: [{from: 0, to: 1}]\ndefaults: {rate: 1GB/s}\n"),
        (("verify",), (Path(__file__).parents[1] / "examples/plans/ring4.xml").read_text()),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_standard_input(command: tuple[str, ...], text: str, name: str) -> None:
    line = [sys.executable, "-m", "syncline", *command, name, "--json"]
    process = subprocess.run(line, input=text, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
