"""Where the analytical backend takes longer than those with contention, as docs/models-and-limits.md says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import syncline

STRAGGLER = {
    "name": "straggler",
    "topology": "Switch(4)",
    "workload": {"model": "resnet18", "batch": 3},
    "training": {"iterations": 1, "tail": "drain", "stragglers": [{"npu": 0, "factor": 1.5}]},
}
ALL_GATHER = (
    "nodes: [G0, G1, G2]\nlinks:\n"
    "  - {from: G0, to: G1, rate: 3GB/s, latency: 1us}\n  - {from: G0, to: G2, rate: 4GB/s, latency: 1us}\n"
)
TWO_TREES = (
    "nodes: [G0, G1, G2]\nlinks:\n"
    "  - {from: G0, to: G2, rate: 3GB/s, latency: 1us}\n  - {from: G1, to: G2, rate: 2GB/s, latency: 1us}\n"
)


def microseconds(experiment: dict[str, Any]) -> int:
    seconds: float = syncline.run(experiment).document["runs"][0]["total_time_s"]
    return round(seconds * 1e6)


@pytest.mark.parametrize(
    ("fabric", "kind", "algorithm", "expected"),
    [
        (ALL_GATHER, "all-gather", {"algorithm": "halving-doubling"}, {"analytical": 504, "flow": 448}),
        (TWO_TREES, "all-reduce", {"algorithm": "double-binary-tree", "slices": 64}, {"analytical": 564, "flow": 512}),
    ],
    ids=["all-gather", "two trees"],
)
def test_a_port_sends_one_message_after_the_other(
    fabric: str, kind: str, algorithm: dict[str, Any], expected: dict[str, int], tmp_path: Path
) -> None:
    path = tmp_path / "three.yaml"
    path.write_text(fabric)
    experiment = {
        "name": "three",
        "topology": {"file": str(path)},
        "workload": {"collective": kind, "size": "1MB"},
        "collective": {**algorithm, "chunks": 1, "lanes": "split"},
    }
    assert {network: microseconds({**experiment, "network": network}) for network in expected} == expected


def test_who_chooses_the_next_chunk_depends_on_the_backend() -> None:
    """With `lifo`, NPUs that are ahead choose what the straggler has not issued."""
    expected = {
        ("analytical", "lifo"): 1800,
        ("flow", "lifo"): 1370,
        ("analytical", "fifo"): 1205,
        ("flow", "fifo"): 1205,
    }
    took = {
        (network, policy): microseconds({**STRAGGLER, "network": network, "collective": {"scheduling": policy}})
        for network, policy in expected
    }
    assert took == expected
