"""Persons whose rows lie in several partitions: the weights, models and promises of memory."""

from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from noisette import (
    HuberRegressor,
    Ledger,
    LinearRegression,
    LogisticRegression,
    Persons,
    SGDClassifier,
    TableClassifier,
    TableRegressor,
    evaluate,
)
from noisette.core.adjacency import Adjacency
from noisette.errors import InvalidData, InvalidParameter, WeakModelWarning
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.algorithms.records import check_unit
from noisette.fitting.partitions import columns, parted
from noisette.fitting.partitions import persons as persons_module
from noisette.fitting.partitions.persons import unit_beside

SECRET = "Smith-4711"
N, D = 900, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) / 3.0
SCORE = X @ RNG.normal(size=D)
IDS = np.append(RNG.integers(0, 300, N - 200), np.zeros(200, dtype=int))  # one has many rows


@pytest.fixture(autouse=True)
def in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


def grouped(ids: Any, chunks: Any, **rules: Any) -> Any:
    """What a fit reads of identifiers beside rows that are cut so."""
    column = ids if hasattr(ids, "dask") else da.from_array(np.asarray(ids), chunks=chunks)
    (rows,) = parted(da.zeros((len(ids), 1), chunks=(chunks, 1)))
    assert rows is not None
    return unit_beside(rows.sized(len(ids)), Persons.of(column, **rules), len(ids))


def weights_of(found: Any) -> Any:
    return np.concatenate(list(found.weights.parts()))


TEXTS = np.array([f"p{number}" for number in IDS], dtype=object)
GAPS = np.where(np.arange(N) % 7 == 0, None, TEXTS)


@pytest.mark.parametrize(
    ("ids", "rules"),
    [
        (IDS, {}),
        (IDS.astype(np.int32), {"full": 3}),
        (TEXTS, {"max_rows": 2}),
        (TEXTS.astype(str), {"max_rows": 2, "full": 4}),
        (GAPS, {"missing": "single", "max_rows": 1}),
        (np.where(np.arange(N) % 7 == 0, np.nan, IDS), {"missing": "single", "full": 2}),
    ],
)
@pytest.mark.parametrize("chunks", [1, 100, N])
def test_weights_and_their_number_are_those_of_memory(
    ids: Any, rules: dict[str, Any], chunks: int
) -> None:
    ids = ids[-40:] if chunks == 1 else ids
    whole, found = Persons.of(ids, **rules), grouped(ids, chunks, **rules)
    assert found.count == whole.count
    assert np.array_equal(weights_of(found), whole.weights)
    assert found.notes == whole.notes
    assert repr(found) == "<Persons>"


def test_everybody_has_one_weight_and_nobody_changes_that_of_another() -> None:
    found = weights_of(grouped(IDS, 100))
    for person in np.unique(IDS):
        assert sum(map(Fraction, found[person == IDS].tolist())) <= 1
    for person in (0, IDS[0]):  # without this person, who has rows in many partitions or in one
        left = person != IDS
        sizes = tuple(int(left[k : k + 100].sum()) for k in range(0, N, 100))
        sizes = tuple(size for size in sizes if size)
        again = weights_of(grouped(IDS[left], sizes))
        assert np.array_equal(again, found[left])


def test_counts_of_one_partition_alone_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = persons_module._answered

    def forgetful(*pieces: Any) -> Any:
        *answers, count = real(*pieces)
        return [*((own, seen) for (_, seen), (_, _, own) in zip(answers, pieces)), count]  # noqa: B905

    monkeypatch.setattr(persons_module, "_answered", forgetful)
    found = weights_of(grouped(IDS, 100))
    assert max(found[person == IDS].sum() for person in np.unique(IDS)) > 1.5


def test_weights_that_nobody_shared_are_refused() -> None:
    found = grouped(IDS, 100)
    public = PublicBudget(
        epsilon=1.0, delta=0.0, adjacency=Adjacency.REPLACE_ONE, size=found.count, unit="person"
    )
    check_unit(SimpleNamespace(unit=found, weights=found.share()), public)
    negative = found.share(da_column(np.full(N, -1e-9)))
    for wrong in (da_column(np.ones(N)), found.share(da_column(np.full(N, 1.001))), negative):
        with pytest.raises(InvalidData, match="add up to at most one weight"):
            check_unit(SimpleNamespace(unit=found, weights=wrong), public)
    with pytest.raises(InvalidData, match="share one weight"):
        check_unit(SimpleNamespace(unit=found, weights=None), public)


