"""Pairs of columns: their cells, what they cost, what they gain, and their pictures."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from noisette import AdditiveClassifier, AdditiveRegressor, load, save
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.units import Unit
from noisette.tables.frame import Frame
from noisette.tables.kinds import Categorical, Hats
from noisette.tables.kinds.rows import matrix_of
from noisette.tables.pipeline import coordinates as coordinates_module
from noisette.tables.pipeline import pair_cells
from noisette.tables.pipeline import pairs as pairs_module
from noisette.tables.pipeline.card import card_of
from noisette.tables.pipeline.coordinates import Block, coordinates
from noisette.tables.pipeline.pair_cells import (
    PairView,
    filled_cells,
    products,
    sure_of,
    view_of,
)
from noisette.tables.pipeline.recipe import recipe_for
from noisette.tables.pipeline.shares import LearnShares, Spread

KINDS: dict[str, Any] = {"day": "numeric", "month": "categorical", "age": "numeric"}
PAIRS = [("day", "month")]
N = 16_000


def calls(n: int = N, seed: int = 0) -> tuple[dict[str, Any], np.ndarray]:
    """Days and months that matter together only."""
    rng = np.random.default_rng(seed)
    day = rng.integers(1, 31, n).astype(float)
    day[: n // 50] = np.nan
    month = rng.choice(["may", "june", "july"], n).astype(object)
    month[n // 50 : n // 25] = None
    score = 3.0 * np.where(day > 15, 1.0, -1.0) * (month == "may")
    score -= 3.0 * np.where(day > 15, 1.0, -1.0) * (month == "june")
    table = {"day": day, "month": month, "age": rng.normal(50.0, 9.0, n)}
    return table, rng.random(n) < 1.0 / (1.0 + np.exp(-score))


@pytest.fixture(scope="module")
def fitted() -> AdditiveClassifier:
    return AdditiveClassifier(2.0, 1e-6, schema=KINDS, pairs=PAIRS, random_state=1).fit(*calls())


def test_a_pair_finds_what_no_sum_of_curves_can(fitted: AdditiveClassifier) -> None:
    plain = AdditiveClassifier(2.0, 1e-6, schema=KINDS, random_state=1).fit(*calls())
    test = calls(seed=9)
    assert fitted.score(*test) > plain.score(*test) + 0.1
    (surface,) = fitted.surfaces()
    may, june = (surface.at[1].index(name) for name in ("may", "june"))
    assert surface.value[-1, may] - surface.value[0, may] > 2.0
    assert surface.value[-1, june] - surface.value[0, june] < -2.0
    # The surface is beyond doubt where there are rows.
    assert (surface.deviation[surface.known] < 1.0).all()
    assert plain.surfaces() == ()


def test_curves_and_surfaces_add_up_to_the_score(fitted: AdditiveClassifier) -> None:
    (surface,) = fitted.surfaces()
    i, j = 2, surface.at[1].index("may")
    rows = {"day": [surface.at[0][i], surface.at[0][i]], "month": ["may", "may"]}
    rows["age"] = [fitted.curves()[2].at[0], fitted.curves()[2].at[1]]
    scores = fitted.decision_function(rows)
    age = fitted.curves()[2].value
    assert scores[1] - scores[0] == pytest.approx(age[1] - age[0])
    other = fitted.decision_function(rows | {"month": ["june", "june"]})
    levels = fitted.curves()[1]
    change = levels.value[levels.at.index("june")] - levels.value[levels.at.index("may")]
    change += surface.value[i, surface.at[1].index("june")] - surface.value[i, j]
    assert other[0] - scores[0] == pytest.approx(change)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one", "zero-out"])
def test_the_plan_counts_every_pair_as_one_column(relation: str) -> None:
    model = AdditiveClassifier(
        2.0, 1e-6, schema=KINDS, pairs=PAIRS, adjacency=relation, population=N
    )
    public = model._public(Unit(N), _of(relation))
    training = _training(model, public)
    steps = dict.fromkeys(type(step) for step, _ in training.steps(public))
    shares = next(step for step, _ in training.steps(public) if step.name == "shares")
    assert LearnShares in steps
    assert shares.columns == len(training.counted) + 1 + 1
    assert "PAIR-CELLS" in training.prepare(public).proofs
    assert model.plan(N).epsilon <= 2.0


def _of(relation: str) -> Any:
    from noisette.core.adjacency import Adjacency

    return Adjacency.of(relation)


def _training(model: Any, public: Any) -> Any:
    schema = model._read_schema(target=False)
    return model._training(schema, model._foreseen(schema, 2).target, public)


def test_a_pair_that_was_not_planned_is_not_counted() -> None:
    """A training that forgets to pay for a pair is stopped at the count, before any noise."""
    model = AdditiveClassifier(2.0, 1e-6, schema=KINDS, pairs=PAIRS, random_state=0)
    training = _training(model, model._public(Unit(N), _of("replace-one")))
    table, y = calls(2000)
    from noisette.tables.pipeline.table_rows import WholeFrame
    from noisette.tables.pipeline.table_run import TableRun, TableSample

    public = model._public(Unit(2000), _of("replace-one"))
    unpaid = replace(training, pairs=()).prepare(public)
    frame = Frame.of(table, training.schema)
    run = TableRun(training, TableSample(WholeFrame(frame), y.astype(int)), unpaid)
    step, ready = next(each for each in unpaid.steps if each[0].name == "shares")
    run.facts = {
        "day": {"knots": [1.0, 10.0, 20.0]}, "age": {"knots": [30.0, 60.0]},
        "month": {"categories": ["may", "june"]},
    }  # fmt: skip
    with pytest.raises(InvalidData, match="planned"):
        run.learn(step, ready, None)  # type: ignore[arg-type]


COLUMNS = {
    "close": Hats("x", (0.0, 5e-324, 1e-300, 1.0, 1.0 + 2**-52), missing_slot=True),
    "wide": Hats("x", (-1e300, -1.0, 0.1, 0.3, 1e300), center=0.1),
    "thirds": Hats("x", tuple(k / 3.0 for k in range(17))),
    "levels": Categorical("x", (("a", ("a",)), ("b", ("b",)), ("c", ("c",))), missing_slot=True),
}


class Cells:
    def __init__(self, numbers: Any, texts: Any = ()) -> None:
        self._numbers, self._texts = np.array(numbers, dtype=float), list(texts)

    def __len__(self) -> int:
        return max(len(self._numbers), len(self._texts))

    def numbers(self) -> Any:
        return self._numbers.copy()

    def texts(self) -> Any:
        return self._texts


def given(name: str) -> Cells:
    """Return 500 cells of a column, the strangest among them."""
    column = COLUMNS[name]
    rng = np.random.default_rng(0)
    if not isinstance(column, Hats):
        return Cells([], ["a", "b", "c", "d", ""] * 100)
    numbers = rng.choice([*column.knots, 0.5, -3.0, 1e200, np.nan, 1 / 3, 2 / 7], 460)
    return Cells([*numbers, *rng.uniform(-1.0, 6.0, 40)])


def views(name: str, cells: int = 4) -> np.ndarray:
    return view_of(COLUMNS[name], given(name), COLUMNS[name].coarse(cells, {}))


def cells_of(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cells of a pair as a grid of every row, from the entries that are used."""
    width = first.shape[1] * second.shape[1]
    return matrix_of(*products(first, second), width).toarray()


