"""Functional transforms: ``grad(f)``, ``jacobian(f)``, ``hvp(f)`` and so on, to any order."""

from .derivatives import elementwise_grad, grad, jvp, value_and_grad, vjp
from .ensemble import ensemble
from .matrices import hessian, hvp, jacobian
from .scipy_adapters import ScipyObjective, ScipyResiduals, hessian_operator, jacobian_operator

__all__ = [
    "ScipyObjective",
    "ScipyResiduals",
    "elementwise_grad",
    "ensemble",
    "grad",
    "hessian",
    "hessian_operator",
    "hvp",
    "jacobian",
    "jacobian_operator",
    "jvp",
    "value_and_grad",
    "vjp",
]
