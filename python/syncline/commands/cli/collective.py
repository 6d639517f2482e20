"""`syncline collective`: one collective, in the terms of nccl-tests."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from syncline.base import progress_display, text_units
from syncline.commands.api import single as described
from syncline.commands.cli import choices, options, output, single, tables
from syncline.results import entries as results


def collective(
    kind: single.Kind,
    size: Annotated[str, typer.Option(metavar="SIZE", help="The size of the full vector, as nccl-tests counts it.")],
    topology: single.Topology = None,
    machine: single.Machine = None,
    topology_file: single.TopologyFile = None,
    gpus: single.Gpus = None,
    group: single.Group = None,
    root: single.Root = None,
    plan: options.Plan = None,
    algorithm: options.Algorithm = None,
    endpoint: options.Endpoint = None,
    backend: options.Backend = None,
    padding: options.Padding = None,
    chunk: options.Chunk = None,
    slices: options.Slices = None,
    inflight: options.Inflight = None,
    set_: options.Set = None,
    out: output.Out = None,
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
      syncline collective all-reduce --size 500MB --machine dgx1v --algorithm packed-trees --backend flow
      syncline collective all-reduce --size 500MB --machine dgx1v --algorithm packed-trees --slices miad
      syncline collective all-reduce --size 64MB --topology "Ring(4)" --plan examples/plans/ring4.xml

    By default, the collective runs on the flow backend with the ideal endpoint, in the chunks that are fastest
    when they are tried out, over all lanes. The endpoints ace and baseline have the parameters of the ACE paper,
    which are listed as assumptions.
    Without --algorithm, the ideal endpoint uses auto, which tries all algorithms that make sense and says which
    one it chose; ace and baseline use ace-4-phase, and switch-offload uses hierarchical, which goes through every
    switch. With these three endpoints, an all-to-all is direct.
    """
    flags = single.Flags(
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
        plan=plan,
        padding=padding,
        chunk=chunk,
        slices=slices,
        inflight=inflight,
        fold=fold,
    )
    problems = options.common_problems(threads=threads, seed=seed)
    output.check(out, "collective", problems)
    settings = options.settings(set_, (), problems, seed=seed)

    finished = described.run(
        flags,
        settings,
        watch=progress_display.shown(quiet=quiet),
        warn=lambda warning: options.warn(warning, quiet=quiet),
    )
    for _, message in finished.outcomes.failures:
        print(f"the simulation failed: {message}", file=sys.stderr)
    if finished.document is None:
        if finished.outcomes.interrupted:
            print("interrupted", file=sys.stderr)
        return 130 if finished.outcomes.interrupted else 1
    _print(finished.document, json=json, quiet=quiet, verbose=verbose)
    output.write(out, "collective", finished.document, quiet=quiet)
    return 0


def _print(document: dict[str, Any], *, json: bool, quiet: bool, verbose: bool) -> None:
    if json:
        print(results.dumps(document))
    else:
        tables.show(tables.pairs(_title(document), _rows(document)))
        for sentence in (
            *choices.sentences([document], named=False),
            *choices.of_timeouts([document], named=False),
        ):
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
        return f"{document['collective']} over {ranks} of {document['npus']} NPUs"
    return f"{document['collective']} of {len(groups)} groups of {ranks} NPUs each"


def _breakdown(means: dict[str, Any]) -> list[tuple[str, str]]:
    """Where a chunk and a message spend their time."""
    named = {
        "chunk queueing": "chunk_queue_s",
        "bus queueing per message": "bus_queue_s",
        "bus transfer per message": "bus_transfer_s",
        "network per message": "network_s",
    }
    return [(name, text_units.duration(means[key])) for name, key in named.items() if means[key]]


def _rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    fidelity = document["fidelity"]
    simulated = f"{fidelity['simulated_npus']:,} of {document['npus']:,}"
    transit = document["endpoint"]["transit_bytes"]
    groups = document["groups"]
    return [
        *([("group", groups[0])] if groups is not None and len(groups) == 1 else []),
        ("NPU", document["hardware"]["description"]),
        ("algorithm", document["algorithm"]),
        ("time", text_units.duration(document["time_s"])),
        ("size", text_units.size(document["size_bytes"])),
        ("algorithm bandwidth", text_units.bandwidth(document["algorithm_bandwidth_bytes_per_s"])),
        ("bus bandwidth", text_units.bandwidth(document["bus_bandwidth_bytes_per_s"])),
        ("lower bound", text_units.duration(document["lower_bound_s"])),
        ("efficiency", _efficiency(document)),
        ("steps", str(document["steps"])),
        ("sent per NPU", text_units.size(document["network"]["bytes_sent_per_npu"])),
        *([("forwarded per NPU", text_units.size(transit / document["npus"]))] if transit else []),
        *_breakdown(document["endpoint"]["breakdown"]),
        *([("NPUs simulated", simulated)] if fidelity["folded"] else []),
        *_cost_rows(document),
    ]


def _efficiency(document: dict[str, Any]) -> str:
    """The share of the lower bound in the time; a backend that ignores contention may beat what no schedule does."""
    beaten = (document["efficiency"] or 0) > 1 and document["network"]["link_demand"] is not None
    return text_units.percent(document["efficiency"]) + (", as contention is ignored" if beaten else "")


def _cost_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    """What the ACE of an NPU costs, if the NPUs have one."""
    if "cost_model" not in document:
        return []
    area, power, energy, _ = tables.cost_cells(document["cost_model"])
    return [("ACE area, 28 nm", area), ("ACE power", power), ("ACE energy, at most", energy)]
