"""The experiment of a single collective that flags of the command line describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.api import arguments
from syncline.cli import options

if TYPE_CHECKING:
    from syncline.document import Mapping, Node
    from syncline.errors import Problem
    from syncline.schema.load import Study
    from syncline.schema.merge import Override

DEFAULT_BACKEND = "analytical"
DEFAULT_ENDPOINT = "ideal"
MOST_DIGITS = 20
FABRICS = '--topology "Torus(4,8,4)", --machine dgx-a100 or --topology-file FILE'

Kind = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, reduce, gather or scatter.",
    ),
]
Topology = Annotated[
    str | None,
    typer.Option(metavar="T", help='A topology string, such as "Ring(8)" or "Torus(4,8,4, rate=25GB/s)".'),
]
Machine = Annotated[
    str | None,
    typer.Option(
        metavar="M", help='A machine, such as dgx1v, dgx-h100 or gb200-nvl72, or a cluster: "dgx-a100(nodes=4)".'
    ),
]
TopologyFile = Annotated[
    str | None,
    typer.Option(metavar="F", help="A file: NCCL's XML, nvidia-smi topo -m, a .topo of htsim, or links in YAML."),
]
Gpus = Annotated[str | None, typer.Option(metavar="LIST", help="The GPUs that take part, such as 0,1,3 or 0-3,8-11.")]
Group = Annotated[
    list[str] | None,
    typer.Option(metavar="G", help="A group, such as 0-3; repeat it, or write 0-3;4-7, size 4 or stride 4."),
]
Root = Annotated[
    int | None,
    typer.Option(metavar="R", help="The root's rank in its group; if not given, 0, or that of the plan."),
]


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line says."""

    kind: str
    size: str
    topology: str | None = None
    machine: str | None = None
    topology_file: str | None = None
    gpus: str | None = None
    groups: Sequence[str] = ()
    root: int | None = None
    endpoint: str | None = None
    algorithm: str | None = None
    backend: str | None = None
    plan: str | None = None
    padding: str | None = None
    chunk: str | None = None
    slices: str | None = None
    inflight: int | None = None
    fold: str | None = None
    fabrics: str = FABRICS
    """What names a fabric."""

    def problems(self) -> list[Problem]:
        """What is wrong with how the fabric and the algorithm are named."""
        from syncline.errors import command_line

        found = list(self._of_fabric())
        if self.plan is not None and self.algorithm is not None:
            message = "the algorithm is given twice, by --plan and by --algorithm"
            found += command_line("--algorithm", self.algorithm, message, "one of them").problems
        return found

    def _of_fabric(self) -> list[Problem]:
        from syncline.errors import command_line

        named = {"--topology": self.topology, "--machine": self.machine, "--topology-file": self.topology_file}
        given = [(flag, value) for flag, value in named.items() if value is not None]
        if not given:
            return list(command_line("--topology", None, "no fabric is given", self.fabrics).problems)
        found: list[Problem] = []
        for flag, value in given[1:]:
            message = f"the fabric is given twice, by {given[0][0]} and by {flag}"
            found += command_line(flag, value, message, "one of them").problems
        if self.machine is not None:
            from syncline.fabric import notation

            try:
                notation.parse(self.machine)
            except notation.MachineError as error:
                found += command_line("--machine", self.machine, error.message, error.accepted).problems
        return found


def load(flags: Flags, problems: Sequence[Problem], settings: Sequence[str] | None) -> tuple[Study, list[str]]:
    """The experiment that the flags and those of `--set` describe, and what was assumed of what they leave open.

    Raises [`InputError`] with everything that is wrong, `problems` included.
    """
    from syncline.document import Scalar
    from syncline.schema import load as experiments

    tree, filled_in = _tree(flags)
    before = {path: _at(tree, path) for path in filled_in}

    def read(overrides: Sequence[Override]) -> Study:
        return experiments.load(tree, "command line", Path(), overrides)

    study = options.load([*problems, *flags.problems()], settings, read)
    assumed = [
        f"{'.'.join(path)} = {node.value} ({why})"
        for path, why in filled_in.items()
        if isinstance(node := _at(tree, path), Scalar) and node is before[path]  # and not what --set put there
    ]
    return study, assumed


