"""A schema in words, one line a column, for the page and for the terminal."""

from noisette.tables.kinds.categorical import named
from noisette.tables.schema import Schema

_BOUGHT = "; with facts that were released privately"


def facts_of(schema: Schema) -> list[tuple[str, str, str]]:
    """Return (column, kind, public facts), the target first."""
    target = ", ".join(named(schema.labels))
    if schema.target_bounds is not None:
        ends = ("a bought limit" if end is None else f"{end:g}" for end in schema.target_bounds)
        target = f"a number, from {' to '.join(ends)}"
    rows = [(schema.target, "target", target)]
    rows += [(column.name, column.kind, column.describe()) for column in schema.columns]
    return [(name, kind, text + _BOUGHT * (name in schema.learnt)) for name, kind, text in rows]


def divided(schema: Schema) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Return what is stated of all columns, and what was released about those that were learnt."""
    rows = facts_of(schema)
    learnt = [
        (name, kind, text.removesuffix(_BOUGHT))
        for name, kind, text in rows
        if name in schema.learnt
    ]
    stated = [
        (name, kind, "see what was learnt, above" if name in schema.learnt else text)
        for name, kind, text in rows
    ]
    return stated, learnt
