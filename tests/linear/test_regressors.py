"""What every regressor promises: its guarantee, its limits, its intervals, its file."""

import pickle
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from helpers import watching
from noisette import load, save
from noisette.core.adjacency import Adjacency
from noisette.core.ledger import Ledger
from noisette.errors import (
    BudgetExceeded,
    InvalidData,
    InvalidParameter,
    NoisetteError,
    Unproven,
    WeakModelWarning,
)
from noisette.models import HuberRegressor, LinearRegression, SGDRegressor

RELATIONS = [relation.value for relation in Adjacency]
KINDS = [LinearRegression, HuberRegressor, SGDRegressor]
CASES = [
    (LinearRegression, {}),
    (LinearRegression, {"rounds": 0}),
    (LinearRegression, {"delta": 0.0}),
    (HuberRegressor, {}),
    (HuberRegressor, {"delta": 1e-6}),
    (HuberRegressor, {"mechanism": "output"}),
    (HuberRegressor, {"delta": 1e-6, "whiten": 0.1}),
    (SGDRegressor, {}),
    (SGDRegressor, {"loss": "squared", "clip_norm": 0.5}),
    (SGDRegressor, {"sampling": "poisson", "batch_size": 200, "epochs": 2}),
]
TRUE = np.array([1.0, -2.0, 0.0])


def data(n: int = 4000, seed: int = 0, spread: float = 0.5) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    return X, 0.5 + X @ TRUE + rng.normal(0.0, spread, n)


def made(kind: Any, epsilon: float = 1.0, **options: Any) -> Any:
    options = {"target_bounds": (-6, 6), "norm_bound": 1.8, "random_state": 0, **options}
    return kind(epsilon, **options)


@pytest.mark.filterwarnings("ignore::noisette.errors.WeakModelWarning")
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize(("kind", "options"), CASES)
def test_the_guarantee_is_the_one_asked_for(kind: Any, options: Any, adjacency: str) -> None:
    X, y = data(800)
    model = made(kind, 0.7, adjacency=adjacency, population=900, **options).fit(X, y)
    promise = model.privacy_
    assert promise.epsilon == 0.7
    assert promise.delta in (0.0, options.get("delta", kind().delta))
    assert promise.delta_at(0.7) <= promise.delta
    assert promise.adjacency.value == adjacency
    text = promise.statement()
    assert "the bounds -6 and 6 of the target" in text
    assert ("number of records, 800" in text) == (adjacency != "add-remove")
    assert model.coef_.shape == (3,)
    assert isinstance(model.intercept_, float)
    plan = made(kind, 0.7, adjacency=adjacency, population=900, **options).plan(800, 3)
    assert plan.epsilon <= 0.7 * (1.0 + 1e-9)


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_it_learns(kind: Any, options: Any) -> None:
    X, y = data(20_000)
    model = made(kind, 4.0, **options).fit(X, y)
    least = 0.5 if options.get("mechanism") == "output" else 0.8
    assert model.score(X, y) > least
    assert np.array_equal(model.predict(X), model.fit(X, y).predict(X)), "the seed"
    single = sparse.csr_matrix(X)
    assert model.predict(single) == pytest.approx(model.predict(X))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_charges_nothing(kind: Any) -> None:
    X, y = data(500)
    ledger = Ledger(1.0, 1e-6)
    bad: list[dict[str, Any]] = [
        {"target_bounds": None}, {"target_bounds": (1, 1)}, {"target_bounds": 3},
        {"target_bounds": (0, float("inf"))}, {"norm_bound": None}, {"missing": "mean"},
        {"epsilon": -1.0}, {"adjacency": "both"},
    ]  # fmt: skip
    for options in bad:
        with pytest.raises(NoisetteError):
            made(kind, **{"epsilon": 1.0, **options}, ledger=ledger).fit(X, y)
    for rows, target in ((X, y[:-1]), (X, None), (X, np.full(500, np.nan)), (X, ["a"] * 500)):
        with pytest.raises(InvalidData) as caught:
            made(kind, ledger=ledger).fit(rows, target)
        assert "'a'" not in str(caught.value)
    with pytest.raises(BudgetExceeded):
        made(kind, 2.0, ledger=ledger).fit(X, y)
    assert ledger.charges == []


