"""Texts of a column in partitions: counted exactly, in a file where they are many."""

import random
from collections import Counter
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from noisette import TableClassifier
from noisette.tables.pipeline import table_rows
from noisette.tables.pipeline.text_counts import TextCounts

SAMPLE = "aé\x00\ud800\uffff\U0001f600zZ ß"  # every length in UTF-8, and half a surrogate pair


def some_texts(rng: random.Random, count: int) -> list[str]:
    return ["".join(rng.choices(SAMPLE, k=rng.randrange(6))) for _ in range(count)]


@pytest.mark.parametrize("limit", [0, 400, 5_000, None])
def test_counts_are_exact_and_in_order_whatever_the_memory(limit: int | None) -> None:
    rng = random.Random(1)
    store, expected = TextCounts(limit), Counter[str]()
    for _ in range(20):
        some = Counter(some_texts(rng, 200))
        expected.update(some)
        store.add(some)
    order = sorted(expected)
    assert store.counts().tolist() == [float(expected[text]) for text in order]
    places = rng.sample(range(len(order)), 50)
    assert store.texts(places) == {k: order[k] for k in places}
    assert store.texts([]) == {}
    assert (store._file is not None) == (limit is not None)
    assert repr(store) == "<TextCounts>"


@pytest.mark.parametrize("limit", [0, None])
def test_shares_of_persons_are_counted_exactly(limit: int | None) -> None:
    store = TextCounts(limit)
    for share in (0.25, 2.0**-20, 0.5):
        store.add(Counter({"a": share, "b": 3.0 * share}))  # type: ignore[dict-item]
    assert store.counts().tolist() == [0.75 + 2.0**-20, 2.25 + 3.0 * 2.0**-20]


def test_nothing_is_counted_of_nothing() -> None:
    assert TextCounts().counts().tolist() == []


def test_memory_holds_no_more_than_the_limit() -> None:
    store = TextCounts(limit=100_000)
    for part in range(40):
        store.add(Counter(f"{part}-{k}" for k in range(100)))
        assert store._size <= 100_000
    assert len(store._held) < 1_000  # of 4,000
    assert store.counts().sum() == 4_000.0


def learnt(table: Any) -> TableClassifier:
    model = TableClassifier(4.0, 1e-4, schema={"ward": "categorical"}, random_state=3)
    return model.fit(table[["ward"]], table["ill"])


@pytest.mark.parametrize("others", [["a", "b", "ü"], ["a", "b", "ü", None]])
def test_texts_in_a_file_give_the_model_of_texts_in_memory(monkeypatch: Any, others: Any) -> None:
    rng = np.random.default_rng(0)
    ward: Any = np.where(rng.random(2_000) < 0.8, rng.choice(others, 2_000), "x")
    ward = [f"once {k}" if each == "x" else each for k, each in enumerate(ward)]
    table = pd.DataFrame({"ward": ward, "ill": rng.choice(["no", "yes"], 2_000)})
    whole = learnt(table)
    monkeypatch.setattr(table_rows, "IN_MEMORY", 3_000)
    with dask.config.set(scheduler="sync"):
        parts = learnt(dd.from_pandas(table, npartitions=70))  # more than one group of groups
    assert {"a", "b", "ü"} <= set(whole.schema_.source["columns"]["ward"]["categories"])
    assert parts.schema_.source == whole.schema_.source
    assert np.abs(whole.coef_ - parts.coef_).max() < 1e-8
