"""Losses against 60-digit arithmetic, and the rounding constants the certificates rest on."""

import mpmath as mp
import numpy as np
import pytest

from noisette.fitting.losses import (
    Huber,
    HuberHinge,
    Logistic,
    Softmax,
    SoftplusHinge,
    Squared,
)

UNIT = 2.0**-53


def sigma(t):
    return 1 / (1 + mp.exp(-t)) if t > 0 else mp.exp(t) / (1 + mp.exp(t))


def exact(loss, t):
    """(l, l', l'') in multiple precision at the float t."""
    t = mp.mpf(float(t))
    if isinstance(loss, Logistic):
        return mp.log1p(mp.exp(-t)), -sigma(-t), sigma(t) * sigma(-t)
    if isinstance(loss, SoftplusHinge):
        s = mp.mpf(loss.temperature)
        z = s * (1 - t)
        return mp.log1p(mp.exp(z)) / s, -sigma(z), s * sigma(z) * sigma(-z)
    if isinstance(loss, HuberHinge):
        h = mp.mpf(loss.width)
        if t > 1 + h:
            return mp.mpf(0), mp.mpf(0), mp.mpf(0)
        if t < 1 - h:
            return 1 - t, mp.mpf(-1), mp.mpf(0)
        return (1 + h - t) ** 2 / (4 * h), -(1 + h - t) / (2 * h), 1 / (2 * h)
    if isinstance(loss, Huber):
        c = mp.mpf(loss.threshold)
        if abs(t) <= c:
            return t * t / 2, t, mp.mpf(1)
        return c * abs(t) - c * c / 2, c * mp.sign(t), mp.mpf(0)
    return t * t / 2, t, mp.mpf(1)


CASES = [
    Logistic(),
    SoftplusHinge(),
    SoftplusHinge(30.0),
    HuberHinge(),
    HuberHinge(0.01),
    Huber(),
    Huber(0.1),
    Squared(),
]


@pytest.mark.parametrize("loss", CASES, ids=repr)
def test_values_and_rounding_constant(loss):
    rng = np.random.default_rng(0)
    t = np.concatenate(
        [
            rng.normal(size=150) * 3,
            1 + 0.6 * rng.normal(size=100),
            10.0 ** rng.uniform(-8, 2.8, 60) * rng.choice([-1, 1], 60),
            [0.0, 1.0, -300.0, 300.0, 0.05, 0.049999],
        ]
    )
    value, slope, bend = loss.value(t), loss.derivative(t), loss.second_derivative(t)
    with mp.workdps(60):
        for i, point in enumerate(t):
            v, d1, d2 = exact(loss, point)
            # Huber's cases shrink quadratically at the edge of the band
            tiny = 1e-13 if isinstance(loss, HuberHinge | SoftplusHinge) else 0.0
            assert abs(value[i] - v) <= 1e-13 * abs(v) + 1e-15 * tiny + (1e-14 if tiny else 0)
            limit = loss.rounding(abs(float(point))) * UNIT
            assert abs(slope[i] - d1) <= limit
            at_jump = isinstance(loss, HuberHinge | Huber)
            if not at_jump:
                assert abs(bend[i] - d2) <= 1e-12 * max(abs(d2), 1e-300) + 1e-14 * loss.smoothness


def test_rounding_constant_is_not_idle():
    """A mutant allowance of a hundredth of a unit is rejected, so the check has teeth."""
    rng = np.random.default_rng(1)
    t = rng.normal(size=200)
    with mp.workdps(40):
        worst = max(abs(Logistic().derivative(p) - exact(Logistic(), p)[1]) for p in t)
    assert 0.01 * UNIT < worst <= Logistic().rounding(10.0) * UNIT


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_softmax_slopes_and_rounding(classes):
    loss = Softmax(classes)
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(30, classes - 1)) * rng.choice([0.1, 1, 10, 100], (30, 1))
    y = rng.integers(0, classes, 30)
    value, slopes = loss.at_scores(scores, y)
    with mp.workdps(50):
        Q = mp.matrix(classes, classes - 1)
        for j in range(1, classes):
            for k in range(j):
                Q[k, j - 1] = 1 / mp.sqrt(j * (j + 1))
            Q[j, j - 1] = -j / mp.sqrt(j * (j + 1))
        for i in range(30):
            full = Q * mp.matrix([mp.mpf(float(s)) for s in scores[i]])
            total = mp.fsum(mp.exp(f) for f in full)
            p = mp.matrix([mp.exp(f) / total for f in full])
            loss_value = mp.log(total) - full[int(y[i])]
            p[int(y[i])] -= 1
            slope = Q.T * p
            error = mp.norm(mp.matrix([mp.mpf(float(s)) for s in slopes[i]]) - slope)
            assert error <= loss.rounding(float(np.linalg.norm(scores[i]))) * UNIT
            assert abs(value[i] - loss_value) <= 1e-13 * (1 + np.linalg.norm(scores[i]))
