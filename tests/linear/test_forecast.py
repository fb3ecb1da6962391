"""Regularisation that follows from public facts, and the warning that a model can hardly learn."""

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from noisette import Ledger, LinearSVC, LogisticRegression, SGDClassifier
from noisette.core.adjacency import Adjacency
from noisette.core.mechanisms import Gaussian
from noisette.errors import InvalidParameter, NoisetteError, WeakModelWarning
from noisette.fitting.algorithms import Public
from noisette.fitting.algorithms.recommend import for_objective, warning_of
from noisette.fitting.losses import Logistic, Softmax

ESTIMATORS = (LogisticRegression, LinearSVC, SGDClassifier)


def blank(n: int, d: int) -> tuple[Any, Any]:
    return np.zeros((n, d)), np.arange(n) % 2


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "directions"),
    [
        (20_000, 20, 0.1, "all"),  # few columns
        (60_000, 99, 1.5, "all"),  # many, but their noise does not shrink what there is to learn
        (20_000, 99, 0.1, "few"),
        (40_000, 199, 0.7, "half"),  # the second picture alone would go below h / 2
        (1_500, 179, 8.0, "people"),
    ],
)
def test_the_default_lambda_is_that_of_its_derivation(
    n: int, d: int, epsilon: float, directions: str
) -> None:
    model = LogisticRegression(epsilon, norm_bound=2.0, random_state=0).fit(*blank(n, d))
    columns, squared = d + 1, 4.0 * (1.0 + 0.35**2)  # with the constant column
    hessian = n * 0.25 * squared / columns
    noise = columns * (columns + 1) * (2.0 / epsilon) ** 2 * squared
    flat = noise / (25.0 / squared * hessian)
    expected = {
        "all": flat,
        "few": flat * (45.0 / columns) ** 2,
        "half": hessian / 2.0,
        "people": columns * squared / 25.0,
    }
    assert model.regularization_ is not None
    assert model.regularization_ * n == pytest.approx(expected[directions], rel=1e-3)


def test_several_classes_are_not_held_down_by_columns_that_hardly_vary() -> None:
    public = Public(
        epsilon=8.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE, size=30_000, features=400,
        norm_bound=1.0, loss=Softmax(10),
    )  # fmt: skip
    hessian = 30_000 * 0.1 / 400
    assert for_objective(public) == pytest.approx(max(hessian / 2.0, 45.0 / 25.0))
    few = replace(public, size=3000, epsilon=40.0)
    assert for_objective(few) == pytest.approx(45.0 / 25.0)


@pytest.mark.parametrize("made", ESTIMATORS)
def test_a_model_that_can_hardly_learn_is_announced_before_the_charge(made: Any) -> None:
    ledger = Ledger(1.0)
    model = made(0.1, norm_bound=1.0, classes=[0, 1], ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(WeakModelWarning) as found:
            model.fit(*blank(1000, 60))
    assert ledger.remaining[0] == 1.0
    assert not hasattr(model, "coef_")
    for advice in ("larger epsilon", "a delta", "fewer columns", "noisette.TableClassifier"):
        assert advice in str(found.value)
    with pytest.warns(WeakModelWarning) as shown:
        model.fit(*blank(1000, 60))
    assert shown[0].filename == __file__
    assert model.privacy_.notes[-1] == str(found.value)
    assert model.plan(1000, 60).notes[-1] == str(found.value)


@pytest.mark.parametrize("made", ESTIMATORS)
def test_no_warning_where_there_is_enough_to_learn_from(made: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = made(1.0, norm_bound=1.0).fit(*blank(20_000, 60))
    assert not any(note.startswith("From public facts alone") for note in model.privacy_.notes)


def test_the_warning_does_not_look_at_the_rows() -> None:
    rng = np.random.default_rng(0)
    texts = set()
    for rows in (np.zeros((500, 40)), rng.normal(size=(500, 40))):
        for labels in (np.arange(500) % 2, np.zeros(500)):
            with pytest.warns(WeakModelWarning) as found:
                LogisticRegression(norm_bound=1.0, classes=[0, 1]).fit(rows, labels)
            texts.add(str(found[0].message))
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("options", "ratio"),
    [
        ({}, 1.0),
        ({"adjacency": "zero-out"}, 0.5),
        ({"mechanism": "output", "regularization": 0.02}, 1.0 + 0.25 * 1.1225 / 45 / 0.02),
        ({"norm_bound": 7.0}, 1.0),  # rows and bound in other units
    ],
    ids=str,
)
def test_noise_against_signal(options: Any, ratio: float) -> None:
    """Noise sqrt(B^2 k / d) / (W h), in the units of the pure replace-one case."""
    n, columns, epsilon = 1000, 61, 0.1
    squared = 1.0 + 0.35**2
    term = math.sqrt(columns * (columns + 1) * squared) * 2.0 / epsilon
    hessian = n * 0.25 * squared / 45
    expected = ratio * term * math.sqrt(45 / columns) / (5.0 / math.sqrt(squared) * hessian)
    with pytest.warns(WeakModelWarning, match=rf"noise is about {expected:,.1f} times"):
        LogisticRegression(epsilon, **{"norm_bound": 1.0, **options}).fit(*blank(n, columns - 1))


def test_a_delta_lowers_the_noise_and_is_not_advised_twice() -> None:
    public = Public(
        epsilon=0.1, delta=1e-6, adjacency=Adjacency.ZERO_OUT, size=500, loss=Logistic(),
        features=400, norm_bound=1.0,
    )  # fmt: skip
    squared = 400.0 * Gaussian.calibrated(0.1, 1e-6, Adjacency.ZERO_OUT).noise_multiplier ** 2
    expected = math.sqrt(squared * 45 / 400) / (5.0 * 500 * 0.25 / 45)
    found = warning_of(public, "objective")
    assert f"noise is about {expected:,.1f} times" in found
    assert "a delta" not in found
    assert warning_of(replace(public, size=None), "objective") == ""


def test_a_stream_is_judged_by_the_public_guess_of_its_length() -> None:
    chunks = [blank(500, 60)] * 2
    options: Any = {"epsilon": 0.1, "norm_bound": 1.0, "classes": [0, 1]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SGDClassifier(**options).fit(iter([blank(500, 60)]))
    with pytest.warns(WeakModelWarning):
        SGDClassifier(population=1000, **options).fit(
            iter([(X.copy(), y.copy()) for X, y in chunks])
        )


class Unread:
    """Rows that nobody may read."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the rows were read.")


@pytest.mark.parametrize("made", ESTIMATORS)
def test_no_norm_bound_is_guessed(made: Any) -> None:
    ledger = Ledger(1.0)
    model = made(epsilon=1.0, ledger=ledger)
    for attempt in (lambda: model.fit(Unread(), [0, 1]), lambda: model.plan(1000, 5)):
        with pytest.raises(InvalidParameter, match=r"norm_bound=\.\.\..*noisette\.TableClassifier"):
            attempt()
    assert ledger.remaining[0] == 1.0


def test_clipped_gradients_need_no_norm_bound() -> None:
    model = SGDClassifier(epsilon=1.0, clip_norm=1.0, classes=[0, 1]).fit(*blank(1000, 3))
    assert model.privacy_.epsilon == 1.0
    with pytest.raises(NoisetteError, match="norm_bound has no default"):
        SGDClassifier(epsilon=1.0, classes=[0, 1]).partial_fit(*blank(1000, 3))
