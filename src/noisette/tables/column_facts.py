"""From the dictionary of one column in a schema file to a checked column; every fault is named."""

from typing import Any

from noisette.errors import InvalidParameter
from noisette.tables.category_facts import categorical_of, hashed_of
from noisette.tables.fact_checks import UNKNOWN, text_list
from noisette.tables.kinds import Column, Ignored
from noisette.tables.number_facts import date_of, numeric_of

KINDS = ("numeric", "categorical", "date", "hashed", "ignore")


def column_of(
    name: str, facts: Any, missing: tuple[str, ...], *, learn: bool = False, learnt: bool = False
) -> Column:
    """Return one checked column; `missing` are the codes that hold for the whole table.

    With `learn` facts may be left open, "?" or not written; those of a `learnt` one were released.
    """
    where = f"column {name!r}"
    if not isinstance(facts, dict):
        raise InvalidParameter(f"{where} must be a table, [columns.{name}].")
    kind = facts.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        state = "is still to be filled in" if kind in (None, UNKNOWN) else f"is {kind!r}"
        *most, last = (f'"{each}"' for each in KINDS)
        raise InvalidParameter(f"{where}: kind {state}; use {', '.join(most)} or {last}.")
    if kind == "ignore":
        return Ignored(name)
    codes = (*missing, *text_list(facts.get("missing", []), f"{where}: missing", empty=True))
    if kind == "numeric":
        return numeric_of(name, facts, codes, learn=learn)
    if kind == "date":
        return date_of(name, facts, codes, learn=learn)
    if kind == "hashed":
        return hashed_of(name, facts, codes)
    return categorical_of(name, facts, codes, learn=learn, learnt=learnt)
