"""A single collective that flags or arguments describe: its experiment, and its run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from syncline.base import collective_names, document
from syncline.base.clock import Clock
from syncline.base.document import Mapping, Origin, Scalar
from syncline.base.errors import InputError, Problem
from syncline.commands.api import arguments
from syncline.commands.api.arguments import FLAGS, Settings, Spelling
from syncline.core import cancelling
from syncline.engine import choice, completing, estimate, runner
from syncline.engine import runs as engine
from syncline.experiment import load as experiments
from syncline.experiment import merge
from syncline.experiment.merge import Override
from syncline.fabric import notation
from syncline.results import entries as results
from syncline.sections import profiles

if TYPE_CHECKING:
    from syncline.base.document import Node
    from syncline.base.progress import Watch
    from syncline.commands.api.simulate import Warn
    from syncline.engine.runner import Outcomes
    from syncline.experiment.load import Study, Variant
    from syncline.results.entries import Document

DEFAULT_BACKEND = "flow"
DEFAULT_ENDPOINT = "ideal"
MOST_DIGITS = 20
FABRICS = '--topology "Torus(4,8,4)", --machine dgx-a100 or --topology-file FILE'
"""What names a fabric on the command line."""
TEXTS = (
    "kind",
    "size",
    "machine",
    "topology_file",
    "endpoint",
    "algorithm",
    "backend",
    "plan",
    "padding",
    "chunk",
    "fold",
)
"""What has to be text, whatever a program gives."""
FIELDS: Final = {
    "kind": "workload.collective",
    "size": "workload.size",
    "root": "workload.root",
    "topology": "topology",
    "machine": "topology",
    "topology_file": "topology",
    "gpus": "gpus",
    "groups": "groups",
    "endpoint": "endpoint.kind",
    "backend": "network.backend",
    "algorithm": "collective.algorithm",
    "plan": "collective.plan",
    "padding": "collective.padding",
    "chunk": "collective.chunk",
    "slices": "collective.slices",
    "inflight": "collective.inflight",
    "fold": "fold",
}
"""The fields of an experiment that flags stand for."""
NOT_TEXT: Final = ("this is not text", None)
NOT_A_SIZE: Final = ("this is no size", "a size with a unit, such as 64MB, or a whole number of bytes")
"""What is said of anything else where a program gives a size, and what is accepted."""


@dataclass(frozen=True, slots=True)
class Single:
    """A single collective, as it is asked for."""

    kind: str
    size: str
    topology: str | AnyMapping[str, object] | None = None
    machine: str | None = None
    topology_file: str | os.PathLike[str] | None = None
    gpus: str | Sequence[int] | None = None
    groups: str | Sequence[Sequence[int] | str] = ()
    root: int | None = None
    endpoint: str | None = None
    algorithm: str | None = None
    backend: str | None = None
    plan: str | os.PathLike[str] | None = None
    padding: str | None = None
    chunk: str | None = None
    slices: str | int | None = None
    inflight: int | None = None
    fold: str | None = None
    fabrics: str = FABRICS
    """What names a fabric."""
    spelling: Spelling = FLAGS
    """How all of this is written."""
    assumed: frozenset[str] = frozenset()
    """What nobody has asked for."""

    def given(self) -> list[Override]:
        """The fields that are given, each by the flag that stands for it."""
        found: dict[str, Override] = {}
        for name, path in FIELDS.items():
            value = getattr(self, name)
            if name not in self.assumed and value is not None and (name != "groups" or value):
                written = "group" if name == "groups" and self.spelling is FLAGS else name
                place = Origin(self.spelling.place, None, self.spelling.name(written))
                found.setdefault(path, Override(tuple(path.split(".")), Scalar(None, place)))
        return list(found.values())

    def problems(self) -> list[Problem]:
        """What is wrong with how the fabric and the algorithm are named."""
        texts = [(name, getattr(self, name)) for name in TEXTS]
        found = [
            self.spelling.problem(name, type(value).__name__, *(NOT_A_SIZE if name in ("size", "chunk") else NOT_TEXT))
            for name, value in texts
            if not isinstance(value, str | PurePath | None)
        ]
        found += self._of_fabric()
        if self.plan is not None and self.algorithm is not None:
            names = f"{self.spelling.name('plan')} and by {self.spelling.name('algorithm')}"
            message = f"the algorithm is given twice, by {names}"
            found.append(self.spelling.problem("algorithm", self.algorithm, message, "one of them"))
        return found

    def _of_fabric(self) -> list[Problem]:
        named = {"topology": self.topology, "machine": self.machine, "topology_file": self.topology_file}
        given = [(name, value) for name, value in named.items() if value is not None]
        if not given:
            return [self.spelling.problem("topology", None, "no fabric is given", self.fabrics)]
        found: list[Problem] = []
        for name, value in given[1:]:
            names = f"{self.spelling.name(given[0][0])} and by {self.spelling.name(name)}"
            found.append(self.spelling.problem(name, value, f"the fabric is given twice, by {names}", "one of them"))
        if isinstance(self.machine, str):
            try:
                notation.parse(self.machine)
            except notation.MachineError as error:
                found.append(self.spelling.problem("machine", self.machine, error.message, error.accepted))
        return found


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a single collective."""

    variant: Variant
    outcomes: Outcomes
    document: Document | None
    """The document of `collective --json`; none if it failed or was interrupted."""


