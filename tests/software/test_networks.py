"""Networks between servers: what they change of a time, and what they do not."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.command import Ended
from syncline.base.errors import InputError
from syncline.fabric import machines, notation
from syncline.fabric.notation import MachineError
from syncline.nccl import chunks, constants, model, networks, tuning, wire
from syncline.nccl.platform import platform

Command = Callable[..., Ended]

MIB = 2**20
FITTED = [name for name, network in networks.NETWORKS.items() if network.is_fitted]
ASSUMED = [name for name, network in networks.NETWORKS.items() if not network.is_fitted]


def opened(machine: str, kind: str = "all-reduce", algorithm: str = "auto") -> model.Model:
    return model.open_model(platform(machine), kind=kind, algorithm=algorithm)


class TestNotation:
    def test_every_network_has_constants(self) -> None:
        assert tuple(networks.NETWORKS) == machines.NETWORKS

    @pytest.mark.parametrize("name", machines.NETWORKS)
    def test_it_is_read_and_written(self, name: str) -> None:
        cluster = notation.parse(f"dgx-h100(nodes=2, network={name})")
        assert cluster.network == name
        assert notation.parse(str(cluster)) == cluster

    def test_a_dgx_has_infiniband(self) -> None:
        assert opened("dgx-h100(nodes=4)") == opened("dgx-h100(nodes=4, network=infiniband)")

    @pytest.mark.parametrize(
        ("text", "part"),
        [
            ("dgx-h100(nodes=2, network=infinband)", "network=infinband"),
            ("dgx-h100(nodes=2, network=)", "network="),
            ("dgx-h100(network=efa)", "network has no meaning for a single server"),
        ],
    )
    def test_what_is_wrong_is_named(self, text: str, part: str) -> None:
        with pytest.raises(MachineError, match="network") as caught:
            notation.parse(text)
        assert part in caught.value.message
        with pytest.raises(InputError):
            platform(text)


class TestSteps:
    @pytest.mark.parametrize("nodes", [2, 4, 8, 16])
    def test_an_empty_tree_takes_the_delay_once_per_step(self, nodes: int) -> None:
        """2 log2(nodes) steps, of which all wait for the network."""
        delay = networks.NETWORKS["efa"].constants["network_delay"]
        times = []
        for name in ("infiniband", "efa"):
            found = opened(f"dgx-a100(nodes={nodes}, network={name})", algorithm="tree").candidates(0)
            times.append(next(c.time for c in found if c.protocol == "LL"))
        assert times[1] - times[0] == pytest.approx(2 * math.log2(nodes) * delay, rel=1e-3)

    @pytest.mark.parametrize("nodes", [2, 5, 8])
    def test_an_empty_ring_takes_it_at_every_crossing(self, nodes: int) -> None:
        delay = networks.NETWORKS["efa"].constants["network_delay"]
        times = []
        for name in ("infiniband", "efa"):
            found = opened(f"dgx-a100(nodes={nodes}, network={name})", "all-gather").candidates(0)
            times.append(next(c.time for c in found if c.protocol == "Simple"))
        assert times[1] - times[0] == pytest.approx(nodes * delay, rel=1e-3)

    def test_infiniband_takes_what_is_published(self) -> None:
        for name in ("infiniband", "roce"):
            assert networks.NETWORKS[name].constants["network_latency_scale"] == 1
            assert networks.NETWORKS[name].constants["network_delay"] < 1e-8


class TestPipelines:
    """An NVLS tree takes longer than its steps and its wires, by the stages that a round of chunks has to fill."""

    def nvls_tree(self, nodes: int, size: int, network: str = "infiniband") -> model.Candidate:
        return opened(f"dgx-h100(nodes={nodes}, network={network})", algorithm="nvls").candidates(size)[0]

    @pytest.mark.parametrize("nodes", [2, 4, 8])
    @pytest.mark.parametrize("size", [MIB, 16 * MIB, 128 * MIB])
    def test_the_closed_form(self, nodes: int, size: int) -> None:
        """Into the switch and out of it, up and down the tree, without the slowest stage."""
        found, empty = self.nvls_tree(nodes, size), self.nvls_tree(nodes, 0)
        nvls = 8 / 9 * 450e9 * constants.load("h100-nvswitch").constants.efficiency_nvls
        nics = 400e9 * 0.985 * (1 if nodes == 2 else networks.VERBS["efficiency_spread"])
        rounds = size / chunks.loop(platform(f"dgx-h100(nodes={nodes})"), size)
        stages = size * (2 / nvls + 2 * math.log2(nodes) / nics) - found.wire
        assert found.latency - empty.latency == pytest.approx(stages / rounds, rel=0.01)

    def test_large_messages_fill_it_with_the_same_chunks(self) -> None:
        at_full = self.nvls_tree(4, 64 * MIB).latency
        assert self.nvls_tree(4, 2**34).latency == pytest.approx(at_full)
        assert self.nvls_tree(4, 2 * MIB).latency < 0.7 * at_full

    def test_plugins_that_set_larger_chunks_fill_it_longer(self) -> None:
        """512 KiB instead of 128 KiB, from where messages are large enough for these."""
        delay = networks.NETWORKS["efa"].constants["network_delay"]
        for size, factor in ((64 * MIB, 1), (2**30, 2), (2**33, 4)):
            own = self.nvls_tree(2, size).latency - self.nvls_tree(2, 0).latency
            of_plugin = self.nvls_tree(2, size, "efa").latency - self.nvls_tree(2, 0, "efa").latency
            assert of_plugin == pytest.approx(factor * own, rel=1e-6)
        assert self.nvls_tree(2, 0, "efa").latency - self.nvls_tree(2, 0).latency == pytest.approx(2 * delay, rel=1e-3)

    def test_within_a_server_two_rounds_fill_it(self) -> None:
        """One of an all-gather, which has no second pass."""
        for kind, rounds in (("all-reduce", 2), ("all-gather", 1)):
            found = opened("dgx-b200", kind, "nvls" if kind == "all-reduce" else "auto")
            ways = [next(c for c in found.candidates(size) if c.algorithm == wire.NVLS) for size in (0, 64 * MIB)]
            share = chunks.loop(found.platform, 64 * MIB) / (64 * MIB)
            assert ways[1].latency - ways[0].latency == pytest.approx(rounds * ways[1].wire * share)

    @pytest.mark.parametrize("network", machines.NETWORKS)
    def test_more_servers_are_not_faster(self, network: str) -> None:
        for size in (0, MIB, 16 * MIB, 64 * MIB):
            times = [opened(f"dgx-a100(nodes={n}, network={network})").time(size) for n in (2, 4, 8, 16)]
            assert all(a <= b * 1.05 for a, b in itertools.pairwise(times))  # NCCL's choice may be better with more

    @pytest.mark.parametrize("network", machines.NETWORKS)
    def test_larger_messages_are_not_faster(self, network: str) -> None:
        found = opened(f"dgx-h100(nodes=4, network={network})")
        times = [found.time(2**k) for k in range(3, 35)]
        assert times == sorted(times)


class TestSettings:
    """What vendors' guides let NCCL use."""

    def test_tcpx_has_rings_with_simple(self) -> None:
        found = opened("dgx-h100(nodes=2, network=gpudirect-tcpx)").candidates(MIB)
        assert {(c.algorithm, c.protocol) for c in found} == {(wire.RING, "Simple")}

    def test_tcpxo_has_no_nvls_and_no_ll(self) -> None:
        found = opened("dgx-h100(nodes=2, network=gpudirect-tcpxo)").candidates(MIB)
        assert {c.algorithm for c in found} == {wire.RING, wire.TREE}
        assert {c.protocol for c in found} == {"LL128", "Simple"}

    def test_within_a_server_nothing_of_it_holds(self) -> None:
        inside = opened("dgx-h100")
        of_tcpx = replace(inside, platform=replace(inside.platform, network="gpudirect-tcpx"))
        assert [of_tcpx.time(2**k) for k in range(3, 34)] == [inside.time(2**k) for k in range(3, 34)]


