"""Floating-point error of a gradient, and the tolerance that float64 can certify.

Everything here depends on public facts only. u = 2^-53. Rows have norm <= R, weights lie in
[0, omega], W = sum of the weights <= n omega. For one parameter w the exact gradient is
G(w) = sum_i omega_i l'_i x_i + Lambda w + b and the computed one is g.

**ROUND-GRADIENT: ||g - G(w)|| <= E(w).** Three sources, for any order of summation, with or
without fused multiply-add (Higham 2002, section 3.1: an inner product of k terms errs by at
most gamma_k sum|a_i b_i|, gamma_k = ku/(1-ku)):

1. scores: |s_i - x_i.w| <= S u R||w||, S = 1.01 (d+2) by Cauchy-Schwarz. Through the
   derivative, which is c-Lipschitz in the score, a row's gradient moves by c R S u R||w||.
2. the derivative itself: at most ``loss.rounding`` u per row, and one product with omega_i.
3. the sum over rows: block sums of B rows added over N blocks: gamma_{B+N} sum |r_i| ||x_i||
   <= 1.01 (B+N) u R A, where r_i are the computed derivatives times omega_i and A >= sum |r_i| is
   their computed sum (for softmax of all entries, which bounds the sum of norms), or W L; then
   + b and + Lambda w: 3u(||sum|| + ||b|| + Lambda||w||).

**Rows that are not formed (`Scaled`).** J belongs to the formed rows x_i = (fl(c_i z_i), e_i), c_i
the clip's factor, e_i the constant, but a score is computed as fl(c_i (z_i.w')) + e_i w_d and the
sum over rows as sum (r_i c_i) z_i. The computed score is the sum of c_i z_ij w_j (1 + theta), with
k + 1 roundings at most without a constant and k + 2 with one, k the length of z_i; fl(c_i z_ij) =
c_i z_ij (1 + delta) is one more, in the denominator (Higham 2002, lemma 3.1, has the same bound for
both signs). With d = k, or k + 1 where there is a constant: d + 2, so S is what it was. A term of
the sum over rows goes through two more roundings, r_i c_i and that of the formed row: B + N + 2
(``Rows.depth``). Only rows with ||z_i|| <= 1e30 are treated so: what is lost by underflow is below
n 2^-1074 1e30, less than the distance bound is rounded up by.

**Exact blocks (Ozaki's splitting).** Write X = X1 + X2, w = w1 + w2 with X1 a multiple of
2^-25 R (power of two above R) and w1 of 2^-25 ||w||. Every partial sum of X1 w1 is an integer
below 2^53 in the product unit, so BLAS computes it without error in any order; the remainder
X2 w + X1 w2 has size 2.1 sqrt(d) 2^-25 R||w|| and errs by gamma_{d+3} of that. So
S = 1 + (d+3) sqrt(d) 2^-23. The sum over rows in blocks of at most 2^11 rows with 20-bit pieces
is exact in the same way, its remainder errs by (B+3) 2^-19 (sqrt(d) W + n omega) u L R, and
blocks are added with a compensated sum (2u). This is three products instead of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from noisette.fitting.losses import Loss

UNIT = 2.0**-53
EXACT_ROWS = 1 << 11
# A factor between what float64 can resolve and what we promise: Newton's method ends at about
# twice the rounding error, and the certificate adds the error once more.
_SLACK = 8.0
# the gap is the square of the distance: 3 here is 9 there
_SLACK_NONSMOOTH = 3.0
_RELATIVE_TOLERANCE = 1e-6
_PATH_WIDTH = 3e-11
_RELATIVE_TOLERANCE_NONSMOOTH = 1e-4
_LEAST_NONSMOOTH = 1e-5


@dataclass(frozen=True)
class PublicFacts:
    """What may be known before the data are seen; all fields are public numbers.

    ``total`` bounds the sum of all weights where less is known than rows x weight_bound: the rows
    of a person share one weight, so that it is the number of persons that counts.
    """

    rows: int
    features: int
    norm_bound: float
    weight_bound: float
    regularization: float
    linear_norm: float
    total: float | None = None

    @property
    def mass(self) -> float:
        """W: the sum of all weights is at most this."""
        most = self.rows * self.weight_bound
        return most if self.total is None else min(most, self.total)

    def optimum_norm(self, loss: Loss) -> float:
        """Bound on ||w*||: the smaller of (W L R + ||b||)/Lambda and the value bound.

        proof: SOLVER-NORM. 0 is in the subdifferential at w*, hence Lambda||w*|| <= W L R + ||b||.
        J(w*) <= J(0) and l >= 0: Lambda||w||^2/2 - ||b|| ||w|| <= W l(0).
        """
        mass = self.mass
        lam, b = self.regularization, self.linear_norm
        by_value = (b + float(np.sqrt(b * b + 2.0 * lam * mass * loss.value_at_zero))) / lam
        by_slope = (mass * loss.lipschitz * self.norm_bound + b) / lam
        return min(by_value, by_slope)


def gradient_error(
    loss: Loss, facts: PublicFacts, parameter_norm: float, mass: float, exact: bool, terms: int,
    pull: float | None = None,
) -> float:  # fmt: skip
    """E(w) of the module's docstring; ``terms`` = B + N for plain sums. proof: ROUND-GRADIENT.

    ``pull`` is A, the computed sum of the derivatives' absolute values, where it is known.
    """
    d, R = facts.features, facts.norm_bound
    score = R * parameter_norm
    slope = loss.derivative_bound(score)
    if exact:
        scores = 1.0 + (d + 3.0) * np.sqrt(d) * 2.0**-23
        spread = (EXACT_ROWS + 3.0) * 2.0**-19
        summed = 4.0 * mass + spread * (np.sqrt(d) * mass + facts.rows * facts.weight_bound)
        summed *= slope
    else:
        scores, summed = d + 2.0, (terms + 1.0) * mass * slope
        if pull is not None:  # 1e-6: A is itself a sum of up to 2^33 terms
            summed = min(summed, (terms + 1.0) * pull * (1.0 + 1e-6))
    rows = mass * R * (loss.smoothness * score * scores + loss.rounding(score) + slope)
    tail = mass * slope * R + facts.linear_norm + facts.regularization * parameter_norm
    # 1.02: gamma_k against ku, and the roundings of this very formula
    return float(1.02 * UNIT * (rows + summed * R + 4.0 * tail))


def dual_error(facts: PublicFacts, mass: float, terms: int) -> float:
    """Rounding error of w(alpha) = (sum alpha_i y_i x_i - b)/Lambda, 0 <= alpha <= omega."""
    size = mass * facts.norm_bound + facts.linear_norm
    return float(1.02 * UNIT * (terms + 6.0) * size / facts.regularization)


def attainable_tolerance(loss: Loss, facts: PublicFacts) -> float:
    """Smallest tolerance on ||G|| (hinge: on Lambda x distance) we promise to certify.

    Smooth: 8 (E(w) + beta u ||w||) at the largest possible ||w*||, where beta = Lambda + W c R^2:
    the second term is what the nearest float64 point to w* leaves. Non-smooth: the duality gap is
    resolved to g = W u ((d+3) R||w|| + 2 + 4 R^2 omega/Lambda) + (Lambda/2) drift^2 (the third
    term: the last bit of one dual variable moves a margin so far), the distance to
    sqrt(g/Lambda) + drift/2; never below 1e-5 omega L R. proof: ROUND-ATTAINABLE.
    """
    mass = facts.mass
    norm = facts.optimum_norm(loss)
    if not np.isfinite(loss.smoothness):
        last_bit = 4.0 * facts.norm_bound**2 * facts.weight_bound / facts.regularization
        margin = (facts.features + 3.0) * facts.norm_bound * norm + 2.0 + last_bit
        gap = mass * UNIT * margin
        drift = dual_error(facts, mass, 8192 + facts.rows // 64)
        size = np.sqrt(gap * facts.regularization) + facts.regularization * drift
        # below 1e-5 and with a tiny Lambda, coordinate ascent may take longer than one waits
        least = _LEAST_NONSMOOTH * loss.lipschitz * facts.norm_bound * facts.weight_bound
        return max(least, float(_SLACK_NONSMOOTH * size))
    error = gradient_error(loss, facts, norm, mass, exact=True, terms=0)
    beta = facts.regularization + mass * loss.smoothness * facts.norm_bound**2
    return float(_SLACK * (error + beta * UNIT * norm))


def default_tolerance(loss: Loss, facts: PublicFacts) -> float:
    """max(1e-6 omega L R, attainable); more for the hinge. Adds twice as much to the sensitivity.

    Relative to the weight cap omega, because one record's gradient, which sets the noise, is.

    For the squared error, whose L is infinite, L is read at score 0: the target bound.

    The hinge's certificate is a duality gap, and a distance t needs a gap of Lambda t^2, which for
    large Lambda is soon below what any solver can reach. At width h of the smoothed path the gap
    is at most (total weight) h (HINGE-PATH), so tolerance^2 = Lambda (total weight) 3e-11 is
    reached at h = 3e-11 at the latest, without luck: 1 % of L R for n = 24,000, Lambda = 150.
    """
    smooth = np.isfinite(loss.smoothness)
    relative = _RELATIVE_TOLERANCE if smooth else _RELATIVE_TOLERANCE_NONSMOOTH
    wanted = relative * loss.derivative_bound(0.0) * facts.norm_bound * facts.weight_bound
    goal = max(wanted, attainable_tolerance(loss, facts))
    if smooth:
        return goal
    return max(goal, math.sqrt(facts.regularization * facts.mass * _PATH_WIDTH))
