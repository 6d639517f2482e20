"""Times of calls on a device.

On CUDA, calls are captured as a graph, whose replays are timed with events: what lies between two kernels of a graph,
about a microsecond, is in the time, what the host takes to launch them is not. The device works on a stream of its own.
Calls take turns on several sets of operands, as many as exceed the last-level cache twice ("cold"), up to a limit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from syncline.measurements.operations import Operation, Tensors, UnsupportedError, operation
from syncline.sections.shapes import Kernel, Measured

MOST_SETS: Final = 64
MOST_CALLS: Final = 512
REPETITIONS: Final = 11
ROUND_S: Final = 4e-3
"""Calls of a repetition take about so long, or it is one call."""
WARM_UP_S: Final = 2e-3
CLOCK_RISES_S: Final = 1.0
CACHE: Final = 64 * 2**20
"""Bytes of a last-level cache that does not say its size."""
MEMORY_SHARE: Final = 0.4
"""The part of a device's memory that operands may take; what a backward pass keeps comes on top."""


@dataclass(slots=True)
class Clock:
    """Times kernels on one device."""

    torch: Any
    device: str
    """`cpu` or `cuda`."""
    name: str = field(init=False)
    """What the device is called."""
    cache: int = field(init=False)
    memory: int = field(init=False)
    _stream: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.device == "cuda":
            about = self.torch.cuda.get_device_properties(0)
            self.name = about.name
            self.cache = int(getattr(about, "L2_cache_size", 0) or CACHE)
            self.memory = int(about.total_memory)
            self._stream = self.torch.cuda.Stream()
            self._warm_up()
        else:
            self.name = _processor()
            self.cache, self.memory = CACHE, 4 * 2**30

    def about(self) -> str:
        """The device and PyTorch, in words."""
        version = f"PyTorch {self.torch.__version__}"
        if self.device != "cuda":
            return f"{self.name}, {self.torch.get_num_threads()} threads, {version}"
        count = self.torch.cuda.get_device_properties(0).multi_processor_count
        return f"{self.name}, {count} multiprocessors, {self.cache / 2**20:.0f} MiB of cache, {version}"

    def measure(self, kernel: Kernel) -> Measured:
        """The time of a kernel. Raises `operations.UnsupportedError` or what PyTorch raises, such as where memory is
        too small.
        """
        precision = "high" if kernel.dtype == "tf32" else "highest"
        self.torch.set_float32_matmul_precision(precision)
        if self.device != "cuda":
            return self._on_host(kernel)
        with self.torch.cuda.stream(self._stream):
            try:
                return self._launches(kernel) if kernel.kind == "launch" else self._on_gpu(kernel)
            finally:
                self._stream.synchronize()

    def _warm_up(self) -> None:
        """Keeps the GPU busy until its clock has risen from that of an idle one."""
        with self.torch.cuda.stream(self._stream):
            factor = self.torch.randn(4096, 4096, device=self.device, dtype=self.torch.bfloat16)
            began = time.perf_counter()
            while time.perf_counter() - began < CLOCK_RISES_S:
                for _ in range(20):
                    self.torch.mm(factor, factor)
                self._stream.synchronize()

    def _sets(self, kernel: Kernel, work: Operation) -> tuple[list[Tensors], str]:
        """Sets of operands, and whether they exceed the cache."""
        size = max(1, kernel.bytes)
        wanted = -(-2 * self.cache // size)
        possible = max(1, min(MOST_SETS, int(MEMORY_SHARE * self.memory) // (2 * size)))
        sets = [work.operands() for _ in range(min(wanted, possible))]
        return sets, "cold" if wanted <= possible else "warm"

    def _on_host(self, kernel: Kernel) -> Measured:
        if kernel.direction == "graph":
            raise UnsupportedError("a CPU has no graphs of kernels")
        work = operation(self.torch, kernel, self.device)
        sets, cache = self._sets(kernel, work)
        first = _seconds(lambda: work.call(sets[0]))
        first = min(first, _seconds(lambda: work.call(sets[-1])))
        calls = max(1, min(MOST_CALLS, round(ROUND_S / max(first, 1e-9))))

        def repetition() -> None:
            for index in range(calls):
                work.call(sets[index % len(sets)])

        repetitions = REPETITIONS if calls * first < 0.1 else 3
        times = [_seconds(repetition) / calls for _ in range(repetitions)]
        return _measured(kernel, times, calls, cache, "host")

    def _on_gpu(self, kernel: Kernel) -> Measured:
        work = operation(self.torch, kernel, self.device)
        sets, cache = self._sets(kernel, work)
        for given in sets[:3]:
            work.call(given)
        first = self._elapsed(lambda: work.call(sets[0]))
        calls = max(1, min(MOST_CALLS, round(ROUND_S / max(first, 1e-6))))
        calls = -(-calls // len(sets)) * len(sets) if calls > 1 or len(sets) > 1 else 1

        def repetition() -> None:
            for index in range(calls):
                work.call(sets[index % len(sets)])

        run, timing = self._captured(repetition)
        rounds = max(1, int(WARM_UP_S / max(calls * first, 1e-6)))
        for _ in range(rounds):
            run()
        times = [self._elapsed(run) / calls for _ in range(REPETITIONS)]
        return _measured(kernel, times, calls, cache, timing)

    def _launches(self, kernel: Kernel) -> Measured:
        """The time per kernel of many that do next to nothing."""
        work = operation(self.torch, kernel, self.device)
        given = work.operands()

        def repetition() -> None:
            for _ in range(kernel.m):
                work.call(given)

        repetition()
        run, timing = (repetition, "events") if kernel.direction == "eager" else self._captured(repetition)
        run()
        times = [self._elapsed(run) / kernel.m for _ in range(REPETITIONS)]
        return _measured(kernel, times, kernel.m, "warm", timing)

    def _captured(self, work: Callable[[], None]) -> tuple[Callable[[], object], str]:
        """The work as a graph, or as it is where it cannot be captured."""
        cuda = self.torch.cuda
        graph = cuda.CUDAGraph()
        cuda.synchronize()
        if cuda.memory_reserved() > MEMORY_SHARE * self.memory:
            cuda.empty_cache()  # the pools of earlier graphs
        try:
            graph.capture_begin()
            try:
                work()
            finally:
                graph.capture_end()
        except RuntimeError:
            cuda.synchronize()
            return work, "events"
        return graph.replay, "graph"

    def _elapsed(self, work: Callable[[], object]) -> float:
        """Seconds between two events around the work."""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3


def _measured(kernel: Kernel, times: list[float], calls: int, cache: str, timing: str) -> Measured:
    quartiles = statistics.quantiles(times, n=4)
    return Measured(kernel, statistics.median(times), quartiles[2] - quartiles[0], len(times), calls, cache, timing)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else "CPU"
