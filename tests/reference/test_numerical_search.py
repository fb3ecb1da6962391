"""Random settings: no NaN, no warning, no failure, and the independent value inside the bracket."""

import math

import numpy as np
import pytest
from brackets import reached, two_orders

from noisette.core.accounting.numerical.bracket import delta_bracket, epsilon_bracket
from noisette.core.accounting.numerical.noise_pairs import (
    GaussianPair,
    LaplacePair,
    SphericalLaplacePair,
)
from noisette.core.accounting.numerical.pairs import ApproximateDP
from noisette.core.accounting.numerical.sampled_pairs import (
    PoissonReplace,
    PoissonSampled,
    SymmetrisedSample,
)
from reference.complex_orders import complex_order_epsilon
from reference.log_moments import has_log_moment


def setting(seed):
    """Rates 1e-6..1, counts 1..1e6, δ 1e-12..0.1 over several kinds of steps."""
    rng = np.random.default_rng(seed)
    rate = 10 ** rng.uniform(-6, 0)
    z = 10 ** rng.uniform(-0.5, 1.2)
    count = round(10 ** rng.uniform(0, 6))
    delta = 10 ** rng.uniform(-12, -1)
    kind = seed % 6
    if kind <= 2:
        pair = PoissonSampled(GaussianPair(1 / z), rate)
    elif kind == 3:
        pair = PoissonReplace(rate, z)
    elif kind == 4:
        pair = SymmetrisedSample(GaussianPair(2 / z), rate)
    else:
        base = [LaplacePair(0.3), ApproximateDP(0.2), SphericalLaplacePair(1.0, 9)][seed % 3]
        pair = PoissonSampled(base, rate)
    return pair, count, delta


def check(seed):
    pair, count, delta = setting(seed)
    bracket = epsilon_bracket(two_orders((pair, count)), delta)
    lower, upper = bracket
    assert 0 <= lower <= upper
    assert not math.isnan(upper)
    # the complex-order value needs a decaying characteristic function and a moderate saddle
    if 0.1 < upper < 500 and has_log_moment(pair) and count >= 100 and pair.rate >= 3e-3:
        values = [complex_order_epsilon([(p, count)], delta) for p in (pair, pair.swapped())]
        if all(v.valid and v.error < 1e-3 * upper for v in values):
            value, error = max((v.value, v.error) for v in values)
            assert lower <= value + error + 1e-9 * (1 + upper)
            assert value - error <= upper * (1 + 1e-9) + 1e-9
    if 0 < upper < 500:
        back = delta_bracket(two_orders((pair, count)), upper)
        assert back.lower <= delta * (1 + 1e-9)
    return bracket


@pytest.mark.parametrize("kind", range(6))
def test_random_settings(kind):
    """Six settings of each kind of step."""
    for seed in range(kind, 36, 6):
        check(seed)


@pytest.mark.slow
def test_many_random_settings():
    met = [reached(check(seed)) for seed in range(36, 2100)]
    assert np.mean(met) > 0.9
