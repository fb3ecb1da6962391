"""Every solve ends within public steps, or is refused for its public facts (SOLVER-ENDS)."""

import sys
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse
from solvers_oracle import ExactProblem

from noisette.errors import InvalidParameter
from noisette.fitting.losses import (
    LOSSES,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Softmax,
    SoftplusHinge,
    Squared,
)
from noisette.fitting.losses.rows import Rows
from noisette.fitting.solvers import (
    PublicFacts,
    SolverDefect,
    check_ends,
    continuation,
    default_tolerance,
    hinge,
    interior,
    minimise,
    most_steps,
    smooth,
)
from noisette.fitting.solvers.limits import interior_plan
from noisette.fitting.solvers.objective import Objective, Preconditioner

QUADRATIC = [Hinge(), HuberHinge(), HuberHinge(0.01), Huber(0.1)]
CONCORDANT = [Logistic(), SoftplusHinge(30.0), Softmax(4), Squared()]


def ill_scaled(loss, seed):
    """Columns over nine orders of magnitude, some rows tiny or absent, extreme weights."""
    rng = np.random.default_rng(seed)
    n, d = int(10 ** rng.uniform(0, 1.6)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-9, 0, d)
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12)
    X *= rng.choice([1.0, 1e-6, 0.0], (n, 1), p=[0.8, 0.1, 0.1])
    if rng.random() < 0.3:
        X = X[rng.integers(0, min(n, 3), n)]
    y = rng.choice([-1.0, 1.0], n) if loss.kind == "margin" else rng.uniform(-1, 1, n)
    if loss.kind == "multiclass":
        y = rng.integers(0, loss.classes, n)
    cap = float(10 ** rng.uniform(-3, 6))
    omega = cap * 10 ** rng.uniform(-12, 0, n) * rng.choice([1, 0], n, p=[0.9, 0.1])
    b = rng.normal(size=loss.parameter_shape(d)) * 10 ** rng.uniform(-3, 3) * rng.choice([0, 1])
    lam = float(10 ** rng.uniform(-11, 3))
    facts = PublicFacts(n, d, 1.0, cap, lam, float(np.linalg.norm(b)))
    rows = Rows(sparse.csr_array(X) if seed % 5 == 0 else X)
    return Objective(loss, rows, loss.targets(y), omega, b, facts)


def last_resort(objective, tolerance):
    """Only the proven phase, from nothing; reached/tolerance."""
    with np.errstate(all="ignore"):
        if isinstance(objective.loss, Hinge):
            return hinge.last_resort(objective, tolerance).distance * objective.lam / tolerance
        model = Preconditioner.of(objective)
        return smooth.last_resort(objective, model, tolerance).norm_bound / tolerance


def solvable(loss, seed):
    """An ill-scaled problem whose public facts are accepted: Lambda is raised until they are."""
    objective = ill_scaled(loss, seed)
    facts = objective.facts
    for _ in range(40):
        try:
            check_ends(loss, facts)
            break
        except InvalidParameter:
            facts = replace(facts, regularization=3.0 * facts.regularization)
    objective.facts, objective.lam = facts, facts.regularization
    return objective, default_tolerance(loss, facts)


def count_steps(monkeypatch):
    """A list whose length is the number of Newton steps of the last resorts."""
    steps = []
    plain, inner = continuation.newton_step, interior._Path._step

    def newton_step(*args):
        steps.append(1)
        return plain(*args)

    def step(*args):
        steps.append(1)
        return inner(*args)

    monkeypatch.setattr(continuation, "newton_step", newton_step)
    monkeypatch.setattr(interior._Path, "_step", step)
    return steps


@pytest.mark.parametrize("loss", QUADRATIC + CONCORDANT, ids=repr)
def test_the_last_resort_alone_certifies_within_public_steps(loss, monkeypatch):
    steps = count_steps(monkeypatch)
    for seed in range(8):
        objective, tolerance = solvable(loss, seed)
        steps.clear()
        assert last_resort(objective, tolerance) <= 1.0
        assert len(steps) <= 2 * most_steps(
            loss, objective.facts, tolerance
        )  # twice: two precisions


