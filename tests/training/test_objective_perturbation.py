"""Objective perturbation: the drawn linear term, the exact density of theta, and what is charged.

b is recovered from theta by first-order inversion, b = -(sum of gradients + Lambda theta); its law
is tested at size 1e-6 with fixed seeds, and half or twice the noise must be rejected. Exact
densities in one and two dimensions compare true hockey sticks with the delta that was charged.
"""

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from one_shot_oracle import (
    ADJACENCIES,
    EMPTY,
    LOGISTIC,
    SIZE,
    Line,
    PaidFirst,
    Spy,
    chi_square_p,
    facts,
    gamma_radius_p,
    gaussian_shape_p,
    hockey_stick,
    hs,
    huber,
    line_law,
    line_losses,
    log_laplace,
    log_spherical,
    mechanisms,
    one_shot,
    plane_delta,
    plane_log_density,
    softplus,
    spherical_shape_p,
)
from scipy import stats

from helpers import pairwise_covered
from loss_sums import gradient
from noisette.core import accounting
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import ObjectiveNoise
from noisette.core.plans import Run
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter, NoisetteError, PermitError, Unproven
from noisette.fitting.algorithms import ObjectivePerturbation
from noisette.fitting.algorithms.objective_perturbation import (
    _mechanism,
    curvature,
    noise_multiplier,
    of_curvature,
    solve_with,
)
from noisette.fitting.losses import Hinge, HuberHinge, Logistic, Softmax, SoftplusHinge

objective_perturbation = partial(one_shot, ObjectivePerturbation())


def contributions(adjacency: str) -> int:
    return Adjacency.of(adjacency).contributions


def small_data(loss: object, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(30, d))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
    if isinstance(loss, Softmax):
        return rows, rng.integers(0, loss.classes, 30)
    return rows, np.where(rows[:, 0] > 0.1, 1.0, -1.0)


def recovered(loss: object, rows: np.ndarray, y: np.ndarray, theta: np.ndarray, lam: float):
    return -(gradient(loss, rows, y, theta) + lam * theta).ravel()


