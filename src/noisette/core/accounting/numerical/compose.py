"""Composition of lattice pairs by one tilted Fourier power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.fft import irfft, rfft

from noisette._typing import Floats, Integers

NEGLECT = 45.0  # frequencies with |transform|^T below e^-45 are bounded, not summed
MANY = 1024  # with more frequencies than this, sums over the lattice itself are cheaper
UNIT = 2.0**-52


@dataclass(frozen=True)
class LatticePart:
    """One repeated step: P-masses at losses ``offset + step * index``.

    ``infinite`` is P-mass of infinite loss, on top of ``masses``.
    """

    index: Integers
    masses: Floats
    count: int
    infinite: float = 0.0
    offset: float = 0.0


class Composition:
    """δ(ε) of the composition of lattice parts.  # proof: TILT-FFT

    With the tilted masses p e^{t x}, a window of n steps and z_j = t - 2πij/(nh),
    δ̂(ε) = (1/n) Σ_j M(z_j) [ e^{-z_j mh}/(1-e^{-z_j h}) - e^ε e^{-(z_j+1)mh}/(1-e^{-(z_j+1)h}) ],
    m = floor(ε/h) + 1, M(z) = Π E e^{zL}. Poisson summation: δ̂(ε) = Σ_k e^{tknh} δ(ε + knh) with
    every term >= 0, so δ̂ is an upper bound of the lattice value; ``lower`` subtracts bounds on
    the terms k ≠ 0. Neglected frequencies and floating-point errors are added or subtracted too.
    """

    def __init__(self, parts: Sequence[LatticePart], step: float, tilt: float, window: int) -> None:
        self.step, self.tilt, self.window = step, tilt, window
        self.parts = list(parts)
        self.uses = self.shift = 0
        self.log_mass = 0.0
        power = np.zeros(window // 2 + 1)
        transforms, offsets, finite = [], [], []
        magnitude = 1.0
        for part in parts:
            self.uses += part.count
            offsets.append(part.count * part.offset)
            finite.append(
                part.count * (math.log1p(-part.infinite) if part.infinite < 1 else -math.inf)
            )
            weight, top = _tilted(part, tilt * step)
            total = float(weight.sum())
            if not total > 0:
                # a finite part without mass: only infinite losses remain
                self.log_mass = -math.inf
                total = 1.0
            self.log_mass += part.count * (top + math.log(total))
            magnitude += part.count * (abs(top) + abs(math.log(total)) + 4)
            first = int(part.index[0])
            self.shift += part.count * first
            folded = np.bincount((part.index - first) % window, weight / total, minlength=window)
            transform = rfft(folded)
            transforms.append((transform, part.count))
            square = transform.real**2 + transform.imag**2
            power += (0.5 * part.count) * np.log(np.maximum(square, 1e-300))
        kept = np.nonzero(power > -NEGLECT)[0]
        self._log = np.zeros(len(kept), dtype=np.complex128)
        noise = np.full(len(kept), magnitude)
        for transform, count in transforms:
            self._log += count * np.log(transform[kept])
            # the transform has absolute error ~ log2(n) units, hence relative error over |f|
            noise += (count * (4 + math.log2(window))) / np.abs(transform[kept])
        self._angle = (2 * math.pi / window) * kept
        fold = np.full(len(kept), 2.0 / window)
        fold[kept == 0] = 1.0 / window
        if window % 2 == 0:
            fold[kept == window // 2] = 1.0 / window
        z = tilt * step - 1j * self._angle
        self._first = fold / -np.expm1(-z)
        self._second = fold / -np.expm1(-(z + step))
        # Bound on the neglected sum and on rounding, both in units of e^{log_mass - t m h}.
        size = 1 / -math.expm1(-tilt * step) + 1 / -math.expm1(-(tilt + 1) * step)
        modulus = (np.exp(self._log.real) * noise) @ (np.abs(self._first) + np.abs(self._second))
        self._slack = math.exp(-NEGLECT) * size + 2 * UNIT * float(modulus)
        self._masses: Floats | None = None
        if len(kept) > MANY:
            self._to_lattice(kept, size)
        self.offset = math.fsum(offsets)
        self.infinite = -math.expm1(math.fsum(finite))

    def _to_lattice(self, kept: npt.NDArray[np.intp], size: float) -> None:
        """Short compositions keep all frequencies: transform back once, then sum masses."""
        n, h = self.window, self.step
        spectrum = np.zeros(n // 2 + 1, dtype=np.complex128)
        spectrum[kept] = np.exp(self._log)
        self._masses = irfft(spectrum, n)
        self._slack += 2 * UNIT * (4 + math.log2(n)) * size
        r = np.arange(n) * h
        first = np.exp(-self.tilt * r) / -math.expm1(-self.tilt * n * h)
        second = np.exp(-(self.tilt + 1) * r) / -math.expm1(-(self.tilt + 1) * n * h)
        self._weights = np.stack((first, second))

    def _sum(self, epsilon: float) -> tuple[float, float]:
        """δ̂ of the finite part and the slack (neglected frequencies, rounding)."""
        e = epsilon - self.offset
        h = self.step
        m = math.floor(e / h) + 1
        scale = self.log_mass - self.tilt * (m * h)
        if scale == -math.inf:
            return 0.0, 0.0
        # the two sums over m >= start of the periodic tilted masses, damped from ``start``
        start = (m - self.shift) % self.window
        if self._masses is None:
            phase = np.exp(self._log + 1j * (self._angle * float(start)))
            first, second = float((phase @ self._first).real), float((phase @ self._second).real)
        else:
            head = self.window - start
            a = self._weights[:, :head] @ self._masses[start:]
            b = self._weights[:, head:] @ self._masses[:start]
            first, second = float(a[0] + b[0]), float(a[1] + b[1])
        value = first - math.exp(e - m * h) * second
        if scale > 600:
            return math.inf, math.inf
        factor = math.exp(scale)
        return factor * value, factor * self._slack

    def upper(self, epsilon: float) -> float:
        """Certified upper bound on the composed δ(ε); never above 1."""
        value, slack = self._sum(epsilon)
        bound = max(value, 0.0) + slack + self.infinite
        # a comparison with NaN is False, so anything unexpected ends as the trivial bound
        return bound if bound <= 1.0 else 1.0

    def lower(self, epsilon: float) -> float:
        """Certified lower bound on the composed δ(ε); never below 0."""
        value, slack = self._sum(epsilon)
        if not (math.isfinite(value) and math.isfinite(slack)):
            return 0.0
        rounding = UNIT * (1 + self.tilt) * self.uses
        span = self.window * self.step
        left = 1 / math.expm1(min(self.tilt * self.window * self.step, 700.0))
        # Bound on the sum over k >= 1 of e^{tknh} delta(e + knh) by moments of order t(1+theta),
        # best of a few theta. No cap at 1: with its factor e^{tknh} a term can be far above it.
        e, best = epsilon - self.offset, math.inf
        for theta, cumulant in self._moments:
            order = self.tilt * (1 + theta)
            moment = (
                cumulant - order * e + order * math.log(order / (order + 1)) - math.log1p(order)
            )
            decay = self.tilt * theta * span
            best = min(best, moment - decay - math.log(-math.expm1(-min(decay, 700.0)) or 1e-300))
        alias = math.exp(best) if best < 700 else math.inf
        value = (value - slack) * (1 - rounding) - left - alias
        return min(max(value, 0.0) + self.infinite * (1 - 1e-12), 1.0)

    @cached_property
    def _moments(self) -> list[tuple[float, float]]:
        """θ and the log of the t(1+θ)-th moment of the composed finite loss, offsets left out."""
        found = []
        for theta in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0):
            total = 0.0
            for part in self.parts:
                weight, top = _tilted(part, self.tilt * (1 + theta) * self.step)
                mass = float(weight.sum())
                total += part.count * (top + (math.log(mass) if mass > 0 else -math.inf))
            found.append((theta, total))
        return found


def _tilted(part: LatticePart, rate: float) -> tuple[Floats, float]:
    """Masses · e^{rate·index - top}, with ``top`` chosen where the *product* is largest.

    Scaling by the largest index instead would underflow to an empty part (and δ = 0) when the top
    of the lattice carries no mass and the tilt is steep.
    """
    a = rate * part.index
    live = part.masses > 0
    if not live.any():
        return np.zeros(len(a)), 0.0
    top = float((a[live] + np.log(part.masses[live])).max())
    weight = np.zeros(len(a))
    weight[live] = np.exp(a[live] + np.log(part.masses[live]) - top)
    return weight, top
