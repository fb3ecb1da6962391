"""The lattice of the numerical accountant: one for all parts, honest cells, brackets that nest."""

import math

import numpy as np
import pytest
from brackets import POISSON, Discrete, holds, poisson, reached, two_orders

from noisette.core import accounting, mechanisms, plans
from noisette.core.accounting.numerical.bracket import OrderProblem, delta_bracket, epsilon_bracket
from noisette.core.accounting.numerical.lattice import CertificateError, dominating
from noisette.core.accounting.numerical.noise_pairs import GaussianPair, LaplacePair
from noisette.core.accounting.numerical.pairs import ApproximateDP, Pair
from noisette.core.accounting.numerical.plan import MAX_WINDOW
from noisette.core.accounting.numerical.sampled_pairs import PoissonSampled


@pytest.mark.parametrize(("rate", "z", "count", "delta", "golden"), POISSON[:3])
def test_brackets_nest_and_shrink(rate, z, count, delta, golden):
    widths = []
    for rtol in (4e-3, 2e-3, 1e-3, 1e-4):
        bracket = epsilon_bracket(poisson(rate, z, count), delta, rtol=rtol)
        assert holds(bracket, golden)
        widths.append(bracket.upper - bracket.lower)
        assert widths[-1] <= rtol * bracket.upper
    assert widths[-1] < widths[0]


def test_heterogeneous_parts_share_one_lattice():
    """600 + 400 copies of one step, told apart by a rounding of the rate, equal 1000 copies."""
    a, b = (
        PoissonSampled(GaussianPair(1.0), 0.01),
        PoissonSampled(GaussianPair(1.0), 0.01 * (1 + 1e-13)),
    )
    bracket = epsilon_bracket(two_orders((a, 600), (b, 400)), 1e-5)
    assert reached(bracket)
    assert holds(bracket, 1.8282367)
    mixed = epsilon_bracket(
        two_orders((a, 500), (LaplacePair(0.05), 20), (GaussianPair(0.2), 1)), 1e-5
    )
    assert reached(mixed)
    assert mixed.lower > epsilon_bracket(two_orders((a, 500)), 1e-5).upper


class _Wrong(Pair):
    """Cells that contradict their losses by a relative amount."""

    def __init__(self, size):
        self.size = size

    def cells(self, edges):
        P, Q = GaussianPair(1.0).cells(edges)
        return P * (1 + self.size), Q


def test_inconsistent_cells_are_refused_not_clipped():
    x = np.linspace(-4, 4, 4001)
    dominating(_Wrong(0.0), x)
    with pytest.raises(CertificateError, match="Inconsistent"):
        dominating(_Wrong(5e-3), x)


def test_small_supports_on_coarse_lattices_keep_valid_lower_bounds():
    """Examples where the reference lower lattice exceeded the truth."""
    from noisette.core.accounting.numerical.lattice import dominated

    for loss, step in ((0.5, 0.3), (0.0153, 0.19)):
        high = 1 / (1 + math.exp(-loss))
        pair = Discrete((loss, -loss), (high, 1 - high), (1 - high, high))
        x = step * np.arange(-6, 7)
        masses = dominated(pair, x)
        if masses is None:
            continue
        assert masses.sum() <= 1 + 1e-12
        for epsilon in np.linspace(-1.5, 1.5, 61):
            low = float(masses @ np.maximum(1 - np.exp(epsilon - x), 0))
            P, Q = pair.cells([epsilon])
            assert low <= P[1] - math.exp(epsilon) * Q[1] + 1e-15


def test_delta_and_epsilon_brackets_invert_each_other():
    orders = poisson(0.02, 1.2, 500)
    for delta in (1e-9, 1e-5, 1e-2):
        epsilon = epsilon_bracket(orders, delta)
        at_upper = delta_bracket(orders, epsilon.upper)
        at_lower = delta_bracket(orders, epsilon.lower)
        assert at_upper.lower <= delta
        assert at_lower.upper >= delta


def test_tiny_atoms_do_not_set_the_length_of_the_window():
    """A declared epsilon of 5e-7 beside a Gaussian asked for 10^8 points, and hung."""
    big = GaussianPair(2.0)
    problem = OrderProblem(((ApproximateDP(5e-7), None, 1), (big, big, 1)), delta=1e-5)
    problem.prepare(1e-3, 0)
    assert problem.plan is not None
    assert problem.plan.window <= 2 * MAX_WINDOW
    alone = accounting.epsilon(mechanisms.Gaussian(1.0), delta=1e-5)
    both = plans.Together(plans.Declared(5e-7), mechanisms.Gaussian(1.0))
    assert alone <= accounting.epsilon(both, delta=1e-5) <= alone * 1.002
