"""Noisy counts of odd cells, column by column: unreadable, out of bounds, unlisted, missing.

Each cell is in at most one of its column's states, so a row adds to every column an indicator or
nothing, and `LearnShares` releases all counts as one vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette import _validate
from noisette.core.guarantee import Guarantee
from noisette.core.ledger import Ledger
from noisette.core.randomness import Randomness
from noisette.core.refusals import stated
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms import train
from noisette.fitting.algorithms.public import PublicBudget
from noisette.fitting.units import Unit
from noisette.models.outputs import size_facts
from noisette.tables import Schema
from noisette.tables.encoding import check_columns, names_of
from noisette.tables.kinds import (
    Categorical,
    Cells,
    Column,
    DateCells,
    Dates,
    Hashed,
    Hats,
    Ignored,
    Numeric,
    Open,
    canonical,
)
from noisette.tables.pipeline.sample import Sample
from noisette.tables.pipeline.shares import LearnShares, Spread
from noisette.tables.reading import pieces

STATES = ("missing", "unreadable", "below", "above", "other")
"""Of odd cells: empty or a code for it; no number or date; out of bounds; no listed level."""

_NUMBERS = STATES[:4]


@dataclass(frozen=True)
class CellCounts:
    """What was released: for each column the noisy count of each state.

    `deviation` is the standard deviation of the noise on each count, in rows.
    """

    counts: dict[str, dict[str, float]]
    deviation: float
    guarantee: Guarantee


def states(column: Column) -> tuple[str, ...]:
    """Return the states of a column's odd cells, from its public facts."""
    inner = column.column if isinstance(column, Dates) else column
    if isinstance(inner, Categorical):
        return ("missing", "other")
    if isinstance(inner, Numeric | Hats):
        return _NUMBERS
    if isinstance(inner, Open) and inner.kind != "categorical":
        ends = zip((inner.low, inner.high), ("below", "above"), strict=True)
        return ("missing", "unreadable", *(name for end, name in ends if end is not None))
    return ("missing",) if isinstance(inner, Open | Hashed) else ()


def _bounds(column: Column) -> tuple[float | None, float | None]:
    inner = column.column if isinstance(column, Dates) else column
    if isinstance(inner, Hats):
        return inner.knots[0], inner.knots[-1]
    if isinstance(inner, Numeric):
        return inner.views[0].low, inner.views[0].high
    assert isinstance(inner, Open)
    return inner.low, inner.high


def state_of(column: Column, cells: Cells) -> NDArray[np.int8]:
    """Return the place of every cell's state in `states`, -1 for a cell with nothing odd."""
    # proof: ROW-LOCAL
    names = states(column)
    found = np.full(len(cells), -1, dtype=np.int8)
    missing = {"", *map(canonical, getattr(column, "missing", ()))}
    held = getattr(cells, "given", None)
    if held is not None and held.values.dtype.kind in "iuf" and "unreadable" in names:
        empty = np.isnan(cells.numbers())  # as texts, numbers may be too large
    else:
        empty = np.array([canonical(text) in missing for text in cells.texts()], dtype=bool)
    if "unreadable" in names:
        values = _numbers(column, cells)
        low, high = _bounds(column)
        with np.errstate(invalid="ignore"):
            if low is not None:
                found[values < low] = names.index("below")
            if high is not None:
                found[values > high] = names.index("above")
            for code in getattr(column, "missing", ()):
                empty |= values == _as_number(code)
        found[np.isnan(values)] = names.index("unreadable")
    if isinstance(column, Categorical):
        slots = replace(column, other=True, missing_slot=True)  # the last two of its features
        features, values = slots.entries(cells)
        other = (features == len(slots.features) - 2) & (values != 0.0)
        found[other[:, 0]] = names.index("other")
    found[empty] = names.index("missing")
    return found


def _as_number(code: Any) -> float:
    try:
        return float(code)
    except (TypeError, ValueError):
        return float("nan")


def _numbers(column: Column, cells: Cells) -> NDArray[np.float64]:
    if isinstance(column, Dates) or (isinstance(column, Open) and column.kind == "date"):
        return DateCells(cells, column.forms, column.missing).numbers()
    return cells.numbers()


def count_cells(
    path: Path, schema: Schema, *, epsilon: float, delta: float, population: int, ledger: Ledger,
    randomness: Randomness, header: bool = True,
) -> CellCounts:  # fmt: skip
    """Charge (epsilon, delta), then release the counts of odd cells of a table in a file.

    `population` is a public guess of the number of rows, for relations that hide it.
    """
    names, given = names_of(path, schema, target=False, header=header)
    check_columns(path, names, schema, target=False)
    columns = [column for column in schema.columns if not isinstance(column, Ignored)]
    if not columns:
        raise InvalidParameter("the schema has no column whose cells could be counted.")
    if schema.persons is not None:
        schema.persons.require(names)
    codes, unit = _states_of(path, schema, columns, given)
    count, adjacency = len(codes[columns[0].name]), ledger.adjacency
    known = unit.known(adjacency, population)
    _validate.delta_for(delta, known["size"], "delta")
    public = PublicBudget(epsilon=epsilon, delta=delta, adjacency=adjacency, **known)
    step = LearnShares(len(columns), exact_pure=delta == 0.0)
    spreads = [_spread(codes[column.name], len(states(column))) for column in columns]
    trained = train(
        step, public, Sample(spreads, count=count).group(unit), ledger=ledger,
        randomness=randomness, label="noisette plan: counts of odd cells",
    )  # fmt: skip
    scale = step.prepare(public).scale
    guarantee = trained.permit.guarantee(
        "noisy counts of missing, unreadable, out-of-bounds and unlisted cells",
        public=(
            *size_facts(public, None),
            f"the schema {schema.fingerprint} (names and kinds of {len(columns)} columns and what "
            "is stated of them)",
            schema.public_form,
        ),
        proofs=trained.proofs,
        notes=(*unit.notes, *stated(["lines", *unit.refusals])),
        max_rows=public.max_rows,
    )
    counted = {
        column.name: dict(zip(states(column), sums.tolist(), strict=True))
        for column, sums in zip(columns, trained.released, strict=True)
    }
    return CellCounts(counted, step.deviation(scale, adjacency), guarantee)


def _states_of(
    path: Path, schema: Schema, columns: Sequence[Column], given: list[str] | None
) -> tuple[dict[str, NDArray[np.int8]], Unit]:
    """Return the state of every cell, and whose rows they are where the schema says how to tell."""
    asked, who = [column.name for column in columns], schema.persons
    parts: dict[str, list[NDArray[np.int8]]] = {name: [] for name in asked}
    ids: list[str] = []
    for piece in pieces(path, schema.file, asked if who is None else [*asked, who.column], given):
        for column in columns:
            parts[column.name].append(state_of(column, piece[column.name]))
        if who is not None:
            ids.extend(who.texts_of(piece[who.column]))
    if not parts[asked[0]]:
        raise InvalidData(f"{path} has no rows.")
    codes = {name: np.concatenate(each) for name, each in parts.items()}
    return codes, Unit(len(codes[asked[0]])) if who is None else who.group(ids)


def _spread(codes: NDArray[np.int8], width: int) -> Spread:
    rows = np.flatnonzero(codes >= 0)
    return Spread((rows, codes[rows].astype(np.intp), np.ones(len(rows))), width)