def spread_of(first: np.ndarray, second: np.ndarray) -> Spread:
    return Spread.of_rows(products(first, second), first.shape[1] * second.shape[1])


def within(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether HISTOGRAM's bounds hold for the cells, exactly: l1 <= 1, and sqrt(2) of two rows."""
    cells = cells_of(first, second)
    sums = [math.fsum(row) for row in cells]
    apart = ((cells[:250] - cells[250:]) ** 2).sum(axis=1)
    return bool((cells >= 0.0).all() and max(sums) <= 1.0 and apart.max() <= 2.0)


@pytest.mark.parametrize("first", COLUMNS)
@pytest.mark.parametrize("second", COLUMNS)
def test_cells_of_a_row_add_up_to_at_most_one(first: str, second: str) -> None:
    one, two = views(first), views(second)
    assert within(one, two[::-1])
    spread_of(one, two).checked_sums(500, None)
    # Four entries are all of them.
    whole = (one[:, :, None] * two[:, None, :]).reshape(500, -1)
    assert np.array_equal(cells_of(one, two), whole)


def test_views_a_tenth_too_large_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_cells, "_BELOW_ONE", 1.1)
    assert not within(views("thirds"), views("levels"))
    with pytest.raises(InvalidData, match="at most 1"):
        spread_of(views("thirds"), views("levels")).checked_sums(500, None)


