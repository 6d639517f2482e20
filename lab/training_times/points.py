"""Measured iterations, and the experiments that simulate them: what a source states, and defaults."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from syncline.base import document, inputs
from syncline.engine import runs as engine
from syncline.experiment import load as experiments
from syncline.experiment.load import Variant
from syncline.strategies import training

FOLDER: Final = Path(__file__).parent
RECIPES: Final = FOLDER / "recipes.yaml"
GPUS_PER_SERVER: Final = 8
VTRAIN_VOCABULARY: Final = 50257
"""`vocab_size` of vTrain's src/config.py."""
OWN: Final = {
    "megatron": ("200Gb/s", 51200),
    "vtrain-server": ("100Gb/s", VTRAIN_VOCABULARY),
    "vtrain-cluster": ("100Gb/s", VTRAIN_VOCABULARY),
}
"""Tables of one machine each: the rate of each of 8 NICs, and words, to which Megatron-LM adds unused ones until 128 x
tensor ways divide them. Selene has 8 HDR NICs; vTrain's servers have 800 Gb/s together (`inter_node_bandwidth` of its
configurations), which are taken to be spread over the GPUs."""
PUBLIC: Final = "public"
"""The table of all other sources."""
SLOWER: Final = {"memory": "96GB", "memory_bandwidth": "2.4TB/s", "power": "500W"}
"""torchtitan's H100, which its source describes so."""
REPLICAS: Final = {"fms-a100-7b": GPUS_PER_SERVER, "fms-h100-7b": GPUS_PER_SERVER}
"""Rows whose weights are divided among so many GPUs, with copies (`parallel.hsdp`)."""


@dataclass(frozen=True, slots=True)
class Point:
    """A measured iteration."""

    source: str
    """Where it was published, which is where its recipe is from (a key of recipes.yaml)."""
    name: str
    topology: str
    gpus: int
    model: str
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    batch: int
    micro_batch: int
    tensor: int
    pipeline: int
    virtual: int
    zero: int
    recompute: str
    """What is computed again: `none`, `selective` or `full`."""
    sequence_parallel: bool
    scatter_gather: bool
    iteration_s: float

    @property
    def data(self) -> int:
        """Replicas of the model."""
        return self.gpus // (self.tensor * self.pipeline)

    @property
    def gpu(self) -> str:
        """The GPU: a100 or h100."""
        return "a100" if "a100" in self.topology else "h100"

    @property
    def kernels(self) -> str:
        """Whose kernels it has (`training.kernels`)."""
        return str(recipes()[self.source]["training"]["kernels"])


