"""Captures of ports: files of packets, read back with a parser written from the format's specification."""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.command import run
from syncline.sections.networks import captures

INCAST = """name: incast
topology: "Switch(6, rate=100Gb/s, latency=500ns)"
workload: {collective: gather, size: 6MB, root: 0}
collective: {algorithm: direct, chunk: 64KiB}
endpoint: {kind: ideal}
variants:
  - {name: TCP, network: {backend: ethernet, buffer: 64KiB, min_rto: 1ms, ecn_threshold: 40KB}}
  - name: RoCE
    network: {backend: ethernet, transport: roce, buffer: 40KB, flow_control: none, min_rto: 1ms}
  - {name: pauses, network: {backend: ethernet, transport: roce, congestion_control: none, buffer: 64KiB}}
"""
PORTS = ("npu 1", "switch 0: dim 0 to coordinate 0", "switch 0: dim 0 to coordinate 1")
FILES = {
    "sender": "npu-1-dim-0-to-its-switch.pcap",
    "queue": "switch-0-dim-0-to-coordinate-0.pcap",
    "back": "switch-0-dim-0-to-coordinate-1.pcap",
}
SENT = 1_000_000
"""What each NPU sends to the root."""


@dataclass(frozen=True)
class Packet:
    """A record of a file: when in nanoseconds, how long the packet was, and what is kept of it."""

    at: int
    length: int
    kept: bytes

    @property
    def kind(self) -> int:
        """The type of Ethernet."""
        return int.from_bytes(self.kept[12:14])

    @property
    def ip(self) -> bytes:
        """The header of IPv4."""
        return self.kept[14:34]

    @property
    def ecn(self) -> int:
        """The congestion bits."""
        return self.ip[1] & 3

    @property
    def inner(self) -> bytes:
        """What is kept behind the header of IPv4."""
        return self.kept[34:]


def read(path: Path) -> list[Packet]:
    """The records of a file (draft-ietf-opsawg-pcap): a header of 24 bytes, then 16 before each packet."""
    data = path.read_bytes()
    magic, major, minor, zone, figures, most, link = struct.unpack("<IHHiIII", data[:24])
    assert (magic, major, minor, zone, figures, link) == (0xA1B23C4D, 2, 4, 0, 0, 1)
    packets, at = [], 24
    while at < len(data):
        seconds, nanoseconds, kept, length = struct.unpack("<IIII", data[at : at + 16])
        assert nanoseconds < 10**9
        assert kept == min(length, most)
        packets.append(Packet(seconds * 10**9 + nanoseconds, length, data[at + 16 : at + 16 + kept]))
        at += 16 + kept
    assert at == len(data)
    return packets


