"""`Score`: a number with its error bars, and `ratio`, from which nearly all of them come.

A score is a quotient of sums of counts. The counts carry noise of known standard deviation s, and
the rows behind them are a sample: a cell of N rows varies by about sqrt(N). To first order both add
up in D(t) = (sum of w N) - t (sum of N), whose variance at the true t is the sum of
(s^2 + N) (w - t)^2. The interval is every t with |D(t)| within 1.96 standard deviations (Fieller):
it stays right where the denominator is noisy too, and is everything where that may be zero. Counts
are never cut at 0, which would bias every score.

The area under the ROC curve (`auc`) is counted by mid-ranks.
With P and N the counts of the two classes in score order and K = 1 below the diagonal, 1/2 on it,
AUC = P'KN / (sum P)(sum N). D(t) = P'(K - t)N is bilinear in independent counts, so its variance is
the sum of v h^2 + u k^2 + v u (K - t)^2, where v and u are the variances of P and N, h = (K - t)N
and k = (K - t)'P. Put in noisy counts, the first two terms hold the third twice; so it is taken off
once, and the estimate is unbiased.

Half of the pairs inside of one bin count as right. If scores are spread smoothly there, the slopes
a and b of the two densities, in units of their height and of the width of the bin, make it 1/2 +
(a - b) / 12. The neighbouring bins tell the slopes, and the interval covers both cases.
"""

import math
import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisette._typing import Floats

_Z = 1.959963984540054
_TRUSTED = 0.1  # most noise of a denominator, in units of itself


