"""`NoisyWeights`: released weights with how much of each is noise, where released numbers tell."""

import math

import numpy as np
from scipy.stats import chi2

from noisette._typing import Floats
from noisette.fitting.losses import Loss
from noisette.fitting.losses.base import MarginLoss

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)


class NoisyWeights(list[Floats]):
    """The weights of one model; `noise` is about the deviation of each, None if it is not known."""

    noise: Floats | None = None


def _bends(loss: Loss, variance: float) -> tuple[float, float]:
    """Return E l''(s) and E l''(s) (s^2 / v - 1) over scores s of a normal law of variance v.

    By Stein's identity these are the curvature across the weights and what is added along them.
    Losses of a residual count as if no residual were beyond their threshold.
    """
    if not isinstance(loss, MarginLoss):
        return loss.initial_curvature, 0.0
    bend = loss.second_derivative(math.sqrt(max(variance, 0.0)) * _NODES)
    each = np.array([bend, bend * (_NODES**2 - 1.0)]) @ _WEIGHTS / _WEIGHTS.sum()
    return float(each[0]), float(each[1])


def kept_by_a_cut(values: Floats, bound: float) -> float:
    """Return the share of the squared length of normal rows that a cut to `bound` leaves.

    `values` are the eigenvalues of their second moment; the squared length is taken as a multiple
    of a chi-square law of the same mean and variance.
    """
    mean, spread = float(values.sum()), float(np.sum(values**2))
    if mean <= 0.0:
        return 1.0
    k, cut = mean**2 / spread, bound**2 * mean / spread
    return float(chi2.cdf(cut, k + 2.0) + cut / k * chi2.sf(cut, k))


def noise_of_minimiser(
    moment: Floats, theta: Floats, loss: Loss, *, count: float, bound: float, ridge: float,
    term: float, back: Floats,
) -> Floats:  # fmt: skip
    """Return about the deviation that a random linear term gives each weight of a minimiser.

    Near the minimum noise b moves the weights by -H^-1 b. H is estimated for normal rows of the
    released second `moment`, cut to `bound`, at the released weights, with Lambda = `ridge`; `term`
    is the deviation of each entry of b. `back` maps the weights to those that are published.
    """
    values, vectors = np.linalg.eigh(moment)
    values = np.maximum(values, 0.0)
    share = kept_by_a_cut(values, bound)
    rows = share * (vectors * values) @ vectors.T
    scores = float(theta @ rows @ theta)
    across, along = _bends(loss, scores)
    bend = across * rows
    if scores > 0.0:
        bend = bend + along / scores * np.outer(rows @ theta, rows @ theta)
    spread = np.linalg.inv(count * bend + ridge * np.eye(len(theta))) @ back
    return np.asarray(term * np.sqrt(np.sum(spread**2, axis=0)))