def load(asked: Single, settings: Settings) -> tuple[Study, list[str]]:
    """The experiment that is described and changed by settings, and what was assumed of what it leaves open.

    Raises [`InputError`] with everything that is wrong.
    """
    if isinstance(asked.kind, str):
        asked = replace(asked, kind=collective_names.settled(asked.kind))
    wrong = asked.problems()
    if any(not isinstance(getattr(asked, name), str | PurePath | None) for name in TEXTS):
        raise InputError([*settings.problems, *wrong])
    changes = [*settings.overrides, *asked.given()]
    wrong += [*merge.given_twice(changes), *merge.rivals(changes)]
    settings = replace(settings, problems=(*settings.problems, *wrong))
    try:
        tree, filled_in = _tree(asked)
    except InputError as error:  # values that no file could say
        raise InputError([*settings.problems, *error.problems]) from None
    before = {path: _at(tree, path) for path in filled_in}

    def read(overrides: Sequence[Override], forced: Sequence[Override]) -> Study:
        return experiments.load(tree, asked.spelling.place, Path(), overrides, forced)

    study = settings.loaded(read)
    assumed = [
        f"{'.'.join(path)} = {node.value} ({why})"
        for path, why in filled_in.items()
        if isinstance(node := _at(tree, path), Scalar) and node is before[path]  # and not what --set put there
    ]
    return study, assumed


def run(asked: Single, settings: Settings, *, watch: Watch | None = None, warn: Warn | None = None) -> Finished:
    """Simulates a single collective. Raises [`InputError`] with everything that is wrong.

    A simulation that fails, and an interrupt while it runs, are among the outcomes.
    """
    began = Clock()
    study, assumed = load(asked, settings)
    _refuse_captures(study.variants[0], asked.spelling)
    cancelling.check(settings.cancel)
    study = choice.settled(study)
    variant = study.variants[0]
    preview, prepared = engine.prepare(variant)
    expected = estimate.of_variant(variant, preview, prepared)
    warning = estimate.warning(asked.kind, expected)
    if warning is not None and warn is not None:
        warn(warning)
    outcomes = runner.run_all(study.variants, 1, prepared=[prepared], watch=watch, expected=[expected.events])
    outcomes.raise_if_refused()
    if not outcomes.results:
        return Finished(variant, outcomes, None)
    variant, result = outcomes.results[0]
    warnings = [*study.warnings, *completing.slow_links(variant), *result.summary["warnings"]]
    seen = {variant.name: result.summary}
    document = results.document([variant], seed=settings.seed, status="complete", warnings=warnings, seen=seen)
    document["assumptions"] = assumed + document["assumptions"]
    document |= results.collective_fields(variant, result)
    document["cost"] = results.cost(began, [result])
    return Finished(variant, outcomes, document)


