"""Private whitening: the second moment's sensitivity, the plan that is charged, what runs."""

import importlib
import itertools
import math
from typing import Any

import numpy as np
import pytest
from one_shot_oracle import (
    ADJACENCIES,
    SIZE,
    Line,
    PaidFirst,
    Spy,
    chi_square_p,
    facts,
    line_law,
    mechanisms,
    one_shot,
    with_gaussian,
)
from scipy import optimize, sparse

from helpers import watching
from noisette.core import accounting
from noisette.core.accounting.objective_pair import ObjectiveReplaced
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian, ObjectiveNoise
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter, NoisetteError, Unproven
from noisette.fitting.algorithms import (
    Passage,
    Public,
    Records,
    Trained,
    WhitenedObjective,
)
from noisette.fitting.losses import Hinge, HuberHinge, Logistic, Softmax, SoftplusHinge
from noisette.fitting.losses.rows import row_products

module = importlib.import_module("noisette.fitting.algorithms.whitening")


def train(*given: Any, share: float = 0.1, **named: Any) -> Trained:
    return one_shot(WhitenedObjective(share), *given, **named)


def data(n: int = 60, d: int = 3, bound: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(n, d)) * np.array([1.0, 0.3, 0.1])[:d]
    rows *= (bound / np.maximum(bound, np.linalg.norm(rows, axis=1)))[:, None]
    return rows, np.where(rows[:, 0] > 0.1, 1.0, -1.0)


def flat(rows: np.ndarray) -> np.ndarray:
    """The isometric coordinates of sum x x', written independently."""
    s = rows.T @ rows
    d = len(s)
    off = [math.sqrt(2.0) * s[i, j] for i, j in itertools.combinations(range(d), 2)]
    return np.array([*np.diag(s), *off])


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("bound", [1.0, 3.0])
def test_second_moment_sensitivity_is_attained(adjacency: str, bound: float) -> None:
    spy = Spy()
    rows, y = data(bound=bound)
    public = facts(adjacency, 1.0, 1e-6, norm_bound=bound, size=60)
    train(rows, [y], Logistic(), public, Randomness.from_seed(0), observer=spy)
    value, mechanism, part = spy.seen[0]
    assert part == 0
    # entries are on a public grid, so that sums are exact
    np.testing.assert_allclose(value.value, flat(rows), rtol=1e-5, atol=1e-5)
    norm = np.linalg.norm(rows.T @ rows)
    assert np.linalg.norm(value.value) == pytest.approx(norm, rel=1e-5)

    def moved(angles: np.ndarray) -> float:
        x, z = (
            bound * np.array([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)])
            for a, b in (angles[:2], angles[2:])
        )
        other = np.outer(z, z) if adjacency == "replace-one" else 0.0
        return -float(np.linalg.norm(np.outer(x, x) - other))

    best = max(
        -optimize.minimize(moved, start, method="Nelder-Mead").fun
        for start in np.random.default_rng(1).uniform(0.0, 3.0, (4, 4))
    )
    assert best <= value.l2 * (1.0 + 1e-9)
    assert best == pytest.approx(value.l2, rel=1e-6), "tight"
    if adjacency == "replace-one":
        assert best > 1.4 * bound**2, "the mutant with R^2 under replace-one is caught"
    # scale = multiplier * unit, unit = sensitivity / contributions
    mu = Adjacency.of(adjacency).contributions / mechanism.noise_multiplier
    plan = public.ledger.charges[0].plan
    assert repr(mechanism.noise_multiplier)[:12] in plan
    assert 0.0 < mu < 1.0


