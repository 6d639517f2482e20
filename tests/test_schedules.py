"""MSCCL's XML: read, written, refused, and never anything else."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.schedules import RING4, edit_algo, edit_step
from syncline.base.errors import InputError
from syncline.base.positions import Positions
from syncline.commands import cli
from syncline.plans import msccl_write, msccl_xml, plan, ring
from syncline.plans.plan import Dependency, Plan, Rank, ThreadBlock

MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def complaints(text: str) -> list[str]:
    """Everything that is wrong with a text: line, field and message."""
    with pytest.raises(InputError) as error:
        msccl_xml.read(text, "file.xml")
    return [f"{p.line} {p.field}: {p.message}" for p in error.value.problems]


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_round_trip(ranks: int, in_place: bool) -> None:
    made = ring.all_reduce(ranks, 3, in_place=in_place)
    assert msccl_xml.read(msccl_write.write(made), "ring.xml").plan == made


def test_round_trip_of_everything_that_a_step_can_say() -> None:
    steps = [plan.step(i, kind, count=3) for i, kind in enumerate(plan.STEP_TYPES)]
    for step in steps:
        if step["type"] in plan.READS_LOCALLY:
            step["src"] = {"buffer": "s", "offset": 7}
        if step["type"] in plan.WRITES_LOCALLY:
            step["dst"] = {"buffer": "o", "offset": 2}
    steps[-1]["count"] = 0
    steps[3]["depends_on"] = Dependency(thread_block=1, step=2)
    steps[4]["has_dependents"] = True
    made = Plan(
        format=plan.FORMAT,
        version=plan.VERSION,
        name='<"name" & \u00fc>',
        collective="reduce_scatter",
        in_place=False,
        protocol="LL128",
        min_bytes=5,
        max_bytes=2**62,
        threads=64,
        channels=9,
        chunks_per_loop=12,
        ranks=[
            Rank(
                id=0,
                input_chunks=4,
                output_chunks=2,
                scratch_chunks=9,
                thread_blocks=[ThreadBlock(id=0, send=1, recv=None, channel=8, steps=steps)],
            )
        ],
    )
    assert msccl_xml.read(msccl_write.write(made), "all.xml").plan == made


@st.composite
def schedules(draw: st.DrawFn) -> Plan:
    """Schedules of any form, right or wrong."""
    number = st.integers(0, 2**31 - 1)

    def of_step(at: int) -> plan.Step:
        kind = draw(st.sampled_from(plan.STEP_TYPES))
        made = plan.Step(id=at, type=kind, count=0 if kind == "nop" else draw(number))
        if kind in plan.READS_LOCALLY:
            made["src"] = plan.Place(buffer=draw(st.sampled_from(["i", "o", "s"])), offset=draw(number))
        if kind in plan.WRITES_LOCALLY:
            made["dst"] = plan.Place(buffer=draw(st.sampled_from(["i", "o", "s"])), offset=draw(number))
        if draw(st.booleans()):
            made["depends_on"] = Dependency(thread_block=draw(number), step=draw(number))
        if draw(st.booleans()):
            made["has_dependents"] = True
        if draw(st.booleans()):
            ways: list[plan.Way] = [{"choice": 65_535}, {"link": 65_535}, {"over": "PCIe"}, {"over": 'a:b"<&'}]
            ways += [{"through": []}, {"through": ["leaf 0", 'a:b", "<&']}]
            made["way"] = draw(st.sampled_from(ways))
        return made

    def of_block(at: int) -> ThreadBlock:
        send, recv = draw(st.none() | number), draw(st.none() | number)
        channel = 0 if send is None and recv is None else draw(number)
        steps = [of_step(i) for i in range(draw(st.integers(0, 3)))]
        made = ThreadBlock(id=at, send=send, recv=recv, channel=channel, steps=steps)
        if draw(st.booleans()):
            made["thread"] = draw(number)
        return made

    def of_rank(at: int) -> Rank:
        blocks = [of_block(i) for i in range(draw(st.integers(0, 3)))]
        inputs, outputs, scratch = draw(number), draw(number), draw(number)
        return Rank(id=at, input_chunks=inputs, output_chunks=outputs, scratch_chunks=scratch, thread_blocks=blocks)

    made = Plan(
        format=plan.FORMAT,
        version=plan.VERSION,
        name=draw(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)),
        collective=draw(st.sampled_from(plan.COLLECTIVES)),
        in_place=draw(st.booleans()),
        protocol=draw(st.sampled_from(plan.PROTOCOLS)),
        min_bytes=draw(number),
        max_bytes=draw(number),
        threads=draw(number),
        channels=draw(number),
        chunks_per_loop=draw(number),
        ranks=[of_rank(i) for i in range(draw(st.integers(1, 3)))],
    )
    if draw(st.booleans()):
        one_by_one, spreads, queues = draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 3))
        made["pacing"] = plan.Pacing(one_by_one=one_by_one, spreads=spreads, queues=queues)
    return made


@MANY
@given(made=schedules())
def test_round_trip_of_any_schedule(made: Plan) -> None:
    text = msccl_write.write(made)
    assert msccl_xml.read(text, "any.xml").plan == made
    for line in text.splitlines():
        element = re.match(r" *<([a-z]+) ", line)
        named = set(re.findall(r' ([a-zA-Z_]+)="', line))
        assert element is None or named >= msccl_xml.ATTRIBUTES[element[1]] - msccl_xml.OWN - {"redop"}


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab "{}[],:\\\n', max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab,"', max_size=3), inner, max_size=4),
)


@MANY
@given(value=JSONS, indent=st.sampled_from([1, 4]))
def test_positions_are_lines_of_values(value: Any, indent: int) -> None:
    text = json.dumps(value, indent=indent)
    positions = Positions(text)
    lines = text.splitlines()

    def check(part: Any, path: tuple[str | int, ...]) -> None:
        at = positions.line(path)
        begin = json.dumps(part, indent=indent).splitlines()[0]
        assert begin in lines[at - 1]
        for key, entry in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
            assert positions.line((*path, key)) > at
            check(entry, (*path, key))

    check(value, ())
    assert positions.line(("nowhere", 3)) >= 1


def test_lines_are_those_of_the_file() -> None:
    read = msccl_xml.read("\n\n" + RING4, "ring4.xml")
    lines = ("\n\n" + RING4).splitlines()
    for (rank, block, step), line in read.lines.items():
        wanted = (
            "<algo" if rank is None else "<gpu" if block is None else "<tb" if step is None else f'<step s="{step}"'
        )
        assert wanted in lines[line - 1]
    assert len(read.lines) == 1 + 4 + 8 + 56


def test_what_only_means_something_elsewhere_is_dropped() -> None:
    """A receive may name what its peer sends, and a send where it goes."""
    text = edit_step(RING4, (0, 0, 0), dstbuf="s", dstoff=99)
    text = edit_step(text, (0, 0, 6), srcbuf="s", srcoff=99)
    assert msccl_xml.read(text, "x").plan == msccl_xml.read(RING4, "x").plan


def test_spellings_of_other_writers() -> None:
    read = msccl_xml.read(edit_algo(RING4, coll="reducescatter"), "x")
    assert read.plan["collective"] == "reduce_scatter"
    text = RING4.replace('<tb id="0" send="1" recv="3" chan="0">', '<tb id="0" send="-1" recv="-1" chan="-1">', 1)
    block = msccl_xml.read(text, "x").plan["ranks"][0]["thread_blocks"][0]
    assert (block["send"], block["recv"], block["channel"]) == (None, None, 0)
    nop = edit_step(RING4, (0, 0, 0), type="nop", cnt=1)
    assert msccl_xml.read(nop, "x").plan["ranks"][0]["thread_blocks"][0]["steps"][0]["count"] == 0


MALFORMED = {
    "nothing": ("<algo", ["1 : this is not valid XML: unclosed token"]),
    "other root": ("<algos/>", ["1 : the file begins with an element 'algos'"]),
    "no attributes": (
        "<algo>\n</algo>",
        ["1 algo.coll: this attribute is missing", "1 algo.ngpus: this attribute is missing"],
    ),
    "collective": (
        edit_algo(RING4, coll="allreduc"),
        ["1 algo.coll: 'allreduc' is not accepted; did you mean 'allreduce'?"],
    ),
    "protocol": (edit_algo(RING4, proto="LL64"), ["1 algo.proto: 'LL64' is not accepted; did you mean 'LL'?"]),
    "flag": (edit_algo(RING4, inplace=2), ["1 algo.inplace: '2' is not accepted"]),
    "GPUs": (edit_algo(RING4, ngpus=5), ["1 algo.ngpus: this says 5, but the file has 4 gpu elements"]),
    "cut off": (
        RING4[: RING4.index("<step", 600)],
        ["7 : the XML ends too early: the element 'tb' of line 3 has no end"],
    ),
    "type": (edit_step(RING4, (0, 0, 1), type="rrr"), ["5 step.type: 'rrr' is not accepted; did you mean 'rrs'?"]),
    "buffer": (edit_step(RING4, (0, 0, 1), srcbuf="x"), ["5 step.srcbuf: 'x' is not accepted"]),
    "offset": (edit_step(RING4, (0, 0, 1), srcoff=-1), ["5 step.srcoff: '-1' is not accepted"]),
    "number": (edit_step(RING4, (0, 0, 1), cnt="1.0"), ["5 step.cnt: '1.0' is not accepted"]),
    "huge number": (edit_step(RING4, (0, 0, 1), cnt="9" * 5000), [f"5 step.cnt: '{'9' * 57}...' is not accepted"]),
    "half a dependency": (
        edit_step(RING4, (0, 0, 1), depid=1),
        ["5 step.depid: of depid and deps only one is -1"],
    ),
    "two at once": (
        edit_step(edit_step(RING4, (0, 0, 1), srcbuf="x"), (3, 1, 6), type="x"),
        ["5 step.srcbuf: 'x' is not accepted", "79 step.type: 'x' is not accepted"],
    ),
    "new form": (
        RING4.replace("<step", "<op", 1),
        ["4 tb: the form with 'op' elements is not read: write the file with 'step' elements (old_format)"],
    ),
    "element": (RING4.replace("</gpu>", "<copy/></gpu>", 1), ["21 gpu: an element 'copy' is not allowed within 'gpu'"]),
    "pacing": (
        RING4.replace('ngpus="4"', 'ngpus="4" pacing="spread" queues="70000"'),
        [
            "1 algo.pacing: 'spread' is not accepted; did you mean 'spreads'?",
            "1 algo.queues: '70000' is not accepted",
        ],
    ),
    "pace": (
        RING4.replace('type="s"', 'type="s" pace="one_by_one" whole="-2"', 1),
        [
            "4 step.pace: 'one_by_one' is not accepted; did you mean 'one-by-one'?",
            "4 step.whole: '-2' is not accepted",
        ],
    ),
    "way": (RING4.replace('type="s"', 'type="s" way="over:"', 1), ["4 step.way: 'over:' is not accepted"]),
    "nested": (
        "<algo coll='reduce' ngpus='0'><x><gpu/><y>text</y></x></algo>",
        ["1 algo: an element 'x' is not allowed within 'algo'"],
    ),
    "text": ("<algo coll='reduce' ngpus='0'>text</algo>", ["1 algo: there is text between the elements"]),
    "entities": (
        '<!DOCTYPE algo [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><algo name="&b;"/>',
        ["1 : a document type is not accepted: write everything out"],
    ),
    "outside": (
        '<!DOCTYPE algo SYSTEM "file:///etc/passwd"><algo/>',
        ["1 : a document type is not accepted: write everything out"],
    ),
    "mismatch": ("<algo coll='reduce' ngpus='0'>\n<gpu></algo>", None),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_message(case: str) -> None:
    text, expected = MALFORMED[case]
    said = complaints(text)
    if expected is not None:
        assert said == expected
    else:
        assert said[-1] == "2 : this is not valid XML: mismatched tag"


def test_reading_stops_when_all_is_wrong() -> None:
    said = complaints(RING4.replace('cnt="1"', 'cnt="x"'))
    assert len(said) == 56
    said = complaints(RING4.replace('cnt="1"', 'cnt="x"').replace('depid="-1"', 'depid="y"'))
    assert len(said) == msccl_xml.MAX_PROBLEMS + 1
    assert "reading stopped" in said[-1]


def verified(path: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """`syncline verify --json`, with the promises about its output."""
    status = cli.run(["verify", str(path), "--json"])
    captured = capsys.readouterr()
    if status == 2:
        assert captured.out == ""
        assert json.loads(captured.err)["errors"]
    else:
        document = json.loads(captured.out)
        assert captured.err == ""
        assert document["verified"] == (status == 0) == (not document["errors"] and not document["flaws"])
    return status


FRAGMENTS = st.sampled_from(
    [
        *(
            "<algo",
            "<gpu",
            "<tb",
            "<step",
            "/>",
            ">",
            "</algo>",
            "</gpu>",
            "</tb>",
            "<?xml version='1.0'?>",
            "<!-- x -->",
        ),
        *(
            "<!DOCTYPE algo [",
            '<!ENTITY a "b">',
            "]>",
            "&a;",
            "&lt;",
            "&#0;",
            "<![CDATA[x]]>",
            "\x00",
            "\ufeff",
            "\u2028",
        ),
        *(
            ' coll="allreduce"',
            ' ngpus="1"',
            ' inplace="1"',
            ' id="0"',
            ' i_chunks="1"',
            ' o_chunks="1"',
            ' s_chunks="0"',
        ),
        *(' send="-1"', ' recv="0"', ' chan="0"', ' type="s"', ' cnt="9999999999"', "\n", " ", "'", '"', "="),
    ]
)


@MANY
@given(text=st.lists(FRAGMENTS, max_size=40).map("".join))
def test_fragments(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fuzz.xml"
    path.write_text(text, encoding="utf-8")
    verified(path, capsys)


@MANY
@given(data=st.binary(max_size=200), begin=st.sampled_from([b"", b"<", b"{", b"\xff\xfe<"]))
def test_bytes(data: bytes, begin: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fuzz.xml"
    path.write_bytes(begin + data)
    verified(path, capsys)


@MANY
@given(seed=st.integers(0, 2**32), changes=st.integers(1, 4), fragment=FRAGMENTS, as_json=st.booleans())
def test_damaged_schedules(
    seed: int, changes: int, fragment: str, as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)
    text = plan.dumps(ring.all_reduce(2)) if as_json else RING4
    for _ in range(changes):
        at = chance.randrange(len(text))
        until = at + chance.choice([0, 0, 1, 3, 20])
        text = text[:at] + chance.choice([fragment, "", "7", text[at:until] * 2]) + text[until:]
    path = tmp_path / "fuzz.xml"
    path.write_text(text, encoding="utf-8")
    verified(path, capsys)
