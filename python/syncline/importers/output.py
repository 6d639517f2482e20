"""What an import leaves: a graph file, an experiment that runs it, and what differs in meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from syncline.base import folders, outputs
from syncline.base.document import scalar
from syncline.base.errors import InputError, command_line
from syncline.experiment import load
from syncline.fabric import topologies
from syncline.fabric.topology import Topology, TopologyError
from syncline.importers.traces import Trace
from syncline.sections import graph_file

GRAPH, EXPERIMENT, DIFFERENCES = "graph.json", "experiment.yaml", "differences.md"
MOST_NPUS_NAMED: Final = 64


@dataclass(frozen=True, slots=True)
class Difference:
    """What a key or a rule of another program comes to here."""

    what: str
    there: str
    """What it means there."""
    here: str
    """What it means here, or why it is left out."""


@dataclass(frozen=True, slots=True)
class Like:
    """An experiment whose sections an import takes."""

    label: str
    folder: Path
    """Where its relative paths start."""
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says beside the files."""

    topology: str | None = None
    groups: Path | None = None
    """A file with communicators, in the form of ASTRA-sim."""
    times: str = "recorded"
    """Whether compute nodes take what was recorded, or what the NPU needs: `recorded` or `computed`."""
    backend: str | None = None
    like: Like | None = None
    """An experiment whose other sections are taken."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Of an ASTRA-sim directory: which file is which."""
    npus: int | None = None


@dataclass(slots=True)
class Imported:
    """A foreign workload, as what Syncline takes."""

    format: str
    name: str
    graph: dict[str, Any] | None
    """A graph file; none where another file is the workload."""
    workload: dict[str, Any] = field(default_factory=dict)
    """Keys of the experiment's `workload` beside the graph."""
    topology: Any = None
    sections: dict[str, Any] = field(default_factory=dict)
    """Further sections of the experiment."""
    assumptions: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    """Further files, by name, that the experiment reads."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the document says of it: NPUs, nodes, and so on."""
    warnings: list[str] = field(default_factory=list)
    """What a user has to know before the numbers of a run are taken for what was recorded."""
    traces: Sequence[Trace] = ()
    """The traces of which the graph was made. Replays are held against the recorded time, where they have one."""


def graph_text(graph: Mapping[str, Any]) -> str:
    """A graph file with a line for each node and each family."""
    families = ",\n".join(f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in graph["families"].items())
    classes = []
    for name, of in graph["classes"].items():
        nodes = ",\n".join(f"    {json.dumps(node)}" for node in of["nodes"])
        head = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in of.items() if key != "nodes")
        classes.append(f'  {json.dumps(name)}: {{{head}, "nodes": [\n{nodes}\n  ]}}')
    joined = ",\n".join(classes)
    more = {key: value for key, value in graph.items() if key not in ("format", "families", "classes")}
    head = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in more.items())
    start = f'{{"format": "syncline-graph",\n{head}"families": {{'
    return f'{start}{f"{chr(10)}{families}{chr(10)}" if families else ""}}},\n"classes": {{\n{joined}\n}}}}\n'


