"""What results say of networks and buses adds up to what was sent, carried and waited for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncline
from syncline.results import entries as results

BUSES = {"kind": "loggp", "latency": "50cycles@700MHz", "overhead": "20cycles@700MHz", "gap": "20cycles@700MHz"}
ENDPOINTS: dict[str, dict[str, Any]] = {
    "ideal": {"kind": "ideal"},
    "baseline": {"kind": "baseline", "comm_memory_bandwidth": "180GB/s", "comm_sms": 5, "charge_writes": True},
    "ace": {"kind": "ace", "comm_memory_bandwidth": "180GB/s"},
}
NPUS = 4
SIZE = 2**20


def entry(endpoint: str, **more: Any) -> dict[str, Any]:
    """An all-reduce around a ring, in the document of `run`."""
    experiment = {
        "name": "ring",
        "topology": f"Ring({NPUS}, rate=50GB/s, efficiency=80%)",
        "workload": {"collective": "all-reduce", "size": f"{SIZE}B"},
        "collective": {"algorithm": "ring", "chunks": 4},
        "network": "flow",
        "endpoint": ENDPOINTS[endpoint] | more,
    }
    return dict(syncline.run(experiment).document["runs"][0])


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_bandwidths_are_bytes_over_time_and_the_wire_has_headers_as_well(endpoint: str) -> None:
    found = entry(endpoint)
    network, time_s = found["network"], found["time_s"]
    assert network["bytes_sent_per_npu"] == 2 * (NPUS - 1) * SIZE / NPUS
    assert network["link_bytes"] == NPUS * network["bytes_sent_per_npu"]
    achieved = network["achieved_bandwidth_bytes_per_s"]
    assert achieved == pytest.approx(network["bytes_sent_per_npu"] / time_s)
    assert (network["payload_bandwidth_bytes_per_s"], network["wire_bandwidth_bytes_per_s"]) == (80e9, 100e9)
    assert achieved < 80e9
    assert network["achieved_wire_bandwidth_bytes_per_s"] == pytest.approx(achieved / 0.8)
    # Every NPU has two links, of which all carry as much.
    assert network["mean_link_utilisation"] == pytest.approx(achieved / 80e9, rel=1e-6)


@pytest.mark.parametrize("endpoint", ["baseline", "ace"])
def test_times_of_messages_on_buses_are_those_of_the_buses(endpoint: str) -> None:
    found = entry(endpoint, buses=BUSES)["endpoint"]
    breakdown, messages = found["breakdown"], found["breakdown"]["messages"]
    buses = [each for each in found["resources"] if each["resource"] in ("memory", "bus_tx", "bus_rx")]
    assert len(buses) == 3
    assert messages > breakdown["chunks"] == 4 * NPUS
    for mean, total in (("bus_transfer_s", "transfer_s"), ("bus_queue_s", "wait_s")):
        assert breakdown[mean] * messages == pytest.approx(sum(each[total] for each in buses), rel=1e-9)
        assert breakdown[mean] > 0


@given(
    st.lists(st.tuples(st.sampled_from(["forward", "backward"]), st.integers(1, 90), st.integers(0, 90)), min_size=1)
)
def test_the_share_of_a_kind_of_pass_is_of_the_time_of_such_passes(passes: list[tuple[str, int, int]]) -> None:
    at, listed = 0, []
    for name, length, active in passes:
        busy = min(active, length)
        listed.append({"pass": name, "from_ps": at, "to_ps": at + length, "engine_active_ps": busy})
        at += length
    found = results.engine_utilisation({"passes": listed, "endpoint": {"fsms": 16}})
    assert set(found) == {f"engine_utilisation_{name}" for name, _, _ in passes}
    for name in {name for name, _, _ in passes}:
        mine = [(length, min(active, length)) for of, length, active in passes if of == name]
        idle = sum(length - busy for length, busy in mine)
        assert found[f"engine_utilisation_{name}"] == pytest.approx(1 - idle / sum(length for length, _ in mine))
