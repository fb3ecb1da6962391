"""Every exception of noisette and its two warnings: when it is raised, and what to do next.

A guarantee that would be wrong is always an exception and never a warning, and no message carries a
fact about the data. Each class also derives from the built-in that a caller would expect, so
existing ``except ValueError`` code keeps working.
"""

import warnings

__all__ = [
    "AdjacencyMismatch", "BudgetExceeded", "ClusterFailed", "InvalidData", "InvalidParameter",
    "LedgerError", "MissingExtra", "NoisetteError", "PermitError", "PrivacyWarning",
    "RandomnessError", "RankFailed", "Unproven", "WeakModelWarning",
]  # fmt: skip


class NoisetteError(Exception):
    """Base of all noisette errors; catch it to catch everything this library raises itself.

    Examples
    --------
    >>> from noisette import Ledger
    >>> from noisette.errors import NoisetteError
    >>> try:
    ...     Ledger(epsilon=-1.0)
    ... except NoisetteError as error:
    ...     print(type(error).__name__)
    InvalidParameter

    """


class InvalidParameter(NoisetteError, ValueError):
    """A public parameter is out of range. Next: pass a value in the range that the text states.

    Examples
    --------
    >>> from noisette import Ledger
    >>> Ledger(epsilon=-1.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    noisette.errors.InvalidParameter: epsilon must be ...

    """


class InvalidData(NoisetteError, ValueError):
    """An array has the wrong shape, type or NaNs. Next: clean it; the text names the argument.

    The message never quotes an entry of the array.

    Examples
    --------
    >>> from noisette import Bounded
    >>> Bounded([], "zero-out", "ADJACENCY", contribution=1.0)
    Traceback (most recent call last):
    noisette.errors.InvalidData: the value of a Bounded is empty; there is nothing to release.

    """


class AdjacencyMismatch(NoisetteError, ValueError):
    """Two objects speak of different neighbouring relations.

    Next: build both for the same one; an epsilon under one relation says nothing under another.

    Examples
    --------
    >>> from noisette import plans
    >>> plans.Declared(epsilon=0.5).under("zero-out").under("add-remove")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    noisette.errors.AdjacencyMismatch: the plan is for zero-out neighbours but ...

    """


class Unproven(NoisetteError, ValueError):
    """No theorem covers the request. Next: use the alternative that the text names.

    Examples
    --------
    >>> from noisette import sampling
    >>> from noisette.adjacency import ADD_REMOVE
    >>> sampling.Shuffle(batches=10).participation(ADD_REMOVE)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    noisette.errors.Unproven: shuffle batches have no proof under add-remove, because ...

    """


class BudgetExceeded(NoisetteError, RuntimeError):
    """The ledger has too little left; nothing was charged. Next: ask for less, or stop here.

    Examples
    --------
    >>> from noisette import Ledger, mechanisms
    >>> ledger = Ledger(epsilon=1.0)
    >>> ledger.charge(mechanisms.Laplace(noise_multiplier=1.0), label="sum")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    noisette.errors.BudgetExceeded: 'sum' costs 2 in epsilon but 1 is left; nothing was charged. ...

    """


class PermitError(NoisetteError, RuntimeError):
    """Noise was asked for outside what was charged. Next: charge the plan that really runs.

    Examples
    --------
    >>> from noisette import Ledger, mechanisms
    >>> permit = Ledger(epsilon=1.0).charge(mechanisms.Laplace(noise_multiplier=2.0), label="sum")
    >>> permit.draws_left(part=1)
    Traceback (most recent call last):
    noisette.errors.PermitError: the plan has 1 parts; there is no part 1.

    """


class LedgerError(NoisetteError, RuntimeError):
    """A ledger file cannot be used. Next: as the text says; nothing was charged or changed.

    Examples
    --------
    >>> from noisette import Ledger
    >>> Ledger(epsilon=1.0).copy_to("backup.ledger")
    Traceback (most recent call last):
    noisette.errors.LedgerError: a ledger in memory has no file to copy.

    """


class RandomnessError(NoisetteError, RuntimeError):
    """A source of noise would be copied or shared. Next: give each worker its own source.

    Examples
    --------
    >>> import copy
    >>> from noisette import Randomness
    >>> copy.copy(Randomness.secure())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    noisette.errors.RandomnessError: a source of noise cannot be copied; use spawn() ...

    """


class RankFailed(NoisetteError, RuntimeError):
    """Another process of a distributed training failed. Next: see what that one says."""


class ClusterFailed(NoisetteError, RuntimeError):
    """The workers of a cluster could not finish their part. Next: as the text says."""


class MissingExtra(NoisetteError, ImportError):
    """An optional package is absent. Next: ``pip install 'noisette[NAME]'`` as the text names."""


class WeakModelWarning(UserWarning):
    """Public facts say that a model can hardly learn; its privacy holds. Next: as the text names.

    It is issued before the budget is charged, so ``warnings.simplefilter("error")`` keeps it.

    Examples
    --------
    >>> import warnings
    >>> from noisette import TableClassifier
    >>> from noisette.errors import WeakModelWarning
    >>> model = TableClassifier(epsilon=0.1, delta=1e-4, schema={"age": "numeric"})
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = model.fit({"age": list(range(200))}, [0, 1] * 100)
    >>> caught[0].category is WeakModelWarning
    True

    """


class PrivacyWarning(UserWarning):
    """What is about to be done lies outside of every guarantee. Next: as the text names.

    Issued once in a process for each of: a seed, the second fit of clones of one estimator without
    a ledger, and an exact score of the very rows that were fitted.
    """


_SAID: set[str] = set()
_OUTSIDE = {
    "seed": "a seed: whoever knows or guesses it can subtract the noise; leave random_state out of "
    "whatever is released",
    "clones": "several fits together: clones of one estimator were fitted twice without a ledger, "
    "as GridSearchCV and cross_val_score do, and each fit costs its own epsilon, which nobody adds "
    "up; pass ledger=Ledger(...), or search with PrivateSearch",
    "score": "an exact score of the rows that were fitted, which says how well the model knows "
    "them; noisette.evaluate releases scores with noise, and test_share scores other people",
}


def warn_of_privacy(kind: str, stacklevel: int) -> None:
    """Say once in this process that something of this kind is outside of every guarantee."""
    if kind not in _SAID:
        warnings.warn(
            f"No guarantee covers {_OUTSIDE[kind]}.", PrivacyWarning, stacklevel=stacklevel + 1
        )
        _SAID.add(kind)  # not where the warning is an error: it is one again next time
