"""Noisy counts of odd cells, column by column: unreadable, out of bounds, unlisted, missing.

Each cell is in at most one of its column's states, so a row adds to every column an indicator or
nothing, and `LearnShares` releases all counts as one vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
from noisette.scores.layouts import places_of
from noisette.tables import Schema
from noisette.tables.encoding import names_of
from noisette.tables.kinds import Cells, Column, canonical
from noisette.tables.kinds.base import number_codes
from noisette.tables.pipeline.shares import LearnShares, Spread
from noisette.tables.pipeline.step import Sample
from noisette.tables.reading import pieces

STATES = ("missing", "unreadable", "below", "above", "other")
"""Of odd cells: empty or a code for it; no number or date; out of bounds; no listed level."""


@dataclass(frozen=True)
class CellCounts:
    """What was released: for each column the noisy count of each state.

    `deviation` is the standard deviation of the noise on each count, in rows.
    """

    counts: dict[str, dict[str, float]]
    deviation: float
    guarantee: Guarantee


def state_of(column: Column, cells: Cells) -> NDArray[np.int8]:
    """Return the place of every cell's state in its `states`, -1 for a cell with nothing odd."""
    # proof: ROW-LOCAL
    names = column.states
    found = np.full(len(cells), -1, dtype=np.int8)
    missing = {"", *map(canonical, column.missing)}
    held = getattr(cells, "given", None)
    if held is not None and held.values.dtype.kind in "iuf" and "unreadable" in names:
        empty = np.isnan(cells.numbers())  # as texts, numbers may be too large
    else:
        empty = np.array([canonical(text) in missing for text in cells.texts()], dtype=bool)
    if "unreadable" in names:
        values = column.reading.numbers(cells)
        low, high = column.ends
        with np.errstate(invalid="ignore"):
            if low is not None:
                found[values < low] = names.index("below")
            if high is not None:
                found[values > high] = names.index("above")
            for code in number_codes(column.missing):
                empty |= values == code
        found[np.isnan(values)] = names.index("unreadable")
    if "other" in names:
        found[column.unlisted(cells)] = names.index("other")
    found[empty] = names.index("missing")
    return found


def count_cells(
    path: Path, schema: Schema, *, epsilon: float, delta: float, population: int, ledger: Ledger,
    randomness: Randomness, header: bool = True,
) -> CellCounts:  # fmt: skip
    """Charge (epsilon, delta), then release the counts of odd cells of a table in a file.

    `population` is a public guess of the number of rows, for relations that hide it.
    """
    _, given = names_of(path, schema, schema.identifiers, header=header)
    columns = [column for column in schema.columns if column.used]
    if not columns:
        raise InvalidParameter("the schema has no column whose cells could be counted.")
    codes, unit = _states_of(path, schema, columns, given)
    count, adjacency = len(codes[columns[0].name]), ledger.adjacency
    known = unit.known(adjacency, population)
    _validate.delta_for(delta, known["size"], "delta")
    public = PublicBudget(epsilon=epsilon, delta=delta, adjacency=adjacency, **known)
    step = LearnShares(len(columns), exact_pure=delta == 0.0)
    spreads = [Spread(places_of(codes[c.name]), len(c.states)) for c in columns]
    trained = train(
        step, public, Sample(spreads, count=count).group(unit), ledger=ledger,
        randomness=randomness, label="noisette plan: counts of odd cells",
    )  # fmt: skip
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
        column.name: dict(zip(column.states, sums.tolist(), strict=True))
        for column, sums in zip(columns, trained.released, strict=True)
    }
    return CellCounts(counted, step.deviation(step.prepare(public).scale, adjacency), guarantee)


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
