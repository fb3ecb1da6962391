"""Every exception of noisette: when it is raised, and what to do next.

A privacy problem is always an exception and never a warning, and no message carries a fact about
the data. Each class also derives from the built-in that a caller would expect, so existing
``except ValueError`` code keeps working.
"""

__all__ = [
    "AdjacencyMismatch",
    "BudgetExceeded",
    "InvalidData",
    "InvalidParameter",
    "LedgerError",
    "MissingExtra",
    "NoisetteError",
    "PermitError",
    "RandomnessError",
    "RankFailed",
    "Unproven",
]


class NoisetteError(Exception):
    """Base of all noisette errors; catch it to catch everything this library raises itself."""


class InvalidParameter(NoisetteError, ValueError):
    """A public parameter is out of range. Next: pass a value in the range that the text states."""


class InvalidData(NoisetteError, ValueError):
    """An array has the wrong shape, type or NaNs. Next: clean it; the text names the argument.

    The message never quotes an entry of the array.
    """


class AdjacencyMismatch(NoisetteError, ValueError):
    """Two objects speak of different neighbouring relations.

    Next: build both for the same one; an epsilon under one relation says nothing under another.
    """


class Unproven(NoisetteError, ValueError):
    """No theorem covers the request. Next: use the alternative that the text names."""


class BudgetExceeded(NoisetteError, RuntimeError):
    """The ledger has too little left; nothing was charged. Next: ask for less, or stop here."""


class PermitError(NoisetteError, RuntimeError):
    """Noise was asked for outside what was charged. Next: charge the plan that really runs."""


class LedgerError(NoisetteError, RuntimeError):
    """A ledger file cannot be used. Next: as the text says; nothing was charged or changed."""


class RandomnessError(NoisetteError, RuntimeError):
    """A source of noise would be copied or shared. Next: give each worker its own source."""


class RankFailed(NoisetteError, RuntimeError):
    """Another process of a distributed training failed. Next: see what that one says."""


class MissingExtra(NoisetteError, ImportError):
    """An optional package is absent. Next: ``pip install 'noisette[NAME]'`` as the text names."""
