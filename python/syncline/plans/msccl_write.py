"""MSCCL's XML, written in the form that its compiler calls the old one: what a schedule leaves open is filled in.

Every attribute is there, also where it means nothing: one executor reads attributes without asking whether they exist,
and one ignores a file in which the limits of its messages or `outofplace` are missing. What runtimes do not know
(`thread`, `pacing`, `queues`, `way`, `pace`, `whole`) stands there only where the schedule says it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, Literal
from xml.sax.saxutils import escape

from syncline.plans.plan import PACING, Place, Plan, Step
from syncline.plans.ring import MAX_BYTES

ESCAPED: Final = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
"""What cannot stand between double quotes, the only ones that runtimes know."""
OPTIONAL: Final[tuple[Literal["pace"], Literal["whole"]]] = ("pace", "whole")
"""Attributes of a step that stand there only where it has them, under the names that they have in JSON."""
NOWHERE: Final[dict[str, Place]] = {"src": {"buffer": "i", "offset": -1}, "dst": {"buffer": "o", "offset": -1}}
"""What stands for the side of a step that is not used."""


def write(plan: Plan) -> str:
    """A schedule as an XML file. It must be one that the engine has accepted."""
    return "\n".join([*_lines(plan), ""])


def _lines(plan: Plan) -> Iterator[str]:
    yield _tag("algo", _head(plan), 0, close=False)
    for rank in plan["ranks"]:
        sizes = {
            "i_chunks": rank["input_chunks"],
            "o_chunks": rank["output_chunks"],
            "s_chunks": rank["scratch_chunks"],
        }
        yield _tag("gpu", {"id": rank["id"], **sizes}, 1, close=False)
        for block in rank["thread_blocks"]:
            peers = {"send": _or(block["send"], -1), "recv": _or(block["recv"], -1)}
            thread = {} if block.get("thread") is None else {"thread": block["thread"]}
            yield _tag("tb", {"id": block["id"], **peers, "chan": block["channel"], **thread}, 2, close=False)
            yield from (_tag("step", _of_step(step), 3, close=True) for step in block["steps"])
            yield "    </tb>"
        yield "  </gpu>"
    yield "</algo>"


def _head(plan: Plan) -> dict[str, object]:
    channels = max((block["channel"] + 1 for rank in plan["ranks"] for block in rank["thread_blocks"]), default=1)
    size = max(max(rank["input_chunks"], rank["output_chunks"]) for rank in plan["ranks"])
    head: dict[str, object] = {
        "name": plan["name"],
        "proto": plan["protocol"],
        "nchannels": _or(plan.get("channels"), channels),
        "nchunksperloop": _or(plan.get("chunks_per_loop"), size),
        "ngpus": len(plan["ranks"]),
        "coll": plan["collective"],
        "inplace": int(plan["in_place"]),
        "outofplace": int(not plan["in_place"]),
        "minBytes": _or(plan.get("min_bytes"), 0),
        "maxBytes": _or(plan.get("max_bytes"), MAX_BYTES),
    }
    if plan.get("threads") is not None:  # without it, the runtime takes as many as it finds best
        head["nthreads"] = plan["threads"]
    pacing = plan.get("pacing")
    if pacing is not None:
        head["pacing"] = " ".join(word for word in PACING if pacing[word])
        if pacing["queues"]:
            head["queues"] = pacing["queues"]
    return head


def _of_step(step: Step) -> dict[str, object]:
    src = step.get("src") or NOWHERE["src"]
    dst = step.get("dst") or NOWHERE["dst"]
    on = step.get("depends_on") or {"thread_block": -1, "step": -1}
    ways = (step.get("way") or {}).items()
    way = [f"{kind}:{json.dumps(value) if kind == 'through' else value}" for kind, value in ways]
    return {
        "s": step["id"],
        "type": step["type"],
        "srcbuf": src["buffer"],
        "srcoff": src["offset"],
        "dstbuf": dst["buffer"],
        "dstoff": dst["offset"],
        "cnt": step["count"],
        "depid": on["thread_block"],
        "deps": on["step"],
        "hasdep": int(step.get("has_dependents", False)),
        **({"way": way[0]} if way else {}),
        **{name: step[name] for name in OPTIONAL if step.get(name) is not None},
    }


def _tag(name: str, attributes: Mapping[str, object], depth: int, *, close: bool) -> str:
    inside = " ".join(f'{key}="{escape(str(value), ESCAPED)}"' for key, value in attributes.items())
    return f"{'  ' * depth}<{name} {inside}{'/' if close else ''}>"


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
