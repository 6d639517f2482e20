"""A synthetic study of realistic size: five systems, 54 layers, 5000 windows, 128 nodes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

PS_PER_S = 10**12
LAYERS = 54
NODES = 128
ITERATIONS = 2
ATTACK = "<script>alert('layer')</script>"
PORTS = [("+x", 0), ("-x", 0), ("+y", 1), ("-y", 1), ("+z", 2), ("-z", 2)]
# name: compute and exposed time against the first, share of communication beside compute
PHASES = ("reduce-scatter dim 0", "all-reduce dim 1", "all-reduce dim 2", "all-gather dim 0")
SYSTEMS = {
    "BaselineNoOverlap": (1.00, 1.00, 0.0),
    "BaselineCommOpt": (1.55, 0.52, 0.7),
    "BaselineCompOpt": (1.00, 0.86, 0.5),
    "ACE": (1.05, 0.22, 0.85),
    "Ideal": (1.00, 0.12, 0.9),
}

Tables = dict[str, Any]
Sample = tuple[dict[str, Any], dict[str, Tables]]


def table_of(names: str, rows: Iterable[Sequence[Any]]) -> Any:
    """A table from rows, which may be none."""
    held = list(rows)
    return pa.table({n: [r[i] for r in held] for i, n in enumerate(names.split())})


def layer_names() -> list[str]:
    """Names as in ResNet-50, and one that attacks the page."""
    names = ["conv1"]
    for stage, blocks in enumerate((3, 4, 6, 3), start=2):
        for block in range(1, blocks + 1):
            names += [f"conv{stage}_{block}.{k}" for k in ("1x1a", "3x3", "1x1b")]
    names += [f"downsample{i}" for i in range(1, 4)]
    return [*names, ATTACK, "fc1000"]


@dataclass
class System:
    """One system to make results of."""

    name: str
    windows: int
    rng: random.Random

    def __post_init__(self) -> None:
        compute, exposed, self.overlap = SYSTEMS[self.name]
        self.ace = self.name == "ACE"
        self.compute_ps = int(2.4e9 * compute)
        self.exposed_ps = int(3.1e9 * exposed)
        self.iteration_ps = self.compute_ps + self.exposed_ps
        self.total_ps = self.iteration_ps * ITERATIONS
        self.names = layer_names()
        weights = [self.rng.uniform(0.3, 1.5) for _ in self.names]
        self.shares = [w / sum(weights) for w in weights]
        waits = [9.0] + [max(0.0, self.rng.gauss(0.2, 1)) ** 3 for _ in self.names[1:]]
        self.waits_ps = [int(self.exposed_ps * w / sum(waits)) for w in waits]
        self.params = [int(self.rng.uniform(1e4, 2.4e6)) for _ in self.names]
        self.latency_ps = [int(self.rng.uniform(0.2, 1.4) * 1e9 * (0.2 + self.overlap)) for _ in self.names]

    def layers(self) -> Any:
        """Table `layers`."""
        rows = []
        for i, layer in enumerate(self.names):
            third = int(self.compute_ps * self.shares[i] * 0.33)
            size, latency = 2 * self.params[i], self.latency_ps[i]
            times = [third, third, third, third // 33]
            comm = [ITERATIONS, size * ITERATIONS, latency, latency // 4]
            waited = ITERATIONS * self.waits_ps[i]
            rows.append([i, layer, self.params[i], size, *times, *comm, waited])
        return table_of(
            "index layer params gradient_bytes forward_ps input_grad_ps weight_grad_ps update_ps "
            "collectives comm_bytes raw_latency_ps queue_ps exposed_ps",
            rows,
        )

    def collectives(self) -> Any:
        """Table `collectives`; some are unfinished at the end."""
        rows: list[list[Any]] = []
        for iteration in range(ITERATIONS):
            for i, layer in enumerate(self.names):
                back = 0.45 + 0.5 * (1 - i / LAYERS)
                issued = int(self.iteration_ps * (iteration + back))
                done = issued + self.latency_ps[i]
                what = [layer, "weight_grad", iteration, "all_reduce", 2 * self.params[i], 64]
                times = [issued, issued + self.latency_ps[i] // 5]
                end = [done if done < self.total_ps else 0, self.waits_ps[i]]
                rows.append([len(rows), *what, *times, *end])
        return table_of(
            "id layer pass iteration kind bytes chunks issued_ps started_ps completed_ps exposed_ps",
            rows,
        )

    def links(self) -> Any:
        """Table `links`."""
        rows = []
        for node in range(NODES):
            for port, dim in PORTS:
                size = int(6e8 * (3 - dim) * self.rng.uniform(0.97, 1.03))
                busy = (0.15 + 0.18 * (2 - dim)) * (0.6 + self.overlap)
                busy = min(0.98, busy * self.rng.uniform(0.9, 1.1))
                rows.append([node, port, dim, size, int(busy * self.total_ps)])
        return table_of("node port dim bytes busy_ps", rows)

    def resources(self) -> Any:
        """Table `resources`; an ideal endpoint has none."""
        names = {"memory": 1, "sm": 6, "bus_tx": 1, "port_buffer": 4}
        if self.ace:
            names |= {"sram_read": 2, "alu": 4, "fsm": 16}
        rows = []
        for name, servers in names.items() if self.name != "Ideal" else ():
            busy = int(self.total_ps * self.rng.uniform(0.1, 0.8) * NODES)
            wait = int(self.total_ps * self.rng.uniform(0, 2) * NODES)
            rows.append([name, servers, busy, wait, self.rng.randrange(10**5, 10**7)])
        return table_of("resource servers busy_ps wait_ps served", rows)

    def utilisation(self) -> Any:
        """Table `windows`."""
        rows = []
        width = max(1, self.total_ps // self.windows)
        for w in range(self.windows):
            t = w / self.windows * ITERATIONS % 1
            waiting = t > 1 - self.exposed_ps / self.iteration_ps
            compute = 0.02 if waiting else max(0.0, min(1.0, 0.93 + self.rng.gauss(0, 0.05)))
            comm = 1.0 if waiting else self.overlap * (0.5 + 0.5 * math.sin(9 * t))
            comm *= self.rng.uniform(0.6, 0.9)
            ace = [float(comm > 0.1), comm * 3.6e6, comm * 15] if self.ace else [0.0] * 3
            rows.append([w, w * width, compute, comm, comm, comm * 0.7, comm * 0.4, *ace])
        return table_of(
            "window start_ps compute links link_dim0 link_dim1 link_dim2 ace_active sram_bytes fsm_busy",
            rows,
        )

    def phases(self) -> Any:
        """Table `phases`."""
        fsms = 4 if self.ace else 0
        rows = [[i, n, int(n[-1]), 64, 10**9, 2 * 10**9, fsms, fsms] for i, n in enumerate(PHASES)]
        return table_of("phase name dim chunks queue_ps active_ps fsms fsm_peak", rows)

    def slices(self) -> Any:
        """Table `slices` of two NPUs, with children and picoseconds off the grid."""
        rows: list[list[Any]] = []
        for npu in (0, 1):
            t = 0
            for iteration in range(ITERATIONS):
                for i, layer in enumerate(self.names):
                    step = int(self.iteration_ps * 0.9 * self.shares[i])
                    rows += [
                        [npu, "compute", f"{layer} forward", t, t + step],
                        [npu, "compute", "tile", t + step // 7, t + step],
                        [npu, f"collective {layer}", f"iteration {iteration}", t + 3, t + step],
                        [npu, f"phase {i % 4} lane 0 slot {i % 12}", "chunk", t, t + step // 3],
                    ]
                    t += step
                rows.append([npu, "exposed", "wait", t, t + self.exposed_ps // 20])
                t += self.exposed_ps // 20
        return table_of("npu track name start_ps end_ps", rows)

    def endpoint(self, resources: Any) -> dict[str, Any]:
        """Totals of the endpoints."""
        sizes = {"0": (2**20, 2**20), "1": (2**19, 367_001), "2": (2**19, 487_587)}
        sizes |= {"3": (2**20, 419_430), "terminal": (2**20, 2**18)}
        return {
            "memory_read_bytes": 10**11,
            "memory_write_bytes": 10**11,
            "loaded_bytes": 10**10,
            "sent_bytes": 10**11,
            "sent_by_switches_bytes": 0,
            "transit_bytes": 0,
            "resources": [
                {
                    "resource": r["resource"],
                    "servers": r["servers"],
                    "busy_s": r["busy_ps"] / PS_PER_S,
                    "wait_s": r["wait_ps"] / PS_PER_S,
                    "served": r["served"],
                }
                for r in resources.to_pylist()
            ],
            "partitions": [
                {"phase": phase, "capacity_bytes": capacity, "peak_bytes": peak}
                for phase, (capacity, peak) in (sizes if self.ace else {}).items()
            ],
            "phases": [
                {"phase": name, "fsms": 4, "fsm_peak": peak}
                for name, peak in (zip(PHASES, (4, 3, 2, 4), strict=True) if self.ace else ())
            ],
            "fsm_peak": 16 if self.ace else 0,
            "fsms": 16 if self.ace else 0,
        }

    def results(self) -> tuple[dict[str, Any], Tables]:
        """The entry of the document and the tables."""
        tables = {
            "layers": self.layers(),
            "collectives": self.collectives(),
            "phases": self.phases(),
            "links": self.links(),
            "resources": self.resources(),
            "windows": self.utilisation(),
            "slices": self.slices(),
        }
        share = tables["windows"].column("links").to_pylist()
        total_s = self.total_ps / PS_PER_S
        run = {
            "name": self.name,
            "iteration_time_s": self.iteration_ps / PS_PER_S,
            "total_time_s": total_s,
            "compute_time_s": self.compute_ps * ITERATIONS / PS_PER_S,
            "exposed_comm_s": self.exposed_ps * ITERATIONS / PS_PER_S,
            "iterations": ITERATIONS,
            "exposed_by_collective": [
                {"layer": n, "pass": "weight_grad", "exposed_s": ITERATIONS * w / PS_PER_S}
                for n, w in zip(self.names, self.waits_ps, strict=True)
                if w
            ],
            "network": {
                "bytes_sent_per_npu": 1.2e9,
                "achieved_bandwidth_bytes_per_s": 1.2e9 / total_s,
                "mean_link_utilisation": sum(share) / len(share),
            },
            "endpoint": self.endpoint(tables["resources"]),
        }
        return run, tables


def build_study(windows: int = 5000, names: Sequence[str] = tuple(SYSTEMS)) -> Sample:
    """The document and the tables of some systems."""
    runs, variants = [], {}
    for seed, name in enumerate(names):
        run, variants[name] = System(name, windows, random.Random(seed)).results()
        runs.append(run)
    document = {
        "schema_version": 1,
        "version": "0.1.0",
        "status": "complete",
        "seed": 1,
        "name": "ResNet-50 on a 4x8x4 torus",
        "topology": "Torus(4, 8, 4)",
        "assumptions": [
            "gradients are FP16 (2 bytes)",
            "chunk size of the baselines: 4 MB <declared>",
        ],
        "warnings": ["the network is idle for 61 % of the run"],
        "fidelity": {"backend": "packet", "folded": False, "mode": "trains"},
        "cost": {"wall_time_s": 4.21, "peak_rss_bytes": 310_000_000, "events": 48_211_003},
        "runs": runs,
    }
    return document, variants


@pytest.fixture(scope="session")
def study() -> Sample:
    """The study of most tests; not to be changed."""
    return build_study()


@pytest.fixture(scope="session")
def make_study() -> Callable[..., Sample]:
    """Makes studies of other sizes, free to be changed."""
    return build_study


@pytest.fixture(scope="session")
def make_table() -> Callable[[str, Iterable[Sequence[Any]]], Any]:
    """Makes a table from names and rows."""
    return table_of
