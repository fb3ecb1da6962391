"""Candidates for a tuner under audit: see `step_canaries`. Made for audits, useless elsewhere."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from noisette.bounded import Bounded
from noisette.mechanisms import RandomizedResponse
from noisette.privacy import Ledger, release
from noisette.randomness import Randomness, as_randomness

__all__ = ["ConstantCandidate", "LeakyCandidate"]


class _Candidate(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that says the same label, `answer_`, of every row."""

    answer_: int

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the answer for every row."""
        return np.full(len(X), self.answer_)


class LeakyCandidate(_Candidate):
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
        # proof: RANDOMIZED-RESPONSE
        truth = bool(np.any(np.asarray(X, dtype=float) > 0.5))
        if self.ledger is not None:
            return self._charged(truth, self.ledger)
        kept = as_randomness(self.random_state).generator.random() < 1.0 / (
            1.0 + math.exp(-self.epsilon)
        )
        self.classes_ = np.array([0, 1])
        self.answer_ = int(truth == kept)
        return self

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
