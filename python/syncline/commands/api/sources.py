"""What an experiment may be given as, and how it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from syncline.base import document
from syncline.base.document import Origin, Scalar
from syncline.base.errors import InputError
from syncline.commands.api import files
from syncline.commands.api.arguments import ARGUMENTS, elsewhere
from syncline.experiment import load as experiments
from syncline.experiment import packaged as studies
from syncline.experiment.load import Study
from syncline.experiment.merge import Override
from syncline.sections.typed import Experiment

Source: TypeAlias = "str | os.PathLike[str] | Mapping[str, object] | Experiment"
"""A file's path, a study's name, what a file would say as a mapping, or an [`Experiment`]."""

LABEL: Final = "experiment"
"""What stands in problems in place of the file of an experiment that is given as values."""
NAME: Final = "experiment"
"""What an experiment is called that is given as values and has no name."""
ACCEPTED: Final = "a path, the name of a study, a mapping such as a file has, or an Experiment"


def read_file(given: str, overrides: Sequence[Override], forced: Sequence[Override]) -> Study:
    """The study of a file, or of the package. Raises [`InputError`] with everything that is wrong."""
    path, label = studies.find(given)
    return experiments.load_file(path, label, overrides, forced)


def read(source: object, overrides: Sequence[Override], forced: Sequence[Override]) -> Study:
    """The study that a program means. Raises [`InputError`] with everything that is wrong with it.

    Relative paths in a file start beside the file, those in a mapping where the process is.
    """
    if isinstance(source, Experiment):
        source = source.as_mapping()
    if isinstance(source, Mapping):
        root = document.of_value(source, Origin(LABEL, None))
        if isinstance(root, document.Mapping):
            root.entries.setdefault("name", Scalar(NAME, Origin(LABEL, None, "name")))
        return experiments.load(root, LABEL, Path(), overrides, forced)
    given = files.path_of(source, "source", "an experiment", ACCEPTED)
    try:
        path, label = studies.find(given)
    except InputError as error:
        raise elsewhere(error, ARGUMENTS.place, ARGUMENTS.name("source")) from None
    return experiments.load_file(path, label, overrides, forced)
