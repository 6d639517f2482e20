"""Graphs of a training, divided: a class for each program, a family for each axis along which NPUs communicate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from syncline.sections.parallel import Parallel
from syncline.strategies.costs import Kernels
from syncline.strategies.mesh import REPLICA, Mesh
from syncline.strategies.nodes import MAIN, Node
from syncline.strategies.setting import Role, Setting
from syncline.strategies.stage import Stage

FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "tensor": ("tensor",),
    "context": ("context",),
    "expert": ("expert",),
    "pipeline": ("pipeline",),
    "data": ("expert", "data", "context"),
    "expert-data": ("data", "context"),
    "replica": (REPLICA,),
}
"""The families, with the axes along which they extend: weights have copies along `context` as well as along `data`."""
EMBEDDING: Final = "embedding"
"""The family of the first and the last stage, which share weights."""


@dataclass(frozen=True)
class Class:
    """NPUs that run the same program."""

    name: str
    npus: list[int]
    nodes: list[Node]

    @property
    def streams(self) -> list[str]:
        """In which order its streams compute: its own, that of a parameter server, and that of its host."""
        last = max((node.stream for node in self.nodes), default=MAIN)
        return ["in-order", "by-readiness", "host"][: last + 1]


@dataclass(frozen=True)
class Divided:
    """The graphs of a training."""

    classes: list[Class]
    families: dict[str, dict[str, Any]]
    """The communicators of each family, as the engine takes them."""
    costs: list[Kernels]
    """What nodes cost that name a row of it."""

    def engine_graph(self) -> dict[str, Any]:
        """The graphs as the engine takes them."""
        classes = [{"name": of.name, "npus": of.npus, "streams": of.streams, "nodes": of.nodes} for of in self.classes]
        return {"classes": classes, "costs": [[kernel.described() for kernel in row] for row in self.costs]}

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of its collectives, each once."""
        works = (node.work for of in self.classes for node in of.nodes)
        return sorted({work["kind"] for work in works if work["op"] == "collective"})


def graph(setting: Setting) -> Divided:
    """The graphs of a training. Raises [`models.model.DivisionError`] for sizes that cannot be divided evenly."""
    families = dict(_families(setting))
    numbers = {name: number for number, name in enumerate(families)}
    copies = _copies(setting.mesh) if _is_each_apart(setting.parallel) else {}
    classes = []
    for role in roles(setting):
        program = Stage(setting, role, numbers).program()
        classes.append(Class(role.name, _npus(setting, role, copies), program))
    return Divided(classes, families, setting.costs.rows)


def _families(setting: Setting) -> Iterator[tuple[str, dict[str, Any]]]:
    mesh, experts = setting.mesh, setting.parallel.expert > 1
    for name, axes in FAMILIES.items():
        if mesh.size(*axes) > 1 and (name != "expert-data" or experts):
            yield name, mesh.members(*axes) if mesh.is_product else {"by": "list", "groups": mesh.groups(*axes)}
    if setting.model.tied and setting.parallel.pipeline > 1:
        yield EMBEDDING, {"by": "list", "groups": mesh.ends()}


def _is_each_apart(parallel: Parallel) -> bool:
    """Whether copies of the model have programs of their own: those that speak with one server, each from its rank."""
    return parallel.parameter_server == "central"


def _copies(mesh: Mesh) -> dict[int, int]:
    """The rank of each NPU among the copies of what it has."""
    return {npu: rank for group in mesh.groups(*FAMILIES["data"]) for rank, npu in enumerate(group)}


def roles(setting: Setting) -> Iterator[Role]:
    """The programs of a training: one for each stage, and further ones only where NPUs of a stage differ."""
    parallel, copies = setting.parallel, setting.mesh.size(*FAMILIES["data"])
    experts = range(parallel.expert) if parallel.expert_loads else (None,)
    for stage in range(parallel.pipeline):
        for expert in experts:
            if copies == 1 or not _is_each_apart(parallel):
                yield Role(stage, expert)
                continue
            yield Role(stage, expert, 0, serves=True)
            workers = range(1, copies) if parallel.updates == "asynchronous" else (-1,)
            yield from (Role(stage, expert, copy) for copy in workers)


def _npus(setting: Setting, role: Role, copies: Mapping[int, int]) -> list[int]:
    """The NPUs of a class."""
    places = {"pipeline": role.stage} | ({} if role.expert is None else {"expert": role.expert})
    npus = setting.mesh.npus_at(**places)
    if not copies or setting.mesh.size(*FAMILIES["data"]) == 1:
        return npus
    if role.copy < 0:
        return [npu for npu in npus if copies[npu] > 0]
    return [npu for npu in npus if copies[npu] == role.copy]
