"""The NPU of an experiment, and where its figures come from.

What an experiment does not state is taken from the GPU of its machine (`fabric.gpus`), or from the GPU that `npu.gpu`
names. Machines are those that are known by name, and those in NCCL's topology XML and in the matrix of nvidia-smi,
whose GPU follows from PCI device ids or names (`fabric.gpu_products`); where it does not, a training asks for it
(`rules.of_whole`). A topology that is no machine, such as a product, a network of switches or a list of links, has the
NPU of the ACE paper (Table V). Of a GPU no figures are published for two fields:

*bus*      what the GPU's own data crosses on its way to the links: on the die, where nothing is slower than main
           memory, so that it carries as much as that.
*sm_read*  64 B per cycle, as in the ACE paper; that is what an SM gets from the L2 cache of a V100.

Of a GPU's memory, a model does not get all:

*reserved* 1 GiB. A CUDA context with the kernels of PyTorch takes about 0.4 GB (a maintainer, pytorch/pytorch#109888).
           NCCL keeps three buffers for each connection of a channel (4 MiB, 4.7 MiB and 0.5 MiB, one for each of its
           protocols): those of 24 channels, of a ring and a tree, are 0.5 to 0.7 GB for a communicator. Trainings with
           several communicators may take more.

An endpoint whose share of the NPU is `auto` has as much as the ACE paper's baseline that is optimised for communication
(Table VI, CommOpt): half of the memory bandwidth, and as many SMs as read that fast (450 GB/s and 6 SMs of its NPU).
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeVar

from syncline.base.section import Section
from syncline.fabric.fields import (
    AUTO,
    ComputeRate,
    Frequency,
    Power,
    Rate,
    Size,
    SizeOrZero,
    SmallCount,
    TimeOrZero,
)
from syncline.fabric.gpus import GPUS, NARROW, Gpu, Precision
from syncline.kernels import calibrated
from syncline.sections.compute import Compute
from syncline.sections.workloads import DEFAULT_ELEMENT, DividedWorkload, JobsWorkload, ModelWorkload, PlacedJob

S = TypeVar("S", bound=Section)


GpuName = Literal[
    "p100",
    "v100-16gb",
    "v100-32gb",
    "a100-40gb",
    "a100-80gb",
    "a100-pcie-40gb",
    "a100-pcie-80gb",
    "h100-pcie",
    "h100-nvl",
    "h100",
    "h200",
    "b200",
    "gb200",
]


class Npu(Section):
    """The NPU as hardware. Defaults: those of the machine's GPU, or of the GPU that is named; of a topology that is no
    machine the GPU-like NPU of the ACE paper (Table V)."""

    gpu: GpuName | None = None
    """The GPU whose published figures are the defaults of the other fields; that of the machine, if not given. A
    training on a topology file of GPUs needs it where the file does not say which GPUs these are."""
    peak: ComputeRate = 120 * 10**12
    """Peak rate of all SMs together, without sparsity; of a GPU, that for `workload.precision`."""
    sms: SmallCount = 80
    """Streaming multiprocessors."""
    clock: Frequency = 1_245_000_000
    """Clock of the SMs; an endpoint's cycles are at this clock unless it says otherwise."""
    memory_bandwidth: Rate = 900 * 10**9
    """Main-memory bandwidth, for compute and communication together."""
    memory: Size | None = None
    """Main memory; a model that does not fit is refused. Not checked if unknown."""
    reserved: SizeOrZero = 0
    """What a model does not get of it: of a GPU 1 GiB, for CUDA's context and the buffers of NCCL."""
    bus: Rate = 500 * 10**9
    """Bus between the NPU and its fabric interface, each direction; that of a GPU carries as much as its memory."""
    sm_read: Size = 64
    """Bytes that one SM reads per cycle when it drives a collective."""
    power: Power | None = None
    """What the GPU may draw on average, with the compute model of a GPU: its clock falls until the kernels of an
    iteration keep it. As the GPU comes, if not given."""
    host_kernel_time: TimeOrZero = 0
    """What the host takes to launch a kernel, a collective or a message, with `training.launch: host`. It runs ahead of
    the NPU, except that it waits for what other stages of a pipeline send; NPUs wait where it is slower than they are.
    With the compute model of a GPU 10 us, if not given: a property of the host and of what runs on it."""
    compute: Compute = Compute()
    """The compute model."""

    @property
    def available(self) -> int | None:
        """Bytes of main memory for a model, its optimiser and activations, if that is known."""
        return None if self.memory is None else max(0, self.memory - self.reserved)

    @property
    def is_peak_given(self) -> bool:
        """Whether the rate of kernels does not follow from their data type."""
        return "peak" in self.model_fields_set or not self.compute.depends_on_type

    def wide_peak(self, precision: Precision) -> int:
        """The peak rate of what a narrow data type does not act on: the part of `peak` that it is of the GPU's figures,
        and half where these are not known.
        """
        peaks = {} if self.gpu is None else GPUS[self.gpu].peaks
        if precision not in peaks:
            return self.peak // NARROW_GAIN
        return self.peak * peaks[NARROW[precision]] // peaks[precision]

    @property
    def title(self) -> str:
        """What it is called: its GPU, or the NPU whose figures are the defaults."""
        return PAPER_NPU if self.gpu is None else GPUS[self.gpu].title

    @property
    def changed(self) -> list[str]:
        """Figures that are not those of what it is called, because others were stated."""
        if self.gpu is None:
            return [name for name in FIGURES if getattr(self, name) != Npu.model_fields[name].default]
        gpu = GPUS[self.gpu]
        peak = self.peak if self.peak in gpu.peaks.values() else gpu.peaks["fp16"]
        figures = {"sm_read": Npu.model_fields["sm_read"].default, **_figures(gpu, peak)}
        return [name for name in FIGURES if getattr(self, name) != figures[name]]


