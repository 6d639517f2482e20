"""Rings through some GPUs of a hybrid cube mesh, and messages between GPUs without an NVLink in common."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest

from syncline.fabric.machines import MACHINES
from syncline.nccl import mesh, mesh_exchange
from syncline.nccl.platform import platform

GIB = 2**30
V100, P100 = MACHINES["dgx1v"], MACHINES["dgx1p"]


@pytest.mark.parametrize(
    ("machine", "local", "links"),
    [
        (V100, range(8), 6),
        (P100, range(8), 4),
        (P100, (0, 1, 3), 2),  # a triangle (Blink, figure 2)
        (V100, (0, 3), 2),
        (V100, (0, 1), 1),
    ],
)
def test_rings_over_nvlinks(machine: object, local: range | tuple[int, ...], links: int) -> None:
    known = V100 if machine is V100 else P100
    assert mesh.ring_rate(known, tuple(local)) == (links * known.nvlink_rate, True)


def test_without_a_ring_of_nvlinks_pcie_remains() -> None:
    """1 and 4 have no link in common, and are on different sockets."""
    assert mesh.ring_rate(P100, (0, 1, 4)) == (6 * 10**9, False)
    assert mesh.ring_rate(V100, (1, 4)) == (6 * 10**9, False)


def test_an_all_to_all_by_counting_links() -> None:
    """Every pair by its links, or by the widest third GPU, counted by hand for the busiest link."""
    count = {frozenset(pair): width for *pair, width in V100.pairs}
    loads: dict[tuple[int, int], Fraction] = {}
    for a, b in permutations(range(8), 2):
        if frozenset((a, b)) in count:
            ways = [[(a, b)]]
        else:
            wide = {c: min(count.get(frozenset((a, c)), 0), count.get(frozenset((c, b)), 0)) for c in range(8)}
            ways = [[(a, c), (c, b)] for c in range(8) if wide[c] == max(wide.values())]
        for way in ways:
            for hop in way:
                share = Fraction(GIB, 8 * len(ways) * count[frozenset(hop)] * V100.nvlink_rate)
                loads[hop] = loads.get(hop, Fraction(0)) + share
    where = platform("dgx1v")
    assert mesh_exchange.direct(where, "all-to-all", GIB) == max(loads.values()) * where.nvlink_rate


def test_it_takes_no_less_than_the_cut_between_the_halves() -> None:
    """Four GPUs have six links to the other four, which 16 of the 64 shares have to cross."""
    where = platform("dgx1v")
    seconds = mesh_exchange.direct(where, "all-to-all", GIB) / where.nvlink_rate
    assert seconds >= Fraction(2 * GIB, 6 * V100.nvlink_rate)


def test_pairs_without_a_common_neighbour_go_over_pcie() -> None:
    where = platform("dgx1v", "1,4")
    expected = Fraction(GIB, 2 * 6 * 10**9) * where.nvlink_rate
    assert mesh_exchange.direct(where, "all-to-all", GIB) == expected


def test_a_gpu_shares_its_pcie_link_between_neighbours_and_nics() -> None:
    """GPU 7 reaches neither 0 nor 1 over NVLink, so all that it sends to five others goes over PCIe."""
    where = platform("dgx1v(nodes=2)", "0,1,7,8,9,15")
    out = Fraction(5 * GIB, 6 * mesh.pcie_rate(V100))
    assert mesh_exchange.direct(where, "all-to-all", GIB) / where.nvlink_rate == out


def test_the_only_nic_is_behind_the_link_between_sockets() -> None:
    far, near = platform("dgx-a100(nodes=2, nics=single)", "7,15"), platform("dgx-a100(nodes=2, nics=single)", "0,8")
    assert far.pcie_rate == 16 * 10**9
    assert near.pcie_rate == mesh.pcie_rate(MACHINES["dgx-a100"])
