"""PrivateSearch: one charge before the first look, the winner alone, the whole guarantee."""

import json
import math
import pickle
import re
import signal
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

import noisette
from helpers import run_code
from noisette import (
    HuberRegressor,
    Ledger,
    LinearSVC,
    LogisticRegression,
    PrivateSearch,
    SGDClassifier,
    TableClassifier,
    evaluate,
)
from noisette.core import plans
from noisette.core.adjacency import ADD_REMOVE, REPLACE_ONE
from noisette.core.bounded import Bounded
from noisette.core.cells import taken
from noisette.core.door import release
from noisette.core.mechanisms import Laplace
from noisette.core.plans import Selected
from noisette.core.randomness import Randomness
from noisette.core.search import best_run
from noisette.errors import (
    BudgetExceeded,
    InvalidData,
    InvalidParameter,
    PermitError,
    Unproven,
)
from noisette.fitting.algorithms.passage import Passage
from noisette.fitting.algorithms.public import PublicBudget
from noisette.tuning.budget import divided
from noisette.tuning.scores import SCORES

X, Y = make_classification(1500, 4, n_informative=3, n_redundant=0, random_state=3)
GRID = {"regularization": [1e-3, 1e-1]}
MODEL = LogisticRegression(norm_bound=3.0, classes=[0, 1], mechanism="output")


def search(**options):
    settings = {"epsilon": 1.0, "runs": "logarithmic", "mean": 3.0, "random_state": 1} | options
    return PrivateSearch(options.pop("estimator", MODEL), options.pop("grid", GRID), **{
        name: value for name, value in settings.items() if name not in ("estimator", "grid")
    })  # fmt: skip


def test_the_winner_states_the_whole_search():
    ledger = Ledger(1.0)
    found = search(ledger=ledger).fit(X, Y)
    best = found.best_estimator_
    assert ledger.spent == (1.0, 0.0)
    assert [charge.model for charge in ledger.charges] == ["LogisticRegression"]
    assert (best.privacy_.epsilon, best.epsilon, found.privacy_) == (1.0, 1.0, best.privacy_)
    assert isinstance(best.privacy_.plan, Selected)
    assert "SELECT-PROFILE" in best.privacy_.proofs
    assert "whole search" in best.privacy_.statement()
    assert "This covers one fit" not in best.privacy_.statement()
    assert best.ledger is ledger
    assert best.regularization == found.best_params_["regularization"]
    assert (found.predict(X) == best.predict(X)).all()
    assert found.score(X, Y) > 0.6


def test_one_run_has_less_than_the_whole():
    """All runs have the same budget, and the whole costs what was asked, not less than 98 %."""
    shown = search(epsilon=1.0).plan(1500, 4)
    law, own = shown.plan.law, float(re.findall(r"run has epsilon = ([0-9.]+),", str(shown))[0])
    for each in shown.plan.candidates:
        train, score = each.plans
        assert noisette.accounting.epsilon(train, delta=0.0) <= own * (1 + 1e-3)
        assert noisette.accounting.epsilon(score, delta=0.0) == pytest.approx(own, rel=1e-3)
    alone = Selected(shown.plan.candidates[0].plans[1], law=law)
    assert 0.98 < noisette.accounting.epsilon(alone, delta=0.0) <= shown.epsilon <= 1.0
    assert own < 0.6


def test_plan_before_data_is_what_fit_charges():
    asked = search()
    shown = asked.plan(1500, 4)
    assert asked.fit(X, Y).privacy_.plan == shown.plan.under("replace-one")
    assert "3 runs on average" in str(shown)


@pytest.mark.parametrize("scoring", list(SCORES))
def test_every_score_prefers_the_better_candidate(scoring):
    """One candidate drowns in noise (lambda = 1e-7): with many runs the other one wins."""
    grid = {"regularization": [1e-2, 1e-7]}
    found = search(epsilon=20.0, mean=20.0, runs="poisson", grid=grid, scoring=scoring).fit(X, Y)
    assert found.best_params_ == {"regularization": 1e-2}


