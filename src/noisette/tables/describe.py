"""A schema in words, one line a column, for the page and for the terminal."""

from noisette.columns import Categorical, Column, Numeric, View
from noisette.tables.schema import Schema

__all__ = ["facts_of"]

_SHOWN = 60


def _view(view: View) -> str:
    parts = [f"{view.low:g} to {view.high:g}"]
    if view.center is not None:
        parts.append(f"centre {view.center:g}")
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


def _of(column: Column) -> tuple[str, str, str]:
    if isinstance(column, Numeric):
        text = "; also ".join(map(_view, column.views))
        if column.missing:
            text += "; missing if " + ", ".join(f"{code:g}" for code in column.missing)
        return (
            column.name,
            "numeric",
            text + ("; a slot for missing" if column.missing_slot else ""),
        )
    if isinstance(column, Categorical):
        names = _named(column.groups)
        text = ", ".join(names[:_SHOWN])
        text += f", ... ({len(names)} in all)" if len(names) > _SHOWN else ""
        text += f"; reference {column.reference}" if column.reference is not None else ""
        text += "; anything else: other" if column.other else "; anything else: reference"
        text += "; a slot for missing" if column.missing_slot else ""
        return column.name, "categorical", text
    return column.name, "ignored", "not used"


def facts_of(schema: Schema) -> list[tuple[str, str, str]]:
    """Return (column, kind, public facts), the target first."""
    labels = [
        name if texts == (name,) else f"{name} ({', '.join(texts)})"
        for name, texts in schema.labels
    ]
    return [(schema.target, "target", ", ".join(labels)), *map(_of, schema.columns)]
