"""The constants of the software model, and the files that hold them.

A *class* of machines shares one set. What was fitted is in `classes/*.yaml`, with the tables that it was fitted on.
What NVIDIA publishes of NCCL's protocols is in `tuning.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from syncline.base import quantities
from syncline.base.document import Mapping as Tree
from syncline.base.document import Node, Scalar, Sequence, read, read_text
from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.nccl import measured
from syncline.nccl.measured import Measured

FOLDER: Final = Path(__file__).parent / "classes"

PROTOCOLS: Final = ("LL", "LL128", "Simple")

PAYLOAD: Final = MappingProxyType({"LL": 4 / 8, "LL128": 120 / 128, "Simple": 1.0})
"""The part of what a protocol sends that is data: LL sends 4 bytes and 4 of flag, LL128 120 of 128."""
ONE_PASS: Final = 0.5
"""What LL reaches of its rate when data passes once (all but all-reduce), as all four of a100-8-superbench show, and
LL128 where GPUs have shares of the data (all-gather, reduce-scatter): both are bound by how much is under way at once,
and in an all-reduce the second pass of what came first is under way with the first pass of what follows."""
TREE_EFFICIENCY: Final = 0.92
"""What a tree reaches of a ring's rate on NVLink (published)."""


@dataclass(frozen=True, slots=True)
class Constants:
    """What is fitted: seconds, shares of a link's rate, and one plain factor."""

    launch: float
    """Seconds until a collective of no size and no step is done: launch of the kernel, and what the loop of
    measurements adds."""
    ramp: float
    """Seconds that every doubling of a small message adds, from 8 bytes per GPU on: more warps and channels
    have to be woken and to meet."""
    base_ll128: float
    """Seconds that LL128 takes more than LL, whatever the number of steps: it starts more warps."""
    base_simple: float
    """The same for Simple, which starts all channels and fills and drains their buffers."""
    efficiency_ll: float
    """Share of the NVLink rate that data reaches with LL; its flags halve it, polling them takes more."""
    efficiency_ll128: float
    """The same with LL128, at the sizes where NCCL chooses it."""
    efficiency_simple: float
    """The same with Simple: what large messages reach."""
    nvls_latency: float
    """Seconds of the two steps of an all-reduce through a switch that sums up, without those that fill the pipeline;
    NCCL counts 25us."""
    efficiency_nvls: float
    """Share of the NVLink rate that NVLS reaches."""
    network_latency_scale: float
    """Steps between nodes take this many times what is published."""
    network_delay: float
    """Seconds that every such step takes more: what another network than InfiniBand adds to a message."""
    efficiency_network: float
    """Share of the NICs' rate that data reaches between two nodes with Simple."""
    efficiency_single: float
    """The same where a node has a single NIC, far from most of its GPUs."""
    efficiency_spread: float
    """What is left of that with more nodes, whose flows meet others in the network."""

    def as_mapping(self) -> dict[str, float]:
        """Names and values."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def changed(self, values: Mapping[str, float]) -> Constants:
        """The same with other values."""
        return replace(self, **values)


NAMES: Final = tuple(f.name for f in fields(Constants))
NETWORK: Final = (
    *("network_latency_scale", "network_delay"),
    *("efficiency_network", "efficiency_single", "efficiency_spread"),
)
"""The constants of the network between nodes (`networks.py`); class files need not have them."""
TIMES: Final = frozenset({"launch", "ramp", "base_ll128", "base_simple", "nvls_latency", "network_delay"})
SHARES: Final = frozenset(name for name in NAMES if name.startswith("efficiency"))
LIMITS: Final = MappingProxyType(
    {name: (1e-9, 1e-2) if name in TIMES else (1e-3, 1.0) if name in SHARES else (1e-2, 100.0) for name in NAMES}
    | dict.fromkeys(("efficiency_network", "efficiency_single"), (1e-3, 0.985))
)
"""What constants may be. Frames of 4 KiB with the headers of InfiniBand or RoCE leave data 98.5 % of a NIC's rate."""

NO_DELAY: Final = LIMITS["network_delay"][0]
"""A delay that is none."""

