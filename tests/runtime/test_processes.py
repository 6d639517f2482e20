"""The collective library between processes, against numpy."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from support import processes
from support.command import Ended
from support.topologies import dgx1_xml
from syncline.commands.api import bench_predicted as predicted
from syncline.runtime import library, measured
from syncline.runtime.library import Communicator, DataType, Reduction, RuntimeFailure

Command = Callable[..., Ended]
EPSILON = float(np.finfo(np.float32).eps)


def vector(rank: int, elements: int) -> npt.NDArray[np.float32]:
    """Numbers of all sizes and signs, whose sums depend on their order."""
    generator = np.random.default_rng(rank)
    return (generator.standard_normal(elements) * 10.0 ** generator.integers(-6, 6, elements)).astype(np.float32)


def summed(communicator: Communicator, elements: int) -> npt.NDArray[np.float32]:
    source = vector(communicator.rank, elements)
    target = np.zeros_like(source)
    communicator.all_reduce(source.ctypes.data, target.ctypes.data, elements, DataType.FLOAT32, Reduction.SUM)
    return target


def stated_sum(ranks: int, elements: int) -> npt.NDArray[np.float32]:
    """The order of addition of direct all-reduces: block `b` is summed from ranks `b`, `b - 1`, `b + 1`, `b - 2`, ...,
    modulo their number. Blocks are equal but for one element.
    """
    inputs = [vector(rank, elements) for rank in range(ranks)]
    total = np.empty(elements, np.float32)
    begin = 0
    for block in range(ranks):
        end = begin + elements // ranks + (block < elements % ranks)
        part = inputs[block][begin:end]
        for turn in range(ranks - 1):
            away = turn // 2 + 1
            rank = block - away if turn % 2 == 0 else block + away
            part = inputs[rank % ranks][begin:end] + part
        total[begin:end] = part
        begin = end
    return total


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_sums_have_the_bits_of_the_stated_order(ranks: int) -> None:
    elements = 4001
    results = processes.ranks(summed, ranks, elements)
    expected = stated_sum(ranks, elements)
    for result in results:
        assert result.tobytes() == expected.tobytes()
    exact = np.sum([vector(rank, elements).astype(np.float64) for rank in range(ranks)], axis=0)
    bound = (ranks - 1) * EPSILON * np.sum([np.abs(vector(rank, elements)) for rank in range(ranks)], axis=0)
    assert np.all(np.abs(expected - exact) <= bound)


def random_calls(communicator: Communicator, seed: int) -> int:
    """Collectives of random kinds, types, counts, roots and reductions, checked; returns how many."""
    generator = np.random.default_rng(seed)
    ranks, own = communicator.ranks, communicator.rank
    types: list[tuple[DataType, Any]] = [
        (DataType.INT8, np.int8),
        (DataType.UINT8, np.uint8),
        (DataType.INT32, np.int32),
        (DataType.UINT32, np.uint32),
        (DataType.INT64, np.int64),
        (DataType.UINT64, np.uint64),
        (DataType.FLOAT16, np.float16),
        (DataType.FLOAT32, np.float32),
        (DataType.FLOAT64, np.float64),
    ]
    functions = {
        Reduction.SUM: np.add,
        Reduction.PROD: np.multiply,
        Reduction.MAX: np.maximum,
        Reduction.MIN: np.minimum,
    }
    calls = 60
    for number in range(calls):
        kind = generator.choice(["all-reduce", "reduce", "reduce-scatter", "broadcast", "all-gather", "all-to-all"])
        data_type, numpy_type = types[generator.integers(len(types))]
        reduction = list(functions)[generator.integers(4)]
        count = int(generator.choice([0, 1, 2, 7, 100, 1001, 65_537, 200_000]))
        root = int(generator.integers(ranks))
        whole = count * ranks if kind in {"reduce-scatter", "all-to-all"} else count
        # Small whole numbers: the results are exact in every type and order.
        inputs = [
            np.random.default_rng((seed, number, rank)).integers(0, 3, whole).astype(numpy_type)
            for rank in range(ranks)
        ]
        mine = inputs[own].copy()
        total = inputs[0]
        for other in inputs[1:]:
            total = functions[reduction](total, other)
        share = slice(own * count, (own + 1) * count)
        length = count * ranks if kind in {"all-gather", "all-to-all"} else count
        target = np.full(length, 77).astype(numpy_type)
        source, sink = mine.ctypes.data, target.ctypes.data
        match kind:
            case "all-reduce":
                communicator.all_reduce(source, sink, count, data_type, reduction)
                expected = total
            case "reduce":
                communicator.reduce(source, sink if own == root else 0, count, data_type, reduction, root)
                expected = total if own == root else target
            case "reduce-scatter":
                communicator.reduce_scatter(source, sink, count, data_type, reduction)
                expected = total[share]
            case "broadcast":
                communicator.broadcast(source if own == root else 0, sink, count, data_type, root)
                expected = inputs[root]
            case "all-gather":
                communicator.all_gather(source, sink, count, data_type)
                expected = np.concatenate(inputs)
            case _:
                communicator.all_to_all(source, sink, count, data_type)
                expected = np.concatenate([other[share] for other in inputs])
        assert target.tobytes() == expected.tobytes(), (number, kind, data_type, reduction, count, root)
        assert mine.tobytes() == inputs[own].tobytes(), "the input is not changed"
    return calls


@pytest.mark.parametrize("transport", ["shared memory", "tcp"])
def test_random_calls(transport: str) -> None:
    environment = {"SYNCLINE_TRANSPORT": "tcp"} if transport == "tcp" else {}
    assert processes.ranks(random_calls, 3, 1, environment=environment) == [60] * 3


def with_plan(communicator: Communicator, identity: bytes, plan: str) -> bool:
    planned = Communicator(identity, communicator.rank, communicator.ranks, plans=[Path(plan)])
    result = summed(planned, 200_000)
    planned.close()
    total = np.sum([vector(rank, 200_000).astype(np.float64) for rank in range(communicator.ranks)], axis=0)
    size = np.sum([np.abs(vector(rank, 200_000)) for rank in range(communicator.ranks)], axis=0)
    return bool(np.all(np.abs(result - total) <= (communicator.ranks - 1) * EPSILON * size))


def test_trees_of_the_planner_move_real_bytes(syncline_command: Command, tmp_path: Path) -> None:
    plan = tmp_path / "trees.json"
    what = ["trees", "--machine", "dgx1v", "--gpus", "1,4,5", "--collective", "all-reduce", "--format", "plan"]
    assert syncline_command(*what, "--size", "1MB", "-o", str(plan)).status == 0
    assert processes.ranks(with_plan, 3, library.new_identity(), str(plan)) == [True] * 3


@pytest.mark.parametrize("format_", ["msccl-xml", "mscclpp-json"])
def test_files_of_other_runtimes_move_real_bytes(syncline_command: Command, tmp_path: Path, format_: str) -> None:
    plan = tmp_path / "plan"
    what = ["export", "all-reduce", "--algorithm", "direct", "--ranks", "3", "--format", format_]
    assert syncline_command(*what, "-o", str(plan)).status == 0
    assert processes.ranks(with_plan, 3, library.new_identity(), str(plan)) == [True] * 3


def test_a_wrong_plan_is_never_carried_out(syncline_command: Command, tmp_path: Path) -> None:
    plan = tmp_path / "wrong.json"
    what = ["export", "all-reduce", "--algorithm", "direct", "--ranks", "2"]
    assert syncline_command(*what, "-o", str(plan)).status == 0
    text = plan.read_text()
    assert '"rrc"' in text
    plan.write_text(text.replace('"rrc"', '"r"'))
    with pytest.raises(RuntimeFailure, match="the plan is wrong"):
        processes.ranks(with_plan, 2, library.new_identity(), str(plan))


def endless(communicator: Communicator, victim: int, sign: int) -> str:
    """Calls until it fails; the victim is gone after a while."""
    if communicator.rank == victim:
        summed(communicator, 10)
        os.kill(os.getpid(), sign)
        time.sleep(30)
    try:
        while True:
            summed(communicator, 10)
    except RuntimeFailure as failure:
        return str(failure)


@pytest.mark.parametrize(
    ("sign", "expected"),
    [
        (signal.SIGSTOP, "rank 1 does not answer (its process is stopped or its host is unreachable) in call 1"),
        (signal.SIGKILL, "rank 1 has died"),
    ],
)
def test_a_rank_that_stops_or_dies_is_named_on_all_others(sign: signal.Signals, expected: str) -> None:
    environment = {"SYNCLINE_TIMEOUT": "1"}
    answers = processes.ranks(endless, 3, 1, sign, environment=environment, silent=[1])
    assert len(answers) == 2
    for answer in answers:
        assert expected in answer


@pytest.mark.parametrize(("kind", "shares"), [("all-reduce", 1), ("all-gather", 2)])
def test_measurements_stand_beside_predictions(
    syncline_command: Command, tmp_path: Path, kind: str, shares: int
) -> None:
    page = tmp_path / "measured.html"
    what = ["bench", kind, "--execute", "--sizes", "1KiB:64KiB:x2", "--html", str(page), "--json"]
    ended = syncline_command(*what)
    assert ended.status == 0, ended.err
    rows = json.loads(ended.out)["rows"]
    assert [row["size_bytes"] for row in rows] == [2**power for power in range(10, 17)]
    assert [row["count"] for row in rows] == [2**power // 4 // shares for power in range(10, 17)]
    assert all(row["wrong"] == 0 and row["time_s"] > 0 and row["predicted_s"] > 0 for row in rows)
    assert [row["is_fitted_on"] for row in rows] == [True, False] * 3 + [True]
    assert all(row["error"] == pytest.approx(row["predicted_s"] / row["time_s"] - 1) for row in rows)
    text = page.read_text()
    assert "<svg" in text
    assert "held out" in text


def test_constants_are_found_from_times_of_the_simulator() -> None:
    true = predicted.Constants(3e-6, 1.5e-10, 2.5e-10)
    sizes = (1024, 16_384, 262_144, 4 << 20)
    direct = library.Chosen("direct", 1 << 18, 1, 4, 128 << 10)
    cases = [predicted.Case(kind, size, direct) for kind in ("all-reduce", "all-gather") for size in sizes]
    times = predicted.times(cases, 2, true)
    rows = [
        measured.Measurement(case.kind, case.size, time, time, 0, direct)
        for case, time in zip(cases, times, strict=True)
    ]
    constants, compared = predicted.compared("all-reduce", rows, 2)
    assert constants.vector() == pytest.approx(true.vector(), rel=1e-3)
    assert max(abs(row.error) for row in compared) < 1e-3


def test_the_machine_is_detected(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The planner is the command line. In place of plans that are not used here it gives any other, as a search takes
    time.
    """
    file, planner = tmp_path / "nccl.xml", tmp_path / "planner"
    file.write_text(dgx1_xml())
    plan = Path(__file__).parents[2] / "crates/runtime/tests/plans/msccl-gather-direct.json"
    real = f'exec {Path(sys.executable).with_name("syncline")} "$@"'
    planner.write_text(f'#!/bin/sh\ncase "$*" in topology*|*all-reduce*) {real};; *) exec cat {plan};; esac\n')
    planner.chmod(0o755)
    environment = {
        "NCCL_TOPO_FILE": str(file),
        "SYNCLINE_TOPOLOGY": "detect",
        "SYNCLINE_GPUS": "1,4,5",
        "SYNCLINE_PLANNER": str(planner),
        "SYNCLINE_DEBUG": "info",
    }
    elements = 100_000
    own = processes.ranks(summed, 3, elements)[0].tobytes()
    results = processes.ranks(summed, 3, elements, environment=environment)
    assert "trees by NCCL_TOPO_FILE, GPUs 1,4,5: NVLinks join the GPUs unequally" in capfd.readouterr().err
    # They are not summed in the order of the library's own all-reduce.
    assert results[0].tobytes() == results[1].tobytes() != own
    # What is detected is of no use: the library's own algorithms serve.
    file.write_text("nothing")
    results = processes.ranks(summed, 3, elements, environment=environment)
    assert "no trees: " in capfd.readouterr().err
    assert results[0].tobytes() == own


