"""Accuracy against epsilon on a public table: other rows, a spread, two lines to compare with."""

import json
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression as PlainRegression
from sklearn.preprocessing import StandardScaler

from helpers import run_command
from noisette import HuberRegressor, Ledger, LogisticRegression, TableClassifier, errors
from noisette.core.randomness import Randomness
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.units import Persons, Unit
from noisette.tuning import choosing, compare_epsilons

X, Y = make_classification(1500, 4, n_informative=3, n_redundant=0, random_state=3)
MODEL = LogisticRegression(norm_bound=3.0, classes=[0, 1])


class Noted(LogisticRegression):
    """Notes what it was fitted on."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, **more):
        self.seen.append((np.asarray(X), float(self.epsilon), self.random_state, more))
        return super().fit(X, y, **more)


def test_a_public_table_needs_no_warning_of_seeds_and_clones(monkeypatch):
    monkeypatch.setattr(errors, "_SAID", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.PrivacyWarning)
        compare_epsilons(MODEL, X, Y, [1.0, 5.0], repeats=2)
    assert not errors._SAID  # somebody's own seed is told of all the same


def test_more_epsilon_is_better_and_ends_at_the_model_without_privacy():
    found = compare_epsilons(MODEL, X, Y, [100.0, 1e-3, 1.0], repeats=4)
    assert found.epsilons == (1e-3, 1.0, 100.0)
    mean = found.accuracy.mean(axis=1)
    assert mean[0] + 0.1 < min(mean[1], mean[2])
    assert mean[2] == pytest.approx(found.plain_accuracy.mean(), abs=0.02)
    assert found.auc[2].mean() == pytest.approx(found.plain_auc.mean(), abs=0.02)
    assert (found.answer, found.rows, found.repeats) == (0, 1200, 4)
    assert 0.48 < found.majority.mean() < 0.56
    shown = str(found)
    assert "must be public" in shown
    assert "nothing was charged" in shown
    assert "not clearly better than the majority" in shown.splitlines()[2]
    assert "majority" not in "".join(shown.splitlines()[3:5])
    told = found.to_dict()
    assert told["accuracy"][1]["deviation"] == pytest.approx(found.accuracy[1].std(ddof=1))
    assert len(found.plot().axes) == 2
    again = compare_epsilons(MODEL, X, Y, [100.0, 1e-3, 1.0], repeats=4)
    assert (again.accuracy == found.accuracy).all()


def test_the_model_without_privacy_is_the_one_of_scikit_learn():
    train, test, _ = choosing._divided(Unit(1500), 0.2, None, Randomness.from_seed(5))
    found = compare_epsilons(MODEL, X, Y, [1.0], repeats=1, seed=5)
    scaled = StandardScaler().fit(X[train])
    plain = PlainRegression(max_iter=2000).fit(scaled.transform(X[train]), Y[train])
    assert found.plain_accuracy[0] == plain.score(scaled.transform(X[test]), Y[test])


def test_rows_differ_from_time_to_time_and_noise_from_epsilon_to_epsilon():
    Noted.seen.clear()
    compare_epsilons(Noted(norm_bound=3.0, classes=[0, 1]), X, Y, [1.0, 2.0], repeats=3, rows=500)
    assert [epsilon for _, epsilon, _, _ in Noted.seen] == [1.0, 2.0] * 3
    assert len({seed for _, _, seed, _ in Noted.seen}) == 6
    assert all(rows.shape == (500, 4) for rows, *_ in Noted.seen)
    first, second, third = (Noted.seen[k][0] for k in (0, 1, 2))
    assert (first == second).all()
    assert not (first == third).all()


def test_nobody_is_on_both_sides_and_persons_reach_the_model():
    ids = np.arange(1500) // 3
    for seed in range(3):
        train, test, units = choosing._divided(
            Persons.of(ids), 0.2, 300, Randomness.from_seed(seed)
        )
        assert units == 300
        assert (len(train), len(test)) == (900, 300)
        assert not set(ids[train]) & set(ids[test])
    Noted.seen.clear()
    model = Noted(norm_bound=3.0, classes=[0, 1])
    compare_epsilons(model, X, Y, [1.0], repeats=1, persons=ids)
    assert Noted.seen[0][3]["persons"].count == 400


def test_tables_and_other_relations_and_more_classes():
    generator = np.random.default_rng(0)
    age = generator.integers(18, 90, 1200).astype(float)
    ward = generator.choice(["a", "b"], 1200)
    y = np.where(generator.random(1200) < 1 / (1 + np.exp(-(age - 50) / 8)), "yes", "no")
    age[:3] = np.nan
    table = TableClassifier(
        1.0, 1e-6, schema={"age": "numeric", "ward": "categorical"}, adjacency="add-remove"
    )
    found = compare_epsilons(table, {"age": age, "ward": ward}, y, [5.0], repeats=1)
    assert found.adjacency == "add-remove"
    assert found.auc[0, 0] > 0.85
    assert found.plain_auc[0] > 0.85
    three = LogisticRegression(norm_bound=3.0, classes=[0, 1, 2])
    found = compare_epsilons(three, X, Y + (X[:, 0] > 0), [5.0], repeats=1)
    assert found.auc is None
    assert "AUC" not in str(found)
    assert len(found.plot().axes) == 1


def test_missing_cells_and_persons_of_a_schema():
    holes = np.where(X > 1.5, np.nan, X)
    model = LogisticRegression(norm_bound=3.0, classes=[0, 1], missing="zero")
    assert compare_epsilons(model, holes, Y, [5.0], repeats=1).plain_auc[0] > 0.7
    generator = np.random.default_rng(1)
    facts = {
        "target": "ill", "classes": ["no", "yes"], "person": "id",
        "columns": {"age": {"kind": "numeric", "low": 0, "high": 100}},
    }  # fmt: skip
    age = generator.integers(0, 100, 1200)
    table = {"age": age, "id": [f"p{k // 2}" for k in range(1200)]}
    ill = np.where(age + generator.normal(0, 9, 1200) > 50, "yes", "no")
    found = compare_epsilons(TableClassifier(1.0, 1e-6, schema=facts), table, ill, [5.0], repeats=1)
    assert found.rows == 480  # persons
    assert found.auc[0, 0] > 0.9


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"epsilons": []}, InvalidParameter, "epsilons must be"),
        ({"epsilons": 3.0}, InvalidParameter, "epsilons must be"),
        ({"epsilons": [-1.0]}, InvalidParameter, "epsilon must be"),
        ({"repeats": 0}, InvalidParameter, "repeats must be"),
        ({"rows": 1400}, InvalidParameter, "rows must be at most 1200"),
        ({"test_share": 1.0}, InvalidParameter, "test_share"),
        ({"estimator": PlainRegression()}, InvalidParameter, "private classifier"),
        ({"y": Y[:9]}, InvalidData, "at least ten"),
        ({"y": np.zeros(1500, dtype=int)}, InvalidData, "a single class"),
        ({"y": Y[:99]}, InvalidData, "99 labels"),
    ],
)
def test_mistakes_are_told(options, error, words):
    given = {"estimator": MODEL, "X": X, "y": Y, "repeats": 1} | options
    with pytest.raises(error, match=words) as caught:
        compare_epsilons(**given)
    assert str(caught.value).count(". ") == 0


def test_a_ledger_and_a_model_of_numbers_are_refused():
    ledger = Ledger(1.0)
    model = LogisticRegression(norm_bound=3.0, classes=[0, 1], ledger=ledger)
    with pytest.raises(InvalidParameter, match="must be public"):
        compare_epsilons(model, X, Y)
    assert len(ledger.charges) == 0
    with pytest.raises(InvalidParameter, match="private classifier"):
        compare_epsilons(HuberRegressor(norm_bound=1.0, target_bounds=(0, 1)), X, Y)


# --- the command ----------------------------------------------------------------------------------

SCHEMA = """
target = "back"
classes = ["no", "yes"]
unit = "one row is one patient"
[columns.age]
kind = "numeric"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    place = tmp_path_factory.mktemp("public")
    generator = np.random.default_rng(0)
    age = generator.integers(18, 95, 800)
    back = np.where(generator.random(800) < 1 / (1 + np.exp(-(age - 60) / 6)), "yes", "no")
    lines = [f"{a},{b}" for a, b in zip(age, back, strict=True)]
    (place / "synthetic.csv").write_text("\n".join(["age,back", *lines]) + "\n")
    (place / "schema.toml").write_text(SCHEMA)
    return place