@pytest.mark.parametrize(
    ("estimator", "grid", "delta"),
    [
        (LinearSVC(norm_bound=3.0, classes=[0, 1]), GRID, 0.0),
        pytest.param(
            SGDClassifier(norm_bound=3.0, classes=[0, 1]),
            {"epochs": [1, 3]},
            1e-5,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["svc", "sgd"],
)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_other_linear_models(estimator, grid, delta, adjacency):
    found = search(
        estimator=estimator, grid=grid, delta=delta, adjacency=adjacency, population=1500
    ).fit(X, Y)
    assert (found.privacy_.epsilon, found.privacy_.delta) == (1.0, delta)
    assert found.privacy_.adjacency.value == adjacency
    assert found.best_estimator_.adjacency == adjacency


@pytest.mark.slow
def test_tables():
    age = np.arange(1500) % 80
    table = {"age": age, "ward": np.where(age % 2, "A", "B")}
    kinds = {"age": "numeric", "ward": "categorical"}
    model = noisette.TableClassifier(schema=kinds, classes=[False, True])
    found = search(
        estimator=model, grid={"share": [0.2, 0.4]}, epsilon=3.0, delta=1e-5, mean=2.0
    ).fit(table, age > 40)
    assert found.privacy_.epsilon == 3.0
    assert found.predict(table).shape == (1500,)


@pytest.mark.slow
def test_networks():
    torch = pytest.importorskip("torch")
    from noisette.nn import PrivateClassifier

    def make():
        return torch.nn.Linear(4, 2)

    model = PrivateClassifier(make, epochs=1, batch_size=200, classes=[0, 1])
    found = search(
        estimator=model, grid={"learning_rate": [0.1, 0.5]}, epsilon=3.0, delta=1e-4, mean=2.0
    ).fit(X.astype(np.float32), Y)
    assert found.best_estimator_.privacy_.epsilon == 3.0
    assert found.best_params_["learning_rate"] in (0.1, 0.5)


def test_the_model_file_keeps_the_whole_guarantee(tmp_path):
    best = search().fit(X, Y)
    noisette.save(best.best_estimator_, tmp_path / "model")
    again = noisette.load(tmp_path / "model")
    assert again.privacy_ == best.privacy_
    assert (again.predict(X) == best.predict(X)).all()


# --- what must not leave --------------------------------------------------------------------------


def test_nothing_tells_how_many_runs_there_were(tmp_path, capfd):
    """Ledger file, attributes, output and warnings are the same for any number of runs."""
    seen = []
    for seed in range(6):
        path = tmp_path / f"{seed}.ledger"
        ledger = Ledger.open(path, epsilon=1.0, experiment=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = search(random_state=seed, ledger=ledger, mean=5.0).fit(X, Y)
        state = {name: value for name, value in vars(found).items() if name.endswith("_")}
        assert set(state) == {
            "best_estimator_", "best_params_", "classes_", "n_features_in_", "privacy_"
        }  # fmt: skip
        charges = [(c.label, c.plan, c.cost) for c in ledger.charges]
        statement = found.privacy_.to_json()
        for value in GRID["regularization"]:  # the winner's own parameter is released
            statement = statement.replace(f"{value * 1200:g}", "L")
        seen.append((len(path.read_bytes()), charges, len(caught), sorted(json.loads(statement))))
    assert all(each == seen[0] for each in seen)
    assert capfd.readouterr() == ("", "")


def test_losers_are_forgotten_and_their_permits_void():
    kept, ledger = [], Ledger(2.0)
    plan = Selected(Laplace(20.0), law=plans.PoissonRuns(20.0))
    permit = ledger.charge(plan, label="a search")

    def run(number, lent):
        kept.append(lent.charge(Laplace(20.0), label="one run"))
        return float(len(kept)), len(kept)

    candidate, best = best_run(permit, Randomness.from_seed(0), run)
    assert (candidate, best) == (0, len(kept))
    assert len(kept) > 3
    assert all(each.draws_left() == 0 for each in kept)
    with pytest.raises(PermitError):
        best_run(permit, Randomness.from_seed(0), run)


def test_a_run_may_draw_what_was_charged_for_it_and_nothing_else():
    plan = Selected(Laplace(20.0), law=plans.Geometric(2.0))
    permit = Ledger(2.0).charge(plan, label="a search")
    wrong = []

    def run(number, lent):
        for asked in (Laplace(10.0), plans.Repeat(Laplace(20.0), 2)):
            with pytest.raises(PermitError, match="nothing else"):
                lent.charge(asked, label="more")
        lent.charge(Laplace(20.0), label="right")
        with pytest.raises(PermitError, match="nothing else"):
            lent.charge(Laplace(20.0), label="again")
        with pytest.raises(PermitError, match="resumed"):
            lent.resume(1)
        wrong.append(1)
        return 0.0, None

    best_run(permit, Randomness.from_seed(0), run)
    assert wrong
    with pytest.raises(PermitError, match="search"):
        permit.leaf(0)


def test_a_seed_in_a_run_needs_one_in_the_search():
    permit = Ledger(2.0).charge(Selected(Laplace(20.0), law=plans.Geometric(2.0)), label="search")

    def run(number, lent):
        with pytest.raises(InvalidParameter, match="seed"):
            lent.charge(Laplace(20.0), label="a run", seeded=True)
        one = lent.charge(Laplace(20.0), label="a run")
        value = Bounded(np.zeros(1), REPLACE_ONE, "SCORE-SUM", l2=1.0)
        release(value, one, Randomness.from_seed(1))
        return 0.0, None

    with pytest.raises(InvalidParameter, match="seed"):
        best_run(permit, Randomness.secure(), run)


def test_equal_scores_are_decided_by_a_coin():
    """The first of equal runs must not win more often: 3 runs on average, 2000 searches."""
    plan = Selected(*[Laplace(20.0)] * 2, law=plans.PoissonRuns(3.0))
    randomness, wins = Randomness.from_seed(4), []
    for _ in range(2000):
        permit, order = Ledger(2.0).charge(plan, label="a search"), []

        def run(number, lent, order=order):
            order.append(len(order))
            return 1.0, order[-1]

        wins.append((best_run(permit, randomness, run)[1], len(order)))
    first = np.array([winner == 0 for winner, runs in wins if runs == 2])
    assert abs(first.mean() - 0.5) < 4.5 * 0.5 / math.sqrt(len(first))


def test_killed_in_the_middle_the_charge_stays_and_nothing_is_there(monkeypatch):
    ledger, asked = Ledger(1.0), search()
    asked.set_params(ledger=ledger)
    monkeypatch.setattr(SCORES["accuracy"], "each", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        asked.fit(X, Y)
    assert ledger.spent == (1.0, 0.0)
    assert not [name for name in vars(asked) if name.endswith("_")]
    with pytest.raises(BudgetExceeded):
        asked.fit(X, Y)


KILLED = """
import os, signal, sys
from pathlib import Path
from sklearn.datasets import make_classification
from noisette import Ledger, LogisticRegression, PrivateSearch, save
from noisette.core import plans
from noisette.tuning.scores import SCORES

runs, real = [], SCORES["accuracy"].each

def each(*given):
    runs.append(1)
    if len(runs) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given)

SCORES["accuracy"].each = each
X, y = make_classification(1500, 4, n_informative=3, n_redundant=0, random_state=3)
model = LogisticRegression(norm_bound=3.0, classes=[0, 1], mechanism="output")
search = PrivateSearch(
    model, {"regularization": [1e-3, 1e-1]}, 1.0, runs=plans.PoissonRuns(30.0),
    ledger=Ledger.open(sys.argv[1]),
)
save(search.fit(X, y).best_estimator_, Path(sys.argv[1]).parent / "model")
"""


def test_a_killed_process_leaves_the_whole_charge_and_nothing_else(tmp_path):
    """kill -9 in the first run and in the third: the ledger looks the same, and it is spent."""
    left = []
    for number in (1, 3):
        place = tmp_path / str(number)
        place.mkdir()
        Ledger.open(place / "study.ledger", epsilon=1.0)
        known = sorted(path.name for path in place.iterdir())
        done = run_code(KILLED, str(place / "study.ledger"), str(number))
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert (done.stdout, done.stderr) == ("", "")
        assert sorted(path.name for path in place.iterdir()) == known  # no model, no trace
        again = Ledger.open(place / "study.ledger")
        assert again.spent == (1.0, 0.0)
        with pytest.raises(BudgetExceeded):
            search(ledger=again, random_state=None).fit(X, Y)
        left.append([(c.label, c.plan, c.cost) for c in again.charges])
    assert left[0] == left[1]
    assert len(left[0]) == 1


# --- parts and scores -----------------------------------------------------------------------------


def test_parts_are_disjoint_and_blind_to_values():
    for relation in (REPLACE_ONE, ADD_REMOVE):
        train, test = divided(1000, 0.25, relation, Randomness.from_seed(2))
        assert sorted([*train, *test]) == list(range(1000))
        again = divided(1001, 0.25, relation, Randomness.from_seed(2))
        if relation is ADD_REMOVE:  # one person more moves nobody else
            assert set(again[0]) - {1000} == set(train)
        else:
            assert len(test) == 250


def test_rows_are_taken_from_every_kind_of_table():
    import scipy.sparse

    places = np.array([2, 0])
    rows = np.arange(6.0).reshape(3, 2)
    assert taken(rows, places).tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert taken(rows.tolist(), places) == [[4.0, 5.0], [0.0, 1.0]]
    assert taken(scipy.sparse.coo_matrix(rows), places).toarray().tolist()[0] == [4.0, 5.0]
    assert taken({"a": [1, 2, 3]}, places) == {"a": [3, 1]}
    with pytest.raises(InvalidData, match="X must be"):
        taken(3.0, places)


class Says:
    """A fitted model with given probabilities of the label 1."""

    classes_ = np.array([0, 1])

    def __init__(self, p):
        self.p = np.asarray(p, dtype=float)

    def predict(self, X):
        return (self.p[X] > 0.5).astype(int)

    def predict_proba(self, X):
        return np.column_stack((1 - self.p[X], self.p[X]))


@pytest.mark.parametrize("name", list(SCORES))
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("pure", [True, False])
def test_one_person_moves_a_score_by_its_bound_and_some_person_attains_it(
    name, relation, pure, monkeypatch
):
    """All neighbours of a small table, enumerated."""
    crossed = []

    def seen(bounded, *_, **options):
        crossed.append(bounded)
        return bounded.value

    monkeypatch.setattr("noisette.fitting.algorithms.passage.release", seen)
    score, model = SCORES[name](), Says([0.001, 0.4, 0.999])
    cells = [(row, label) for row in range(3) for label in (0, 1)]
    budget = PublicBudget(epsilon=1.0, delta=0.0 if pure else 1e-6, adjacency=relation, size=None)

    def value(people):
        rows, labels = (np.array(part, dtype=int) for part in zip(*people, strict=True))
        score.noisy(model, rows, labels, budget, Passage(None, None))
        return crossed.pop()

    base, moved = [cells[1], cells[4], cells[2]], 0.0
    bound = value(base).l1 if pure else value(base).l2
    for old in cells:
        neighbours = [[*base, new] for new in cells] if relation is REPLACE_ONE else [base]
        for other in neighbours:
            gap = value([*base, old]).value - value(other).value
            moved = max(moved, float(np.linalg.norm(gap, 1 if pure else 2)))
    assert moved <= bound * (1 + 1e-12)
    assert moved > 0.99 * bound


def scored(name, model, X, y, relation=REPLACE_ONE, seed=0, epsilon=1.0, delta=1e-6):
    """Return the score of one run as a search releases it."""
    score = SCORES[name]()
    budget = PublicBudget(epsilon=epsilon, delta=delta, adjacency=relation, size=None)
    permit = Ledger(epsilon, delta, adjacency=relation).charge(
        score.plan(budget), label="a score", delta=delta, epsilon=epsilon
    )
    return score.noisy(model, X, y, budget, Passage(permit, Randomness.from_seed(seed)))


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_area_is_the_one_of_evaluate_to_the_last_bit(relation, delta):
    from sklearn.metrics import roc_auc_score

    generator = np.random.default_rng(0)
    p = generator.random(4000)
    y = (generator.random(4000) < p).astype(int)
    found = evaluate(
        Says(p), np.arange(4000), y, epsilon=1.0, delta=delta, adjacency=str(relation),
        random_state=0, ledger=Ledger(1.0, delta, adjacency=relation, rule="sums"),
    )  # fmt: skip
    area = scored("auc", Says(p), np.arange(4000), y, relation, delta=delta)
    if delta == 0.0:  # else `evaluate` takes Laplace noise, which is smaller
        assert area == found.auc.value
    assert area == pytest.approx(found.auc.value, abs=5 * found.auc.noise + 0.01)
    assert area == pytest.approx(roc_auc_score(y, p), abs=0.03)


@pytest.mark.parametrize("labels", [[], [1], [1] * 40], ids=len)
def test_an_area_that_cannot_be_told_is_chance_and_ends_no_search(labels):
    y, p = np.array(labels, dtype=int), np.full(max(len(labels), 1), 0.7)
    for seed in range(3):
        assert scored("auc", Says(p), np.arange(len(y)), y, ADD_REMOVE, seed) == 0.5


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"grid": {"epsilon": [1.0]}}, "belongs to the search"),
        ({"grid": {"depth": [1]}}, "no parameter 'depth'"),
        ({"grid": 3}, "grid must be"),
        ({"runs": "uniform"}, "runs must be"),
        ({"mean": 0.5}, "mean must be"),
        ({"scoring": "f1"}, "scoring must be"),
        ({"score": "auc"}, "pass scoring='auc'"),
        ({"test_share": 0.0}, "test_share"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"estimator": object()}, "private classifier"),
        ({"estimator": HuberRegressor(norm_bound=3.0, target_bounds=(0, 1))}, "a classifier"),
        ({"estimator": LinearSVC(norm_bound=1.0), "scoring": "log-loss"}, "probabilities"),
    ],
)
def test_mistakes_charge_nothing(options, words):
    ledger = Ledger(5.0)
    with pytest.raises(InvalidParameter, match=words):
        search(ledger=ledger, **options).fit(X, Y)
    assert ledger.count == 0