LOSSES = [Logistic(), SoftplusHinge(4.0), HuberHinge(0.5), Softmax(3)]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_pure_linear_term_is_spherical_laplace(loss: object, adjacency: str) -> None:
    rows, y = small_data(loss)
    lam, epsilon, runs = 30.0, 1.0, 70
    found = []
    for seed in range(runs):
        public = facts(adjacency, epsilon, regularization=lam, size=30)
        trained = objective_perturbation(rows, [y], loss, public, Randomness.from_seed(seed))
        found.append(recovered(loss, rows, y, trained.released[0], lam))
    b = np.array(found)
    # the oracle's scale: kappa C = epsilon less the determinant, halved under replace-one
    spent = epsilon * (1.0 - 1e-3)
    if isinstance(loss, HuberHinge):
        spent -= math.log1p(loss.smoothness / lam)
    elif isinstance(loss, Softmax):
        spent -= loss.trace / lam
    scale = contributions(adjacency) * loss.lipschitz / spent
    assert mechanisms(trained)[0].noise_multiplier * loss.lipschitz == pytest.approx(scale, 1e-6)
    # hiding noise, seen through the Hessian, is below a thousandth of the main noise
    hiding = mechanisms(trained)[1].noise_multiplier * 1e-9 * loss.lipschitz * 2.0 / lam
    assert hiding * (lam + 30 * loss.smoothness) * b.shape[1] < 1e-3 * scale
    assert gamma_radius_p(b, scale) > SIZE
    assert spherical_shape_p(b, scale) > SIZE
    for mutant in (0.5, 2.0):
        assert gamma_radius_p(b, scale * mutant) < SIZE
    # mutant: the regulariser forgotten in the inversion, i.e. an objective with another Lambda
    wrong = np.array([recovered(loss, rows, y, t, 2.0 * lam) for t in [trained.released[0]]])
    assert not np.allclose(wrong, b[-1:], rtol=1e-2)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_approximate_linear_term_is_gaussian(loss: object, adjacency: str) -> None:
    """d = 101 (softmax: any d): Gaussian noise."""
    rows, y = small_data(loss, d=101)
    lam, epsilon, delta = 30.0, 1.0, 1e-6
    found = []
    for seed in range(3):
        public = facts(adjacency, epsilon, delta, regularization=lam, size=30)
        trained = objective_perturbation(rows, [y], loss, public, Randomness.from_seed(seed))
        found.append(recovered(loss, rows, y, trained.released[0], lam))
    noise = mechanisms(trained)[0]
    assert noise.law == "gaussian"
    b, scale = np.array(found), noise.noise_multiplier * loss.lipschitz
    if loss.self_bounded is not None:  # one Gaussian query of sensitivity C or 2 C, nothing more
        expected = contributions(adjacency) * 4.224679
        assert expected < scale < expected * 1.003
    assert chi_square_p(b, scale) > SIZE
    assert gaussian_shape_p(b, scale) > SIZE
    for mutant in (0.5, 2.0):
        assert chi_square_p(b, scale * mutant) < SIZE


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_one_vs_rest_draws_independent_terms(delta: float) -> None:
    """Correlation between classes 0 (size 1e-6); the mutant that shares one draw is rejected."""
    spy = Spy()
    classes, d, runs = 3, 5, 40 if delta == 0.0 else 30
    rows, y = small_data(Softmax(classes), d)
    targets = [np.where(y == k, 1.0, -1.0) for k in range(classes)]
    found = []
    for seed in range(runs):
        public = facts("zero-out", 1.0, delta, regularization=20.0, size=30)
        trained = objective_perturbation(
            rows, targets, Logistic(), public, Randomness.from_seed(seed), observer=spy
        )
        found.append([
            recovered(Logistic(), rows, t, w, 20.0)
            for t, w in zip(targets, trained.released, strict=True)
        ])  # fmt: skip
    b = np.array(found)
    np.testing.assert_allclose(b, np.array(spy.drawn).reshape(b.shape), rtol=1e-2, atol=1e-2)
    assert trained.permit.draws_left(0) == trained.permit.draws_left(1) == 0
    directions = b / np.linalg.norm(b, axis=-1, keepdims=True)

    def p_value(first: np.ndarray, second: np.ndarray) -> float:
        cosine = np.sum(first * second, axis=-1)  # mean 0, variance 1/d, bounded by 1
        z = float(np.sum(cosine)) * math.sqrt(d / len(cosine))
        return float(2.0 * stats.norm.sf(abs(z)))

    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert p_value(directions[:, i], directions[:, j]) > SIZE
    assert p_value(directions[:, 0], directions[:, 0]) < SIZE, "shared noise is caught"
    leaf, count = next(trained.permit.plan.leaves())
    assert (leaf.mechanism.dimension, count) == (d, classes)


# --- exact densities -------------------------------------------------------------------------

CURVES = {"logistic": (Logistic(), LOGISTIC), "softplus_hinge": (SoftplusHinge(4.0), softplus(4.0)),
          "huber_hinge": (HuberHinge(0.5), huber(0.5))}  # fmt: skip


def charged_noise(loss: object, public: object, d: int) -> ObjectiveNoise:
    """Train on rows along e_1 in d dimensions and return the noise of the permit's plan.

    With data on a line the other coordinates of theta are the same functions of b for neighbours,
    so for Gaussian noise the exact privacy is that of the one-dimensional problem.
    """
    rows = np.zeros((1, d))
    trained = objective_perturbation(rows, [np.ones(1)], loss, public, Randomness.from_seed(0))
    noise = mechanisms(trained)[0]
    assert noise.curvature == pytest.approx(curvature(public.public(loss, d)))
    return noise


