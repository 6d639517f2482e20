"""The micro-benchmarks of Blink (Wang et al., MLSys 2020; Figs. 6, 8, 23 and 25) as schedules of one chunk.

`collective.loops` says over how many chunks a run of one pipelines. Each is a collective that can be verified and run:

* *forward* along a chain is a broadcast from its first GPU, *reduce+forward* a reduce to its last one,
  *reduce-broadcast* an all-reduce, up the chain and down again. (In Fig. 23 the last GPU of a reduce+forward has no
  data of its own. As the root of a reduce it has, and runs a kernel for each chunk where it would wait for an event.)
* *MCA*: two chains of three that reduce towards the same GPU are a reduce to the GPU in the middle of five.
* *fan-in* is a gather or a reduce, *fan-out* a broadcast, through a GPU in between. In a fan-in, that GPU has data of
  its own.

MIMO, whose two chains have different data and different ends, is none: it is two reductions side by side, of two
communicators that share the GPU in the middle, and so is a graph (`mimo`).

The baseline of Fig. 22a is a schedule, too (`horovod`).

    python -m lab.blink_plans      # writes the files in experiment/packaged/blink/plans
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from syncline.experiment import packaged as studies
from syncline.plans.plan import FORMAT, VERSION, Dependency, Plan, Rank, Step, ThreadBlock, dumps, step

FOLDER: Final = studies.FOLDER / "blink" / "plans"
DEPTHS: Final = range(3, 9)
"""GPUs of a chain."""
BREADTHS: Final = (1, 2, 3)
"""Sources or destinations of the breadth tests."""
MIMO_GPUS: Final = ((1, 0, 3), (2, 0, 4))
"""The two chains on a DGX-1V, whose GPU 0 has NVLinks to 1, 2, 3 and 4."""

HOROVOD_PARTS: Final = 16
"""Parts that follow one another along the ring of a server, where NCCL has slots that are smaller."""
HOROVOD: Final[Mapping[str, tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]]] = MappingProxyType(
    {
        "horovod-3-5": (((0, 1, 2), (0, 2, 1)), ((3, 4, 5, 6, 7),)),
        "horovod-3-5-rings": (((0, 1, 2), (0, 2, 1)), ((3, 5, 4, 7, 6), (3, 6, 7, 4, 5))),
    }
)
"""The ranks of either server as NCCL's rings have them, from the local root. GPUs 0 to 2 of a DGX-1V have a ring of
NVLinks, which leads around both ways. Of GPUs 0 to 4, GPU 4 has NVLinks to GPU 0 only, so that the ring goes along the
ranks; GPUs 0, 1, 2, 4, 5 have the ring 0, 2, 1, 5, 4.
"""

MIMO: Final = (100_000_000, 9)
"""Bytes of each chain, and the chunks that are best for them."""


def forward(gpus: int) -> Plan:
    """A broadcast along a chain from rank 0."""
    last = gpus - 1

    def of(rank: int) -> list[ThreadBlock]:
        sends, receives = rank < last, rank > 0
        if not receives:
            return [_block(0, [step(0, "s", src=("i", 0))], send=1)]
        return [_block(0, [step(0, "rcs" if sends else "r", dst=("o", 0))], rank + 1 if sends else None, rank - 1)]

    return _plan(f"blink-forward-{gpus}", "broadcast", [of(rank) for rank in range(gpus)], root=0)


def reduce_forward(gpus: int) -> Plan:
    """A reduce along a chain to the last rank."""
    return _plan(f"blink-reduce-forward-{gpus}", "reduce", [[_up(rank, gpus)] for rank in range(gpus)], root=gpus - 1)


def reduce_broadcast(gpus: int) -> Plan:
    """An all-reduce: up a chain, and down on the other directions of its links."""
    last = gpus - 1

    def of(rank: int) -> list[ThreadBlock]:
        if rank == last:
            return [_block(0, [step(0, "rrcs", src=("i", 0), dst=("i", 0))], last - 1, last - 1)]
        back = step(0, "rcs" if rank else "r", dst=("i", 0))
        return [_up(rank, gpus), _block(1, [back], rank - 1 if rank else None, rank + 1)]

    return _plan(f"blink-reduce-broadcast-{gpus}", "allreduce", [of(rank) for rank in range(gpus)])


def multi_chain_aggregation() -> Plan:
    """Ranks 0, 1 and 4, 3 reduce towards rank 2, which adds what comes from either side."""
    chain = [[_up(0, 3)], [_up(1, 3)]]
    other = [[_block(0, [_reduced("rrs")], send=2, recv=4)], [_block(0, [step(0, "s", src=("i", 0))], send=3)]]
    merges = [_block(0, [_reduced("rrc")], recv=1), _block(1, [_after(_reduced("rrc"), 0)], recv=3)]
    return _plan("blink-mca", "reduce", [*chain, merges, *other], root=2)


def fan_in_reduce(sources: int) -> Plan:
    """Sources send to a centre, which adds their data to its own and sends the sum to the root."""
    centre, root = sources, sources + 1

    def merge(source: int) -> ThreadBlock:
        is_last = source == sources - 1
        own = _reduced("rrs" if is_last else "rrc")
        return _block(source, [_after(own, source - 1) if source else own], root if is_last else None, source)

    ranks = [[_block(0, [step(0, "s", src=("i", 0))], send=centre)] for _ in range(sources)]
    ranks += [[merge(source) for source in range(sources)], [_block(0, [_reduced("rrc")], recv=centre)]]
    return _plan(f"blink-fan-in-reduce-{sources}", "reduce", ranks, root=root)


def fan_in_forward(sources: int) -> Plan:
    """Sources send to a centre, which sends its own data and theirs to the root."""
    centre, root = sources, sources + 1
    blocks = [_block(source, [step(0, "r", dst=("s", source))], recv=source) for source in range(sources)]
    onward = [_after(step(source + 1, "s", src=("s", source)), source) for source in range(sources)]
    blocks.append(_block(sources, [step(0, "s", src=("i", 0)), *onward], send=root))
    taken = [step(number, "r", dst=("o", rank)) for number, rank in enumerate([centre, *range(sources)])]
    ranks = [[_block(0, [step(0, "s", src=("i", 0))], send=centre)] for _ in range(sources)]
    sizes = {rank: (1, 0, sources if rank == centre else 0) for rank in range(root)} | {root: (1, sources + 2, 0)}
    return _plan(
        f"blink-fan-in-forward-{sources}", "gather", [*ranks, blocks, [_block(0, taken, recv=centre)]], root, sizes
    )


def fan_out_forward(destinations: int) -> Plan:
    """Rank 0 sends to rank 1, which passes that on to all others, over a stream each."""
    there = range(destinations)
    sends = [_block(to + 1, [_after(step(0, "s", src=("o", 0)), 0)], send=to + 2) for to in there]
    ranks = [
        [_block(0, [step(0, "s", src=("i", 0))], send=1)],
        [_block(0, [step(0, "r", dst=("o", 0))], recv=0), *sends],
        *([_block(0, [step(0, "r", dst=("o", 0))], recv=1)] for _ in there),
    ]
    return _plan(f"blink-fan-out-{destinations}", "broadcast", ranks, root=0)


def horovod(name: str, servers: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]) -> Plan:
    """An all-reduce over two servers as Horovod's hierarchical one has it, if these have different numbers of GPUs.

    Either server reduces to a local root, the local roots all-reduce, and either server broadcasts, one after the
    other. `servers` has the rings of each server, from its local root; rings of a server share the vector. Horovod
    (`common/ops/nccl_operations.cc`): unless all servers have as many GPUs, NCCL reduces all data to local rank 0, MPI
    all-reduces among these, and NCCL broadcasts. Here, each of the two local roots adds up a half and sends it back.
    """
    blocks: list[list[ThreadBlock]] = [[] for _ in range(sum(len(rings[0]) for rings in servers))]
    roots = [rings[0][0] for rings in servers]
    half = HOROVOD_PARTS // 2
    reduced: dict[tuple[int, int], tuple[int, int]] = {}

    def add(rank: int, steps: list[Step], send: int | None, recv: int | None, channel: int = 0) -> int:
        made = _block(len(blocks[rank]), steps, send, recv)
        made["channel"] = channel
        blocks[rank].append(made)
        return len(blocks[rank]) - 1

    def shares(rings: Sequence[Sequence[int]]) -> list[tuple[int, Sequence[int], range]]:
        each = HOROVOD_PARTS // len(rings)
        return [(number, ring, range(number * each, (number + 1) * each)) for number, ring in enumerate(rings)]

    for rings in servers:
        for channel, ring, parts in shares(rings):
            for place, rank in enumerate(ring):
                before = ring[place + 1] if place + 1 < len(ring) else None
                kind = "rrc" if place == 0 else "s" if before is None else "rrs"
                steps = [
                    step(at, kind, src=("i", part), dst=("i", part) if place == 0 else None)
                    for at, part in enumerate(parts)
                ]
                block = add(rank, steps, ring[place - 1] if place else None, before, channel)
                if place == 0:
                    reduced.update({(rank, part): (block, at) for at, part in enumerate(parts)})
    for own, root in enumerate(roots):
        peer, mine, theirs = roots[1 - own], own * half, (1 - own) * half
        sends, takes = len(blocks[root]), len(blocks[root]) + 1
        out = [step(0, "s", src=("i", theirs), count=half), step(1, "s", src=("i", mine), count=half)]
        into = [
            step(0, "rrc", src=("i", mine), dst=("i", mine), count=half),
            step(1, "r", dst=("i", theirs), count=half),
        ]
        _after(out[0], *reduced[root, theirs + half - 1])
        _after(into[0], *reduced[root, mine + half - 1])
        _after(out[1], takes)
        _after(into[1], sends)
        add(root, out, peer, None)
        add(root, into, None, peer)
        for channel, ring, parts in shares(servers[own]):
            for place, rank in enumerate(ring):
                onward = ring[place + 1] if place + 1 < len(ring) else None
                kind = "s" if place == 0 else "r" if onward is None else "rcs"
                steps = [
                    step(at, kind, src=("i", part)) if place == 0 else step(at, kind, dst=("i", part))
                    for at, part in enumerate(parts)
                ]
                if place == 0:
                    _after(steps[0], takes, 1)
                add(rank, steps, onward, ring[place - 1] if place else None, channel)
    every = (HOROVOD_PARTS, HOROVOD_PARTS, 0)
    return _plan(name, "allreduce", blocks, sizes=dict.fromkeys(range(len(blocks)), every))


def mimo(size: int, chunks: int, chains: Sequence[Sequence[int]] = MIMO_GPUS) -> dict[str, Any]:
    """Two chains that reduce towards their last GPUs at the same time, as a graph file."""
    own = {"algorithm": "ring", "lanes": "one", "slices": chunks, "chunks": 1}
    names = [f"chain {number}" for number in range(len(chains))]
    families = {
        name: {"members": {"groups": [list(chain)]}, "collective": own}
        for name, chain in zip(names, chains, strict=True)
    }
    of_gpu: dict[int, list[str]] = {}
    for name, chain in zip(names, chains, strict=True):
        for gpu in chain:
            of_gpu.setdefault(gpu, []).append(name)

    def reduce(name: str) -> dict[str, Any]:
        root = len(chains[names.index(name)]) - 1
        return {"name": name, "collective": {"family": name, "kind": "reduce", "size": f"{size}B", "root": root}}

    classes = {f"GPU {gpu}": {"npus": [gpu], "nodes": [reduce(name) for name in of_gpu[gpu]]} for gpu in sorted(of_gpu)}
    return {"families": families, "classes": classes}


def plans() -> dict[str, str]:
    """The files, by name, with what is in them."""
    chains = [make(gpus) for make in (forward, reduce_forward, reduce_broadcast) for gpus in DEPTHS]
    breadths = [make(count) for make in (fan_in_forward, fan_in_reduce, fan_out_forward) for count in BREADTHS]
    servers = [horovod(name, rings) for name, rings in HOROVOD.items()]
    every = [*chains, multi_chain_aggregation(), *breadths, *servers]
    files = {f"{plan['name'].removeprefix('blink-')}.json": dumps(plan) for plan in every}
    return files | {"mimo.json": json.dumps(mimo(*MIMO), indent=1) + "\n"}


def _up(rank: int, gpus: int) -> ThreadBlock:
    """What a rank of a chain does that reduces towards its end."""
    if rank == 0:
        return _block(0, [step(0, "s", src=("i", 0))], send=1)
    is_last = rank == gpus - 1
    return _block(0, [_reduced("rrc" if is_last else "rrs")], None if is_last else rank + 1, rank - 1)


def _reduced(kind: str) -> Step:
    """A step that adds what comes to the chunk of the rank, and keeps the sum if that is its kind."""
    return step(0, kind, src=("i", 0), dst=("i", 0) if kind == "rrc" else None)


def _after(made: Step, block: int, at: int = 0) -> Step:
    """The same step, once a step of another thread block is done, the first one if nothing is said."""
    made["depends_on"] = Dependency(thread_block=block, step=at)
    return made


def _block(number: int, steps: list[Step], send: int | None = None, recv: int | None = None) -> ThreadBlock:
    return ThreadBlock(id=number, send=send, recv=recv, channel=0, steps=steps)


def _plan(
    name: str,
    collective: str,
    ranks: Sequence[list[ThreadBlock]],
    root: int | None = None,
    sizes: Mapping[int, tuple[int, int, int]] | None = None,
) -> Plan:
    """A schedule in place, of one chunk unless ranks have other sizes of input, output and scratch."""
    for blocks in ranks:
        for made in (made for block in blocks for made in block["steps"]):
            on = made.get("depends_on")
            if on is not None:
                blocks[on["thread_block"]]["steps"][on["step"]]["has_dependents"] = True
    of = sizes or {}

    def rank_of(number: int, blocks: list[ThreadBlock]) -> Rank:
        given, made, scratch = of.get(number, (1, 1, 0))
        return Rank(
            id=number, input_chunks=given, output_chunks=made, scratch_chunks=scratch, thread_blocks=list(blocks)
        )

    plan = Plan(
        format=FORMAT,
        version=VERSION,
        name=name,
        collective=collective,
        in_place=True,
        protocol="Simple",
        ranks=[rank_of(number, blocks) for number, blocks in enumerate(ranks)],
    )
    if root is not None:
        plan["root"] = root
    return plan


def write(folder: Path = FOLDER) -> None:
    """Writes the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in plans().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
