"""What every mechanism promises, for every entry of MECHANISMS."""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from helpers import MECHANISM_EXAMPLES, RELATIONS, proven, worst_losses
from noisette.core import accounting, bounded, mechanisms, plans
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.mechanisms import MECHANISMS, Gaussian, Laplace, Mechanism, SphericalLaplace
from noisette.core.mechanisms.base import AdditiveNoise
from noisette.errors import Unproven

EXAMPLES = [m for examples in MECHANISM_EXAMPLES.values() for m in examples]
CASES = [(m, relation) for m in EXAMPLES for relation in proven(m)]
ONE_SIDED = {"objective-noise"}
"""Upper bounds over a family of pairs, stated for epsilon >= 0 only."""
REVEALING = {"gaussian-threshold"}
"""With a small probability the loss is infinite, so there are no moments."""
SMOOTH = [
    case
    for case in CASES
    if case[0].name not in {"exponential", "laplace-vector", *ONE_SIDED, *REVEALING}
]
"""Mechanisms whose delta and moments describe one pair (the exponential has a family of pairs)."""
CURVES = [case for case in CASES if case[0].name not in ONE_SIDED]
MOMENTS = [case for case in CURVES if case[0].name not in REVEALING]

ADDITIVE = [m for m, relation in CURVES if isinstance(m, AdditiveNoise) and relation is ADD_REMOVE]


def every(cases):
    """One id for a kind of mechanism; each test goes through its examples and relations."""
    kinds = {}
    for mechanism, relation in cases:
        kinds.setdefault(mechanism.name, []).append((mechanism, relation))
    return pytest.mark.parametrize("cases", kinds.values(), ids=kinds)


every_case, every_curve, every_pair = every(CASES), every(CURVES), every(SMOOTH)


def epsilons(mechanism: Mechanism, relation) -> np.ndarray:
    top = mechanism.pure_epsilon(relation)
    top = top if math.isfinite(top) else 4.0 * mechanism.shift(relation)
    return np.linspace(-1.2 * top, 1.2 * top, 25)


def test_every_registered_mechanism_has_an_example_of_its_class():
    assert set(MECHANISM_EXAMPLES) == set(MECHANISMS)
    for name, examples in MECHANISM_EXAMPLES.items():
        assert examples
        assert all(type(m) is MECHANISMS[name] and m.name == name for m in examples)


def test_the_calibrated_noise_is_the_one_that_was_tried():
    """exp(log(16.0)) is 15.999999999999998, which had never been checked."""
    for power in range(1, 12):
        target = 2.0 / 4.0**power
        z = accounting.calibrate(mechanisms.Laplace, epsilon=target, delta=0.0)
        assert accounting.epsilon(mechanisms.Laplace(z), delta=0.0) <= target


def test_is_a_frozen_value():
    for mechanism in EXAMPLES:
        field = dataclasses.fields(mechanism)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(mechanism, field, 5.0)
        twin = dataclasses.replace(mechanism)
        assert twin == mechanism
        assert hash(twin) == hash(mechanism)
        assert dataclasses.replace(mechanism, **{field: 0.123}) != mechanism


def test_survives_json_inside_a_plan():
    for mechanism in EXAMPLES:
        plan = plans.Run(mechanism)
        again = plans.Plan.from_json(plan.to_json())
        assert again == plan
        assert type(again.mechanism) is type(mechanism)


def test_repr_is_its_own_source_and_nothing_else():
    for mechanism in EXAMPLES:
        assert eval(repr(mechanism), vars(mechanisms)) == mechanism


def test_names_its_norm_and_its_proof():
    for mechanism in EXAMPLES:
        assert mechanism.norm in ("l2", "l1", "linf", "categories")
        assert isinstance(mechanism.proof, str)
        assert mechanism.proof
        assert " " not in mechanism.proof


def test_an_unproven_relation_is_refused_by_every_curve():
    unproven = [(m, relation) for m in EXAMPLES for relation in set(RELATIONS) - set(proven(m))]
    assert len(unproven) > 3
    for mechanism, relation in unproven:
        with pytest.raises(Unproven, match=relation.value):
            mechanism.delta(0.1, relation)
        with pytest.raises(Unproven, match=relation.value):
            mechanism.log_moment(np.array([1.0]), relation)


@every_case
def test_delta_is_between_the_trivial_bounds_and_falls(cases):
    for mechanism, relation in cases:
        grid = epsilons(mechanism, relation)
        deltas = np.array([mechanism.delta(e, relation) for e in grid])
        assert np.all(deltas <= 1.0)
        assert np.all(deltas >= -np.expm1(np.minimum(grid, 0.0)) - 1e-12)
        assert np.all(np.diff(deltas) <= 1e-15)


