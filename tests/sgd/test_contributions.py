"""One record's share of a step: whatever its row, label or level, it is within the bound."""

import math

import numpy as np
import pytest
from iterative import gradient_descent, noisy_sgd, single_pass
from scipy import sparse
from small_table import SEEDED, SIGNS, D, N, X, Y, model

from noisette import Ledger
from noisette.core.adjacency import Adjacency
from noisette.core.randomness import Randomness
from noisette.core.sampling import Poisson
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms.gradient_descent import _gradient_of, _sensitivity
from noisette.fitting.algorithms.levels import Levels
from noisette.fitting.algorithms.steps import Update, canonical_rows
from noisette.fitting.losses import Hinge, HuberHinge, Logistic, Softmax, SoftplusHinge


@pytest.mark.parametrize(
    "bound", [{"norm_bound": 1e-170}, {"norm_bound": None, "clip_norm": 1e-170}]
)
def test_a_bound_whose_square_vanishes_is_refused(bound) -> None:
    """Rows of length 1e-163 had the computed length 0 and moved the weights by 1e7 noise scales."""
    ledger = Ledger(1.0)
    steps = {"learning_rate": 1.0, "regularization": (1e-4, 1e300)}
    tiny = model(ledger=ledger, fit_intercept=False, batch_size=10, **steps, **bound)
    with pytest.raises(InvalidParameter, match="between 1e-30 and"):
        tiny.fit(np.full((N, D), 1e-163), Y)
    assert ledger.spent == (0.0, 0.0)


def test_no_row_whatever_its_size_moves_the_sum_by_more_than_the_bound() -> None:
    """2 x 600 random settings: loss, bounds from 1e-20 to 1e20, rows from 1e-320 to 1e308."""
    rng = np.random.default_rng(1)
    losses = [Logistic(), Hinge(), HuberHinge(), SoftplusHinge(), Softmax(3)]
    for _ in range(600):
        loss, d = losses[rng.integers(5)], int(rng.integers(1, 6))
        bound = [None, 1.0, 0.3, 1e-20, 1e20][rng.integers(5)]
        clip = [None, 0.5, 2.0, 1e-15, 1e15][rng.integers(5)]
        clip = 1.0 if bound is None and clip is None else clip
        update = Update(loss, bound, [None, 0.35, 100.0][rng.integers(3)], clip)
        row = rng.standard_normal((1, d))
        row *= 10.0 ** rng.uniform(-320.0, 307.9) / np.abs(row).max()
        w = rng.standard_normal(update.dimension(d)) * 10.0 ** rng.uniform(-5.0, 40.0)
        y = np.array([rng.integers(3)]) if loss.kind == "multiclass" else rng.choice([-1.0, 1.0], 1)
        for rows in (row, sparse.csr_matrix(row)):
            g = _gradient_of(canonical_rows(rows), y, update, None)(w)
            assert np.linalg.norm(g / update.contribution) <= 1.0 + 1e-13


@pytest.mark.parametrize("clip", [None, 0.7])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_two_logistic_gradients_are_no_further_apart_than_the_sensitivity(adjacency, clip) -> None:
    rng = np.random.default_rng(2)
    update = Update(Logistic(), 1.5, 0.4, clip)
    closest = 0.0
    for _ in range(300):
        w = rng.standard_normal(4) * 10.0 ** rng.uniform(-2.0, 1.5)
        # rows along w are the worst, and those at the angle of the theorem's x*
        rows = rng.standard_normal((40, 3)) + np.outer(rng.uniform(-9.0, 9.0, 40), w[:3])
        y = rng.choice([-1.0, 1.0], 40)
        g = np.array(
            [_gradient_of(rows[i : i + 1], y[i : i + 1], update, None)(w) for i in range(40)]
        )
        if adjacency is Adjacency.REPLACE_ONE:
            moved = np.linalg.norm(g[:, None] - g[None], axis=2).max()
        else:
            moved = np.linalg.norm(g, axis=1).max()
        bound, _ = _sensitivity(update, w, adjacency)
        assert moved <= bound * (1.0 + 1e-12)
        closest = max(closest, moved / bound)
    assert closest > 0.9


@pytest.mark.parametrize("labels", [2.0 * SIGNS, Y.astype(float), np.full(N, math.nan), SIGNS[:-1]])
@pytest.mark.parametrize("run", ["single", "noisy", "descent"])
def test_labels_that_scale_a_gradient_are_refused_before_the_charge(run, labels) -> None:
    """A margin loss multiplies by the label: with labels of 2 everybody counted double."""
    ledger, update = Ledger(1.0, 1e-6), Update(Logistic())
    shared = {"ledger": ledger, "epsilon": 1.0, "delta": 1e-6}
    runs = {
        "single": lambda: single_pass(
            X, labels, update, SEEDED, batch_size=10, noise="gaussian", **shared
        ),
        "noisy": lambda: noisy_sgd(
            X, labels, update, SEEDED, sampler=Poisson(0.1), uses=2, **shared
        ),
        "descent": lambda: gradient_descent(X, labels, update, SEEDED, **shared),
    }
    with pytest.raises((InvalidData, InvalidParameter)):
        runs[run]()
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("values", [np.full(N, -5.0), np.full(N, math.nan), np.ones(N - 1)])
def test_levels_that_enlarge_a_gradient_are_refused(values) -> None:
    """A level of -5 was a share of -5 in the sum."""
    ledger = Ledger(1.0)
    with pytest.raises(InvalidData, match=r"^(levels|sample_epsilon) must"):
        single_pass(
            X, SIGNS, Update(Logistic()), SEEDED, ledger=ledger, epsilon=1.0, batch_size=10,
            levels=Levels(values),
        )  # fmt: skip
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("store", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(2)])
def test_a_row_that_is_not_finite_is_a_blank_row(store, loss) -> None:
    """Whoever calls the training functions: 0 times NaN is NaN, so blank rows are not added."""
    update = Update(loss, bias=0.35)
    blank = X.copy()
    blank[[3, 7]] = 0.0
    rows = blank.copy()
    rows[3], rows[7, 1] = math.inf, math.nan
    y = SIGNS if loss.kind == "margin" else Y
    w = np.random.default_rng(0).standard_normal(update.dimension(D))
    one, two = (_gradient_of(store(part), y, update, None)(w) for part in (rows, blank))
    np.testing.assert_allclose(one, two, rtol=1e-12)
    shared = {"epsilon": 1.0, "batch_size": 10}
    released = [
        single_pass(store(part), y, update, Randomness.from_seed(0), ledger=Ledger(1.0), **shared)
        for part in (rows, blank)
    ]
    np.testing.assert_allclose(released[0].released[0], released[1].released[0], rtol=1e-9)
