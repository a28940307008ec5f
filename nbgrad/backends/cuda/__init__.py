"""CUDA devices: the driver, device memory, and kernels for it. See docs/devices.md."""