def da_column(values: Any) -> Any:
    _, column = parted(da.zeros((N, 1), chunks=(100, 1)), values)
    assert column is not None
    return column.sized(N)


def test_whole_numbers_are_one_person_in_whatever_type() -> None:
    mixed = [np.array([7, 8]), np.array([7.0, np.nan]), np.array([8, 7], dtype=object)]
    ids = da.concatenate([da.from_delayed(dask.delayed(each), (2,), object) for each in mixed])
    found = grouped(ids, 2, missing="single")
    assert found.count == 3
    assert weights_of(found).round(3).tolist() == [0.333, 0.5, 0.333, 1.0, 0.5, 0.333]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([["7", SECRET], [7, 8]], "mixes texts with numbers"),
        ([[SECRET, 7], [SECRET, "8"]], "mixes texts with numbers"),
        ([[SECRET, None], ["a", "b"]], "without an identifier"),
        ([["a", " "], ["a", "b"]], "without an identifier"),
        ([[1.5, 2.0], [1.0, 2.0]], "texts or whole numbers"),
        ([[2.0**54, 1.0], [1, 2]], "texts or whole numbers"),
        ([[2**64, 1], [1, 2]], "texts or whole numbers"),
        ([[b"a", b"b"], [b"a", b"b"]], "texts or whole numbers"),
        ([[np.datetime64("2020-01-01")] * 2, [1, 2]], "texts or whole numbers"),
    ],
)
def test_identifiers_that_could_split_a_person_are_refused(parts: list[Any], words: str) -> None:
    made = []
    for part in parts:
        values = np.empty(2, dtype=object)
        values[:] = part
        made.append(da.from_delayed(dask.delayed(values), (2,), object))
    with pytest.raises(InvalidData, match=words) as caught:
        grouped(da.concatenate(made), 2)
    assert SECRET not in str(caught.value)


def test_identifiers_that_go_with_no_rows_are_refused() -> None:
    rows, labels = da.from_array(X, chunks=(300, D)), da.from_array(SCORE > 0, chunks=300)
    ledger = Ledger(1.0)
    model = LogisticRegression(1.0, norm_bound=1.0, ledger=ledger)
    with pytest.raises(InvalidData, match="inconsistent numbers"):
        model.fit(rows, labels, persons=IDS[:-1])
    with pytest.raises(InvalidParameter, match="nobody has grouped"):
        model.fit(rows, labels, persons=Persons.of(IDS))
    with pytest.raises(InvalidData, match="so X must, too"):
        model.fit(X, SCORE > 0, persons=Persons.of(da.from_array(IDS, chunks=300)))
    with pytest.raises(InvalidData, match="at least two persons"):
        model.fit(rows, labels, persons=np.zeros(N))
    table = dd.from_pandas(pd.DataFrame(X).assign(y=SCORE > 0, who=IDS), npartitions=3)
    longer = table["who"].map_partitions(lambda part: pd.concat([part, part[:1]]))
    with pytest.raises(InvalidData, match="one identifier for each row"):
        model.fit(table[[0, 1]], table["y"], persons=longer)
    assert ledger.spent == (0.0, 0.0)


def flat(model: Any) -> Any:
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])


