"""Blink's hybrid transfers and two servers: what claims are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncline.fabric import files, notation
from syncline.studies.reproduction import blink_links
from syncline.studies.reproduction.blink_links import GIGABITS, Links, alike, two_servers
from syncline.studies.reproduction.runs import Runs
from syncline.treegen import pack, question, servers


@pytest.fixture(scope="module")
def links() -> Links:
    return Links(Runs())


def test_allocations_that_are_alike_are_all_allocations() -> None:
    assert {count: sum(each.count for each in alike(count)) for count in range(3, 9)} == {
        **{3: 32, 4: 56, 5: 56, 6: 28, 7: 8, 8: 1}
    }
    graph = notation.parse(blink_links.MACHINE).graph()
    for each in alike(3):
        rates = [pack.of(question.asked(graph, each.gpus, kind), "broadcast").rate for kind in ("nvlink", "pcie")]
        assert min(rates) > 0


def test_gains_fall_with_the_number_of_gpus(links: Links) -> None:
    gains = [links.gain(count) for count in (3, 4, 7, 8)]
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] > 1


def test_hybrid_transfers_are_those_of_the_claim(links: Links) -> None:
    gains, note = blink_links.hybrid_gain(links)
    assert isinstance(gains, list)
    few, many = gains
    assert many == pytest.approx(2.0, rel=0.03)  # the fitted one
    assert 3.5 < few < 7
    assert "250 us of peer access" in note


def test_without_nvlinks_to_spare_pcie_gains_what_it_carries(links: Links) -> None:
    """GPUs whose NVLinks carry one link: PCIe adds nearly its own rate."""
    both, only = (links.broadcast((0, 1, 4), both=each) for each in (True, False))
    assert 4 < both - only < 6


def test_two_servers_reach_the_limit_of_the_claim(links: Links) -> None:
    limit, note = blink_links.limit(links)
    assert isinstance(limit, float)
    assert 220 < limit < 376
    assert "rings over PCIe" in note


def test_more_cross_machine_bandwidth_helps_trees_and_not_rings(links: Links) -> None:
    """Ports are the limit at first: trees keep up with them, rings with PCIe between sockets."""
    for gigabits in GIGABITS:
        assert links.trees(gigabits) <= min(gigabits / 8, 47)
    assert links.trees(40) > 0.97 * 40 / 8
    assert links.trees(200) > 0.9 * 200 / 8
    assert links.rings(400) == pytest.approx(links.rings(120), rel=0.01)
    assert links.trees(400) > 10 * links.rings(400)


def test_the_file_of_two_servers_has_their_nvlinks(tmp_path: Path) -> None:
    path = tmp_path / "servers.yaml"
    path.write_text(two_servers(100))
    graph = files.load(path)
    assert servers.groups(graph, range(8)) == [(0, 1, 2), (3, 4, 5, 6, 7)]
    whole = notation.parse("dgx1v(efficiency=94%)").graph()
    for mine, gpus in ((range(3), range(3)), (range(3, 8), range(5))):
        here, there = (
            pack.of(question.asked(g, list(some), "nvlink"), "all-reduce").rate
            for g, some in ((graph, mine), (whole, gpus))
        )
        assert here == there
