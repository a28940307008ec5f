"""The exceptions nbgrad raises. All derive from :class:`NBGradError` (``MXNetError`` is an alias)."""

__all__ = ["MXNetError", "NBGradError"]


class NBGradError(RuntimeError):
    """Base of every error that is nbgrad's own.

    Where a Python or NumPy program would expect ``TypeError``, ``ValueError``, ``IndexError`` or
    ``KeyError``, the raised class derives from both, so either ``except`` catches it.
    """


class ShapeError(NBGradError, ValueError):
    """Shapes, axes or sizes that do not fit together."""


class DTypeError(NBGradError, TypeError):
    """A dtype (or Python type) that an operation cannot take."""


class AttrError(NBGradError, ValueError):
    """A bad value for a keyword of an operator."""


class RangeError(NBGradError, IndexError):
    """An index, a length or a class number out of range."""


class ContextError(NBGradError, ValueError):
    """A device that does not exist, or arrays of different devices in one operation."""


class InPlaceError(NBGradError):
    """A write into an array whose old value a recorded graph still needs."""


class TraceError(NBGradError, TypeError):
    """Something that cannot be done to the arrays of a function that ``jit`` traces."""


MXNetError = NBGradError
