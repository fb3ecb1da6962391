"""The one-run audit of Steinke, Nasr and Jagielski (2023): many canaries, a single training run.

Each of m canaries is put into the data by its own fair coin. After training, a score says how much
the model seems to know each canary; the highest r/2 are guessed to be in, the lowest r/2 to be out.
If the model is (ε, δ)-private, the number of right guesses is hardly larger than
Bin(r, e^ε/(1+e^ε)), and the p-value of `bounds.one_run_p_value` is exact. It sees gross errors only
(a forgotten clip, missing noise): at ε = 1 no linear model gives enough independent guesses to see
a factor of 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._validate import refuse
from noisette.audit import bounds
from noisette.audit.findings import ClaimLike, Result, Verdict, pairs_of
from noisette.audit.worlds import fitted
from noisette.core.adjacency import Adjacency
from noisette.core.guarantee import Guarantee
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData

Score = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class OneRun(Result):
    """The result of a one-run audit, as `one_run` returns it.

    Parameters
    ----------
    attack, claim, epsilon_lower, confidence, verdict, runs, detail : see `Finding`
        The result itself; one fit was made.
    p_value : float
        The probability of so many right guesses if the claim is true, at most.
    canaries, guesses, correct : int
        How many there were, were made, and were right.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.audit import OneRun, one_run
    >>> rows = np.arange(100.0)[:, None], np.zeros(100)
    >>> remembered = one_run(
    ...     lambda X, y: set(X[:, 0]), rows, lambda model, X, y: [x in model for x in X[:, 0]],
    ...     guesses=40, claim=1.0,
    ... )
    >>> isinstance(remembered, OneRun), remembered.correct
    (True, 40)

    """

    p_value: float
    canaries: int
    guesses: int
    correct: int


def log_likelihood(model: Any, X: Any, y: Any) -> NDArray[np.float64]:
    """The default score: the log probability that the model gives to each canary's own label."""
    classes = list(model.classes_)
    column = np.array([classes.index(label) for label in np.asarray(y).tolist()])
    chances = np.asarray(model.predict_proba(X), dtype=float)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(chances[np.arange(len(column)), column]))