def test_parameters_of_each_are_checked() -> None:
    X, y = data(500)
    for model in (
        made(LinearRegression, rounds=-1),
        made(LinearRegression, rounds="many"),
        made(HuberRegressor, threshold=0.0),
        made(HuberRegressor, threshold=1e9),
        made(HuberRegressor, mechanism="none"),
        made(SGDRegressor, loss="squared"),
        made(SGDRegressor, loss="absolute"),
        made(SGDRegressor, adjacency="add-remove"),
    ):
        with pytest.raises(InvalidParameter):
            model.fit(X, y)
    assert not hasattr(HuberRegressor(), "coef_intervals"), "nothing tells how far they are off"


@pytest.mark.parametrize("kind", KINDS)
def test_targets_are_cut_and_rows_too(kind: Any) -> None:
    """A target of a million, or a row of a million, is one at the bound: bit by bit the same."""
    X, y = data(600)
    far, near = y.copy(), y.copy()
    far[0], near[0] = 1e6, 6.0
    long = X.copy()
    long[1] *= 1e6
    one = made(kind).fit(X, near).coef_
    assert np.array_equal(one, made(kind).fit(X, far).coef_)
    cut = X.copy()
    cut[1] = long[1] * (1.8 / np.linalg.norm(long[1])) * (1 - 1e-15)
    two = made(kind).fit(cut, near).coef_
    assert made(kind).fit(long, far).coef_ == pytest.approx(two, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_brings_everything_back(kind: Any, tmp_path: Path) -> None:
    X, y = data(2000)
    model = made(kind, 2.0).fit(X, y)
    save(model, tmp_path / "m.noisette")
    again = load(tmp_path / "m.noisette")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.privacy_.statement() == model.privacy_.statement()
    assert again.target_bounds == (-6.0, 6.0)
    if kind is LinearRegression:
        assert np.array_equal(again.coef_intervals(), model.coef_intervals())
        assert again.residual_scale_ == model.residual_scale_
    model.target_bounds = (-60, 60)
    with pytest.raises(InvalidParameter, match="fitted with"):
        save(model, tmp_path / "other.noisette")
    assert np.array_equal(pickle.loads(pickle.dumps(again)).coef_, model.coef_)


def covered(epsilon: float, runs: int, **options: Any) -> tuple[float, float]:
    """The share of coefficients, and of new targets, that their 95 % intervals hold."""
    hits, new = [], []
    for seed in range(runs):
        X, y = data(options.pop("n", 8000), seed)
        model = made(LinearRegression, epsilon, random_state=seed, **options).fit(X, y)
        ends = model.coef_intervals()
        truth = np.append(TRUE, 0.5)
        hits.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        X, y = data(500, 10_000 + seed)
        ends = model.predict_interval(X)
        new.append(((ends[:, 0] <= y) & (y <= ends[:, 1])).mean())
    return float(np.mean(hits)), float(np.mean(new))


def test_intervals_cover_in_the_linear_model() -> None:
    """40 runs x 4 coefficients: 0.88 to 1 are more than 3.5 deviations of 160 coins of 0.95."""
    share, new = covered(1.0, 40)
    assert 0.885 <= share <= 1.0
    assert 0.93 <= new <= 0.97


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:errors are of unequal")  # noise looks like it now and then
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_coverage_is_nominal(epsilon: float, adjacency: str) -> None:
    """400 runs x 4 coefficients; the issue asks for 93 to 97 %."""
    share, new = covered(epsilon, 400, adjacency=adjacency, population=8000)
    assert 0.93 <= share <= 0.97
    assert 0.93 <= new <= 0.97


def test_many_targets_at_a_bound_are_told() -> None:
    X, y = data(4000)
    with pytest.warns(WeakModelWarning, match="targets lie at or beyond"):
        model = made(LinearRegression, target_bounds=(-1.0, 1.0)).fit(X, y)
    assert model.clipped_share_ == pytest.approx(float((np.abs(y) >= 1.0).mean()), abs=0.05)
    assert "model-based" in model.privacy_.statement()


class Keep:
    """Keeps what goes to the door, and hands the first run's answers to the second."""

    def __init__(self, answers: list[Any] | None = None) -> None:
        self.seen: list[Any] = []
        self.out: list[Any] = []
        self._answers = answers

    def release(self, real: Any, bounded: Any, *given: Any, **options: Any) -> Any:
        result = real(bounded, *given, **options)
        if self._answers is not None and isinstance(result, np.ndarray):
            result = self._answers[len(self.seen)]
        self.seen.append(bounded)
        self.out.append(result)
        return result


@pytest.mark.filterwarnings("ignore::noisette.errors.WeakModelWarning")
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_persons_are_promised_what_they_ask_for(kind: Any, adjacency: str) -> None:
    """Everybody has four rows; the guarantee counts persons, and says so."""
    X, y = data(2000)
    ids = np.repeat(np.arange(500), 4)
    model = made(kind, 2.0, adjacency=adjacency, population=500).fit(X, y, persons=ids)
    assert model.privacy_.unit == "person"
    assert ("number of persons, 500" in model.privacy_.statement()) == (adjacency != "add-remove")
    if kind is LinearRegression:
        with pytest.raises(Unproven, match="persons"):
            model.coef_intervals()


def test_a_person_with_many_rows_moves_sums_no_further_than_one_row() -> None:
    """All 40 rows of one person go from one extreme to the other; the first bound is reached."""
    X, y = data(400)
    ids = np.append(np.arange(360), np.zeros(40, dtype=int))
    watches: list[Keep] = []
    for sign in (1.0, -1.0):
        mine = ids == 0
        X[mine] = np.array([1.8, 0.0, 0.0]) if sign > 0 else np.array([0.6, 1.69, 0.0])
        y[mine] = 1e9 * sign
        watch = Keep(watches[0].out if watches else None)
        model = made(LinearRegression, 4.0)
        with watching(watch):
            model.fit(X, y, persons=ids)
        watches.append(watch)
    ratios = []
    for one, two in zip(watches[0].seen, watches[1].seen, strict=True):
        assert one.l2 == two.l2
        ratios.append(float(np.linalg.norm(one.value - two.value)) / one.l2)
    assert max(ratios) <= 1.0
    assert ratios[0] > 0.9


AGAINST_PRIVACY = {
    "check_fit_score_takes_y": "partial_fit after fit would count people twice and is refused",
    "check_all_zero_sample_weights_error": "an error that depends on sensitive weights is a leak",
    "check_sample_weight_equivalence_on_dense_data": "weight 0 is one record, not none",
    "check_sample_weight_equivalence_on_sparse_data": "as for dense data",
    "check_sample_weights_list": "weights above 1 are refused, not rescaled",
    "check_sample_weights_not_overwritten": "weights above 1 are refused, not rescaled",
    "check_sample_weights_invariance": "as for dense data",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learn_contract(kind: Any) -> None:
    """Every check passes but those that contradict privacy."""
    model = kind(norm_bound=1.0, target_bounds=(-300, 300), epsilon=10.0)
    failed: dict[str, Exception] = {}
    ran = set()
    for instance, check in estimator_checks_generator(model, legacy=True):
        name = getattr(check, "func", check).__name__
        ran.add(name)
        try:
            check(clone(instance))
        except SkipTest:
            continue
        except Exception as error:
            failed[name] = error
    assert len(ran) > 40
    assert not failed.keys() - AGAINST_PRIVACY.keys(), failed
