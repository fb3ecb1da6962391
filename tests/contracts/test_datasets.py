"""Every entry of DATASETS: published counts, norm bounds, and features that are row-local."""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.real import (
    DATASETS,
    VARIABLE,
    MissingData,
    Raw,
    load,
    sphere,
)
from benchmarks.real.covertype import Angle
from benchmarks.real.files import read_bytes, read_idx, read_text_columns
from noisette.core.cells import given
from noisette.errors import InvalidData, InvalidParameter, NoisetteError
from noisette.tables.cells import ValueCells
from noisette.tables.datasets import mixed_table, visits
from noisette.tables.datasets.base import Encoder, number
from noisette.tables.kinds import Categorical

HOME = os.environ.get(VARIABLE)
needs_data = pytest.mark.skipif(
    not HOME, reason=f"real data: set {VARIABLE} to the folder with the published files"
)

# n of all rows (the 10 % training file for KDD), class counts, as the publishers print them.
COVER = [211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510]
DIGITS = [6_903, 7_877, 6_990, 7_141, 6_824, 6_313, 6_876, 7_293, 6_825, 6_958]
COUNTS = {
    "adult": [37_155, 11_687],
    "kddcup99": [97_278, 396_743],
    "covertype": [581_012 - 283_301, 283_301],
    "covertype-7": COVER,
    "bank": [39_922, 5_289],
    "credit": [23_364, 6_636],
    "mnist": DIGITS,
    "mnist-14": DIGITS,
    "fashion-mnist": [7_000] * 10,
}
PUBLISHED = {
    "adult": (32_561, 16_281),
    "kddcup99": (494_021, 311_029),
    "covertype": (15_120, 565_892),
    "mnist": (60_000, 10_000),
    "fashion-mnist": (60_000, 10_000),
}
# What plain logistic regression reaches elsewhere on the same task, minus a point.
NON_PRIVATE = {"adult": 84.0, "bank": 88.3, "credit": 80.5}


@cache
def raw(name: str) -> Raw:
    assert HOME
    return DATASETS[name].read(Path(HOME) / DATASETS[name].folder)


def test_every_dataset_has_its_published_counts() -> None:
    assert set(COUNTS) == set(DATASETS)


def quick(names: Iterable[str]) -> list[Any]:
    """All names, the 805,050 rows of kddcup99, which take 7 s, by `make slow`."""
    return [n if n != "kddcup99" else pytest.param(n, marks=pytest.mark.slow) for n in names]


@needs_data
@pytest.mark.parametrize("name", quick(DATASETS))
def test_counts_norms_and_row_locality(name: str) -> None:
    source, data = DATASETS[name], raw(name)
    assert np.bincount(data.y).tolist() == COUNTS[name]
    assert all(len(column) == len(data.y) for column in data.table.values())
    chosen = np.random.default_rng(1).permutation(len(data.y))[:20_000]
    X = source.encode({key: column[chosen] for key, column in data.table.items()})
    assert X.shape == (len(chosen), len(source.feature_names))
    assert np.isfinite(X).all()
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    assert norms.max() <= source.norm_bound
    # Rows far inside the ball waste the budget: the median row uses most of it.
    assert np.median(norms) > 0.8 * source.norm_bound
    # Row-local: other rows change nothing, down to the last bit.
    part = slice(0, 997)
    again = source.encode({key: column[chosen[part]] for key, column in data.table.items()})
    np.testing.assert_array_equal(again, X[part])
    lone = source.encode({key: column[chosen[:1]] for key, column in data.table.items()})
    np.testing.assert_array_equal(lone, X[:1])
    raw.cache_clear()


@needs_data
@pytest.mark.parametrize("name", quick(PUBLISHED))
def test_published_split(name: str) -> None:
    data = load(name, split="published")
    assert (len(data.X), len(data.X_test)) == PUBLISHED[name] == (len(data.y), len(data.y_test))
    assert len(data.classes) == len(data.class_names)


@needs_data
def test_80_20_split_is_a_partition_that_depends_on_the_seed() -> None:
    first, again, other = load("adult"), load("adult", seed=0), load("adult", seed=1)
    assert (len(first.X), len(first.X_test)) == (39_074, 9_768)
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    whole = np.concatenate([first.y, first.y_test])
    assert np.bincount(whole).tolist() == COUNTS["adult"]


@needs_data
@pytest.mark.parametrize("name", NON_PRIVATE)
def test_the_encoding_keeps_the_signal(name: str) -> None:
    from sklearn.linear_model import LogisticRegression

    data = load(name)
    model = LogisticRegression(C=1e5 / len(data.y), max_iter=500).fit(data.X, data.y)
    assert 100.0 * model.score(data.X_test, data.y_test) > NON_PRIVATE[name]


@needs_data
def test_no_published_split_is_said() -> None:
    with pytest.raises(InvalidParameter, match="'bank' has no published split; use split='80/20'"):
        load("bank", split="published")


