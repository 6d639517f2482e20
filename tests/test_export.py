"""`syncline export`: what runs from a file is what runs by name, and what is written is nothing else."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from support import registry
from support.command import Ended
from syncline.base.collective_names import Name as Kind
from syncline.plans import msccl_xml, plan
from syncline.sections.algorithms import Algorithm

Command = Callable[..., Ended]

FABRICS: Final = (
    ["--topology", "Ring(4)"],
    ["--topology", "Ring(5)"],
    ["--topology", "Switch(6)"],
    ["--topology", "FullyConnected(4)"],
    ["--topology", "Ring(2)_Ring(3)"],
    ["--machine", "dgx1v"],
    ["--machine", "dgx-a100(nodes=2)"],
)
ALGORITHMS: Final = [name for name in get_args(Algorithm) if name != "auto"]
RINGS: Final = ("ring", "ring-unidirectional")
SIZE: Final = "100kB"
EXPORTED: Final = ("all-reduce", "all-gather", "broadcast", "all-to-all", "scatter")
EVERY: Final = 4
"""Of the pairs of kinds and algorithms that there are on a fabric one in so many is tried; another one on the next."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files are written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sample(at: int) -> Iterator[tuple[str, str, str]]:
    """Kinds and algorithms, each with one of the backends, for a fabric by its number."""
    for number, (kind, algorithm) in enumerate(itertools.product(get_args(Kind), ALGORITHMS)):
        if (number + at) % EVERY == 0:
            yield kind, algorithm, registry.BACKENDS[(number // EVERY) % len(registry.BACKENDS)]


def outcome(command: Command, *line: str) -> dict[str, Any]:
    """What `collective` says that does not depend on where the algorithm is from."""
    ended = command("collective", *line, "--size", SIZE, "--json")
    assert ended.status == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return {k: v for k, v in found.items() if k not in ("cost", "algorithm", "assumptions", "warnings")}


def further(algorithm: str) -> list[str]:
    """What a plan does not say, and the name of its algorithm does."""
    return ["--set", "collective.lanes=one"] if algorithm == "ring-unidirectional" else []


WHOLE: Final = ("--set", "collective.chunks=1")
"""A plan says itself how data is cut, and is carried out once."""
LINES: Final = (*RINGS, "direct", "halving-doubling", "double-binary-tree", "one-hop-trees")


@pytest.mark.parametrize("at", range(len(FABRICS)), ids=lambda at: FABRICS[at][1])
def test_a_plan_takes_as_long_as_its_algorithm(at: int, syncline_command: Command) -> None:
    fabric, tried = FABRICS[at], 0
    for kind, algorithm, backend in sample(at):
        line = [kind, *fabric, "--backend", backend]
        line += ["--endpoint", "switch-offload"] if algorithm == "in-switch" else []
        ended = syncline_command("export", *line, "--algorithm", algorithm, "--size", SIZE, "-o", "p.json")
        if ended.status != 0:
            assert ended.status == 2
            of_trees = ("trees are packed on a machine", "no trees carry out")
            reasons = of_trees if algorithm == "packed-trees" else (f"there is no {algorithm} algorithm for {kind}",)
            assert algorithm == "in-switch" or any(reason in ended.err for reason in reasons)
            continue
        tried += 1
        by_name = outcome(syncline_command, *line, "--algorithm", algorithm, *WHOLE)
        by_plan = outcome(syncline_command, *line, "--plan", "p.json", *further(algorithm))
        assert by_plan == by_name, (kind, algorithm, backend)
    assert tried > 6


def test_sums_in_switches(syncline_command: Command) -> None:
    line = ["all-reduce", "--topology", "Switch(6)", "--endpoint", "switch-offload"]
    ended = syncline_command("export", *line, "--algorithm", "in-switch", "--size", SIZE, "-o", "p.json")
    assert ended.status == 0
    by_name = outcome(syncline_command, *line, "--algorithm", "in-switch", *WHOLE)
    assert outcome(syncline_command, *line, "--plan", "p.json") == by_name


def test_compositions_on_a_machine(syncline_command: Command) -> None:
    line = ["all-gather", "--machine", "dgx1v", "--backend", "flow"]
    assert syncline_command("export", *line, "--algorithm", "hierarchical", "-o", "p.json").status == 0
    by_name = outcome(syncline_command, *line, "--algorithm", "hierarchical", *WHOLE)
    assert outcome(syncline_command, *line, "--plan", "p.json") == by_name


def exported(command: Command, line: list[str], algorithm: str, *further: str) -> bool:
    """Whether an algorithm can be written as MSCCL XML, into p.xml; what cannot is refused with a reason."""
    written = ["--algorithm", algorithm, "--size", SIZE, "--format", "msccl-xml", "-o", "p.xml"]
    ended = command("export", *line, *written, *further)
    assert ended.status in (0, 2)
    if ended.status == 2:
        assert "accepted: " in ended.err
    return ended.status == 0


@pytest.mark.parametrize("at", range(len(FABRICS)), ids=lambda at: FABRICS[at][1])
def test_msccl_xml_takes_nearly_as_long(at: int, syncline_command: Command) -> None:
    fabric, tried, exact = FABRICS[at], 0, 0
    kinds = ("all-reduce", "all-to-all") if "nodes" in fabric[1] else EXPORTED
    for kind, algorithm in itertools.product(kinds, (*LINES, "hierarchical")):
        line = [kind, *fabric, "--backend", "flow"]
        if not exported(syncline_command, line, algorithm):
            continue
        assert syncline_command("verify", "p.xml", "--buffering", "8").status == 0, (kind, algorithm)
        by_plan = outcome(syncline_command, *line, "--plan", "p.xml")["time_s"]
        by_name = outcome(syncline_command, *line, "--algorithm", algorithm, *WHOLE)["time_s"]
        assert by_plan == pytest.approx(by_name, rel=0.02), (kind, algorithm)
        tried, exact = tried + 1, exact + (by_plan == by_name)
    assert tried >= 2 * len(kinds)
    assert exact >= tried / 2  # the size does not divide everywhere


def test_halves_that_go_both_ways_are_two_messages(syncline_command: Command) -> None:
    assert exported(syncline_command, ["all-reduce", "--topology", "Ring(4)"], "direct")
    ended = syncline_command("verify", "p.xml")
    assert ended.status == 1
    assert "wait for ever, with connections that hold 1 message" in ended.out
    assert "It is right where connections hold 8 messages, as MSCCL's do: --buffering 8" in ended.out
    assert syncline_command("verify", "p.xml", "--buffering", "2").status == 0


@pytest.mark.parametrize("lanes", ["split", "one"])
def test_msccl_xml_of_rings_follows_nvlinks(lanes: str, syncline_command: Command) -> None:
    line = ["all-reduce", "--machine", "dgx1v", "--backend", "flow"]
    by = ["--set", f"collective.lanes={lanes}"]
    assert exported(syncline_command, line, "ring", *by)
    channels = {block["channel"] for block in read_xml()["ranks"][0]["thread_blocks"]}
    assert len(channels) == (1 if lanes == "one" else 6)  # the NVLinks of a V100
    by_name = outcome(syncline_command, *line, "--algorithm", "ring", *by, *WHOLE)["time_s"]
    assert outcome(syncline_command, *line, "--plan", "p.xml")["time_s"] == by_name


def read_xml() -> plan.Plan:
    """The schedule in p.xml."""
    return msccl_xml.read(Path("p.xml").read_text(), "p.xml").plan


def test_instances_are_copies(syncline_command: Command) -> None:
    line = ["all-reduce", "--topology", "Switch(4)"]
    assert exported(syncline_command, line, "direct")
    once = read_xml()
    assert exported(syncline_command, line, "direct", "--instances", "3")
    three = read_xml()
    assert [3 * len(r["thread_blocks"]) for r in once["ranks"]] == [len(r["thread_blocks"]) for r in three["ranks"]]
    assert three["chunks_per_loop"] == 12
    assert syncline_command("verify", "p.xml").status == 0


def test_thread_blocks_loop(syncline_command: Command) -> None:
    line = ["broadcast", "--topology", "Ring(4)"]
    one_way = ["--set", "collective.lanes=one", "--set", "collective.slices=1"]
    assert exported(syncline_command, line, "ring", *one_way)
    loops = outcome(syncline_command, *line, "--plan", "p.xml", "--set", "collective.loops=4")
    pipelined = [*WHOLE, "--set", "collective.lanes=one", "--set", "collective.slices=4"]
    assert loops["time_s"] == outcome(syncline_command, *line, "--algorithm", "ring", *pipelined)["time_s"]
    for wrong, said in (("0", "1 to 65536"), ("1.5", "1 to 65536")):
        ended = syncline_command(
            "collective", *line, "--size", SIZE, "--plan", "p.xml", "--set", f"collective.loops={wrong}"
        )
        assert ended.status == 2
        assert "collective.loops" in ended.err
        assert said in ended.err or "integer" in ended.err
    ended = syncline_command("collective", *line, "--size", SIZE, "--algorithm", "ring", "--set", "collective.loops=4")
    assert ended.status == 2
    assert "no collective follows a schedule" in ended.err


class TestCommand:
    def test_standard_output_is_the_file(self, syncline_command: Command, folder: Path) -> None:
        line = ["all-reduce", "--algorithm", "ring", "--ranks", "4"]
        to_output = syncline_command("export", *line)
        assert (to_output.status, to_output.err) == (0, "")
        to_file = syncline_command("export", *line, "-o", "p.json")
        assert (to_file.status, to_file.out, to_file.err) == (0, "", "plan: p.json\n")
        assert (folder / "p.json").read_text() == to_output.out
        plan = json.loads(to_output.out)
        assert (plan["version"], plan["name"], plan["grid"]) == (2, "ring all-reduce 4", [4])
        assert [entry.name for entry in folder.iterdir()] == ["p.json"]

    def test_json_is_a_document(self, syncline_command: Command) -> None:
        line = ["broadcast", "--algorithm", "double-binary-tree", "--ranks", "4", "--root", "2", "--size", "1MB"]
        ended = syncline_command("export", *line, "--json")
        assert (ended.status, ended.err) == (0, "")
        document = json.loads(ended.out)
        assert document["plan"]["root"] == document["root"] == 2
        assert document["format"] == "syncline-plan"
        assert any(line.startswith("collective.slices = ") for line in document["assumptions"])

    def test_ranks_are_a_fabric_without_properties(self, syncline_command: Command) -> None:
        def grid(algorithm: str, ranks: str) -> tuple[list[int], bool]:
            ended = syncline_command("export", "all-reduce", "--algorithm", algorithm, "--ranks", ranks)
            assert ended.status == 0, ended.err
            plan = json.loads(ended.out)
            return plan["grid"], plan["programs"][0].get("around", False)

        assert grid("ring", "4") == ([4], True)
        assert grid("direct", "5") == ([5], False)
        assert grid("six-phase", "4") == ([4], False)
        assert grid("six-phase", "2x3") == ([2, 3], True)

    def test_auto_is_settled_for_a_size(self, syncline_command: Command) -> None:
        line = ["all-reduce", "--algorithm", "auto", "--machine", "dgx-a100", "--size", "8kB"]
        ended = syncline_command("export", *line)
        assert ended.status == 0
        assert ended.err.startswith("auto chose ")
        document = json.loads(syncline_command("export", *line, "--json").out)
        assert document["algorithm_choice"]["chosen"] == document["algorithm"] in ALGORITHMS

    @pytest.mark.parametrize(
        ("line", "field", "message"),
        [
            (["--ranks", "4"], "--algorithm", "this is missing"),
            (["--algorithm", "ring"], "--topology", "no fabric is given"),
            (["--algorithm", "ring", "--ranks", "4", "--machine", "dgx1v"], "--ranks", "the fabric is given twice"),
            (["--algorithm", "ring", "--ranks", "4x"], "--ranks", "these are no ranks"),
            (["--algorithm", "ring", "--ranks", "0"], "--ranks", "these are no ranks"),
            (["--algorithm", "direct", "--ranks", "4x2"], "--ranks", "direct takes ranks as a line"),
            (
                ["--algorithm", "auto", "--ranks", "4"],
                "--algorithm",
                "the fastest depends on the size",
            ),
            (["--algorithm", "double-binary-tree", "--ranks", "4"], "--size", "has a number of slices"),
            (["--algorithm", "in-switch", "--ranks", "4"], "--size", "has a number of slices"),
            (["--algorithm", "ring", "--ranks", "4", "--format", "xml"], "--format", "this format is not known"),
            (["--algorithm", "rings", "--ranks", "4"], "--algorithm", "this is not a known algorithm"),
            (["--algorithm", "ring", "--ranks", "4", "--instances", "2"], "--instances", "a plan has no instances"),
            (
                ["--algorithm", "ring", "--ranks", "4", "--format", "msccl-xml", "--instances", "33"],
                "--instances",
                "this is no number of instances",
            ),
            (["--algorithm", "ring", "--ranks", "4", "-o", "no/where"], "--out", "this cannot be written"),
        ],
    )
    def test_what_cannot_be(self, line: list[str], field: str, message: str, syncline_command: Command) -> None:
        ended = syncline_command("export", "all-reduce", *line, "--json")
        assert (ended.status, ended.out) == (2, "")
        (error,) = json.loads(ended.err)["errors"]
        assert error["field"] == field
        assert message in error["message"]

    def test_xml_has_everything_that_runtimes_ask_for(self, syncline_command: Command) -> None:
        ended = syncline_command("export", "all-reduce", "--algorithm", "ring", "--ranks", "4", "--format", "msccl-xml")
        assert ended.status == 0
        head, *lines = ended.out.splitlines()
        names = ("name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace")
        for name in (*names, "minBytes", "maxBytes", "nthreads"):
            assert f' {name}="' in head
        steps = [line for line in lines if "<step" in line]
        wanted = msccl_xml.ATTRIBUTES["step"] - msccl_xml.OWN
        assert steps
        assert all(f' {name}="' in step for step in steps for name in wanted)
