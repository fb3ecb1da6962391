"""Steps on rows of bounded norm: what one person moves, noise, weights, and what comes of it.

Error rate of the statistical tests: 1e-6 each, with fixed seeds.
"""

from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats
from spy import Spy, run

from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Adjacency
from noisette.errors import InvalidData, InvalidParameter
from noisette.tables.pipeline import PrivateProjection, PrivateSelector
from noisette.tables.pipeline.projection import LearnSecondMoment
from noisette.tables.pipeline.selector import LearnScores
from noisette.tables.pipeline.step import Sample

RELATIONS = (REPLACE_ONE, ZERO_OUT, ADD_REMOVE)
D, R = 3, 2.0


def rows_of(rng: np.random.Generator, n: int = 40) -> np.ndarray:
    return rng.normal(size=(n, D)) * 2.0  # many are longer than R


def sample_of(step: Any, rows: Any, weights: Any = None, labels: Any = None) -> Sample:
    if isinstance(step, LearnScores) and labels is None:
        labels = np.arange(rows.shape[0]) % 2
    return Sample(rows, weights, labels if isinstance(step, LearnScores) else None)


def first_values(step: Any, sample: Sample, adjacency: Adjacency) -> tuple[Any, Any]:
    spy = Spy()
    run(step, sample, adjacency, spy=spy, size=40)
    return spy.seen[0]


def worst_move(step: Any, adjacency: Adjacency, rng: np.random.Generator) -> float:
    """Return the largest move of the first vector that was found, against its bound."""
    ends = np.concatenate([np.eye(D), -np.eye(D)]) * 5.0
    rows, worst = rows_of(rng), 0.0
    labels = np.arange(40) % 2
    for x in ends:
        full = rows.copy()
        full[-1] = x
        bounded, _ = first_values(step, sample_of(step, full, None, labels), adjacency)
        if adjacency is ADD_REMOVE:
            others = [sample_of(step, full[:-1], None, labels[:-1])]
        elif adjacency is ZERO_OUT:
            others = [sample_of(step, full, np.append(np.ones(39), 0.0), labels)]
        else:
            others = []
            for z, label in ((z, label) for z in ends for label in (0, 1)):
                changed = full.copy()
                changed[-1] = z
                others.append(sample_of(step, changed, None, np.append(labels[:-1], label)))
        for other in others:
            second, _ = first_values(step, other, adjacency)
            worst = max(worst, float(np.linalg.norm(bounded.value - second.value)) / bounded.l2)
    return worst


