"""The one entrance for cells: whatever holds a column, every cell is read by itself.

NumPy, pandas, polars, Arrow and Dask choose the type of a column by all of its rows: one empty cell
makes numbers with a point of everybody's whole numbers. So a column is taken in the type in which
its container keeps it, gaps beside it, and what a cell says follows from that cell alone: 7, 7.0,
a nullable 7 and a category 7 are the same. A number with a point from 2^53 on (2^24 in float32,
2^11 in float16) does not say which whole number it was; it is refused where cells are compared.
"""

import contextlib
import importlib
import math
import numbers as kinds
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noisette._typing import Floats, Indices
from noisette.errors import InvalidData

MIXED = (
    "persons mixes texts with numbers, so that 7 and '7' would be two persons; write all "
    "identifiers in one way."
)
UNTOLD = (
    "{} holds numbers with a point that may stand for several whole numbers; store texts or whole "
    "numbers in their place."
)
_NOTHING = ("NoneType", "NAType", "NaTType", "MaskedConstant")
_OF_PANDAS = ("Interval", "Period")
_FLOAT: Any = float | np.floating
_TRUTH: Any = bool | np.bool_
_LASTING: Any = timedelta | np.timedelta64
_REAL: Any = kinds.Real | Decimal | np.bool_
_TRUE, _FALSE = (bool, "yes"), (bool, "no")  # as identifiers: True is not 1
_PER_DAY = {
    "D": 1, "h": 24, "m": 1440, "s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6,
    "ns": 86400 * 10**9, "ps": 86400 * 10**12, "fs": 86400 * 10**15, "as": 86400 * 10**18,
}  # fmt: skip


# --- one cell -------------------------------------------------------------------------------------


def _told_apart(kind: Any) -> float:
    """Return below which size numbers of a type with a point tell all whole numbers apart."""
    return {"float16": 2.0**11, "float32": 2.0**24}.get(kind.__name__, 2.0**53)


def text_of(cell: Any) -> str:
    """Return the text of a cell, "" where it is missing or of a kind that has none.

    A whole number has no point, whatever its type; moments are in UTC.
    """
    # proof: ROW-LOCAL
    if isinstance(cell, str):
        return str(cell)
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    if isinstance(cell, _TRUTH):
        return str(bool(cell))
    if isinstance(cell, _LASTING):  # NumPy's are whole numbers, too
        return _float_text(_days(cell))
    if isinstance(cell, kinds.Integral):
        return _digits(int(cell))
    if isinstance(cell, _FLOAT):
        return _float_text(cell)
    if isinstance(cell, Decimal):
        whole = cell.is_finite() and cell.adjusted() < 40 and cell == cell.to_integral_value()
        return _digits(int(cell)) if whole else "" if cell.is_nan() else str(cell)
    if isinstance(cell, np.datetime64 | date):
        return _moment(cell)
    known = isinstance(cell, kinds.Real | time) or type(cell).__name__ in _OF_PANDAS
    return str(cell) if known else ""


def number_of(cell: Any) -> float:
    """Return a cell as a number, truth values as 0 and 1, a duration in days; NaN for no number."""
    # proof: ROW-LOCAL
    if isinstance(cell, _LASTING):
        return _days(cell)
    number: Any = text_of(cell) if isinstance(cell, bytes) else cell
    if not isinstance(number, _REAL) and not isinstance(number, str):
        return math.nan
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    except ValueError:  # a text, or a signalling NaN
        return math.nan


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError:  # longer than Python writes
        return hex(number)


def _float_text(cell: Any) -> str:
    if _is_untold(cell):
        raise InvalidData(UNTOLD.format("a column"))
    value = float(cell)
    if value != value:
        return ""
    return str(int(value)) if value.is_integer() else repr(value)


def _is_untold(cell: Any) -> bool:
    """Whether a number with a point may stand for several whole numbers."""
    # proof: ROW-LOCAL
    return bool(_told_apart(type(cell)) <= abs(cell) < math.inf)


def _moment(cell: Any) -> str:
    """Return a day, or a day with a time, as in ISO 8601 with a blank; "" beyond the calendar."""
    if isinstance(cell, np.datetime64):
        unit = np.datetime_data(cell.dtype)[0]
        finer = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}.get(unit)
        cell = cell if finer is None else cell.astype(f"M8[{finer}]")
    elif getattr(cell, "tzinfo", None) is not None and cell == cell:
        try:
            cell = cell.astimezone(UTC).replace(tzinfo=None)
        except (OverflowError, ValueError):
            return ""
    text = str(cell).replace("T", " ", 1)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "" if text.startswith("Na") else text