@every_curve
def test_delta_is_convex_in_exp_epsilon(cases):
    for mechanism, relation in cases:
        top = min(epsilons(mechanism, relation)[-1], 30.0)
        gamma = np.exp(np.linspace(-top, top, 61))
        delta = np.array([mechanism.delta(math.log(g), relation) for g in gamma])
        slopes = np.diff(delta) / np.diff(gamma)
        assert np.all(np.diff(slopes) >= -1e-9 * np.abs(slopes[1:]) - 1e-16 / np.diff(gamma)[1:])


@every_case
def test_delta_vanishes_exactly_at_pure_epsilon(cases):
    for mechanism, relation in cases:
        pure = mechanism.pure_epsilon(relation)
        if math.isinf(pure):
            assert mechanism.delta(30.0 * mechanism.shift(relation), relation) > 0.0
        else:
            assert mechanism.delta(pure, relation) == 0.0
            assert mechanism.delta(1.5 * pure, relation) == 0.0
            assert mechanism.delta(0.9 * pure, relation) > 0.0


@every_curve
def test_delta_of_negative_epsilon_is_the_reflection(cases):
    for mechanism, relation in cases:
        for e in epsilons(mechanism, relation)[13:]:
            reflected = -math.expm1(-e) + math.exp(-e) * mechanism.delta(e, relation)
            assert mechanism.delta(-e, relation) == pytest.approx(reflected, rel=1e-9, abs=1e-15)


def test_delta_of_nan_is_never_a_promise():
    # Was: Laplace, SphericalLaplace and RandomizedResponse answer delta(nan) = 0.
    for mechanism in EXAMPLES:
        with pytest.raises(ValueError, match="epsilon must be a number; got nan"):
            mechanism.delta(math.nan, REPLACE_ONE)


@every_curve
def test_moments_start_at_zero_and_renyi_grows_with_the_order(cases):
    for mechanism, relation in cases:
        if mechanism.name in REVEALING:
            continue  # no finite moments
        tiny = mechanism.log_moment(np.array([1e-9]), relation)[0]
        assert 0.0 <= tiny < 1e-6
        orders = 1.0 + np.geomspace(1e-3, 1e3, 40)
        renyi = mechanism.renyi(orders, relation)
        assert np.all(np.diff(renyi) >= -2e-6 * renyi[1:])
        assert np.all(renyi <= mechanism.pure_epsilon(relation) * (1 + 1e-12))


@every_pair
def test_moment_function_is_convex(cases):
    for mechanism, relation in cases:
        s = np.linspace(0.01, 30.0, 60)
        alpha = mechanism.log_moment(s, relation)
        assert np.all(np.diff(alpha, 2) >= -1e-6 * alpha[2:])


@every_pair
def test_delta_obeys_the_lecture_for_every_s(cases):
    for mechanism, relation in cases:
        s = np.geomspace(0.01, 100.0, 30)
        alpha = mechanism.log_moment(s, relation)
        for e in epsilons(mechanism, relation)[13:]:
            bound = float(np.min(alpha - s * e))
            assert mechanism.delta(e, relation) <= math.exp(min(bound, 0.0)) * (1 + 1e-5) + 1e-17


@every_pair
def test_moments_and_delta_are_two_faces_of_one_curve(cases):
    """E e^{sL} = 1 + s (s+1) * integral over x > 0 of (e^{sx} + e^{-(s+1)x}) delta(x)."""
    for (mechanism, relation), s in itertools.product(cases, (0.3, 1.0, 4.0)):
        top = mechanism.pure_epsilon(relation)
        mu = mechanism.mu(relation)
        top = top if mu is None else mu * mu * (s + 0.5) + 10.0 * mu
        delta = functools.partial(mechanism.delta, adjacency=relation)

        def integrand(x, s=s, delta=delta):
            return (math.exp(s * x) + math.exp(-(s + 1.0) * x)) * delta(x)

        cuts = np.linspace(0.0, top, 7)
        pieces = [quad(integrand, a, b, epsrel=1e-9)[0] for a, b in itertools.pairwise(cuts)]
        expected = math.log1p(s * (s + 1.0) * math.fsum(pieces))
        found = mechanism.log_moment(np.array([s]), relation)[0]
        assert found == pytest.approx(expected, rel=3e-5)


