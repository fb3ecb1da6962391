"""What a caller hands in: rows, labels and weights, checked once and never quoted.

scikit-learn's own messages print parts of the array in some cases ("could not convert string to
float: 'Smith'"), so each of them is passed on only if it is known to speak of shapes and types.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from noisette._scikit import check_array, validate_data
from noisette._typing import Floats
from noisette.core.adjacency import Adjacency
from noisette.core.cells import UNTOLD, Given, given
from noisette.core.parts import Parted, each, joined, summed
from noisette.errors import InvalidData, InvalidParameter
from noisette.fitting.algorithms.levels import Levels
from noisette.fitting.losses import Loss, Softmax
from noisette.fitting.partitions.collections import beside, is_dask, parted
from noisette.fitting.partitions.columns import DaskColumn
from noisette.fitting.partitions.persons import unit_beside
from noisette.fitting.units import RECORDS, Unit

_SAFE = (
    "Complex data not supported",
    "Sparse data was passed",
    "Found array with",
    "Found input variables with inconsistent numbers of samples",
    "Input X contains",
    "Input y contains",
    "requires y to be passed",
    "y should be a 1d array",
    "y cannot be None",
    "features, but",
    "The feature names should match those that were passed during fit.",
)
_TYPES = ["float64", "float32"]

_MOST_CLASSES, _NEVER = 10_000, " (infinity is never read)"
MISSING = ("refuse", "zero")
MISSING_AS_ZERO = "Missing entries (NaN) of X were read as 0, row by row, which costs nothing."
# far below 1e100, from where on the kernels of SGD leave a row out
_LARGEST = {"float64": 1e90, "float32": 1e15}


class _NoNumber(InvalidData, TypeError):
    """A cell is no number: scikit-learn's contract asks for a TypeError there."""


def without_data(check: Callable[..., Any], *given: Any, hint: str = "", **options: Any) -> Any:
    """Return ``check(...)``; re-raise what a wrong entry raises in one sentence that quotes none.

    `hint` says what to do about a NaN in X.
    """
    try:
        return check(*given, **options)
    except (ValueError, TypeError, OverflowError) as error:  # a date, a number beyond float64
        line = str(error).splitlines()[0] if str(error) else ""
        of_cell = isinstance(error, TypeError) and "argument must be" in line
    # outside the except block, so that the original does not travel along as the context
    if of_cell:
        raise _NoNumber("each cell of the argument must be a number, or a string of a number.")
    if "Expected 2D array" in line or "Reshape your data" in line:
        line = "X must be a matrix with one record per row; Reshape your data to two dimensions."
    elif "NaN" in line or "infinity" in line:
        line = f"Input {'y' if line.startswith('Input y') else 'X'} contains NaN or infinity."
        if hint and line.startswith("Input X"):
            line = f"{line[:-1]}; {hint}."
    elif "inconsistent numbers of samples" in line:  # how many is private under add-remove
        line = "Found input variables with inconsistent numbers of samples."
    elif not any(phrase in line for phrase in _SAFE):
        line = "X must be a matrix of real numbers and y a vector of labels, one for each row."
    raise InvalidData(line)


