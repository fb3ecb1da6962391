"""The cells of one column, as numbers or as texts, whatever file they came from.

A cell is missing if it is empty, null, NaN or (where a number is wanted) cannot be read as one.
Nothing here says how many such cells there are: that is a fact about the rows.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.errors import MissingExtra

__all__ = [
    "ArrowCells",
    "CodedCells",
    "NumberCells",
    "Signs",
    "TextCells",
    "arrow",
    "is_moment",
    "is_text",
]

Signs = tuple[str, str]
"""The decimal sign and the thousands sign of numbers that are written as texts."""


def arrow(module: str = "pyarrow") -> Any:
    """Return pyarrow, or one of its modules."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(
            "reading Parquet needs pyarrow: pip install 'noisette[parquet]', or save the table as "
            "CSV."
        ) from None


def is_text(kind: Any) -> bool:
    """Whether a Parquet type holds texts."""
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_moment(kind: Any) -> bool:
    """Whether a Parquet type holds dates, with or without a time."""
    types = arrow().types
    return bool(types.is_date(kind) or types.is_timestamp(kind))


class TextCells:
    """Cells of a CSV file."""

    def __init__(self, cells: Sequence[str], decimal: str = ".", thousands: str = "") -> None:
        self._cells, self._decimal, self._thousands = cells, decimal, thousands

    def __len__(self) -> int:
        return len(self._cells)

    def numbers(self) -> Floats:
        """Read every cell as a number."""
        cells = self._cells
        if self._thousands:
            cells = [_without(cell, self._thousands, self._decimal) for cell in cells]
        if self._decimal != ".":
            cells = [cell.replace(self._decimal, ".") for cell in cells]
        try:
            return np.array(list(map(float, cells)), dtype=np.float64)
        except ValueError:
            return np.array(list(map(_number, cells)), dtype=np.float64)

    def texts(self) -> Sequence[str]:
        """Return the cells as they stand."""
        return self._cells


def _without(cell: str, thousands: str, decimal: str) -> str:
    """Return a number without its thousands signs; where one stands oddly, nothing is read.

    The last group before the decimal sign has three digits, others two or three (12,34,567).
    """
    cell = cell.strip()
    if thousands not in cell:
        return cell
    sign = cell[0] if cell[0] in "+-" else ""
    whole, point, rest = cell[len(sign) :].partition(decimal)
    first, *groups = whole.split(thousands)
    sizes = [len(group) for group in groups]
    good = groups and 1 <= len(first) <= 3 and sizes[-1] == 3 and set(sizes) <= {2, 3}
    digits = "".join([first, *groups])
    return f"{sign}{digits}{point}{rest}" if good and digits.isdecimal() else ""


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


class ArrowCells:
    """Cells of a Parquet file: a pyarrow array of a plain type."""

    def __init__(self, array: Any, decimal: str = ".", thousands: str = "") -> None:
        self._array, self._decimal, self._thousands = array, decimal, thousands

    def __len__(self) -> int:
        return len(self._array)

    def numbers(self) -> Floats:
        """Return numbers, truth values as 0 and 1, texts read as numbers."""
        pa = arrow()

        kind = self._array.type
        if pa.types.is_null(kind):
            return np.full(len(self._array), np.nan)
        if is_text(kind):
            return TextCells(self.texts(), self._decimal, self._thousands).numbers()
        cast = self._array.cast(pa.float64(), safe=False)
        return np.array(cast.to_numpy(zero_copy_only=False), dtype=np.float64)

    def coded(self) -> tuple[NDArray[np.int32], Sequence[str]]:
        """Return the number of a text for every cell, and the texts; not each need occur."""
        found = self._array.dictionary_encode("encode")
        texts = ArrowCells(found.dictionary).texts()
        return np.asarray(found.indices.to_numpy(zero_copy_only=False), dtype=np.int32), texts

    def texts(self) -> Sequence[str]:
        """Return texts: whole numbers without a point, truth values as true and false."""
        if is_moment(self._array.type):
            return [_moment(value) for value in self._array]
        values = self._array.to_pylist()
        return ["" if value is None or value != value else str(value) for value in values]


def _moment(value: Any) -> str:
    """Return a date as a text; one beyond the calendar is missing."""
    try:
        found = value.as_py()
    except (ValueError, OverflowError):
        return ""
    return "" if found is None else str(found)


class NumberCells:
    """An array of numbers or truth values."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def numbers(self) -> Floats:
        """Return the numbers, truth values as 0 and 1."""
        return np.array(self._values, dtype=np.float64)

    def texts(self) -> Sequence[str]:
        """Return the numbers as texts."""
        return ["" if value != value else str(value) for value in self._values.tolist()]


class CodedCells:
    """Texts of which many are alike: the number of a text for every cell."""

    def __init__(self, codes: NDArray[np.int32], known: Sequence[str], signs: Signs) -> None:
        self._codes, self._known, self._signs = codes, known, signs

    def __len__(self) -> int:
        return len(self._codes)

    def numbers(self) -> Floats:
        """Read every text as a number, once."""
        return TextCells(self._known, *self._signs).numbers()[self._codes]

    def texts(self) -> Sequence[str]:
        """Return the text of every cell."""
        known = self._known
        return [known[code] for code in self._codes]

    def coded(self) -> tuple[NDArray[np.int32], Sequence[str]]:
        """Return the number of a text for every cell, and the texts; not each need occur."""
        return self._codes, self._known