STEPS = [LearnSecondMoment(D, R), LearnScores(D, R, 2)]
NAMES = ["second-moment", "scores"]


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
@pytest.mark.parametrize("step", STEPS, ids=NAMES)
def test_no_neighbour_moves_the_vector_by_more_than_its_bound(
    step: Any, adjacency: Adjacency, rng: np.random.Generator
) -> None:
    """Attained, so that a bound that is 10 % short shows."""
    worst = worst_move(step, adjacency, rng)
    assert worst <= 1.0 + 1e-12
    assert worst > 0.999


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
@pytest.mark.parametrize("step", STEPS, ids=NAMES)
def test_noise_has_the_stated_size(
    step: Any, adjacency: Adjacency, rng: np.random.Generator
) -> None:
    """All entries of the vector over 200 runs; 10 % more or less is rejected at 1e-6."""
    sample, noise, scale = sample_of(step, rows_of(rng)), [], 0.0
    for seed in range(200):
        spy = Spy()
        run(step, sample, adjacency, scale=3.0, spy=spy, seed=seed, size=40)
        bounded, mechanism = spy.seen[0]
        scale = mechanism.noise_multiplier * bounded.l2 / adjacency.contributions
        noise.append(np.ravel(spy.given[0] - bounded.value))
    drawn = np.concatenate(noise) / scale
    drawn = np.concatenate([drawn, -drawn])[: 2 * (len(drawn) // 2)]
    assert stats.kstest(drawn, "norm").pvalue > 1e-6
    squares = float(np.sum((np.concatenate(noise) / scale) ** 2))
    law = stats.chi2(np.concatenate(noise).size)
    assert 1e-6 < law.cdf(squares) < 1.0 - 1e-6
    for wrong in (0.9, 1.1):
        tail = law.cdf(squares / wrong**2)
        assert min(tail, 1.0 - tail) < 1e-2


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
@pytest.mark.parametrize("step", STEPS, ids=NAMES)
def test_persons_of_several_rows(step: Any, adjacency: Adjacency, rng: np.random.Generator) -> None:
    """Rows whose weights add up to 1 move the vector no more than one record does."""
    others = rows_of(rng, 39)
    labels = np.arange(42) % 2
    worst = 0.0
    for _ in range(40):
        mine, yours = rng.normal(size=(2, 3, D)) * 5.0
        share, shared = rng.dirichlet([0.3] * 3, 2)
        ones = np.ones(39)
        first, _ = first_values(
            step, sample_of(step, np.vstack([others, mine]), [*ones, *share], labels), adjacency
        )
        if adjacency is ADD_REMOVE:
            less = sample_of(step, others, None, labels[:39])
        elif adjacency is ZERO_OUT:
            less = sample_of(step, np.vstack([others, mine]), [*ones, 0, 0, 0], labels)
        else:
            theirs = np.append(labels[:39], rng.integers(0, 2, 3))
            less = sample_of(step, np.vstack([others, yours]), [*ones, *shared], theirs)
        second, _ = first_values(step, less, adjacency)
        worst = max(worst, float(np.linalg.norm(first.value - second.value)) / first.l2)
    assert 0.5 < worst <= 1.0 + 1e-9


@pytest.mark.parametrize("step", STEPS, ids=NAMES)
def test_sums_are_exact_in_every_order(step: Any, rng: np.random.Generator) -> None:
    rows, weights = rng.normal(size=(5000, D)), rng.random(5000)
    labels, order = rng.integers(0, 2, 5000), rng.permutation(5000)
    values = [
        first_values(step, sample_of(step, rows[i], weights[i], labels[i]), ADD_REMOVE)[0].value
        for i in (slice(None), order)
    ]
    np.testing.assert_array_equal(*values)
    bare = first_values(step, sample_of(step, sparse.csr_matrix(rows), weights, labels), ADD_REMOVE)
    np.testing.assert_allclose(bare[0].value, values[0], rtol=1e-9)


# --- what comes of it ----------------------------------------------------------------------------


def test_selection_finds_the_columns_that_differ(rng: np.random.Generator) -> None:
    y = rng.integers(0, 3, 6000)
    X = rng.normal(size=(6000, 20)) * 0.1 + 0.3  # a mean that all classes share
    X[:, 4] += 0.2 * (y == 1)
    X[:, 11] -= 0.2 * (y == 2)
    for adjacency in ("replace-one", "add-remove"):
        model = PrivateSelector(2, 2.0, 1e-6, norm_bound=2.0, adjacency=adjacency, random_state=0)
        model.fit(X, y)
        assert model.get_support(indices=True).tolist() == [4, 11]
        np.testing.assert_array_equal(model.transform(X), X[:, [4, 11]])
        assert list(model.get_feature_names_out()) == ["x4", "x11"]
    with pytest.raises(InvalidData, match="requires y"):
        PrivateSelector().fit(X)


def test_projections_keep_the_norm_bound(rng: np.random.Generator) -> None:
    X = rng.normal(size=(5000, 8)) * np.array([1.0, 0.8, *[0.05] * 6])
    leading = PrivateProjection(2, 2.0, 1e-6, random_state=0).fit(X)
    assert np.abs(leading.components_[:, :2]).max(axis=1).min() > 0.9
    by_chance = PrivateProjection(3, method="random", random_state=0).fit(X)
    assert by_chance.privacy_ is None
    assert set(np.abs(by_chance.components_.ravel()).round(9)) == {round(3.0**-0.5, 9)}
    for model in (leading, by_chance):
        assert np.linalg.norm(model.transform(X), axis=1).max() <= 1.0
        assert model.transform(sparse.csr_matrix(X)).shape == (5000, model.components)
    other = PrivateProjection(3, method="random", random_state=0).fit(X[:10] * 0.0)
    np.testing.assert_array_equal(other.components_, by_chance.components_)
    with pytest.raises(InvalidParameter, match="at most the number of columns"):
        PrivateProjection(9).fit(X)
    with pytest.raises(InvalidParameter, match="charges nothing"):
        PrivateProjection(3, method="random").plan(100, 8)


def test_rows_that_cannot_be_bounded_are_refused_before_the_charge() -> None:
    for bad in (np.full((4, D), np.nan), np.full((4, D), np.inf), np.zeros((4, D + 1))):
        spy = Spy()
        with pytest.raises(InvalidData):
            run(LearnSecondMoment(D), Sample(bad), REPLACE_ONE, spy=spy)
        assert not spy.seen
