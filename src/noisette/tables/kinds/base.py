"""What all columns share: the text of a cell, the cells, and the promise to encode row by row."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats

_WHOLE = re.compile(r"[+-]?\d+\.0*")
_TRUTH = {"true": "true", "True": "true", "TRUE": "true"} | {
    "false": "false", "False": "false", "FALSE": "false",
}  # fmt: skip

Entries = tuple[NDArray[np.int32], Floats]
"""Feature and value of everything in a row that may differ from zero, each of shape (n, nonzeros).

The features of one row that have a value other than 0 are all different.
"""


def canonical(value: object) -> str:
    """Return the text by which cells and categories are compared.

    Blanks around it do not count; "1.0" and "1" are the same, and so are "True" and "true".
    """
    text = str(value).strip()
    if text in _TRUTH:
        return _TRUTH[text]
    return text.split(".")[0] if _WHOLE.fullmatch(text) else text


class Cells(Protocol):
    """One column of a piece of a table."""

    def __len__(self) -> int:
        """Return the number of cells."""

    def numbers(self) -> Floats:
        """Return numbers, in an array of its own; NaN where the cell is missing."""

    def texts(self) -> Sequence[str]:
        """Return texts; "" where the cell is missing."""


class Encodes(Protocol):
    """What a table needs of a column: its published name, its features and how to fill them."""

    @property
    def name(self) -> str:
        """The published name of the column."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features it becomes."""

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write the features of all cells into `out`, shape (n, len(features))."""


@runtime_checkable
class EncodesSparsely(Encodes, Protocol):
    """A column with few features that differ from zero at a time, whatever the cell."""

    @property
    def nonzeros(self) -> int:
        """The most features of one cell that differ from zero."""

    def entries(self, cells: Cells) -> Entries:
        """Return the entries of all cells that may differ from zero."""


def for_texts(cells: Cells, value: Callable[[str], Any], dtype: Any) -> NDArray[Any]:
    """Return `value` of the text of every cell; each text is looked at once."""
    coded = getattr(cells, "coded", None)
    if coded is None:
        texts = cells.texts()
        known = {text: value(text) for text in set(texts)}
        return np.array([known[text] for text in texts], dtype=dtype)
    codes, texts = coded()
    if len(texts) <= len(codes):
        return np.asarray(np.array([value(text) for text in texts], dtype=dtype)[codes])
    used, codes = np.unique(codes, return_inverse=True)
    found: NDArray[Any] = np.array([value(texts[code]) for code in used], dtype=dtype)
    return np.asarray(found[codes])


def in_slots(slots: NDArray[Any], count: int, value: float) -> Entries:
    """Return entries of one feature for each row; a slot outside of 0 .. count - 1 is none."""
    known = (slots >= 0) & (slots < count)
    features = np.where(known, slots, 0).astype(np.int32)
    return features[:, None], np.where(known, value, 0.0)[:, None]


def scatter(entries: Entries, out: Floats) -> None:
    """Write entries into `out` and zero everywhere else."""
    features, values = entries
    out[:] = 0.0
    rows, places = np.nonzero(values)
    out[rows, features[rows, places]] = values[rows, places]


@dataclass(frozen=True)
class Ignored:
    """A column that is not used."""

    name: str

    @property
    def features(self) -> tuple[str, ...]:
        """No feature."""
        return ()

    @property
    def mean_square(self) -> float:
        """It adds nothing to the length of a row."""
        return 0.0

    @property
    def most_square(self) -> float:
        """It adds nothing to the length of a row."""
        return 0.0

    @property
    def nonzeros(self) -> int:
        """No feature differs from zero."""
        return 0

    def entries(self, cells: Cells) -> Entries:
        """Return no entry: the cells are not looked at."""
        shape = (len(cells), 0)
        return np.zeros(shape, dtype=np.int32), np.zeros(shape)

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write nothing: the cells are not looked at."""