@dataclass(frozen=True)
class Score:
    """A score with its error bars.

    Parameters
    ----------
    value : float
        The estimate; with little data it may lie outside of what is possible, since cutting it off
        would bias means of it. NaN where nothing can be told.
    error : float
        Standard error, from noise and from the sample of rows.
    noise : float
        The part of it that is noise.
    low, high : float
        The 95 % interval.
    trusted : bool
        Whether the noise is small against the counts; if not, use the interval alone.
    places : int
        Decimals to show.

    Examples
    --------
    >>> from noisette.scores import Score
    >>> print(Score(0.91, 0.006, 0.004, 0.898, 0.922))
    0.910 ± 0.006 (95 %: 0.898 to 0.922)
    >>> Score(0.91, 0.006, 0.004, 0.898, 0.922).to_dict()["high"]
    0.922
    >>> Score(45052.2, 1596.3, 800.0, 41898.9, 48160.0, places=0).shown(45052.2)
    '45052'

    """

    value: float
    error: float
    noise: float
    low: float
    high: float
    trusted: bool = True
    places: int = 3

    def shown(self, number: float) -> str:
        """Return a number in the unit of the score, with as many decimals as make sense.

        Parameters
        ----------
        number : float
            The value, the error or an end of the interval.

        Returns
        -------
        str
            The number for people.

        """
        return f"{number:.{self.places}f}"

    @property
    def possible(self) -> float:
        """The value held within its interval: the noise may carry a share beyond 1."""
        return min(max(self.value, self.low), self.high)

    def __str__(self) -> str:
        value, error, low, high = map(self.shown, (self.possible, self.error, self.low, self.high))
        told = f"{value} ± {error} (95 %: {low} to {high})"
        return told if self.trusted else f"cannot tell well: 95 % interval {low} to {high}"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON, None for what cannot be told.

        Returns
        -------
        dict
            The fields by name.

        """
        known = {name: x for name, x in vars(self).items() if name != "places"}
        return {name: x if math.isfinite(x) else None for name, x in known.items()}


Parts = tuple[float, float, float]
"""(aa, ab, bb), where the variance of (top - t bottom) is aa - 2 t ab + t^2 bb."""


def _variance(parts: Parts, t: float) -> float:
    aa, ab, bb = parts
    return max(aa - 2.0 * t * ab + t * t * bb, 0.0)


def quotient(
    a: float, b: float, noise: Parts, sample: Parts, low: float = 0.0, high: float = 1.0
) -> Score:
    """Return the score of a quotient a / b that lies in [low, high]."""
    if b <= 0.0:
        return Score(math.nan, math.inf, math.inf, low, high, trusted=False)
    value = a / b
    of_noise, of_sample = _variance(noise, value), _variance(sample, value)
    aa, ab, bb = noise
    if of_sample > 0.0:  # an estimate, which noise may carry below 0
        aa, ab, bb = map(operator.add, noise, sample)
    lead, middle = b * b - _Z * _Z * bb, a * b - _Z * _Z * ab
    ends = (low, high)
    if lead > 0.0:
        root = math.sqrt(max(middle * middle - lead * (a * a - _Z * _Z * aa), 0.0))
        found = (middle - root) / lead, (middle + root) / lead
        ends = min(max(found[0], low), high), max(min(found[1], high), low)
    blur = math.sqrt(max(noise[2], 0.0))
    trusted = blur == 0.0 or (lead > 0.0 and blur <= _TRUSTED * b)
    return Score(
        value, math.sqrt(of_noise + of_sample) / b, math.sqrt(of_noise) / b, *ends, trusted
    )


def ratio(
    weights: Floats, counts: Floats, deviation: float, low: float = 0.0, high: float = 1.0
) -> Score:
    """Return the mean of `weights` over counted rows; counts have noise of that deviation."""
    w, n = np.asarray(weights, dtype=float), np.asarray(counts, dtype=float)
    s = deviation * deviation
    noise = (s * float(w @ w), s * float(w.sum()), s * float(w.size))
    sample = (float(w * w @ n), float(w @ n), float(n.sum()))
    return quotient(sample[1], sample[2], noise, sample, low, high)


def _below(x: Floats) -> Floats:
    """Return the sum of all smaller entries and half of the own, K x."""
    return np.asarray(np.cumsum(x) - x / 2.0)


def _pair_variance(P: Floats, N: Floats, v: Floats, u: Floats) -> Parts:
    """Return (aa, ab, bb) of the variance of D."""
    h, k = _below(N), P.sum() - _below(P)  # K N and K' P
    p, n, vs, us = P.sum(), N.sum(), v.sum(), u.sum()
    aa = v @ h**2 + u @ k**2 - (v @ _below(u) - v @ u / 4.0)
    ab = n * (v @ h) + p * (u @ k) - v @ _below(u)
    bb = n * n * vs + p * p * us - vs * us
    return float(aa), float(ab), float(bb)


def _inside(P: Floats, N: Floats, edges: Floats) -> float:
    """Return how many more pairs inside of bins are right than half, if scores are smooth there."""
    wide, middle = np.diff(edges), (edges[1:] + edges[:-1]) / 2.0
    apart = middle[2:] - middle[:-2]  # of fewer than three bins nothing, and no pair
    rise_p, rise_n = (((x / wide)[2:] - (x / wide)[:-2]) / apart for x in (P, N))
    return float(np.sum(wide[1:-1] ** 2 / 12.0 * (rise_p * N[1:-1] - rise_n * P[1:-1])))


def auc(positive: Floats, negative: Floats, deviation: float, edges: Floats | None = None) -> Score:
    """Return how often a positive row has a higher score than a negative one.

    `edges` are the ends of bins, where scores were rounded to bins.
    """
    P, N = np.asarray(positive, dtype=float), np.asarray(negative, dtype=float)
    s = np.full(len(P), deviation * deviation)
    noise = _pair_variance(P, N, s, s)
    aa, ab, bb = map(operator.sub, _pair_variance(P, N, s + P, s + N), noise)
    p, n = float(P.sum()), float(N.sum())
    # in standard deviations of noise and sample; those of nothing are a tiny number
    least = min(x / math.sqrt(max(float((s + X).sum()), 1e-12)) for x, X in ((p, P), (n, N)))
    if (deviation > 0.0 and least < 2.0) or min(p, n) <= 0.0:  # a class may well be empty
        return quotient(0.0, 0.0, noise, noise)
    found = quotient(float(P @ _below(N)), p * n, noise, (aa, ab, bb))
    lost = 0.0 if edges is None else _inside(P, N, edges) / (p * n)
    low, high = found.low + min(lost, 0.0), found.high + max(lost, 0.0)
    return replace(found, low=max(low, 0.0), high=min(high, 1.0))


class Told:
    """Scores that are shown as lines of text, with the rules by which rows were counted."""

    def __str__(self: Any) -> str:
        return "\n".join([*self.lines(), *self.notes])
