"""Choosing tilt, step, window and offset of the lattice: speed only, never validity.

Every number here may be wrong without harming a guarantee: the certificates of ``lattice`` and
``compose`` hold for any tilt, step and window. A bad plan gives a loose bracket, not a false one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.fft import next_fast_len

from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs import LARGEST_LOSS, Pair

Step = tuple[Pair, Pair | None, int]
"""A pair above, one below (None where there is none), and how often both are used."""

MAX_WINDOW = 2**19
STEP_CONSTANT = 3.0
MAX_STRIDE = 2**20
MAX_ATOMS = 20_000
_TILTS = np.logspace(-3, 8, 56)
_FRACTIONS = np.array([1.0, 0.8, 0.62, 0.48, 0.36, 0.25])
_THETAS = np.array([0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0])
_COARSE = np.concatenate(
    (-np.logspace(math.log10(LARGEST_LOSS), -11, 70), [0.0], np.logspace(-11, 2.8388, 70))
)
_NEAREST = np.argsort(np.abs(_COARSE[1:-1]), kind="stable")


@dataclass(frozen=True)
class Profile:
    """A coarse discrete picture of one pair: atoms (losses, p) and the cells they stand for."""

    losses: Floats
    p: Floats
    edges: Floats
    cells_p: Floats
    cells_q: Floats

    def kept(self, cut: float) -> int:
        """How many atoms there are up to the last with more than ``cut`` of the mass from it on."""
        above = np.nonzero(np.cumsum(self.p[::-1])[::-1] > cut)[0]
        return int(above[-1]) + 1 if len(above) else 1


@lru_cache(maxsize=512)
def profile(pair: Pair) -> Profile:
    """Representative finite losses (increasing) and their P-masses, a few hundred of them.

    First a coarse scan over all magnitudes finds the support; then cells on a sinh grid (6 %
    relative spacing, fine near 0) are replaced by atoms at log(p/q).
    """
    P, Q = pair.cells(_COARSE)
    inside = np.nonzero(P[1:-1] > 1e-60)[0]
    if len(inside) == 0:
        inside = np.array([len(_COARSE) // 2])
    low, high = float(_COARSE[inside[0]]), float(_COARSE[inside[-1] + 1])
    both = np.cumsum((P + Q)[1:-1][_NEAREST])
    reached = min(int(np.searchsorted(both, 0.02)), len(_NEAREST) - 1)
    scale = max(0.25 * abs(float(_COARSE[_NEAREST[reached]])), 1e-12)
    ends = np.arcsinh(np.array([low, high]) / scale)
    count = int(np.clip((ends[1] - ends[0]) / 0.06, 60, 700))
    edges = scale * np.sinh(np.linspace(ends[0], ends[1], count))
    P, Q = pair.cells(edges)
    P[-1] = max(P[-1] - pair.support.infinite_p, 0.0)
    keep = P > 1e-70
    with np.errstate(divide="ignore"):
        losses = np.log(P[keep]) - np.log(Q[keep])
    floor = np.concatenate(([-LARGEST_LOSS], edges))[keep]
    ceiling = np.concatenate((edges, [LARGEST_LOSS]))[keep]
    return Profile(np.clip(losses, floor, ceiling), P[keep], edges, P, Q)


class Cumulant:
    """K(t) = Σ count · log Σ p e^{t loss} over the profiles of all parts.

    The last ``cut`` / count of P-mass of each part is left out, as in the lattice, where it is
    charged as infinite loss: without it a heavy tail forbids every useful tilt.
    """

    def __init__(self, steps: Sequence[Step], cut: float = 0.0) -> None:
        self.parts: list[tuple[Floats, Floats, int]] = []
        for pair, _, count in steps:
            shape = profile(pair)
            last = shape.kept(cut / count)
            self.parts.append((shape.losses[:last], shape.p[:last], count))

    def __call__(self, t: Floats) -> Floats:
        """Vectorised over t."""
        total = np.zeros(len(t))
        for losses, p, count in self.parts:
            a = np.multiply.outer(t, losses)
            top = a.max(axis=1)
            a -= top[:, None]
            np.exp(a, out=a)
            total += count * (top + np.log(a @ p))
        return total


@dataclass(frozen=True)
class LatticePlan:
    """Tilt, saddle point, lattice step, window length (in steps) and the point aimed at."""

    tilt: float
    saddle: float
    step: float
    window: int
    epsilon: float
    delta: float
    budget: float  # relative change of δ that each truncation may cost
    cut: float  # P-mass that may be charged as infinite loss, over all steps


def saddle_for_delta(cumulant: Cumulant, delta: float) -> tuple[float, float]:
    """Smallest tilt whose moment bound on ε is within 1 % of the best, and that bound."""
    return _saddle(cumulant, delta=delta, slack=0.01)


def saddle_for_epsilon(cumulant: Cumulant, epsilon: float) -> tuple[float, float]:
    """Tilt with the best moment bound on δ at ``epsilon``, and that bound (at most 1)."""
    tilt, log_delta = _saddle(cumulant, epsilon=epsilon)
    return tilt, math.exp(min(max(log_delta, -690.0), 0.0))


def _saddle(
    cumulant: Cumulant, *, delta: float | None = None, epsilon: float = 0.0, slack: float = 0.0
) -> tuple[float, float]:
    """Smallest tilt whose bound is the least up to a relative ``slack``, and the least bound.

    It is a bound on ε at ``delta``, or without one on log δ at ``epsilon``.
    """
    t = _TILTS
    for _ in range(2):
        # K(t) and the log of max_u (1-u)u^t: from the t-th moment to δ (Canonne et al. 2020)
        moment = cumulant(t) + (t * np.log(t / (t + 1)) - np.log1p(t))
        bound = moment - t * epsilon if delta is None else (moment - math.log(delta)) / t
        best = int(np.argmin(bound))
        first = int(np.argmax(bound <= bound[best] + slack * abs(bound[best])))
        tilt, least = float(t[first]), float(bound[best])
        t = np.geomspace(t[max(first - 1, 0)], t[min(best + 1, len(t) - 1)], 12)
    return tilt, least


def make_plan(
    steps: Sequence[Step],
    cumulant: Cumulant,
    saddle: float,
    epsilon: float,
    delta: float,
    error: float,
    cut: float,
) -> LatticePlan:
    """Window and step so that each bound is off by about ``error`` / 2 in ε.

    The two lattices change the variance of one loss by +h²/6 and -h²/12, which moves ε by
    T(1+t)h²/8 in total, so h² = 3·error / (T(1+t)) leaves a margin for the sparse tails.
    """
    count, spacings, atomic = 0, set(), True
    for pair, _, n in steps:
        count += n
        spacings.add(pair.atom_spacing)
        atomic &= pair.is_lattice
    budget = min(1e-4, max(0.02 * error * saddle, 1e-13))
    need = -math.log(budget * delta)
    tilts = saddle * _FRACTIONS
    shifted = np.multiply.outer(tilts, 1 + _THETAS)
    moments = cumulant(shifted.ravel()).reshape(shifted.shape)
    extra = np.multiply.outer(tilts, _THETAS)
    right = ((moments - tilts[:, None] * epsilon + need) / extra).min(axis=1) - epsilon
    windows = np.maximum(need / tilts, right)
    best = int(np.argmin(windows))
    tilt, span = float(tilts[best]), float(windows[best])
    least = span / MAX_WINDOW
    step = max(math.sqrt(STEP_CONSTANT * error / (count * (1 + saddle))), least)
    spacings.discard(None)
    spacing = spacings.pop() if len(spacings) == 1 else None
    # Atoms that all have one spacing are put on the lattice; where they are closer than the step
    # they stay where they are: following them would make the window as long as the ratio of the
    # two, hundreds of millions of points beside a large step.
    if spacing is not None and atomic and spacing >= least:
        step = spacing
    elif spacing is not None and spacing >= step:
        step = spacing / math.ceil(spacing / step)
    window = next_fast_len(max(math.ceil(span / step) + 1, 16), real=True)
    return LatticePlan(tilt, saddle, step, window, epsilon, delta, budget, cut)


def indices(
    pair: Pair, count: int, plan: LatticePlan
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Lattice indices for one part: step 1 in the tilted bulk, doubling in the tails.

    The stride is 2^k where the tilted tail mass is below 8^-k / 2, as long as tilt · stride · h
    stays below 0.35, so the added variance 4^k 8^-k h² of the octaves sums to a constant.
    """
    shape = profile(pair)
    last = shape.kept(plan.cut / count)
    losses, p = shape.losses[:last], shape.p[:last]
    beyond = float(shape.losses[min(last, len(shape.losses) - 1)])
    h, t = plan.step, plan.tilt
    reach = max(t, plan.saddle) * h
    strides = max(0, int(math.log2(0.35 / reach))) if reach < 0.35 else 0
    marks = np.asarray(0.5 * 0.125 ** np.arange(1, strides + 1), dtype=np.float64)
    cuts, ends = [], []
    # the window uses the tilt t, the answer depends on the saddle: resolve both
    for tilt in (t, plan.saddle):
        # cumulative tilted masses from the left and from the right, each ending at 1
        a = tilt * losses + np.log(p)
        a -= a.max()
        weight = np.exp(a)
        weight /= weight.sum()
        left, right = np.cumsum(weight), np.cumsum(weight[::-1])
        ends.append(left)
        # first positions from which the right tail is below each mark, last ones of the left tail
        above = np.minimum(last - np.searchsorted(right, marks), last - 1)
        below = np.maximum(np.searchsorted(left, marks) - 1, 0)
        cuts.append((losses[above], losses[below]))
    cuts_right = np.maximum(cuts[0][0], cuts[1][0])
    cuts_left = np.minimum(cuts[0][1], cuts[1][1])
    support, atomic = pair.support, pair.is_lattice
    low = losses[min(int(np.searchsorted(ends[0], plan.budget / count)), last - 1)]
    if atomic:
        low = max(support.min_loss, -LARGEST_LOSS)
    # The tilt was chosen for what is kept; a tail that is left out must not come back here.
    high = support.max_loss
    if not (atomic or last == len(shape.losses)) or high >= LARGEST_LOSS:
        high = min(high, beyond)
    high = min(max(high, low), LARGEST_LOSS - 2 * h)
    middle = round(float(losses[int(np.searchsorted(ends[0], 0.5))]) / h)
    up = _side(middle, cuts_right / h, float(high) / h, atomic)
    down = _side(-middle, -cuts_left / h, -float(low) / h, atomic)
    if not atomic:
        # a few far points with doubling gaps keep the left tail below 0, as the lower lattice needs
        end = math.ceil(-max(support.min_loss, float(losses[0]), -LARGEST_LOSS) / h) + 1
        at, extra = int(down[-1]), []
        gap = at - int(down[-2]) if len(down) > 1 else 1
        while at < end:
            gap *= 2
            at += gap
            extra.append(at)
        down = np.concatenate((down, np.array(extra, dtype=np.int64)))
    return np.concatenate((-down[:0:-1], up))


