"""The Ethernet backend from the command line: closed forms, other backends, faults, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.command import run
from syncline.sections.networks.ethernet import EthernetNetwork
from syncline.sections.networks.faults import Fault, changes

STAR = "Switch({n}, rate=100Gb/s, latency=500ns)"
NS3 = ("network.profile=ns3-3.37", "collective.chunks=1")


def collective(kind: str, size: str, topology: str, *settings: str, algorithm: str = "direct", seed: int = 0) -> Any:
    """The document of a collective on Ethernet."""
    arguments = ["collective", kind, "--size", size, "--topology", topology, "--algorithm", algorithm]
    arguments += ["--backend", "ethernet", "--json", "--seed", str(seed), "--set", "endpoint.step_latency=0ns"]
    for setting in settings:
        arguments += ["--set", setting]
    done = run(*arguments)
    assert done.status == 0, done.err
    return json.loads(done.out)


def test_a_flow_takes_the_time_of_its_frames_and_of_the_first_windows() -> None:
    """46,345 full segments and a short one, two links, and the pause after the first window: 5571.09 us."""
    document = collective("broadcast", "64MiB", STAR.format(n=2), *NS3)
    frame, last, ack, latency = 120.16e-9, 108.64e-9, 4.32e-9, 500e-9
    round_trip = 2 * frame + 2 * ack + 4 * latency
    expected = 46_345 * frame + 2 * last + 2 * latency + (round_trip - 10 * frame)
    assert document["time_s"] == pytest.approx(expected, rel=1e-4)
    assert document["network"]["segments_sent"] == 46_346
    assert document["network"]["drops"] == 0


def test_the_initial_window_is_that_of_rfc_6928_unless_it_is_said() -> None:
    """Two segments of 8948 B, then four, each followed by a pause; with five or more there is none."""
    jumbo = (*NS3[1:], "network.segment=8948B")

    def time(*settings: str) -> float:
        return float(collective("broadcast", "8MiB", STAR.format(n=2), *jumbo, *settings)["time_s"])

    frame, ack, latency = 720.16e-9, 4.32e-9, 500e-9
    round_trip = 2 * frame + 2 * ack + 4 * latency
    ten = time("network.initial_window=10")
    assert time() - ten == pytest.approx((round_trip - 2 * frame) + (round_trip - 4 * frame), rel=1e-6)
    assert time("network.initial_window=2") == time()
    assert time("network.profile=ns3-3.37") == pytest.approx(ten, rel=1e-6)


@pytest.mark.parametrize(
    ("profile", "segment", "expected"),
    [
        ("rfc", 1448, 14_480),
        ("rfc", 4000, 14_600),
        ("rfc", 8948, 17_896),
        ("ns3-3.37", 1448, 14_480),
        ("ns3-3.37", 8948, 89_480),
    ],
)
def test_profiles_have_initial_windows_of_their_own(profile: str, segment: int, expected: int) -> None:
    """min(10 MSS, max(2 MSS, 14,600 B)), and ten segments."""
    network = EthernetNetwork.model_validate({"profile": profile, "segment": f"{segment}B"})
    assert network.specification()["initial_window_bytes"] == expected
    said = network.model_copy(update={"initial_window": 3})
    assert said.specification()["initial_window_bytes"] == 3 * segment


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
    expected = json.loads(flow.out)["time_s"] * 1502 / 1448
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


def test_all_is_as_before_when_a_fault_is_over() -> None:
    """The whole rate and no losses, of a link in both directions and of a node; another fault goes on."""
    link: dict[str, Any] = {"link": ["npu 1", "switch 0"], "at": "2us", "until": "7us", "rate": "40%", "loss": "3%"}
    faults = [link, {"node": "npu 0", "at": "1us", "until": "9us", "rate": "25%"}, {"node": "npu 2", "rate": "50%"}]
    found = changes([Fault.model_validate(fault) for fault in faults], 4)
    ways = [{"of": "between", "from": src, "to": dst} for src, dst in ((1, 4), (4, 1))]
    assert found == [
        {"of": "node", "at_ps": 0, "node": 2, "rate_percent": 50},
        {"of": "node", "at_ps": 1_000_000, "node": 0, "rate_percent": 25},
        *(way | {"at_ps": 2_000_000, "rate_percent": 40, "loss_millionths": 30_000} for way in ways),
        *(way | {"at_ps": 7_000_000, "rate_percent": 100, "loss_millionths": 0} for way in ways),
        {"of": "node", "at_ps": 9_000_000, "node": 0, "rate_percent": 100},
    ]


def test_a_link_that_stays_down_ends_the_run_and_names_the_sender() -> None:
    done = run("collective", "broadcast", "--size", "8MiB", "--topology", STAR.format(n=2), "--algorithm", "direct",
               "--backend", "ethernet", "--set", "network.profile=ns3-3.37", "--set", "collective.chunks=1",
               "--set", "network.faults=[{link: [npu 0, switch 0], at: 100us, rate: 0%}]")  # fmt: skip
    assert done.status == 1
    assert "NPU 0" in done.err
    assert "was sent 7 times without an answer" in done.err


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
    "congestion_control=dcqcn": ("network.congestion_control", "newreno or cubic or dctcp"),
    "retransmission=selective-repeat": ("network.retransmission", "network.transport roce"),
    "buffer_alpha=2": ("network.buffer_alpha", "network.buffer_sharing dynamic"),
    "headroom=4KiB": ("network.headroom", "network.flow_control pfc"),
    "watch=[[npu 0, npu 2]]": ("network.watch.0.1", "npu 0 to npu 1"),
    "watch=[[npu 0, switch 0]]": ("network.watch.0.1", "npu N"),
    "dcqcn.gain=2": ("network.dcqcn.gain", "a percentage"),
}
WRONG_ROCE = {
    "congestion_control=cubic": ("network.congestion_control", "dcqcn or none"),
    "nic_queues=fifo": ("network.nic_queues", "flow"),
    "sack=off": ("network.sack", "network.transport tcp"),
    "profile=ns3-3.37": ("network.profile", "network.transport tcp"),
    "nic_queue=64KiB": ("network.nic_queue", "network.nic_queues fifo"),
    "headroom=1MiB": ("network.headroom", "auto, up to"),
}


@pytest.mark.parametrize(
    ("transport", "setting", "wrong"),
    [*(("tcp", *entry) for entry in WRONG.items()), *(("roce", *entry) for entry in WRONG_ROCE.items())],
)
def test_wrong_settings_are_refused(transport: str, setting: str, wrong: tuple[str, str]) -> None:
    field, accepted = wrong
    done = run("collective", "broadcast", "--size", "8MiB", "--topology", STAR.format(n=2), "--backend", "ethernet",
               "--set", f"network.transport={transport}", "--set", f"network.{setting}", "--json")  # fmt: skip
    assert done.status == 2
    assert done.out == ""
    errors = json.loads(done.err)["errors"]
    assert any(error["field"].startswith(field) and accepted in (error["accepted"] or "") for error in errors), errors


def test_ways_are_hashed_with_the_seed_and_frames_may_be_spread() -> None:
    """With uplinks as fast as the hosts together, only collisions of flows cost time, and spreading avoids them."""
    fabric = "LeafSpine(leaves=2, hosts=4, spines=4, rate=100Gb/s, latency=500ns)"
    settings = ("network.buffer=8MiB", "network.jitter=1us", "collective.chunks=1")
    times = {collective("all-to-all", "8MiB", fabric, *settings, seed=seed)["time_s"] for seed in range(4)}
    assert len(times) == 4
    spread = collective("all-to-all", "8MiB", fabric, *settings, "network.balancing=packet")
    assert spread["time_s"] <= min(times) * 1.1


ROCE = ("network.transport=roce", "collective.chunks=1")


def test_an_incast_of_roce_pauses_instead_of_losing() -> None:
    """The bottleneck carries 1086 B for every 1024 B, without a pause."""
    document = collective("gather", "17MiB", STAR.format(n=17), *ROCE, "network.congestion_control=none")
    network = document["network"]
    assert (network["drops"], network["retransmissions"]) == (0, 0)
    assert network["pauses"] > 0
    assert network["paused_s"] > 0
    assert document["time_s"] == pytest.approx(16 * 2**20 * 1086 / 1024 / 12.5e9, rel=0.01)


def test_dcqcn_keeps_queues_short() -> None:
    """In a long incast of a few, the longest queue is what comes before the first notification."""
    queues = {}
    for control in ("none", "dcqcn"):
        settings = (*ROCE, f"network.congestion_control={control}", "network.buffer=8MiB")
        network = collective("gather", "60MiB", STAR.format(n=3), *settings)["network"]
        assert network["drops"] == 0
        queues[control] = network["max_queue_bytes"]
        assert (network["notifications"] > 0) == (control == "dcqcn")
    assert queues["dcqcn"] < queues["none"] / 4


def test_without_pauses_frames_are_lost_and_asked_for() -> None:
    for repeat in ("go-back-n", "selective-repeat"):
        settings = (*ROCE, f"network.retransmission={repeat}", "network.flow_control=none", "network.min_rto=1ms")
        network = collective("gather", "9MiB", STAR.format(n=9), *settings, "network.buffer=64KiB")["network"]
        assert network["drops"] > 0
        assert network["naks"] > 0
        assert (network["discards"] > 0) == (repeat == "go-back-n")


def test_a_shared_buffer_takes_what_a_port_alone_could_not() -> None:
    """The buffers of nine ports are there for the one that is used: alpha / (1 + alpha) of them."""
    incast = ("gather", "9MiB", STAR.format(n=9), *NS3, "network.buffer=64KiB")
    alone = collective(*incast)["network"]
    shared = collective(*incast, "network.buffer_sharing=dynamic", "network.buffer_alpha=4")["network"]
    assert alone["max_queue_bytes"] <= 65_536
    assert 65_536 * 9 * 0.75 < shared["max_queue_bytes"] <= 65_536 * 9 * 0.8


def test_connections_that_are_watched_have_a_table(tmp_path: Path) -> None:
    """The window of slow start grows by what is acknowledged; the other connection is not recorded."""
    text = """name: a
