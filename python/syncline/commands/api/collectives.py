"""`syncline.collective`: one collective, in the terms of nccl-tests."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncline.base.errors import CancelledError, SimulationFailedError
from syncline.base.text_units import bandwidth, duration, percent, size
from syncline.commands.api import arguments, display, single
from syncline.commands.api.arguments import ARGUMENTS
from syncline.commands.api.progress import Progress, warn_of, watch_of
from syncline.commands.api.systems import Entry
from syncline.commands.api.tables import Tables

if TYPE_CHECKING:
    from syncline.core.cancelling import Cancellation

FABRICS = 'topology="Torus(4,8,4)", machine="dgx-a100" or topology_file="FILE"'


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Collective(Entry):
    """A collective that was simulated. Times are seconds, sizes bytes, rates bytes per second; sizes and bandwidths are
    counted as nccl-tests does.
    """

    collective: str
    """Which: `all-reduce`, say."""
    root: int | None
    """The rank of the root, where the collective has one."""
    npus: int
    """NPUs of the fabric."""
    ranks: int
    """NPUs of a group."""
    groups: tuple[str, ...] | None
    """Groups that ran the collective side by side; `None` if all NPUs are one."""
    topology: str
    algorithm: str
    """The algorithm, or the plan."""
    time_s: float
    size_bytes: int
    size_means: str
    """What the size is of."""
    algorithm_bandwidth_bytes_per_s: float | None
    """The size over the time; `None` if it takes no time."""
    bus_bandwidth_bytes_per_s: float | None
    """That times the factor of nccl-tests, which makes it comparable with the rate of links."""
    steps: int
    """Steps of the longest thread of the algorithm."""
    chunks: int
    """Chunks of each NPU."""
    lower_bound_s: float
    """What no schedule on the fabric can beat."""
    lower_bound_by: str
    """What that bound follows from."""
    efficiency: float | None
    """The lower bound over the time, from 0 to 1."""
    hardware: Mapping[str, Any]
    """What the NPUs are, as in the document."""
    network: Mapping[str, Any]
    """What the network carried, as in the document."""
    endpoint: Mapping[str, Any]
    """What the endpoints did, over all NPUs, as in the document."""
    cost_model: Mapping[str, Any] | None = None
    """What an ACE costs in area and power, as in the document; `None` for other endpoints."""
    algorithm_choice: Mapping[str, Any] | None = None
    """How the algorithm was chosen where that was left open, as in the document."""
    slices_choice: Mapping[str, Any] | None = None
    """How the size of slices was found where that was left open, as in the document."""
    fidelity: Mapping[str, Any]
    """How finely was simulated, as in the document."""
    warnings: tuple[str, ...]
    """What to know before these numbers are relied on."""
    assumptions: tuple[str, ...]
    """What nobody stated, and was filled in."""
    document: dict[str, Any]
    """The document that `syncline collective --json` prints."""
    tables: Tables = field(default_factory=lambda: Tables({}))
    """What was recorded of the simulation."""

    def __repr__(self) -> str:
        of = f"{self.collective} of {size(self.size_bytes)} over {self.ranks} NPUs"
        return f"<Collective {of}: {duration(self.time_s)}, {bandwidth(self.bus_bandwidth_bytes_per_s)}>"

    def _repr_html_(self) -> str:
        headings = ["algorithm", "size", "time", "algbw", "busbw", "lower bound", "efficiency"]
        row = [
            self.algorithm,
            size(self.size_bytes),
            duration(self.time_s),
            bandwidth(self.algorithm_bandwidth_bytes_per_s),
            bandwidth(self.bus_bandwidth_bytes_per_s),
            duration(self.lower_bound_s),
            percent(self.efficiency),
        ]
        caption = f"{self.collective} over {self.ranks} NPUs"
        return display.table(caption, headings, [row]) + display.paragraphs(self.warnings)


@arguments.plain_arguments
def collective(
    kind: str,
    size: str | int,
    *,
    topology: str | Mapping[str, object] | None = None,
    machine: str | None = None,
    topology_file: str | os.PathLike[str] | None = None,
    gpus: str | Sequence[int] | None = None,
    groups: str | Sequence[Sequence[int] | str] | None = None,
    root: int | None = None,
    plan: str | os.PathLike[str] | None = None,
    algorithm: str | None = None,
    endpoint: str | None = None,
    backend: str | None = None,
    padding: str | None = None,
    chunk: str | int | None = None,
    slices: str | int | None = None,
    inflight: int | None = None,
    set: Mapping[str, object] | None = None,
    seed: int = 0,
    fold: str | None = None,
    memory_limit: str | int | None = None,
    progress: Progress = None,
    cancel: Cancellation | None = None,
) -> Collective:
    """Simulates one collective among all NPUs, or in several groups at once.

    `kind` is all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, reduce, gather or scatter; `size` is that
    of the full vector with a unit (`"64MB"`) or in bytes, as nccl-tests counts it. One of `topology`
    (`"Torus(4,8,4)"`), `machine` (`"dgx-a100(nodes=4)"`) and `topology_file` names the fabric. `gpus` take part
    (`"0,1,3"`), in `groups` (`"0-3;4-7"`, or lists of numbers); `root` is a rank of a group. `plan` is the file of a
    schedule, in place of an `algorithm`.
    `set` changes fields of the experiment by their paths. Without further arguments the backend is analytical, the
    endpoint ideal, and the algorithm the fastest of those that can carry this out.

    Raises [`InputError`] with everything that is wrong, [`SimulationFailedError`] if the simulation fails,
    [`CancelledError`] when `cancel` is called.
    """
    settings = arguments.of_program(changes=set, seed=seed, memory_limit=memory_limit, cancel=cancel)
    asked = single.Single(
        kind=kind,
        size=arguments.sized(size),
        topology=topology,
        machine=machine,
        topology_file=topology_file,
        gpus=gpus,
        groups=groups or (),
        root=root,
        endpoint=endpoint,
        algorithm=algorithm,
        backend=backend,
        plan=plan,
        padding=padding,
        chunk=arguments.sized(chunk),
        slices=slices,
        inflight=inflight,
        fold=fold,
        fabrics=FABRICS,
        spelling=ARGUMENTS,
    )
    finished = single.run(asked, settings, watch=watch_of(progress), warn=warn_of(progress))
    if finished.outcomes.interrupted:
        raise KeyboardInterrupt
    if finished.outcomes.cancelled:
        raise CancelledError
    for _, message in finished.outcomes.failures:
        raise SimulationFailedError(message)
    document = finished.document
    assert document is not None
    (result,) = (result for _, result in finished.outcomes.results)
    return Collective.of(document, document=document, tables=Tables(result.tables))
