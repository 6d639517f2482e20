"""A stand-in for the engine: it keeps the contract and computes plausible numbers in no time.

Bandwidth grows with what the endpoint is given until the links are full, so that searches have something to
find; nothing else about the numbers means anything.
"""

from __future__ import annotations

import itertools
import json
import math
import struct
import sys
from types import ModuleType
from typing import Any

from syncline.core import _core, binding


class SpecError(ValueError):
    """As the engine's."""


class SimulationError(RuntimeError):
    """As the engine's."""


SPEED = {
    "double-binary-tree": 0.5,
    "six-phase": 0.98,
    "ring": 0.96,
    "direct": 0.9,
    "hierarchical": 0.9,
    "themis": 0.9,
    "ace-4-phase": 0.97,
}
"""The share of the links that an algorithm makes use of, beside 0.97."""
UNKNOWN = ("halving-doubling", "one-hop-trees")
"""Algorithms that this engine does not have."""


ENGINE = _core
"""The engine, which tests replace by this module."""


def refused(field: str, message: str, accepted: str | None = None, least: int | None = None) -> SpecError:
    """As the engine refuses a field, whose names are separated by dots."""
    names = [name for name in field.split(".") if name]
    refusal = {"field": names, "message": message, "accepted": accepted, "least": least, "value": None, "line": None}
    return SpecError(json.dumps([refusal]))


def version() -> str:
    """As the engine's."""
    return "fake"


def describe() -> str:
    """What the engine itself says: a stand-in of its own would be one more place to keep equal."""
    return ENGINE.describe()


def columns(table: str) -> list[str]:
    """The names of the columns of a table of the engine."""
    (declared,) = (each for each in json.loads(describe())["tables"] if each["name"] == table)
    return [column["name"] for column in declared["columns"]]


def ints(*values: int) -> tuple[str, bytes]:
    """A column of integers."""
    return "int", struct.pack(f"<{len(values)}q", *values)


def floats(*values: float) -> tuple[str, bytes]:
    """A column of numbers."""
    return "float", struct.pack(f"<{len(values)}d", *values)


def texts(*values: str) -> tuple[str, tuple[bytes, bytes]]:
    """A column of text."""
    ends = itertools.accumulate((len(value.encode()) for value in values), initial=0)
    return "text", (struct.pack(f"<{len(values) + 1}q", *ends), "".join(values).encode())


def fan_out(dim: dict[str, Any]) -> int:
    """Neighbours of an NPU along a dimension; the switch is one."""
    return {"ring": 2, "fully-connected": int(dim["size"]) - 1, "switch": 1}[dim["block"]]


def npus_of(spec: dict[str, Any]) -> int:
    """NPUs of the fabric."""
    fabric = spec["fabric"]
    return int(fabric["npus"]) if fabric["kind"] == "graph" else math.prod(dim["size"] for dim in fabric["dims"])


def ranks_of(spec: dict[str, Any]) -> int:
    """NPUs of a group."""
    groups = spec["groups"]
    return npus_of(spec) if groups is None else len(groups["members"][0])


def egress_of(spec: dict[str, Any]) -> int:
    """Payload bytes per second that the first NPU can send."""
    fabric = spec["fabric"]
    if fabric["kind"] == "graph":
        return sum(int(link["rate_bytes_per_s"]) for link in fabric["links"] if link["from"] == 0)
    return sum(fan_out(d) * d["links"] * d["rate_bytes_per_s"] for d in fabric["dims"] if d["size"] > 1)


def ahead(spec: dict[str, Any]) -> dict[str, Any]:
    """What summaries and previews have in common."""
    npus, ranks, folded = npus_of(spec), ranks_of(spec), spec["fold"] != "off" and spec["fabric"]["kind"] == "product"
    size = spec["job"].get("bytes", 51_000_000)
    return {
        "npus": npus,
        "simulated_npus": 1 if folded else npus,
        "unfolded": None if folded else "NPUs differ",
        "slices": None,
        "steps": 2 * (ranks - 1),
        "chunks": 7,
        "gradient_bytes": size,
        "lower_bound_ps": 2 * (ranks - 1) * size * 10**12 // (ranks * egress_of(spec)) if ranks > 1 else 0,
        "offloaded": None,
        "warnings": [],
    }