@pytest.mark.parametrize("cap", [None, 2])
@pytest.mark.parametrize(
    ("model", "target"),
    [
        (LogisticRegression(1.0, 1e-6, norm_bound=0.5, whiten=True), SCORE > 0),
        (LinearRegression(1.0, 1e-6, norm_bound=0.5, target_bounds=(-2, 2)), SCORE),
        (HuberRegressor(30.0, norm_bound=0.5, target_bounds="learn"), SCORE),
        (SGDClassifier(1.0, 1e-6, norm_bound=0.5, adjacency="add-remove"), SCORE > 0),
    ],
    ids=lambda each: str(each)[:40],
)
@pytest.mark.filterwarnings("ignore::noisette.errors.WeakModelWarning")
def test_models_of_persons_are_those_of_memory(model: Any, target: Any, cap: int | None) -> None:
    model.set_params(random_state=1, population=300)
    weight = np.linspace(0.1, 1.0, N)
    kept = Persons.of(TEXTS, max_rows=cap)
    expected = flat(model.fit(X, target, sample_weight=weight, persons=kept))
    told = model.privacy_.to_dict()
    cut = Persons.of(da.from_array(TEXTS, chunks=N), max_rows=cap)
    rows, truth = da.from_array(X, chunks=(250, D)), da.from_array(target, chunks=100)
    found = flat(model.fit(rows, truth, sample_weight=weight, persons=cut))
    near = 1e-6 if isinstance(model, SGDClassifier) else 1e-8  # it pays for the order of its sums
    size = max(1.0, np.abs(expected).max())  # bought limits may lie far out
    assert np.abs(found - expected).max() < near * size
    now = model.privacy_.to_dict()
    same = ("epsilon", "delta", "unit", "max_rows", "notes")
    assert {key: now.get(key) for key in same} == {key: told.get(key) for key in same}
    assert "ROUND-ANY-ORDER" in now["proofs"]


KINDS = {"age": "numeric", "ward": "categorical"}


