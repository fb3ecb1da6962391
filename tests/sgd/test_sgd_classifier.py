"""The estimator: defaults, samplers, levels, ledger, refusals, scikit-learn's own checks."""

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator
from small_table import X, Y, model

from noisette import Guarantee, Ledger
from noisette.core.adjacency import Adjacency
from noisette.core.sampling import Cyclic, Disjoint, PartialShuffle, Shuffle, WithoutReplacement
from noisette.errors import BudgetExceeded, InvalidData, InvalidParameter, Unproven
from noisette.models.sgd import SGDClassifier

N = 4000


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)


def fitted(rows, **options):
    return SGDClassifier(
        **{"norm_bound": 1.0, "random_state": 0, "classes": [0, 1], **options}
    ).fit(*rows)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "huber", "softplus", "softmax"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_loss_learns(rows, loss, delta) -> None:
    model = fitted(rows, loss=loss, delta=delta, epsilon=2.0)
    assert model.score(*rows) > 0.9
    assert model.coef_.shape == (1, 5)
    assert (model.privacy_.epsilon, model.privacy_.delta) == (2.0, delta)
    assert hasattr(model, "predict_proba") == (loss in ("logistic", "softmax"))


def test_the_defaults_are_the_methods_of_the_docs(rows) -> None:
    pure = fitted(rows)
    ((leaf, count),) = pure.privacy_.plan.leaves()
    assert (leaf.sampler.name, leaf.mechanism.name, count) == ("disjoint", "spherical-laplace", 1)
    assert leaf.sampler.batch_size == 148
    recipe = fitted(rows, delta=1e-6)
    ((leaf, count),) = recipe.privacy_.plan.leaves()
    assert (leaf.sampler.name, leaf.mechanism.name) == ("full", "gaussian")
    assert count >= 8
    assert "gradient descent" in recipe.privacy_.statement()


@pytest.mark.parametrize(
    "sampling", ["disjoint", "poisson", "shuffle", "cyclic", "full", PartialShuffle(400, N, 100)]
)
def test_samplers(rows, sampling) -> None:
    epochs = 1 if sampling == "disjoint" else 4
    model = fitted(rows, delta=1e-6, epsilon=2.0, sampling=sampling, epochs=epochs)
    assert model.score(*rows) > 0.85
    restored = Guarantee.from_json(model.privacy_.to_json())
    assert restored == model.privacy_


def test_sorted_rows_are_no_trap(rows) -> None:
    X, y = rows
    order = np.argsort(y)
    assert fitted((X[order], y[order])).score(X, y) > 0.9
    ((leaf, _),) = fitted(rows).privacy_.plan.leaves()
    assert leaf.sampler.permute
    given = fitted(rows, sampling=Disjoint.of_size(N, 100))
    ((leaf, _),) = given.privacy_.plan.leaves()
    assert leaf.sampler == Disjoint(40, 100)
    with pytest.raises(InvalidParameter, match="do not fit"):
        fitted(rows, sampling=Disjoint(3, 100))


def test_released_last(rows) -> None:
    model = fitted(rows, delta=1e-6, released="last", epochs=3)
    assert "only the last iterate" in model.privacy_.statement()
    with pytest.raises(Unproven, match="smooth loss"):
        fitted(rows, delta=1e-6, released="last", loss="hinge")
    with pytest.raises(Unproven, match="a mean reveals earlier"):
        fitted(rows, delta=1e-6, released=("last", "mean"))


def test_many_classes_sparse_and_float32(rows) -> None:
    X, _ = rows
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3], axis=1)]
    for form in (X, X.astype(np.float32), sparse.csr_matrix(X)):
        for delta in (0.0, 1e-6):
            model = SGDClassifier(
                4.0, delta, classes=["a", "b", "c"], random_state=1, norm_bound=1.0
            ).fit(form, y)
            assert model.coef_.shape == (3, 5)
            assert model.score(form, y) > 0.75
            np.testing.assert_allclose(model.predict_proba(form).sum(axis=1), 1.0)
    with pytest.raises(InvalidParameter, match="two classes"):
        SGDClassifier(loss="hinge", classes=["a", "b", "c"], norm_bound=1.0).fit(X, y)


