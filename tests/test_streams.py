"""Streams from the command line, the plans of Blink's micro-benchmarks, and the choice of chunks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import blink_plans as blink
from support.command import Ended
from syncline.engine.chunking import MB, Trial, best_chunks, miad, steady_from
from syncline.experiment import packaged as studies
from syncline.sections.endpoints import StreamsEndpoint
from syncline.studies.reproduction.blink import MICRO, SIZES, Blink
from syncline.studies.reproduction.runs import Run, Runs

Command = Callable[..., Ended]

RATE = 23_500_000_000
LATENCY_S = 500e-9
CHAIN = "0,1,3,7,5,4,6,2"
"""GPUs of a DGX-1V, each with a single NVLink to the next."""


def chain(gpus: int, plan: str, size: int, chunks: int) -> list[str]:
    """A command that runs a plan along a chain."""
    members = ",".join(CHAIN.split(",")[:gpus])
    return [
        *("--topology", "dgx1v(efficiency=94%)", "--group", members, "--backend", "flow", "--endpoint", "streams"),
        *("--plan", str(studies.FOLDER / "blink" / "plans" / plan), "--size", f"{size}B"),
        *("--set", f"collective.loops={chunks}", "--set", "endpoint.copy_overhead=30us"),
        *("--set", "endpoint.event_overhead=10us", "--set", "endpoint.kernel_overhead=20us", "--json"),
    ]


@pytest.mark.parametrize("gpus", [3, 4, 8])
@pytest.mark.parametrize(("size", "chunks"), [(940 * MB, 1), (940 * MB, 40), (2_350_000, 50)])
def test_chains_take_the_time_of_the_closed_form(syncline_command: Command, gpus: int, size: int, chunks: int) -> None:
    """Where the links are the limit and where the overheads are: `(c + g - 2) P + (g - 1) a`."""
    copy, kernel = size / chunks / RATE, size / chunks / 300e9
    for kind, plan, pace in (
        ("broadcast", f"forward-{gpus}.json", 10e-6 + 30e-6 + copy),
        ("reduce", f"reduce-forward-{gpus}.json", 20e-6 + kernel + 30e-6 + copy),
    ):
        ended = syncline_command("collective", kind, *chain(gpus, plan, size, chunks))
        document = json.loads(ended.out)
        expected = (chunks + gpus - 2) * pace + (gpus - 1) * LATENCY_S
        assert document["time_s"] == pytest.approx(expected, abs=(chunks + gpus) * 3e-12), (kind, ended.err)


def test_delays_follow_from_the_seed(syncline_command: Command) -> None:
    line = ["all-reduce", "--size", "8MB", "--topology", "Ring(8)", "--backend", "flow", "--endpoint", "streams"]
    line += ["--algorithm", "double-binary-tree", "--set", "collective.slices=8", "--json"]

    def time(*more: str) -> float:
        return float(json.loads(syncline_command("collective", *line, *more).out)["time_s"])

    delayed = [time("--set", "endpoint.sharing=delayed", "--seed", seed) for seed in ("1", "1", "2")]
    assert delayed[0] == delayed[1] != delayed[2]
    assert time("--seed", "1") == time("--seed", "2") not in delayed
    assert time("--set", "endpoint.sharing=delayed", "--set", "endpoint.delay=0") == time()


@pytest.mark.parametrize(
    ("setting", "accepted"),
    [
        ("endpoint.copy_overhead=-1us", "a time with a unit"),
        ("endpoint.reduce_rate=0GB/s", "a rate with a unit"),
        ("endpoint.sharing=unfair", "fair, delayed"),
        ("endpoint.delay=2", "no value, or endpoint.sharing delayed"),
        ("endpoint.transit=endpoint", "copy_overhead"),
    ],
)
def test_what_is_no_stream_is_refused_with_what_is_accepted(
    syncline_command: Command, setting: str, accepted: str
) -> None:
    line = ("--size", "8MB", "--topology", "Ring(8)", "--endpoint", "streams", "--set", setting)
    ended = syncline_command("collective", "all-reduce", *line)
    assert (ended.status, ended.out) == (2, "")
    assert setting.partition("=")[0] in ended.err
    assert accepted in ended.err


def test_sweeps_tell_seeds_of_delays_apart() -> None:
    assert StreamsEndpoint(kind="streams", sharing="delayed").is_random
    assert not StreamsEndpoint(kind="streams").is_random


def test_the_files_of_the_package_are_those_that_are_made() -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in blink.FOLDER.iterdir()}
    assert files == blink.plans()


def test_plans_hold_what_they_promise(syncline_command: Command) -> None:
    schedules = [path for path in sorted(blink.FOLDER.iterdir()) if path.name != "mimo.json"]
    assert len(schedules) == 30
    for path in schedules:
        assert syncline_command("verify", str(path)).status == 0, path


def test_plans_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    blink.write(tmp_path / "plans")
    assert {path.name for path in (tmp_path / "plans").iterdir()} == set(blink.plans())


class TestMicroBenchmarks:
    """Of Blink, 1000 MB unless they say otherwise."""

    def throughput(self, variant: str, size: float = 1000e6) -> float:
        """GB/s."""
        return float(size / Runs().result(Run(MICRO, variant)).summary["total_ps"] * 1e3)

    def test_what_is_fanned_in_leaves_at_the_rate_of_the_link(self) -> None:
        """The data of the root, which is a share of the vector, goes nowhere; reductions cost 1 to 2 GB/s (A.1.2)."""
        moved = 1000e6 * 4 / 5  # that of three sources and of the GPU in between
        forward, reduced = self.throughput("Fan-in 3", moved), self.throughput("Fan-in reduce 3")
        assert 22 < forward < 23.5
        assert 1 < forward - reduced < 3

    def test_what_is_fanned_out_takes_as_long_to_one_as_to_three(self) -> None:
        assert self.throughput("Fan-out 1") == self.throughput("Fan-out 3") > 22

    def test_two_chains_at_once_wait_for_each_others_kernels_once(self) -> None:
        """Kernels of both first chunks meet at the GPU in the middle, and no others."""
        chunks, size = 9, 100e6
        copy, kernel = size / chunks / RATE, size / chunks / 300e9
        alone = (chunks + 1) * (25e-6 + kernel + 37.5e-6 + copy) + 2 * LATENCY_S
        summary = Runs().result(Run(MICRO, "MIMO")).summary
        assert summary["total_ps"] / 1e12 == pytest.approx(alone + kernel, abs=2e-9)
        (sms,) = summary["endpoint"]["resources"]
        assert sms["wait_ps"] / 1e12 == pytest.approx(kernel, abs=1e-9)

    def test_throughput_falls_with_the_size(self) -> None:
        micro = Blink(Runs())
        for name in ("Forward 8", "Reduce 8", "All-reduce 8", "MCA"):
            found = [micro.throughput(name, size * MB, micro.chunks(name, size * MB)) for size in (1, 10, 100, 1000)]
            assert found == sorted(found)
            assert found[0] < found[-1] / 4

    def test_the_closed_form_finds_the_best_chunks(self) -> None:
        micro = Blink(Runs())
        for name in ("Forward 4", "Reduce 8", "All-reduce 3", "MCA"):
            best = micro.chunks(name, 500 * MB)
            times = {chunks: micro.seconds(name, 500 * MB, chunks) for chunks in range(best - 6, best + 7, 3)}
            assert min(times.values()) > times[best] * (1 - 1e-4), (name, times)


class TestClaims:
    def test_all_hold(self, syncline_command: Command) -> None:
        mine = ("blink-fig7-depth", "blink-mimo-mca", "blink-fig11-chunking", "blink-fig12-miad")
        ended = syncline_command("reproduce", *mine, "--json")
        claims = {claim["id"]: claim for claim in json.loads(ended.out)["claims"]}
        assert (ended.status, set(claims)) == (0, set(mine))
        assert all(claim["inside"] for claim in claims.values()), claims
        assert claims["blink-fig11-chunking"]["simulated"] == pytest.approx(2 / 3, abs=1e-5)

    def test_chunks_that_are_too_large_are_left_again(self) -> None:
        micro = Blink(Runs())

        def measure(chunk: int) -> float:
            return micro.throughput("Forward 4", 500 * MB, -(-500 * MB // chunk))

        history = miad(measure, largest=500 * MB)
        assert [trial.chunk // MB for trial in history] == [1, 2, 4, 8, 16, 32, 31]
        best = max(measure(chunk) for chunk in SIZES)
        assert history[-1].throughput > 0.98 * best


@given(fill=st.floats(1e-6, 1.0), overhead=st.floats(1e-7, 1e-3))
def test_no_other_number_of_chunks_is_better(fill: float, overhead: float) -> None:
    def cost(chunks: int) -> float:
        return chunks * overhead + fill / chunks

    best = best_chunks(fill, overhead)
    assert all(cost(best) <= cost(other) for other in (best - 1, best + 1, 2 * best) if 0 < other <= 65_536)


def test_chunks_cost_nothing_or_gain_nothing() -> None:
    assert best_chunks(0.0, 1e-6) == 1
    assert best_chunks(1.0, 0.0, most=100) == 100
    assert best_chunks(1.0, 1e-9, most=100) == 100


class TestMiad:
    """Multiple increase, additive decrease."""

    def test_it_rises_and_comes_down_to_the_peak(self) -> None:
        """Steps are taken as long as they gain more than is steady."""
        history = miad(lambda chunk: 1 / (1 + abs(chunk / MB - 27) / 20))
        assert [trial.chunk // MB for trial in history] == [1, 2, 4, 8, 16, 32, *range(64, 25, -1)]
        assert steady_from(history, 1.0, within=0.05) == 6 + 64 - 27

    def test_it_ends_where_nothing_changes(self) -> None:
        assert miad(lambda _: 5.0) == [Trial(MB, 5.0), Trial(2 * MB, 5.0)]

    def test_no_chunk_is_larger_than_all_data(self) -> None:
        history = miad(float, largest=10 * MB)
        assert [trial.chunk // MB for trial in history] == [1, 2, 4, 8, 10]

    def test_no_chunk_is_less_than_a_step(self) -> None:
        history = miad(lambda chunk: 1.0 / chunk, start=2 * MB)
        assert [trial.chunk // MB for trial in history] == [2, 4, 3, 2, 1]

    def test_factor_and_sizes_are_those_that_are_given(self) -> None:
        history = miad(lambda chunk: min(chunk, 60) / (1 + max(0, chunk - 60)), start=5, factor=3, step=7)
        assert [trial.chunk for trial in history[:5]] == [5, 15, 45, 135, 128]
        with pytest.raises(ValueError, match="factor"):
            miad(lambda _: 1.0, factor=1)

    def test_what_never_settles_has_no_iteration(self) -> None:
        assert steady_from([Trial(1, 1.0), Trial(2, 0.5)], 1.0) is None
        assert steady_from([Trial(1, 0.99), Trial(2, 1.0)], 1.0) == 1
