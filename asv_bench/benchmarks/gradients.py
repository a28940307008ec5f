"""Forward and gradients of the workloads of ``benchmarks/peers.py``: times, and the peak memory of the process."""

import numpy as np

import nbgrad

from .libraries import LIBRARIES
from .workloads import WORKLOADS

_WORKLOADS = {workload.name: workload for workload in WORKLOADS}


class Gradients:
    """One evaluation with its gradients."""

    library = "nbgrad"
    params = (list(_WORKLOADS),)
    param_names = ("workload",)

    def setup(self, name):
        workload = _WORKLOADS[name]
        self.run = LIBRARIES[self.library].start()(workload, workload.arrays(np.random.default_rng(0)))
        self.run()

    def time_gradients(self, name):
        self.run()

    def peakmem_gradients(self, name):
        self.run()


class CompiledGradients(Gradients):
    """The same, compiled first."""

    library = "nbgrad.jit"

    def setup(self, name):
        if not hasattr(nbgrad, "jit"):
            raise NotImplementedError("no nbgrad.jit")  # asv leaves it out
        super().setup(name)
