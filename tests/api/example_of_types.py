"""What a program with types looks like; lines marked as wrong are refused by a type checker."""

from __future__ import annotations

import syncline
from syncline.sections.typed import AceEndpoint

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
cancel = syncline.Cancellation()
found: syncline.Sweep = syncline.sweep(
    {"name": "s", "base": experiment, "axes": {"fold": ["on", "off"]}}, cancel=cancel
)
varied: tuple[str, ...] = found.axes
shape: str = len(found)  # wrong
times: list[float] = [row.time_s for row in syncline.bench("all-reduce", "dgx-h100", sizes=[1024, "1MiB"]).rows]
calibration: syncline.Calibration = syncline.calibrate("all_reduce.log", "dgx-a100")
constants: dict[str, float] = calibration.constants
rate: float = syncline.trees("dgx1v", gpus=[0, 1, 3], root="auto").rate_bytes_per_s
root = syncline.trees("dgx1v", root="none")  # wrong
compared = syncline.trees("dgx1v", compare=True, endpoint="streams", cancel=syncline.Cancellation()).comparison
slowest: list[float | None] = [] if compared is None else [row.time_s for row in compared]
swept: syncline.TreesSweep = syncline.trees_sweep("dgx1v", sizes=[3, 4], every=True, threads=1)
refused: list[str] = [each.gpus for each in swept.failed]
rooted = syncline.trees_sweep("dgx1v", root=3)  # wrong
over_pcie: int = syncline.trees("dgx1v", links="hybrid", switch_latency="100us").parts[1].size_bytes
best: dict[str, object] | None = syncline.search("gpt.yaml", threads=2).best
drawing: bytes = syncline.figure("ace/fig11", progress=True).png
drawn: str = syncline.figure("ace/fig11").png  # wrong
fitting: dict[str, int] = syncline.fit(experiment, every=True).fitting
detected: tuple[int, ...] = syncline.detect().gpus
plan: dict[str, object] | None = syncline.export("all-reduce", algorithm="ring", ranks=8).plan
xml: str = syncline.export("all-reduce", algorithm="ring", machine="dgx1v", format="msccl-xml", instances=2).text
unnamed = syncline.export("all-reduce", ranks=8)  # wrong
written: syncline.ExportedTrace = syncline.export_trace(experiment, out="traces", variant="Ideal")
traces: int = len(written.files) + written.size_bytes
nowhere = syncline.export_trace(experiment)  # wrong
imported: syncline.ImportedTrace = syncline.import_trace("chakra", written.prefix, like=experiment)
seconds = syncline.run(imported).systems["mine"].iteration_time_s
unread = syncline.import_trace("chakra")  # wrong
reproduced: list[bool] = [each.inside for each in syncline.reproduce(sources="tutorial").findings]
claimed = syncline.reproduce(4)  # wrong
measured: syncline.Measurement = syncline.measure(["gpt2", "tiny.yaml"], tensor=2, out="kernels.csv", cancel=cancel)
longest: float = max(row.time_s for row in measured.measured)
halved = syncline.measure("gpt2", tensor=0.5)  # wrong
markdown: str = syncline.reproduce(experiments=True, memory_limit="8GB", cancel=cancel).page()
token = syncline.run(experiment, cancel=True)  # wrong
late_token = syncline.sweep("s.yaml", cancelled=cancel)  # wrong
try:
    syncline.collective("all-reduce", "64MB", machine="dgx1v", cancel=cancel)
except syncline.CancelledError as cancelled:
    finished: list[str] = [] if cancelled.run is None else cancelled.run.finished


def hear(standing: syncline.Standing) -> None:
    """Hears how far simulations are."""
    rates: list[float] = [each.events / standing.elapsed_s for each in standing.underway]
    known: int = standing.expected_events  # wrong
    print(rates, known)


syncline.run(experiment, progress=hear)