def chosen(communicator: Communicator) -> list[tuple[str, int]]:
    """The names and numbers of chunks for collectives and counts of float32."""
    wanted = [
        ("all-reduce", 1000),
        ("all-reduce", 4 << 20),
        ("all-gather", 4 << 20),
        ("broadcast", 100),
        ("broadcast", 4 << 20),
        ("reduce", 1 << 18),
        ("all-to-all", 1 << 18),
    ]
    answers = [communicator.chosen(kind, count, DataType.FLOAT32) for kind, count in wanted]
    for (_, count), answer in zip(wanted, answers, strict=True):
        assert answer.chunks == -(-4 * count // answer.chunk_bytes)
        assert (answer.slots, answer.slot_bytes) == (4, 128 << 10)
    with pytest.raises(RuntimeFailure, match='collective is "sum"; accepted: all-reduce, reduce-scatter'):
        communicator.chosen("sum", 1, DataType.FLOAT32)
    with pytest.raises(RuntimeFailure, match="root is 3; accepted: 0 to 2"):
        communicator.chosen("reduce", 1, DataType.FLOAT32, 3)
    return [(answer.name, answer.chunks) for answer in answers]


def test_the_library_tells_what_it_chooses() -> None:
    """Chunks of a direct all-reduce of 16 MiB: three blocks of 128 KiB each, at most, rounded to whole elements."""
    large, chain = 4 << 22, "chain"
    most = 3 * (128 << 10)
    answers = processes.ranks(chosen, 3)
    assert answers[0] == answers[1] == answers[2]
    names = [name for name, _ in answers[0]]
    assert names == ["direct", "direct", "direct", "halving-doubling", chain, chain, "direct"]
    counts = [count for _, count in answers[0]]
    assert counts[0] == 1
    assert counts[1] >= large / most
    assert counts[4] == large // (128 << 10)


def of_plan(communicator: Communicator, identity: bytes, plan: str) -> tuple[str, int]:
    planned = Communicator(identity, communicator.rank, communicator.ranks, plans=[Path(plan)])
    answer = planned.chosen("all-reduce", 1 << 20, DataType.FLOAT32)
    planned.close()
    return answer.name, answer.slots


def test_a_plan_of_a_file_is_told_by_its_name_and_not_predicted(syncline_command: Command, tmp_path: Path) -> None:
    plan = tmp_path / "trees.json"
    what = ["trees", "--machine", "dgx1v", "--gpus", "1,4,5", "--collective", "all-reduce", "--format", "plan"]
    assert syncline_command(*what, "-o", str(plan)).status == 0
    answers = processes.ranks(of_plan, 3, library.new_identity(), str(plan))
    assert answers == [("all-reduce trees of dgx1v", 4)] * 3
    case = predicted.Case("all-reduce", 1 << 20, library.Chosen(answers[0][0], 1, 1, 4, 1))
    with pytest.raises(RuntimeFailure, match="'all-reduce trees of dgx1v' is none of the library's own"):
        predicted.times([case], 3, predicted.Constants(1e-6, 1e-10, 1e-10))


def leaving(rank: int, size: int) -> None:
    sys.exit(f"rank {rank} of {size} leaves")


def test_what_is_raised_in_a_process_tells_where() -> None:
    """Also where it is no `Exception`, as what pytest raises."""
    with pytest.raises(RuntimeError, match="SystemExit: rank 0 of 1 leaves") as raised:
        processes.each(leaving, 1)
    assert "in leaving" in raised.value.__notes__[0]
