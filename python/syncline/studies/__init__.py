"""The studies that come with the package, and where an experiment or a sweep is found.

A study is an experiment (`NAME.yaml`) or a sweep over experiments (`NAME.sweep.yaml`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from syncline.errors import command_line, did_you_mean, one_of

FOLDER: Final = Path(__file__).parent
SWEEP_SUFFIX: Final = ".sweep.yaml"


def names() -> list[str]:
    """The packaged experiments, such as `ace/resnet50`."""
    files = (path for path in FOLDER.glob("*/*.yaml") if not path.name.endswith(SWEEP_SUFFIX))
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in files)


def sweeps() -> list[str]:
    """The packaged sweeps, such as `ace/design-space`."""
    files = FOLDER.glob(f"*/*{SWEEP_SUFFIX}")
    return sorted(path.relative_to(FOLDER).as_posix().removesuffix(SWEEP_SUFFIX) for path in files)


def find(experiment: str, folder: Path | None = None) -> tuple[Path, str]:
    """The file of an experiment, given as a path or as the name of a study, and what to call it.

    Relative paths start at `folder`, or where the command runs. Raises [`InputError`] if there is neither.
    """
    if experiment in sweeps():
        raise command_line("EXPERIMENT", experiment, f"this is a sweep: syncline sweep {experiment} runs it")
    return _find(experiment, "experiment", names(), ".yaml", folder or Path())


def find_sweep(sweep: str) -> tuple[Path, str]:
    """The file of a sweep, given as a path or by name, and what to call it.

    Raises [`InputError`] if there is neither.
    """
    if sweep in names():
        raise command_line("SWEEP", sweep, f"this is an experiment: syncline run {sweep} runs it", one_of(sweeps()))
    return _find(sweep, "sweep", sweeps(), SWEEP_SUFFIX, Path())


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