def test_a_coarse_view_is_the_hat_function_of_its_knots() -> None:
    fine = Hats("x", (0.0, 1.0, 2.0, 4.0, 8.0))
    kept = fine.coarse(3, {})
    assert kept == (0, 2, 4)
    at = np.array([-1.0, 0.5, 1.0, 3.0, 5.0, 9.0])
    plain = np.zeros((6, 3))
    Hats("x", (0.0, 2.0, 8.0)).fill(Cells(at), plain)
    assert view_of(fine, Cells(at), kept) == pytest.approx(plain)


def longest(rows: np.ndarray, bound: float) -> float:
    return float(np.linalg.norm(rows, axis=1).max() / bound)


LEVELS = Categorical("b", (("f", ("f",)), ("m", ("m",))), other=False)
PAIR = PairView(("a", "b"), ((0, 1), (0, 1)))
SHOWN = (Hats("a", (0.0, 1.0)), LEVELS)
GIVEN: Any = {"a": Cells([0.0, 1.0, 0.25, 0.5]), "b": Cells([], ["f", "m", "f", "?"])}


def known(*, wide: bool) -> Any:
    """Return the coordinates of two columns and their pair, whose prior makes rows longer."""
    prior = 25.0 * np.kron([[1.0, 0.9], [0.9, 1.0]], np.eye(2))
    shares = np.array([0.5, 0.004, 0.004, 0.4])
    blocks = [
        Block(2, np.array([0.5, 0.5]), ordered=True), Block(2, np.array([0.5, 0.4])),
        Block(4, shares, whole=False, merged=np.array([0, -1, 1, 2]), prior=prior),
    ]  # fmt: skip
    return coordinates(blocks, floor=0.01, slack=0.3, intercept=1.0, wide=wide)


