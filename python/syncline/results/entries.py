"""From what the engine returns to the JSON documents of the command line.

Times are seconds, sizes bytes, rates bytes per second, as numbers. Everything outside `cost` is equal byte
for byte between two runs of the same input.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from syncline import _version
from syncline.base import memory, text_units
from syncline.base.clock import Clock
from syncline.engine import assumptions, bounds, comparison
from syncline.engine.runs import PS_PER_S, Result
from syncline.experiment.load import Variant
from syncline.fabric import groups
from syncline.sections import hardware_cost
from syncline.sections.experiment import Experiment
from syncline.sections.packed import MIAD
from syncline.sections.workloads import ROOTED, CollectiveWorkload, ModelWorkload

Document = dict[str, Any]
Summary = Mapping[str, Any]

SIZE_MEANS: Final = {
    "all-reduce": "the full vector of each rank",
    "reduce-scatter": "what each rank puts in: its full vector, the shares of all ranks",
    "all-gather": "what each rank gets: its full vector, the shares of all ranks",
    "all-to-all": "what each rank puts in, and gets, for and from all ranks",
    "broadcast": "the full vector of the root",
    "reduce": "the full vector of each rank",
    "gather": "what the root gets: the shares of all ranks",
    "scatter": "what the root puts in: the shares of all ranks",
}
"""What the size of a collective is: the larger of what a rank, or the root, sends and receives."""


def seconds(picoseconds: float) -> float:
    """Picoseconds as seconds."""
    return picoseconds / PS_PER_S


def ratio(part: float, whole: float) -> float | None:
    """A quotient, or nothing where there is none."""
    return part / whole if whole else None


def document(
    variants: Sequence[Variant],
    *,
    seed: int,
    status: str,
    warnings: Sequence[str],
    seen: Mapping[str, Summary] | None = None,
) -> Document:
    """What every document begins with. `seen` are summaries or previews, by variant."""
    known = seen or {}
    each = [fidelity(v.experiment, known.get(v.name)) for v in variants if v.name in known or not known]
    return {
        **_version.versions(),
        "status": status,
        "seed": seed,
        "assumptions": assumptions.of(variants, {name: s["offloaded"] for name, s in known.items() if s["offloaded"]}),
        "warnings": list(warnings),
        "fidelity": _common(each),
    }


def cost(began: Clock, results: Sequence[Result]) -> Document:
    """What the computation took on this machine, trials included; the only part that differs between runs."""
    return {
        "wall_time_s": round(time.monotonic() - began.wall_s, 6),
        "cpu_time_s": round(time.process_time() - began.cpu_s, 6),
        "peak_rss_bytes": memory.peak(),
        "events": sum(result.summary["events"] for result in results),
        "packet_hops": sum(result.summary["network"]["packet_hops"] for result in results),
    }


def fidelity(experiment: Experiment, summary: Summary | None) -> Document:
    """How finely a simulation looks; whether it is folded is known from its summary or preview."""
    network = experiment.network
    found: Document = {"backend": network.backend, "folded": None}
    if summary is not None:
        found["folded"] = summary["unfolded"] is None
        found["simulated_npus"] = summary["simulated_npus"]
        found["unfolded_because"] = summary["unfolded"]
    found["transfer"] = network.transfer
    if network.packet_bytes is not None:
        found["packet_bytes"] = network.packet_bytes
    return found


NO_TRAINING: Final = (
    *("compute_time_s", "compute_time_alone_s", "exposed_comm_s", "exposed_comm_share", "drain_s"),
    *("background_compute_time_s", "background_compute_time_alone_s", "background_wait_s", "bubble_s", "peak_share"),
)
"""What an entry of `run` says of a training loop; nothing of a collective on its own."""


def run_entry(variant: Variant, result: Result) -> Document:
    """A variant in the document of `run`: of a training loop, or of a collective in the terms of nccl-tests."""
    if variant.experiment.is_training:
        return _training_entry(variant, result)
    fields = collective_fields(variant, result)
    del fields["npus"], fields["topology"]
    time_s = fields["time_s"]
    whole = {"iterations": 0, "iteration_time_s": time_s, "total_time_s": time_s}
    return {
        "name": variant.name,
        **whole,
        **fields,
        **dict.fromkeys(NO_TRAINING),
        "exposed_by_collective": [],
        "classes": [],
        "jobs": [],
        **_where(variant, result.summary),
        "fidelity": fidelity(variant.experiment, result.summary),
        "warnings": result.summary["warnings"],
    }


def _where(variant: Variant, summary: Summary) -> Document:
    """What an entry of `run` says of the machine."""
    topology = variant.experiment.topology
    return {
        "npus": summary["npus"],
        "npu": summary["npu"],
        "hardware": hardware(variant.experiment),
        "topology": str(topology),
        "link_classes": topology.classes,
    }


def _steady(variant: Variant, summary: Summary) -> Document:
    """What one more iteration costs, beside the headline."""
    steady = summary["steady"]
    entry: Document = {
        "iterations": summary["iterations"],
        "iteration_time_s": seconds(summary["total_ps"]) / max(1, summary["iterations"]),
        "steady_iteration_time_s": None if steady is None else seconds(steady["iteration_ps"]),
    }
    return {
        **entry,
        "steady_iteration_because": comparison.steady_because(entry, variant.experiment.tail),
        "steady_iteration_settled": None if steady is None else steady["settled"],
    }


def _training_entry(variant: Variant, result: Result) -> Document:
    summary = result.summary
    total_s = seconds(summary["total_ps"])
    return {
        "name": variant.name,
        **_steady(variant, summary),
        "total_time_s": total_s,
        "compute_time_s": seconds(summary["compute_ps"]),
        "compute_time_alone_s": seconds(summary["compute_alone_ps"]),
        "exposed_comm_s": seconds(summary["exposed_ps"]),
        "exposed_comm_share": ratio(summary["exposed_ps"], summary["total_ps"]),
        "drain_s": seconds(summary["drain_ps"]),
        "background_compute_time_s": seconds(summary["background_compute_ps"]),
        "background_compute_time_alone_s": seconds(summary["background_compute_alone_ps"]),
        "background_wait_s": seconds(summary["background_wait_ps"]),
        "bubble_s": seconds(summary["bubble_ps"]),
        "peak_share": summary.get("peak_share"),
        "classes": [_class(entry) for entry in summary["classes"]],
        "jobs": [_job(entry) for entry in summary.get("jobs", [])],
        "exposed_by_collective": [
            {"layer": e["layer"], "pass": e["pass"], "exposed_s": seconds(e["exposed_ps"])}
            for e in summary["exposed_by"]
        ],
        **engine_utilisation(summary),
        **_where(variant, summary),
        **algorithm(variant),
        "steps": summary["steps"],
        "chunks": summary["chunks"],
        "network": network(variant.experiment, result),
        "endpoint": endpoint(summary),
        **_cost_model(variant.experiment, total_s, summary["iterations"]),
        "fidelity": fidelity(variant.experiment, summary),
        "warnings": summary["warnings"],
    }


def _class(entry: Summary) -> Document:
    """What the NPUs of a class did, of which the slowest stands for all."""
    times = ("total", "compute", "exposed", "bubble", "background_wait", "drain")
    return {
        **{name: entry[name] for name in ("name", "npus", "npu")},
        **{f"{name}_s": seconds(entry[f"{name}_ps"]) for name in times},
    }


def _job(entry: Summary) -> Document:
    """How long a job takes beside others, and alone."""
    times = {name: seconds(entry[f"{name}_ps"]) for name in ("time", "alone")}
    return {
        "name": entry["name"],
        "iterations": entry["iterations"],
        "iteration_time_s": times["time"] / entry["iterations"],
        "iteration_time_alone_s": times["alone"] / entry["iterations"],
        "slowdown": ratio(entry["time_ps"], entry["alone_ps"]),
    }


def hardware(experiment: Experiment) -> Document:
    """What the NPUs are. The peak is null where no time follows from it: of a collective, of measured times, of a
    systolic array. `stated` are the figures that are not those of the NPU by this name.
    """
    npu = experiment.npu
    computes = isinstance(experiment.workload, ModelWorkload) and npu.compute.depends_on_type
    found: Document = {
        "npu": npu.title,
        "gpu": npu.gpu,
        "stated": npu.changed,
        "precision": experiment.precision if computes else None,
        "peak_flops_per_s": npu.peak if computes else None,
        "sms": npu.sms,
        "clock_hz": npu.clock,
        "memory_bandwidth_bytes_per_s": npu.memory_bandwidth,
        "memory_bytes": npu.memory,
        "bus_bytes_per_s": npu.bus,
    }
    return {**found, "description": _described(found)}


def _described(hardware: Document) -> str:
    """What the NPUs are, in a line: `NVIDIA H100 SXM5: 989.4 TFLOP/s (fp16), 132 SMs, 3.35 TB/s, 80 GB`."""
    name, stated = hardware["npu"], hardware["stated"]
    if stated:
        name = "NPU as stated" if hardware["gpu"] is None else f"{name} (stated: {', '.join(stated)})"
    bandwidth = hardware["memory_bandwidth_bytes_per_s"] / 1e9
    parts = [f"{hardware['sms']} SMs", f"{bandwidth:g} GB/s" if bandwidth < 1000 else f"{bandwidth / 1000:g} TB/s"]
    if hardware["peak_flops_per_s"] is not None:
        kind = "" if hardware["precision"] is None else f" ({hardware['precision']})"
        parts.insert(0, f"{hardware['peak_flops_per_s'] / 1e12:g} TFLOP/s{kind}")
    if hardware["memory_bytes"] is not None:
        parts.append(text_units.memory(hardware["memory_bytes"]))
    return f"{name}: {', '.join(parts)}"


def engine_utilisation(summary: Summary) -> Document:
    """The share of each kind of pass in which the ACE of the first NPU held a chunk; nothing without an ACE."""
    passes = summary["passes"]
    if not summary["endpoint"]["fsms"]:
        return {}
    found: Document = {}
    for name in dict.fromkeys(p["pass"] for p in passes):
        mine = [p for p in passes if p["pass"] == name]
        length = sum(p["to_ps"] - p["from_ps"] for p in mine)
        found[f"engine_utilisation_{name}"] = ratio(sum(p["engine_active_ps"] for p in mine), length)
    return found


def algorithm(variant: Variant) -> Document:
    """The algorithm, and how it was chosen if that was left open."""
    experiment = variant.experiment
    named = [f"plan {plan.name}" for plan in experiment.collective.plan]
    if not experiment.is_all_planned:
        own = [] if experiment.followers else dict.fromkeys(experiment.collective.algorithms.values())
        named += own or [experiment.collective.algorithm]
    found: Document = {"algorithm": ", ".join(named)}
    if variant.choice is not None:
        found["algorithm_choice"] = {
            "chosen": variant.choice.chosen,
            "because": variant.choice.because,
            "candidates": list(variant.choice.candidates),
        }
    if variant.tuning is not None:
        found["slices_choice"] = {
            "by": MIAD,
            "slice_bytes": variant.tuning.slice_bytes,
            "because": variant.tuning.because,
            "iterations": list(variant.tuning.iterations),
        }
    return found


def collective_fields(variant: Variant, result: Result) -> Document:
    """What the document of `collective` says beside the common fields."""
    experiment, summary = variant.experiment, result.summary
    workload = experiment.workload
    assert isinstance(workload, CollectiveWorkload)
    kind, size = workload.collective, workload.size
    members, ranks = experiment.members, experiment.ranks
    time_s = seconds(summary["total_ps"])
    algorithm_bandwidth = ratio(size, time_s)
    factor = float(bounds.bus_bandwidth_factor(kind, ranks))
    bound = seconds(summary["lower_bound_ps"])
    return {
        "collective": kind,
        "root": experiment.root if kind in ROOTED else None,
        "npus": experiment.topology.npus,
        "ranks": ranks,
        "groups": None if members is None else [groups.canonical(group) for group in members],
        "hardware": hardware(experiment),
        "topology": str(experiment.topology),
        **algorithm(variant),
        "time_s": time_s,
        "size_bytes": size,
        "size_means": f"{SIZE_MEANS[kind]}, as in nccl-tests",
        "algorithm_bandwidth_bytes_per_s": algorithm_bandwidth,
        "bus_bandwidth_bytes_per_s": None if algorithm_bandwidth is None else algorithm_bandwidth * factor,
        "steps": summary["steps"],
        "chunks": summary["chunks"],
        "lower_bound_s": bound,
        "lower_bound_by": summary["lower_bound_by"],
        "efficiency": ratio(bound, time_s),
        "network": network(experiment, result),
        "endpoint": endpoint(summary),
        **_cost_model(experiment, time_s, 0),
    }


def network(experiment: Experiment, result: Result) -> Document:
    """The network part of an entry; `link_bytes` counts a byte once per link that it crosses.

    A backend that ignores contention knows no utilisation of links: what they would have to carry, over what they can
    in the time of the run, is a demand, and may be more than one.
    """
    summary = result.summary
    totals = summary["network"]
    elsewhere = summary["endpoint"]["transit_bytes"] + summary["endpoint"]["sent_by_switches_bytes"]
    # What is under way when a run stops has been handed over, but NPUs have not sent all of it.
    handed_over = totals["injected_bytes"] - elsewhere
    arrived = max(0, totals["delivered_bytes"] - elsewhere) if experiment.tail == "stop" else handed_over
    # With prices of a model of software the network carries other bytes than the payload that they stand for.
    sent = summary["endpoint"]["sent_bytes"] * arrived // max(1, handed_over)
    per_npu = _per_npu(sent, experiment.taking_part)
    bandwidth = ratio(per_npu, seconds(summary["total_ps"]))
    fabric = experiment.fabric
    egress, wire = fabric.egress_rate, fabric.wire_rate  # none of a single NPU
    on_wire = ratio(wire, egress)
    demanded = not experiment.network.has_contention
    busy = totals["mean_link_utilisation"]
    return {
        "bytes_sent_per_npu": per_npu,
        "achieved_bandwidth_bytes_per_s": bandwidth,
        "achieved_wire_bandwidth_bytes_per_s": None if bandwidth is None or on_wire is None else bandwidth * on_wire,
        "payload_bandwidth_bytes_per_s": egress,
        "wire_bandwidth_bytes_per_s": wire,
        "mean_link_utilisation": None if demanded else busy,
        "link_demand": busy if demanded else None,
        "link_bytes": totals["link_bytes"],
        "links": totals["links"],
        "packet_hops": totals["packet_hops"],
        "dropped_bytes": totals["dropped_bytes"],
        "retransmissions": 0,
        "rto_events": 0,
        "drops": 0,
        **experiment.network.counted(result.tables, summary["total_ps"]),
    }


def endpoint(summary: dict[str, Any]) -> Document:
    """The endpoint part of an entry, over all NPUs; what is forwarded for others counts as transit, not as sent."""
    totals = summary["endpoint"]
    return {
        "memory_read_bytes": totals["memory_read_bytes"],
        "memory_write_bytes": totals["memory_write_bytes"],
        "loaded_bytes": totals["loaded_bytes"],
        "sent_bytes": totals["sent_bytes"],
        "sent_by_switches_bytes": totals["sent_by_switches_bytes"],
        "transit_bytes": totals["transit_bytes"],
        "fsms": totals["fsms"],
        "fsm_peak": totals["fsm_peak"],
        "resources": [
            {
                "resource": r["resource"],
                "servers": r["servers"],
                "busy_s": seconds(r["busy_ps"]),
                "wait_s": seconds(r["wait_ps"]),
                "transfer_s": seconds(r["transfer_ps"]),
                "served": r["served"],
            }
            for r in totals["resources"]
        ],
        "phases": totals["phases"],
        "partitions": totals["partitions"],
        "breakdown": breakdown(totals["breakdown"]),
    }


def breakdown(totals: Mapping[str, int]) -> Document:
    """Where the time of a chunk, and of a message, goes: means over all NPUs."""

    def mean(name: str, count: str) -> float | None:
        return ratio(seconds(totals[name]), totals[count])

    return {
        "chunks": totals["chunks"],
        "messages": totals["messages"],
        "chunk_queue_s": mean("chunk_queue_ps", "chunks"),
        "bus_queue_s": mean("bus_queue_ps", "messages"),
        "bus_transfer_s": mean("bus_transfer_ps", "messages"),
        "network_s": mean("network_ps", "messages"),
    }


def _cost_model(experiment: Experiment, total_s: float, iterations: int) -> Document:
    """What the endpoint costs on a die, where that is known."""
    cost = experiment.endpoint.cost()
    return {} if cost is None else {"cost_model": hardware_cost.document(cost, total_s, iterations)}


def dumps(value: Document) -> str:
    """A document as text; the same bytes for the same content."""
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False)


def _per_npu(total: int, npus: int) -> int | float:
    return total // npus if total % npus == 0 else total / npus


def state_folded(document: Document, folded: Iterable[bool]) -> None:
    """Says in a document of many simulations whether they were folded: all, none, or `mixed`."""
    found = set(folded)
    if document["fidelity"]:
        document["fidelity"]["folded"] = "mixed" if len(found) > 1 else next(iter(found), None)


def _common(each: Sequence[Document]) -> Document:
    """The common fidelity; where variants differ, `mixed` (each run states its own)."""
    if not each:
        return {}
    first, *others = each
    return {key: value if all(o.get(key) == value for o in others) else "mixed" for key, value in first.items()}
