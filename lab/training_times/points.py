"""Measured iterations, and the experiments that simulate them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import yaml

from syncline.base import document, inputs
from syncline.engine import runs as engine
from syncline.experiment import load as experiments
from syncline.experiment.load import Variant

FOLDER: Final = Path(__file__).parent
STUDY: Final = FOLDER / "a100.yaml"
TABLES: Final = ("megatron", "vtrain-server", "vtrain-cluster")
GPUS_PER_SERVER: Final = 8
ALL_REDUCE_EXCESS_S: Final = 114e-6
"""What an all-reduce of 4 to 64 MiB on 8 A100 takes longer than its bytes: the mean of the tables `a100-8-*` of
nccl-tests (`software/tables`). NCCL's base time hardly depends on the number of GPUs, so rings of any size get it."""
DISPATCH: Final = "64us"
"""Fitted: what a host takes to launch a kernel (`npu.host_kernel_time`)."""
VOCABULARIES: Final = {"megatron": 51200, "vtrain-server": 50257, "vtrain-cluster": 50257}
"""Words; Megatron-LM adds unused ones until 128 x tensor ways divide them. vTrain's: `vocab_size` of its
src/config.py."""
NIC_RATES: Final = {"megatron": "200Gb/s", "vtrain-cluster": "100Gb/s"}
"""Of each of 8 NICs. Selene has 8 HDR ones; vTrain's servers have 800 Gb/s together (`inter_node_bandwidth` of its
configurations), which are taken to be spread over the GPUs."""


@dataclass(frozen=True, slots=True)
class Point:
    """A measured iteration, with the columns of the tables."""

    table: str
    gpus: int
    batch: int
    micro_batch: int
    hidden: int
    heads: int
    layers: int
    sequence: int
    tensor: int
    data: int
    pipeline: int
    virtual: int
    mode: str
    """What is computed again: `full`, or `selective` with sequence parallelism."""
    iteration_s: float

    @property
    def name(self) -> str:
        """What tells it from other points."""
        model = f"h{self.hidden} l{self.layers} s{self.sequence}"
        ways = f"t{self.tensor} d{self.data} p{self.pipeline}"
        return f"{self.table} {model} b{self.batch} m{self.micro_batch} {ways} {self.mode}"

    @property
    def servers(self) -> int:
        """Servers that it ran on."""
        return -(-self.gpus // GPUS_PER_SERVER)


@dataclass(frozen=True, slots=True)
class Constants:
    """What points have in common beside the study: the two constants that are fitted, and what explains errors."""

    sustained_memory: str | None = None
    """That of the study if not given."""
    dispatch: str | None = DISPATCH
    """None: hosts take no time."""
    hosts_of_several_servers: bool = False
    """Whether hosts are simulated where there are several servers, too."""
    all_reduce_excess_s: float = ALL_REDUCE_EXCESS_S
    one_ring_across_servers: bool = False
    """Whether tensor-parallel groups that are on several servers have one ring. NCCL has rings over all NICs; rings
    over GPUs of servers, and over servers, load these equally. All other groups have rings as it is."""


def points(table: str | None = None) -> Iterator[Point]:
    """The points of a table, or of all."""
    for name in TABLES if table is None else (table,):
        text = (FOLDER / "tables" / f"{name}.csv").read_text(encoding="utf-8")
        for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
            numbers = {f.name: int(row[f.name]) for f in fields(Point) if f.type == "int"}
            yield Point(table=name, mode=row["mode"], iteration_s=float(row["iteration_s"]), **numbers)


def experiment(point: Point, constants: Constants = Constants()) -> dict[str, Any]:
    """The experiment of a point: the study with the point's sizes and ways."""
    found: dict[str, Any] = yaml.safe_load(STUDY.read_text(encoding="utf-8"))
    found["name"] = "point"
    found["topology"] = _topology(point, found["topology"])
    if point.gpus < GPUS_PER_SERVER:
        found["gpus"] = f"0-{point.gpus - 1}"
    multiple = 128 * point.tensor
    found["workload"]["parameters"] |= {
        "hidden": point.hidden,
        "heads": point.heads,
        "layers": point.layers,
        "vocabulary": -(-VOCABULARIES[point.table] // multiple) * multiple,
        "positions": point.sequence,
    }
    found["workload"]["global_batch"] = point.batch
    found["parallel"] = _parallel(point)
    if constants.dispatch is not None and (point.servers == 1 or constants.hosts_of_several_servers):
        found["npu"]["host_kernel_time"] = constants.dispatch
    found["endpoint"]["step_latency"] = f"{round(constants.all_reduce_excess_s * 1e9 / _steps(point))}ns"
    if constants.sustained_memory is not None:
        found["npu"]["compute"]["tiles"]["sustained_memory"] = constants.sustained_memory
    if point.tensor > GPUS_PER_SERVER:
        rings = {"algorithm": "six-phase", "per_dimension": ["ring", "ring"]}
        found["parallel"]["collectives"] = {
            "tensor": {"algorithm": "ring"} if constants.one_ring_across_servers else rings
        }
    return found


def _topology(point: Point, server: str) -> str:
    if point.servers > 1:
        efficiency = server[server.index("efficiency=") : -1]
        return f"dgx-a100(nodes={point.servers}, nic_rate={NIC_RATES[point.table]}, {efficiency})"
    return server


def _parallel(point: Point) -> dict[str, Any]:
    found: dict[str, Any] = {
        "tensor": point.tensor,
        "data": point.data,
        "pipeline": point.pipeline,
        "micro_batch": point.micro_batch,
        "recompute": point.mode,
    }
    if point.mode == "selective":
        found["sequence"] = True
    elif point.table == "megatron" and point.pipeline > 1:
        found["scatter_gather"] = True
    if point.virtual > 1:
        found |= {"schedule": "interleaved", "virtual": point.virtual}
    return found


def _steps(point: Point) -> int:
    """Steps of a ring all-reduce among the GPUs of a tensor-parallel group, or of a server if there is none."""
    ring = point.tensor if point.tensor > 1 else GPUS_PER_SERVER
    return 2 * (ring - 1)


def variant(point: Point, constants: Constants = Constants()) -> Variant:
    """The experiment of a point, as it is simulated."""
    text = yaml.safe_dump(experiment(point, constants))
    return experiments.load(document.read(text, point.name), point.name, inputs.folder_of(STUDY)).variants[0]


def simulated_s(point: Point, constants: Constants = Constants()) -> float:
    """Seconds that an iteration of a point takes in a simulation."""
    summary = engine.run(variant(point, constants)).summary
    return float(summary["total_ps"]) / engine.PS_PER_S
