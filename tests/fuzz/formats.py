"""Mutated files of every format that a command reads."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from syncline.experiment import packaged as studies

from . import mutation
from .case import Case, Corpus, generator
from .corpus import FILES, inputs
from .experiments import ALGORITHMS, KINDS, commands, topology

RING = Path(__file__).parents[2] / "examples/plans/ring4.xml"


def _mutated(chance: Random, text: str) -> bytes:
    """A damaged text: its letters, or now and then its bytes."""
    if chance.random() < 0.15:
        return mutation.data(chance, text.encode())
    others = tuple(FILES.values())
    return mutation.text(chance, text, others).encode("utf-8", "replace")


def _flags(chance: Random) -> list[str]:
    return ["--json"] if chance.random() < 0.7 else []


@generator("experiment-file", 10)
def experiment_file(chance: Random, _: Corpus) -> Case:
    """Text of an experiment, or of a study, which is only checked."""
    if chance.random() < 0.3:
        path, _label = studies.find(chance.choice(studies.names()))
        return Case([["check", "study.yaml", *_flags(chance)]], {"study.yaml": _mutated(chance, path.read_text())})
    name = chance.choice(("small.yaml", "one.yaml", "machine.yaml", "text.yaml"))
    files = inputs("links.yaml", "w.txt") | {name: _mutated(chance, FILES[name])}
    return Case(commands(chance, name), files)


@generator("workload-file", 4)
def workload_file(chance: Random, _: Corpus) -> Case:
    """ASTRA-sim's text workloads."""
    return Case(commands(chance, "text.yaml"), inputs("text.yaml") | {"w.txt": _mutated(chance, FILES["w.txt"])})


@generator("sweep-file", 4)
def sweep_file(chance: Random, _: Corpus) -> Case:
    """Sweeps, with a table or without."""
    name = chance.choice(("space.sweep.yaml", "training.sweep.yaml"))
    files = inputs("small.yaml", "one.yaml") | {name: _mutated(chance, FILES[name])}
    out = chance.choice(([], [], ["--out", "t.parquet"], ["--out", "t.csv"]))
    return Case([["sweep", name, "--threads", "1", *out, *_flags(chance)]], files)


@generator("figure-file", 3)
def figure_file(chance: Random, _: Corpus) -> Case:
    """Figures."""
    name = chance.choice([name for name in FILES if name.endswith(".figure.yaml")])
    files = inputs("small.yaml", "one.yaml", "space.sweep.yaml") | {name: _mutated(chance, FILES[name])}
    return Case([["figure", name, "--threads", "1", *_flags(chance)]], files)


@generator("topology-file", 10)
def topology_file(chance: Random, _: Corpus) -> Case:
    """Topologies in every format: shown, drawn, or with a collective on them."""
    name = chance.choice(("links.yaml", "matrix.txt", "nccl.xml", "tree.topo"))
    files = {name: _mutated(chance, FILES[name])}
    if chance.random() < 0.3:
        line = ["collective", "all-reduce", "--size", "64KiB", "--topology-file", name, *_flags(chance)]
        return Case([line], files)
    drawn = ["--svg", "t.svg"] if chance.random() < 0.3 else []
    return Case([["topology", "show", name, *drawn, *_flags(chance)]], files)


@generator("traffic-file", 5)
def traffic_file(chance: Random, _: Corpus) -> Case:
    """Connection matrices and distributions of sizes, and the experiment and the tree that they are of."""
    names = ("traffic.yaml", "tree.topo", "flows.cm", "given.cm", "points.csv")
    damaged = chance.choice(names)
    files = inputs(*names) | {damaged: _mutated(chance, FILES[damaged])}
    line = (
        ["run", "traffic.yaml", *_flags(chance)]
        if chance.random() < 0.3
        else ["check", "traffic.yaml", *_flags(chance)]
    )
    return Case([line], files)


@generator("kernel-table", 3)
def kernel_table(chance: Random, _: Corpus) -> Case:
    """Tables of measured kernels, and the experiment that takes times from them."""
    damaged = chance.choice(("kernels.csv", "kernels.csv", "compute.yaml"))
    files = inputs("kernels.csv", "compute.yaml") | {damaged: _mutated(chance, FILES[damaged])}
    return Case([[chance.choice(("run", "check")), "compute.yaml", *_flags(chance)]], files)


PLANS = {
    "plan.json": ("all-reduce", 4),
    "schedule.json": ("all-gather", 2),
    "plan.xml": ("all-reduce", 2),
    "mscclpp.json": ("all-gather", 2),
}
"""The plans of the corpus: what they implement, and for how many ranks."""


