"""The collective library of Syncline: it carries plans out on real buffers of real processes.

The library itself is `crates/runtime`, behind the NCCL interface of `crates/nccl`, which `library` is in Python.
"""
