"""Least squares from noisy sums: sensitivities by attack, exact sums, the law of the noise."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from helpers import watching
from noisette.core import accounting
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, Adjacency
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.errors import InvalidParameter
from noisette.fitting.algorithms import Public, Records, SufficientStatistics, train
from noisette.fitting.algorithms.regression_moments import (
    DIRECTIONS,
    SQUARES,
    MomentShares,
    moments_move,
    residual_move,
    rounding_of,
)
from noisette.fitting.algorithms.sufficient_statistics import uncut_variance
from noisette.fitting.losses import Squared

BOUND = 2.0
RELATIONS = [REPLACE_ONE, ZERO_OUT, ADD_REMOVE]


def public(adjacency: Adjacency = REPLACE_ONE, n: int = 50, **changes: Any) -> Public:
    facts = Public(
        epsilon=1.0, delta=1e-6, adjacency=adjacency, loss=Squared(), features=3,
        norm_bound=BOUND, size=n, most=n + 1,
    )  # fmt: skip
    return replace(facts, **changes)


class Keep:
    """Keeps what goes to the door, and hands back the same answers to every run."""

    def __init__(self, answers: list[Any] | None = None) -> None:
        self.seen: list[Any] = []
        self.noisy: list[Any] = []
        self._answers = answers

    def release(self, real: Any, bounded: Any, *given: Any, **options: Any) -> Any:
        self.seen.append(bounded)
        out = real(bounded, *given, **options)
        if self._answers is not None:
            out = self._answers[len(self.seen) - 1]
        self.noisy.append(out)
        return out


def watched(
    facts: Public, rows: Any, y: Any, weights: Any = None, *, rounds: int = 2, seed: int = 0,
    answers: list[Any] | None = None,
) -> Keep:  # fmt: skip
    watch = Keep(answers)
    records = Records(np.asarray(rows), [np.asarray(y)], weights)
    with watching(watch):
        train(
            SufficientStatistics(rounds), facts, records,
            ledger=Ledger(facts.epsilon, facts.delta, adjacency=facts.adjacency),
            randomness=Randomness.from_seed(seed),
        )  # fmt: skip
    return watch


def data(n: int = 50, seed: int = 1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    x *= BOUND / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), BOUND) * (1 - 1e-12)
    return x, np.clip(x @ [0.3, -0.2, 0.1] + 0.2 * rng.standard_normal(n), -1.0, 1.0)


def embedded(x: Any, y: float, shares: MomentShares) -> Any:
    """REGRESSION-MOMENTS written again, without the marks, rows of norm at most 1."""
    return np.concatenate(
        [
            math.sqrt(shares.rows) * np.outer(x, x).ravel(),
            math.sqrt(shares.products) * y * x,
            [math.sqrt(shares.squares) * y * y],
        ]
    )


def furthest(shares: MomentShares, rng: Any, starts: int = 12) -> float:
    """The largest distance of two records that a search finds."""

    def record(u: Any) -> Any:
        x = u[:3] / max(1.0, float(np.linalg.norm(u[:3])))
        return embedded(x, float(np.clip(u[3], -1.0, 1.0)), shares)

    def lost(u: Any) -> float:
        return -float(np.linalg.norm(record(u[:4]) - record(u[4:])))

    return max(
        -minimize(lost, 2 * rng.standard_normal(8), method="Nelder-Mead",
                  options={"maxiter": 4000, "xatol": 1e-9, "fatol": 1e-12}).fun
        for _ in range(starts)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [(1 / 3, 1 / 3, 1 / 3), (0.6, 0.35, 0.05), (0.34, 0.65, 0.01), (0.1, 0.1, 0.8)],
)
def test_a_replaced_record_moves_the_moments_as_far_as_the_theorem_says(
    a: float, b: float, c: float
) -> None:
    """Search never goes beyond REGRESSION-REPLACE and reaches it: no constant is off by 1 %."""
    shares = MomentShares(a, b, c, 0.0)
    found = furthest(shares, np.random.default_rng(0))
    stated = moments_move(shares, REPLACE_ONE)
    assert found <= stated * (1.0 + 1e-9)
    assert found >= 0.999 * stated
    assert stated < 0.975 * math.sqrt(2 * a + 4 * b + c), "no better than each block by itself"


def worst_records(adjacency: Adjacency) -> tuple[tuple[Any, float], tuple[Any, float] | None]:
    """Records at which the bound of the default shares is attained (but for the marks)."""
    if adjacency is not REPLACE_ONE:
        return (np.array([BOUND, 0.0, 0.0]), 1.0), None
    shares = MomentShares()
    cosine = shares.products / (2.0 * shares.rows)
    other = BOUND * np.array([cosine, math.sqrt(1.0 - cosine**2), 0.0])
    return (np.array([BOUND, 0.0, 0.0]), 1.0), (other * (1 - 1e-12), -1.0)


def neighbours(
    adjacency: Adjacency, first: Any, second: Any, rest: Any = None
) -> list[tuple[Any, Any, Any]]:
    x, y = rest or data()
    if adjacency is REPLACE_ONE:
        return [(np.vstack([x, r]), np.append(y, t), None) for r, t in (first, second)]
    with_record = np.vstack([x, first[0]]), np.append(y, first[1]), None
    if adjacency is ADD_REMOVE:
        return [with_record, (x, y, None)]
    # whether weights are given is public, so they are given in both worlds
    ones = np.ones(len(x) + 1)
    return [(*with_record[:2], ones), (*with_record[:2], np.append(ones[:-1], 0.0))]


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_what_is_released_first_moves_by_the_stated_bound(adjacency: Adjacency) -> None:
    cases = neighbours(adjacency, *worst_records(adjacency))
    n = 51 if adjacency.size_is_public else 50
    one, two = (watched(public(adjacency, n), *case, rounds=0).seen[0] for case in cases)
    moved = float(np.linalg.norm(one.value - two.value))
    assert moved <= one.l2
    # the marks of both records may agree under replace-one: the rest of the bound is reached
    assert moved >= (0.985 if adjacency is REPLACE_ONE else 0.9999) * one.l2


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_a_round_moves_by_the_stated_bound(adjacency: Adjacency) -> None:
    """Given the same released numbers, records with the longest rows and largest residuals."""
    x, y = data(500)
    x, y = x / 4.0, y / 4.0
    facts = public(adjacency, 500, epsilon=5.0)
    answers = [watched(facts, x, y, rounds=0, seed=1).seen[0].value, np.zeros(4)]
    cases = neighbours(
        adjacency, (np.array([0, 0, BOUND]), -1.0), (np.array([0, 0, -BOUND]), -1.0), (x, y)
    )
    facts = replace(facts, size=501, most=501) if adjacency.size_is_public else facts
    one, two = (watched(facts, *case, rounds=1, answers=answers).seen[1] for case in cases)
    moved = float(np.linalg.norm(one.value - two.value))
    assert moved <= one.l2
    least = math.sqrt(4.0 / (4.0 + SQUARES)) if adjacency is REPLACE_ONE else 1.0
    assert moved >= 0.999 * least * one.l2


@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_the_block_that_looks_for_unequal_variances_moves_by_its_bound(
    adjacency: Adjacency,
) -> None:
    """A residual and a row beyond the later cuts reach the bound of all three blocks together."""
    x, y = data(4000)
    x, y = x / 4.0, y / 4.0
    facts = public(adjacency, 4000, epsilon=60.0)
    first = watched(facts, x, y, rounds=0, seed=1).seen[0].value
    answers = [first, np.zeros(4 + 6)]
    far = (np.array([0, 0, BOUND]), -1.0)
    cases = neighbours(adjacency, far, (np.array([0, 0, -BOUND]), -1.0), (x, y))
    facts = replace(facts, size=4001, most=4001) if adjacency.size_is_public else facts
    one, two = (watched(facts, *case, rounds=1, answers=answers).seen[1] for case in cases)
    assert len(one.value) == 3 + 1 + 6
    moved = float(np.linalg.norm(one.value - two.value))
    assert moved <= one.l2
    if adjacency is REPLACE_ONE:  # opposite rows: squares and directions agree, products do not
        assert moved >= 0.999 * math.sqrt(4.0 / (4.0 + SQUARES + 2.0 * DIRECTIONS)) * one.l2
        assert float(np.abs(one.value - two.value)[3:].max()) < 1e-6 * one.l2
    else:
        assert moved >= 0.999 * one.l2


def test_two_matrices_of_one_rank_are_at_most_root_two_apart() -> None:
    """The third block under replace-one: the search reaches sqrt(2) and never goes beyond."""
    rng = np.random.default_rng(0)
    most = 0.0
    for _ in range(2000):
        u, v = rng.standard_normal((2, 3))
        u, v = u / max(1.0, np.linalg.norm(u)), v / max(1.0, np.linalg.norm(v))
        most = max(most, float(np.linalg.norm(np.outer(u, u) - np.outer(v, v))))
    assert 1.35 < most <= math.sqrt(2.0)
    for relation, products in ((REPLACE_ONE, 4.0), (ADD_REMOVE, 1.0)):
        third = DIRECTIONS * (2.0 if relation is REPLACE_ONE else 1.0)
        stated = residual_move(relation, directions=True)
        assert stated == pytest.approx(math.sqrt(products + SQUARES + third), rel=1e-8)


def test_the_first_sums_are_exact_in_every_order() -> None:
    x, y = data(400)
    order = np.random.default_rng(2).permutation(400)
    facts = public(n=400)
    one = watched(facts, x, y, rounds=0).seen[0].value
    two = watched(facts, x[order], y[order], rounds=0).seen[0].value
    assert np.array_equal(one, two)


def test_weights_that_add_up_to_one_are_one_record() -> None:
    """A person with two rows of weight 1/2 moves the sums by no more than a single row."""
    x, y = data()
    rows = np.vstack([x, [[BOUND, 0, 0], [0, BOUND, 0]]])
    targets = np.append(y, [1.0, -1.0])
    half = np.append(np.ones(50), [0.5, 0.5])
    none = np.append(np.ones(50), [0.0, 0.0])
    facts = public(ZERO_OUT, 52)
    one, two = (watched(facts, rows, targets, w, rounds=0).seen[0] for w in (half, none))
    assert float(np.linalg.norm(one.value - two.value)) <= one.l2


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("adjacency", RELATIONS, ids=str)
def test_the_plan_stays_within_the_budget_and_uses_it(adjacency: Adjacency, delta: float) -> None:
    for rounds in (0, 3):
        plan = SufficientStatistics(rounds).prepare(public(adjacency, delta=delta)).plan
        spent = accounting.epsilon(plan, delta=delta, adjacency=adjacency)
        assert 0.999 < spent <= 1.0 + 1e-12


def test_the_noise_of_every_block_is_the_stated_one() -> None:
    """400 runs: the sum of squares of standardised noise is chi-square; 10 % less noise fails."""
    x, y = data()
    facts = public(epsilon=1.0)
    exact = watched(facts, x, y, rounds=0).seen[0].value
    noises = [watched(facts, x, y, rounds=0, seed=s).noisy[0] - exact for s in range(400)]
    prepared = SufficientStatistics(0).prepare(facts)
    (leaf, _), *_ = prepared.plan.leaves()
    stated = leaf.mechanism.noise_multiplier * moments_move(MomentShares(), REPLACE_ONE) / 2.0
    ratio = float(np.mean(np.square(noises))) / stated**2
    assert abs(ratio - 1.0) < 5.0 * math.sqrt(2.0 / (400 * len(exact)))
    # mu of the released vector is at most what one use of the plan was charged for
    assert accounting.epsilon(prepared.plan, delta=1e-6) <= 1.0


def test_rounding_is_paid_for_and_small() -> None:
    assert 0.0 < rounding_of(100_000, 2048, 50, 100.0) < 1e-5
    assert residual_move(ADD_REMOVE, 0.5) >= residual_move(ADD_REMOVE) + 1.0
    assert residual_move(REPLACE_ONE) == pytest.approx(math.sqrt(4.0 + SQUARES), rel=1e-8)


def test_a_cut_normal_law_gives_its_variance_back() -> None:
    z = 0.3 * np.random.default_rng(0).standard_normal(1_000_000)
    for clip in (0.3, 0.5, 2.0):
        found = uncut_variance(float(np.mean(np.clip(z, -clip, clip) ** 2)), clip)
        assert found == pytest.approx(0.09, rel=0.02)
    assert 0.0 < uncut_variance(-5.0, 1.0) < 1.0
    assert math.isfinite(uncut_variance(50.0, 1.0))


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": Squared(2.0)}, {"models": 2}, {"weight_bound": 2.0}, {"norm_bound": math.inf},
        {"most": None}, {"most": 2**31},
    ],
)  # fmt: skip
def test_what_has_no_bound_is_refused(changes: Any) -> None:
    with pytest.raises(InvalidParameter):
        SufficientStatistics().prepare(public(**changes))
    with pytest.raises(InvalidParameter):
        SufficientStatistics(-1).prepare(public())
    with pytest.raises(InvalidParameter):
        SufficientStatistics(share=1.0).prepare(public())
