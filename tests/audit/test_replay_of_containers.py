"""The same raw cells in every container: one cell of one record must change nobody else's.

Identifiers beyond 2^53, dates and category codes stored as whole numbers: a package that finds one
type for a whole column gives all of them another one because of a single empty cell.
"""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from test_replay_at_the_door import shrunk

from noisette import LinearRegression, Persons, TableClassifier
from noisette.audit.findings import Tally
from noisette.audit.hostile import CONTAINERS, NotHeld, RawTable, installed, neighbours
from noisette.audit.whitebox.from_outside import check_tables
from noisette.audit.whitebox.replay import compare
from noisette.core.adjacency import Adjacency
from noisette.tables import Schema
from noisette.tables.frame import Frame
from noisette.tables.pipeline import PrivateCategories

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = 90
DAYS = [20100101 + 10000 * k for k in range(10)]
CODES = [10**17 + 1, 10**17 + 2, 10**17 + 3]
FACTS: dict[str, Any] = {
    "target": "ill",
    "classes": ["no", "yes"],
    "columns": {
        "age": {"kind": "numeric", "missing_slot": True},
        "code": {"kind": "categorical", "missing_slot": True},
        "day": {"kind": "date", "low": "2009-01-01", "high": "2021-01-01", "missing_slot": True},
    },
}
NAMES = (
    "one cell empty, age", "one cell empty, code", "one cell empty, day",
    "one cell of another type, age", "one cell of another type, code",
    "one cell of another type, day", "the other end", "one identifier missing", "a single row",
)  # fmt: skip


