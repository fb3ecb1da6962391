"""Exact densities of objective perturbation in one and two dimensions, and spies on releases.

Nothing here uses the code under test except the losses: densities come from the change of variables
p_D(theta) = p_b(-G_D(theta)) det H_D(theta), G_D the gradient of the objective without noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit, log_expit, log_ndtr, ndtr

from helpers import watching
from noisette.core.adjacency import Adjacency
from noisette.core.door import NoiseStream
from noisette.core.ledger import Ledger
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.core.randomness import Randomness
from noisette.fitting.algorithms import Algorithm, Public, Records, Trained, train
from noisette.fitting.losses import Loss

SIZE = 1e-6
"""The probability with which a right implementation fails a statistical test (fixed seeds)."""
ADJACENCIES = ("replace-one", "zero-out", "add-remove")


@dataclass(frozen=True)
class Facts:
    """Public facts but for the loss and the shape of the data, and the ledger to charge.

    `size` bounds the number of rows; under add-remove n itself is not public.
    """

    epsilon: float
    delta: float
    ledger: Ledger
    norm_bound: float = 1.0
    regularization: float = 5.0
    size: int = 1000
    weight_bound: float = 1.0

    @property
    def adjacency(self) -> Adjacency:
        return self.ledger.adjacency

    def public(
        self, loss: Loss, features: int, models: int = 1, guess: int | None = None
    ) -> Public:
        known = self.size if self.adjacency.size_is_public else None
        return Public(
            epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency,
            size=known if guess is None else guess, most=self.size, loss=loss, features=features,
            norm_bound=self.norm_bound, regularization=self.regularization,
            weight_bound=self.weight_bound, models=models,
        )  # fmt: skip


def facts(adjacency: str, epsilon: float = 1.0, delta: float = 0.0, **changed: Any) -> Facts:
    return Facts(epsilon, delta, Ledger(epsilon, delta, adjacency=adjacency), **changed)


def one_shot(
    algorithm: Algorithm[Any], rows: Any, targets: list[Any], loss: Loss, known: Facts,
    randomness: Randomness, *, sample_weight: Any = None, guess: int | None = None,
    observer: Any = None,
) -> Trained:  # fmt: skip
    """Train once on these rows, one model for each target vector, and charge `known.ledger`."""
    public = known.public(loss, rows.shape[1], len(targets), guess)
    records = Records(rows, targets, sample_weight)
    with watching(observer):
        return train(algorithm, public, records, ledger=known.ledger, randomness=randomness)


def mechanisms(trained: Any) -> list[Any]:
    """The noise that was charged, leaf by leaf."""
    return [leaf.mechanism for leaf, _ in trained.permit.plan.leaves()]


@dataclass
class Spy:
    """Keeps what went through the door, what was drawn for a solver, and what was solved."""

    seen: list[tuple[Any, Any, int]] = field(default_factory=list)
    drawn: list[np.ndarray] = field(default_factory=list)
    solved: list[dict[str, Any]] = field(default_factory=list)

    def release(
        self, real: Any, bounded: Any, permit: Any, randomness: Any, *, part: int = 0
    ) -> Any:
        result = real(bounded, permit, randomness, part=part)
        self.seen.append((bounded, permit.leaf(part).mechanism, part))
        if isinstance(result, NoiseStream):
            return _Tapped(result, self.drawn)
        return result

    def minimise(self, real: Any, loss: Any, X: Any, y: Any, **options: Any) -> Any:
        solution = real(loss, X, y, **options)
        self.solved.append({"rows": X, "solution": solution, **options})
        return solution


@dataclass
class PaidFirst:
    """Asserts that the ledger was charged before anything crosses the door."""

    ledger: Ledger
    spent: tuple[float, float]
    crossings: int = 0

    def release(self, real: Any, *given: Any, **named: Any) -> Any:
        assert self.ledger.spent == self.spent
        self.crossings += 1
        return real(*given, **named)


@dataclass
class _Tapped:
    stream: Any
    drawn: list[np.ndarray]

    def take(self, count: int) -> np.ndarray:
        block = self.stream.take(count)
        self.drawn.extend(block.copy())
        return block


def gamma_radius_p(vectors: np.ndarray, scale: float) -> float:
    """Two-sided p-value: radii of density exp(-|z|/scale) in d dimensions sum to Gamma(N d)."""
    count, d = vectors.shape
    total = float(np.linalg.norm(vectors, axis=1).sum()) / scale
    law = stats.gamma(count * d)
    return float(2.0 * min(law.cdf(total), law.sf(total)))


def chi_square_p(vectors: np.ndarray, scale: float) -> float:
    """Two-sided p-value: squares of N(0, scale^2) entries sum to chi-square."""
    law = stats.chi2(vectors.size)
    total = float(np.sum(vectors**2)) / scale**2
    return float(2.0 * min(law.cdf(total), law.sf(total)))


def gaussian_shape_p(vectors: np.ndarray, scale: float) -> float:
    """Kolmogorov-Smirnov on all entries: the law itself, not only its size."""
    return float(stats.kstest(vectors.ravel() / scale, "norm").pvalue)


def spherical_shape_p(vectors: np.ndarray, scale: float) -> float:
    """Kolmogorov-Smirnov on the radii."""
    radii = np.linalg.norm(vectors, axis=1) / scale
    return float(stats.kstest(radii, stats.gamma(vectors.shape[1]).cdf).pvalue)


def noise_scale(mechanism: AdditiveNoise, contribution: float) -> float:
    return mechanism.noise_multiplier * contribution


# --- one dimension ---------------------------------------------------------------------------


def hs(mu: float, epsilon: Any) -> Any:
    """The curve of N(mu, 1) against N(0, 1), every real epsilon."""
    e = np.asarray(epsilon, dtype=float)
    with np.errstate(over="ignore"):
        second = np.exp(e + log_ndtr(-mu / 2.0 - e / mu))
    return ndtr(mu / 2.0 - e / mu) - second


@dataclass(frozen=True)
class Curve:
    """l', l'' of a decreasing margin loss, for oracles."""

    slope: Callable[[np.ndarray], np.ndarray]
    bend: Callable[[np.ndarray], np.ndarray]


