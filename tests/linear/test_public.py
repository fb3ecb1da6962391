"""What a fit on given data would charge, without a charge."""

from typing import Any

import numpy as np
import pytest

from noisette import HuberRegressor, Ledger, LogisticRegression, SGDClassifier, SGDRegressor
from noisette.errors import InvalidData

X = np.random.default_rng(0).uniform(-0.5, 0.5, (400, 3))
NUMBER = X[:, 0] - X[:, 1]
WHO = np.arange(400) // 2


@pytest.mark.parametrize("persons", [None, WHO], ids=["records", "persons"])
@pytest.mark.parametrize(
    ("kind", "options", "y"),
    [
        (LogisticRegression, {}, NUMBER > 0.0),
        (SGDClassifier, {"delta": 1e-6}, NUMBER > 0.0),
        (HuberRegressor, {"target_bounds": (-1, 1)}, NUMBER),
        (SGDRegressor, {"target_bounds": (-1, 1)}, NUMBER),
    ],
)
def test_the_plan_of_a_fit_is_known_without_a_charge(
    kind: Any, options: dict[str, Any], y: Any, persons: Any
) -> None:
    ledger = Ledger(3.0, 1e-5)
    model = kind(1.0, norm_bound=1.0, ledger=ledger, random_state=0, **options)
    before = dict(vars(model))
    chosen = model.public(X, y, persons=persons)
    assert vars(model) == before
    assert ledger.spent == (0.0, 0.0)
    again = kind(1.0, norm_bound=1.0, random_state=0, **options).fit(X, y, persons=persons)
    assert again.privacy_.plan == chosen.plan
    assert again.privacy_.unit == chosen.public.unit


def test_data_that_a_fit_refuses_are_refused() -> None:
    model = LogisticRegression(1.0, norm_bound=1.0)
    with pytest.raises(InvalidData, match="NaN"):
        model.public(np.full((10, 2), np.nan), np.arange(10) % 2)
    assert not hasattr(model, "n_features_in_")
