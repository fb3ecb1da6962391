"""Ranks, counts and sums of columns: every constant of their bounds, by enumeration of neighbours.

Each bound must hold for all small neighbours and be attained by some, so that a constant that is
wrong by 10 % in either direction fails.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp

from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.bounded import Bounded
from noisette.core.mechanisms import Exponential
from noisette.core.summaries import NEVER, Ranks, count_move, histogram, key_counts, part_counts
from noisette.errors import InvalidData, InvalidParameter

ETA = 0.7
GRID = np.linspace(0.0, 1.0, 13)
PLACES = (-1.0, GRID[4], 0.6, 2.0, math.nan)
SPLITS = ((1.0,), (0.5, 0.5), (0.25, 0.75), (0.25,))
"""Weights of the rows of one person."""
RELATIONS = (ADD_REMOVE, REPLACE_ONE, ZERO_OUT)

PRIOR = np.where(np.arange(13) == 5, -9.0, 0.0)
"""A rare candidate: its probability shows nearly the whole range."""

every_relation = pytest.mark.parametrize("relation", RELATIONS, ids=str)


def persons():
    """Every person with one or two rows: (values, weights)."""
    for weights in SPLITS:
        for values in itertools.product(PLACES, repeat=len(weights)):
            yield list(values), list(weights)


TABLES = [[], [0.6], [GRID[4], 0.6], [0.1] * 4 + [0.95] * 9, [0.1] * 9 + [0.95] * 2,
          [0.3] * 9 + [0.7] * 9, [0.1, 0.2, 0.4, 0.7, 0.8]]  # fmt: skip
"""Rows of everybody else."""


def log_law(bounded):
    """The exact law of each choice, by the definition of the exponential mechanism."""
    scores = bounded.value / Exponential(ETA)._scale(bounded)
    return scores - logsumexp(scores, axis=-1, keepdims=True)


def losses(relation, scores):
    """Losses of all neighbours, shape (pairs, rows, candidates); NaN for excluded candidates."""
    for table in TABLES:
        ones = [1.0] * len(table)
        worlds = [(table + values, ones + weights) for values, weights in persons()]
        with_person = np.array([log_law(scores(Ranks(v, GRID, w))) for v, w in worlds])
        if relation is REPLACE_ONE:
            other = with_person
        elif relation is ADD_REMOVE:
            other = log_law(scores(Ranks(table, GRID)))[None]
        else:  # blanked: whatever the row says, its weight is 0
            blanked = Ranks([*table, 0.4], GRID, [*ones, 0.0])
            other = log_law(scores(blanked))[None]
        with_person, other = (x.reshape(len(x), -1, len(GRID)) for x in (with_person, other))
        loss = with_person[:, None] - other[None]
        yield np.where(with_person[:, None] > NEVER / 1e9, loss, np.nan)


def widest(relation, scores):
    """The largest range of the loss over all neighbours: the sum over rows of max - min."""
    return max(
        float((np.nanmax(loss, axis=-1) - np.nanmin(loss, axis=-1)).sum(axis=-1).max())
        for loss in losses(relation, scores)
    )


@every_relation
@pytest.mark.parametrize("quantile", [0.5, 0.3, 0.9])
def test_one_quantile_has_range_eta_and_no_less(relation, quantile):
    found = widest(relation, lambda ranks: ranks.quantile(quantile, relation))
    assert 0.999 * ETA <= found <= ETA * (1 + 1e-9)


@every_relation
@pytest.mark.parametrize("knots", [[], [6], [4, 7]], ids=str)
def test_one_level_of_medians_has_range_eta_and_no_less(relation, knots):
    found = widest(relation, lambda ranks: ranks.medians(knots, relation))
    assert 0.999 * ETA <= found <= ETA * (1 + 1e-9)


@every_relation
def test_probabilities_of_a_median_differ_by_at_most_eta(relation):
    def median(ranks):
        return ranks.quantile(0.5, relation, epsilon=ETA, log_prior=PRIOR)

    worst = max(float(np.nanmax(np.abs(loss))) for loss in losses(relation, median))
    assert 0.9 * ETA < worst <= ETA


def test_a_matrix_is_drawn_by_the_product_of_the_laws_of_its_rows(rng):
    ranks = Ranks(rng.random(9), GRID)
    bounded = ranks.medians([5], ADD_REMOVE)
    mechanism = Exponential(ETA)
    draws = np.array([mechanism.apply(bounded, 1.0, rng) for _ in range(20_000)])
    assert draws.shape == (20_000, 2)
    law = np.exp(log_law(bounded))
    joint = np.zeros((13, 13))
    np.add.at(joint, (draws[:, 0], draws[:, 1]), 1.0)
    expected = 20_000 * law[0][:, None] * law[1][None, :]
    assert joint[expected == 0.0].sum() == 0.0  # nothing outside its gap, nor a knot
    alive = expected > 0.0
    statistic = float(((joint - expected)[alive] ** 2 / expected[alive]).sum())
    free = int(alive.sum()) - 1
    assert abs(statistic - free) < 6.0 * math.sqrt(2.0 * free)


def test_rounding_of_a_billion_ranks_is_paid_for(rng):
    """Scores of 2^30 rows and a base measure are sums that round; one more row moves them by D."""
    points = np.arange(40.0)
    prior = np.log(rng.random(40))
    below = np.sort(rng.integers(0, 2**30 - 1, 40)).astype(float)

    def ranks(more):
        made = Ranks([], points)
        made._below, made._up_to, made._total = below + more, below + more, 2.0**30 - 1.0 + more
        return made

    for make in (lambda r: r.medians([], ADD_REMOVE, epsilon=0.7, log_prior=prior, log_stop=3.0),
                 lambda r: r.quantile(0.5, ADD_REMOVE, epsilon=0.7, log_prior=prior)):  # fmt: skip
        one, two = make(ranks(0.0)), make(ranks(1.0))
        rounded = 3.0 * 2.0**-24  # there, and where the mechanism subtracts the best and adds noise
        assert np.abs(one.value - two.value).max() <= one.linf
        assert 0.5 + rounded < one.linf < 0.5 * (1.0 + 1e-6)


def test_a_base_measure_multiplies_the_odds():
    ranks, log_prior = Ranks([0.3, 0.4, 0.9], GRID), np.log(np.arange(1.0, 14.0))
    for make in (lambda **more: ranks.quantile(0.8, REPLACE_ONE, **more),
                 lambda **more: ranks.medians([5], ADD_REMOVE, **more)):  # fmt: skip
        plain, weighted = make(), make(epsilon=ETA, log_prior=log_prior)
        alive = plain.value > NEVER / 2.0
        extra = (log_law(weighted) - log_law(plain) - log_prior)[alive]
        rows = np.nonzero(alive)[0] if alive.ndim == 2 else np.zeros(len(extra), dtype=int)
        for row in set(rows):
            np.testing.assert_allclose(extra[rows == row], extra[rows == row][0], atol=1e-12)


def test_the_best_score_is_the_quantile_also_with_ties():
    column = np.array([0.0] * 92 + list(np.linspace(0.5, 1.0, 8)))  # a heavy atom
    candidates = np.array([-1.0, 0.0, 0.25, 0.7, 1.0])
    ranks = Ranks(column, candidates)
    scores = ranks.quantile(0.5, ADD_REMOVE).value
    assert scores.argmax() == 1
    assert scores[1] == 0.0
    below, above = ranks.medians([1], ADD_REMOVE).value  # the atom is in neither gap
    assert np.array_equal(below, [0.0, NEVER, NEVER, NEVER, NEVER])
    assert above.argmax() == 3
    assert above[2] == -4.0
    assert above[3] == -1.0  # three of eight are below 0.7


def test_weights_are_rounded_down_so_that_sums_are_exact(rng):
    w = rng.random(1000) / 3.0
    values = rng.random(1000)
    order = rng.permutation(1000)
    one = Ranks(values, GRID, w).quantile(0.5, ADD_REMOVE).value
    two = Ranks(values[order], GRID, w[order]).quantile(0.5, ADD_REMOVE).value
    assert np.array_equal(one, two)
    rounded = histogram(np.zeros(1000), 1, ADD_REMOVE, w).value[0]
    assert w.sum() - 1000 * 2.0**-20 <= rounded <= w.sum()


def farthest(relation, made, norm=2):
    """How far the values of all persons are from nothing, or from each other (replace-one)."""
    values = np.array(made)
    other = values if relation is REPLACE_ONE else np.zeros_like(values[:1])
    return float(np.linalg.norm(values[:, None] - other[None], ord=norm, axis=-1).max())


@every_relation
@pytest.mark.parametrize("columns", [1, 2])
def test_counts_move_by_their_bound_and_no_less(relation, columns):
    cells = list(itertools.product((-1, 0, 1), repeat=columns))
    made = [
        np.concatenate([part_counts(2, codes, weights) for codes in np.array(rows).T])
        for weights in SPLITS
        for rows in itertools.product(cells, repeat=len(weights))
    ]
    bound = count_move(columns, relation)
    assert farthest(relation, made) == pytest.approx(bound, rel=1e-12)
    assert bound == math.sqrt(columns * (2 if relation is REPLACE_ONE else 1))


@every_relation
def test_counts_of_one_column_move_by_their_bound_in_l1(relation):
    made = [
        histogram(np.array(rows), 2, relation, weights)
        for weights in SPLITS
        for rows in itertools.product((-1, 0, 1), repeat=len(weights))
    ]
    moved = farthest(relation, [bounded.value for bounded in made], norm=1)
    assert moved == pytest.approx(made[0].l1, rel=1e-12)
    assert made[0].l1 == (2.0 if relation is REPLACE_ONE else 1.0)


def test_keys_are_those_that_somebody_holds_and_one_that_nobody_does():
    bounded, keys = key_counts(
        [np.array([0, 0, 4, -1]), np.array([2, 2, 2, 7])], REPLACE_ONE, [1.0, 0.5, 1.0, 0.0]
    )
    assert list(keys) == [(-1, -1), (0, 0), (0, 4), (1, 2)]
    assert bounded.value.tolist() == [0.0, 1.5, 1.0, 2.5]
    assert bounded.l2 == 2.0
    empty, keys = key_counts([np.array([-1, -1])], ADD_REMOVE)  # no error that depends on data
    assert list(keys) == [(-1, -1)]
    assert empty.value.tolist() == [0.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Ranks([1.0], [2.0, 1.0]), "increasing"),
        (lambda: Ranks([1.0], GRID, [2.0]), "weights"),
        (lambda: Ranks([1.0], GRID, [math.nan]), "weights"),
        (lambda: Ranks([1.0], GRID, [0.5, 0.5]), "weights"),
        (lambda: Ranks([1.0], GRID).quantile(1.0, ADD_REMOVE), "quantile"),
        (lambda: histogram([0, 3], 3, ADD_REMOVE), "codes"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises((InvalidData, InvalidParameter), match=words):
        call()


def test_a_sensitive_column_does_not_show():
    assert repr(Ranks([123.0], GRID)) == "<Ranks of a column at 13 candidates>"
    assert "123" not in repr(Ranks([123.0], GRID).quantile(0.5, ADD_REMOVE))


def test_scores_of_three_axes_are_refused():
    from noisette.errors import PermitError

    with pytest.raises(PermitError, match="one choice per row"):
        Exponential(1.0).check_value(Bounded(np.zeros((2, 2, 2)), ADD_REMOVE, "QUANTILE", linf=1.0))
