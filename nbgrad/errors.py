"""The exceptions of nbgrad. All derive from :class:`NBGradError` (``MXNetError`` is an alias)."""

import numpy as np

__all__ = ["DerivativeWarning", "LinAlgError", "MXNetError", "MaskWarning", "NBGradError", "TapeWarning"]


class NBGradError(RuntimeError):
    """The base class of nbgrad's errors.

    Where a Python or NumPy program would expect ``TypeError``, ``ValueError``, ``IndexError`` or
    ``KeyError``, the raised class derives from both, so either ``except`` catches it.
    """


class ShapeError(NBGradError, ValueError):
    """Shapes, axes or sizes that do not fit together."""


class DTypeError(NBGradError, TypeError):
    """A dtype (or Python type) that an operation cannot take."""


class LostGradientError(DTypeError):
    """An implicit conversion of a recorded array to Python or NumPy values, which would lose its gradient."""


class AttrError(NBGradError, ValueError):
    """A bad value for a keyword of an operator."""


class RangeError(NBGradError, IndexError):
    """An index, a length or a class number out of range."""


class ContextError(NBGradError, ValueError):
    """A device that does not exist, or arrays of different devices in one operation."""


class InPlaceError(NBGradError):
    """A write into an array whose old value a recorded graph still needs."""


class LinAlgError(NBGradError, np.linalg.LinAlgError):
    """A matrix has no such factors or inverse; it is one of NumPy's errors of that name, too."""


class OutOfMemoryError(NBGradError, MemoryError):
    """An array for which there is no memory."""


class SymbolError(NBGradError, ValueError):
    """A Symbol that cannot be read from a text, or cannot be run. `node` is the name of the node, or None."""

    def __init__(self, message: str, node: str | None = None) -> None:
        super().__init__(message)
        self.node = node


class TraceError(NBGradError, TypeError):
    """An operation that is not possible on the arrays of a function that ``jit`` traces."""


class DerivativeWarning(UserWarning):
    """A derivative that is right, and perhaps not the one that is meant."""


class TapeWarning(UserWarning):
    """An adjoint that stores much for the size of the machine."""


class MaskWarning(UserWarning):
    """An index that looks like a mask and is used as integer positions."""


MXNetError = NBGradError
