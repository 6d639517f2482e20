"""Measures kernels with PyTorch, as tables from which the engine takes times.

`kernels` is an entry of its own, which needs PyTorch and the standard library: it runs on machines that have neither
the engine nor the packages that the rest of Syncline needs. `shapes`, `grid`, `operations` and `timing` are its parts.
"""