LOGISTIC = Curve(lambda m: -expit(-m), lambda m: expit(m) * expit(-m))


def softplus(s: float) -> Curve:
    return Curve(
        lambda m: -expit(s * (1.0 - m)), lambda m: s * expit(s * (1.0 - m)) * expit(-s * (1.0 - m))
    )


def huber(h: float) -> Curve:
    return Curve(
        lambda m: -np.clip((1.0 + h - m) / (2.0 * h), 0.0, 1.0),
        lambda m: np.where(np.abs(1.0 - m) <= h, 1.0 / (2.0 * h), 0.0),
    )


@dataclass(frozen=True)
class Line:
    """A data set on a line: signed rows and their multiplicities (or weights)."""

    rows: tuple[float, ...]
    counts: tuple[float, ...]
    curve: Curve = LOGISTIC

    def plus(self, row: float, weight: float = 1.0) -> "Line":
        return Line((*self.rows, row), (*self.counts, weight), self.curve)

    def gradient(self, theta: np.ndarray, lam: float) -> np.ndarray:
        out = lam * theta
        for x, c in zip(self.rows, self.counts, strict=True):
            out = out + c * x * self.curve.slope(theta * x)
        return out

    def hessian(self, theta: np.ndarray, lam: float) -> np.ndarray:
        out = np.full_like(theta, lam)
        for x, c in zip(self.rows, self.counts, strict=True):
            out = out + c * x * x * self.curve.bend(theta * x)
        return out

    def theta(self, b: np.ndarray, lam: float) -> np.ndarray:
        """The minimiser under the linear term b, by bisection."""
        reach = sum(c * abs(x) for x, c in zip(self.rows, self.counts, strict=True))
        low, high = (-b - reach) / lam - 1e-9, (-b + reach) / lam + 1e-9
        for _ in range(60):
            middle = 0.5 * (low + high)
            up = self.gradient(middle, lam) + b < 0.0
            low, high = np.where(up, middle, low), np.where(up, high, middle)
        return 0.5 * (low + high)


EMPTY = Line((), ())


