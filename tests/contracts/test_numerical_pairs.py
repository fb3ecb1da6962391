"""Every pair keeps the contract of ``Pair``: a new kind is tested by adding one line to PAIRS."""

import itertools
import math

import numpy as np
import pytest

from noisette.core.accounting.numerical.lattice import dominated, dominating
from noisette.core.accounting.numerical.noise_pairs import (
    GaussianPair,
    LaplacePair,
    SphericalLaplacePair,
)
from noisette.core.accounting.numerical.pairs import ApproximateDP, Pair, Swapped
from noisette.core.accounting.numerical.random_allocation import RandomAllocationPair
from noisette.core.accounting.numerical.sampled_pairs import (
    PoissonReplace,
    PoissonSampled,
    SymmetrisedSample,
)
from reference.brackets import Discrete
from reference.log_moments import has_log_moment, log_moment
from reference.lottery_pairs import Labelled, WithReplacement

_P, _Q = (0.2, 0.5, 0.25), (0.1, 0.3, 0.5)
TABLE = Discrete(tuple(math.log(a / b) for a, b in zip(_P, _Q, strict=True)), _P, _Q, 0.05, 0.1)
BASES = [
    GaussianPair(0.05),
    GaussianPair(1.0),
    GaussianPair(6.0),
    LaplacePair(0.1),
    LaplacePair(3.0),
    SphericalLaplacePair(1.0, 1),
    SphericalLaplacePair(1.0, 2),
    SphericalLaplacePair(0.3, 3),
    SphericalLaplacePair(4.0, 20),
    SphericalLaplacePair(2.0, 1000),
    SphericalLaplacePair(1.0, 30000),
    ApproximateDP(0.5),
    ApproximateDP(0.4, 1e-3),
    ApproximateDP(0.0, 0.01),
    TABLE,
    PoissonReplace(0.01, 2.0),
    PoissonReplace(0.3, 0.5),
    PoissonReplace(1.0, 1.0),
    RandomAllocationPair(2, 1.0),
    RandomAllocationPair(3, 0.7),
    RandomAllocationPair(3, 0.7, dominating=False),
    Labelled((0.7, 0.2), (GaussianPair(0.3), LaplacePair(1.0))),
    WithReplacement(5, 100, 1.5),
]
SAMPLED = [
    PoissonSampled(base, rate)
    for base, rate in [
        (GaussianPair(1.0), 0.01),
        (GaussianPair(2.0), 0.5),
        (GaussianPair(1.0), 1e-6),
        (GaussianPair(1.0), 1.0),
        (LaplacePair(1.0), 0.1),
        (ApproximateDP(1.0), 0.2),
        (ApproximateDP(1.0, 1e-3), 0.2),
        (TABLE, 0.3),
        (SphericalLaplacePair(1.0, 5), 0.1),
    ]
]
SYMMETRIC = [
    SymmetrisedSample(GaussianPair(2.0), 0.01),
    SymmetrisedSample(GaussianPair(1.0), 1.0),
    SymmetrisedSample(LaplacePair(1.0), 0.3),
    SymmetrisedSample(ApproximateDP(1.0, 1e-3), 0.3),
]
PAIRS = BASES + SAMPLED + SYMMETRIC
PAIRS = PAIRS + [pair.swapped() for pair in PAIRS if pair.swapped() != pair]
KINDS: dict[str, list[Pair]] = {}
for _pair in PAIRS:
    KINDS.setdefault(type(_pair).__name__, []).append(_pair)

every_kind = pytest.mark.parametrize("pairs", KINDS.values(), ids=KINDS)


def _edges(pair, rng, count=41):
    """Edges around the bulk and far outside it, among them 0 and the extreme losses."""
    scale = 10 ** rng.uniform(-3, 1)
    parts = [rng.normal(0, scale, count), rng.normal(0, 1, 5), [0.0, -30.0, 30.0]]
    for value in (pair.support.max_loss, pair.support.min_loss):
        if math.isfinite(value):
            parts.append([value])
    return np.unique(np.concatenate(parts))


@every_kind
def test_masses_are_a_probability_on_each_side(pairs):
    for pair in pairs:
        edges = _edges(pair, np.random.default_rng(1))
        P, Q = pair.cells(edges)
        assert P.shape == Q.shape == (len(edges) + 1,)
        assert (P >= 0).all()
        assert (Q >= 0).all()
        assert P.sum() == pytest.approx(1, abs=1e-12)
        assert Q.sum() == pytest.approx(1, abs=1e-12)
        assert P[-1] >= pair.support.infinite_p * (1 - 1e-12)
        assert Q[0] >= pair.support.infinite_q * (1 - 1e-12)


@every_kind
def test_cells_are_consistent_with_their_losses(pairs):
    for pair in pairs:
        edges = _edges(pair, np.random.default_rng(2))
        P, Q = pair.cells(edges)
        p, q = P[1:-1], Q[1:-1]
        # tails: differences lose digits next to wide tails, so the bound is relative to the tail
        slack = 1e-9 * p + 1e-15
        assert (p >= q * np.exp(edges[:-1]) - slack).all()
        assert (p <= q * np.exp(edges[1:]) * (1 + 1e-9) + slack).all()


