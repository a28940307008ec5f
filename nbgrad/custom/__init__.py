"""Derivatives that users give: ``autograd.Function`` and ``nbgrad.primitive``."""