def test_a_schema_with_persons_charges_nothing():
    """Rows are divided and scored one by one, so a person could train and test; it is refused."""
    visits = {"who": [f"p{i // 3}" for i in range(1500)], "a": X[:, 0]}
    schema = {"person": "who", "columns": {"a": {"kind": "numeric", "low": -3, "high": 3}}}
    model = noisette.TableClassifier(schema=schema, classes=[0, 1])
    ledger = Ledger(5.0)
    asked = search(ledger=ledger, estimator=model, grid={"share": [0.2]})
    with pytest.raises(Unproven, match="persons"):
        asked.fit(visits, Y)
    with pytest.raises(Unproven, match="persons"):
        asked.plan(500)
    assert ledger.count == 0


def test_bad_rows_charge_nothing():
    ledger = Ledger(5.0)
    with pytest.raises(InvalidData):
        search(ledger=ledger).fit(X, np.zeros((3, 2)))
    with pytest.raises((InvalidData, InvalidParameter, ValueError)):
        search(ledger=ledger).fit(np.full_like(X, np.nan), Y)
    assert ledger.count == 0


def in_test_part(seed, n):
    """Return the place of a row that a search with this seed tests on."""
    return int(divided(n, 0.2, REPLACE_ONE, Randomness.from_seed(seed))[1][0])


