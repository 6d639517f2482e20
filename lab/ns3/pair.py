"""The speed of the Ethernet backend beside that of ns-3, both on this machine: a program that carries out the rows.

The program takes options such as `--pattern=a2a --n=8`, and appends a line to the file of `--csv`, with a header if it
is new; `user_cpu_s` and `switch_pkts_fwd` there are of the run without its preparations. Debian's libns3-dev builds it.
"""

from __future__ import annotations

import csv
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.ns3.runs import Row, simulate
from syncline.base.errors import InputError, Problem

OPTIONS: Final = {
    "pattern": "pattern",
    "n": "hosts",
    "size": "size_bytes",
    "chunk": "chunk_bytes",
    "buf": "buffer_bytes",
    "W": "window_bytes",
    "mss": "segment_bytes",
    "cc": "congestion_control",
    "recovery": "recovery",
    "delack": "delayed_ack",
    "minrto": "min_rto_ms",
    "iw": "initial_window",
    "sack": "sack",
    "order": "posting",
    "jitter": "jitter_ns",
}
"""The options of the program, and what they are called in the rows."""
LEAST_PAIRED_S: Final = 1.0
"""How long ns-3 takes for a row that says something of speed: the time of others is mostly preparation."""
LEAST_CPU_S: Final = 1e-3
"""What a clock of processor time resolves."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A row, carried out by both."""

    frames: int
    """What the switch forwarded in ns-3."""
    theirs_s: float
    """Processor time of ns-3, from the first byte to the last."""
    ours_s: float
    """Processor time of Syncline, from reading the experiment to its tables."""

    @property
    def ratio(self) -> float:
        """How many times as long ns-3 takes."""
        return max(self.theirs_s, LEAST_CPU_S) / max(self.ours_s, LEAST_CPU_S)


def run(program: Path, row: Row) -> Pair:
    """Carries out a row with both. Raises [`InputError`] if the program does not."""
    given = row.given
    options = [f"--{option}={given[name]}" for option, name in OPTIONS.items()]
    if given["pattern"] == "incast":
        options.append(f"--k={int(given['hosts']) - 1}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "row.csv")
        try:
            ended = subprocess.run(
                [str(program.resolve()), *options, f"--csv={out}"], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise _refused(program, f"this program cannot be run: {error}") from None
        if ended.returncode != 0 or not out.exists():
            why = (ended.stderr.strip().splitlines() or ["it wrote no row"])[-1]
            raise _refused(program, f"this program ended with status {ended.returncode}: {why[:200]}")
        with out.open(encoding="utf-8", newline="") as file:
            found = list(csv.DictReader(file))
    if not found or not {"user_cpu_s", "switch_pkts_fwd"} <= found[-1].keys():
        raise _refused(program, "the row that this program wrote lacks user_cpu_s or switch_pkts_fwd")
    began = time.process_time()
    simulate(row, 1)
    ours = time.process_time() - began
    return Pair(int(float(found[-1]["switch_pkts_fwd"])), float(found[-1]["user_cpu_s"]), ours)


def _refused(program: Path, message: str) -> InputError:
    accepted = "a program that carries out these rows with ns-3"
    return InputError([Problem("command line", None, "--pair", str(program), message, accepted)])
