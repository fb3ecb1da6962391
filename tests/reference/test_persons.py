"""PERSON-MEAN: objective perturbation when the unit is a person with several rows."""

import math

import numpy as np
import pytest
from scipy.special import expit

from noisette.core.accounting import calibrate, delta, epsilon
from noisette.core.accounting.objective_pair import ObjectiveTable
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE
from noisette.core.mechanisms import Gaussian, ObjectiveNoise
from noisette.core.plans import Repeat, Run, Together


def noise(z: float, k: float, persons: bool = True, **given: object) -> ObjectiveNoise:
    shape = str(given.get("shape", "self-bounded"))
    law = str(given.get("law", "gaussian"))
    return ObjectiveNoise(z, 3, law, k, shape, int(str(given.get("classes", 2))), persons)


@pytest.mark.parametrize(
    ("target", "failure", "ratio"),
    [(0.1, 1e-6, 1.0002), (1.0, 1e-6, 1.0011), (4.0, 1e-6, 1.0029), (8.0, 1e-5, 1.0056)],
)
def test_a_person_costs_what_one_record_costs(target: float, failure: float, ratio: float) -> None:
    """The table of the review: noise relative to one Gaussian release, at the least Lambda."""
    z = calibrate(
        lambda z: Run(noise(z, target)), epsilon=target, delta=failure, adjacency="add-remove"
    )
    least = Gaussian.calibrated(target, failure, "add-remove").noise_multiplier
    assert ratio - 2e-4 <= z / least <= ratio + 1.5e-3


def test_replace_one_pays_little_more_than_a_record() -> None:
    z = calibrate(lambda z: Run(noise(z, 0.5)), epsilon=1.0, delta=1e-6, adjacency="replace-one")
    least = Gaussian.calibrated(1.0, 1e-6, "replace-one").noise_multiplier
    assert 1.0 <= z / least <= 1.003  # the review has 1.0006


@pytest.mark.parametrize("relation", ["add-remove", "zero-out", "replace-one"])
@pytest.mark.parametrize("shape", ["self-bounded", "one-signed", "softmax"])
def test_a_person_never_costs_less_than_a_record(relation: str, shape: str) -> None:
    for z, k in ((2.0, 0.4), (6.0, 0.2), (0.7, 3.0)):
        one = epsilon(Run(noise(z, k, False, shape=shape)), delta=1e-6, adjacency=relation)
        all_ = epsilon(Run(noise(z, k, shape=shape)), delta=1e-6, adjacency=relation)
        assert all_ >= one * (1.0 - 1e-3)
        assert all_ <= one * 1.2 + (k if shape == "one-signed" else 0.0)


def _exact(rows: np.ndarray, weights: np.ndarray, ridge: float, sigma: float, eps: float,
           others: np.ndarray) -> tuple[float, float]:  # fmt: skip
    """Return delta(eps) of both orders for a person in one dimension, by quadrature."""
    reach = (8.0 * sigma + 5.0) / ridge
    theta = np.linspace(-reach, reach, 40_001)

    def log_density(extra: bool) -> np.ndarray:
        b, bend = -ridge * theta, np.full_like(theta, ridge)
        for x in others:
            b += x * expit(-x * theta)
            bend += x * x * expit(x * theta) * expit(-x * theta)
        if extra:
            for x, w in zip(rows, weights, strict=True):
                b += w * x * expit(-x * theta)
                bend += w * x * x * expit(x * theta) * expit(-x * theta)
        return -b * b / (2.0 * sigma * sigma) + np.log(bend / (sigma * math.sqrt(2.0 * math.pi)))

    held, left = np.exp(log_density(True)), np.exp(log_density(False))
    step = theta[1] - theta[0]
    assert held.sum() * step == pytest.approx(1.0, abs=1e-6)
    first = np.maximum(held - math.exp(eps) * left, 0.0).sum() * step
    return float(first), float(np.maximum(left - math.exp(eps) * held, 0.0).sum() * step)


def test_the_bound_holds_for_exact_persons_and_is_nearly_reached() -> None:
    """Hostile persons in one dimension: the largest exact / bound is near 1, never above."""
    worst, seen = 0.0, np.random.default_rng(5)
    for trial in range(60):
        count = 1 if trial < 10 else int(seen.integers(2, 5))
        rows = seen.choice([-1.0, 1.0], count) * seen.choice([1.0, 1.0, 0.6], count)
        weights = seen.dirichlet(np.ones(count))
        k, sigma = float(seen.uniform(0.1, 1.0)), float(seen.uniform(1.0, 3.0))
        eps = float(seen.uniform(0.2, 1.2))
        others = seen.choice([-1.0, 1.0], int(seen.integers(0, 4)))
        exact = _exact(rows, weights, 1.0 / k, sigma, eps, others)
        law = noise(sigma, k)
        for order, held in zip(exact, (True, False), strict=True):
            bound = ObjectiveTable(law, held).reading(eps)[0]
            assert order <= bound * (1.0 + 1e-6) + 1e-9
            worst = max(worst, order / bound)
    assert worst > 0.8


def test_pure_persons_pay_the_linear_determinant() -> None:
    """max over G of G (1 - G) k + G rate; two orthogonal half rows have 2 log(1 + k/2) > log."""
    rate = 0.5
    for k in (0.3, 0.5, 2.0, 10.0):
        law = noise(1.0 / rate, k, law="spherical-laplace")
        g = np.linspace(0.0, 1.0, 100_001)
        wanted = float((g * (1.0 - g) * k + g * rate).max())
        assert law.pure_epsilon(ADD_REMOVE) == pytest.approx(wanted, rel=1e-9)
    one_signed = noise(2.0, 0.3, law="spherical-laplace", shape="one-signed")
    assert one_signed.offset == 0.3
    assert noise(2.0, 0.3, False, shape="one-signed").offset == math.log1p(0.3)


def test_composition_uses_the_envelope_of_the_bound() -> None:
    """T = 4: below four times Renyi's worth and above the direct functional of the sum."""
    law, plain = noise(8.0, 0.2), noise(8.0, 0.2, False)
    for relation in ("add-remove", "replace-one"):
        four = delta(Repeat(Run(law), 4), epsilon=1.0, adjacency=relation)
        record = delta(Repeat(Run(plain), 4), epsilon=1.0, adjacency=relation)
        assert record * (1.0 - 2e-3) <= four <= 1.2 * record
    both = Together(Run(law), Run(Gaussian(5.0)))
    assert delta(both, epsilon=1.0, adjacency="add-remove") < 1.0


def test_the_curve_of_one_record_is_not_lent_to_persons() -> None:
    for relation in (ADD_REMOVE, REPLACE_ONE):
        assert noise(4.0, 0.5).delta(1.0, relation) == 1.0
        assert noise(4.0, 0.5, False).delta(1.0, relation) < 1e-2
