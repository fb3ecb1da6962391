"""Attacks on the one-shot models: each test failed before the hole it names was closed."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from noisette import Ledger
from noisette.clipping import clip_rows, row_norms
from noisette.errors import InvalidData, InvalidParameter
from noisette.linear import LinearSVC, LogisticRegression, SGDClassifier, one_shot

N = 60
RNG = np.random.default_rng(6)
X = RNG.standard_normal((N, 3))
Y = np.arange(N) % 2


# --- norms in floating point -----------------------------------------------------------------


def test_norms_of_sparse_rows_do_not_underflow_in_single_precision() -> None:
    rows = np.full((1, 5), 1e-23, dtype=np.float32)
    np.testing.assert_allclose(row_norms(sparse.csr_matrix(rows)), row_norms(rows), rtol=1e-12)
    clipped = clip_rows(sparse.csr_matrix(rows), 1e-25)
    assert np.linalg.norm(clipped.toarray().astype(float)) <= 1e-25


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_rows_keep_their_direction_and_the_bound(dtype) -> None:
    """In 2^25 columns the rounding allowance was above 1 for float32: rows changed their sign."""
    entries = (np.ones(3, dtype=dtype), np.array([0, 5, 7]), np.array([0, 3]))
    clipped = clip_rows(sparse.csr_matrix(entries, shape=(1, 2**25)), 1.0).data
    assert np.all(clipped > 0.57)
    assert np.linalg.norm(clipped.astype(float)) <= 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clipped_rows_obey_the_bound_in_float64(dtype) -> None:
    rng = np.random.default_rng(0)
    for bound in (1e-30, 1e-3, 1.0, 1e7, 1e15):
        rows = (rng.standard_normal((200, 50)) * bound).astype(dtype)
        for stored in (rows, sparse.csr_matrix(rows)):
            clipped = clip_rows(stored, bound)
            dense = clipped.toarray() if sparse.issparse(clipped) else clipped
            assert np.linalg.norm(dense.astype(float), axis=1).max() <= bound


@pytest.mark.parametrize("store", [np.array, sparse.csr_matrix])
def test_a_factor_below_the_normal_numbers_is_rounded_down(store) -> None:
    rng = np.random.default_rng(1)
    rows = (10.0 ** rng.uniform(30.0, 38.0, (500, 2))).astype(np.float32)
    clipped = clip_rows(store(rows), 1e-6)
    dense = clipped.toarray() if sparse.issparse(clipped) else clipped
    assert np.linalg.norm(dense.astype(float), axis=1).max() <= 1e-6


def test_entries_stored_in_halves_are_added_before_they_are_clipped() -> None:
    halves = sparse.csr_matrix((np.ones(4), np.zeros(4, dtype=int), np.array([0, 4])), shape=(1, 3))
    assert np.linalg.norm(clip_rows(halves, 1.0).toarray()) <= 1.0


# --- nothing is charged for what cannot run --------------------------------------------------


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (LogisticRegression, {"mechanism": "output", "regularization": 1e-300}),
        (LogisticRegression, {"mechanism": "output", "regularization": 1e300}),
        (LogisticRegression, {"regularization": 1e300}),
        (LinearSVC, {"regularization": 1e300}),
        (LogisticRegression, {"norm_bound": 1e-170}),
        (LogisticRegression, {"norm_bound": 1e39}),
        (LogisticRegression, {"mechanism": "output", "norm_bound": 1e-170}),
    ],
)
def test_a_fit_that_cannot_run_charges_nothing(make, options) -> None:
    ledger = Ledger(1.0)
    with pytest.raises(InvalidParameter):
        make(classes=[0, 1], ledger=ledger, **options).fit(X, Y)
    assert ledger.spent == (0.0, 0.0)


# --- per-person epsilon under add-remove -----------------------------------------------------


@pytest.fixture
def solved(monkeypatch) -> list[tuple[Any, ...]]:
    """What the solver is given: rows, targets and weights of each fit."""
    found: list[tuple[Any, ...]] = []
    inner = one_shot.train

    def spy(algorithm, public, records, **named):
        assert algorithm.name == "output"
        rows = records.rows
        dense = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
        found.append((dense, records.targets[0], records.weights))
        return inner(algorithm, public, records, **named)

    monkeypatch.setattr(one_shot, "train", spy)
    return found


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_matrix])
def test_who_has_no_weight_is_not_even_counted(solved, store) -> None:
    """A level below the solver's error buys weight 0; a blank row still moved its path by n + 1."""
    levels = np.full(N, 0.5)
    levels[7] = 1e-9
    others = np.delete(np.arange(N), 7)
    options = {"adjacency": "add-remove", "population": N, "classes": [0, 1], "random_state": 0}
    there = LogisticRegression(1.0, **options).fit(store(X), Y, sample_epsilon=levels)
    rest = store(X)[others]
    away = LogisticRegression(1.0, **options).fit(rest, Y[others], sample_epsilon=levels[others])
    for one, two in zip(*solved, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(there.coef_, away.coef_)


@pytest.mark.parametrize("loss", ["softplus", "hinge"])
def test_if_nobody_has_weight_the_solution_is_zero(loss) -> None:
    """The noise alone is 1e-4 here, and half of these weights would be 1e-1."""
    made = LinearSVC(1e12, loss=loss, mechanism="output", classes=[0, 1], random_state=0)
    fitted = made.fit(X, Y, sample_epsilon=np.full(N, 1e-9))
    assert np.abs(fitted.coef_).max() < 1e-3


def test_levels_are_not_listed_where_the_people_are_private() -> None:
    levels = np.append(np.full(N - 1, 0.5), 0.123)
    for adjacency, listed in (("replace-one", True), ("add-remove", False)):
        model = LogisticRegression(1.0, adjacency=adjacency, population=N, classes=[0, 1])
        text = model.fit(X, Y, sample_epsilon=levels).privacy_.statement()
        assert ("0.123" in text) == listed


# --- messages --------------------------------------------------------------------------------


def test_no_message_tells_how_many_records_there_are() -> None:
    model = LogisticRegression(1.0, adjacency="add-remove", population=100, classes=[0, 1])
    with pytest.raises(InvalidData, match="inconsistent numbers") as caught:
        model.fit(X, Y[:-1])
    assert not any(character.isdigit() for character in str(caught.value))


# --- what is published beside the weights ----------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(1.0, classes=[0, 1, 2]),
        LogisticRegression(1.0, 1e-6, classes=[0, 1, 2], multi_class="ovr", mechanism="output"),
        LogisticRegression(1.0, 1e-6, classes=[0, 1, 2], whiten="auto"),
        LogisticRegression(1.0, 1e-6, classes=[0, 1, 2], whiten=0.3),
        LinearSVC(1.0, classes=[0, 1, 2], loss="hinge"),
        SGDClassifier(1.0, 1e-6, classes=[0, 1, 2]),
        SGDClassifier(1.0, 1e-6, classes=[0, 1, 2], sampling="poisson", batch_size=10),
        SGDClassifier(1.0, 1e-6, classes=[0, 1, 2], sampling="random-allocation", batch_size=20),
        SGDClassifier(1.0, classes=[0, 1, 2], sampling="full", epochs=2),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.delta}",
)
@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out", "add-remove"])
def test_neighbours_publish_the_same_facts(model, adjacency) -> None:
    """One person less, or another one: guarantee, plan, notes and the list of attributes agree."""
    model.set_params(adjacency=adjacency, population=50, random_state=0)
    other = X.copy()
    other[0] = [1e12, 0.0, -1e12]
    labels = np.arange(N) % 2  # nobody of class 2, and then the only one
    changed = np.append(labels[:-1], 2)
    worlds = [(X, labels), (other, changed)]
    if adjacency == "add-remove":
        worlds += [(X[:-1], labels[:-1])]
    found = []
    for rows, y in worlds:
        fitted = model.fit(rows, y)
        attributes = dict(fitted.__dict__)
        released = {name: np.shape(attributes.pop(name)) for name in ("coef_", "intercept_")}
        facts = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
        found.append((released, facts, fitted.privacy_.to_json()))
    assert all(world == found[0] for world in found)