@pytest.mark.slow
@pytest.mark.parametrize("loss", QUADRATIC + CONCORDANT, ids=repr)
def test_the_last_resort_alone_certifies_many(loss, monkeypatch):
    steps = count_steps(monkeypatch)
    for seed in range(1000, 1400):
        objective, tolerance = solvable(loss, seed)
        steps.clear()
        assert last_resort(objective, tolerance) <= 1.0
        assert len(steps) <= 2 * most_steps(loss, objective.facts, tolerance)


@pytest.mark.parametrize("loss", QUADRATIC, ids=repr)
def test_decimal_arithmetic_reaches_the_proven_end(loss):
    """Without float64's help, down to the last mu: w(a) is the optimum to many digits."""
    for seed in (1, 2, 3):
        objective, tolerance = solvable(loss, seed)
        last, digits, _ = interior_plan(loss, objective.facts, tolerance)
        points = list(interior.interior_points(objective, last, digits))
        w, alpha = points[-1]
        if isinstance(loss, Hinge):
            assert hinge.certify(objective, alpha, w).distance * objective.lam <= tolerance
        else:
            objective.exact = True
            assert objective.at(w).norm_bound <= tolerance


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), SoftplusHinge()], ids=repr)
def test_the_last_resort_is_true_in_exact_arithmetic(loss):
    rng = np.random.default_rng(11)
    n, d, lam = 12, 3, 1e-3
    X = rng.normal(size=(n, d)) * [1.0, 1e-4, 1e-8]
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12)
    y = rng.choice([-1.0, 1.0], n)
    facts = PublicFacts(n, d, 1.0, 1.0, lam, 0.0)
    objective = Objective(loss, Rows(X), loss.targets(y), None, None, facts)
    tolerance = default_tolerance(loss, facts)
    with np.errstate(all="ignore"):
        point = smooth.last_resort(objective, Preconditioner.of(objective), tolerance)
    with mp.workdps(40):
        assert ExactProblem(loss, X, y, lam).gradient_norm(point.w) <= point.norm_bound <= tolerance


@pytest.mark.parametrize("loss", QUADRATIC + CONCORDANT, ids=repr)
def test_rows_of_weight_zero_leave_the_linear_terms_minimum(loss):
    facts = PublicFacts(2, 1, 1.0, 1.0, 0.5, 3.0)
    b = np.full(loss.parameter_shape(1), 3.0) / np.sqrt(loss.parameter_shape(1)[0])
    y = loss.targets(np.ones(2))
    objective = Objective(loss, Rows([[1.0], [-1.0]]), y, np.zeros(2), b, facts)
    assert last_resort(objective, default_tolerance(loss, facts)) <= 1.0


def test_one_short_fall_of_mu_needs_one_step():
    """SOLVER-INTERIOR (ii), SOLVER-CONTINUATION (ii): the guaranteed factors do what they claim."""
    for seed in range(6):
        objective, _ = solvable(HuberHinge(), seed)
        path = interior._Path(objective, 60)
        assert path.reduce(10.0) or path.reduce(2.0)
        short = interior.shortest_ratio(objective.rows.n)
        calls = []
        plain = path._step
        path._step = lambda mu, plain=plain, calls=calls: calls.append(1) or plain(mu)
        for _ in range(5):
            assert path.reduce(short)
        assert len(calls) == 5


def stalled(seed):
    """Hinge problems with a linear term on which coordinate ascent alone went on for ever."""
    rng = np.random.default_rng(seed)
    n, d = int(10 ** rng.uniform(0.7, 2.5)), int(rng.integers(1, 11))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-9, 0, d)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    lam = float(10 ** rng.uniform(-11, -3))
    score = X @ rng.normal(size=d) * 4
    y = np.where(score + rng.logistic(size=n) * rng.choice([0, 1]) > 0, 1.0, -1.0)
    return X, y, {"regularization": lam, "linear": rng.normal(size=d) * 10 ** rng.uniform(-2, 3)}


@pytest.mark.parametrize("seed", [191, 635])
def test_hinge_with_a_linear_term_that_float64_cannot_finish(seed):
    X, y, options = stalled(seed)
    solution = minimise(Hinge(), X, y, **options)
    assert solution.reached <= solution.gradient_norm_bound


