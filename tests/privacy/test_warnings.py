"""PrivacyWarning: once in a process for what no guarantee covers, from public facts alone."""

import gc
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score

from noisette import (
    Ledger,
    LinearRegression,
    LogisticRegression,
    PrivateSearch,
    TableClassifier,
    errors,
)
from noisette.errors import PrivacyWarning
from noisette.models.private import _FITTED

X = np.tile([[0.1, 0.2], [0.3, 0.1], [0.2, 0.4]], (60, 1))
Y = np.tile([0, 1], 90)


def fresh(**options):
    return LogisticRegression(1.0, classes=[0, 1], norm_bound=1.0, **options)


@pytest.fixture(autouse=True)
def _not_said_yet(monkeypatch):
    monkeypatch.setattr(errors, "_SAID", set())


def silent(work):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return work()


def test_clones_without_a_ledger_are_counted():
    model = fresh()
    silent(lambda: clone(model).fit(X, Y))
    with pytest.warns(PrivacyWarning, match="clones of one estimator were fitted twice") as caught:
        clone(model).fit(X, Y)
    assert caught[0].filename == __file__
    silent(lambda: clone(model).fit(X, Y))  # once in a process


@pytest.mark.parametrize(
    "work",
    [
        lambda model: cross_val_score(model, X, Y, cv=2),
        lambda model: GridSearchCV(model, {"regularization": [0.1]}, cv=2).fit(X, Y),
    ],
)
def test_scikit_learns_searches_are_told_once(work):
    with pytest.warns(PrivacyWarning, match="nobody adds up") as caught:
        work(fresh())
    assert len([each for each in caught if each.category is PrivacyWarning]) == 1
    errors._SAID.clear()
    silent(lambda: work(fresh(ledger=Ledger(100.0))))


def test_other_models_and_searches_with_a_proof_are_not_counted():
    silent(lambda: [clone(fresh()).fit(X, Y), clone(fresh()).fit(X, Y), LinearRegression(
        1.0, 1e-3, target_bounds=(-1, 2), norm_bound=1.0).fit(X, Y)])  # fmt: skip
    errors._SAID.clear()
    silent(lambda: PrivateSearch(fresh(), {"regularization": [0.1, 1.0]}, 1.0).fit(X, Y))


def test_a_seed_is_told_once_and_as_an_error_every_time():
    model = fresh(random_state=1)
    for _ in range(2):
        with pytest.raises(PrivacyWarning, match="can subtract the noise"):
            silent(lambda: model.fit(X, Y))
        assert not hasattr(model, "coef_")
    with pytest.warns(PrivacyWarning, match="leave random_state out"):
        model.fit(X, Y)
    silent(lambda: model.fit(X, Y))


def test_an_exact_score_of_the_fitted_rows_is_told():
    model = fresh().fit(X, Y)
    silent(lambda: model.score(X[:90], Y[:90]))  # a part is not known again, nor is a copy
    silent(lambda: model.score(X.copy(), Y))
    with pytest.warns(PrivacyWarning, match="an exact score of the rows that were fitted"):
        found = model.score(X, Y)
    assert found == np.mean(model.predict(X) == Y)
    silent(lambda: model.score(X, Y))
    errors._SAID.clear()
    with pytest.warns(PrivacyWarning, match="an exact score"):
        permutation_importance(model, X, Y, n_repeats=1)


def test_tables_and_numbers_too_and_nothing_is_kept():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": X[:, 0]})
    table = TableClassifier(5.0, 1e-3, schema={"age": "numeric"}, classes=[0, 1]).fit(frame, Y)
    with pytest.warns(PrivacyWarning, match="an exact score"):
        table.score(frame, Y)
    assert not any("fitted" in name.lower() or name == "_kin" for name in vars(table))
    other = pickle.loads(pickle.dumps(table))
    errors._SAID.clear()
    silent(partial(other.score, frame, Y))
    kept = _FITTED[table]
    del frame
    gc.collect()
    assert kept() is None