@pytest.mark.parametrize("wide", [False, True])
def test_rows_are_cut_after_the_change_of_coordinates(
    wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SMOOTHNESS-PRIOR: a prior that makes rows longer does not lift their norm above the bound."""
    found = known(wide=wide)

    def rows(coords: Any) -> np.ndarray:
        out = coords.rows(SHOWN, GIVEN, [PAIR])
        return out.toarray() if wide else out

    assert longest(rows(found), found.norm) <= 1.0
    # The same scores in either coordinates, for rows that were not cut; each cell in its place.
    whole = rows(replace(found, bound=1e9))
    X = np.zeros((4, 8))
    for column, start in zip(SHOWN, (0, 2), strict=True):
        column.fill(GIVEN[column.name], X[:, start : start + 2])
    X[:, 4:] = (X[:, :2, None] * X[:, None, 2:4]).reshape(4, 4)
    theta = np.random.default_rng(0).normal(size=(1, whole.shape[1]))
    coef, intercept = found.back(theta)
    assert X @ coef[0] + intercept[0] == pytest.approx(whole @ theta[0])
    # The mutant does not cut after the change.
    monkeypatch.setattr(coordinates_module, "clip_rows", lambda piece, bound: piece)
    assert longest(rows(found), found.norm) > 1.1


def test_neighbours_with_the_same_noise_differ_in_released_numbers_only() -> None:
    """Replaced with the noise of the plan off, a person moves pair sums by at most sqrt(2)."""
    first, second = views("thirds"), views("levels")
    sums = spread_of(first, second).checked_sums(500, None)
    worst = 0.0
    for k in range(0, 60):
        a, b = first.copy(), second.copy()
        a[k], b[k] = first[-1 - k], second[-1 - k]
        moved = spread_of(a, b).checked_sums(500, None) - sums
        worst = max(worst, float(np.linalg.norm(moved)))
    assert 0.9 < worst <= math.sqrt(2.0)


def test_files_keep_pairs_and_refuse_others(fitted: AdditiveClassifier, tmp_path: Any) -> None:
    path, table = tmp_path / "model.npz", calls(200, seed=3)[0]
    save(fitted, path)
    again = load(path)
    assert np.array_equal(again.decision_function(table), fitted.decision_function(table))
    assert again.pairs == PAIRS
    (pair,) = fitted.pairs_
    node = pair.to_dict()
    assert pairs_module.ColumnPair.read(node, fitted.schema_, 1).kept == pair.kept
    for change in ({"kept": [[99], [0]]}, {"centre": [math.nan]}, {"weights": [[[0.0]]]}):
        with pytest.raises((TypeError, ValueError)):
            pairs_module.ColumnPair.read(node | change, fitted.schema_, 1)
    with pytest.raises(InvalidParameter, match="pairs of columns"):
        card_of(fitted)


@pytest.mark.parametrize(
    "pairs",
    [[("day", "nobody")], [("day", "day")], "day", [("day",)], PAIRS * 2, [("day", "id")]],
)
def test_wrong_pairs_are_refused_before_anything_is_charged(pairs: Any) -> None:
    model = AdditiveClassifier(2.0, 1e-6, schema=KINDS | {"id": "ignore"}, pairs=pairs)
    with pytest.raises(InvalidParameter, match="pair"):
        model.plan(N)


def test_few_rows_leave_pairs_out_and_say_so() -> None:
    table, y = calls(1500)
    model = AdditiveClassifier(0.5, 1e-6, schema=KINDS, pairs=PAIRS, random_state=0)
    model.fit(table, y)
    plain = AdditiveClassifier(0.5, 1e-6, schema=KINDS, random_state=0)
    plain.fit(table, y)
    assert np.array_equal(model.decision_function(table), plain.decision_function(table))
    assert any("left out: day × month" in note for note in model.privacy_.notes)
    public = PublicBudget(epsilon=0.5, delta=0.0, adjacency=_of("replace-one"), size=10**6)
    recipe = recipe_for(public, numeric=2, counted=3, unknown=0, curves=True, pairs=1)
    assert recipe.cells == 0


def test_a_number_has_surfaces_in_its_own_unit_and_persons_are_fine() -> None:
    rng = np.random.default_rng(0)
    n = 14_000
    table = {"a": rng.uniform(0.0, 1.0, n), "b": rng.uniform(0.0, 1.0, n)}
    y = 1000.0 * np.where((table["a"] > 0.5) == (table["b"] > 0.5), 1.0, 0.0)
    facts = {name: {"kind": "numeric", "low": 0.0, "high": 1.0} for name in "ab"}
    model = AdditiveRegressor(
        4.0, 1e-6, schema=facts, pairs=[("a", "b")], target_bounds=(0.0, 1000.0), random_state=0
    )
    model.fit(table, y, persons=np.arange(n) // 2)
    assert model.score(table, y) > 0.6
    (surface,) = model.surfaces()
    assert surface.value[2, 2] - surface.value[2, -3] > 400.0
    assert len(model.plot().axes) >= 4


def test_thresholds_let_few_empty_cells_pass() -> None:
    assert sure_of(1024) == pytest.approx(2.755, abs=0.01)
    assert sure_of(3) == sure_of(6) == pytest.approx(0.0, abs=1e-12)


def test_three_classes_and_a_column_without_levels() -> None:
    table, y = calls(9000)
    table["month"] = np.array([f"m{k}" for k in range(9000)], dtype=object)
    model = AdditiveClassifier(3.0, 1e-6, schema=KINDS, pairs=PAIRS, random_state=0)
    model.fit(table, np.where(table["age"] > 60.0, 2, y.astype(int)))
    (surface,) = model.surfaces()
    assert surface.value.shape[1:] == (0, 3)
    assert model.predict_proba(table).shape == (9000, 3)
    model.plot()


def test_a_grid_is_fine_where_people_are_and_coarse_elsewhere() -> None:
    shares = np.zeros((8, 8))
    shares[0, 0], shares[4:, 4:], shares[2, 6] = 0.5, 0.02, 1e-5
    groups = filled_cells(shares, (True, True), 0.03, 1e-4).reshape(8, 8)
    assert groups[0, 0] == 0
    assert len(set(groups[4:, 4:].ravel())) == 1  # 16 rare cells, together common
    assert groups[4, 4] > 0
    assert (groups[:4, 4:] == -1).all()
    assert (groups.ravel()[1:4] == -1).all()
    # Levels are not neighbours of each other.
    assert (filled_cells(shares, (True, False), 0.03, 1e-4).reshape(8, 8)[4:, 4:] > 0).all()
