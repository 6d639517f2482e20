"""What was filled in: every field that was left to its default, and every constant that was fitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from syncline.schema.experiment import (
    DEFAULT_CHUNK,
    AceEndpoint,
    Collective,
    Experiment,
    IdealEndpoint,
    Npu,
    Training,
)
from syncline.schema.load import Variant

UNSAID = frozenset({"name", "description", "calibration", "output"})
"""Sections whose defaults change no result."""


def of(variants: Iterable[Variant]) -> list[str]:
    """The assumptions of all variants, each once and with the variants it is about unless it is about all."""
    about: dict[str, list[str]] = {}
    count = 0
    for variant in variants:
        count += 1
        for line in dict.fromkeys(_of_one(variant.experiment)):
            about.setdefault(line, []).append(variant.name)
    return [line if len(names) == count else f"{line} ({', '.join(names)})" for line, names in about.items()]


def _of_one(experiment: Experiment) -> Iterator[str]:
    for path, calibration in experiment.calibration.items():
        if calibration.variants and experiment.name not in calibration.variants:
            continue
        note = f"; {calibration.note}" if calibration.note else ""
        yield f"{path} = {_value_at(experiment, path)}: fitted on {calibration.fitted_on}{note}"
    for index, dim in enumerate(experiment.topology.dims):
        text = experiment.model_dump(mode="json", include={"topology"})["topology"].split("_")[index]
        if dim.filled_in:
            yield f"topology dimension {index} = {text}: {', '.join(sorted(dim.filled_in))} by default"
    yield from _meant(experiment)
    dumped = experiment.model_dump(mode="json")
    for section in type(experiment).model_fields:
        value = getattr(experiment, section)
        if section in UNSAID or not isinstance(value, BaseModel):
            continue
        given = section in experiment.model_fields_set
        yield from _defaults(section, value, dumped[section], given=given, ignored=_without_effect(experiment, section))


def _meant(experiment: Experiment) -> Iterator[str]:
    """What the algorithm stands for, where its name does not say it all."""
    collective = experiment.collective
    if collective.algorithm == "auto":
        yield f"collective.algorithm = {experiment.composition} (auto)"
    if experiment.lanes != collective.lanes:
        yield f"collective.lanes = {experiment.lanes} ({collective.algorithm})"


def _without_effect(experiment: Experiment, section: str) -> frozenset[str]:
    """Fields that the experiment does not use."""
    if section == "collective" and experiment.lanes != experiment.collective.lanes:
        return frozenset({"lanes"})
    if experiment.is_training:
        return frozenset()
    if section == "training":
        return frozenset(Training.model_fields)
    if section != "npu":
        return frozenset()
    if isinstance(experiment.endpoint, IdealEndpoint):
        return frozenset(Npu.model_fields) - {"clock"}
    return frozenset({"peak"})


def _defaults(
    section: str, value: BaseModel, dumped: dict[str, Any], *, given: bool, ignored: frozenset[str]
) -> Iterator[str]:
    for name in type(value).model_fields:
        if name in ignored or (given and name in value.model_fields_set):
            continue
        shown = dumped[name]
        if isinstance(value, Collective) and name in ("chunk", "chunks"):
            if name == "chunk" and value.chunk is None and value.chunks is None:
                yield f"collective.chunk = {DEFAULT_CHUNK // 1024}KiB (default)"
            continue
        if shown is None:
            shown = _meaning_of_nothing(value, name)
        if isinstance(shown, bool):
            shown = "true" if shown else "false"
        yield f"{section}.{name} = {shown} (default)"


def _meaning_of_nothing(value: BaseModel, name: str) -> str:
    if isinstance(value, IdealEndpoint):
        return "one cycle of npu.clock"
    return "npu.clock" if isinstance(value, AceEndpoint) and name == "clock" else "auto"


def _value_at(experiment: Experiment, path: str) -> Any:
    value: Any = experiment.model_dump(mode="json")
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
