"""Scores of rows that may be counted, against scikit-learn; and what is said about them."""

from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from noisette.errors import InvalidData, InvalidParameter
from noisette.scores import BinaryScores, MulticlassScores, RegressionScores, measure
from noisette.scores.layouts import EDGES, layout_for


class Says:
    """A model that returns what it is given as X."""

    def __init__(self, classes: Any = None, method: str = "predict_proba") -> None:
        if classes is not None:
            self.classes_ = np.array(classes)
        setattr(self, method, lambda X: np.asarray(X))


def table(n: int = 500, seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    p = generator.random(n).round(2)  # with ties
    return p, (generator.random(n) < p).astype(int)


def test_binary_scores_are_those_of_scikit_learn() -> None:
    p, y = table()
    found = measure(Says([0, 1]), np.column_stack([1 - p, p]), y)
    assert isinstance(found, BinaryScores)
    said = (p > 0.3).astype(int)
    at = found.confusion(0.3)
    assert found.auc.value == pytest.approx(metrics.roc_auc_score(y, p))
    assert at.accuracy.value == pytest.approx(metrics.accuracy_score(y, said))
    assert at.precision.value == pytest.approx(metrics.precision_score(y, said))
    assert at.recall.value == pytest.approx(metrics.recall_score(y, said))
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    assert found.log_loss.value == pytest.approx(metrics.log_loss(y, inside))
    assert np.array_equal(at.table, metrics.confusion_matrix(y, said))
    assert found.majority[1].value == pytest.approx(max(y.mean(), 1 - y.mean()))
    assert (found.auc.noise, found.auc.trusted) == (0.0, True)
    for row in found.calibration:
        inside = (p > row.low) & (p <= row.high + 1e-12) | ((p == 0.0) & (row.low == 0.0))
        assert row.count == inside.sum()
        assert row.predicted == pytest.approx(p[inside].mean())
        assert row.observed.value == pytest.approx(y[inside].mean())
    curve = found.roc
    assert np.trapezoid(curve.true_positive[::-1], curve.false_positive[::-1]) == pytest.approx(
        found.auc.value
    )


def test_weights_count_rows() -> None:
    p, y = table()
    w = np.random.default_rng(1).random(len(p))
    found = BinaryScores.of([0, 1], p, y, weights=w)
    assert found.auc.value == pytest.approx(metrics.roc_auc_score(y, p, sample_weight=w))


def test_a_model_that_answers_no_to_everybody_is_told_so() -> None:
    y = (np.arange(1000) < 60).astype(int)
    p = np.full(1000, 0.06) + y * 0.01
    found = BinaryScores.of(["no", "yes"], p, y)
    assert found.accuracy.value == 0.94
    assert found.verdict() == (
        "The model answers 'no' to everybody: it is no better than the majority; but it tells "
        "people apart (AUC 1.000): rank them by probability, or choose another threshold or class "
        "weights."
    )
    useless = BinaryScores.of(["no", "yes"], np.full(1000, 0.06), y)
    assert useless.verdict() == (
        "The model answers 'no' to everybody: it is no better than the majority; class weights "
        "or another threshold may help."
    )
    assert found.verdict() in str(found)
    assert found.verdict(0.065) == ""  # a threshold at which it is of use
    shuffled = BinaryScores.of(["no", "yes"], np.arange(1000) % 2 * 0.8, y)
    assert shuffled.verdict().startswith(
        "The model is no better than the answer 'no' to everybody; class weights"
    )


def test_noise_on_the_counts_does_not_hide_that_everybody_gets_the_same_answer() -> None:
    """A few noisy answers "yes" are no answers, and do not make the model "perhaps better"."""
    highs = np.array([0.1, 0.2, 0.6, 1.0])
    counts = np.array([[6000.0, 800.0, -4.0, 1.0], [200.0, 300.0, 3.0, 2.0]])
    found = BinaryScores(["no", "yes"], highs, highs, counts, deviation=4.0, binned=True)
    assert found.accuracy.value > found.majority[1].value  # by the noise alone
    told = found.verdict()
    assert told.startswith("The model answers 'no' to everybody, as far as the noisy counts can")
    assert "but it tells people apart (AUC 0." in told


def test_several_classes() -> None:
    generator = np.random.default_rng(2)
    p = generator.dirichlet([1, 1, 1], size=400)
    y = np.array([generator.choice(3, p=row) for row in p])
    found = measure(Says(["a", "b", "c"]), p, np.array(["a", "b", "c"])[y])
    assert isinstance(found, MulticlassScores)
    said = p.argmax(axis=1)
    assert found.accuracy.value == pytest.approx(metrics.accuracy_score(y, said))
    assert np.array_equal(found.confusion(), metrics.confusion_matrix(y, said))
    recall = metrics.recall_score(y, said, average=None)
    assert [score.value for score in found.recall.values()] == pytest.approx(recall.tolist())
    assert sum(row.count for row in found.calibration) == 400
    same = measure(Says([0, 1, 2]), np.tile([0.2, 0.5, 0.3], (400, 1)), y)
    assert "answers 1 to everybody" in same.verdict()
    assert "'b'" in "\n".join(found.lines())


def test_numbers() -> None:
    generator = np.random.default_rng(3)
    y = generator.uniform(0, 10, 4000)
    said = y + generator.normal(0, 1, 4000)
    found = measure(Says(method="predict"), said, y, target_bounds=(0.0, 10.0))
    assert isinstance(found, RegressionScores)
    assert found.mae.value == pytest.approx(metrics.mean_absolute_error(y, said), rel=0.01)
    assert found.rmse.value == pytest.approx(metrics.root_mean_squared_error(y, said), rel=0.01)
    assert found.r2.value == pytest.approx(metrics.r2_score(y, said), abs=0.005)
    assert found.quantile(0.9) == pytest.approx(np.quantile(y - said, 0.9), abs=0.05)
    assert "R^2" in str(found)


def test_cells_follow_public_rules() -> None:
    layout = layout_for(Says(["no", "yes"]))
    p = np.array([0.0, 0.5, 0.500001, 1.0, np.nan, 0.7])
    y = np.array(["no", "no", "yes", "yes", "yes", "other"])
    (codes,) = layout.codes(Says(["no", "yes"]), np.column_stack([1 - p, p]), y)
    size, half = len(EDGES) - 1, EDGES.index(0.5)
    assert codes.tolist() == [0, half - 1, size + half, 2 * size - 1, size, -1]
    assert 0.5 in EDGES
    assert list(EDGES) == sorted(EDGES)


def test_thresholds_of_bought_tables_are_edges() -> None:
    layout = layout_for(Says([0, 1]), bins=4)
    found = layout.scores([np.arange(8.0)])
    assert found.confusion(0.6).threshold == 0.5
    assert found.confusion(0.7).threshold == 0.75
    assert found.confusion(0.5).table == ((1.0, 5.0), (9.0, 13.0))
    with pytest.raises(InvalidParameter, match="threshold must lie in"):
        found.confusion(1.5)


@pytest.mark.parametrize("bins", [1, 0.5, (0.0, 0.4), (0.0, 0.5, 0.5, 1.0), 10**6])
def test_bad_bins_are_refused(bins: Any) -> None:
    with pytest.raises(InvalidParameter, match="bins"):
        layout_for(Says([0, 1]), bins=bins)


def test_a_model_that_fails_quotes_nobody() -> None:
    class Fails(Says):
        def predict_proba(self, X: Any) -> Any:
            raise ValueError("could not convert 'Smith'")

    model = Fails.__new__(Fails)
    model.classes_ = np.array([0, 1])
    with pytest.raises(InvalidData, match=r"could not score the rows \(ValueError\)") as caught:
        layout_for(model).codes(model, [["Smith"]], [1])
    assert caught.value.__context__ is None