def _refuse_captures(variant: Variant, spelling: Spelling) -> None:
    if getattr(variant.experiment.network, "capture", None):
        by = "command" if spelling is FLAGS else "function"
        other = "run --pcap" if spelling is FLAGS else "syncline.run with out"
        message = f"this {by} writes no files, so captures have no place"
        accepted = f"an experiment with network.capture, or {other}"
        raise InputError([variant.problem(("network", "capture"), message, accepted)])


def _at(tree: Mapping, path: tuple[str, str]) -> Node | None:
    """What stands at a path of two keys."""
    section = tree.entries.get(path[0])
    return getattr(section, "entries", {}).get(path[1])


def _groups(groups: Any) -> Any:
    """Groups as a file has them: those of flags that are repeated are one text."""
    if not isinstance(groups, str | Iterable):
        return groups  # which no file could say
    given = [groups] if isinstance(groups, str) else list(groups)
    return ";".join(given) if all(isinstance(group, str) for group in given) else given


def _number(text: Any) -> Any:
    """A number, if this is the text of one, as in a file."""
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < MOST_DIGITS else text


def _tree(asked: Single) -> tuple[Mapping, dict[tuple[str, str], str]]:
    """The experiment that the flags describe, and where the values come from that they left open, by path."""
    filled_in: dict[tuple[str, str], str] = {}

    def place(name: str) -> Origin:
        return Origin(asked.spelling.place, None, asked.spelling.name(name) if name else "")

    def flag(name: str, value: Any) -> Node:
        return document.of_value(value, place(name))

    def section(name: str, entries: dict[str, Node]) -> Mapping:
        return Mapping(entries, place(name))

    given = {
        "plan": asked.plan,
        "algorithm": asked.algorithm,
        "padding": asked.padding,
        "chunk": asked.chunk,
        "slices": _number(asked.slices),
        "inflight": asked.inflight,
    }
    cut: dict[str, Node] = {key: flag(key, value) for key, value in given.items() if value is not None}
    name, backend = asked.endpoint or DEFAULT_ENDPOINT, asked.backend or DEFAULT_BACKEND
    if asked.backend is None:
        filled_in["network", "backend"] = "default of `collective`"
    if asked.endpoint is None:
        filled_in["endpoint", "kind"] = "default of `collective`"
    endpoint = arguments.named_endpoint(name)
    for key, value in endpoint.items():
        if key != "kind" and value != "auto":  # what that came to stand for is listed instead
            filled_in["endpoint", key] = profiles.SOURCE
    workload = {"collective": flag("kind", asked.kind), "size": flag("size", asked.size)}
    if asked.root is not None:
        workload["root"] = flag("root", asked.root)
    root = section(
        "",
        {
            "name": flag("kind", "collective"),
            "network": section("backend", {"backend": flag("backend", backend)}),
            "workload": section("kind", workload),
            "collective": section("algorithm", cut),
            "endpoint": section("endpoint", {k: flag("endpoint", v) for k, v in endpoint.items()}),
            "output": section("", {"trace_npus": document.Sequence([], place(""))}),
        },
    )
    if asked.topology_file is not None:
        root.entries["topology"] = section("topology_file", {"file": flag("topology_file", asked.topology_file)})
    elif asked.topology is not None or asked.machine is not None:
        name, text = ("topology", asked.topology) if asked.topology is not None else ("machine", asked.machine)
        root.entries["topology"] = flag(name, text)
    else:
        root.entries["topology"] = flag("topology", "Ring(1)")  # that it is missing is said already
    if asked.gpus is not None:
        root.entries["gpus"] = flag("gpus", asked.gpus)
    if asked.groups:
        root.entries["groups"] = flag("group" if asked.spelling is FLAGS else "groups", _groups(asked.groups))
    if asked.fold is not None:
        root.entries["fold"] = flag("fold", asked.fold)
    return root, filled_in
