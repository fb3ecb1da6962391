"""ROUND-ANY-ORDER: sums in any tree against rational numbers, and what a released sum pays for."""

from fractions import Fraction
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

from noisette import SGDClassifier
from noisette.losses import HuberHinge, Logistic
from noisette.losses.parted import rows_of
from noisette.losses.totals import Total
from noisette.parts import merges_of
from noisette.scale import parted
from noisette.solvers import PublicFacts, attainable_tolerance, minimise
from noisette.solvers.objective import Objective, Preconditioner
from noisette.solvers.smooth import last_resort
from noisette.training.observer import Observer

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


class Bounds(Observer):
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
        model._observer = watched = Bounds()
        with dask.config.set(scheduler="sync"):
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
