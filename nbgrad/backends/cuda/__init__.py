"""The CUDA backend: the driver, device memory, and device kernels. See docs/devices.md."""
