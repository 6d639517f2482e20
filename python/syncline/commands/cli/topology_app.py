"""`syncline topology`: topologies of machines, and that of the machine at hand."""

from __future__ import annotations

from typing import Final

import typer

from syncline.commands.cli import topology, topology_detect

app: Final = typer.Typer(
    help="Show topologies, and detect that of the machine at hand.\n\n\b\n"
    '  syncline topology show "Ring(4, rate=200GB/s)_Torus(8,4)"\n'
    "  syncline topology detect",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("show")(topology.show)
app.command("detect")(topology_detect.detect)