def test_missing_folder_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(MissingData, match="set NOISETTE_DATA to the folder"):
        load("adult")
    with pytest.raises(NoisetteError, match="no folder 'adult'"):
        load("adult", tmp_path)
    (tmp_path / "adult").mkdir()
    with pytest.raises(FileNotFoundError, match=r"'adult\.data'"):
        load("adult", tmp_path)


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="name must be one of 'adult'"):
        load("nonsense", tmp_path)
    with pytest.raises(InvalidParameter, match="split must be one of"):
        load("adult", tmp_path, split="half")
    with pytest.raises(InvalidParameter, match="seed must be a whole number"):
        load("adult", tmp_path, seed=-1)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="not an IDX"):
        read_idx(b"nonsense")
    with pytest.raises(InvalidData, match="shorter or longer"):
        read_idx(b"\x00\x00\x08\x01\x00\x00\x00\x05abc")
    with pytest.raises(InvalidData, match="3 fields"):
        read_text_columns(b"1,2,3\n4,5\n", ("a", "b", "c"))
    folder = tmp_path / "kddcup99"
    folder.mkdir()
    good = b"0,tcp,http,SF," + b"1," * 20 + b"0.50," * 7 + b"7,7," + b"0.50," * 8 + b"normal.\n"
    (folder / "kddcup.data_10_percent").write_bytes(good)
    assert DATASETS["kddcup99"].read(folder).table["serror_rate"].tolist() == [0.5]
    for line in (
        good.replace(b"1,", b"", 1),
        good.replace(b"0.50", b"0.5", 1),
        b"0,tcp,http,SF,1,normal.\n",
    ):
        (folder / "kddcup.data_10_percent").write_bytes(line)
        with pytest.raises(InvalidData, match="42 fields"):
            DATASETS["kddcup99"].read(folder)
    with pytest.raises(MissingData, match="corrected"):
        read_bytes(folder, "corrected")


def test_number_clips_bends_and_scales() -> None:
    out = np.empty((4, 1))
    number("t", 0, 10, center=5, width=2.0).fill(
        ValueCells(given(np.array([-3.0, 0.0, 5.0, 99.0]), "")), out
    )
    assert out[:, 0].tolist() == [-1.0, -1.0, 0.0, 1.0]
    number("t", 0, 10, center=5, width=2.0, square=True).fill(
        ValueCells(given(np.array([-3.0, 0.0, 5.0, 7.5]), "")), out
    )
    assert out[:, 0].tolist() == [1.0, 1.0, 0.0, 0.25]
    number("t", 0, 99, curve="log1p").fill(
        ValueCells(given(np.array([b"0", b"9", b"99", b"999"]), "")), out
    )
    np.testing.assert_allclose(out[:, 0], [0.0, 0.5, 1.0, 1.0])
    number("t", -99, 99, curve="signed-log1p", width=2.0).fill(
        ValueCells(given(np.array([-99, -9, 9, 99]), "")), out
    )
    np.testing.assert_allclose(out[:, 0], [-1.0, -0.5, 0.5, 1.0])


