"""The pairs of random batches, made of the pair of one unsampled use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.noise_pairs import GaussianPair, gaussian_cells
from noisette.core.accounting.numerical.pairs import ROUNDING, Mirrored, OnBase, Pair
from noisette.errors import InvalidParameter


@dataclass(frozen=True)
class PoissonSampled(OnBase):
    """((1-q)Q + qP, Q) for a base pair (P, Q) and inclusion probability q.  # proof: POISSON-A

    H_γ = q·H_{1+(γ-1)/q}(P||Q) for γ >= 1-q and 1-γ below, so a dominating (dominated) base gives
    a dominating (dominated) sampled pair in both orders; ``swapped()`` is the other order. The
    first argument is the data set that *holds* the record. The new loss is L' = log(1-q+q e^L),
    an increasing function of the old one, so cells are cells of the base at moved edges.
    """

    base: Pair
    rate: float

    def __post_init__(self) -> None:
        _validate.fields(self, rate=_validate.rate)

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """L' <= e iff e^L <= y = 1 + (e^e - 1)/q; edges with y < 0 lie below every loss."""
        e = np.asarray(edges, dtype=np.float64)
        q = self.rate
        growth = np.expm1(np.minimum(e, 709.0)) / q
        below = int(np.searchsorted(growth, -1.0, side="left"))
        moved = np.full(len(e) - below, -np.inf)
        alive = growth[below:]
        np.log1p(alive, out=moved, where=alive > -1.0)
        np.copyto(moved, e[below:] - math.log(q), where=e[below:] > 709.0)
        if len(moved):
            P, Q = self.base.cells(moved)
            mixed = (1 - q) * Q + q * P
        else:
            mixed = Q = np.ones(1)
        if below:
            pad = np.zeros(below)
            return np.concatenate((pad, mixed)), np.concatenate((pad, Q))
        return mixed, np.array(Q)

    @property
    def infinite_p(self) -> float:
        """Only P-mass where Q has none stays infinite."""
        return self.rate * self.base.infinite_p

    @property
    def infinite_q(self) -> float:
        """Zero unless the record is always included."""
        return self.base.infinite_q if self.rate == 1 else 0.0

    @property
    def max_loss(self) -> float:
        """log(1 + q(e^max - 1)), the amplified pure bound."""
        top = self.base.max_loss
        if math.isinf(top):
            return math.inf
        return math.log1p(self.rate * math.expm1(top)) if top < 700 else top

    @property
    def min_loss(self) -> float:
        """log(1 - q + q e^min); a loss of minus infinity becomes log(1 - q)."""
        low = self.base.min_loss if self.base.infinite_q == 0 else -math.inf
        if self.rate == 1:
            return self.base.min_loss
        return math.log1p(self.rate * (math.expm1(low) if low > -700 else -1.0))

    def refined(self) -> Pair | None:
        """Sample the refined base."""
        finer = self.base.refined()
        return None if finer is None else PoissonSampled(finer, self.rate)


