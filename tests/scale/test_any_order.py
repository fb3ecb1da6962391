"""ROUND-ANY-ORDER: sums in any tree against rational numbers, and what a released sum pays for."""

from collections import Counter
from fractions import Fraction
from functools import partial
from operator import add
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

from helpers import watching
from noisette import PoissonRegressor, SGDClassifier
from noisette.core.adjacency import Adjacency
from noisette.core.parts import merges_of
from noisette.fitting.algorithms.gradient_descent import _gradient_of, _rounding_of
from noisette.fitting.algorithms.public import Public
from noisette.fitting.algorithms.steps import Update
from noisette.fitting.losses import HuberHinge, Logistic, PoissonCounts, Squared
from noisette.fitting.losses.blocks import Total
from noisette.fitting.losses.partitioned import rows_of
from noisette.fitting.partitions import parted, running
from noisette.fitting.solvers import PublicFacts, attainable_tolerance, minimise
from noisette.fitting.solvers.objective import Objective, Preconditioner
from noisette.fitting.solvers.smooth import last_resort
from noisette.tables.pipeline import table_rows

UNIT = Fraction(1, 2**53)


def joined(terms: list[Any], rng: Any, *, compensated: bool) -> tuple[Any, int]:
    """The sum in a random tree, and the largest number of additions on a path."""
    left = []
    for term in terms:
        total = Total(compensated)
        total.add((term,))
        left.append((total, 1))
    while len(left) > 1:
        i, j = rng.choice(len(left), 2, replace=False)
        (one, deep), (other, deeper) = left[i], left[j]
        left = [each for k, each in enumerate(left) if k not in (i, j)]
        left.append((one.join(other), max(deep, deeper) + 1))
    return left[0][0].values()[0], left[0][1]


def test_sums_in_any_tree_keep_their_bounds() -> None:
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(30):
        # terms that nearly cancel, of very different sizes: the worst that rounding can meet
        sizes = 10.0 ** rng.uniform(-8, 8, 40)
        terms = [np.array([value]) for value in rng.normal(size=40) * sizes]
        terms += [-term * (1.0 + 2.0**-40) for term in terms]
        exact = sum(Fraction(float(term[0])) for term in terms)
        size = sum(abs(Fraction(float(term[0]))) for term in terms)
        for compensated in (False, True):
            found, depth = joined(terms, rng, compensated=compensated)
            error = abs(Fraction(float(found[0])) - exact)
            if compensated:
                assert error <= UNIT * abs(exact) + Fraction(101, 100) * depth**2 * UNIT**2 * size
            else:
                assert error <= Fraction(101, 100) * depth * UNIT * size
                worst = max(worst, float(error / (UNIT * size)))
    assert worst > 0.05  # not idle: a bound in units of u^2 would be caught