FIGURES: Final = ("peak", "sms", "clock", "memory_bandwidth", "memory", "reserved", "bus", "sm_read")
"""Fields that describe hardware."""
NARROW_GAIN: Final = 2
"""How many times as fast as in BF16 products in FP8 are where no figures say it: as on all GPUs that have both."""
RESERVED: Final = 2**30
"""Bytes of a GPU's memory for its CUDA context and for the buffers of NCCL."""
HOST_KERNEL_TIME: Final = 10_000_000
"""Picoseconds that a host takes to launch a kernel of eager PyTorch: assumed, as a plain launch takes about 3 us and
what PyTorch does around it two to three times as long (on one virtual machine 13 us, and 38 to 45 us a kernel)."""
PAPER_NPU: Final = "NPU of the ACE paper"
AUTO_SHARE: Final = 2
"""A communication share that is `auto` is the memory bandwidth over this."""


def completed(machine: Gpu | None, npu: Npu, workload: Any, endpoint: Any) -> dict[str, Section]:
    """The sections that depend on what the NPU is, complete: the figures of its GPU, the data type that its peak is
    for, and what `auto` sets aside of it. Of all fields it is still known which were stated.
    """
    jobs = workload.jobs if isinstance(workload, JobsWorkload) else []
    model = jobs[0].workload if jobs else workload  # jobs have one data type: `rules`
    models = isinstance(model, ModelWorkload | DividedWorkload)
    element, precision = (model.element, model.compute_type) if models else (DEFAULT_ELEMENT, None)
    npu, precision = _of_gpu(npu, machine, precision, element)
    found: dict[str, Section] = {"npu": npu}
    if jobs:
        found["workload"] = _with(workload, jobs=[_typed(job, precision) for job in jobs])
    elif models and workload.compute_type != precision:
        found["workload"] = _with(workload, precision=precision)
    shares = auto_share(npu)
    auto = {name: share for name, share in shares.items() if getattr(endpoint, name, None) == AUTO}
    if auto:
        found["endpoint"] = _with(endpoint, **auto)
    return found


def _typed(job: PlacedJob, precision: Precision | None) -> PlacedJob:
    """A job with the data type that it computes in."""
    return _with(job, workload=_with(job.workload, precision=job.workload.precision or precision))


def auto_share(npu: Npu) -> dict[str, int]:
    """What `auto` sets aside of an NPU for communication, by the fields of endpoints."""
    bandwidth = max(1, npu.memory_bandwidth // AUTO_SHARE)
    sms = -(-bandwidth // (npu.sm_read * npu.clock))
    return {"comm_memory_bandwidth": bandwidth, "comm_sms": max(1, min(sms, npu.sms - 1))}


def _of_gpu(npu: Npu, machine: Gpu | None, precision: Precision | None, element: int) -> tuple[Npu, Precision | None]:
    """The NPU with what it does not state filled in from its GPU, and the data type that its peak is for: the given
    one, or what elements of so many bytes are computed in, and none where the peak does not depend on types.
    """
    gpu = machine if npu.gpu is None else GPUS[npu.gpu]
    if gpu is None:
        return npu, precision
    if not npu.is_peak_given:
        precision = precision or gpu.precision(element)
    peak = gpu.peaks.get(precision or gpu.precision(element), gpu.peaks["fp16"])
    figures = {"gpu": gpu.name, **_figures(gpu, peak), "compute": _compute(npu, gpu)}
    if figures["compute"].kind == "gpu":
        figures |= {"power": gpu.power, "host_kernel_time": HOST_KERNEL_TIME}
    missing = {name for name in figures if name not in npu.model_fields_set or getattr(npu, name) is None}
    return _with(npu, **{name: figures[name] for name in missing | {"compute"}}), precision


def _compute(npu: Npu, gpu: Gpu) -> Compute:
    """The compute model, which is that of the GPU unless another one is stated."""
    if "kind" in npu.compute.model_fields_set or not calibrated.is_known(gpu.name):
        return npu.compute
    return _with(npu.compute, kind="gpu")


def _figures(gpu: Gpu, peak: int) -> dict[str, Any]:
    """What is known of a GPU, by the fields of an NPU."""
    return {
        "peak": peak,
        "sms": gpu.sms,
        "clock": gpu.clock,
        "memory_bandwidth": gpu.memory_bandwidth,
        "memory": gpu.memory,
        "reserved": RESERVED,
        "bus": gpu.memory_bandwidth,
    }


def _with(section: S, **values: Any) -> S:
    """A section with other values of some fields, which says of the same fields as before that they were stated."""
    every = {name: getattr(section, name) for name in type(section).model_fields}
    return type(section).model_construct(_fields_set=set(section.model_fields_set), **{**every, **values})