class TestReported:
    """What plugins tell NCCL, by which it chooses."""

    @pytest.mark.parametrize(
        ("machine", "latency"), [("dgx-a100", 75), ("dgx-h100", 75), ("dgx-h200", 35), ("dgx1v", 150)]
    )
    def test_that_of_efa_is_aws_own(self, machine: str, latency: float) -> None:
        where = platform(f"{machine}(nodes=2, network=efa)")
        assert networks.reported_latency(where) == pytest.approx(latency * 1e-6)
        assert networks.reported_latency(platform(f"{machine}(nodes=2)")) == 0

    def test_it_counts_at_every_crossing_and_twice_with_simple(self) -> None:
        plain, told = platform("dgx-h100(nodes=4)"), platform("dgx-h100(nodes=4, network=efa)")
        for protocol, times in (("LL", 1), ("LL128", 1), ("Simple", 2)):
            both = [tuning.estimate(where, "all-reduce", wire.TREE, protocol, 8) for where in (plain, told)]
            assert both[1] - both[0] == pytest.approx(2 * math.log2(4) * times * 75e-6)

    def test_nvls_trees_begin_later(self) -> None:
        """Their steps are told to take twice what those of trees with LL128 do."""
        size = 4 * MIB
        assert opened("dgx-h100(nodes=2)").candidates(size)[0].algorithm == wire.NVLS_TREE
        assert opened("dgx-h100(nodes=2, network=efa)").candidates(size)[0].algorithm == wire.TREE


