"""What the collectives of a run cost with the endpoint `nccl`: the software model's times, put on simulated messages.

The model (`model.py`) says how long a collective takes that runs alone on the machine, and which part of that are
bytes on the wires of the busiest links. In a run, collectives share these links with others, so each is simulated: as
messages of an algorithm of Syncline, of so many bytes that they take as long on the wires as with NCCL's protocol,
after a launch that takes the rest. So a collective alone takes the model's time, and one that shares links takes
longer by what others have of them.

How long an algorithm takes for a size is found by simulating it alone, on the machine as it is when nothing is slow or
oversubscribed (`_Alone`). This is done on the flow backend, or on the run's own if that lets links carry whatever they
are asked to: there the same bytes take less. Packets and frames are too many to simulate them for large sizes, and
take about as long as flows. An algorithm's time grows piecewise linearly with the size, so that sizes between powers of
two are interpolated.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from syncline.base import description
from syncline.engine import demand
from syncline.engine.messages import Messages
from syncline.engine.places import Place, Places
from syncline.engine.specification import family_groups
from syncline.experiment import programs
from syncline.fabric import topologies
from syncline.nccl import constants, derived, held, networks, platform, wire
from syncline.nccl import model as models
from syncline.sections.networks.flow import FlowNetwork
from syncline.sections.workloads import CollectiveWorkload, DividedWorkload

if TYPE_CHECKING:
    from syncline.nccl.model import Candidate, Model
    from syncline.sections.experiment import Experiment

PS_PER_S: Final = 10**12
SMALLEST: Final = 1024
"""Bytes below which the time of an algorithm is that of its steps."""
LARGE: Final = 2**32
"""Bytes with which an algorithm takes as long as its busiest link."""
KEPT: Final = 256
SLICED: Final = frozenset({"broadcast", "reduce"})
"""Kinds that are pipelined in slices, of which larger collectives have more."""
ATTEMPTS: Final = 4
RINGS: Final = frozenset({"all-reduce", "reduce-scatter", "all-gather"})
"""Kinds that rings carry out."""
MOST_IN_RING: Final = 64
"""Ranks of a ring that is simulated to see what it makes of links."""

Row = dict[str, Any]
"""What the collectives of a kind and size cost, as the engine reads it."""
Time = Callable[[str], int]
"""Picoseconds that a described run takes."""


def completed(experiment: Experiment, specified: dict[str, Any], ask: demand.Ask, time: Time) -> dict[str, Any]:
    """The engine's description with what collectives cost: an entry of `overrides` for the communicators of a family
    that cost the same. Raises `_core.SpecError` where the engine does not carry it out.
    """
    known = derived.where(experiment.topology, experiment.npu.gpu)
    if known is None:
        return specified
    places = Places(experiment.topology, known)
    in_all = demand.parts(specified, ask)
    parts = [(part, section) for part, section in in_all if len(part.members[0]) > 1 and part.collectives]
    collectives: dict[tuple[int, int], set[tuple[str, int, int]]] = {}
    for part, section in parts:
        collectives.setdefault((id(section), len(part.members[0])), set()).update(part.collectives)
    priced: dict[tuple[int, Place], dict[str, Any]] = {}
    overrides: list[dict[str, Any]] = []
    for part, section in parts:
        for members in part.members:
            key = (id(section), places.of(members))
            if key not in priced:
                of = _Priced(experiment, specified, section, places, members, time, gives_way(experiment))
                priced[key] = of.override(sorted(collectives[id(section), len(members)]))
            own = {"family": part.family, **priced[key]}
            same = next((known for known in overrides if known | {"first": None} == own | {"first": None}), None)
            if same is None:
                overrides.append(own | {"first": [members[0]]})
            else:
                same["first"].append(members[0])
    return _with_messages(experiment, places, specified) | {"overrides": overrides}


def gives_way(experiment: Experiment) -> bool:
    """Whether there are kernels, and they give way to collectives."""
    return experiment.endpoint.gives_way and not isinstance(experiment.workload, CollectiveWorkload)


def _with_messages(experiment: Experiment, places: Places, specified: dict[str, Any]) -> dict[str, Any]:
    """The engine's description with what the messages of a divided training cost."""
    if not isinstance(experiment.workload, DividedWorkload):
        return specified
    families, npus = specified["families"], experiment.topology.npus

    def groups(family: int) -> list[list[int]] | None:
        return family_groups(families[family]["members"], npus)

    def model(members: tuple[int, ...], kind: str) -> Model:
        return _model(experiment, places, members, kind)

    priced = Messages(places, groups, model).priced(specified["job"]["graph"])
    return specified | {"job": specified["job"] | {"graph": priced}}


