"""What the transformers of numeric columns share: cells, public bounds, encoders of columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette._typing import Floats
from noisette.core.grid import Grid
from noisette.errors import InvalidData, InvalidParameter
from noisette.models import inputs
from noisette.tables.kinds import Column, encode_rows
from noisette.tables.pipeline.sample import Sample
from noisette.tables.pipeline.step import PreparedStep, Step
from noisette.tables.pipeline.transformer import PrivateTransformer


@dataclass(frozen=True, repr=False)
class ColumnCells:
    """One column of an array, for the encoders of columns."""

    cells: NDArray[Any]

    def __len__(self) -> int:
        return len(self.cells)

    def numbers(self) -> Floats:
        """Return numbers, in an array of its own; NaN where the cell is missing."""
        return np.array(self.cells, dtype=np.float64)

    def texts(self) -> Any:
        """Return the cells, which are texts."""
        return self.cells.tolist()


@dataclass(frozen=True)
class NumbersStep(Step):
    """A step on columns of numbers, NaN where a cell is missing, one for each grid of candidates.

    The sample's data are a list of float columns.
    """

    grids: tuple[Grid, ...]

    pure: ClassVar[bool] = True
    ups: ClassVar[tuple[bool | None, ...]]
    """The ways in which columns are snapped to their grids (`core.grid.Placed`)."""

    def check(self, records: Sample, prepared: PreparedStep) -> None:
        """Refuse another number of columns than was planned, or columns of other lengths."""
        super().check(records, prepared)
        shapes = list(map(np.shape, records.data))
        if shapes != [(records.count,)] * len(self.grids):
            raise InvalidData("there must be one column of equal length for each that was planned.")


class EncodingTransformer(PrivateTransformer):
    """Columns become features side by side, by encoders that ``_encoder(name, released)`` makes.

    ``_column(cells)`` is a column as the step takes it.
    """

    sparse_output: bool = False

    def _sample(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        cells = self._cells(X, reset=True)
        weights = self._weights(sample_weight, len(cells))
        return Sample(list(map(self._column, cells.T)), weights, count=len(cells))

    def _encoders(self, names: Iterable[Any]) -> list[Column]:
        return [
            self._encoder(str(name), found)
            for name, found in zip(names, self.released_, strict=True)
        ]

    def _map(self, X: Any) -> Any:
        names = [str(i) for i in range(X.shape[1])]  # their own may occur twice
        encoders = self._encoders(names)
        if not any(encoder.features for encoder in encoders):
            return np.zeros((len(X), 0))
        cells = {name: ColumnCells(X[:, j]) for j, name in enumerate(names)}
        rows: Any = encode_rows(encoders, cells, None)  # CSR where there are many features
        if self.sparse_output:
            return sparse.csr_matrix(rows)
        return rows.toarray() if sparse.issparse(rows) else rows

    def _names_out(self, names: NDArray[Any]) -> list[str]:
        return [name for encoder in self._encoders(names) for name in encoder.features]


class NumbersTransformer(EncodingTransformer):
    """Columns of numbers; NaN is missing, infinity counts as the end of the candidates."""

    bounds: Any
    _refuses = ("not numbers",)
    _welcome = ("allow_nan",)
    _column = staticmethod(np.ascontiguousarray)

    def _cells(self, X: Any, *, reset: bool) -> Any:
        return inputs.numbers(self, X, reset=reset)

    def _known(self, step: Step) -> tuple[str, ...]:
        if self.bounds is None:
            return ()
        return ("the bounds of columns, as given; values outside count as the bound",)


def grids_of(bounds: Any, columns: int) -> tuple[Grid, ...]:
    """Return the candidates of all columns; `bounds` as in the parameter of the transformers."""
    if bounds is None:
        return (Grid(),) * columns
    pairs = list(bounds) if isinstance(bounds, Sequence | np.ndarray) else []
    if len(pairs) == 2 and all(each is None or np.isscalar(each) for each in pairs):
        pairs = [tuple(pairs)] * columns
    if len(pairs) != columns or not all(each is None or np.shape(each) == (2,) for each in pairs):
        raise InvalidParameter(
            "bounds must be None, one pair (low, high) for all columns, or a list with a pair or "
            "None for each column; None stands for an unknown bound in a pair, too."
        )
    return tuple(Grid() if each is None else Grid(*each) for each in pairs)
