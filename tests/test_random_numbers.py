"""What is random in a run: when NPUs begin (`network.jitter`) and the order of messages (`network.posting`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command import Ended
from support.experiments import complaints, study
from syncline.engine import runs as engine
from syncline.engine.choice import settled
from syncline.sections.networks import NETWORKS, FlowNetwork, PacketNetwork

Command = Callable[..., Ended]

STAR = """\
name: star
topology: "Switch(16, rate=25GB/s, latency=500ns)"
workload: {collective: all-to-all, size: 1MiB}
collective: {algorithm: direct, chunk: 1MiB}
network: {backend: flow}
"""
COLLECTIVE = ("collective", "all-to-all", "--size", "1MiB", "--chunk", "1MiB", "--algorithm", "direct", "--backend")
FABRIC = ("--topology", "Switch(16, rate=25GB/s, latency=500ns)", "--json", "-q")
JITTER = 5_000_000
"""In picoseconds, as in `RANDOM`."""
RANDOM = ("network.jitter=5us", "network.posting=random")


def total_ps(*settings: str, seed: int = 0) -> int:
    total: int = engine.run(study(STAR, *settings).seeded(seed).variants[0]).summary["total_ps"]
    return total


def document(command: Command, *arguments: str) -> dict[str, Any]:
    ended = command(*arguments)
    assert (ended.status, ended.err) == (0, "")
    found: dict[str, Any] = json.loads(ended.out)
    del found["cost"]
    return found


class TestSeeds:
    @pytest.mark.parametrize("backend", NETWORKS)
    def test_a_seed_gives_the_same_result_and_another_one_others(self, syncline_command: Command, backend: str) -> None:
        settings = [argument for setting in RANDOM for argument in ("--set", setting)]
        found = [
            document(syncline_command, *COLLECTIVE, backend, *FABRIC, *settings, "--seed", seed)
            for seed in ("1", "1", "2")
        ]
        assert found[0] == found[1]
        assert found[0]["time_s"] != found[2]["time_s"]

    def test_nothing_else_is_random(self, syncline_command: Command) -> None:
        found = [document(syncline_command, *COLLECTIVE, "flow", *FABRIC, "--seed", seed) for seed in ("1", "2")]
        assert [f.pop("seed") for f in found] == [1, 2]
        assert found[0] == found[1]

    def test_every_variant_of_a_study_has_it(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "star.yaml"
        path.write_text(STAR + "variants: [{name: A, network: {jitter: 5us}}, {name: B, network: {posting: random}}]\n")
        one, other = (document(syncline_command, "run", str(path), "--json", "-q", "--seed", s) for s in ("1", "2"))
        for mine, its in zip(one["runs"], other["runs"], strict=True):
            assert mine["total_time_s"] != its["total_time_s"]

    def test_points_of_a_sweep_have_it_and_are_other_simulations(
        self, syncline_command: Command, tmp_path: Path
    ) -> None:
        (tmp_path / "star.yaml").write_text(STAR)
        sweep = tmp_path / "star.sweep.yaml"
        sweep.write_text("name: star\nbase: star.yaml\naxes: {network.posting: [rotated, random]}\n")
        arguments = ("sweep", str(sweep), "--json", "-q", "--threads", "1", "--seed")
        (rotated, random), (rotated_2, random_2) = (document(syncline_command, *arguments, s)["rows"] for s in "12")
        assert rotated == rotated_2
        assert random["key"] != random_2["key"]
        assert random["time_s"] != random_2["time_s"]

    def test_algorithms_are_chosen_with_it(self) -> None:
        left_open = STAR.replace("direct", "auto").replace("all-to-all", "all-gather")
        chosen = [settled(study(left_open, *RANDOM).seeded(seed)).variants[0] for seed in (1, 2)]
        times = []
        for variant in chosen:
            assert variant.choice is not None
            times.append(engine.run(variant).summary["total_ps"])
            tried = next(c for c in variant.choice.candidates if c["algorithm"] == variant.choice.chosen)
            assert tried["predicted_time_s"] == pytest.approx(times[-1] / 1e12)
        assert times[0] != times[1]


class TestBegins:
    def test_a_run_is_longer_by_less_than_the_jitter(self) -> None:
        # Where nobody waits for another's messages: as long as the last one to begin takes.
        backend = "network.backend=analytical"
        alone = total_ps(backend)
        times = {total_ps(backend, "network.jitter=5us", seed=seed) for seed in range(10)}
        assert len(times) == 10
        assert all(alone < time < alone + JITTER for time in times)

    def test_without_a_picosecond_to_choose_from_nothing_changes(self) -> None:
        assert total_ps("network.jitter=0s") == total_ps("network.jitter=1ps") == total_ps()

    def test_a_time_is_one(self) -> None:
        assert "network.jitter: a time cannot be negative" in complaints(STAR, "network.jitter=-1us")
        assert "network.jitter: the time is too large" in complaints(STAR, "network.jitter=20000000s")


class TestOrders:
    def test_they_take_what_they_take_on_a_switch(self) -> None:
        rotated, by_number, random = (total_ps(f"network.posting={p}") for p in ("rotated", "sequential", "random"))
        assert rotated == pytest.approx(2**20 * 15 / 16 / 25e9 * 1e12 + 1e6, rel=1e-3)
        assert rotated < random < by_number

    def test_where_no_rank_sends_to_all_it_is_listed_as_without_effect(self, syncline_command: Command) -> None:
        ring = [*COLLECTIVE, "flow", *FABRIC, "--set", "network.posting=random"]
        ring[ring.index("direct")] = "ring"
        ring[ring.index("all-to-all")] = "all-gather"
        assumptions = document(syncline_command, *ring)["assumptions"]
        assert "network.posting = random has no effect: no rank sends to all others directly" in assumptions

    def test_what_is_no_order_is_refused(self) -> None:
        told = complaints(STAR, "network.posting=shuffled")
        assert "network.posting: this is not a known posting" in told
        assert "accepted: rotated, sequential, random" in told

    def test_random_runs_do_not_fold(self, syncline_command: Command) -> None:
        for setting in RANDOM:
            ended = syncline_command(*COLLECTIVE, "flow", *FABRIC, "--set", setting, "--fold", "on")
            assert ended.status == 2
            assert "the run cannot be folded" in ended.err


def test_comparable_backends_begin_and_post_alike() -> None:
    network = study(STAR, "network.backend=packet", *RANDOM).variants[0].experiment.network
    assert isinstance(network, PacketNetwork)
    for other in network.comparable():
        assert (other.posting, other.jitter, other.is_random) == ("random", JITTER, True)
    assert not FlowNetwork().is_random
