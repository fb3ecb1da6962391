"""How many runs does an audit need? Exact binomial power, and the runs that betting really takes.

Run: ``python benchmarks/audit_power.py``. Size 0.1 %, power 99.9 %, one event known beforehand and
one order of the worlds: the least that any user of these tests needs. A real audit also pays for a
pilot and splits its error over both orders.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from noisette.audit import bounds
from noisette.audit.bounds import Betting, best_stake
from noisette.core.mechanisms.gaussian_curve import gdp_mu

SIZE, POWER = 1e-3, 0.999


def event_power(n: int, p: float, q: float, epsilon: float, delta: float) -> float:
    """Exact chance that Clopper-Pearson refutes (epsilon, delta) with n runs in each world."""
    return _power(n, p, q, lambda lower: (lower - delta) / math.exp(epsilon))


def mu_power(n: int, p: float, q: float, mu: float) -> float:
    """Exact chance that the GDP bound exceeds mu with n runs in each world."""
    return _power(n, p, q, lambda lower: stats.norm.cdf(stats.norm.ppf(lower) - mu))


def _power(n: int, p: float, q: float, most: Callable[[np.ndarray], np.ndarray]) -> float:
    """Sum over the counts k: refuted iff the upper bound of P' is below most(lower bound of P).

    Counts beyond nine standard deviations are left out; they weigh less than 1e-15.
    """
    k, j = _likely(n, p), _likely(n, q)
    upper = bounds.at_most(j, n, SIZE / 2)
    allowed = np.searchsorted(upper, most(bounds.at_least(k, n, SIZE / 2)), side="left") - 1
    chance = np.where(allowed >= 0, stats.binom.cdf(j[np.maximum(allowed, 0)], n, q), 0.0)
    return float(stats.binom.pmf(k, n, p) @ chance)


def _likely(n: int, p: float) -> np.ndarray:
    reach = 9.0 * math.sqrt(n * p * (1.0 - p)) + 20.0
    return np.arange(max(0, int(n * p - reach)), min(n, int(n * p + reach)) + 1)


def least_runs(power: Callable[[int], float]) -> int:
    """The least n with enough power, by bisection (power grows with n up to small ripples)."""
    high = 16
    while power(high) < POWER:
        high *= 2
        if high > 1 << 22:
            return -1
    low = high // 2
    while high - low > max(1, low // 500):
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def best(
    thresholds: np.ndarray, chances: Callable[[float], tuple[float, float]], power: Callable
) -> tuple[int, float]:
    """Return the fewest runs over a grid of thresholds, and the threshold."""
    found = []
    for t in thresholds:
        p, q = chances(float(t))
        runs = least_runs(lambda n, p=p, q=q: power(n, p, q))
        if runs > 0:
            found.append((runs, float(t)))
    return min(found)


def betting(p: float, q: float, epsilon: float, delta: float, repeats: int) -> tuple[float, float]:
    """Mean and 99.9 % quantile of the pairs that betting needs, and how often it was too slow."""
    generator, needed = np.random.default_rng(0), []
    stake = best_stake(p, q, epsilon, delta)
    for _ in range(repeats):
        test, done, found = Betting(epsilon, delta, SIZE, stake), 0, None
        while found is None and done < 1 << 20:
            a, b = generator.random(1024) < p, generator.random(1024) < q
            found = test.add(a, b)
            done += 1024 if found is None else found
        needed.append(done)
    return float(np.mean(needed)), float(np.quantile(needed, POWER))


def laplace(factor: float) -> Callable[[float], tuple[float, float]]:
    """P and P' of {x >= t} for Laplace noise whose true epsilon is `factor`, sensitivity 1."""
    return lambda t: (
        float(stats.laplace.sf(t, 1.0, 1.0 / factor)),
        float(stats.laplace.sf(t, 0.0, 1.0 / factor)),
    )


def gaussian(mu: float) -> Callable[[float], tuple[float, float]]:
    """P and P' of {x >= t} for two unit Gaussians at distance mu."""
    return lambda t: (float(stats.norm.sf(t - mu)), float(stats.norm.sf(t)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000, help="simulations of the betting test")
    options = parser.parse_args()
    print("| test | truth | runs in each world | betting: mean, 99.9 % |")
    print("|---|---|---|---|")
    for factor in (2.0, 1.5, 1.2, 1.1):
        grid = np.linspace(0.5, 1.1, 13)
        power = lambda n, p, q: event_power(n, p, q, 1.0, 0.0)  # noqa: E731
        runs, t = best(grid, laplace(factor), power)
        mean, tail = betting(*laplace(factor)(t), 1.0, 0.0, options.repeats)
        print(
            f"| event, Laplace, claim 1 | {factor:g} | {runs} (x >= {t:.2f}) "
            f"| {mean:.0f}, {tail:.0f} |",
            flush=True,
        )
    mu = gdp_mu(1.0, 1e-6)
    for factor in (2.0, 1.2):
        grid = np.linspace(0.0, 1.2, 13)
        power = lambda n, p, q: mu_power(n, p, q, mu)  # noqa: E731
        runs, t = best(grid, gaussian(factor * mu), power)
        print(f"| GDP, claim mu = {mu:.4f} | {factor:g} mu | {runs} (x >= {t:.2f}) | |", flush=True)
    power = lambda n, p, q: event_power(n, p, q, 1.0, 1e-6)  # noqa: E731
    runs, t = best(np.linspace(2.0, 3.0, 6), gaussian(2.0 * mu), power)
    print(f"| event, Gaussian, claim (1, 1e-6) | 2 mu | {runs} (x >= {t:.2f}) | |", flush=True)
    guesses = 2
    truth = 1.0 / (1.0 + math.exp(-2.0))
    while True:
        right = next(
            v for v in range(guesses + 2)
            if v > guesses or bounds.one_run_p_value(guesses, guesses, v, 1.0) <= SIZE
        )  # fmt: skip
        if stats.binom.sf(right - 1, guesses, truth) >= POWER:
            break
        guesses += 2
    print(f"| one-run guesses, randomised response | 2 | {guesses} guesses, {right} right | |")


if __name__ == "__main__":
    main()