def test_merges_bound_the_tree_that_is_built() -> None:
    for parts in (1, 2, 8, 9, 64, 65, 1000):
        deepest, left = 0, parts
        while left > 1:
            left, deepest = -(-left // 8), deepest + 8
        assert merges_of(parts) == deepest


@pytest.mark.parametrize("loss", [HuberHinge(), Logistic()], ids=repr)
def test_the_last_resort_of_a_solver_works_on_parts(loss: Any) -> None:
    """It is proven to end; nobody has seen it needed, so it is called here by itself."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)) / 4.0
    X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    y = np.where(X[:, 0] + 0.1 * rng.normal(size=80) > 0.0, 1.0, -1.0)
    facts = PublicFacts(80, 3, 1.0, 1.0, 0.5, 0.0)
    tolerance = 1.01 * attainable_tolerance(loss, facts)
    with dask.config.set(scheduler="sync"):
        rows, labels = parted(da.from_array(X, chunks=(33, 3)), y)
        assert rows is not None
        assert labels is not None
        cut = Objective(loss, rows_of(rows.sized(80)), labels.sized(80), None, None, facts)
        point = last_resort(cut, Preconditioner.of(cut), tolerance)
    assert point.norm_bound <= tolerance
    whole = minimise(loss, X, y, regularization=0.5, tolerance=tolerance)
    assert np.abs(point.w - whole.weights).max() <= 4.0 * tolerance / 0.5


class Bounds:
    def __init__(self) -> None:
        self.seen: list[float] = []

    def release(self, real: Any, bounded: Any, *given: Any, **more: Any) -> Any:
        self.seen.append(bounded.l2)
        return real(bounded, *given, **more)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_a_released_gradient_pays_for_twice_the_rounding(adjacency: str) -> None:
    """The bound of the first step, at w = 0, is written out here once more."""
    X = np.random.default_rng(0).normal(size=(500, 3))
    y = (X[:, 0] > 0).astype(int)
    found = {}
    for name, rows in (("memory", X), ("parts", da.from_array(X, chunks=(90, 3)))):
        model = SGDClassifier(
            1.0, 1e-6, norm_bound=1.0, adjacency=adjacency, population=500, random_state=0
        )
        watched = Bounds()
        with dask.config.set(scheduler="sync"), watching(watched):
            model.fit(rows, y)
        found[name] = watched.seen[0]
    most = 500 if adjacency == "replace-one" else 1000
    R, d, u = np.hypot(1.0, model._intercept()), 4, 2.0**-53
    depth = 2048 + -(-most // 2048) + 8 * 8 + 1
    # slopes at w = 0: |l'| <= 1 is the loss's bound; the derivative errs by loss.rounding(0)
    rounding = Logistic().rounding(0.0)
    error = 1.02 * u * most * R * (rounding + 1.0 + depth + 1.0 + 4.0) + 4 * (d + 8) * u * most * R
    extra = found["parts"] - found["memory"]
    assert 2.0 * error * 0.95 <= extra <= 2.0 * error * 1.05


def test_a_cut_gradient_pays_for_where_it_is_cut() -> None:
    """The bound of the first step of counts, whose gradients are cut, written out once more."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), rng.poisson(1.0, 500)
    found = {}
    for name, rows in (("memory", X), ("parts", da.from_array(X, chunks=(90, 3)))):
        model = PoissonRegressor(1.0, norm_bound=1.0, most_count=4, random_state=0)
        watched = Bounds()
        with dask.config.set(scheduler="sync"), watching(watched):
            model.fit(rows, y)
        found[name] = watched.seen[0]
    R, C, d, u, n = np.hypot(1.0, model._intercept()), model.clip_norm, 4, 2.0**-53, 500
    depth = 2048 + 1 + 8 * 8 + 1
    rounding = PoissonCounts().rounding(0.0)
    error = 1.02 * u * n * R * (rounding + 1.0 + depth + 1.0 + 4.0)
    error += 4 * (d + 8) * u * n * C + 2.0 * (1e-14 + (d + 16) * u) * n * C
    extra = found["parts"] - found["memory"]
    assert 2.0 * error * 0.998 <= extra <= 2.0 * error * 1.002  # cutting alone is 2.5 %


@pytest.mark.parametrize("loss", [PoissonCounts(), Squared()], ids=repr)
def test_cut_gradients_stay_within_their_bound_wherever_rows_stand(loss: Any) -> None:
    """Rows whose gradients are just at the limit, where one is cut and its twin may not be."""
    rng = np.random.default_rng(1)
    n, d = 400, 5
    X = rng.normal(size=(n, d))
    X *= 0.9 / np.linalg.norm(X, axis=1)[:, None]
    y, w = rng.uniform(0.0, 1.0, n), 0.1 * rng.normal(size=d)
    slopes = np.abs(loss.at_scores(X @ w, y)[1])
    near = np.sort(slopes)[n // 2] * 0.9
    X *= np.minimum(1.0, near / np.maximum(slopes * 0.9, 1e-9))[:, None]  # many at the limit
    update = Update(loss=loss, norm_bound=1.0, clip_norm=near)
    facts = Public(
        epsilon=1.0, delta=1e-6, adjacency=Adjacency.REPLACE_ONE, loss=loss, features=d,
        norm_bound=1.0, size=n, most=n,
    )  # fmt: skip
    sums, order = [], np.arange(n)
    with dask.config.set(scheduler="sync"):
        for size in (7, 64, 400):
            rows, target = parted(da.from_array(X[order], chunks=(size, d)), y[order])
            assert rows is not None
            sums.append(_gradient_of(rows.sized(n), target, update, None)(w))
            allowed = _rounding_of(rows.sized(n), update, facts)(w)
            order = rng.permutation(n)
    for found in sums[1:]:
        assert np.linalg.norm(found - sums[0]) <= 2.0 * allowed
    assert 0.0 < allowed < 1e-9


def test_a_join_that_is_repeated_gives_the_same_sum() -> None:
    totals = [Total(), Total(), Total()]
    for k, total in enumerate(totals):
        total.add((np.full(2, float(k + 1)),))
    for _ in range(2):  # a scheduler may hand a task its arguments again
        found = running.joined(Total.join, totals)
        assert found.values()[0].tolist() == [6.0, 6.0]
    counts = [[Counter("ab")], [Counter("b")]]
    for _ in range(2):
        assert running.joined(partial(table_rows._joined, add), counts) == [Counter("abb")]