START: Final = Constants(
    launch=20e-6,
    ramp=0.4e-6,
    base_ll128=7.4e-6,
    base_simple=30e-6,
    efficiency_ll=0.2,
    efficiency_ll128=0.45,
    efficiency_simple=0.8,
    nvls_latency=25e-6,
    efficiency_nvls=0.68,
    network_latency_scale=1.4,
    network_delay=NO_DELAY,
    efficiency_network=0.97,
    efficiency_single=0.9,
    efficiency_spread=0.9,
)
"""Where a fit begins that knows nothing of the class: published latencies, what maintainers of NCCL call typical (a
ring reaches about 0.8 of NVLink's line rate), and for the rest round figures between the systems in `tables/`."""
WIDTH: Final = Constants(
    launch=0.8,
    ramp=1.0,
    base_ll128=0.6,
    base_simple=0.6,
    efficiency_ll=0.6,
    efficiency_ll128=0.3,
    efficiency_simple=0.1,
    nvls_latency=0.5,
    efficiency_nvls=0.1,
    network_latency_scale=0.5,
    network_delay=0.5,
    efficiency_network=0.03,
    efficiency_single=0.3,
    efficiency_spread=0.08,
)
"""How far systems stray from the start: standard deviations of the logarithms."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table that a class was fitted on."""

    table: str
    source: str


@dataclass(frozen=True, slots=True)
class Software:
    """A set of constants with its name and origin."""

    name: str
    about: str
    machines: tuple[str, ...]
    constants: Constants
    fitted_on: tuple[Fitted, ...] = field(default=())
    launch_spread: float = 0.35
    """How far the launch and the latencies of systems of the class stray: standard deviation of the logarithm."""
    measured: Measured | None = None
    """Of a calibrated system: what describes its table best."""

    def assumptions(self) -> list[str]:
        """What a result that uses these constants rests on."""
        names = ", ".join(fitted.table for fitted in self.fitted_on) or "no table"
        return [f"software = {self.name}: fitted on {names}"]


def names() -> list[str]:
    """The classes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Software:
    """A class that comes with the package, or a file that `calibrate --out` has written.

    Raises [`InputError`] with every problem of the file.
    """
    packaged = FOLDER / f"{name}.yaml"
    path, label = (packaged, f"{name}.yaml") if name in names() else (Path(name), name)
    if label == name and not _exists(path):
        accepted = f"the path of a file that calibrate --out has written, or a class: {one_of(names())}"
        message = f"there is no such file and no class of this name{did_you_mean(name, names())}"
        raise InputError([Problem("command line", None, "--software", name, message, accepted)])
    return parse(read_text(path, label), label)


def parse(text: str, label: str) -> Software:
    """The content of a class file. Raises [`InputError`] with every problem."""
    root = read(text, label)
    problems: list[Problem] = []
    known = ("software", "about", "machines", "constants", "fitted_on", "launch_spread", "measured")
    if not isinstance(root, Tree):
        raise InputError([root.origin.problem("a class file is a mapping", None, one_of(known))])
    _refuse_unknown(root, known, problems)
    name = _text(root, "software", problems)
    about = _text(root, "about", problems, required=False)
    machines = _list(root, "machines")
    spread = root.entries.get("launch_spread")
    constants = _constants(root, problems)
    fitted = [_fitted(node, problems) for node in _list(root, "fitted_on")]
    words = []
    for node in machines:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            words.append(node.value)
        else:
            problems.append(node.origin.problem("this is not the name of a machine", None, "text"))
    width = 0.35
    if spread is not None:
        width = _number(spread, (0.0, 3.0), problems)
    kept = root.entries.get("measured")
    table = None if kept is None else measured.parse(kept, problems)
    if problems or constants is None:
        raise InputError(problems)
    return Software(name, about, tuple(words), constants, tuple(f for f in fitted if f is not None), width, table)


def render(software: Software, without: Iterable[str] = ()) -> str:
    """The class file that [`parse`] reads back, rounded to four digits, without some constants of the network."""
    left_out = frozenset(without)
    lines = [f"software: {software.name}", f"about: {quoted(software.about)}"]
    lines += [f"machines: [{', '.join(quoted(m) for m in software.machines)}]", "constants:"]
    for name, value in software.constants.as_mapping().items():
        if name in left_out:
            continue
        untouched = "  # as at the start: no table says more" if value == getattr(START, name) else ""
        lines.append(f"  {name}: {written(name, value)}{untouched}")
    lines += [f"launch_spread: {software.launch_spread:.2f}", "fitted_on:" if software.fitted_on else "fitted_on: []"]
    for fitted in software.fitted_on:
        lines += [f"  - table: {quoted(fitted.table)}", f"    source: {quoted(fitted.source)}"]
    if software.measured is not None:
        lines += measured.render(software.measured)
    return "\n".join(lines) + "\n"


def written(name: str, value: float) -> str:
    """A constant with its unit, to four digits."""
    if name in TIMES:
        return f"{value * 1e6:.4g}us"
    return f"{100 * value:.4g}%" if name in SHARES else f"{value:.4g}"


def shown(name: str, value: float) -> str:
    """The same for people: a delay that is none is the least that a fit can take, since fits work on logarithms."""
    return "none" if name == "network_delay" and value <= NO_DELAY * (1 + 1e-9) else written(name, value)


def quoted(text: str) -> str:
    """Text that YAML reads back as it is."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return "'" + plain.replace("'", "''") + "'"


