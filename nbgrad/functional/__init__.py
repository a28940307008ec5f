"""Derivatives as functions of functions: ``grad(f)``, ``jacobian(f)``, ``hvp(f)`` and their like, to any order."""

from .derivatives import elementwise_grad, grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp

__all__ = ["elementwise_grad", "grad", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"]