topology: "Switch(3, rate=100Gb/s, latency=500ns)"
workload: {collective: gather, size: 3MB, root: 0}
collective: {algorithm: direct, chunks: 1}
endpoint: {kind: ideal}
network: {backend: ethernet, buffer: 8MiB, watch: [[npu 1, npu 0]]}
"""
    (tmp_path / "e.yaml").write_text(text)
    done = run("run", str(tmp_path / "e.yaml"), "--out", str(tmp_path / "run"), "-q")
    assert done.status == 0, done.err
    (tables,) = (tmp_path / "run").glob("*/tables")
    watched = pq.read_table(tables / "watched.parquet").to_pylist()
    assert {(row["src"], row["dst"]) for row in watched} == {(watched[0]["src"], watched[0]["dst"])}
    assert [row["cwnd_bytes"] for row in watched[:3]] == [11 * 1448, 12 * 1448, 13 * 1448]
    assert all(row["rtt_ps"] is None or row["rtt_ps"] > 2_000_000 for row in watched)
    flows = pq.read_table(tables / "flows.parquet").to_pylist()
    assert [row["bytes"] for row in flows] == [1_000_000, 1_000_000]
    assert {row["retransmissions"] for row in flows} == {0}


def test_a_machine_has_a_transport_between_its_nics_only() -> None:
    """What stays in a server sends no segment; what leaves it has the rate of a NIC, with headers."""
    inside = run("collective", "all-reduce", "--size", "64MiB", "--machine", "dgx-a100", "--algorithm", "ring",
                 "--backend", "ethernet", "--set", "collective.chunks=1", "--json")  # fmt: skip
    document = json.loads(inside.out)
    assert document["network"]["segments_sent"] == 0
    flow = run("collective", "all-reduce", "--size", "64MiB", "--machine", "dgx-a100", "--algorithm", "ring",
               "--backend", "flow", "--set", "collective.chunks=1", "--json")  # fmt: skip
    assert document["time_s"] == pytest.approx(json.loads(flow.out)["time_s"], rel=0.02)
    across = run("collective", "broadcast", "--size", "64MiB", "--machine", "dgx-a100(nodes=2)", "--gpus", "0,8",
                 "--backend", "ethernet", "--json", "--set", "network.transport=roce",
                 "--set", "collective.chunks=1")  # fmt: skip
    document = json.loads(across.out)
    assert document["network"]["segments_sent"] == 64 * 1024
    assert document["time_s"] == pytest.approx(64 * 2**20 * 1086 / 1024 / 25e9, rel=0.02)


RAILS = """
name: rails
topology: dgx-a100(nodes=4, nics=rail)
workload:
  model: gpt
  parameters: {layers: 2, hidden: 1024, heads: 16, vocabulary: 51200, positions: 256}
  global_batch: 8