def ones(data: bytes) -> int:
    """The sum of 16-bit words in ones' complement (RFC 1071): all ones if a valid check sum is among them."""
    total = sum(int.from_bytes(data[i : i + 2].ljust(2, b"\0")) for i in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run with captures."""
    root = tmp_path_factory.mktemp("captures")
    (root / "e.yaml").write_text(INCAST)
    flags = [flag for port in PORTS for flag in ("--pcap", port)]
    done = run("run", root / "e.yaml", *flags, "--out", root / "run", "-q")
    assert done.status == 0, done.err
    return root / "run"


def packets(directory: Path, variant: str, which: str) -> list[Packet]:
    """A file of a variant."""
    return read(directory / variant / "pcap" / FILES[which])


def queue(directory: Path, variant: str, node: str, port: str) -> dict[str, Any]:
    """The row of a port in the table of queues."""
    rows = pq.read_table(directory / variant / "tables/queues.parquet").to_pylist()
    (row,) = [row for row in rows if row["node"].startswith(node) and row["port"] == port]
    return dict(row)


@pytest.mark.parametrize("variant", ["TCP", "RoCE", "pauses"])
def test_every_packet_is_well_formed(directory: Path, variant: str) -> None:
    for which in FILES:
        found = packets(directory, variant, which)
        assert found
        assert [p.at for p in found] == sorted(p.at for p in found)
        for packet in found:
            if packet.kind == 0x8808:  # a pause: class-based, of 60 bytes without the check sum
                assert (packet.length, packet.kept[14:16]) == (60, b"\x01\x01")
                continue
            assert packet.kind == 0x0800
            assert (packet.ip[0], ones(packet.ip)) == (0x45, 0xFFFF)
            assert int.from_bytes(packet.ip[2:4]) == packet.length - 14


def test_segments_of_tcp_have_valid_check_sums_and_all_bytes(directory: Path) -> None:
    covered = bytearray(SENT)
    segments = packets(directory, "TCP", "sender")
    for packet in segments:
        payload = packet.length - 54
        pseudo = packet.ip[12:20] + bytes([0, 6]) + (20 + payload).to_bytes(2)
        assert ones(pseudo + packet.inner[:20] + bytes(payload)) == 0xFFFF
        source, target, seq, ack, size, flags = struct.unpack(">HHIIBB", packet.inner[:14])
        assert (target, ack, size >> 4, flags & 0x10) == (5001, 1, 5, 0x10)
        assert source >= 0x8000
        covered[seq - 1 : seq - 1 + payload] = b"\1" * payload
    assert len(covered) == SENT
    assert all(covered)
    transport = pq.read_table(directory / "TCP/tables/flows.parquet").to_pylist()
    again = next(row["retransmissions"] for row in transport if row["src"].startswith("NPU 1 "))
    assert len(segments) == -(-SENT // 1448) + again + len([p for p in segments if p.length < 1502]) - 1


def test_what_was_dropped_is_in_no_file_and_marks_are(directory: Path) -> None:
    for variant in ("TCP", "RoCE", "pauses"):
        row = queue(directory, variant, "switch", "dim 0 to coordinate 0")
        data = [p for p in packets(directory, variant, "queue") if p.kind == 0x0800]
        pauses = len(packets(directory, variant, "queue")) - len(data)
        assert len(data) + pauses == row["frames"]
        assert sum(p.ecn == 3 for p in data) == row["marks"]
        assert (row["drops"] > 0) == (variant != "pauses")


def test_acknowledgements_tell_of_marks_and_holes(directory: Path) -> None:
    flags: Counter[int] = Counter()
    blocks = 0
    for packet in packets(directory, "TCP", "back"):
        size, bits = packet.inner[12] >> 4, packet.inner[13]
        flags[bits] += 1
        options = packet.inner[20 : 4 * size]
        assert packet.length == 34 + 4 * size
        if options:
            assert options[:3] == b"\x01\x01\x05"
            assert options[3] == len(options) - 2
            ack = int.from_bytes(packet.inner[8:12])
            edges = struct.unpack(f">{(len(options) - 4) // 4}I", options[4:])
            assert all(ack < left < right for left, right in zip(edges[::2], edges[1::2], strict=True))
            blocks += 1
    assert flags.keys() == {0x10, 0x50}, "with and without ECE"
    assert blocks > 0
    assert any(p.inner[13] & 0x80 for p in packets(directory, "TCP", "sender")), "CWR"


def test_frames_of_roce_are_numbered_and_answered(directory: Path) -> None:
    for variant in ("RoCE", "pauses"):
        sent: dict[int, int] = {}
        for packet in packets(directory, variant, "sender"):
            assert packet.inner[2:4] == (4791).to_bytes(2)
            assert int.from_bytes(packet.inner[4:6]) == packet.length - 34
            code, pad = packet.inner[8], packet.inner[9] >> 4 & 3
            number = int.from_bytes(packet.inner[17:20])
            payload = packet.length - 58 - pad
            assert code in {0, 1, 2, 4}
            assert sent.setdefault(number, payload) == payload
        assert sorted(sent) == list(range(len(sent)))
        assert sum(sent.values()) == SENT
        answers = [p for p in packets(directory, variant, "back") if p.kind == 0x0800]
        codes = Counter(p.inner[8] for p in answers)
        document = json.loads((directory / "summary.json").read_text())
        network = next(entry["network"] for entry in document["runs"] if entry["name"] == variant)
        naks = sum(p.inner[8] == 0x11 and p.inner[20] >> 5 == 3 for p in answers)
        assert (0x81 in codes) == (network["notifications"] > 0)
        assert (naks > 0) == (network["naks"] > 0)
        last = [p for p in answers if p.inner[8] == 0x11 and p.inner[20] >> 5 == 0][-1]
        assert int.from_bytes(last.inner[17:20]) == len(sent) - 1


def test_captures_change_nothing_and_are_the_same_every_time(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(INCAST)
    assert run("run", tmp_path / "e.yaml", "--out", tmp_path / "plain", "-q").status == 0
    plain, captured = (json.loads((d / "summary.json").read_text())["runs"] for d in (tmp_path / "plain", directory))
    for one, other in zip(plain, captured, strict=True):
        assert one["network"] == other["network"]
        assert one["time_s"] == other["time_s"]
    assert not (tmp_path / "plain/TCP/pcap").exists()
    # The resolved experiment names the ports, too.
    assert run("run", directory / "experiment.resolved.yaml", "--out", tmp_path / "again", "-q").status == 0
    for variant in ("TCP", "RoCE", "pauses"):
        for name in FILES.values():
            assert (tmp_path / "again" / variant / "pcap" / name).read_bytes() == (
                directory / variant / "pcap" / name
            ).read_bytes()
    assert pq.read_table(directory / "TCP/tables/captures.parquet").column_names == [
        "node",
        "port",
        "frames",
        "left_out",
    ]


def test_a_full_capture_is_said_to_be() -> None:
    rows = {"node": ["npu 0", "npu 1"], "port": ["a", "b"], "frames": [5, 1_048_576], "left_out": [0, 7]}
    (note,) = captures.notes_of({"captures": pa.table(rows)})
    assert note == "the capture of npu 1, b, was full after 1,048,576 frames; 7 more left by this port"


def test_files_of_ports_with_similar_names_have_names_of_their_own() -> None:
    rows = {"node": ["npu 0", "npu 0"], "port": ["a/b", "a b"], "file": [b"1", b"2"]}
    assert dict(captures.files(pa.table(rows))) == {"npu-0-a-b.pcap": b"1", "npu-0-a-b-1.pcap": b"2"}


WRONG = {
    "npu 9": ("there is no npu 9", "npu 0 to npu 5"),
    "switch 1": ("there is no switch 1", "switch 0 to switch 0"),
    "npu 0: nothing": ("no port", "dim 0 to its switch"),
    "port 0": ("this names no port", "npu N or switch N"),
}


@pytest.mark.parametrize("port", WRONG)
def test_ports_that_are_not_there_are_refused(tmp_path: Path, port: str) -> None:
    message, accepted = WRONG[port]
    text = INCAST.partition("variants:")[0] + f'network:\n  backend: ethernet\n  capture: ["{port}"]\n'
    (tmp_path / "e.yaml").write_text(text)
    done = run("check", tmp_path / "e.yaml", "--json")
    (error,) = json.loads(done.err)["errors"]
    assert (done.status, error["file"], error["line"]) == (2, str(tmp_path / "e.yaml"), 8)
    assert error["field"] == "network.capture.0"
    assert error["value"] == port
    assert message in error["message"]
    assert accepted in error["accepted"]


def test_captures_need_a_directory_and_the_backend(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(INCAST)
    done = run("run", tmp_path / "e.yaml", "--pcap", "npu 0")
    assert done.status == 2
    assert "captures need a directory" in done.err
    (tmp_path / "f.yaml").write_text(INCAST.partition("variants:")[0] + "network: flow\n")
    done = run("run", tmp_path / "f.yaml", "--pcap", "npu 0", "--out", tmp_path / "run")
    assert done.status == 2
    assert "--pcap" in done.err


@pytest.mark.parametrize(
    "settings",
    [
        ["--backend", "ethernet", "--set", "network.capture=[npu 0]"],
        ["--set", "network={backend: ethernet, capture: [npu 0]}"],
    ],
)
def test_a_collective_without_a_directory_refuses_captures(settings: list[str]) -> None:
    done = run("collective", "all-to-all", "--size", "1MB", "--topology", "Switch(4)", *settings)
    assert (done.status, done.out) == (2, "")
    assert "network.capture" in done.err
    assert "this command writes no files" in done.err


def test_links_within_machines_cannot_be_captured(tmp_path: Path) -> None:
    text = "name: m\ntopology: dgx-h100\nworkload: {collective: all-reduce, size: 1MB}\n"
    text += 'endpoint: {kind: ideal}\nnetwork: {backend: ethernet, capture: ["npu 0"]}\n'
    (tmp_path / "e.yaml").write_text(text)
    done = run("check", tmp_path / "e.yaml", "--json")
    errors = json.loads(done.err)["errors"]
    assert any(e["field"] == "network.capture.0" and "no port with a transport" in e["message"] for e in errors), errors
