"""How long collectives take by themselves, as the engine simulates them: what an algorithm is worth on a fabric.

The communicators of a family carry the collective out at the same time, with the backend, the endpoint and the
algorithm of the experiment. Another size takes longer in proportion. That costs one short simulation for each kind of
collective of a family, which candidates have in common. Where it would take more than `WORK`, or the fabric has more
than `MOST_NPUS`, nothing is known here, and rates have to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from syncline.base.errors import InputError, SimulationFailedError
from syncline.engine import runs as engine
from syncline.engine import trials
from syncline.experiment.load import Variant
from syncline.sections.collective import DEFAULT_CHUNK, Collective
from syncline.sections.parallel import Parallel
from syncline.sections.workloads import CollectiveWorkload
from syncline.strategies.mesh import Mesh

MOST_NPUS: Final = 32
"""Of a fabric; on a larger one, setting simulations up takes longer than all other estimates."""
WORK: Final = 500_000
"""Most that a simulation may cost, in events: about a tenth of a second."""
SIZE: Final = 64 * 2**20
"""Bytes of the collective that is simulated, unless it has more chunks than `CHUNKS`."""
CHUNKS: Final = 128


@dataclass(frozen=True, slots=True)
class Alone:
    """The collectives of an experiment, each by itself."""

    base: Variant

    def rate(self, mesh: Mesh, axes: tuple[str, ...], kind: str, collective: Collective) -> float | None:
        """Bytes of a kind of collective along some axes in a picosecond, if that can be had."""
        if self.base.experiment.topology.npus > MOST_NPUS:
            return None
        size = SIZE if collective.chunks else min(SIZE, CHUNKS * (collective.chunk or DEFAULT_CHUNK))
        taken = self._time(mesh, axes, kind, size, collective)
        return size / taken if taken else None

    def _time(self, mesh: Mesh, axes: tuple[str, ...], kind: str, size: int, collective: Collective) -> int | None:
        """Picoseconds; nothing where it is refused, or would take too long."""
        experiment = self.base.experiment
        element = experiment.workload.element
        changed = {
            "workload": CollectiveWorkload.model_validate(
                {"collective": kind, "size": f"{size}B", "element": f"{element}B"}
            ),
            "gpus": None,
            "groups": ";".join(",".join(map(str, group)) for group in mesh.groups(*axes)),
            "collective": collective,
            "parallel": Parallel(),
        }
        variant = trials.unwatched(replace(self.base, experiment=experiment.model_copy(update=changed)))
        try:
            found = engine.attempt(variant, most_work=WORK)
        except (InputError, SimulationFailedError):
            return None
        return found.time_ps if found.ending == "complete" else None
