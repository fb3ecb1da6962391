"""TWO-SIGNED: objective perturbation of losses whose slope has either sign, by exact densities."""

import math

import numpy as np
import pytest
from one_shot_oracle import Curve, Line, hockey_stick, hs, line_law, self_composed

from noisette.core import accounting
from noisette.core.accounting.objective_pair import ObjectiveReplaced, ObjectiveTable, _law
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from noisette.core.mechanisms import Gaussian, ObjectiveNoise
from noisette.core.plans import Repeat, Run
from noisette.fitting.algorithms.objective_perturbation import shape_of
from noisette.fitting.losses import Huber, Squared

EPSILONS = np.linspace(-1.0, 2.0, 25)


def cut(width: float) -> Curve:
    """Huber's loss with slope at most 1 and curvature 1 / width."""
    return Curve(
        lambda m: np.clip(m / width, -1.0, 1.0),
        lambda m: np.where(np.abs(m) <= width, 1.0 / width, 0.0),
    )


def shifted(width: float, at: float) -> Curve:
    """The same for a target of `at`, the same for all rows."""
    return Curve(
        lambda m: np.clip((m - at) / width, -1.0, 1.0),
        lambda m: np.where(np.abs(m - at) <= width, 1.0 / width, 0.0),
    )


def two_signed(scale: float, k: float, *, persons: bool = False) -> ObjectiveNoise:
    return ObjectiveNoise(scale, 1, "gaussian", k, "two-signed", 2, persons)


def curve_of(pair: object, epsilons: np.ndarray) -> np.ndarray:
    t = pair.table  # type: ignore[attr-defined]
    gaps = -np.expm1(np.minimum(0.0, np.subtract.outer(epsilons, t.losses)))
    return gaps @ t.p + t.infinite_p


def cases() -> list[tuple[Line, float, float, float]]:
    """(data without the record, Lambda, scale, width of the loss), pushed hard or left alone."""
    out = []
    for width in (0.02, 0.5, 2.0):
        for lam in (0.5, 4.0):
            for scale in (1.0, 3.0):
                for curve in (cut(width), shifted(width, 3.0 * scale / lam), shifted(width, -1.0)):
                    out.append((Line((), (), curve), lam, scale, width))
                out.append((Line((-0.7, 0.4), (3.0, 2.0), shifted(width, 0.5)), lam, scale, width))
    out.append((Line((), (), shifted(2.0, 1e3)), 1e3, 2.0, 2.0))  # one sign, hardly a determinant
    return out


def test_both_orders_stay_below_their_bounds_and_come_close() -> None:
    """Closest: 2 HS without the record (m = 1 would be wrong), and HS with it."""
    closest = {True: 0.0, False: 0.0}
    for data, lam, scale, width in cases():
        noise = two_signed(scale, 1.0 / (width * lam))
        full = data.plus(1.0)
        at = EPSILONS[EPSILONS >= 0.0]
        single = np.array([noise.delta(float(e), ADD_REMOVE) for e in at])
        for p, q, held in ((full, data, True), (data, full, False)):
            exact = hockey_stick(*line_law(p, q, lam, "gaussian", scale, 8001), EPSILONS)
            bound = curve_of(ObjectiveTable(noise, held), EPSILONS)
            assert np.all(exact <= bound * (1.0 + 1e-3) + 1e-9)
            assert np.all(exact[EPSILONS >= 0.0] <= single * (1.0 + 1e-3) + 1e-9)
            ratio = exact[EPSILONS >= 0.5] / bound[EPSILONS >= 0.5]
            closest[held] = max(closest[held], float(ratio.max()))
    assert closest[False] > 0.99
    assert closest[True] > 0.97


def test_without_the_record_the_factor_two_is_real() -> None:
    """A narrow loss in a wide noise: the exact curve is twice that of one additive release."""
    data, lam, scale = Line((), (), cut(1e-4)), 0.01, 2.0
    law = line_law(data, data.plus(1.0), lam, "gaussian", scale, 20_001)
    exact = hockey_stick(*law, [0.5, 1.0])
    additive = hs(1.0 / scale, np.array([0.5, 1.0]))
    assert exact / additive == pytest.approx([2.0, 2.0], rel=0.01)
    noise = two_signed(scale, 1e-9)
    assert noise.delta(1.0, ADD_REMOVE) == pytest.approx(2.0 * float(additive[1]), rel=1e-6)


def test_the_curve_below_half_mu_squared() -> None:
    """1 - 2 e^eps Phi(-mu): narrow loss, little noise."""
    data, lam, scale = Line((), (), cut(1e-4)), 0.01, 0.5
    law = line_law(data, data.plus(1.0), lam, "gaussian", scale, 20_001)
    exact = hockey_stick(*law, [0.5, 1.0])
    noise = two_signed(scale, 1e-9)
    stated = [noise.delta(e, ADD_REMOVE) for e in (0.5, 1.0)]
    assert stated == pytest.approx(exact, rel=0.01)
    assert all(s >= e * (1.0 - 1e-3) for s, e in zip(stated, exact, strict=True))


def test_replace_one_dominates_exact_pairs() -> None:
    worst = 0.0
    for data, lam, scale, width in cases()[::3]:
        noise = two_signed(scale, 1.0 / (width * lam))
        bound = curve_of(ObjectiveReplaced(noise), EPSILONS)
        single = np.array([noise.delta(float(e), REPLACE_ONE) for e in EPSILONS])
        for x, z in ((1.0, -1.0), (1.0, 0.3), (-0.5, 1.0)):
            law = line_law(data.plus(x), data.plus(z), lam, "gaussian", scale, 4001)
            exact = hockey_stick(*law, EPSILONS)
            assert np.all(exact <= bound * (1.0 + 2e-3) + 1e-9)
            assert np.all(exact[EPSILONS >= 0] <= single[EPSILONS >= 0] * (1.0 + 2e-3) + 1e-9)
            worst = max(worst, float(np.max(exact / bound)))
    assert worst > 0.5


