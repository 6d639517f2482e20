"""The Ethernet backend from the command line: closed forms, other backends, faults, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

STAR = "Switch({n}, rate=100Gb/s, latency=500ns)"
NS3 = ("network.profile=ns3-3.37", "collective.chunks=1")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command."""
    return subprocess.run([sys.executable, "-m", "syncline", *arguments], capture_output=True, text=True, check=False)


def collective(kind: str, size: str, topology: str, *settings: str, algorithm: str = "direct", seed: int = 0) -> Any:
    """The document of a collective on Ethernet."""
    arguments = ["collective", kind, "--size", size, "--topology", topology, "--algorithm", algorithm]
    arguments += ["--backend", "ethernet", "--json", "--seed", str(seed), "--set", "endpoint.step_latency=0ns"]
    for setting in settings:
        arguments += ["--set", setting]
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_flow_takes_the_time_of_its_frames_and_of_the_first_windows() -> None:
    """46,345 full segments and a short one, two links, and the pause after the first window: 5571.09 us."""
    document = collective("broadcast", "64MiB", STAR.format(n=2), *NS3)
    frame, last, ack, latency = 120.16e-9, 108.64e-9, 4.32e-9, 500e-9
    round_trip = 2 * frame + 2 * ack + 4 * latency
    expected = 46_345 * frame + 2 * last + 2 * latency + (round_trip - 10 * frame)
    assert document["time_s"] == pytest.approx(expected, rel=1e-4)
    assert document["network"]["segments_sent"] == 46_346
    assert document["network"]["drops"] == 0


def test_a_window_limits_the_rate_to_itself_over_a_round_trip() -> None:
    """16 KiB hold 11 segments; base round trip 2.249 us."""
    document = collective("broadcast", "8MiB", STAR.format(n=2), *NS3, "network.window=16KiB")
    assert document["time_s"] == pytest.approx(8 * 2**20 / (11 * 1448 / 2.249e-6), rel=0.01)


def test_an_incast_beyond_the_buffer_waits_for_the_timer() -> None:
    """Two senders of 1 MiB overflow 64 KiB; the tail of one is lost, and a least timeout is lost with it."""
    document = collective(
        "gather", "3MiB", STAR.format(n=3), *NS3, "network.buffer=64KiB", "network.jitter=1us", seed=1
    )
    network = document["network"]
    assert network["rto_rounds"] == 1
    assert 0.05 < document["time_s"] < 0.052
    assert network["rto_events"] >= network["flows_with_rto"] >= 1
    assert network["drops"] > 0
    assert network["max_queue_bytes"] <= 65_536


def test_large_buffers_lose_nothing_and_agree_with_flows() -> None:
    """Along a ring nothing contends: the time of the bytes and of their headers, and a little for each of the steps."""
    topology, ring = STAR.format(n=8), "ring-unidirectional"
    ethernet = collective("all-reduce", "64MiB", topology, "network.buffer=8MiB", algorithm=ring)
    flow = run("collective", "all-reduce", "--size", "64MiB", "--topology", topology, "--algorithm", ring,
               "--backend", "flow", "--json")  # fmt: skip
    expected = json.loads(flow.stdout)["time_s"] * 1502 / 1448
    assert ethernet["network"]["retransmissions"] == 0
    assert expected < ethernet["time_s"] < 1.05 * expected


def test_the_same_seed_gives_the_same_bits_and_another_one_other_losses() -> None:
    settings = ("network.buffer=64KiB", "network.jitter=1us")
    one, again, other = (collective("all-reduce", "8MiB", STAR.format(n=8), *settings, seed=seed) for seed in (1, 1, 2))
    one.pop("cost"), again.pop("cost")
    assert one == again
    assert one["network"]["drops"] != other["network"]["drops"]


def test_dctcp_keeps_queues_near_its_threshold() -> None:
    """Two flows through one port: the queue grows to both windows, or with marks to about the threshold."""
    settings = ("network.buffer=8MiB", "network.jitter=1us")
    plain = collective("gather", "24MiB", STAR.format(n=3), *settings)
    dctcp = collective(
        "gather", "24MiB", STAR.format(n=3), *settings,
        "network.congestion_control=dctcp", "network.ecn_threshold=100KB",
    )  # fmt: skip
    assert plain["network"]["max_queue_bytes"] > 400_000
    assert dctcp["network"]["max_queue_bytes"] < 300_000
    assert dctcp["network"]["marks"] > 0
    assert dctcp["network"]["drops"] == 0
    assert dctcp["time_s"] == pytest.approx(plain["time_s"], rel=0.03)