def test_a_regularization_too_small_is_refused_and_the_named_one_works():
    rng = np.random.default_rng(12)
    X = rng.normal(size=(40, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12)
    for loss in CONCORDANT:
        y = loss.targets(np.ones(40) if loss.kind != "multiclass" else np.zeros(40))
        with pytest.raises(InvalidParameter, match=r"too small.*; use (\S+) or more") as error:
            minimise(loss, X, y, regularization=1e-13)
        named = float(str(error.value).split("; use ")[1].split(" ")[0])
        assert named < 1e-4
        assert minimise(loss, X, y, regularization=named).distance_bound > 0
        with pytest.raises(InvalidParameter, match="too small"):
            minimise(loss, X, y, regularization=0.95 * named)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm_bound": 1e-163}, "norm_bound must lie between"),
        ({"norm_bound": 1e160}, "norm_bound must lie between"),
        ({"weight_bound": 4.4e298}, "weight_bound must lie between"),
        ({"regularization": 1e-100}, "regularization must lie between"),
        ({"linear": np.array([1e100])}, "linear must have a norm"),
        ({"loss": HuberHinge(1e-40)}, "constant of the huber_hinge loss must lie between"),
    ],
)
def test_what_overflows_or_vanishes_is_refused(change, message):
    options = {"loss": Logistic(), "regularization": 1.0} | change
    with pytest.raises(InvalidParameter, match=message):
        minimise(options.pop("loss"), [[0.0]], [1], **options)


def test_nan_is_not_a_certificate(monkeypatch):
    """A gradient or a gap that is not a number must never pass for a small one."""
    facts = PublicFacts(1, 1, 1.0, 1.0, 1.0, 0.0)
    objective = Objective(Logistic(), Rows([[1.0]]), np.ones(1), None, None, facts)
    with np.errstate(all="ignore"):
        assert objective.at(np.array([np.nan])).norm_bound == np.inf
        model = Preconditioner.of(objective)
        assert smooth._settled(objective.at(np.array([np.nan])), model, 1.0)
        spoiled = Objective(Hinge(), Rows([[1.0]]), np.ones(1), None, np.array([np.nan]), facts)
        assert hinge.certify(spoiled, np.ones(1)).distance == np.inf
    for loss, name in ((Logistic(), "minimise_smooth"), (Hinge(), "minimise_hinge")):
        bad = type("Bad", (), {"w": np.zeros(1), "norm_bound": np.nan, "distance": np.nan})()
        module = sys.modules["noisette.fitting.solvers.minimise"]
        monkeypatch.setattr(module, name, lambda *a, bad=bad: bad)
        with pytest.raises(SolverDefect):
            minimise(loss, [[1.0]], [1], regularization=1.0)


@pytest.mark.parametrize("loss", [e for c in LOSSES.values() for e in c.examples()], ids=repr)
def test_every_loss_has_a_last_resort_and_its_dual_is_its_own(loss):
    dual = loss.box_dual(np.full(1, 0.3 if loss.kind == "regression" else -1.0))
    assert (dual is None) != (loss.self_concordance is None)
    if dual is None:
        return
    y = 0.3 if loss.kind == "regression" else -1.0
    sign, low, high, curve, centre, gain = (float(np.max(part)) for part in dual)
    sign = y if loss.kind == "margin" else sign
    gain = y if loss.kind == "regression" else gain
    a = np.linspace(low, high, 200_001)
    values = [
        float(np.max(a * (gain - sign * s) - curve * (a - centre) ** 2 / 2))
        - float(loss.at_scores(np.array([s]), np.array([y]))[0][0])
        for s in (-3.0, -1.2, -0.4, 0.0, 0.9, 1.1, 2.5)
    ]
    np.testing.assert_allclose(values, values[0], atol=1e-8)


def test_a_hinge_that_nobody_waits_for_is_refused_before_the_charge() -> None:
    """n omega R^2 / Lambda of 4e41 was accepted: charged, and not ended after 45 s."""
    from noisette.core.ledger import Ledger
    from noisette.models import LinearSVC

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 10)), rng.integers(0, 2, 1000)
    ledger = Ledger(1.0)
    model = LinearSVC(
        1.0, loss="hinge", mechanism="output", regularization=2e-12, norm_bound=375.0,
        weight_bound=6e24, ledger=ledger,
    )  # fmt: skip
    with pytest.raises(InvalidParameter, match="too small for a solve in reasonable time"):
        model.fit(X, y, sample_weight=np.full(1000, 6e24))
    assert ledger.charges == []