def _days(cell: Any) -> float:
    """Return the days of a duration, rounded once, whatever its unit."""
    if hasattr(cell, "to_timedelta64"):
        cell = cell.to_timedelta64()
    if isinstance(cell, timedelta):
        return float(cell / timedelta(days=1))
    unit, step = np.datetime_data(cell.dtype)
    if unit == "W":
        unit, step = "D", 7 * step
    if np.isnat(cell) or unit not in _PER_DAY:
        return math.nan
    return float(int(cell.astype(np.int64)) * step / _PER_DAY[unit])


def _identity(cell: Any) -> Any:
    """Return by what a cell is compared with others as an identifier; None for none.

    That is None, NaN, NaT, pandas.NA, masked or a blank text.
    """
    # proof: PERSON-WEIGHTS
    if isinstance(cell, str | bytes):
        return cell if cell.strip() else None
    with contextlib.suppress(TypeError, ValueError):
        nan = cell.is_nan() if isinstance(cell, Decimal) else cell != cell
        if type(cell).__name__ in _NOTHING or nan:
            return None
    if isinstance(cell, _TRUTH):
        return _TRUE if cell else _FALSE
    if isinstance(cell, kinds.Integral) and not isinstance(cell, _LASTING):
        return int(cell)
    if isinstance(cell, _FLOAT):
        if not abs(cell) < _told_apart(type(cell)):
            raise InvalidData(UNTOLD.format("persons"))
        return float(cell)
    return (date, _moment(cell)) if isinstance(cell, np.datetime64 | date) else cell


# --- one column -----------------------------------------------------------------------------------


class Identities(NamedTuple):
    """The identifiers of a column, each once, and which of them every row has (-1: none)."""

    known: NDArray[Any]
    numbers: Indices

    def compared(self) -> set[Any]:
        """Return the identifiers as they are compared with those of other containers."""
        return set(map(_identity, self.known))