@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_a_bad_cell_of_a_test_row_charges_nothing(cell):
    ledger, rows = Ledger(5.0), X.copy()
    rows[in_test_part(1, len(X)), 0] = cell
    with pytest.raises(InvalidData):
        search(ledger=ledger).fit(rows, Y)
    assert ledger.count == 0


def test_an_unknown_label_of_a_test_row_charges_nothing():
    ledger, labels = Ledger(5.0), Y.astype(object)
    labels[in_test_part(1, len(X))] = None
    with pytest.raises(InvalidData):
        search(ledger=ledger, scoring="log-loss").fit(X, labels)
    assert ledger.count == 0


def test_more_rows_than_labels_charge_nothing():
    ledger = Ledger(5.0)
    with pytest.raises((InvalidData, ValueError)):
        search(ledger=ledger).fit(X, Y[:-100])
    assert ledger.count == 0


def test_the_area_of_three_classes_charges_nothing():
    ledger, three = Ledger(5.0), LogisticRegression(norm_bound=3.0)
    with pytest.raises(InvalidParameter, match="two classes"):
        search(ledger=ledger, scoring="auc", estimator=three).fit(X, np.arange(len(X)) % 3)
    assert ledger.count == 0


def test_an_empty_test_part_charges_nothing():
    ledger = Ledger(5.0)
    with pytest.raises(InvalidParameter, match="leaves nobody"):
        search(ledger=ledger, test_share=1e-5).fit(X, Y)
    assert ledger.count == 0


