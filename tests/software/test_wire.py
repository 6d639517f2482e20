"""The closed forms, against counting by hand and against each other."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.engine import bounds
from syncline.nccl import wire


class TestRing:
    def test_all_reduce_in_a_node(self) -> None:
        found = wire.ring("all-reduce", 8, 1, 8_000)
        assert (found.steps_intra, found.steps_inter) == (14, 0)
        assert found.nvlink_bytes == 14_000
        assert found.nic_bytes == 0

    def test_half_of_it_scatters_and_gathers(self) -> None:
        for kind in ("reduce-scatter", "all-gather"):
            found = wire.ring(kind, 8, 1, 8_000)
            assert found.steps_intra == 7
            assert found.nvlink_bytes == 7_000

    def test_a_broadcast_is_a_chain(self) -> None:
        found = wire.ring("broadcast", 12, 1, 1_000)
        assert found.steps_intra == 11
        assert found.nvlink_bytes == 1_000

    def test_two_nodes_send_all_of_it_through_their_nics(self) -> None:
        found = wire.ring("all-reduce", 16, 2, 1_600)
        assert (found.steps_intra, found.steps_inter) == (26, 4)
        assert found.nic_bytes == 3_000
        assert found.nvlink_bytes == Fraction(3_000 * 7, 8)

    def test_with_a_gpu_in_each_node_every_step_crosses(self) -> None:
        found = wire.ring("all-reduce", 4, 4, 400)
        assert (found.steps_intra, found.steps_inter) == (0, 6)
        assert found.nvlink_bytes == 0

    @given(local=st.integers(1, 16), nodes=st.integers(1, 64), size=st.integers(0, 2**40))
    def test_what_arrives_is_what_a_ring_carries(self, local: int, nodes: int, size: int) -> None:
        gpus = local * nodes
        found = wire.ring("all-reduce", gpus, nodes, size)
        assert found.steps_intra + found.steps_inter == 2 * (gpus - 1)
        sent = found.nvlink_bytes * gpus + found.nic_bytes * nodes if nodes > 1 else found.nvlink_bytes * gpus
        assert sent == 2 * (gpus - 1) * size


class TestTreesAndSwitches:
    def test_two_nodes_exchange_the_vector_once(self) -> None:
        found = wire.tree(16, 2, 1_000)
        assert (found.steps_intra, found.steps_inter) == (14, 2)
        assert found.nvlink_bytes == 1_750
        assert found.nic_bytes == 1_000

    def test_more_nodes_twice(self) -> None:
        assert wire.tree(32, 4, 1_000).nic_bytes == 2_000
        assert wire.tree(40, 5, 1_000).steps_inter == 2 * 3

    def test_the_switch_reads_each_operand_once(self) -> None:
        found = wire.nvls("all-reduce", 8, 8_000)
        assert found.nvlink_bytes == 9_000
        assert found.steps_intra == 2
        assert found.nvlink_bytes < wire.ring("all-reduce", 8, 1, 8_000).nvlink_bytes

    def test_between_nodes_it_is_a_tree(self) -> None:
        found = wire.nvls_tree(16, 2, 8_000)
        assert found.nvlink_bytes == 9_000
        assert found.nic_bytes == 8_000
        assert found.steps_inter == 2

    @pytest.mark.parametrize(("nodes", "depth"), [(1, 0), (2, 1), (3, 2), (4, 2), (9, 4)])
    def test_depth(self, nodes: int, depth: int) -> None:
        assert wire.levels(nodes) == depth


class TestDirect:
    def test_all_to_all(self) -> None:
        found = wire.direct(16, 2, 1_600)
        assert found.nvlink_bytes == 700
        assert found.nic_bytes == 8 * 800
        assert (found.steps_intra, found.steps_inter, found.posted) == (7, 1, 8)

    def test_more_nodes_are_more_messages_but_no_more_steps(self) -> None:
        """NCCL's sends and receives of a group are under way at once."""
        for found in (wire.direct(64, 8, 64), wire.rooted(64, 8, 8, 64)):
            assert (found.steps_intra, found.steps_inter, found.posted) == (7, 1, 56)
        assert wire.direct(8, 1, 64).posted == wire.direct(8, 1, 64).steps_inter == 0

    def test_send_and_receive_leave_a_node_through_one_nic(self) -> None:
        assert wire.sendrecv(2, 8, 1_000).nic_bytes == 8_000
        assert wire.sendrecv(1, 8, 1_000).nic_bytes == 0

    def test_a_root_hears_from_all(self) -> None:
        found = wire.rooted(16, 2, 8, 1_600)
        assert found.nvlink_bytes == 700
        assert found.nic_bytes == 8 * 800
        assert wire.rooted(8, 1, 8, 800).nic_bytes == 0


class TestTime:
    def test_the_busier_of_both_decides(self) -> None:
        found = wire.Wire(0, 0, Fraction(1_000), Fraction(500))
        assert found.seconds(100.0, 100.0) == 10.0
        assert found.seconds(100.0, 10.0) == 50.0
        assert found.bottleneck(100.0, 10.0) == ("nic", Fraction(500))
        assert found.bottleneck(100.0, 100.0) == ("nvlink", Fraction(1_000))

    @pytest.mark.parametrize(("kind", "factor"), [("all-reduce", "7/4"), ("all-gather", "7/8"), ("broadcast", "1")])
    def test_bus_factor(self, kind: str, factor: str) -> None:
        assert wire.bus_factor(kind, 8) == Fraction(factor)

    @pytest.mark.parametrize("kind", [kind for kind in wire.KINDS if kind != "sendrecv"])
    @pytest.mark.parametrize("gpus", [1, 2, 12])
    def test_it_is_that_of_simulations(self, kind: str, gpus: int) -> None:
        assert wire.bus_factor(kind, gpus) == bounds.bus_bandwidth_factor(kind, gpus)
