"""What kernels of GPU libraries take: constants of the engine's model of a GPU (`crates/workload/src/compute/gpu.rs`).

A file for each GPU whose kernels were measured, in the form in which the engine takes them, with attention by library.
They are fitted by `lab.gpu_kernels`, which has the measurements.
"""