class TestIntervals:
    @pytest.mark.parametrize("network", ASSUMED)
    def test_assumed_figures_have_a_range_at_all_sizes(self, network: str) -> None:
        found = opened(f"dgx-h100(nodes=2, nic_rate=200Gb/s, network={network})", "all-gather")
        for size in (8, MIB, 64 * MIB, 2**33):
            one = found.predict(size)
            assert one.assumed
            assert one.low < 0.95 * one.time < one.time / 0.95 < one.high

    @pytest.mark.parametrize("network", FITTED)
    def test_fitted_ones_do_not(self, network: str) -> None:
        assert not opened(f"dgx-h100(nodes=2, network={network})").predict(MIB).assumed

    def test_bench_says_so(self, syncline_command: Command) -> None:
        tcpxo = "dgx-h100(nodes=2, nic_rate=200Gb/s, network=gpudirect-tcpxo)"
        arguments = ("--sizes", "64MiB", "--json")
        ended = syncline_command("bench", "all-reduce", "--machine", tcpxo, *arguments)
        assert ended.status == 0
        document = json.loads(ended.out)
        row = document["rows"][0]
        assert row["time_low_s"] < row["time_s"] < row["time_high_s"]
        assert any("gpudirect-tcpxo: not fitted" in warning for warning in document["warnings"])
        plain = json.loads(syncline_command("bench", "all-reduce", "--machine", "dgx-h100(nodes=2)", *arguments).out)
        assert plain["rows"][0]["time_low_s"] is None
        assert any("network = infiniband: fitted on h100-16-ring" in text for text in plain["assumptions"])


class TestRacks:
    """Racks of NVL72: NVLinks within, NICs between."""

    def test_two_racks_are_bound_by_their_nics(self) -> None:
        size = 2**34
        slow = opened("gb200-nvl72(nodes=2, nic_rate=10Gb/s)")
        assert slow.platform.nodes == 2
        assert size / slow.platform.node_nic_rate < slow.time(size) < 1.2 * size / slow.platform.node_nic_rate

    @pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "reduce-scatter"])
    @pytest.mark.parametrize("racks", [2, 3, 4, 8])
    def test_more_racks_add_their_steps(self, kind: str, racks: int) -> None:
        """A ring crosses every rack once in a pass, a tree goes through the logarithm of them twice."""
        found = opened(f"gb200-nvl72(nodes={racks})", kind)
        assert found.platform.nodes == racks
        assert found.time(8) > opened("gb200-nvl72", kind).time(8)
        for way in found.candidates(8):
            steps = wire.ring(kind, 72 * racks, racks, 8).steps_inter
            if way.algorithm != wire.RING:
                steps = 2 * wire.levels(racks)
            assert way.latency >= steps * tuning.NETWORK_STEPS[way.algorithm][way.protocol]

    def test_another_nic_changes_only_what_leaves_a_rack(self) -> None:
        slow, fast = opened("gb200-nvl72(nodes=2, nic_rate=10Gb/s)"), opened("gb200-nvl72(nodes=2)")
        assert slow.time(2**34) > 2 * fast.time(2**34)
        assert slow.time(8) == pytest.approx(fast.time(8), rel=0.01)


def test_a_class_by_name_has_the_network_of_the_machine_and_a_file_its_own(tmp_path: Path) -> None:
    machine = platform("dgx-h100(nodes=2, network=efa)")
    delay = networks.NETWORKS["efa"].constants["network_delay"]
    assert networks.software_of(machine, "a100-nvswitch").constants.network_delay == delay
    mine = tmp_path / "mine.yaml"
    named = constants.load("a100-nvswitch")
    changed = replace(named, constants=named.constants.changed({"network_delay": 5e-6}))
    mine.write_text(constants.render(changed), encoding="utf-8")
    assert networks.software_of(machine, str(mine)).constants.network_delay == pytest.approx(5e-6)


def test_a_file_from_before_there_was_a_delay_has_none(tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(constants.render(constants.load("a100-nvswitch"), ["network_delay"]), encoding="utf-8")
    assert constants.load(str(old)).constants.network_delay == constants.NO_DELAY
