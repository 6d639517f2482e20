"""What a program with types looks like; lines marked as wrong are refused by a type checker."""

from __future__ import annotations

import syncline
from syncline.api.experiment import AceEndpoint

experiment = syncline.Experiment(
    "mine",
    topology="Ring(4, rate=200GB/s)_Torus(8, 4)",
    npu={"peak": "120TFLOP/s", "sms": 80},
    workload={"model": "resnet50", "batch": 32},
    network={"backend": "flow"},
    collective={"algorithm": "ace-4-phase", "chunk": "64KiB"},
    variants=[{"name": "Engine", "endpoint": AceEndpoint(kind="ace", fsms=8)}, {"name": "Ideal", "endpoint": "ideal"}],
)
run = syncline.run(experiment, set={"training.iterations": 4}, threads=2, progress=print)
system: syncline.System = run.systems["Engine"]
seconds: float = system.iteration_time_s
share: float = system.speedup  # wrong
rows: int = len(system.tables["layers"])
name: int = system.name  # wrong
again: syncline.Run = syncline.read(run.save("runs/mine"))
errors: list[str] = []
try:
    syncline.check({"topology": "Ring(4)"}, backend="flow")
except syncline.InputError as error:
    errors = [problem.message for problem in error.problems]
fabric = syncline.Experiment("mine", topology=8)  # wrong
engine = AceEndpoint(kind="ace", fsmss=8)  # wrong
late = syncline.run(experiment, iterations=4)  # wrong
misspelt = system.iteration_time  # wrong
