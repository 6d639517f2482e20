"""Execution plans of MSCCL++, and schedules of MSCCL, held against rules that know nothing of the package."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, get_args

import pytest

import msccl_rules
import mscclpp_rules
from support.command import Ended
from syncline.base.collective_names import Name as Kind
from syncline.sections.algorithms import Algorithm

Command = Callable[..., Ended]
Plan = dict[str, Any]

ALGORITHMS: Final = [name for name in get_args(Algorithm) if name != "auto"]
KINDS: Final = get_args(Kind)
FABRICS: Final = (
    "Ring(2)",
    "Switch(3)",
    "Ring(4)",
    "Ring(5)",
    "Switch(7)",
    "Switch(8)",
    "Ring(2)_Ring(3)",
)
SIZE: Final = "100kB"
ROOT: Final = 1
LIMIT: Final = "MSCCL++ takes a semaphore, of which it has 16"
"""What long trees exceed."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files are written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def exported(command: Command, kind: str, algorithm: str, fabric: str, form: str) -> str | None:
    """The text of an export; none where there is none, for a reason that is said."""
    rooted = ["--root", str(ROOT)] if kind in ("broadcast", "reduce", "gather", "scatter") else []
    place = ["--topology", fabric, "--algorithm", algorithm, "--size", SIZE, *rooted]
    ended = command("export", kind, *place, "--format", form)
    assert ended.status in (0, 2), ended.err
    assert ended.status == 0 or "accepted: " in ended.err, ended.err
    if form == "mscclpp-json" and ended.status != 0:
        assert LIMIT in ended.err or exported(command, kind, algorithm, fabric, "msccl-xml") is None, ended.err
    return ended.out if ended.status == 0 else None


def plan_of(command: Command, kind: str, algorithm: str, fabric: str) -> Plan:
    """An export, read."""
    text = exported(command, kind, algorithm, fabric, "mscclpp-json")
    assert text is not None
    plan: Plan = json.loads(text)
    return plan


def verify(command: Command, plan: Plan) -> tuple[Ended, str]:
    """`syncline verify` of a plan, and all that it says."""
    Path("p.json").write_text(json.dumps(plan, indent=1))
    ended = command("verify", "p.json")
    return ended, ended.out + ended.err


def time_of(command: Command, kind: str, fabric: str, file: str, *further: str) -> float:
    """How long a collective takes with a plan."""
    ended = command("collective", kind, "--topology", fabric, "--size", SIZE, "--plan", file, "--json", *further)
    assert ended.status == 0, ended.err
    time: float = json.loads(ended.out)["time_s"]
    return time


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_exports_keep_all_rules(kind: str, fabric: str, syncline_command: Command) -> None:
    """What is written is right, whatever the timing; it reads back as what it was, and takes as long."""
    seen: set[str] = set()
    for algorithm in ALGORITHMS:
        xml = exported(syncline_command, kind, algorithm, fabric, "msccl-xml")
        text = exported(syncline_command, kind, algorithm, fabric, "mscclpp-json")
        assert xml is not None or text is None, algorithm
        body = "" if xml is None else xml.split("\n", 1)[1]
        if xml is None or text is None or body in seen:  # many compositions are the same on one dimension
            continue
        seen.add(body)
        root = ROOT if kind in ("broadcast", "reduce", "gather", "scatter") else 0
        assert msccl_rules.broken_rules(xml, root, range(2)) == {}, algorithm
        assert mscclpp_rules.broken_rules(text, root, range(2)) == {}, algorithm
        Path("p.xml").write_text(xml)
        Path("p.json").write_text(text)
        assert syncline_command("verify", "p.json").err == "", algorithm
        times = {time_of(syncline_command, kind, fabric, file, "--backend", "flow") for file in ("p.xml", "p.json")}
        assert len(times) == 1, algorithm
    assert seen


