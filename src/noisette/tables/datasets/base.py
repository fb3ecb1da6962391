"""Encoded rows of a table that everybody knows, and the encoder that makes them.

Why zero stands at the typical value and the commonest level is the reference: a mechanism pays
for the longest row it must allow for, so the constant part of a row is paid for and carries no
signal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from noisette._typing import Floats, Integers
from noisette.core.cells import given
from noisette.tables.cells import ValueCells
from noisette.tables.kinds import Column, Numeric, View, encode_rows

Table = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Dataset:
    """Encoded features and labels of one split: rows to train on, and rows held out.

    Rows have norm at most `norm_bound`, `y` are places in `classes` (0, 1, ...). `public` lists
    every fact that the encoding takes as known beforehand, with its source; `unit` says what one
    row stands for, `persons` whose row each one is, where one person may have several.
    """

    name: str
    X: Floats
    y: Integers
    X_test: Floats
    y_test: Integers
    classes: Integers
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    norm_bound: float
    public: tuple[str, ...]
    unit: str
    persons: NDArray[np.str_] | None = None
    persons_test: NDArray[np.str_] | None = None

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"<Dataset {self.name}: {n} + {len(self.X_test)} rows, d={d}>"


def number(
    name: str, low: float, high: float, *,
    center: float = 0.0, width: float = 1.0, curve: str = "linear", square: bool = False,
) -> Numeric:  # fmt: skip
    """Return a column of one feature that is 0 at `center`."""
    return Numeric(name, (View(low, high, center, width, curve, square),))


@dataclass(frozen=True)
class Encoder:
    """All columns side by side, divided by `typical_norm`, rows clipped to norm 1."""

    columns: tuple[Column, ...]
    typical_norm: float

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all features, in order."""
        return tuple(name for column in self.columns for name in column.features)

    def __call__(self, table: Table) -> Floats:
        """Return the encoded rows, shape (n, d), each of norm at most 1."""
        cells = {name: ValueCells(given(values, "")) for name, values in table.items()}
        return encode_rows(self.columns, cells, self.typical_norm)


@dataclass(frozen=True)
class InventedTable:
    """An invented table with its schema, ready for a data frame or a CSV file.

    Parameters
    ----------
    name : str
        What it is called.
    columns : mapping of str to ndarray
        The raw columns, the target and an identifier among them.
    schema : mapping
        The public facts.
    encoder : Encoder
        Makes its rows.
    held_out : ndarray of bool
        The rows that are not trained on, a fifth of them; all rows of each person.
    unit : str
        What one row stands for.
    persons : mapping, optional
        The facts about persons, where a person may have several rows.

    Examples
    --------
    >>> from noisette.datasets import mixed_table
    >>> table = mixed_table(n=100)
    >>> table.target, table.dataset()
    ('repaid', <Dataset mixed: 80 + 20 rows, d=21>)

    """

    name: str
    columns: Mapping[str, NDArray[Any]]
    schema: Mapping[str, Any]
    encoder: Encoder
    held_out: NDArray[np.bool_]
    unit: str
    persons: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The name of the label's column."""
        return str(self.schema["target"])

    @property
    def person(self) -> str:
        """The name of the identifier's column."""
        return str(self.persons["person"])

    @property
    def person_schema(self) -> dict[str, Any]:
        """The schema that names the identifier, for guarantees about persons."""
        return {**self.schema, **self.persons}

    def rows(self, *, held_out: bool) -> dict[str, NDArray[Any]]:
        """Return the raw columns of those who are held out, or of the others."""
        chosen = self.held_out == held_out
        return {name: values[chosen] for name, values in self.columns.items()}

    def dataset(self) -> Dataset:
        """Return the table encoded row-locally, rows of norm at most 1."""
        classes, out = tuple(self.schema["classes"]), self.held_out
        X = self.encoder(self.columns)
        y = (self.columns[self.target] == classes[1]).astype(np.int64)
        whose = self.columns[self.person] if self.persons else None
        return Dataset(
            self.name, X[~out], y[~out], X[out], y[out], np.arange(2), classes,
            self.encoder.features, norm_bound=1.0, unit=self.unit,
            public=("bounds and levels of the schema: by construction",),
            persons=None if whose is None else whose[~out],
            persons_test=None if whose is None else whose[out],
        )  # fmt: skip


def normal(generator: np.random.Generator, n: int) -> Floats:
    """Return invented normal numbers, the same with every version of NumPy."""
    return np.asarray(ndtri(np.clip(generator.random(n), 2.0**-54, 1.0 - 2.0**-53)))
