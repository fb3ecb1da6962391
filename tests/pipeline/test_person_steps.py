"""Persons in every step and in raw tables: all rows of one weigh what one row weighs."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import run_command, watching
from noisette import Guarantee, Persons, TableClassifier, load, save
from noisette.core.mechanisms import GaussianThreshold, ObjectiveNoise
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.units import Persons as Grouping
from noisette.tables import Schema
from noisette.tables.pipeline import (
    PrivateBounds,
    PrivateCategories,
    PrivateKnots,
    PrivateProjection,
    PrivateSelector,
    SchemaEncoder,
)  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::noisette.errors.WeakModelWarning")

PEOPLE, SECRET = 50, "patient-00-secret"


class Door:
    """Keeps plans and what crosses the door."""

    def __init__(self) -> None:
        self.plans: list[Any] = []
        self.bounded: list[Any] = []

    def charge(self, real, plan, **options):
        self.plans.append((plan, options["unit"]))
        return real(plan, **options)

    def release(self, real, bounded, permit, randomness, *, part=0):
        self.bounded.append(bounded)
        return real(bounded, permit, randomness, part=part)


def rows(mine: list[list[float]]) -> tuple[Any, Any, Any]:
    """Rows of 50 persons, those of the first as given; labels, identifiers."""
    source = np.random.default_rng(2)
    many = source.integers(1, 6, PEOPLE - 1)
    ids = np.concatenate([np.zeros(len(mine), dtype=int), np.repeat(np.arange(1, PEOPLE), many)])
    X = np.concatenate([np.array(mine).reshape(-1, 2), source.uniform(-0.4, 0.4, (many.sum(), 2))])
    return X, np.where(ids % 2, 1, 0), np.array([f"patient-{i:02d}-secret" for i in ids])


COMMON = {"epsilon": 1.0, "delta": 1e-4, "random_state": 4}
STEPS = [
    (PrivateBounds, {}, 1.0), (PrivateKnots, {}, 1.0),
    (PrivateProjection, {"components": 1, "norm_bound": 1.0}, 0.99),
    (PrivateSelector, {"k": 1, "norm_bound": 1.0, "classes": [0, 1]}, 0.99),
]  # fmt: skip
ENDS = {  # what moves each value farthest under replace-one
    PrivateProjection: ([1.0, 0.0], [0.0, 1.0]),
}


def moved(one: Any, other: Any) -> tuple[float, float]:
    """Return how far the value moved, and its bound."""
    change = np.asarray(one.value) - np.asarray(other.value)
    if one.linf is not None:
        finite = np.where(np.abs(one.value) > 1e200, 0.0, change)
        each = np.abs(np.atleast_2d(finite)).max(axis=1).sum()
        return float(each), one.linf
    bound = one.l2 if one.contribution is None else 2.0 * one.contribution
    return float(np.linalg.norm(change)), bound


@pytest.mark.parametrize(
    ("kind", "given", "least"), STEPS, ids=lambda x: getattr(x, "__name__", "")
)
@pytest.mark.parametrize("mine", [1, 40])
def test_a_person_moves_a_step_as_far_as_one_row(
    kind: Any, given: dict[str, Any], least: float, mine: int
) -> None:
    first, last = ENDS.get(kind, ([1.0, 0.0], [-1.0, 0.0]))
    doors = []
    for row, many in ((first, mine), (last, 7)):
        step = kind(**COMMON, **given)
        seen = Door()
        X, y, ids = rows([row] * many)
        with watching(seen):
            step.fit(X, y, persons=ids)
        doors.append(seen)
        assert step.privacy_.unit == "person"
        assert f"the number of persons, {PEOPLE}" in step.privacy_.public
        assert not [said for said in ids if said in step.privacy_.to_json()]
    assert doors[0].plans == doors[1].plans
    assert doors[0].plans[0][1] == "person"
    far, bound = moved(doors[0].bounded[0], doors[1].bounded[0])
    assert far <= bound
    assert far >= (0.4 if kind in (PrivateBounds, PrivateKnots) else least) * bound


def test_no_bound_on_rows_is_stated_that_nobody_enforces() -> None:
    """A step takes any number of rows; of a cap, what is stated is how many rows are used."""
    X, y, ids = rows([[1.0, 0.0]] * 5000)
    for kind, given, _ in STEPS:
        free = kind(**COMMON, **given).fit(X, y, persons=ids)
        assert not [fact for fact in free.privacy_.public if "rows" in fact and "most" in fact]
    capped = PrivateKnots(**COMMON).fit(X, y, persons=Persons.of(ids, max_rows=3))
    assert "that at most 150 rows are used" in capped.privacy_.public


def test_rows_that_weigh_one_each_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(Grouping, "weights", property(lambda self: np.ones(len(self.index))))
    X, y, ids = rows([[1.0, 0.0]] * 40)
    for kind, given, _ in STEPS:
        with pytest.raises(InvalidData, match="add up to at most one"):
            kind(**COMMON, **given).fit(X, y, persons=ids)


def test_the_bar_of_levels_knows_how_many_one_person_holds() -> None:
    X = np.array([f"level {k}" for k in range(40)] + ["common"] * 500).reshape(-1, 1)
    ids = np.concatenate([np.zeros(40, dtype=int), np.arange(1, 501)])
    levels = PrivateCategories(1.0, 1e-4, random_state=0)
    with pytest.raises(InvalidParameter, match="max_rows"):
        levels.fit(X, persons=ids)
    seen = Door()
    with watching(seen):
        levels.fit(X, persons=Persons.of(ids, max_rows=3))
    ((leaf, _),) = levels.privacy_.plan.leaves()
    assert leaf.mechanism.keys == 3
    plain = GaussianThreshold(leaf.mechanism.noise_multiplier, leaf.mechanism.delta_mass)
    bar = leaf.mechanism.threshold(levels.privacy_.adjacency)
    assert bar > plain.threshold(levels.privacy_.adjacency) * 1.01
    counts = seen.bounded[0].value
    assert len(counts) == 1 + 3 + 1  # nobody, the first three levels, "common"
    assert counts.sum() <= 501.0
    assert levels.privacy_.max_rows == 3


@pytest.mark.parametrize("keys", [1, 3, 10])
def test_an_only_holder_shows_with_the_stated_chance(keys: int) -> None:
    """A person alone with `keys` levels of weight 1/keys: the exact chance that any shows."""
    noise = GaussianThreshold(4.22, 1e-6, keys=keys)
    relation = Guarantee(9.0, 0.1, _one(noise), "x").adjacency
    bar, sigma = noise.threshold(relation), noise.sigma(relation)
    for held in range(1, keys + 1):
        stays = 0.5 * math.erfc(-(bar - 1.0 / held) / sigma / math.sqrt(2.0))
        assert -math.expm1(held * math.log(stays)) <= 1e-6 * (1.0 + 1e-6)
    wrong = GaussianThreshold(4.22, 1e-6)  # the bar of a single row lets ten levels pass
    stays = 0.5 * math.erfc(-(wrong.threshold(relation) - 0.1) / sigma / math.sqrt(2.0))
    assert -math.expm1(10 * math.log(stays)) > 2e-6


def _one(noise: Any) -> Any:
    from noisette.core.plans import Run

    return Run(noise).under("add-remove")


# --- raw tables --------------------------------------------------------------------------------

KINDS = {"age": "numeric", "ward": "categorical", "mrn": "ignore"}


def visits(people: int = 800, seed: int = 0, extra: int = 0) -> tuple[dict[str, Any], Any]:
    source = np.random.default_rng(seed)
    many = source.geometric(0.4, people).clip(1, 12)
    many[0] += extra
    who = np.repeat(np.arange(people), many)
    source = np.random.default_rng(seed + 1)
    age = np.repeat(source.integers(18, 95, people), many).astype(float)
    ward = np.array(["A", "B", "C"])[np.arange(len(who)) % 3]
    ill = np.repeat(source.random(people), many) < 1.0 / (1.0 + np.exp(-(age - 55.0) / 8.0))
    ids = np.array([f"MRN{i:05d}" for i in who])
    return {"age": age, "ward": ward, "mrn": ids}, np.where(ill, "yes", "no")


def schema(**more: Any) -> dict[str, Any]:
    return {"columns": dict(KINDS), "person": "mrn", "max_rows": 12} | more


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_table_of_visits(relation: str, delta: float) -> None:
    X, y = visits()
    given = {"adjacency": relation, "population": 800, "random_state": 1}
    model = TableClassifier(2.0, delta, schema=schema(), **given)
    seen = Door()
    with watching(seen):
        model.fit(X, y)
    assert model.score(X, y) > 0.75
    stated = model.privacy_
    assert (stated.unit, stated.max_rows) == ("person", 12)
    assert "differ in all rows of one person" in stated.statement()
    leaves = [leaf.mechanism for leaf, _ in stated.plan.leaves()]
    assert all(each.persons for each in leaves if isinstance(each, ObjectiveNoise))
    assert all(each.keys == 12 for each in leaves if isinstance(each, GaussianThreshold))
    assert any(isinstance(each, ObjectiveNoise) for each in leaves)
    assert {"PERSON-MEAN", "PERSON-WEIGHTS"} <= set(stated.proofs)
    assert not [name for name in model.schema_.features if "mrn" in name]
    # the same by an array; the plan does not know how many rows there are
    kinds = {name: kind for name, kind in KINDS.items() if name != "mrn"}
    bare = {name: X[name] for name in kinds}
    twin = TableClassifier(2.0, delta, schema=kinds, **given)
    twin.fit(bare, y, persons=Persons.of(X["mrn"], max_rows=12))
    np.testing.assert_allclose(twin.coef_, model.coef_)
    longer = TableClassifier(2.0, delta, schema=schema(), **given)
    again = Door()
    with watching(again):
        longer.fit(*visits(extra=30))
    assert again.plans == seen.plans


def test_no_identifier_reaches_a_file(tmp_path: Path) -> None:
    X, y = visits()
    model = TableClassifier(2.0, 1e-5, schema=schema(), random_state=1).fit(X, y)
    save(model, tmp_path / "model.noisette")
    assert b"MRN" not in (tmp_path / "model.noisette").read_bytes()
    again = load(tmp_path / "model.noisette")
    assert again.privacy_ == model.privacy_
    bare = {name: X[name] for name in ("age", "ward")}  # predicting needs no identifier
    np.testing.assert_array_equal(again.predict(bare), model.predict(X))
    encoder = SchemaEncoder(model.schema_).fit(X)
    assert not [name for name in encoder.get_feature_names_out() if "mrn" in name]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"columns": KINDS | {"mrn": "numeric"}}, "nothing may be learnt from it"),
        ({"person": 3}, "name of the column"), ({"max_rows": 0}, "max_rows"),
        ({"person_missing": "guess"}, "person_missing"), ({"person": "the label"}, "persons apart"),
        ({"person": None}, "max_rows needs person"), ({"max_rows": None}, "declare max_rows"),
    ],
)  # fmt: skip
def test_a_wrong_fact_about_persons_is_refused(change: dict[str, Any], said: str) -> None:
    node = {key: value for key, value in (schema() | change).items() if value is not None}
    X, y = visits(60)
    with pytest.raises(InvalidParameter, match=said):
        TableClassifier(2.0, 1e-5, schema=node).fit(X, y)


def test_gaps_and_doubles_are_refused() -> None:
    X, y = visits()
    gap = X | {"mrn": np.array(["", *X["mrn"][1:]])}
    model = TableClassifier(2.0, 1e-5, schema=schema(), random_state=1)
    with pytest.raises(InvalidData, match=r"'mrn'.*empty cell"):
        model.fit(gap, y)
    with pytest.raises(InvalidParameter, match="leave out persons"):
        model.fit(X, y, persons=X["mrn"])
    with pytest.raises(InvalidData, match="no column 'mrn'"):
        model.fit({name: X[name] for name in ("age", "ward")}, y)
    single = TableClassifier(2.0, 1e-5, schema=schema(person_missing="single"), random_state=1)
    assert "person of its own" in single.fit(gap, y).privacy_.statement()
    codes = TableClassifier(2.0, 1e-5, schema=schema(missing=["MRN00003"]), random_state=1)
    with pytest.raises(InvalidData, match="empty cell"):
        codes.fit(X, y)


def test_a_schema_with_persons_needs_no_unit() -> None:
    node = schema(target="ill", classes=["no", "yes"])
    node["columns"] = {name: {"kind": kind} for name, kind in KINDS.items()}
    assert "all rows with the same 'mrn'" in Schema.from_dict(node, learn=True).protected
    del node["columns"]["mrn"]
    facts = Schema.from_dict(node, learn=True)
    assert [column.name for column in facts.columns] == ["age", "ward", "mrn"]
    assert facts.columns[-1].features == ()
    assert Schema.from_dict(facts.source, learn=True) == facts


# --- commands ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("visits")
    X, y = visits()
    lines = ["age,ward,mrn,ill"]
    lines += [",".join(map(str, row)) for row in zip(X["age"], X["ward"], X["mrn"], y, strict=True)]
    (place / "visits.csv").write_text("\n".join(lines) + "\n")
    (place / "schema.toml").write_text(
        'target = "ill"\nclasses = ["no", "yes"]\nperson = "mrn"\nmax_rows = 12\n'
        '[columns.age]\nkind = "numeric"\nlow = 0\nhigh = 110\n'
        '[columns.ward]\nkind = "categorical"\ncategories = ["A", "B", "C"]\n'
        '[columns.mrn]\nkind = "ignore"\n'
    )
    return place


@pytest.mark.parametrize("model", [[], ["--model", "sgd"], ["--mechanism", "output"]])
def test_commands_train_on_persons(folder: Path, tmp_path: Path, model: list[str]) -> None:
    out = tmp_path / "model"
    done = run_command(
        "train", folder / "visits.csv", "--schema", folder / "schema.toml", "--epsilon", 2,
        "--delta", "1e-5", "--out", out, *model,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    stated = json.loads((out / "guarantee.json").read_text())
    assert (stated["unit"], stated["max_rows"]) == ("person", 12)
    assert "that differ in all rows of one person" in " ".join(done.stdout.replace("│", "").split())
    said = stated["statement"]
    assert "all rows with the same 'mrn'" in said
    assert "k times epsilon" not in said
    for path in out.iterdir():
        assert b"MRN0" not in path.read_bytes()
    report = (out / "report.html").read_text()
    assert "<dt>Persons</dt><dd>800</dd>" in report
    assert "the number of persons, 800" in report  # among what is public
    assert "records of one person in several rows" not in report
    table = tmp_path / "new.csv"
    table.write_text("age,ward\n44,A\n80,B\n")
    assert run_command("predict", out, table, "--out", tmp_path / "p.csv").returncode == 0


def test_commands_check_and_plan_count_persons(folder: Path) -> None:
    asked = ("--schema", folder / "schema.toml", "--epsilon", 2, "--delta", "1e-5")
    done = run_command("plan", folder / "visits.csv", *asked, "--json")
    assert json.loads(done.stdout)["rows"] == 800
    plain = run_command("plan", folder / "visits.csv", *asked, "--counts", "0.1").stdout
    assert "of the persons only their number" in plain
    assert "all rows of one person" in " ".join(plain.replace("│", "").split())
    planned = json.loads(run_command("plan", "--rows", 800, *asked, "--json").stdout)
    assert planned["epsilon"] <= 2.0


def test_a_ledger_of_rows_takes_no_persons(folder: Path, tmp_path: Path) -> None:
    from noisette import Ledger
    from noisette.core.mechanisms import Laplace

    ledger = Ledger.open(tmp_path / "study.ledger", epsilon=9.0, delta=1e-4)
    ledger.charge(Laplace(10.0), label="rows")
    done = run_command(
        "train", folder / "visits.csv", "--schema", folder / "schema.toml", "--epsilon", 2,
        "--ledger", tmp_path / "study.ledger", "--out", tmp_path / "model",
    )  # fmt: skip
    assert done.returncode != 0
    assert "one ledger for each" in done.stderr
    assert ledger.count == 1


def test_the_template_mentions_persons(folder: Path) -> None:
    assert '# person = "COLUMN"' in run_command("schema", folder / "visits.csv").stdout