def rows_and_targets(
    estimator: Any, X: Any, y: Any, least: int, *, tame: bool = True, numbers: bool = False
) -> tuple[Any, NDArray[Any]]:
    """Return X as float64, float32 or CSR and y as labels or `numbers`; sets ``n_features_in_``.

    ``tame=False`` saves the sweep for huge entries where the training blanks such rows itself.
    """
    plain = (
        not numbers
        and type(X) is type(y) is np.ndarray
        and X.ndim == 2
        and y.shape == X.shape[:1]
        and str(X.dtype) in _TYPES
        and y.dtype.kind in "biu"
        and X.flags.c_contiguous
        and X.shape[0] >= least
        and X.shape[1] > 0
    )
    # a sum of squares below a limit proves every entry finite and smaller: NaN compares as False
    with np.errstate(over="ignore", invalid="ignore"):
        sound = plain and bool(np.vdot(X, X) <= _LARGEST[str(X.dtype)] ** 2)
    if sound:  # neither a check of scikit-learn's nor taming is needed
        # what scikit-learn's `validate_data` sets for an array without names
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        return X, y
    if y is None:
        raise InvalidData(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    if is_dask(X) or (isinstance(X, Parted) and not numbers):
        X, y = parted_rows(estimator, X, y, least)
    else:
        X, y = _validated(estimator, X, y, ensure_min_samples=least, y_numeric=numbers)
        X = tamed(X) if tame else X
    return X, each(finite_numbers, y) if numbers else y


def finite_numbers(y: Any) -> Floats:
    """Return targets as a vector of finite numbers."""
    target = _vector_or_none(y)
    if target is None:  # raised here, so that the original does not travel along as the context
        raise InvalidData("y must be a vector of finite numbers, one for each row of X.")
    return target


# --- rows in partitions --------------------------------------------------------------------------


def parted_rows(estimator: Any, X: Any, y: Any, least: int) -> tuple[Any, Any]:
    """Return rows and labels in partitions of Dask or of a file, checked where they lie.

    Huge entries are always cut: whether a row is left out may not depend on where it stands.
    """
    # proof: ROUND-ANY-ORDER
    rows, labels = parted(X, y)
    if rows.ndim != 2:
        raise InvalidData("X must be a matrix with one record per row.")
    head: Any = np.empty((0, rows.shape[1]))
    if hasattr(X, "columns"):
        import pandas as pd  # which tables of Dask are made of

        head = pd.DataFrame(columns=list(X.columns))
    without_data(validate_data, estimator, head, skip_check_array=True)
    names = [str(name) for name in getattr(X, "columns", ())]
    rows.is_sparse = rows.is_sparse or sparse.issparse(getattr(X, "_meta", None))
    kind = partial(_part_rows, estimator.missing == "zero", rows.is_sparse, names)
    rows = rows.apply(kind, (), None)
    rows, labels = rows.kept([rows, labels])
    count = int(summed(_counted, rows, labels))
    if count < least:
        raise InvalidData(f"X must have at least {least} rows.")
    return rows.sized(count), labels.sized(count)


def _part_rows(zero: bool, thin: bool, names: list[str], part: Any) -> Any:
    """Return one partition as a matrix of finite numbers, dense or CSR in float64."""
    if names and [str(name) for name in part.columns] != names:
        raise InvalidData("a partition has other columns than the table, or in another order.")
    if sparse.issparse(part) != thin:
        raise InvalidData(
            "chunks are sparse matrices where the array says so, in all of them: "
            "X.map_blocks(scipy.sparse.csr_matrix)."
        )
    hint = "" if zero else f"missing='zero' reads NaN as 0{_NEVER}"
    found = without_data(
        check_array, part, accept_sparse="csr" if thin else False,
        dtype="float64" if thin else _TYPES, ensure_min_samples=0, hint=hint,
        ensure_all_finite="allow-nan" if zero else True,
    )  # fmt: skip
    return tamed(_filled(found) if zero else found)


def _counted(rows: Any, labels: Any) -> int:
    if len(labels) != rows.shape[0]:
        raise InvalidData("Found input variables with inconsistent numbers of samples.")
    return int(rows.shape[0])


def weights(
    name: str, values: Any, rows: Any, low: float, high: float, cap: str | None = None
) -> Any:
    """Return one number in [low, high] for each of the rows, which may live in partitions."""
    if not isinstance(rows, DaskColumn):
        if is_dask(values):
            raise InvalidData(f"{name} lives in partitions, so X must, too.")
        return vector(name, values, rows.shape[0], low, high, cap)
    if np.isscalar(values):
        values = np.full(rows.shape[0], values)
    check = partial(_part_weights, partial(vector, name, low=low, high=high, cap=cap))
    found = beside(rows, values).apply(check, (rows,), None)
    summed(len, found)  # whatever is wrong is said before anything is charged
    return found


def _part_weights(check: Callable[..., Floats], values: Any, rows: Any) -> Floats:
    return check(values, rows.shape[0])


def matrix(estimator: Any, X: Any) -> Any:
    """Return X for prediction, with the features that `fit` saw."""
    if is_dask(X):  # predict and its like have handed such rows to their partitions before
        raise InvalidData(
            "this method takes rows in memory; hand it partitions by X.map_partitions or "
            "X.map_blocks."
        )
    return _validated(estimator, X, reset=False)


def rows(estimator: Any, X: Any, least: int) -> Any:
    """Return X alone as float64, float32 or CSR; sets ``n_features_in_``."""
    return tamed(_validated(estimator, X, ensure_min_samples=least))


def numbers(estimator: Any, X: Any, *, reset: bool, least: int = 1) -> Floats:
    """Return columns of numbers as float64; NaN is missing, infinity is a number."""
    found = without_data(
        validate_data, estimator, X, dtype="float64", reset=reset, ensure_all_finite=False,
        ensure_min_samples=least,
    )  # fmt: skip
    return np.asarray(found)


def columns(estimator: Any, X: Any, *, reset: bool) -> list[Given]:
    """Return the columns of a matrix or table of cells of any type, each cell as it is."""
    # proof: ROW-LOCAL
    home = type(X).__module__.partition(".")[0]
    if home in ("pandas", "polars", "pyarrow") and len(getattr(X, "shape", ())) == 2:
        without_data(validate_data, estimator, X, reset=reset, skip_check_array=True)
        if 0 in X.shape:
            raise InvalidData("X must have at least one row and one column.")
        table = X.iloc if home == "pandas" else X
    else:
        if isinstance(X, Sequence):
            X = without_data(np.array, X, dtype=object)
        shaped = without_data(
            validate_data, estimator, X, dtype=None, reset=reset, ensure_all_finite=False
        )
        table = X = X if isinstance(X, np.ma.MaskedArray) else np.asarray(shaped)
    column = X.column if home == "pyarrow" else lambda place: table[:, place]
    return [given(column(place), "") for place in range(X.shape[1])]


def column_names(estimator: Any, given: Any) -> NDArray[Any]:
    """Return the names of the columns that `fit` saw: their own, `given`, or x0, x1, ..."""
    seen = getattr(estimator, "feature_names_in_", None)
    if given is None:
        made = [f"x{i}" for i in range(estimator.n_features_in_)]
        return np.asarray(made if seen is None else seen, dtype=object)
    names = np.asarray(given, dtype=object)
    if seen is not None and not np.array_equal(seen, names):
        raise InvalidParameter("input_features is not equal to feature_names_in_.")
    if len(names) != estimator.n_features_in_:
        raise InvalidParameter(
            "input_features should have length equal to the number of features, "
            f"{estimator.n_features_in_}; got {len(names)}."
        )
    return names


def _validated(estimator: Any, *given: Any, **options: Any) -> Any:
    """Return what scikit-learn's `validate_data` returns, NaN treated as ``missing`` says."""
    zero = estimator.missing == "zero"
    hint = f"missing='zero' reads NaN as 0{', but not infinity' if zero else _NEVER}"
    checked = without_data(
        validate_data, estimator, *given, accept_sparse="csr", dtype=_TYPES, hint=hint,
        ensure_all_finite="allow-nan" if zero else True, **options,
    )  # fmt: skip
    if not zero:
        return checked
    return (_filled(checked[0]), *checked[1:]) if isinstance(checked, tuple) else _filled(checked)


def _filled(X: Any) -> Any:
    """Return X with 0 for every NaN, as a copy where there is one."""
    # proof: ROW-LOCAL
    absent = np.isnan(X.data if sparse.issparse(X) else X)
    if not bool(absent.any()):
        return X
    X = X.copy()
    (X.data if sparse.issparse(X) else X)[absent] = 0.0
    return X


def tamed(X: Any) -> Any:
    """Return X with entries whose square would overflow cut to a public size: row-local, free."""
    largest = _LARGEST[str(X.dtype)]
    values = X.data if sparse.issparse(X) else X
    if values.size == 0 or max(values.max(), -values.min()) <= largest:
        return X
    values = np.clip(values, -largest, largest)
    if not sparse.issparse(X):
        return values
    X = X.copy()
    X.data = values
    return X


def sorted_classes(given: Sequence[Any] | NDArray[Any] | None, y: Any = None) -> NDArray[Any]:
    """Return the sorted label set: `given`, or that of y, which is then treated as public."""
    if given is not None:
        try:
            found = np.asarray(given)
            labels = np.unique(found)
        except (TypeError, ValueError):  # rows of unequal length, labels that cannot be compared
            found = labels = np.empty(0)
        if found.ndim != 1 or len(found) < 2 or len(labels) != len(found):
            raise InvalidParameter("classes must list at least two labels, each of them once.")
        return labels
    found = joined(_part_classes, y, join=_all_classes)
    if len(found) < 2:
        raise InvalidData(
            "y holds a single class; name all classes with classes=[...] to train all the same."
        )
    return np.asarray(found)


def label_vector(y: Any) -> NDArray[Any]:
    """Return labels as an array, of whatever shape."""
    return np.asarray(without_data(np.asarray, y))


def _check_told_apart(y: NDArray[Any]) -> None:
    """Refuse numbers with a point that may be several labels: one makes such of all others."""
    size = np.abs(y[np.isfinite(y)])
    if bool(np.any(size >= 2.0 ** (np.finfo(y.dtype).nmant + 1))):
        raise InvalidData(UNTOLD.format("y"))


def _part_classes(y: NDArray[Any]) -> NDArray[Any]:
    """Return the sorted labels of some rows."""
    if y.dtype.kind == "f":
        _check_told_apart(y)
    gone = ("NoneType", "NAType", "NaTType")  # what is missing, also for pandas
    if y.dtype.kind in "fO" and any(
        type(label).__name__ in gone or (isinstance(label, float) and label != label)
        for label in y.ravel().tolist()
    ):
        raise InvalidData(
            "Unknown label type: y holds a missing label; take such rows out, whoever they are of."
        )
    if y.dtype.kind == "f" and not np.all(y == np.floor(y)):
        raise InvalidData(
            "Unknown label type: y holds fractions; a classifier needs labels, not a quantity."
        )
    try:
        return np.unique(y)
    except TypeError:  # labels that cannot be compared
        pass
    raise InvalidData("Unknown label type: the labels in y must be of one type.")


def _all_classes(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Return the labels of two lists; few, so that they fit anywhere."""
    if not len(first) or not len(second):
        return second if len(second) else first
    found = _part_classes(np.concatenate([first, second]))
    if len(found) > _MOST_CLASSES:
        raise InvalidData(
            f"y holds more than {_MOST_CLASSES} labels; a classifier needs labels, not a quantity."
        )
    return found


def vector(
    name: str, values: Any, n: int, low: float, high: float, cap: str | None = None
) -> Floats:
    """Return n public or sensitive numbers in [low, high]; `cap` names the parameter `high`."""
    if np.isscalar(values) or values is None:
        values = np.full(n, values)
    checked = _vector_or_none(values)
    if checked is None or checked.shape != (n,):
        raise InvalidData(f"{name} must be a vector of finite numbers, one for each row of X.")
    if not bool(np.all((checked >= low) & (checked <= high))):
        most = f"{high:g}; clip it first."
        if cap is not None:
            most = f"{cap}={high:g}; clip it first, or raise {cap}."
        raise InvalidData(f"{name} must lie between {low:g} and {most}")
    return checked


def unit_of(ids: Any, n: int, adjacency: Adjacency, rows: Any = None, least: int = 1) -> Unit:
    """Return whose rows the n rows are.

    `rows` are they themselves, where they may live in partitions; `least` is the least number of
    records, where it is public.
    """
    found = unit_beside(rows, ids, n) if isinstance(rows, Parted) else Unit.of(ids, n)
    found.check_count(adjacency, least)
    return found


def levels(
    values: Any, rows: Any, epsilon: float, batches: bool = False, unit: Unit = RECORDS
) -> Levels:
    """Return ``sample_epsilon`` as levels in (0, epsilon], one for each row, or each unit."""
    if isinstance(rows, Parted):
        raise InvalidParameter(
            "sample_epsilon is not offered for rows in partitions; fit an array or a table in "
            "memory."
        )
    values = vector("sample_epsilon", values, rows.shape[0], 0.0, epsilon, "epsilon")
    values = unit.one_each("sample_epsilon", values)
    return Levels(values, "batches" if batches else "scale")


def class_targets(loss: Loss, numbers: NDArray[np.intp], models: int = 1) -> list[NDArray[Any]]:
    """Return one target vector for each model: numbers of classes, or -1 and +1."""
    if isinstance(loss, Softmax):
        return [each(partial(np.asarray, dtype=np.int64), numbers)]
    if models == 1:
        return [each(partial(np.take, [-1.0, 1.0]), numbers)]
    return [each(partial(np.take, signs), numbers) for signs in 2.0 * np.eye(models) - 1.0]


def label_numbers(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of every label in `classes`; refuse others without naming them.

    By comparison where both are numbers or both texts, else one by one.
    """
    if y.dtype.kind == "f":
        _check_told_apart(y)
    numbers: Any
    kinds = {classes.dtype.kind, y.dtype.kind}
    if kinds != {"U"} and not kinds <= set("biuf"):
        position = {label: i for i, label in enumerate(classes.tolist())}
        try:
            numbers = np.array([position.get(label, -1) for label in y.tolist()], dtype=np.intp)
            right = -1 not in numbers
        except TypeError:  # a label that has no hash
            right = False
    elif len(classes) == 2:
        numbers = (y == classes[1]).astype(np.intp)
        right = bool(np.all((numbers == 1) | (y == classes[0])))
    else:
        numbers = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        right = bool(np.all(classes[numbers] == y))
    if not right:
        raise InvalidData("y holds a label that is not in classes; list every label there.")
    return np.asarray(numbers)


def _vector_or_none(values: Any) -> Floats | None:
    try:
        found = check_array(values, ensure_2d=False, dtype="float64", ensure_min_samples=0)
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