class _Dumper(yaml.SafeDumper):
    """Quotes text that an experiment file would read as something else."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(scalar(text), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def experiment_text(imported: Imported, graph_name: str) -> str:
    """The experiment that runs it."""
    workload = dict(imported.workload)
    if imported.graph is not None:
        workload = {"graph": graph_name, **workload}
    values = {"name": experiment_name(imported.name), "topology": imported.topology, "workload": workload}
    text = yaml.dump({**values, **imported.sections}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    comments = [f"# Written by syncline import {imported.format}."]
    comments += [f"# assumed: {_one_line(assumption)}" for assumption in imported.assumptions]
    return "\n".join([*comments, text])


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def experiment_name(name: str) -> str:
    """A name that an experiment may have."""
    cleaned = re.sub(r"[^A-Za-z0-9 _+-]", "-", name)[:60].strip()
    cleaned = cleaned if re.match(r"[A-Za-z0-9]", cleaned) else f"trace {cleaned}".strip()
    return cleaned if isinstance(scalar(cleaned), str) else f"trace {cleaned}"


def differences_text(imported: Imported) -> str:
    """The table of what differs, as a page."""
    lines = [
        f"# What differs in meaning: {_one_line(imported.name)}",
        "",
        "| what | in ASTRA-sim | here |",
        "|---|---|---|",
        *(f"| {_cell(d.what)} | {_cell(d.there)} | {_cell(d.here)} |" for d in imported.differences),
        "",
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return _one_line(text).replace("|", "\\|")


@dataclass(frozen=True, slots=True)
class Places:
    """Where the files go."""

    folder: Path
    graph: str
    experiment: str
    differences: str


def places(out: Path | None, name: str) -> Places:
    """What `--out` means: a folder, or the graph file or the experiment, with the other one beside it."""
    if out is None:
        out = Path(re.sub(r"[^A-Za-z0-9_+-]", "-", Path(name).name)[:60] or "imported")
    if out.suffix in (".json", ".yaml", ".yml"):
        stem = out.stem
        experiment = out.name if out.suffix != ".json" else f"{stem}.yaml"
        return Places(out.parent, out.name if out.suffix == ".json" else f"{stem}.json", experiment, f"{stem}.md")
    return Places(out, GRAPH, EXPERIMENT, DIFFERENCES)


def save(imported: Imported, out: Path | None) -> dict[str, str]:
    """Writes the files, checks that the experiment is legal, and returns their names. Raises [`InputError`]."""
    to = places(out, imported.name)
    contents: dict[str, bytes] = dict(imported.files)
    if imported.graph is not None:
        text = graph_text(imported.graph).encode("utf-8", "replace")
        if len(text) > graph_file.MAX_BYTES:
            message = f"the graph has {len(text)} bytes, which is more than a graph file may have"
            raise command_line("FILE", imported.name, message, f"traces that come to {graph_file.MAX_BYTES} bytes")
        contents[to.graph] = text
    if imported.differences:
        contents[to.differences] = differences_text(imported).encode()
    contents[to.experiment] = experiment_text(imported, to.graph).encode()
    experiment = to.folder / to.experiment
    kinds = {to.graph: outputs.GRAPH, to.differences: outputs.DIFFERENCES, to.experiment: outputs.IMPORTED}
    written = {name: (content, kinds.get(name) or outputs.same(content)) for name, content in contents.items()}
    with folders.made(to.folder):
        outputs.write_into(to.folder, written)
        try:
            load.load_file(experiment, str(experiment))
        except InputError:
            for name in contents:
                (to.folder / name).unlink(missing_ok=True)
            raise
    files = {"experiment": str(experiment)}
    if imported.graph is not None:
        files["graph"] = str(to.folder / to.graph)
    if imported.differences:
        files["differences"] = str(to.folder / to.differences)
    return files


def topology_size(text: str, label: str = "--topology") -> tuple[int, list[int]]:
    """The NPUs of a topology, and its dimensions where it is a product. Raises [`InputError`]."""
    try:
        parsed = topologies.parse(text)
    except TopologyError as error:
        raise command_line(label, text, error.message, error.accepted) from None
    return parsed.npus, [dim.size for dim in parsed.dims] if isinstance(parsed, Topology) else []


def checked_topology(text: str | None, npus: int, assumptions: list[str]) -> str:
    """The topology that is given, or a switch. Raises [`InputError`] if it has too few NPUs."""
    if text is None:
        assumptions.append(f"topology = Switch({npus}) (--topology says another one)")
        return f"Switch({npus})"
    found, _ = topology_size(text)
    if found < npus:
        raise command_line("--topology", text, f"it has {found} NPUs", f"at least {npus}, those of the trace")
    return text


def sections_of_default(backend: str | None) -> dict[str, Any]:
    """The sections of an experiment about whose fabric nothing is known."""
    return {"network": backend or "flow", "endpoint": {"kind": "ideal"}, "training": {"iterations": 1}}


def npus_text(npus: Sequence[int]) -> str:
    """NPUs as text, the first of them where they are many."""
    listed = ", ".join(str(npu) for npu in npus[:MOST_NPUS_NAMED])
    return f"{listed} and {len(npus) - MOST_NPUS_NAMED} more" if len(npus) > MOST_NPUS_NAMED else listed
