"""Attacks on private SGD: each test failed before the hole it names was closed."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import sklearn
from iterative import facts, gradient_descent, noisy_sgd, single_pass
from scipy import sparse

from noisette import Ledger
from noisette.adjacency import Adjacency
from noisette.errors import InvalidData, InvalidParameter
from noisette.linear import LinearSVC, LogisticRegression
from noisette.linear.sgd import SGDClassifier
from noisette.losses import Hinge, HuberHinge, Logistic, Softmax, SoftplusHinge
from noisette.randomness import Randomness
from noisette.sampling import Cyclic, PartialShuffle, Poisson, Shuffle, WithoutReplacement
from noisette.training import Records, StreamedPass
from noisette.training.gradient_descent import _gradient_of, _sensitivity
from noisette.training.levels import Levels
from noisette.training.steps import Update, canonical_rows
from noisette.training.streaming import Stream
from noisette.training.train import begin

N, D = 200, 3
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, D))
Y = (X[:, 0] > 0).astype(int)
SIGNS = np.where(Y == 1, 1.0, -1.0)
SEEDED = Randomness.from_seed(1)


def model(epsilon=1.0, delta=0.0, **options):
    return SGDClassifier(epsilon, delta, **{"classes": [0, 1], "random_state": 0, **options})


# --- one record's gradient -------------------------------------------------------------------


@pytest.mark.parametrize(
    "bound", [{"norm_bound": 1e-170}, {"norm_bound": None, "clip_norm": 1e-170}]
)
def test_a_bound_whose_square_vanishes_is_refused(bound) -> None:
    """Rows of length 1e-163 had the computed length 0 and moved the weights by 1e7 noise scales."""
    ledger = Ledger(1.0)
    tiny = model(ledger=ledger, fit_intercept=False, batch_size=10, eta0=1.0, radius=1e300, **bound)
    with pytest.raises(InvalidParameter, match="between 1e-30 and"):
        tiny.fit(np.full((N, D), 1e-163), Y)
    assert ledger.spent == (0.0, 0.0)


def test_no_row_whatever_its_size_moves_the_sum_by_more_than_the_bound() -> None:
    """2 x 600 random settings: loss, bounds from 1e-20 to 1e20, rows from 1e-320 to 1e308."""
    rng = np.random.default_rng(1)
    losses = [Logistic(), Hinge(), HuberHinge(), SoftplusHinge(), Softmax(3)]
    for _ in range(600):
        loss, d = losses[rng.integers(5)], int(rng.integers(1, 6))
        bound = [None, 1.0, 0.3, 1e-20, 1e20][rng.integers(5)]
        clip = [None, 0.5, 2.0, 1e-15, 1e15][rng.integers(5)]
        clip = 1.0 if bound is None and clip is None else clip
        update = Update(loss, bound, [None, 0.35, 100.0][rng.integers(3)], clip)
        row = rng.standard_normal((1, d))
        row *= 10.0 ** rng.uniform(-320.0, 307.9) / np.abs(row).max()
        w = rng.standard_normal(update.dimension(d)) * 10.0 ** rng.uniform(-5.0, 40.0)
        y = np.array([rng.integers(3)]) if loss.kind == "multiclass" else rng.choice([-1.0, 1.0], 1)
        for rows in (row, sparse.csr_matrix(row)):
            g = _gradient_of(canonical_rows(rows), y, update, None)(w)
            assert np.linalg.norm(g / update.contribution) <= 1.0 + 1e-13


@pytest.mark.parametrize("clip", [None, 0.7])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_two_logistic_gradients_are_no_further_apart_than_the_sensitivity(adjacency, clip) -> None:
    rng = np.random.default_rng(2)
    update = Update(Logistic(), 1.0, 0.35, clip)
    closest = 0.0
    for _ in range(300):
        w = rng.standard_normal(4) * 10.0 ** rng.uniform(-2.0, 1.5)
        # rows along w are the worst, and those at the angle of the theorem's x*
        rows = rng.standard_normal((40, 3)) + np.outer(rng.uniform(-9.0, 9.0, 40), w[:3])
        y = rng.choice([-1.0, 1.0], 40)
        g = np.array(
            [_gradient_of(rows[i : i + 1], y[i : i + 1], update, None)(w) for i in range(40)]
        )
        if adjacency is Adjacency.REPLACE_ONE:
            moved = np.linalg.norm(g[:, None] - g[None], axis=2).max()
        else:
            moved = np.linalg.norm(g, axis=1).max()
        bound, _ = _sensitivity(update, w, adjacency)
        assert moved <= bound * (1.0 + 1e-12)
        closest = max(closest, moved / bound)
    assert closest > 0.9


@pytest.mark.parametrize("labels", [2.0 * SIGNS, Y.astype(float), np.full(N, math.nan), SIGNS[:-1]])
@pytest.mark.parametrize("run", ["single", "noisy", "descent"])
def test_labels_that_scale_a_gradient_are_refused_before_the_charge(run, labels) -> None:
    """A margin loss multiplies by the label: with labels of 2 everybody counted double."""
    ledger, update = Ledger(1.0, 1e-6), Update(Logistic())
    shared = {"ledger": ledger, "epsilon": 1.0, "delta": 1e-6}
    runs = {
        "single": lambda: single_pass(
            X, labels, update, SEEDED, batch_size=10, noise="gaussian", **shared
        ),
        "noisy": lambda: noisy_sgd(
            X, labels, update, SEEDED, sampler=Poisson(0.1), uses=2, **shared
        ),
        "descent": lambda: gradient_descent(X, labels, update, SEEDED, **shared),
    }
    with pytest.raises((InvalidData, InvalidParameter)):
        runs[run]()
    assert ledger.spent == (0.0, 0.0)


def test_a_stream_refuses_such_labels_before_it_draws() -> None:
    algorithm, ledger = StreamedPass(Update(Logistic()), 10), Ledger(1.0)
    prepared = algorithm.prepare(facts(algorithm.update, D, ledger, 1.0, 0.0, N))
    passage = begin(prepared, ledger=ledger, randomness=SEEDED, label="a stream")
    stream = Stream(algorithm, prepared, passage)
    with pytest.raises(InvalidParameter):
        stream.feed(Records(X, [2.0 * SIGNS]))
    assert stream.permit.drawn() == 0


@pytest.mark.parametrize("values", [np.full(N, -5.0), np.full(N, math.nan), np.ones(N - 1)])
def test_levels_that_enlarge_a_gradient_are_refused(values) -> None:
    """A level of -5 was a share of -5 in the sum."""
    ledger = Ledger(1.0)
    with pytest.raises(InvalidData, match=r"^(levels|sample_epsilon) must"):
        single_pass(
            X, SIGNS, Update(Logistic()), SEEDED, ledger=ledger, epsilon=1.0, batch_size=10,
            levels=Levels(values),
        )  # fmt: skip
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber", "softplus", "softmax"])
def test_scores_that_overflow_do_not_carry_nan_through_the_noise(loss) -> None:
    classes = [0, 1, 2] if loss == "softmax" else [0, 1]
    rows = np.array([[1.0, -1.0], [1.0, 1.0]] * 50) * 1e90
    wild = model(
        loss=loss, classes=classes, norm_bound=None, clip_norm=1.0, batch_size=10, eta0=1e300,
        learning_rate="constant", regularization=0.0, averaging=False,
    )  # fmt: skip
    assert np.isfinite(wild.fit(rows, np.arange(100) % 2).coef_).all()


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_warning_tells_that_somebody_has_a_huge_row(store, loss, delta) -> None:
    rows = X.copy()
    rows[3] = [1.7e308, -1.7e308, 1.7e308]
    classes = [0, 1, 2] if loss == "softmax" else [0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = model(1.0, delta, loss=loss, classes=classes).fit(store(rows), Y)
    assert np.isfinite(fitted.coef_).all()


# --- nothing is charged for what cannot run --------------------------------------------------


@pytest.mark.parametrize(
    ("options", "levels"),
    [
        ({"delta": 1e-6, "noise": "spherical-laplace", "sampling": "disjoint"}, 0.5),
        ({"delta": 1e-6, "sampling": WithoutReplacement(10, 1000)}, None),
        ({"delta": 1e-6, "sampling": PartialShuffle(10, 1000)}, None),
        ({"delta": 1e-6, "sampling": Cyclic(10, 5)}, None),
        ({"delta": 1e-6, "sampling": Shuffle(1000)}, None),
        ({"delta": 1e-6, "sampling": Cyclic(10, 5), "released": "last"}, None),
        ({"delta": 1e-6, "norm_bound": 1e39}, None),
        ({"grouping": "batches"}, 1e-290),
        ({"epsilon": 1e-300}, None),
    ],
)
def test_a_fit_that_cannot_run_charges_nothing(options, levels) -> None:
    ledger = Ledger(1.0, 1e-6)
    given = None if levels is None else np.full(N, levels)
    with pytest.raises(InvalidParameter):
        model(ledger=ledger, **options).fit(X, Y, sample_epsilon=given)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("name", ["clip_norm", "eta0", "regularization"])
def test_any_real_number_is_a_parameter(name) -> None:
    """A fraction was charged, and then refused by the kernel's compiler."""
    half = model(**{name: Fraction(1, 2)}).fit(X, Y)
    np.testing.assert_array_equal(half.coef_, model(**{name: 0.5}).fit(X, Y).coef_)


