"""Noise inside an objective: the linear term of objective perturbation.

theta = argmin sum_i l_i(theta) + (Lambda/2) ||theta||^2 + b . theta, b the noise. The map from
theta to b is a bijection with Jacobian H, so for the order in which P holds the record (its
gradient at theta is -g x, g the size of the derivative) the loss is

    log det(H + l'' x x') / det H + log p(b) / p(b - g x),

and without the determinant in the other order. Let psi be the loss of the *additive* release of a
vector of sensitivity C with the same noise, and k = (bound on one record's Hessian) / Lambda. Then
pointwise (theorem OBJECTIVE-PERTURBATION)

    ==============  ===============================================  ===================
    shape           P holds the record                               P does not
    ==============  ===============================================  ===================
    self-bounded    max over g in [0, 1] of g (1 - g) k~ + g psi      max(0, psi)
    one-signed      log(1 + k) + max(0, psi)                         max(0, psi)
    two-signed      log(1 + k) + max(0, psi)                         max(psi, psi')
    softmax         k~ + max(0, psi_1, ..., psi_{K-1})                same without k~
    ==============  ===============================================  ===================

where psi' is the loss of the opposite shift, so that a bound on it counts twice (TWO-SIGNED), and
with k~ = k, or a little less for Gaussian noise because psi is then strictly convex in g.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from noisette import _validate
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import spherical_laplace_curve as curve
from noisette.core.mechanisms.base import AdditiveNoise, Checks
from noisette.core.mechanisms.gaussian import Gaussian
from noisette.core.mechanisms.gaussian_curve import stated_delta
from noisette.core.mechanisms.spherical_laplace import SphericalLaplace

_SMALLEST = 1e-300
_ROUND_UP = 1.0 + 1e-13
_LOST = 1e-14  # absolute error of the logarithm of a sum of probabilities near 1

LAWS = ("spherical-laplace", "gaussian")
SHAPES = ("self-bounded", "one-signed", "two-signed", "softmax")
_SIGNED = ("one-signed", "two-signed")


@dataclass(frozen=True)
class ObjectiveNoise(AdditiveNoise):
    """The noise vector b of objective perturbation, with the privacy of releasing theta.

    Parameters
    ----------
    noise_multiplier : float
        Noise scale / C, where C = (weight cap) L R bounds one record's gradient.
    dimension : int or None
        The number of entries of b. None leaves it open, where earlier releases decide how many
        columns there are: Gaussian noise costs the same in every dimension, and of spherical
        Laplace noise only the pure epsilon is then used, because its curve falls with dimension.
    law : {"spherical-laplace", "gaussian"}
        The density of b; the first is exp(-||b|| / scale).
    curvature : float
        The public k. With weight cap w: w s R^2 / Lambda for self-bounded losses (l'' <= s g (1
        - g); logistic s = 1), w c R^2 / Lambda for one- and two-signed ones (l'' <= c),
        w (1 - 1/K) R^2 / Lambda for softmax.
    shape : {"self-bounded", "one-signed", "two-signed", "softmax"}, default "self-bounded"
        Which row of the table in the module's docstring applies.
    classes : int, default 2
        The number K, for softmax.
    persons : bool, default False
        Whether the unit is a person with several rows whose weights sum to at most one. The loss is
        then a weighted mean of the table's, row by row, with every determinant linear in k.

    Examples
    --------
    >>> from noisette import mechanisms
    >>> from noisette.adjacency import ZERO_OUT
    >>> noise = mechanisms.ObjectiveNoise(4.0, dimension=10, law="spherical-laplace", curvature=0.1)
    >>> noise.pure_epsilon(ZERO_OUT), noise.additive.pure_epsilon(ZERO_OUT)
    (0.25, 0.25)

    """

    dimension: int | None
    law: str
    curvature: float
    shape: str = "self-bounded"
    classes: int = 2
    persons: bool = False

    name: ClassVar[str] = "objective-noise"
    norm: ClassVar[str] = "l2"
    proof: ClassVar[str] = "OBJECTIVE-PERTURBATION"
    checks: ClassVar[Checks] = {
        **AdditiveNoise.checks, "law": partial(_validate.choice, allowed=LAWS),
        "shape": partial(_validate.choice, allowed=SHAPES), "curvature": _validate.positive,
        "classes": partial(_validate.integer, least=2), "persons": _validate.boolean,
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension is not None:
            _validate.fields(self, dimension=_validate.integer)

    @property
    def additive(self) -> Gaussian | SphericalLaplace:
        """The mechanism that adds the same noise to a vector: its loss is psi.

        An open dimension stands as 1, where the curve of spherical Laplace noise is largest.
        """
        if self.law == "gaussian":
            return Gaussian(self.noise_multiplier)
        return SphericalLaplace(self.noise_multiplier, self.dimension or 1)

    @property
    def pure_only(self) -> bool:
        """Whether only the pure epsilon holds for every dimension that may still come."""
        return self.dimension is None and self.law == "spherical-laplace"

    @property
    def spread(self) -> float:
        """Return that of the law of b (of one entry alone if the dimension is open)."""
        return self.additive.spread

    @property
    def offset(self) -> float:
        """k~ of the table (log(1 + k) for signed losses, k for persons); at least 0."""
        # proof: OBJECTIVE-PERTURBATION
        if self.shape in _SIGNED and not self.persons:
            return math.log1p(self.curvature)
        if self.shape in _SIGNED:
            return self.curvature  # proof: PERSON-MEAN
        if self.law == "spherical-laplace":
            return self.curvature
        mu = 1.0 / self.noise_multiplier
        gain = mu * mu / 2.0
        if self.shape == "softmax":
            gain *= (1.0 - 1.0 / self.classes) / 2.0
        return max(0.0, self.curvature - gain)

    def pure_epsilon(self, adjacency: Adjacency) -> float:
        """Return the exact supremum of the loss for spherical Laplace noise, inf for Gaussian."""
        if self.law == "gaussian":
            return math.inf
        rate, k = 1.0 / self.noise_multiplier, self.curvature
        if self.shape in _SIGNED:
            single = rate + self.offset
        elif self.shape == "softmax":
            single = rate + k
        elif k <= rate:  # then log(1 + g (1 - g) k) + g rate <= g (2 - g) rate <= rate
            single = rate
        elif self.persons:
            # The largest G (1 - G) k + G rate.
            single = (k + rate) ** 2 / (4.0 * k) * _ROUND_UP  # proof: PERSON-MEAN
        else:
            best = minimize_scalar(
                lambda g: -(math.log1p(g * (1.0 - g) * k) + g * rate), bounds=(0.0, 1.0),
                method="bounded", options={"xatol": 1e-12},
            )  # fmt: skip
            single = max(rate, -float(best.fun)) * (1.0 + 1e-12)
        return single + rate * (adjacency.contributions - 1)

    def delta(self, epsilon: float, adjacency: Adjacency) -> float:
        """Return an upper bound on delta(epsilon) of one release, epsilon >= 0.

        Equal to the additive curve from `offset` on (self-bounded), shifted by it (others).
        """
        if _validate.real("epsilon", epsilon) < 0.0:
            return 1.0
        # proof: PURE-RR
        answer = curve.response_delta(epsilon, self.pure_epsilon(adjacency))
        if answer == 0.0 or self.pure_only or self.persons:
            # The curve of one record is not proven for persons; their pairs have PERSON-MEAN's.
            return answer
        if adjacency is Adjacency.REPLACE_ONE:
            return min(answer, self._two_changes(epsilon))
        at = np.array([float(epsilon)])
        return min(answer, float(np.maximum(self._one_change(at), self._other_order(at))[0]))

    def _additive_deltas(self, epsilons: Floats) -> Floats:
        """Return the additive curve at every epsilon >= 0, times the union over vertices."""
        shift = 1.0 / self.noise_multiplier
        if self.law == "gaussian":
            base = np.asarray(stated_delta(shift, epsilons))
        else:
            assert self.dimension is not None
            base = curve.deltas(epsilons, shift, self.dimension)
        factor = self.classes - 1.0 if self.shape == "softmax" else 1.0
        return np.minimum(1.0, factor * base)

    def _one_change(self, epsilons: Floats) -> Floats:
        """Return the curve with the determinant (P holds the record), every epsilon >= 0."""
        k = self.offset
        if self.shape == "self-bounded":
            at_k = float(self._additive_deltas(np.array([k]))[0])
            # Below k: loss <= max(k, psi); crude, but nobody should be reading the curve there.
            values = -np.expm1(np.minimum(epsilons - k, 0.0)) + at_k
            values = np.minimum(1.0, values * _ROUND_UP)
            exact = epsilons >= k
            values[exact] = self._additive_deltas(epsilons[exact])
            return values
        at_zero = float(self._additive_deltas(np.zeros(1))[0])
        above = self._additive_deltas(np.maximum(epsilons - k, 0.0))
        # 1 - e^{eps - k} (1 - delta(0)) without its cancellation
        short = np.minimum(epsilons - k, 0.0)
        below = np.minimum(1.0, (-np.expm1(short) + np.exp(short) * at_zero) * _ROUND_UP)
        return np.where(epsilons >= k, above, below)

    def _other_order(self, epsilons: Floats) -> Floats:
        """Return the curve where P does not hold the record, every epsilon >= 0."""
        plain = self._additive_deltas(epsilons)
        if self.shape != "two-signed":
            return plain
        # proof: TWO-SIGNED
        plain = 2.0 * plain
        if self.law == "gaussian":
            mu = 1.0 / self.noise_multiplier
            flat = 1.0 - 2.0 * np.exp(np.minimum(epsilons, 700.0) + log_ndtr(-mu)) * (1.0 - 1e-13)
            plain = np.where(epsilons < mu * mu / 2.0, np.minimum(plain, flat + 1e-15), plain)
        return np.minimum(1.0, plain)

    def _two_changes(self, epsilon: float) -> float:
        """Replace one: D with x -> D without -> D with x', with the budget split in any way."""
        # proof: TWO-CHANGES
        mu = 1.0 / self.noise_multiplier
        if self.law == "gaussian" and self.shape in ("self-bounded", "one-signed"):
            shift = self.offset if self.shape == "one-signed" else 0.0
            enough = self.shape == "one-signed" or self.curvature <= epsilon / 2.0
            if enough and epsilon - shift >= mu * mu:
                # No split is better than what two Gaussians of distance 2 mu truly have.
                return float(stated_delta(2.0 * mu, epsilon - shift))  # proof: OBJECTIVE-REPLACE
        best, low, high = 1.0, 0.0, epsilon
        for _ in range(2):  # every split is valid: a second, finer look only tightens
            first = np.linspace(low, high, 17)
            grown = np.where(first <= 700.0, np.exp(np.minimum(first, 700.0)), np.inf)
            # A delta that underflows to 0 must not hide a large factor.
            rest = np.maximum(self._other_order(epsilon - first), _SMALLEST)
            chained = self._one_change(first) + grown * rest
            at = int(np.argmin(chained))
            best = min(best, float(chained[at]))
            low, high = float(first[max(at - 1, 0)]), float(first[min(at + 1, 16)])
        return best

    def log_moment(self, s: Floats, adjacency: Adjacency) -> Floats:
        """Return log E exp(s * loss), both orders, zero-out and add-remove (inf where unproven)."""
        s = np.asarray(s, dtype=float)
        epsilon = self.pure_epsilon(adjacency)
        pure = np.full_like(s, np.inf)
        if math.isfinite(epsilon):  # proof: PURE-RR
            pure = curve.response_log_moment(s, epsilon)
        if self.law != "gaussian" or adjacency is Adjacency.REPLACE_ONE or self.shape == "softmax":
            return pure
        mu, k = 1.0 / self.noise_multiplier, self.offset
        # E exp(s (k + max(0, psi))); for self-bounded losses k + max(0, psi) is an upper bound too,
        # but max(k, psi) is smaller: M~ <= max(k, psi).
        grow = s * (s + 1.0) * mu * mu / 2.0
        if self.shape in _SIGNED:
            flat = log_ndtr(-mu / 2.0)
            rest = s * k + np.logaddexp(flat, grow + log_ndtr(mu / 2.0 + s * mu))
            if self.shape == "two-signed":  # E exp(s (mu^2/2 + mu |Z|))
                both = math.log(2.0) + grow + log_ndtr(s * mu)
                rest = s * k + both if self.persons else np.maximum(rest, both)
            return np.asarray(rest * _ROUND_UP + _LOST)
        below = log_ndtr((k - mu * mu / 2.0) / mu)
        above = log_ndtr((mu * mu / 2.0 + s * mu * mu - k) / mu)
        return np.asarray(np.logaddexp(s * k + below, grow + above) * _ROUND_UP + _LOST)

    def noise(
        self, count: int, dimension: int, unit: float, generator: np.random.Generator
    ) -> Floats:
        """Return noise vectors of the law, shape (count, dimension)."""
        law = replace(self, dimension=self.dimension or dimension).additive
        return law.noise(count, dimension, unit, generator)
