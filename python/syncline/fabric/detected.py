"""The fabric of the machine at hand, and which of its GPUs are meant.

Sources are asked in turn: the file that NCCL is given (`NCCL_TOPO_FILE`), `nvidia-smi topo -m`, and the tree of PCI
devices of the Linux kernel (/sys). The first one that has all GPUs and NVLinks of theirs is taken; if none has NVLinks,
the first one that has all GPUs. Files that clouds provide, and /sys, know nothing of NVLinks.

GPUs are told by the addresses of their PCI devices, since the numbers that a program gives to GPUs depend on
`CUDA_VISIBLE_DEVICES`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final, TypeAlias

from syncline.base.errors import InputError, Problem, command_line
from syncline.fabric import allocation, files, matrix, nccl, nvidia_smi, sysfs
from syncline.fabric.allocation import AllocationError
from syncline.fabric.graph import NVLINK, NVSWITCH, Graph

Bus: TypeAlias = tuple[int, ...]
"""The address of a PCI device: domain, bus, device, function."""

SECONDS: Final = 30
"""After so long, nvidia-smi is taken to hang."""
ACCEPTED: Final = "addresses of PCI devices, such as 0000:07:00.0,0000:0a:00.0, or numbers, such as 0-3"

_LINK = re.compile(r"\s*[0-9]{1,2}\s*,\s*[0-9]{1,2}\s*", re.ASCII)
_ROW = re.compile(r"\s*([0-9]{1,4})\s*,\s*([0-9a-fA-F:.]{7,32})\s*,\s*(.*?)\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Places:
    """Where sources are."""

    nccl_file: str | None = None
    """The file that NCCL is given, if there is one."""
    nvidia_smi: str = "nvidia-smi"
    sys: Path = Path("/sys")
    """Where the kernel's file system is."""


@dataclass(frozen=True, slots=True)
class Detected:
    """A fabric that has been found."""

    source: str
    content: str
    """The file with it, as `syncline.fabric.files` reads it."""
    graph: Graph
    gpus: tuple[int, ...]
    """The GPUs that are meant, by their numbers in the graph."""
    links: str | None
    """Which links trees use (`--links` of `syncline trees`); nothing, where trees are of no use."""
    reason: str
    """Why."""
    notes: tuple[str, ...]
    """What was wrong with other sources."""


class _Unusable(Exception):  # noqa: N818  (what is wrong with a source is a note, not an error)
    """A source does not say what is asked."""


def detect(gpus: str | None, places: Places) -> Detected:
    """Finds the fabric of some GPUs: those at these PCI addresses, with commas between, or with these numbers, as lists
    of GPUs are written elsewhere; of all, if none are given.

    Raises [`InputError`], if no source has it.
    """
    wanted = _addresses(gpus) if gpus is not None and ":" in gpus else None
    sources: tuple[tuple[str, Callable[[Places], tuple[str, Sequence[Bus]]]], ...] = (
        ("NCCL_TOPO_FILE", _of_nccl),
        ("nvidia-smi topo -m", _of_nvidia_smi),
        ("/sys", _of_sys),
    )
    notes: list[str] = []
    found: list[Detected] = []
    for source, ask in sources:
        try:
            content, buses = ask(places)
            graph = files.read(content.encode(), source)
            chosen = _numbers(gpus, graph) if wanted is None else _at(wanted, buses)
        except AllocationError as error:
            notes.append(f"{source}: {error.message}; accepted: {error.accepted}")
        except InputError as error:
            notes.append(f"{source}: {'; '.join(problem.message for problem in error.problems)}")
        except _Unusable as why:
            notes.append(f"{source}: {why}")
        else:
            links, reason = trees(graph, chosen)
            found.append(Detected(source, content, graph, chosen, links, reason, tuple(notes)))
            if _has_nvlinks(graph, chosen):
                return found[-1]
            notes.append(f"{source}: it has no NVLinks of these GPUs")
    if found:
        return found[0]
    message = f"it cannot be detected: {'; '.join(notes)}"
    accepted = "a machine with GPUs of NVIDIA, or NCCL's topology XML in NCCL_TOPO_FILE"
    if gpus is not None:
        raise command_line("--gpus", gpus, message, accepted)
    raise InputError([Problem("this machine", None, "topology", None, message, accepted)])