def command(home, *more):
    return run_command(
        "plan", home / "synthetic.csv", "--schema", home / "schema.toml", "--repeats",
        1, "--epsilon", "0.5,5", *more,
    )  # fmt: skip


def test_the_command_shows_a_table_and_draws_a_figure(home):
    done = command(home, "--public", "--delta", 1e-6, "--out", home / "figure.svg")
    assert done.returncode == 0, done.stderr
    assert "without privacy" in done.stdout
    assert "must be public" in done.stdout
    assert "<svg" in (home / "figure.svg").read_text()
    done = command(home, "--public", "--json", "--model", "additive", "--delta", 1e-6)
    assert json.loads(done.stdout)["epsilons"] == [0.5, 5.0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "2 models of the same people"),
        (("--public", "--ledger", "study.ledger"), "--ledger is for --counts"),
        (("--public", "--out", "figure.gif"), "must end in"),
        (("--public", "--epsilon", "1,two"), "Invalid value"),
    ],
)
def test_the_command_refuses_in_one_sentence_and_writes_nothing(home, more, words):
    before = sorted(home.iterdir())
    done = command(home, *more)
    assert done.returncode != 0
    assert words in " ".join(done.stderr.split())
    assert sorted(home.iterdir()) == before
    assert done.stdout == ""