def assumptions(experiment: Experiment) -> list[str]:
    """What the times of collectives rest on: which constants, and what was not measured."""
    endpoint: Any = experiment.endpoint
    try:
        known = derived.where(experiment.topology, experiment.npu.gpu)
    except platform.NotPricedError:
        return []
    if known is None:
        return []
    found = [f"endpoint: {text}" for text in models.extrapolated(programs.kinds(experiment), known.hosts)]
    if endpoint.software is None:
        every = tuple(range(experiment.topology.npus))
        found += networks.assumptions(Places(experiment.topology, known).platform(every))
    if isinstance(known, derived.Derived):
        found.append(derived.assumption(known))
    elif isinstance(known, platform.ProductCluster):
        between = "" if known.hosts == 1 else "; the second one is a network of one NIC per GPU"
        found.append(f"topology: the first dimension is the NVSwitch of a server of {known.machine.gpus} GPUs{between}")
    elif known.efficiency != 1:
        found.append(
            "topology: efficiency has no effect on collectives: NCCL's constants have what data reaches of links"
        )
    if endpoint.software is not None:
        return found
    name = known.software if isinstance(known, derived.Derived) else platform.KINDS[known.machine.name].software
    return [*(f"endpoint.{text}" for text in constants.load(name).assumptions()), *found]


@dataclass(slots=True)
class _Priced:
    """What the collectives of a communicator cost."""

    experiment: Experiment
    specified: dict[str, Any]
    section: dict[str, Any]
    places: Places
    members: tuple[int, ...]
    time: Time
    gives_way: bool
    """Whether kernels give way to collectives."""
    _models: dict[str, Model] = field(default_factory=dict)

    def override(self, collectives: Sequence[tuple[str, int, int]]) -> dict[str, Any]:
        """How they are carried out, and what each costs."""
        rows: dict[tuple[str, int], Row] = {}
        for kind, root, size in collectives:
            row = self.row(kind, root, size)
            # The engine does not tell roots apart.
            rows[kind, size] = max(
                row, rows.get((kind, size), row), key=lambda row: (row["wire_bytes"], row["launch_ps"])
            )
        return {"grid": self._grid, "collectives": self._way | {"priced": list(rows.values())}}

    @property
    def _grid(self) -> list[int]:
        """The ranks as the engine is to see them: as they are on servers, or a line where that does not suit what is
        said of each dimension for all communicators of the family.
        """
        grid = topologies.grid(self.experiment.topology, (self.members,))
        given = self.section["per_dimension"]
        return grid if given is None or len(given) == len(grid) else [len(self.members)]

    @property
    def _way(self) -> dict[str, Any]:
        """How collectives are carried out, with what suits NCCL where nothing is said."""
        if self.section["algorithm"] not in programs.COMPOSITIONS or self.section["per_dimension"] is not None:
            return self.section
        if not self.places.is_switched:
            return self.section
        # Behind switches no rank needs rings, whose many steps take longer than trees and switches of NCCL.
        return self.section | {"per_dimension": ["direct"] * len(self._grid)}

    def row(self, kind: str, root: int, size: int) -> Row:
        """What a collective of `size` bytes costs."""
        wire, launch = self._cost(kind, root, size) if size else (0, 0)
        found = {"collective": kind, "bytes": size, "wire_bytes": wire, "launch_ps": launch}
        return found | {"held": self._held(kind, size)} if size and self.gives_way else found

    def _held(self, kind: str, size: int) -> Row:
        """What it holds of a GPU while it is in flight."""
        model = self._model(kind)
        first = model.candidates(size)[0]
        call = held.Call(kind, size, first.algorithm, first.protocol)
        return held.of(model.platform, call, model.time(size)).row()

    def _cost(self, kind: str, root: int, size: int) -> tuple[int, int]:
        """Bytes on the wire, and picoseconds of the launch."""
        model = self._model(kind)
        target = model.time(size) * PS_PER_S
        first = model.candidates(size)[0]
        on_wires = min(1.0, first.wire / first.time) * target
        alone = _alone(*self._description(kind, root), self.time)
        if kind not in SLICED and self.places.follows_links(model.platform, first.algorithm):
            longer = self._on_links(kind, root, size, first, alone) - on_wires
            if longer > 0 or first.algorithm == wire.DIRECT:
                target, on_wires = target + longer, on_wires + longer
        wire_bytes = max(1, round(on_wires / alone.per_byte))
        time = alone.of
        if kind in SLICED:
            # The number of slices follows the size, so that only the size itself tells its time.
            time = alone.exactly
        taken = time(wire_bytes)
        for _ in range(ATTEMPTS):
            if taken <= target or wire_bytes == 1:
                break
            wire_bytes = max(1, int(wire_bytes * target / taken) if kind in SLICED else int(alone.size_of(target)))
            taken = time(wire_bytes)
        return wire_bytes, max(0, round(target - taken))

    def _on_links(self, kind: str, root: int, size: int, first: Candidate, alone: _Alone) -> float:
        """Picoseconds that the links take at least with the share of them that NCCL reaches: what is simulated of them,
        ways through other GPUs and links that are shared included.
        """
        per_byte = alone.per_byte
        if kind in RINGS and 2 < len(self.members) <= MOST_IN_RING:
            per_byte = min(per_byte, _alone(*self._description(kind, root, "ring"), self.time).per_byte)
        reached = derived.wires(self._model(kind).platform, kind, first.algorithm, size) / first.wire
        return size * per_byte * self.places.efficiency / min(1.0, reached)

    def _model(self, kind: str) -> Model:
        if kind not in self._models:
            self._models[kind] = _model(self.experiment, self.places, self.members, kind)
        return self._models[kind]

    def _description(self, kind: str, root: int, algorithm: str | None = None) -> tuple[str, str]:
        """The collective alone, of no size: the machine as it is when nothing is slow or shared, and all else. With
        another algorithm than that of the run if one is named.
        """
        place = self.places.of(self.members)
        groups = {"members": [list(place.members)], "grid": self._grid}
        section = {key: value for key, value in self._way.items() if key != "chunks_of"}
        section["chunking"] = {"by": "count", "chunks": 1}
        if algorithm is not None:
            section |= {"algorithm": algorithm, "algorithms": [], "per_dimension": None}
            groups["grid"] = [len(place.members)]
        found = demand.alone(self.specified, section, groups, kind, root)
        network = FlowNetwork() if self.experiment.network.has_contention else self.experiment.network
        return description.parted(
            found | {"fabric": self.places.undisturbed(place), "network": network.specification()}
        )


