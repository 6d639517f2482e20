"""From what the engine returns to the JSON documents of the command line.

Times are seconds, sizes bytes, rates bytes per second, as numbers. Everything outside `cost` is equal byte
for byte between two runs of the same input.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import syncline
from syncline import assumptions, bounds
from syncline.engine import PS_PER_S, Result
from syncline.schema.experiment import CollectiveWorkload, Experiment, PacketNetwork
from syncline.schema.load import Variant

SCHEMA_VERSION: Final = 1

Document = dict[str, Any]


def seconds(picoseconds: int) -> float:
    """Picoseconds as seconds."""
    return picoseconds / PS_PER_S


def ratio(part: float, whole: float) -> float | None:
    """A quotient, or nothing where there is none."""
    return part / whole if whole else None


def document(variants: Sequence[Variant], *, seed: int, status: str, warnings: Sequence[str]) -> Document:
    """What every document begins with."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": syncline.__version__,
        "status": status,
        "seed": seed,
        "assumptions": assumptions.of(variants),
        "warnings": list(warnings),
        "fidelity": _fidelity_of_all([v.experiment for v in variants]),
    }


def cost(wall_time_s: float, results: Sequence[Result]) -> Document:
    """What the computation took on this machine; the only part that differs between runs."""
    import resource

    return {
        "wall_time_s": round(wall_time_s, 6),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "events": sum(result.summary["events"] for result in results),
    }


def fidelity(experiment: Experiment) -> Document:
    """How finely a simulation looks."""
    network = experiment.network
    if not isinstance(network, PacketNetwork):
        return {"backend": "analytical", "folded": False, "transfer": "messages"}
    return {
        "backend": "packet",
        "folded": False,
        "transfer": "trains" if network.mode == "trains" else "packets",
        "packet_bytes": network.packet,
    }


def run_entry(variant: Variant, result: Result) -> Document:
    """A variant in the document of `run`."""
    summary = result.summary
    total_s = seconds(summary["total_ps"])
    return {
        "name": variant.name,
        "iterations": summary["iterations"],
        "iteration_time_s": total_s / max(1, summary["iterations"]),
        "total_time_s": total_s,
        "compute_time_s": seconds(summary["compute_ps"]),
        "exposed_comm_s": seconds(summary["exposed_ps"]),
        "exposed_comm_share": ratio(summary["exposed_ps"], summary["total_ps"]),
        "exposed_by_collective": [
            {"layer": e["layer"], "pass": e["pass"], "exposed_s": seconds(e["exposed_ps"])}
            for e in summary["exposed_by"]
        ],
        "npus": summary["npus"],
        "npu": summary["npu"],
        "steps": summary["steps"],
        "chunks": summary["chunks"],
        "network": network(variant.experiment, summary),
        "endpoint": endpoint(summary),
        "fidelity": fidelity(variant.experiment),
        "warnings": summary["warnings"],
    }


def collective_fields(variant: Variant, result: Result) -> Document:
    """What the document of `collective` says beside the common fields."""
    workload = variant.experiment.workload
    assert isinstance(workload, CollectiveWorkload)
    kind, size = workload.collective, workload.size
    topology, summary = variant.experiment.topology, result.summary
    time_s = seconds(summary["total_ps"])
    algorithm_bandwidth = ratio(size, time_s)
    factor = float(bounds.bus_bandwidth_factor(kind, topology.npus))
    bound = bounds.lower_bound_s(kind, size, topology)
    return {
        "collective": kind,
        "npus": topology.npus,
        "topology": str(topology),
        "time_s": time_s,
        "size_bytes": size,
        "size_means": "the full vector of each rank, as in nccl-tests"
        if kind == "all-reduce"
        else "the full vector over all ranks (each rank's share times their number), as in nccl-tests",
        "algorithm_bandwidth_bytes_per_s": algorithm_bandwidth,
        "bus_bandwidth_bytes_per_s": None if algorithm_bandwidth is None else algorithm_bandwidth * factor,
        "steps": summary["steps"],
        "chunks": summary["chunks"],
        "lower_bound_s": bound,
        "efficiency": ratio(bound, time_s),
        "network": network(variant.experiment, summary),
        "endpoint": endpoint(summary),
    }


def network(experiment: Experiment, summary: dict[str, Any]) -> Document:
    """The network part of an entry; `link_bytes` counts a byte once per link that it crosses."""
    totals = summary["network"]
    per_npu = _per_npu(totals["injected_bytes"], summary["npus"])
    bandwidth = ratio(per_npu, seconds(summary["total_ps"]))
    egress, wire = experiment.topology.egress_rate, experiment.topology.wire_rate
    return {
        "bytes_sent_per_npu": per_npu,
        "achieved_bandwidth_bytes_per_s": bandwidth,
        "payload_bandwidth_bytes_per_s": egress,
        "wire_bandwidth_bytes_per_s": wire,
        "mean_link_utilisation": totals["mean_link_utilisation"],
        "link_bytes": totals["link_bytes"],
        "links": totals["links"],
        "packet_hops": totals["packet_hops"],
        "dropped_bytes": totals["dropped_bytes"],
        "retransmissions": 0,
        "rto_events": 0,
        "drops": 0,
    }


def endpoint(summary: dict[str, Any]) -> Document:
    """The endpoint part of an entry, over all NPUs."""
    totals = summary["endpoint"]
    return {
        "memory_read_bytes": totals["memory_read_bytes"],
        "memory_write_bytes": totals["memory_write_bytes"],
        "loaded_bytes": totals["loaded_bytes"],
        "sent_bytes": totals["sent_bytes"],
        "fsms": totals["fsms"],
        "fsm_peak": totals["fsm_peak"],
        "resources": [
            {
                "resource": r["resource"],
                "servers": r["servers"],
                "busy_s": seconds(r["busy_ps"]),
                "wait_s": seconds(r["wait_ps"]),
                "served": r["served"],
            }
            for r in totals["resources"]
        ],
        "partitions": totals["partitions"],
    }


def dumps(value: Document) -> str:
    """A document as text; the same bytes for the same content."""
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False)


def _per_npu(total: int, npus: int) -> int | float:
    return total // npus if total % npus == 0 else total / npus


def _fidelity_of_all(experiments: Sequence[Experiment]) -> Document:
    """The common fidelity; where variants differ, `mixed` (each run states its own)."""
    if not experiments:
        return {}
    first, *others = [fidelity(e) for e in experiments]
    return {key: value if all(o.get(key) == value for o in others) else "mixed" for key, value in first.items()}
