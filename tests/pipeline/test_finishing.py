"""What is done to released weights before they are published: FINISHING.

Error rates: every test has fixed seeds; the trial of two levels is drawn 20 times; its limit is
that of docs/benchmarks.md.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from noisette import AdditiveClassifier, TableClassifier
from noisette.core.mechanisms import Gaussian, ObjectiveNoise
from noisette.report.numbers import steps_of
from noisette.tables.pipeline import finishing, table_run
from noisette.tables.pipeline.finishing import (
    SCORE_CELLS,
    best_slope,
    held_by_people,
    score_cells,
    slope_and_shift,
)
from noisette.tables.pipeline.shares import Spread

RNG = np.random.default_rng(0)


def sums_of(scores: Any, labels: Any, mean: float = 0.0, width: float = 1.0) -> Any:
    spread = Spread.of_rows(score_cells(scores, labels, mean, width), SCORE_CELLS)
    return spread.checked_sums(len(scores), None)


@pytest.mark.parametrize("label", [0, 1])
def test_a_person_adds_at_most_one(label: int) -> None:
    scores = np.concatenate([np.linspace(-50.0, 50.0, 2001), [-1e300, 1e300, -0.0, 5e-324]])
    which, values = score_cells(scores, np.full(len(scores), label), 0.3, 0.7)
    p = expit(scores)
    whole = 1.0 - p**2 if label else 1.0 - (1.0 - p) ** 2
    assert (values >= 0.0).all()
    assert which.min() >= 0
    assert which.max() < SCORE_CELLS
    np.testing.assert_allclose(values.sum(axis=1), whole, atol=1e-15)
    assert values.sum(axis=1).max() > 1.0 - 1e-9  # attained


def test_two_people_move_the_sums_by_the_bound_of_replace_one_and_no_further() -> None:
    scores, labels = np.linspace(-40.0, 40.0, 161), np.arange(161) % 2
    each = np.array([sums_of(scores[k : k + 1], labels[k : k + 1]) for k in range(161)])
    apart = np.linalg.norm(each[:, None] - each[None], axis=2)
    assert apart.max() <= np.sqrt(2.0)
    assert apart.max() > 0.99 * np.sqrt(2.0)


def test_a_mutant_that_counts_curvature_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(scores: Any, labels: Any, mean: float, width: float) -> Any:
        which, values = score_cells(scores, labels, mean, width)
        return which, np.hstack([values[:, :2], 2.0 * values[:, 2:]])

    monkeypatch.setattr(table_run, "score_cells", twice)
    with pytest.raises(Exception, match="at most 1"):
        fitted(4000)


def test_slope_and_shift_are_found_where_noise_is_little_and_left_where_it_is_large() -> None:
    scores = RNG.normal(-1.0, 1.2, 400_000)
    labels = (RNG.random(len(scores)) < expit(1.15 * scores + 0.2)).astype(int)
    sums = sums_of(scores, labels, -1.0, 1.2)
    slope, shift = slope_and_shift(sums, 1.0, np.ones(2), 1.0, 1.2)
    assert slope == pytest.approx(1.15, abs=0.02)
    assert shift == pytest.approx(0.2 - 0.15, abs=0.03)  # at the mean of the scores
    slope, shift = slope_and_shift(sums, 1e9, np.ones(2), 1.0, 1.2)
    assert (slope, shift) == (pytest.approx(1.0, abs=1e-3), pytest.approx(0.0, abs=1e-3))


@pytest.mark.parametrize("pure", [False, True])
def test_an_effect_is_kept_where_people_are_and_lost_where_nobody_is(pure: bool) -> None:
    many = held_by_people(*map(np.array, ([1.0], [900.0], [15.0], [2.0], [8.0])), 0.3, pure=pure)
    none = held_by_people(*map(np.array, ([4.0], [-3.0], [15.0], [2.0], [8.0])), 0.3, pure=pure)
    assert many[0] > 0.95
    assert none[0] < 0.05


def table(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(20, 90, n), rng.choice(["a", "b", "c"], n)
    odds = 0.06 * (age - 55) + (ward == "a") - 2.0
    ill = np.where(rng.random(n) < expit(odds), "yes", "no")
    return pd.DataFrame({"age": age, "ward": ward, "ill": ill})


SCHEMA = {"target": "ill", "classes": ["no", "yes"], "unit": "one row is one person",
          "columns": {"age": {"kind": "numeric"}, "ward": {"kind": "categorical"}}}  # fmt: skip


def fitted(n: int, kind: Any = TableClassifier, **more: Any) -> Any:
    return kind(2.0, 1e-6, schema=SCHEMA, random_state=1, **more).fit(table(n))


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("kind", [TableClassifier, AdditiveClassifier])
def test_probabilities_are_right_on_average(kind: Any, relation: str) -> None:
    model = fitted(12_000, kind, adjacency=relation, population=12_000)
    other = table(60_000, seed=7)
    p, ill = model.predict_proba(other.drop(columns="ill"))[:, 1], other["ill"] == "yes"
    assert p.mean() == pytest.approx(ill.mean(), rel=0.05)
    sure = p > np.quantile(p, 0.9)
    assert p[sure].mean() == pytest.approx(ill[sure].mean(), rel=0.08)
    names = [step.name for step in steps_of(model.privacy_.plan, 1e-6, model.privacy_.adjacency)]
    assert names[-2:] == ["weights", "calibration"]


def test_scores_are_not_counted_where_that_could_show_nothing() -> None:
    model = fitted(300)
    kinds = [type(leaf.mechanism) for leaf, _ in model.privacy_.plan.leaves()]
    assert kinds[-2:] == [ObjectiveNoise, Gaussian]
    assert "people by label and score" not in model.privacy_.statement()


def test_class_weights_are_not_undone() -> None:
    plain, heavy = fitted(12_000), fitted(12_000, class_weight={"no": 1.0, "yes": 3.0})
    rows = table(5000, seed=3).drop(columns="ill")
    odds = heavy.decision_function(rows) - plain.decision_function(rows)
    assert np.mean(odds) == pytest.approx(np.log(3.0), abs=0.35)


def test_a_steep_noise_is_answered_by_a_flat_slope() -> None:
    class Coordinates:
        held = spectrum = np.full(4, 0.5)

    few = best_slope(Coordinates(), np.full(4, 0.3), 10.0, 1.0, 30.0)  # type: ignore[arg-type]
    many = best_slope(Coordinates(), np.full(4, 0.3), 10_000.0, 1.0, 30.0)  # type: ignore[arg-type]
    assert few < 0.5
    assert many == pytest.approx(1.0, abs=0.02)
    assert finishing.mean_for(-1.0, 1.0, 1.0) == pytest.approx(-1.0)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_level_that_nobody_has_says_next_to_nothing(delta: float) -> None:
    """20,000 rows, two levels, half of the people ill: .001 to .999 before."""
    worst = 0.0
    levels = {} if delta else {"categories": ["x", "y"]}
    facts = SCHEMA | {"columns": {"ward": {"kind": "categorical", **levels}}}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = pd.DataFrame({"ward": rng.choice(["x", "y"], 20_000)})
        rows["ill"] = np.where(rng.random(20_000) < 0.5, "yes", "no")
        model = TableClassifier(1.0, delta, schema=facts, random_state=seed).fit(rows)
        asked = pd.DataFrame({"ward": np.array(["q", None], dtype=object)})
        worst = max(worst, *np.abs(model.predict_proba(asked)[:, 1] - 0.5))
    assert worst <= 0.15
