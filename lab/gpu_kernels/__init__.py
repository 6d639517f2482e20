"""Constants of the kernels of GPUs: measured kernels, the fit, and how well it does."""
