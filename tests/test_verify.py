"""`syncline verify` on the example and on copies with something wrong, each told what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.command import Ended
from support.schedules import (
    RING4,
    add_block,
    double_step,
    drop_step,
    edit_algo,
    edit_block,
    edit_gpu,
    edit_step,
)
from syncline.plans import msccl_write, plan, ring

Command = Callable[..., Ended]
EXAMPLE = str(Path(__file__).parents[1] / "examples/plans/ring4.xml")

BROKEN = {
    # What goes wrong when the schedule is carried out.
    "lost": (
        edit_step(RING4, (2, 0, 1), type="rcs", dstbuf="i", dstoff=2),
        ("lost", "ends with chunk 2 of ranks 0, 1 and 3 in chunk 2 of its output; accepted: chunk 2 of all ranks"),
    ),
    "doubled": (
        double_step(RING4, (1, 0, 0), type="re", dstbuf="i", dstoff=2),
        ("doubled", "adds chunk 2 of rank 1 to that of rank 1: rank 1 counts twice"),
    ),
    "doubled later": (
        double_step(RING4, (1, 0, 3), type="re", srcoff=2, dstbuf="i", dstoff=2),
        ("doubled", "rank 1 counts twice"),
    ),
    "misplaced": (
        edit_step(edit_step(RING4, (0, 0, 5), dstoff=4), (0, 0, 6), dstoff=6),
        ("misplaced", "ends with chunk 6 of all ranks in chunk 4 of its output; accepted: chunk 4 of all ranks"),
    ),
    "mixed": (
        edit_step(RING4, (1, 0, 1), srcoff=4),
        ("mixed", "adds chunk 0 of rank 0 to chunk 4 of rank 1; accepted: the same chunk"),
    ),
    "absent": (
        edit_gpu(edit_step(RING4, (1, 0, 0), srcbuf="s", srcoff=0), 1, s_chunks=1),
        ("absent", "uses chunk 0 of its scratch buffer, in which there is nothing yet"),
    ),
    "deadlock of dependencies": (
        edit_step(edit_step(RING4, (0, 0, 0), depid=1, deps=0), (0, 1, 0), depid=0, deps=0),
        ("deadlock", "rank 0 thread block 0 step 0 waits for step 0 of its thread block 1"),
    ),
    "deadlock of steps": (
        edit_step(edit_step(RING4, (3, 0, 0), depid=1, deps=6), (3, 1, 0), depid=0, deps=6),
        ("deadlock", "rank 3 thread block 0 step 0 waits for step 6 of its thread block 1"),
    ),
    "race": (
        add_block(RING4, 2, 2, "cpy i0 i0"),
        ("race", "thread block 2"),
    ),
    "race of names": (
        add_block(RING4, 2, 2, "cpy o0 o0"),
        ("race", "nothing says which comes first"),
    ),
    # What makes it no schedule of the collective.
    "unreceived": (
        drop_step(RING4, (2, 0, 6)),
        ("unreceived", "message 5 to rank 2 on channel 0 is never received: 6 sent, 5 received"),
    ),
    "unsent": (
        drop_step(RING4, (1, 1, 0)),
        ("unsent", "message 5 from rank 1 on channel 1 is never sent: 5 sent, 6 received"),
    ),
    "count": (
        edit_step(RING4, (0, 0, 0), cnt=2),
        ("count", "receives 1 chunks as message 0 from rank 0 on channel 0, which step 0 of its thread block 0 sends"),
    ),
    "peer": (
        edit_block(RING4, 1, 0, send=7),
        ("peer", "sends to rank 7, which does not exist; accepted: 0 to 3 or nobody"),
    ),
    "own peer": (edit_block(RING4, 1, 0, recv=1), ("peer", "receives from its own rank 1")),
    "other peer": (
        edit_block(RING4, 1, 0, send=3),
        ("unreceived", "message 0 to rank 3 on channel 0 is never received: 6 sent, 0 received"),
    ),
    "no peer": (edit_block(RING4, 1, 0, send=-1), ("peer", "a step of type s in a thread block that sends to nobody")),
    "bounds": (
        edit_step(RING4, (3, 0, 6), dstoff=8),
        ("bounds", "chunk 8 is outside the input buffer of 8 chunks"),
    ),
    "size": (
        edit_gpu(RING4, 3, i_chunks=7),
        ("sizes", "the input buffer has 7 chunks; accepted: 8 or 0 for in-place allreduce of 8 chunks"),
    ),
    "rank": (edit_gpu(RING4, 3, id=4), ("ids", "rank 3 is missing; accepted: numbers from 0 without gaps")),
    "thread block": (edit_block(RING4, 3, 1, id=2), ("ids", "thread block 1 is missing")),
    "step": (edit_step(RING4, (3, 1, 6), s=8), ("ids", "this step is numbered 8; accepted: 6")),
    "dependency": (
        edit_step(RING4, (3, 1, 5), depid=4, deps=0),
        ("dependency", "waits for step 0 of thread block 4, which does not exist; accepted: thread blocks 0 to 1"),
    ),
    "residual": (
        edit_step(RING4, (0, 0, 0), type="ra", dstbuf="i", dstoff=0),
        ("operand", "adds a residual (type ra), which is nobody's input and has no place in allreduce"),
    ),
}


def verify(command: Command, path: Path, text: str, *flags: str) -> tuple[Ended, dict[str, Any]]:
    """`syncline verify --json` on a text."""
    path.write_text(text)
    ended = command("verify", str(path), *flags, "--json")
    document: dict[str, Any] = json.loads(ended.out)
    return ended, document


class TestExample:
    @pytest.mark.usefixtures("fake_engine")
    def test_json_is_one_document_and_nothing_else(self, syncline_command: Command) -> None:
        ended = syncline_command("verify", EXAMPLE, "--json")
        document = json.loads(ended.out)
        assert (ended.status, ended.err) == (0, "")
        assert set(document.pop("cost")) == {"wall_time_s", "cpu_time_s", "peak_rss_bytes", "events", "packet_hops"}
        assert document["assumptions"] == ["buffering = 1 message per connection (default)"]
        assert (document["format"], document["verified"], document["errors"]) == ("msccl-xml", True, [])
        again = json.loads(syncline_command("verify", EXAMPLE, "--json").out)
        again.pop("cost")
        assert again == document

    def test_is_right(self, syncline_command: Command) -> None:
        ended = syncline_command("verify", EXAMPLE)
        assert (ended.status, ended.err) == (0, "")
        rows = {line.split("  ")[0].strip(): line.split("  ")[-1].strip() for line in ended.out.splitlines()}
        assert ended.out.startswith(f"{EXAMPLE}: OK\n")
        assert rows["collective"] == "allreduce, in place"
        assert rows["sent by a rank"] == "1.5 of the size"
        assert rows["longest path"] == "7 steps"
        assert rows["a connection holds"] == "1 message"

    def test_is_what_the_generator_writes(self) -> None:
        assert msccl_write.write(ring.all_reduce(4, 2)) == RING4

    @pytest.mark.parametrize(("buffering", "status"), [("eager", 0), ("1", 0), ("7", 0), ("rendezvous", 1)])
    def test_buffering(self, syncline_command: Command, buffering: str, status: int) -> None:
        ended = syncline_command("verify", EXAMPLE, "--buffering", buffering, "--json")
        document = json.loads(ended.out)
        assert ended.status == status
        assert document["assumptions"] == []
        assert [flaw["kind"] for flaw in document["flaws"]] == ["deadlock"] * status


@pytest.mark.parametrize("case", BROKEN)
def test_broken_copies(syncline_command: Command, tmp_path: Path, case: str) -> None:
    text, (kind, message) = BROKEN[case]
    ended, document = verify(syncline_command, tmp_path / "broken.xml", text)
    found = [*document["errors"], *document["flaws"]]
    assert (ended.status, ended.err, document["verified"]) == (1, "", False)
    told = [(f["kind"], f["message"] + (f"; accepted: {f['accepted']}" if f["accepted"] else "")) for f in found]
    assert any(each == kind and message in text for each, text in told), found
    assert all(f["line"] is not None for f in found)
    printed = syncline_command("verify", str(tmp_path / "broken.xml"))
    assert printed.status == 1
    assert message.split("; accepted: ")[0] in printed.out
    assert f"WRONG ({len(found)} finding" in printed.out


def test_lines_lead_to_the_step(syncline_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "broken.xml"
    path.write_text(BROKEN["bounds"][0])
    ended = syncline_command("verify", str(path))
    number = next(i for i, line in enumerate(path.read_text().splitlines(), 1) if 'dstoff="8"' in line)
    assert ended.out.startswith(f"{path}:{number}: rank 3, thread block 0, step 6: chunk 8 is outside")


def test_every_error_is_listed(syncline_command: Command, tmp_path: Path) -> None:
    text = edit_block(edit_step(drop_step(RING4, (2, 0, 6)), (0, 1, 0), srcoff=9), 1, 1, recv=1)
    _, document = verify(syncline_command, tmp_path / "broken.xml", text)
    assert {(e["rank"], e["kind"]) for e in document["errors"]} >= {(1, "unreceived"), (0, "bounds"), (1, "peer")}


def test_warnings_do_not_make_it_wrong(syncline_command: Command, tmp_path: Path) -> None:
    text = edit_algo(edit_step(RING4, (0, 1, 3), depid=0, deps=0), nchannels=1).replace(
        'ngpus="4"', 'ngpus="4" ngpsu="4"'
    )
    ended, document = verify(syncline_command, tmp_path / "odd.xml", text)
    assert ended.status == 0
    assert [warning.split(": ", 1)[1] for warning in document["warnings"]] == [
        "algo: the attribute 'ngpsu' is not known and is ignored; did you mean 'ngpus'?",
        "1 channels are stated, 2 are used",
        "rank 0, thread block 1, step 3: waits for step 0 of thread block 0, which is not marked as having dependents, "
        "so that MSCCL waits for ever",
    ]
    told = syncline_command("verify", str(tmp_path / "odd.xml"))
    assert told.err.count("warning: ") == 3


def one_round_all_reduce(ranks: int, channels: int) -> str:
    """As MSCCL's compiler writes an in-place all-reduce in which everybody sends everything to everybody: no
    output buffer, `nop`s for all dependencies but one, reductions in a row, peers' chunks as sources of receives.
    """
    size = ranks * channels
    lines = [f'<algo coll="allreduce" inplace="1" ngpus="{ranks}" nchannels="{channels}" nchunksperloop="{size}">']

    def step(kind: str, src: str, dst: str, count: int, on: tuple[int, int] = (-1, -1), hasdep: int = 0) -> None:
        number = 0 if "<tb" in lines[-1] else int(lines[-1].split('"')[1]) + 1
        places = f'srcbuf="{src[0]}" srcoff="{src[1:]}" dstbuf="{dst[0]}" dstoff="{dst[1:]}" cnt="{count}"'
        lines.append(
            f'<step s="{number}" type="{kind}" {places} depid="{on[0]}" deps="{on[1]}" hasdep="{hasdep}"/>',
        )

    for rank in range(ranks):
        scratch = channels * ranks * (ranks - 1)
        lines.append(f'<gpu id="{rank}" i_chunks="{size}" o_chunks="0" s_chunks="{scratch}">')
        peers = [None, *(peer for peer in range(ranks) if peer != rank)]
        for position, peer in enumerate(peers):
            for channel in range(channels):
                number = -1 if peer is None else peer
                lines.append(
                    f'<tb id="{position * channels + channel}" send="{number}" recv="{number}" chan="{channel}">'
                )
                first, room = channel * ranks, channel * ranks * (ranks - 1)
                if peer is not None:
                    step("s", f"i{first}", "s0", ranks, hasdep=1)
                    step("r", f"i{first}", f"s{room + (position - 1) * ranks}", ranks, hasdep=1)
                others = [(other * channels + channel, 1) for other in range(1, len(peers)) if other != position]
                for on in others[:-1]:
                    step("nop", "i-1", "o-1", 0, on)
                chunk = rank if peer is None else peer
                for source in range(ranks - 1):
                    on = others[-1] if others and source == 0 else (-1, -1)
                    step("re", f"s{room + source * ranks + chunk}", f"i{first + chunk}", 1, on)
                lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_what_compilers_write(syncline_command: Command, tmp_path: Path, ranks: int) -> None:
    ended, document = verify(syncline_command, tmp_path / "direct.xml", one_round_all_reduce(ranks, 2))
    assert (ended.status, document["flaws"], document["errors"], document["warnings"]) == (0, [], [], [])
    assert document["counts"]["sent_per_byte_max"] == ranks - 1


def test_what_compilers_write_without_a_dependency(syncline_command: Command, tmp_path: Path) -> None:
    text = one_round_all_reduce(4, 1).replace('cnt="0" depid="2"', 'cnt="0" depid="1"', 1)
    ended, document = verify(syncline_command, tmp_path / "direct.xml", text)
    assert ended.status == 1
    assert {flaw["kind"] for flaw in document["flaws"]} >= {"race"}


class TestPlans:
    def test_a_plan_of_our_own(self, syncline_command: Command, tmp_path: Path) -> None:
        _, document = verify(syncline_command, tmp_path / "plan.json", plan.dumps(ring.all_reduce(5)))
        assert (document["format"], document["verified"], document["counts"]["ranks"]) == ("syncline-plan", True, 5)

    def test_the_root_is_found_or_given(self, syncline_command: Command, tmp_path: Path) -> None:
        path = tmp_path / "broadcast.xml"
        path.write_text(
            '<algo coll="broadcast" ngpus="2">'
            '<gpu id="1" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" send="0" recv="-1" chan="0">'
            '<step s="0" type="s" srcbuf="i" srcoff="0" cnt="1" depid="-1" deps="-1"/>'
            '<step s="1" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1"/>'
            '</tb></gpu><gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" send="-1" recv="1" chan="0">'
            '<step s="0" type="r" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1"/>'
            "</tb></gpu></algo>"
        )
        document = json.loads(syncline_command("verify", str(path), "--json").out)
        assert (document["root"], document["verified"]) == (1, True)
        assert "root = 1 (from the results)" in document["assumptions"]
        ended = syncline_command("verify", str(path), "--root", "0")
        assert ended.status == 1
        assert "ends with chunk 0 of rank 1" in ended.out


class TestNotASchedule:
    def complaint(self, command: Command, path: Path, text: str, *flags: str) -> dict[str, Any]:
        """The only complaint about a text."""
        path.write_text(text)
        told = command("verify", str(path), *flags)
        assert (told.status, told.out) == (2, "")
        assert "Traceback" not in told.err
        ended = command("verify", str(path), *flags, "--json")
        assert (ended.status, ended.out) == (2, "")
        (error,) = json.loads(ended.err)["errors"]
        complaint: dict[str, Any] = error
        return complaint

    @pytest.mark.parametrize(
        ("text", "line", "message"),
        [
            ("", 1, "this is not a schedule"),
            ("name: x\n", 1, "this is not a schedule"),
            ("[1]", 1, "this is not a schedule"),
            ("{}", None, "this is not a schedule: there is no 'format'"),
            ('{\n"format": }', 2, "this is not valid JSON: Expecting value"),
            ('{"format": "plan"}', None, "this format is not known"),
            ('{"format": "syncline-plan",\n"colour": 1}', 2, "unknown field `colour`"),
            (
                '{"a":' * 100_000,
                None,
                "this is not valid JSON: it is nested too deeply",
            ),
            (RING4.replace('coll="allreduce"', 'coll="custom"'), 1, "a custom collective cannot be verified"),
            (plan.dumps(ring.all_reduce(2)).replace(' "id": 1', ' "id": -1', 1), 35, "invalid value: integer `-1`"),
        ],
    )
    def test_says_what_would_be(
        self, syncline_command: Command, tmp_path: Path, text: str, line: int | None, message: str
    ) -> None:
        error = self.complaint(syncline_command, tmp_path / "file", text)
        assert message in error["message"]
        assert error["line"] == line

    @pytest.mark.parametrize(
        ("flags", "field"),
        [
            (("--buffering", "0"), "--buffering"),
            (("--buffering", "two"), "--buffering"),
            (("--buffering", "99999999999"), "--buffering"),
            (("--root", "-1"), "--root"),
            (("--root", "99999999999"), "--root"),
            (("--root", "0"), "--root"),
        ],
    )
    def test_flags(self, syncline_command: Command, tmp_path: Path, flags: tuple[str, str], field: str) -> None:
        error = self.complaint(syncline_command, tmp_path / "ring.xml", RING4, *flags)
        assert (error["file"], error["field"]) == ("command line", field)
        assert error["accepted"]

    def test_no_file(self, syncline_command: Command) -> None:
        ended = syncline_command("verify", "nowhere.xml")
        assert (ended.status, ended.err) == (2, "nowhere.xml: there is no such file\n1 error\n")

    def test_a_panic_of_the_engine_is_a_failure(
        self, syncline_command: Command, fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class PanicException(BaseException):
            pass

        def panic(_: str) -> str:
            raise PanicException("index out of bounds")

        monkeypatch.setattr(fake_engine, "verify", panic)
        ended = syncline_command("verify", EXAMPLE)
        assert ended.status == 1
        assert "the verifier has a defect: index out of bounds" in ended.err
