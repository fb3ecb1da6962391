"""Mechanisms that answer with a category: the exponential mechanism, and randomised response."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded, InKernel
from noisette.core.mechanisms.base import Checks, Mechanism, require_scale
from noisette.core.mechanisms.spherical_laplace_curve import response_log_moment
from noisette.errors import InvalidParameter, PermitError, Unproven

_ROUND_UP = 1.0 + 1e-14  # a few roundings of products
_RESPONSE_UP = 1.0 + 2e-13  # more than the error of a probability, 2^-52 times its exponent
_MOST = 2**62  # the sum of two categories still fits 64 bits


@dataclass(frozen=True)
class Exponential(Mechanism):
    """Release argmax_i score_i + Gumbel(2 D / epsilon), D the largest move of any one score.

    The same law as Pr[i] ~ exp(epsilon score_i / (2 D)). The loss lies in an interval of length
    epsilon (bounded range), hence pure epsilon, log E exp(s * loss) <= s (s + 1) epsilon^2 / 8,
    and delta(e) = (e^{epsilon/2} - e^{e/2})^2 / (e^epsilon - 1) for 0 <= e <= epsilon (the
    pointwise worst two-point law). ``monotone=True`` halves the noise for scores that all move in
    the same direction when a record is added (counts): add-remove only.

    A matrix is several choices at once, one per row of scores, drawn independently: a choice from
    all combinations by the sum of their scores. D is then the sum over rows of the largest move in
    the row, which is what ``Bounded(..., linf=D)`` states of a matrix.

    Parameters
    ----------
    epsilon : float
        The pure epsilon of one use.
    monotone : bool, default False
        Whether a record that is added moves all scores the same way.

    Examples
    --------
    >>> from noisette import Bounded, Ledger, Randomness, mechanisms, release
    >>> votes = Bounded([3, 90, 7], "add-remove", "ADJACENCY", linf=1.0)
    >>> ledger = Ledger(epsilon=1.0, adjacency="add-remove")
    >>> permit = ledger.charge(mechanisms.Exponential(epsilon=1.0, monotone=True), label="winner")
    >>> release(votes, permit, Randomness.secure()) in range(3)
    True

    """

    epsilon: float
    monotone: bool = False

    name: ClassVar[str] = "exponential"
    norm: ClassVar[str] = "linf"
    proof: ClassVar[str] = "EXPONENTIAL-BR"
    checks: ClassVar[Checks] = {"epsilon": _validate.named_epsilon, "monotone": _validate.boolean}

    def _check(self, adjacency: Adjacency) -> None:
        if self.monotone and adjacency is not Adjacency.ADD_REMOVE:
            raise Unproven(
                f"monotone scores have no proof under {adjacency}, because a changed record may "
                "raise one score and lower another; use monotone=False, or add-remove."
            )

    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """Return epsilon."""
        self._check(adjacency)
        return self.epsilon

    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return the worst delta(epsilon) of any bounded-range mechanism, rounded up."""
        epsilon = _validate.real("epsilon", epsilon)
        self._check(adjacency)
        if epsilon < 0.0:
            mirrored = -np.expm1(epsilon) + np.exp(epsilon) * self.delta(-epsilon, adjacency)
            return min(1.0, float(mirrored) * _ROUND_UP)
        if epsilon >= self.epsilon:
            return 0.0
        # Divided by e^epsilon above and below, so that no exponential overflows.
        gap = -np.expm1((epsilon - self.epsilon) / 2.0)
        return min(1.0, float(gap**2 / -np.expm1(-self.epsilon)) * _ROUND_UP)

    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return the least of the bounded-range bound and the pure bound."""
        self._check(adjacency)
        s = np.asarray(s, dtype=float)
        return np.asarray(np.minimum(s * (s + 1.0) * self.epsilon**2 / 8.0, s * self.epsilon))

    def check_value(self, bounded: Bounded) -> None:
        """Refuse a noise scale that would round to 0: the best score itself would come out."""
        super().check_value(bounded)
        if not isinstance(bounded.value, InKernel) and bounded.value.ndim not in (1, 2):
            raise PermitError("scores must be a vector, or a matrix with one choice per row.")
        require_scale(self._scale(bounded))

    def _scale(self, bounded: Bounded) -> float:
        assert bounded.linf is not None
        return (1.0 if self.monotone else 2.0) * bounded.linf / self.epsilon

    def apply(
        self, bounded: Bounded, unit: Any, generator: np.random.Generator
    ) -> int | NDArray[np.int64]:
        """Return the index of the chosen candidate; of a matrix, one index per row."""
        self._check(bounded.adjacency)
        scores = bounded.value.astype(np.float64)
        # From the best score on, so that a large common part does not swallow the noise.
        scores -= scores.max(axis=-1, keepdims=True)
        scores += generator.gumbel(scale=self._scale(bounded), size=scores.shape)
        chosen = np.argmax(scores, axis=-1)
        return int(chosen) if scores.ndim == 1 else chosen.astype(np.int64)


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """Report the true one of k categories with probability p = e^eps/(e^eps + k - 1), else another.

    Each other category has probability r = p e^{-eps}. For neighbours that differ in one answer
    the loss is eps, 0, -eps with probabilities p, (k - 2) r, r: pure eps,
    delta(e) = p - e^e r for 0 <= e < eps. Replace-one only: the number of reports is n.

    Parameters
    ----------
    epsilon : float
        The pure epsilon of one answer.
    categories : int, default 2
        The number k of categories.

    Raises
    ------
    InvalidParameter
        If a number is out of range.

    Examples
    --------
    >>> from noisette import Bounded, Ledger, Randomness, mechanisms, release
    >>> answers = Bounded([0, 1, 1, 0], "replace-one", "RANDOMIZED-RESPONSE", categories=2)
    >>> mechanism = mechanisms.RandomizedResponse(epsilon=2.0)
    >>> permit = Ledger(epsilon=2.0).charge(mechanism, label="who smokes")
    >>> release(answers, permit, Randomness.secure()).shape
    (4,)

    """

    epsilon: float
    categories: int = 2

    name: ClassVar[str] = "randomized-response"
    norm: ClassVar[str] = "categories"
    proof: ClassVar[str] = "RANDOMIZED-RESPONSE"
    checks: ClassVar[Checks] = {
        "epsilon": _validate.named_epsilon, "categories": partial(_validate.integer, least=2)
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.categories > _MOST:
            raise InvalidParameter(
                f"randomised response is drawn in 64 bits, for at most 2^62 categories; "
                f"got {self.categories!r}."
            )

    def _check(self, adjacency: Adjacency) -> None:
        if adjacency is not Adjacency.REPLACE_ONE:
            raise Unproven(
                f"randomised response has no proof under {adjacency}, because it reports one "
                "answer per person; use replace-one."
            )

    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """Return epsilon."""
        self._check(adjacency)
        return self.epsilon

    def _log_probabilities(self) -> tuple[float, float]:
        log_total = float(np.logaddexp(self.epsilon, np.log(self.categories - 1.0)))
        return self.epsilon - log_total, -log_total

    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return the exact delta(epsilon), any real epsilon, rounded up."""
        epsilon = _validate.real("epsilon", epsilon)
        self._check(adjacency)
        log_p, log_r = self._log_probabilities()
        k = self.categories
        losses = np.array([self.epsilon, 0.0, -self.epsilon])
        masses = np.array([np.exp(log_p), (k - 2) * np.exp(log_r), np.exp(log_r)])
        above = losses > epsilon
        value = float(np.sum(masses[above] * -np.expm1(epsilon - losses[above])))
        return min(1.0, value * _RESPONSE_UP)

    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return log[p e^{s eps} + r e^{-s eps} + (k - 2) r], rounded up."""
        self._check(adjacency)
        return response_log_moment(s, self.epsilon, self._log_probabilities()[0])

    def check_value(self, bounded: Bounded) -> None:
        """Refuse answers from another number of categories: an unknown one would stay as it is."""
        super().check_value(bounded)
        if bounded.categories != self.categories:
            raise PermitError(
                f"the plan charges randomised response over {self.categories} categories but the "
                f"value has {bounded.categories}; charge the number that runs."
            )

    def apply(
        self, bounded: Bounded, unit: Any, generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return one randomised answer per entry."""
        value, others = bounded.value, self.categories - 1.0
        # The small probability is compared: uniform multiples of 2^-53 lie below it at least as
        # often as it says, so rounding exchanges more answers, never fewer.
        exchange = np.exp(np.log(others) + self._log_probabilities()[1])
        exchanged = generator.random(value.shape) < exchange
        other = (value + generator.integers(1, self.categories, size=value.shape)) % self.categories
        return np.asarray(np.where(exchanged, other, value), dtype=np.int64)