def _side(
    start: int, cuts: Floats, end: float, exact: bool
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """start, start+1, ... with the stride doubling at each cut, up to the first point >= end."""
    pieces = []
    at, stride = start, 1
    last = max(math.ceil(end - 1e-9), start + 1)
    for cut in cuts:
        if at >= last or stride >= MAX_STRIDE or exact:
            break
        stop = -(-max(math.ceil(cut), at + 1) // (2 * stride)) * (2 * stride)
        stop = min(stop, -(-last // (2 * stride)) * (2 * stride))
        pieces.append(np.arange(at, stop, stride, dtype=np.int64))
        at, stride = stop, 2 * stride
    while (last - at) // stride > MAX_ATOMS:
        stop = -(-(at + MAX_ATOMS * stride // 4) // (2 * stride)) * (2 * stride)
        pieces.append(np.arange(at, stop, stride, dtype=np.int64))
        at, stride = stop, 2 * stride
    pieces.append(np.arange(at, max(last, at) + stride, stride, dtype=np.int64))
    return np.concatenate(pieces)


def offsets(pair: Pair, step: float) -> list[float]:
    """Shifts of the lower lattice worth trying: they put the mean of a critical cell on it.

    Critical is a hard end of the support (a one-sided cell cannot be balanced by moving its
    edges) or the fullest cell. Without this a bulk much narrower than the step makes the lower
    bound collapse: a lattice pair whose atoms are all >= 0 is trivial.
    """
    if pair.pinned or pair.atom_spacing is not None:
        return [0.0]
    shape = profile(pair)
    found: dict[float, float] = {}
    for sign in (1, -1):
        mass_p, mass_q = _beside(shape.cells_p, sign), _beside(shape.cells_q, sign)
        usable = (mass_p > 1e-6) & (mass_q > 1e-300)
        b = shape.edges[usable]
        if len(b) < 2:
            continue
        # overshoot of the tail mean beyond its end; it must equal half a step
        excess = sign * (b - np.log(mass_p[usable] / mass_q[usable])) - step / 2
        flips = _flips(excess)
        if len(flips) == 0:
            continue
        at = int(flips[0] if sign > 0 else flips[-1])
        b0, b1, e0, e1 = b[at], b[at + 1], excess[at], excess[at + 1]
        for _ in range(2):
            guess = np.linspace(b0, b1, 9)
            p, q = pair.cells(guess)
            e = sign * (guess - np.log(_beside(p, sign) / _beside(q, sign))) - step / 2
            crossed = _flips(e)
            k = int(crossed[0]) if len(crossed) else 0
            b0, b1, e0, e1 = guess[k], guess[k + 1], e[k], e[k + 1]
        root = float(b0 - e0 * (b1 - b0) / (e1 - e0)) if e1 != e0 else float(b0)
        found[root - sign * 0.499 * step] = float(mass_p[usable][at])
    fullest = float(shape.losses[int(np.argmax(shape.p))])
    for _ in range(3):
        p, q = pair.cells(np.array([fullest - step / 2, fullest + step / 2]))
        if p[1] > 0 and q[1] > 0:
            fullest = float(np.log(p[1] / q[1]))
    best = [max(found, key=found.__getitem__)] if found else []
    tried = np.array([*best, fullest])
    return list((tried - step * np.rint(tried / step)).tolist())


def _beside(masses: Floats, sign: int) -> Floats:
    """Masses left of each edge (sign 1), or right of it."""
    return np.cumsum(masses)[:-1] if sign > 0 else np.cumsum(masses[::-1])[-2::-1]


def _flips(excess: Floats) -> npt.NDArray[np.intp]:
    """Numbers of the points after which the sign changes."""
    return np.nonzero((excess[:-1] < 0) != (excess[1:] < 0))[0]
