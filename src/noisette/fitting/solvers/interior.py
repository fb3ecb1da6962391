"""The last resort for piecewise quadratic losses: an interior-point method that cannot stall.

The dual of the hinge, the Huber hinge and Huber's loss is a quadratic programme over a box,

  minimise q(a) = sum_i [omega_i curve_i (a_i/omega_i - centre_i)^2/2 - gain_i a_i]
                  + (Lambda/2)||w(a)||^2,   w(a) = (sum_i a_i z_i - b)/Lambda, z_i = sign_i x_i,

with omega_i low <= a_i <= omega_i high (``Loss.box_dual``), and w* = w(a*).

**SOLVER-INTERIOR.** Let F = -sum log(a - low) - log(high - a), which has parameter nu = 2n, and
lambda(a) Newton's decrement of q/mu + F. (i) A full step from lambda <= 1/4 ends at lambda <= 1/9
and inside the box. (ii) Then mu may fall by the factor 1 + 1/(9 sqrt(nu)) and lambda <= 1/4 again:
1.08/9 + 1/9 < 1/4. (iii) At lambda <= 1/9, q(a) - q* <= 2 mu nu, so ||w(a) - w*|| <=
2 sqrt(mu nu/Lambda), and for the hinge the duality gap at (w(a), a) is at most 3 n mu. All three
are the textbook's (Nesterov, Introductory Lectures, 4.2); nothing depends on beta/Lambda, and no
second-order smoothness is used. Larger factors are tried first and given up for good when
20 steps do not reach lambda <= 1/4, at most 40 times. So at most
20 (40 + ceil(log(mu_0/mu_end)/log(1 + 1/(9 sqrt(nu))))) steps are made, a public number
(``limits.most_steps``), because mu_0 <= 2 n omega (high - low) max|q'| and mu_end is public.

**Arithmetic.** First in float64, which is fast and proves nothing; then in decimal arithmetic with
so many digits (public) that the relative error of a step is below 1e-20: its condition is at most
(n R^2 omega^2/(mu Lambda) + n) times (size/mu)^2, and the digits cover the square of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from typing import Any

import numpy as np
from scipy import linalg

from noisette._typing import Floats
from noisette.fitting.losses.blocks import back, weigh
from noisette.fitting.solvers.objective import DENSE_MODEL, Objective, cholesky, gram

FIRST_RATIO, TRIES, RETREATS = 10.0, 20, 40
_CENTRED = 0.25


def shortest_ratio(rows: int) -> float:
    """The factor by which mu may always fall. proof: SOLVER-INTERIOR."""
    return 1.0 + 1.0 / (9.0 * math.sqrt(2.0 * max(rows, 1)))


def interior_points(
    objective: Objective, last: float, digits: int | None
) -> Iterator[tuple[Floats, Floats]]:
    """Yield (w, a) in float64 at falling mu until mu <= ``last``.

    ``digits`` None computes in float64 and stops without a word where float64 fails.
    """
    path = _Path(objective, digits)
    yield path.point()  # the optimum when no row is present: mu is then 0
    ratio, shortest, retreats = FIRST_RATIO, shortest_ratio(objective.rows.n), 0
    while path.mu > last and retreats < RETREATS:
        if path.reduce(ratio):
            yield path.point()
            continue
        ratio, retreats = max(math.sqrt(ratio), shortest), retreats + 1
        if digits is None and ratio < 1.1:
            return


class _Path:
    """One point near the central path, and the arithmetic that moves it."""

    def __init__(self, objective: Objective, digits: int | None) -> None:
        self.objective = objective
        # no trap for rounding or underflow; the exponents are wide enough for every product
        self.context = Context(prec=digits or 50, Emax=MAX_EMAX, Emin=MIN_EMIN)
        self.exact = digits is not None
        self.fine: Any = 1e-24 if digits is None else Decimal(10) ** -digits
        dual = objective.loss.box_dual(objective.y)
        assert dual is not None
        n = objective.rows.n
        weight = weigh(np.ones(n), objective.omega)
        self.present = weight > 0.0
        # rows of weight 0 keep a box of their own, far from everything, and are masked
        with localcontext(self.context):
            self.sign, low, high, self.curve, self.centre, self.gain = (
                self.number(np.broadcast_to(part, (n,))) for part in dual
            )
            self.omega = self.number(np.where(self.present, weight, 1.0))
            self.mask = self.number(self.present.astype(float))
            self.low, self.high = low * self.omega, high * self.omega
            self.a = (self.low + self.high) / 2
            self.lam = self.scalar(objective.lam)
            self.b = self.number(objective.linear)
            self.w = (self.back(self.a) - self.b) / self.lam
            pull = self.slope() * (self.high - self.low) * self.mask
            self.mu = 2.0 * float(np.sum(pull * pull)) ** 0.5 + 1e-290

    def number(self, values: Any) -> Any:
        """The array in this arithmetic; a float64 is an exact decimal number."""
        array = np.asarray(values, dtype=np.float64)
        if not self.exact:
            return array.copy()
        exact = np.array([Decimal(float(v)) for v in array.ravel()], dtype=object)
        return exact.reshape(array.shape)

    def scalar(self, value: float) -> Any:
        """One number in this arithmetic."""
        return Decimal(value) if self.exact else value

    def slope(self) -> Any:
        """q'(a)."""
        bent = self.curve * (self.a / self.omega - self.centre)
        return bent - self.gain + self.scores(self.w)

    def scores(self, v: Any) -> Any:
        """z_i . v for every row."""
        if not self.exact:
            return self.sign * self.objective.rows.scores(v)
        out = np.empty(self.objective.rows.n, dtype=object)
        out[:] = Decimal(0)
        for part, rows, columns, values in self._entries():
            np.add.at(out[part], rows, values * v[columns])
        return out * self.sign

    def back(self, values: Any) -> Any:
        """sum_i values_i z_i over the rows that are present."""
        values = values * self.sign * self.mask
        if not self.exact:
            total: Any = np.zeros(self.objective.shape)
            for part, block in self.objective.rows.blocks():
                total += back(block, values[part])
            return total
        total = self.number(np.zeros(self.objective.shape))
        for part, rows, columns, entries in self._entries():
            np.add.at(total, columns, entries * values[part][rows])
        return total

    def _entries(self) -> Iterator[tuple[slice, Any, Any, Any]]:
        """(rows of a block, row in it, column, exact value) of the entries that are not 0."""
        for part, block in self.objective.rows.blocks():
            if self.objective.rows.is_sparse:
                block = block.tocoo()
                yield part, block.row, block.col, self.number(block.data)
            else:
                rows, columns = np.nonzero(block)
                yield part, rows, columns, self.number(block[rows, columns])

    def reduce(self, ratio: float) -> bool:
        """Divide mu and return to the path; False, and nothing changed, if that takes long."""
        before = self.a, self.w
        mu = self.mu / ratio
        with localcontext(self.context):
            for _ in range(TRIES):
                decrement = self._step(self.scalar(mu))
                if decrement is None:
                    break
                if decrement <= _CENTRED:
                    self.mu = mu
                    return True
        self.a, self.w = before
        return False

    def _step(self, mu: Any) -> float | None:
        """One Newton step, shortened outside lambda <= 1/4; lambda before it, None if undefined."""
        under, over = self.a - self.low, self.high - self.a
        residual = (self.slope() - mu / under + mu / over) * self.mask
        bend = self.curve / self.omega + mu / (under * under) + mu / (over * over)
        v = self._solve(1 / bend, -self.back(residual / bend))
        move = -(residual + self.scores(v) * self.mask) / bend
        square = float(-np.sum(move * residual) / mu)
        if not -1e-9 <= square < math.inf:
            return None
        decrement = math.sqrt(max(square, 0.0))  # below 0 by rounding only
        length = 1.0
        if decrement > _CENTRED:  # nine tenths of the way to the box's wall: only a guess
            nearest = float(np.max(np.maximum(-move / under, move / over)))
            length = min(1.0, 0.9 / nearest) if nearest > 0.0 else 1.0
        step = self.scalar(length)
        a, w = self.a + step * move, self.w + step * v
        if not bool(np.all((a > self.low) & (a < self.high))):
            return None
        self.a, self.w = a, w
        return decrement

    def _solve(self, weights: Any, right: Any) -> Any:
        """(Lambda I + sum weights_i z_i z_i')^-1 right."""
        d = self.objective.rows.d
        if not self.exact and d <= DENSE_MODEL:
            matrix = self.lam * np.eye(d)
            for part, block in self.objective.rows.blocks():
                matrix += gram(block, (weights * self.mask)[part])
            factor = cholesky(matrix)
            if factor is None:
                return np.full(d, np.nan)
            return np.asarray(linalg.cho_solve(factor, right, check_finite=False))
        # conjugate gradients: d steps are enough when nothing is rounded away
        x, p, residual = right * 0, right, right
        first = rho = np.sum(residual * residual)
        for _ in range(2 * d + 10):
            if rho <= first * self.fine:
                break
            bent = self.lam * p + self.back(weights * self.scores(p))
            step = rho / np.sum(p * bent)
            x, residual = x + step * p, residual - step * bent
            rho, previous = np.sum(residual * residual), rho
            p = residual + (rho / previous) * p
        return x

    def point(self) -> tuple[Floats, Floats]:
        """(w, a) rounded to float64, a inside its box and 0 on rows that are absent."""
        w, a, low, high = (v.astype(np.float64) for v in (self.w, self.a, self.low, self.high))
        return w, np.where(self.present, np.clip(a, low, high), 0.0)
