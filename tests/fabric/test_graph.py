"""Graphs: what is refused, what is reported, and what the engine gets."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from syncline.fabric.graph import Graph, GraphError, Link, Node, both_ways, checked, components

A, B, SWITCH = Node("A", "npu"), Node("B", "npu"), Node("S", "switch")
UP = Link(0, 2, 1000, 5, "wire")
DOWN = Link(1, 2, 1000, 5, "wire")


def graph(*links: Link, nodes: tuple[Node, ...] = (A, B, SWITCH)) -> Graph:
    """A graph that nobody has looked at."""
    return Graph("test", nodes, links)


def test_a_star() -> None:
    star = checked(graph(*both_ways([UP, DOWN])))
    assert star.warnings == ()
    assert star.specification() == {
        "kind": "graph",
        "npus": 2,
        "nodes": [{"name": "A", "kind": "npu"}, {"name": "B", "kind": "npu"}, {"name": "S", "kind": "switch"}],
        "classes": ["wire"],
        "links": [
            {"from": 0, "to": 2, "rate_bytes_per_s": 1000, "latency_ps": 5, "class": 0},
            {"from": 2, "to": 0, "rate_bytes_per_s": 1000, "latency_ps": 5, "class": 0},
            {"from": 1, "to": 2, "rate_bytes_per_s": 1000, "latency_ps": 5, "class": 0},
            {"from": 2, "to": 1, "rate_bytes_per_s": 1000, "latency_ps": 5, "class": 0},
        ],
    }


@pytest.mark.parametrize(("kind", "rates"), [("NVLink", [70, 70, 70]), ("NVSwitch", [211])])
def test_parallel_links(kind: str, rates: list[int]) -> None:
    links = both_ways([Link(0, 1, 100, 0, kind, 3, Fraction(704, 1000))])
    entries = graph(*links, nodes=(A, B)).specification()["links"]
    assert [entry["rate_bytes_per_s"] for entry in entries if entry["from"] == 0] == rates


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (graph(nodes=(SWITCH,)), "there is no NPU"),
        (graph(nodes=(A, SWITCH, B)), "NPUs must come before everything else"),
        (graph(nodes=(A, replace(B, name="A"))), "two nodes have the same name: A"),
        (graph(Link(0, 0, 1, 0, "x")), "a link leads from A to itself"),
        (graph(Link(0, 7, 1, 0, "x")), "a link leads from node 0 to node 7, but there are 3 nodes"),
        (graph(Link(0, 1, 0, 0, "x")), "the link from A to B has no usable rate, latency or count"),
        (graph(Link(0, 1, 1, -1, "x")), "the link from A to B has no usable rate, latency or count"),
        (graph(Link(0, 1, 1, 0, "x", 0)), "the link from A to B has no usable rate, latency or count"),
        (graph(Link(0, 1, 1, 0, "x", 1, Fraction(1, 2))), "the link from A to B has no usable rate, latency or count"),
        (graph(Link(0, 1, 1, 0, "x", 2**23)), "there are more than 4194304 links"),
    ],
)
def test_refusals(wrong: Graph, message: str) -> None:
    with pytest.raises(GraphError) as refused:
        checked(wrong)
    assert message in refused.value.messages


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(GraphError) as refused:
        checked(graph(Link(0, 0, 1, 0, "x"), Link(0, 1, 0, 0, "x")))
    assert len(refused.value.messages) == 2


def test_links_without_a_way_back_are_reported() -> None:
    lone = checked(graph(UP, *both_ways([DOWN])))
    assert lone.warnings == (
        "links without an equal in the other direction: A to S (wire)",
        "not every NPU reaches every other: A and B do not reach each other",
    )


def test_npus_that_do_not_take_part_do_not_forward() -> None:
    line = graph(*both_ways([Link(0, 1, 1, 0, "x"), Link(1, 2, 1, 0, "x")]), nodes=(A, B, Node("C", "npu")))
    assert components(line, (0, 1, 2)) == [[0, 1, 2]]
    assert components(line, (0, 2)) == [[0], [2]]
    assert components(line, (0, 1, 2), kinds={"y"}) == [[0], [1], [2]]
    assert components(line, ()) == []