def test_storage_does_not_change_the_model(rows) -> None:
    X, y = rows
    dense = fitted(rows)
    other = fitted((sparse.csr_matrix(X), y))
    np.testing.assert_allclose(dense.coef_, other.coef_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sampling", ["auto", "levels"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_sample_epsilon(rows, sampling, delta) -> None:
    X, y = rows
    levels = np.where(np.arange(N) % 4 == 0, 0.5, 2.0)
    model = SGDClassifier(2.0, delta, sampling=sampling, random_state=0, norm_bound=1.0)
    model.fit(X, y, sample_epsilon=levels)
    assert model.score(X, y) > 0.85
    assert "0.5, 2" in model.privacy_.statement()
    assert "public by declaration" in model.privacy_.statement()
    with pytest.raises(InvalidData, match="epsilon=2"):
        model.fit(X, y, sample_epsilon=2.0 * levels)
    with pytest.raises(InvalidData, match="above 0"):
        model.fit(X, y, sample_epsilon=0.0 * levels)


def test_the_ledger_is_charged_once_per_fit(rows) -> None:
    ledger = Ledger(2.5, 1e-5)
    model = SGDClassifier(1.0, ledger=ledger, norm_bound=1.0).fit(*rows)
    clone(model).fit(*rows)
    assert ledger.spent == (2.0, 0.0)
    with pytest.raises(BudgetExceeded):
        model.fit(*rows)
    assert len(ledger.charges) == 2


def test_add_remove(rows) -> None:
    with pytest.raises(InvalidParameter, match="population"):
        fitted(rows, adjacency="add-remove", delta=1e-6)
    with pytest.raises(Unproven, match="add-remove"):
        fitted(rows, adjacency="add-remove", population=N)
    model = fitted(rows, adjacency="add-remove", delta=1e-6, population=5000)
    assert "5000" in model.privacy_.statement()
    assert str(N) not in model.privacy_.to_json()
    poisson = fitted(
        rows, adjacency="add-remove", delta=1e-6, population=5000, sampling="poisson", epochs=2
    )
    assert str(N) not in poisson.privacy_.to_json()


def test_attributes_hold_nothing_but_the_release_and_public_facts(rows) -> None:
    model = fitted(rows)
    public = set(model.get_params()) | {"coef_", "intercept_", "classes_", "privacy_"}
    extra = set(vars(model)) - public - {"n_features_in_", "_stream"}
    assert not extra
    assert model._stream is None


def test_rows_beyond_the_bound_are_clipped_not_trusted(rows) -> None:
    X, y = rows
    huge = X * 1e6
    np.testing.assert_allclose(fitted((huge, y)).coef_, fitted((X, y)).coef_, rtol=1e-4, atol=1e-5)
    extreme = X.copy()
    extreme[0] = 1e300
    assert np.isfinite(fitted((extreme, y)).coef_).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "log"}, "loss must be one of"),
        ({"sampling": "uniform"}, "sampling must be one of"),
        ({"noise": "gaussian"}, "needs delta > 0"),
        ({"epochs": 2, "sampling": "disjoint"}, "single pass"),
        ({"learning_rate": "inverse", "regularization": 0.0}, "needs regularization"),
        ({"norm_bound": None}, "norm_bound has no default"),
        ({"regularization": (1e-4, -1.0)}, "radius"),
        ({"batch_size": 0}, "batch_size"),
        ({"released": ("all", "yes")}, "second part of released must be one of"),
        ({"released": "some"}, "released"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_refusals_are_one_sentence_and_charge_nothing(rows, options, words) -> None:
    ledger = Ledger(5.0)
    with pytest.raises((InvalidParameter, Unproven), match=words) as caught:
        fitted(rows, ledger=ledger, **options)
    assert str(caught.value).endswith(".")
    assert not ledger.charges


def test_a_failed_fit_leaves_the_model_as_it_was(rows) -> None:
    model = fitted(rows)
    before = model.coef_
    with pytest.raises(InvalidData):
        model.fit(np.full((5, 5), np.nan), [0, 1, 0, 1, 0])
    assert model.coef_ is before


def test_a_wish_about_steps_is_never_ignored(rows) -> None:
    """The schedule of gradient descent is its own, so wishes about steps were passed over."""
    auto = SGDClassifier(delta=1e-6, norm_bound=1.0)
    assert auto.plan(*rows[0].shape).algorithm == "gradient-descent"
    for wish in ({"learning_rate": 0.5}, {"released": ("all", "last")}):
        model = SGDClassifier(delta=1e-6, norm_bound=1.0, random_state=0, **wish)
        assert model.plan(*rows[0].shape).algorithm == "noisy-sgd"


def test_pickle(rows) -> None:
    model = SGDClassifier(ledger=Ledger(1.0), norm_bound=1.0).fit(*rows)
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict(rows[0]), model.predict(rows[0]))
    with pytest.raises(InvalidParameter, match="ledger"):
        back.fit(*rows)