FAULTS = {
    "down": "{link: [npu 0, switch 0], at: 100us, until: 300us, rate: 0%}",
    "slow": "{node: npu 1, rate: 25%}",
    "loss": "{link: [npu 0, switch 0], loss: 1%}",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_cost_time_and_all_bytes_arrive(fault: str) -> None:
    settings = (*NS3, "network.buffer=8MiB")
    whole = collective("broadcast", "8MiB", STAR.format(n=2), *settings)
    hurt = collective("broadcast", "8MiB", STAR.format(n=2), *settings, f"network.faults=[{FAULTS[fault]}]", seed=3)
    network = hurt["network"]
    match fault:
        case "down":  # what was on the wire is lost, and what waited goes on afterwards
            assert network["drops"] > 0
            assert hurt["time_s"] > whole["time_s"] + 200e-6
        case "slow":  # four times the time of the frames
            assert hurt["time_s"] == pytest.approx(4 * whole["time_s"], rel=0.05)
            assert network["drops"] == 0
        case _:
            assert network["retransmissions"] > 20
            assert hurt["time_s"] > 1.1 * whole["time_s"]


def test_a_link_that_stays_down_ends_the_run_and_names_the_sender() -> None:
    done = run("collective", "broadcast", "--size", "8MiB", "--topology", STAR.format(n=2), "--algorithm", "direct",
               "--backend", "ethernet", "--set", "network.profile=ns3-3.37", "--set", "collective.chunks=1",
               "--set", "network.faults=[{link: [npu 0, switch 0], at: 100us, rate: 0%}]")  # fmt: skip
    assert done.returncode == 1
    assert "NPU 0" in done.stderr
    assert "was sent 7 times without an answer" in done.stderr


WRONG = {
    "segment=70KB": ("network.segment", "segment and overhead of up to 65535 B together"),
    "buffer=100B": ("network.buffer", "at least 1502 B"),
    "window=1KB": ("network.window", "at least 1448 B"),
    "ecn_above=1MB": ("network.ecn_above", "all three of them"),
    "faults=[{rate: 0%}]": ("network.faults.0.link", "link or node, and not both"),
    "faults=[{node: npu 0}]": ("network.faults.0.rate", "rate, loss, or both"),
    "faults=[{node: gpu 0, rate: 0%}]": ("network.faults.0.node", "npu N or switch N"),
    "faults=[{link: [npu 0, npu 1], rate: 0%}]": ("network.faults", "a neighbour"),
    "faults=[{node: npu 9, rate: 0%}]": ("network.faults", "0 to 2"),
    "congestion_control=bbr": ("network.congestion_control", "newreno"),
}


@pytest.mark.parametrize("setting", WRONG)
def test_wrong_settings_are_refused(setting: str) -> None:
    field, accepted = WRONG[setting]
    done = run("collective", "broadcast", "--size", "8MiB", "--topology", STAR.format(n=2), "--backend", "ethernet",
               "--set", f"network.{setting}", "--json")  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    errors = json.loads(done.stderr)["errors"]
    assert any(error["field"].startswith(field) and accepted in (error["accepted"] or "") for error in errors), errors


def test_ways_are_hashed_with_the_seed_and_frames_may_be_spread() -> None:
    """With uplinks as fast as the hosts together, only collisions of flows cost time, and spreading avoids them."""
    fabric = "LeafSpine(leaves=2, hosts=4, spines=4, rate=100Gb/s, latency=500ns)"
    settings = ("network.buffer=8MiB", "network.jitter=1us", "collective.chunks=1")
    times = {collective("all-to-all", "8MiB", fabric, *settings, seed=seed)["time_s"] for seed in range(4)}
    assert len(times) == 4
    spread = collective("all-to-all", "8MiB", fabric, *settings, "network.balancing=packet")
    assert spread["time_s"] <= min(times) * 1.1