@dataclass(frozen=True, repr=False)
class Given:
    """A column as its container keeps it: values of one type, or objects, and which are missing.

    With `codes` a cell is the value at its code. `dates` says that the type is one of dates.
    """

    values: NDArray[Any]
    gaps: NDArray[np.bool_] | None = None
    codes: NDArray[Any] | None = None
    dates: bool = False

    def __len__(self) -> int:
        return len(self.values if self.codes is None else self.codes)

    def take(self, rows: Any) -> "Given":
        """Return some of the cells."""
        gaps = None if self.gaps is None else self.gaps[rows]
        if self.codes is None:
            return Given(self.values[rows], gaps, None, self.dates)
        return Given(self.values, gaps, self.codes[rows], self.dates)

    def check(self, where: str, *, whole: bool = False) -> None:
        """Refuse numbers with a point that may stand for several; or, if `whole`, for none."""
        # proof: ROW-LOCAL
        kind = self.values.dtype.kind
        if kind == "f":
            there = self.values
            if self.gaps is not None and self.codes is None:  # below a gap anything may stand
                there = there[~self.gaps]
            size = np.abs(there[np.isfinite(there)])
            bad = bool(np.any(size >= _told_apart(there.dtype.type)))
            bad = bad or (whole and bool(np.any(there[~np.isnan(there)] % 1.0 != 0.0)))
        else:
            bad = any(
                isinstance(cell, _FLOAT)
                and (_is_untold(cell) or (whole and cell == cell and cell % 1.0 != 0.0))
                for cell in (self.values.tolist() if kind == "O" else ())
            )
        if bad:
            raise InvalidData(UNTOLD.format(where))

    def cells(self) -> NDArray[Any]:
        """Return the cells in one array: of their type, or objects with None where one is missing.

        A type of numbers or texts without gaps is kept.
        """
        values = self.values if self.codes is None else self.values[self.codes]
        if self.gaps is None or not bool(self.gaps.any()):
            return values
        short = values.dtype.kind == "f"  # as objects, they would lose how much they tell apart
        values = values.copy() if short else values.astype(object)
        values[self.gaps] = np.nan if short else None
        return values

    def coded(self) -> tuple[NDArray[Any], Sequence[str]]:
        """Return the place of every cell's text in a list, of which not each need occur."""
        codes: Any = self.codes
        if codes is not None:
            texts: list[str] = list(map(text_of, self.values))
        elif self.values.dtype.kind in "biufM":
            there = slice(None) if self.gaps is None else ~self.gaps  # below a gap stands anything
            values, places = np.unique(self.values[there], return_inverse=True)
            codes = np.zeros(len(self.values), dtype=np.intp)
            codes[there] = places
            texts = list(map(text_of, values))
        else:
            place: dict[str, int] = {}
            codes = [place.setdefault(text_of(cell), len(place)) for cell in self._objects()]
            codes, texts = np.array(codes, dtype=np.intp), list(place)
        if self.gaps is not None and bool(self.gaps.any()):
            codes, texts = np.where(self.gaps, len(texts), codes.astype(np.intp)), [*texts, ""]
        return codes, texts

    def _objects(self) -> Any:
        """Return the values one by one; as a list, moments would become numbers."""
        return self.values.tolist() if self.values.dtype.kind in "OU" else self.values

    def texts(self) -> Sequence[str]:
        """Return the text of every cell, "" where it is missing."""
        codes, texts = self.coded()
        return [texts[code] for code in codes.tolist()]

    def numbers(self) -> Floats:
        """Return the cells as numbers, in an array of their own; NaN where there is none."""
        if self.values.dtype.kind in "biuf":
            found = np.array(self.values, dtype=np.float64)
        else:
            found = np.array(list(map(number_of, self._objects())), dtype=np.float64)
        found = found if self.codes is None else found[self.codes]
        if self.gaps is not None:
            found[self.gaps] = np.nan
        return found

    def keys(self) -> Identities:
        """Return the cells as identifiers, compared as they are; a blank text is missing."""
        # proof: PERSON-WEIGHTS
        if self.codes is not None:
            inner = Given(self.values).keys()
            numbers = inner.numbers[self.codes]
            if self.gaps is not None:
                numbers[self.gaps] = -1
            used, places = np.unique(numbers[numbers >= 0], return_inverse=True)
            return Identities(inner.known[used], _at(numbers >= 0, places))
        there = np.ones(len(self.values), dtype=bool) if self.gaps is None else ~self.gaps
        kind = self.values.dtype.kind
        if kind in "fMm":
            there &= self.values == self.values
        if kind in "US":  # the empty text, and blanks
            there &= np.char.strip(self.values) != self.values.dtype.type()
        if kind == "O":
            return _object_keys(self.values.tolist(), there)
        if kind == "f" and not np.all(
            np.abs(self.values[there]) < _told_apart(self.values.dtype.type)
        ):
            raise InvalidData(UNTOLD.format("persons"))
        # sorting is faster than a dictionary, and needs less room
        known, places = np.unique(self.values[there], return_inverse=True)
        return Identities(known, _at(there, places))


def _at(there: NDArray[np.bool_], places: NDArray[Any]) -> Indices:
    numbers = np.full(len(there), -1, dtype=np.intp)
    numbers[there] = places.reshape(-1)
    return numbers


def _object_keys(cells: list[Any], there: NDArray[np.bool_]) -> Identities:
    """Return objects as identifiers, in the order of their first rows."""
    each = [_identity(cell) if held else None for cell, held in zip(cells, there, strict=True)]
    try:
        known: dict[Any, int] = {None: -1}
        numbers = [known.setdefault(key, len(known) - 1) for key in each]
    except TypeError:
        known = {}
    if not known:  # raised here, so that the original does not travel along as the context
        raise InvalidData("persons must hold identifiers that can be compared (hashable).")
    del known[None]
    texts = any(isinstance(key, str) for key in known)
    if texts and any(isinstance(key, kinds.Number | Decimal) for key in known):
        raise InvalidData(MIXED)
    return Identities(_objects(list(known)), np.array(numbers, dtype=np.intp))


def _objects(cells: Sequence[Any]) -> NDArray[Any]:
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


# --- containers -----------------------------------------------------------------------------------


def given(column: Any, refusal: str) -> Given:
    """Return a column of NumPy, pandas, polars or pyarrow, or a list; `refusal` says what is none.

    Nothing is converted by what other rows hold.
    """
    # proof: ROW-LOCAL
    home = type(column).__module__.partition(".")[0]
    if isinstance(column, np.ma.MaskedArray) and column.ndim == 1:
        return Given(np.asarray(column.data), np.ma.getmaskarray(column))
    if getattr(column, "ndim", 1) == 1:
        if home == "pandas" and hasattr(column, "dtype"):
            return _of_pandas(getattr(column, "array", column))
        if home == "polars" and hasattr(column, "dtype"):
            return _of_polars(column)
    if home == "pyarrow" and hasattr(column, "type"):
        return _of_arrow(column)
    if hasattr(column, "__array__"):
        found = np.asarray(column)
    elif isinstance(column, Sequence) and not isinstance(column, str | bytes):
        found = _objects(list(column))
    else:
        raise InvalidData(refusal)
    if found.ndim != 1:
        raise InvalidData(refusal)
    if found.dtype.kind not in "biufOUSMm":
        found = _objects(found.tolist())
    return Given(found, dates=found.dtype.kind == "M")