def test_second_moment_noise_is_the_symmetric_ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Diagonal N(0, s^2), off-diagonal N(0, s^2 / 2), at size 1e-6; half and twice rejected."""
    seen: list[np.ndarray] = []
    real = module._private_second_moment

    def watched(*args: object) -> np.ndarray:
        seen.append(real(*args))
        return seen[-1]

    monkeypatch.setattr(module, "_private_second_moment", watched)
    rows, y = data()
    for seed in range(25):
        public = facts("replace-one", 1.0, 1e-6, size=60)
        trained = train(rows, [y], Logistic(), public, Randomness.from_seed(seed))
    noise = np.array(seen) - rows.T @ rows
    np.testing.assert_allclose(noise, noise.transpose(0, 2, 1))
    scale = mechanisms(trained)[0].noise_multiplier * math.sqrt(2.0) / 2.0
    diagonal = np.array([np.diag(one) for one in noise])
    upper = np.array([one[np.triu_indices(3, 1)] for one in noise])
    for values, size in ((diagonal, scale), (upper, scale / math.sqrt(2.0))):
        assert chi_square_p(values, size) > SIZE
        for mutant in (0.5, 2.0):
            assert chi_square_p(values, size * mutant) < SIZE


@pytest.mark.parametrize(
    ("loss", "adjacency"),
    [
        *((Logistic(), adjacency) for adjacency in ADJACENCIES),
        (SoftplusHinge(4.0), "replace-one"),
        (HuberHinge(0.5), "zero-out"),
        (Softmax(3), "replace-one"),
    ],
    ids=str,
)
def test_what_ran_is_what_was_charged(loss: object, adjacency: str) -> None:
    spy = Spy()
    rows, y = data()
    target = np.arange(60) % 3 if isinstance(loss, Softmax) else y
    public = facts(adjacency, 1.0, 1e-6, size=60, weight_bound=1.5)
    trained = train(
        rows, [target], loss, public, Randomness.from_seed(0), sample_weight=np.full(60, 1.2),
        observer=spy,
    )  # fmt: skip
    moment, noise, hiding = mechanisms(trained)
    relation = Adjacency.of(adjacency)
    assert isinstance(noise, ObjectiveNoise)
    assert [m for _, m, _ in spy.seen] == [moment, noise, hiding]
    assert [part for _, _, part in spy.seen] == [0, 1, 2]
    assert accounting.delta(trained.permit.plan, epsilon=1.0, adjacency=relation) <= 1e-6
    (ran,) = spy.solved
    # the clip after the map is enforced, with the new bound
    norms = np.linalg.norm(ran["rows"], axis=1)
    assert norms.max() <= ran["norm_bound"]
    # Lambda and the scale of b belong to the charged k and multiplier
    per_row = {"softmax": loss.trace, "one-signed": loss.smoothness}.get(
        noise.shape, loss.self_bounded
    )
    k = 1.5 * per_row * ran["norm_bound"] ** 2 / ran["regularization"]
    assert k == pytest.approx(noise.curvature, rel=3e-9)
    assert k <= noise.curvature  # the plan pays for rounding in the norms
    term = spy.seen[1][0]
    assert term.contribution == pytest.approx(1.5 * loss.lipschitz * ran["norm_bound"])
    scale = noise.noise_multiplier * term.contribution
    assert np.linalg.norm(ran["linear"]) < scale * (math.sqrt(term.dimension) + 8.0)


def test_far_rows_are_clipped_after_the_map() -> None:
    """A record orthogonal to all others has the largest leverage: only the clip protects it."""
    spy = Spy()
    rows, y = np.zeros((4000, 3)), np.ones(4000)
    rows[:, 0], rows[0] = 0.1, [0.0, 0.0, 1.0]
    public = facts("zero-out", 1.0, 1e-6, size=4000)
    train(rows, [y], Logistic(), public, Randomness.from_seed(2), observer=spy)
    (ran,) = spy.solved
    mapped, bound = ran["rows"], ran["norm_bound"]
    assert np.linalg.norm(mapped[0]) == pytest.approx(bound, rel=1e-12)
    assert np.linalg.norm(mapped[1]) < bound


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-6), (3.0, 1e-5)])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_accounting_of_the_plan(epsilon: float, delta: float, share: float) -> None:
    """The plan's delta against E HS(epsilon - M~(psi)) by direct quadrature, add-remove."""
    rows, y = data(4)
    public = facts("add-remove", epsilon, delta, size=60)
    trained = train(rows, [y], Logistic(), public, Randomness.from_seed(0), share=share)
    moment, noise, hiding = mechanisms(trained)
    rest = math.hypot(1.0 / moment.noise_multiplier, 1.0 / hiding.noise_multiplier)
    mu, k = 1.0 / noise.noise_multiplier, noise.curvature
    assert k == pytest.approx(epsilon / 1.5)
    offset = max(0.0, k - mu * mu / 2.0)
    z = np.linspace(-11.0, 11.0, 60_001)
    psi, mass = mu * mu / 2.0 + mu * z, np.exp(-z * z / 2.0)
    mass /= mass.sum()
    g = np.linspace(0.0, 1.0, 2001)
    few = np.linspace(psi[0], psi[-1], 400)
    table = np.max(np.multiply.outer(few, g) + g * (1.0 - g) * offset, axis=1)
    m = np.where(psi <= -offset, 0.0, np.where(
        psi >= offset, psi, (offset + psi) ** 2 / (4.0 * offset)))  # fmt: skip
    np.testing.assert_allclose(np.interp(few, psi, m), table, atol=1e-6)
    held = with_gaussian(m, mass, rest, epsilon)
    not_held = with_gaussian(np.maximum(psi, 0.0), mass, rest, epsilon)
    counted = accounting.delta(trained.permit.plan, epsilon=epsilon, adjacency="add-remove")
    assert counted >= max(held, not_held) * (1.0 - 1e-6)
    assert counted <= max(held, not_held) * 1.01
    assert counted <= delta
    # and above exact densities of the worst lines
    lam = 1.0 / k
    for weight in (1500.0, 4000.0, 1.2e4):
        line = Line((-0.01,), (weight,))
        for p, q in ((line.plus(1.0), line), (line, line.plus(1.0))):
            law = line_law(p, q, lam, "gaussian", 1.0 / mu, 4001)
            assert with_gaussian(*law, rest, epsilon) <= counted * 1.0005


