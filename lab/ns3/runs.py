"""The rows of `rows.csv`, as they are and as the Ethernet backend has them."""

from __future__ import annotations

import csv
import statistics
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from syncline.experiment.load import Variant

ROWS: Final = Path(__file__).with_name("rows.csv")
RECORD: Final = Path(__file__).with_name("record.csv")
SEEDS: Final = 5
"""Runs with losses are the median of so many: which frames are lost depends on when hosts begin."""
POSTINGS: Final = {"rot": "rotated", "seq": "sequential", "rand": "random"}
RATE: Final = "100Gb/s"
LATENCY: Final = "500ns"
COUNTS: Final = ("segments_sent", "retransmissions", "rto_events", "fast_recoveries", "drops")


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a run."""

    completion_us: float
    segments_sent: float
    retransmissions: float
    rto_events: float
    fast_recoveries: float
    drops: float


@dataclass(frozen=True, slots=True)
class Row:
    """A run of ns-3, and what came of it."""

    given: dict[str, str]
    found: Found

    @property
    def is_lossless(self) -> bool:
        """Whether ns-3 lost nothing."""
        return self.found.drops == 0

    @property
    def seeds(self) -> int:
        """How many seeds are simulated."""
        return 1 if self.is_lossless else SEEDS

    @property
    def min_rto_us(self) -> float:
        """The least retransmission timeout."""
        return float(self.given["min_rto_ms"]) * 1e3

    def rounds(self, found: Found) -> int:
        """How many of the least timeouts a run took."""
        return int(found.completion_us // self.min_rto_us)

    @property
    def size_bytes(self) -> int:
        """The size of the collective, as nccl-tests counts it."""
        size, hosts = int(self.given["size_bytes"]), int(self.given["hosts"])
        return size * hosts if self.given["pattern"] == "incast" else size

    def collective(self) -> tuple[str, str]:
        """Its kind and its algorithm."""
        return {
            "single": ("broadcast", "direct"),
            "incast": ("gather", "direct"),
            "a2a": ("all-reduce", "direct"),
            "ring": ("all-reduce", "ring-unidirectional"),
            "dbt": ("all-reduce", "double-binary-tree"),
        }[self.given["pattern"]]

    def settings(self) -> list[str]:
        """What the experiment says beyond kind, size, topology and algorithm."""
        given = self.given
        settings = {
            "network.profile": "ns3-3.37",
            "network.buffer": f"{given['buffer_bytes']}B",
            "network.window": f"{given['window_bytes']}B",
            "network.segment": f"{given['segment_bytes']}B",
            "network.congestion_control": given["congestion_control"],
            "network.recovery": given["recovery"],
            "network.sack": "on" if given["sack"] == "1" else "off",
            "network.delayed_ack": given["delayed_ack"],
            "network.min_rto": f"{given['min_rto_ms']}ms",
            "network.initial_window": given["initial_window"],
            "network.posting": POSTINGS[given["posting"]],
            "collective.chunks": "1",
        }
        if float(given["jitter_ns"]) > 0:
            settings["network.jitter"] = f"{given['jitter_ns']}ns"
        if given["pattern"] == "dbt":
            settings["collective.slices"] = str(self.size_bytes // (2 * int(given["chunk_bytes"])))
        return [f"{name}={value}" for name, value in settings.items()]


def rows(path: Path = ROWS) -> list[Row]:
    """All rows."""
    names = [field.name for field in fields(Found)]
    with path.open(encoding="utf-8", newline="") as file:
        return [Row(given, Found(*(float(given[name]) for name in names))) for given in csv.DictReader(file)]


def variant(row: Row, seed: int) -> Variant:
    """The experiment of a row."""
    from syncline.commands.cli import single

    kind, algorithm = row.collective()
    flags = single.Flags(
        kind=kind,
        size=f"{row.size_bytes}B",
        topology=f"Switch({row.given['hosts']}, rate={RATE}, latency={LATENCY})",
        machine=None,
        topology_file=None,
        gpus=None,
        groups=[],
        endpoint=None,
        algorithm=algorithm,
        backend="ethernet",
        root=0 if row.given["pattern"] == "incast" else None,
        fold="off",
    )
    study, _ = single.load(flags, [], row.settings())
    return study.seeded(seed).variants[0]


def simulate(row: Row, seed: int) -> Found:
    """A row with the Ethernet backend."""
    from syncline.engine import runs as engine
    from syncline.results import entries as results

    experiment = variant(row, seed)
    document: dict[str, Any] = results.collective_fields(experiment, engine.run(experiment))
    return Found(document["time_s"] * 1e6, *(float(document["network"][name]) for name in COUNTS))


def median(runs: list[Found]) -> Found:
    """The median of each figure."""
    return Found(*(statistics.median(getattr(run, field.name) for run in runs) for field in fields(Found)))
