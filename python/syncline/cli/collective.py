"""`syncline collective`: one collective, in the terms of nccl-tests."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.cli import options

if TYPE_CHECKING:
    from syncline.document import Mapping, Node
    from syncline.errors import Problem

DEFAULT_BACKEND = "analytical"
DEFAULT_ENDPOINT = "ideal"
FABRICS = '--topology "Torus(4,8,4)", --machine dgx-a100 or --topology-file FILE'


def collective(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, reduce, gather or scatter.",
        ),
    ],
    size: Annotated[str, typer.Option(metavar="SIZE", help="The size of the full vector, as nccl-tests counts it.")],
    topology: Annotated[
        str | None,
        typer.Option(metavar="T", help='A topology string, such as "Ring(8)" or "Torus(4,8,4, rate=25GB/s)".'),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="M", help='A machine, such as dgx1v, dgx-h100 or gb200-nvl72, or a cluster: "dgx-a100(nodes=4)".'
        ),
    ] = None,
    topology_file: Annotated[
        str | None,
        typer.Option(
            metavar="F", help="A file: NCCL's XML, the output of nvidia-smi topo -m, or nodes and links in YAML."
        ),
    ] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="LIST", help="The GPUs that take part, such as 0,1,3 or 0-3,8-11.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="G", help="A group, such as 0-3; repeat it, or write 0-3;4-7, size 4 or stride 4."),
    ] = None,
    root: Annotated[int | None, typer.Option(metavar="R", help="The root's rank in its group; 0 if not given.")] = None,
    algorithm: options.Algorithm = None,
    endpoint: options.Endpoint = None,
    backend: options.Backend = None,
    padding: options.Padding = None,
    chunk: options.Chunk = None,
    inflight: options.Inflight = None,
    set_: options.Set = None,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    fold: options.Fold = None,
    threads: options.Threads = None,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Run one collective among all NPUs, or in several groups at once.

    \b
      syncline collective all-reduce --size 64MB --topology "Torus(4,8,4)"
      syncline collective all-gather --size 1GiB --machine "dgx-a100(nodes=4)" --backend flow --json
      syncline collective broadcast --size 256MB --machine dgx1v --gpus 0,1,4,5 --root 2
      syncline collective all-to-all --size 64MB --topology "Ring(4)_Ring(8)" --group "size 4"
      syncline collective all-reduce --size 64MB --topology "Ring(4)_Ring(8)" --endpoint ace --backend packet
      syncline collective all-reduce --size 64MB --machine dgx-h100 --endpoint switch-offload

    By default, the collective runs on the analytical backend with the ideal endpoint, as one chunk over all
    lanes. The endpoints ace and baseline have the parameters of the ACE paper, which are listed as assumptions.
    Without --algorithm, the ideal endpoint uses auto, which tries all algorithms that make sense and says which
    one it chose; ace and baseline use ace-4-phase, and switch-offload uses hierarchical, which goes through every
    switch. With these three endpoints, an all-to-all is direct.
    """
    flags = _Flags(
        kind=kind,
        size=size,
        topology=topology,
        machine=machine,
        topology_file=topology_file,
        gpus=gpus,
        groups=group or [],
        root=root,
        endpoint=endpoint,
        algorithm=algorithm,
        backend=backend,
        padding=padding,
        chunk=chunk,
        inflight=inflight,
        fold=fold,
    )
    problems = [*options.common_problems(threads=threads, seed=seed), *flags.problems()]
    tree, filled_in = _tree(flags)

    from syncline.document import Scalar
    from syncline.schema.load import load

    before = {path: _at(tree, path) for path in filled_in}
    study = options.load(problems, set_, lambda overrides: load(tree, "command line", Path(), overrides))
    assumed = [
        f"{'.'.join(path)} = {node.value} ({why})"
        for path, why in filled_in.items()
        if isinstance(node := _at(tree, path), Scalar) and node is before[path]  # and not what --set put there
    ]

    from syncline import engine, estimate, results, runner

    runner.quiet = quiet
    began = time.monotonic()
    study = options.settled(study.seeded(seed))
    variant = study.variants[0]
    expected = estimate.of_variant(variant, engine.preview(variant, suggest=True))
    options.warn(estimate.warning(kind, expected), quiet=quiet)
    outcomes = runner.run_all(study.variants, 1)
    outcomes.raise_if_refused()
    for _, message in outcomes.failures:
        print(f"the simulation failed: {message}", file=sys.stderr)
    if not outcomes.results:
        if outcomes.interrupted:
            print("interrupted", file=sys.stderr)
        return 130 if outcomes.interrupted else 1
    variant, result = outcomes.results[0]
    warnings = [*study.warnings, *result.summary["warnings"]]
    seen = {variant.name: result.summary}
    document = results.document([variant], seed=seed, status="complete", warnings=warnings, seen=seen)
    document["assumptions"] = assumed + document["assumptions"]
    document |= results.collective_fields(variant, result)
    document["cost"] = results.cost(time.monotonic() - began, [result])
    _print(document, json=json, quiet=quiet, verbose=verbose)
    return 0


