"""Least squares from noisy sums: the second moments once, then rounds of residual sums.

Without rounds it is AdaSSP (Wang 2018): theta = (S + lambda I)^-1 s, lambda from the released S.
With rounds it is boosted (Tang et al. 2023), in coordinates in which the released S makes rows
alike in all directions, which is where isotropic noise costs least. An error in S then only slows
the rounds down: their fixed point does not depend on it.

Targets are in [-1, 1]. Everything but the sums is post-processing of released numbers.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from noisette import _validate
from noisette._typing import Floats
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian, Mechanism, SphericalLaplace
from noisette.core.parts import each
from noisette.core.plans import Plan, Repeat, Run, Together
from noisette.fitting.algorithms.algorithm import Algorithm, PreparedModel
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import Public, check_scales
from noisette.fitting.algorithms.records import Records
from noisette.fitting.algorithms.regression_moments import (
    DIRECTIONS,
    MOST,
    SQUARES,
    Cuts,
    Moments,
    ResidualSums,
    Whitener,
    release_moments,
    release_residual_sums,
)

_FLOOR = 0.25  # of the noise in S, in spectral norm: what whitening adds to its eigenvalues
_CURVED = 0.5  # least share of curvature that a step counts on: noise hides more than it makes
_PRIOR = 4.0  # squared size of a weight that the ridge took away, in that of a typical one
# Where whitened rows and residuals are cut, in their root mean squares: the smaller the noise, the
# later, because a cut is a bias. Chosen on California housing (docs/regression.md).
_ROOM, _LEAST_ROOM, _MOST_ROOM = 0.3, 1.0, 1.6
_CLIP, _LEAST_CLIP, _MOST_CLIP = 0.4, 1.2, 5.0
# Where the sum that looks for unequal variances cuts, in the same units, and the largest noise, in
# units of equal variances, with which it is asked for.
_LATE_ROOM, _LATE_CLIP, _SHARP, _EDGE = 2.0, 4.0, 0.5, 1.4
_SMALLEST = 0.01  # deviation of residuals, in units of the half range of the target


@lru_cache(maxsize=128)
def _scale(
    share: float, rounds: int, features: int, epsilon: float, delta: float, adjacency: Adjacency
) -> float:
    return accounting.calibrate(
        lambda c: _plan(c, share, rounds, features, pure=delta == 0.0),
        epsilon=epsilon, delta=delta, adjacency=adjacency,
    )  # fmt: skip


def _noise(multiplier: float, dimension: int, *, pure: bool) -> Mechanism:
    return SphericalLaplace(multiplier, dimension) if pure else Gaussian(multiplier)


def _plan(c: float, share: float, rounds: int, features: int, *, pure: bool) -> Plan:
    """Return the moments and the rounds: mu squared, or epsilon where pure, is divided."""
    entries = features * (features + 1) // 2 + features + 3
    if rounds == 0:
        return Run(_noise(c, entries, pure=pure))
    first = c / share if pure else c / math.sqrt(share)
    each = c * rounds / (1.0 - share) if pure else c * math.sqrt(rounds / (1.0 - share))
    step = Run(_noise(each, features + 1, pure=pure))
    return Together(Run(_noise(first, entries, pure=pure)), Repeat(step, rounds))


class SolvedSums(list[Floats]):
    """The weights, as a list of one vector, and what was released beside them.

    `covariance` is that of the weights in the linear model, sampling and noise together;
    `variance` that of the residuals, `clipped` the share of targets at a bound and `clipped_noise`
    its deviation. `unequal` is how much larger errors are in some direction than on average, as
    far as noise lets it be seen; None where nobody looked.
    """

    covariance: Floats
    variance: float
    clipped: float
    clipped_noise: float
    unequal: float | None


@dataclass(frozen=True)
class SufficientStatistics(Algorithm[PreparedModel]):
    """Release second moments, then `rounds` sums of residuals; solve what was released.

    `share` of the budget (in mu squared; in epsilon where delta = 0) is for the moments.
    """

    name: ClassVar[str] = "statistics"
    summary: ClassVar[str] = "least squares from noisy second moments and residual sums"

    rounds: int = 6
    share: float = 0.5

    def prepare(self, public: Public) -> PreparedModel:
        """Return one noisy vector of moments and the noisy vectors of the rounds."""
        _validate.integer("rounds", self.rounds, least=0)
        _validate.fraction("the share for the second moments", self.share)
        whole = public.loss.name == "squared" and public.loss.value_at_zero == 0.5
        single = public.models == 1 and public.weight_bound == 1.0
        few = public.most_rows is not None and public.most_rows <= MOST
        bounded = math.isfinite(public.norm_bound)
        _validate.refuse(
            (not whole, "sufficient statistics are for squared errors of size 1."),
            (not single, "sufficient statistics take one target and weights up to 1."),
            (not bounded, "sufficient statistics need norm_bound, a bound on the rows."),
            (not few, f"sufficient statistics take up to {MOST} rows."),
        )
        asked = (self.share, self.rounds, public.features)
        c = _scale(*asked, public.epsilon, public.delta, public.adjacency)
        plan = _plan(c, *asked, pure=public.delta == 0.0)
        check_scales(plan, public.norm_bound)
        proofs = ("REGRESSION-MOMENTS", "PLAN-BEFORE-LOOK", *public.loss.proofs)
        return PreparedModel(public, plan, proofs)

    def passes(self, prepared: PreparedModel) -> float:
        """Return about how often every row is read."""
        return (1.0 + self.rounds) * (2.0 + prepared.public.features / 4.0)

    def run(self, records: Records, prepared: PreparedModel, passage: Passage) -> SolvedSums:
        """Return the weights, and the covariance that goes with them."""
        public, most = prepared.public, prepared.public.most_rows
        assert most is not None
        bound = math.sqrt(public.squared_bound)
        target = each(partial(np.asarray, dtype=float), records.targets[0])
        moments = release_moments(
            records.rows, target, bound, public.adjacency, passage, most=most,
            weights=records.weights,
        )  # fmt: skip
        # the sum of the weights is released; without weights it is the size, where that is public
        exact = public.exact if records.weights is None else None
        solve = _Solve(moments, float(exact or max(moments.count, 1.0)), bound)
        for left in range(self.rounds, 0, -1):
            theta, white, clip = solve.next_round()
            cuts = None
            if left == 1 and public.delta > 0.0 and not public.grouped:
                cuts = solve.late_cuts(white, clip, passage.leaf(1).mechanism)
            solve.take(release_residual_sums(
                records.rows, target, theta, white, clip, bound, public.adjacency, passage,
                most=most, weights=records.weights, part=1, cuts=cuts,
            ), clip)  # fmt: skip
        return solve.result()


class _Solve:
    """What follows from released sums: weights, clips, covariance. It never sees a row."""

    def __init__(self, moments: Moments, count: float, bound: float) -> None:
        self.moments, self.count, self.bound = moments, count, bound
        # the spectral norm of the noise, about
        reach = moments.rows_noise * math.sqrt(2.0 * len(moments.products))
        values, self.vectors = np.linalg.eigh(moments.rows)
        self.values = np.maximum(values, 0.0)
        self.ridge = max(reach - float(values[0]), 1e-9 * count * bound**2)
        self.floor = max(_FLOOR * reach, 1e-9 * count * bound**2)
        # the share of every whitened direction that is curvature, the rest is the floor
        self.curved = self.values / (self.values + self.floor)
        self.stretched = np.sqrt(count / (self.values + self.floor))
        self.effective = max(float(self.curved.sum()), 1.0)
        self.longest = bound * float(self.stretched.max())
        self.sums: ResidualSums | None = None
        # in the eigenvectors of S
        self.theta = self.vectors.T @ moments.products / (self.values + self.ridge)
        # The mean squared residual as the moments tell it, and the deviation of its noise. It is
        # kept above its own noise: residuals that are cut too early teach nothing.
        m, theta = moments, self.vectors @ self.theta
        size = float(np.linalg.norm(theta))
        total = m.squares - 2.0 * float(theta @ m.products) + float(theta @ m.rows @ theta)
        noises = (m.squares_noise, 2.0 * size * m.products_noise, size * size * m.rows_noise)
        self.doubt = math.hypot(*noises) / count
        least = max(_SMALLEST**2, self.doubt)
        largest = max(m.squares / count, _SMALLEST**2, least)
        self.variance = min(max(total / count, least), largest, 1.0)
        # How far noise and ridge took the first weights, squared, in every direction. A weight that
        # the ridge took away is about as large as one that explains its share.
        square = self.theta**2
        spread = m.products_noise**2 + m.rows_noise**2 / 2.0 * (self.theta @ self.theta + square)
        typical = max(m.squares, 0.0) / len(self.theta) / (self.values + self.floor)
        shrunk = self.ridge**2 * (square + _PRIOR * typical)
        self.error = self.spread = (spread + shrunk) / (self.values + self.ridge) ** 2

    def next_round(self) -> tuple[Floats, Whitener, float]:
        """Return the weights so far, the coordinates, and where residuals are cut."""
        # About the error of a whitened weight, from noise alone, in deviations of residuals.
        noisy = self.moments.products_noise / self.bound * self.effective / self.count
        room = float(np.clip(_ROOM / math.sqrt(noisy), _LEAST_ROOM, _MOST_ROOM))
        clip = float(np.clip(_CLIP / math.sqrt(noisy), _LEAST_CLIP, _MOST_CLIP))
        limit = min(room * math.sqrt(self.effective), self.longest)
        cut = min(clip * math.sqrt(self.variance), 2.0)
        white = Whitener(self.vectors * self.stretched, limit)
        return self.vectors @ self.theta, white, max(cut, _SMALLEST)

    def late_cuts(self, white: Whitener, clip: float, mechanism: Any) -> Cuts | None:
        """Return where to cut the sum that looks for unequal variances; None if noise hides it."""
        row = min(_LATE_ROOM * math.sqrt(self.effective), self.longest)
        residual = max(min(_LATE_CLIP * math.sqrt(self.variance), 2.0), clip)
        each = mechanism.noise_multiplier * math.sqrt((1.0 + SQUARES + DIRECTIONS) / DIRECTIONS)
        noise = each * (row * residual) ** 2 / (self.count * self.variance)
        return (max(row, white.bound), residual) if noise <= _SHARP else None

    def take(self, sums: ResidualSums, clip: float) -> None:
        """Move the weights by one noisy sum, as far as its noise and their own error suggest.

        In one direction the sum tells h (theta* - theta) + noise. The step is the linear estimate
        of least variance for h, or for 1/2 where h is less, and at most what h = 1 asks for.
        """
        unit = self.stretched / self.count
        s2 = (unit * sums.products_noise) ** 2
        h, v = np.maximum(self.curved, _CURVED), self.error
        gain = np.minimum(v * h / (v * h**2 + s2), 1.0)
        self.theta = self.theta + gain * unit * sums.products
        self.error = v * (1.0 - gain * h) ** 2 + gain**2 * s2
        # A residual that is cut does not answer to the weights.
        inside = 1.0 - 2.0 * float(ndtr(-clip / math.sqrt(self.variance)))
        kept = 1.0 - gain * self.curved * inside
        self.spread = self.spread * kept**2 + gain**2 * s2
        self.sums = sums
        # one more estimate of the residuals' variance, joined by how noisy each of them is
        found = uncut_variance(sums.squares / self.count, clip)
        old, new = self.doubt**2 + 1e-24, (sums.squares_noise / self.count) ** 2 + 1e-24
        weight = old / (old + new)
        self.doubt = math.sqrt(weight * new)
        mixed = (1.0 - weight) * self.variance + weight * found
        self.variance = min(max(mixed, _SMALLEST**2, self.doubt), 1.0)

    def _unequal(self) -> tuple[Floats, float | None]:
        """Return K, the second moment of errors times rows in units of equal variances.

        It is I for errors of one variance. What is larger than noise alone could make it is kept
        (the spectral norm of the noise is about its deviation times sqrt(2 d), seldom _EDGE more).
        """
        d, sums = len(self.theta), self.sums
        if sums is None or sums.directions is None:
            return np.eye(d), None
        scale = np.where(self.curved >= _CURVED, 1.0 / np.sqrt(self.curved), 0.0)
        unit = self.count * self.variance
        found = scale[:, None] * sums.directions * scale / unit - np.diag((scale > 0.0) * 1.0)
        edge = _EDGE * sums.directions_noise / unit * math.sqrt(2.0 * d)
        edge *= max(float(scale.max()) ** 2, 1.0)
        values, vectors = np.linalg.eigh(found)
        kept = np.where(values > edge, values, 0.0)
        return np.eye(d) + (vectors * kept) @ vectors.T, float(kept.max())

    def result(self) -> SolvedSums:
        """Return the weights with their covariance in the linear model."""
        least = self.ridge if self.sums is None else self.floor
        root = np.sqrt(self.variance * self.values) / (self.values + least)
        directions, unequal = self._unequal()
        covariance = np.diag(self.spread) + root[:, None] * directions * root
        clipped = self.moments.clipped / self.count
        out = SolvedSums([self.vectors @ self.theta])
        vars(out).update(
            covariance=self.vectors @ covariance @ self.vectors.T, variance=self.variance,
            clipped=clipped, unequal=unequal,
            # of a ratio: the number of records may be a released one too
            clipped_noise=self.moments.counts_noise / self.count * (1.0 + abs(clipped)),
        )  # fmt: skip
        return out


def uncut_variance(mean_square: float, clip: float) -> float:
    """Return the variance of a normal law whose values, cut to [-clip, clip], have this square."""
    share = min(max(mean_square / clip**2, 1e-6), 0.9)

    def cut(t: float) -> float:  # E min(z^2, t^2) / t^2 for a standard normal z, t = clip / sd
        beyond, density = 2.0 * ndtr(-t), math.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)
        return float((1.0 - beyond - 2.0 * t * density) / (t * t) + beyond) - share

    return float((clip / brentq(cut, 1e-3, 1.1e3)) ** 2)
