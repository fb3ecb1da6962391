"""The noise that is drawn has the law that is counted, and each test rejects a wrong law.

Every p-value below is compared with SIZE = 1e-6: a right law fails with probability 1e-6 per test
(seeds are fixed, so it fails never or always), and every mutant must fall below it.
"""

import math

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chi2, chisquare, gamma, ks_2samp, kstest, norm

from helpers import RELATIONS
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE
from noisette.core.bounded import Bounded, InKernel
from noisette.core.door import release
from noisette.core.ledger import Ledger
from noisette.core.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    RandomizedResponse,
    SphericalLaplace,
)
from noisette.core.plans import Repeat
from noisette.core.randomness import Randomness

SIZE = 1e-6


def two_sided(cdf: float, sf: float) -> float:
    return 2.0 * min(cdf, sf)


def scale_pvalue(values: np.ndarray, sigma: float) -> float:
    """Chi-square test that independent N(0, sigma^2) numbers have that scale."""
    n, total = values.size, float(np.sum((values / sigma) ** 2))
    return two_sided(chi2.cdf(total, n), chi2.sf(total, n))


def radius_pvalue(vectors: np.ndarray, scale: float) -> float:
    """The sum of N radii of spherical Laplace vectors is Gamma(N d) in units of the scale."""
    n, d = vectors.shape
    total = float(np.linalg.norm(vectors, axis=1).sum()) / scale
    return two_sided(gamma.cdf(total, n * d), gamma.sf(total, n * d))


def shape_pvalue(vectors: np.ndarray, scale: float) -> float:
    """KS test that radii are Gamma(d): for the shape; `radius_pvalue` guards the scale."""
    d = vectors.shape[1]
    return float(kstest(np.linalg.norm(vectors, axis=1) / scale, gamma(d).cdf).pvalue)


def direction_pvalue(vectors: np.ndarray) -> float:
    """z-test on the fourth moment of unit vectors, E u^4 = 3 / (d (d + 2)) per coordinate."""
    d = vectors.shape[1]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    fourth = (unit**4).sum(axis=1)
    z = (fourth.mean() - 3.0 / (d + 2.0)) / (fourth.std() / math.sqrt(len(fourth)))
    return 2.0 * float(norm.sf(abs(z)))


def generator(seed: int) -> np.random.Generator:
    return Randomness.from_seed(seed).generator


# ---- Gaussian ----


def test_gaussian_noise_has_its_scale_and_ten_percent_less_is_caught():
    drawn = Gaussian(1.7).noise(4_000, 5, 0.3, generator(1))
    assert scale_pvalue(drawn, 1.7 * 0.3) > SIZE
    assert scale_pvalue(0.9 * drawn, 1.7 * 0.3) < SIZE
    assert scale_pvalue(drawn / 0.95, 1.7 * 0.3) < SIZE
    assert kstest(drawn.ravel() / 0.51, norm.cdf).pvalue > SIZE
    assert kstest(generator(2).laplace(size=20_000) / math.sqrt(2), norm.cdf).pvalue < SIZE


def test_gaussian_coordinates_and_vectors_are_uncorrelated():
    """Largest of 10 correlations over 4,000 vectors, Bonferroni at 1e-6."""
    drawn = Gaussian(1.0).noise(4_000, 5, 1.0, generator(3))

    def worst(a, b):
        z = (a * b).sum(axis=0) / math.sqrt(len(a))
        return 2.0 * a.shape[1] * norm.sf(np.abs(z).max())

    assert worst(drawn[:, :-1], drawn[:, 1:]) > SIZE
    assert worst(drawn[:-1], drawn[1:]) > SIZE
    assert worst(drawn[:-1], np.repeat(drawn[:1], 3_999, axis=0) * 0 + drawn[:-1]) < SIZE


# ---- spherical Laplace ----


@pytest.mark.parametrize("d", [1, 2, 3, 10, 60])
def test_spherical_laplace_radii_and_directions(d):
    scale = 2.5 * 0.4
    drawn = SphericalLaplace(2.5, d).noise(8_000, d, 0.4, generator(10 + d))
    assert radius_pvalue(drawn, scale) > SIZE
    assert shape_pvalue(drawn, scale) > SIZE
    assert radius_pvalue(0.9 * drawn, scale) < SIZE  # mutant: noise 10 % too small
    if d > 1:
        assert direction_pvalue(drawn) > SIZE
        assert abs(drawn.mean(axis=0)).max() < 6 * scale * math.sqrt((d + 1) / 8_000)