# --- streams ---------------------------------------------------------------------------------


def test_an_epoch_loop_inside_a_stream_is_refused() -> None:
    """Five passes over the same people were charged as one."""
    chunk = (X, Y)
    with pytest.raises(InvalidData, match="handed in before"):
        model(batch_size=10).fit(iter([chunk] * 5))
    with pytest.raises(InvalidData, match="handed in before"):
        model(batch_size=10).fit(iter([(X[:150], Y[:150]), (X[100:], Y[100:])]))
    model(batch_size=10).fit(iter([(X[:150], Y[:150]), (X[150:], Y[150:])]))


def test_the_same_list_or_the_same_memory_twice_is_refused() -> None:
    rows = X.astype(object)[:]
    online = model(batch_size=10).partial_fit(rows[:100], Y[:100])
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(rows[50:], Y[50:])
    rows = X.tolist()
    online = model(batch_size=10).partial_fit(rows, Y)
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(rows, Y)
    buffer = X.tobytes()
    first = np.frombuffer(buffer).reshape(N, D)
    online = model(batch_size=10).partial_fit(first, Y)
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(np.frombuffer(buffer).reshape(N, D), Y)


def test_slices_of_one_data_frame_are_known_again() -> None:
    """An epoch loop over slices of a frame: every slice is a new object over the old memory."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    online = model(batch_size=10)
    for start in (0, 100):
        online.partial_fit(frame.iloc[start : start + 100], Y[start : start + 100])
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(frame.iloc[:100], Y[:100])
    parts = [(frame.iloc[:100], Y[:100]), (frame.iloc[100:], Y[100:])]
    model(batch_size=10).fit(iter(parts))
    with pytest.raises(InvalidData, match="handed in before"):
        model(batch_size=10).fit(iter([*parts, (frame.iloc[:50], Y[:50])]))
    columns = np.asfortranarray(X)  # rows lie between each other in memory
    online = model(batch_size=10).partial_fit(columns[:100], Y[:100])
    online.partial_fit(columns[100:], Y[100:])
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(columns[99:101], Y[99:101])
    csr = sparse.csr_matrix(X)
    online = model(batch_size=10).partial_fit(csr, Y)
    with pytest.raises(InvalidData, match="handed in before"):
        online.partial_fit(sparse.csr_matrix(csr), Y)


def test_the_same_file_twice_is_refused_before_the_charge(tmp_path, monkeypatch) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": X[:, 0], "label": Y})
    parquet.write_table(table, tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(1.0)
    with pytest.raises(InvalidData, match="file twice"):
        model(ledger=ledger).fit(["a.parquet", tmp_path / "a.parquet"])
    assert ledger.spent == (0.0, 0.0)
    with pytest.raises(InvalidData, match="file twice"):
        model().fit(iter(["a.parquet", str(tmp_path / "a.parquet")]))
    with pytest.raises(InvalidData, match="handed in before"):
        model().fit(iter([table, table]))


@pytest.mark.parametrize("cell", ["Smith", "1,5"])
def test_an_arrow_column_of_words_is_refused_without_a_cell(cell) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"age": [cell, "2"], "label": [0, 1]})
    with pytest.raises(InvalidData, match="column 'age'") as caught:
        model().fit(iter([table]), "label")
    assert caught.value.__context__ is None
    assert cell not in str(caught.value)


# --- what the guarantee states ---------------------------------------------------------------


def test_the_stated_facts_are_those_that_ran() -> None:
    online = SGDClassifier(1.0, batch_size=10).partial_fit(X[:100], Y[:100], classes=[0, 1])
    online.set_params(norm_bound=1e-3)
    online.partial_fit(X[100:], Y[100:])
    stated = " ".join(online.privacy_.public)
    assert "norm bound 1 of" in stated
    assert "(0, 1), as given" in stated
    guessed = model(1.0, 1e-6, population=1000).fit(X, Y)
    assert f"the number of records, {N}" in guessed.privacy_.public
    hidden = model(1.0, 1e-6, population=1000, adjacency="add-remove").fit(X, Y)
    assert str(N) not in " ".join(hidden.privacy_.public)


def test_levels_are_not_listed_where_the_people_are_private() -> None:
    levels = np.append(np.full(N - 1, 0.5), 0.123)
    for adjacency in Adjacency:
        stated = model(1.0, 1e-6, population=N, adjacency=adjacency.value)
        text = stated.fit(X, Y, sample_epsilon=levels).privacy_.statement()
        assert ("0.123" in text) == adjacency.size_is_public


def test_an_empty_chunk_does_not_end_a_paid_stream() -> None:
    full = [(X[:80], Y[:80]), (X[80:], Y[80:])]
    gaps = [(X[:0], Y[:0]), full[0], (X[80:80], Y[80:80]), full[1]]
    one, two = (model(batch_size=10, population=N).fit(iter(parts)) for parts in (full, gaps))
    np.testing.assert_array_equal(one.coef_, two.coef_)


# --- global switches -------------------------------------------------------------------------


@pytest.mark.parametrize("store", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_trusting_scikit_learn_does_not_let_nan_through_the_noise(store, bad) -> None:
    """With assume_finite the released weight of that column was NaN: no noise hides that."""
    rows, ledger = X.copy(), Ledger(1.0, 1e-6)
    rows[7, 1] = bad
    with sklearn.config_context(assume_finite=True):
        for made in (model(ledger=ledger), LogisticRegression(ledger=ledger, classes=[0, 1])):
            with pytest.raises(InvalidData, match="contains NaN or infinity"):
                made.fit(store(rows), Y)
        online = model().partial_fit(store(X), Y)
        with pytest.raises(InvalidData, match="contains NaN or infinity"):
            online.partial_fit(store(rows), Y)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("store", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(2)])
def test_a_row_that_is_not_finite_is_a_blank_row(store, loss) -> None:
    """Whoever calls the training functions: 0 times NaN is NaN, so blank rows are not added."""
    update = Update(loss, bias=0.35)
    blank = X.copy()
    blank[[3, 7]] = 0.0
    rows = blank.copy()
    rows[3], rows[7, 1] = math.inf, math.nan
    y = SIGNS if loss.kind == "margin" else Y
    w = np.random.default_rng(0).standard_normal(update.dimension(D))
    one, two = (_gradient_of(store(part), y, update, None)(w) for part in (rows, blank))
    np.testing.assert_allclose(one, two, rtol=1e-12)
    shared = {"epsilon": 1.0, "batch_size": 10}
    released = [
        single_pass(store(part), y, update, Randomness.from_seed(0), ledger=Ledger(1.0), **shared)
        for part in (rows, blank)
    ]
    np.testing.assert_allclose(released[0].weights[0], released[1].weights[0], rtol=1e-9)


@pytest.mark.parametrize("store", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_floating_point_error_tells_of_a_row(store, delta) -> None:
    """Under np.seterr(all="raise") one short row ended the fit, with or without a charge."""
    rows = X.copy()
    rows[7], rows[8] = 1e-200, [900.0, 0.0, 0.0]
    made = [model(1.0, delta), LogisticRegression(1.0, delta, classes=[0, 1])]
    made += [LinearSVC(1.0, delta, loss="hinge", classes=[0, 1])]
    if delta:
        made += [LogisticRegression(1.0, delta, whiten=0.2, classes=[0, 1])]
    with np.errstate(all="raise"):
        for each in made:
            each.fit(store(rows), Y)
        model().partial_fit(store(rows), Y)