def random_lines(rng: np.random.Generator, curve: object, bound: float, count: int):
    for i in range(count):
        size = int(rng.integers(0, 4))
        rows = tuple(rng.uniform(-bound, bound, size) * rng.choice([1.0, 0.03], size))
        counts = tuple(np.rint(10.0 ** rng.uniform(0, 3, size)))
        x = bound * float(rng.choice([1.0, -1.0, rng.uniform(-1, 1)]))
        z = -x if i % 2 else bound * float(rng.uniform(-1, 1))
        yield Line(rows, counts, curve), x, z


@pytest.mark.parametrize(
    ("name", "adjacency", "setting"),
    pairwise_covered(
        list(CURVES),
        ["add-remove", "replace-one"],
        [(1.0, 1.0), (12.0, 1.0), (1.0, 0.1), (1.0, 4.0)],
    ),
)
def test_exact_density_stays_below_the_charged_delta(
    name: str, adjacency: str, setting: tuple[float, float]
) -> None:
    (loss, curve), (bound, epsilon) = CURVES[name], setting
    delta = 1e-6
    per_row = loss.self_bounded or loss.smoothness
    lam = per_row * bound**2 * contributions(adjacency) / epsilon / (1.0 - 1e-3)
    public = facts(adjacency, epsilon, delta, norm_bound=bound, regularization=lam, size=1)
    noise = charged_noise(loss, public, 101)
    assert noise.law == "gaussian"
    scale = noise.noise_multiplier * bound
    rng = np.random.default_rng(17)
    worst = 0.0
    for data, x, z in random_lines(rng, curve, bound, 8):
        first = data.plus(x)
        second = data.plus(z) if adjacency == "replace-one" else data
        for p, q in ((first, second), (second, first)):
            law = line_law(p, q, lam, "gaussian", scale, 2001)
            worst = max(worst, float(hockey_stick(*law, epsilon)[0]))
    assert worst <= delta * 1.0005, "grid error of the oracle: 5e-4"


@pytest.mark.parametrize("bound", [1.0, 12.0])
def test_the_worst_data_set_attains_the_charged_delta(bound: float) -> None:
    """Section 4.10 (b): saturated push. Both orders reach the additive curve within 1 %."""
    epsilon, delta = 1.0, 1e-6
    lam = bound**2 / epsilon
    public = facts("add-remove", epsilon, delta, norm_bound=bound, regularization=lam, size=1)
    scale = charged_noise(Logistic(), public, 101).noise_multiplier * bound
    data = Line((-1e-4 * bound,), (1.2e6,))
    for p, q in ((data.plus(bound), data), (data, data.plus(bound))):
        law = line_law(p, q, lam, "gaussian", scale)
        reached = float(hockey_stick(*law, epsilon * (1.0 - 1e-3))[0])
        assert 0.99 * delta < reached <= delta
        # mutants: cR instead of cR^2 in k and C = R forgotten; the lecture's half noise
        if bound > 1.0:
            careless = line_law(p, q, lam, "gaussian", scale / bound)
            assert hockey_stick(*careless, epsilon)[0] > 100.0 * delta
        half = line_law(p, q, lam, "gaussian", scale / 2.0)
        assert hockey_stick(*half, epsilon)[0] > 100.0 * delta


def test_reference_values_of_the_exact_density() -> None:
    """4.10 (b), (c), (d): the oracle reproduces the reference's numbers."""
    data = Line((-1e-4,), (1.2e6,))
    for p, q in ((data.plus(1.0), data), (data, data.plus(1.0))):
        value = float(hockey_stick(*line_law(p, q, 1.0, "gaussian", 3.0), 1.0)[0])
        assert value == pytest.approx(2.07512e-4, rel=2e-4)
    assert hs(1 / 3, 1.0) == pytest.approx(2.07512e-4, rel=1e-4)
    losses, mass = line_law(EMPTY.plus(1.0), EMPTY, 0.05, "gaussian", 3.0)
    assert hockey_stick(losses, mass, 1.0)[0] == pytest.approx(0.0537305, rel=1e-4)