@every_case
def test_curves_cover_the_noise_that_is_really_drawn(cases, rng):
    """Monte Carlo on the mechanism's own draws; one-sided at 6 standard errors (size 1e-9)."""
    for mechanism, relation in cases:
        count = 3_000 if mechanism.name == "exponential" else 60_000
        loss = worst_losses(mechanism, relation, count, rng)
        top = float(np.quantile(loss, 0.9))
        for e in (0.0, 0.5 * top):
            shown = np.maximum(0.0, -np.expm1(e - loss))
            error = shown.std() / math.sqrt(count)
            assert mechanism.delta(e, relation) >= shown.mean() - 6.0 * error - 1e-12
        s = min(2.0, 1.0 / max(np.abs(loss).max(), 1e-9))
        moment = np.exp(s * loss)
        claimed = np.exp(mechanism.log_moment(np.array([s]), relation)[0])
        assert claimed >= moment.mean() - 6.0 * moment.std() / math.sqrt(count) - 1e-12


@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_replace_one_moves_the_sum_twice_as_far(mechanism):
    assert mechanism.shift(REPLACE_ONE) == 2.0 * mechanism.shift(ADD_REMOVE)
    assert (
        mechanism.shift(ZERO_OUT) == mechanism.shift(ADD_REMOVE) == 1 / mechanism.noise_multiplier
    )
    doubled = dataclasses.replace(mechanism, noise_multiplier=2.0 * mechanism.noise_multiplier)
    for e in (0.0, 0.3 * mechanism.shift(ZERO_OUT)):
        assert doubled.delta(e, REPLACE_ONE) == mechanism.delta(e, ZERO_OUT)
        assert mechanism.delta(e, REPLACE_ONE) > mechanism.delta(e, ADD_REMOVE)


@pytest.mark.parametrize(
    "mechanism", [m for m in EXAMPLES if isinstance(m, AdditiveNoise)], ids=repr
)
def test_noise_scales_with_the_unit_and_has_the_asked_shape(mechanism):
    d = getattr(mechanism, "dimension", 1) or 3
    one = mechanism.noise(5, d, 1.0, np.random.default_rng(3))
    three = mechanism.noise(5, d, 3.0, np.random.default_rng(3))
    assert one.shape == (5, d)
    np.testing.assert_allclose(three, 3.0 * one, rtol=1e-14)


def test_a_long_vector_is_noised_everywhere_in_pieces_of_one_length(monkeypatch):
    drawn, real = [], Gaussian.noise

    def watched(self, count, dimension, unit, generator):
        drawn.append(dimension)
        return real(self, count, dimension, unit, generator)

    monkeypatch.setattr(Gaussian, "noise", watched)
    monkeypatch.setattr(Gaussian, "piece", 1000)
    value = bounded.Bounded(np.zeros((1, 4100)), ADD_REMOVE, "ADJACENCY", contribution=1.0)
    noisy = Gaussian(3.0).apply(value, 1.0, np.random.default_rng(3))
    assert drawn == [820] * 5
    assert noisy.shape == (1, 4100)
    assert np.count_nonzero(noisy) == np.unique(noisy).size == 4100


CALIBRATED = {
    "gaussian": lambda epsilon, delta, relation: Gaussian.calibrated(epsilon, delta, relation),
    "laplace": lambda epsilon, delta, relation: Laplace.calibrated(epsilon, relation),
    "spherical-laplace": lambda epsilon, delta, relation: SphericalLaplace.calibrated(
        epsilon, delta, adjacency=relation, dimension=7
    ),
}
DELTAS = {"gaussian": [1e-6], "laplace": [0.0], "spherical-laplace": [0.0, 1e-6]}


def test_what_is_not_calibrated_takes_epsilon_itself_or_is_owned_by_its_training():
    others = set(MECHANISMS) - set(CALIBRATED)
    assert others == {
        "exponential",
        "randomized-response",
        "laplace-vector",
        *ONE_SIDED,
        *REVEALING,
    }
    for name in others - ONE_SIDED - REVEALING - {"laplace-vector"}:
        assert not hasattr(MECHANISMS[name], "calibrated")
        assert dataclasses.fields(MECHANISMS[name])[0].name == "epsilon"


@pytest.mark.parametrize("name", CALIBRATED)
def test_calibrated_noise_keeps_its_target_and_wastes_nothing(name):
    for relation, epsilon, delta in itertools.product(
        RELATIONS, (1e-3, 0.1, 0.7, 1.0, 3.0, 20.0), DELTAS[name]
    ):
        mechanism = CALIBRATED[name](epsilon, delta, relation)
        assert mechanism.delta(epsilon, relation) <= delta
        less = dataclasses.replace(
            mechanism, noise_multiplier=mechanism.noise_multiplier * (1 - 1e-6)
        )
        assert less.delta(epsilon, relation) > delta