def table(unit: str) -> RawTable:
    return RawTable(
        kinds={"age": "numeric", "code": "categorical", "day": "date"},
        columns={
            "age": [20 + k % 50 for k in range(ROWS)],
            "code": [CODES[k % 3] for k in range(ROWS)],
            "day": [DAYS[k % 10] for k in range(ROWS)],
        },
        labels=["no" if k % 3 else "yes" for k in range(ROWS)],
        ends={"age": (20, 69), "code": (CODES[0], CODES[-1]), "day": (DAYS[0], DAYS[-1])},
        label_ends=("no", "yes"),
        owners=[2**53 + (k // 2 if unit == "person" else k) for k in range(ROWS)],
        by_person=unit == "person",
    )


def replayed(container: str, unit: str, name: str, adjacency: Adjacency) -> Tally:
    person = {"person": "id", "max_rows": 20, "person_missing": "single"}
    facts = FACTS | (person if unit == "person" else {"unit": "one row is one record"})
    first, others = neighbours(table(unit), adjacency, single=True)
    if name not in others:
        pytest.skip("it is about persons")
    make = CONTAINERS[container][1]

    def on(world: RawTable) -> Any:
        cells = make(world.whole("ill", "id"))
        if container == "parquet":
            cells = Frame.read(cells, Schema.from_dict(facts, learn=True), target=True)

        def run(tape: Any) -> Any:
            model = TableClassifier(
                20.0, 1e-4, schema=facts, adjacency=str(adjacency), population=200,
                random_state=tape,
            )  # fmt: skip
            return model.fit(cells)

        return run

    out = Tally(container, (20.0, 1e-4))
    try:
        compare(on(first), {name: on(others[name])}, adjacency, out)
    except NotHeld:
        pytest.skip("its columns have one type, which cannot hold such a cell")
    return out


EMPTIED = ("one cell empty, code", "one cell empty, day")


def pairs() -> list[Any]:
    """Return every container, unit and neighbour."""
    found = []
    for container in installed():
        for unit in ("record", "person"):
            for name in NAMES:
                slow = name not in (*EMPTIED, "one identifier missing")
                marks = [pytest.mark.slow] if slow else []
                found.append(
                    pytest.param(
                        container, unit, name, marks=marks, id=f"{container}, {unit}, {name}"
                    )
                )
    return found


@pytest.mark.parametrize(("container", "unit", "name"), pairs())
def test_one_cell_changes_one_record(container: str, unit: str, name: str) -> None:
    out = replayed(container, unit, name, Adjacency.REPLACE_ONE)
    assert not out.faults, out.faults
    assert not out.unstated, out.unstated


# --- identifiers and labels beside a table -------------------------------------------------------


def columns_of_ids(ids: list[Any]) -> dict[str, Any]:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    return {
        "polars": pl.Series(ids, dtype=pl.Int64),
        "pyarrow": pa.chunked_array([pa.array(ids, type=pa.int64())]),
        "pandas Int64": pd.Series(ids, dtype="Int64"),
        "pandas int64[pyarrow]": pd.Series(ids, dtype="int64[pyarrow]"),
        "pandas category": pd.Series(pd.Categorical(ids)),
        "list": ids,
    }


def with_ids(first: list[Any], second: list[Any], kind: str, adjacency: Adjacency) -> Tally:
    """Replay a regression whose persons are given beside the rows."""

    def on(ids: list[Any]) -> Any:
        X = np.where(np.arange(len(ids)) > 50, -1.0, 1.0)[:, None]
        given = columns_of_ids(ids)[kind] if kind != "float" else np.array(ids, dtype=float)

        def run(tape: Any) -> Any:
            model = LinearRegression(
                20.0, 1e-4, target_bounds=(-1, 1), norm_bound=1.0, population=60, rounds=0,
                adjacency=str(adjacency), random_state=tape,
            )  # fmt: skip
            return model.fit(X, np.ones(len(X)), persons=Persons.of(given, missing="single"))

        return run

    out = Tally(kind, (20.0, 1e-4))
    compare(on(first), {"identifiers": on(second)}, adjacency, out)
    return out


IDS = [2**53 + k for k in range(60)]


@pytest.mark.parametrize(
    "kind",
    list(columns_of_ids([1, 2])),
)
def test_one_missing_identifier_joins_no_others(kind: str) -> None:
    out = with_ids(IDS, [*IDS[:-1], None], kind, Adjacency.REPLACE_ONE)
    assert not out.faults, out.faults


def test_float_identifiers_that_collide_are_not_joined_under_add_remove() -> None:
    """Two persons whose identifiers are one float: the second one moves the first one's mean."""
    ids = [float(k) for k in range(50)]
    second = [*ids, 1e17 + 1, *[1e17 + 2] * 20]
    out = with_ids([*ids, 1e17 + 1], second, "float", Adjacency.ADD_REMOVE)
    assert not out.faults, out.faults


CELLS = {
    "an empty cell in another column": (
        [[10**17 + k % 9, k % 3] for k in range(90)], [10**17, None],
    ),
    "a whole number among truth values": ([[bool(k % 2)] for k in range(90)], [2]),
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("container", ["lists", "pandas"])
def test_categories_are_read_cell_by_cell(container: str, name: str) -> None:
    import pandas as pd

    rows, last = CELLS[name]

    def on(table: list[Any]) -> Any:
        X = pd.DataFrame(table) if container == "pandas" else table
        return lambda tape: PrivateCategories(20.0, 1e-3, random_state=tape).fit(X)

    out = Tally(name, (20.0, 1e-3))
    compare(on(rows), {name: on([*rows[:-1], last])}, Adjacency.REPLACE_ONE, out)
    assert not out.faults, out.faults
    assert not out.unstated, out.unstated


# --- the folder of a model -----------------------------------------------------------------------


def stored(**more: Any) -> Any:
    """Return a model whose schema has learnt facts, as a folder has it."""
    cells = table("record").whole("ill", None)
    facts = FACTS | {"unit": "one row is one record"} | more
    model = TableClassifier(20.0, 1e-4, schema=facts, random_state=1).fit(cells)
    return clone(model).set_params(schema=model.schema_)


def audited(model: Any, runs: int = 12) -> list[Any]:
    given = {"claim": (20.0, 1e-4), "runs": runs, "confidence": 0.99}
    return list(check_tables(model, **given, containers=("lists", "pandas", "polars", "parquet")))


def test_the_audit_of_a_table_model_runs_all_steps_on_invented_tables() -> None:
    found = audited(stored())
    assert [each.verdict for each in found] == ["consistent"] * len(found), found
    assert found[0].attack == "replay of raw tables"
    assert "in 4 kinds of tables" in found[0].detail
    assert found[1].epsilon_lower is not None


@pytest.mark.parametrize("proof", ["HISTOGRAM", "QUANTILE-TREE"])
def test_the_audit_of_a_table_model_sees_a_small_bound(proof: str) -> None:
    with shrunk(proof):
        found = audited(stored())
    assert found[0].verdict == "violated", found[0]


def test_zero_out_is_not_audited_and_said() -> None:
    (found,) = audited(stored().set_params(adjacency="zero-out"))
    assert found.verdict == "not applicable"
    assert "blank" in found.detail
