"""Says what is wrong with a field in words of the file: where it is, what it is, what would be accepted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from syncline.base import document
from syncline.base.document import Mapping, Node, Scalar, Sequence
from syncline.base.errors import UNKNOWN_KEY, Problem, did_you_mean, one_of
from syncline.fabric import topologies
from syncline.fabric.fields import QUANTITY_ERROR, SAID_ERROR
from syncline.sections import data_types, experiment, workloads
from syncline.sections.endpoints import ENDPOINTS
from syncline.sections.networks import NETWORKS, USUAL
from syncline.sections.wording import describe, inner_types, literals, message, models_in

WORKLOAD_ACCEPTED = "a mapping with one of the keys model, astra_text, collective, graph or jobs"
DISCRIMINATORS = {"network": "backend", "endpoint": "kind"}
VARIANTS: dict[str, dict[str, type[BaseModel]]] = {
    "network": dict(NETWORKS),
    "endpoint": dict(ENDPOINTS),
    "workload": {
        "global_batch": workloads.DividedWorkload,
        "model": workloads.ModelWorkload,
        "astra_text": workloads.AstraWorkload,
        "collective": workloads.CollectiveWorkload,
        "graph": workloads.GraphWorkload,
        "jobs": workloads.JobsWorkload,
    },
}
CALLED = {
    "per_dimension": "algorithm for a dimension",
    "contention": "kind of contention",
    "lanes": "use of lanes",
    "fold": "way to fold",
    "scheduling": "order",
    "priority": "kind of collectives",
    "algorithms": "algorithm",
    "tail": "end of a run",
    "gpu": "GPU",
    "precision": "data type",
}
"""What the value of a key is called, where the key is not a word for it."""


def explain(error: ValidationError, root: Mapping) -> Iterator[Problem]:
    """The problems of a validation, with the places of the values in the tree `root`."""
    for details in error.errors(include_url=False):
        if details["type"] != SAID_ERROR:
            yield _problem(details, root)


def _problem(details: ErrorDetails, root: Mapping) -> Problem:
    path, node, missing = _locate(details["loc"], root)
    kind, context = details["type"], details.get("ctx", {})
    key = _name(path)
    if kind == "missing":
        accepted = _accepted_at(path, root)
        return node.origin.below(missing or key, node.origin.line).problem("this is missing", None, accepted)
    value = document.plain(node)
    if kind == "extra_forbidden" and list(path) == ["search"]:
        said = "this section belongs to a search file, which `syncline search` reads"
        return node.origin.problem(said, None, "an experiment without it")
    if kind == "extra_forbidden":
        known = _keys_at(path[:-1], root)
        said = f"{UNKNOWN_KEY}{did_you_mean(key, known)}"
        return node.origin.problem(said, value, f"the keys {one_of(known)}")
    if kind == "union_tag_not_found":
        return node.origin.problem(*_untagged(key, value))
    if kind == "union_tag_invalid":
        discriminator = DISCRIMINATORS[key]
        if isinstance(node, Mapping) and discriminator not in node.entries:
            return node.origin.below(discriminator, node.origin.line).problem(
                "this is missing", None, one_of(VARIANTS[key])
            )
        chosen = node.entries[discriminator] if isinstance(node, Mapping) else node
        return chosen.origin.problem(*_not_one_of(discriminator, document.plain(chosen), list(VARIANTS[key])))
    if kind == QUANTITY_ERROR:
        return node.origin.problem(context["message"], value, context["accepted"])
    if kind == "literal_error":
        is_key = details["loc"][-1] == "[key]"
        choices = _entry_choices(path, root, is_key=is_key)
        if choices is not None:
            name, given = ("kind", path[-1]) if is_key else (str(path[-2]), value)
            return node.origin.problem(*_not_one_of(name, given, choices))
        return node.origin.problem(*_not_one_of(key, value, _choices_at(path, root)))
    return node.origin.problem(message(kind, value, details["msg"]), value, _accepted_at(path, root))


def _name(path: list[int | str]) -> str:
    """The last key of a path: that of the list for an item of it."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _not_one_of(key: str, value: object, choices: list[str]) -> tuple[str, object, str]:
    if isinstance(value, str):
        return f"this is not a known {CALLED.get(key, key)}{did_you_mean(value, choices)}", value, one_of(choices)
    return "a word is needed", value, one_of(choices)


def _untagged(section: str, value: object) -> tuple[str, object, str]:
    if section == "workload":
        words = list(value) if isinstance(value, dict) else []
        hints = (did_you_mean(word, VARIANTS["workload"]) for word in words)
        return f"the key that says what to run is missing{next(filter(None, hints), '')}", value, WORKLOAD_ACCEPTED
    return "a mapping is needed", value, f"a mapping with the key {DISCRIMINATORS.get(section, section)}"


