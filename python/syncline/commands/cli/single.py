"""Flags that describe a single collective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from syncline.commands.api import single
from syncline.commands.cli import complete, options

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.experiment.load import Study

DEFAULT_ENDPOINT = single.DEFAULT_ENDPOINT
FABRICS = single.FABRICS
Flags = single.Single
"""What the command line says."""

Kind = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, reduce, gather or scatter.",
        autocompletion=complete.collectives,
    ),
]
Topology = Annotated[
    str | None,
    typer.Option(metavar="T", help='A topology string, such as "Ring(8)" or "Torus(4,8,4, rate=25GB/s)".'),
]
Machine = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help='A machine, such as dgx1v, dgx-h100 or gb200-nvl72, or a cluster: "dgx-a100(nodes=4)".',
        autocompletion=complete.machines,
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


def load(flags: Flags, problems: Sequence[Problem], settings: Sequence[str] | None) -> tuple[Study, list[str]]:
    """The experiment that the flags and those of `--set` describe, and what was assumed of what they leave open.

    Raises [`InputError`] with everything that is wrong, `problems` included.
    """
    return single.load(flags, options.settings(settings, (), problems, seed=0))
