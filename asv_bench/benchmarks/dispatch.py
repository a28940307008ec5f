"""What an operator costs beyond its arithmetic: arrays of 10 elements, not recorded, recorded, differentiated."""

import numpy as np

from nbgrad import autograd, nd
from nbgrad.core.registry import operators
from nbgrad.operators.elementwise import Elementwise

from .workloads import chain, operands

_ELEMENTWISE = [n for n, e in operators.items() if isinstance(e.rule, Elementwise) and not n.startswith("_")]

_STRUCTURED = {
    "sum": lambda x: x.sum(),
    "max": lambda x: x.max(),
    "reshape": lambda x: x.reshape((5, 2)),
    "transpose": lambda x: x.T,
    "x[0]": lambda x: x[0],
    "x[:, 1]": lambda x: x[:, 1],
    "concat": lambda x: nd.concat(x, x, dim=0),
    "dot": lambda x: nd.dot(x, x, transpose_b=True),
    "broadcast add": lambda x: x + x[0],
    "x + 1": lambda x: x + 1,
}


class Call:
    """One elementwise operator on 10 elements."""

    params = (_ELEMENTWISE, (False, True))
    param_names = ("operator", "recording")

    def setup(self, name, recording):
        entry = operators[name]
        sample = entry.samples[0]
        self.call, self.attrs = entry.call, sample.attrs
        self.arrays = [nd.array(np.full(10, 0.5 * (i.low + i.high))) for i in sample.inputs]
        for x in self.arrays:
            x.attach_grad()
        self.previous = autograd.set_recording(recording)
        self.call(*self.arrays, **self.attrs)

    def teardown(self, name, recording):
        autograd.set_recording(self.previous)

    def time_call(self, name, recording):
        self.call(*self.arrays, **self.attrs)


class Structure:
    """Operators with kernels of their own on 10 elements."""

    params = (list(_STRUCTURED), (False, True))
    param_names = ("call", "recording")

    def setup(self, name, recording):
        self.x = nd.array(np.linspace(0.1, 1.0, 10).reshape(2, 5))
        self.x.attach_grad()
        self.call = _STRUCTURED[name]
        self.previous = autograd.set_recording(recording)
        self.call(self.x)

    def teardown(self, name, recording):
        autograd.set_recording(self.previous)

    def time_call(self, name, recording):
        self.call(self.x)


class Tiny:
    """20 operators on 10 elements, two gradients."""

    def setup(self):
        self.a, self.b = (nd.array(x) for x in operands())
        self.a.attach_grad()
        self.b.attach_grad()
        self.time_record_and_differentiate()

    def time_not_recorded(self):
        chain(self.a, self.b, nd.tanh)

    def time_recorded(self):
        with autograd.record():
            chain(self.a, self.b, nd.tanh)

    def time_record_and_differentiate(self):
        with autograd.record():
            y = chain(self.a, self.b, nd.tanh)
        y.backward()

    def time_second_order(self):
        with autograd.record():
            y = chain(self.a, self.b, nd.tanh)
        da, _ = autograd.grad(y, [self.a, self.b], create_graph=True)
        da.backward()
