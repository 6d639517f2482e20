"""The table of commands: the name of each, where its function is, and what it says of itself.

Only the module of the command that is called is imported: with all of them, `syncline --help` would take as long as a
small simulation.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the table."""

    name: str
    place: str
    """The module in this folder and the function or [`typer.Typer`] in it: `study.run`."""
    says: str
    """The first paragraph of its help."""

    def load(self) -> Any:
        """The command as typer takes it: its module is imported."""
        module, _, name = self.place.partition(".")
        found = getattr(import_module(f"{__package__}.{module}"), name)
        if isinstance(found, typer.Typer):
            group = typer.main.get_command(found)
            group.name = self.name
            return group
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(self.name)(found)
        return typer.main.get_command(alone)


COMMANDS: Final = (
    Command(
        "init",
        "init.init",
        "Write an experiment to start from, with comments; it runs at once, and shows exposed communication.",
    ),
    Command("list", "listing.names", "List what there is by name, with a line of what each is."),
    Command("run", "study.run", "Run an experiment, and compare its variants."),
    Command("check", "check.check", "Validate an experiment and estimate what running it takes."),
    Command(
        "explain",
        "explain.explain",
        "Say why a run takes as long as it does, what limits it, and what would help.",
    ),
    Command(
        "diff",
        "diff.diff",
        "Say where the time of two runs differs: an iteration of A, step by step, becomes one of B.",
    ),
    Command("sweep", "sweep.sweep", "Run an experiment for every combination of values of some of its fields."),
    Command("figure", "figure.figure", "Simulate what a figure shows, and draw it beside the published values."),
    Command("fit", "fit.fit", "List which divisions of a model fit into the memory of the NPUs, and with what terms."),
    Command("search", "search.search", "Find the fastest division of a model among NPUs that fits into their memory."),
    Command("collective", "collective.collective", "Run one collective among all NPUs, or in several groups at once."),
    Command("bench", "bench.bench", "Predict the table that nccl-tests would print."),
    Command(
        "calibrate",
        "calibrate.calibrate",
        "Fit the software model of a machine to a measured table, and print the residuals.",
    ),
    Command(
        "measure",
        "measure.measure",
        "Time the kernels of models with PyTorch, and write a table that npu.compute.table takes.",
    ),
    Command("reproduce", "reproduce.reproduce", "Compare simulations with published figures."),
    Command(
        "trees",
        "trees.trees",
        "Find the best rate of a collective on a machine, and spanning trees that reach it (Blink, MLSys 2020).",
    ),
    Command("verify", "verify.verify", "Verify a collective schedule on symbolic data."),
    Command(
        "export",
        "export.export",
        "Write an algorithm down, as a plan, as MSCCL XML or as an execution plan of MSCCL++; --plan takes "
        "all of them.",
    ),
    Command(
        "export-trace",
        "export_trace.export_trace",
        "Write what NPUs do in an experiment as traces that other programs read.",
    ),
    Command(
        "import",
        "import_trace.import_trace",
        "Import a trace or a workload of another program as a graph, and write an experiment that runs it.",
    ),
    Command(
        "report",
        "inspect.report",
        "Write the HTML report of a run (again), of several runs side by side, or of a sweep.",
    ),
    Command(
        "schema",
        "inspect.schema",
        "Print a JSON Schema: of files that commands read, for editors, or of documents that they print with --json.",
    ),
    Command(
        "completion",
        "completion.completion",
        "Print the script with which a shell completes commands, options, names and files.",
    ),
    Command("topology", "topology_app.app", "Show topologies, and detect that of the machine at hand."),
)


class _Loaded(MutableMapping[str, Any]):
    """The commands by name, each loaded when it is looked up."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {command.name: command for command in COMMANDS}

    def __getitem__(self, name: str) -> Any:
        found = self._known[name]
        if isinstance(found, Command):
            found = self._known[name] = found.load()
        return found

    def __setitem__(self, name: str, command: Any) -> None:
        self._known[name] = command

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class Commands(TyperGroup):
    """The group of all commands. Help and completion of names load none of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": _Loaded()})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the list of commands."""
        _lines().format_commands(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """What may follow: names of commands, and options."""
        names = _lines().shell_complete(ctx, incomplete)
        return [*names, *super(TyperGroup, self).shell_complete(ctx, incomplete)]


def _lines() -> TyperGroup:
    """The commands with their help alone."""
    return TyperGroup(commands=[TyperCommand(command.name, help=command.says) for command in COMMANDS])
