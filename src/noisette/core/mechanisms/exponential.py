"""The exponential mechanism: choose a candidate by its noisy score (Gumbel noise)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.bounded import Bounded, InKernel
from noisette.core.mechanisms.base import Mechanism
from noisette.errors import PermitError, Unproven

_ROUND_UP = 1.0 + 1e-14  # a few roundings of products


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.epsilon(self.epsilon))
        _validate.boolean("monotone", self.monotone)

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
        scale = self._scale(bounded)
        if not 1e-250 < scale < 1e250:
            raise PermitError(f"a noise scale of {scale:g} is outside what float64 can serve.")

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
