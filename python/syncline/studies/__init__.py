"""The studies that come with the package, and where an experiment, a sweep or a figure is found.

A study is an experiment (`NAME.yaml`), a sweep over experiments (`NAME.sweep.yaml`) or a figure of both
(`NAME.figure.yaml`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from syncline.errors import command_line, did_you_mean, one_of

FOLDER: Final = Path(__file__).parent
SWEEP_SUFFIX: Final = ".sweep.yaml"
FIGURE_SUFFIX: Final = ".figure.yaml"


def names() -> list[str]:
    """The packaged experiments, such as `ace/resnet50`."""
    files = (path for path in FOLDER.glob("*/*.yaml") if not path.name.endswith((SWEEP_SUFFIX, FIGURE_SUFFIX)))
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in files)


def sweeps() -> list[str]:
    """The packaged sweeps, such as `ace/design-space`."""
    return _with_suffix(SWEEP_SUFFIX)


def figures() -> list[str]:
    """The packaged figures, such as `ace/fig9a`."""
    return _with_suffix(FIGURE_SUFFIX)


def _with_suffix(suffix: str) -> list[str]:
    files = FOLDER.glob(f"*/*{suffix}")
    return sorted(path.relative_to(FOLDER).as_posix().removesuffix(suffix) for path in files)


def find(experiment: str, folder: Path | None = None) -> tuple[Path, str]:
    """The file of an experiment, given as a path or as the name of a study, and what to call it.

    Relative paths start at `folder`, or where the command runs. Raises [`InputError`] if there is neither.
    """
    if experiment in sweeps():
        raise command_line("EXPERIMENT", experiment, f"this is a sweep: syncline sweep {experiment} runs it")
    return _find(experiment, "experiment", names(), ".yaml", folder or Path())


def find_sweep(sweep: str, folder: Path | None = None) -> tuple[Path, str]:
    """The file of a sweep, given as a path or by name, and what to call it.

    Raises [`InputError`] if there is neither.
    """
    if sweep in names():
        raise command_line("SWEEP", sweep, f"this is an experiment: syncline run {sweep} runs it", one_of(sweeps()))
    return _find(sweep, "sweep", sweeps(), SWEEP_SUFFIX, folder or Path())


def find_figure(figure: str) -> tuple[Path, str]:
    """The file of a figure, given as a path or by name, and what to call it.

    Raises [`InputError`] if there is neither.
    """
    return _find(figure, "figure", figures(), FIGURE_SUFFIX, Path())


def _find(given: str, what: str, known: Sequence[str], suffix: str, folder: Path) -> tuple[Path, str]:
    packaged = given.removesuffix(suffix)
    path = folder / given
    if _exists(path):
        return path, given
    if packaged in known:
        return FOLDER / f"{packaged}{suffix}", f"{packaged}{suffix}"
    accepted = f"the path of {'an' if what == 'experiment' else 'a'} {what} file, or a study: {one_of(known)}"
    message = f"there is no such file and no study of this name{did_you_mean(packaged, known)}"
    raise command_line(what.upper(), given, message, accepted)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
