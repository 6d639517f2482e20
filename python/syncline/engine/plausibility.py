"""How much of the peak rate of its NPUs a training uses, and a warning where GPUs hardly use that much.

Counted are all floating-point operations that NPUs carry out, those that are computed again included, over what they
could carry out at their peak in the same time: hardware FLOPs utilisation (Chowdhery et al., "PaLM", 2022, appendix B).
Of an FP8 training, what is not a product of linear layers is held against the peak of the wider type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from syncline.experiment.effect import effective
from syncline.fabric.gpus import GPUS, NARROW
from syncline.kernels import calibrated
from syncline.models import demands
from syncline.models.demands import Kernel
from syncline.sections.execution import Execution
from syncline.sections.experiment import Experiment
from syncline.sections.npu import Npu
from syncline.sections.workloads import DividedWorkload, JobsWorkload, ModelWorkload
from syncline.strategies import training as divisions

PS_PER_S: Final = 10**12
MOST: Final = 0.75
"""The share of the peak above which a GPU is warned of. PaLM reaches 0.58 (the same, table 3), GPT of 530 and 1,000
billion parameters on A100 0.57 (Korthikanti et al., 2022, table 5)."""


def peak_share(experiment: Experiment, summary: Mapping[str, Any]) -> float | None:
    """The share of the peak that the operations of a training reach; none where that is not known: of a collective, of
    workloads with times of their own, and of NPUs whose kernels do not follow from a peak rate.
    """
    workload, npu = experiment.workload, experiment.npu
    if not npu.compute.depends_on_type:
        return None
    if isinstance(workload, JobsWorkload):
        jobs = {job.name: _of_copy(job.workload, npu) for job in workload.jobs}
        each = (_share(jobs[of["name"]], of["time_ps"], of["iterations"]) for of in summary["jobs"])
        return max((share for share in each if share is not None), default=None)
    if isinstance(workload, ModelWorkload):
        return _share(_of_copy(workload, npu), summary["total_ps"], summary["iterations"])
    if isinstance(workload, DividedWorkload):
        return _share(_of_division(effective(experiment), workload), summary["total_ps"], summary["iterations"])
    return None


def warnings(experiment: Experiment, share: float | None) -> Iterator[str]:
    """Warnings of a training on a known GPU: of kernels that are faster than its own, and of more use of the GPU than
    trainings make, with what may be the reason.
    """
    npu = experiment.npu
    if share is None or npu.gpu is None:
        return
    if npu.compute.kind == "roofline" and calibrated.is_known(npu.gpu):
        yield (
            f"npu.compute.kind = roofline: kernels run at npu.peak or at full memory bandwidth, which those of a "
            f"{GPUS[npu.gpu].title} do not reach: without it they have the times of its libraries"
        )
    if share <= MOST:
        return
    found = "; ".join(_reasons(experiment))
    yield (
        f"operations run at {share:.0%} of npu.peak, what is computed again included: trainings on GPUs hardly reach "
        f"{MOST:.0%}" + (f". Faster than real ones are perhaps {found}" if found else "")
    )


def _reasons(experiment: Experiment) -> Iterator[str]:
    """What may be unrealistic."""
    npu, training = experiment.npu, experiment.training
    if npu.compute.kind == "roofline":
        yield "kernels, at npu.peak or full memory bandwidth (npu.compute.kind roofline)"
    if training.launch == "host" and not Execution.of(npu, training).host_kernel_time:
        yield "launches of kernels, which take no time (npu.host_kernel_time 0)"
    if experiment.endpoint.kind == "ideal" and experiment.taking_part > 1:
        yield "collectives, which take nothing of NPUs (endpoint ideal)"
    if "compute_scale" in training.model_fields_set and training.compute_scale < 1:
        yield f"kernels, by training.compute_scale {training.compute_scale:g}"


def _share(seconds: float, time_ps: int, iterations: int) -> float | None:
    """The share of the time that so many seconds at the peak are, of each iteration."""
    return seconds * PS_PER_S * iterations / time_ps if time_ps else None


def _of_copy(workload: ModelWorkload, npu: Npu) -> float:
    """Seconds that the operations of an iteration take an NPU at its peak, of a model of which it has a copy."""
    operators = [operator for layer in workload.evaluated.layers for operator in layer.operators]
    asked = demands.of(operators, workload.element, workload.kernels, linear_bytes=workload.linear_element)
    return sum(_at_peak((*demand.forward, *demand.backward), workload, npu) for demand in asked)


def _of_division(experiment: Experiment, workload: DividedWorkload) -> float:
    """The same of a model that is divided, in the mean of all NPUs."""
    divided = divisions.divided(experiment)
    rows = [_at_peak(row, workload, experiment.npu) for row in divided.costs]
    total, npus = 0.0, 0
    for of in divided.classes:
        times = Counter(node.work["cost"] for node in of.nodes if node.work["op"] == "kernels")
        total += len(of.npus) * sum(rows[row] * number for row, number in times.items())
        npus += len(of.npus)
    return total / npus


def _at_peak(kernels: Iterable[Kernel], workload: ModelWorkload | DividedWorkload, npu: Npu) -> float:
    """Seconds that kernels take at the peak of their types."""
    precision = workload.compute_type
    wide = npu.peak if precision is None or precision not in NARROW else npu.wide_peak(precision)
    return sum(kernel.flops / (npu.peak if kernel.narrow else wide) for kernel in kernels)