def test_too_little_regularization_is_never_charged_as_a_plain_query() -> None:
    """Control (c): Lambda = 0.05, sigma = 3 has delta(1) = 0.054; the additive curve says 2e-4."""
    noise = ObjectiveNoise(3.0, 1, "gaussian", 1.0 / 0.05)
    relation = Adjacency.ADD_REMOVE
    true = float(hockey_stick(*line_law(EMPTY.plus(1.0), EMPTY, 0.05, "gaussian", 3.0), 1.0)[0])
    assert true > 100.0 * hs(1 / 3, 1.0)
    assert noise.delta(1.0, relation) >= true
    assert accounting.delta(Run(noise), epsilon=1.0, adjacency=relation) >= true
    with pytest.raises(InvalidParameter, match="regularization"):
        noise_multiplier("gaussian", 1, 20.0, "self-bounded", 2, False, 1.0, 1e-6, relation)


@pytest.mark.parametrize(
    ("lam", "expected"), [(0.1, 1.8365), (1.0, 1.0), (0.5, None), (0.02, None)]
)
def test_pure_loss_is_the_formula_and_attained(lam: float, expected: float | None) -> None:
    """Control (d): sup |log ratio| of an explicit pair, kappa = 1; formula 1.8368 at 0.1."""
    noise = ObjectiveNoise(1.0, 1, "spherical-laplace", 1.0 / lam)
    claimed = noise.pure_epsilon(Adjacency.ADD_REMOVE)
    weight = 1e5 if lam == 0.5 else 2e4
    data, b = Line((-1e-4,), (weight,)), np.linspace(-60.0, 60.0, 20_001)
    reached = max(
        float(np.abs(line_losses(p, q, lam, log_laplace(1.0), b)).max())
        for p, q in ((data.plus(1.0), data), (data, data.plus(1.0)))
    )
    assert reached <= claimed * (1.0 + 1e-9)
    assert reached > 0.995 * claimed
    if expected is not None:
        assert reached == pytest.approx(expected, abs=2e-4)
    assert lam > 0.9 or reached > 1.05, "mutant: kappa = epsilon below the threshold is caught"


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", list(CURVES))
@pytest.mark.parametrize("ratio", [1.0, 0.2, 4.0])
def test_pure_training_never_exceeds_epsilon(adjacency: str, name: str, ratio: float) -> None:
    """sup |log ratio| of random pairs on the line, with the noise that training calibrates."""
    loss, curve = CURVES[name]
    epsilon, bound = 1.0, 2.0
    per_row = loss.self_bounded or loss.smoothness
    lam = ratio * per_row * bound**2 * contributions(adjacency) / epsilon
    public = facts(adjacency, epsilon, norm_bound=bound, regularization=lam, size=1)
    if loss.self_bounded is None and ratio < 1.0:  # the determinant alone costs more than epsilon
        with pytest.raises(InvalidParameter, match="regularization"):
            charged_noise(loss, public, 1)
        return
    scale = charged_noise(loss, public, 1).noise_multiplier * bound
    b = np.linspace(-60.0, 60.0, 1201) * scale
    rng = np.random.default_rng(23)
    worst = 0.0
    for data, x, z in random_lines(rng, curve, bound, 12):
        first = data.plus(x)
        second = data.plus(z) if adjacency == "replace-one" else data
        for p, q in ((first, second), (second, first)):
            losses = line_losses(p, q, lam, log_laplace(scale), b)
            worst = max(worst, float(np.abs(losses).max()))
    assert worst <= epsilon
    # mutant: the lecture's density exp(-eps |b|) under replace-one, twice the loss
    if adjacency == "replace-one" and name == "logistic" and ratio >= 1.0:
        far = Line((-1e-4,), (2e4 * lam,), curve)
        printed = bound / epsilon
        losses = line_losses(
            far.plus(bound), far.plus(-bound), lam, log_laplace(printed), b / scale * printed
        )
        # on a line g + g' is about 1, so the missing 2 shows in d = 2 (below), not here
        assert np.abs(losses).max() <= 2.0 * epsilon


def plane(scale: float, lam: float, reach: float, points: int):
    t = np.linspace(-reach, reach, points) * scale / lam
    return np.meshgrid(t, t, indexing="ij"), float(t[1] - t[0]) ** 2