def trees(graph: Graph, gpus: Sequence[int]) -> tuple[str | None, str]:
    """Which links trees should use for some GPUs, if trees are of use at all, and why.

    Trees are of use where some GPUs reach each other better than others. Where all do equally well, an algorithm that
    has each GPU send to every other one uses all links already.
    """
    if len(gpus) < 3:
        return None, "two GPUs have one way to each other"
    pairs = dict.fromkeys(combinations(sorted(gpus), 2), 0)
    for link in graph.links:
        if link.kind == NVLINK and (link.src, link.dst) in pairs:
            pairs[link.src, link.dst] += link.count
    if any(pairs.values()):
        if len(set(pairs.values())) == 1:
            return None, "any two of the GPUs have as many NVLinks"
        if _are_joined(gpus, [pair for pair, count in pairs.items() if count]):
            return "nvlink", "NVLinks join the GPUs unequally"
        return "all", "NVLinks join only some of the GPUs"
    above = {gpu: {link.dst for link in graph.links if link.src == gpu and link.kind == NVSWITCH} for gpu in gpus}
    if all(above.values()):
        return None, "NVSwitches join all of the GPUs equally"
    above = {gpu: {link.dst for link in graph.links if link.src == gpu} for gpu in gpus}
    if len({frozenset(switches) for switches in above.values()}) == 1:
        return None, "one PCIe switch, or one CPU, joins all of the GPUs"
    return "all", "PCIe joins the GPUs unequally"


def _are_joined(gpus: Sequence[int], pairs: Sequence[tuple[int, int]]) -> bool:
    reached, new = {gpus[0]}, {gpus[0]}
    while new:
        new = {b for pair in pairs for a, b in (pair, pair[::-1]) if a in new} - reached
        reached |= new
    return len(reached) == len(gpus)


def _has_nvlinks(graph: Graph, gpus: Sequence[int]) -> bool:
    return any(link.src in gpus and link.kind in (NVLINK, NVSWITCH) for link in graph.links)


def _addresses(text: str) -> list[Bus]:
    addresses = [nccl.bus(part.strip()) for part in text.split(",")]
    found = [address for address in addresses if address is not None]
    if len(found) < len(addresses) or len(set(found)) < len(found):
        message = "these are not addresses of PCI devices" if len(found) < len(addresses) else "one is given twice"
        raise command_line("--gpus", text, message, ACCEPTED)
    return found


def _numbers(gpus: str | None, graph: Graph) -> tuple[int, ...]:
    return tuple(range(graph.npus)) if gpus is None else allocation.parse(gpus, graph.npus)


def _at(wanted: Sequence[Bus], buses: Sequence[Bus]) -> tuple[int, ...]:
    missing = [bus for bus in wanted if bus not in buses]
    if missing:
        named = ", ".join("{:04x}:{:02x}:{:02x}.{:x}".format(*bus) for bus in missing)
        raise _Unusable(f"it has no GPU at {named}")
    return tuple(buses.index(bus) for bus in wanted)


def _of_nccl(places: Places) -> tuple[str, Sequence[Bus]]:
    if not places.nccl_file:
        raise _Unusable("it is not set")
    data = files.content(Path(places.nccl_file), places.nccl_file)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _Unusable(f"{places.nccl_file} is not UTF-8") from None
    return text, nccl.gpu_buses(data, places.nccl_file)


def _of_nvidia_smi(places: Places) -> tuple[str, Sequence[Bus]]:
    table = _said(places.nvidia_smi, "--query-gpu=index,pci.bus_id,name", "--format=csv,noheader")
    rows = [match.groups() for match in map(_ROW.fullmatch, table.splitlines()) if match]
    buses = {int(index): nccl.bus(address) for index, address, _ in rows}
    if not buses or None in buses.values():
        raise _Unusable("the addresses of GPUs cannot be read")
    text = _said(places.nvidia_smi, "topo", "-m")
    numbers = matrix.gpu_numbers(text)
    if not numbers:
        raise _Unusable("there is no line with the names of GPUs")
    if not set(numbers) <= set(buses):
        raise _Unusable(f"it lists the GPUs {sorted(buses)}, but its matrix has {sorted(numbers)}")
    # The reader takes NVLinks and PCIe from the GPU that the text names, and from what the tool says of PCIe links.
    about = [*dict.fromkeys(name for *_, name in rows), *_pcie_links(places)]
    return "\n".join([*about, "", text]), [buses[number] or () for number in numbers]


def _pcie_links(places: Places) -> list[str]:
    """The table of the PCIe links of all GPUs; nothing, if the tool does not have it."""
    columns = (nvidia_smi.GENERATION, nvidia_smi.WIDTH)
    try:
        table = _said(places.nvidia_smi, f"--query-gpu={','.join(columns)}", "--format=csv,noheader")
    except _Unusable:
        return []
    rows = [line.strip() for line in table.splitlines() if _LINK.fullmatch(line)]
    return [", ".join(columns), *rows] if rows else []


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise _Unusable(f"there is no {command[0]}") from None
    except OSError as error:
        raise _Unusable(f"{command[0]} cannot be run: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise _Unusable(f"{command[0]} has not ended within {SECONDS} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[:1]
        raise _Unusable(f"{command[0]} ended with status {done.returncode}: {' '.join(said) or 'without a word'}")
    return done.stdout.decode(errors="replace")


def _of_sys(places: Places) -> tuple[str, Sequence[Bus]]:
    text = sysfs.nccl_xml(places.sys)
    if text is None:
        raise _Unusable("there is no GPU of NVIDIA among the PCI devices")
    return text, nccl.gpu_buses(text.encode(), "/sys")
