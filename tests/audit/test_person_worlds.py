"""Claims about persons: two worlds that differ in all rows of one, and mutants that count rows."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
from mutants import Mutant
from person_mutants import OBJECTIVE, PASS, PERSON_MUTANTS, POISSON, person_mutant
from sklearn.base import BaseEstimator, ClassifierMixin

from helpers import run_command
from noisette import LogisticRegression, TableClassifier, audit, save
from noisette.audit import AuditReport, check_estimator, page, two_worlds
from noisette.audit.canaries import CANARIES, OTHER, OWN, Room, plain_table
from noisette.core.adjacency import Adjacency
from noisette.errors import InvalidData, InvalidParameter

FAST = {"exposed", "replay", "sampling-law"}
SLOW = [each for each in PERSON_MUTANTS.values() if each.attack not in FAST]
SAID = "any two data sets that differ in all rows of one person"


@pytest.mark.parametrize("relation", list(Adjacency))
@pytest.mark.parametrize("name", CANARIES)
def test_the_worlds_differ_in_all_rows_of_one_person(name: str, relation: Adjacency) -> None:
    room = Room(2.0, (0, 1, 2), relation, most=50, null="sample_weight", persons=True)
    pair = CANARIES[name](room)
    tables = []
    for data in (pair.first, pair.second):
        persons = data.options["persons"]
        weight = data.options.get("sample_weight", np.ones(len(persons)))
        rows = [(*x, label, w) for x, label, w in zip(data.X, data.y, weight, strict=True)]
        tables.append({p: [r for r, q in zip(rows, persons, strict=True) if p == q]
                       for p in set(persons.tolist())})  # fmt: skip
    one, two = tables
    last = max(one)
    assert {p: rows for p, rows in one.items() if p != last} == {
        p: rows for p, rows in two.items() if p != last
    }
    assert len(one[last]) == OWN
    assert pair.changed.tolist() == list(range(len(pair.first.X) - OWN, len(pair.first.X)))
    if relation is Adjacency.ADD_REMOVE:
        assert last not in two
    else:
        assert len(two[last]) == OTHER  # the number of rows is private
        assert all(row[-1] == (relation is not Adjacency.ZERO_OUT) for row in two[last])


def test_the_ordinary_table_has_persons_of_one_to_three_rows() -> None:
    data = plain_table(Room(1.0, (0, 1), Adjacency.REPLACE_ONE, persons=True))
    assert set(np.bincount(data.options["persons"])) == {1, 2, 3}
    assert set(data.bare().options) == {"persons"}


@pytest.mark.parametrize(
    "mutant", [m for m in PERSON_MUTANTS.values() if m.attack in FAST], ids=lambda m: m.name
)
def test_a_mutant_that_counts_rows_is_refuted_from_inside(mutant: Mutant) -> None:
    with mutant():
        report = check_estimator(mutant.estimator, attacks=[mutant.attack], persons=True)
    assert report.verdict == "violated", str(report)


@pytest.mark.parametrize("estimator", [OBJECTIVE, PASS, POISSON], ids=repr)
def test_the_real_library_is_not(estimator: Any) -> None:
    attacks = ["exposed", "replay", "sampling-law"]
    report = check_estimator(estimator, attacks=attacks, persons=True)
    assert report.verdict == "consistent", str(report)
    assert SAID in str(report)
    assert "violated" not in str(report)


def test_rows_counted_for_persons_are_refuted_from_outside() -> None:
    """Row-level noise, person claim: forty rows of one person show in some sixty fits."""
    mutant = PERSON_MUTANTS["rows are counted, persons are promised (output perturbation)"]
    with mutant():
        report = check_estimator(mutant.estimator, attacks=["two-worlds"], persons=True)
    assert report.verdict == "violated", str(report)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", SLOW, ids=lambda m: m.name)
def test_so_are_they_with_every_seed(mutant: Mutant) -> None:
    with mutant():
        for seed in range(20):
            report = check_estimator(
                mutant.estimator, attacks=["two-worlds"], persons=True, seed=seed
            )
            assert report.verdict == "violated", str(report)


# --- the report --------------------------------------------------------------------------------


def test_the_report_says_whose_data_differ() -> None:
    report = check_estimator(OBJECTIVE, attacks=["solver"], persons=True)
    assert SAID in str(report)
    assert report.to_dict()["unit"] == "person"
    assert report.joined([]).unit == "person"
    assert SAID in page.html(report)
    assert "differ in one row" in page.html(AuditReport("rows", ()))


def test_a_guarantee_about_rows_is_none_about_persons() -> None:
    mutant = PERSON_MUTANTS["rows are counted, persons are promised (objective perturbation)"]
    with mutant():
        report = check_estimator(mutant.estimator, attacks=["exposed"], persons=True)
    assert "speaks of single rows" in report.findings[0].detail


def test_who_takes_no_persons_is_told() -> None:
    class Rows(LogisticRegression):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> "Rows":
            super().fit(X, y)
            return self

    with pytest.raises(InvalidParameter, match="takes no persons"):
        check_estimator(Rows(norm_bound=1.0), persons=True)


def test_the_command_audits_persons(tmp_path: Any) -> None:
    rows = np.tile([[0.5, 0.1], [-0.5, 0.2]], (30, 1))
    labels, asked = np.tile([0, 1], 30), []
    for name, options in {"rows": {}, "persons": {"persons": np.arange(60) // 3}}.items():
        model = LogisticRegression(norm_bound=1.0).fit(rows, labels, **options)
        save(model, tmp_path / f"{name}.noisette")

    def watched(estimator: Any, **options: Any) -> AuditReport:
        asked.append(options["persons"])
        return check_estimator(estimator, attacks=["solver"], persons=options["persons"])

    with mock.patch.object(audit, "check_estimator", watched):
        wrong = run_command("audit", tmp_path / "rows.noisette", "--persons")
        right = run_command("audit", tmp_path / "persons.noisette")
        plain = run_command("audit", tmp_path / "rows.noisette")
        named = run_command("audit", "noisette.LogisticRegression", "--persons", "--json")
    assert asked == [True, True, False, True]
    assert [wrong.returncode, right.returncode, plain.returncode, named.returncode] == [1, 0, 0, 0]
    assert "about single rows, not about persons" in wrong.stdout
    assert SAID in right.stdout
    assert SAID not in plain.stdout
    assert '"unit": "person"' in named.stdout


# --- from outside, anybody's ---------------------------------------------------------------------


class NoisySum(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A stranger's noisy sum of labelled rows, epsilon-DP for persons if `whole`, else for rows."""

    def __init__(self, epsilon: float = 1.0, whole: bool = True) -> None:
        self.epsilon = epsilon
        self.whole = whole

    def fit(self, X: Any, y: Any, persons: Any = None) -> "NoisySum":
        signs = np.where(np.asarray(y) == 1, 1.0, -1.0)[:, None]
        rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True)) * signs
        if self.whole:
            rows = rows / np.bincount(persons)[persons][:, None]
        d = X.shape[1]
        draw = np.random.default_rng()
        noise = draw.normal(size=d)
        noise *= draw.gamma(d, 2.0 / self.epsilon) / np.linalg.norm(noise)
        self.coef_ = (rows.sum(axis=0) + noise)[None]
        self.intercept_ = np.zeros(1)
        self.classes_ = np.array([0, 1])
        return self


