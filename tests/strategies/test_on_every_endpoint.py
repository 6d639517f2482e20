"""Every strategy with every endpoint and backend: a cell of that table runs, or is refused by field before it runs.

Strategies come from the fields of `parallel`, endpoints and backends from their registries.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import pytest

import syncline
from support import registry
from support.trainings import STRATEGIES
from syncline.base.errors import InputError
from syncline.sections import endpoints

FABRICS: Final = {"torus": "Ring(4)_Ring(2)", "switch": "Switch(8)", "machine": "dgx-a100"}
OTHER_FABRICS: Final = (
    "FullyConnected(8)",
    "Ring(2)_Ring(2)_Ring(2)",
    "Ring(2)_Switch(4)",
    "FullyConnected(4)_Ring(2)",
    "dgx1v",
    "dgx-h100(nodes=2)",
)
DYNAMIC: Final = "baseline contention dynamic"
IN_FULL: Final = (*endpoints.ENDPOINTS, DYNAMIC)
"""Endpoints that are tried with every strategy on every fabric."""
RUNS_ALL: Final = frozenset({"ideal", "baseline", DYNAMIC, "streams"})
"""Endpoints that refuse nothing that is tried here."""
OF_SYSTEM: Final = ("total_time_s", "compute_time_s", "exposed_comm_s", "bubble_s", "background_wait_s", "drain_s")
OF_CLASS: Final = ("total_s", "compute_s", "exposed_s", "bubble_s", "background_wait_s", "drain_s")
"""The time of an NPU, and what it is made of."""


Cell: TypeAlias = tuple[str, str, str, str]
"""A strategy, a fabric, an endpoint and a backend, all by name."""


def experiment(cell: Cell) -> dict[str, Any]:
    """The experiment of a cell."""
    strategy, fabric, endpoint, backend = cell
    parts = {"topology": fabric, "endpoint": registry.VARIANTS[endpoint], "network": backend}
    return {"name": "cell", **parts, **STRATEGIES[strategy]}


def outcome(described: Mapping[str, Any]) -> str:
    """`ran` or `refused` for an experiment that does either as it should, otherwise what is wrong with it."""
    try:
        run = syncline.run(described, errors="keep")
    except InputError as error:
        try:
            syncline.check(described)
        except InputError as before:
            named = all(problem.field and problem.message for problem in before.problems)
            return "refused" if named else f"refused without a field: {before}"
        return f"valid to `check`, but refused when it runs: {error}"
    if run.failed:
        return "\n".join(run.failed.values())
    (system,) = run.document["runs"]
    for of, names in [(system, OF_SYSTEM), *((of_class, OF_CLASS) for of_class in system["classes"])]:
        total, *parts = (of[name] for name in names)
        if abs(total - sum(parts)) > 1e-9 * total or total <= 0:
            return f"{of['name']} takes {total} s, of which {dict(zip(names[1:], parts, strict=True))}"
    return "ran"


def wrong(cells: Iterable[Cell], *, all_run: bool = False) -> dict[Cell, str]:
    """The cells that neither run nor are refused by field, and what is wrong with each."""
    right = {"ran"} if all_run else {"ran", "refused"}
    return {cell: came for cell in cells if (came := outcome(experiment(cell))) not in right}


@pytest.mark.parametrize("backend", ["flow", "analytical"])
@pytest.mark.parametrize("endpoint", IN_FULL)
@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
def test_every_strategy_runs_or_is_refused_by_field(fabric: str, endpoint: str, backend: str) -> None:
    cells = itertools.product(STRATEGIES, [fabric], [endpoint], [backend])
    assert not wrong(cells, all_run=endpoint in RUNS_ALL)


@pytest.mark.parametrize("fabric", OTHER_FABRICS)
def test_compute_shares_npus_with_every_strategy_on_other_fabrics(fabric: str) -> None:
    assert not wrong(itertools.product(STRATEGIES, [fabric], [DYNAMIC], ["flow"]), all_run=True)


@pytest.mark.parametrize("backend", registry.BACKENDS)
def test_other_words_of_endpoints_and_other_backends(backend: str) -> None:
    """Each endpoint with each other word of its fields, with strategies and fabrics by turns."""
    by_turns = itertools.cycle(STRATEGIES), itertools.cycle([*FABRICS.values(), *OTHER_FABRICS])
    turns = [*registry.VARIANTS] * 3
    assert not wrong(zip(*by_turns, turns, itertools.repeat(backend)))
