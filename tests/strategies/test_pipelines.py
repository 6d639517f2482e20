"""Pipelines: the order of passes, bubbles in simulation, and micro-batches in flight."""

from __future__ import annotations

import pytest

from support import divided
from syncline.sections.parallel import Parallel, Schedule
from syncline.strategies import build, checks, schedules, weights

STAGES, MICROS, CHUNKS = 4, 8, 2


def written(schedule: Schedule, stage: int, stages: int, micros: int, chunks: int = 1) -> str:
    """The order of passes as text: micro-batches, `'` behind backward ones, and chunks from the second on."""
    order = schedules.turns(schedule, stage, stages, micros, chunks)
    names = [f"{t.micro}{'' if t.forward else chr(39)}{'' if not t.chunk else chr(96 + t.chunk)}" for t in order]
    return " ".join(names)


def test_orders_are_those_of_the_papers() -> None:
    # GPipe, Fig. 2c: all forward, then backward from the last micro-batch on.
    assert written("gpipe", 0, 4, 4) == "0 1 2 3 3' 2' 1' 0'"
    # Narayanan et al., SC 2021, Fig. 4: four devices, eight micro-batches.
    assert written("1f1b", 0, 4, 8) == "0 1 2 3 0' 4 1' 5 2' 6 3' 7 4' 5' 6' 7'"
    assert written("1f1b", 3, 4, 8) == "0 0' 1 1' 2 2' 3 3' 4 4' 5 5' 6 6' 7 7'"
    # With fewer micro-batches than stages all forward passes come first.
    assert written("1f1b", 0, 4, 2) == "0 1 0' 1'"


def test_the_interleaved_order_is_that_of_the_paper() -> None:
    """Narayanan et al., SC 2021, Fig. 4 below: four devices, two chunks each, eight micro-batches."""
    first = written("interleaved", 0, 4, 8, 2)
    assert first.startswith("0 1 2 3 0a 1a 2a 3a 4 5 6 0'a 7 1'a 4a 2'a 5a 3'a 6a 0' 7a 1'")
    last = written("interleaved", 3, 4, 8, 2)
    assert last.startswith("0 1 2 3 0a 0'a 1a 1'a 2a 2'a 3a 3'a 4 0'")


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "pipedream"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_every_pass_is_there_once_and_backward_comes_later(schedule: Schedule, stages: int) -> None:
    chunks = 3 if schedule == "interleaved" else 1
    for micros in (stages, 2 * stages, 5 * stages):
        for stage in range(stages):
            order = schedules.turns(schedule, stage, stages, micros, chunks)
            forward = {(t.micro, t.chunk): n for n, t in enumerate(order) if t.forward}
            backward = {(t.micro, t.chunk): n for n, t in enumerate(order) if not t.forward}
            assert len(order) == 2 * micros * chunks
            assert forward.keys() == backward.keys()
            assert all(forward[passed] < backward[passed] for passed in forward)


def equal_stages(schedule: str, micros: int, chunks: int = 1, *, costs_update: bool = False) -> build.Divided:
    """A pipeline of blocks alone, whose messages have no bytes."""
    model = divided.gpt(1, divided.SHAPE | {"layers": STAGES * chunks, "hidden": 48}, ends=False)
    model = divided.without_messages(model)
    parallel = {"pipeline": STAGES, "schedule": schedule, "virtual": chunks}
    return build.graph(divided.setting(parallel, STAGES, micros, model, costs_update=costs_update))


@pytest.mark.parametrize("micros", [4, 8, 12])
@pytest.mark.parametrize(("schedule", "chunks"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 3)])
def test_the_bubble_is_that_of_the_formula(schedule: str, chunks: int, micros: int) -> None:
    """(p - 1) / m of the time of all passes (Huang et al., section 2.3), and (p - 1) / (v m) interleaved (Narayanan et
    al., SC 2021, section 2.2.2), to the last picosecond.
    """
    summary = divided.simulated(equal_stages(schedule, micros, chunks), f"Switch({STAGES}, rate=1GB/s, latency=0s)")
    for of in summary["classes"]:
        assert of["compute_ps"] * (STAGES - 1) == (of["total_ps"] - of["compute_ps"]) * chunks * micros


