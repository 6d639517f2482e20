"""Compositions over the GPUs of a server and the servers: what they do in each, and how good they are."""

from __future__ import annotations

import pytest

from support.experiments import study
from syncline.engine import choice
from syncline.engine import runs as engine
from syncline.experiment.load import Variant


def variant(topology: str, collective: str, size: str, algorithm: str, more: str = "") -> Variant:
    """A single collective on the flow backend."""
    text = f'name: a\ntopology: "{topology}"\nworkload: {{collective: {collective}, size: {size}}}\nnetwork: flow\n'
    (found,) = choice.settled(study(f"{text}collective: {{algorithm: {algorithm}}}\n{more}")).variants
    return found


@pytest.mark.parametrize(
    ("topology", "more", "steps"),
    [
        ("dgx-h100(nodes=4)", "", 1 + 1),  # behind NVSwitches, and on rails
        ("dgx1v", "", 7),  # some pairs have no NVLink
        ("dgx1v(nodes=3)", "", 7 + 1),
        ("dgx1v", 'gpus: "0-3"\n', 1),  # every pair has a link of its own
        ("dgx2", 'gpus: "1,3,6,9,12"\n', 1),
        ("LeafSpine(leaves=4, hosts=4, spines=1)", "", 1),
    ],
)
def test_ranks_exchange_directly_where_that_loads_no_link_longer(topology: str, more: str, steps: int) -> None:
    """A ring of n ranks has n - 1 steps, a direct exchange has one."""
    assert engine.preview(variant(topology, "all-gather", "1MB", "hierarchical", more)).steps == steps


def test_stated_algorithms_of_dimensions_win() -> None:
    text = 'name: a\ntopology: "dgx-h100(nodes=4)"\nworkload: {collective: all-gather, size: 1MB}\n'
    (stated,) = study(f"{text}collective: {{algorithm: hierarchical, per_dimension: [ring, direct]}}\n").variants
    assert engine.preview(stated).steps == 7 + 1


@pytest.mark.parametrize(
    ("collective", "size", "nodes", "most_us"),
    [("all-reduce", "300kB", 8, 8), ("all-reduce", "1MB", 16, 10), ("all-gather", "1MB", 16, 7)],
)
def test_short_collectives_of_many_servers_take_few_latencies(
    collective: str, size: str, nodes: int, most_us: float
) -> None:
    """Halving and doubling, the best of what is flat, takes 20 us and more."""
    found = variant(f"dgx-h100(nodes={nodes})", collective, size, "auto")
    assert found.choice is not None
    time_us = engine.run(found).summary["total_ps"] / 1e6
    assert time_us < most_us
    (predicted,) = [
        entry["predicted_time_s"] for entry in found.choice.candidates if entry["algorithm"] == found.choice.chosen
    ]
    assert predicted * 1e6 == pytest.approx(time_us)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_short_messages_of_a_root_go_along_trees_on_many_servers_too(collective: str) -> None:
    found = variant("dgx-h100(nodes=8)", collective, "300kB", "auto")
    assert found.choice is not None
    assert found.choice.chosen == "packed-trees"
    assert engine.run(found).summary["total_ps"] < 13e6


def test_links_of_a_root_are_busy_for_what_it_sends() -> None:
    """Of 31 copies of 100 MB, 24 leave by or come in through a NIC of 50 GB/s."""
    for collective in ("broadcast", "reduce"):
        preview = engine.preview(variant("dgx-h100(nodes=4)", collective, "100MB", "direct"))
        assert preview.busy_ps == pytest.approx(24 * 100e6 / 50e9 * 1e12, rel=0.1)


@pytest.mark.parametrize(("rate", "times"), [(25, 4), (50, 2)])
def test_uplinks_of_a_leaf_bound_an_all_to_all(rate: int, times: int) -> None:
    """A leaf, 16 of 64 hosts, sends 48/64 of what it has to the others, over all its uplinks."""
    found = variant(
        f"LeafSpine(leaves=4, hosts=16, spines=2, rate={rate}GB/s, oversubscription={times}, efficiency=100%)",
        *("all-to-all", "64MB", "direct"),
    )
    uplinks = 16 * rate * 1e9 / times
    bound = engine.preview(found).lower_bound_ps / 1e12
    assert bound == pytest.approx(16 * 48e6 / uplinks, rel=0.01)
    assert engine.run(found).summary["total_ps"] / 1e12 >= bound
