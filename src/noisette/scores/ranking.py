"""The area under the ROC curve of a table of counts, by mid-ranks.

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
from dataclasses import replace

import numpy as np

from noisette._typing import Floats
from noisette.scores.score import Quotient, Score, quotient


def _below(x: Floats) -> Floats:
    """Return the sum of all smaller entries and half of the own, K x."""
    return np.asarray(np.cumsum(x) - x / 2.0)


def _variance(P: Floats, N: Floats, v: Floats, u: Floats) -> tuple[float, float, float]:
    """Return (aa, ab, bb) of the variance of D."""
    h, k = _below(N), P.sum() - _below(P)  # K N and K' P
    p, n, vs, us = P.sum(), N.sum(), v.sum(), u.sum()
    aa = v @ h**2 + u @ k**2 - (v @ _below(u) - v @ u / 4.0)
    ab = n * (v @ h) + p * (u @ k) - v @ _below(u)
    bb = n * n * vs + p * p * us - vs * us
    return float(aa), float(ab), float(bb)


def spread(variances: Floats) -> float:
    """Return the standard deviation of a sum of counts; of nothing it is a tiny number."""
    return math.sqrt(max(float(variances.sum()), 1e-12))


def _inside(P: Floats, N: Floats, edges: Floats) -> float:
    """Return how many more pairs inside of bins are right than half, if scores are smooth there."""
    wide, middle = np.diff(edges), (edges[1:] + edges[:-1]) / 2.0
    if len(P) < 3:
        return 0.0
    apart = middle[2:] - middle[:-2]
    rise_p, rise_n = (((x / wide)[2:] - (x / wide)[:-2]) / apart for x in (P, N))
    return float(np.sum(wide[1:-1] ** 2 / 12.0 * (rise_p * N[1:-1] - rise_n * P[1:-1])))


def auc(positive: Floats, negative: Floats, deviation: float, edges: Floats | None = None) -> Score:
    """Return how often a positive row has a higher score than a negative one.

    `edges` are the ends of bins, where scores were rounded to bins.
    """
    P, N = np.asarray(positive, dtype=float), np.asarray(negative, dtype=float)
    s = np.full(len(P), deviation * deviation)
    noise = _variance(P, N, s, s)
    whole = _variance(P, N, s + P, s + N)
    sample = tuple(x - y for x, y in zip(whole, noise, strict=True))
    p, n = float(P.sum()), float(N.sum())
    unsure = deviation > 0.0 and min(p / spread(s + P), n / spread(s + N)) < 2.0
    if unsure or min(p, n) <= 0.0:  # a class may well be empty
        return quotient(Quotient(0.0, 0.0, noise, noise))
    found = quotient(Quotient(float(P @ _below(N)), p * n, noise, sample))  # type: ignore[arg-type]
    lost = 0.0 if edges is None else _inside(P, N, edges) / (p * n)
    low, high = found.low + min(lost, 0.0), found.high + max(lost, 0.0)
    return replace(found, low=max(low, 0.0), high=min(high, 1.0))
