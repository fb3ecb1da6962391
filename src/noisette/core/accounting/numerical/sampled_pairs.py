"""The pairs of random batches, made of the pair of one unsampled use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from noisette import _validate
from noisette._typing import Floats
from noisette.core.accounting.numerical.noise_pairs import gaussian_cells
from noisette.core.accounting.numerical.pairs import ROUNDING, Mirrored, OnBase, Pair, Support
from noisette.core.mechanisms.base import Checks
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

    checks: ClassVar[Checks] = {"rate": _validate.rate}

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
    def support(self) -> Support:
        """Losses log(1 + q (e^L - 1)): a loss of minus infinity becomes log(1 - q)."""
        q, (low, top, infinite_q, infinite_p) = self.rate, self.base.support
        high = math.log1p(q * math.expm1(top)) if top < 700 else top  # the amplified pure bound
        if q == 1:
            return Support(low, high, infinite_q, infinite_p)
        low = low if infinite_q == 0 else -math.inf
        return Support(
            math.log1p(q * (math.expm1(low) if low > -700 else -1.0)), high, 0.0, q * infinite_p
        )

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

    checks: ClassVar[Checks] = {"rate": _validate.rate, "noise_multiplier": _validate.positive}

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
    def errors(self) -> tuple[float, float]:
        """e^{1/(2z²)} in the preimage of an edge is as accurate as its exponent."""
        return ROUNDING * (2 + min(1 / self.noise_multiplier**2, 50.0)), ROUNDING

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

    pinned: ClassVar[bool] = True  # the atom at 0 must sit on the lattice
    checks: ClassVar[Checks] = PoissonSampled.checks

    def __post_init__(self) -> None:
        super().__post_init__()
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
    def support(self) -> Support:
        """That of the sampled base above 0, and its mirror image."""
        found = self._half.support
        return Support(-found.max_loss, found.max_loss, found.infinite_p, found.infinite_p)


def _merge(masses: Floats, middle: int, atom: float) -> Floats:
    """Join entries middle-1 and middle (the two sides of 0) and add the atom."""
    out = np.delete(masses, middle)
    out[middle - 1] = masses[middle - 1] + masses[middle] + atom
    return out
