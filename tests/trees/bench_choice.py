"""Times of `syncline trees` by its parts, on one core: `python -m tests.trees.bench_choice [MACHINE]...`.

Rates and numbers of trees are behaviour and are printed beside the times, which are those of the processor. Machines
are built before the clock starts.
"""

from __future__ import annotations

import resource
import sys
import time

from syncline.fabric import notation
from syncline.treegen import choice, pack, question
from syncline.treegen.packing import Collective

MACHINES = ("dgx1v", "dgx1p", "dgx2", "dgx1v(nodes=8)", "dgx-a100(nodes=8)", "dgx-h100(nodes=32)")
COLLECTIVES: tuple[Collective, ...] = ("broadcast", "all-gather", "all-reduce")


def main(machines: tuple[str, ...]) -> None:
    for machine in machines:
        cluster = notation.parse(machine)
        asked = question.asked(cluster.graph(), tuple(range(cluster.npus)))
        for collective in COLLECTIVES:
            begin = time.process_time()
            packed = pack.of(asked, collective)
            spent = time.process_time() - begin
            links = float(packed.rate / asked.link_unit)
            optimal = packed.rate == packed.best_rate
            print(f"{machine}, {collective}: {links:.4f} links, optimal: {optimal}, packing {spent:.3f} s", end="")
            for objective in choice.OBJECTIVES if collective == "broadcast" else ():
                begin = time.process_time()
                chosen = choice.of(packed, objective, 10**8)
                spent = time.process_time() - begin
                depth = max(tree.depth(packed.arcs) for tree in chosen.trees)
                print(f"; {objective} {spent:.3f} s, {len(chosen.trees)} trees, depth {depth}", end="")
            print(f"; {len(packed.trees)} packed", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory: {peak:.0f} MiB")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or MACHINES)
