"""The moments accountant at complex orders: an independent check of the lattice engine.

The moment function α(z) = Σ count · log E_P e^{zL}, known as the moments accountant for real z,
determines δ exactly when it is used at complex z (a Laplace inversion).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.core.accounting.numerical.pairs import Pair
from noisette.core.accounting.numerical.plan import Cumulant, saddle
from noisette.errors import InvalidParameter
from reference.log_moments import has_log_moment, log_moment

Complexes = NDArray[np.complex128]
MOST_NODES = 3_000
THETAS = np.array([0.1, 0.2, 0.35, 0.6, 1.0])


@dataclass(frozen=True)
class ComplexOrderValue:
    """``value`` with ``error``, the bound on aliasing and truncation in the same unit.

    ``valid`` is False when the characteristic function did not decay (few steps, lattice losses):
    the number must not be used then. The error of ``log_moment`` itself is not included.
    """

    value: float
    error: float
    valid: bool


def _moment(parts: Sequence[tuple[Pair, int]], z: Complexes) -> Complexes:
    total = np.zeros(len(z), dtype=np.complex128)
    for pair, count in parts:
        if not has_log_moment(pair):
            raise InvalidParameter(f"{type(pair).__name__} has no moment function.")
        total += count * log_moment(pair, z)
    return total


class _Inversion:
    """δ(ε) = (1/2π) ∫ e^{α(t+iω)-(t+iω)ε} / ((t+iω)(t+1+iω)) dω.  # proof: COMPLEX-ORDER

    The trapezoid rule with step Δω equals Σ_k e^{tkΛ} δ(ε+kΛ), Λ = 2π/Δω, all terms >= 0: an upper
    bound of δ whose error is at most 1/(e^{tΛ}-1) + Σ_{k>=1} e^{tkΛ} δ(ε+kΛ).
    """

    def __init__(self, parts: Sequence[tuple[Pair, int]], tilt: float, spread: float) -> None:
        self.tilt = tilt
        self.parts = parts
        self.span = spread
        step = 2 * math.pi / spread
        base = float(_moment(parts, np.array([complex(tilt)]))[0].real)
        nodes: list[Floats] = []
        values: list[Complexes] = []
        block, start, quiet = 64, 0, 0
        while start < MOST_NODES and quiet < 2:
            omega = np.asarray(step * np.arange(start, start + block), dtype=np.float64)
            value = _moment(parts, np.asarray(tilt + 1j * omega, dtype=np.complex128))
            nodes.append(omega)
            values.append(value)
            quiet = quiet + 1 if float(value.real.max()) < base - 40 else 0
            start += block
            block = min(2 * block, 512)
        self.valid = quiet >= 2
        self.omega, self.alpha = np.concatenate(nodes), np.concatenate(values)
        weight = np.full(len(self.omega), step / math.pi)
        weight[0] /= 2
        z = tilt + 1j * self.omega
        self.kernel = weight / (z * (z + 1))
        orders = tilt * (1 + THETAS)
        self.right = list(
            zip(orders, _moment(parts, np.asarray(orders, dtype=np.complex128)).real, strict=True)
        )

    def delta(self, epsilon: float) -> float:
        """Trapezoid value, an upper bound up to truncation."""
        z = self.tilt + 1j * self.omega
        exponent = self.alpha - z * epsilon
        if float(exponent.real.max()) > 600:
            return math.inf
        return float((np.exp(exponent) * self.kernel).sum().real)

    def error(self, epsilon: float) -> float:
        """Aliases on both sides by Chernoff bounds, plus the cut tail of frequencies."""
        left = 1 / math.expm1(min(self.tilt * self.span, 700.0))
        right = 1.0
        for order, moment in self.right:
            gap = (order - self.tilt) * self.span
            exponent = float(moment) - order * epsilon - gap
            right = min(right, math.exp(min(exponent, 0.0)) / -math.expm1(-min(gap, 700.0)))
        peak = math.exp(min(float(self.alpha[0].real) - self.tilt * epsilon, 600.0))
        return left + right + math.exp(-40) * peak / self.tilt


def complex_order_delta(parts: Sequence[tuple[Pair, int]], epsilon: float) -> ComplexOrderValue:
    """δ at ``epsilon`` of the composition ``[(pair, count), ...]`` in one neighbour order."""
    cumulant = Cumulant([(pair, None, count) for pair, count in parts])
    tilt, bound = saddle(cumulant, epsilon=epsilon)
    inversion = _Inversion(parts, tilt, _spread(cumulant, tilt, epsilon, bound))
    return ComplexOrderValue(inversion.delta(epsilon), inversion.error(epsilon), inversion.valid)


def complex_order_epsilon(parts: Sequence[tuple[Pair, int]], delta: float) -> ComplexOrderValue:
    """ε at ``delta`` of the composition ``[(pair, count), ...]`` in one neighbour order.

    Valid for long compositions whose loss has a density (subsampled Gaussians from about 50
    steps); about 1 ms. ``error`` is in ε.
    """
    cumulant = Cumulant([(pair, None, count) for pair, count in parts])
    tilt, guess = saddle(cumulant, delta=delta)
    inversion = _Inversion(parts, tilt, _spread(cumulant, tilt, guess, delta))
    low, high = 0.0, max(guess, 1e-9)
    if inversion.delta(0.0) <= delta:
        return ComplexOrderValue(0.0, 0.0, inversion.valid)
    while inversion.delta(high) > delta and high < 1e7:
        low, high = high, 2 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if high - low <= 1e-13 * high:
            break
        low, high = (middle, high) if inversion.delta(middle) > delta else (low, middle)
    width = max(1e-6 * high, 1e-12)
    slope = (inversion.delta(high) - inversion.delta(high + width)) / width
    error = inversion.error(high) / slope if slope > 0 else math.inf
    return ComplexOrderValue(high, error + 1e-12 * high, inversion.valid)


def _spread(cumulant: Cumulant, tilt: float, epsilon: float, delta: float) -> float:
    """Alias period Λ that makes both aliases about 1e-13 of δ."""
    need = -math.log(1e-13 * max(delta, 1e-280))
    moments = cumulant(tilt * (1 + THETAS))
    right = float(((moments - tilt * epsilon + need) / (tilt * THETAS)).min()) - epsilon
    return max(need / tilt, right)
