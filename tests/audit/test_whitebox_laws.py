"""Size and power of the statistical white-box checks, on noise whose law is known.

Size: each p-value is tested for uniformity over 150 seeds at level 1e-4. Power: faults of the sizes
that the checks promise to see must be seen at the level of a report (1e-3 over 16 tests).
"""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from noisette.audit.findings import Tally
from noisette.audit.whitebox.laws import ENTRIES, VECTORS, _check, _tests
from noisette.core.mechanisms import Gaussian, SphericalLaplace
from noisette.core.sampling import Poisson, RandomAllocation, Shuffle, WithoutReplacement

LEVEL = 1e-3 / 16


def group(law: str, count: int, d: int, seed: int, change: Any = None) -> Any:
    rng = np.random.default_rng(seed)
    kind = Gaussian(1.0) if law == "gaussian" else SphericalLaplace(1.0, d)
    noise = kind.noise(count, d, 1.0, rng)
    return law, [noise if change is None else change(noise, rng)]


@pytest.mark.parametrize("law", ["gaussian", "spherical-laplace"])
@pytest.mark.parametrize(("count", "d"), [(60, 2), (60, 4), (30, 20)])
def test_p_values_are_uniform(law: str, count: int, d: int) -> None:
    found: dict[str, list[float]] = {}
    for seed in range(150):
        for p, what in _tests(*group(law, count, d, seed)):
            found.setdefault(what, []).append(p)
    for what in ("scale", "radius", "direction"):
        assert stats.kstest(found[what], "uniform").pvalue > 1e-4, what
    # a union bound over dependent cosines: never more often small than stated
    assert np.mean(np.array(found["independence"]) < 0.1) < 0.1 + 4.0 * np.sqrt(0.09 / 150)


@pytest.mark.parametrize("law", ["gaussian", "spherical-laplace"])
@pytest.mark.parametrize("factor", [0.9, 1.12])
def test_a_wrong_scale_is_seen(law: str, factor: float) -> None:
    d = 111
    for seed in range(20):
        spoilt = group(law, -(-ENTRIES // d), d, seed, lambda z, rng: factor * z)
        assert min(p for p, _ in _tests(*spoilt)) < LEVEL


@pytest.mark.parametrize("d", [2, 4])
def test_a_radius_of_shape_d_minus_one_is_seen(d: int) -> None:
    def change(z: Any, rng: Any) -> Any:
        unit = z / np.linalg.norm(z, axis=1, keepdims=True)
        return unit * rng.standard_gamma(d - 1, size=(len(z), 1))

    seen = [
        min(p for p, _ in _tests(*group("spherical-laplace", VECTORS, d, seed, change))) < LEVEL
        for seed in range(20)
    ]
    assert np.mean(seen) > 0.7  # d = 4: 5 deviations
    assert d > 2 or all(seen)


def test_laplace_in_each_coordinate_is_seen() -> None:
    for seed in range(20):
        spoilt = group("spherical-laplace", VECTORS, 4, seed,
                       lambda z, rng: rng.laplace(size=z.shape))  # fmt: skip
        assert min(p for p, _ in _tests(*spoilt)) < LEVEL


def test_repeated_vectors_are_seen() -> None:
    def change(z: Any, rng: Any) -> Any:
        z[1] = z[0]
        return z

    spoilt = {what: p for p, what in _tests(*group("gaussian", 40, 5, 0, change))}
    assert spoilt["independence"] < 1e-10


N, STEPS = 600, 120


def batches(sampler: Any, seed: int) -> list[Any]:
    from noisette.core.randomness import Randomness

    source, found = Randomness.from_seed(seed), []
    while len(found) < STEPS:
        found.extend(sampler.schedule(N, source))
    return found


@pytest.mark.parametrize(
    "sampler",
    [Poisson(0.05), Poisson(0.3), WithoutReplacement(60, N), RandomAllocation(10)],
    ids=str,
)
def test_the_batches_of_right_samplers_pass_at_the_stated_rate(sampler: Any) -> None:
    """At level 0.1, 120 right runs: more than 12 + 4 deviations (25) would be a wrong size."""
    alarms = 0
    for seed in range(120):
        out = Tally("batches", (1.0, 0.0))
        _check(batches(sampler, seed), sampler, N, 0.1, out)
        alarms += bool(out.faults)
    assert alarms <= 25


@pytest.mark.parametrize(
    ("ran", "counted"),
    [
        (Shuffle(10), Poisson(0.1)),
        (Poisson(0.06), Poisson(0.05)),
        (WithoutReplacement(60, N), Poisson(0.1)),
        (Poisson(0.1), WithoutReplacement(60, N)),
        (Poisson(0.1), Shuffle(10)),
        (Shuffle(10), WithoutReplacement(60, N)),
        (Shuffle(10), RandomAllocation(10)),
    ],
    ids=str,
)
def test_what_ran_must_be_what_was_counted(ran: Any, counted: Any) -> None:
    for seed in range(5):
        out = Tally("batches", (1.0, 0.0))
        _check(batches(ran, seed), counted, N, 1e-4, out)
        assert out.faults