def _of_pandas(array: Any) -> Given:
    kind = array.dtype
    if hasattr(array, "categories"):
        codes = np.asarray(array.codes)
        inner = given(array.categories, "")
        values = _objects([None]) if not len(inner) else inner.cells()
        return Given(values, codes < 0, np.maximum(codes, 0), inner.dates)
    if hasattr(kind, "pyarrow_dtype") or getattr(kind, "storage", "") == "pyarrow":
        return _of_arrow(array.__arrow_array__())
    if hasattr(array, "sp_values"):
        # Two types would together be of a third one.
        mixed = np.asarray(array.fill_value).dtype.kind != array.sp_values.dtype.kind
        return Given(_objects(list(array)) if mixed else np.asarray(array))
    if isinstance(kind, np.dtype):
        return given(np.asarray(array), "")
    if kind.kind in "biuf" and hasattr(kind, "numpy_dtype"):
        values = array.to_numpy(dtype=kind.numpy_dtype, na_value=kind.numpy_dtype.type(0))
        return Given(values, np.asarray(array.isna()))
    return Given(_objects(list(array)), dates=kind.kind == "M")


def _of_polars(column: Any) -> Given:
    kind = column.dtype
    plain = (kind.is_integer() and "128" not in str(kind)) or str(kind) == "Boolean"
    if kind.is_float():
        return Given(column.fill_null(math.nan).to_numpy())
    if plain:
        filled = column.fill_null(False if str(kind) == "Boolean" else 0)
        return Given(filled.to_numpy(), column.is_null().to_numpy())
    lasts = str(kind).startswith("Duration")
    return Given(_objects(column.to_list()), dates=kind.is_temporal() and not lasts)


def _of_arrow(array: Any) -> Given:
    pa: Any = importlib.import_module("pyarrow")  # whoever hands in such a column has it
    kind, types = array.type, pa.types
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks else pa.array([], kind)
    if types.is_string_view(kind):
        array, kind = array.cast(pa.large_string()), pa.large_string()
    if types.is_string(kind) or types.is_large_string(kind):
        array = array.dictionary_encode()
    if types.is_dictionary(array.type):
        words = not types.is_dictionary(kind)  # of which the dictionary was made here
        known = array.dictionary
        inner = Given(_objects(known.to_pylist())) if words else _of_arrow(known)
        codes, gaps = array.indices.fill_null(0), array.indices.is_null()
        values = inner.cells() if len(inner) else _objects([None])
        return Given(values, _numpy(gaps), _numpy(codes), inner.dates)
    if types.is_integer(kind) or types.is_boolean(kind):
        filled = array.fill_null(False if types.is_boolean(kind) else 0)
        return Given(_numpy(filled), _numpy(array.is_null()))
    if types.is_date(kind):
        return Given(_numpy(array.cast(pa.date32(), safe=False)), dates=True)
    if types.is_timestamp(kind):
        return Given(_numpy(array.cast(pa.timestamp(kind.unit))), dates=True)
    if types.is_floating(kind) or types.is_duration(kind):
        return Given(_numpy(array))
    return Given(_objects(array.to_pylist()))


def _numpy(array: Any) -> NDArray[Any]:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def taken(X: Any, places: Indices) -> Any:
    """Return the rows of an array, sparse matrix, tensor, table or dictionary of columns."""
    if type(X).__module__.startswith(("pyarrow", "noisette.tables")):
        return X.take(places)
    if isinstance(X, Mapping):
        return {name: taken(column, places) for name, column in X.items()}
    if hasattr(X, "iloc"):  # pandas
        return X.iloc[places]
    if isinstance(X, list | tuple):  # each cell as it is
        return [X[place] for place in places]  # proof: ROW-LOCAL
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    try:
        return X[places]
    except Exception:  # a table of another make; its message may quote a row
        raise InvalidData(
            "X must be an array, a sparse matrix, a tensor, a table of pandas, polars or pyarrow, "
            "or a dictionary of columns."
        ) from None
