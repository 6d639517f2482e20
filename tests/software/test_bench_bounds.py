"""Predicted times against the lower bound of the same collective on the graph of the same machine.

What no schedule can beat, no prediction may beat: the bound is that of `syncline collective`, computed by the engine.
Behind switches that add and copy (NVLS) it is that of collectives in such switches.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.base.document import read
from syncline.engine import runs as engine
from syncline.experiment.load import load
from syncline.fabric.machines import MACHINES
from syncline.nccl import model, wire
from syncline.nccl.platform import NAMES, Platform, platform

KINDS = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all", "gather", "scatter")
SIZES = (8, 2**16, 2**20, 2**26, 2**30, 2**34)
MOST_GPUS = 64


@lru_cache(maxsize=512)
def bound(machine: str, gpus: tuple[int, ...], kind: str, size: int, *, offload: bool) -> float:
    """Seconds."""
    algorithm = "direct" if kind in ("all-to-all", "gather", "scatter") else "ring"
    endpoint = "{kind: switch-offload, comm_sms: 8, comm_memory_bandwidth: 450GB/s}" if offload else "{kind: ideal}"
    text = f"""
name: bound
topology: '{machine}'
gpus: '{",".join(map(str, gpus))}'
network: {{backend: analytical}}
endpoint: {endpoint}
collective: {{algorithm: {"hierarchical" if offload else algorithm}}}
workload: {{collective: {kind}, size: {size}B}}
"""
    study = load(read(text, "bounds.yaml"), "bounds.yaml", Path(), [])
    return engine.preview(study.variants[0]).lower_bound_ps / engine.PS_PER_S


def holds(where: Platform, kind: str, size: int) -> None:
    """Asserts that the predicted time is not below the bound."""
    predicted = model.open_model(where, kind=kind)
    offload = bool({wire.NVLS, wire.NVLS_TREE} & set(model.algorithms(where, kind)))
    least = bound(where.machine, where.members, kind, size, offload=offload)
    assert predicted.time(size) >= least, (where.machine, where.members, kind, size)


@st.composite
def platforms(draw: st.DrawFn) -> Platform:
    """Some GPUs, as many on every node, of a machine or a cluster."""
    name = draw(st.sampled_from([name for name in NAMES if MACHINES[name].gpus <= MOST_GPUS]))
    each = MACHINES[name].gpus
    nodes = draw(st.sampled_from((1, 1, 2, 3, 4)))
    nics = draw(st.sampled_from(("rail", "single")))
    count = draw(st.integers(1 if nodes > 1 else 2, each))
    gpus = [node * each + gpu for node in range(nodes) for gpu in sorted(draw(st.permutations(range(each)))[:count])]
    text = name if nodes == 1 else f"{name}(nodes={nodes}, nics={nics})"
    return platform(text, ",".join(map(str, gpus)))


@settings(max_examples=150, deadline=None)
@given(platforms(), st.sampled_from(KINDS), st.sampled_from(SIZES))
def test_no_time_is_below_the_bound(where: Platform, kind: str, size: int) -> None:
    holds(where, kind, size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_whole_machines(name: str, kind: str) -> None:
    for size in (2**20, 2**30):
        holds(platform(name), kind, size)


def test_an_all_to_all_of_a_mesh_waits_for_the_links_between_its_halves() -> None:
    """1 GiB on a DGX-1V: a quarter of a half of it, each way, over six links."""
    least = bound("dgx1v", tuple(range(8)), "all-to-all", 2**30, offload=False)
    assert least == pytest.approx(2**31 / (6 * 25e9 + 6e9), rel=0.01)
    assert model.open_model(platform("dgx1v"), kind="all-to-all").time(2**30) > 2**31 / (6 * 25e9)
