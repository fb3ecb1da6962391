"""From the dictionaries of a schema file to numeric and date columns."""

import math
from typing import Any

import numpy as np

from noisette.errors import InvalidParameter
from noisette.tables.fact_checks import UNKNOWN, check_weight, flag, number, only
from noisette.tables.kinds import CURVES, Dates, Hats, Numeric, Open, View, canonical
from noisette.tables.kinds.dates import check_format, days

VIEW = ("low", "high", "center", "width", "curve", "square", "also")
_ALSO = VIEW[:-1]
_NUMERIC = ("kind", "also", "missing", "missing_slot", *_ALSO, "knots")
_DATE = (*_NUMERIC, "format")
_WITH_KNOTS = ("kind", "missing", "missing_slot", "knots", "center", "format")
_WHEN_OPEN = ("kind", "missing", "missing_slot", "low", "high", "width", "format")


def numeric_of(
    name: str, facts: dict[str, Any], codes: tuple[str, ...], *, learn: bool
) -> Numeric | Hats | Open:
    """Return a numeric column; with `learn` its bounds may be left open."""
    where = f"column {name!r}"
    only(facts, _NUMERIC, where)
    slot = flag(facts, "missing_slot", False, where)
    return _column(name, facts, "numeric", codes, slot, learn=learn)


def date_of(
    name: str, facts: dict[str, Any], codes: tuple[str, ...], *, learn: bool
) -> Dates | Open:
    """Return a column of dates: numbers in its facts are days since 1970, texts are dates."""
    where = f"column {name!r}"
    only(facts, _DATE, where)
    slot = flag(facts, "missing_slot", False, where)
    forms = _forms(facts.get("format", []), where)
    counted = dict(facts)
    for key in ("low", "high", "center"):
        if key in facts and facts[key] != UNKNOWN:
            counted[key] = _day(facts[key], forms, f"{where}: {key}")
    absent = tuple(dict.fromkeys(map(canonical, codes)))
    column = _column(name, counted, "date", absent, slot, learn=learn, forms=forms)
    return column if isinstance(column, Open) else Dates(column, forms, absent)


def _column(
    name: str, facts: dict[str, Any], kind: str, codes: tuple[str, ...], slot: bool, *,
    learn: bool, forms: tuple[str, ...] = (),
) -> Numeric | Hats | Open:  # fmt: skip
    where = f"column {name!r}"
    missing = _number_codes(codes) if kind == "numeric" else ()  # those of dates are texts
    if "knots" in facts:
        only(facts, _WITH_KNOTS, f"{where}, which has knots,")
        return Hats(name, _knots(facts["knots"], where), number(facts, "center", where),
                    missing, slot)  # fmt: skip
    open_ends = [end for end in ("low", "high") if facts.get(end, UNKNOWN) == UNKNOWN]
    if not learn or not open_ends:
        return Numeric(name, _views(facts, where), missing, slot)
    only(facts, _WHEN_OPEN, f"{where}, of which {open_ends[0]} is to be learnt,")
    check_weight("width", number(facts, "width", where), where)
    low, high = (None if e in open_ends else number(facts, e, where) for e in ("low", "high"))
    absent = tuple(dict.fromkeys(map(canonical, codes)))
    return Open(name, kind, low, high, absent, slot, forms)


def _forms(node: Any, where: str) -> tuple[str, ...]:
    forms = [node] if isinstance(node, str) else node
    if not isinstance(forms, list) or not all(isinstance(form, str) for form in forms):
        raise InvalidParameter(f"{where}: format must be a text such as '%d/%m/%Y', or a list.")
    for form in forms:
        check_format(form, where)
    return tuple(forms)


def _day(value: Any, forms: tuple[str, ...], what: str) -> Any:
    """Return the number of a day; what is no text is left to the check of numbers."""
    if not isinstance(value, str):
        return value
    found = days(value)
    found = days(value, forms) if math.isnan(found) else found
    if math.isnan(found):
        raise InvalidParameter(f"{what} must be a date such as '1970-12-31'; got {value!r}.")
    return found


def _knots(node: Any, where: str) -> tuple[float, ...]:
    if not isinstance(node, list) or not node or len(node) > 10_000:
        raise InvalidParameter(f"{where}: knots must be a list of increasing numbers.")
    return tuple(float(number({"knots": each}, "knots", where) or 0.0) for each in node)


def _number_codes(codes: tuple[str, ...]) -> tuple[float, ...]:
    """Return the codes that are numbers; any other text is missing in a numeric column anyway."""
    found = []
    for code in codes:
        try:
            found.append(float(code))
        except ValueError:
            continue
    return tuple(dict.fromkeys(found))


def _views(facts: dict[str, Any], where: str) -> tuple[View, ...]:
    first = {key: facts[key] for key in _ALSO if key in facts}
    others = facts.get("also", [])
    if not isinstance(others, list) or not all(isinstance(each, dict) for each in others):
        raise InvalidParameter(f"{where}: also must be a list of tables.")
    views = [_view(first, where)]
    for each in others:
        only(each, _ALSO, f"{where}: also")
        views.append(_view(first | each, where))
    if len(set(views)) != len(views):
        raise InvalidParameter(f"{where}: also repeats a feature.")
    return tuple(views)


def _view(facts: dict[str, Any], where: str) -> View:
    low, high = number(facts, "low", where), number(facts, "high", where)
    if low is None or high is None:
        lacking = "low" if low is None else "high"
        raise InvalidParameter(
            f"{where}: {lacking} is missing; a numeric column needs public bounds low and high "
            "(--learn buys them from the budget)."
        )
    if not low < high:
        raise InvalidParameter(f"{where}: low must be below high; got {low:g} and {high:g}.")
    if not math.isfinite(high - low):
        raise InvalidParameter(f"{where}: the range from low to high is too large.")
    center, width = number(facts, "center", where), number(facts, "width", where)
    if center is not None and not low <= center <= high:
        raise InvalidParameter(f"{where}: center must lie between low and high; got {center:g}.")
    check_weight("width", width, where)
    curve = facts.get("curve", "linear")
    if not isinstance(curve, str) or curve not in CURVES:
        raise InvalidParameter(f"{where}: curve must be one of {', '.join(CURVES)}; got {curve!r}.")
    if curve == "log1p" and low < 0.0:
        raise InvalidParameter(
            f"{where}: curve log1p needs low >= 0; got {low:g} (signed-log1p takes any bounds)."
        )
    if not CURVES[curve](np.array(low)) < CURVES[curve](np.array(high)):
        raise InvalidParameter(f"{where}: low and high are too close together for curve {curve}.")
    square = flag(facts, "square", False, where)
    return View(low, high, center, 2.0 if width is None else width, curve, square)
