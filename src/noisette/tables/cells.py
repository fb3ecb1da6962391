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
from noisette.core.cells import Given, number_of, text_of
from noisette.errors import MissingExtra

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
            return np.array(list(map(number_of, cells)), dtype=np.float64)

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
    sizes = list(map(len, groups))
    good = groups and 1 <= len(first) <= 3 and sizes[-1] == 3 and set(sizes) <= {2, 3}
    digits = "".join([first, *groups])
    return f"{sign}{digits}{point}{rest}" if good and digits.isdecimal() else ""


class ValueCells:
    """Cells that have a type: of memory, of a Parquet file, or numbers in parts (`Spilled`)."""

    def __init__(self, given: Given, signs: Signs = (".", "")) -> None:
        self.given, self._signs = given, signs

    def __len__(self) -> int:
        return len(self.given)

    def numbers(self) -> Floats:
        """Return numbers, truth values as 0 and 1, texts read as numbers."""
        found = self.given.numbers()
        if self._signs == (".", "") or self.given.values.dtype.kind not in "OU":
            return found
        cells = self.given.cells().tolist()
        written = [isinstance(cell, str | bytes) for cell in cells]
        texts = [text_of(cell) if text else "" for cell, text in zip(cells, written, strict=True)]
        return np.where(written, TextCells(texts, *self._signs).numbers(), found)

    def texts(self) -> Sequence[str]:
        """Return texts: whole numbers without a point, a date as in ISO 8601."""
        return self.given.texts()

    def coded(self) -> tuple[NDArray[Any], Sequence[str]]:
        """Return the number of a text for every cell, and the texts; not each need occur."""
        return self.given.coded()

    def take(self, rows: Any) -> "ValueCells":
        """Return some of the cells."""
        return ValueCells(self.given.take(rows), self._signs)


class CodedCells:
    """Texts of which many are alike: the number of a text for every cell, an array or `Spilled`."""

    def __init__(self, codes: Any, known: Sequence[str], signs: Signs) -> None:
        self._codes, self._known, self._signs = codes, known, signs

    def __len__(self) -> int:
        return len(self._codes)

    def numbers(self) -> Floats:
        """Read every text as a number, once."""
        return np.asarray(TextCells(self._known, *self._signs).numbers()[self._codes[:]])

    def texts(self) -> Sequence[str]:
        """Return the text of every cell."""
        return [self._known[code] for code in self._codes[:]]

    def coded(self) -> tuple[NDArray[Any], Sequence[str]]:
        """Return the number of a text for every cell, and the texts; not each need occur."""
        return self._codes[:], self._known

    def take(self, rows: Any) -> "CodedCells":
        """Return some of the cells."""
        return CodedCells(self._codes[rows], self._known, self._signs)
