"""The lecture's printed constants against the right ones, on two explicit neighbours.

The neighbours (replace-one, d = 2) differ in one record, (a, +s) against (a, -s) with a = 0.2 and
a^2 + s^2 = 1. Everybody else pushes the first weight far down, so that both records are wrongly
classified by a wide margin and their gradients have almost norm 1; nobody else says anything about
the second weight.
"""

import math
from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from noisette import accounting, mechanisms, plans, sampling
from noisette._typing import Floats
from noisette.core.accounting.moments import log_moment
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms.gaussian_curve import gdp_delta
from noisette.core.plans import Repeat, Run
from noisette.fitting.losses import Logistic
from noisette.fitting.solvers import minimise

__all__ = [
    "conversions",
    "loss_tail",
    "objective_pair",
    "one_pass",
    "output_pair",
    "subsampling",
]


A = 0.2
OTHERS = 20_000
PUSH = 0.01  # the others' rows are (-PUSH, 0) with label +1
LAMBDA = 1.0  # n lambda


def neighbours() -> tuple[Floats, Floats]:
    """Return the two data sets, rows times label."""
    others = np.tile([-PUSH, 0.0], (OTHERS, 1))
    s = math.sqrt(1.0 - A * A)
    return np.vstack([others, [A, s]]), np.vstack([others, [A, -s]])


def _minimiser(signed: Floats) -> Floats:
    ones = np.ones(len(signed))
    found = minimise(Logistic(), signed, ones, regularization=LAMBDA, tolerance=1e-5)
    return np.asarray(found.weights)


def output_pair(epsilon: float) -> dict[str, Any]:
    """Return how far the minimiser moves, and the privacy loss of the printed Algorithm 1.

    `shift` is in units of 1 / (n lambda): Theorem 1 says at most 2. Algorithm 1 adds noise of
    density exp(-epsilon n lambda ||z||), so its worst loss is epsilon times that shift; noisette's
    output perturbation uses half the rate.
    """
    one, other = (_minimiser(signed) for signed in neighbours())
    shift = float(np.linalg.norm(one - other)) * LAMBDA
    right = mechanisms.SphericalLaplace.calibrated(epsilon, dimension=2)
    return {
        "shift": shift,
        "printed_loss": epsilon * shift,
        # The library's noise is stated per contribution: one record's share of the bound 2.
        "library_loss": shift / right.noise_multiplier,
    }


def objective_pair(epsilon: float) -> dict[str, Any]:
    """Return the largest privacy loss of the printed objective perturbation on the neighbours.

    b = sum of gradients pulled to the other side at the released w, density exp(-epsilon ||b||);
    the loss is epsilon (||b'|| - ||b||) + log det H - log det H'. Theorem 2 says at most
    epsilon + 2 log(1 + c / (n lambda)), c = 1/4.
    """
    one, other = neighbours()
    first = _minimiser(one)[0]
    worst = 0.0
    for second in np.linspace(-8.0, 8.0, 161):
        w = np.array([first, second])
        parts = []
        for signed in (one, other):
            g = expit(-(signed @ w))
            b = signed.T @ g - LAMBDA * w
            H = (signed.T * (g * (1.0 - g))) @ signed + LAMBDA * np.eye(2)
            parts.append(-epsilon * np.linalg.norm(b) + np.linalg.slogdet(H)[1])
        worst = max(worst, abs(parts[0] - parts[1]))
    printed = epsilon + 2.0 * math.log1p(0.25 / LAMBDA)
    right = 2.0 * epsilon + math.log1p(0.25 / LAMBDA)
    return {"worst_loss": worst, "printed_bound": printed, "right_bound": right}


def loss_tail(epsilon: float) -> dict[str, Any]:
    """Return delta and P(Z > epsilon) of N(1, 1) against N(0, 1): the second is far larger."""
    return {
        "delta": float(gdp_delta(1.0, epsilon)),
        "exceeds": float(ndtr(0.5 - epsilon)),  # Z ~ N(1/2, 1)
    }


def subsampling(rate: float, epsilon: float, n: int = 1000) -> dict[str, Any]:
    """Return the lecture's 2 gamma epsilon and the tight value, from the library's accountant."""
    mechanism = mechanisms.Laplace.calibrated(epsilon)
    step = plans.Sampled(mechanism, sampling.WithoutReplacement(round(rate * n), n))
    tight = accounting.ACCOUNTANTS["linear"]().epsilon(step, delta=0.0)
    return {"printed": 2.0 * rate * epsilon, "tight": tight}


def conversions(steps: int, delta: float) -> dict[str, Any]:
    """Return epsilon of `steps` queries of sensitivity 1 with N(0, 1) noise, by each method.

    `closed` is the lecture's example solved by hand: eps = T/2 + sqrt(2 T log 1/delta).
    """
    plan = Repeat(Run(mechanisms.Gaussian(1.0)), steps)
    ask: dict[str, Any] = {"delta": delta, "adjacency": "add-remove"}
    s = np.array([0.5, 1.0, 4.0, 16.0])
    moment = log_moment(Run(mechanisms.Gaussian(1.0)), s, Adjacency.ADD_REMOVE)
    by_hand = steps / 2.0 + math.sqrt(2.0 * steps * math.log(1.0 / delta))
    return {
        "lecture": accounting.ACCOUNTANTS["moments"]().epsilon(plan, **ask),
        "closed": by_hand,
        "sharp": accounting.ACCOUNTANTS["renyi"]().epsilon(plan, **ask),
        "exact": accounting.epsilon(plan, **ask),
        "linear": accounting.ACCOUNTANTS["linear"]().epsilon(plan, **ask),
        "moment_error": float(np.abs(moment - s * (s + 1.0) / 2.0).max()),
        # the same curve by another formula, as a check of the exact column
        "delta_at_exact": _gaussian_delta(math.sqrt(steps), accounting.epsilon(plan, **ask)),
    }


def _gaussian_delta(mu: float, epsilon: float) -> float:
    return float(
        ndtr(mu / 2.0 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2.0 - epsilon / mu))
    )


def one_pass(epsilon: float) -> dict[str, Any]:
    """Return epsilon of one pass over 100 disjoint batches, each step epsilon-private."""
    mechanism = mechanisms.SphericalLaplace.calibrated(epsilon, dimension=5)
    step = plans.Sampled(mechanism, sampling.Disjoint.of_size(10_000, 100))
    return {"pass_epsilon": accounting.epsilon(step, delta=0.0)}
