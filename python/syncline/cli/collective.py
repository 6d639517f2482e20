"""`syncline collective`: one collective, in the terms of nccl-tests."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.cli import options

if TYPE_CHECKING:
    from syncline.document import Mapping, Node

DEFAULT_BACKEND = "analytical"


def collective(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="all-reduce, reduce-scatter or all-gather.")],
    size: Annotated[str, typer.Option(metavar="SIZE", help="As nccl-tests counts it: the full vector.")],
    topology: Annotated[str, typer.Option(metavar="T", help='Such as "Ring(8)" or "Torus(4,8,4, rate=25GB/s)".')],
    algorithm: options.Algorithm = None,
    endpoint: options.Endpoint = "ideal",
    backend: options.Backend = DEFAULT_BACKEND,
    chunk: options.Chunk = None,
    inflight: options.Inflight = None,
    set_: options.Set = None,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    fold: options.Fold = "auto",
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Run one collective of all NPUs.

    \b
      syncline collective all-reduce --size 64MB --topology "Torus(4,8,4)"
      syncline collective all-gather --size 1GiB --topology "Ring(8, rate=100Gb/s, latency=1us)" --json
      syncline collective all-reduce --size 64MB --topology "Ring(4)_Ring(8)" --endpoint ace --backend packet

    By default on the analytical backend with the ideal endpoint, as one chunk over all lanes. The endpoints
    ace and baseline come with the ACE paper's parameters, which the assumptions list. Without --algorithm, the
    ideal endpoint has auto, the others ace-4-phase.
    """
    root, filled_in = _tree(
        kind=kind,
        size=size,
        topology=topology,
        endpoint=endpoint or "ideal",
        algorithm=algorithm,
        backend=backend or DEFAULT_BACKEND,
        chunk=chunk,
        inflight=inflight,
    )
    problems = options.common_problems(fold=fold, threads=threads, seed=seed)

    from syncline.schema.load import load

    study = options.load(problems, set_, lambda overrides: load(root, "command line", Path(), overrides))

    from syncline import results, runner

    runner.quiet = quiet
    began = time.monotonic()
    outcomes = runner.run_all(study.variants, 1)
    outcomes.raise_if_refused()
    for _, message in outcomes.failures:
        print(f"the simulation failed: {message}", file=sys.stderr)
    if not outcomes.results:
        return 130 if outcomes.interrupted else 1
    variant, result = outcomes.results[0]
    warnings = [*study.warnings, *result.summary["warnings"]]
    document = results.document([variant], seed=seed, status="complete", warnings=warnings)
    document["assumptions"] = filled_in + document["assumptions"]
    document |= results.collective_fields(variant, result)
    document["cost"] = results.cost(time.monotonic() - began, [result])
    _print(document, json=json, quiet=quiet, verbose=verbose)
    return 0


def _tree(
    *,
    kind: str,
    size: str,
    topology: str,
    endpoint: str,
    algorithm: str | None,
    backend: str,
    chunk: str | None,
    inflight: int | None,
) -> tuple[Mapping, list[str]]:
    """The experiment that the flags describe, and what they left open."""
    from syncline import profiles
    from syncline.document import Mapping, Origin, Scalar

    filled_in: list[str] = []

    def flag(name: str, value: Any) -> Node:
        return Scalar(value, Origin("command line", None, name))

    def section(name: str, entries: dict[str, Node]) -> Mapping:
        return Mapping(entries, Origin("command line", None, name))

    cut: dict[str, Node] = {} if algorithm is None else {"algorithm": flag("--algorithm", algorithm)}
    said = {
        "algorithm": algorithm is not None,
        "lanes": algorithm == "ring-unidirectional",
        "chunk": chunk is not None,
        "chunks": chunk is not None,
        "inflight": inflight is not None,
    }
    for key, value in profiles.COLLECTIVES.get(endpoint, {}).items():
        if not said[key]:
            cut[key] = flag("--endpoint", value)
            filled_in.append(f"collective.{key} = {value} (default of `collective` with this endpoint)")
    if chunk is not None:
        cut["chunk"] = flag("--chunk", chunk)
    if inflight is not None:
        cut["inflight"] = flag("--inflight", inflight)
    given = options.given_endpoint(endpoint)
    for key, value in given.items():
        if key != "kind":
            filled_in.append(f"endpoint.{key} = {value} ({profiles.SOURCE})")
    root = section(
        "",
        {
            "name": flag("KIND", "collective"),
            "topology": flag("--topology", topology),
            "network": section("--backend", {"backend": flag("--backend", backend)}),
            "workload": section("KIND", {"collective": flag("KIND", kind), "size": flag("--size", size)}),
            "collective": section("--algorithm", cut),
            "endpoint": section("--endpoint", {k: flag("--endpoint", v) for k, v in given.items()}),
        },
    )
    return root, filled_in


def _print(document: dict[str, Any], *, json: bool, quiet: bool, verbose: bool) -> None:
    from syncline import results

    if json:
        print(results.dumps(document))
    else:
        from syncline.cli import tables

        rows = [
            ("time", tables.duration(document["time_s"])),
            ("size", tables.size(document["size_bytes"])),
            ("algorithm bandwidth", tables.bandwidth(document["algorithm_bandwidth_bytes_per_s"])),
            ("bus bandwidth", tables.bandwidth(document["bus_bandwidth_bytes_per_s"])),
            ("lower bound", tables.duration(document["lower_bound_s"])),
            ("efficiency", tables.percent(document["efficiency"])),
            ("steps", str(document["steps"])),
            ("sent per NPU", tables.size(document["network"]["bytes_sent_per_npu"])),
        ]
        tables.show(tables.pairs(f"{document['collective']} over {document['npus']} NPUs", rows))
    if quiet:
        return
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    if verbose:
        for assumption in document["assumptions"]:
            print(f"assumed: {assumption}", file=sys.stderr)
