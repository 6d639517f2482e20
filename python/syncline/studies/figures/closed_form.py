"""Rows of closed forms: formulas, evaluated for every case and every value of the parameters that vary.

A row has its parameters, with units as in the tables of sweeps, and what the formula gives. Its `base` is the model and
its `variant` the case.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from syncline.base import said
from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.engine.runs import PS_PER_S
from syncline.fabric.fields import QUANTITY_ERROR, Rate, Share, Size, SmallCount, TimeOrZero
from syncline.studies.figures.file import ClosedForm, FigureFile
from syncline.studies.reproduction import blink_theory
from syncline.studies.reproduction.step_model import StepModel, insertion_delay_s
from syncline.studies.sweeps import table
from syncline.studies.sweeps.table import Table

MAX_ROWS: Final = 10_000


class StepParameters(BaseModel):
    """Parameters of `all-reduce-steps`; `reproduce.step_model` has the formula."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    size: Size
    shape: Annotated[list[SmallCount], Field(min_length=1, max_length=8)]
    """NPUs along each dimension of the torus."""
    links: SmallCount
    link_rate: Rate
    efficiency: Share
    core_read: Rate
    step_latency: TimeOrZero
    cores: SmallCount


def _steps(given: StepParameters) -> dict[str, Any]:
    latency_s = given.step_latency / PS_PER_S
    model = StepModel(given.link_rate, given.links, float(given.efficiency), given.core_read, latency_s)
    spent = model.spent(given.size, given.shape, given.cores)
    return {
        "size_bytes": given.size,
        "shape": "x".join(str(n) for n in given.shape),
        "links": given.links,
        "link_rate_bytes_per_s": given.link_rate,
        "efficiency": float(given.efficiency),
        "core_read_bytes_per_s": given.core_read,
        "step_latency_s": latency_s,
        "cores": given.cores,
        "time_s": spent.total,
        "latency_s": spent.latency,
        "local_reads_s": spent.reads,
        "remote_writes_s": spent.network,
        "network_utilisation": model.utilisation(given.size, given.shape, given.cores),
    }


class InsertionParameters(BaseModel):
    """Parameters of `insertion-delay`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    size: Size
    link_rate: Rate


def _insertion(given: InsertionParameters) -> dict[str, Any]:
    """The linear model of an all-reduce (HOTI 2020, section IV-A1): a node sends the vector twice over its link."""
    return {
        "size_bytes": given.size,
        "link_rate_bytes_per_s": given.link_rate,
        "time_s": insertion_delay_s(given.size, given.link_rate),
    }


class TreesParameters(BaseModel):
    """Parameters of `packed-trees-over-rings`; `reproduce.blink_theory` has the rates."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    machine: Literal["dgx1v", "dgx1p"]
    gpus: Annotated[str, Field(pattern=r"^[0-7](,[0-7])+$")]


def _trees(given: TreesParameters) -> dict[str, Any]:
    """Rates of an all-reduce in links of the machine (Blink, section 5.1)."""
    gpus = tuple(map(int, given.gpus.split(",")))
    trees, rings = blink_theory.trees(given.machine, gpus), blink_theory.rings(given.machine, gpus)
    return {
        "machine": given.machine,
        "gpus": given.gpus,
        "taking_part": len(gpus),
        "trees_links": float(trees),
        "rings_links": float(rings),
        "speedup": float(trees / rings),
    }


@dataclass(frozen=True, slots=True)
class Model:
    """A formula: what it takes, and the row that it gives."""

    parameters: type[BaseModel]
    row: Callable[[Any], dict[str, Any]]


MODELS: Final[dict[str, Model]] = {
    "all-reduce-steps": Model(StepParameters, _steps),
    "insertion-delay": Model(InsertionParameters, _insertion),
    "packed-trees-over-rings": Model(TreesParameters, _trees),
}


def tables(file: FigureFile) -> list[Table]:
    """A table for each closed form of a figure. Raises [`InputError`] with all that is wrong with them."""
    found: list[Table] = []
    problems: list[Problem] = []
    for i, form in enumerate(file.figure.closed_forms):
        try:
            found.append(_table(file, i, form))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return found


def _table(file: FigureFile, place: int, form: ClosedForm) -> Table:
    here = ("closed_forms", place)
    model = MODELS.get(form.model)
    if model is None:
        message = f"there is no closed form with this name{did_you_mean(form.model, MODELS)}"
        raise InputError([file.problem((*here, "model"), message, one_of(MODELS))])
    count = len(form.cases) * math.prod(len(values) for values in form.axes.values())
    if count > MAX_ROWS:
        message = f"these are {count} rows; at most {MAX_ROWS} are computed"
        raise InputError([file.problem((*here, "axes"), message)])
    if problems := list(_displaced(file, place, form)):
        raise InputError(problems)
    rows: list[dict[str, Any]] = []
    for case, settings in form.cases.items():
        for point in itertools.product(*(enumerate(values) for values in form.axes.values())):
            varied = dict(zip(form.axes, point, strict=True))
            given = form.set | settings | {name: value for name, (_, value) in varied.items()}
            try:
                row = model.row(model.parameters.model_validate(given))
            except ValidationError as error:
                places: dict[str, tuple[str | int, ...]] = {name: (*here, "set", name) for name in form.set}
                places |= {name: (*here, "cases", case, name) for name in settings}
                places |= {name: (*here, "axes", name, index) for name, (index, _) in varied.items()}
                problems += _problems(error, file, here, places, model)
                continue
            rows.append({"base": form.model, "variant": case, "status": "done", **row})
    if problems:
        raise InputError(problems)
    axes = tuple(name for name in rows[0] if any(name in (axis, *_with_units(axis)) for axis in form.axes))
    return table.of_rows(rows, axes)


def _with_units(name: str) -> Iterator[str]:
    return (f"{name}{unit}" for unit in set(table.UNITS.values()))


def _displaced(file: FigureFile, place: int, form: ClosedForm) -> Iterator[Problem]:
    """Parameters that are set and vary as well."""
    for path, settings in ((("set",), form.set), *((("cases", case), own) for case, own in form.cases.items())):
        for name in settings:
            if name in form.axes:
                message = f"{name} is an axis of this closed form"
                yield file.problem(("closed_forms", place, *path, name), message, "a parameter that does not vary")


def _problems(
    error: ValidationError,
    file: FigureFile,
    here: tuple[str | int, ...],
    places: Mapping[str, tuple[str | int, ...]],
    model: Model,
) -> Iterator[Problem]:
    known = model.parameters.model_fields
    for details in error.errors(include_url=False):
        name = str(details["loc"][0])
        match details["type"]:
            case "missing":
                yield file.problem(here, f"the parameter '{name}' is missing", f"set: {{{name}: VALUE}}")
            case "extra_forbidden":
                message = f"there is no parameter of this name{did_you_mean(name, known)}"
                yield file.problem(places[name], message, one_of(known))
            case kind if kind == QUANTITY_ERROR:
                yield file.problem(places[name], details["ctx"]["message"], details["ctx"]["accepted"])
            case _:
                message, accepted = said.of(details)
                yield file.problem(places[name], message, accepted)
