"""Who is a person, what their rows weigh, and who is promised what."""

import math
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from noisette import Guarantee, Ledger, Persons, Randomness
from noisette.core.mechanisms import Gaussian, GaussianThreshold, Laplace, ObjectiveNoise
from noisette.core.plans import Repeat, Run
from noisette.errors import InvalidData, InvalidParameter

SECRET = "Smith-4711"


def sums_are_at_most_one(each: float, rows: int) -> bool:
    """Exactly, and in floating point forwards, pairwise and with a weight of 1 - 2^-53."""
    many = np.full(rows, each)
    shrunk = many * (1.0 - 2.0**-53)
    return (
        Fraction(each) * rows <= 1
        and max(np.cumsum(many)[-1], many.sum(), math.fsum(many), shrunk.sum()) <= 1.0
    )


def test_the_weights_of_a_person_add_up_to_at_most_one() -> None:
    sizes = [*range(1, 400), 1000, 4096, 99_991]
    for rows in sizes:
        weights = Persons.of(np.zeros(rows, dtype=int)).weights
        assert sums_are_at_most_one(float(weights[0]), rows)
        assert weights[0] * rows >= 1.0 - 1e-10
    # a plain 1 / m is not enough: the test would see it
    assert not all(sums_are_at_most_one(1.0 / rows, rows) for rows in sizes)
    assert Persons.of(["a", "b"]).weights.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("full", "cap"), [(1, None), (3, None), (1, 2), (5, 3)])
def test_a_capped_sum_and_a_cap_on_rows(full: int, cap: int | None) -> None:
    ids = ["a"] * 4 + ["b"] + ["a"] * 2 + ["c"] * 3
    persons = Persons.of(ids, full=full, max_rows=cap)
    used = {"a": 6, "b": 1, "c": 3} if cap is None else {"a": min(6, cap), "b": 1, "c": min(3, cap)}
    seen: dict[str, int] = dict.fromkeys(used, 0)
    for who, weight in zip(ids, persons.weights, strict=True):
        seen[who] += 1
        wanted = 1.0 / max(used[who], full) if seen[who] <= used[who] else 0.0
        assert weight == pytest.approx(wanted, rel=1e-12)
    assert np.bincount(persons.index, persons.weights).max() <= 1.0


@pytest.mark.parametrize(
    "ids",
    [
        ["x", "y", "x"], np.array(["x", "y", "x"]), np.array([7, 2, 7]), np.array([7.5, 2.0, 7.5]),
        [("a", 1), ("b", 2), ("a", 1)], np.array([True, False, True]), [b"q", b"r", b"q"],
        np.array(["2020-01-01", "2021-01-01", "2020-01-01"], dtype="datetime64[D]"),
    ],
)  # fmt: skip
def test_any_identifier_groups(ids: object) -> None:
    persons = Persons.of(ids, 3)
    assert persons.count == 2
    assert persons.index[0] == persons.index[2] != persons.index[1]
    both = persons.rows_of(persons.index[[1, 0]])
    assert both.tolist() == [1, 0, 2]


def test_frames_group_too() -> None:
    pandas = pytest.importorskip("pandas")
    for column in (
        pandas.Series(["x", None, "x"]), pandas.Series(["x", pandas.NA, "x"], dtype="string"),
        pandas.Series([1, None, 1], dtype="Int64"), pandas.Series(["x", float("nan"), "x"]),
        pandas.Series(["x", None, "x"], dtype="category"),
    ):  # fmt: skip
        with pytest.raises(InvalidData, match="without an identifier"):
            Persons.of(column)
        assert Persons.of(column, missing="single").index.tolist() == [0, 1, 0]


NAN = float("nan")


@pytest.mark.parametrize("gap", [None, NAN, "", "  ", np.datetime64("NaT", "D"), np.float64(NAN)])
def test_a_missing_identifier_is_refused_or_single(gap: object) -> None:
    known = 3 if not isinstance(gap, str) else SECRET
    ids = [known, gap, known, gap]
    with pytest.raises(InvalidData, match="without an identifier"):
        Persons.of(ids)
    persons = Persons.of(ids, missing="single")
    assert persons.index.tolist() == [0, 1, 0, 2]
    assert len(persons.notes) == 2


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([SECRET, 4711], "mixes texts"), ([[SECRET], [SECRET]], "hashable"),
        (SECRET, "one for each row"), (np.array([[SECRET]]), "one for each row"),
        ([SECRET] * 5, "one identifier for each row"), ([{SECRET}, {SECRET}], "hashable"),
    ],
)  # fmt: skip
def test_bad_identifiers_are_refused_and_never_shown(ids: object, said: str) -> None:
    with pytest.raises(InvalidData, match=said) as caught:
        Persons.of(ids, 2)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_what_is_masked_is_missing() -> None:
    masked = np.ma.array([7, 8, 8, 7], mask=[False, True, True, False])
    with pytest.raises(InvalidData, match="without an identifier"):
        Persons.of(masked)
    assert Persons.of(masked, missing="single").sizes.tolist() == [2, 1, 1]


