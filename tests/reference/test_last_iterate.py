"""Last-iterate accounting: closed forms, a QP oracle, exact 1-D laws, refusals and mutants."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from noisette.core.accounting.last_iterate import (
    LastIterateRun,
    loss_constants,
    reshuffled_last_delta,
    reshuffled_last_epsilon,
)
from noisette.core.accounting.minorant import (
    _blocks,
    _energy,
    _log_products,
    _push,
    _round_up,
    last_mus,
)
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian
from noisette.core.mechanisms.gaussian_curve import gdp_delta, gdp_epsilon, gdp_mu
from noisette.core.plans import LastIterate
from noisette.core.sampling import Cyclic, FullBatch, Shuffle


def position_mus(contraction, batches, epochs, noise_ratio, *, step_size=1.0, worst=False):
    c, eta = (np.broadcast_to(np.asarray(a, float), (epochs, batches))
              for a in (contraction, step_size))  # fmt: skip
    return last_mus(c, eta, noise_ratio, worst=worst)


def cyclic_last_mu(*args, **options):
    return float(position_mus(*args, worst=True, **options)[0])


def minorant_mu(contraction, noise, shift, start_distance=0.0):
    """Return mu of the last iterate by the greatest convex minorant, in O(T).

    contraction c_k >= 0 (may exceed 1), noise nu_k >= 0 and shift s_k >= 0 broadcast to a common
    1-D shape (T,); start_distance is D_0. All in one unit of length. The value is rounded up.
    inf when the last shift meets no noise; 0 when there is no shift and D_0 = 0.
    """
    arrays = [np.atleast_1d(np.asarray(a, dtype=float)) for a in (contraction, noise, shift)]
    c, nu, s = (np.array(a) for a in np.broadcast_arrays(*arrays))
    if c.ndim != 1 or not all(np.isfinite(a).all() and (a >= 0).all() for a in (c, nu, s)):
        raise ValueError("contraction, noise and shift must be 1-D, finite and at least 0.")
    if not 0.0 <= start_distance < math.inf:
        raise ValueError(f"start_distance must be finite and >= 0; got {start_distance!r}.")
    s[0] += c[0] * start_distance
    unit, rise = float(nu.max()) or 1.0, float(s.max()) or 1.0
    log_p, first = _log_products(c)
    with np.errstate(divide="ignore"):
        log_rise = log_p + np.log(s / rise)
    stack = []
    for block in _blocks(log_p[first:], nu[first:] / unit, log_rise[first:]):
        _push(stack, block)
    return float(_round_up(_energy(stack), c.size)) * (rise / unit)


def full_batch_last_mu(contraction, steps, noise_ratio):
    """Return mu = r sqrt[(1-c^T)/(1+c^T) (1+c)/(1-c)] for T full-batch steps, 0 <= c <= 1.

    Exact over all c-Lipschitz maps (quadratics attain it). c = 1: r sqrt(T); c = 0: r.
    """
    c, t = float(contraction), int(steps)
    if not 0.0 <= c <= 1.0 or t < 1 or t != steps or not noise_ratio >= 0.0:
        raise ValueError(
            "contraction must be in [0, 1], steps a whole number >= 1 and noise_ratio >= 0; "
            f"got {contraction!r}, {steps!r} and {noise_ratio!r}."
        )
    if c == 1.0:
        energy = float(t)
    elif c == 0.0:
        energy = 1.0
    else:
        energy = math.tanh(-0.5 * t * math.log1p(c - 1.0)) * (1.0 + c) / (1.0 - c)
    return noise_ratio * float(_round_up(energy, 16))


def run(*, adjacency=Adjacency.ZERO_OUT, sampler=Cyclic(20), noise=2.0, **changes):  # noqa: B008
    """A valid logistic run (parts = 20, E = 10, z = 2, no ridge) with some fields changed."""
    fields = {"epochs": 10, "loss": "logistic", "learning_rate": 4.0} | changes
    leaf = LastIterate(Gaussian(noise), sampler, **fields)
    return LastIterateRun(leaf, Adjacency.of(adjacency))


# ---------------------------------------------------------------- goldens and closed forms


def test_goldens():
    assert minorant_mu(0.99, np.ones(50), 0.1) == pytest.approx(0.6998153, abs=5e-8)
    assert cyclic_last_mu(0.99, 20, 5, 0.2) == pytest.approx(0.2150672, abs=5e-8)
    assert cyclic_last_mu(1.0, 20, 7, 0.2) == pytest.approx(0.2280351, abs=5e-8)


@pytest.mark.parametrize("c", [0.0, 0.3, 0.9, 0.999999, 1.0])
def test_full_batch_is_the_exact_law_of_a_quadratic(c):
    """X <- c X + s + N(0, 1): mean gap over std of X_T equals mu, so the bound is attained."""
    for steps in (1, 2, 50, 3000):
        gap = variance = 0.0
        for _ in range(steps):
            gap, variance = c * gap + 0.1, c * c * variance + 1.0
        exact = gap / math.sqrt(variance)
        for mu in (
            full_batch_last_mu(c, steps, 0.1),
            minorant_mu(c, np.ones(steps), 0.1),
            cyclic_last_mu(c, 1, steps, 0.1),
        ):
            assert exact * (1 - 1e-13) <= mu <= exact * (1 + 1e-11)


def cyclic_formula(c, parts, e, r):
    if c == 1:
        return r * math.sqrt(1 + (e - 1) / parts)
    tail = (1 - c ** (parts * (e - 1))) / (1 + c ** (parts * (e - 1)))
    return r * math.sqrt(1 + c ** (2 * parts - 2) * (1 - c * c) / (1 - c**parts) ** 2 * tail)


@pytest.mark.parametrize(("parts", "e"), [(2, 1), (2, 9), (7, 3), (100, 10)])
def test_cyclic_closed_form(parts, e):
    for c in (0.5, 0.97, 0.999, 1.0):
        assert cyclic_last_mu(c, parts, e, 0.7) == pytest.approx(
            cyclic_formula(c, parts, e, 0.7), rel=1e-10
        )


@pytest.mark.parametrize(("parts", "e"), [(5, 2), (6, 2), (5, 4), (6, 9)])
def test_reshuffled_energies(parts, e):
    for j, mu in enumerate(position_mus(1.0, parts, e, 0.3), start=1):
        last = 1 / j + 1 / (parts - j + 1) if j > (parts + 1) / 2 else 4 / (parts + 1)
        assert mu**2 == pytest.approx(0.09 * ((e - 2) / parts + last), rel=1e-12)


def test_single_pass_position():
    """Feldman et al. 2018: the record at position j of one pass is r / sqrt(parts - j + 1)."""
    expected = 0.4 / np.sqrt(np.arange(10, 0, -1))
    np.testing.assert_allclose(position_mus(1.0, 10, 1, 0.4), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("parts", "e", "z", "composed", "cyclic", "shuffled"),
    [
        (100, 10, 1, 17.86, (4.60, 4.46, 4.38), (3.31, 3.20, 3.14)),
        (50, 20, 2, 11.48, (2.39, 2.16, 2.00), (1.78, 1.60, 1.47)),
        (20, 10, 2, 7.51, (2.45, 2.41, 2.05), (1.99, 1.95, 1.65)),
    ],
)
def test_how_much_smaller_table(parts, e, z, composed, cyclic, shuffled):
    assert gdp_epsilon(math.sqrt(e) / z, 1e-5) == pytest.approx(composed, abs=0.006)
    for ridge, fixed, mixed in zip((0, 1e-3, 1e-2), cyclic, shuffled, strict=True):
        for sampler, value in ((Cyclic(parts), fixed), (Shuffle(parts), mixed)):
            job = run(regularization=ridge, sampler=sampler, epochs=e, noise=z, size=50 * parts)
            assert job.epsilon(1e-5) == pytest.approx(value, abs=0.006)


@pytest.mark.parametrize(
    ("ridge", "steps", "expected"),
    [(1e-3, 100, 3.97), (1e-3, 500, 3.42), (1e-2, 100, 2.61), (1e-2, 500, 1.09), (1e-1, 50, 0.97)],
)
def test_full_batch_rows(ridge, steps, expected):
    """A run that composes to epsilon = 4, released only at its end."""
    r = gdp_mu(4, 1e-5) / math.sqrt(steps)
    job = run(
        regularization=ridge,
        sampler=FullBatch(),
        epochs=steps,
        noise=1.0 / r,
        size=1,
        adjacency="add-remove",
    )
    assert job.epsilon(1e-5) == pytest.approx(expected, abs=0.006)
    assert job.mu() == pytest.approx(full_batch_last_mu(1 - 4 * ridge, steps, r), rel=1e-10)


# ---------------------------------------------------------------- the string itself


def chain_reference(c, nu, s, start):
    """Textbook monotone chain on cumulative sums (section 10 of the maths reference)."""
    p = np.append(np.cumprod(c[::-1])[::-1][1:], 1.0)
    v, y = np.cumsum((p * nu) ** 2), np.cumsum(p * s) + p[0] * c[0] * start
    hull = [(0.0, 0.0)]
    for point in zip(v, y, strict=True):
        while len(hull) > 1:
            (a, b), (d, e) = hull[-2], hull[-1]
            if (e - b) * (point[0] - d) < (point[1] - e) * (d - a):
                break
            hull.pop()
        hull.append(point)
    rise, width = np.diff([h[1] for h in hull]), np.diff([h[0] for h in hull])
    return math.sqrt(np.sum(rise**2 / width))


def random_chain(rng, steps):
    c = rng.uniform(0.3, 1.2, steps)
    s = rng.exponential(size=steps) * (rng.random(steps) < 0.6)
    return c, rng.uniform(0.2, 2.0, steps), s, rng.exponential() * (rng.random() < 0.5)


def test_against_a_quadratic_programme():
    rng = np.random.default_rng(1)
    for _ in range(30):
        c, nu, s, start = random_chain(rng, int(rng.integers(1, 7)))
        p = np.append(np.cumprod(c[::-1])[::-1][1:], 1.0)
        cap = np.cumsum(p * s) + p[0] * c[0] * start
        scale = p * nu
        found = minimize(
            lambda a, w=scale: np.sum((a / w) ** 2),
            cap[-1] * scale**2 / np.sum(scale**2),
            jac=lambda a, w=scale: 2 * a / w**2,
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
            constraints=[
                {"type": "ineq", "fun": lambda a, b=cap: (b - np.cumsum(a))[:-1]},
                {"type": "eq", "fun": lambda a, b=cap: np.sum(a) - b[-1]},
            ],
        )
        assert minorant_mu(c, nu, s, start) == pytest.approx(math.sqrt(found.fun), abs=2e-6)


def test_against_the_textbook_chain():
    rng = np.random.default_rng(2)
    for steps in (1, 2, 5, 40, 400):
        for _ in range(20):
            chain = random_chain(rng, steps)
            assert minorant_mu(*chain) == pytest.approx(chain_reference(*chain), rel=1e-9)


def test_edges_of_the_string():
    assert minorant_mu([1.0], [2.0], [1.0]) == pytest.approx(0.5, rel=1e-13)
    assert minorant_mu([1.0, 1.0], [1.0, 1.0], [0.0, 0.0]) == 0.0
    assert minorant_mu([1.0, 1.0], [1.0, 0.0], [0.0, 1.0]) == math.inf
    assert minorant_mu([1.0, 1.0], [0.0, 0.0], [1.0, 0.0]) == math.inf
    assert minorant_mu([1.0, 0.0], [0.0, 0.0], [1.0, 0.0]) == 0.0  # erased by the last map
    assert minorant_mu([1.0, 1.0], [0.0, 1.0], [1.0, 0.0]) == pytest.approx(1.0, rel=1e-13)
    assert minorant_mu([0.5], [1.0], [0.0], 3.0) == pytest.approx(1.5, rel=1e-13)
    for bad in ([-1.0], [math.nan], [math.inf], [[1.0]]):
        with pytest.raises(ValueError, match="finite"):
            minorant_mu(bad, [1.0], [1.0])
    with pytest.raises(ValueError, match="start_distance"):
        minorant_mu([1.0], [1.0], [1.0], -1.0)


def test_nearly_equal_slopes_are_not_merged():
    """Slopes 1 and 1.01 rise, so both segments stay; merging them would claim too little."""
    mu = minorant_mu([1.0, 1.0], [1.0, 1.0], [1.0, 1.01])
    assert mu == pytest.approx(math.hypot(1.0, 1.01), rel=1e-12)


def test_reset_attains_the_one():
    """If the maps of all other batches are constant, X_T is one Gaussian step: mu = r exactly."""
    c = np.array([1.0, 0.0, 0.0])
    assert minorant_mu(c, 1.0, [0.7, 0.7, 0.7]) == pytest.approx(0.7, rel=1e-13)
    for contraction in (0.0, 0.2, 0.9, 1.0):
        assert cyclic_last_mu(contraction, 5, 4, 0.7) >= 0.7


def test_no_underflow_in_long_or_expanding_chains():
    for c in (0.5, 0.99):
        assert minorant_mu(c, np.ones(20_000), 0.1) == pytest.approx(
            full_batch_last_mu(c, 20_000, 0.1), rel=1e-9
        )
    only_last = np.zeros(100_000)
    only_last[-1] = 0.3
    assert minorant_mu(1.05, 1.0, only_last) == pytest.approx(0.3, rel=1e-9)
    assert minorant_mu(1.0, 1.0, only_last * 1e-200) == pytest.approx(3e-201, rel=1e-9)


def test_a_million_steps():
    mu = minorant_mu(0.99999, np.ones(1_000_000), 0.01)
    assert mu == pytest.approx(full_batch_last_mu(0.99999, 1_000_000, 0.01), rel=2e-9)
    assert cyclic_last_mu(1.0, 1000, 1000, 1.0) == pytest.approx(math.sqrt(1.999), rel=2e-9)


# ---------------------------------------------------------------- positions, orders, domains


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_placement_of_the_record_exceeds_the_bound(seed):
    """Any positions in the earlier epochs, any steps, given the last position j: mu <= mu_j."""
    rng = np.random.default_rng(seed)
    parts, e = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    c = np.where(rng.random((e, parts)) < 0.1, 0.0, rng.uniform(0.3, 1.0, (e, parts)))
    eta = rng.choice([np.ones((e, parts)), rng.uniform(0.01, 1.0, (e, parts))])
    mus = position_mus(c, parts, e, 0.8, step_size=eta)
    for _ in range(10):
        places = rng.integers(parts, size=e)
        shift = np.zeros((e, parts))
        shift[np.arange(e), places] = 0.8 * eta[np.arange(e), places]
        mu = minorant_mu(c.ravel(), eta.ravel(), shift.ravel())
        assert mu <= mus[places[-1]] * (1 + 1e-11)
    assert cyclic_last_mu(c, parts, e, 0.8, step_size=eta) == pytest.approx(mus.max(), rel=1e-11)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_bound_is_a_placement_when_steps_are_constant(seed):
    rng = np.random.default_rng(seed)
    parts, e, c = int(rng.integers(1, 8)), int(rng.integers(1, 6)), float(rng.uniform(0.5, 1.0))
    for j, mu in enumerate(position_mus(c, parts, e, 0.8)):
        shift = np.zeros((e, parts))
        shift[:-1, -1] = shift[-1, j] = 0.8
        assert mu == pytest.approx(minorant_mu(c, np.ones(parts * e), shift.ravel()), rel=1e-11)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_resets_against_the_plain_string(seed):
    """Equal steps inside an epoch: mu_j is that of the plain string, resets included."""
    rng = np.random.default_rng(seed)
    parts, e = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    c = np.where(rng.random((e, parts)) < 0.15, 0.0, rng.uniform(0.3, 1.0, (e, parts)))
    eta = np.broadcast_to(rng.uniform(0.2, 1.0, (e, 1)), (e, parts))
    for j, mu in enumerate(position_mus(c, parts, e, 0.8, step_size=eta)):
        shift = np.zeros((e, parts))
        shift[:-1, -1], shift[-1, j] = 0.8 * eta[:-1, -1], 0.8 * eta[-1, j]
        assert mu == pytest.approx(minorant_mu(c.ravel(), eta.ravel(), shift.ravel()), rel=1e-11)


def linear_loss_truth(steps, epochs, epsilon):
    """Exact delta of reshuffled SGD on a linear loss with r = 1 and public order."""
    law = {0.0: 1.0}
    for _ in range(epochs):
        grown: dict[float, float] = {}
        for (gap, mass), step in itertools.product(law.items(), steps):
            key = round(gap + step, 9)
            grown[key] = grown.get(key, 0.0) + mass / len(steps)
        law = grown
    std = math.sqrt(epochs * sum(step**2 for step in steps))
    return sum(mass * gdp_delta(gap / std, epsilon) for gap, mass in law.items())


def last_position_claim(steps, epochs, epsilon):
    """Mutant: the refuted claim that the last step of every earlier epoch is always worst."""
    parts = len(steps)
    total = 0.0
    for j in range(parts):
        shift = np.zeros((epochs, parts))
        shift[:-1, -1], shift[-1, j] = steps[-1], steps[j]
        mu = minorant_mu(1.0, np.tile(steps, epochs), shift.ravel())
        total += gdp_delta(mu, epsilon) / parts
    return total


@pytest.mark.parametrize(
    ("steps", "epochs", "epsilon", "claimed", "true"),
    [
        ((1.0, 0.01), 10, 3, 1.64e-3, 1.05e-1),
        ((1.0, 0.01), 10, 5, 6.8e-7, 2.3e-2),
        ((1.0, 0.7, 0.4, 0.1), 8, 4, 2.9e-5, 4.6e-3),
    ],
)
def test_steps_that_vary_inside_an_epoch(steps, epochs, epsilon, claimed, true):
    truth = linear_loss_truth(steps, epochs, epsilon)
    assert truth == pytest.approx(true, rel=0.02)
    assert last_position_claim(steps, epochs, epsilon) == pytest.approx(claimed, rel=0.02)
    assert last_position_claim(steps, epochs, epsilon) < truth
    for worst in (True, False):
        mus = position_mus(1.0, len(steps), epochs, 1.0, step_size=steps, worst=worst)
        assert reshuffled_last_delta(epsilon, mus) >= truth


@pytest.mark.parametrize("diameter", [1.0, 3.0, 10.0, 100.0])
def test_bounded_domain_full_batch(diameter):
    """mu^2 = min_K (D + K s)^2 / K, near 4 D s once T exceeds D/s; no plan uses it yet."""
    # proof: LAST-ITERATE-BOUNDED-DOMAIN
    s, steps = 0.3, 400
    closed = min([steps * s * s] + [(diameter + k * s) ** 2 / k for k in range(1, steps + 1)])
    starts = [minorant_mu(1.0, np.ones(k), s, diameter) for k in range(1, steps + 1)]
    best = min(minorant_mu(1.0, np.ones(steps), s), *starts)
    assert best**2 == pytest.approx(closed, rel=1e-11)


def test_curve_and_inverse():
    mus = position_mus(0.999, 30, 4, 1.0)
    for delta in (0.2, 1e-3, 1e-9, 1e-100):
        epsilon = reshuffled_last_epsilon(delta, mus)
        assert reshuffled_last_delta(epsilon, mus) <= delta
        if epsilon > 0:
            assert reshuffled_last_delta(epsilon * (1 - 1e-9), mus) > delta
        assert epsilon <= gdp_epsilon(mus.max(), delta)
    assert reshuffled_last_epsilon(0.0, mus) == math.inf
    assert reshuffled_last_epsilon(1.0, mus) == 0.0
    grid = reshuffled_last_delta(np.array([[0.0, 1.0], [-1.0, 2.0]]), mus)
    assert grid.shape == (2, 2)
    weights = np.arange(1, 31)
    expected = np.average(gdp_delta(mus, 1.0), weights=weights)
    assert reshuffled_last_delta(1.0, mus, weights) == pytest.approx(expected, rel=1e-13)


# ---------------------------------------------------------------- exact laws of small chains

AXIS = np.arange(-11.0, 11.0, 0.05)


def propagate(maps, noise, start=0.0):
    """Density of X_T on AXIS for X <- map(X) + N(0, nu^2), X_0 = start."""
    density = None
    for phi, nu in zip(maps, noise, strict=True):
        source = np.array([start]) if density is None else AXIS
        weight = np.ones(1) if density is None else density * (AXIS[1] - AXIS[0])
        kernel = np.exp(-0.5 * ((AXIS[:, None] - phi(source)[None, :]) / nu) ** 2)
        density = kernel @ weight / (nu * math.sqrt(2 * math.pi))
    return density


def hockey_stick(p, q, epsilon):
    width = AXIS[1] - AXIS[0]
    return max(
        np.sum(np.maximum(a - math.exp(epsilon) * b, 0)) * width for a, b in ((p, q), (q, p))
    )


def lipschitz_map(rng, c):
    """A random c-Lipschitz map: linear, piecewise linear, clipped, or constant."""
    kind, a = rng.integers(4), rng.uniform(-1, 1)
    return [
        lambda x: c * x + a,
        lambda x: c * np.abs(x - a),
        lambda x: c * np.clip(x, a - 1, a + 1),
        lambda x: np.full_like(x, a),
    ][kind]


def shifted(phi, s, b):
    """A neighbour of phi within sup distance s; not Lipschitz itself (only one need be)."""
    return lambda x: phi(x) + s * np.where(x > b, 1.0, -1.0) if b < 1 else phi(x) + s


def violation(rng, factor):
    """Largest (true delta - claimed delta) of one random chain, with mu scaled by `factor`."""
    steps = int(rng.integers(1, 5))
    c, nu = rng.uniform(0.3, 1.0, steps), rng.uniform(0.6, 1.3, steps)
    s = rng.uniform(0.2, 1.2, steps) * (rng.random(steps) < 0.6)
    maps = [lipschitz_map(rng, float(k)) for k in c]
    others = [shifted(f, k, rng.uniform(-1, 2)) for f, k in zip(maps, s, strict=True)]
    p, q = propagate(maps, nu), propagate(others, nu)
    mu = minorant_mu(c, nu, s) * factor
    return max(hockey_stick(p, q, e) - gdp_delta(mu, e) for e in (-1.0, 0.0, 0.3, 1.0, 2.0, 4.0))


def test_random_chains_never_violate_and_a_mutant_does():
    """Tolerance: the trapezoid error of a jump in the map is below 1e-3 at this grid step."""
    rng = np.random.default_rng(3)
    seeds = rng.integers(2**32, size=120)
    assert max(violation(np.random.default_rng(k), 1.0) for k in seeds) < 1e-3
    assert max(violation(np.random.default_rng(k), 0.95) for k in seeds) > 5e-3


def test_reshuffled_chains_never_violate():
    """parts = 2, E = 2, all orders (public), the record's loss adds a constant or a jump."""
    rng = np.random.default_rng(4)
    for _ in range(12):
        c, r = float(rng.uniform(0.5, 1.0)), float(rng.uniform(0.4, 1.5))
        other, own = lipschitz_map(rng, c), lipschitz_map(rng, c)
        changed = shifted(own, r, rng.uniform(-1, 2))
        mus = position_mus(c, 2, 2, r)
        pairs = []
        for order in itertools.product((True, False), repeat=2):
            flags = [f for first in order for f in ((True, False) if first else (False, True))]
            with_own = propagate([own if f else other for f in flags], np.ones(4))
            with_changed = propagate([changed if f else other for f in flags], np.ones(4))
            pairs.append((with_own, with_changed))
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            truth = np.mean([hockey_stick(p, q, epsilon) for p, q in pairs])
            assert truth <= reshuffled_last_delta(epsilon, mus) + 1e-3