def test_accounting_of_the_plan_under_replace_one() -> None:
    """Exact replace-one pairs and the pair's own table, each composed with the Gaussians."""
    rows, y = data(4)
    public = facts("replace-one", 1.0, 1e-6, size=4)
    trained = train(rows, [y], Logistic(), public, Randomness.from_seed(0))
    moment, noise, hiding = mechanisms(trained)
    rest = 2.0 * math.hypot(1.0 / moment.noise_multiplier, 1.0 / hiding.noise_multiplier)
    counted = accounting.delta(trained.permit.plan, epsilon=1.0, adjacency="replace-one")
    table = ObjectiveReplaced(noise).table
    composed = with_gaussian(table.losses, table.p, rest, 1.0) + table.infinite_p
    assert counted >= composed * (1.0 - 1e-4)
    assert counted <= composed * 1.01
    for weight in (0.0, 1500.0, 1.2e4):
        line = Line((-0.01,), (weight,))
        for x, z in ((1.0, -1.0), (-1.0, 1.0)):
            law = line_law(
                line.plus(x), line.plus(z), 1.0 / noise.curvature, "gaussian",
                noise.noise_multiplier, 4001,
            )  # fmt: skip
            assert with_gaussian(*law, rest, 1.0) <= counted


def test_result_is_reproducible_and_sparse_equals_dense() -> None:
    rows, y = data()
    runs = [
        train(x, [y], Logistic(), facts("zero-out", 1.0, 1e-6, size=60), Randomness.from_seed(s))
        for x, s in ((rows, 3), (rows, 3), (sparse.csr_array(rows), 3), (rows, 4))
    ]
    first, again, thin, other = (run.released[0] for run in runs)
    assert np.array_equal(first, again)
    np.testing.assert_allclose(first, thin, rtol=1e-5, atol=1e-6)
    assert not np.allclose(first, other)


def test_refusals_charge_nothing() -> None:
    rows, y = data()
    public = facts("zero-out", 1.0, 1e-6, size=60)
    source = Randomness.from_seed(0)
    with pytest.raises(Unproven):
        train(rows, [y, y], Logistic(), public, source)
    with pytest.raises(Unproven):
        train(rows, [y], Hinge(), public, source)
    for share in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InvalidParameter):
            train(rows, [y], Logistic(), public, source, share=share)
    pure = facts("zero-out", 1.0, 0.0, size=60)
    with pytest.raises(InvalidParameter):
        train(rows, [y], Logistic(), pure, source)
    assert public.ledger.charges == pure.ledger.charges == []


def test_charge_comes_before_noise() -> None:
    public = facts("replace-one", 1.0, 1e-6, size=60)
    watch = PaidFirst(public.ledger, (1.0, 1e-6))
    rows, y = data()
    trained = train(rows, [y], Logistic(), public, Randomness.from_seed(1), observer=watch)
    assert watch.crossings == 3
    assert [trained.permit.draws_left(part) for part in range(3)] == [0, 0, 0]
    with pytest.raises(NoisetteError, match="nothing was charged"):
        train(rows, [y], Logistic(), public, Randomness.from_seed(1))
    assert isinstance(mechanisms(trained)[0], Gaussian)


# --- rows that would break the sensitivity -----------------------------------------------------


def test_rows_beyond_the_norm_bound_are_refused_before_the_charge() -> None:
    rows, y = data()
    rows[0] = [0.0, 0.0, 10.0]
    public = facts("replace-one", 1.0, 1e-6, size=60)
    with pytest.raises(InvalidData, match="norm at most norm_bound=1"):
        train(rows, [y], Logistic(), public, Randomness.from_seed(0))
    assert public.ledger.charges == []