def one_run(
    train: Any, canaries: tuple[Any, Any], score: Score = log_likelihood, *, guesses: int,
    claim: ClaimLike, base: tuple[Any, Any] | None = None,
    substitutes: tuple[Any, Any] | None = None, confidence: float = 0.95,
    randomness: Randomness | None = None, name: str = "one-run",
) -> OneRun:  # fmt: skip
    """Audit one training run.

    Parameters
    ----------
    train : estimator or callable
        An unfitted estimator, or a function ``train(X, y)`` that returns a trained model.
    canaries : tuple of (array_like, array_like)
        The m rows and their labels, each put in by an independent fair coin.
    score : callable, optional
        ``score(model, X, y)`` gives a number for each canary, larger if it seems to be in; by
        default the log probability of its own label.
    guesses : int
        How many guesses r are made, even and at most m. Fixed before anything is seen.
    claim : float, tuple of float or Guarantee
        The epsilon, (epsilon, delta) or guarantee to test.
    base : tuple of (array_like, array_like), optional
        Rows and labels that are always in.
    substitutes : tuple of (array_like, array_like), optional
        The m rows and labels that take the place of canaries that are out. Needed for a claim
        under replace-one or zero-out, where the number of rows never changes; without them the
        coin adds or removes, and the claim must be about that.
    confidence : float, default 0.95
        A false alarm has probability at most 1 - confidence.
    randomness : Randomness, optional
        Where the coins come from; cryptographic by default.
    name : str, default "one-run"
        The name of the attack in the finding.

    Returns
    -------
    OneRun
        The lower bound and the verdict.

    Raises
    ------
    InvalidParameter
        If a number is out of range, or `substitutes` do not fit the claim's relation.
    InvalidData
        If rows, labels or scores have the wrong shape.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.audit import one_run
    >>> rows = np.arange(100.0)[:, None], np.zeros(100)
    >>> def remember(X, y):
    ...     return set(X[:, 0])
    >>> def known(model, X, y):
    ...     return [x in model for x in X[:, 0]]
    >>> one_run(remember, rows, known, guesses=40, claim=1.0).verdict
    'violated'

    """
    X, y = _pair("canaries", canaries)
    stated, m = pairs_of(claim)[0], len(X)
    level = 1.0 - _validate.fraction("confidence", confidence)
    r = _validate.integer("guesses", guesses, least=2)
    refuse((r % 2 or r > m, f"guesses must be even and at most the {m} canaries; got {r}."))
    if isinstance(claim, Guarantee):
        fixed_size = claim.adjacency is not Adjacency.ADD_REMOVE
        refuse(
            (fixed_size and substitutes is None,
             f"the claim speaks of {claim.adjacency}, so pass substitutes=(X, y), the rows that "
             "stand in for canaries that are out (rows of zeros for zero-out)."),
            (not fixed_size and substitutes is not None,
             "the claim speaks of add-remove, so leave substitutes away."),
        )  # fmt: skip
    coins = (randomness or Randomness.secure()).generator.integers(0, 2, size=m).astype(bool)
    if substitutes is None:
        rows, labels = X[coins], y[coins]
    else:
        other, others = _pair("substitutes", substitutes)
        refuse(
            (len(other) != m, f"substitutes must have one row for each of the {m} canaries."),
            kind=InvalidData,
        )
        rows = np.where(coins.reshape(-1, *[1] * (X.ndim - 1)), X, other)
        labels = np.where(coins, y, others)
    if base is not None:
        first, firsts = _pair("base", base)
        rows, labels = np.concatenate([first, rows]), np.concatenate([firsts, labels])
    scores = np.asarray(score(_trained(train, rows, labels), X, y), dtype=float)
    refuse(
        (scores.shape != (m,) or np.isnan(scores).any(),
         f"score must give one number, not NaN, for each of the {m} canaries."),
        kind=InvalidData,
    )  # fmt: skip
    correct, (epsilon, delta) = _right_guesses(scores, coins, r), stated
    p_value = bounds.one_run_p_value(m, r, correct, epsilon, delta)
    lower = bounds.one_run_epsilon(m, r, correct, delta, 1.0 - level)
    verdict: Verdict = "violated" if p_value <= level else "consistent"
    detail = (
        f"{correct} of {r} guesses about {m} canaries were right, so epsilon is at least "
        f"{lower:.3f}; under the claimed {epsilon:.4g} so many have probability {p_value:.3g}."
    )
    return OneRun(name, stated, lower, 1.0 - level, verdict, 1, detail, p_value, m, r, correct)


def _right_guesses(scores: NDArray[np.float64], coins: NDArray[np.bool_], r: int) -> int:
    """Guess in for the r/2 highest scores and out for the r/2 lowest, and count."""
    order = np.argsort(scores, kind="stable")  # looks at scores only: the coins are still unknown
    return int(coins[order[-(r // 2) :]].sum() + (~coins[order[: r // 2]]).sum())


def _pair(name: str, data: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    pair = isinstance(data, tuple | list) and len(data) == 2
    refuse((not pair, f"{name} must be a pair (X, y)."), kind=InvalidData)
    X, y = map(np.asarray, data)
    refuse(
        (X.ndim < 2 or y.shape != X.shape[:1] or not len(X),
         f"{name} must have rows X of two dimensions or more, and a label each."),
        kind=InvalidData,
    )  # fmt: skip
    return X, y


def _trained(train: Any, X: NDArray[Any], y: NDArray[Any]) -> Any:
    if hasattr(train, "fit"):
        from sklearn.base import clone

        return fitted(clone(train, safe=False), (X, y))
    refuse((
        not callable(train), "train must be an estimator with fit, or a function train(X, y)."
    ))  # fmt: skip
    return train(X, y)