# ---------------------------------------------------------------- gating


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 8.1}, "at most 2/smoothness = 8"),
        ({"learning_rate": [4.0] * 9 + [9.0]}, "at most 2/smoothness"),
        ({"learning_rate": [4.0] * 3}, "learning_rate must be one number"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"learning_rate": math.nan}, "learning_rate must be"),
        ({"size": 19}, "choose fewer batches"),
        ({"size": 1001, "sampler": Shuffle(20, 50)}, "do not fit"),
        ({"adjacency": "add-remove", "size": 1000}, "refused with more than one batch"),
        ({"adjacency": "add-remove"}, "needs `size`"),
        ({"norm_bound": 0.0}, "norm_bound must be"),
        ({"norm_bound": 1e200}, "smoothness must be"),
        ({"regularization": -1.0}, "regularization must be"),
        ({"noise": 1e-309}, "noise_ratio must be"),
        ({"epochs": 2.0}, "epochs must be"),
        ({"loss": "hinge"}, "loss must be"),
    ],
)
def test_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        run(**changes)


def test_a_plan_fills_the_constants_in():
    both = run(adjacency="replace-one", norm_bound=2.0, regularization=0.01, learning_rate=0.5)
    assert (both.smoothness, both.strong_convexity, both.noise_ratio) == (1.01, 0.01, 1.0)
    assert run().noise_ratio == 0.5
    with pytest.raises(ValueError, match="contraction must lie"):
        position_mus(1.0 + 1e-9, 2, 2, 1.0)


