"""A directory of ASTRA-sim 2.x as it is: workload, system, network, remote memory, communicator groups.

Files are recognised by their content, or named. The workload is a Chakra execution trace, or a text workload of version
1.0, which an experiment takes as it is. What each key comes to is in `astra_system`; what differs in meaning is a
table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from syncline.base import document, inputs
from syncline.base.errors import UNKNOWN_KEY, InputError, Problem, command_line, did_you_mean, one_of, shown
from syncline.importers import astra_system, chakra, groups_file, output, ranks
from syncline.importers.json_text import Text, load
from syncline.importers.output import Asked, Difference, Imported
from syncline.sections.workloads import TextFile

MOST_FILES: Final = 20_000
MOST_DEPTH: Final = 6
MOST_UNREAD: Final = 10
"""Files that could not be read and are named where a part is missing."""
MAX_BYTES: Final = 1024 * 1024
GIB: Final = 2**30
BLOCKS: Final = ("Ring", "FullyConnected", "Switch")
NETWORK_KEYS: Final = ("topology", "npus_count", "bandwidth", "latency")
OLD_NETWORK_KEYS: Final = ("topology-name", "topologies-per-dim", "dimensions-count", "units-count")
MEMORY_KEYS: Final = ("memory-type", "remote-mem-latency", "remote-mem-bw", "num-nodes", "num-npus-per-node")
MEMORIES: Final = (*("NO_MEMORY_EXPANSION", "PER_NODE_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION", "MEMORY_POOL"),)
PARALLELISMS: Final = (
    *("MICRO", "DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_DLRM", "HYBRID_DLRM_ENHANCED"),
    *("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_CUSTOMIZED"),
)
ALWAYS: Final = (
    Difference(
        "time of a message",
        "whole nanoseconds, rounded down; the congestion-unaware backend lets messages share links at no cost",
        "whole picoseconds, rounded up; --backend analytical serialises at the sender's port, flow shares links",
    ),
    Difference(
        "communication of an NPU",
        "one collective or send is in flight at a time; receives are not counted",
        "whatever is ready begins; chunks along a dimension are limited (collective.inflight_per_dimension)",
    ),
    Difference(
        "message across several dimensions",
        "the congestion-unaware backend charges the first dimension in which the NPUs differ",
        "every link on the way",
    ),
)
OF_TRACES: Final = (
    Difference("node without a duration", "takes 1 ns", "takes 1 ns, unless it is a collective or a message"),
    Difference(
        "comm_size of an all-gather",
        "what an NPU contributes",
        "the full vector: sizes are multiplied by the number of ranks",
    ),
    Difference(
        "ready nodes", "the smallest number first", "the first of the list, which is sorted by dependency and number"
    ),
)
OF_TEXTS: Final = (
    Difference(
        "text workload",
        "2.x reads traces that Chakra's converter makes: it takes times for microseconds and forgets groups",
        "read as 1.0 did: times in nanoseconds, with groups",
    ),
)


@dataclass(slots=True)
class _Parts:
    """The files of a directory, by what they are."""

    traces: dict[str, Path] = field(default_factory=dict)
    """Prefixes of traces, with one of the files."""
    texts: list[Path] = field(default_factory=list)
    systems: list[Path] = field(default_factory=list)
    networks: list[Path] = field(default_factory=list)
    memories: list[Path] = field(default_factory=list)
    groups: list[Path] = field(default_factory=list)
    unread: list[Problem] = field(default_factory=list)
    """Why files could not be looked into, each of which may be the part that is missing."""

    def missing(self, part: str, message: str, accepted: str) -> InputError:
        """That there is no such part, and which files it may be in."""
        return InputError([*command_line(f"--{part}", None, message, accepted).problems, *self.unread[:MOST_UNREAD]])


def imported(arguments: Sequence[str], asked: Asked) -> Imported:
    """A directory as a graph or a text workload, with an experiment. Raises [`InputError`]."""
    if len(arguments) != 1:
        raise command_line("FILE", " ".join(arguments), "this is more than one directory", "one directory")
    parts = _found(Path(arguments[0]))
    network = _one(parts, parts.networks, "network", asked, "a YAML file with topology, npus_count, bandwidth, latency")
    assert network is not None
    topology, dims = _topology(network)
    system_path = _one(parts, parts.systems, "system", asked, "a JSON file with keys such as scheduling-policy")
    assert system_path is not None
    system = astra_system.read(_json(system_path), len(dims))
    made = Imported("astra", "", None, topology=topology)
    made.sections = {"network": asked.backend or "analytical", **system.sections, "training": {"iterations": 1}}
    made.differences = [*system.differences, *ALWAYS]
    made.assumptions.append(f"network = {asked.backend or 'analytical'} (a directory does not say which backend)")
    _take_workload(made, parts, asked, system, dims)
    _keep_used(made)
    return made


def _keep_used(made: Imported) -> None:
    """Leaves algorithms out of kinds of collectives that the workload does not have: they would have no effect."""
    if made.graph is None:
        kinds = set(TextFile.of("", made.files["workload.txt"].decode("utf-8", "replace")).kinds)
    else:
        calls = [node["collective"]["kind"] for node in _nodes(made.graph) if "collective" in node]
        kinds = {*calls, *("all-reduce" for node in _nodes(made.graph) if "barrier" in node)}
    collective = made.sections["collective"]
    own = {kind: name for kind, name in collective.pop("algorithms", {}).items() if kind in kinds}
    if own and kinds == own.keys() and "per_dimension" not in collective:
        collective["algorithm"] = own.pop(min(own))
    own = {kind: name for kind, name in own.items() if name != collective["algorithm"]}
    if own:
        collective["algorithms"] = own


def _nodes(graph: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for of in graph["classes"].values():
        yield from of["nodes"]


def _take_workload(
    made: Imported, parts: _Parts, asked: Asked, system: astra_system.System, dims: Sequence[int]
) -> None:
    npus = output.topology_size(made.topology)[0]
    workload = _workload(parts, asked)
    if isinstance(workload, Path):
        made.name, made.graph = workload.stem, None
        content = inputs.read_bytes(workload, str(workload), 64 * MAX_BYTES)
        made.files["workload.txt"] = content
        made.workload = {"astra_text": "workload.txt"}
        made.sections["training"] = {"iterations": 1, "tail": "drain"}
        made.facts = {"npus": npus}
        made.differences += OF_TEXTS
        return
    rules = chakra.Rules(computed=system.computed, least_ps=1000, dims=dims)
    _take_memory(made, parts, asked, rules)
    groups_path = asked.groups or _one(parts, parts.groups, "groups", asked, None)
    groups = {} if groups_path is None else groups_file.read(groups_path)
    files = ranks.of([workload], chakra.SUFFIXES)
    ranks.require_all(files)
    if len(files.by_npu) < npus:
        some = next(iter(files.by_npu.values()))
        message = f"there are traces of {len(files.by_npu)} NPUs, and the network has {npus}"
        raise InputError([Problem(str(some), None, "", None, message, "a trace for each NPU of the network")])
    if len(files.by_npu) > npus:
        made.assumptions.append(f"traces of NPUs from {npus} on are not read, as in ASTRA-sim")
        files = ranks.Files(files.name, {npu: path for npu, path in files.by_npu.items() if npu < npus})
    found, own = chakra.assembled(files, rules, groups)
    made.name, made.graph = files.name, found.graph
    if own is not None:
        made.workload["element"] = f"{own.element}B"
    made.assumptions += chakra.said(rules)
    made.facts = chakra.facts(found)
    made.traces = found.traces
    made.differences += OF_TRACES


def _workload(parts: _Parts, asked: Asked) -> Path | str:
    """The text workload, or the prefix of traces."""
    given = asked.parts.get("workload")
    if given is not None:
        path = Path(given)
        is_text = path.suffix == ".txt" and "\0" not in given and path.is_file()
        return path if is_text else given
    candidates: list[Path | str] = [*parts.traces, *parts.texts]
    if len(candidates) != 1:
        if not candidates:
            accepted = "traces PREFIX.N.et, or a text workload"
            raise parts.missing("workload", "there is no workload in the directory", accepted)
        named = one_of([str(candidate) for candidate in candidates[:10]])
        raise command_line("--workload", None, "which of these is the workload?", named)
    return candidates[0]


def _one(parts: _Parts, found: Sequence[Path], part: str, asked: Asked, needed: str | None) -> Path | None:
    """The file of a part: as named, or the only one there is."""
    if part in asked.parts:
        return Path(asked.parts[part])
    if len(found) > 1:
        named = one_of([str(path) for path in found[:10]])
        raise command_line(f"--{part}", None, f"which of these is the {part} configuration?", named)
    if not found and needed is not None:
        raise parts.missing(part, f"there is no {part} configuration in the directory", needed)
    return found[0] if found else None


def _found(folder: Path) -> _Parts:
    """The files of a directory, recognised by their content."""
    label = str(folder)
    if "\0" in label or not folder.is_dir():
        raise command_line("FILE", label, "this is no directory", "the directory with the inputs of ASTRA-sim")
    parts = _Parts()
    paths = _walk(folder)
    for path in paths:
        if path.name.endswith(chakra.SUFFIXES):
            stem = path.name.removesuffix(".gz").removesuffix(".et")
            parts.traces.setdefault(str(path.parent / stem.rpartition(".")[0]), path)
            continue
        if path.suffix not in (".txt", ".json", ".yml", ".yaml") or path.stat().st_size > MAX_BYTES * 64:
            continue
        _recognise(path, parts)
    return parts


def _walk(folder: Path) -> list[Path]:
    found: list[Path] = []
    left = [(folder, 0)]
    while left:
        at, depth = left.pop()
        try:
            entries = sorted(at.iterdir())
        except OSError as error:
            raise command_line("FILE", str(at), f"cannot be read: {error.strerror}") from None
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink():
                left += [(entry, depth + 1)] if depth < MOST_DEPTH else []
            elif entry.is_file():
                found.append(entry)
        if len(found) > MOST_FILES:
            raise command_line("FILE", str(folder), "there are too many files", f"up to {MOST_FILES}")
    return sorted(found)


def _recognise(path: Path, parts: _Parts) -> None:
    """Adds a file to the parts that it may be; what cannot be read is none of them, and remembered."""
    try:
        content = inputs.read_bytes(path, str(path), MAX_BYTES * 64)
        text = document.decode(content, str(path))
    except InputError as error:
        parts.unread += error.problems
        return
    if path.suffix == ".txt":
        first = (text.split("\n", 1)[0].split() or [""])[0].rstrip(":")
        if first in PARALLELISMS:
            parts.texts.append(path)
        return
    if path.suffix in (".yml", ".yaml"):
        if all(f"{key}:" in text for key in NETWORK_KEYS[:2]):
            parts.networks.append(path)
        return
    try:
        values = load(content, str(path)).values
    except InputError as error:
        # Damaged files count as what they look like, so that what is wrong is said.
        for key, found in (("memory-type", parts.memories), ("-implementation", parts.systems)):
            if key in text:
                found.append(path)
                return
        parts.unread += error.problems
        return
    if isinstance(values, dict) and any(key in values for key in MEMORY_KEYS[:2]):
        parts.memories.append(path)
    elif isinstance(values, dict) and any(key in values for key in OLD_NETWORK_KEYS):
        parts.networks.append(path)
    elif astra_system.is_one(values):
        parts.systems.append(path)
    elif groups_file.is_one(values):
        parts.groups.append(path)


def _json(path: Path) -> Text:
    return load(inputs.read_bytes(path, str(path), MAX_BYTES), str(path))


def _topology(path: Path) -> tuple[str, list[int]]:
    """The topology of a network configuration, in the notation of Syncline, and its dimensions."""
    label = str(path)
    if path.suffix == ".json":
        message = "this is a network configuration of ASTRA-sim 1.x"
        raise InputError([Problem(label, None, "", None, message, f"a YAML file with {one_of(NETWORK_KEYS)}")])
    root = document.read(document.read_text(path, label), label)
    values = document.plain(root)
    if not isinstance(values, dict) or not isinstance(root, document.Mapping):
        raise InputError([Problem(label, 1, "", None, "this is no network configuration", one_of(NETWORK_KEYS))])
    problems: list[Problem] = []
    for key, entry in root.entries.items():
        if key not in NETWORK_KEYS:
            message = f"{UNKNOWN_KEY}{did_you_mean(key, NETWORK_KEYS)}"
            problems.append(entry.origin.problem(message, None, one_of(NETWORK_KEYS)))
    lists: dict[str, list[Any]] = {}
    for key in NETWORK_KEYS:
        value = values.get(key)
        if not isinstance(value, list) or not value:
            origin = root.entries[key].origin if key in root.entries else document.Origin(label, None, key)
            problems.append(origin.problem("this is missing, or no list", None, "a list with an entry per dimension"))
        else:
            lists[key] = value
    if problems:
        raise InputError(problems)
    count = len(lists["topology"])
    for key, found in lists.items():
        if len(found) != count:
            message = f"{len(found)} entries, and topology has {count}"
            problems.append(root.entries[key].origin.problem(message, None, f"{count} entries"))
    if problems:
        raise InputError(problems)
    blocks: list[str] = []
    for place, (block, size, rate, latency) in enumerate(zip(*(lists[key] for key in NETWORK_KEYS), strict=True)):
        checks = (
            ("topology", block, block in BLOCKS, one_of(BLOCKS)),
            ("npus_count", size, type(size) is int and 1 < size <= 2**20, "a whole number from 2"),
            ("bandwidth", rate, _is_number(rate) and 0 < rate <= 10**9, "GB/s, above 0"),
            ("latency", latency, _is_number(latency) and 0 <= latency <= 10**12, "nanoseconds, from 0"),
        )
        wrong = [(key, value, accepted) for key, value, legal, accepted in checks if not legal]
        for key, value, accepted in wrong:
            origin = root.entries[key].origin.below(place, root.entries[key].origin.line)
            problems.append(origin.problem("this is not accepted", shown(value), accepted))
        if not wrong:
            # A gigabyte of ASTRA-sim's network configuration has 2^30 bytes.
            text = f"rate={max(1, round(rate * GIB))}B/s, latency={round(latency * 1000)}ps"
            blocks.append(f"{block}({size}, {text})")
    if problems:
        raise InputError(problems)
    output.topology_size("_".join(blocks), "npus_count")
    return "_".join(blocks), lists["npus_count"]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _take_memory(made: Imported, parts: _Parts, asked: Asked, rules: chakra.Rules) -> None:
    """What loads and stores take, by the remote memory configuration."""
    path = _one(parts, parts.memories, "memory", asked, None)
    if path is None:
        return
    text = _json(path)
    values = text.values
    problems: list[Problem] = []
    if not isinstance(values, Mapping):
        raise InputError([text.problem([], "this is no memory configuration", None, one_of(MEMORY_KEYS))])
    problems += [
        text.problem([key], f"{UNKNOWN_KEY}{did_you_mean(key, MEMORY_KEYS)}", None, one_of(MEMORY_KEYS))
        for key in values
        if key not in MEMORY_KEYS
    ]
    kind = values.get("memory-type")
    if kind not in MEMORIES:
        problems.append(text.problem(["memory-type"], "this is not known", shown(kind), one_of(MEMORIES)))
    latency, rate = values.get("remote-mem-latency", 0), values.get("remote-mem-bw", 0)
    needs_rate = kind in MEMORIES[1:]
    if not _is_number(latency) or not 0 <= latency <= 2**40:
        problems.append(text.problem(["remote-mem-latency"], "out of range", shown(latency), "nanoseconds, from 0"))
    if not _is_number(rate) or not 0 <= rate <= 2**40 or (needs_rate and rate == 0):
        problems.append(text.problem(["remote-mem-bw"], "out of range", shown(rate), "GB/s, above 0"))
    if problems:
        raise InputError(problems)
    if kind == MEMORIES[0]:
        rules.refuse_memory = f"the memory configuration ({path}) has none: {kind}"
        return
    rules.memory = lambda size: 1000 * (int(latency) + int(size / rate))
    if kind != "PER_NPU_MEMORY_EXPANSION":
        there = "one access at a time" + (" in each node" if kind == MEMORIES[1] else ", of all NPUs")
        made.differences.append(Difference(f"memory-type: {kind}", there, "accesses do not wait for each other"))