def test_progress_shows_steps_and_time_only(rows, capsys) -> None:
    SGDClassifier(delta=1e-6, norm_bound=1.0).fit(*rows, verbose=1)
    shown = capsys.readouterr().err
    assert "step" in shown
    assert all(word not in shown for word in ("loss", "norm", "accuracy"))
    fitted(rows)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("epsilon", "delta"), [(1e4, 0.0), (100.0, 1e-5)])
def test_sklearn_checks(epsilon, delta) -> None:
    """scikit-learn's own list, with much epsilon so that its accuracy checks can pass."""
    model = SGDClassifier(epsilon=epsilon, delta=delta, norm_bound=10.0, random_state=0)
    cap = "weights lie in [0, 1]; larger ones are refused, not rescaled"
    expected = {
        "check_fit_score_takes_y": "partial_fit after fit is refused: no open stream",
        "check_sample_weights_list": cap,
        "check_sample_weights_not_overwritten": cap,
        "check_all_zero_sample_weights_error": "an error that depends on weights is a leak",
        "check_sample_weight_equivalence_on_dense_data": "weight 0 or 2 is one record: n is public",
        "check_sample_weight_equivalence_on_sparse_data": "as for dense data",
        "check_class_weight_classifiers": "the intercept is regularised, not free",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        check_estimator(model, expected_failed_checks=expected, on_skip=None)


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
        ({"sampling": "levels"}, 1e-290),
        ({"sampling": "levels", "epochs": 2}, 0.5),
        ({"epsilon": 1e-300}, None),
    ],
)
def test_a_fit_that_cannot_run_charges_nothing(options, levels) -> None:
    ledger = Ledger(1.0, 1e-6)
    given = None if levels is None else np.full(len(X), levels)
    with pytest.raises(InvalidParameter):
        model(ledger=ledger, **options).fit(X, Y, sample_epsilon=given)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("name", ["clip_norm", "learning_rate", "regularization"])
def test_any_real_number_is_a_parameter(name) -> None:
    """A fraction was charged, and then refused by the kernel's compiler."""
    half = model(**{name: Fraction(1, 2)}).fit(X, Y)
    np.testing.assert_array_equal(half.coef_, model(**{name: 0.5}).fit(X, Y).coef_)


def test_the_stated_facts_are_those_that_ran() -> None:
    online = SGDClassifier(1.0, batch_size=10, norm_bound=1.0).partial_fit(
        X[:100], Y[:100], classes=[0, 1]
    )
    online.set_params(norm_bound=1e-3)
    online.partial_fit(X[100:], Y[100:])
    stated = " ".join(online.privacy_.public)
    assert "norm bound 1 of" in stated
    assert "(0, 1), as given" in stated
    guessed = model(1.0, 1e-6, population=1000).fit(X, Y)
    assert f"the number of records, {len(X)}" in guessed.privacy_.public
    hidden = model(1.0, 1e-6, population=1000, adjacency="add-remove").fit(X, Y)
    assert str(len(X)) not in " ".join(hidden.privacy_.public)


def test_levels_are_not_listed_where_the_people_are_private() -> None:
    levels = np.append(np.full(len(X) - 1, 0.5), 0.123)
    for adjacency in Adjacency:
        stated = model(1.0, 1e-6, population=len(X), adjacency=adjacency.value)
        text = stated.fit(X, Y, sample_epsilon=levels).privacy_.statement()
        assert ("0.123" in text) == adjacency.size_is_public
