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
from syncline.nccl import constants, model, networks, tuning, wire
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
    """A tree between nodes takes (L^(1/2) + W^(1/2))^2 of steps that take L and bytes that take W."""

    def nvls_tree(self, nodes: int, size: int) -> model.Candidate:
        return opened(f"dgx-h100(nodes={nodes})", algorithm="nvls").candidates(size)[0]

    @pytest.mark.parametrize("nodes", [2, 4, 8])
    @pytest.mark.parametrize("size", [MIB, 16 * MIB, 128 * MIB])
    def test_the_closed_form(self, nodes: int, size: int) -> None:
        found, empty = self.nvls_tree(nodes, size), self.nvls_tree(nodes, 0)
        steps = 2 * math.log2(nodes) * tuning.NETWORK_STEPS[wire.TREE]["LL"]
        fill = found.latency - empty.latency
        on_nics = wire.nvls_tree(8 * nodes, nodes, size).seconds(
            450e9 * constants.load("h100-nvswitch").constants.efficiency_nvls,
            400e9 * 0.985 * (1 if nodes == 2 else networks.VERBS["efficiency_spread"]),
        )
        assert steps + on_nics + fill == pytest.approx((math.sqrt(steps) + math.sqrt(on_nics)) ** 2, rel=0.01)

    def test_large_messages_fill_it_with_the_same_chunks(self) -> None:
        at_full = self.nvls_tree(4, model.FULL_CHUNKS).latency
        assert self.nvls_tree(4, 64 * model.FULL_CHUNKS).latency == pytest.approx(at_full)
        assert self.nvls_tree(4, model.FULL_CHUNKS // 4).latency < 0.9 * at_full

    def test_within_a_server_there_is_none(self) -> None:
        found = opened("dgx-h100", algorithm="nvls")
        assert found.candidates(64 * MIB)[0].latency == found.candidates(0)[0].latency

    @pytest.mark.parametrize("network", machines.NETWORKS)
    def test_more_servers_are_not_faster(self, network: str) -> None:
        for size in (0, MIB, 16 * MIB, 64 * MIB):
            times = [opened(f"dgx-a100(nodes={n}, network={network})").time(size) for n in (2, 4, 8, 16)]
            assert all(a <= b * 1.02 for a, b in itertools.pairwise(times))

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


class TestIntervals:
    @pytest.mark.parametrize("network", ASSUMED)
    def test_assumed_figures_have_a_range_at_all_sizes(self, network: str) -> None:
        found = opened(f"dgx-h100(nodes=2, network={network})")
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
        one, two = opened("gb200-nvl72"), opened("gb200-nvl72(nodes=2)")
        size = 2**34
        rate = two.platform.node_nic_rate
        assert two.platform.nodes == 2
        assert two.time(size) > max(one.time(size), size / rate)

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
