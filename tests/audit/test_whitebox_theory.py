"""The auditor's closed forms against the reference's numbers, and against the library's curves."""

import math

import pytest

from noisette.audit.whitebox import theory
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.mechanisms import Gaussian, ObjectiveNoise, SphericalLaplace
from noisette.core.plans import Parallel, Repeat, Run, Sampled
from noisette.core.sampling import Poisson, Shuffle


@pytest.mark.parametrize(
    ("eps0", "epsilon", "dimension", "delta"),
    [
        (1.0, 0.5, 1, 0.221199), (1.0, 0.5, 2, 0.12270538), (1.0, 0.5, 3, 0.07517407),
        (1.0, 0.5, 10, 0.00775777), (1.0, 0.5, 50, 3.21e-6), (2.0, 1.0, 2, 0.25077784),
        (2.0, 1.0, 10, 0.01921315),
    ],
)  # fmt: skip
def test_spherical_laplace_has_the_reference_values(
    eps0: float, epsilon: float, dimension: int, delta: float
) -> None:
    assert theory.spherical_delta(eps0, epsilon, dimension) == pytest.approx(delta, rel=2e-3)


@pytest.mark.parametrize(
    ("dimension", "eps0"), [(2, 1.000181), (5, 1.013764), (10, 1.091191), (100, 2.468107)]
)
def test_spherical_laplace_is_inverted(dimension: int, eps0: float) -> None:
    assert theory.spherical_epsilon(eps0, 1e-6, dimension) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [(0.1, 1e-6, 36.304690), (1.0, 1e-6, 4.224679), (8.0, 1e-5, 0.600229)],
)
def test_gaussian_has_the_reference_values(epsilon: float, delta: float, sigma: float) -> None:
    assert theory.gaussian_epsilon(1.0 / sigma, delta) == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize("relation", [REPLACE_ONE, ZERO_OUT, ADD_REMOVE])
@pytest.mark.parametrize(
    "law",
    [
        SphericalLaplace(0.7, 3),
        ObjectiveNoise(2.0, 3, "spherical-laplace", 0.3),
        ObjectiveNoise(2.0, 3, "spherical-laplace", 1.7),
        ObjectiveNoise(2.0, 3, "spherical-laplace", 0.3, "one-signed"),
        ObjectiveNoise(2.0, 4, "spherical-laplace", 0.3, "softmax", 3),
    ],
)
def test_pure_epsilon_agrees_with_the_library(law, relation) -> None:
    assert theory.pure_epsilon(law, relation) == pytest.approx(law.pure_epsilon(relation), rel=1e-6)


def test_the_least_epsilon_of_a_plan() -> None:
    pure = Run(SphericalLaplace(2.0, 3))
    assert theory.least_epsilon(pure, 0.0, REPLACE_ONE) == 1.0
    assert theory.least_epsilon(pure, 0.0, ZERO_OUT) == 0.5
    assert theory.least_epsilon(Repeat(pure, 3), 0.0, REPLACE_ONE) == 3.0
    both = Parallel(pure, Run(SphericalLaplace(1.0, 3)))
    assert theory.least_epsilon(both, 0.0, REPLACE_ONE) == 2.0
    assert theory.least_epsilon(Run(Gaussian(2.0)), 0.0, REPLACE_ONE) == math.inf
    # every epoch of shuffled batches costs one whole step
    sweeps = Repeat(Sampled(Gaussian(4.0), Shuffle(10)), 4)
    assert theory.least_epsilon(sweeps, 1e-5, REPLACE_ONE) == pytest.approx(
        theory.gaussian_epsilon(1.0, 1e-5)
    )
    poisson = Repeat(Sampled(Gaussian(4.0), Poisson(0.1)), 40)
    assert 0.0 < theory.least_epsilon(poisson, 1e-5, REPLACE_ONE) < 1.5
