"""Syncline: what a training iteration costs on a fabric, and what its communication waits for.

    import syncline

    run = syncline.run("ace/resnet50", set={"training.iterations": 4})
    run.systems["ACE"].iteration_time_s

The package describes experiments, runs them on the engine (`syncline._core`) and reports on them. It computes no
physics itself. Importing it is cheap; everything heavy is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncline.api.benchmarks import Bench, BenchRow, bench
    from syncline.api.calibrations import Calibration, calibrate
    from syncline.api.collectives import Collective, collective
    from syncline.api.detection import Detection, detect
    from syncline.api.differences import Difference, diff
    from syncline.api.drawing import Figure, figure
    from syncline.api.experiment import Experiment
    from syncline.api.explanations import Explanation, explain
    from syncline.api.exporting import Export, export
    from syncline.api.fitting import Fit, fit
    from syncline.api.measuring import Measurement, measure
    from syncline.api.reproducing import Reproduction, reproduce
    from syncline.api.runs import Run, read
    from syncline.api.schedules import Verification, verify
    from syncline.api.searching import Search, search
    from syncline.api.study import Check, Study, check, load, run
    from syncline.api.sweeping import Sweep, sweep
    from syncline.api.systems import System
    from syncline.api.tables import Table
    from syncline.api.trace_exports import ExportedTrace, export_trace
    from syncline.api.trace_imports import ImportedTrace, import_trace
    from syncline.api.tree_packing import Trees, trees
    from syncline.api.tree_sweeping import TreesSweep, trees_sweep
    from syncline.cancelling import Cancellation
    from syncline.errors import CancelledError, InputError, Problem, SimulationFailedError
    from syncline.runner import Standing, Underway

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
    "Bench": "api.benchmarks",
    "BenchRow": "api.benchmarks",
    "Calibration": "api.calibrations",
    "Cancellation": "cancelling",
    "CancelledError": "errors",
    "Check": "api.study",
    "Collective": "api.collectives",
    "Detection": "api.detection",
    "Difference": "api.differences",
    "Experiment": "api.experiment",
    "Explanation": "api.explanations",
    "Export": "api.exporting",
    "ExportedTrace": "api.trace_exports",
    "Figure": "api.drawing",
    "Fit": "api.fitting",
    "ImportedTrace": "api.trace_imports",
    "InputError": "errors",
    "Measurement": "api.measuring",
    "Problem": "errors",
    "Reproduction": "api.reproducing",
    "Run": "api.runs",
    "Search": "api.searching",
    "SimulationFailedError": "errors",
    "Standing": "runner",
    "Study": "api.study",
    "Sweep": "api.sweeping",
    "System": "api.systems",
    "Table": "api.tables",
    "Trees": "api.tree_packing",
    "TreesSweep": "api.tree_sweeping",
    "Underway": "runner",
    "Verification": "api.schedules",
    "bench": "api.benchmarks",
    "calibrate": "api.calibrations",
    "check": "api.study",
    "collective": "api.collectives",
    "detect": "api.detection",
    "diff": "api.differences",
    "explain": "api.explanations",
    "export": "api.exporting",
    "export_trace": "api.trace_exports",
    "figure": "api.drawing",
    "fit": "api.fitting",
    "import_trace": "api.trace_imports",
    "load": "api.study",
    "measure": "api.measuring",
    "read": "api.runs",
    "reproduce": "api.reproducing",
    "run": "api.study",
    "search": "api.searching",
    "sweep": "api.sweeping",
    "trees": "api.tree_packing",
    "trees_sweep": "api.tree_sweeping",
    "verify": "api.schedules",
}
"""The module of each public name; none of them is the name of a module of the package."""

_RENAMED: dict[str, tuple[str, str]] = {}
"""Old names, with the new one and the version in which the old one no longer works (`syncline.deprecations`)."""


def __getattr__(name: str) -> Any:
    """Looks public names up when they are asked for."""
    if name in _MODULES:
        from importlib import import_module

        found = getattr(import_module(f"syncline.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
    if name == "__version__":  # package metadata is slow to read
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("syncline")
        except PackageNotFoundError:  # a checkout on the path, which was not installed
            from syncline import _core

            return _core.version()
    if name in _RENAMED:
        from syncline.deprecations import Renamed, warn

        renamed = Renamed(*_RENAMED[name])
        warn("the name", f"syncline.{name}", renamed)
        return __getattr__(renamed.new)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
