"""The columns of a published table as cells for the library's one encoder (`noisette.columns`).

Why zero stands at the typical value and the commonest level is the reference: a mechanism pays
for the longest row it must allow for, so the constant part of a row is paid for and carries no
signal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats
from noisette.columns import Encodes, Numeric, View, encode_rows
from noisette.datasets.base import Table

__all__ = ["ArrayCells", "Encoder", "number"]


def number(
    name: str, low: float, high: float, *,
    center: float = 0.0, width: float = 1.0, curve: str = "linear", square: bool = False,
) -> Numeric:  # fmt: skip
    """Return a column of one feature that is 0 at `center`."""
    return Numeric(name, (View(low, high, center, width, curve, square),))


class ArrayCells:
    """Cells of a published column: an array of numbers, of texts or of their bytes."""

    def __init__(self, values: NDArray[np.generic]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def numbers(self) -> Floats:
        """Return every cell as a number, in an array of its own."""
        return self._values.astype(np.float64)

    def texts(self) -> Sequence[str]:
        """Return every cell as a text."""
        texts: list[str] = self._values.astype(np.str_).tolist()
        return texts


@dataclass(frozen=True)
class Encoder:
    """All columns side by side, divided by `typical_norm`, rows clipped to norm 1."""

    columns: tuple[Encodes, ...]
    typical_norm: float

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all features, in order."""
        return tuple(name for column in self.columns for name in column.features)

    def __call__(self, table: Table) -> Floats:
        """Return the encoded rows, shape (n, d), each of norm at most 1."""
        cells = {name: ArrayCells(values) for name, values in table.items()}
        return encode_rows(self.columns, cells, self.typical_norm)
