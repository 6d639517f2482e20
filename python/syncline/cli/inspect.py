"""`syncline schema`, `syncline topology show` and `syncline report`: looking without simulating."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from syncline.cli import options


def schema() -> int:
    """Print the JSON Schema of experiment files, for editors.

    \b
      syncline schema > experiment.schema.json
    """
    from syncline.results import dumps
    from syncline.schema.export import json_schema

    print(dumps(json_schema()))
    return 0


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that run --out has written.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Where to; by default report.html in DIR.")] = None,
) -> int:
    """Write the HTML report of a run again.

    \b
      syncline report runs/resnet50
      syncline report runs/resnet50 -o resnet50.html
    """
    from syncline import rundir
    from syncline.errors import command_line
    from syncline.report import html

    document, variants, command = rundir.read(directory)
    target = directory / "report.html" if out is None else out
    try:
        rundir.write(target, html.build(document, variants, command))
    except OSError as error:
        raise command_line("--out", str(target), f"this cannot be written: {error.strerror}") from None
    print(f"report: {target}", file=sys.stderr)
    return 0


def topology_show(
    topology: Annotated[str, typer.Argument(metavar="T", help='Such as "Ring(4, rate=200GB/s)_Ring(8)".')],
    json: options.AsJson = False,
) -> int:
    """Show the dimensions of a topology.

    \b
      syncline topology show "Torus(4,8,4)"
      syncline topology show "Ring(4, rate=200GB/s, efficiency=94%)_Ring(8)" --json
    """
    from syncline.errors import command_line
    from syncline.topology import NAMES, TopologyError, parse

    try:
        parsed = parse(topology)
    except TopologyError as error:
        raise command_line("T", topology, error.message, error.accepted) from None

    from syncline import results

    document = {
        "schema_version": results.SCHEMA_VERSION,
        "topology": str(parsed),
        "npus": parsed.npus,
        "links_per_npu": sum(d.links_per_npu for d in parsed.dims),
        "payload_bandwidth_bytes_per_s": parsed.egress_rate,
        "wire_bandwidth_bytes_per_s": parsed.wire_rate,
        "diameter_s": results.seconds(parsed.diameter),
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
            for d in parsed.dims
        ],
    }
    if json:
        print(results.dumps(document))
        return 0

    from syncline.cli import tables

    tables.show(tables.dimensions(document))
    return 0