def test_no_batch_is_larger_than_what_its_sum_is_divided_by():
    for size in range(20, 90):
        for sampler in (Shuffle(20), Shuffle.of_size(size, 3), Cyclic.of_size(size, 7)):
            sizes = np.diff(sampler.edges(size))
            assert 1 <= sizes.min() <= sizes.max() <= sampler.normaliser(size)


def test_one_rate_for_all_epochs_is_the_same_as_equal_ones():
    assert run(learning_rate=[4.0] * 10).mu() == run().mu()


def test_contraction_beyond_the_textbook_step():
    """Between 2/(M+m) and 2/M the factor is eta M - 1, not 1 - eta m; it is never rounded down."""
    job = run(norm_bound=math.sqrt(2.0), regularization=0.5, learning_rate=1.5)
    assert job.contractions[0, 0] == pytest.approx(0.5, rel=1e-14)  # 1 - eta m would be 0.25
    assert (run(regularization=1e-17).contractions == 1.0).all()
    rates = run(learning_rate=np.linspace(4, 1, 10).tolist(), regularization=0.01)
    assert rates.contractions.shape == (10, 20)
    assert (rates.contractions >= 1 - np.linspace(4, 1, 10)[:, None] * 0.01).all()


def test_contraction_is_never_rounded_down():
    rng = np.random.default_rng(6)
    for _ in range(200):
        row, ridge = rng.uniform(0.3, 3.0), rng.exponential()
        smooth = loss_constants("logistic", row_bound=row, ridge=ridge)[0]
        step = 2 / smooth * rng.uniform(0.01, 0.99)
        job = run(norm_bound=row, regularization=ridge, learning_rate=step)
        assert (job.smoothness, job.strong_convexity) == (smooth, ridge)
        terms = [abs(1 - Fraction(step) * Fraction(h)) for h in (smooth, ridge)]
        assert max(terms) <= Fraction(job.contractions[0, 0]) <= max(terms) + Fraction(1, 2**50)