@dataclass(frozen=True)
class PoissonReplace(Mirrored):
    """P = (1-q)N(0)+qN(1), Q = (1-q)N(0)+qN(-1), standard deviation z.  # proof: POISSON-R

    ``noise_multiplier`` z = σ/C with every record's vector in the ball of radius C. The loss is
    odd and increasing in x: x/z² = ℓ/2 + asinh((1-q) sinh(ℓ/2) / a), a = q e^{-1/(2z²)}.
    """

    rate: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        _validate.fields(self, rate=_validate.rate, noise_multiplier=_validate.positive)

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Gaussian cells at the preimages of the edges."""
        e = np.asarray(edges, dtype=np.float64)
        q, z = self.rate, self.noise_multiplier
        x = z * self._position(e)
        centre = gaussian_cells(x)
        P = (1 - q) * centre + q * gaussian_cells(x - 1 / z)
        Q = (1 - q) * centre + q * gaussian_cells(x + 1 / z)
        return P, Q

    @property
    def tail_error(self) -> float:
        """e^{1/(2z²)} in the preimage of an edge is as accurate as its exponent."""
        return ROUNDING * (2 + min(1 / self.noise_multiplier**2, 50.0))

    def _position(self, losses: Floats) -> Floats:
        """x/z² for a loss, in the log domain where the argument of asinh is large."""
        q, z = self.rate, self.noise_multiplier
        half = np.abs(losses) / 2
        if q == 1:
            return np.asarray(losses / 2, dtype=np.float64)
        # log of v = (1-q) sinh(|ℓ|/2) / a; asinh(v) = log(2v) + O(v^-2) when v is large
        sinh = np.sinh(np.minimum(half, 21.0))
        with np.errstate(divide="ignore"):
            log_sinh = np.where(half > 20, half - math.log(2), np.log(sinh))
        log_v = math.log1p(-q) - math.log(q) + 1 / (2 * z * z) + log_sinh
        # exp(log_v) has the errors of the logarithms, many roundings for tiny ℓ: a product there.
        grown = min(math.exp(min(1 / (2 * z * z), 700.0)) * ((1 - q) / q), 1e290)
        v = np.where(half > 20, np.exp(np.minimum(log_v, 25.0)), grown * sinh)
        small = np.arcsinh(np.minimum(v, 1e12))
        value = half + np.where(log_v > 20, log_v + math.log(2), small)
        return np.asarray(np.copysign(value, losses), dtype=np.float64)


@dataclass(frozen=True)
class SymmetrisedSample(Mirrored, OnBase):
    """The curve h(γ) = q H_{1+(γ-1)/q}(base), γ >= 1, and its mirror below 1.  # proof: WOR-R

    ``base`` must be symmetric under swapping (the full-batch replace-one pair: Gaussian(2/z) for
    the Gaussian mechanism). Losses above 0 follow ((1-q)Q+qP, Q), losses below 0 its mirror
    image, and the rest 1 - P(L>0) - Q(L>0) is an atom at 0. An upper bound only: the realised
    pair for the lower bound is ``PoissonSampled(base, rate)``.
    """

    base: Pair
    rate: float

    pinned = True  # the atom at 0 must sit on the lattice

    def __post_init__(self) -> None:
        _validate.fields(self, rate=_validate.rate)
        if self.base.swapped() != self.base:
            raise InvalidParameter(f"base must be symmetric under swapping; got {self.base!r}.")

    @cached_property
    def _half(self) -> PoissonSampled:
        return PoissonSampled(self.base, self.rate)

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Positive cells, mirrored negative cells, and the atom in the cell that holds 0."""
        e = np.asarray(edges, dtype=np.float64)
        split = int(np.searchsorted(e, 0.0, side="left"))  # e[split] is the first edge >= 0
        up = np.concatenate(([0.0], e[split:]))
        # -L in [a, b) must become L in (-b, -a]: one ulp moves the closed end
        down = np.concatenate(([0.0], np.nextafter(-e[:split][::-1], -np.inf)))
        up_p, up_q = self._half.cells(up)
        down_p, down_q = self._half.cells(down)
        atom = max(1.0 - float(up_p[1:].sum() + up_q[1:].sum()), 0.0)
        P = np.concatenate((down_q[:0:-1], up_p[1:]))
        Q = np.concatenate((down_p[:0:-1], up_q[1:]))
        # both halves contribute to the cell around 0: merge the two middle entries
        middle = len(down)
        return _merge(P, middle, atom), _merge(Q, middle, atom)

    @property
    def infinite_p(self) -> float:
        """As for the sampled base."""
        return self._half.infinite_p

    @property
    def infinite_q(self) -> float:
        """Mirror image."""
        return self._half.infinite_p

    @property
    def max_loss(self) -> float:
        """Of the sampled base."""
        return self._half.max_loss

    @property
    def min_loss(self) -> float:
        """Mirror image."""
        return -self._half.max_loss


def _merge(masses: Floats, middle: int, atom: float) -> Floats:
    """Join entries middle-1 and middle (the two sides of 0) and add the atom."""
    out = np.delete(masses, middle)
    out[middle - 1] = masses[middle - 1] + masses[middle] + atom
    return out


