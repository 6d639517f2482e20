"""The collective library as Python has it: its NCCL interface, for buffers in the memory of the host."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Final

from syncline.plans import load

LIBRARY: Final = Path(__file__).resolve().parent.parent / "libsyncline_nccl.so"
"""The shared library that `make` builds."""
IDENTITY_BYTES: Final = 128
TEXT_BYTES: Final = 4096
"""What a text of the library needs at most. The name of a plan has 256 characters."""
ERROR_OF_RANK: Final = 6
"""The result that says that another rank has failed (`ncclRemoteError`)."""


class RuntimeFailure(RuntimeError):  # noqa: N818  (a failure of a communicator, in the words of its messages)
    """A call could not be finished: the message names the rank and the call, where there are any."""


class DataType(IntEnum):
    """The types of elements, by NCCL's numbers."""

    INT8 = 0
    UINT8 = 1
    INT32 = 2
    UINT32 = 3
    INT64 = 4
    UINT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9
    FLOAT8_E4M3 = 10
    FLOAT8_E5M2 = 11


class Reduction(IntEnum):
    """The reductions, by NCCL's numbers. That of a scaled sum has a number of its own (`Communicator.scaled_sum`)."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4


@dataclass(frozen=True, slots=True)
class Chosen:
    """How the library carries a collective out."""

    name: str
    """The plan: that of the algorithm, where it is one of the library's own."""
    chunk_bytes: int
    """Bytes that go through the plan at a time: of the vector or, where ranks have shares of it, of each share."""
    chunks: int
    """How many such chunks there are."""
    slots: int
    """Messages that a connection of two ranks holds."""
    slot_bytes: int
    """The most bytes of a message."""


class _Identity(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * IDENTITY_BYTES)]


@cache
def _loaded() -> ctypes.CDLL:
    if not LIBRARY.is_file():
        raise RuntimeFailure(f"the collective library has not been built: there is no {LIBRARY}; run make")
    library = ctypes.CDLL(str(LIBRARY), use_errno=False)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    signatures: dict[str, Sequence[object]] = {
        "ncclGetUniqueId": [ctypes.POINTER(_Identity)],
        "synclineCommInit": [ctypes.POINTER(pointer), number, ctypes.POINTER(_Identity), number, ctypes.c_char_p],
        "ncclCommDestroy": [pointer],
        "ncclCommAbort": [pointer],
        "ncclCommGetAsyncError": [pointer, ctypes.POINTER(number)],
        "ncclAllReduce": [pointer, pointer, size, number, number, pointer, pointer],
        "ncclReduce": [pointer, pointer, size, number, number, number, pointer, pointer],
        "ncclReduceScatter": [pointer, pointer, size, number, number, pointer, pointer],
        "ncclBroadcast": [pointer, pointer, size, number, number, pointer, pointer],
        "ncclAllGather": [pointer, pointer, size, number, pointer, pointer],
        "ncclAlltoAll": [pointer, pointer, size, number, pointer, pointer],
        "ncclGather": [pointer, pointer, size, number, number, pointer, pointer],
        "ncclScatter": [pointer, pointer, size, number, number, pointer, pointer],
        "ncclSend": [pointer, size, number, number, pointer, pointer],
        "ncclRecv": [pointer, size, number, number, pointer, pointer],
        "ncclGroupStart": [],
        "ncclGroupEnd": [],
        "ncclRedOpCreatePreMulSum": [ctypes.POINTER(number), pointer, number, number, pointer],
        "ncclRedOpDestroy": [number, pointer],
        "synclineCommPlan": [pointer, ctypes.c_char_p, size, number, number, ctypes.c_char_p, size],
    }
    for name, arguments in signatures.items():
        function = getattr(library, name)
        function.argtypes, function.restype = list(arguments), number
    library.ncclGetLastError.argtypes, library.ncclGetLastError.restype = [pointer], ctypes.c_char_p
    return library


def _call(name: str, *arguments: object) -> None:
    library = _loaded()
    if getattr(library, name)(*arguments):
        text = library.ncclGetLastError(None)
        raise RuntimeFailure(text.decode(errors="replace") if text else f"{name} failed")


def new_identity() -> bytes:
    """The name of a new communicator, which one process makes and tells the others."""
    identity = _Identity()
    _call("ncclGetUniqueId", ctypes.byref(identity))
    return ctypes.string_at(ctypes.byref(identity), IDENTITY_BYTES)