@every_kind
def test_refining_edges_only_splits_cells(pairs):
    for pair in pairs:
        rng = np.random.default_rng(3)
        edges = _edges(pair, rng)
        keep = np.sort(rng.choice(len(edges), len(edges) // 3, replace=False))
        P, Q = pair.cells(edges)
        groups = np.searchsorted(keep, np.arange(len(edges) + 1), side="left")
        for fine, coarse in zip((P, Q), pair.cells(edges[keep]), strict=True):
            merged = np.bincount(groups, weights=fine, minlength=len(keep) + 1)
            np.testing.assert_allclose(merged, coarse, rtol=1e-9, atol=1e-15)


@every_kind
def test_swapping_mirrors_the_cells_and_is_an_involution(pairs):
    for pair in pairs:
        edges = _edges(pair, np.random.default_rng(4))
        other = pair.swapped()
        assert other.swapped() == pair
        assert hash(other.swapped()) == hash(pair)
        P, Q = Swapped(pair).cells(edges)
        p, q = other.cells(edges)
        # in two dimensions one ulp of loss next to the maximum holds 1e-8 of the mass
        np.testing.assert_allclose(P, p, rtol=1e-8, atol=1e-7)
        np.testing.assert_allclose(Q, q, rtol=1e-8, atol=1e-7)
        assert (other.support.infinite_p, other.support.infinite_q) == (
            pair.support.infinite_q,
            pair.support.infinite_p,
        )


def test_atoms_on_edges_belong_to_the_left_cell():
    bounded = [pair for pair in PAIRS if math.isfinite(pair.support.max_loss)]
    assert len(bounded) > 20
    for pair in bounded:
        P, _ = pair.cells(np.array([pair.support.max_loss * (1 + 1e-12) + 1e-300]))
        assert P[-1] == pytest.approx(pair.support.infinite_p, abs=1e-14), pair


def _profile(losses, masses, infinite, gamma):
    """Hockey-stick divergence of a lattice pair."""
    gains = 1 - gamma[:, None] * np.exp(-losses[None, :])
    return np.maximum(gains, 0) @ masses + infinite


def _truth(pair, eps):
    P, Q = pair.cells(eps)
    tail_p, tail_q = np.cumsum(P[::-1])[::-1][1:], np.cumsum(Q[::-1])[::-1][1:]
    return tail_p - np.exp(eps) * tail_q, tail_p


def _lattice(seed):
    """Fine, coarse and irregular lattices, on the zero or beside it."""
    rng = np.random.default_rng(seed)
    step = 10 ** rng.uniform(-3.0, 0.0)
    count = int(min(600, 8 / step))
    index = np.arange(-count, count + 1)
    if seed % 2:
        index = np.sort(rng.choice(index, size=max(len(index) // 2, 3), replace=False))
    return step * index + (step * rng.uniform(-0.5, 0.5) if seed else 0.0)


@every_kind
def test_single_step_dominance_on_random_grids(pairs):
    """H_lower <= H <= H_upper at every γ."""
    lower_bounds = 0
    for pair, seed in itertools.product(pairs, range(4)):
        x = _lattice(seed)
        # the last cumulative tails are rounded to 1e-16 absolute, hence the absolute tolerance
        eps = np.unique(np.concatenate((np.linspace(x[0] - 0.5, x[-1] + 0.5, 301), x)))
        eps = eps[np.abs(eps) < 40]
        truth, tail = _truth(pair, eps)
        masses, infinite = dominating(pair, x)
        upper = _profile(x, masses, infinite, np.exp(eps))
        assert (upper >= truth - 4e-15 * (tail + 1e-3)).all()
        low = dominated(pair, x)
        if low is not None:
            lower_bounds += 1
            lower = _profile(x, low, pair.support.infinite_p, np.exp(eps))
            assert (lower <= truth + 4e-15 * (tail + 1)).all()
            assert low.sum() <= 1 + 1e-12
    assert lower_bounds > 0


def test_log_moments_are_refused_where_none_is_known():
    without = [pair for pair in PAIRS if not has_log_moment(pair)]
    assert without
    for pair in without:
        with pytest.raises(NotImplementedError):
            log_moment(pair, 1.0)


@pytest.mark.parametrize(
    "pairs",
    [part for kind in KINDS.values() if (part := [pair for pair in kind if has_log_moment(pair)])],
    ids=lambda pairs: type(pairs[0]).__name__,
)
def test_log_moment_agrees_with_the_cells(pairs):
    for pair in pairs:
        # mean-value representation on fine cells: E e^{sL} between its values with the cell ends
        top = min(pair.support.max_loss, 200.0)
        low = max(pair.support.min_loss, -200.0)
        edges = np.unique(
            np.concatenate((np.linspace(low, top, 20001), np.linspace(-0.1, 0.1, 2001)))
        )
        P, _ = pair.cells(edges)
        p = P[1:-1]
        for s in (0.5, 1.0, 3.0):
            value = math.exp(float(np.real(log_moment(pair, s))))
            floor = p @ np.exp(s * edges[:-1])
            ceiling = P[0] * math.exp(s * edges[0]) + p @ np.exp(s * edges[1:])
            assert floor * (1 - 1e-9) <= value <= ceiling * (1 + 1e-6) + 1e-12
        assert abs(np.exp(log_moment(pair, 0.0)) - (1 - pair.support.infinite_p)) < 1e-9
        both = log_moment(pair, np.array([1.0, 0.3 + 2j]))
        assert both.shape == (2,)
        conjugate = log_moment(pair, 0.3 - 2j)
        assert np.exp(both[1]) == pytest.approx(np.conj(np.exp(conjugate)), rel=1e-9)