def test_missing_two_of_replace_one_is_caught_in_the_plane() -> None:
    """Pure, d = 2, replace-one: rows (a, +-c) across a push. Loss 2 kappa, printed claim kappa."""
    epsilon, lam = 1.0, 2.0
    public = facts("replace-one", epsilon, regularization=lam, size=1)
    noise = charged_noise(Logistic(), public, 2)
    across = math.sqrt(1.0 - 0.04)
    push = [[-1e-3, 0.0]]
    for scale, claim, broken in ((noise.noise_multiplier, epsilon, False), (1.0, epsilon, True)):
        u = np.linspace(-40.0, -20.0, 41)
        v = np.linspace(-30.0, 30.0, 601) * scale
        grid = np.meshgrid(u, v, indexing="ij")
        values = [
            plane_log_density(
                np.array([*push, [0.2, side * across]]), np.array([1.2e5, 1.0]), lam,
                log_spherical(scale), grid,
            )
            for side in (1.0, -1.0)
        ]  # fmt: skip
        worst = float(np.abs(values[0] - values[1]).max())
        assert (worst > 1.5 * claim) == broken
        assert broken or worst <= claim


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_spherical_laplace_in_the_plane_stays_below_the_charged_delta(adjacency: str) -> None:
    """Exact two-dimensional densities, pairs with both orders; grid error below 1 %."""
    epsilon, delta = 0.1, 1e-6
    lam = contributions(adjacency) / epsilon
    public = facts(adjacency, epsilon, delta, regularization=lam, size=1)
    # the mechanism that training calibrates
    noise = _mechanism(public.public(Logistic(), 2))
    assert noise.law == "spherical-laplace"
    scale = noise.noise_multiplier
    rng = np.random.default_rng(3)
    worst = 0.0
    for i in range(6):
        angle = rng.uniform(0, 2 * math.pi, 4)
        rows = np.column_stack([np.cos(angle), np.sin(angle)])
        if i == 0:
            rows[2:], rows[:2] = [[-1e-4, 0.0]], [[1.0, 0.0], [-1.0, 0.0]]
        counts = np.array([1.0, 1.0, *([2e5, 2e5] if i == 0 else rng.integers(1, 40, 2))])
        grid, cell = plane(scale, lam, 25.0, 301)
        if i == 0:
            grid[0][:] -= 40.0 / lam * 0.5
        keep = [0, 2, 3], [1, 2, 3] if adjacency == "replace-one" else [2, 3]
        values = [
            plane_log_density(rows[index], counts[index], lam, log_spherical(scale), grid)
            for index in keep
        ]
        for p, q in (values, values[::-1]):
            worst = max(worst, plane_delta(p, q, cell, epsilon))
            half = float((p - q).max())
            assert half <= noise.pure_epsilon(Adjacency.of(adjacency)) * (1.0 + 1e-9)
    assert worst <= 1.02 * delta


# --- plans, charges, refusals ----------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_charge_is_the_plan_that_runs(adjacency: str, delta: float) -> None:
    spy = Spy()
    public = facts(adjacency, 1.0, delta, regularization=5.0, size=30, weight_bound=2.0)
    rows, y = small_data(Softmax(3))
    trained = objective_perturbation(
        rows, [y], Softmax(3), public, Randomness.from_seed(0), sample_weight=np.full(30, 0.5),
        observer=spy,
    )  # fmt: skip
    plan, relation = trained.permit.plan, Adjacency.of(adjacency)
    assert accounting.delta(plan, epsilon=1.0, adjacency=relation) <= delta
    assert public.ledger.spent == (1.0, delta)
    (term, noise, first), (value, hiding, second) = spy.seen
    assert (first, second) == (0, 1)
    assert term.contribution == pytest.approx(2.0 * math.sqrt(2.0))
    assert noise.curvature == pytest.approx(2.0 * (2.0 / 3.0) / 5.0)
    assert term.dimension == noise.dimension == 6
    # twice the certified tolerance over Lambda, whatever the drawn b was
    assert 2e-9 * 2.0 * math.sqrt(2.0) / 5.0 <= value.l2 < 1e-6
    assert mechanisms(trained) == [noise, hiding]


