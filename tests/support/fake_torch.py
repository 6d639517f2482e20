"""A stand-in for PyTorch, which is not installed where most tests run."""

from __future__ import annotations

from unittest.mock import MagicMock


def torch(*, cuda: bool = False) -> MagicMock:
    """A PyTorch that does nothing, in a millisecond."""
    fake = MagicMock()
    fake.__version__ = "2.0"
    fake.get_num_threads.return_value = 1
    fake.cuda.is_available.return_value = cuda
    fake.cuda.get_device_properties.return_value = MagicMock(L2_cache_size=1000, total_memory=10**9)
    fake.cuda.get_device_properties.return_value.name = "GPU"
    fake.cuda.memory_reserved.return_value = 0
    fake.cuda.Event.return_value.elapsed_time.return_value = 1.0
    return fake