@pytest.mark.parametrize("d", [2, 3, 10])
def test_spherical_laplace_mutants_are_rejected(d):
    count, source = 8_000, generator(20 + d)
    unit = source.standard_normal((count, d))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    shape_too_small = unit * source.standard_gamma(d - 1, (count, 1))
    assert radius_pvalue(shape_too_small, 1.0) < SIZE
    shape_one = unit * source.standard_gamma(1.0, (count, 1))
    assert radius_pvalue(shape_one, 1.0) < SIZE
    rate_for_scale = unit * source.standard_gamma(d, (count, 1)) * 2.0
    assert radius_pvalue(rate_for_scale, 1.0) < SIZE
    coordinates = source.laplace(size=(count, d))
    assert radius_pvalue(coordinates, 1.0) < SIZE
    # With the right mean radius its radii even look like Gamma(d); its directions give it away.
    coordinates *= d / np.linalg.norm(coordinates, axis=1).mean()
    assert direction_pvalue(coordinates) < SIZE
    assert shape_pvalue(shape_too_small, 1.0) < SIZE


@pytest.mark.parametrize("d", [1, 2, 5])
def test_spherical_laplace_agrees_with_an_independent_sampler(d):
    """z = sqrt(W) G, W ~ Gamma((d + 1)/2, scale 2), is the same law (one_shot.md section 1)."""
    count, source = 20_000, generator(30 + d)
    ours = SphericalLaplace(1.0, d).noise(count, d, 1.0, source)
    other = source.standard_normal((count, d))
    other *= np.sqrt(source.gamma((d + 1) / 2, 2.0, size=(count, 1)))
    for a, b in (
        (ours[:, 0], other[:, 0]),
        (np.linalg.norm(ours, axis=1), np.linalg.norm(other, axis=1)),
    ):
        assert ks_2samp(a, b).pvalue > SIZE
    assert ks_2samp(1.2 * ours[:, 0], other[:, 0]).pvalue < SIZE


def test_laplace_noise_is_laplace():
    drawn = Laplace(3.0).noise(20_000, 1, 0.5, generator(5))
    assert radius_pvalue(drawn, 1.5) > SIZE
    assert radius_pvalue(0.9 * drawn, 1.5) < SIZE
    assert kstest(drawn[:, 0] / 1.5, "laplace").pvalue > SIZE


# ---- the factor 2 of replace-one, through the door ----


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_released_noise_has_the_scale_of_its_relation(relation):
    """Pure epsilon = 1, contribution bound C = 3: radius scale 6 under replace-one, else 3."""
    d, count, epsilon, bound = 10, 400, 1.0, 3.0
    mechanism = SphericalLaplace.calibrated(epsilon, dimension=d, adjacency=relation)
    ledger = Ledger(epsilon * count, adjacency=relation)
    permit = ledger.charge(Repeat(mechanism, count), label="test")
    source, value = Randomness.from_seed(7), np.linspace(-1, 1, d)
    claim = relation.contributions * bound / epsilon
    noisy = [
        release(Bounded(value, relation, "CLIP", contribution=bound), permit, source) - value
        for _ in range(count)
    ]
    assert radius_pvalue(np.array(noisy), claim) > SIZE
    # The mutant: noise calibrated without the factor 2 (or with one too many).
    assert radius_pvalue(np.array(noisy), 2.0 * claim) < SIZE
    assert radius_pvalue(np.array(noisy), 0.5 * claim) < SIZE


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_missing_factor_two_is_caught_in_a_gaussian_stream(relation):
    mechanism = Gaussian.calibrated(1.0, 1e-6, adjacency=relation)
    permit = Ledger(50.0, 1e-3, adjacency=relation, rule="renyi").charge(
        Repeat(mechanism, 100), label="test"
    )
    bounded = Bounded(InKernel(20), relation, "CLIP", contribution=0.5)
    drawn = release(bounded, permit, Randomness.from_seed(8)).take(100)
    exact = 4.224679 * 0.5 * relation.contributions  # golden sigma per unit of sensitivity
    assert scale_pvalue(drawn, exact) > SIZE
    assert scale_pvalue(drawn, 2.0 * exact) < SIZE
    wrong = Gaussian.calibrated(1.0, 1e-6, adjacency=ADD_REMOVE)
    mutant = wrong.noise(100, 20, 0.5, generator(9))
    assert (scale_pvalue(mutant, exact) < SIZE) == (relation is REPLACE_ONE)


