"""`torch.distributed` on the collective library, against gloo and against what the calls mean."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support import processes

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]  # warnings of PyTorch are its own

STEPS = 20


def started(backend: str, rank: int, size: int, folder: str) -> Any:
    """`torch.distributed`, with the process group of this process."""
    import torch
    import torch.distributed as dist

    if backend == "syncline":
        import syncline.torch  # noqa: F401  (registers the backend)
    torch.set_num_threads(1)
    store = f"file://{folder}/{backend}"
    dist.init_process_group(backend, init_method=store, rank=rank, world_size=size, timeout=timedelta(seconds=20))
    return dist


def ended(dist: Any) -> None:
    dist.barrier()
    dist.destroy_process_group()


def sums_of(backend: str, rank: int, size: int, folder: str) -> list[list[float]]:
    import torch

    dist = started(backend, rank, size, folder)
    results = []
    for elements in (1, 1001, 70_000):
        tensor = torch.randn(elements, generator=torch.Generator().manual_seed(rank)) * 10.0 ** (rank - 1)
        dist.all_reduce(tensor)
        results.append(tensor.tolist())
    ended(dist)
    return results


def both_sums(rank: int, size: int, folder: str) -> bool:
    return sums_of("gloo", rank, size, folder) == sums_of("syncline", rank, size, folder)


def test_sums_of_two_ranks_have_the_bits_of_gloo(tmp_path: Path) -> None:
    assert processes.each(both_sums, 2, str(tmp_path)) == [True, True]


def training(backend: str, rank: int, size: int, folder: str) -> list[float]:
    """The losses of a small network that DistributedDataParallel trains."""
    import torch

    dist = started(backend, rank, size, folder)
    torch.manual_seed(0)
    layers = [
        torch.nn.Linear(20, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 1),
    ]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.01)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(100 + rank)
    losses = []
    for _ in range(STEPS):
        inputs = torch.randn(32, 20, generator=generator)
        loss = ((model(inputs) - inputs.mean(1, keepdim=True)) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    ended(dist)
    return losses


def both_trainings(rank: int, size: int, folder: str) -> tuple[list[float], list[float]]:
    return training("gloo", rank, size, folder), training("syncline", rank, size, folder)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_losses_of_training_are_those_of_gloo(tmp_path: Path, size: int) -> None:
    for gloo, own in processes.each(both_trainings, size, str(tmp_path)):
        assert own == pytest.approx(gloo, rel=1e-5)
        assert sum(own[-5:]) < sum(own[:5])


def of(other: int, *shape: int) -> Any:
    """The tensor of a rank."""
    import torch

    return torch.arange(float(torch.Size(shape).numel())).view(shape) + 100 * other


def calls(rank: int, size: int, folder: str) -> int:
    """All calls of a process group, each with its meaning."""
    dist = started("syncline", rank, size, folder)
    collectives(dist, rank, size)
    exchanges(dist, rank, size)
    tensors(dist, rank, size)
    ended(dist)
    return rank


def collectives(dist: Any, rank: int, size: int) -> None:
    import torch

    tensor = of(rank, 5) if rank == 1 else torch.zeros(5)
    dist.broadcast(tensor, 1)
    assert torch.equal(tensor, of(1, 5))

    tensor = of(rank, 3, 4)
    dist.reduce(tensor, 2)
    total = sum(of(other, 3, 4) for other in range(size))
    assert torch.equal(tensor, total if rank == 2 else of(rank, 3, 4))

    row = [torch.zeros(2, 3) for _ in range(size)]
    dist.all_gather(row, of(rank, 2, 3))
    assert all(torch.equal(row[other], of(other, 2, 3)) for other in range(size))

    row = [torch.zeros(4) for _ in range(size)]
    dist.gather(of(rank, 4), row if rank == 0 else None, dst=0)
    assert rank != 0 or all(torch.equal(row[other], of(other, 4)) for other in range(size))

    tensor = torch.zeros(4)
    dist.scatter(tensor, [of(other, 4) for other in range(size)] if rank == 1 else None, src=1)
    assert torch.equal(tensor, of(rank, 4))

    tensor = torch.zeros(3)
    dist.reduce_scatter(tensor, [of(rank + other, 3) for other in range(size)])
    assert torch.equal(tensor, sum(of(rank + other, 3) for other in range(size)))

    if hasattr(dist, "all_gather_into_tensor"):
        whole = torch.zeros(size * 3)
        dist.all_gather_into_tensor(whole, of(rank, 3))
        assert torch.equal(whole, torch.cat([of(other, 3) for other in range(size)]))
        tensor = torch.zeros(3)
        dist.reduce_scatter_tensor(tensor, torch.cat([of(rank + other, 3) for other in range(size)]))
        assert torch.equal(tensor, sum(of(rank + other, 3) for other in range(size)))


def exchanges(dist: Any, rank: int, size: int) -> None:
    import torch

    others = [other for other in range(size) if other != rank]
    # An all-to-all of equal parts, and of unequal ones: rank r sends o + 1 numbers to rank o.
    whole = torch.zeros(2 * size)
    dist.all_to_all_single(whole, torch.cat([of(10 * rank + other, 2) for other in range(size)]))
    assert torch.equal(whole, torch.cat([of(10 * other + rank, 2) for other in range(size)]))
    outgoing = torch.cat([of(10 * rank + other, other + 1) for other in range(size)])
    incoming = torch.zeros(size * (rank + 1))
    dist.all_to_all_single(incoming, outgoing, [rank + 1] * size, [other + 1 for other in range(size)])
    assert torch.equal(incoming, torch.cat([of(10 * other + rank, rank + 1) for other in range(size)]))

    # Everybody sends much to everybody before it receives anything.
    sent = [dist.isend(of(rank, 500_000), other) for other in others]
    got = {other: torch.zeros(500_000) for other in others}
    received = [dist.irecv(got[other], other) for other in others]
    for work in [*sent, *received]:
        work.wait()
    assert all(torch.equal(got[other], of(other, 500_000)) for other in others)


def tensors(dist: Any, rank: int, size: int) -> None:
    import torch

    # What does not lie in a row, and types that are reduced as others.
    tensor = of(rank, 4, 4).t()
    dist.all_reduce(tensor)
    assert torch.equal(tensor, sum(of(other, 4, 4) for other in range(size)).t())
    truth = torch.tensor([rank == 0, False, True])
    dist.all_reduce(truth)
    assert truth.tolist() == [True, False, True]
    number = torch.tensor([1 + 2j]) * (rank + 1)
    dist.all_reduce(number)
    assert number.item() == (1 + 2j) * sum(range(1, size + 1))
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8):
        tensor = torch.tensor([1, 2, rank], dtype=dtype)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        assert tensor.tolist() == [1, 2, size - 1]

    work = dist.all_reduce(tensor := torch.ones(1000), async_op=True)
    work.wait()
    assert torch.equal(tensor, torch.full((1000,), float(size)))

    if has_numpy():
        objects: list[Any] = [None] * size
        dist.all_gather_object(objects, {"rank": rank})
        assert objects == [{"rank": other} for other in range(size)]

    group = dist.new_group([0, 2])
    if rank in (0, 2):
        tensor = torch.ones(3) * (rank + 1)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [4.0] * 3

    with pytest.raises((TypeError, RuntimeError), match="does not reduce"):
        dist.all_reduce(torch.ones(1, dtype=torch.int16), async_op=True).wait()


def has_numpy() -> bool:
    """Whether PyTorch, which makes objects of tensors with numpy, was built for the version of numpy that there is."""
    import torch

    try:
        torch.zeros(1).numpy()
    except RuntimeError:
        return False
    return True


def test_every_call_does_what_it_means(tmp_path: Path) -> None:
    assert processes.each(calls, 3, str(tmp_path)) == [0, 1, 2]


def failing(rank: int, size: int, folder: str) -> str:
    import torch

    dist = started("syncline", rank, size, folder)
    dist.barrier()
    try:
        dist.all_reduce(torch.ones(3 if rank == 2 else 4))
    except RuntimeError as error:
        return str(error)
    return ""


def test_a_rank_that_asks_for_something_else_is_named(tmp_path: Path) -> None:
    for message in processes.each(failing, 3, str(tmp_path)):
        assert "rank 2 asked for an all-reduce of 3 float32 (sum)" in message


def waiting_late(rank: int, size: int, folder: str) -> list[float]:
    """C++ waits for calls whose works Python has forgotten: a broadcast of several buffers has two under way."""
    import torch

    dist = started("syncline", rank, size, folder)
    group = dist.distributed_c10d._get_default_group()
    buffers = [torch.full((1000,), float(100 * rank + number)) for number in range(8)]
    dist._broadcast_coalesced(group, buffers, 100, 1)
    ended(dist)
    return [buffer.sum().item() / 1000 for buffer in buffers]


def test_works_that_only_cpp_holds_can_be_waited_for(tmp_path: Path) -> None:
    expected = [float(100 + number) for number in range(8)]
    assert processes.each(waiting_late, 2, str(tmp_path)) == [expected, expected]
