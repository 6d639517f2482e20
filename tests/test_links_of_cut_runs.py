"""Where a run ends while messages are under way, its links have carried what they were busy with."""

from __future__ import annotations

from typing import Any

import pytest

import syncline

RATE = 50e9
"""Bytes per second of every link."""


def run(backend: str, topology: str, iterations: int, **more: Any) -> Any:
    """A training loop that waits for nothing at its end."""
    return syncline.run(
        {
            **{"name": "cut", "topology": topology, "network": backend, **more},
            "workload": {"model": "resnet18", "batch": 3},
            "training": {"iterations": iterations, "tail": "stop"},
        }
    ).systems["cut"]


@pytest.mark.parametrize("iterations", [1, 2])
@pytest.mark.parametrize("topology", ["Switch(5)", "Ring(4)"])
def test_links_are_busy_for_the_bytes_that_they_carried(topology: str, iterations: int) -> None:
    shares = {}
    for backend in ("flow", "packet"):
        system = run(backend, topology, iterations)
        network = system.network
        carried = network["link_bytes"] / (network["links"] * RATE * system.total_time_s)
        assert network["mean_link_utilisation"] == pytest.approx(carried, rel=1e-5)
        shares[backend] = network["mean_link_utilisation"]
    assert shares["flow"] == pytest.approx(shares["packet"], rel=1e-3)
    assert shares["flow"] > 0.4


@pytest.mark.parametrize("backend", ["analytical", "flow", "packet", "ethernet"])
def test_nothing_is_carried_or_sent_faster_than_by_links(backend: str) -> None:
    """Messages of large chunks are under way for long after the end."""
    large = {"collective": {"algorithm": "ring", "chunk": "64MiB", "inflight": 16}}
    system = run(backend, "Ring(4, rate=5GB/s, latency=500ns)", 1, **large)
    network = system.network
    busy = network["mean_link_utilisation"] if backend != "analytical" else network["link_demand"]
    assert 0.4 < busy <= 1
    carried = network["link_bytes"] / (network["links"] * RATE / 10 * system.total_time_s)
    assert carried == pytest.approx(busy, rel=0.02)
    assert network["achieved_bandwidth_bytes_per_s"] < network["payload_bandwidth_bytes_per_s"]