def _plan(chance: Random, name: str) -> bytes:
    """A damaged plan; of JSON, a document with other values half of the time."""
    if name.endswith(".json") and chance.random() < 0.6:
        return json.dumps(mutation.document(chance, json.loads(FILES[name]))).encode()
    return _mutated(chance, FILES[name])


@generator("schedule-file", 8)
def schedule_file(chance: Random, _: Corpus) -> Case:
    """Plans in every format, verified."""
    flags = _flags(chance)
    if chance.random() < 0.2:
        flags += ["--buffering", chance.choice(("eager", "rendezvous", "1", "3", "2147483647"))]
    if chance.random() < 0.3:
        return Case([["verify", "p.xml", *flags]], {"p.xml": _mutated(chance, RING.read_text())})
    name = chance.choice(list(PLANS))
    return Case([["verify", name, *flags]], {name: _plan(chance, name)})


@generator("plan-file", 8)
def plan_file(chance: Random, _: Corpus) -> Case:
    """Plans in every format, which run in the place of an algorithm, mostly where they fit."""
    name = chance.choice(list(PLANS))
    kind, ranks = PLANS[name]
    content = FILES[name].encode() if chance.random() < 0.5 else _plan(chance, name)
    fabrics = (f"Ring({ranks})", f"Switch({ranks})", f"FullyConnected({ranks})", "Ring(2)_Ring(2)", topology(chance))
    place = ["--topology", chance.choice(fabrics)]
    if chance.random() < 0.2:
        place = ["--machine", "dgx1v", "--gpus", f"0-{ranks - 1}"]
    flags = ["--backend", chance.choice(("analytical", "flow", "packet"))]
    for flag, values in (
        ("--endpoint", ("baseline", "ace", "switch-offload", "streams")),
        ("--chunk", ("1KiB", "7B", "64KiB")),
        ("--padding", ("none",)),
        ("--root", ("0", "1")),
        ("--set", ("collective.slices=3", "collective.lanes=one", "collective.algorithms={all-reduce: ring}")),
    ):
        if chance.random() < 0.15:
            flags += [flag, chance.choice(values)]
    line = ["collective", kind, "--size", chance.choice(("64KiB", "1MB", "999B", "1B")), *place, "--plan", name]
    return Case([[*line, *flags, *_flags(chance)]], {name: content})


@generator("export", 5)
def export(chance: Random, _: Corpus) -> Case:
    """Algorithms that are written down, verified and run again."""
    kind, algorithm = chance.choice(KINDS), chance.choice(ALGORITHMS)
    place, flags = ["--topology", topology(chance)], list[str]()
    if chance.random() < 0.5:
        place = ["--ranks", chance.choice(("1", "2", "3", "4", "7", "2x3", "4x", "0", "1x1x2", "9999999"))]
        flags = _flags(chance)  # a document with the plan of a large fabric is more than is kept of an output
    form = chance.choice(("plan", "plan", "msccl-xml", "mscclpp-json"))
    line = ["export", kind, "--algorithm", algorithm, *place, "--format", form]
    if chance.random() < 0.7:
        line += ["--size", chance.choice(("1KiB", "1MB", "7B"))]
    if chance.random() < 0.2:
        line += ["--set", f"collective.slices={chance.choice((1, 2, 7))}"]
    written = "w.xml" if form == "msccl-xml" else "w.json"
    run = ["collective", kind, "--size", "64KiB", "--topology", chance.choice(("Ring(4)", "Switch(3)"))]
    checks = [["verify", written, "--json"], [*run, "--plan", written, "--json"]]
    return Case([[*line, "-o", written, *flags], *checks])


@generator("measured-table", 2)
def measured_table(chance: Random, _: Corpus) -> Case:
    """What nccl-tests prints, and CSV."""
    name = chance.choice(("measured.log", "measured.csv"))
    machine = chance.choice(("dgx-a100", "dgx-h100(nodes=2)", "dgx1v"))
    line = ["calibrate", name, "--machine", machine, *_flags(chance)]
    return Case([line], {name: _mutated(chance, FILES[name])})


@generator("constants-file", 3)
def constants_file(chance: Random, corpus: Corpus) -> Case:
    """Constants of the software model."""
    text = (corpus.folder / "inputs/mine.yaml").read_text()
    line = ["bench", "all-reduce", "--machine", "dgx-a100", "--software", "mine.yaml", "--sizes", "1KiB:1GiB:x16"]
    return Case([[*line, *_flags(chance)]], {"mine.yaml": _mutated(chance, text)})
