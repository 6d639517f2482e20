"""The time model: its parts, its choices, its interval and its anchor; platforms and class files."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncline
from syncline.base.errors import InputError
from syncline.fabric import allocation, notation
from syncline.fabric.machines import MACHINES
from syncline.nccl import constants, measurements, model, printing, systems, tuning, wire
from syncline.nccl.platform import NAMES, Platform, gpu_of, platform

MIB = 2**20
GIB = 2**30
SIZES = st.integers(1, 34).map(lambda k: 2**k)


@st.composite
def platforms(draw: st.DrawFn) -> Platform:
    box = draw(st.sampled_from(NAMES))
    return platform(f"{box}(nodes={draw(st.sampled_from((1, 2, 3, 8)))})").with_gpus(draw(st.integers(1, 8)))


def ring_bus(where: Platform, kind: str, size: int) -> float:
    """Bytes per second on the bus."""
    ring = model.open_model(where, kind=kind, algorithm=wire.RING if kind == "all-reduce" else "auto")
    return float(wire.bus_factor(kind, where.gpus)) * size / ring.time(size)


class TestTimes:
    def test_a_candidate_is_the_sum_of_its_parts(self) -> None:
        h100 = model.open_model(platform("dgx-h100"), algorithm="ring")
        best = h100.candidates(GIB)[0]
        c = h100.software.constants
        assert best.protocol == "Simple"
        assert best.wire == pytest.approx(1.75 * GIB / (450e9 * c.efficiency_simple))
        assert best.latency == pytest.approx(14 * tuning.NVLINK_STEPS["ring"]["Simple"])
        assert best.time == pytest.approx(c.launch + c.base_simple + best.latency + best.wire)

    def test_nvls_beats_what_a_ring_could(self) -> None:
        large = model.open_model(platform("dgx-h100")).predict(16 * GIB)
        bus = large.algorithm_bandwidth * 1.75
        assert large.algorithm == "nvls"
        assert 450e9 < bus < 500e9
        ring = model.open_model(platform("dgx-h100"), algorithm="ring").predict(16 * GIB)
        assert 320e9 < ring.algorithm_bandwidth * 1.75 < 380e9

    def test_two_nodes_are_not_bound_by_their_nics_with_a_tree(self) -> None:
        two = platform("dgx-a100(nodes=2, nics=single)")
        ring = model.open_model(two, algorithm="ring").time(GIB)
        tree = model.open_model(two, algorithm="tree").time(GIB)
        assert ring / tree == pytest.approx(15 / 8, rel=0.02)

    @pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce"])
    @pytest.mark.parametrize("name", NAMES)
    def test_rings_of_several_nodes_get_no_more_of_nvlinks_than_those_of_one(self, name: str, kind: str) -> None:
        """Of g hops that begin in a node one takes the network, so the bus is faster than NVLinks by g/(g-1)."""
        one = platform(name)
        stay = 1 - 1 / one.gpus
        for nodes, more in ((2, ""), (2, ", nic_rate=100GB/s"), (3, ""), (8, "")):
            many = platform(f"{name}(nodes={nodes}{more})")
            for size in (MIB, 64 * MIB, 16 * GIB):
                assert ring_bus(many, kind, size) * stay <= ring_bus(one, kind, size) * (1 + 1e-9), (nodes, more, size)

    def test_so_measured_rings_of_two_nodes_have_more_bandwidth_on_the_bus(self) -> None:
        """8 GiB on 8 and on 16 H100: NVLinks carry 362 and 344 GB/s of 362 and 393 on the bus."""
        (size, alone), (other, between) = (
            systems.run(table).times[-1] for table in ("h100-8-reduce-scatter-ring", "h100-16-ring")
        )
        assert size == other == 8 * GIB
        one, two = (7 / 8) * size / alone, 2 * (15 / 16) * size / between
        assert two > 1.05 * one
        assert two * 7 / 8 < one

    @given(platforms(), SIZES, st.sampled_from(wire.KINDS))
    def test_more_bytes_take_longer(self, where: Platform, size: int, kind: str) -> None:
        """Of each algorithm. Between nodes the choice is that of NCCL, not of the fastest, and its weights shift with
        the size; so it stays between the algorithms.
        """
        least, most = [], []
        for algorithm in model.algorithms(where, kind):
            alone = model.open_model(where, kind=kind, algorithm=algorithm)
            assert 0 < alone.time(size) <= alone.time(2 * size) * (1 + 1e-12)
            least.append(alone.time(size))
            most.append(alone.time(2 * size))
        predicted = model.open_model(where, kind=kind)
        if where.nodes == 1:
            assert 0 < predicted.time(size) <= predicted.time(2 * size) * (1 + 1e-12)
        else:
            assert min(least) * (1 - 1e-12) <= predicted.time(size) <= max(most) * (1 + 1e-12)

    @given(platforms(), SIZES)
    def test_the_interval_holds_the_time(self, where: Platform, size: int) -> None:
        p = model.open_model(where).predict(size)
        assert p.low < p.time < p.high

    def test_small_sizes_are_less_certain(self) -> None:
        a100 = model.open_model(platform("dgx-a100"))
        small, large = a100.predict(8), a100.predict(GIB)
        assert small.high / small.low > 2
        assert large.high / large.low < 1.12

    @given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=3))
    def test_the_smooth_minimum_is_just_below_the_least(self, times: list[float]) -> None:
        least = min(times)
        assert least * 3 ** (-1 / 8) * (1 - 1e-12) <= model.smooth_minimum(times) <= least * (1 + 1e-12)


class TestSmallSizeTime:
    def test_it_is_met(self) -> None:
        for text in ("dgx-a100", "dgx-h100(nodes=2)"):
            anchored = model.open_model(platform(text), small_size_time=50e-6)
            assert anchored.time(8) == pytest.approx(50e-6, rel=1e-6)
            assert anchored.predict(8).high / anchored.predict(8).low < 1.7

    def test_it_leaves_large_sizes_alone(self) -> None:
        plain = model.open_model(platform("dgx-a100"))
        anchored = plain.at_small_size(18e-6)
        assert anchored.time(4 * GIB) == pytest.approx(plain.time(4 * GIB), rel=1e-3)

    def test_a_time_that_cannot_be(self) -> None:
        with pytest.raises(InputError, match="8 bytes take 8"):
            model.open_model(platform("dgx-a100"), small_size_time=2e-6)


class TestPlatform:
    @pytest.mark.parametrize("name", NAMES)
    def test_it_is_the_machine(self, name: str) -> None:
        """GPUs, NVLinks and NICs are those that simulations see."""
        machine, found = MACHINES[name], platform(name)
        graph = notation.parse(name).graph()
        nvlinks = [link for link in graph.links if link.src == 0 and link.kind in allocation.NVLINK_CLASSES]
        assert found.nvlink_rate == sum(link.total_rate for link in nvlinks)
        assert (found.gpus, found.nics, found.nic_rate) == (machine.gpus, machine.nics, machine.nic_rate)
        assert found.switched == any(node.name == "NVSwitch" for node in graph.nodes)
        assert str(found) == found.machine == name

    def test_a_rack_is_one_node_of_many_hosts(self) -> None:
        rack = platform("gb200-nvl72")
        assert (rack.gpus, rack.nodes, rack.hosts, rack.gpu) == (72, 1, 18, "GB200")
        assert platform("gb200-nvl72", "0-7").hosts == 2

    @pytest.mark.parametrize(
        ("device", "gpu"),
        [
            ("NVIDIA A100-SXM4-80GB", "A100"),
            ("Tesla V100-SXM2-16GB", "V100"),
            ("NVIDIA H100 80GB HBM3", "H100"),
            ("NVIDIA H100 PCIe", "H100-PCIE"),
            ("NVIDIA H100 NVL", "H100-PCIE"),
            ("NVIDIA GB200", "GB200"),
            ("NVIDIA H20-3e", "H20"),
            ("NVIDIA GeForce RTX 4090", "RTX 4090"),
            ("", None),
        ],
    )
    def test_gpus_by_the_names_of_devices(self, device: str, gpu: str | None) -> None:
        assert gpu_of(device) == gpu

    @pytest.mark.parametrize("name", MACHINES)
    def test_every_machine_has_a_gpu_that_tables_name(self, name: str) -> None:
        assert re.fullmatch("[A-Z]{1,2}[0-9]{3}", platform(name).gpu)

    def test_clusters(self) -> None:
        found = platform(" DGX-H100( nodes = 2, nic_rate=100Gb/s ) ")
        assert (found.gpus, found.node_nic_rate) == (16, 8 * 12_500_000_000)
        assert platform("dgx-a100(nodes=4, nics=single)").node_nic_rate == 25_000_000_000

    def test_some_of_the_gpus(self) -> None:
        some = platform("dgx-a100(nodes=4)", "0-3,16-19")
        assert (some.gpus_per_node, some.nodes, some.nics) == (4, 2, 4)
        assert str(some) == "8 of the 32 GPUs of dgx-a100(nodes=4, nics=rail)"
        assert platform("dgx1v(nodes=2)", "0,1,8,9").nics == 1  # both are on one PCIe switch
        assert platform("dgx-a100(nodes=2)", "0-7").nodes == 1
        assert platform("dgx2").with_gpus(12) == platform("dgx2", "0-11")

    @pytest.mark.parametrize(
        ("text", "gpus", "reason"),
        [
            ("dgxh100", None, "'dgxh100' is not a machine; did you mean 'dgx-h100'?"),
            ("dgx-h100(nodes=0)", None, "nodes=0: this is not a number of machines"),
            ("dgx-h100(nodes=2, latency=1us)", None, "latency has no meaning here"),
            ("dgx-h100(nodes=2, pcie_efficiency=60%)", None, "pcie_efficiency has no meaning here"),
            ("dgx-h100(nodes=2, pcie_rate=128GB/s)", None, "pcie_rate has no meaning here"),
            ("dgx-h100(efficiency=94%)", None, "efficiency has no meaning here"),
            ("dgx-h100(nodes=2, oversubscription=2)", None, "oversubscription has no meaning here"),
            ("", None, "the machine is empty"),
            ("dgx-a100", "0-8", "there is no GPU 8: the machine has 8"),
            ("dgx-a100(nodes=2)", "0-2,8-9", "here are 2 on node 1 and 3 on node 0"),
        ],
    )
    def test_refusals(self, text: str, gpus: str | None, reason: str) -> None:
        with pytest.raises(InputError) as caught:
            platform(text, gpus)
        assert reason in caught.value.problems[0].message
        assert caught.value.problems[0].accepted

    @given(st.text(max_size=40))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            platform(text)
        except InputError as error:
            assert error.problems[0].accepted


class TestClassFiles:
    @pytest.mark.parametrize("name", constants.names())
    def test_they_read_what_they_write(self, name: str) -> None:
        loaded = constants.load(name)
        assert constants.parse(constants.render(loaded), "again") == loaded
        assert loaded.fitted_on

    def test_every_machine_has_one(self) -> None:
        assert set(NAMES) == set(MACHINES)
        assert {platform(name).software for name in NAMES} == set(constants.names())

    def test_every_error_at_once(self, tmp_path: Path) -> None:
        text = constants.render(constants.load("a100-nvswitch"))
        text = text.replace("launch: ", "launch: 5 # ").replace("efficiency_ll: ", "efficency_ll: ")
        text = text.replace("network_latency_scale: ", "network_latency_scale: -")
        path = tmp_path / "bad.yaml"
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            constants.load(str(path))
        messages = " | ".join(str(p) for p in caught.value.problems)
        assert "bad.yaml:5: constants.launch: the number has no unit" in messages
        assert "did you mean 'efficiency_ll'?" in messages
        assert "efficiency_ll is missing" in messages
        assert "constants.network_latency_scale: this is out of range" in messages

    def test_a_name_that_is_none(self) -> None:
        with pytest.raises(InputError, match="did you mean 'a100-nvswitch'"):
            constants.load("a100-nvswich")

    @given(st.text(max_size=200))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            constants.parse(text, "t")
        except InputError as error:
            assert error.problems


class TestPrinting:
    def test_columns_of_nccl_tests(self) -> None:
        h100 = model.open_model(platform("dgx-h100"))
        predictions = [h100.predict(size) for size in (8, MIB, GIB)]
        text = printing.table(h100, predictions)
        lines = text.splitlines()
        assert lines[0] == "# all_reduce_perf on dgx-h100: 8 ranks; predicted, not measured"
        size, count, kind, redop, root, _, algbw, busbw, wrong, sign, algorithm, protocol = lines[-1].split()
        assert (size, count, kind, redop, root) == (str(GIB), str(GIB // 4), "float", "sum", "-1")
        assert (wrong, sign, algorithm, protocol) == ("N/A", "#", "nvls", "Simple")
        assert float(busbw) == pytest.approx(float(algbw) * 1.75, rel=1e-3)

    def test_only_small_sizes_have_an_interval(self) -> None:
        a100 = model.open_model(platform("dgx-a100"), kind="all-gather")
        small, large = printing.rows(a100, [a100.predict(MIB - 4), a100.predict(MIB)])
        assert small["time_low_s"] < small["time_s"] < small["time_high_s"]
        assert (large["time_low_s"], large["time_high_s"]) == (None, None)
        assert large["bus_bandwidth_bytes_per_s"] == pytest.approx(large["algorithm_bandwidth_bytes_per_s"] * 7 / 8)

    @pytest.mark.parametrize("kind", wire.KINDS)
    def test_what_reads_nccl_tests_reads_it(self, kind: str) -> None:
        opened = model.open_model(platform("dgx-a100(nodes=2)"), kind=kind)
        sizes = [2**k for k in range(10, 30)]
        read = measurements.parse(printing.table(opened, [opened.predict(size) for size in sizes]), "predicted")
        assert read.kind == kind
        assert [row.size for row in read.rows] == sizes
        for row in read.rows:
            assert row.out_of_place == pytest.approx(opened.time(row.size), rel=1e-3)


def test_kinds_without_a_table_are_named() -> None:
    measured = {measurements.packaged(name).kind for name in measurements.names()}
    assert set(wire.KINDS) - measured == model.UNMEASURED


class TestExchangesBetweenNodes:
    """All-to-alls over several nodes, of which there is no measured table."""

    @pytest.mark.parametrize("machine", ["dgx-a100", "dgx-h100"])
    @pytest.mark.parametrize("kind", ["all-to-all", "gather", "scatter"])
    def test_latencies_of_messages_to_several_nodes_overlap(self, machine: str, kind: str) -> None:
        def empty(nodes: int, of: str = kind) -> float:
            return model.open_model(platform(f"{machine}(nodes={nodes})"), kind=of).time(0)

        constants = model.open_model(platform(f"{machine}(nodes=2)")).software.constants
        step = tuning.NETWORK_STEPS[wire.RING]["Simple"] * constants.network_latency_scale
        assert empty(1) <= empty(2) * (1 + 1e-9) < empty(1) + step + 8 * tuning.POSTING
        assert empty(8) - empty(3) == pytest.approx(5 * 8 * tuning.POSTING)
        assert empty(8) < 3 * empty(8, "all-gather")

    def test_within_a_node_gpus_send_one_after_the_other(self) -> None:
        constants = model.open_model(platform("dgx-a100")).software.constants
        found = model.open_model(platform("dgx-a100"), kind="all-to-all").time(0)
        steps = 7 * tuning.NVLINK_STEPS[wire.RING]["Simple"]
        assert found == pytest.approx(constants.launch + constants.base_simple + steps)

    def test_it_is_said_that_they_were_not_measured(self) -> None:
        several = syncline.bench("all-to-all", machine="dgx-h100(nodes=2)", sizes="1MiB").document
        assert any("a CPU posts one in 1us" in text for text in several["assumptions"])
        said = "all-to-all over several nodes was not compared with any measured table"
        assert said in several["warnings"]
        one = syncline.bench("all-to-all", machine="dgx-h100", sizes="1MiB").document
        assert said not in one["warnings"]
        assert len(one["assumptions"]) == 1


def test_one_gpu_only_launches() -> None:
    alone = model.open_model(platform("dgx-a100", "3"))
    assert alone.time(GIB) == alone.software.constants.launch


def test_an_algorithm_that_the_machine_has_not() -> None:
    with pytest.raises(InputError, match="dgx-a100 does not run all-reduce with it"):
        model.open_model(platform("dgx-a100"), algorithm="nvls")


def test_calibrated_constants_are_more_certain() -> None:
    a100 = model.open_model(platform("dgx-a100"))
    sure = replace(a100, calibrated=True)
    assert math.log(sure.predict(8).high / sure.predict(8).low) < math.log(a100.predict(8).high / a100.predict(8).low)