class Communicator:
    """A rank of a group of processes, for buffers in the memory of the host.

    Buffers are given as addresses; counts are in elements, as in NCCL. Calls return when they are complete, without the
    interpreter lock meanwhile. Collectives of a communicator follow one another; messages between two ranks as well, in
    each direction.

    All methods raise `RuntimeFailure`. After one, the communicator is of no more use.
    """

    def __init__(
        self, identity: bytes, rank: int, ranks: int, *, timeout_s: float | None = None, plans: Sequence[Path] = ()
    ) -> None:
        """Joins, and waits until all ranks have.

        `timeout_s` says how long a call may wait without any progress (by default that of SYNCLINE_TIMEOUT), `plans`
        which files have plans that go before the built-in algorithms: JSON of `syncline-plan`, MSCCL's XML or MSCCL++'s
        JSON. Raises [`InputError`] for a file without a plan.
        """
        self.rank, self.ranks = rank, ranks
        self._handle = ctypes.c_void_p()
        held = _Identity.from_buffer_copy(identity)
        texts = [load.load(path).plan_json for path in plans]
        options = json.dumps({"timeout_s": timeout_s, "plan_texts": texts}).encode()
        _call("synclineCommInit", ctypes.byref(self._handle), ranks, ctypes.byref(held), rank, options)

    def all_reduce(self, source: int, target: int, count: int, data_type: int, reduction: int) -> None:
        """Sums vectors of `count` elements."""
        _call("ncclAllReduce", source, target, count, data_type, reduction, self._handle, None)

    def reduce(self, source: int, target: int, count: int, data_type: int, reduction: int, root: int) -> None:
        """Sums vectors of `count` elements at the root."""
        _call("ncclReduce", source, target, count, data_type, reduction, root, self._handle, None)

    def reduce_scatter(self, source: int, target: int, count: int, data_type: int, reduction: int) -> None:
        """Sums vectors of `count` elements for each rank, which gets its own."""
        _call("ncclReduceScatter", source, target, count, data_type, reduction, self._handle, None)

    def broadcast(self, source: int, target: int, count: int, data_type: int, root: int) -> None:
        """Copies the vector of the root, of `count` elements."""
        _call("ncclBroadcast", source, target, count, data_type, root, self._handle, None)

    def all_gather(self, source: int, target: int, count: int, data_type: int) -> None:
        """Collects `count` elements of each rank."""
        _call("ncclAllGather", source, target, count, data_type, self._handle, None)

    def all_to_all(self, source: int, target: int, count: int, data_type: int) -> None:
        """Exchanges `count` elements between each two ranks."""
        _call("ncclAlltoAll", source, target, count, data_type, self._handle, None)

    def gather(self, source: int, target: int, count: int, data_type: int, root: int) -> None:
        """Collects `count` elements of each rank at the root."""
        _call("ncclGather", source, target, count, data_type, root, self._handle, None)

    def scatter(self, source: int, target: int, count: int, data_type: int, root: int) -> None:
        """Gives each rank `count` elements of the root's."""
        _call("ncclScatter", source, target, count, data_type, root, self._handle, None)

    def send(self, source: int, count: int, data_type: int, peer: int) -> None:
        """Sends `count` elements to a rank."""
        _call("ncclSend", source, count, data_type, peer, self._handle, None)

    def recv(self, target: int, count: int, data_type: int, peer: int) -> None:
        """Receives `count` elements from a rank."""
        _call("ncclRecv", target, count, data_type, peer, self._handle, None)

    def scaled_sum(self, factor: int, data_type: int) -> int:
        """A reduction that sums inputs that are multiplied by the value at an address first."""
        number = ctypes.c_int()
        host = 1
        _call("ncclRedOpCreatePreMulSum", ctypes.byref(number), factor, data_type, host, self._handle)
        return number.value

    def chosen(self, collective: str, count: int, data_type: int, root: int = 0) -> Chosen:
        """How a collective, such as `all-reduce`, of `count` elements would be carried out, told without a message."""
        text = ctypes.create_string_buffer(TEXT_BYTES)
        _call("synclineCommPlan", self._handle, collective.encode(), count, data_type, root, text, TEXT_BYTES)
        return Chosen(**json.loads(text.value))

    def abort(self) -> None:
        """Gives the communicator up, from any thread: calls under way fail on all ranks. It is of no use afterwards."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            _call("ncclCommAbort", handle)

    def close(self) -> None:
        """Says goodbye. The communicator must not be used afterwards."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            _call("ncclCommDestroy", handle)


def start_group() -> None:
    """Calls of this thread are made together from here on, when the group ends."""
    _call("ncclGroupStart")


def end_group() -> None:
    """Makes the calls of the group, and returns when all are complete."""
    _call("ncclGroupEnd")