def test_second_moment_of_short_types_keeps_its_sensitivity() -> None:
    """127 or 128 one-hot rows in int8: the count wraps to -128, 255 times the sensitivity."""
    spy = Spy()
    for n in (127, 128):
        rows = np.eye(2, dtype=np.int8)[:1].repeat(n, axis=0)
        public = facts("add-remove", 1.0, 1e-6, size=200)
        train(rows, [np.ones(n)], Logistic(), public, Randomness.from_seed(0), observer=spy)
    first, second = (bounded for bounded, _, part in spy.seen if part == 0)
    assert np.linalg.norm(first.value - second.value) <= first.l2


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_record_of_weight_0_is_in_no_second_moment(adjacency: str) -> None:
    """Under zero-out it is the null record: with its row the sum would move by sqrt(2) R^2."""
    values = []

    class Bare:
        """Hands out what would have crossed the door."""

        def release(self, real: Any, bounded: Any, *given: Any, **named: Any) -> Any:
            values.append(bounded)
            return bounded.value

    public = facts(adjacency, 1.0, 1e-6, size=60).public(Logistic(), 3)
    rows, y = data()
    weights = np.append(np.ones(59), 0.0)
    for last in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]):
        rows = np.vstack([rows[:-1], last])
        records = Records(rows, [y], weights)
        with watching(Bare()):
            module._private_second_moment(records, public, Passage(None, None))
    np.testing.assert_array_equal(values[0].value, values[1].value)


@pytest.mark.slow
def test_second_moment_of_float32_keeps_its_sensitivity() -> None:
    values = []

    class Bare:
        """Hands out what would have crossed the door."""

        def release(self, real: Any, bounded: Any, *given: Any, **named: Any) -> Any:
            values.append(bounded)
            return bounded.value

    public = facts("add-remove", 1.0, 1e-6, size=10**8).public(Logistic(), 2)
    passage = Passage(None, None)
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(4):
        rows = np.zeros((1 << 23, 2), np.float32)
        rows[:, 0] = rng.choice([1.0, 0.999, 0.7, 0.5, 0.3], size=1 << 23)
        for x in (rows, rows[1:]):
            with watching(Bare()):
                module._private_second_moment(Records(x, []), public, passage)
        worst = max(worst, float(np.linalg.norm(values[-1].value - values[-2].value)))
    assert worst <= 1.0 + 1e-6


def test_a_guess_of_n_may_be_too_small_under_add_remove() -> None:
    """n = guess + 1 must not raise: neighbours n = guess and n = guess + 1 would be told apart."""
    rows, y = data(61)
    public = facts("add-remove", 1.0, 1e-6, size=200)
    trained = train(rows, [y], Logistic(), public, Randomness.from_seed(0), guess=60)
    assert (trained.permit.epsilon, trained.permit.delta) == (1.0, 1e-6)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(4)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("relation", ADJACENCIES)
@pytest.mark.parametrize("budget", [700.0, 1e7])
def test_an_epsilon_beyond_floating_point_is_refused_in_a_sentence(
    budget: float, relation: Any, loss: Any
) -> None:
    """It raised OverflowError, or ValueError: -inf + inf in fsum."""
    public = Public(
        epsilon=budget, delta=1e-5, adjacency=Adjacency.of(relation), loss=loss, features=3,
        norm_bound=1.0, size=1000, most=1000,
    )  # fmt: skip
    try:
        prepared = WhitenedObjective().prepare(public)
    except NoisetteError:
        return
    assert accounting.epsilon(prepared.plan, delta=1e-5, adjacency=relation) <= budget


@pytest.mark.parametrize("wide", [5, 33, 100])
def test_a_row_is_mapped_alike_however_many_there_are(wide: int) -> None:
    """A dense product rounds a row by how many there are: one record more moved all others."""
    generator = np.random.default_rng(0)
    X, matrix = generator.normal(size=(700, wide)), generator.normal(size=(wide, wide))
    whole = row_products(X, matrix)
    np.testing.assert_allclose(whole, X @ matrix, rtol=1e-12, atol=1e-12)
    for n in (1, 2, 3, 63, 64, 65, 331, 698, 699):
        assert np.array_equal(row_products(X[:n], matrix), whole[:n])
        assert np.array_equal(row_products(X[n:], matrix), whole[n:])
