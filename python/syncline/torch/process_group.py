"""A process group of `torch.distributed` whose calls are carried out by the collective library.

It is a subclass of `ProcessGroup` in Python, which DistributedDataParallel works on as it does on any other: what it
asks of a group are calls that return `Work` with a future. Collectives are carried out by a thread of the group, in
the order in which they were asked for; messages to and from each rank by threads of their own, so that a rank may send
and receive at the same time, whatever the order.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.futures import Future

from syncline.runtime.library import Communicator, DataType, Reduction, new_identity

BACKEND: Final = "syncline"

_DATA_TYPES: Final[dict[torch.dtype, DataType]] = {
    torch.int8: DataType.INT8,
    torch.uint8: DataType.UINT8,
    torch.bool: DataType.UINT8,
    torch.int32: DataType.INT32,
    torch.int64: DataType.INT64,
    torch.float16: DataType.FLOAT16,
    torch.bfloat16: DataType.BFLOAT16,
    torch.float32: DataType.FLOAT32,
    torch.float64: DataType.FLOAT64,
    **({torch.float8_e4m3fn: DataType.FLOAT8_E4M3} if hasattr(torch, "float8_e4m3fn") else {}),
    **({torch.float8_e5m2: DataType.FLOAT8_E5M2} if hasattr(torch, "float8_e5m2") else {}),
}
_COMPLEX: Final = {torch.complex64: torch.float32, torch.complex128: torch.float64}
"""Complex numbers are summed as pairs of real ones."""

_OP: Final = dist.ReduceOp
_REDUCTIONS: Final = {
    _OP.SUM: Reduction.SUM,
    _OP.PRODUCT: Reduction.PROD,
    _OP.MIN: Reduction.MIN,
    _OP.MAX: Reduction.MAX,
    **({_OP.AVG: Reduction.AVG} if hasattr(_OP, "AVG") else {}),
}


class _Work(dist._Work if hasattr(dist, "_Work") else dist.Work):  # type: ignore[misc]
    """A call that is under way.

    PyTorch can make one of a future itself, whose `wait` does not raise what the future holds: a failure would be lost.
    """

    def __init__(self, future: Future[Any]) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._future.wait()
        return True

    def get_future(self) -> Future[Any]:
        return self._future

    def is_completed(self) -> bool:
        return bool(self._future.done())

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        try:
            self._future.value()
        except RuntimeError as error:
            return error
        return None

    def result(self) -> Any:
        return self._future.wait()


_KEEPS_WORKS: Final = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 7)
"""Whether PyTorch holds on to the Python part of a work. Before 2.7, C++ holds the other part alone: once Python has
forgotten its own, `wait` is that of the base class, which never ends. DistributedDataParallel begins with such a wait.
"""
_KEPT: Final = 16
"""So many works that are done are then kept, as C++ waits for them at once or after a few others."""


class _Works:
    """What has been asked for lately, and all that is under way: for versions that do not keep it themselves."""

    def __init__(self) -> None:
        self._works: deque[_Work] = deque()

    def keep(self, work: _Work) -> None:
        self._works.append(work)
        while len(self._works) > _KEPT and self._works[0].is_completed():
            self._works.popleft()


class _Lane:
    """A thread that carries calls out in their order."""

    def __init__(self, name: str) -> None:
        self._works = None if _KEEPS_WORKS else _Works()
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        self._calls.put((call, future))
        work = _Work(future)
        if self._works is not None:
            self._works.keep(work)
        return work

    def close(self) -> None:
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            call, future = item
            try:
                result = call()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            # Nothing is held while the thread waits for the next call.
            del item, call, future


class SynclineProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """The process group of a rank. Its methods have the names and arguments of PyTorch's."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        if rank == 0:
            store.set("syncline", new_identity())
        identity = bytes(store.get("syncline"))
        self._communicator = Communicator(identity, rank, size, timeout_s=timeout.total_seconds())
        self._collectives = _Lane("syncline collectives")
        self._lines: dict[tuple[str, int], _Lane] = {}

    # What a group is called has no bearing on what it does.
    def getBackendName(self) -> str:  # noqa: N802
        """The name of the backend."""
        return BACKEND

    def name(self) -> str:
        """The name of the backend, as older versions of PyTorch ask for it."""
        return BACKEND

    def rank(self) -> int:
        """The number of this rank in the group."""
        return self._rank

    def size(self) -> int:
        """Ranks of the group."""
        return self._size

    def allreduce(self, tensors: Sequence[Any], opts: Any = None) -> Any:
        """Sums tensors, in place."""
        operation = _operation(opts)
        return self._collectives.submit(lambda: self._reduced(tensors, operation))

    def allreduce_coalesced(self, tensors: Sequence[Any], opts: Any = None) -> Any:
        """Sums several tensors, in place."""
        return self.allreduce(tensors, opts)

    def _reduced(self, tensors: Sequence[Any], operation: Any) -> Sequence[Any]:
        for tensor in tensors:
            with _Flat(tensor) as flat:
                kind, reduction = flat.reduction(operation, self._communicator)
                self._communicator.all_reduce(flat.address, flat.address, flat.count, kind, reduction)
        return tensors

    def reduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        """Sums tensors at the root, in place."""
        operation, root = _operation(opts), opts.rootRank

        def call() -> Sequence[Any]:
            for tensor in tensors:
                with _Flat(tensor, writes=self._rank == root) as flat:
                    kind, reduction = flat.reduction(operation, self._communicator)
                    target = flat.address if self._rank == root else 0
                    self._communicator.reduce(flat.address, target, flat.count, kind, reduction, root)
            return tensors

        return self._collectives.submit(call)

    def broadcast(self, tensors: Sequence[Any], opts: Any) -> Any:
        """Copies tensors of the root, in place."""
        root = opts.rootRank

        def call() -> Sequence[Any]:
            for tensor in tensors:
                with _Flat(tensor, writes=self._rank != root) as flat:
                    self._communicator.broadcast(flat.address, flat.address, flat.bytes, DataType.UINT8, root)
            return tensors

        return self._collectives.submit(call)

    def allgather(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any = None) -> Any:
        """Collects tensors of all ranks."""

        def call() -> Sequence[Any]:
            for row, tensor in zip(outputs, inputs, strict=True):
                self._gathered(row, tensor)
            return outputs

        return self._collectives.submit(call)

    def allgather_coalesced(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any = None) -> Any:
        """Collects several tensors of all ranks."""

        def call() -> Sequence[Any]:
            for number, tensor in enumerate(inputs):
                self._gathered([row[number] for row in outputs], tensor)
            return outputs

        return self._collectives.submit(call)

    def _gathered(self, row: Sequence[Any], tensor: Any) -> None:
        sizes = {part.numel() for part in row}
        if sizes != {tensor.numel()}:
            raise ValueError("all-gather: all tensors have the same size")
        whole = torch.empty((self._size, tensor.numel()), dtype=tensor.dtype)
        self._gather_into(whole, tensor)
        for part, values in zip(row, whole, strict=True):
            part.copy_(values.view(part.shape))

    def _gather_into(self, whole: Any, tensor: Any) -> None:
        with _Flat(whole) as target, _Flat(tensor, writes=False) as source:
            self._communicator.all_gather(source.address, target.address, source.bytes, DataType.UINT8)

    def _allgather_base(self, output: Any, tensor: Any, opts: Any = None) -> Any:
        def call() -> Any:
            self._gather_into(output, tensor)
            return [output]

        return self._collectives.submit(call)

    def allgather_into_tensor_coalesced(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any = None) -> Any:
        """Collects several tensors of all ranks, each into one."""

        def call() -> Sequence[Any]:
            for output, tensor in zip(outputs, inputs, strict=True):
                self._gather_into(output, tensor)
            return outputs

        return self._collectives.submit(call)

    def gather(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Any:
        """Collects tensors of all ranks at the root."""
        root = opts.rootRank

        def call() -> Sequence[Any]:
            tensor = inputs[0]
            is_root = self._rank == root
            whole = torch.empty((self._size if is_root else 0, tensor.numel()), dtype=tensor.dtype)
            with _Flat(whole) as target, _Flat(tensor, writes=False) as source:
                self._communicator.gather(
                    source.address, target.address if is_root else 0, source.bytes, DataType.UINT8, root
                )
            if is_root:
                for part, values in zip(outputs[0], whole, strict=True):
                    part.copy_(values.view(part.shape))
            return outputs

        return self._collectives.submit(call)

    def scatter(self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any) -> Any:
        """Gives each rank one of the root's tensors."""
        root = opts.rootRank

        def call() -> Sequence[Any]:
            is_root = self._rank == root
            whole = torch.stack([part.reshape(-1) for part in inputs[0]]) if is_root else torch.empty(0)
            with _Flat(outputs[0]) as target, _Flat(whole, writes=False) as source:
                self._communicator.scatter(
                    source.address if is_root else 0, target.address, target.bytes, DataType.UINT8, root
                )
            return outputs

        return self._collectives.submit(call)

    def reduce_scatter(self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any = None) -> Any:
        """Sums tensors for each rank."""
        operation = _operation(opts)

        def call() -> Sequence[Any]:
            for output, row in zip(outputs, inputs, strict=True):
                self._scatter_sum(output, torch.stack([part.reshape(-1) for part in row]), operation)
            return outputs

        return self._collectives.submit(call)

    def _scatter_sum(self, output: Any, whole: Any, operation: Any) -> None:
        with _Flat(output) as target, _Flat(whole, writes=False) as source:
            kind, reduction = target.reduction(operation, self._communicator)
            self._communicator.reduce_scatter(source.address, target.address, target.count, kind, reduction)

    def _reduce_scatter_base(self, output: Any, tensor: Any, opts: Any = None) -> Any:
        operation = _operation(opts)

        def call() -> Any:
            self._scatter_sum(output, tensor, operation)
            return [output]

        return self._collectives.submit(call)

    def reduce_scatter_tensor_coalesced(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any = None) -> Any:
        """Sums several tensors for each rank."""
        operation = _operation(opts)

        def call() -> Sequence[Any]:
            for output, tensor in zip(outputs, inputs, strict=True):
                self._scatter_sum(output, tensor, operation)
            return outputs

        return self._collectives.submit(call)

    def alltoall_base(
        self, output: Any, tensor: Any, output_sizes: Sequence[int], input_sizes: Sequence[int], opts: Any = None
    ) -> Any:
        """Exchanges parts of a tensor between each two ranks."""

        def call() -> Any:
            if not output_sizes and not input_sizes:
                with _Flat(output) as target, _Flat(tensor, writes=False) as source:
                    part = source.bytes // self._size
                    self._communicator.all_to_all(source.address, target.address, part, DataType.UINT8)
                return [output]
            incoming = output.split(list(output_sizes)) if output_sizes else output.chunk(self._size)
            outgoing = tensor.split(list(input_sizes)) if input_sizes else tensor.chunk(self._size)
            self._exchange(incoming, outgoing)
            return [output]

        return self._collectives.submit(call)

    def alltoall(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any = None) -> Any:
        """Exchanges tensors between each two ranks."""

        def call() -> Sequence[Any]:
            self._exchange(outputs, inputs)
            return outputs

        return self._collectives.submit(call)

    def _exchange(self, incoming: Sequence[Any], outgoing: Sequence[Any]) -> None:
        """Exchanges tensors of any sizes: as all-to-alls of the longest of them."""
        most = torch.tensor([max(part.numel() for part in outgoing)], dtype=torch.int64)
        with _Flat(most) as flat:
            self._communicator.all_reduce(flat.address, flat.address, 1, DataType.INT64, Reduction.MAX)
        length = int(most[0])
        source = torch.zeros((self._size, length), dtype=outgoing[0].dtype)
        target = torch.empty_like(source)
        for row, part in zip(source, outgoing, strict=True):
            row[: part.numel()] = part.reshape(-1)
        with _Flat(target) as to, _Flat(source, writes=False) as flat:
            self._communicator.all_to_all(flat.address, to.address, flat.bytes // self._size, DataType.UINT8)
        for row, part in zip(target, incoming, strict=True):
            part.copy_(row[: part.numel()].view(part.shape))

    def send(self, tensors: Sequence[Any], peer: int, tag: int = 0) -> Any:
        """Sends a tensor to a rank. Messages to a rank match in their order: a tag has to be 0."""
        _refuse_tag(tag)

        def call() -> Sequence[Any]:
            for tensor in tensors:
                with _Flat(tensor, writes=False) as flat:
                    self._communicator.send(flat.address, flat.bytes, DataType.UINT8, peer)
            return tensors

        return self._line("send", peer).submit(call)

    def recv(self, tensors: Sequence[Any], peer: int, tag: int = 0) -> Any:
        """Receives a tensor from a rank."""
        _refuse_tag(tag)

        def call() -> Sequence[Any]:
            for tensor in tensors:
                with _Flat(tensor) as flat:
                    self._communicator.recv(flat.address, flat.bytes, DataType.UINT8, peer)
            return tensors

        return self._line("recv", peer).submit(call)

    def barrier(self, opts: Any = None) -> Any:
        """Waits until all ranks have come here."""

        def call() -> Sequence[Any]:
            return self._reduced([torch.zeros(1, dtype=torch.uint8)], _OP.SUM)

        return self._collectives.submit(call)

    def _line(self, direction: str, peer: int) -> _Lane:
        key = (direction, peer)
        if key not in self._lines:
            self._lines[key] = _Lane(f"syncline {direction} {peer}")
        return self._lines[key]

    def gather_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        """Collects tensors of all ranks at the root, in one."""
        root = opts.rootRank

        def call() -> Any:
            target = output if self._rank == root else torch.empty(0)
            with _Flat(target) as to, _Flat(tensor, writes=False) as source:
                address = to.address if self._rank == root else 0
                self._communicator.gather(source.address, address, source.bytes, DataType.UINT8, root)
            return [output]

        return self._collectives.submit(call)

    # Newer versions of PyTorch call what works on single tensors by other names.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    def abort(self) -> None:
        """Gives the group up: calls under way fail on all ranks."""
        self._communicator.abort()

    def shutdown(self) -> None:
        """Ends the group, after what is under way."""
        for lane in (self._collectives, *self._lines.values()):
            lane.close()
        self._lines = {}
        self._communicator.close()


class _Flat:
    """The memory of a tensor, or of a contiguous copy of it, which is copied back in the end.

    Raises `TypeError` for tensors that are not in the memory of the host, and for types that the library does not have.
    """

    def __init__(self, tensor: Any, *, writes: bool = True) -> None:
        if tensor.device.type != "cpu" or tensor.is_sparse:
            raise TypeError(f"the backend {BACKEND} takes dense tensors on the CPU, not one on {tensor.device}")
        self._tensor, self._writes = tensor, writes
        self._flat = tensor.detach().contiguous()
        self._is_copy = self._flat.data_ptr() != tensor.data_ptr()
        self.address = self._flat.data_ptr()
        self.bytes = self._flat.numel() * self._flat.element_size()
        self.count = self._flat.numel() * (2 if tensor.dtype in _COMPLEX else 1)

    def __enter__(self) -> _Flat:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._is_copy and self._writes and error is None:
            self._tensor.detach().copy_(self._flat)

    def reduction(self, operation: Any, communicator: Communicator) -> tuple[int, int]:
        """The library's number of the element type and of the reduction."""
        dtype = _COMPLEX.get(self._tensor.dtype, self._tensor.dtype)
        if dtype not in _DATA_TYPES:
            accepted = ", ".join(str(known).removeprefix("torch.") for known in _DATA_TYPES)
            raise TypeError(f"the backend {BACKEND} does not reduce {dtype}; accepted: {accepted}")
        kind = _DATA_TYPES[dtype]
        if operation == getattr(_OP, "PREMUL_SUM", None):
            factor = torch.tensor([_factor(operation)], dtype=dtype)
            return kind, communicator.scaled_sum(factor.data_ptr(), kind)
        found = next((reduction for known, reduction in _REDUCTIONS.items() if operation == known), None)
        if found is None or (dtype != self._tensor.dtype and found not in {Reduction.SUM, Reduction.AVG}):
            raise TypeError(f"the backend {BACKEND} does not reduce {self._tensor.dtype} by {operation}")
        if self._tensor.dtype == torch.bool:
            # A sum of truth values is whether any is true, a product whether all are.
            found = {Reduction.SUM: Reduction.MAX, Reduction.PROD: Reduction.MIN}.get(found, found)
        return kind, found


def _factor(operation: Any) -> float:
    """The factor of PREMUL_SUM, which PyTorch shows only in what it pickles."""
    return float(operation.__getstate__()[1])


def _operation(opts: Any) -> Any:
    return _OP.SUM if opts is None else opts.reduceOp


def _refuse_tag(tag: int) -> None:
    if tag != 0:
        raise ValueError(f"messages match in their order: tag {tag} cannot be told from others; accepted: 0")


def register() -> None:
    """Makes the backend known to PyTorch, once."""
    if BACKEND in getattr(dist.Backend, "_plugins", {}) or hasattr(dist.Backend, BACKEND.upper()):
        return
    takes_devices = "devices" in dist.Backend.register_backend.__code__.co_varnames
    devices = {"devices": ["cpu"]} if takes_devices else {}
    dist.Backend.register_backend(BACKEND, SynclineProcessGroup, **devices)
