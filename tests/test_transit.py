"""Messages that NPUs forward for others: who does it, what it costs, and what people are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.command import Ended
from support.registry import FORWARDING

Command = Callable[..., Ended]

TORUS = ("all-to-all", "--size", "96KiB", "--topology", "Torus(4,3)", "--backend", "packet")
PAIRS, HOPS, BLOCK = 12 * 11, 12 * 20, 8 * 1024
"""Of the torus: ordered pairs of NPUs, the hops between all of them (4 x 2 + 3 x 4 from each), and what each sends."""


def document(command: Command, *arguments: str) -> dict[str, Any]:
    ended = command("collective", *arguments, "--json", "--verbose")
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


@pytest.mark.parametrize(
    ("endpoint", "transit", "read"),
    [
        ("baseline", "endpoint", HOPS * BLOCK),
        ("baseline", "network", PAIRS * BLOCK),
        ("ace", "endpoint", PAIRS * BLOCK),
        ("ace", "network", PAIRS * BLOCK),
        ("ideal", "endpoint", 0),
    ],
)
def test_what_passes_npus(syncline_command: Command, endpoint: str, transit: str, read: int) -> None:
    arguments = ("--endpoint", endpoint, "--algorithm", "direct", "--set", f"endpoint.transit={transit}")
    found = document(syncline_command, *TORUS, *arguments, "--set", "collective.chunks=1")
    forwarded = (HOPS - PAIRS) * BLOCK if transit == "endpoint" else 0
    assert found["endpoint"]["transit_bytes"] == forwarded
    assert found["endpoint"]["sent_bytes"] == PAIRS * BLOCK
    assert found["endpoint"]["memory_read_bytes"] == read
    assert found["network"]["bytes_sent_per_npu"] == 11 * BLOCK
    assert found["network"]["link_bytes"] == HOPS * BLOCK


@pytest.mark.parametrize("endpoint", FORWARDING)
def test_tori_forward_through_endpoints_unless_told_otherwise(syncline_command: Command, endpoint: str) -> None:
    found = document(syncline_command, *TORUS, "--endpoint", endpoint)
    assert found["algorithm"] == "direct"
    assert found["endpoint"]["transit_bytes"] > 0
    said = "endpoint.transit = endpoint (default: the endpoints between forward messages for distant NPUs)"
    assert said in found["assumptions"]
    shown = syncline_command("collective", *TORUS, "--endpoint", endpoint)
    assert "forwarded per NPU" in shown.out


@pytest.mark.parametrize("fabric", [("--topology", "Ring(4)_Switch(3)"), ("--machine", "dgx1v")])
def test_elsewhere_routers_forward(syncline_command: Command, fabric: tuple[str, str]) -> None:
    arguments = ("all-to-all", "--size", "96KiB", *fabric, "--endpoint", "baseline", "--algorithm", "direct")
    found = document(syncline_command, *arguments)
    assert found["endpoint"]["transit_bytes"] == 0
    said = (
        "endpoint.transit = network (default: the routers between forward messages for distant NPUs, not the endpoints)"
    )
    assert said in found["assumptions"]
    assert "forwarded" not in syncline_command("collective", *arguments).out


@pytest.mark.parametrize("kind", ["all-reduce", "all-to-all"])
def test_neighbours_need_nobody(syncline_command: Command, kind: str) -> None:
    arguments = (kind, "--size", "96KiB", "--topology", "Switch(6)", "--endpoint", "baseline", "--algorithm", "direct")
    found = document(syncline_command, *arguments)
    assert not any("transit" in line for line in found["assumptions"])
    assert found | {"cost": None} == document(syncline_command, *arguments, "--set", "endpoint.transit=network") | {
        "cost": None
    }


@pytest.mark.parametrize(
    ("arguments", "said", "accepted"),
    [
        (
            ("--topology", "Ring(4)_Switch(3)"),
            "endpoints do not forward to and from switches",
            "network; endpoint only on products",
        ),
        (
            ("--machine", "dgx1v"),
            "endpoints do not forward on machines and topology files",
            "network; endpoint only on products",
        ),
        (
            ("--topology", "Ring(4)", "--set", "endpoint.transit=both"),
            "this is not a known transit",
            "endpoint, network",
        ),
    ],
)
def test_refusals(syncline_command: Command, arguments: tuple[str, ...], said: str, accepted: str) -> None:
    asked = ("--endpoint", "baseline", "--set", "endpoint.transit=endpoint")
    ended = syncline_command("collective", "all-to-all", "--size", "1MB", *asked, *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert f"endpoint.transit: {said}" in ended.err
    assert f"accepted: {accepted}" in ended.err


def test_the_sram_has_room_for_packets_in_transit(syncline_command: Command) -> None:
    arguments = (*TORUS, "--endpoint", "ace", "--chunk", "3KiB", "--set", "network.packet=256B")
    ended = syncline_command("collective", *arguments, "--set", "endpoint.sram=4KiB")
    # A chunk, a packet on its way to memory, and two packets for each of the four ports.
    assert ended.status == 2
    assert "not two packets in each transit pool" in ended.err
    assert f"accepted: at least {3072 + 256 + 2 * 4 * 256}B" in ended.err
    assert syncline_command("collective", *arguments, "--set", f"endpoint.sram={3072 + 9 * 256}B").status == 0
