"""The studies that come with the package, and where an experiment, a sweep or a figure is found.

A study is an experiment (`NAME.yaml`), a sweep over experiments (`NAME.sweep.yaml`) or a figure of both
(`NAME.figure.yaml`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from syncline.base import inputs
from syncline.base.errors import command_line, did_you_mean, one_of

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
    return _find(experiment, "experiment", folder or Path())


def find_sweep(sweep: str, folder: Path | None = None) -> tuple[Path, str]:
    """The file of a sweep, given as a path or by name, and what to call it.

    Raises [`InputError`] if there is neither.
    """
    return _find(sweep, "sweep", folder or Path())


def find_figure(figure: str) -> tuple[Path, str]:
    """The file of a figure, given as a path or by name, and what to call it.

    Raises [`InputError`] if there is neither.
    """
    return _find(figure, "figure", Path())


KINDS: Final[dict[str, tuple[str, Callable[[], list[str]], str]]] = {
    "experiment": (".yaml", names, "run"),
    "sweep": (SWEEP_SUFFIX, sweeps, "sweep"),
    "figure": (FIGURE_SUFFIX, figures, "figure"),
}
"""The kinds of studies: how their files end, which ones come with the package, and the command that takes them."""


def accepted(what: str) -> str:
    """What can be given where a study of a kind is needed."""
    _, known, _ = KINDS[what]
    return f"the path of {_article(what)} file, or a study: {one_of(known())}"


def _find(given: str, what: str, folder: Path) -> tuple[Path, str]:
    suffix, known, _ = KINDS[what]
    packaged = given.removesuffix(suffix)
    path = inputs.given(given) if folder == Path() else folder / given
    if given and _exists(path):
        return path, given
    if packaged in known():
        return FOLDER / f"{packaged}{suffix}", f"{packaged}{suffix}"
    message = f"there is no such file and no study of this name{did_you_mean(packaged, known())}"
    for other, (its_suffix, its_own, command) in KINDS.items():
        name = given.removesuffix(its_suffix)
        if name in its_own():
            message = f"this is {_article(other)}: syncline {command} {name} runs it"
    raise command_line(what.upper(), given, message, accepted(what))


def _article(what: str) -> str:
    return f"an {what}" if what == "experiment" else f"a {what}"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
