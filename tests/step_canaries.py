"""Canaries for the steps around a model: quantiles, unknown categories, tuning.

Each function returns two neighbouring data sets on which a wrong step shows, and the statistic to
look at, for `two_worlds`. No estimator of this library is needed: the step under audit is any class
with ``fit``, and `read` says where a fitted one keeps what it released. The record that changes is
the last one; under replace-one it has another value, under add-remove it is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from noisette import _validate
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded
from noisette.core.door import release
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import RandomizedResponse
from noisette.core.plans import Run
from noisette.core.randomness import Randomness, as_randomness
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import Prepared
from noisette.fitting.algorithms.public import PublicBudget
from noisette.models.private import PrivateEstimator

Read = Callable[[Any], Any]

NARROW = 0.15
"""Share of the range on the rare side of the quantile: small, so that a ratio there is near e^ε."""


@dataclass(frozen=True)
class Canary:
    """Two neighbours D and D_prime, each a pair (X, y), and a statistic of a fitted model.

    `candidates` are the estimators to hand to a tuner; other canaries have none.
    """

    name: str
    D: tuple[Any, Any]
    D_prime: tuple[Any, Any]
    statistic: Callable[[Any], float]
    candidates: tuple[Any, ...] = ()


def quantile_canary(
    read: Read,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
    quantile: float = 0.5,
    rows: int = 40,
    adjacency: str | Adjacency = Adjacency.REPLACE_ONE,
) -> Canary:
    """Move one point across a quantile.

    X is one column, y is None. All points but one lie at the public bounds, in such numbers that
    the quantile is at the lone point near `upper`. The canary lies on the side from which removing
    a point moves the quantile most (`upper` from 1/2 on); in the other world it lies at the other
    bound, or is missing. An exact quantile jumps. The exponential mechanism with the rank as its
    utility comes within a quarter of its epsilon, because nearly all of the range is on one side
    of the lone point: halved noise shows as nearly twice the claim.
    """
    relation = _relation(adjacency)
    low, high = _validate.real("lower", lower), _validate.real("upper", upper)
    if not -math.inf < low < high < math.inf:
        raise InvalidParameter(f"needs finite lower < upper; got {lower!r} and {upper!r}.")
    q = _validate.fraction("quantile", quantile)
    n = _validate.integer("rows", rows, least=3)
    below = min(max(round(q * n), 1), n - 1) - 1
    column = np.full((n, 1), high)
    column[:below] = low
    column[below] = high - NARROW * (high - low)
    # a point below moves the rank of all by 1 and q n by q, a point above only the latter
    column[-1], other = (low, high) if q < 0.5 else (high, low)
    return Canary(
        "a point across the quantile", *_worlds(relation, column, None, (other, None)),
        _Number(read),
    )  # fmt: skip


def partition_canary(
    read: Read,
    *,
    common: Any = "common",
    unique: Any = "unique",
    rows: int = 20,
    adjacency: str | Adjacency = Adjacency.ADD_REMOVE,
) -> Canary:
    """Give one person a category that nobody else has.

    X is one column of categories, y is None: everybody has `common`, the canary has `unique`. If
    the released categories contain `unique`, the canary is there. A rule that promises
    (ε, δ) may show it with probability δ at most, since it never shows without the canary.
    """
    relation = _relation(adjacency)
    if common == unique:
        raise InvalidParameter(f"common and unique must differ; both are {common!r}.")
    n = _validate.integer("rows", rows, least=2)
    column = np.empty((n, 1), dtype=np.asarray([common, unique]).dtype)
    column[:] = common
    column[-1] = unique
    return Canary(
        "a unique category", *_worlds(relation, column, None, (common, None)), _Shows(read, unique)
    )


def tuning_canary(
    read: Read = lambda tuner: tuner.best_estimator_,
    *,
    epsilon: float = 1.0,
    candidates: int = 2,
    rows: int = 20,
    adjacency: str | Adjacency = Adjacency.REPLACE_ONE,
    randomness: Randomness | None = None,
) -> Canary:
    """Hand a tuner candidates whose score favours one answer of a private question.

    Each candidate releases one bit, whether the canary is in the data, by randomised response:
    exactly epsilon-DP, no more private than that. Its score is the bit, which costs nothing and
    needs no data. The best of N runs answers 0 only if all N do, so its true epsilon is
    N times that of one run. A tuner whose claim covers one run only is refuted.
    """
    relation, n = _relation(adjacency), _validate.integer("rows", rows, least=4)
    epsilon = _validate.epsilon(epsilon)
    count = _validate.integer("candidates", candidates, least=2)
    column, labels = np.zeros((n, 1)), np.arange(n) % 2
    column[-1] = 1.0
    D, D_prime = _worlds(relation, column, labels, (0.0, labels[-1]))
    made = tuple(LeakyCandidate(epsilon, i, randomness) for i in range(count))
    return Canary("a score that favours one answer", D, D_prime, _Answer(read), made)


def scoring_canary(
    read: Read = lambda tuner: tuner.best_estimator_,
    *,
    rows: int = 21,
    lead: int = 0,
    adjacency: str | Adjacency = Adjacency.REPLACE_ONE,
) -> Canary:
    """Let one record decide which of two candidates has the better score.

    The candidates always say 0 and always say 1; neither looks at the data. X is zero, the labels
    are in balance and the canary's label tips it. Selection by the exact score leaks that label.
    With a `lead` candidate 0 is ahead by so many records in both worlds: there a noisy selection
    comes closer to its epsilon (2 shows noise that is half as large as it should be).
    """
    relation, n = _relation(adjacency), _validate.integer("rows", rows, least=3)
    ahead = _validate.integer("lead", lead, least=0)
    if ahead > n - 3 or (n - 1 - ahead) % 2:
        raise InvalidParameter(f"rows - 1 - lead must be even and at least 2; got {n} and {ahead}.")
    labels = np.zeros(n, dtype=int)
    ones = (n - 1 - ahead) // 2
    labels[1 : 2 * ones : 2] = 1  # in turn, so that folds are in balance too
    labels[-1] = 1
    D, D_prime = _worlds(relation, np.zeros((n, 1)), labels, (0.0, 0))
    made = (ConstantCandidate(0), ConstantCandidate(1))
    return Canary("a record that decides the score", D, D_prime, _Answer(read), made)


def _relation(adjacency: str | Adjacency) -> Adjacency:
    relation = Adjacency.of(adjacency)
    if relation is Adjacency.ZERO_OUT:
        raise InvalidParameter(
            "adjacency must be 'replace-one' or 'add-remove' here, because no value says that a "
            "record is blank; got 'zero-out'."
        )
    return relation


def _worlds(relation: Adjacency, X: Any, y: Any, new: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return D and its neighbour without the last record, or with `new` in its place."""
    if relation is Adjacency.ADD_REMOVE:
        return (X, y), (X[:-1].copy(), None if y is None else y[:-1].copy())
    X2, y2 = X.copy(), None if y is None else y.copy()
    X2[-1] = new[0]
    if y2 is not None:
        y2[-1] = new[1]
    return (X, y), (X2, y2)


