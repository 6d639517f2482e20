"""Defaults on random experiments: whatever is chosen for faster links, a run is not slower with them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any, Final, get_args

import pytest

import syncline
from syncline.base.collective_names import Name as Kind
from syncline.base.errors import InputError

SLOWER: Final = 1.02
ENDPOINTS: Final = ("ideal", "streams", {"kind": "baseline", "comm_sms": 6, "comm_memory_bandwidth": "450GB/s"}, None)
LARGEST: Final = {"flow": 8.0, "analytical": 8.0, "packet": 5.5}
"""Bytes of a collective, as a power of ten."""


def product(dice: random.Random) -> str:
    """A product of one or two dimensions, with places for the rate."""
    dims = [
        f"{dice.choice(['Ring', 'Switch', 'FullyConnected'])}({dice.choice([2, 3, 4, 5, 8])}, rate=RATEGB/s, "
        f"latency={dice.choice(['100ns', '500ns', '5us'])})"
        for _ in range(dice.choice([1, 2]))
    ]
    return "_".join(dims)


def collectives(seed: int, count: int) -> Iterator[tuple[dict[str, Any], float]]:
    """Collectives of any kind and size, with endpoints and backends, and the rate of links in GB/s."""
    dice = random.Random(seed)
    for _ in range(count):
        backend = dice.choice([*LARGEST])
        size = int(10 ** dice.uniform(3, LARGEST[backend]))
        experiment: dict[str, Any] = {"name": "a", "topology": product(dice), "network": backend}
        experiment["workload"] = {"collective": dice.choice(get_args(Kind)), "size": f"{size}B"}
        endpoint = dice.choice(ENDPOINTS)
        yield experiment if endpoint is None else experiment | {"endpoint": endpoint}, 10 ** dice.uniform(0, 2.5)


def trainings(seed: int, count: int) -> Iterator[tuple[dict[str, Any], float]]:
    """Trainings with strategies, and the rate of links in GB/s."""
    dice = random.Random(seed)
    sizes = {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 512, "positions": 64}
    for _ in range(count):
        eight = dice.choice(
            ["Ring(8, rate=RATEGB/s)", "Switch(8, rate=RATEGB/s)", "Ring(4, rate=RATEGB/s)_Ring(2, rate=RATEGB/s)"]
        )
        workload = dice.choice(
            [{"model": "resnet18", "batch": 2}, {"model": "gpt2", "parameters": sizes, "global_batch": 16}]
        )
        experiment: dict[str, Any] = {"name": "a", "topology": eight, "network": "flow", "workload": workload}
        if "global_batch" in workload:
            experiment["parallel"] = dice.choice([{}, {"zero": 1}, {"zero": 3}, {"tensor": 2}, {"pipeline": 2}])
        yield experiment, 10 ** dice.uniform(0, 2.5)


def time_s(experiment: dict[str, Any], rate: float) -> float | None:
    """Seconds of a run with links of so many GB/s; nothing if it is refused."""
    topology = experiment["topology"].replace("RATE", f"{rate:.3f}")
    try:
        return float(syncline.run(experiment | {"topology": topology}).document["runs"][0]["total_time_s"])
    except InputError:
        return None


@pytest.mark.parametrize("experiments", [collectives, trainings])
def test_links_of_twice_the_rate_do_not_slow_a_run(experiments: Any) -> None:
    compared = 0
    for experiment, rate in experiments(seed=5, count=15):
        slow, fast = time_s(experiment, rate), time_s(experiment, 2 * rate)
        if slow is None or fast is None:
            assert slow is fast
            continue
        compared += 1
        assert fast <= SLOWER * slow, (experiment, rate)
    assert compared > 8


@pytest.mark.parametrize("rates", [(5, 7, 10, 14)])
def test_a_small_all_reduce_by_streams(rates: tuple[int, ...]) -> None:
    """What default chunks made 1.9 times as long with links of 7 GB/s as with 5 GB/s."""
    experiment: dict[str, Any] = {"name": "a", "topology": "Ring(3, rate=RATEGB/s)", "network": "flow"}
    experiment |= {"workload": {"collective": "all-reduce", "size": "100kB"}, "endpoint": "streams"}
    times = [time_s(experiment, rate) for rate in rates]
    assert all(fast <= SLOWER * slow for slow, fast in itertools.pairwise(times) if slow and fast)