# ---- choices ----


def frequencies_pvalue(chosen: np.ndarray, law: np.ndarray) -> float:
    return float(chisquare(np.bincount(chosen, minlength=len(law)), law * len(chosen)).pvalue)


@pytest.mark.parametrize(("monotone", "relation"), [(False, REPLACE_ONE), (True, ADD_REMOVE)])
def test_exponential_mechanism_chooses_by_its_law(monotone, relation):
    """Chi-square of 20,000 choices against exp(eps score / (2 D)); a wrong factor is rejected."""
    scores, move, epsilon = np.array([0.0, 1.0, 2.5, -3.0, 2.4]), 0.8, 1.3
    mechanism = Exponential(epsilon, monotone)
    bounded = Bounded(scores, relation, "CLIP", linf=move)
    source = generator(40)
    chosen = np.array([mechanism.apply(bounded, 1.0, source) for _ in range(20_000)])
    half = 1.0 if monotone else 2.0
    assert frequencies_pvalue(chosen, softmax(epsilon * scores / (half * move))) > SIZE
    wrong = 3.0 - half  # the other factor
    assert frequencies_pvalue(chosen, softmax(epsilon * scores / (wrong * move))) < SIZE
    assert frequencies_pvalue(chosen, softmax(1.1 * epsilon * scores / (half * move))) < SIZE


@pytest.mark.parametrize("k", [2, 5])
def test_randomised_response_answers_by_its_law(k):
    """Chi-square of 40,000 answers for every true category; 10 % more truth is rejected."""
    epsilon, source = 1.1, generator(41)
    p = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    for truth in range(k):
        value = Bounded(np.full(40_000, truth), REPLACE_ONE, "CLIP", categories=k)
        answers = RandomizedResponse(epsilon, k).apply(value, 1.0, source)
        law = np.full(k, (1 - p) / (k - 1))
        law[truth] = p
        assert frequencies_pvalue(answers, law) > SIZE
        louder = np.full(k, (1 - 1.1 * p) / (k - 1))
        louder[truth] = 1.1 * p
        assert frequencies_pvalue(answers, louder) < SIZE


# ---- floating point ----


@pytest.mark.parametrize("value", [0.0, 1 / 3, 0.1, math.pi * 1e3, 1e-300, 2.0**-40, -7.0])
def test_every_released_number_lies_on_the_public_grid(value):
    for mechanism in (Gaussian(1.3), Laplace(0.7), SphericalLaplace(2.0, 4)):
        d = getattr(mechanism, "dimension", 1)
        permit = Ledger(1e6, 0.5, rule="renyi").charge(Repeat(mechanism, 200), label="test")
        grid = mechanism.grid(0.5)
        assert math.log2(grid) == round(math.log2(grid))
        scale = mechanism.noise_multiplier * 0.5
        assert scale * 2.0**-25 <= grid <= scale * 2.0**-23
        for _ in range(200):
            bounded = Bounded(np.full(d, value), REPLACE_ONE, "CLIP", contribution=0.5)
            out = release(bounded, permit, Randomness.from_seed(50))
            assert np.array_equal(out / grid, np.rint(out / grid))
            assert not np.any((out == 0.0) & np.signbit(out))


def test_low_bits_do_not_tell_zero_from_a_third():
    """Without the grid, noise + 0 has float bits that noise + 1/3 cannot have; with it, none."""
    mechanism, count = Laplace(1.0), 2_000

    def finest_bit(values):
        mantissa, exponent = np.frexp(values[values != 0.0])
        scaled = (np.abs(mantissa) * 2.0**53).astype(np.uint64)
        trailing = np.log2((scaled & (~scaled + np.uint64(1))).astype(float))
        return (trailing + exponent - 53).min()

    noise = mechanism.noise(count, 1, 1.0, generator(60))[:, 0]
    raw = [finest_bit(noise + value) for value in (0.0, 1 / 3)]
    assert raw[0] < raw[1] - 3  # the leak that the grid has to close
    permit = Ledger(1e6).charge(Repeat(mechanism, 2 * count), label="test")
    source = Randomness.from_seed(61)
    finest = [
        finest_bit(
            np.array(
                [
                    release(Bounded(np.array([v]), REPLACE_ONE, "CLIP", l2=2.0), permit, source)
                    for _ in range(count)
                ]
            ).ravel()
        )
        for v in (0.0, 1 / 3)
    ]
    assert finest == [math.log2(mechanism.grid(1.0))] * 2
