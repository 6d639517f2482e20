"""What all stages of a training have in common, and what tells one class of NPUs from another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from syncline.models.model import Model
from syncline.sections.data_types import Widths
from syncline.sections.parallel import Parallel
from syncline.sections.workloads import Fusion
from syncline.strategies import updates
from syncline.strategies.costs import Costs, Kernels
from syncline.strategies.mesh import Mesh
from syncline.strategies.weights import Weights

GATHERING: Final = 3
"""The stage of ZeRO that gathers weights, which are cast before."""


@dataclass(frozen=True)
class Setting:
    """A training, divided."""

    model: Model
    """Evaluated for a micro-batch."""
    parallel: Parallel
    mesh: Mesh
    costs: Costs
    micros: int
    """Micro-batches of each copy of the model in an iteration."""
    bucket: int | None = None
    first_bucket: int | None = None
    overlap: bool = True
    """Whether gradients and weights are exchanged beside compute."""
    costs_update: bool = True
    """Whether weights are updated, which takes time, and needs states of the optimiser."""
    has_copies: bool = False
    """Whether there are copies of the model that the mesh does not have."""
    host_kernel_time: int = 0
    """Picoseconds that the host of an NPU takes to launch a kernel; 0 where it launches nothing."""
    given: Widths | None = None
    """Bytes of what is kept and exchanged for a parameter, where these are not the usual ones of an element."""
    kernels: Fusion = "eager"
    """Whose kernels NPUs run, which decides on what these keep."""
    fused_loss: bool = False
    """Whether cross-entropy takes logits as they are, and keeps nothing else."""
    workspace: int = 0
    """Bytes that libraries have for each thread that launches products."""

    @property
    def element(self) -> int:
        """Bytes of an element of an activation, and of a weight as it is computed with."""
        return self.costs.element

    @property
    def widths(self) -> Widths:
        """Bytes of what is kept and exchanged for a parameter."""
        return self.given or Widths.usual(self.element)

    @property
    def between(self) -> int:
        """Bytes of an element of what norms take, and of what passes between layers: with autocast, of a weight."""
        return self.weight if self.is_autocast else self.element

    @property
    def is_autocast(self) -> bool:
        """Whether each NPU casts whole weights before it uses them; FSDP casts the parts that it gathers."""
        return self.widths.casts and self.parallel.zero < GATHERING

    @property
    def weight(self) -> int:
        """Bytes of a weight as it is stored."""
        return self.widths.weights

    @property
    def gradient(self) -> int:
        """Bytes of a gradient as it is exchanged."""
        return self.widths.gradients

    @property
    def activation(self) -> int:
        """Bytes of what goes from layer to layer, for all tokens of an NPU of a context-parallel group."""
        model = self.model
        return model.samples * model.tokens * model.hidden * self.element // self.parallel.context

    @property
    def is_pipedream(self) -> bool:
        """Whether each micro-batch is followed by an update."""
        return self.parallel.schedule == "pipedream"

    @property
    def brings_weights_later(self) -> bool:
        """Whether the weights of an update come beside the next iteration: the first waits for none, and the last one's
        are in flight at its end.
        """
        brings = self.parallel.zero in (1, 2) or self.parallel.parameter_server != "none"
        return brings and self.overlap and not self.is_pipedream and self.copies("data") > 1

    def parts(self, weights: Weights) -> Iterator[tuple[str, int]]:
        """Parameters by the family along which there are copies of them."""
        yield "data", weights.dense
        yield "expert-data", weights.expert

    def copies(self, family: str) -> int:
        """How many NPUs have copies of the same parameters, or divide them; with `hsdp` those of a group."""
        axes = ("data", "context") if family == "expert-data" else ("expert", "data", "context")
        return self.mesh.size(*axes)

    def held(self, weights: Weights, *, divided: bool) -> int:
        """Parameters of these that an NPU has, with those that have copies divided among the NPUs that have them."""
        return sum(-(-n // (self.copies(family) if divided else 1)) for family, n in self.parts(weights))

    def updates(self, parameters: int) -> Kernels:
        """The kernel that updates so many parameters; none if updates take no time."""
        if not self.costs_update:
            return ()
        return updates.kernels(parameters, self.parallel.optimiser, self.widths)


@dataclass(frozen=True, slots=True)
class Role:
    """What tells the programs of NPUs apart."""

    stage: int
    expert: int | None = None
    """The rank among experts, where these have different loads."""
    copy: int = -1
    """The rank among copies of the model, where each has a program of its own."""
    serves: bool = False
    """Whether it is the parameter server of the others."""

    @property
    def name(self) -> str:
        """What people call it."""
        name = f"stage {self.stage}"
        name += "" if self.expert is None else f", experts {self.expert}"
        return name + (", server" if self.serves else "" if self.copy < 0 else f", copy {self.copy}")
