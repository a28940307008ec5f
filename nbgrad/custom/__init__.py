"""User-defined derivatives: ``autograd.Function`` and ``nbgrad.primitive``."""
