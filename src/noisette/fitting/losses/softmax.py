"""Joint multinomial (softmax) cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import linalg

from noisette import _validate
from noisette._typing import AnyFloats
from noisette.errors import InvalidParameter
from noisette.fitting.losses.base import Kind, Loss


def helmert(classes: int) -> npt.NDArray[np.float64]:
    """Q of shape (K, K-1) with orthonormal columns, each summing to 0.

    Column j (1-based) is (1, .., 1, -j, 0, .., 0)/sqrt(j(j+1)) with j ones.
    """
    return np.ascontiguousarray(linalg.helmert(classes).T)


@dataclass(frozen=True)
class Softmax(Loss):
    """The loss l(W; x, y) = log sum_k e^{w_k.x} - w_y.x, W of shape (K, d), y in {0, .., K-1}.

    The regularised minimiser has sum_k w_k = 0. We therefore work in the isometric coordinates V of
    shape (K-1, d), W = Q V with Q the Helmert basis: a solver cannot leave the subspace, and noise
    is drawn on V (dimension (K-1) d). ``expand`` gives W, ``contract`` gives V. With p =
    softmax(Wx): gradient in W is (p - e_y) x', Hessian (diag p - pp') kron xx'.
    ||p - e_y|| < sqrt(2), eigenvalues of diag p - pp' <= 1/2 (attained at p = (1/2, 1/2, 0..)),
    trace 1 - ||p||^2 <= 1 - 1/K (attained at uniform p). Q is an isometry onto the subspace, so V
    has the same constants. K = 2 is logistic regression in w = sqrt(2) V.

    Parameters
    ----------
    classes : int
        The number K >= 2 of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from noisette.losses import Softmax
    >>> loss = Softmax(classes=3)
    >>> loss.parameter_shape(5), loss.expand(np.zeros((2, 5))).shape
    ((2, 5), (3, 5))
    >>> loss.contract(np.zeros((3, 5))).shape, loss.probabilities(np.zeros((1, 2))).shape
    ((2, 5), (1, 3))

    """

    classes: int

    name: ClassVar[str] = "softmax"
    gives_probabilities: ClassVar[bool] = True
    last_iterate: ClassVar[str | None] = "softmax"
    kind: ClassVar[Kind] = "multiclass"
    proofs: ClassVar[tuple[str, ...]] = ("LOSS-SOFTMAX",)
    lipschitz: ClassVar[float] = float(np.sqrt(2.0))  # proof: LOSS-SOFTMAX
    smoothness: ClassVar[float] = 0.5  # proof: LOSS-SOFTMAX

    def __post_init__(self) -> None:
        _validate.integer("classes", self.classes, least=2)

    @classmethod
    def examples(cls) -> tuple[Softmax, ...]:
        """Two, three and many classes."""
        return (cls(2), cls(3), cls(10))

    @property
    def basis(self) -> npt.NDArray[np.float64]:
        """Q, shape (K, K-1)."""
        return helmert(int(self.classes))

    @property
    def trace(self) -> float:
        """Largest trace of diag p - pp'."""
        return 1.0 - 1.0 / self.classes  # proof: LOSS-SOFTMAX

    @property
    def self_concordance(self) -> float:
        """|D^3 l[h,h,h]| <= max_k |h_k - p.h| D^2 l[h,h]; |h_k - p.h| <= sqrt(2) |h|.

        The third cumulant of h under p is at most max|h_k - mean| times the variance.
        """
        return float(np.sqrt(2.0))  # proof: LOSS-SOFTMAX

    @property
    def initial_curvature(self) -> float:
        """At V = 0, p is uniform and Q'(diag p - pp')Q = I/K."""
        return 1.0 / self.classes

    @property
    def value_at_zero(self) -> float:
        """The number log K."""
        return float(np.log(self.classes))

    def parameter_shape(self, features: int) -> tuple[int, ...]:
        """Shape (K-1, d)."""
        return (int(self.classes) - 1, features)

    def expand(self, coordinates: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return W = Q V: (K-1, d) -> (K, d). Post-processing when V was released."""
        return np.asarray(self.basis @ np.asarray(coordinates, dtype=np.float64))

    def contract(self, weights: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return V = Q'W: (K, d) -> (K-1, d); the component outside sum_k w_k = 0 is removed."""
        return np.asarray(self.basis.T @ np.asarray(weights, dtype=np.float64))

    def rounding(self, score: float) -> float:
        """QV has error K|s| (seen through slope 1/2), p has K+8 roundings, Q'(p-e_y) K more."""
        return 4.0 * self.classes + 24.0 + self.classes * score

    def targets(self, y: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Class numbers 0 .. K-1 as integers; classes may be missing from the data."""
        labels = np.asarray(y)
        numbers = labels.astype(np.intp)
        inside = labels.ndim == 1 and bool(np.all((numbers >= 0) & (numbers < self.classes)))
        if not inside or not bool(np.all(numbers == labels)):
            raise InvalidParameter(
                f"y must be a vector of class numbers from 0 to {self.classes - 1}."
            )
        return numbers

    def probabilities(self, scores: AnyFloats) -> AnyFloats:
        """Return class probabilities (n, K) from coordinate scores V x (n, K-1).

        They are shifted first, so that none overflows; rows add up to 1.
        """
        full = scores @ self.basis.T.astype(scores.dtype)
        full -= full.max(axis=1, keepdims=True)
        np.exp(full, out=full)
        full /= full.sum(axis=1, keepdims=True)
        return np.asarray(full)

    def at_scores(self, scores: AnyFloats, y: npt.NDArray[Any]) -> tuple[AnyFloats, AnyFloats]:
        """(log-loss (n,), (p - e_y) Q (n, K-1)) for coordinate scores (n, K-1)."""
        basis = self.basis.astype(scores.dtype)
        full = scores @ basis.T
        rows = np.arange(len(y))
        full -= full.max(axis=1, keepdims=True)
        own = full[rows, y]
        np.exp(full, out=full)
        total = full.sum(axis=1)
        full /= total[:, None]
        full[rows, y] -= 1
        return np.log(total) - own, full @ basis

    def curvature(self, scores: AnyFloats, y: npt.NDArray[Any], direction: AnyFloats) -> AnyFloats:
        """((diag p - pp') Q direction) Q, rowwise; shape (n, K-1)."""
        basis = self.basis.astype(scores.dtype)
        p = self.probabilities(scores)
        moved = direction @ basis.T
        moved -= np.sum(p * moved, axis=1, keepdims=True)
        return np.asarray((p * moved) @ basis)
