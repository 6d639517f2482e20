"""Random command lines: known and unknown commands, flags with and without values, in any order."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, Final

from . import experiments, mutation
from .case import Case, Corpus, generator
from .corpus import FILES, inputs

WITH_FILES: Final = (
    "one.yaml",
    "small.yaml",
    "links.yaml",
    "nccl.xml",
    "plan.json",
    "plan.xml",
    "mscclpp.json",
    "measured.csv",
    "nowhere",
    ".",
)
VALUES: Final = (
    *("--json", "-q", "-v", "--help", "--", "-", "=", "--set", "-o"),
    *("training.iterations=1", "npu.sms=0", "x", "a.b.c=1", "variants.SMs.npu.sms=40", "topology.dims.0.size=3"),
    *("all-reduce", "all-to-all", "broadcast", "64MB", "1KiB:1MiB:x2", "1KiB", "64", "ethernet"),
    *("ring", "themis", "0", "1", "-1", "99999999999", "off", "equal"),
)
FORMATS: Final = {"import": ("fx", "chakra", "astra", "kineto"), "export-trace": ("chakra", "kineto")}
"""Formats of commands; those of the others are formats of plans."""
MOST: Final = 4
"""Flags of a line."""


@cache
def known() -> dict[str, tuple[list[Any], bool]]:
    """The commands with their parameters, and whether they belong to a group."""
    import typer

    from syncline.commands import cli

    root: Any = typer.main.get_command(cli.app)
    found: dict[str, tuple[list[Any], bool]] = {}
    for name, command in root.commands.items():
        for inner, its in getattr(command, "commands", {}).items():
            found[f"{name} {inner}"] = (list(its.params), True)
        if not hasattr(command, "commands"):
            found[name] = (list(command.params), False)
    return found


def _value(chance: Random) -> str:
    kind = chance.randrange(7)
    if kind == 0:
        return experiments.topology(chance)
    if kind == 1:
        return experiments.machine(chance)
    if kind == 2:
        return experiments.groups(chance)
    if kind == 3:
        return chance.choice(WITH_FILES)
    if kind == 4:
        return chance.choice(mutation.WORDS)
    return chance.choice((*VALUES, *experiments.sections(), *experiments.SIZES, *experiments.ALGORITHMS))


def _sensible(chance: Random, name: str, parameter: str) -> list[str]:
    """Arguments with which a command gets somewhere."""
    needed: dict[str, Callable[[], str]] = {
        "kind": lambda: chance.choice(experiments.KINDS),
        "size": lambda: chance.choice(experiments.SIZES[:9]),
        "topology": lambda: experiments.topology(chance),
        "machine": lambda: experiments.machine(chance),
        "experiment": lambda: chance.choice(("one.yaml", "small.yaml", "machine.yaml", "text.yaml")),
        "file": lambda: "space.sweep.yaml" if name == "sweep" else "formula.figure.yaml",
        "files": lambda: "module.json",
        "plan": lambda: chance.choice(("plan.json", "schedule.json", "plan.xml", "mscclpp.json")),
        "algorithm": lambda: chance.choice(experiments.ALGORITHMS),
        "ranks": lambda: chance.choice(("4", "2x2", "1", "3")),
        "format_": lambda: chance.choice(FORMATS.get(name, ("plan", "msccl-xml", "mscclpp-json"))),
        "collective": lambda: chance.choice(experiments.KINDS),
        "objective": lambda: chance.choice(("time", "trees", "depth")),
        "links": lambda: chance.choice(("auto", "nvlink", "all")),
        "table": lambda: chance.choice(("measured.csv", "measured.log")),
        "sizes": lambda: chance.choice(("1KiB:1MiB:x4", "64MB", "8B")),
        "claims": lambda: "nothing",
    }
    make = needed.get(parameter)
    return [] if make is None else [make()]


@generator("command-line", 12)
def command_line(chance: Random, _: Corpus) -> Case:
    """A command with some of its arguments, and what else there may be."""
    files = inputs(*FILES)
    if chance.random() < 0.15:
        anything = (*known(), *VALUES, *experiments.sections(), *mutation.WORDS)
        words = [chance.choice(anything) for _ in range(chance.randrange(5))]
        return Case([_quick(words)], files)
    name = chance.choice(list(known()))
    parameters, _grouped = known()[name]
    line = name.split()
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            given = _sensible(chance, name, parameter.name) if chance.random() < 0.85 else [_value(chance)]
            line += given
    options = [p for p in parameters if p.param_type_name == "option" and p.name != "help"]
    wanted = [p for p in options if p.required and chance.random() < 0.95]
    wanted += [p for p in options if p.name == "topology" and name == "collective"]
    for option in [*wanted, *chance.sample(options, min(len(options), chance.randrange(MOST)))]:
        line.append(chance.choice(option.opts))
        if not option.is_flag:
            line += (_sensible(chance, name, option.name) if chance.random() < 0.7 else []) or [_value(chance)]
    if chance.random() < 0.2:
        line.insert(chance.randrange(len(line) + 1), _value(chance))
    return Case([_quick(line)], files)


def _quick(line: list[str]) -> list[str]:
    """Without what has nothing to do with input and takes long: all claims of the ledger, and further processes."""
    line = [*line, "nothing"] if "reproduce" in line else line
    return [*line, "--threads", "1"] if {"sweep", "figure"} & set(line) and "--threads" not in line else line
