"""Where NPUs stand: the grid of axes, who communicates with whom along them, and the numbers of NPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Final

from syncline.sections.parallel import Parallel

GRID_AXES: Final = ("tensor", "context", "expert", "data", "pipeline")
REPLICA: Final = "replica"
"""The axis of groups that have copies of each other's parts (HSDP), next to `data`, which is that within a group."""
MESH_AXES: Final = (*GRID_AXES, REPLICA)


def within(dims: Sequence[int], sizes: Sequence[int], group: int | None) -> int:
    """How many of some dimensions, from the first on, have a group of NPUs; all of them without groups, and -1 if the
    group is none of whole dimensions.
    """
    if group is None:
        return len(dims)
    found = (count for count in range(1, len(dims) + 1) if prod(sizes[dim] for dim in dims[:count]) == group)
    return next(found, -1)


@dataclass(frozen=True)
class Mesh:
    """NPUs on a grid, each dimension of which belongs to an axis; the first dimension is innermost.

    Of the data-parallel copies of a model, those along the axis `expert` have different experts, and those along `data`
    the same ones.
    """

    dims: tuple[tuple[str, int], ...]
    """Axis and size of each dimension."""
    ways: tuple[tuple[str, tuple[int, ...]], ...]
    """The dimensions of each axis, the one along which its ranks run fastest first."""
    is_product: bool = False
    """Whether the NPUs are those of a product topology, whose rings communicators may use."""
    numbers: tuple[int, ...] | None = None
    """The number of the NPU at each place of the grid, where these are some of a machine's; by default they are
    numbered from 0 on."""

    @classmethod
    def of(
        cls,
        parallel: Parallel,
        npus: int,
        sizes: Sequence[int] | None = None,
        numbers: tuple[int, ...] | None = None,
    ) -> Mesh:
        """The grid of an experiment on so many NPUs, or on those with these numbers; `sizes` are those of a product
        topology, to which `parallel.on` refers.

        The ways have to multiply to the NPUs (`strategies.checks`).
        """
        if parallel.on and sizes is not None:
            given = {str(axis): tuple(dims) for axis, dims in parallel.on.items()}
            inner = within(given.get("data", ()), sizes, parallel.hsdp)
            given |= {"data": given.get("data", ())[:inner], REPLICA: given.get("data", ())[inner:]}
            axis_of = {dim: axis for axis, dims in given.items() for dim in dims}
            grid = tuple((axis_of[dim], size) for dim, size in enumerate(sizes))
            return cls(grid, tuple((axis, given.get(axis, ())) for axis in MESH_AXES), True)
        data = npus // (parallel.tensor * parallel.context * parallel.pipeline)
        size = {
            "tensor": parallel.tensor,
            "context": parallel.context,
            "expert": parallel.expert,
            "data": parallel.hsdp or data // parallel.expert,
            REPLICA: data // parallel.hsdp if parallel.hsdp else 1,
            "pipeline": parallel.pipeline,
        }
        of_data = ("expert", "data", REPLICA)
        order = [axis for name in parallel.order for axis in (of_data if name == "data" else (name,))]
        kept = [axis for axis in order if size[axis] > 1]
        places = {axis: (number,) for number, axis in enumerate(kept)}
        dims = tuple((axis, size[axis]) for axis in kept) or (("data", 1),)
        return cls(dims, tuple((axis, places.get(axis, ())) for axis in MESH_AXES), sizes is not None, numbers)

    @cached_property
    def _along(self) -> Mapping[str, tuple[int, ...]]:
        return dict(self.ways)

    @cached_property
    def npus(self) -> int:
        """All NPUs."""
        return prod(size for _, size in self.dims)

    def size(self, *axes: str) -> int:
        """NPUs along some axes together."""
        return prod(self.dims[dim][1] for axis in axes for dim in self._along[axis])

    @property
    def data(self) -> int:
        """Copies of the model."""
        return self.size("expert", "data", REPLICA)

    def dims_of(self, axes: Iterable[str]) -> list[int]:
        """The dimensions of some axes, the one along which ranks run fastest first: those of the innermost axis.

        Ranks then follow the numbers of NPUs, so that those of a server are in a row, whatever order axes are named in.
        """
        kept = [dims for axis in axes if (dims := self._along[axis])]
        return [dim for dims in sorted(kept, key=min) for dim in dims]

    @cached_property
    def _strides(self) -> list[int]:
        return [prod(size for _, size in self.dims[:dim]) for dim in range(len(self.dims))]

    def _offsets(self, dims: Sequence[int]) -> list[int]:
        """NPU numbers along some dimensions from the origin, the first of them fastest."""
        ranges = [range(self.dims[dim][1]) for dim in reversed(dims)]
        return [
            sum(place * self._strides[dim] for place, dim in zip(reversed(places), dims, strict=True))
            for places in product(*ranges)
        ]

    def npus_at(self, **places: int) -> list[int]:
        """The NPUs at these places along axes, in the order of their numbers."""
        dims = [dim for axis in places for dim in self._along[axis]]
        rest = [dim for dim in range(len(self.dims)) if dim not in dims]
        start = sum(self._offsets(self._along[axis])[place] for axis, place in places.items())
        return sorted(self._npu(start + offset) for offset in self._offsets(rest))

    def _npu(self, place: int) -> int:
        """The number of the NPU at a place of the grid."""
        return place if self.numbers is None else self.numbers[place]

    def groups(self, *axes: str) -> list[list[int]]:
        """The NPUs of each communicator along some axes, by rank."""
        dims = self.dims_of(axes)
        rest = [dim for dim in range(len(self.dims)) if dim not in dims]
        return [[self._npu(origin + offset) for offset in self._offsets(dims)] for origin in self._offsets(rest)]

    def ends(self) -> list[list[int]]:
        """The NPUs of the first and the last stage that hold the same, in pairs."""
        return [[group[0], group[-1]] for group in self.groups("pipeline")]

    def members(self, *axes: str) -> dict[str, Any]:
        """The communicators along some axes, by rule, as the engine takes them."""
        sizes = [size for _, size in self.dims]
        return {"by": "grid", "sizes": sizes, "along": self.dims_of(axes), "first": 0}
