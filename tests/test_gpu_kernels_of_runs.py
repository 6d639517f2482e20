"""Trainings on named GPUs: whose kernels run, who launches them, at which clock, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from syncline.base import document
from syncline.base.errors import InputError
from syncline.engine import assumptions
from syncline.engine import runs as engine
from syncline.experiment.load import Variant, load
from syncline.fabric.gpus import GPUS
from syncline.kernels import calibrated
from syncline.strategies import training

SIZES = {"layers": 2, "hidden": 512, "heads": 4, "feed_forward": 1024, "vocabulary": 1024}
BF16 = {"weights": "bf16", "compute": "bf16", "gradients": "bf16", "states": "bf16"}


def of(**sections: Any) -> Variant:
    """A small Llama on one H100, which nothing slows down but its kernels."""
    workload = {"model": "llama", "parameters": SIZES, "sequence": 256, "global_batch": 4, "precision": BF16}
    given: dict[str, Any] = {
        "name": "a",
        "topology": "Ring(1)",
        "npu": {"gpu": "h100"},
        "workload": workload,
        "parallel": {"micro_batch": 4},
        "training": {"launch": "graph"},
        "network": "analytical",
    }
    for name, section in sections.items():
        given[name] = {**given.get(name, {}), **section} if isinstance(section, dict) else section
    return load(document.read(yaml.safe_dump(given), "a.yaml"), "a.yaml", Path()).variants[0]


def time_ps(**sections: Any) -> int:
    """Picoseconds of an iteration."""
    found: int = engine.run(of(**sections)).summary["total_ps"]
    return found


def kernels(**sections: Any) -> list[Any]:
    """All kernels of an iteration."""
    divided = training.divided(of(**sections).experiment)
    nodes = divided.classes[0].nodes
    return [kernel for node in nodes if node.work["op"] == "kernels" for kernel in divided.costs[node.work["cost"]]]


def refused(**sections: Any) -> tuple[str, str, str | None]:
    """The only problem of an experiment: field, message, and what is accepted."""
    with pytest.raises(InputError) as raised:
        of(**sections)
    (problem,) = raised.value.problems
    return problem.field, problem.message, problem.accepted


def test_a_named_gpu_brings_its_compute_model_and_another_may_be_stated() -> None:
    npu = of().experiment.npu
    assert (npu.compute.kind, npu.power, npu.host_kernel_time) == ("gpu", 700, 10_000_000)
    roofline = of(npu={"gpu": "h100", "compute": {"kind": "roofline"}}, training={"launch": "host"}).experiment.npu
    assert (roofline.compute.kind, roofline.power, roofline.host_kernel_time) == ("roofline", None, 0)
    p100 = of(npu={"gpu": "p100"}, workload={"precision": "fp16"}, training={"launch": "host"}).experiment.npu
    assert p100.compute.kind == "roofline"


@pytest.mark.parametrize("gpu", [*calibrated.CALIBRATED, *calibrated.SCALED])
def test_every_known_gpu_trains_and_says_how_far_it_may_be_off(gpu: str) -> None:
    precision = "bf16" if "bf16" in GPUS[gpu].peaks else "fp16"
    variant = of(npu={"gpu": gpu}, workload={"precision": precision})
    said = "\n".join(assumptions.of([variant]))
    assert ("may be off by" in said) == (gpu in calibrated.SCALED)
    assert engine.run(variant).summary["total_ps"] > 0


def test_a_limit_of_power_slows_products_and_leaves_traffic() -> None:
    big = {"parameters": SIZES | {"hidden": 4096, "feed_forward": 16384}, "sequence": 2048}
    times = [time_ps(workload=big, npu={"power": power}) for power in ("2kW", "700W", "400W", "250W")]
    assert times == sorted(times)
    assert times[-1] > 1.2 * times[0]


def test_the_slowest_of_several_gpus_sets_the_pace() -> None:
    """The more there are, the slower it is; one alone is as fast as the mean."""
    assert calibrated.of_slowest(1) == 1
    worst = [calibrated.of_slowest(gpus) for gpus in (1, 2, 8, 64, 1024)]
    assert worst == sorted(set(worst))
    assert worst[2] == pytest.approx(1 + 1.42 * calibrated.SPREAD, rel=0.01)  # the largest of eight normal values
    large = {"parameters": {**SIZES, "hidden": 4096, "heads": 32, "feed_forward": 16384}, "sequence": 2048}
    eight = {"topology": "Ring(8, rate=1PB/s)", "workload": large | {"global_batch": 32}, "endpoint": {"kind": "ideal"}}
    assert 1.005 * time_ps(workload=large) < time_ps(**eight) < 1.1 * time_ps(workload=large)
    assert any("slowest of 8 GPUs" in line for line in assumptions.of([of(**eight)]))


def test_tensor_cores_reach_what_was_published_of_each_gpu() -> None:
    """Beyond that the constants of an A100 are those of an H100, as fractions."""

    def sustained(gpu: str, width: int) -> float:
        use = calibrated.Use(132, width, 1e15, "flash2", GPUS[gpu].power, 1)
        return float(calibrated.model(GPUS[gpu], use)["products"]["sustained"])

    assert sustained("a100-80gb", 2) / sustained("h100", 2) == pytest.approx(0.869 / 0.803)
    assert sustained("h100", 1) / sustained("h100", 2) == pytest.approx(0.709 / 0.803)
    assert sustained("v100-16gb", 2) == sustained("h100", 2)  # nobody published it


def test_a_host_that_is_slower_than_the_gpu_decides() -> None:
    graph, number = time_ps(), len(kernels())
    slow = time_ps(training={"launch": "host"}, npu={"host_kernel_time": "1ms"})
    assert (number - 1) * 10**9 < slow < (number + 1) * 10**9 + graph
    assert time_ps(npu={"host_kernel_time": "1ms"}) == graph, "a graph is launched once"
    fast = time_ps(training={"launch": "host"}, npu={"host_kernel_time": "1ns"})
    assert graph < fast <= graph + 2_000, "it is ahead from the first kernel on"


@pytest.mark.parametrize("batch", [{"batch": 4}, {"global_batch": 4}])
def test_hosts_launch_kernels_of_every_training(batch: dict[str, int]) -> None:
    workload = {"model": "llama", "parameters": SIZES, "sequence": 256, "precision": "bf16"} | batch
    given = {"name": "a", "topology": "Ring(1)", "npu": {"gpu": "h100"}, "workload": workload, "network": "analytical"}

    def run(**npu: Any) -> int:
        text = yaml.safe_dump(given | {"npu": {"gpu": "h100"} | npu, "training": {"iterations": 1}})
        found: int = engine.run(load(document.read(text, "a"), "a", Path()).variants[0]).summary["total_ps"]
        return found

    # A kernel more takes the host as long as the one before.
    slow, slower = run(host_kernel_time="1ms"), run(host_kernel_time="2ms")
    assert slower == pytest.approx(2 * slow, rel=0.01)
    assert run(host_kernel_time="1ns") < slow / 10


def test_frameworks_launch_kernels_of_their_own() -> None:
    eager, compiled, megatron = (len(kernels(training={"kernels": name})) for name in ("eager", "compile", "megatron"))
    assert compiled < eager > megatron
    plain = kernels(npu={"compute": {"kind": "roofline"}}, training={"launch": "host"})
    assert all(kernel.kind is None for kernel in plain[:-1])


def test_attention_is_what_is_stated() -> None:
    fused, unfused = (kernels(training={"attention": name}) for name in ("flash2", "unfused"))
    assert {kernel.kind[0] for kernel in fused} == {"memory", "attention", "product"}
    assert {kernel.kind[0] for kernel in unfused} == {"memory", "product"}
    assert time_ps(training={"attention": "cudnn"}) < time_ps(training={"attention": "flash2"})
    assert time_ps() == time_ps(training={"attention": "cudnn"}), "PyTorch takes cuDNN's on an H100"
    assert time_ps(training={"attention": "flash3"}) == time_ps(training={"attention": "cudnn"})
    assert time_ps(training={"attention": "flash1"}) > time_ps(training={"attention": "flash2"})


def test_gradients_of_micro_batches_are_added_by_kernels_of_pytorch() -> None:
    def traffic(name: str, micro: int) -> int:
        found = kernels(training={"kernels": name}, parallel={"micro_batch": micro})
        return sum(kernel.bytes for kernel in found if kernel.kind[0] == "memory" and not kernel.flops)

    eager = traffic("eager", 1) - traffic("eager", 4)
    weights = 2 * (4 * 512 * 512 + 3 * 512 * 1024) + 2 * 1024 * 512 + 5 * 512
    # Four additions of three tensors of two bytes, and three times more a table of gradients that is filled with zeros.
    assert eager == pytest.approx(4 * 3 * 2 * weights + 3 * 1024 * 512 * 2, rel=0.05)
    assert traffic("megatron", 1) - traffic("megatron", 4) < eager / 4


def test_what_cannot_be_is_refused_by_field() -> None:
    assert refused(
        npu={"gpu": "p100", "compute": {"kind": "gpu"}}, workload={"precision": "fp16"}, training={"launch": "host"}
    )[0] == ("npu.compute.kind")
    assert refused(npu={"gpu": "a100-80gb"}, training={"attention": "flash3"}) == (
        "training.attention",
        "there is no flash3 for the NVIDIA A100 SXM4 80 GB",
        "flash2, flash1, unfused",
    )
    field, message, _ = refused(training={"attention": "flash2"}, workload={"parameters": SIZES | {"fused": 0}})
    assert (field, message) == ("training.attention", "workload.parameters.fused is 0")
    for section, name, value in (
        ("training", "kernels", "megatron"),
        ("training", "attention", "cudnn"),
    ):
        with pytest.raises(InputError, match="this has no effect"):
            load(
                document.read(
                    yaml.safe_dump(
                        {
                            "name": "a",
                            "topology": "dgx-h100",
                            "workload": {"collective": "all-reduce", "size": "1MB"},
                            section: {name: value},
                        }
                    ),
                    "a",
                ),
                "a",
                Path(),
            )
    with pytest.raises(InputError, match=r"npu\.host_kernel_time"):
        of(parallel={"micro_batch": 4, "dispatch": "10us"})