@pytest.mark.parametrize("rule", [{"max_rows": 1}, {"full": 3}, {"missing": "single"}])
def test_a_grouping_takes_no_other_rules(rule: dict[str, Any]) -> None:
    """A cap that is asked for is applied or refused, never passed over."""
    grouped = Persons.of(["a", "a", "b"], max_rows=2)
    assert Persons.of(grouped, 3) is grouped
    with pytest.raises(InvalidParameter, match="with the identifiers"):
        Persons.of(grouped, **rule)


def test_the_notes_say_that_weights_count_used_rows() -> None:
    """Of five rows and a cap of two each used one weighs 1/2, not 1/5."""
    persons = Persons.of(["a"] * 5, max_rows=2)
    assert persons.weights[0] == pytest.approx(0.5)
    assert "at most the first 2 rows, m in number, are used" in persons.notes[0]


def test_nothing_of_the_grouping_is_shown() -> None:
    persons = Persons.of([SECRET, SECRET])
    assert repr(persons) == str(persons) == "<Persons>"
    assert SECRET not in repr(vars(persons)) + " ".join(persons.notes)


def test_levels_must_agree_within_a_person() -> None:
    persons = Persons.of(["a", "b", "a"])
    with pytest.raises(InvalidData, match="same in all rows"):
        persons.one_each("level", np.array([1.0, 1.0, 0.5]))


# --- PERSON-ORDER ------------------------------------------------------------------------------


def law(table: list[tuple[str, float]], seen: tuple[float, float], *, mixed: bool) -> float:
    """Density of two noisy sums, of the first two persons and of the third, at `seen`."""
    persons = Persons.of([who for who, _ in table])
    each = np.bincount(persons.index, persons.weights * [value for _, value in table])
    orders = list(permutations(range(3))) if mixed else [(0, 1, 2)]
    found = 0.0
    for order in orders:
        sums = (each[order[0]] + each[order[1]], each[order[2]])
        found += math.prod(math.exp(-abs(a - b)) / 2.0 for a, b in zip(seen, sums, strict=True))
    return found / len(orders)


def worst(*, mixed: bool) -> float:
    """Return the largest log ratio over tables that differ in all rows of person p."""
    others = [("q", 1.0), ("r", -1.0), ("q", 1.0)]
    tables = []
    for rows in ([1.0], [-1.0], [1.0, 1.0, -1.0]):
        tables += [[("p", v) for v in rows] + others, others + [("p", v) for v in rows]]
    grid = np.linspace(-3.0, 3.0, 13)
    return max(
        abs(math.log(law(a, seen, mixed=mixed) / law(b, seen, mixed=mixed)))
        for a, b in product(tables, tables) for seen in product(grid, grid)
    )  # fmt: skip


def test_a_secret_order_makes_numbers_harmless() -> None:
    """Laplace noise of scale 1, |value| <= 1: one place changes by 2, so epsilon is 2."""
    assert worst(mixed=True) <= 2.0 + 1e-9
    assert worst(mixed=False) > 2.5  # by order of appearance one person moves three


