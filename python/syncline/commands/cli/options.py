"""Flags that several commands have, and what they mean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from syncline.base import document, memory
from syncline.base.errors import InputError, Problem, command_line
from syncline.commands.api import arguments
from syncline.commands.cli import complete
from syncline.experiment.merge import parse_override

if TYPE_CHECKING:
    from syncline.base.document import Plain
    from syncline.experiment.merge import Override

T = TypeVar("T")

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Set a field; PATH names items of lists by index and variants by name."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Seed = Annotated[
    int, typer.Option(help="Seed of what is random: network.jitter, network.posting random, endpoint.sharing delayed.")
]
Threads = Annotated[int | None, typer.Option(help="Simulations that run at once; by default one per processor.")]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Simulate on a Ray cluster: its address, auto for the one that runs here, or local for a new one.",
    ),
]
Fold = Annotated[
    str | None,
    typer.Option(
        metavar="auto|on|off",
        help="Whether NPUs that are alike are simulated once: where that is exact, always or never.",
    ),
]
Chunk = Annotated[str | None, typer.Option(metavar="SIZE", help="Size of a chunk, such as 64KiB.")]
Slices = Annotated[
    str | None,
    typer.Option(
        metavar="auto|miad|N",
        help="Slices of trees and chains; miad: a size found over iterations before the run, of packed-trees only.",
    ),
]
Inflight = Annotated[int | None, typer.Option(help="The most chunks that an NPU has in flight.")]
Endpoint = Annotated[
    str | None,
    typer.Option(
        metavar="ideal|baseline|ace|switch-offload|streams|nccl",
        help="The endpoint model: what a message costs at an NPU.",
        autocompletion=complete.endpoints,
    ),
]
Algorithm = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="ring, ring-unidirectional, direct, halving-doubling, double-binary-tree, one-hop-trees, in-switch, "
        "hierarchical, hierarchical-optimal, ace-4-phase, six-phase, themis, or auto: the fastest of them.",
        autocompletion=complete.algorithms,
    ),
]
Plan = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A plan in place of an algorithm: MSCCL XML, or JSON as syncline export writes it; it is verified first.",
    ),
]
Backend = Annotated[
    str | None,
    typer.Option(
        metavar="analytical|flow|packet|ethernet", help="The network model.", autocompletion=complete.backends
    ),
]
Padding = Annotated[
    str | None, typer.Option(metavar="equal|none", help="Whether chunks are padded so that all blocks are equal.")
]
TraceFormat = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="json|json.gz|pftrace",
        help="What the traces of --out are written as: Chrome's trace events, or Perfetto's own format.",
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The variant that speed-ups are measured against; by default the first."),
]


def _memory_limit(text: str | None) -> None:
    if text is not None:
        memory.set_limit(text)


MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        callback=_memory_limit,
        help="Refuse simulations that would take more memory than SIZE (8GB); by default 80 % of the computer's.",
    ),
]


def _one_of_both(context: typer.Context, parameter: typer.CallbackParam, given: bool) -> bool:
    """Refuses `--quiet` with `--verbose`: whichever of them is read later sees the other one."""
    other = {"quiet": "verbose", "verbose": "quiet"}[str(parameter.name)]
    if given and context.params.get(other):
        accepted = "--quiet, --verbose or neither"
        raise command_line("--quiet", None, "--quiet and --verbose exclude each other", accepted)
    return given


Quiet = Annotated[bool, typer.Option("-q", "--quiet", callback=_one_of_both, help="Print results and errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", callback=_one_of_both, help="List what was assumed.")]


def common_problems(*, threads: int | None = None, seed: int = 0) -> list[Problem]:
    """What is wrong with flags that most commands have."""
    return arguments.common_problems(arguments.FLAGS, seed=seed, threads=threads)


def overrides(settings: Sequence[str] | None) -> tuple[list[Override], list[Problem]]:
    """What the `--set` flags change, and what is wrong with them."""
    parsed: list[Override] = []
    problems: list[Problem] = []
    for setting in settings or ():
        try:
            parsed.append(parse_override(setting))
        except InputError as error:
            problems += error.problems
    return parsed, problems


def load(problems: Sequence[Problem], settings: Sequence[str] | None, read: Callable[[Sequence[Override]], T]) -> T:
    """What `read` makes of the `--set` flags. Raises one [`InputError`] with its problems, those of the flags
    and `problems`.
    """
    parsed, wrong = overrides(settings)
    found = [*problems, *wrong]
    try:
        loaded = read(parsed)
    except InputError as error:
        found += error.problems
    if found:
        raise InputError(found)
    return loaded


def warn(warning: str | None, *, quiet: bool) -> None:
    """Says what there is to be warned of before something begins."""
    if warning is not None and not quiet:
        print(f"warning: {warning}", file=sys.stderr, flush=True)


def forced(
    *,
    chunk: str | None,
    inflight: int | None,
    endpoint: str | None,
    algorithm: str | None,
    backend: str | None,
    fold: str | None,
    padding: str | None,
    pcap: Sequence[str] | None = None,
) -> list[Override]:
    """Flags that hold for every variant, whatever the file says. Words are read as in a file."""

    def written(text: str | None) -> Plain:
        return None if text is None else document.scalar(text.strip())

    return arguments.forced_overrides(
        arguments.FLAGS,
        chunk=written(chunk),
        inflight=inflight,
        endpoint=endpoint,
        algorithm=written(algorithm),
        backend=written(backend),
        fold=written(fold),
        padding=written(padding),
        pcap=pcap,
    )


def settings(
    set_: Sequence[str] | None,
    forced: Sequence[Override],
    problems: Sequence[Problem],
    *,
    seed: int,
    threads: int | None = None,
    baseline: str | None = None,
) -> arguments.Settings:
    """What the flags ask for beside an experiment."""
    changes, wrong = overrides(set_)
    named = [] if baseline is None else [arguments.baseline_override(baseline, arguments.FLAGS)]
    return arguments.Settings((*changes, *named), tuple(forced), seed, threads, problems=(*problems, *wrong))
