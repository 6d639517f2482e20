"""Hybrid sharding (HSDP): ZeRO within groups of data-parallel NPUs, all-reduces of parts between groups."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from support import divided
from support.divided import ELEMENT, SHAPE, exchanged, of_one_class
from syncline.sections.data_types import Widths
from syncline.sections.parallel import Parallel
from syncline.sections.workloads import DividedWorkload, Training
from syncline.strategies import build, memory
from syncline.strategies.mesh import Mesh
from syncline.strategies.training import Request

L, H = SHAPE["layers"], SHAPE["hidden"]
BLOCK = 12 * H * H + 13 * H


def blocks() -> Any:
    return divided.gpt(1, ends=False)


@pytest.mark.parametrize(
    ("zero", "kinds"),
    [
        (1, {"reduce-scatter": 1, "all-gather": 1}),
        (2, {"reduce-scatter": 3, "all-gather": 1}),
        (3, {"reduce-scatter": 3, "all-gather": 6}),
    ],
)
@pytest.mark.parametrize("overlap", [True, False])
def test_bytes_of_three_micro_batches(zero: int, kinds: dict[str, int], overlap: bool) -> None:
    """Within a group as without groups; between them each part of the gradients once, behind the last micro-batch."""
    found = of_one_class({"zero": zero, "hsdp": 4}, 8, 3, model=blocks(), overlap=overlap)
    within = {("data", kind): number * L * BLOCK * ELEMENT for kind, number in kinds.items()}
    assert found == Counter({**within, ("replica", "all-reduce"): L * BLOCK // 4 * ELEMENT})


def test_parts_are_summed_in_the_type_of_gradients() -> None:
    found = of_one_class({"zero": 3, "hsdp": 2}, 8, model=blocks(), given=Widths(4, 2, 4, 0, 4))
    assert found["replica", "all-reduce"] == L * BLOCK // 2 * 4
    assert found["data", "all-gather"] == 2 * L * BLOCK * 2


def test_sums_between_groups_wait_for_those_within_and_the_update_for_them() -> None:
    graph = build.graph(divided.setting({"zero": 3, "hsdp": 2}, 4, 1, blocks()))
    (nodes,) = (of.nodes for of in graph.classes)
    families = list(graph.families)

    def of(family: str, kind: str) -> list[int]:
        asked = {"op": "collective", "family": families.index(family), "kind": kind}
        return [number for number, node in enumerate(nodes) if asked.items() <= node.work.items()]

    scattered, summed = of("data", "reduce-scatter"), of("replica", "all-reduce")
    assert [nodes[number].after for number in summed] == [(number,) for number in scattered]
    (update,) = (number for number, node in enumerate(nodes) if node.pass_ == "update")
    assert set(summed) <= set(nodes[update].after)
    assert not set(scattered) & set(nodes[update].after)


def test_neighbours_are_in_a_group() -> None:
    def groups(npus: int, **parallel: Any) -> tuple[list[list[int]], list[list[int]]]:
        mesh = Mesh.of(Parallel.model_validate(parallel), npus)
        return tuple(mesh.groups(*build.FAMILIES[name]) for name in ("data", "replica"))  # type: ignore[return-value]

    assert groups(8, hsdp=4) == ([[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 4], [1, 5], [2, 6], [3, 7]])
    assert groups(8, hsdp=2, tensor=2) == ([[0, 2], [1, 3], [4, 6], [5, 7]], [[0, 4], [1, 5], [2, 6], [3, 7]])
    # Copies along `context` are in the group of their sample.
    assert groups(8, hsdp=2, context=2) == ([[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 4], [1, 5], [2, 6], [3, 7]])


def test_dimensions_of_a_product_make_groups() -> None:
    parallel = Parallel.model_validate({"zero": 3, "hsdp": 4, "on": {"data": [0, 1, 2]}})
    mesh = Mesh.of(parallel, 16, (2, 2, 4))
    assert (mesh.size("data"), mesh.size("replica"), mesh.data) == (4, 4, 16)
    assert mesh.groups("data")[0] == [0, 1, 2, 3]


@pytest.mark.parametrize(("zero", "expected"), [(1, (2, 2, 3)), (2, (2, 0.5, 3)), (3, (0.5, 0.5, 3))])
def test_memory_is_divided_by_a_group(zero: int, expected: tuple[float, float, float]) -> None:
    """2 + 2 + 12 bytes of a parameter (Rajbhandari et al., Fig. 1) on groups of four of sixteen NPUs."""
    ((*_, updated),) = memory.phases(divided.setting({"zero": zero, "hsdp": 4}, 16, 1, blocks()))
    terms = (updated.weights, updated.gradients, updated.optimiser)
    assert terms == tuple(L * BLOCK * size for size in expected)


def test_one_group_of_all_is_plain_sharding() -> None:
    def found(**parallel: Any) -> Any:
        setting = divided.setting({"zero": 3, **parallel}, 8, 2, blocks())
        graph = build.graph(setting)
        return graph.classes, graph.families, memory.phases(setting)

    assert found(hsdp=8) == found()
    assert exchanged(build.graph(divided.setting({"zero": 3, "hsdp": 4}, 8, 2, blocks()))) != exchanged(
        build.graph(divided.setting({"zero": 3}, 8, 2, blocks()))
    )


@pytest.mark.parametrize(
    ("parallel", "sizes", "accepted"),
    [
        ({"zero": 3, "hsdp": 3}, None, "a divisor of 8"),
        ({"hsdp": 4}, None, "no value, or zero of 1 to 3"),
        ({"zero": 1, "hsdp": 4, "expert": 2}, None, "no value, or expert 1"),
        ({"zero": 1, "hsdp": 3, "on": {"data": [0, 1]}}, (2, 4), "2, 8, or no value"),
    ],
)
def test_groups_that_do_not_fit_are_refused(
    parallel: dict[str, Any], sizes: tuple[int, ...] | None, accepted: str
) -> None:
    workload = DividedWorkload.model_validate({"model": "gpt2", "global_batch": 8})
    given = Parallel.model_validate(parallel)
    (found,) = Request(workload, given, Training(), 8, sizes).violations()
    assert found.path == ("parallel", "hsdp")
    assert found.accepted == accepted
