"""Row-local encoders of columns: a cell and public facts -> features.

One kind of column is one file and one line in `KINDS`; `hats.py` is what bought knots make of a
number, `kind.py` has columns that are ignored or whose facts are still to be learnt.

Out-of-range, unlisted and unreadable cells are mapped silently. A warning or a count would tell
something about the rows, and no theorem has paid for it.
"""

from typing import Any

from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import Cells, Column
from noisette.tables.kinds.categorical import CATEGORICAL, Categorical
from noisette.tables.kinds.dates import DATE, Days, day_text
from noisette.tables.kinds.facts import UNKNOWN, canonical, flag, only, text_list
from noisette.tables.kinds.hashed import HASHED, Hashed
from noisette.tables.kinds.hats import Hats
from noisette.tables.kinds.kind import IGNORE, Ignored, Open, Stated
from noisette.tables.kinds.numeric import CURVES, NUMERIC, Numeric, View
from noisette.tables.kinds.rows import encode_rows, is_sparse
from noisette.tables.kinds.weekday import WEEKDAY

__all__ = [
    "CURVES",
    "KINDS",
    "Categorical",
    "Cells",
    "Column",
    "Days",
    "Hashed",
    "Hats",
    "Ignored",
    "Numeric",
    "Open",
    "View",
    "canonical",
    "column_of",
    "day_text",
    "encode_rows",
    "is_sparse",
]

KINDS = {kind.name: kind for kind in (NUMERIC, CATEGORICAL, DATE, WEEKDAY, HASHED, IGNORE)}
"""Every kind of column that a schema can name; the first that knows a type is guessed from it."""


def column_of(
    name: str, facts: Any, missing: tuple[str, ...], *, learn: bool = False, learnt: bool = False
) -> Column:
    """Return one checked column; `missing` are the codes that hold for the whole table."""
    where = f"column {name!r}"
    if not isinstance(facts, dict):
        raise InvalidParameter(f"{where} must be a table, [columns.{name}].")
    kind = facts.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        state = "is still to be filled in" if kind in (None, UNKNOWN) else f"is {kind!r}"
        *most, last = (f'"{each}"' for each in KINDS)
        raise InvalidParameter(f"{where}: kind {state}; use {', '.join(most)} or {last}.")
    keys = KINDS[kind].keys
    if keys is None:
        return KINDS[kind].parse(Stated(name, facts))
    codes = (*missing, *text_list(facts.get("missing", []), f"{where}: missing", empty=True))
    only(facts, ("kind", *keys, "missing", "missing_slot"), where)
    slot = flag(facts, "missing_slot", False, where)
    return KINDS[kind].parse(Stated(name, facts, codes, slot, learn, learnt))