FORMS: Final = {"precision": data_types.FORMS}
"""Fields with several forms, which pydantic tells apart by tags that are no keys."""


def _locate(loc: tuple[int | str, ...], root: Mapping) -> tuple[list[int | str], Node, str | None]:
    """The path within the file, the value there, and the last key if there is no value for it.

    pydantic puts the tags of unions into its locations; those that are no keys are dropped.
    """
    node: Node = root
    path: list[int | str] = []
    for depth, step in enumerate(loc):
        last = depth == len(loc) - 1
        if isinstance(node, Mapping) and isinstance(step, str):
            if step in node.entries and not _is_tag(loc, depth):
                node = node.entries[step]
            elif not last:
                if path and (step in VARIANTS.get(str(path[0]), ()) or step in FORMS.get(str(path[-1]), ())):
                    continue
                return [*path, step], node, step
            elif step == "[key]":
                continue
            else:
                return [*path, step], node, step
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            continue
        path.append(step)
    return path, node, None


def _is_tag(loc: tuple[int | str, ...], depth: int) -> bool:
    """Whether a step is a union's tag although a key of the same name exists (`workload.model.batch`).

    The tag follows the union's field; the same word after it is a key (`workload.jobs.jobs.0.npus`).
    """
    return depth == 1 and loc[1] in VARIANTS.get(str(loc[0]), ()) and len(loc) > 2


def _models_at(path: list[int | str], root: Mapping) -> list[type[BaseModel]]:
    """The models that may describe the mapping at a path."""
    models: list[type[BaseModel]] = [experiment.Experiment]
    for step in path:
        if step in VARIANTS and models == [experiment.Experiment]:
            models = _chosen(str(step), root)
        elif step == "topology" and models == [experiment.Experiment]:
            models = [experiment.Dimensions, experiment.TopologyFile]
        elif path[0] == "calibration":
            models = [experiment.Calibration]
        elif isinstance(step, str):
            models = [m for parent in models for m in _submodels(parent.model_fields.get(step))]
    return models


def _chosen(section: str, root: Mapping) -> list[type[BaseModel]]:
    """The model that a section has chosen, or all if it has chosen none."""
    node = root.entries.get(section)
    entries = node.entries if isinstance(node, Mapping) else {}
    if section in DISCRIMINATORS:
        choice = entries.get(DISCRIMINATORS[section])
        value = choice.value if isinstance(choice, Scalar) else None
        tag = value if isinstance(value, str) else USUAL.backend if section == "network" and choice is None else ""
    else:
        tag = next((key for key in VARIANTS[section] if key in entries), "")
    return [VARIANTS[section][tag]] if tag in VARIANTS[section] else list(VARIANTS[section].values())


def _submodels(info: FieldInfo | None) -> Iterator[type[BaseModel]]:
    if info is not None:
        yield from models_in(info.annotation)


def _keys_at(path: list[int | str], root: Mapping) -> list[str]:
    keys = dict.fromkeys(key for model in _models_at(path, root) for key in model.model_fields)
    return [*keys, "variants"] if not path else list(keys)


def _fields_at(path: list[int | str], root: Mapping) -> list[FieldInfo]:
    name = _name(path)
    return [m.model_fields[name] for m in _models_at(path[:-1], root) if name in m.model_fields]


def _choices_at(path: list[int | str], root: Mapping) -> list[str]:
    while path and isinstance(path[-1], int):
        path = path[:-1]
    parts = (part for info in _fields_at(path, root) for part in inner_types(info.annotation))
    return list(dict.fromkeys(str(choice) for part in parts for choice in literals(part)))


def _entry_choices(path: list[int | str], root: Mapping, *, is_key: bool) -> list[str] | None:
    """What keys or values of a mapping of free keys may be; None for what is no entry of one."""
    for info in _fields_at(path[:-1], root) if len(path) > 1 else []:
        if get_origin(info.annotation) is dict:
            keys, values = get_args(info.annotation)
            return [str(c) for c in literals(keys if is_key else values)]
    return None


def _accepted_at(path: list[int | str], root: Mapping) -> str | None:
    if path and isinstance(path[-1], int):
        return "whole numbers of 0 or more" if "trace_npus" in path else None
    if path == ["topology"]:
        return topologies.ACCEPTED
    if path == ["name"]:
        return experiment.NAME_ACCEPTED
    if path == ["workload"]:
        return WORKLOAD_ACCEPTED
    if path == ["calibration"]:
        return "a mapping from the paths of fields, such as training.compute_scale, to mappings with fitted_on"
    if path and path[0] == "calibration" and len(path) == 2:
        return "a mapping with fitted_on, and note if you like"
    for info in _fields_at(path, root) if path else []:
        return describe(info)
    return None