@pytest.mark.parametrize("times", [2, 4])
def test_composition_dominates_exact_products(times: int) -> None:
    worst = 0.0
    for data, lam, scale, width in cases()[::4]:
        noise = two_signed(scale, 1.0 / (width * lam))
        counted = accounting.delta(Repeat(Run(noise), times), epsilon=1.0, adjacency=ZERO_OUT)
        full = data.plus(1.0)
        for p, q in ((full, data), (data, full)):
            law = line_law(p, q, lam, "gaussian", scale, 4001)
            exact = self_composed(*law, times, 1.0, step=2e-3)
            assert exact <= counted * (1.0 + 5e-3) + 1e-8
            worst = max(worst, exact / counted)
    assert worst > 0.8


def test_moments_are_those_of_the_worse_order() -> None:
    s = np.array([0.5, 2.0, 10.0])
    for data, lam, scale, width in cases()[::4]:
        stated = two_signed(scale, 1.0 / (width * lam)).log_moment(s, ADD_REMOVE)
        for p, q in ((data.plus(1.0), data), (data, data.plus(1.0))):
            losses, mass = line_law(p, q, lam, "gaussian", scale, 8001)
            exact = [math.log(float(mass @ np.exp(t * losses))) for t in s]
            assert np.all(np.array(exact) <= stated + 1e-6)
    narrow = two_signed(2.0, 1e-12).log_moment(s, ADD_REMOVE)
    assert np.all(narrow > Gaussian(2.0).log_moment(s, ADD_REMOVE))
    data = Line((), (), cut(1e-4))
    losses, mass = line_law(data, data.plus(1.0), 0.01, "gaussian", 2.0, 20_001)
    exact = np.array([math.log(float(mass @ np.exp(t * losses))) for t in s])
    assert narrow == pytest.approx(exact, abs=2e-3)


def test_the_law_of_a_person_counts_both_signs_in_both_orders() -> None:
    """One record of either sign is proven; a person is bounded by k + mu^2/2 + mu |Z|."""
    scale, k = 2.0, 0.3
    z = np.abs(np.random.default_rng(0).standard_normal(400_000))
    law = 1.0 / (2.0 * scale**2) + z / scale
    for held in (True, False):
        losses, p, lost = _law(two_signed(scale, k, persons=True), held)
        assert float(p @ losses) == pytest.approx(law.mean() + k * held, rel=5e-3)
        assert lost < 1e-9
        above = float(p[losses > 1.0].sum())
        assert above == pytest.approx(float((law + k * held > 1.0).mean()), rel=0.03)


def test_a_person_never_costs_less_than_a_record() -> None:
    for z, k in ((2.0, 0.4), (6.0, 0.2), (0.7, 3.0)):
        for relation in (ADD_REMOVE, REPLACE_ONE):
            one = accounting.epsilon(Run(two_signed(z, k)), delta=1e-6, adjacency=relation)
            all_ = accounting.epsilon(
                Run(two_signed(z, k, persons=True)), delta=1e-6, adjacency=relation
            )
            assert one * (1.0 - 1e-3) <= all_ <= 1.25 * one + k


def test_persons_with_rows_of_both_signs_stay_below_the_bound() -> None:
    """Rows +1 and -1, and equal ones, of weights that add up to 1; exact in one dimension."""
    worst = 0.0
    for data, lam, scale, width in cases()[::3]:
        noise = two_signed(scale, 1.0 / (width * lam), persons=True)
        for rows in ((1.0, -1.0), (1.0, 1.0, -0.5), (1.0,)):
            full = data
            for row in rows:
                full = full.plus(row, 1.0 / len(rows))
            for p, q, held in ((full, data, True), (data, full, False)):
                exact = hockey_stick(*line_law(p, q, lam, "gaussian", scale, 4001), EPSILONS)
                bound = curve_of(ObjectiveTable(noise, held), EPSILONS)
                assert np.all(exact <= bound * (1.0 + 1e-3) + 1e-9)
                worst = max(worst, float(np.max(exact / bound)))
    assert worst > 0.8


def test_pure_noise_pays_the_determinant_once() -> None:
    noise = ObjectiveNoise(2.0, 3, "spherical-laplace", 0.3, "two-signed")
    assert noise.pure_epsilon(ADD_REMOVE) == pytest.approx(0.5 + math.log1p(0.3))
    assert noise.pure_epsilon(REPLACE_ONE) == pytest.approx(1.0 + math.log1p(0.3))
    data, lam, width = Line((), (), cut(0.05)), 1.0, 0.05
    noise = ObjectiveNoise(2.0, 1, "spherical-laplace", 1.0 / (width * lam), "two-signed")
    for p, q in ((data.plus(1.0), data), (data, data.plus(1.0))):
        losses, mass = line_law(p, q, lam, "laplace", 2.0, 20_001)
        assert losses[mass > 0].max() <= noise.pure_epsilon(ADD_REMOVE) + 1e-6


def test_which_losses_are_covered() -> None:
    assert shape_of(Huber()) == "two-signed"
    with pytest.raises(ValueError, match="no bound"):
        shape_of(Squared())