def test_a_strangers_claim_about_persons() -> None:
    options: dict[str, Any] = {"attacks": ["two-worlds"], "runs": 200, "persons": True}
    assert check_estimator(NoisySum(whole=False), **options).verdict == "violated"
    assert check_estimator(NoisySum(), **options).verdict == "consistent"


class _Careless(TableClassifier):  # type: ignore[misc]
    """Counts rows."""

    def fit(self, X: Any, y: Any, persons: Any = None) -> "_Careless":
        super().fit(X, y)
        return self


def _tables(persons: int = 200) -> list[Any]:
    """Two tables that differ in all rows of their last person."""
    place, worlds = np.linspace(-1.0, 1.0, persons - 1), []
    for rows, label in ((OWN, 1), (OTHER, 0)):
        column = {"place": np.r_[place, np.full(rows, 1.0)]}
        labels = np.r_[np.arange(persons - 1) % 2, np.full(rows, label)]
        who = np.r_[np.arange(persons - 1), np.full(rows, persons - 1)]
        worlds.append((column, labels, {"persons": who}))
    return worlds


@pytest.mark.parametrize(
    ("kind", "runs", "verdict"), [(TableClassifier, 60, "consistent"), (_Careless, 160, "violated")]
)
def test_raw_tables_of_persons(kind: Any, runs: int, verdict: str) -> None:
    facts = {"place": {"kind": "numeric", "low": -1.0, "high": 1.0}}
    one, two = _tables()

    def make() -> Any:
        return kind(1.0, 1e-6, schema=facts, classes=[0, 1])

    found = two_worlds(
        make, one, two, claim=(1.0, 1e-6), runs=runs, confidence=0.999,
        statistic=lambda model: float(model.decision_function({"place": np.ones(1)})[0]),
    )  # fmt: skip
    assert found.verdict == verdict, found.findings[0].detail


def test_a_third_part_that_is_no_dict_is_told() -> None:
    with pytest.raises(InvalidData, match="dict of further arguments"):
        two_worlds(NoisySum, ([[0.0]], [0], [1]), ([[0.0]], [0], [1]), claim=1.0, runs=40)


def test_mutants_have_names_of_their_own() -> None:
    with pytest.raises(AssertionError):
        person_mutant(next(iter(PERSON_MUTANTS)), OBJECTIVE, "replay")(lambda: iter(()))
