"""`syncline topology show`: a fabric as tables, as a document and as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline import _version
from syncline.base import inputs, outputs
from syncline.base.errors import command_line
from syncline.commands.api.machines import allocated, machine_named
from syncline.commands.cli import complete, fabric_tables, options, tables
from syncline.fabric import description, files, machines, picture, topologies
from syncline.fabric.graph import Graph
from syncline.fabric.topologies import Wired
from syncline.fabric.topology import NAMES, TopologyError
from syncline.results import entries as results

if TYPE_CHECKING:
    from syncline.fabric.topology import Topology

Machine = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help='A machine, such as dgx1v, dgx-h100 or gb200-nvl72, or a cluster: "dgx-a100(nodes=4)".',
        autocompletion=complete.machines,
    ),
]
Gpus = Annotated[str | None, typer.Option(metavar="LIST", help="The GPUs that take part, such as 0,1,3 or 0-3,8-11.")]


def show(
    topology: Annotated[
        str | None,
        typer.Argument(metavar="T|FILE", help="A topology string, or a file: NCCL XML, nvidia-smi topo, .topo, YAML."),
    ] = None,
    machine: Machine = None,
    gpus: Gpus = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the topology into this SVG file.")] = None,
    json: options.AsJson = False,
) -> int:
    """Show a topology, a machine or a topology file, or the part of it that some GPUs see.

    \b
      syncline topology show "Torus(4,8,4)"
      syncline topology show "Ring(4, rate=200GB/s, efficiency=94%)_Switch(8)" --svg fabric.svg
      syncline topology show "FatTree(k=4, rate=400Gb/s)" --svg tree.svg
      syncline topology show --machine dgx1v --gpus 0,1,4
      syncline topology show --machine "dgx-h100(nodes=16, nics=rail)" --svg cluster.svg
      syncline topology show topology.xml --json
    """
    if (topology is None) == (machine is None):
        message = "no topology is given" if topology is None else "a topology and --machine exclude each other"
        raise command_line("T", topology, message, "a topology string, a file, or --machine M")
    cluster = None if machine is None else machine_named(machine)
    fabric = cluster.graph() if cluster is not None else _named(topology or "")
    if not isinstance(fabric, Graph) and gpus is not None:
        raise command_line("--gpus", gpus, "all NPUs of a topology string take part", "--machine M or a file with it")
    chosen = allocated(fabric, gpus) if isinstance(fabric, Graph) else None
    if svg is not None:
        _draw(fabric, chosen, svg)
    if isinstance(fabric, Graph):
        show_graph(fabric, chosen or (), json=json)
    else:
        _show_product(fabric, json=json)
    return 0


def _named(text: str) -> Graph | Topology:
    """What a word of the command line stands for: a file if there is one, a path if it looks like one."""
    path = inputs.given(text)
    if path == inputs.STANDARD_INPUT:
        return files.load(path)
    if "(" not in text or _is_file(path):
        name = text.strip().lower()
        if name in machines.MACHINES and not _is_file(path):
            raise command_line("T", text, "this is a machine", f"--machine {name}")
        if _is_file(path) or path.suffix or len(path.parts) > 1:
            return files.load(path)
    try:
        fabric = topologies.parse(text)
    except TopologyError as error:
        accepted = topologies.STRINGS_ACCEPTED if error.accepted == topologies.ACCEPTED else error.accepted
        raise command_line("T", text, error.message, accepted) from None
    if not isinstance(fabric, Wired):
        return fabric
    if fabric.gpu is not None:
        raise command_line("T", text, "this is a machine", f'--machine "{fabric}"')
    return fabric.graph


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # longer than a path can be, or with zeros in it
        return False


def show_graph(graph: Graph, gpus: tuple[int, ...], *, json: bool = False) -> None:
    """Shows a fabric and the GPUs of it that are chosen, as tables or as a document."""
    gpu = None if graph.hardware is None else graph.hardware.gpu
    if json:
        known = {} if gpu is None else {"hardware": description.gpu_document(gpu)}
        print(results.dumps({**_version.versions(), **description.document(graph, gpus), **known}))
        return
    for table in fabric_tables.all_of(graph, gpus):
        tables.show(table)
    if gpu is not None:
        tables.show(fabric_tables.gpu(gpu))
    for warning in graph.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for assumption in graph.assumptions:
        print(f"assumed: {assumption}", file=sys.stderr)


def _show_product(topology: Topology, *, json: bool) -> None:
    document: dict[str, Any] = {
        **_version.versions(),
        "topology": str(topology),
        "npus": topology.npus,
        "links_per_npu": sum(d.links_per_npu for d in topology.dims),
        "payload_bandwidth_bytes_per_s": topology.egress_rate,
        "wire_bandwidth_bytes_per_s": topology.wire_rate,
        "diameter_s": results.seconds(topology.diameter),
        "dims": [
            {
                "block": NAMES[d.block],
                "size": d.size,
                "links_per_npu": d.links_per_npu,
                "link_bandwidth_bytes_per_s": d.rate,
                "link_payload_bandwidth_bytes_per_s": d.payload_rate,
                "latency_s": results.seconds(d.latency),
                "efficiency": float(d.efficiency),
            }
            for d in topology.dims
        ],
    }
    if json:
        print(results.dumps(document))
        return
    tables.show(tables.dimensions(document))


def _draw(fabric: Graph | Topology, gpus: tuple[int, ...] | None, path: Path) -> None:
    outputs.write(path, picture.svg(fabric, gpus), outputs.PICTURE, "--svg")
    print(f"picture: {path}", file=sys.stderr)
