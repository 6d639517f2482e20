"""Sections of an existing experiment for an imported workload: its fabric, NPU, network, endpoint and collectives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from syncline.base import document, inputs
from syncline.base.document import Origin
from syncline.base.errors import InputError, Problem
from syncline.importers.output import Asked, Imported, Like, topology_size

_OF_THE_WORKLOAD: Final = (
    "name",
    "description",
    "workload",
    "jobs",
    "gpus",
    "training",
    "parallel",
    "groups",
    "calibration",
    "variants",
    "baseline",
)
_FILES: Final = (("topology", "file"), ("collective", "plan"), ("npu", "compute", "table"))
"""Fields that name files relative to the experiment."""
_OF_KERNELS: Final = ("peak", "compute")
"""What says of an NPU how long kernels take, which recorded times do not depend on."""


def read(like: Path) -> Like:
    """The experiment in a file. Raises [`InputError`]."""
    label = str(like)
    path = inputs.given(like)
    values = document.plain(document.read(document.read_text(path, label), label))
    return _checked(label, inputs.folder_of(path).absolute(), values)


def of_values(given: Mapping[str, object], label: str) -> Like:
    """The same of what a file would say; relative paths start in the working directory. Raises [`InputError`]."""
    return _checked(label, Path().absolute(), document.plain(document.of_value(given, Origin(label, None))))


def _checked(label: str, folder: Path, values: object) -> Like:
    if not isinstance(values, dict) or "topology" not in values:
        message = "this is no experiment with a topology of its own"
        raise InputError([Problem(label, None, "topology", None, message, "an experiment file")])
    if "variants" in values:
        message = "an experiment with variants is several"
        raise InputError([Problem(label, None, "variants", None, message, "an experiment without variants")])
    return Like(label, folder, values)


def dimensions(like: Like) -> list[int]:
    """NPUs along each dimension of an experiment's topology; none if that is no product, or not legal, which is said
    when the experiment is read as a whole.
    """
    topology = like.values["topology"]
    try:
        return topology_size(topology)[1] if isinstance(topology, str) else []
    except InputError:
        return []


def take(imported: Imported, like: Like) -> None:
    """Gives an import the sections of an experiment in place of its own."""
    values = like.values
    sections: dict[str, Any] = {k: v for k, v in values.items() if k not in _OF_THE_WORKLOAD}
    for *path, key in _FILES:
        of: Any = sections
        for section in path:
            of = of.get(section) if isinstance(of, dict) else None
        if isinstance(of, dict) and isinstance(of.get(key), str):
            of[key] = str(like.folder / of[key])
    training = values.get("training")
    if isinstance(training, dict):
        kept = {key: training[key] for key in ("stragglers", "tail") if key in training}
        imported.sections["training"] = {**imported.sections.get("training", {}), **kept}
    graph: dict[str, Any] = imported.graph or {"families": {}, "classes": {}}
    npu = sections.get("npu")
    if isinstance(npu, dict) and not any("compute" in n for of in graph["classes"].values() for n in of["nodes"]):
        sections["npu"] = {key: value for key, value in npu.items() if key not in _OF_KERNELS}
        imported.assumptions += [
            f"npu.{key} of {like.label} has no effect: times are recorded" for key in _OF_KERNELS if key in npu
        ]
    parallel = values.get("parallel")
    has_own = any("collective" in family for family in graph["families"].values())
    if isinstance(parallel, dict) and parallel.get("collectives") and not has_own:
        message = f"parallel.collectives of {like.label} has no effect: all communicators have what collective says"
        imported.assumptions.append(message)
    imported.topology = sections.pop("topology")
    imported.sections = {**sections, "training": imported.sections.get("training", {})}
    imported.assumptions.append(f"all but the workload is that of {like.label}")


def asked_dimensions(asked: Asked) -> list[int]:
    """NPUs along each dimension of the topology that an import is for; none if that is no product. Raises
    [`InputError`] if what was asked for is no topology.
    """
    if asked.topology is not None:
        return topology_size(asked.topology)[1]
    if asked.like is None:
        return []
    return dimensions(asked.like)