@dataclass(slots=True)
class Alone:
    """What collectives and messages of a run take by themselves, by the software model alone."""

    experiment: Experiment
    _places: Places | None = None
    _models: dict[tuple[Place, str], Model] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = derived.where(self.experiment.topology, self.experiment.npu.gpu)
        self._places = None if known is None else Places(self.experiment.topology, known)

    def time(self, groups: Sequence[Sequence[int]], kind: str, size: int) -> float:
        """Picoseconds of a collective, or a message between neighbours, in the slowest of some communicators."""
        places = self._places
        if places is None or size == 0:
            return 0.0
        found: dict[Place, tuple[int, ...]] = {}
        for group in groups:
            found.setdefault(places.of(tuple(group)), tuple(group))
        return max(self._model(place, members, kind).time(size) for place, members in found.items()) * PS_PER_S

    def _model(self, place: Place, members: tuple[int, ...], kind: str) -> Model:
        if (place, kind) not in self._models:
            assert self._places is not None
            self._models[place, kind] = _model(self.experiment, self._places, members, kind)
        return self._models[place, kind]


def _model(experiment: Experiment, places: Places, members: tuple[int, ...], kind: str) -> Model:
    """The software model of some GPUs and a kind of collectives."""
    endpoint: Any = experiment.endpoint
    where = places.platform(members)
    named = None if endpoint.software is None else endpoint.software.software
    software = named or networks.software_of(where)
    where = networks.as_measured(where, software)
    known = endpoint.algorithm in models.algorithms(where, kind, endpoint.algorithm)
    return models.Model(where, software, kind, endpoint.algorithm if known else "auto")


@lru_cache(KEPT)
def _alone(fabric: str, rest: str, time: Time) -> _Alone:
    return _Alone(fabric, json.loads(rest), time)


class _Alone:
    """How long an algorithm takes for a size, alone on the machine."""

    def __init__(self, fabric: str, rest: dict[str, Any], time: Time) -> None:
        """`rest`: of the description of the collective, all but the fabric."""
        self._fabric, self._rest, self._time = fabric, rest, time
        self._known: dict[int, int] = {}
        self.per_byte: float = (self._at(2 * LARGE) - self._at(LARGE)) / LARGE
        """Picoseconds of a byte on the busiest link."""

    def _at(self, size: int) -> int:
        if size not in self._known:
            job = self._rest["job"] | {"bytes": size}
            self._known[size] = self._time(description.joined(self._fabric, json.dumps(self._rest | {"job": job})))
        return self._known[size]

    def exactly(self, size: float) -> float:
        """Picoseconds for so many bytes, simulated."""
        return self._at(round(size))

    def of(self, size: float) -> float:
        """Picoseconds for so many bytes."""
        below = SMALLEST
        if size <= below:
            return self._at(below)
        while 2 * below < size:
            below *= 2
        low, high = self._at(below), self._at(2 * below)
        return low + (high - low) * (size / below - 1)

    def size_of(self, picoseconds: float) -> float:
        """The most bytes that take no longer; none if no size takes so little."""
        sizes = [SMALLEST * 2**n for n in range(LARGE.bit_length() - SMALLEST.bit_length() + 1)]
        place = bisect_left(sizes, picoseconds, key=self._at)
        if place == 0:
            return 0
        if place == len(sizes):
            return picoseconds / self.per_byte
        low, high = self._at(sizes[place - 1]), self._at(sizes[place])
        return float(sizes[place - 1] * (1 + (picoseconds - low) / (high - low)))
