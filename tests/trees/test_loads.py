"""How fast messages are that share links: closed forms against a slow sharing of every link."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.treegen import loads, pack, packing
from syncline.treegen.loads import Way
from syncline.treegen.question import Question

NODES = 5
RATES = {(src, dst): 1 + (3 * src + 5 * dst) % 7 for src in range(NODES) for dst in range(NODES) if src != dst}
"""Links that are unequal, either way too."""
ARCS = tuple((src, dst, rate) for (src, dst), rate in RATES.items())
ASKED = Question(tuple(range(NODES)), tuple(range(NODES)), ARCS, 1, "all", others=False)

WAYS = st.dictionaries(
    st.permutations(range(NODES)).flatmap(lambda nodes: st.integers(2, NODES).map(lambda n: tuple(nodes[:n]))),
    st.integers(1, 12).map(Fraction),
    min_size=1,
    max_size=6,
)


def max_min(ways: list[Way]) -> dict[Way, Fraction]:
    """What every connection gets if all grow together, each until a link of its own is full."""
    left = {link: Fraction(rate) for link, rate in RATES.items()}
    found: dict[Way, Fraction] = {}
    growing = set(ways)
    while growing:
        users = {link: [way for way in growing if link in pairwise(way)] for link in left}
        step = min(left[link] / len(each) for link, each in users.items() if each)
        for link, each in users.items():
            left[link] -= step * len(each)
        for way in growing:
            found[way] = found.get(way, Fraction(0)) + step
        growing = {way for way in growing if all(left[link] > 0 for link in pairwise(way))}
    return found


@given(WAYS)
def test_no_connection_has_more_than_its_equal_share_and_one_has_all_of_it(ways: dict[Way, Fraction]) -> None:
    grow = loads.factor(ASKED, ways)
    shares = []
    for link, rate in RATES.items():
        mine = [weight for way, weight in ways.items() if link in pairwise(way)]
        shares += [grow * weight * len(mine) / rate for weight in mine]
    assert max(shares) == 1


@given(WAYS)
def test_full_links_carry_what_is_on_them_and_equal_shares_no_more(ways: dict[Way, Fraction]) -> None:
    grow = loads.together(ASKED, ways)
    carried = {link: sum(weight for way, weight in ways.items() if link in pairwise(way)) for link in RATES}
    assert max(grow * carried[link] / rate for link, rate in RATES.items()) == 1
    assert loads.factor(ASKED, ways) <= grow
    alike = dict.fromkeys(ways, Fraction(3))
    assert loads.factor(ASKED, alike) == loads.together(ASKED, alike)


@given(WAYS)
def test_equal_shares_are_careful_and_exact_for_equal_loads(ways: dict[Way, Fraction]) -> None:
    fair = max_min(list(ways))
    assert loads.factor(ASKED, ways) <= min(fair[way] / weight for way, weight in ways.items())
    alike = dict.fromkeys(ways, Fraction(3))
    assert loads.factor(ASKED, alike) == min(fair[way] / 3 for way in ways)


@pytest.mark.parametrize("kind", ["broadcast", "reduce", "all-gather", "reduce-scatter", "all-reduce"])
def test_trees_at_equal_shares_fit_and_use_a_share_up_where_they_were_too_fast(kind: packing.Collective) -> None:
    packed = pack.of(ASKED, kind)
    assert packed.trees
    before = loads.factor(ASKED, loads.connections(packed, packed.trees))
    found = loads.at_equal_shares(ASKED, packed)
    assert loads.factor(ASKED, loads.connections(found, found.trees)) == max(before, Fraction(1))
    assert found.rate == packed.rate * min(before, Fraction(1))
