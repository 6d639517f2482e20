"""`syncline.collective` gives what the command gives, and says so in fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from pydantic import ConfigDict, TypeAdapter

import syncline
from support.command import Ended

Command = Callable[..., Ended]
PLAN = Path(__file__).parents[2] / "examples/plans/ring4.xml"


@pytest.mark.parametrize(
    ("flags", "given"),
    [
        (("--topology", "Ring(4)"), {"topology": "Ring(4)"}),
        (
            (
                "--topology",
                "Ring(4)_Ring(2)",
                "--endpoint",
                "ace",
                "--backend",
                "packet",
                "--seed",
                "3",
            ),
            {"topology": "Ring(4)_Ring(2)", "endpoint": "ace", "backend": "packet", "seed": 3},
        ),
        (
            ("--machine", "dgx1v", "--group", "0,1,2,3", "--group", "4,5,6,7", "--algorithm", "ring"),
            {"machine": "dgx1v", "groups": [[0, 1, 2, 3], [4, 5, 6, 7]], "algorithm": "ring"},
        ),
        (
            ("--topology", "Ring(4)", "--plan", str(PLAN), "--set", "npu.sms=20"),
            {"topology": "Ring(4)", "plan": PLAN, "set": {"npu.sms": 20}},
        ),
        (
            ("--machine", "dgx1v", "--gpus", "1,4,5,6", "--slices", "4", "--algorithm", "packed-trees"),
            {"machine": "dgx1v", "gpus": [1, 4, 5, 6], "slices": 4, "algorithm": "packed-trees"},
        ),
    ],
)
def test_equals_the_command(syncline_command: Command, flags: tuple[str, ...], given: dict[str, Any]) -> None:
    ended = syncline_command("collective", "all-reduce", "--size", "256KiB", "--json", *flags)
    assert ended.status == 0, ended.err
    said = json.loads(ended.out)
    found = syncline.collective("all-reduce", "256KiB", **given)
    assert {**found.document, "cost": 0} == {**said, "cost": 0}
    known = {f.name for f in fields(found)} - {"document", "tables"}
    beside = {"schema_version", "version", "status", "seed", "cost"}
    assert found.document.keys() - known == beside
    for name in known & found.document.keys():
        value = getattr(found, name)
        assert (list(value) if isinstance(value, tuple) else value) == found.document[name]
        hint = get_type_hints(type(found))[name]
        TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value, strict=True)
    assert len(found.tables["collectives"]) >= 1


def test_a_size_may_be_a_number_of_bytes() -> None:
    found = syncline.collective("all-reduce", 65536, topology="Ring(4)")
    assert found.size_bytes == 65536
    assert found.time_s == syncline.collective("all-reduce", "64KiB", topology="Ring(4)").time_s
    in_chunks = syncline.collective("all-reduce", 65536, topology="Ring(4)", chunk=16384)
    assert in_chunks.chunks == 4
    assert in_chunks.time_s == syncline.collective("all-reduce", 65536, topology="Ring(4)", chunk="16KiB").time_s
    tree = syncline.export("broadcast", algorithm="double-binary-tree", ranks=4, size=65536, root=0)
    assert tree.text == syncline.export("broadcast", algorithm="double-binary-tree", ranks=4, size="64KiB", root=0).text


def test_a_whole_number_that_is_a_float_is_a_size() -> None:
    """Sizes that were computed, or come from NumPy."""
    ring: dict[str, Any] = {"kind": "all-reduce", "topology": "Ring(4)", "memory_limit": 1e9}
    given: list[Any] = [65536.0, np.float64(65536), np.float32(65536)]
    for size in given:
        found = syncline.collective(**ring, size=size, chunk=size / 4)
        assert (found.size_bytes, found.chunks) == (65536, 4)
    sizes: list[Any] = [2.0**20, 2**21]
    assert [row.size_bytes for row in syncline.bench("all-reduce", machine="dgx-a100", sizes=sizes).rows] == sizes
    trees: dict[str, Any] = {"algorithm": "double-binary-tree", "ranks": 4}
    of_float, of_int = (syncline.export("broadcast", size=size, **trees) for size in (given[0], 65536))
    assert of_float.text == of_int.text
    packed = syncline.trees(machine="dgx1v", gpus=[0, 1, 2], size=given[0])
    assert packed.document["size_bytes"] == 65536


@pytest.mark.parametrize("size", [6.45e-1, float("inf"), True, b"64MB", ["64MB"]])
def test_what_is_no_size_is_told_what_is(size: Any) -> None:
    accepted = "a size with a unit, such as 64MB, or a whole number of bytes"
    with pytest.raises(syncline.InputError) as caught:
        syncline.collective("all-reduce", size, topology="Ring(4)")
    (problem,) = caught.value.problems
    assert (problem.field, problem.value, problem.accepted) == ("size", type(size).__name__, accepted)
    assert problem.message == "this is no size"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "arguments: topology: no fabric is given"),
        (
            {"topology": "Ring(4)", "machine": "dgx1v"},
            "arguments: machine: the fabric is given twice, by topology and by",
        ),
        ({"machine": "dgx9"}, "arguments: machine: "),
        ({"machine": 9}, "arguments: machine: this is not text\n    given: int"),
        ({"topology": "Ring(4)", "endpoint": ["ace"]}, "arguments: endpoint: this is not text"),
        ({"topology": {4}}, "arguments: topology: a value of the type set cannot be written"),
        ({"topology": "Ring(4)", "plan": PLAN, "algorithm": "ring"}, "given twice, by plan and by algorithm"),
        ({"topology": "Ring(4)", "groups": [[0, 9]]}, "arguments: groups"),
        ({"topology": "Ring(4)", "slices": "none"}, "arguments: slices"),
        ({"topology": "Ring(4)", "seed": -1, "root": 2}, "arguments: seed"),
        (
            {
                "topology": "LeafSpine(leaves=2, hosts=2, spines=1)",
                "backend": "ethernet",
                "set": {"network.capture": ["npu 0"]},
            },
            "this function writes no files",
        ),
    ],
)
def test_what_is_wrong(given: dict[str, Any], said: str) -> None:
    with pytest.raises(syncline.InputError) as caught:
        syncline.collective("all-reduce", "64KiB", **given)
    assert said in str(caught.value)
    assert " --" not in str(caught.value)


def test_looks_like_a_table() -> None:
    found = syncline.collective("all-reduce", "64KiB", topology="Ring(4)", algorithm="ring")
    assert "GB/s" in found._repr_html_()
    assert repr(found).startswith("<Collective all-reduce of 65.5 kB over 4 NPUs: ")
