"""Tables on terminals of any width: nothing is cut."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from syncline.commands.cli import layout

NAME = st.text("abc XYZ019(=,)_-", min_size=1, max_size=64).map(str.strip).filter(bool)


def table(headings: list[str], rows: list[list[str]]) -> Table:
    made = Table(title="title", box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        made.add_column(heading, justify="right")
    for row in rows:
        made.add_row(*row)
    return made


def printed(parts: list[object], width: int) -> str:
    out = StringIO()
    console = Console(file=out, width=width, markup=False, highlight=False)
    for part in parts:
        console.print(part)
    return out.getvalue()


@given(st.data(), st.integers(20, 200), st.integers(1, 12), st.integers(1, 5), st.integers(1, 3))
def test_no_value_is_cut_or_lost(data: st.DataObject, width: int, columns: int, rows: int, labels: int) -> None:
    headings = [data.draw(NAME) for _ in range(columns)]
    cells = [[data.draw(NAME) for _ in range(columns)] for _ in range(rows)]
    text = printed([*layout.fitted(table(headings, cells), labels, width)], width)
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())
    joined = "".join(text.split())
    for cell in (cell for row in cells for cell in row):
        assert "".join(cell.split()) in joined


def test_columns_come_in_parts_that_all_name_their_rows() -> None:
    headings = ["system", *(f"measure {i}" for i in range(8))]
    rows = [[name, *(f"{i}.000 ms" for i in range(8))] for name in ("BaselineNoOverlap", "ACE")]
    parts = layout.fitted(table(headings, rows), 1, 60)
    assert 1 < len(parts) <= layout.MOST_PARTS
    for part in parts:
        assert "BaselineNoOverlap" in printed([part], 60)


def on_a_terminal(width: int, *arguments: str, **environment: str) -> str:
    """What a command prints on a terminal of so many columns."""
    main, other = pty.openpty()
    ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    command = [sys.executable, "-m", "syncline", *arguments]
    with subprocess.Popen(command, stdout=other, stderr=subprocess.DEVNULL, env=clean | environment) as process:
        os.close(other)
        text = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            text += piece
    os.close(main)
    assert process.returncode == 0
    return text.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [80, 60, 40])
def test_names_are_whole_on_narrow_terminals(width: int) -> None:
    study = ("run", "ace/allreduce", "--backend", "analytical", "--set", "workload.size=1MB", "-q")
    plain = on_a_terminal(width, *study, NO_COLOR="1", TERM="xterm")
    assert "\x1b" not in plain
    assert all(len(line) <= width for line in plain.splitlines())
    assert "Baseline" in plain
    assert "…" not in plain
    assert "..." not in plain
    assert "\x1b[1m" in on_a_terminal(width, *study, TERM="xterm")


def test_a_narrow_table_of_bench_has_its_header() -> None:
    shown = on_a_terminal(60, "bench", "all-reduce", "--machine", "dgx-h100", "--sizes", "1KiB", NO_COLOR="1")
    assert all(len(line) <= 60 for line in shown.splitlines())
    joined = " ".join(shown.split())
    assert joined.startswith("all_reduce_perf on dgx-h100: 8 ranks; predicted, not measured ")
    assert "software: h100-nvswitch; fitted on h100-8-nvls, h20-8-nvls, " in joined


def test_a_pipe_gets_the_whole_width() -> None:
    topology = "dgx-h100(nodes=2, nics=rail, nic_rate=12500000000B/s, oversubscription=2)"
    command = [sys.executable, "-m", "syncline", "topology", "show", "--machine", topology]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "40"})
    assert "\x1b" not in ended.stdout
    assert "…" not in ended.stdout
