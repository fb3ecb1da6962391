"""Intervals where their model holds, and where weights, persons, cuts or variances break it."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisette import LinearRegression, load, save
from noisette.errors import Unproven, WeakModelWarning
from noisette.fitting.algorithms import sufficient_statistics

TRUE = np.array([1.0, -2.0, 0.0])


def data(n: int = 8000, seed: int = 0, *, unequal: bool = False) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    spread = 0.5 * (np.sqrt(3.0) * np.abs(X[:, 0]) if unequal else 1.0)
    return X, 0.5 + X @ TRUE + spread * rng.standard_normal(n)


def made(epsilon: float = 4.0, **options: Any) -> Any:
    options = {"target_bounds": (-6, 6), "norm_bound": 1.8, "random_state": 0, **options}
    return LinearRegression(epsilon, **options)


def test_weights_do_not_narrow_intervals() -> None:
    """Rows of weight 1/4 are fewer rows, not smaller errors."""
    X, y = data()
    model = made().fit(X, y, sample_weight=np.full(len(y), 0.25))
    assert model.residual_scale_ == pytest.approx(0.5, rel=0.1)
    ends = model.predict_interval(X)
    assert 0.92 <= float(((ends[:, 0] <= y) & (y <= ends[:, 1])).mean()) <= 0.98


def test_a_fit_on_persons_forgets_the_intervals_of_an_earlier_one(tmp_path: Path) -> None:
    X, y = data(2000)
    model = made().fit(X, y)
    model.fit(X, y, persons=np.arange(2000) // 2)
    with pytest.raises(Unproven, match="persons"):
        model.coef_intervals()
    save(model, tmp_path / "m.noisette")
    with pytest.raises(Unproven, match="persons"):
        load(tmp_path / "m.noisette").predict_interval(X)


@pytest.mark.parametrize("bounds", [(-4.0, -3.9), (0.1, 0.7), (0.0, 1.0)])
def test_targets_at_either_bound_are_counted_whatever_rounding_does(bounds: Any) -> None:
    """Half of the targets lie below the bounds and half above; -3.9 is no binary number.

    The scaled target of a cut one is often 1 - 2^-53 in size, which is as much at the bound.
    """
    X, _ = data(2000)
    y = np.where(np.arange(2000) % 2, 1e3, -1e3)
    with pytest.warns(WeakModelWarning, match="100% of the targets"):
        model = made(20.0, target_bounds=bounds).fit(X, y)
    assert model.clipped_share_ == pytest.approx(1.0, abs=0.05)


def widths(model: Any) -> Any:
    return np.ptp(model.coef_intervals(), axis=1)


def test_unequal_variances_are_seen_told_and_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors grow with |x_1|: the variance of that coefficient is 1.8 times the usual formula's."""
    X, y = data(20_000, unequal=True)
    with pytest.warns(WeakModelWarning, match="unequal variances"):
        robust = made(8.0).fit(X, y)
    assert "unequal variances, as a released sum shows" in robust.privacy_.statement()
    monkeypatch.setattr(sufficient_statistics, "_SHARP", -1.0)
    plain = made(8.0).fit(X, y)
    assert "was not looked at" in plain.privacy_.statement()
    ratio = widths(robust) / widths(plain)
    assert 1.15 < ratio[0] < 1.5
    assert ratio[1:] == pytest.approx(1.0, abs=0.12)


def test_equal_variances_are_left_alone_and_noise_is_no_finding() -> None:
    X, y = data(20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "No unequal variances" in made(8.0).fit(X, y).privacy_.statement()
        small = made(0.5).fit(X[:4000], y[:4000])
        pure = made(8.0, delta=0.0).fit(X, y)
    for model in (small, pure):
        assert "was not looked at" in model.privacy_.statement()


def test_a_warning_that_is_an_error_does_not_lose_what_was_paid_for() -> None:
    X, y = data(20_000, unequal=True)
    model = made(8.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(WeakModelWarning, match="unequal variances"):
            model.fit(X, y)
    assert model.coef_intervals().shape == (4, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::noisette.errors.WeakModelWarning")
def test_coverage_under_unequal_variances() -> None:
    """200 fits: without the robust form about 0.88 for the first coefficient."""
    hits = []
    for seed in range(200):
        model = made(8.0, random_state=seed).fit(*data(20_000, seed, unequal=True))
        ends = model.coef_intervals()
        hits.append((ends[:3, 0] <= TRUE) & (ends[:3, 1] >= TRUE))
    assert 0.92 <= float(np.mean(hits)) <= 0.98
    assert float(np.mean(hits, axis=0)[0]) >= 0.91