@pytest.mark.parametrize(
    ("kind", "algorithm", "fabric"),
    [
        ("all-reduce", "ring", "Ring(16)"),
        ("all-to-all", "ring", "Ring(16)"),
        ("all-reduce", "direct", "Switch(20)"),
        ("reduce-scatter", "direct", "Switch(40)"),
    ],
)
def test_long_threads_become_several_thread_blocks(
    kind: str, algorithm: str, fabric: str, syncline_command: Command
) -> None:
    plan = plan_of(syncline_command, kind, algorithm, fabric)
    assert any(len(gpu["semaphores"]) > 0 for gpu in plan["gpus"])
    assert mscclpp_rules.broken_rules(json.dumps(plan), seeds=range(1)) == {}
    ended, said = verify(syncline_command, plan)
    assert (ended.status, ended.err) == (0, ""), said
    xml = exported(syncline_command, kind, algorithm, fabric, "msccl-xml")
    assert xml is not None
    Path("p.xml").write_text(xml)
    times = [time_of(syncline_command, kind, fabric, file) for file in ("p.xml", "p.json")]
    assert times[0] == times[1]


def test_a_run_without_what_only_syncline_says(syncline_command: Command) -> None:
    """Signals that say that a launch has begun, and threads in several parts, then take time as they do in any plan."""
    plan = plan_of(syncline_command, "all-reduce", "ring", "Ring(4)")
    Path("own.json").write_text(json.dumps(plan))
    foreign = without_own(plan)
    ended, said = verify(syncline_command, foreign)
    assert ended.status == 0, said
    own, other = (time_of(syncline_command, "all-reduce", "Ring(4)", file) for file in ("own.json", "p.json"))
    assert own < other < own + 2e-6  # a message without data, one way


def without_own(value: Any) -> Any:
    """The same as another tool would write it."""
    if isinstance(value, dict):
        return {key: without_own(part) for key, part in value.items() if key != "syncline"}
    return [without_own(part) for part in value] if isinstance(value, list) else value


# Broken files.


def ops_of(plan: Plan, gpu: int = 0, block: int = 0) -> list[dict[str, Any]]:
    """The operations of a thread block."""
    ops: list[dict[str, Any]] = plan["gpus"][gpu]["threadblocks"][block]["ops"]
    return ops


def nth(plan: Plan, name: str, which: int = 0, gpu: int = 0, block: int = 0) -> int:
    """The place of an operation of some name."""
    return [at for at, op in enumerate(ops_of(plan, gpu, block)) if op["name"] == name][which]


def drop(plan: Plan, name: str, which: int = 0, gpu: int = 0) -> None:
    """Takes an operation out."""
    ops_of(plan, gpu).pop(nth(plan, name, which, gpu))


def edit(plan: Plan, path: str, value: Any) -> None:
    """Sets a value."""
    *way, last = [int(key) if key.lstrip("-").isdecimal() else key for key in path.split(".")]
    at: Any = plan
    for key in way:
        at = at[key]
    at[last] = value


def never_signals(plan: Plan) -> None:
    """Takes a signal and its wait: the data come all the same, and nobody waits for them."""
    drop(plan, "signal", -1, 0)
    drop(plan, "wait", -1, 1)


def waits_first(plan: Plan) -> None:
    """Has every GPU wait before it signals for the first time after its start."""
    for gpu in range(len(plan["gpus"])):
        ops = ops_of(plan, gpu)
        signal, wait = nth(plan, "signal", 1, gpu), nth(plan, "wait", 1, gpu)
        ops[signal : wait + 1] = [ops[wait], NOP, ops[signal]]


def begins_early(plan: Plan) -> None:
    """Takes the signals that a launch has begun."""
    for gpu in range(len(plan["gpus"])):
        drop(plan, "signal", 0, gpu)
        drop(plan, "wait", 0, gpu)


def shares_scratch(plan: Plan) -> None:
    """Puts the second message where the first one is."""
    for op in (op for gpu in plan["gpus"] for block in gpu["threadblocks"] for op in block["ops"]):
        for entry in (*op.get("src_buff", ()), *op.get("dst_buff", ())):
            if entry.get("type") == "s" or "buffer_id" in entry:
                entry["index"] = 0


def loses(plan: Plan) -> None:
    """Adds the own data to themselves, in place of what has arrived."""
    src = ops_of(plan)[nth(plan, "res")]["src_buff"]
    src[1] = src[0]