def test_unequal_batches_weight_the_positions():
    sizes = [50] * 19 + [10]
    job = run(sampler=Shuffle(20, 50), size=960)
    expected = np.average(gdp_delta(job.position_mus(), 1.0), weights=sizes)
    assert job.delta(1.0) == pytest.approx(expected, rel=1e-12)
    assert run(sampler=Shuffle(20, 50)).mu() == run(size=990).mu() == run().mu()


def test_loss_table():
    assert loss_constants("logistic", row_bound=2.0, ridge=0.1) == (1.1, 0.1, 2.0)
    assert loss_constants("softmax") == (0.5, 0.0, math.sqrt(2))
    assert loss_constants("huber_hinge", parameter=0.25) == (2.0, 0.0, 1.0)
    assert loss_constants("softplus", parameter=8.0) == (2.0, 0.0, 1.0)
    for arguments in (("hinge", {}), ("softplus", {}), ("logistic", {"parameter": 1.0})):
        with pytest.raises(ValueError, match="loss"):
            loss_constants(arguments[0], **arguments[1])


def test_loss_table_against_finite_differences():
    """Largest second derivative and slope of each scalar loss, and of softmax in 4 classes."""
    z, h = np.linspace(-8, 8, 32_001), 0.25
    huber = np.where(z > 1 + h, 0, np.where(z < 1 - h, 1 - z, (1 + h - z) ** 2 / (4 * h)))
    losses = {
        ("logistic", None): np.logaddexp(0, -z),
        ("huber_hinge", h): huber,
        ("softplus", 5.0): np.logaddexp(0, 5.0 * (1 - z)) / 5.0,
    }
    for (name, parameter), values in losses.items():
        curvature, _, slope = loss_constants(name, parameter=parameter)
        first = np.gradient(values, z)
        assert np.abs(first).max() == pytest.approx(slope, rel=1e-3)
        assert np.abs(np.diff(values, 2) / (z[1] - z[0]) ** 2).max() == pytest.approx(
            curvature, rel=1e-3
        )
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.full(4, 0.3), size=5000)
    top = np.linalg.eigvalsh(p[:, :, None] * np.eye(4) - p[:, :, None] * p[:, None, :])[:, -1]
    assert 0.45 < top.max() <= 0.5
    assert 1.4 < np.linalg.norm(p - np.eye(4)[0], axis=1).max() <= math.sqrt(2)


def test_unknown_batch_sizes_cover_every_size():
    """Whatever the order of the mus, and for the sizes themselves: "even" m or m + 1, "rest" r."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        mus = rng.uniform(0.1, 3.0, 5)
        even, rest = (reshuffled_last_delta(1.0, mus, kind) for kind in ("even", "rest"))
        sizes = itertools.product((1, 2), repeat=5)
        worst = max(reshuffled_last_delta(1.0, mus, size) for size in sizes)
        assert even == pytest.approx(worst, rel=1e-12)
        for m in (1, 2, 7):
            sizes = itertools.product((m, m + 1), repeat=5)
            assert max(reshuffled_last_delta(1.0, mus, size) for size in sizes) <= even * (
                1 + 1e-12
            )
        cut = [reshuffled_last_delta(1.0, mus, [50] * 4 + [r]) for r in range(1, 51)]
        assert max(cut) * (1 - 1e-12) <= rest <= max(cut) * 1.05
    assert reshuffled_last_delta(1.0, [2.0], "rest") == reshuffled_last_delta(1.0, [2.0])
