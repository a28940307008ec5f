"""Programs as scientists write them for Numba, of many fields, with arguments: what nb.adjoint must take."""

from .analysis import PROGRAMS as ANALYSIS
from .equations import PROGRAMS as EQUATIONS
from .fields import PROGRAMS as FIELDS
from .learning import PROGRAMS as LEARNING
from .matrices import PROGRAMS as MATRICES
from .motion import PROGRAMS as MOTION
from .networks import PROGRAMS as NETWORKS
from .sciences import PROGRAMS as SCIENCES
from .searches import PROGRAMS as SEARCHES
from .signals import PROGRAMS as SIGNALS
from .stencils import PROGRAMS as STENCILS
from .textbooks import PROGRAMS as TEXTBOOKS

PARTS = (
    EQUATIONS,
    STENCILS,
    MOTION,
    LEARNING,
    ANALYSIS,
    NETWORKS,
    SEARCHES,
    MATRICES,
    FIELDS,
    TEXTBOOKS,
    SCIENCES,
    SIGNALS,
)
PROGRAMS = {f.__name__: (f, args) for part in PARTS for f, args in part.items()}
