"""What a run says of a system, in fields with types.

The fields are those of an entry of the JSON document of `run`, under the same names; a test holds both together. A
field is `None` where it says nothing of the kind of run: of a collective on its own there is no compute time, of a
training loop no bus bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from syncline.base.text_units import bandwidth, duration, percent, size, times
from syncline.commands.api import display
from syncline.commands.api.tables import Tables


class Entry:
    """A part of a document as an object. Where names of the document are words of Python, `_` follows them."""

    @classmethod
    def of(cls, entry: Mapping[str, Any], **known: Any) -> Self:
        """The object of an entry of a document, its lists as tuples; `known` are fields that are made elsewhere."""
        values: dict[str, Any] = {}
        for name in (f.name for f in fields(cls)):  # type: ignore[arg-type]
            if (key := name.removesuffix("_")) in entry:
                value = entry[key]
                values[name] = tuple(value) if isinstance(value, list) else value
        return cls(**values | known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure(Entry):
    """Time that compute waited for the collectives of a layer."""

    layer: str
    pass_: str
    """The pass whose collective it was: `weight_grad`, say."""
    exposed_s: float
    """Seconds over all iterations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassOfNpus(Entry):
    """What the NPUs of a class did over all iterations, as the slowest of them has it. Times are seconds; they add up
    to `total_s`.
    """

    name: str
    npus: int
    npu: int
    """The NPU whose times these are."""
    total_s: float
    compute_s: float
    exposed_s: float
    bubble_s: float
    background_wait_s: float
    drain_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Entry):
    """A job among several. Times are seconds."""

    name: str
    iterations: int
    iteration_time_s: float
    """Beside the other jobs."""
    iteration_time_alone_s: float
    """With the NPUs of the other jobs idle."""
    slowdown: float | None
    """The time beside the others over the time alone."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class System(Entry):
    """A variant that was simulated. Times are seconds, sizes bytes, rates bytes per second."""

    name: str
    iterations: int
    """Iterations of the training loop; a collective on its own has none, which is 0."""
    iteration_time_s: float
    """The mean over the iterations; of a collective on its own, its time."""
    steady_iteration_time_s: float | None = None
    """What one more iteration costs in a long run."""
    steady_iteration_because: str | None = None
    """Why that is not `iteration_time_s`, where they differ by more than 2 %."""
    steady_iteration_settled: bool | None = None
    """Whether the last iterations that were simulated took equally long; if not, the time is a mean."""
    total_time_s: float
    """The time of the whole run."""
    speedup: float | None = None
    """The time of the baseline over that of this system."""
    share_of_ideal: float | None = None
    """The time of the variant called ideal over that of this one."""

    compute_time_s: float | None = None
    """What the main stream computed, over all iterations."""
    compute_time_alone_s: float | None = None
    """What that compute takes where nothing shares the NPU with it."""
    exposed_comm_s: float | None = None
    """Time in which compute waited for communication, over all iterations."""
    exposed_comm_share: float | None = None
    """`exposed_comm_s` over `total_time_s`, from 0 to 1."""
    drain_s: float | None = None
    """What was waited for after the last compute."""
    background_compute_time_s: float | None = None
    """What other streams computed, over all iterations."""
    background_compute_time_alone_s: float | None = None
    background_wait_s: float | None = None
    """Waits of the main stream for other streams, over all iterations."""
    bubble_s: float | None = None
    """Waits for messages of other classes of NPUs, over all iterations."""
    peak_share: float | None = None
    """The share of `npu.peak` that operations reach, from 0 to 1, those that are computed again included; of a training
    whose kernels follow from that peak."""
    classes: tuple[ClassOfNpus, ...] = ()
    """Where NPUs run several graphs, what those of each did."""
    jobs: tuple[Job, ...] = ()
    """Of several jobs, how long each takes beside the others and alone."""
    exposed_by_collective: tuple[Exposure, ...] = ()
    """Exposed communication by layer and pass, the longest first."""
    engine_utilisation_forward: float | None = None
    """The share of forward passes in which the ACE of the first NPU held a chunk, from 0 to 1."""
    engine_utilisation_backward: float | None = None
    """The same of backward passes."""

    collective: str | None = None
    """Of a collective on its own, which; what follows is counted as nccl-tests does."""
    root: int | None = None
    """The rank of the root, where the collective has one."""
    ranks: int | None = None
    """NPUs of a group."""
    groups: tuple[str, ...] | None = None
    """Groups that ran the collective side by side; `None` if all NPUs are one."""
    time_s: float | None = None
    size_bytes: int | None = None
    size_means: str | None = None
    """What the size is of."""
    algorithm_bandwidth_bytes_per_s: float | None = None
    bus_bandwidth_bytes_per_s: float | None = None
    lower_bound_s: float | None = None
    """What no schedule on the fabric can beat."""
    lower_bound_by: str | None = None
    """What that bound follows from."""
    efficiency: float | None = None
    """The lower bound over the time, from 0 to 1."""

    npus: int
    npu: int
    """The NPU whose times these are."""
    topology: str
    link_classes: tuple[str, ...]
    """The kinds of links of the fabric."""
    algorithm: str
    """The algorithm of collectives, or their plan."""
    steps: int
    """Steps of the longest thread of the collective algorithm."""
    chunks: int
    """Chunks of each NPU."""
    warnings: tuple[str, ...] = ()
    """What to know before these numbers are relied on."""

    hardware: Mapping[str, Any] = field(default_factory=dict)
    """What the NPUs are, as in the document."""
    network: Mapping[str, Any] = field(default_factory=dict)
    """What the network carried, as in the document."""
    endpoint: Mapping[str, Any] = field(default_factory=dict)
    """What the endpoints did, over all NPUs, as in the document."""
    fidelity: Mapping[str, Any] = field(default_factory=dict)
    """How finely was simulated, as in the document."""
    cost_model: Mapping[str, Any] | None = field(default=None)
    """What an ACE costs in area and power, as in the document; `None` for other endpoints."""
    algorithm_choice: Mapping[str, Any] | None = field(default=None)
    """How the algorithm was chosen where that was left open, as in the document."""
    slices_choice: Mapping[str, Any] | None = field(default=None)
    """How the size of slices was found where that was left open, as in the document."""

    tables: Tables = field(default_factory=lambda: Tables({}))
    """What was recorded of the simulation."""

    def __repr__(self) -> str:
        return f"<System {self.name}: {duration(self.iteration_time_s)}{' per iteration' if self.iterations else ''}>"

    def _repr_html_(self) -> str:
        return side_by_side(self.topology, [self], (), self.warnings)

    @classmethod
    def of_run(cls, entry: Mapping[str, Any], tables: Tables) -> Self:
        """The system of an entry of the document of `run`."""
        made: dict[str, Any] = {
            "classes": tuple(ClassOfNpus.of(each) for each in entry["classes"]),
            "jobs": tuple(Job.of(each) for each in entry["jobs"]),
            "exposed_by_collective": tuple(Exposure.of(each) for each in entry["exposed_by_collective"]),
        }
        return cls.of(entry, **made, tables=tables)


Column = tuple[str, Callable[["System"], str]]


def _or_dash(value: Any, written: Callable[[Any], str]) -> str:
    return "-" if value is None else written(value)


def _of_an_iteration(value: float | None, system: System) -> str:
    return "-" if value is None else duration(value / max(1, system.iterations))


TRAINING: Final[Sequence[Column]] = (
    ("iteration", lambda s: duration(s.iteration_time_s)),
    ("compute", lambda s: _of_an_iteration(s.compute_time_s, s)),
    ("exposed", lambda s: _of_an_iteration(s.exposed_comm_s, s)),
    ("exposed %", lambda s: percent(s.exposed_comm_share)),
    ("speed-up", lambda s: _or_dash(s.speedup, times)),
    ("of ideal", lambda s: _or_dash(s.share_of_ideal, percent)),
)
"""Of a training loop: times are those of an iteration."""


COLLECTIVE: Final[Sequence[Column]] = (
    ("size", lambda s: _or_dash(s.size_bytes, size)),
    ("time", lambda s: duration(s.iteration_time_s)),
    ("algbw", lambda s: bandwidth(s.algorithm_bandwidth_bytes_per_s)),
    ("busbw", lambda s: bandwidth(s.bus_bandwidth_bytes_per_s)),
    ("lower bound", lambda s: _or_dash(s.lower_bound_s, duration)),
    ("efficiency", lambda s: percent(s.efficiency)),
)
"""Of a collective on its own."""


def side_by_side(caption: str, about: Iterable[System], failed: Iterable[tuple[str, str]], notes: Iterable[str]) -> str:
    """The systems of a run side by side, those that failed, and notes below."""
    known = list(about)
    text = ""
    for columns, those in (
        (TRAINING, [system for system in known if system.iterations]),
        (COLLECTIVE, [system for system in known if not system.iterations]),
    ):
        if those:
            rows = [[system.name, *(written(system) for _, written in columns)] for system in those]
            text += display.table(caption, ["system", *(heading for heading, _ in columns)], rows)
    text += display.paragraphs(f"{name}: the simulation failed: {message}" for name, message in failed)
    return text + display.paragraphs(notes)