TABLE = {"a": X[:, 0], "b": X[:, 1], "who": np.arange(len(X)) // 2}
KINDS = {"a": "numeric", "b": "numeric"}


def test_a_candidate_that_tests_by_itself_is_refused():
    """It would divide people anew in each run, and its scores would state one run's epsilon."""
    ledger, kinds = Ledger(5.0), {**KINDS, "who": "ignore"}
    inner = TableClassifier(schema=kinds, classes=[0, 1], test_share=0.2)
    asked = search(ledger=ledger, estimator=inner, grid={"model": ["logistic"]})
    for run in (lambda: asked.fit(TABLE, Y), lambda: asked.plan(1500)):
        with pytest.raises(InvalidParameter, match="divides people by itself"):
            run()
    assert ledger.count == 0


def test_a_test_row_without_a_probability_has_the_worst_number():
    """One person's row must not be able to stop the search, nor to move the sum by more than 1."""
    p = np.array([0.9, np.nan, 0.8])
    value = scored("log-loss", Says(p), np.arange(3), np.ones(3, int), delta=0.0)
    rest = scored("log-loss", Says(p[::2]), np.arange(2), np.ones(2, int), delta=0.0)
    assert value == rest  # the same noise on the same sum


def test_clones_share_the_ledger_and_pickles_leave_it():
    ledger = Ledger(2.0)
    asked = search(ledger=ledger)
    assert clone(asked).ledger is ledger
    assert pickle.loads(pickle.dumps(asked)).ledger != ledger


NOBODY = {"classes": [0, 1], "adjacency": "add-remove"}


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (LogisticRegression(norm_bound=1.0, **NOBODY), {"regularization": [0.1]}),
        (LinearSVC(norm_bound=1.0, **NOBODY), {"regularization": [0.1]}),
        (SGDClassifier(norm_bound=1.0, sampling="full", **NOBODY), {"epochs": [1]}),
        (TableClassifier(schema={"age": "numeric"}, **NOBODY), {"model": ["logistic"]}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_training_part_of_nobody_is_no_error_where_the_number_is_private(model, grid):
    share = 0.9
    of_seed = [
        len(divided(3, share, ADD_REMOVE, Randomness.from_seed(seed))[0]) for seed in range(20)
    ]
    rows = {"age": [30, 40, 50]} if isinstance(model, TableClassifier) else np.eye(3)
    statements = set()
    for seed in (of_seed.index(0), of_seed.index(1)):
        tried = PrivateSearch(
            model, grid, 1.0, mean=2.0, test_share=share, adjacency="add-remove", population=40000,
            random_state=seed,
        )  # fmt: skip
        found = tried.fit(rows, [0, 1, 1])
        statements.add(found.privacy_.statement())
        assert "_least" not in vars(found.best_estimator_)
    assert len(statements) == 1  # no word tells whether anybody trained
