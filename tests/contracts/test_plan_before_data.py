"""``model.plan(n, d)``: what would be charged, from public facts, is what ``fit`` charges."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from noisette import Persons
from noisette.core.ledger import Ledger
from noisette.core.sampling import Disjoint
from noisette.errors import NoisetteError, WeakModelWarning
from noisette.models import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    SGDClassifier,
    SGDRegressor,
)

N, D = 300, 4
HIDDEN = {"adjacency": "add-remove", "population": 400}

SETTINGS: dict[str, tuple[Any, str]] = {
    "objective": (LogisticRegression(1.0, norm_bound=1.0), "objective"),
    "objective with delta": (LogisticRegression(1.0, 1e-5, norm_bound=1.0), "objective"),
    "objective, zero-out": (
        LogisticRegression(0.5, adjacency="zero-out", norm_bound=1.0),
        "objective",
    ),
    "objective, add-remove": (LogisticRegression(1.0, norm_bound=1.0, **HIDDEN), "objective"),
    "objective without intercept": (
        LogisticRegression(1.0, fit_intercept=False, norm_bound=1.0),
        "objective",
    ),
    "objective, large rows": (LogisticRegression(1.0, norm_bound=3.0), "objective"),
    "given regularization": (
        LogisticRegression(1.0, regularization=0.5, norm_bound=1.0),
        "objective",
    ),
    "softmax": (LogisticRegression(1.0, classes=[0, 1, 2], norm_bound=1.0), "objective"),
    "one-vs-rest": (
        LogisticRegression(1.0, 1e-5, classes=[0, 1, 2], multi_class="ovr", norm_bound=1.0),
        "objective",
    ),
    "output": (LogisticRegression(1.0, mechanism="output", norm_bound=1.0), "output"),
    "output with delta": (
        LogisticRegression(1.0, 1e-5, mechanism="output", norm_bound=1.0),
        "output",
    ),
    "output, add-remove": (
        LogisticRegression(1.0, mechanism="output", norm_bound=1.0, **HIDDEN),
        "output",
    ),
    "output, one-vs-rest": (
        LogisticRegression(
            1.0, mechanism="output", multi_class="ovr", classes=[0, 1, 2], norm_bound=1.0
        ),
        "output",
    ),
    "whitened": (LogisticRegression(1.0, 1e-5, whiten=0.2, norm_bound=1.0), "whitened"),
    "whitened, add-remove": (
        LogisticRegression(1.0, 1e-5, whiten=0.2, norm_bound=1.0, **HIDDEN),
        "whitened",
    ),
    "machine": (LinearSVC(1.0, norm_bound=1.0), "objective"),
    "machine with a kink": (LinearSVC(1.0, loss="hinge", norm_bound=1.0), "output"),
    "machine, huber, ovr": (
        LinearSVC(1.0, loss="huber", classes=[0, 1, 2], norm_bound=1.0),
        "objective",
    ),
    "machine, whitened": (LinearSVC(1.0, 1e-5, whiten=0.2, norm_bound=1.0), "whitened"),
    "machine, add-remove": (LinearSVC(1.0, loss="hinge", norm_bound=1.0, **HIDDEN), "output"),
    "one pass": (SGDClassifier(1.0, norm_bound=1.0), "single-pass"),
    "one pass, gaussian": (
        SGDClassifier(
            1.0, 1e-5, sampling="disjoint", noise="gaussian", batch_size=50, norm_bound=1.0
        ),
        "single-pass",
    ),
    "one pass, given batches": (
        SGDClassifier(1.0, sampling=Disjoint.of_size(N, 60), adjacency="zero-out", norm_bound=1.0),
        "single-pass",
    ),
    "descent": (SGDClassifier(1.0, 1e-5, norm_bound=1.0), "gradient-descent"),
    "descent, softmax": (
        SGDClassifier(1.0, 1e-5, classes=[0, 1, 2], norm_bound=1.0),
        "gradient-descent",
    ),
    "descent, add-remove": (SGDClassifier(1.0, 1e-5, norm_bound=1.0, **HIDDEN), "gradient-descent"),
    "poisson": (
        SGDClassifier(1.0, 1e-5, sampling="poisson", batch_size=30, epochs=3, norm_bound=1.0),
        "noisy-sgd",
    ),
    "poisson, add-remove": (
        SGDClassifier(1.0, 1e-5, sampling="poisson", batch_size=30, norm_bound=1.0, **HIDDEN),
        "noisy-sgd",
    ),
    "pure passes": (SGDClassifier(1.0, epochs=2, batch_size=50, norm_bound=1.0), "noisy-sgd"),
    "shuffled": (
        SGDClassifier(
            1.0, 1e-5, loss="hinge", sampling="shuffle", batch_size=50, epochs=2, norm_bound=1.0
        ),
        "noisy-sgd",
    ),
    "last iterate": (
        SGDClassifier(1.0, 1e-5, released="last", batch_size=50, epochs=2, norm_bound=1.0),
        "noisy-sgd",
    ),
    "clipped gradients": (
        SGDClassifier(1.0, 1e-5, norm_bound=None, clip_norm=0.5, sampling="full", epochs=4),
        "noisy-sgd",
    ),
}
every_setting = pytest.mark.parametrize(("model", "algorithm"), SETTINGS.values(), ids=SETTINGS)


def table(model: Any) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).standard_normal((N, D))
    return X, np.arange(N) % (len(model.classes) if model.classes is not None else 2)


@every_setting
def test_the_plan_is_that_of_a_fit_and_costs_nothing(model: Any, algorithm: str) -> None:
    ledger = Ledger(5.0, 1e-3, adjacency=model.adjacency)
    planned = type(model)(**{**model.get_params(), "ledger": ledger})
    before = dict(vars(planned))
    foreseen = planned.plan(N, D)
    assert vars(planned) == before
    assert ledger.charges == []
    shown = str(foreseen)
    assert shown.startswith(algorithm)
    assert "noise" in shown
    assert " s on one core" in shown
    stated = planned.fit(*table(model)).privacy_
    (charge,) = ledger.charges
    assert charge.model == type(model).__name__
    assert foreseen.algorithm == algorithm
    assert foreseen.plan.under(stated.adjacency).to_json() == stated.plan.to_json()
    assert foreseen.adjacency == str(stated.adjacency)
    assert foreseen.delta == stated.delta
    assert foreseen.epsilon <= stated.epsilon * (1.0 + 1e-9)
    assert set(foreseen.notes) <= set(stated.notes)


REGRESSORS: dict[str, Any] = {
    "least squares": LinearRegression(1.0, 1e-5, norm_bound=1.0, target_bounds=(0, 1)),
    "huber": HuberRegressor(1.0, norm_bound=1.0, target_bounds=(0, 1)),
    "huber, add-remove": HuberRegressor(1.0, norm_bound=1.0, target_bounds=(0, 1), **HIDDEN),
    "steps": SGDRegressor(1.0, 1e-5, norm_bound=1.0, target_bounds=(0, 1)),
}
PEOPLE = [
    "objective", "objective, add-remove", "objective, zero-out", "output", "whitened", "softmax",
    "machine", "one pass", "descent", "clipped gradients",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "max_rows"),
    [(name, 3 * (k % 2) or None) for k, name in enumerate([*PEOPLE, *REGRESSORS])],
)
def test_the_plan_for_persons_is_that_of_a_fit_on_persons(name: str, max_rows: Any) -> None:
    model = REGRESSORS[name] if name in REGRESSORS else SETTINGS[name][0]
    crowd = Persons.of(np.arange(2 * N) // 2, max_rows=max_rows)
    classes = getattr(model, "classes", None) or [0, 1]
    X, y = np.ones((2 * N, D)) / 4, np.arange(2 * N) % len(classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakModelWarning)
        fitted = clone(model).fit(X, y, persons=crowd)
    foreseen = model.plan(N, D, persons=True, max_rows=max_rows)
    stated = fitted.privacy_
    assert (foreseen.unit, stated.unit) == ("person", "person")
    assert "persons)" in str(foreseen)
    assert foreseen.plan.under(stated.adjacency).to_json() == stated.plan.to_json()
    assert model.plan(N, D).unit == "record"


def test_a_cap_on_rows_is_for_persons() -> None:
    model = LogisticRegression(1.0, norm_bound=1.0)
    with pytest.raises(NoisetteError, match="persons=True"):
        model.plan(N, D, max_rows=3)
    with pytest.raises(NoisetteError, match="persons must be"):
        model.plan(N, D, persons="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC, SGDClassifier])
def test_the_number_of_classes_can_be_told(make: Any) -> None:
    options: Any = {"delta": 1e-5} if make is SGDClassifier else {"multi_class": "ovr"}
    options["norm_bound"] = 1.0
    told = make(1.0, **options).plan(N, D, classes=3)
    listed = make(1.0, classes=[0, 1, 2], **options).plan(N, D)
    assert told.plan.to_json() == listed.plan.to_json()
    assert told.plan.to_json() != make(1.0, **options).plan(N, D).plan.to_json()
    for bad in (1, 0, -3, 2.5, "three", True):
        with pytest.raises(NoisetteError, match=r"^classes must be a whole number >= 2; got [^.]"):
            make(1.0, **options).plan(N, D, classes=bad)


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(norm_bound=1.0), LinearSVC(norm_bound=1.0), SGDClassifier(norm_bound=1.0)],
    ids=repr,
)
def test_bad_sizes_are_refused_in_one_sentence(model: Any) -> None:
    for name in ("n", "d"):
        for bad in (0, -5, 2.5, True, None, "many", np.nan):
            given = {"n": N, "d": D, name: bad}
            with pytest.raises(
                NoisetteError, match=f"^{name} must be a whole number >= 1"
            ) as refusal:
                model.plan(**given)
            assert str(refusal.value).count(". ") == 0
            assert refusal.value.__context__ is None


@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC, SGDClassifier])
def test_what_a_fit_refuses_a_plan_refuses(make: Any) -> None:
    X, y = table(make(norm_bound=1.0))
    for options in (
        {"epsilon": -1.0},
        {"delta": 0.5},  # not below 1/n
        {"adjacency": "neighbours"},
        {"norm_bound": 1e-170},
    ):
        model = make(**{"norm_bound": 1.0, **options})
        with pytest.raises(NoisetteError) as planned:
            model.plan(N, D)
        with pytest.raises(NoisetteError) as fitted:
            model.fit(X, y)
        assert str(planned.value) == str(fitted.value)


def test_n_is_the_guess_where_none_is_given() -> None:
    """Under add-remove ``fit`` of SGD needs a population; n stands for it in a plan."""
    options = {"delta": 1e-5, "adjacency": "add-remove"}
    guessed = SGDClassifier(1.0, norm_bound=1.0, **options).plan(400, D).plan
    given = SGDClassifier(1.0, population=400, norm_bound=1.0, **options).plan(N, D).plan
    assert guessed.to_json() == given.to_json()
