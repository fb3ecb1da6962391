"""How much of a weight is noise: the stated deviations against fits that differ in noise alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisette import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    SGDClassifier,
    SGDRegressor,
    load,
    save,
)

NUMBERS: dict[str, Any] = {"target_bounds": (-8, 8), "norm_bound": 3.0}


def rows(n: int = 1500) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * [1.0, 0.6, 1.0]
    return X, X @ [1.0, -2.0, 0.5] + rng.logistic(size=n)


def targets(model: Any, y: Any, classes: int) -> Any:
    if not hasattr(model, "classes"):
        return y
    return np.digitize(y, [0.0] if classes == 2 else [-1.0, 1.0])


CASES = [
    (LogisticRegression, {"mechanism": "output", "norm_bound": 3.0}, 2),
    (LogisticRegression, {"mechanism": "output", "norm_bound": 3.0}, 3),
    (LinearSVC, {"mechanism": "output", "norm_bound": 3.0}, 3),
    (HuberRegressor, {"mechanism": "output", **NUMBERS}, 2),
]


@pytest.mark.parametrize(("kind", "options", "classes"), CASES)
def test_the_law_of_output_perturbation_is_exact(kind: Any, options: Any, classes: int) -> None:
    """120 fits: the mean of squares of noise over stated variances is 1 up to 5 deviations.

    The worst case is fully dependent entries (spherical noise, four of them): 120 x 4 values, a
    deviation below 0.12. A factor of sqrt(2) in any of them is far outside.
    """
    X, y = rows()
    runs = [kind(2.0, random_state=s, **options).fit(X, targets(kind(), y, classes))
            for s in range(120)]  # fmt: skip
    bars = runs[0].noise_bars()
    assert bars.law == "known"
    assert "exact" in bars.says
    for name, stated in (("coef_", bars.coef), ("intercept_", bars.intercept)):
        drawn = np.array([np.asarray(getattr(run, name)) for run in runs])
        ratio = float(np.mean(np.var(drawn, axis=0, ddof=1) / np.asarray(stated) ** 2))
        assert 0.6 < ratio < 1.5, (name, ratio)


def test_the_estimate_after_whitening_is_of_the_right_size() -> None:
    X, y = rows(6000)
    runs = [LogisticRegression(2.0, 1e-6, norm_bound=3.0, whiten=0.1, random_state=s)
            .fit(X, y > 0) for s in range(30)]  # fmt: skip
    bars = runs[0].noise_bars()
    assert bars.law == "curvature"
    assert "estimated" in bars.says
    drawn = np.std([run.coef_[0] for run in runs], axis=0, ddof=1)
    assert np.all((drawn / bars.coef[0] > 0.5) & (drawn / bars.coef[0] < 1.5))


def test_what_was_not_released_has_no_bars_and_one_sentence() -> None:
    X, y = rows()
    hidden = LogisticRegression(2.0, norm_bound=3.0, random_state=0).fit(X, y > 0).noise_bars()
    assert (hidden.law, hidden.coef) == ("hidden", None)
    three = LogisticRegression(2.0, 1e-6, norm_bound=3.0, whiten=0.1, random_state=0)
    assert three.fit(X, targets(three, y, 3)).noise_bars().law == "hidden"
    for model in (SGDClassifier(2.0, norm_bound=3.0, random_state=0).fit(X, y > 0),
                  SGDRegressor(2.0, random_state=0, **NUMBERS).fit(X, y)):  # fmt: skip
        assert model.noise_bars().law == "none"
        assert model.noise_bars().says.count(".") == 1


def test_bars_come_back_from_a_file(tmp_path: Path) -> None:
    X, y = rows()
    for k, model in enumerate((
        HuberRegressor(2.0, mechanism="output", random_state=0, **NUMBERS).fit(X, y),
        LinearRegression(2.0, random_state=0, **NUMBERS).fit(X, y),
        LinearSVC(2.0, mechanism="output", norm_bound=3.0, random_state=0).fit(X, y > 0),
    )):  # fmt: skip
        save(model, tmp_path / f"{k}.noisette")
        again, bars = load(tmp_path / f"{k}.noisette").noise_bars(), model.noise_bars()
        assert again.law == bars.law
        assert np.array_equal(again.coef, bars.coef)
        assert np.array_equal(again.intercept, bars.intercept)
