"""From an incomplete schema and released facts to the content of a complete one.

Whatever was released, the result is a schema: an error here would come after the charge.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from noisette.errors import InvalidParameter
from noisette.tables.fact_checks import UNKNOWN
from noisette.tables.kinds import Categorical, Column, Dates, Hats, Numeric, Open
from noisette.tables.number_facts import VIEW

_NUMBERS = ("low", "high", "knots", "center")
_LEVELS = ("categories", "reference")


def completed(
    source: dict[str, Any], columns: Sequence[Column],
    released: Mapping[str, Mapping[str, Any]], row_norm: float | None = None,
    free: Collection[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return the dictionaries of a schema in which no fact is open.

    The facts of columns in `free` follow from public ones, so nobody learnt them.
    """
    by_name = {column.name: column for column in columns}
    for name in released:
        if name not in by_name:
            raise InvalidParameter(f"column {name!r} is not in the schema.")
    node = {key: value for key, value in source.items() if key != "learn"}
    facts = dict(source["columns"])
    for name, column in by_name.items():
        if isinstance(column, Open) and not released.get(name):
            raise InvalidParameter(f"column {name!r} has open facts, and nothing was released.")
        if released.get(name):
            facts[name] = _merged(facts[name], column, released[name])
    bought = {name for name in released if released[name] and name not in free}
    learnt = [name for name in by_name if name in bought or name in source.get("learnt", [])]
    node["columns"] = facts
    if learnt:
        node["learnt"] = learnt
    return node if row_norm is None else node | {"row_norm": float(row_norm)}


def _merged(stated: dict[str, Any], column: Column, new: Mapping[str, Any]) -> dict[str, Any]:
    where = f"column {column.name!r}"
    levels = isinstance(column, Categorical) or getattr(column, "kind", "") == "categorical"
    if not levels and not isinstance(column, Numeric | Hats | Dates | Open):
        raise InvalidParameter(f"{where} has no facts to be learnt.")
    for key in new:
        if key not in (_LEVELS if levels else _NUMBERS):
            raise InvalidParameter(f"{where} has no fact {key!r} to be learnt.")
    kept = {key: stated[key] for key in stated if not _is_open(key, stated[key])}
    if "knots" in new:
        gone = {*VIEW, "also"} - {"center"}
        kept = {key: kept[key] for key in kept if key not in gone}
    for key in new:
        if key in kept and key != "center":
            raise InvalidParameter(f"{where}: {key} is stated in the schema, so it stays.")
    if levels:
        full = kept | _plain_levels(new)
        if full.get("categories") or full.get("groups"):
            return full
        nothing: dict[str, Any] = {"categories": []}
    else:
        low, high = _ends(column, new)
        full = _plain_numbers(new, low, high) | kept
        knots = full.get("knots", [low, high])
        if len(knots) > 1 and knots[0] < knots[-1]:
            return full
        nothing = {"knots": knots[:1] or [0.0]}
    # No two cells differ, but one may be missing.
    if not full.get("missing_slot"):
        return {"kind": "ignore"}
    kept = {key: full[key] for key in full if key not in (*VIEW, *_LEVELS, "knots")}
    return kept | nothing


def _is_open(key: str, value: Any) -> bool:
    """Whether a fact is left open; a "?" elsewhere, as in missing = ["?"], is a code."""
    return key in (*_NUMBERS, *_LEVELS) and value in (UNKNOWN, [UNKNOWN])


def _ends(column: Column, new: Mapping[str, Any]) -> tuple[float, float]:
    """Return the bounds of a column, stated or released; a column of hats has none."""
    inner = column.column if isinstance(column, Dates) else column
    low, high = -math.inf, math.inf
    if isinstance(inner, Numeric):
        low, high = inner.views[0].low, inner.views[0].high
    if isinstance(inner, Open) and "knots" not in new:
        ends = new.get("low", inner.low), new.get("high", inner.high)
        if None in ends:
            raise InvalidParameter(f"column {column.name!r}: one of its bounds is still open.")
        low, high = float(ends[0]), float(ends[1])
    return low, high


def _plain_numbers(new: Mapping[str, Any], low: float, high: float) -> dict[str, Any]:
    """Return released numbers as they stand in a file; a centre with noise may lie outside."""
    plain: dict[str, Any] = {key: float(new[key]) for key in new if key != "knots"}
    if "knots" in new:
        plain["knots"] = sorted({float(knot) for knot in new["knots"]})
    if "center" in new:
        plain["center"] = min(max(plain["center"], low), high)
    return plain


def _plain_levels(new: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    if "categories" in new:
        plain["categories"] = [str(level) for level in new["categories"]]
    if new.get("reference") is not None:
        plain["reference"] = str(new["reference"])
    return plain
