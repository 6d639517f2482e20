"""What FSDP copies around its collectives (ZeRO 3): bytes, and where they stand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from support import divided
from support.divided import SHAPE
from syncline.sections.data_types import Widths
from syncline.strategies import build
from syncline.strategies.build import Divided
from syncline.strategies.costs import Costs
from syncline.strategies.setting import Setting

L, H = SHAPE["layers"], SHAPE["hidden"]
BLOCK = 12 * H * H + 13 * H


def setting(npus: int, micros: int = 1, given: Widths | None = None, **parallel: Any) -> Setting:
    return divided.setting(parallel, npus, micros, divided.gpt(1, ends=False), given=given)


def moved(graph: Divided) -> Counter[tuple[str, str]]:
    """By layer and pass, the bytes of all kernels of an NPU."""
    (of,) = graph.classes
    found = Counter[tuple[str, str]]()
    for node in of.nodes:
        if node.work["op"] == "kernels":
            found[node.layer, node.pass_] += sum(kernel.bytes for kernel in graph.costs[node.work["cost"]])
    return found


def copied(asked: Setting) -> Counter[tuple[str, str]]:
    """Bytes that it moves more than with ZeRO 2, but for updates, which are the same."""
    others = replace(asked, parallel=asked.parallel.model_copy(update={"zero": 2}), costs=Costs(asked.element))
    return moved(build.graph(replace(asked, costs=Costs(asked.element)))) - moved(build.graph(others))


@pytest.mark.parametrize(
    ("widths", "part", "gathered", "scattered"),
    [
        (Widths(2, 2, 2, 4, 4), 4, 4, 4),
        (Widths(2, 2, 4, 4, 4), 4, 4, 6),
        (Widths(4, 2, 4, 0, 4), 6 + 4, 4, 6),
        (Widths(4, 2, 2, 0, 4), 6 + 4, 4, 4),
        (Widths(4, 4, 2, 0, 4), 8, 8, 8 + 6),
    ],
)
@pytest.mark.parametrize("prefetch", [0, 1, 5])
@pytest.mark.parametrize("micros", [1, 3])
def test_bytes_are_those_of_the_formulas(
    widths: Widths, part: int, gathered: int, scattered: int, prefetch: int, micros: int
) -> None:
    asked = setting(4, micros, widths, zero=3, prefetch=prefetch)
    asked = replace(asked, costs=Costs(widths.compute))
    each = BLOCK // 4 * part + BLOCK * gathered
    expected = Counter[tuple[str, str]]()
    for layer in range(L):
        name = f"block.{layer}"
        expected[name, "forward"] = expected[name, "input-grad"] = micros * each
        expected[name, "weight-grad"] = micros * BLOCK * scattered
    assert copied(asked) == expected


def test_groups_divide_what_is_gathered() -> None:
    """With hybrid sharding an NPU's part is that of its group."""
    found = copied(setting(8, zero=3, hsdp=2))
    assert found["block.0", "forward"] == BLOCK // 2 * 4 + BLOCK * 4


@pytest.mark.parametrize("parallel", [{"zero": 0}, {"zero": 1}, {"zero": 2}, {"zero": 3, "tensor": 4, "data": 1}])
def test_nothing_is_copied_where_nothing_is_gathered_layer_by_layer(parallel: dict[str, Any]) -> None:
    plain = parallel | {"zero": 0}
    found, without = (moved(build.graph(setting(4, **each))) for each in (parallel, plain))
    updates = {(layer, pass_) for layer, pass_ in found if pass_ == "update"}
    assert {key: size for key, size in found.items() if key not in updates} == {
        key: size for key, size in without.items() if key not in updates
    }


def test_copies_stand_between_collectives_and_compute() -> None:
    graph = build.graph(setting(4, zero=3))
    (of,) = graph.classes
    gathers = [n for n, node in enumerate(of.nodes) if node.work.get("kind") == "all-gather"]
    scatters = [n for n, node in enumerate(of.nodes) if node.work.get("kind") == "reduce-scatter"]

    def size(number: int) -> int:
        work = of.nodes[number].work
        return sum(kernel.bytes for kernel in graph.costs[work["cost"]]) if work["op"] == "kernels" else 0

    assert (len(gathers), len(scatters)) == (2 * L, L)
    for number in gathers:
        before = [one for one in of.nodes[number].after if one not in gathers]
        assert [size(one) for one in before] == [BLOCK // 4 * 4]
        (behind,) = (n for n, node in enumerate(of.nodes) if number in node.after and n not in gathers)
        assert size(behind) == 4 * BLOCK
    for number in scatters:
        assert [size(one) for one in of.nodes[number].after] == [4 * BLOCK]
