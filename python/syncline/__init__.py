"""Syncline: what a training iteration costs on a fabric, and what its communication waits for.

    import syncline

    run = syncline.run("ace/resnet50", set={"training.iterations": 4})
    run.systems["ACE"].iteration_time_s

The package describes experiments, runs them on the engine (`syncline.core._core`) and reports on them. It computes no
physics itself. Importing it is cheap; everything heavy is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline import _version

if TYPE_CHECKING:
    from syncline.base.errors import CancelledError, InputError, Problem, SimulationFailedError
    from syncline.base.progress import Standing, Underway
    from syncline.commands.api.benchmarks import Bench, BenchRow, bench
    from syncline.commands.api.calibrations import Calibration, calibrate
    from syncline.commands.api.collectives import Collective, collective
    from syncline.commands.api.detection import Detection, detect
    from syncline.commands.api.differences import Difference, diff
    from syncline.commands.api.drawing import Figure, figure
    from syncline.commands.api.explanations import Explanation, explain
    from syncline.commands.api.exporting import Export, export
    from syncline.commands.api.fitting import Fit, fit
    from syncline.commands.api.measuring import Measurement, measure
    from syncline.commands.api.reproducing import Reproduction, reproduce
    from syncline.commands.api.runs import Run, read
    from syncline.commands.api.schedules import Verification, verify
    from syncline.commands.api.searching import Search, search
    from syncline.commands.api.study import Check, Study, check, load, run
    from syncline.commands.api.sweeping import Sweep, sweep
    from syncline.commands.api.systems import System
    from syncline.commands.api.tables import Table
    from syncline.commands.api.trace_exports import ExportedTrace, export_trace
    from syncline.commands.api.trace_imports import ImportedTrace, import_trace
    from syncline.commands.api.tree_packing import Trees, trees
    from syncline.commands.api.tree_sweeping import TreesSweep, trees_sweep
    from syncline.core.cancelling import Cancellation
    from syncline.sections.typed import Experiment

    __version__: str

__all__ = [
    "Bench",
    "BenchRow",
    "Calibration",
    "Cancellation",
    "CancelledError",
    "Check",
    "Collective",
    "Detection",
    "Difference",
    "Experiment",
    "Explanation",
    "Export",
    "ExportedTrace",
    "Figure",
    "Fit",
    "ImportedTrace",
    "InputError",
    "Measurement",
    "Problem",
    "Reproduction",
    "Run",
    "Search",
    "SimulationFailedError",
    "Standing",
    "Study",
    "Sweep",
    "System",
    "Table",
    "Trees",
    "TreesSweep",
    "Underway",
    "Verification",
    "__version__",
    "bench",
    "calibrate",
    "check",
    "collective",
    "detect",
    "diff",
    "explain",
    "export",
    "export_trace",
    "figure",
    "fit",
    "import_trace",
    "load",
    "measure",
    "read",
    "reproduce",
    "run",
    "search",
    "sweep",
    "trees",
    "trees_sweep",
    "verify",
]

_MODULES = {
    "Bench": "commands.api.benchmarks",
    "BenchRow": "commands.api.benchmarks",
    "Calibration": "commands.api.calibrations",
    "Cancellation": "core.cancelling",
    "CancelledError": "base.errors",
    "Check": "commands.api.study",
    "Collective": "commands.api.collectives",
    "Detection": "commands.api.detection",
    "Difference": "commands.api.differences",
    "Experiment": "sections.typed",
    "Explanation": "commands.api.explanations",
    "Export": "commands.api.exporting",
    "ExportedTrace": "commands.api.trace_exports",
    "Figure": "commands.api.drawing",
    "Fit": "commands.api.fitting",
    "ImportedTrace": "commands.api.trace_imports",
    "InputError": "base.errors",
    "Measurement": "commands.api.measuring",
    "Problem": "base.errors",
    "Reproduction": "commands.api.reproducing",
    "Run": "commands.api.runs",
    "Search": "commands.api.searching",
    "SimulationFailedError": "base.errors",
    "Standing": "base.progress",
    "Study": "commands.api.study",
    "Sweep": "commands.api.sweeping",
    "System": "commands.api.systems",
    "Table": "commands.api.tables",
    "Trees": "commands.api.tree_packing",
    "TreesSweep": "commands.api.tree_sweeping",
    "Underway": "base.progress",
    "Verification": "commands.api.schedules",
    "bench": "commands.api.benchmarks",
    "calibrate": "commands.api.calibrations",
    "check": "commands.api.study",
    "collective": "commands.api.collectives",
    "detect": "commands.api.detection",
    "diff": "commands.api.differences",
    "explain": "commands.api.explanations",
    "export": "commands.api.exporting",
    "export_trace": "commands.api.trace_exports",
    "figure": "commands.api.drawing",
    "fit": "commands.api.fitting",
    "import_trace": "commands.api.trace_imports",
    "load": "commands.api.study",
    "measure": "commands.api.measuring",
    "read": "commands.api.runs",
    "reproduce": "commands.api.reproducing",
    "run": "commands.api.study",
    "search": "commands.api.searching",
    "sweep": "commands.api.sweeping",
    "trees": "commands.api.tree_packing",
    "trees_sweep": "commands.api.tree_sweeping",
    "verify": "commands.api.schedules",
}
"""The module of each public name; none of them is the name of a module of the package."""


def __getattr__(name: str) -> Any:
    """Looks public names up when they are asked for."""
    if name in _MODULES:
        from importlib import import_module

        found = getattr(import_module(f"syncline.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
    if name == "__version__":
        return _version.version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
