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
    from syncline.api.collectives import Collective, collective
    from syncline.api.differences import Difference, diff
    from syncline.api.experiment import Experiment
    from syncline.api.explanations import Explanation, explain
    from syncline.api.runs import Run, read
    from syncline.api.schedules import Verification, verify
    from syncline.api.study import Check, Study, check, load, run
    from syncline.api.systems import System
    from syncline.api.tables import Table
    from syncline.cancelling import Cancellation
    from syncline.errors import CancelledError, InputError, Problem, SimulationFailedError
    from syncline.runner import Standing, Underway

    __version__: str

__all__ = [
    "Cancellation",
    "CancelledError",
    "Check",
    "Collective",
    "Difference",
    "Experiment",
    "Explanation",
    "InputError",
    "Problem",
    "Run",
    "SimulationFailedError",
    "Standing",
    "Study",
    "System",
    "Table",
    "Underway",
    "Verification",
    "__version__",
    "check",
    "collective",
    "diff",
    "explain",
    "load",
    "read",
    "run",
    "verify",
]

_MODULES = {
    "Cancellation": "cancelling",
    "CancelledError": "errors",
    "Check": "api.study",
    "Collective": "api.collectives",
    "Difference": "api.differences",
    "Experiment": "api.experiment",
    "Explanation": "api.explanations",
    "InputError": "errors",
    "Problem": "errors",
    "Run": "api.runs",
    "SimulationFailedError": "errors",
    "Standing": "runner",
    "Study": "api.study",
    "System": "api.systems",
    "Table": "api.tables",
    "Underway": "runner",
    "Verification": "api.schedules",
    "check": "api.study",
    "collective": "api.collectives",
    "diff": "api.differences",
    "explain": "api.explanations",
    "load": "api.study",
    "read": "api.runs",
    "run": "api.study",
    "verify": "api.schedules",
}
"""The module of each public name; none of them is the name of a module of the package."""


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
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