def log_gauss(scale: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda b: -0.5 * (b / scale) ** 2 - math.log(scale * math.sqrt(2.0 * math.pi))


def log_laplace(scale: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda b: -np.abs(b) / scale - math.log(2.0 * scale)


def line_losses(
    first: Line, second: Line, lam: float, log_density: Any, b: np.ndarray
) -> np.ndarray:
    """The exact loss log p_first / p_second at theta_first(b), in any dimension-one law."""
    theta = first.theta(b, lam)
    other = -second.gradient(theta, lam)
    return (
        log_density(b)
        + np.log(first.hessian(theta, lam))
        - log_density(other)
        - np.log(second.hessian(theta, lam))
    )


def line_law(
    first: Line, second: Line, lam: float, law: str, scale: float, points: int = 20_001
) -> tuple[np.ndarray, np.ndarray]:
    """(losses, P-masses) by the trapezoid rule over the noise."""
    reach = 11.0 if law == "gaussian" else 45.0
    t = np.linspace(-reach, reach, points)
    log_density = log_gauss(scale) if law == "gaussian" else log_laplace(scale)
    mass = np.exp(log_density(t * scale)) * scale * (t[1] - t[0])
    return line_losses(first, second, lam, log_density, t * scale), mass / mass.sum()


def hockey_stick(losses: np.ndarray, mass: np.ndarray, epsilons: Any) -> np.ndarray:
    """E (1 - e^{eps - L})_+ for every epsilon."""
    e = np.atleast_1d(np.asarray(epsilons, dtype=float))
    return np.array([float(mass @ -np.expm1(np.minimum(0.0, x - losses))) for x in e])


def with_gaussian(losses: np.ndarray, mass: np.ndarray, mu: float, epsilon: float) -> float:
    """delta(epsilon) of (losses, mass) composed with a Gaussian of that mu: one integral."""
    return float(mass @ hs(mu, epsilon - losses))


def self_composed(
    losses: np.ndarray, mass: np.ndarray, times: int, epsilon: float, step: float = 2e-4
) -> float:
    """delta(epsilon) of `times` independent copies, losses split between neighbouring bins."""
    low, high = losses.min(), losses.max()
    size = int((high - low) / step) + 3
    place = (losses - low) / step
    left = np.floor(place).astype(int)
    right = place - left
    grid = np.bincount(left, mass * (1.0 - right), size)
    grid += np.bincount(left + 1, mass * right, size)
    length = 1 << math.ceil(math.log2(times * size))
    # the FFT's error is about 1e-16 of the total: far below the deltas (1e-6) asked for
    total = np.maximum(np.fft.irfft(np.fft.rfft(grid, length) ** times, length), 0.0)
    at = times * low + step * np.arange(length)
    return float(hockey_stick(at, total, epsilon)[0])


# --- two dimensions --------------------------------------------------------------------------


def log_spherical(scale: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda u, v: -np.hypot(u, v) / scale - math.log(2.0 * math.pi * scale * scale)


def log_gauss_plane(scale: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda u, v: -0.5 * (u * u + v * v) / scale**2 - math.log(2.0 * math.pi * scale**2)


def plane_log_density(
    rows: np.ndarray,
    counts: np.ndarray,
    lam: float,
    log_density: Any,
    grid: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """log p_D(theta) of logistic objective perturbation on a grid of theta in the plane."""
    u, v = grid
    g1, g2 = lam * u, lam * v
    h11, h22, h12 = np.full_like(u, lam), np.full_like(u, lam), np.zeros_like(u)
    for (x, y), c in zip(rows, counts, strict=True):
        m = x * u + y * v
        slope, bend = -c * expit(-m), c * np.exp(log_expit(m) + log_expit(-m))
        g1, g2 = g1 + slope * x, g2 + slope * y
        h11, h22, h12 = h11 + bend * x * x, h22 + bend * y * y, h12 + bend * x * y
    return log_density(-g1, -g2) + np.log(h11 * h22 - h12 * h12)


def softmax_log_density(
    rows: list[tuple[float, int, float]],
    lam: float,
    scale: float,
    basis: np.ndarray,
    grid: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """log p_D(V) for three classes and one feature: rows are (x, label, count), V in the plane."""
    u, v = grid
    g = [lam * u, lam * v]
    h11, h22, h12 = np.full_like(u, lam), np.full_like(u, lam), np.zeros_like(u)
    for x, label, c in rows:
        s = [x * (basis[k, 0] * u + basis[k, 1] * v) for k in range(3)]
        top = np.maximum(np.maximum(s[0], s[1]), s[2])
        e = [np.exp(one - top) for one in s]
        total = e[0] + e[1] + e[2]
        p = [one / total for one in e]
        for j in (0, 1):
            expected = sum(p[k] * basis[k, j] for k in range(3))
            g[j] = g[j] + c * x * (expected - basis[label, j])
        mean = [sum(p[k] * basis[k, j] for k in range(3)) for j in (0, 1)]
        second = [
            sum(p[k] * basis[k, i] * basis[k, j] for k in range(3))
            for i, j in ((0, 0), (1, 1), (0, 1))
        ]
        h11 = h11 + c * x * x * (second[0] - mean[0] ** 2)
        h22 = h22 + c * x * x * (second[1] - mean[1] ** 2)
        h12 = h12 + c * x * x * (second[2] - mean[0] * mean[1])
    return log_gauss_plane(scale)(-g[0], -g[1]) + np.log(h11 * h22 - h12 * h12)


def plane_delta(log_p: np.ndarray, log_q: np.ndarray, cell: float, epsilon: float) -> float:
    """The integral of (p - e^eps q)_+ on the grid."""
    gap = np.minimum(0.0, epsilon + log_q - log_p)
    return float(np.sum(np.exp(log_p) * -np.expm1(gap))) * cell