def check(spec_json: str) -> str:
    """As the engine's; everything else that is JSON is legal."""
    spec = json.loads(spec_json)
    if (algorithm := spec["collectives"]["algorithm"]) in UNKNOWN:
        raise refused("collectives.algorithm", f"there is no {algorithm}", "ring, direct")
    sent = 2 * (ranks_of(spec) - 1) * spec["job"].get("bytes", 51_000_000) // ranks_of(spec)
    of_npu = 14 * (ranks_of(spec) - 1)
    simulated = ahead(spec)["simulated_npus"]
    messages = simulated * of_npu
    packets = max(messages, simulated * sent // spec["network"].get("packet_bytes", 2**60))
    counts = {
        "simulated_links": 6 * npus_of(spec),
        "chunk_bytes": 65_536,
        "messages_per_npu": of_npu,
        "bytes_sent_per_npu": sent,
        **dict.fromkeys(("messages", "message_hops"), messages),
        "bytes": simulated * sent,
        "payload_bytes": npus_of(spec) * sent,
        **dict.fromkeys(("packets", "packet_hops"), packets),
        "byte_hops": simulated * sent,
        "flow_message_hops": 0,
        "flow_byte_hops": 0,
        "busy_ps": 0,
        "kernels": 0,
        "memory_bytes": 100_000_000,
    }
    return json.dumps(ahead(spec) | counts)


class CancelledError(RuntimeError):
    """As that of the engine."""


class Cancellation:
    """As that of the engine."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Monitor:
    """As that of the engine, of simulations that take no time."""

    def __init__(self, cancellation: Cancellation | None = None) -> None:
        self.shared = cancellation
        self.own = Cancellation()
        self.events = self.time_ps = 0

    def cancel(self) -> None:
        self.own.cancel()

    @property
    def cancelled(self) -> bool:
        return self.own.cancelled or (self.shared is not None and self.shared.cancelled)


class Prepared:
    """As the engine's: what the functions of the module do."""

    def __init__(self, spec_json: str) -> None:
        self._spec, self._preview = spec_json, str(self._module().check(spec_json))

    def preview(self) -> str:
        """As the engine's."""
        return self._preview

    def attempt(self, most_ps: int, most_work: int, monitor: Monitor | None = None) -> str:
        """As the engine's."""
        return str(self._module().attempt(self._spec, most_ps, most_work, monitor))

    def run(self, monitor: Monitor | None = None) -> dict[str, Any]:
        """As the engine's."""
        found: dict[str, Any] = self._module().run(self._spec, monitor)
        return found

    def _module(self) -> Any:
        """This module as tests have changed it."""
        return sys.modules["syncline.core._core"]


def verify(request_json: str) -> str:
    """As the engine's; everything that is JSON is right."""
    request = json.loads(request_json)
    schedule = request["schedule"]
    ranks = schedule["ranks"]
    steps = [step for rank in ranks for block in rank["thread_blocks"] for step in block["steps"]]
    messages = sum(step["type"] in ("s", "rcs", "rrs", "rrcs") for step in steps)
    report = {
        "name": schedule["name"],
        "collective": schedule["collective"],
        "in_place": schedule["in_place"],
        "root": request["root"],
        "root_inferred": False,
        "buffering": request["buffering"],
        "verified": True,
        **{kind: [] for kind in ("errors", "flaws", "warnings")},
        **{f"{kind}_omitted": 0 for kind in ("errors", "flaws", "warnings")},
        "counts": {
            "ranks": len(ranks),
            "channels": 1,
            "thread_blocks": sum(len(rank["thread_blocks"]) for rank in ranks),
            "steps": len(steps),
            "nops": 0,
            "messages": messages,
            "chunks_sent": messages,
            "size_chunks": ranks[0]["input_chunks"],
            "sent_per_byte_min": 1.5,
            "sent_per_byte_max": 1.5,
            "longest_path_steps": 7,
        },
    }
    return json.dumps(report)


def run(spec_json: str, monitor: Monitor | None = None) -> dict[str, Any]:
    """As the engine's."""
    spec = json.loads(spec_json)
    npus, ranks, egress = npus_of(spec), ranks_of(spec), egress_of(spec)
    taking_part = npus if spec["groups"] is None else ranks * len(spec["groups"]["members"])
    job, endpoint = spec["job"], spec["endpoint"]
    size = job["bytes"] if job["kind"] == "collective" else 51_000_000
    sent = 2 * (ranks - 1) * size // ranks
    memory = endpoint.get("memory_bytes_per_s", 10**15)
    reuse = 2.25 if endpoint["kind"] == "ace" else 1 / 1.5
    rate = (
        min(
            SPEED.get(spec["collectives"]["algorithm"], 0.97) * egress,
            memory * reuse,
            endpoint.get("sm_bytes_per_s", 10**15) / 1.5,
        )
        or 10**6
    )
    comm_ps = int(sent / rate * 1e12)
    iterations = job.get("iterations", 0)
    compute_ps = exposed_ps = 0
    if iterations:
        compute_ps = int(iterations * 1.2e24 * job["compute"]["scale"] / job["compute"]["memory_bytes_per_s"] / 1e3)
        exposed_ps = comm_ps // 3
    total_ps = compute_ps + exposed_ps if iterations else comm_ps
    sent_all = sent * taking_part
    summary = ahead(spec) | {
        "npu": 0,
        "total_ps": total_ps,
        "iterations": iterations,
        "iteration_ends_ps": [total_ps * (i + 1) // iterations for i in range(iterations)],
        "steady": {"iteration_ps": total_ps / iterations, "iterations": iterations, "settled": True}
        if iterations > 1
        else None,
        "compute_ps": compute_ps,
        "compute_alone_ps": compute_ps,
        "exposed_ps": exposed_ps,
        "drain_ps": 0,
        "background_compute_ps": 0,
        "background_compute_alone_ps": 0,
        "background_wait_ps": 0,
        "bubble_ps": 0,
        "classes": [],
        "passes": [
            {
                "iteration": i,
                "pass": name,
                "from_ps": 10 * i + at,
                "to_ps": 10 * i + at + 5,
                "engine_active_ps": at // 5,
            }
            for i in range(iterations)
            for name, at in (("forward", 0), ("backward", 5))
        ],
        "exposed_by": [{"layer": "conv1", "pass": "weight_grad", "exposed_ps": exposed_ps}] if iterations else [],
        "network": {
            "link_bytes": sent_all,
            "injected_bytes": sent_all,
            "delivered_bytes": sent_all,
            "dropped_bytes": 0,
            "links": 6 * npus,
            "mean_link_utilisation": 0.5,
            "packet_hops": sent_all // 256,
        },
        "endpoint": {
            "memory_read_bytes": sent_all * 3 // 2,
            "memory_write_bytes": sent_all,
            "loaded_bytes": sent_all * 4 // 9,
            "sent_bytes": sent_all,
            "sent_by_switches_bytes": 0,
            "transit_bytes": 0,
            "resources": [
                {
                    "resource": "memory",
                    "servers": 1,
                    "busy_ps": total_ps // 2,
                    "wait_ps": 10,
                    "transfer_ps": 20,
                    "served": 3,
                }
            ],
            "partitions": [],
            "phases": [],
            "breakdown": {
                "chunks": 2,
                "chunk_queue_ps": 40,
                "messages": 4,
                "bus_queue_ps": 10,
                "bus_transfer_ps": 20,
                "network_ps": 100,
            },
            "fsm_peak": 0,
            "fsms": endpoint.get("fsms", 0),
        },
        "events": 1234,
        "lower_bound_by": "what all NPUs together have to send",
    }
    tables = {
        "layers": {
            "index": ints(0),
            "layer": texts("conv1"),
            "params": ints(9408),
            "gradient_bytes": ints(18816),
            "forward_ps": ints(1000),
            "input_grad_ps": ints(0),
            "weight_grad_ps": ints(2000),
            "update_ps": ints(10),
            "compute_ps": ints(compute_ps),
            "collectives": ints(iterations),
            "comm_bytes": ints(18816),
            "raw_latency_ps": ints(500),
            "queue_ps": ints(5),
            "exposed_ps": ints(exposed_ps),
        },
        "collectives": {
            "id": ints(0),
            "layer": texts("conv1"),
            "pass": texts("weight_grad"),
            "iteration": ints(0),
            "kind": texts("all-reduce"),
            "bytes": ints(size),
            "chunks": ints(7),
            "issued_ps": ints(0),
            "started_ps": ints(5),
            "completed_ps": ints(total_ps),
            "exposed_ps": ints(exposed_ps),
        },
        "phases": {
            "phase": ints(0),
            "name": texts("reduce-scatter dim 0"),
            "dim": ints(0),
            "chunks": ints(7),
            "queue_ps": ints(1),
            "active_ps": ints(2),
            "fsms": ints(0),
            "fsm_peak": ints(0),
        },
        "links": {
            "node": ints(0, 0),
            "copies": ints(1, 1),
            "port": texts("dim 0 up", "dim 0 down"),
            "to": ints(0, 0),
            "dim": ints(0, 0),
            "bytes": ints(10, 20),
            "busy_ps": ints(1, 2),
        },
        "resources": {
            "resource": texts("memory"),
            "servers": ints(1),
            "busy_ps": ints(1),
            "wait_ps": ints(1),
            "transfer_ps": ints(2),
            "served": ints(1),
        },
        "windows": {
            "window": ints(0, 1),
            "start_ps": ints(0, spec["output"]["window_ps"] or 1000),
            "compute": floats(1.0, 0.5),
            "links": floats(0.25, 0.75),
            "link_dim0": floats(0.25, 0.75),
            "ace_active": floats(0.0, 0.0),
            "sram_bytes": floats(0.0, 0.0),
            "fsm_busy": floats(0.0, 0.0),
        },
        "sram": {
            "window": ints(),
            "start_ps": ints(),
            "partition": ints(),
            "capacity_bytes": ints(),
            "mean_bytes": floats(),
            "peak_bytes": ints(),
        },
        "slices": {
            "npu": ints(0),
            "track": texts("compute"),
            "name": texts("conv1 forward"),
            "start_ps": ints(0),
            "end_ps": ints(max(1, total_ps)),
        },
        "messages": {
            "src": ints(0),
            "src_port": texts("dim 0 up"),
            "dst": ints(0),
            "dst_port": texts("dim 0 down"),
            "bytes": ints(10),
            "sent_ps": ints(0),
            "arrived_ps": ints(max(1, total_ps)),
        },
        "link_spans": {
            "node": ints(0),
            "port": texts("dim 0 up"),
            "to": ints(0),
            "start_ps": ints(0),
            "end_ps": ints(1),
            "busy_ps": ints(1),
        },
    }
    if spec["network"]["backend"] == "ethernet":
        tables["transport"] = {name: ints(1) for name in columns("transport")}
    return {"summary": json.dumps(summary), "tables": tables}


def attempt(spec_json: str, most_ps: int, most_work: int, monitor: Monitor | None = None) -> str:
    """As the engine's, of what the module's `run` returns."""
    result = sys.modules["syncline.core._core"].run(spec_json)
    summary = json.loads(result["summary"])
    late, costly = summary["total_ps"] > most_ps, summary["events"] > most_work
    _, busy = result["tables"]["links"]["busy_ps"]
    return json.dumps(
        {
            "ending": "late" if late else "costly" if costly else "complete",
            "time_ps": min(summary["total_ps"], most_ps),
            "events": min(summary["events"], most_work),
            "work": min(summary["events"], most_work),
            "delivered_bytes": summary["network"]["delivered_bytes"],
            "busiest_link_ps": max(struct.unpack(f"<{len(busy) // 8}q", busy)),
            "slices": None,
            "phases": 1,
        }
    )


def module() -> ModuleType:
    """The stand-in as a module."""
    fake = ModuleType("syncline.core._core")
    for name, value in (
        ("run", run),
        ("check", check),
        ("attempt", attempt),
        ("Prepared", Prepared),
        ("asked", ENGINE.asked),
        ("packing", ENGINE.packing),
        ("verify", verify),
        ("describe", describe),
        ("demands", ENGINE.demands),
        ("version", version),
        ("sources", binding.sources),
        ("SpecError", SpecError),
        ("SimulationError", SimulationError),
        ("CancelledError", CancelledError),
        ("Cancellation", Cancellation),
        ("Monitor", Monitor),
    ):
        setattr(fake, name, value)
    return fake
