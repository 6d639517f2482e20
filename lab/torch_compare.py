"""Times all-reduces of the library beside gloo's, in pairs: `python -m lab.torch_compare [RANKS]`.

Each repetition times both backends one after the other on the same tensors, so that whatever else the host does meets
both. Printed are medians over the repetitions, and how much of the time the bytes that are moved would take at the rate
at which one process copies memory.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

import syncline.torch  # noqa: F401  (registers the backend)

SIZES: Final = tuple(2**power for power in range(10, 27, 2))
"""Bytes of the tensors."""
REPETITIONS: Final = 20
WARM_UP: Final = 3


def moved_bytes(size: int, ranks: int) -> float:
    """Bytes that a rank copies in a direct all-reduce of float32.

    It puts each part of the vector into a slot for its owner, and its own sum into slots for all; and it takes as many
    out of slots, half of which are added.
    """
    return 4 * size * (ranks - 1) / ranks


def copy_rate() -> float:
    """Bytes per second at which this process copies 64 MiB."""
    source = torch.ones(16 << 20)
    target = torch.zeros_like(source)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - begin)
    return float(source.numel() * source.element_size() / statistics.median(times))


def _member(rank: int, ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=60))
    groups = {"gloo": dist.group.WORLD, "syncline": dist.new_group(backend="syncline")}
    rate = copy_rate()
    if rank == 0:
        print(f"{ranks} ranks; one process copies memory at {rate / 1e9:.1f} GB/s")
        print(f"{'bytes':>10}  {'gloo':>10}  {'syncline':>10}  {'gloo/syncline':>13}  {'copies/syncline':>15}")
    for size in SIZES:
        tensor = torch.zeros(size // 4)
        times: dict[str, list[float]] = {name: [] for name in groups}
        for repetition in range(WARM_UP + REPETITIONS):
            for name, group in groups.items():
                taken = _timed(tensor, group)
                if repetition >= WARM_UP:
                    times[name].append(taken)
        gloo, own = (statistics.median(times[name]) for name in ("gloo", "syncline"))
        if rank == 0:
            copies = moved_bytes(size, ranks) / rate
            print(f"{size:>10}  {gloo * 1e6:>8.1f}us  {own * 1e6:>8.1f}us  {gloo / own:>13.2f}  {copies / own:>15.2f}")
    dist.barrier()
    dist.destroy_process_group()


def _timed(tensor: Any, group: Any) -> float:
    begin = time.perf_counter()
    dist.all_reduce(tensor, group=group)
    return time.perf_counter() - begin


def main() -> int:
    """Runs the comparison and prints the table."""
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(_member, (ranks, folder), nprocs=ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