def test_pipedream_has_no_more_bubble_than_1f1b_and_updates_after_each_micro_batch() -> None:
    updates = [
        [node.pass_ for node in of.nodes].count("update")
        for of in equal_stages("pipedream", MICROS, costs_update=True).classes
    ]
    assert updates == [MICROS] * STAGES
    summary = divided.simulated(equal_stages("pipedream", MICROS), f"Switch({STAGES}, rate=1GB/s, latency=0s)")
    like = divided.simulated(equal_stages("1f1b", MICROS), f"Switch({STAGES}, rate=1GB/s, latency=0s)")
    assert summary["total_ps"] == like["total_ps"]


@pytest.mark.parametrize("stage", range(STAGES))
def test_micro_batches_in_flight(stage: int) -> None:
    def most(schedule: Schedule, micros: int, chunks: int = 1) -> int:
        return schedules.most_kept(schedules.turns(schedule, stage, STAGES, micros, chunks), [1] * chunks)

    assert most("gpipe", 9) == 9
    assert most("1f1b", 9) == STAGES - stage
    assert most("1f1b", 2) == min(2, STAGES - stage)
    # Korthikanti et al., section 4.2.3: the first stage keeps L (1 + (p - 1) / (p v)) layers, in chunks of L / (p v).
    assert most("interleaved", 8, 2) == 2 * (STAGES - stage) - 1 + STAGES


@pytest.mark.parametrize(
    ("blocks", "chunks", "expected"),
    [
        (8, 4, [2, 2, 2, 2]),
        (7, 4, [2, 2, 2, 1]),  # the head stands in for a block
        (126, 16, [7, *[8] * 14, 7]),  # Llama 3 405B, section 3.3.2
        (126, 128, [0, *[1] * 126, 0]),  # the same with chunks of one block: the first one has the embedding alone
        (5, 4, None),
        (9, 4, None),
        (3, 8, None),
        (0, 2, None),
    ],
)
def test_stages_at_the_ends_may_have_a_block_less(blocks: int, chunks: int, expected: list[int] | None) -> None:
    assert weights.blocks_of_chunks(blocks, chunks) == expected


def of_stages(layers: int, stages: int, chunks: int = 1, *, ends: bool = True) -> list[list[list[str]]]:
    """The names of the layers of each stage, by chunk."""
    model = divided.gpt(1, divided.SHAPE | {"layers": layers}, ends=ends)
    return [[[layer.name for layer in piece] for piece in stage] for stage in weights.placed(model, stages, chunks)]


def test_every_layer_is_on_one_stage_in_order() -> None:
    assert of_stages(6, 4) == [
        [["embedding", "block.0"]],
        [["block.1", "block.2"]],
        [["block.3", "block.4"]],
        [["block.5", "head"]],
    ]
    assert of_stages(2, 2, 2) == [[["embedding"], ["block.1"]], [["block.0"], ["head"]]]
    assert of_stages(3, 2, 2) == [[["embedding", "block.0"], ["block.2"]], [["block.1"], ["head"]]]
    assert of_stages(3, 2, ends=False) == [[["block.0", "block.1"]], [["block.2"]]]


def test_unequal_stages_wait_for_the_longest_one() -> None:
    """Two stages with two blocks and one: the first one waits for the first gradient, for no more than a block takes
    forward and backward, and is then busy to the end.
    """
    model = divided.without_messages(divided.gpt(1, divided.SHAPE | {"layers": 3}, ends=False))
    graph = build.graph(divided.setting({"pipeline": 2}, 2, MICROS, model, costs_update=False))
    summary = divided.simulated(graph, "Switch(2, rate=1GB/s, latency=0s)")
    first, second = (of["compute_ps"] for of in summary["classes"])
    assert first == 2 * second
    assert first < summary["total_ps"] < first + second // MICROS


def test_a_pipeline_of_other_stages_is_refused() -> None:
    model = divided.gpt(1, divided.SHAPE | {"layers": 5})
    (violation,) = checks.of_model(Parallel(pipeline=4, data=1), model)
    assert violation.message == "gpt has 5 blocks, which pipeline 4 does not divide"
    assert violation.accepted == "a divisor of 5, or of 6 or 7, with a block less at the ends"
    without_ends = divided.gpt(1, divided.SHAPE | {"layers": 1}, ends=False)  # the last stage would have no layer
    assert [*checks.of_model(Parallel(pipeline=2, data=1), without_ends)]
    assert not [*checks.of_model(Parallel(pipeline=2, data=1), divided.gpt(1, divided.SHAPE | {"layers": 1}))]
