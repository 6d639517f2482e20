"""Groups as text: what is read, what is refused, and the shape of their ranks."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.fabric import groups, topologies
from syncline.fabric.groups import GroupError


def named(members: groups.Members) -> tuple[tuple[int, ...], ...]:
    """The members of each group."""
    return tuple(tuple(group) for group in members)


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("0-3;4-7", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("3,1,0", ((3, 1, 0),)),
        ("0-6:3;1-7:3;", ((0, 3, 6), (1, 4, 7))),
        ("size 4", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("stride 4", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("size 2 stride 2", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("size 1", tuple((npu,) for npu in range(8))),
        ("size 8", (tuple(range(8)),)),
        (" 5 ", ((5,),)),
    ],
)
def test_forms(text: str, members: groups.Members) -> None:
    assert named(groups.parse(text, 8)) == members


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the list of groups is empty"),
        (";", "in group 0: a member is missing"),
        ("0,;1", "in group 0: a member is missing"),
        ("0-1;8", "in group 1: there is no NPU 8"),
        ("3-1", "runs backwards"),
        ("0-4:0", "step of zero"),
        ("0;0", "NPU 0 is in group 0 and in group 1"),
        ("1,1", "NPU 1 is twice in group 0"),
        ("0,1;2", "group 0 has 2 members, group 1 has 1"),
        ("size 3", "8 NPUs are not a multiple of 3"),
        ("stride 16", "8 NPUs are not a multiple of 16"),
        ("size 0", "1 or more"),
        ("stride 2 size 2", "neither a number nor a range"),
        ("0;" * 2**20, "longer than"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(GroupError, match=said):
        groups.parse(text, 8)


@given(members=st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True))
def test_a_group_is_written_and_read_back(members: list[int]) -> None:
    assert named(groups.parse(groups.canonical(members), 61)) == (tuple(members),)


@given(text=st.text(alphabet="0123456789-:,; sizetrd", max_size=20), npus=st.integers(1, 40))
def test_whatever_the_text(text: str, npus: int) -> None:
    try:
        members = groups.parse(text, npus)
    except GroupError as error:
        assert error.message
        assert error.accepted
    else:
        named = [npu for group in members for npu in group]
        assert len(named) == len(set(named))
        assert max(named) < npus
        assert len({len(group) for group in members}) == 1


@pytest.mark.parametrize(
    ("fabric", "gpus", "grouping", "grid"),
    [
        ("Ring(4)_Ring(8)", None, None, [4, 8]),
        ("Ring(4)_Ring(8)", None, "size 4", [4]),
        ("Ring(4)_Ring(8)", None, "size 8", [4, 2]),
        ("Ring(4)_Ring(8)", None, "stride 4", [8]),
        ("Ring(4)_Ring(8)", None, "stride 2", [2, 8]),
        ("Ring(4)_Ring(8)", None, "0-3", [4]),
        ("Ring(4)_Ring(8)", None, "0,1,5,4", [4]),
        ("Ring(4)_Ring(8)", None, "0,1,4,5", [2, 2]),
        ("Ring(4)_Ring(8)", None, "0-1;4,8", [2]),
        ("Ring(1)", None, "0", [1]),
        ("dgx-a100", None, None, [8]),
        ("dgx-a100(nodes=2)", None, None, [8, 2]),
        ("dgx-a100(nodes=4)", "0-3,8-11", None, [4, 2]),
        ("dgx-a100(nodes=4)", "0-3,8-10", None, [7]),
        ("dgx-a100(nodes=4)", "0,8,16", None, [3]),
        ("dgx-a100(nodes=4)", None, "size 8", [8]),
        ("dgx-a100(nodes=4)", None, "stride 8", [4]),
        ("dgx-a100(nodes=4)", None, "stride 2", [4, 4]),
        ("dgx-a100(nodes=4)", None, "0-3,8-11;16-23", [8]),
    ],
)
def test_the_shape_of_ranks(fabric: str, gpus: str | None, grouping: str | None, grid: list[int]) -> None:
    parsed = topologies.parse(fabric)
    assert topologies.grid(parsed, topologies.members(parsed, gpus, grouping)) == grid


def test_everybody_in_order_is_no_group() -> None:
    fabric = topologies.parse("Torus(4,2)")
    assert topologies.members(fabric, None, "0-7") is None
    assert topologies.members(fabric, None, "size 8") is None
    assert topologies.members(fabric, None, "7,0-6") is not None


def test_what_an_allocation_can_send_goes_to_its_members() -> None:
    machine = topologies.parse("dgx1v")
    assert machine.fastest >= machine.egress_rate > 6 * 25 * 10**9
    pair = machine.narrowed(topologies.members(machine, "0,1", None))
    alone = machine.narrowed(topologies.members(machine, "0", None))
    assert pair.egress_rate - alone.egress_rate == 25 * 10**9


def test_groups_of_millions_are_read_or_refused_without_listing_their_members() -> None:
    npus = 2**26
    began = time.process_time()
    ring = topologies.parse(f"Ring({npus})")
    for everybody in (f"0-{npus - 1}", f"size {npus}", f" 0 - {npus - 1} : 1;"):
        assert topologies.members(ring, None, everybody) is None
    assert groups.canonical(range(npus)) == f"0-{npus - 1}"
    for text in (";".join([f"0-{npus - 1}"] * 4), f"1-{npus - 1}", "size 2", f"0-{npus - 2},{npus - 1}"):
        with pytest.raises(GroupError, match="more than 1048576") as refused:
            groups.parse(text, npus)
        assert "up to 1048576" in refused.value.accepted
    assert time.process_time() - began < 1