def _at(tree: Mapping, path: tuple[str, str]) -> Node | None:
    """What stands at a path of two keys."""
    section = tree.entries.get(path[0])
    return getattr(section, "entries", {}).get(path[1])


def _number(text: str | None) -> str | int | None:
    """A number, if the text is one, as in a file."""
    return int(text) if text is not None and text.isdecimal() and len(text) < MOST_DIGITS else text


def _tree(flags: Flags) -> tuple[Mapping, dict[tuple[str, str], str]]:
    """The experiment that the flags describe, and where the values come from that they left open, by path."""
    from syncline import profiles
    from syncline.document import Mapping, Origin, Scalar, Sequence

    filled_in: dict[tuple[str, str], str] = {}

    def flag(name: str, value: Any) -> Node:
        return Scalar(value, Origin("command line", None, name))

    def section(name: str, entries: dict[str, Node]) -> Mapping:
        return Mapping(entries, Origin("command line", None, name))

    given = {
        "plan": flags.plan,
        "algorithm": flags.algorithm,
        "padding": flags.padding,
        "chunk": flags.chunk,
        "slices": _number(flags.slices),
        "inflight": flags.inflight,
    }
    cut: dict[str, Node] = {key: flag(f"--{key}", value) for key, value in given.items() if value is not None}
    said = {*cut, *(["chunks"] if flags.chunk is not None else []), *(["algorithm"] if flags.plan is not None else [])}
    if flags.algorithm == "ring-unidirectional":
        said.add("lanes")
    name, backend = flags.endpoint or DEFAULT_ENDPOINT, flags.backend or DEFAULT_BACKEND
    if flags.backend is None:
        filled_in["network", "backend"] = "default of `collective`"
    if flags.endpoint is None:
        filled_in["endpoint", "kind"] = "default of `collective`"
    for key, value in profiles.collective(name, flags.kind).items():
        if key not in said:
            cut[key] = flag("--algorithm" if key == "algorithm" else "--endpoint", value)
            if value != "auto":  # what it came to stand for is listed instead
                filled_in["collective", key] = "default of `collective` with this endpoint"
    endpoint = arguments.named_endpoint(name)
    for key, value in endpoint.items():
        if key != "kind" and value != "auto":  # what that came to stand for is listed instead
            filled_in["endpoint", key] = profiles.SOURCE
    workload = {"collective": flag("KIND", flags.kind), "size": flag("--size", flags.size)}
    if flags.root is not None:
        workload["root"] = flag("--root", flags.root)
    root = section(
        "",
        {
            "name": flag("KIND", "collective"),
            "network": section("--backend", {"backend": flag("--backend", backend)}),
            "workload": section("KIND", workload),
            "collective": section("--algorithm", cut),
            "endpoint": section("--endpoint", {k: flag("--endpoint", v) for k, v in endpoint.items()}),
            "output": section("", {"trace_npus": Sequence([], Origin("command line", None))}),
        },
    )
    if flags.topology_file is not None:
        root.entries["topology"] = section("--topology-file", {"file": flag("--topology-file", flags.topology_file)})
    elif flags.topology is not None or flags.machine is not None:
        name, text = ("--topology", flags.topology) if flags.topology is not None else ("--machine", flags.machine)
        root.entries["topology"] = flag(name, text)
    else:
        root.entries["topology"] = flag("--topology", "Ring(1)")  # that it is missing is said already
    if flags.gpus is not None:
        root.entries["gpus"] = flag("--gpus", flags.gpus)
    if flags.groups:
        root.entries["groups"] = flag("--group", ";".join(flags.groups))
    if flags.fold is not None:
        root.entries["fold"] = flag("--fold", flags.fold)
    return root, filled_in