@dataclass(frozen=True, slots=True)
class _Flags:
    """What the command line says."""

    kind: str
    size: str
    topology: str | None
    machine: str | None
    topology_file: str | None
    gpus: str | None
    groups: list[str]
    root: int | None
    endpoint: str | None
    algorithm: str | None
    backend: str | None
    padding: str | None
    chunk: str | None
    inflight: int | None
    fold: str | None

    def problems(self) -> list[Problem]:
        """What is wrong with how the fabric is named."""
        from syncline.errors import command_line

        named = {"--topology": self.topology, "--machine": self.machine, "--topology-file": self.topology_file}
        given = [(flag, value) for flag, value in named.items() if value is not None]
        if not given:
            return list(command_line("--topology", None, "no fabric is given", FABRICS).problems)
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


def _at(tree: Mapping, path: tuple[str, str]) -> Node | None:
    """What stands at a path of two keys."""
    section = tree.entries.get(path[0])
    return getattr(section, "entries", {}).get(path[1])


def _tree(flags: _Flags) -> tuple[Mapping, dict[tuple[str, str], str]]:
    """The experiment that the flags describe, and where the values come from that they left open, by path."""
    from syncline import profiles
    from syncline.document import Mapping, Origin, Scalar, Sequence

    filled_in: dict[tuple[str, str], str] = {}

    def flag(name: str, value: Any) -> Node:
        return Scalar(value, Origin("command line", None, name))

    def section(name: str, entries: dict[str, Node]) -> Mapping:
        return Mapping(entries, Origin("command line", None, name))

    given = {
        "algorithm": flags.algorithm,
        "padding": flags.padding,
        "chunk": flags.chunk,
        "inflight": flags.inflight,
    }
    cut: dict[str, Node] = {key: flag(f"--{key}", value) for key, value in given.items() if value is not None}
    said = {*cut, *(["chunks"] if flags.chunk is not None else [])}
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
    endpoint = options.given_endpoint(name)
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


def _print(document: dict[str, Any], *, json: bool, quiet: bool, verbose: bool) -> None:
    from syncline import results

    if json:
        print(results.dumps(document))
    else:
        from syncline.cli import choices, tables

        tables.show(tables.pairs(_title(document), _rows(document)))
        for sentence in choices.sentences([document], named=False):
            print(sentence)
    if quiet:
        return
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    if verbose:
        for assumption in document["assumptions"]:
            print(f"assumed: {assumption}", file=sys.stderr)
    elif not json:
        print(_in_short(document["assumptions"]), file=sys.stderr)


def _in_short(assumptions: list[str]) -> str:
    """What nobody stated, in as few lines as it takes; how `auto` chose is said elsewhere."""
    from syncline.cli import tables

    groups: dict[str, list[str]] = {"topology": [], "": []}
    for line in assumptions:
        if not line.startswith("collective.algorithm = ") or "(auto: " not in line:
            about = "topology" if line.startswith("topology: ") else ""
            groups[about].append(line.removeprefix("topology: ").partition(" (default")[0])
    said = [*([f"topology: {', '.join(groups['topology'])}"] if groups["topology"] else []), *groups[""]]
    return tables.wrapped(f"assumed (-v says more): {'; '.join(said)}")


def _title(document: dict[str, Any]) -> str:
    ranks, groups = document["ranks"], document["groups"]
    if groups is None:
        return f"{document['collective']} over {ranks} NPUs"
    if len(groups) == 1:
        return f"{document['collective']} over {ranks} of {document['npus']} NPUs ({_shortened(groups[0])})"
    return f"{document['collective']} of {len(groups)} groups of {ranks} NPUs each"


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _breakdown(means: dict[str, Any]) -> list[tuple[str, str]]:
    """Where a chunk and a message spend their time."""
    from syncline import text_units

    named = {
        "chunk queueing": "chunk_queue_s",
        "bus queueing per message": "bus_queue_s",
        "bus transfer per message": "bus_transfer_s",
        "network per message": "network_s",
    }
    return [(name, text_units.duration(means[key])) for name, key in named.items() if means[key]]


def _rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    from syncline import text_units

    fidelity = document["fidelity"]
    simulated = f"{fidelity['simulated_npus']:,} of {document['npus']:,}"
    transit = document["endpoint"]["transit_bytes"]
    return [
        ("NPU", document["hardware"]["description"]),
        ("algorithm", document["algorithm"]),
        ("time", text_units.duration(document["time_s"])),
        ("size", text_units.size(document["size_bytes"])),
        ("algorithm bandwidth", text_units.bandwidth(document["algorithm_bandwidth_bytes_per_s"])),
        ("bus bandwidth", text_units.bandwidth(document["bus_bandwidth_bytes_per_s"])),
        ("lower bound", text_units.duration(document["lower_bound_s"])),
        ("efficiency", text_units.percent(document["efficiency"])),
        ("steps", str(document["steps"])),
        ("sent per NPU", text_units.size(document["network"]["bytes_sent_per_npu"])),
        *([("forwarded per NPU", text_units.size(transit / document["npus"]))] if transit else []),
        *_breakdown(document["endpoint"]["breakdown"]),
        *([("NPUs simulated", simulated)] if fidelity["folded"] else []),
        *_cost_rows(document),
    ]


def _cost_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    """What the ACE of an NPU costs, if the NPUs have one."""
    from syncline.cli import tables

    if "cost_model" not in document:
        return []
    area, power, energy, _ = tables.cost_cells(document["cost_model"])
    return [("ACE area, 28 nm", area), ("ACE power", power), ("ACE energy, at most", energy)]
