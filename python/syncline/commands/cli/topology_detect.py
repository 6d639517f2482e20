"""`syncline topology detect`: the fabric of the machine at hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from syncline.base import outputs
from syncline.commands.api import detection
from syncline.commands.cli import options, topology
from syncline.fabric.detected import Places
from syncline.fabric.detected import detect as detected
from syncline.results import entries as results


def detect(
    gpus: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="The GPUs that are meant: PCI addresses (0000:07:00.0,...) or numbers."),
    ] = None,
    nccl_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="NCCL's topology XML; by default what NCCL_TOPO_FILE names."),
    ] = None,
    nvidia_smi: Annotated[str, typer.Option(metavar="COMMAND", help="The command nvidia-smi.")] = "nvidia-smi",
    sys_root: Annotated[
        Path, typer.Option("--sys", metavar="DIR", help="Where the file system /sys of the kernel is.")
    ] = Path("/sys"),
    output: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="The topology file to write.")
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Find the fabric of the machine at hand: NCCL_TOPO_FILE, nvidia-smi topo -m, or the PCI devices in /sys.

    \b
      syncline topology detect
      syncline topology detect --gpus 0000:07:00.0,0000:0a:00.0 --json
      syncline topology detect -o topology.txt
    """
    file = nccl_file if nccl_file is not None else os.environ.get("NCCL_TOPO_FILE")
    found = detected(gpus, Places(file, nvidia_smi, sys_root))
    if output is not None:
        outputs.write(output, found.content, outputs.TOPOLOGY)
    if json:
        print(results.dumps(detection.document(found)))
        return 0
    topology.show_graph(found.graph, found.gpus)
    for note in found.notes:
        print(f"not used: {note}", file=sys.stderr)
    trees = f"trees over the links {found.links}" if found.links else "trees are not better than other algorithms"
    print(f"detected: {found.source}; {trees}: {found.reason}", file=sys.stderr)
    return 0
