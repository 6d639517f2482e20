"""What NCCL's kernels hold of a GPU: channels and traffic with its memory, and kernels beside them."""

from __future__ import annotations

from fractions import Fraction

import pytest

import syncline
from syncline.nccl import held, platform, wire

MIB = 2**20


def channels(machine: str, kind: str, algorithm: str, size: int = 256 * MIB, protocol: str = "Simple") -> int:
    return held.channels(platform.platform(machine), held.Call(kind, size, algorithm, protocol))


@pytest.mark.parametrize(
    ("machine", "rings"),
    [("dgx-a100", 24), ("dgx-h100", 24), ("dgx-b200", 32), ("dgx-h100(nodes=2)", 16), ("dgx2", 12)],
)
def test_channels_of_rings_are_those_that_nccl_logs(machine: str, rings: int) -> None:
    assert channels(machine, "all-gather", wire.RING) == channels(machine, "all-reduce", wire.TREE) == rings


def test_nvls_has_a_number_of_its_own() -> None:
    assert channels("dgx-h100", "all-reduce", wire.NVLS) == 16
    assert channels("dgx-b200", "all-reduce", wire.NVLS) == 24
    assert channels("dgx-b200(nodes=2)", "all-reduce", wire.NVLS_TREE) == 32


def test_small_collectives_have_fewer_channels() -> None:
    """A channel has 512 threads with 64 bytes each, or with LL 8 bytes of each rank."""
    sizes = [channels("dgx-h100", "all-gather", wire.RING, n * 512 * 64) for n in (0, 1, 5, 24, 100)]
    assert sizes == [1, 1, 5, 24, 24]
    assert channels("dgx-h100", "all-gather", wire.RING, 3 * 512 * 8 * 8, "LL") == 3


def test_messages_have_channels_by_links_and_nics() -> None:
    def between(machine: str, *gpus: int) -> int:
        where = platform.of(platform.platform(machine).cluster, gpus)
        return held.channels(where, held.Call("sendrecv", 64 * MIB, wire.DIRECT))

    assert between("dgx-h100", 0, 1) == 16  # of 32, for two ranks
    assert between("dgx1v", 0, 3) == 2
    assert between("dgx-h100(nodes=2)", 0, 8) == 4  # 50 GB/s by 14
    assert between("dgx-a100(nodes=2)", 0, 8) == 2  # 25 GB/s by 14


def walked(kind: str, gpus: int) -> Fraction:
    """Reads and writes of GPU 0 in a ring, block by block, of S bytes in `gpus` blocks.

    A step reads what came in, its own data if that is added or sent first, and writes the buffer of the next GPU and
    what belongs to the result.
    """
    moved = 0
    reduces, gathers = kind != "all-gather", kind != "reduce-scatter"
    for block in range(gpus):
        place = (0 - block) % gpus  # of GPU 0 in the chain of this block
        if reduces:
            moved += (1 if place == 0 else 2) + (0 if place == 0 else 1)  # reads, and what came in was written
            moved += 1 if place == gpus - 1 else 0  # the sum
        if gathers:
            start = gpus - 1 if reduces else 0  # who has the block first
            on = (place - start) % gpus
            if on > 0:
                moved += 3  # written to the buffer, read from there, written to the result
            elif not reduces:
                moved += 1
    return Fraction(moved, gpus)


@pytest.mark.parametrize("gpus", [2, 4, 8])
@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather"])
def test_traffic_of_rings_is_that_of_a_walk_over_their_steps(kind: str, gpus: int) -> None:
    where = platform.platform("dgx-h100", ",".join(map(str, range(gpus))))
    found = held.memory_bytes(where, held.Call(kind, 2**20, wire.RING))
    assert found == walked(kind, gpus) * 2**20


def test_what_passes_a_nic_is_written_and_read_once_more() -> None:
    one, two = (platform.platform(text) for text in ("dgx-h100", "dgx-h100(nodes=2)"))
    per_byte = held.memory_bytes(two, held.Call("all-gather", 2**20, wire.RING)) / 2**20
    assert per_byte == Fraction(3 * 16 - 2, 16) + 2 * Fraction(15, 16) / 8
    assert held.memory_bytes(one, held.Call("all-gather", 2**20, wire.RING)) == Fraction(22, 8) * 2**20


EXPERIMENT = {
    "name": "one",
    "topology": "dgx-h100",
    "workload": {"model": "llama2-7b", "global_batch": 8, "sequence": 2048, "parameters": {"layers": 2}},
    "npu": {"compute": {"kind": "roofline"}},
    "parallel": {"zero": 3},
    "network": "flow",
}


def test_kernels_beside_collectives_take_longer_by_what_these_hold() -> None:
    """Beside rings kernels have 108 of 132 SMs, and some of the memory bandwidth."""
    runs = {
        name: syncline.run(EXPERIMENT | {"endpoint": {"kind": "nccl", **endpoint}}).systems["one"]
        for name, endpoint in {"held": {}, "free": {"comm_sms": 0}, "static": {"comm_sms": 24}}.items()
    }
    computed = {name: run.compute_time_s or 0.0 for name, run in runs.items()}
    assert runs["held"].compute_time_alone_s == pytest.approx(computed["free"], rel=1e-9)
    assert computed["free"] < computed["held"] < computed["static"] * 1.2
    assert computed["static"] == pytest.approx(computed["free"] * 132 / 108, rel=0.1)