def test_all_orders_are_equally_likely() -> None:
    """Chi-square with 5 degrees of freedom; above 25.7 with probability 1e-4 for a fair one."""
    persons, source = Persons.of(["a", "b", "c"]), Randomness.from_seed(8)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(1200):
        order = tuple(persons.shuffled(source).index.tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 25.7


def test_shuffling_keeps_the_grouping() -> None:
    persons = Persons.of(["a", "b", "a", "c"], full=2, max_rows=7)
    mixed = persons.shuffled(Randomness.secure())
    assert mixed.at_random
    assert not persons.at_random
    assert mixed.index[0] == mixed.index[2]
    assert len(set(mixed.index.tolist())) == 3
    assert (mixed.full, mixed.max_rows) == (2, 7)
    np.testing.assert_array_equal(mixed.weights, persons.weights)


# --- guarantees and ledgers --------------------------------------------------------------------


def promise(relation: str, **given: object) -> Guarantee:
    return Guarantee(0.5, 0.0, Run(Laplace(4.0)).under(relation), "a sum", unit="person", **given)


def test_a_statement_about_persons_says_so() -> None:
    for relation in ("replace-one", "zero-out", "add-remove"):
        said = promise(relation).statement()
        assert "For any two data sets that differ in all rows of one person" in said
        assert "any number of rows," in said
        assert "number of rows is" in said or "number of rows is public" in said
        assert "PERSON-WEIGHTS" in said
        assert "at most 7 are used" in promise(relation, max_rows=7).statement()
    assert "person" not in promise("zero-out").statement().split("rows of one")[0]


def test_the_unit_is_in_the_json_and_old_files_speak_of_records() -> None:
    new = promise("replace-one", max_rows=3)
    assert Guarantee.from_json(new.to_json()) == new
    old = Guarantee(0.5, 0.0, Run(Laplace(4.0)).under("replace-one"), "a sum").to_dict()
    assert old["unit"] == "record"
    del old["unit"], old["max_rows"]
    assert Guarantee.from_dict(old).unit == "record"
    with pytest.raises(InvalidParameter, match="max_rows"):
        Guarantee.from_dict(old | {"max_rows": 3})
    with pytest.raises(InvalidParameter, match="unit"):
        Guarantee.from_dict(old | {"unit": "household"})


def test_noise_counted_for_rows_promises_nothing_to_persons() -> None:
    for persons in (False, True):
        noise = ObjectiveNoise(4.0, 3, "spherical-laplace", 0.2, persons=persons)
        plan = Repeat(Run(noise), 2).under("zero-out")
        if persons:
            stated = Guarantee(0.5, 0.0, plan, "a model", unit="person")
            assert {"PERSON-MEAN", "PERSON-WEIGHTS"} <= set(stated.proofs)
        else:
            with pytest.raises(InvalidParameter, match="single rows"):
                Guarantee(0.5, 0.0, plan, "a model", unit="person")


@pytest.mark.parametrize(
    ("keys", "cap", "holds"), [(1, None, 0), (9, None, 0), (9, 10, 0), (9, 9, 1)]
)
def test_a_bar_for_fewer_levels_promises_nothing_to_persons(
    keys: int, cap: int | None, holds: int
) -> None:
    """A person with more rows than the bar was set for shows a level of its own too often."""
    plan = Run(GaussianThreshold(20.0, 1e-6, 2, keys)).under("zero-out")
    given: dict[str, Any] = {"unit": "person", "max_rows": cap}
    if holds:
        assert Guarantee(0.5, 1e-4, plan, "levels", **given).max_rows == cap
    else:
        with pytest.raises(InvalidParameter, match="levels"):
            Guarantee(0.5, 1e-4, plan, "levels", **given)
    assert Guarantee(0.5, 1e-4, plan, "levels").unit == "record"


@pytest.mark.parametrize("first", ["record", "person"])
@pytest.mark.parametrize("where", ["memory", "file", "database"])
def test_a_ledger_adds_up_one_unit_only(first: str, where: str, tmp_path, request) -> None:
    place = tmp_path / "study.ledger"
    if where == "database":
        place = request.getfixturevalue("postgres")()
    ledger = Ledger(2.0) if where == "memory" else Ledger.open(place, epsilon=2.0)
    other = {"record": "person", "person": "record"}[first]
    permit = ledger.charge(Laplace(20.0), label="one", unit=first)
    assert permit.guarantee("a sum").unit == first
    for again in (ledger, ledger if where == "memory" else Ledger.open(place)):
        with pytest.raises(InvalidParameter, match="one ledger for each"):
            again.charge(Laplace(20.0), label="two", unit=other)
        again.charge(Laplace(20.0), label="two", unit=first)
    assert ledger.count == 3
    assert [charge.unit for charge in ledger.charges] == [first] * 3


def test_a_resumed_run_keeps_its_unit_and_labels_cannot_pretend(tmp_path) -> None:
    ledger = Ledger.open(tmp_path / "study.ledger", epsilon=2.0, delta=1e-6)
    plan = Repeat(Run(Gaussian(50.0)), 3)
    killed = ledger.charge(plan, label="run", delta=1e-7, unit="person", resumable=True)
    assert ledger.resume(killed.number).guarantee("a model").unit == "person"
    with pytest.raises(InvalidParameter, match="one ledger for each"):
        ledger.charge(plan, label="x [unit: person]", delta=1e-7)
    with pytest.raises(InvalidParameter, match="unit must be"):
        ledger.charge(plan, label="x", delta=1e-7, unit="row")
