"""What every command is given in tests, and the files that this takes."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from support.experiments import SMALL
from support.topologies import dgx1_xml
from syncline.commands import cli

SHORT = SMALL.replace("resnet50", "resnet18") + "training: {iterations: 1}\nnetwork: analytical\n"
DIVIDED = "name: gpt\ntopology: dgx-a100\nworkload: {model: gpt2, global_batch: 16, parameters: {vocabulary: 50304}}\n"
SCHEDULE = Path(__file__).parents[2] / "examples/plans/ring4.xml"

EXAMPLES: dict[str, list[str]] = {
    "run": ["short.yaml"],
    "check": ["short.yaml"],
    "fit": ["divided.yaml"],
    "search": ["search.yaml", "--threads", "1"],
    "explain": ["run", "--no-what-if"],
    "diff": ["run", "run"],
    "sweep": ["short.sweep.yaml"],
    "figure": ["short.figure.yaml"],
    "collective": ["all-reduce", "--size", "1MB", "--topology", "Ring(4)"],
    "bench": ["all-reduce", "--machine", "dgx-a100", "--sizes", "1MiB"],
    "calibrate": ["measured.csv", "--machine", "dgx-a100"],
    "measure": ["gpt2", "--shapes", "shapes.json"],
    "reproduce": ["tutorial"],
    "trees": ["--machine", "dgx1v", "--gpus", "1,4,5,6"],
    "verify": [str(SCHEDULE)],
    "export": ["all-reduce", "--algorithm", "ring", "--ranks", "4"],
    "export-trace": ["short.yaml"],
    "import": ["fx", "module.json"],
    "report": ["run"],
    "schema": ["figure"],
    "init": ["mine"],
    "list": ["machines"],
    "completion": ["bash"],
    "topology show": ["Ring(4)"],
    "topology detect": ["--nccl-file", "nccl.xml"],
}
"""What each command is given. A command that is missing here fails the test."""


def write(folder: Path) -> None:
    """Writes the files, and the directory of a run."""
    (folder / "short.yaml").write_text(SHORT)
    (folder / "divided.yaml").write_text(DIVIDED)
    (folder / "search.yaml").write_text(f"{DIVIDED}network: flow\nsearch: {{tensor: [1, 2], simulate: 1}}\n")
    (folder / "short.sweep.yaml").write_text("name: s\nbase: short.yaml\naxes: {npu.sms: [40, 80]}\n")
    panel = "{kind: bars, title: t, x: npu.sms, y: iteration_time_s}"
    (folder / "short.figure.yaml").write_text(f"name: f\ntitle: t\nsweeps: [short.sweep.yaml]\npanels: [{panel}]\n")
    (folder / "measured.csv").write_text(
        "size_bytes,time_us\n1048576,60\n16777216,200\n268435456,2500\n1073741824,9700\n67108864,700\n"
    )
    operator = {"name": "fc", "op": "linear", "layer": "fc", "inputs": [[2, 4]], "output": [2, 4], "weight": [4, 4]}
    module = {"format": "syncline-fx", "version": 1, "operators": [{**operator, "parameters": 16, "element": 4}]}
    (folder / "module.json").write_text(json.dumps(module))
    (folder / "nccl.xml").write_text(dgx1_xml())
    with contextlib.chdir(folder):
        assert cli.run(["run", "short.yaml", "--out", "run", "-q"]) == 0