@dataclass(frozen=True)
class _Number:
    """The released number. These are classes because workers must be able to receive them."""

    read: Read

    def __call__(self, model: Any) -> float:
        return float(np.asarray(self.read(model), dtype=float).reshape(()))


@dataclass(frozen=True)
class _Shows:
    """1 if the category was released."""

    read: Read
    key: Any

    def __call__(self, model: Any) -> float:
        return float(self.key in self.read(model))


@dataclass(frozen=True)
class _Answer:
    """What the chosen candidate says."""

    read: Read

    def __call__(self, model: Any) -> float:
        return float(self.read(model).answer_)


# --- candidates for a tuner under audit ----------------------------------------------------------


class _Candidate(ClassifierMixin, BaseEstimator):
    """A classifier that says the same label, `answer_`, of every row."""

    answer_: int

    def predict(self, X: Any) -> np.ndarray:
        """Return the answer for every row."""
        return np.full(len(X), self.answer_)


class LeakyCandidate(_Candidate, PrivateEstimator):
    """Answer 1 or 0 to "is the canary there?", by randomised response at `epsilon`.

    The answer is right with probability e^ε/(1 + e^ε): exactly epsilon-DP under every relation,
    because any one-bit function of the data is. `number` only tells copies apart. With a `ledger`
    it charges what it asks, as an estimator of this library does, so that it can be a run of a
    private search.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        number: int = 0,
        random_state: int | Randomness | None = None,
        delta: float = 0.0,
        adjacency: str = "replace-one",
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.number = number
        self.random_state = random_state
        self.delta = delta
        self.adjacency = adjacency
        self.ledger = ledger

    def fit(self, X: Any, y: Any = None) -> Self:
        """Ask and answer."""
        truth = bool(np.any(np.asarray(X, dtype=float) > 0.5))
        if self.ledger is not None:
            return self._charged(truth, self.ledger)
        kept = as_randomness(self.random_state).generator.random() < 1.0 / (
            1.0 + math.exp(-self.epsilon)
        )
        self.classes_ = np.array([0, 1])
        self.answer_ = int(truth == kept)
        return self

    def _prepared(self, X: Any, y: Any) -> Prepared:
        """Return what a run of a search would charge."""
        relation = Adjacency.of(self.adjacency)
        facts = PublicBudget(
            epsilon=self.epsilon, delta=self.delta, adjacency=relation, size=len(y)
        )
        return Prepared(facts, Run(RandomizedResponse(self.epsilon)))

    def _charged(self, truth: bool, ledger: Ledger) -> Self:
        randomness, noise = as_randomness(self.random_state), RandomizedResponse(self.epsilon)
        permit = ledger.charge(
            noise, label="one bit", epsilon=self.epsilon, delta=0.0, seeded=randomness.seeded
        )
        bit = Bounded(int(truth), ledger.adjacency, "RANDOMIZED-RESPONSE", categories=2)
        self.answer_ = int(release(bit, permit, randomness))
        self.classes_, self.n_features_in_ = np.array([0, 1]), 1
        self.privacy_ = permit.guarantee("one bit")
        return self

    def score(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> float:
        """Return the answer: part of the release already, so it needs no budget and no data."""
        return float(self.answer_)


class ConstantCandidate(_Candidate):
    """Say `label` of every row; the score is the share of rows that have it."""

    def __init__(self, label: int = 0) -> None:
        self.label = label

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn nothing."""
        self.classes_ = np.array([0, 1])
        self.answer_ = int(self.label)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy."""
        return float(np.average(np.asarray(y) == self.answer_, weights=sample_weight))