def test_tolerance_depends_on_neither_n_nor_the_draw() -> None:
    spy = Spy()
    for n, seed in ((0, 0), (1, 1), (30, 2)):
        public = facts("add-remove", regularization=5.0, size=10**6)
        rows, y = small_data(Logistic())
        objective_perturbation(
            rows[:n], [y[:n]], Logistic(), public, Randomness.from_seed(seed), observer=spy
        )
    assert len({bounded.l2 for bounded, _, part in spy.seen if part == 1}) == 1


def test_the_same_seed_gives_the_same_model_and_another_seed_does_not() -> None:
    rows, y = small_data(Logistic())
    first, again, other = (
        objective_perturbation(
            rows, [y], Logistic(), facts("zero-out", size=30), Randomness.from_seed(seed)
        ).released[0]
        for seed in (4, 4, 5)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_hinge_is_refused_before_anything_is_charged() -> None:
    public = facts("zero-out", size=30)
    rows, y = small_data(Logistic())
    with pytest.raises(Unproven, match="kink"):
        objective_perturbation(rows, [y], Hinge(), public, Randomness.from_seed(0))
    assert public.ledger.charges == []


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_charge_comes_before_noise(adjacency: str) -> None:
    public = facts(adjacency, size=30)
    watch = PaidFirst(public.ledger, (1.0, 0.0))
    rows, y = small_data(Logistic())
    trained = objective_perturbation(
        rows, [y], Logistic(), public, Randomness.from_seed(1), observer=watch
    )
    assert watch.crossings == 2
    assert trained.permit.draws_left(0) == trained.permit.draws_left(1) == 0
    with pytest.raises(NoisetteError, match="nothing was charged"):
        objective_perturbation(rows, [y], Logistic(), public, Randomness.from_seed(1))
    assert len(public.ledger.charges) == 1


# --- small dimensions and little regularization ----------------------------------------------


@pytest.mark.parametrize(
    ("adjacency", "epsilon", "d"),
    [("replace-one", 1.0, 3), ("add-remove", 0.1, 2), ("zero-out", 8.0, 3)],
)
def test_small_dimension_with_delta_can_be_trained(adjacency: str, epsilon: float, d: int) -> None:
    rows, y = small_data(Logistic(), d)
    public = facts(adjacency, epsilon, 1e-6, regularization=5.0 / epsilon, size=30)
    trained = objective_perturbation(rows, [y], Logistic(), public, Randomness.from_seed(0))
    assert np.isfinite(trained.released[0]).all()
    assert (trained.permit.epsilon, trained.permit.delta) == (epsilon, 1e-6)


def test_less_regularization_costs_a_little_noise_only() -> None:
    found = noise_multiplier(
        "gaussian", 5, 1.0 / 0.7, "self-bounded", 2, False, 1.0, 1e-6, Adjacency.ADD_REMOVE
    )
    assert found == pytest.approx(4.332, rel=1e-3)


@pytest.mark.parametrize("k", [0.1, 1.0 / 3.0, 0.7, 12.3])
def test_k_above_the_charged_one_is_refused_to_the_last_bit(k):
    public = facts("zero-out").public(Logistic(), 3, 1, 100)
    for bound in np.random.default_rng(0).uniform(0.1, 40.0, 200):
        exact = of_curvature(replace(public, norm_bound=float(bound)), k)
        assert k * (1.0 - 1e-14) < curvature(exact) <= k
    less = replace(exact, regularization=exact.ridge * (1.0 - 5e-10))
    noise = ObjectiveNoise(4.0, 3, "gaussian", k)
    passage = SimpleNamespace(leaf=lambda part: SimpleNamespace(mechanism=noise))
    with pytest.raises(PermitError, match="below the one that was charged for"):
        solve_with(None, less, passage, parts=(0, 1))