def test_category_has_a_slot_for_the_unknown_and_none_for_the_reference() -> None:
    column = Categorical.of("c", ("red", "green", "blue"), "green")
    assert column.features == ("c=red", "c=blue", "c (other)")
    out = np.full((5, 3), np.nan)
    column.fill(ValueCells(given(np.array([b"red", b"green", b"blue", b"zebra", b"?"]), "")), out)
    np.testing.assert_array_equal(out, [[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
    grouped = Categorical(
        "c", (("warm", ("red", "orange")), ("cold", ("blue",))), "cold", other=False
    )
    assert grouped.features == ("c=warm",)
    out = np.full((3, 1), np.nan)
    grouped.fill(ValueCells(given(np.array([b"orange", b"blue", b"zebra"]), "")), out)
    assert out[:, 0].tolist() == [1.0, 0.0, 0.0]


def test_encoder_scales_and_clips() -> None:
    encoder = Encoder((number("a", 0, 1), Angle("b", width=2.0)), typical_norm=2.0)
    X = encoder({"a": np.array([0.0, 1.0]), "b": np.array([0.0, 90.0])})
    np.testing.assert_allclose(X, [[0.0, 0.5, 0.0], [0.5, 0.0, 0.5]], atol=1e-15)
    tight = Encoder((number("a", 0, 1), Angle("b", width=2.0)), typical_norm=0.5)
    assert (np.linalg.norm(tight({"a": np.ones(3), "b": np.ones(3)}), axis=1) <= 1.0).all()


def test_sphere_is_separable_with_the_margin() -> None:
    data = sphere(seed=3)
    assert data.X.shape == (10_000, 5)
    norms = np.linalg.norm(data.X, axis=1)
    assert norms.max() <= 1.0
    assert norms.min() > 1.0 - 1e-12
    # Uniform on the sphere: mean 0 and covariance I/5, within five standard errors.
    assert np.abs(data.X.mean(axis=0)).max() < 5.0 * (1 / 5 / 10_000) ** 0.5
    covariance = data.X.T @ data.X / 10_000
    assert np.abs(covariance - np.eye(5) / 5).max() < 5.0 * (0.4 / 5 / 10_000) ** 0.5
    # Separable with margin 0.001: a linear programme finds a normal with |n|_inf <= 1.
    from scipy.optimize import linprog

    signs = 2.0 * data.y - 1.0
    bounds = [(-1, 1)] * 5 + [(0, None)]
    constraints = np.column_stack([-signs[:, None] * data.X, np.ones(len(signs))])
    found = linprog([0] * 5 + [-1], constraints, np.zeros(len(signs)), bounds=bounds)
    normal, gap = found.x[:5], found.x[5]
    assert gap / np.linalg.norm(normal) >= 0.001 * (1 - 1e-6)
    np.testing.assert_array_equal(sphere(seed=3).X, data.X)
    with pytest.raises(InvalidParameter, match="margin"):
        sphere(margin=0.9)


def test_mixed_table_obeys_its_schema_and_has_a_signal() -> None:
    table = mixed_table(seed=5)
    columns, schema = table.columns, table.schema
    assert set(columns) == {*schema["columns"], table.target}
    for name, facts in schema["columns"].items():
        if facts["type"] == "number":
            assert facts["low"] <= columns[name].min() <= columns[name].max() <= facts["high"]
        else:
            assert set(columns[name]) == set(facts["levels"])
    assert set(columns[table.target]) == set(schema["classes"])
    data = table.dataset()
    assert data.X.shape[0] + data.X_test.shape[0] == 20_000
    assert np.linalg.norm(data.X, axis=1).max() <= data.norm_bound
    from sklearn.linear_model import LogisticRegression

    score = LogisticRegression(C=10.0).fit(data.X, data.y).score(data.X_test, data.y_test)
    majority = max(np.bincount(data.y_test)) / len(data.y_test)
    assert score > majority + 0.08
    np.testing.assert_array_equal(mixed_table(seed=5).columns["income"], columns["income"])


def test_visits_have_several_rows_for_one_patient_and_obey_their_schema() -> None:
    table = visits(seed=5)
    columns, schema = table.columns, table.schema
    assert set(columns) == {*schema["columns"], table.target}
    for name, facts in schema["columns"].items():
        if facts["kind"] == "numeric":
            assert facts["low"] <= columns[name].min() <= columns[name].max() <= facts["high"]
        elif facts["kind"] == "categorical":
            assert set(columns[name]) == set(facts["categories"])
    names, who, counts = np.unique(columns[table.person], return_inverse=True, return_counts=True)
    assert (len(names), counts.min(), counts.max()) == (6000, 1, 40)
    assert 0.45 < np.mean(counts == 1) < 0.55
    assert np.mean(counts == 40) > 0.01
    # a person's facts stay, and the visits are numbered in the order of the rows
    for name in ("age", "sex", "illness"):
        assert len({*zip(who, columns[name], strict=True)}) == 6000
    order = np.argsort(who, kind="stable")
    expected = np.concatenate([np.arange(count) for count in counts])
    np.testing.assert_array_equal(columns["earlier"][order], expected)
    np.testing.assert_array_equal(visits(seed=5).columns["gap"], columns["gap"])
    # the label depends on the person, beyond the number of visits
    positive = columns[table.target] == "yes"
    first, second = (positive[columns["earlier"] == k] for k in (0, 1))
    at = [who[columns["earlier"] == k] for k in (0, 1)]
    both, one, two = np.intersect1d(*at, return_indices=True)
    assert np.corrcoef(first[one], second[two])[0, 1] > 3.0 / np.sqrt(len(both))


def test_visits_hold_out_whole_patients() -> None:
    table = visits(persons=500, seed=1)
    from noisette.tables import Schema

    assert Schema.from_dict(dict(table.schema)).persons is None
    facts = Schema.from_dict(table.person_schema)
    assert facts.persons is not None
    assert (facts.persons.column, facts.persons.max_rows) == (table.person, 40)
    assert len(facts.features) == len(Schema.from_dict(dict(table.schema)).features)
    data = table.dataset()
    assert np.linalg.norm(np.vstack([data.X, data.X_test]), axis=1).max() <= data.norm_bound
    assert data.persons is not None
    assert data.persons_test is not None
    assert not set(data.persons) & set(data.persons_test)
    assert len(set(data.persons_test)) == 100
    part = table.rows(held_out=True)
    np.testing.assert_array_equal(part[table.person], data.persons_test)
    np.testing.assert_array_equal(part[table.target] == "yes", data.y_test == 1)
