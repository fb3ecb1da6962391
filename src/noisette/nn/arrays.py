"""What a caller hands in: records of any shape and labels, checked once and never quoted."""

import copy
import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from noisette._typing import Indices
from noisette._validate import refuse
from noisette.core.cells import Given, number_of
from noisette.errors import InvalidData, InvalidParameter
from noisette.models.inputs import label_vector

_NO_TOKENS = (
    "X must hold whole numbers: the module was trained on tokens, or takes them (from an array of "
    "floats it is given numbers, from a list tokens if it can)."
)
_LARGEST = 1e18  # a larger entry is cut: a change to one record alone, so it is free


class TensorRecords:
    """Rows and labels of all records; called with record numbers, it returns those records.

    A training that gets its batches from here knows whose rows they are.
    """

    def __init__(self, rows: Tensor, labels: Tensor) -> None:
        self._rows, self._labels = rows, labels

    def __call__(self, numbers: Indices) -> tuple[Tensor, Tensor]:
        """Return the rows and labels with these numbers."""
        return self._rows[numbers], self._labels[numbers]

    def blank(self) -> tuple[Tensor, Tensor]:
        """Return a record of zeros, which is nobody's."""
        return self._rows.new_zeros((1, *self._rows.shape[1:])), self._labels.new_zeros(1)


def as_tensor(array: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """Return records as float32, or as int64 (tokens for an embedding)."""
    kind = array.dtype.kind
    if dtype is torch.int64:
        if kind == "O":
            array = np.array(list(map(_token, array.ravel()))).reshape(array.shape)
        elif kind == "f" and not bool((array == np.floor(array)).all()):
            raise InvalidData(_NO_TOKENS)
        return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))
    if kind == "O":
        array = _numbers(array)
    tamed = np.clip(array, -_LARGEST, _LARGEST) if array.dtype.kind == "f" else array
    return torch.from_numpy(np.ascontiguousarray(tamed, dtype=np.float32))


def _token(cell: Any) -> int:
    """Return the whole number that a cell says, whatever others say."""
    number: Any = cell if isinstance(cell, Integral) else number_of(cell)
    if not -(2.0**63) <= number < 2.0**63 or number != math.floor(number):
        raise InvalidData(_NO_TOKENS)
    return int(number)


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    return Given(array.ravel()).numbers().reshape(array.shape)


def made_up(rows: Tensor) -> Tensor:
    """Return four rows that are nobody's, to try a module with before anything is charged.

    Tokens cannot be made up, since only the module knows which it takes: there each position has
    0, the smallest and the largest token, so that one out of range shows here, whoever has it.
    """
    if rows.dtype is torch.int64:
        blank = torch.zeros_like(rows[0])
        return torch.stack([blank, rows.amin(0), rows.amax(0), blank])
    shape = (4, *rows.shape[1:])
    return torch.sin(torch.arange(math.prod(shape), dtype=torch.float32)).view(shape)


def as_rows(X: Any, y: Any, least: int = 1) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the records and the labels as arrays (no labels if y is None)."""
    if sparse.issparse(X):
        raise InvalidData("X is sparse; a network needs a dense array (X.toarray()).")
    # An array of numbers, or of cells as they are, where no container says their type.
    # proof: ROW-LOCAL
    try:
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()
        elif isinstance(X, Sequence):
            X = np.array([row.tolist() if hasattr(row, "tolist") else row for row in X], object)
        array = np.asarray(X)
    except (TypeError, ValueError):
        raise InvalidData("X must be a numeric array, tensor or DataFrame.") from None
    cells = array.dtype.kind == "O"
    wrong = cells and any(isinstance(each, str | bytes | complex) for each in array.flat)
    refuse(
        (array.dtype.kind not in "fiubO" or wrong, "X must hold real numbers."),
        (array.ndim < 2, f"X must have at least two axes, records first; got {array.ndim}."),
        (array.shape[:1] < (least,) or 0 in array.shape[1:], "X is empty."),
        kind=InvalidData,
    )
    each = _numbers(array) if cells else array
    if each.dtype.kind == "f" and not bool(np.isfinite(each).all()):
        raise InvalidData("X contains NaN or infinity; fill the gaps with a public value first.")
    if y is None:
        return array, np.empty(0)
    labels = label_vector(y.numpy() if isinstance(y, Tensor) else y)
    refuse(
        (labels.shape != array.shape[:1],
         "y must be a vector with one label for each record of X."),
        (labels.dtype.kind == "f" and not bool(np.isfinite(labels).all()),
         "y contains NaN or infinity."),
        kind=InvalidData,
    )  # fmt: skip
    return array, labels


def fresh(given: Any) -> nn.Module:
    """Return a module of one's own: a copy of the given one, or what the given function makes."""
    made = given() if callable(given) and not isinstance(given, nn.Module) else copy.deepcopy(given)
    if not isinstance(made, nn.Module):
        raise InvalidParameter("module must be an nn.Module or a function that returns one.")
    return made


def fresh_module(given: Any, rows: NDArray[Any], classes: int) -> tuple[nn.Module, torch.dtype]:
    """Return a module of one's own and the type of its input, tried on blank rows."""
    made = fresh(given).eval()
    whole = rows.dtype.kind in "iubO"  # tokens if the module takes them, else numbers
    failure = ""
    for dtype in (torch.int64, torch.float32) if whole else (torch.float32,):
        try:
            with torch.no_grad():
                found = made(torch.zeros((2, *rows.shape[1:]), dtype=dtype))
        except Exception as error:  # whatever a module of the user raises
            failure = str(error)
            continue
        if not isinstance(found, Tensor):
            kind = "dict" if isinstance(found, Mapping) else type(found).__name__
            raise InvalidParameter(
                f"the module returned a {kind}; PrivateClassifier needs the scores alone, so wrap "
                "it in a module that returns them (of a Hugging Face model: output.logits)."
            )
        shape = tuple(found.shape)
        if shape != (2, classes):
            raise InvalidParameter(
                f"the module must return one score for each of the {classes} classes; for 2 "
                f"rows it returned shape {shape}."
            )
        return made.train(), dtype
    raise InvalidParameter(
        f"the module does not take rows of shape {tuple(rows.shape[1:])}: {failure}"
    )


def same_alone(module: nn.Module, rows: Tensor) -> None:
    """Refuse a module that scores invented rows otherwise alone than together.

    Not for privacy, which needs no such test: training shows the module one record at a time, so
    a module that looks at the whole batch would be trained as something else than what predicts.
    """
    before = module.training
    module.eval()  # dropout is no reason; whoever mixes in training alone has nobody to mix with
    try:
        with torch.no_grad():
            together = module(rows)
            alone = torch.cat([module(row.unsqueeze(0)) for row in rows])
            chance = not torch.equal(together, module(rows))
    finally:
        module.train(before)
    if not chance and not torch.allclose(together, alone, rtol=1e-3, atol=1e-5, equal_nan=True):
        raise InvalidParameter(
            "the module scores a record otherwise in a batch than alone, so it mixes records, and "
            "training, which shows it one record at a time, would train something else; let every "
            "operation treat records apart."
        )
