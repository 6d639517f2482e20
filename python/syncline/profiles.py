"""Parameters of the ACE paper's endpoints, for commands that name an endpoint and nothing else.

Baseline: the shares of Table VI (CommOpt), whatever the NPU (`schema.npu`), and the chunking that the project declares
for the paper's baselines.
ACE: Tables III, V and VI.
Switch offload: the memory bandwidth of the baseline, so that the placements differ in nothing else, and no SMs.
"""

from __future__ import annotations

from typing import Final

from syncline.document import Plain

SOURCE: Final = "ACE paper"

ENDPOINTS: Final[dict[str, dict[str, Plain]]] = {
    "ideal": {"kind": "ideal"},
    "baseline": {"kind": "baseline", "comm_memory_bandwidth": "auto", "comm_sms": "auto"},
    "ace": {"kind": "ace", "comm_memory_bandwidth": "128GB/s"},
    "switch-offload": {"kind": "switch-offload", "comm_memory_bandwidth": "auto"},
}
"""What each endpoint is given."""

COLLECTIVES: Final[dict[str, dict[str, Plain]]] = {
    "ideal": {"algorithm": "auto", "chunks": 1, "lanes": "split"},
    "baseline": {"algorithm": "ace-4-phase", "chunks": 384, "inflight": 34, "lanes": "alternate"},
    "ace": {"algorithm": "ace-4-phase", "lanes": "alternate"},
    "switch-offload": {"algorithm": "hierarchical", "lanes": "alternate"},
}
"""How a single collective is composed and cut with each endpoint. Ideal: not cut, and over all lanes at once."""


def collective(endpoint: str, kind: str) -> dict[str, Plain]:
    """How a single collective of a kind is composed and cut with an endpoint. An all-to-all is direct in the paper
    (section V)."""
    found = dict(COLLECTIVES.get(endpoint, {}))
    if kind == "all-to-all" and found.get("algorithm") != "auto":
        found["algorithm"] = "direct"
    return found
