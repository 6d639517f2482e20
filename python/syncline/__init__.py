"""Syncline: what a training iteration costs on a fabric, and what its communication waits for.

The package describes experiments, runs them on the engine (`syncline._core`) and reports on them. It
computes no physics itself. Importing it is cheap; everything heavy is imported where it is used.
"""

from __future__ import annotations

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """Looks the version up when it is asked for: package metadata is slow to read."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("syncline")
        except PackageNotFoundError:  # a checkout on the path, which was not installed
            from syncline import _core

            return _core.version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
