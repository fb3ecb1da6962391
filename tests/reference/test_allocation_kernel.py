"""The compiled sums behind random allocation, against exact rational arithmetic."""

from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest

from noisette.core.accounting.numerical.kernels import spread_means
from noisette.core.accounting.numerical.random_allocation import RandomAllocationPair, _mean_law


def exact(a, p, b, q, share, same, grid, upper):
    """The definition, pair by pair, in rational numbers (share is a power of two)."""
    grid = [Fraction(x) for x in grid]
    first, second = [Fraction(0)] * (len(grid) + 1), [Fraction(0)] * (len(grid) + 1)
    lost, share = Fraction(0), Fraction(share)
    for i in range(len(a)):
        for j in range(len(b)):
            if same and j < i:
                continue
            value = share * Fraction(a[i]) + (1 - share) * Fraction(b[j])
            mass = Fraction(p[i]) * Fraction(q[j]) * (2 if same and j > i else 1)
            cell = bisect_right(grid, value) - 1
            if not upper:
                first[cell] += mass
                second[cell] += mass * value
                continue
            lost += mass * max(value - grid[-1], 0)
            value, cell = min(value, grid[-1]), min(cell, len(grid) - 2)
            raised = mass * (value - grid[cell]) / (grid[cell + 1] - grid[cell])
            first[cell + 1] += raised
            first[cell] += mass - raised
    return first, second, lost


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_sums_are_those_of_rational_arithmetic(upper, same):
    rng = np.random.default_rng(3)
    a, b = np.sort(rng.gamma(2.0, size=23)), np.sort(rng.gamma(2.0, size=31))
    a[[4, 5]] = a[[5, 4]]  # out of order, as roundings may leave them
    p, q = rng.random(23), rng.random(31)
    if same:
        b, q = a, p
    grid = np.concatenate(([0.0], np.linspace(0.4, 3.0, 17)))
    first, second = np.zeros(len(grid) + 1), np.zeros(len(grid) + 1)
    share = 0.5 if same else 0.25
    lost = spread_means(a, p, b, q, share, same, grid, upper, first, second)
    wanted = exact(a, p, b, q, share, same, grid, upper)
    np.testing.assert_allclose(first, [float(x) for x in wanted[0]], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(second, [float(x) for x in wanted[1]], rtol=1e-13, atol=1e-14)
    assert lost == pytest.approx(float(wanted[2]), rel=1e-13)
    assert not upper or lost > 0.0


@pytest.mark.parametrize("terms", [2, 7, 118, 1000])
@pytest.mark.parametrize("upper", [True, False])
def test_rounding_of_the_masses_stays_within_the_stated_error(terms, upper):
    law = _mean_law(terms, 0.7, upper, 1.0)
    stated = RandomAllocationPair(terms, 1 / 0.7).errors[1]
    assert law.mass.sum() == pytest.approx(1.0, abs=stated)
    # The single lognormal's cells are moved up by their stated errors: the mean may exceed 1.
    raised = 1e-12 if upper else 0.0
    assert -stated <= (law.values * law.mass).sum() + law.lost - 1.0 <= stated + raised
