"""A schema in words, one line a column, for the page and for the terminal."""

from collections.abc import Callable, Sequence

from noisette.tables.kinds import Categorical, Column, Dates, Hashed, Hats, Numeric, Open, View
from noisette.tables.kinds.dates import day_text
from noisette.tables.schema import Schema

_SHOWN = 60
_BOUGHT = "; with facts that were released privately"


def _view(view: View, shown: Callable[[float], str]) -> str:
    parts = [f"{shown(view.low)} to {shown(view.high)}"]
    if view.center is not None:
        parts.append(f"centre {shown(view.center)}")
    if view.curve != "linear":
        parts.append(view.curve)
    if view.square:
        parts.append("squared")
    if view.width != 2.0:
        parts.append(f"width {view.width:g}")
    return ", ".join(parts)


def _named(groups: tuple[tuple[str, tuple[str, ...]], ...]) -> list[str]:
    return [
        name if values == (name,) else f"{name} ({', '.join(values)})" for name, values in groups
    ]


def _shown(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _numbers(column: Numeric | Hats, shown: Callable[[float], str]) -> str:
    if isinstance(column, Hats):
        text = "knots " + _shown([shown(knot) for knot in column.knots])
        text += f"; centre {shown(column.center)}" if column.center is not None else ""
    else:
        text = "; also ".join(_view(view, shown) for view in column.views)
    if column.missing:
        text += "; missing if " + ", ".join(f"{code:g}" for code in column.missing)
    return text + ("; a slot for missing" if column.missing_slot else "")


def _of(column: Column) -> tuple[str, str, str]:
    if isinstance(column, Numeric | Hats):
        return column.name, "numeric", _numbers(column, "{:g}".format)
    if isinstance(column, Dates):
        text = _numbers(column.column, day_text)
        text += f"; written as {', '.join(column.forms)}" if column.forms else ""
        return column.name, "date", text
    if isinstance(column, Categorical):
        text = _shown(_named(column.groups))
        if column.patterns:
            text += "; codes " + _shown([f"{code} ({group})" for code, group in column.patterns])
        text += f"; reference {column.reference}" if column.reference is not None else ""
        text += "; anything else: other" if column.other else "; anything else: reference"
        text += "; a slot for missing" if column.missing_slot else ""
        return column.name, "categorical", text
    if isinstance(column, Hashed):
        text = f"{column.buckets} buckets of a public hash"
        return column.name, "hashed", text + "; a slot for missing" * column.missing_slot
    if isinstance(column, Open):
        return column.name, column.kind, "facts still to be learnt"
    return column.name, "ignored", "not used"


def facts_of(schema: Schema) -> list[tuple[str, str, str]]:
    """Return (column, kind, public facts), the target first."""
    labels = [
        name if texts == (name,) else f"{name} ({', '.join(texts)})"
        for name, texts in schema.labels
    ]
    target = ", ".join(labels)
    if schema.target_bounds is not None:
        ends = ("a bought limit" if end is None else f"{end:g}" for end in schema.target_bounds)
        target = f"a number, from {' to '.join(ends)}"
    rows = [(schema.target, "target", target), *map(_of, schema.columns)]
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