@dataclass(frozen=True)
class Labelled(Pair):
    """Draw k with probability weights[k], reveal k, run pairs[k].  # proof: LABEL

    H_γ = Σ_k weights[k] H_γ(pairs[k]). Weight that is missing to 1 has infinite loss on both
    sides (it is the certified way to cut a long tail of labels).
    """

    weights: tuple[float, ...]
    pairs: tuple[Pair, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(float(w) for w in self.weights))
        object.__setattr__(self, "pairs", tuple(self.pairs))
        if len(self.weights) != len(self.pairs) or not self.pairs:
            raise InvalidParameter("weights and pairs must have the same length, at least 1.")
        if min(self.weights) < 0 or sum(self.weights) > 1 + 1e-9:
            raise InvalidParameter("weights must be non-negative and sum to at most 1.")

    @property
    def _missing(self) -> float:
        missing = 1.0 - sum(self.weights)
        return missing if missing > 1e-15 else 0.0

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Weighted sums of the cells; missing weight at the two infinite ends."""
        e = np.asarray(edges, dtype=np.float64)
        P, Q = np.zeros(len(e) + 1), np.zeros(len(e) + 1)
        for weight, pair in zip(self.weights, self.pairs, strict=True):
            p, q = pair.cells(e)
            P += weight * p
            Q += weight * q
        P[-1] += self._missing
        Q[0] += self._missing
        return P, Q

    @property
    def infinite_p(self) -> float:
        """Weighted infinite masses plus the missing weight."""
        parts = zip(self.weights, self.pairs, strict=True)
        return self._missing + sum(w * pair.infinite_p for w, pair in parts)

    @property
    def infinite_q(self) -> float:
        """Weighted infinite masses plus the missing weight."""
        parts = zip(self.weights, self.pairs, strict=True)
        return self._missing + sum(w * pair.infinite_q for w, pair in parts)

    @property
    def max_loss(self) -> float:
        """Largest over the labels."""
        return max(pair.max_loss for pair in self.pairs)

    @property
    def min_loss(self) -> float:
        """Smallest over the labels."""
        return min(pair.min_loss for pair in self.pairs)

    @property
    def tail_error(self) -> float:
        """Worst over the labels."""
        return max(pair.tail_error for pair in self.pairs)

    @property
    def cell_error(self) -> float:
        """Worst over the labels."""
        return max(pair.cell_error for pair in self.pairs)

    def swapped(self) -> Pair:
        """Swap every label."""
        return Labelled(self.weights, tuple(pair.swapped() for pair in self.pairs))


@dataclass(frozen=True)
class WithReplacement(Mirrored, OnBase):
    """m draws with replacement from n records, noise multiplier z = σ/C.  # proof: WR-R

    δ(ε') = Σ_{k>=1} Bin(m, 1/n)(k) δ_GDP(ε; 2k/z) with ε' = log(1+γ(e^ε-1)),
    γ = 1-(1-1/n)^m: the record sits in k slots, and k may be revealed. This is the symmetrised
    sample at rate γ of the public lottery over k >= 1. Upper bound only.
    """

    draws: int
    population: int
    noise_multiplier: float

    pinned = True

    def __post_init__(self) -> None:
        whole = _validate.integer
        _validate.fields(self, noise_multiplier=_validate.positive, draws=whole, population=whole)

    @cached_property
    def base(self) -> SymmetrisedSample:  # type: ignore[override]
        """The equivalent symmetrised sample."""
        m, n, z = self.draws, self.population, self.noise_multiplier
        if n == 1:
            return SymmetrisedSample(GaussianPair(2 * m / z), 1.0)
        rate = -math.expm1(m * math.log1p(-1 / n))
        k = np.arange(1, min(m, int(20 * m / n) + 200) + 1)
        log_mass = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)
        log_mass = log_mass - k * math.log(n) + (m - k) * math.log1p(-1 / n)
        weights = np.exp(log_mass) / rate
        # gammaln loses digits for huge m; the certified reading is "what is missing is infinite"
        weights = weights / max(float(weights.sum()), 1.0)
        seen = np.nonzero(weights > 1e-40)[0]
        last = int(seen[-1]) + 1 if len(seen) else 1
        gaussians = tuple(GaussianPair(2 * int(j) / z) for j in k[:last])
        return SymmetrisedSample(Labelled(tuple(weights[:last]), gaussians), rate)

    def cells(self, edges: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Of the equivalent symmetrised sample."""
        return self.base.cells(edges)

    @property
    def infinite_p(self) -> float:
        """Weight of the labels that were cut."""
        return self.base.infinite_p

    @property
    def infinite_q(self) -> float:
        """Weight of the labels that were cut."""
        return self.base.infinite_q

    @property
    def cell_error(self) -> float:
        """Binomial weights by ``gammaln`` have about 1e-12 relative accuracy."""
        return self.base.cell_error + 1e-15 * math.sqrt(self.draws + 10) + 1e-13
