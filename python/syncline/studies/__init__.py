"""The studies that come with the package, and where an experiment is found."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from syncline.errors import command_line, did_you_mean, one_of

FOLDER: Final = Path(__file__).parent


def names() -> list[str]:
    """The packaged studies, such as `ace/resnet50`."""
    return sorted(p.relative_to(FOLDER).with_suffix("").as_posix() for p in FOLDER.glob("*/*.yaml"))


def find(experiment: str) -> tuple[Path, str]:
    """The file of an experiment, given as a path or as the name of a study, and what to call it.

    Raises [`InputError`] if there is neither.
    """
    packaged = experiment.removesuffix(".yaml")
    path = Path(experiment)
    if _exists(path):
        return path, experiment
    if packaged in names():
        return FOLDER / f"{packaged}.yaml", f"{packaged}.yaml"
    accepted = f"the path of an experiment file, or a study: {one_of(names())}"
    message = f"there is no such file and no study of this name{did_you_mean(packaged, names())}"
    raise command_line("EXPERIMENT", experiment, message, accepted)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