def nop_before_signal(plan: Plan) -> None:
    """Takes it out."""
    ops_of(plan).pop(nth(plan, "signal", 1) - 1)


def nop_after_wait(plan: Plan) -> None:
    """Takes it out."""
    ops_of(plan).pop(nth(plan, "wait", 1) + 1)


def many_operations(plan: Plan) -> None:
    """Adds nops."""
    ops_of(plan).extend({"name": "nop"} for _ in range(64))


def many_channels(plan: Plan) -> None:
    """Adds channels, on both sides."""
    for gpu, peer in ((0, 1), (1, 0)):
        plan["gpus"][gpu]["channels"].append({"channel_type": "memory", "connected_to": [peer] * 16})
    block = plan["gpus"][0]["threadblocks"][0]["channels"][0]
    block["channel_ids"] = [*block["channel_ids"], *range(2, 18)]


BROKEN: Final[dict[str, tuple[int, Callable[[Plan], None], str]]] = {
    "no collective": (1, lambda plan: edit(plan, "collective", "sendrecv"), "collective: 'sendrecv' is not accepted"),
    "ids of GPUs": (2, lambda plan: edit(plan, "gpus.1.id", 2), "GPU 1, id: this GPU stands at place 1"),
    "sizes": (3, lambda plan: edit(plan, "gpus.0.input_chunks", 7), "GPU 0: the output buffer has 3 chunks"),
    "a channel to itself": (
        4,
        lambda plan: edit(plan, "gpus.0.channels.0.connected_to.0", 0),
        "GPU 0, channels.0.connected_to.0: a channel of GPU 0 leads to GPU 0",
    ),
    "one end of a channel": (
        5,
        lambda plan: edit(plan, "gpus.0.channels.0.connected_to.0", 2),
        "waits for a signal on channel",
    ),
    "semaphores": (
        6,
        lambda plan: edit(plan, "gpus.0.semaphores", [{"init_value": 0}] * 17),
        "GPU 0, semaphores: 17 semaphores; MSCCL++ takes up to 16",
    ),
    "ids of thread blocks": (
        7,
        lambda plan: edit(plan, "gpus.0.threadblocks.0.id", 1),
        "GPU 0, thread block 0, id: this thread block stands at place 0",
    ),
    "channels": (8, many_channels, "18 channels or remote buffers in a thread block; MSCCL++ takes up to 16"),
    "operations": (9, many_operations, "operations in a thread block; MSCCL++ takes up to 64"),
    "an operation": (
        10,
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.3.name", "upkt"),
        "GPU 0, thread block 0, operation 3, name: 'upkt' is not read: packets (protocol LL)",
    ),
    "a channel": (
        11,
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.0.channel_ids.0", 5),
        "GPU 0, thread block 0, operation 0, channel_ids.0: the thread block has no such channel",
    ),
    "bounds": (
        12,
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.3.dst_buff.0.index", 99),
        "GPU 0, thread block 0, operation 3, dst_buff.0: chunks 99 to 99 are outside of a buffer of",
    ),
    "a remote buffer": (
        12,
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.3.dst_buff.0.buffer_id", 9),
        "operation 3, dst_buff.0.buffer_id: the thread block has no such remote buffer",
    ),
    "operands": (
        13,
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.3.dst_buff", []),
        "GPU 0, thread block 0, operation 3: 'put' has not the operands that it takes",
    ),
    "a wait": (14, lambda plan: drop(plan, "wait", -1), "is not waited for; the next launch would take it"),
    "a signal": (14, lambda plan: drop(plan, "signal", -1), "that nobody gives"),
    "no nop before a signal": (
        15,
        nop_before_signal,
        "nothing says which comes first",
    ),
    "no nop after a wait": (
        16,
        nop_after_wait,
        "nothing says which comes first",
    ),
    "a circle": (17, waits_first, "thread blocks wait for ever"),
    "what is not waited for": (18, never_signals, "no signal to GPU 1 follows in this thread block"),
    "other launches": (18, begins_early, "of which no signal says that it has begun"),
    "scratch of two messages": (18, shares_scratch, "chunk 0 of the scratch buffer"),
    "a lost sum": (18, loses, "rank 0 counts twice"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_plans(case: str, syncline_command: Command) -> None:
    """A broken file breaks the rule that was broken, and Syncline says so, too."""
    rule, breaks, message = BROKEN[case]
    plan = plan_of(syncline_command, "all-reduce", "ring-unidirectional", "Ring(3)")
    assert mscclpp_rules.broken_rules(json.dumps(plan)) == {}
    breaks(plan)
    assert rule in mscclpp_rules.broken_rules(json.dumps(plan), seeds=range(20))
    ended, said = verify(syncline_command, plan)
    assert message in said
    assert ended.status != 0 or "warning: " in said


NEEDLESS: Final = {15, 16}
"""Rules that ask for a nop wherever one might be needed; `verify` asks for those that are."""


def mutated(chance: Random, plan: Plan) -> Plan:
    """A plan with one operation gone, moved, doubled or changed."""
    plan = copy.deepcopy(plan)
    gpu = chance.choice([gpu for gpu in plan["gpus"] if gpu["threadblocks"]])
    ops = chance.choice(gpu["threadblocks"])["ops"]
    at = chance.randrange(len(ops))
    how = chance.randrange(5)
    if how == 0:
        ops.pop(at)
    elif how == 1:
        ops.insert(chance.randrange(len(ops)), ops.pop(at))
    elif how == 2:
        ops.insert(at, copy.deepcopy(chance.choice(ops)))
    elif how == 3:
        nops = [at for at, op in enumerate(ops) if op["name"] == "nop"]
        ops.pop(chance.choice(nops or [at]))
    else:
        op = chance.choice(ops)
        for entry in chance.sample([*op.get("src_buff", ()), *op.get("dst_buff", ())], 1) if "src_buff" in op else ():
            entry["index"] = max(0, entry["index"] + chance.choice((-1, 1)))
    return plan


SOURCES: Final = (
    ("all-reduce", "ring", "Ring(3)"),
    ("all-reduce", "direct", "Switch(4)"),
    ("all-to-all", "ring", "Ring(4)"),
    ("broadcast", "double-binary-tree", "Switch(4)"),
    ("reduce-scatter", "halving-doubling", "Switch(4)"),
    ("all-gather", "direct", "Ring(4)"),
)


@pytest.mark.parametrize("source", SOURCES, ids="-".join)
def test_what_verifies_is_right_whatever_the_timing(source: tuple[str, str, str], syncline_command: Command) -> None:
    """Damaged plans that `verify` takes for right, without a warning, keep all rules in every interleaving tried."""
    chance, plan = Random(7), plan_of(syncline_command, *source)
    root = ROOT if source[0] == "broadcast" else 0
    right = 0
    for foreign in itertools.islice(itertools.cycle((False, True)), 60):
        broken = mutated(chance, without_own(plan) if foreign else plan)
        ended, said = verify(syncline_command, broken)
        assert ended.status in (0, 1, 2), said
        if ended.status == 0 and not ended.err:
            assert set(mscclpp_rules.broken_rules(json.dumps(broken), root, range(3))) <= NEEDLESS, said
            right += 1
    assert 0 < right < 60  # a nop that is twice there, say, breaks nothing


# Plans of others.


def entry(chunk: int, size: int = 1, *, of: str | int = "i") -> dict[str, Any]:
    """Chunks of an own buffer, or of a remote one by its number."""
    return {"buffer_id" if isinstance(of, int) else "type": of, "index": chunk, "size": size}


def op(name: str, src: list[Any] | None = None, dst: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    """An operation."""
    buffers = {} if src is None else {"src_buff": src, "dst_buff": dst, "channel_type": "memory"}
    on = {"channel_ids": [0], "channel_type": "memory"} if name in ("signal", "wait") else {}
    return {"name": name, **buffers, **on, **more}


NOP: Final = op("nop")
MEET: Final = [NOP, op("signal"), op("wait"), NOP]


def two(collective: str, sizes: tuple[int, int, int], blocks: Callable[[int], list[list[Any]]], **head: Any) -> Plan:
    """A plan of two GPUs, each with one channel, and with the input, output and scratch of the other as remote
    buffers 0, 1 and 2.
    """

    def block(number: int, ops: list[Any]) -> dict[str, Any]:
        return {
            "id": number,
            "ops": ops,
            "channels": [{"channel_type": "memory", "channel_ids": [0]}],
            "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0, 1, 2]}],
        }

    def gpu(rank: int) -> dict[str, Any]:
        remote = [{"rank": 1 - rank, "type": buffer, "access_channel_types": ["memory"]} for buffer in "ios"]
        return {
            "id": rank,
            **dict(zip(("input_chunks", "output_chunks", "scratch_chunks"), sizes, strict=True)),
            "channels": [{"channel_type": "memory", "connected_to": [1 - rank]}],
            "remote_buffers": remote,
            "semaphores": [],
            "threadblocks": [block(number, ops) for number, ops in enumerate(blocks(rank))],
        }

    head = {"name": "two", "collective": collective, "protocol": "Simple", "inplace": False} | head
    return {**head, "gpus": [gpu(0), gpu(1)]}


def reads(rank: int) -> list[list[Any]]:
    """An all-gather that gets, by which both have begun before and have not ended until both are done."""
    get = op("get", [entry(0, of=0)], [entry(1 - rank, of="o")], channel_ids=[0])
    return [[op("copy", [entry(0)], [entry(rank, of="o")]), *MEET, get, *MEET]]


def reduces(name: str) -> Callable[[int], list[list[Any]]]:
    """An all-reduce of two chunks, each of which one GPU adds up, in one way or another."""

    def of(rank: int) -> list[list[Any]]:
        far = [entry(rank, of=0)]
        if name == "rres":
            ops = [op("rres", [entry(rank), *far], [entry(rank, of="o"), entry(rank, of=1)])]
        elif name == "rre":
            there = op("put", [entry(rank, of="o")], [entry(rank, of=1)])
            ops = [op("rre", [entry(rank), *far], [entry(rank, of="o")]), NOP, there]
        else:
            get = op("get", far, [entry(0, of="s")])
            ops = [get, NOP, op("res", [entry(rank), entry(0, of="s")], [entry(rank, of="o"), entry(rank, of=1)])]
        return [[*MEET, *ops, *MEET]]

    return of


def two_blocks(rank: int) -> list[list[Any]]:
    """An all-gather in which one thread block copies what the other one has received, after a barrier."""
    barrier = op("barrier", barrier_id=0, num_threadblocks=2)
    put = op("put", [entry(0)], [entry(0, of=2)])
    return [
        [*MEET, put, *MEET, barrier],
        [
            op("copy", [entry(0)], [entry(rank, of="o")]),
            barrier,
            op("copy", [entry(0, of="s")], [entry(1 - rank, of="o")]),
        ],
    ]


OTHERS: Final = {
    "get": two("allgather", (1, 2, 0), reads),
    "rre": two("allreduce", (2, 2, 0), reduces("rre")),
    "rres": two("allreduce", (2, 2, 0), reduces("rres")),
    "res": two("allreduce", (2, 2, 1), reduces("res")),
    "barrier": two("allgather", (1, 2, 1), two_blocks),
}


@pytest.mark.parametrize("name", OTHERS)
def test_plans_of_others(name: str, syncline_command: Command) -> None:
    plan = OTHERS[name]
    assert mscclpp_rules.broken_rules(json.dumps(plan), seeds=range(20)) == {}
    ended, said = verify(syncline_command, plan)
    assert (ended.status, ended.err) == (0, ""), said
    kind = {"allgather": "all-gather", "allreduce": "all-reduce"}[plan["collective"]]
    assert time_of(syncline_command, kind, "Ring(2)", "p.json") > 0
    again = [op for gpu in plan["gpus"] for block in gpu["threadblocks"] for op in block["ops"] if op["name"] == "nop"]
    assert again


@pytest.mark.parametrize("name", OTHERS)
def test_every_operation_of_others_matters(name: str, syncline_command: Command) -> None:
    """Where one is left out, either it was not needed, or `verify` finds what is wrong, or warns."""
    needed = 0
    for gpu, number in itertools.product(range(2), range(len(OTHERS[name]["gpus"][0]["threadblocks"]))):
        for at in range(len(ops_of(OTHERS[name], gpu, number))):
            plan = copy.deepcopy(OTHERS[name])
            ops_of(plan, gpu, number).pop(at)
            is_broken = not set(mscclpp_rules.broken_rules(json.dumps(plan), seeds=range(8))) <= NEEDLESS
            ended, said = verify(syncline_command, plan)
            needed += ended.status != 0
            assert not is_broken or ended.status != 0 or ended.err, (gpu, number, at, said)
    assert needed > 4


def test_a_message_is_faster_than_a_request_and_its_answer(syncline_command: Command) -> None:
    """What is read has to be asked for, which a message without data does."""
    ended, said = verify(syncline_command, OTHERS["get"])
    assert ended.status == 0, said
    got = time_of(syncline_command, "all-gather", "Ring(2)", "p.json")
    put = two(
        "allgather",
        (1, 2, 0),
        lambda r: [[*MEET, op("put", [entry(0)], [entry(r, of=1)]), op("copy", [entry(0)], [entry(r, of="o")]), *MEET]],
    )
    ended, said = verify(syncline_command, put)
    assert ended.status == 0, said
    assert time_of(syncline_command, "all-gather", "Ring(2)", "p.json") < got


def puts_last(plan: Plan) -> None:
    """Puts something after the last signal."""
    ops_of(plan).append(op("put", [entry(0)], [entry(0, of=2)]))
    edit(plan, "gpus.1.scratch_chunks", 1)


REFUSED: Final[dict[str, tuple[Callable[[Plan], None], str]]] = {
    "packets": (lambda plan: edit(plan, "protocol", "LL"), "MSCCL++ plans with packets (LL) are not read"),
    "a packet operation": (
        lambda plan: edit(plan, "gpus.1.threadblocks.0.ops.2", op("ppkt")),
        "GPU 1, thread block 0, operation 2, name: 'ppkt' is not read: packets (protocol LL)",
    ),
    "a switch": (
        lambda plan: edit(plan, "gpus.0.channels.0.channel_type", "switch"),
        "GPU 0, channels.0.channel_type: switch channels are not read",
    ),
    "a sum in a switch": (
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.0.name", "glres"),
        "GPU 0, thread block 0, operation 0, name: 'glres' is not read: switch channels",
    ),
    "a port": (
        lambda plan: edit(plan, "gpus.0.threadblocks.0.channels.0.channel_type", "port"),
        "GPU 0, thread block 0, channels.0.channel_type: port channels are not read",
    ),
    "put with signal": (
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.0.name", "pws"),
        "GPU 0, thread block 0, operation 0, name: 'pws' is not read: port channels",
    ),
    "a pipeline": (
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.0", {"name": "pipeline", "ops": []}),
        "operation 0, name: 'pipeline' is not read: loops over parts of a message",
    ),
    "relaxed": (
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.2.name", "rlxsignal"),
        "operation 2, name: 'rlxsignal' is not read: signals that order no data",
    ),
    "groups": (
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.0.tbg_info", {"tb_id": 0, "tbg_size": 2}),
        "operation 0, tbg_info: operations that several thread blocks share (tbg_info) are not read",
    ),
    "a maximum": (
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.0.reduce_op", "max"),
        "operation 0, reduce_op: only sums are read",
    ),
    "a semaphore that begins with more": (
        lambda plan: edit(plan, "gpus.0.semaphores", [{"init_value": 1}]),
        "GPU 0, semaphores.0.init_value: semaphore 0 begins with 1, so that nothing says what it waits for",
    ),
    "an operation that nobody knows": (
        lambda plan: edit(plan, "gpus.0.threadblocks.0.ops.0.name", "copi"),
        "operation 0, name: the operation 'copi' is not known; did you mean 'copy'?",
    ),
    "a channel of two thread blocks": (
        lambda plan: plan["gpus"][0]["threadblocks"].append(
            {**copy.deepcopy(plan["gpus"][0]["threadblocks"][0]), "id": 1}
        ),
        "thread blocks 0 and 1 of GPU 0 both",
    ),
    "a put that no signal follows": (
        puts_last,
        "no signal to GPU 1 follows in this thread block, so nobody can wait for what it puts there",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_read_is_refused_by_name(case: str, syncline_command: Command) -> None:
    changes, message = REFUSED[case]
    plan = copy.deepcopy(OTHERS["get"])
    changes(plan)
    ended, said = verify(syncline_command, plan)
    assert ended.status == 2, said
    assert message in said
    assert said.startswith("p.json:")


def test_barriers_wait_for_all_that_come(syncline_command: Command) -> None:
    plan = copy.deepcopy(OTHERS["barrier"])
    ops_of(plan, 1, 1)[1]["num_threadblocks"] = 3
    ended, said = verify(syncline_command, plan)
    assert ended.status == 2
    assert "barrier 0 of GPU 1 waits for 3 thread blocks, and 2 come to it" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"gpus": [', "this is not valid JSON"),
        ('{"gpus": 3}', "gpus: this is no list"),
        ('{\n "gpus": []}', "p.json:2: gpus: there are 0 GPUs"),
        ('{"gpus": [{}], "name": 1}', "GPU 0, id: this is missing"),
        ('{"gpus": [[]]}', "GPU 0: this is not a mapping"),
    ],
)
def test_damaged_files(text: str, message: str, syncline_command: Command) -> None:
    Path("p.json").write_text(text)
    ended = syncline_command("verify", "p.json")
    assert ended.status == 2
    assert message in ended.err


def test_buffering_is_not_asked_for(syncline_command: Command) -> None:
    verify(syncline_command, OTHERS["get"])
    ended = syncline_command("verify", "p.json", "--buffering", "1")
    assert ended.status == 2
    assert "--buffering: what a plan of MSCCL++ puts into the memory of others waits for no room" in ended.err
    document = json.loads(syncline_command("verify", "p.json", "--json").out)
    assert (document["format"], document["buffering"], document["assumptions"]) == ("mscclpp-json", "eager", [])


def test_limits_are_named(syncline_command: Command) -> None:
    ended = syncline_command(
        *("export", "all-reduce", "--algorithm", "double-binary-tree", "--topology", "Ring(16)", "--size", SIZE),
        *("--set", "collective.slices=64", "--format", "mscclpp-json"),
    )
    assert ended.status == 2
    assert "in 18 pairs, for each of which MSCCL++ takes a semaphore, of which it has 16" in ended.err


def test_help_names_the_format(syncline_command: Command) -> None:
    assert "mscclpp-json" in syncline_command("export", "--help").out
    ended = syncline_command("export", "all-reduce", "--algorithm", "ring", "--ranks", "4", "--format", "mscclpp")
    assert "accepted: plan, msccl-xml, mscclpp-json" in ended.err


# Rules of MSCCL.


def replaced(text: str, old: str, new: str, which: int = 0) -> str:
    """A text with one of several parts changed."""
    parts = text.split(old)
    return old.join(parts[: which + 1]) + new + old.join(parts[which + 1 :])


BROKEN_XML: Final[dict[int, tuple[str, str]]] = {
    1: (' outofplace="0"', ""),
    2: ('<gpu id="1"', '<gpu id="3"'),
    3: ('nchunksperloop="3"', 'nchunksperloop="4"'),
    4: ('send="1"', 'send="0"'),
    7: ('type="rrc"', 'type="rrd"'),
    8: ('cnt="1"', 'cnt="72"'),
    9: ('hasdep="1"', 'hasdep="0"'),
    12: ('type="rrc"', 'type="cpy"'),
    13: ('depid="1" deps="1"', 'depid="1" deps="3"'),
    14: ('srcbuf="i" srcoff="1"', 'srcbuf="i" srcoff="2"'),
}


@pytest.mark.parametrize("rule", BROKEN_XML)
def test_broken_schedules(rule: int, syncline_command: Command) -> None:
    text = exported(syncline_command, "all-reduce", "direct", "Switch(3)", "msccl-xml")
    assert text is not None
    assert msccl_rules.broken_rules(text) == {}
    assert rule in msccl_rules.broken_rules(replaced(text, *BROKEN_XML[rule]))
