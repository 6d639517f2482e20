"""What `auto` chooses against every algorithm by name, run one after the other."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Final, get_args

import pytest

from support.experiments import study
from support.registry import ENDPOINTS, EXACT, WITHOUT_PACKETS
from syncline.base.collective_names import Name as Kind
from syncline.base.errors import InputError, SimulationFailedError
from syncline.engine import choice, trials
from syncline.engine import runs as engine
from syncline.sections.algorithms import Algorithm

NAMES: Final = [name for name in get_args(Algorithm) if name != "auto"]
WORSE: Final = trials.GAIN
DLRM: Final = (
    'name: a\ntopology: "dgx-h100(nodes=2, nics={nics})"\nworkload: {{model: dlrm, batch: 64}}\nnetwork: flow\n'
    "training: {{iterations: 1}}\n"
    "collective: {{chunk: 16MiB, algorithm: ALGORITHM, algorithms: {{all-to-all: {own}}}}}\n"
)


@pytest.fixture(autouse=True)
def nothing_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_settled", {})


def time_of(text: str, algorithm: str) -> int | None:
    """Picoseconds with an algorithm; nothing if it cannot be carried out."""
    try:
        (variant,) = choice.settled(study(text.replace("ALGORITHM", algorithm))).variants
        return int(engine.run(variant).summary["total_ps"])
    except (InputError, SimulationFailedError):
        return None


def ratio(text: str) -> float:
    """What `auto` takes over what the fastest algorithm by name takes; 1 where none can be carried out."""
    named = [time for name in NAMES if (time := time_of(text, name)) is not None]
    taken = time_of(text, "auto")
    if not named:
        assert taken is None, text
        return 1.0
    assert taken is not None, text
    return taken / max(1, min(named))


def product(dice: random.Random) -> str:
    """A product of one to three dimensions, or a torus of which groups are made."""
    dims = [
        f"{dice.choice(['Ring', 'Ring', 'FullyConnected', 'Switch'])}({dice.choice([2, 3, 4, 5, 8])}, "
        f"rate={dice.choice([5, 25, 50, 200])}GB/s, latency={dice.choice(['0ns', '100ns', '500ns', '5us'])}, "
        f"links={dice.choice([1, 1, 2])})"
        for _ in range(dice.choice([1, 1, 2, 2, 3]))
    ]
    return f'topology: "{"_".join(dims)}"\n'


def torus_with_groups(dice: random.Random) -> str:
    return f'topology: "Ring({dice.choice([4, 6])})_Ring({dice.choice([2, 4])})"\ngroups: size {dice.choice([2, 4])}\n'


def machine(dice: random.Random) -> str:
    gpus = ",".join(map(str, sorted(dice.sample(range(8), dice.choice([2, 3, 4, 6, 8])))))
    return f'topology: {dice.choice(["dgx1p", "dgx1v", "dgx2", "dgx-a100", "dgx-h100"])}\ngpus: "{gpus}"\n'


def cluster(dice: random.Random) -> str:
    nodes, nics = dice.choice([2, 3, 4]), dice.choice(["rail", "single"])
    return f'topology: "{dice.choice(["dgx1v", "dgx-a100", "dgx-h100"])}(nodes={nodes}, nics={nics})"\n'


def cases(count: int, seed: int, backends: Sequence[str] = EXACT, largest: float = 8.4) -> Iterator[str]:
    """Collectives on random fabrics, as texts of experiments; of at most so many bytes, a power of ten."""
    dice = random.Random(seed)
    for _ in range(count):
        backend = dice.choice(backends)
        size = int(10 ** dice.uniform(3, min(largest, 6.5 if backend not in WITHOUT_PACKETS else 8.4)))
        cut = dice.choice(["chunks: 1, lanes: split", "chunks: 1", "chunks: 16, inflight: 4"])
        yield (
            f"name: a\n{dice.choice([product, torus_with_groups, machine, cluster])(dice)}network: {backend}\n"
            f"workload: {{collective: {dice.choice(get_args(Kind))}, size: {size}B}}\n"
            f"endpoint: {dice.choice(list(ENDPOINTS.values()))}\ncollective: {{algorithm: ALGORITHM, {cut}}}\n"
        )


def test_auto_is_as_fast_as_any_algorithm_by_name() -> None:
    for text in cases(30, seed=20):
        assert ratio(text) <= WORSE, text


def test_auto_is_as_fast_where_a_transport_takes_time() -> None:
    for text in cases(12, seed=22, backends=("ethernet",), largest=5):
        assert ratio(text) <= WORSE, text


def test_auto_is_as_fast_where_each_algorithm_has_its_own_chunks() -> None:
    for text in cases(12, seed=23, backends=("flow",)):
        stated = re.search(r"ALGORITHM, (.*)}", text)
        assert stated is not None
        opened = text.replace(f", {stated[1]}", "")
        assert ratio(opened) <= WORSE, opened


def test_chunks_that_balance_the_dimensions_of_a_torus_are_found() -> None:
    """One chunk goes through the dimensions in one order, and leaves most links idle; many of them use all."""
    text = 'name: a\ntopology: "Torus(4,8,4)"\nworkload: {collective: all-reduce, size: 64MB}\n'
    (variant,) = choice.settled(study(f"{text}collective: {{algorithm: auto}}\n")).variants
    assert variant.choice is not None
    assert variant.choice.chosen == "themis"
    summary = engine.run(variant).summary
    assert summary["total_ps"] < 1.05 * summary["lower_bound_ps"]


@pytest.mark.parametrize("nics", ["rail", "single"])
def test_auto_is_as_fast_for_training_whose_kinds_have_algorithms_of_their_own(nics: str) -> None:
    text = DLRM.format(nics=nics, own="direct")
    assert ratio(text) <= WORSE
    both = time_of(DLRM.format(nics=nics, own="auto"), "auto")
    assert both is not None
    assert both <= min(t for name in NAMES if (t := time_of(text, name)) is not None)


def test_what_is_too_costly_to_be_run_is_still_among_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fraction of the work estimates decide, and are hardly ever wrong by more than they say."""
    monkeypatch.setattr(trials, "WORK", trials.WORK // 40)
    ratios = sorted(ratio(text) for text in cases(20, seed=21))
    assert ratios[len(ratios) // 2] <= WORSE
    assert ratios[-2] <= trials.MARGIN, ratios
    assert ratios[-1] <= 2 * trials.MARGIN, ratios


def test_attempts_end_where_they_are_told_to() -> None:
    variant = study(
        "name: a\ntopology: Torus(4,4)\nworkload: {collective: all-reduce, size: 1MB}\nnetwork: packet\n"
        "collective: {algorithm: six-phase}\n"
    ).variants[0]
    whole = engine.attempt(variant)
    summary = engine.run(variant).summary
    assert (whole.ending, whole.time_ps, whole.events) == ("complete", summary["total_ps"], summary["events"])
    assert engine.attempt(variant, most_ps=whole.time_ps).ending == "complete"
    assert engine.attempt(variant, most_ps=whole.time_ps - 1).ending == "late"
    costly = engine.attempt(variant, most_work=whole.work // 2)
    assert costly.ending == "costly"
    assert costly.time_ps < whole.time_ps
    assert 0 < costly.delivered_bytes < whole.delivered_bytes
