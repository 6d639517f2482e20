"""Flags that several commands have, and what they mean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from syncline.errors import InputError, Problem, command_line

if TYPE_CHECKING:
    from syncline.document import Plain
    from syncline.schema.load import Study
    from syncline.schema.merge import Override

MAX_THREADS: Final = 1024

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
        metavar="ideal|baseline|ace|switch-offload|streams", help="The endpoint model: what a message costs at an NPU."
    ),
]
Algorithm = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="ring, ring-unidirectional, direct, halving-doubling, double-binary-tree, one-hop-trees, in-switch, "
        "hierarchical, hierarchical-optimal, ace-4-phase, six-phase, themis, or auto: the fastest of them.",
    ),
]
Plan = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A plan in place of an algorithm: MSCCL XML, or JSON as syncline export writes it; it is verified first.",
    ),
]
Backend = Annotated[str | None, typer.Option(metavar="analytical|flow|packet|ethernet", help="The network model.")]
Padding = Annotated[
    str | None, typer.Option(metavar="equal|none", help="Whether chunks are padded so that all blocks are equal.")
]
Baseline = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The variant that speed-ups are measured against; by default the first."),
]


def _memory_limit(text: str | None) -> None:
    if text is not None:
        from syncline import memory

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
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print results and errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="List what was assumed.")]


def common_problems(*, threads: int | None = None, seed: int = 0, ray: str | None = None) -> list[Problem]:
    """What is wrong with flags that most commands have."""
    problems: list[InputError] = []
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        problems.append(command_line("--threads", threads, "this is out of range", f"1 to {MAX_THREADS}"))
    if not 0 <= seed < 2**63:
        problems.append(command_line("--seed", seed, "this is out of range", f"0 to {2**63 - 1}"))
    if ray is not None:
        from syncline.sweep import remote

        problems += [error for error in (remote.missing(ray),) if error is not None]
    return [problem for error in problems for problem in error.problems]


def collected(problems: list[Problem], read: Callable[[], T]) -> T | None:
    """What `read` gives, or nothing, its problems added to `problems`."""
    try:
        return read()
    except InputError as error:
        problems += error.problems
        return None


def load(problems: Sequence[Problem], settings: Sequence[str] | None, read: Callable[[Sequence[Override]], T]) -> T:
    """What `read` makes of the `--set` flags. Raises one [`InputError`] with its problems, those of the flags
    and `problems`.
    """
    from syncline.schema.merge import parse_override

    found = list(problems)
    parsed: list[Override] = []
    for setting in settings or ():
        try:
            parsed.append(parse_override(setting))
        except InputError as error:
            found += error.problems
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


def settled(study: Study) -> Study:
    """The study with algorithms chosen where that was left open."""
    from syncline import choice

    return choice.settled(study)


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
    """Flags that hold for every variant, whatever the file says."""
    from syncline.schema.merge import parse_override

    settings: list[tuple[str, str]] = []
    if endpoint is not None:
        settings += [(f"endpoint.{key}={value}", "--endpoint") for key, value in given_endpoint(endpoint).items()]
    if backend is not None:
        settings.append((f"network.backend={backend}", "--backend"))
    if algorithm is not None:
        settings.append((f"collective.algorithm={algorithm}", "--algorithm"))
    if chunk is not None:
        settings.append((f"collective.chunk={chunk}", "--chunk"))
    if inflight is not None:
        settings.append((f"collective.inflight={inflight}", "--inflight"))
    if padding is not None:
        settings.append((f"collective.padding={padding}", "--padding"))
    if fold is not None:
        settings.append((f"fold={fold}", "--fold"))
    captured = [] if not pcap else [listed_override(("network", "capture"), pcap, "--pcap")]
    return [*(parse_override(setting, label) for setting, label in settings), *captured]


def listed_override(path: tuple[str, ...], values: Sequence[str], label: str) -> Override:
    """What a flag that may be repeated changes of an experiment file: a list."""
    from syncline.document import Origin, Scalar
    from syncline.document import Sequence as Items
    from syncline.schema.merge import Override

    origin = Origin("command line", None, label)
    return Override(path, Items([Scalar(value, origin) for value in values], origin))


def baseline_override(name: str) -> Override:
    """What `--baseline NAME` changes of an experiment file."""
    from syncline.document import Origin, Scalar
    from syncline.schema.merge import Override

    return Override(("baseline",), Scalar(name, Origin("command line", None, "--baseline")))


def given_endpoint(name: str) -> dict[str, Plain]:
    """The parameters of an endpoint that is given by name; the schema refuses names that it does not know."""
    from syncline import profiles

    return dict(profiles.ENDPOINTS.get(name, {"kind": name}))