def _constants(root: Tree, problems: list[Problem]) -> Constants | None:
    section = root.entries.get("constants")
    if not isinstance(section, Tree):
        origin = root.origin if section is None else section.origin
        problems.append(origin.problem("the section constants is missing", None, one_of(NAMES)))
        return None
    _refuse_unknown(section, NAMES, problems)
    values: dict[str, float] = {}
    for name in NAMES:
        node = section.entries.get(name)
        if node is None and name in NETWORK:
            values[name] = getattr(START, name)
            continue
        if node is None:
            problems.append(section.origin.problem(f"{name} is missing", None, written(name, getattr(START, name))))
            continue
        found = len(problems)
        value = _constant(name, node, problems)
        if len(problems) == found:
            values[name] = value
    return Constants(**values) if len(values) == len(NAMES) else None


def _constant(name: str, node: Node, problems: list[Problem]) -> float:
    low, high = LIMITS[name]
    if name not in TIMES and name not in SHARES:
        return _number(node, (low, high), problems)
    value = node.value if isinstance(node, Scalar) else None
    try:
        number = quantities.time(value) / 1e12 if name in TIMES else float(quantities.share(value))
    except quantities.QuantityError as error:
        problems.append(node.origin.problem(error.message, value, error.accepted))
        return 0.0
    if not low <= number <= high:
        accepted = f"{written(name, low)} to {written(name, high)}"
        problems.append(node.origin.problem("this is out of range", value, accepted))
    return number


def _number(node: Node, limits: tuple[float, float], problems: list[Problem]) -> float:
    value = node.value if isinstance(node, Scalar) else None
    accepted = f"a number from {limits[0]:g} to {limits[1]:g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        problems.append(node.origin.problem("this is not a number", value, accepted))
        return 0.0
    if not limits[0] <= value <= limits[1]:
        problems.append(node.origin.problem("this is out of range", value, accepted))
    return float(value)


def _fitted(node: Node, problems: list[Problem]) -> Fitted | None:
    if not isinstance(node, Tree):
        problems.append(node.origin.problem("this is not a mapping", None, "table and source"))
        return None
    _refuse_unknown(node, ("table", "source"), problems)
    return Fitted(_text(node, "table", problems), _text(node, "source", problems, required=False))


def _text(section: Tree, key: str, problems: list[Problem], *, required: bool = True) -> str:
    node = section.entries.get(key)
    if node is None:
        if required:
            problems.append(section.origin.problem(f"{key} is missing", None, "text"))
        return ""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    problems.append(node.origin.problem("this is not text", None, "text"))
    return ""


def _list(section: Tree, key: str) -> list[Node]:
    node = section.entries.get(key)
    return list(node.items) if isinstance(node, Sequence) else [] if node is None else [node]


def _refuse_unknown(section: Tree, known: Iterable[str], problems: list[Problem]) -> None:
    known = tuple(known)
    for key, node in section.entries.items():
        if key not in known:
            message = f"this key is not known here{did_you_mean(key, known)}"
            problems.append(node.origin.problem(message, key, one_of(known)))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