def visits(n: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    age = rng.integers(18, 90, n).astype(float)
    table = pd.DataFrame({"age": age, "ward": rng.choice(list("abc"), n)})
    table["ill"] = np.where(rng.random(n) < age / 100.0, "yes", "no")
    return table.assign(who=rng.integers(0, 700, n), cost=2.0 * age)


@pytest.mark.parametrize(
    ("kind", "target", "more"),
    [(TableClassifier, "ill", {}), (TableRegressor, "cost", {"target_bounds": "learn"})],
)
def test_a_raw_table_of_persons(kind: Any, target: str, more: dict[str, Any]) -> None:
    table, stated = visits(), {"columns": KINDS, "person": "who", "max_rows": 2}
    model = kind(9.0, 1e-5, schema=stated, random_state=1, **more)
    columns = [*KINDS, "who"]
    expected = flat(model.fit(table[columns], table[target]))
    source, told = model.schema_.source, model.privacy_.unit
    parts = dd.from_pandas(table, npartitions=4)
    assert np.abs(flat(model.fit(parts[columns], parts[target])) - expected).max() < 1e-8
    assert (model.schema_.source, model.privacy_.unit) == (source, told)
    given = kind(9.0, 1e-5, schema=KINDS, random_state=1, **more)
    given.fit(parts[list(KINDS)], parts[target], persons=Persons.of(parts["who"], max_rows=2))
    assert np.abs(flat(given) - expected).max() < 1e-8
    tested = given.set_params(test_share=0.2)
    with pytest.raises(InvalidParameter, match="not offered together"):
        tested.fit(parts[list(KINDS)], parts[target], persons=parts["who"])


def test_scores_of_persons_in_partitions() -> None:
    table = visits()
    model = TableClassifier(9.0, 1e-5, schema=KINDS, random_state=1)
    model.fit(table[list(KINDS)], table["ill"])
    whole = evaluate(
        model, table[list(KINDS)], table["ill"], epsilon=1.0, persons=table["who"], random_state=2
    )
    parts = dd.from_pandas(table, npartitions=4)
    found = evaluate(
        model, parts[list(KINDS)], parts["ill"], epsilon=1.0, persons=parts["who"], random_state=2
    )
    assert (found.auc, found.accuracy) == (whole.auc, whole.accuracy)
    assert found.privacy_.unit == whole.privacy_.unit == "person"


def test_no_identifier_comes_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    for module in (columns, persons_module):
        real = module.run

        def watched(root: Any, real: Any = real) -> Any:
            seen.append(real(root))
            return seen[-1]

        monkeypatch.setattr(module, "run", watched)
    model = LogisticRegression(1.0, norm_bound=0.5, random_state=1)
    rows = da.from_array(X, chunks=(300, D))
    model.fit(rows, SCORE > 0, persons=da.from_array(TEXTS, chunks=300))
    assert len(seen) > 3
    assert "p0" not in "".join(map(str, map(vars_of, seen)))


def vars_of(value: Any) -> Any:
    return vars(value) if hasattr(value, "__dict__") else value


def test_a_weak_model_of_few_persons_is_foreseen() -> None:
    """Public facts count persons: with rows in their place nothing would be said."""
    model = LogisticRegression(0.05, norm_bound=0.5, random_state=1)
    few = np.arange(N) % 20
    with pytest.warns(WeakModelWarning):
        model.fit(da.from_array(X, chunks=(300, D)), SCORE > 0, persons=few)
    assert "the number of persons, 20" in model.privacy_.public


def test_numbers_with_a_point_that_could_split_a_person_are_refused() -> None:
    """A Parquet part with a null is read as floats, which spell large numbers in another way."""
    ids = 1_234_567_890_123_456_789 + 5_000 * np.arange(200)
    whole = visits(400).assign(who=np.concatenate([ids, ids]))
    first, second = whole[:200], whole[200:].astype({"who": float})
    parts = dd.from_map(lambda part: part, [first, second], meta=first, enforce_metadata=False)
    ledger = Ledger(9.0, 1e-5)
    stated = {"columns": KINDS, "person": "who", "person_missing": "single"}
    model = TableClassifier(9.0, 1e-5, schema=stated, ledger=ledger)
    with pytest.raises(InvalidData, match="numbers with a point"):
        model.fit(parts[[*KINDS, "who"]], parts["ill"])
    with pytest.raises(InvalidData, match="numbers with a point"):
        model.fit(second[[*KINDS, "who"]], second["ill"])  # nor may they merge two persons
    short = second.assign(who=(2**24 + np.arange(200)).astype(np.float32))
    with pytest.raises(InvalidData, match="numbers with a point"):
        model.fit(short[[*KINDS, "who"]], short["ill"])
    for kind in ("float32", "Float32", "float[pyarrow]"):
        mixed = whole.assign(who=2**24 + np.tile(np.arange(200), 2))
        last = mixed[200:].astype({"who": "float32"}).astype({"who": kind})
        both = [mixed[:200], last]
        parts = dd.from_map(lambda part: part, both, meta=first, enforce_metadata=False)
        with pytest.raises(InvalidData, match="numbers with a point"):
            model.fit(parts[[*KINDS, "who"]], parts["ill"])
        alone = dd.from_pandas(last[["who"]], npartitions=1)["who"]
        with pytest.raises(InvalidData, match="numbers with a point"):
            grouped(alone, 200, missing="single")
        few = mixed.assign(who=np.tile(np.arange(200), 2))  # below 2^24 they are what they were
        both = [few[["who"]][:200], few[["who"]][200:].astype({"who": kind})]
        ids = dd.from_map(lambda part: part, both, meta=both[0], enforce_metadata=False)["who"]
        assert grouped(ids, 200).count == 200
    assert ledger.count == 0
    ledger = Ledger(1.0)
    rows = da.from_array(X[:400], chunks=(200, D))
    mixed = [np.arange(2**24, 2**24 + 200), np.arange(2**24, 2**24 + 200).astype(np.float32)]
    who = da.concatenate([da.from_delayed(dask.delayed(each), (200,), object) for each in mixed])
    with pytest.raises(InvalidData, match="numbers with a point"):
        LogisticRegression(1.0, norm_bound=1.0, ledger=ledger).fit(
            rows, SCORE[:400] > 0, persons=who
        )
    gaps = np.array([None, *(2.0**53 + 2.0 * np.arange(199))], dtype=object)
    whole_ids = (2**53 + np.arange(200)).astype(object)
    who = da.concatenate([da.from_array(each, chunks=200) for each in (whole_ids, gaps)])
    linear = LogisticRegression(1.0, norm_bound=1.0, ledger=ledger)
    with pytest.raises(InvalidData, match="texts or whole numbers"):
        linear.fit(rows, SCORE[:400] > 0, persons=Persons.of(who, missing="single"))
    assert ledger.count == 0
