"""A test share of a table in partitions: who is drawn, by what law, and what becomes of them."""

from collections.abc import Iterator
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from noisette import Randomness, TableClassifier, TableRegressor
from noisette.core.randomness import coin_words
from noisette.fitting.partitions.columns import drawn
from noisette.fitting.units import Unit
from noisette.tables import Schema
from noisette.tables.pipeline.table_rows import PartedFrame, WholeFrame

KINDS = {"age": "numeric", "ward": "categorical"}


@pytest.fixture(autouse=True)
def in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


def visits(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    age = rng.integers(18, 90, n).astype(float)
    table = pd.DataFrame({"age": age, "ward": rng.choice(list("abc"), n)})
    table["ill"] = np.where(rng.random(n) < age / 100.0, "yes", "no")
    return table.assign(cost=2.0 * age)


def frames(n: int, npartitions: int) -> PartedFrame:
    columns = {name: {"kind": kind} for name, kind in KINDS.items()}
    source = {"columns": columns, "target": "y", "classes": ["a", "b"], "unit": "one row is one"}
    schema = Schema.from_dict(source, learn=True)
    table = dd.from_pandas(visits(n)[list(KINDS)], npartitions=npartitions)
    return PartedFrame.of(table, schema, target=False)


def chosen(frame: PartedFrame, share: float, seed: int, *, exact: bool) -> Any:
    coins = drawn(frame.input, share, Randomness.from_seed(seed), exact=exact)
    return np.concatenate(list(coins.parts()))


def misfit(frame: PartedFrame, share: float, *, exact: bool) -> float:
    """The p-value of: everybody is drawn alike, with this chance. 40 draws of 12 rows."""
    counts = sum(chosen(frame, share, seed, exact=exact).astype(int) for seed in range(40))
    expected = np.full(len(counts), 40 * share)
    statistic = ((counts - expected) ** 2 / (expected * (1.0 - share))).sum()
    if exact:  # drawn without replacement, counts vary less: n - 1 degrees of freedom
        return float(stats.chi2.sf(statistic * (len(counts) - 1) / len(counts), len(counts) - 1))
    return float(stats.chi2.sf(statistic, len(counts)))


def test_everybody_is_drawn_alike_however_rows_are_cut() -> None:
    """At most 1e-4 of right samplers fail; the seeds are fixed."""
    frame = frames(12, 5)
    assert misfit(frame, 0.25, exact=True) > 1e-4
    assert misfit(frame, 0.25, exact=False) > 1e-4
    fewer = frames(12, 2)
    for seed in range(5):
        assert chosen(frame, 0.25, seed, exact=True).sum() == 3
        assert chosen(fewer, 0.25, seed, exact=True).sum() == 3


def test_the_same_people_are_drawn_in_every_pass() -> None:
    for exact in (True, False):
        coins = drawn(frames(40, 3).input, 0.5, Randomness.secure(), exact=exact)
        first, again = (np.concatenate(list(coins.parts())) for _ in range(2))
        assert np.array_equal(first, again)
        halves = np.concatenate(
            list(drawn(frames(80, 2).input, 0.5, Randomness.from_seed(1), exact=exact).parts())
        ).reshape(2, 40)
        assert 5 < np.sum(halves[0] != halves[1]) < 35  # partitions toss coins of their own


def test_a_share_that_is_off_is_noticed() -> None:
    frame = frames(2000, 3)
    found = np.mean([chosen(frame, 0.3, seed, exact=False).mean() for seed in range(6)])
    assert abs(found - 0.3) < 4.0 * np.sqrt(0.21 / 12_000)
    assert abs(0.9 * 0.3 - 0.3) > 4.0 * np.sqrt(0.21 / 12_000)  # 10 % less would fail


def test_coins_are_those_of_the_cipher_and_of_no_other_part() -> None:
    words = coin_words(5, 0, 1000)
    assert words[:2].tolist() == [5050920197944494676, 16435025197299052774]  # AES-128, key 5
    assert not set(words.tolist()) & set(coin_words(5, 1, 1000).tolist())
    assert not set(words.tolist()) & set(coin_words(6, 0, 1000).tolist())
    assert np.array_equal(words[:10], coin_words(5, 0, 10))


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    ("kind", "target", "more"),
    [(TableClassifier, "ill", {}), (TableRegressor, "cost", {"target_bounds": "learn"})],
)
def test_model_and_scores_are_those_of_memory_for_the_same_people(
    kind: Any, target: str, more: Any, adjacency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, n = visits(2000), 2000
    tested = np.zeros(n, dtype=bool)
    tested[np.random.default_rng(5).permutation(n)[:500]] = True

    def parts(frame: PartedFrame, *given: Any, **more: Any) -> Any:
        return frame.targets(dd.from_pandas(pd.Series(tested), npartitions=4))

    # no coin is tossed before the noise
    monkeypatch.setattr(WholeFrame, "drawn", lambda *given, **more: tested)
    monkeypatch.setattr(PartedFrame, "drawn", parts)
    model = kind(
        9.0, 1e-5, schema=KINDS, test_share=0.25, adjacency=adjacency, population=n,
        random_state=1, **more,
    )  # fmt: skip
    whole = model.fit(table[list(KINDS)], table[target])
    expected, scores = np.append(whole.coef_, whole.intercept_), whole.test_
    parts = dd.from_pandas(table, npartitions=4)
    found = model.fit(parts[list(KINDS)], parts[target])
    assert np.abs(np.append(found.coef_, found.intercept_) - expected).max() < 1e-8
    assert str(found.test_) == str(scores)
    assert {"TEST-SHARE", "ROUND-ANY-ORDER"} <= set(found.privacy_.proofs)


def test_a_table_that_changes_while_it_is_read_ends_the_training() -> None:
    frame = frames(30, 3)
    coins = drawn(frame.input, 0.5, Randomness.from_seed(0), exact=True)
    with pytest.raises(Exception, match="changed while it was read"):
        list(frames(33, 3).part(Unit(33), coins)[1].input.parts())


def test_scores_on_others_come_out_of_partitions() -> None:
    table = visits(3000)
    parts = dd.from_pandas(table, npartitions=4)
    model = TableClassifier(5.0, 1e-5, schema=KINDS, test_share=0.3, random_state=0)
    model.fit(parts[list(KINDS)], parts["ill"])
    truth = np.mean(model.predict(table[list(KINDS)]) == table["ill"])
    assert model.test_.accuracy.low - 0.03 < truth < model.test_.accuracy.high + 0.03
    assert model.test_.privacy_.epsilon == 5.0
