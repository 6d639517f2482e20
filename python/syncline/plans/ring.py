"""The ring all-reduce as a schedule, to begin with and to compare with."""

from __future__ import annotations

from typing import Final

from syncline.plans.plan import FORMAT, VERSION, Buffer, Plan, Rank, Step, ThreadBlock, step

MAX_BYTES: Final = 2**40
"""What `maxBytes` says where nothing is known: no limit that a message meets."""


def all_reduce(ranks: int, channels: int = 1, *, in_place: bool = True) -> Plan:
    """Rank `r` sends to `r + 1`; each channel has its own block of every rank, of one chunk each."""
    size = ranks * channels
    return Plan(
        format=FORMAT,
        version=VERSION,
        name=f"ring-allreduce-{ranks}",
        collective="allreduce",
        in_place=in_place,
        protocol="Simple",
        min_bytes=0,
        max_bytes=MAX_BYTES,
        channels=channels,
        chunks_per_loop=size,
        ranks=[
            Rank(
                id=rank,
                input_chunks=size,
                output_chunks=size,
                scratch_chunks=0,
                thread_blocks=[_ring(rank, ranks, channel, channels, in_place=in_place) for channel in range(channels)],
            )
            for rank in range(ranks)
        ],
    )


def _ring(rank: int, ranks: int, channel: int, channels: int, *, in_place: bool) -> ThreadBlock:
    out: Buffer = "i" if in_place else "o"

    def chunk(back: int) -> int:
        return (rank - back) % ranks * channels + channel

    steps: list[Step] = []
    if ranks == 1 and not in_place:
        steps.append(step(0, "cpy", src=("i", chunk(0)), dst=("o", chunk(0))))
    if ranks > 1:
        steps.append(step(0, "s", src=("i", chunk(0))))
        steps += [step(j, "rrs", src=("i", chunk(j))) for j in range(1, ranks - 1)]
        steps.append(step(ranks - 1, "rrcs", src=("i", chunk(ranks - 1)), dst=(out, chunk(ranks - 1))))
        steps += [step(ranks - 1 + j, "rcs", dst=(out, chunk(j - 1))) for j in range(1, ranks - 1)]
        steps.append(step(2 * ranks - 2, "r", dst=(out, chunk(ranks - 2))))
    return ThreadBlock(
        id=channel,
        send=(rank + 1) % ranks if ranks > 1 else None,
        recv=(rank - 1) % ranks if ranks > 1 else None,
        channel=channel,
        steps=steps,
    )