@cache
def recipes() -> Mapping[str, dict[str, Any]]:
    """What the rows of a source have in common, by source."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(RECIPES.read_text(encoding="utf-8"))
    return found


def points(source: str | None = None) -> Iterator[Point]:
    """The points of a source, or of all."""
    every = (*(point for table in OWN for point in _of_table(table)), *_public())
    yield from (point for point in every if source in (None, point.source))


def sources() -> list[str]:
    """All sources, in the order of their points."""
    return list(dict.fromkeys(point.source for point in points()))


def _rows(table: str) -> Iterator[dict[str, str]]:
    text = (FOLDER / "tables" / f"{table}.csv").read_text(encoding="utf-8")
    return csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def _of_table(table: str) -> Iterator[Point]:
    rate, words = OWN[table]
    for row in _rows(table):
        number = {name: int(text) for name, text in row.items() if name not in ("mode", "iteration_s")}
        servers = -(-number["gpus"] // GPUS_PER_SERVER)
        multiple = 128 * number["tensor"]
        sizes = f"h{row['hidden']} l{row['layers']} s{row['sequence']} b{row['batch']} m{row['micro_batch']}"
        ways = f"t{row['tensor']} d{row['data']} p{row['pipeline']}"
        is_selective = row["mode"] == "selective"
        yield Point(
            source=table,
            name=f"{table} {sizes} {ways} {row['mode']}",
            topology="dgx-a100" if servers == 1 else f"dgx-a100(nodes={servers}, nic_rate={rate})",
            gpus=number["gpus"],
            model="gpt",
            layers=number["layers"],
            hidden=number["hidden"],
            heads=number["heads"],
            vocabulary=-(-words // multiple) * multiple,
            sequence=number["sequence"],
            batch=number["batch"],
            micro_batch=number["micro_batch"],
            tensor=number["tensor"],
            pipeline=number["pipeline"],
            virtual=number["virtual"],
            zero=0,
            recompute=row["mode"],
            sequence_parallel=is_selective,
            scatter_gather=number["pipeline"] > 1 and number["tensor"] > 1 and not is_selective,
            iteration_s=float(row["iteration_s"]),
        )


def _public() -> Iterator[Point]:
    flags = ("sequence_parallel", "scatter_gather")
    texts = ("source", "name", "topology", "model", "recompute")
    for row in _rows(PUBLIC):
        values: dict[str, Any] = dict(row)
        values |= {name: row[name] == "1" for name in flags}
        values |= {name: int(row[name]) for name in row if name not in (*texts, *flags, "iteration_s")}
        yield Point(**values | {"iteration_s": float(row["iteration_s"])})


def experiment(point: Point, changed: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The experiment of a point: its sizes, ways and machine, with the recipe of its source and default settings; with
    fields of some sections `changed`, if any are given by section; None takes a field away.
    """
    recipe = recipes()[point.source]
    workload = {"model": point.model, "sequence": point.sequence, "global_batch": point.batch} | recipe["workload"]
    if point.model == "gpt":
        del workload["sequence"]
        workload["parameters"] = workload.get("parameters", {}) | {
            "hidden": point.hidden,
            "heads": point.heads,
            "layers": point.layers,
            "vocabulary": point.vocabulary,
            "positions": point.sequence,
        }
    found = {
        "name": "point",
        "topology": point.topology,
        "workload": workload,
        "parallel": _parallel(point),
        "training": recipe["training"],
        "output": {"trace_npus": []},
    }
    if point.gpus < GPUS_PER_SERVER:
        found["gpus"] = f"0-{point.gpus - 1}"
    npu = recipe.get("npu", {}) | (SLOWER if (point.source, point.gpu) == ("torchtitan", "h100") else {})
    found |= {"npu": npu} if npu else {}
    for name, fields in (changed or {}).items():
        section = found.get(name, {}) | fields
        found[name] = {field: value for field, value in section.items() if value is not None}
    return found


def _parallel(point: Point) -> dict[str, Any]:
    recompute = "operators" if (point.source, point.recompute) == ("torchtitan", "selective") else point.recompute
    found: dict[str, Any] = {
        "tensor": point.tensor,
        "data": point.data,
        "pipeline": point.pipeline,
        "micro_batch": point.micro_batch,
        "recompute": recompute,
        "zero": point.zero,
    }
    if point.name in REPLICAS:
        found["hsdp"] = REPLICAS[point.name]
    if point.sequence_parallel:
        found["sequence"] = True
    if point.scatter_gather:
        found["scatter_gather"] = True
    if point.virtual > 1:
        found |= {"schedule": "interleaved", "virtual": point.virtual}
    return found


def variant(point: Point, changed: Mapping[str, Any] | None = None) -> Variant:
    """The experiment of a point, as it is simulated."""
    text = yaml.safe_dump(experiment(point, changed))
    return experiments.load(document.read(text, point.name), point.name, inputs.folder_of(RECIPES)).variants[0]


def simulated_s(point: Point, changed: Mapping[str, Any] | None = None) -> float:
    """Seconds that an iteration of a point takes in a simulation."""
    try:
        return float(engine.run(variant(point, changed)).summary["total_ps"]) / engine.PS_PER_S
    finally:
        training.forget()  # graphs of the largest models take gigabytes
