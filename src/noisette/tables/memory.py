"""Cells of tables in memory: pandas, polars and pyarrow tables, dictionaries of arrays.

None of these packages is imported here: whoever hands in such a table has it. A duration is a
number of days; an interval or a period of pandas is its text. A value that is none of this, nor a
number, a text, a truth value or a date, is missing, in silence, as in a file.
"""

import math
import numbers as kinds
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette.columns import Cells
from noisette.errors import InvalidData
from noisette.tables.cells import (
    ArrowCells,
    NumberCells,
    Signs,
    TextCells,
    is_moment,
    is_text,
)
from noisette.tables.reading import plain

__all__ = ["ValueCells", "columns_of"]


class ValueCells:
    """Values of any type, one by one; `dates` says that their type is one of dates."""

    def __init__(self, values: Sequence[Any], signs: Signs, *, dates: bool = False) -> None:
        self._values, self._signs, self.dates = values, signs, dates

    def __len__(self) -> int:
        return len(self._values)

    def numbers(self) -> Floats:
        """Return numbers, truth values as 0 and 1, texts read as numbers."""
        texts = [value if isinstance(value, str) else "" for value in self._values]
        found = TextCells(texts, *self._signs).numbers()
        for place, value in enumerate(self._values):
            if not isinstance(value, str):
                found[place] = _number(value)
        return found

    def texts(self) -> Sequence[str]:
        """Return texts; a date as in ISO 8601."""
        return list(map(_text, self._values))


_OF_PANDAS = ("Interval", "Period")


_REAL: Any = kinds.Real | Decimal | np.bool_


def _number(value: Any) -> float:
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    if not isinstance(value, _REAL):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, _REAL | np.datetime64 | date) or type(value).__name__ in _OF_PANDAS:
        text = str(value)
        return "" if text in ("nan", "NaN", "NaT", "sNaN") else text
    return ""


def columns_of(table: Any, signs: Signs) -> dict[str, Cells]:
    """Return the columns of a table in memory by name; names that occur twice are refused."""
    found: list[tuple[Any, Cells]]
    home = type(table).__module__.partition(".")[0]
    if home == "pandas" and hasattr(table, "iloc") and getattr(table, "ndim", 0) == 2:
        found = [
            (name, _of_array(table.iloc[:, place], signs))
            for place, name in enumerate(table.columns)
        ]
    elif home == "polars" and hasattr(table, "get_columns"):
        found = [(column.name, _of_polars(column, signs)) for column in table.get_columns()]
    elif home == "pyarrow" and hasattr(table, "column_names"):
        found = [
            (name, _of_arrow(table.column(place), signs))
            for place, name in enumerate(table.column_names)
        ]
    elif isinstance(table, Mapping):
        found = [(name, _of_array(column, signs)) for name, column in table.items()]
    else:
        raise InvalidData(
            "a table is a data frame of pandas or polars, a pyarrow table or a dictionary of "
            f"columns; got an object of type {type(table).__name__}."
        )
    return _named(found)


def _named(found: list[tuple[Any, Cells]]) -> dict[str, Cells]:
    columns: dict[str, Cells] = {}
    for name, cells in found:
        if str(name) in columns:
            raise InvalidData(f"the table has two columns named {str(name)!r}; rename one.")
        columns[str(name)] = cells
    if not columns:
        raise InvalidData("the table has no columns.")
    if len({len(cells) for cells in columns.values()}) != 1:
        raise InvalidData("the columns of the table must be of one length.")
    return columns


def _of_array(values: Any, signs: Signs) -> Cells:
    """Return the cells of a pandas column, an array or a list."""
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise InvalidData("each column of a table must be a list or an array.")
    if getattr(values, "ndim", 1) != 1:
        raise InvalidData("each column of a table must have one dimension.")
    if kind in "biuf" and isinstance(getattr(values, "dtype", None), np.dtype):
        return NumberCells(np.asarray(values))
    if kind == "m" and isinstance(values.dtype, np.dtype):
        return NumberCells(np.asarray(values) / np.timedelta64(1, "D"))
    if kind == "M" and isinstance(values, np.ndarray):  # tolist() makes numbers of nanoseconds
        return ValueCells(list(values), signs, dates=True)
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    return ValueCells(listed, signs, dates=kind == "M")


def _of_polars(column: Any, signs: Signs) -> Cells:
    if column.dtype.is_numeric() and not column.dtype.is_decimal() and not column.null_count():
        return NumberCells(column.to_numpy())
    lasts = str(column.dtype).startswith("Duration")
    return ValueCells(column.to_list(), signs, dates=column.dtype.is_temporal() and not lasts)


def _of_arrow(column: Any, signs: Signs) -> Cells:
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if hasattr(array, "chunks"):  # a column without rows has no chunk
        return ValueCells(array.to_pylist(), signs)
    array = plain(array)
    kind = str(array.type)
    if is_moment(array.type):
        return ValueCells(ArrowCells(array).texts(), signs, dates=True)
    if is_text(array.type) or kind in _ARROW_NUMBERS:
        return ArrowCells(array, *signs)
    return ValueCells(array.to_pylist(), signs)


_ARROW_NUMBERS = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "halffloat",
    "float", "double",
)  # fmt: skip