parallel:
  tensor: 8
  collectives: {tensor: {algorithm: ring, chunk: 1MiB}, data: {algorithm: ring, chunk: 1MiB}}
network:
  {backend: ethernet, transport: roce, segment: 4096B, inside: flow, ecn_threshold: 100KB, ecn_above: 400KB,
   ecn_probability: 1%}
"""


def test_rails_fold_and_take_as_long_as_with_frames_on_all_links(tmp_path: Path) -> None:
    """Tensor groups on NVLink and rings over rails: all GPUs are alike, but for their place at a PCIe switch, until a
    switch draws which frames it marks. Each GPU has a NIC of its own, so that flows take as long, but for headers.
    """
    file = tmp_path / "rails.yaml"
    file.write_text(RAILS)

    def document(*arguments: str) -> Any:
        done = run("run", str(file), "--json", *arguments)
        assert done.status == 0, done.out
        return json.loads(done.out)

    folded, whole = document(), document("--fold", "off")
    assert (folded["fidelity"]["simulated_npus"], whole["fidelity"]["simulated_npus"]) == (2, 32)
    for found in (folded, whole):
        found.pop("cost"), found.pop("fidelity"), found["runs"][0].pop("fidelity")
        found["runs"][0].pop("npu")
    assert folded == whole
    frames = document("--set", "network.inside=packets")
    time_s = folded["runs"][0]["iteration_time_s"]
    assert frames["runs"][0]["iteration_time_s"] == pytest.approx(time_s, rel=0.03)
    flow = document("--set", "network={backend: flow}")
    assert 1 < time_s / flow["runs"][0]["iteration_time_s"] < 1.05
    drawn = document("--set", "network.ecn_threshold=1B")
    assert "draws whether it marks" in drawn["fidelity"]["unfolded_because"]


@pytest.mark.parametrize("inside", ["packets", "flow"])
def test_a_ring_over_a_rail_takes_the_time_of_its_frames(inside: str) -> None:
    """The GPUs 0 of four servers, and 6 steps one after the other: a frame crosses PCIe, two links of the network and
    PCIe again, and the others follow at the rate of the network, each with an acknowledgement of what comes.
    """
    arguments = ["collective", "all-reduce", "--machine", "dgx-a100(nodes=4, nics=rail)", "--gpus", "0,8,16,24"]
    arguments += ["--algorithm", "ring-unidirectional", "--chunk", "16MiB", "--size", "16MiB", "--backend", "ethernet"]
    arguments += [
        "--set",
        "network.transport=roce",
        "--set",
        "network.segment=4096B",
        "--set",
        f"network.inside={inside}",
    ]
    done = run(*arguments, "--json")
    assert done.status == 0, done.err
    frames, frame_s, piece_s = 1024, (4096 + 2 * 62) / 25e9, 4096 / 26.24e9
    step_s = (frames + 1) * frame_s + 4 * piece_s + 4 * 400e-9 + 2 * 500e-9
    assert json.loads(done.out)["time_s"] == pytest.approx(6 * step_s, rel=3e-4)


def test_a_run_that_waits_for_timeouts_says_so() -> None:
    arguments = ["collective", "gather", "--size", "3MiB", "--topology", STAR.format(n=3), "--algorithm", "direct"]
    arguments += [
        "--backend",
        "ethernet",
        "--seed",
        "1",
        "--set",
        "network.buffer=64KiB",
        "--set",
        "network.jitter=1us",
    ]
    done = run(*arguments, "-q")
    assert done.status == 0
    assert "timeouts take 9" in done.out
    assert "nothing was on any link until one ended" in done.out
