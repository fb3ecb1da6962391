"""Dates: days since 1 January 1970, with a fraction for the time of day.

Without a declared form, those are read that mean one day only: ISO 8601 (2020-12-31, 20201231,
2020-12-31 08:30, with a time zone too), 2020/12/31, 2020.12.31 and 31.12.2020. 1/2/2020 is the
first of February or the second of January, so it is read only where the schema says which. A cell
of no such form, or of a day that does not exist, is missing.
"""

import contextlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from typing import Any

import numpy as np

from noisette._typing import Floats
from noisette._validate import refuse
from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import Cells, Column, Reading, for_texts
from noisette.tables.kinds.facts import UNKNOWN, canonical
from noisette.tables.kinds.kind import Kind, Stated
from noisette.tables.kinds.numeric import KEYS, LEARNS, merge_numbers, number_column

_UNAMBIGUOUS = ("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")
_PARTS = {
    "Y": r"(?P<year>\d{4})", "m": r"(?P<month>\d{1,2})", "d": r"(?P<day>\d{1,2})",
    "H": r"(?P<hour>\d{1,2})", "M": r"(?P<minute>\d{1,2})", "S": r"(?P<second>\d{1,2})",
}  # fmt: skip
_START = datetime(1970, 1, 1, tzinfo=UTC)
_CALENDAR = [-719162.0, 2932897.0]  # its years have four digits


@lru_cache(maxsize=64)
def _pattern(form: str) -> re.Pattern[str]:
    pieces = re.split(r"%(.)", form)
    pieces[::2] = map(re.escape, pieces[::2])
    pieces[1::2] = [_PARTS[part] for part in pieces[1::2]]
    return re.compile("".join(pieces), flags=re.ASCII)


def _moment(text: str, forms: Sequence[str]) -> datetime | None:
    if not forms:
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(text)
    for form in forms or _UNAMBIGUOUS:
        found = _pattern(form).fullmatch(text)
        if found is not None:
            parts = {"month": "1", "day": "1"} | found.groupdict()
            with contextlib.suppress(ValueError):
                return datetime(**{key: int(value) for key, value in parts.items()})  # type: ignore[arg-type]
    return None


def days(text: str, forms: Sequence[str] = ()) -> float:
    """Return the days since 1970 of a text, NaN if it is none; without a time zone, as in UTC.

    20201231.0 is what programs make of 20201231 where a cell of the column is empty.
    """
    found = _moment(text.strip(), forms) or _moment(canonical(text), forms)
    if found is None:
        return math.nan
    return (found.replace(tzinfo=found.tzinfo or UTC) - _START) / timedelta(days=1)


def day_text(number: float) -> str:
    """Return the day of a number as a text, or the number if it is beyond the calendar."""
    try:
        return (date(1970, 1, 1) + timedelta(days=math.floor(number))).isoformat()
    except OverflowError:
        return f"{number:.6g}"


@dataclass(frozen=True)
class Days(Reading):
    """Dates, as the numbers of their days; codes for missing cells are dates such as 9999-12-31."""

    forms: tuple[str, ...] = ()

    kind, word, moments = "date", "date", True

    @classmethod
    def of(cls, stated: Stated) -> "Days":
        """Return how dates are written, as a schema states it."""
        node, where = stated.facts.get("format", []), stated.where
        forms = [node] if isinstance(node, str) else node
        if not isinstance(forms, list) or not all(isinstance(form, str) for form in forms):
            raise InvalidParameter(f"{where}: format must be a text such as '%d/%m/%Y', or a list.")
        for form in forms:
            parts = re.findall(r"%(.?)", form, flags=re.S)
            refuse(
                ({*parts} - {*_PARTS} or len(set(parts)) != len(parts),
                 f"{where}: format is made of %Y, %m, %d, %H, %M and %S, each at most once; got "
                 f"{form!r}."),
                ("Y" not in parts or ("d" in parts and "m" not in parts),
                 f"{where}: format needs %Y, and %m where it has %d; got {form!r}."),
            )  # fmt: skip
        return cls(tuple(forms))

    def numbers(self, cells: Cells, missing: Sequence[Any] = ()) -> Floats:
        """Return the days since 1970 of every cell; a code is a day, however it is written."""
        found = for_texts(cells, partial(days, forms=self.forms), np.float64)
        found[np.isin(found, [days(code, self.forms) for code in missing])] = np.nan
        return found

    def label(self, value: float) -> str:
        """Return the day of a number."""
        return day_text(value)

    @property
    def told(self) -> dict[str, Any]:
        """Days of the calendar, and how they are written."""
        forms = self.forms or ("iso", *_UNAMBIGUOUS)
        return {"days": True, "forms": list(forms), "range": _CALENDAR}

    @property
    def written(self) -> str:
        """How dates are written, in words."""
        return f"; written as {', '.join(self.forms)}" if self.forms else ""


def _parse(stated: Stated) -> Column:
    """Return a column of dates: numbers in its facts are days since 1970, texts are dates."""
    reading, facts = Days.of(stated), dict(stated.facts)
    for key in ("low", "high", "center"):
        value = facts.get(key)
        # what is no text is left to the check of numbers
        if not isinstance(value, str) or value == UNKNOWN:
            continue
        found = [day for day in (days(value), days(value, reading.forms)) if day == day]
        if not found:
            raise InvalidParameter(
                f"{stated.where}: {key} must be a date such as '1970-12-31'; got {value!r}."
            )
        facts[key] = found[0]
    return number_column(replace(stated, facts=facts), reading)


DATE = Kind(
    "date",
    "a date",
    "Days, written like 2020-12-31 or as you say on the card.",
    ('low = "1920-01-01", high = "2025-12-31"', ""),
    _parse,
    (*KEYS, "format"),
    asks=("low", "format"),
    learns=LEARNS,
    gone=KEYS,
    merge=merge_numbers,
)
