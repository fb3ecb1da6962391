"""Dates: days since 1 January 1970, with a fraction for the time of day.

Without a declared form, those are read that mean one day only: ISO 8601 (2020-12-31, 20201231,
2020-12-31 08:30, with a time zone too), 2020/12/31, 2020.12.31 and 31.12.2020. 1/2/2020 is the
first of February or the second of January, so it is read only where the schema says which. A cell
of no such form, or of a day that does not exist, is missing.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

import numpy as np

from noisette._typing import Floats
from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import Cells, Entries, canonical, for_texts
from noisette.tables.kinds.hats import Hats
from noisette.tables.kinds.numeric import Numeric

_UNAMBIGUOUS = ("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")
_PARTS = {
    "Y": r"(?P<year>\d{4})", "m": r"(?P<month>\d{1,2})", "d": r"(?P<day>\d{1,2})",
    "H": r"(?P<hour>\d{1,2})", "M": r"(?P<minute>\d{1,2})", "S": r"(?P<second>\d{1,2})",
}  # fmt: skip
_START = datetime(1970, 1, 1, tzinfo=UTC)


def check_format(form: str, where: str) -> None:
    """Refuse a form without a year, or with anything else than the parts of a date."""
    parts = re.findall(r"%(.?)", form, flags=re.S)
    if any(part not in _PARTS for part in parts) or len(set(parts)) != len(parts):
        raise InvalidParameter(
            f"{where}: format is made of %Y, %m, %d, %H, %M and %S, each at most once; got "
            f"{form!r}."
        )
    if "Y" not in parts or ("d" in parts and "m" not in parts):
        raise InvalidParameter(f"{where}: format needs %Y, and %m where it has %d; got {form!r}.")


@lru_cache(maxsize=64)
def _pattern(form: str) -> re.Pattern[str]:
    pieces = re.split(r"%(.)", form)
    pieces[::2] = map(re.escape, pieces[::2])
    pieces[1::2] = [_PARTS[part] for part in pieces[1::2]]
    return re.compile("".join(pieces), flags=re.ASCII)


def _moment(text: str, forms: Sequence[str]) -> datetime | None:
    if not forms:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    for form in forms or _UNAMBIGUOUS:
        found = _pattern(form).fullmatch(text)
        if found is not None:
            parts = {"month": "1", "day": "1"} | found.groupdict()
            try:
                return datetime(**{key: int(value) for key, value in parts.items()})  # type: ignore[arg-type]
            except ValueError:
                continue
    return None


def days(text: str, forms: Sequence[str] = ()) -> float:
    """Return the days since 1970 of a text, NaN if it is none; without a time zone, as in UTC.

    20201231.0 is what programs make of 20201231 where a cell of the column is empty.
    """
    found = _moment(text.strip(), forms) or _moment(canonical(text), forms)
    if found is None:
        return math.nan
    moment = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (moment - _START) / timedelta(days=1)


def day_text(number: float) -> str:
    """Return the day of a number as a text, or the number if it is beyond the calendar."""
    try:
        return (date(1970, 1, 1) + timedelta(days=math.floor(number))).isoformat()
    except OverflowError:
        return f"{number:.6g}"


class DateCells:
    """Cells of dates, as numbers."""

    def __init__(
        self, cells: Cells, forms: Sequence[str] = (), missing: Sequence[str] = ()
    ) -> None:
        self._cells, self._forms, self._missing = cells, tuple(forms), frozenset(missing)

    def __len__(self) -> int:
        return len(self._cells)

    def numbers(self) -> Floats:
        """Return the days since 1970 of every cell."""
        return for_texts(self._cells, self._day, np.float64)

    def _day(self, text: str) -> float:
        if self._missing and canonical(text) in self._missing:
            return math.nan
        return days(text, self._forms)

    def texts(self) -> Sequence[str]:
        """Return the cells as they stand."""
        return self._cells.texts()


@dataclass(frozen=True)
class Dates:
    """A date, as the number of its day; `missing` are texts such as 9999-12-31."""

    column: Numeric | Hats
    forms: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The published name of the column."""
        return self.column.name

    @property
    def features(self) -> tuple[str, ...]:
        """The features of the number; knots are shown as days."""
        if not isinstance(self.column, Hats):
            return self.column.features
        inner, shown = self.column, tuple(map(day_text, self.column.knots))
        if len(set(shown)) != len(shown):
            return inner.features
        hats = tuple(f"{inner.name} ~ {day}" for day in shown) if len(shown) > 1 else ()
        return hats + inner.features[len(hats) :]

    @property
    def mean_square(self) -> float:
        """What it adds to a squared row length if days spread evenly: a guess, not data."""
        return self.column.mean_square

    @property
    def most_square(self) -> float:
        """The most that it adds to a squared row length, whatever the cell."""
        return self.column.most_square

    @property
    def nonzeros(self) -> int:
        """The most features of one cell that differ from zero."""
        return self.column.nonzeros

    def entries(self, cells: Cells) -> Entries:
        """Return the entries of all cells that may differ from zero."""
        return self.column.entries(DateCells(cells, self.forms, self.missing))

    def fill(self, cells: Cells, out: Floats) -> None:
        """Write the features of all cells into `out`, shape (n, len(features))."""
        self.column.fill(DateCells(cells, self.forms, self.missing), out)
