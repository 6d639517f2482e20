"""Memory by term, against published formulas."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from support import divided
from support.divided import ELEMENT, SHAPE
from syncline.sections.data_types import Widths
from syncline.sections.parallel import Optimiser
from syncline.strategies import memory, updates

L, H, A, S = SHAPE["layers"], SHAPE["hidden"], SHAPE["heads"], SHAPE["tokens"]
B = 2
SBH = S * B * H
SCORES = 5 * A * S * S * B
"""Bytes of softmax, its dropout and what goes on from there: 5 a s^2 b."""
BLOCK = 12 * H * H + 13 * H


def of(parallel: dict[str, Any], npus: int, micros: int = 1, **more: Any) -> list[memory.Memory]:
    """The memory of each stage of a model of blocks alone, when its backward pass begins."""
    return [of_stage[0] for of_stage in phases(parallel, npus, micros, **more)]


def phases(parallel: dict[str, Any], npus: int, micros: int = 1, **more: Any) -> list[list[memory.Memory]]:
    """The same whenever a stage may need most."""
    model = divided.gpt(B, SHAPE | {"layers": more.pop("layers", L)}, ends=False)
    return memory.phases(divided.setting(parallel | {"micro_batch": B}, npus, micros, model, **more))


@pytest.mark.parametrize("t", [2, 4])
def test_activations_of_a_block_are_those_of_the_formulas(t: int) -> None:
    """Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022, table 2."""
    whole = 34 * SBH + SCORES

    def kept(**parallel: Any) -> int:
        return of(parallel, parallel.get("tensor", 1))[0].activations

    assert kept() == L * whole
    assert kept(tensor=t) == L * (10 * SBH + 24 * SBH // t + SCORES // t)
    assert kept(tensor=t, sequence=True) == L * whole // t
    assert kept(tensor=t, recompute="selective") == L * (10 * SBH + 24 * SBH // t)
    assert kept(tensor=t, sequence=True, recompute="selective") == L * 34 * SBH // t
    # The input of each block, and what one block keeps while it is computed again.
    assert kept(recompute="full") == L * 2 * SBH + whole
    assert kept(tensor=t, sequence=True, recompute="full") == (L * 2 * SBH + whole) // t


def test_context_divides_activations() -> None:
    """Each of c NPUs has s / c tokens, and scores of these with all s."""
    assert of({"context": 4}, 4)[0].activations == L * (34 * SBH + SCORES) // 4


def test_micro_batches_in_flight_by_schedule() -> None:
    """Korthikanti et al., section 4.2.3: the first stage of 1F1B keeps activations of L layers whatever the stages, and
    interleaved L (1 + (p - 1) / (p v)).
    """
    p, v, block = 4, 2, 34 * SBH + SCORES
    found = [of_stage.activations for of_stage in of({"pipeline": p}, p, 8, layers=8)]
    assert found == [8 // p * (p - stage) * block for stage in range(p)]
    gpipe = of({"pipeline": p, "schedule": "gpipe"}, p, 8, layers=8)
    assert {of_stage.activations for of_stage in gpipe} == {8 // p * 8 * block}
    interleaved = of({"pipeline": p, "schedule": "interleaved", "virtual": v}, p, 8, layers=8)
    assert interleaved[0].activations == 8 * block * (p * v + p - 1) // (p * v)


@pytest.mark.parametrize(("zero", "expected"), [(0, (2, 2, 12)), (1, (2, 2, 3)), (2, (2, 0.5, 3)), (3, (0.5, 0.5, 3))])
def test_states_are_those_of_zero(zero: int, expected: tuple[float, float, float]) -> None:
    """Rajbhandari et al., "ZeRO", SC 2020, Fig. 1: 2 + 2 + 12 bytes of a parameter, on four NPUs."""
    ((found, *_, updated),) = phases({"zero": zero}, 4)
    terms = (updated.weights, updated.gradients, updated.optimiser)
    assert (updated.phase, updated.activations, updated.exchange) == ("update", 0, 0)
    assert found.gradients == (0 if zero == 3 else updated.gradients)  # which FSDP frees behind each update
    assert terms == tuple(L * BLOCK * size for size in expected)
    layer = BLOCK * ELEMENT
    assert found.exchange == {0: 0, 1: 0, 2: layer, 3: 3 * layer}[zero]


def test_a_central_server_and_stashed_weights() -> None:
    (sharded,) = of({"parameter_server": "sharded"}, 4)
    assert (sharded.weights, sharded.optimiser) == (L * BLOCK * 2, L * BLOCK * 3)
    stages = of({"pipeline": 2, "schedule": "pipedream"}, 2, 4)
    assert [of_stage.weights for of_stage in stages] == [2 * L // 2 * BLOCK * 2, L // 2 * BLOCK * 2]


def test_optimisers() -> None:
    (sgd,) = of({"optimiser": {"kind": "sgd"}}, 2, given=Widths(2, 2, 4, 0, 4))
    assert (sgd.gradients, sgd.optimiser) == (L * BLOCK * 4, L * BLOCK * 4)


@pytest.mark.parametrize(
    ("kind", "widths", "moved"),
    [
        (
            "sgd",
            Widths(2, 2, 2, 4, 4),
            2 + 2 * (4 + 4) + 2,
        ),  # as of a model that all NPUs have copies of (`sgd_momentum` in Rust)
        ("adam", Widths(2, 2, 2, 4, 4), 2 + 2 * (4 + 2 * 4) + 2),
        ("adam", Widths(2, 2, 2, 0, 4), 2 + 2 * 2 * 4 + 2 * 2),
        ("adam", Widths(2, 2, 4, 4, 4), 4 + 2 * (4 + 2 * 4) + 2),
        ("sgd", Widths(4, 2, 2, 0, 2), 4 + 2 * 2 + 2 * 4),
    ],
)
def test_an_update_moves_what_it_reads_and_writes(kind: Literal["adam", "sgd"], widths: Widths, moved: int) -> None:
    """A gradient is read, states are read and written; so are weights of which there is no copy, or else written."""
    (kernel,) = updates.kernels(1000, Optimiser(kind=kind), widths)
    assert kernel.bytes == 1000 * moved


def test_the_most_loaded_experts_decide_and_pay_by_their_share() -> None:
    """Which rank has them does not matter; what they keep grows evenly with the tokens that they get."""

    def kept(loads: list[float]) -> int:
        parallel = {"expert": len(loads), "expert_loads": loads}
        return memory.of(divided.setting(parallel, len(loads), 1, divided.mixture(4, 4, 2)))[0].activations

    equal, heavy, all_of_it = kept([1, 1]), kept([3, 1]), kept([1, 0])
    assert kept([1, 3]) == heavy
    assert equal < heavy < all_of_it
    # Of 1.5 and 2 instead of 1 times an equal share, one is half of the way to the other.
    assert heavy - equal == (all_of_it - equal) // 2


@pytest.mark.parametrize("zero", [2, 3])
def test_gradients_that_are_held_back_are_there_together(zero: int) -> None:
    """Beside back-propagation, the gradients of one layer are whole at a time; without, those of all."""
    layer = BLOCK * ELEMENT
    beside, behind = (of({"zero": zero}, 4, overlap=overlap)[0].exchange for overlap in (True, False))
    gathered = 2 * layer if zero == 3 else 0
    assert (beside, behind) == (gathered + layer, gathered + L * layer)


def test_experts_are_divided() -> None:
    model = divided.mixture(1, 8, 2)
    alone, divided_by_4 = (memory.of(divided.setting({"expert": e}, 4, 1, model))[0] for e in (1, 4))
    assert alone.weights - divided_by_4.weights == L * 8 * 8 * H * H * ELEMENT * 3 // 4
