"""Dynamic contention: compute and communication that share the NPU while both run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.command import Ended
from support.experiments import study
from syncline.base.errors import InputError
from syncline.engine import assumptions
from syncline.engine import runs as engine
from syncline.experiment.load import Variant

SHARED = {"kind": "baseline", "contention": "dynamic", "comm_sms": 10}
STATIC = {"kind": "baseline", "comm_memory_bandwidth": "450GB/s", "comm_sms": 10}
LOGGP = {"kind": "loggp", "latency": "71ns", "overhead": "29ns", "gap": "29ns"}
LOOKUP = {"name": "lookup", "memory_bandwidth": "429.2GB/s"}


def variant(endpoint: dict[str, Any], workload: dict[str, Any] | None = None, **sections: Any) -> Variant:
    """One variant on eight NPUs: an all-reduce of 4 MB, or another workload."""
    tree = {
        "name": "shared",
        "topology": "Switch(8, rate=150GB/s, latency=1us, efficiency=100%)",
        "network": "analytical",
        "workload": {"collective": "all-reduce", "size": "4MB"} if workload is None else workload,
        "collective": {"algorithm": "ring", "chunk": "256KiB"},
        "endpoint": endpoint,
        **sections,
    }
    (found,) = study(json.dumps(tree)).variants
    return found


def beside(*loads: dict[str, Any]) -> dict[str, Any]:
    return {"collective": "all-reduce", "size": "4MB", "beside": list(loads)}


def problems(endpoint: dict[str, Any], workload: dict[str, Any] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        variant(endpoint, workload)
    return "\n".join(str(problem) for problem in caught.value.problems)


def total(endpoint: dict[str, Any], workload: dict[str, Any] | None = None) -> int:
    return int(engine.run(variant(endpoint, workload)).summary["total_ps"])


class TestRuns:
    def test_beside_nothing_it_is_the_static_split_with_all_memory(self) -> None:
        static = engine.run(variant(STATIC | {"comm_memory_bandwidth": "900GB/s"})).summary
        shared = engine.run(variant(SHARED)).summary
        assert {**shared, "events": 0} == {**static, "events": 0}

    def test_loads_slow_communication_by_their_warps(self) -> None:
        alone, light, heavy, two = (
            total(SHARED, beside(*loads)) for loads in ([], [LOOKUP | {"warps": 16}], [LOOKUP], [LOOKUP | {"count": 2}])
        )
        assert alone < light < heavy < two
        assert total(SHARED, beside(LOOKUP, LOOKUP)) == two

    def test_memory_in_effect_is_what_there_is_to_share(self) -> None:
        hungry = beside(LOOKUP)
        less, more = (total(SHARED | {"memory_bandwidth": rate}, hungry) for rate in ("450GB/s", "900GB/s"))
        assert less > 1.1 * more

    def test_compute_that_was_stretched_is_reported(self, syncline_command: Callable[..., Ended]) -> None:
        ended = syncline_command("run", "ace/resnet50-dynamic", "--set", "training.iterations=1", "--json")
        assert ended.status == 0, ended.err
        entries = {e["name"]: e for e in json.loads(ended.out)["runs"]}
        static, shared = entries["BaselineCommOpt"], entries["Dynamic"]
        assert static["compute_time_s"] == static["compute_time_alone_s"]
        assert shared["compute_time_alone_s"] < shared["compute_time_s"] < static["compute_time_s"]

    def test_tables_of_embeddings_share_with_the_rest(self) -> None:
        dlrm = {"model": "dlrm", "batch": 512, "element": "4B"}
        training = {"background_embedding": True, "iterations": 2}
        summary = engine.run(variant(SHARED, dlrm, training=training)).summary
        assert summary["background_compute_ps"] > summary["background_compute_alone_ps"] > 0


class TestAssumptions:
    def test_only_what_has_a_meaning_is_listed(self) -> None:
        static = assumptions.of([variant(STATIC)])
        assert not any("warps" in line or "contention" in line for line in static)
        assert not any("comm_warps" in line for line in assumptions.of([variant(SHARED)]))
        shared = assumptions.of([variant(SHARED, beside(LOOKUP))])
        assert "endpoint.comm_warps = 16 (default)" in shared
        assert "endpoint.memory_bandwidth = npu.memory_bandwidth (default)" in shared
        assert not any("kernel_warps" in line or "comm_memory_bandwidth" in line for line in shared)


class TestWrongInput:
    @pytest.mark.parametrize(
        ("endpoint", "workload", "said"),
        [
            ({"kind": "baseline"}, None, ["comm_sms: this is missing", "comm_memory_bandwidth: this is missing"]),
            (STATIC | {"comm_warps": 8}, None, ["comm_warps", "no value, or endpoint.contention dynamic"]),
            (STATIC | SHARED, None, ["comm_memory_bandwidth", "with dynamic contention, nothing is set aside"]),
            (SHARED | {"memory_bandwidth": "1TB/s"}, None, ["memory_bandwidth", "at most 900GB/s"]),
            (SHARED | {"comm_sms": 81}, None, ["comm_sms", "at most 80"]),
            (SHARED | {"memory_bandwidth": "1KB/s"}, None, ["endpoint.memory_bandwidth"]),
            (SHARED | {"buses": LOGGP}, None, ["endpoint.buses.kind", "rate, or endpoint.contention static"]),
            (STATIC, beside(LOOKUP), ["workload.beside", "contention: dynamic"]),
            (SHARED | {"memory_bandwidth": "400GB/s"}, beside(LOOKUP), ["beside.0.memory_bandwidth", "400GB/s"]),
            (SHARED, beside({"warps": 64}), ["beside.0.name: this is missing"]),
            (SHARED, beside(LOOKUP | {"warps": 0}), ["beside.0.warps", "from 0.001 to 64"]),
        ],
    )
    def test_is_said_with_what_is_accepted(
        self, endpoint: dict[str, Any], workload: dict[str, Any] | None, said: list[str]
    ) -> None:
        if "1KB/s" in str(endpoint):
            with pytest.raises(InputError) as caught:
                engine.check([variant(endpoint, workload)])
            text = "\n".join(str(problem) for problem in caught.value.problems)
        else:
            text = problems(endpoint, workload)
        assert all(part in text for part in said), text
