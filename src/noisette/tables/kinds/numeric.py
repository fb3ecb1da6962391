"""Numbers: clipped to public bounds and moved by a public curve.

A number t is clipped to [low, high] and becomes width (curve(t) - zero) / (curve(high) -
curve(low)), where zero is the curve at the public centre, so that a typical person is near 0. A
missing number becomes 0, as if it were the centre.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from noisette._typing import Floats
from noisette._validate import refuse
from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import NUMBERS, Column, Entries, Reading, number_codes
from noisette.tables.kinds.facts import UNKNOWN, flag, number, only, weight
from noisette.tables.kinds.hats import Hats, ReadAsNumber
from noisette.tables.kinds.kind import Kind, Open, Stated

CURVES: dict[str, Callable[[Floats], Floats]] = {
    "linear": lambda t: t,
    "log1p": np.log1p,
    "signed-log1p": lambda t: np.sign(t) * np.log1p(np.abs(t)),
}
_POINTS = 33  # of a column that enters by a smooth curve


@dataclass(frozen=True)
class View:
    """One feature made of a number; with `square` the result is squared (both tails count)."""

    low: float
    high: float
    center: float | None = None
    width: float = 2.0
    curve: str = "linear"
    square: bool = False

    @property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest value of the feature."""
        low, high = self._map(np.array([self.low, self.high])).tolist()
        return (0.0, max(low * low, high * high)) if self.square else (low, high)

    @property
    def _curved(self) -> tuple[float, float, float]:
        """The curve at both ends and at the centre."""
        curve = CURVES[self.curve]
        low, high = curve(np.array([self.low, self.high]))
        zero = (low + high) / 2.0 if self.center is None else curve(np.array([self.center]))[0]
        return low, high, zero

    def _map(self, t: Floats) -> Floats:
        low, high, zero = self._curved
        # Divided first: the width of a huge range may overflow.
        moved = CURVES[self.curve](t) / (high - low) - zero / (high - low)
        return np.asarray(moved * self.width)

    def __call__(self, numbers: Floats) -> Floats:
        """Return the feature of every number; 0 for NaN."""
        moved = self._map(np.clip(numbers, self.low, self.high))
        moved[np.isnan(numbers)] = 0.0
        return moved * moved if self.square else moved

    def describe(self, reading: Reading) -> str:
        """Return its facts in words."""
        told = (
            f"{reading.label(self.low)} to {reading.label(self.high)}",
            "" if self.center is None else f"centre {reading.label(self.center)}",
            "" if self.curve == "linear" else self.curve,
            "squared" if self.square else "",
            "" if self.width == 2.0 else f"width {self.width:g}",
        )
        return ", ".join(filter(None, told))

    def card(self) -> dict[str, Any]:
        """Return (curve(t) - zero) * scale, squared if asked, for t between low and high."""
        low, high, zero = self._curved
        return {
            "low": self.low, "high": self.high, "curve": self.curve, "zero": float(zero),
            "scale": float(self.width / (high - low)), "power": 2 if self.square else 1,
        }  # fmt: skip


@dataclass(frozen=True)
class Numeric(ReadAsNumber):
    """A number, seen through one or more views; `missing` are codes such as 999."""

    views: tuple[View, ...]

    buys: ClassVar[str] = "knots"  # they take the place of its stated curve
    counted: ClassVar[bool] = False

    @property
    def ends(self) -> tuple[float, float]:
        """Its bounds."""
        return self.views[0].low, self.views[0].high

    @property
    def features(self) -> tuple[str, ...]:
        """One feature for each view, and one for missing cells if there is a slot."""
        names = []
        for view in self.views:
            name = self.name if view.curve == "linear" else f"{view.curve}({self.name})"
            name = f"{name}^2" if view.square else name
            names.append(name if name not in names else f"{name} up to {view.high:g}")
        return (*names, *[f"{self.name} is missing"] * self.missing_slot)

    @property
    def mean_square(self) -> float:
        """What it adds to a squared row length if values spread evenly: a guess, not data."""
        return sum(((b - a) ** 2) / 12.0 for a, b in (view.span for view in self.views))

    @property
    def most_square(self) -> float:
        """The most that it adds to a squared row length, whatever the cell."""
        square = sum(max(a * a, b * b) for a, b in (view.span for view in self.views))
        return max(square, 1.0) if self.missing_slot else square  # a missing number is 0

    @property
    def nonzeros(self) -> int:
        """One for each view, and one for missing cells if there is a slot."""
        return len(self.views) + self.missing_slot

    def entries_at(self, numbers: Floats) -> Entries:
        """Return the entries of numbers, NaN for a missing one."""
        out = np.zeros((len(numbers), self.nonzeros))
        for j, view in enumerate(self.views):
            out[:, j] = view(numbers)
        if self.missing_slot:
            out[:, -1] = np.isnan(numbers)
        return np.broadcast_to(np.arange(self.nonzeros, dtype=np.int32), out.shape), out

    @property
    def at(self) -> tuple[float, ...]:
        """Numbers between the outer bounds of all views."""
        low, high = min(v.low for v in self.views), max(v.high for v in self.views)
        return tuple(np.linspace(low, high, _POINTS).tolist())

    @property
    def line(self) -> tuple[float, float] | None:
        """The span of its one view, where it enters as it is between its bounds."""
        view = self.views[0]
        plain = len(self.views) == 1 and view.curve == "linear" and not view.square
        return view.span if plain and not self.reading.moments else None

    def describe(self) -> str:
        """Return its bounds, curves and codes."""
        return "; also ".join(v.describe(self.reading) for v in self.views) + self._about_missing

    def card(self, weights: Floats) -> dict[str, Any]:
        """Return its views: a curve, moved and scaled."""
        at = weights[: len(self.views)].tolist()
        return self._on_card({"views": [v.card() for v in self.views], "weights": at}, [], weights)


# --- what a schema states --------------------------------------------------------------------

_ALSO = ("low", "high", "center", "width", "curve", "square")
KEYS = (*_ALSO, "also", "knots")
LEARNS = ("low", "high", "knots", "center")
_ALWAYS = ("kind", "missing", "missing_slot", "format")


def number_column(stated: Stated, reading: Reading = NUMBERS) -> Column:
    """Return a column of numbers, or of dates whose facts are days; with `learn` perhaps open."""
    where, facts = stated.where, stated.facts
    missing = number_codes(stated.codes) if reading.plain else stated.texts
    shared: dict[str, Any] = {"missing": missing, "missing_slot": stated.slot, "reading": reading}
    if "knots" in facts:
        only(facts, (*_ALWAYS, "knots", "center"), f"{where}, which has knots,")
        knots = facts["knots"]
        if not isinstance(knots, list) or not knots or len(knots) > 10_000:
            raise InvalidParameter(f"{where}: knots must be a list of increasing numbers.")
        at = [float(number({"knots": each}, "knots", where) or 0.0) for each in knots]
        return Hats(stated.name, tuple(at), number(facts, "center", where), **shared)
    ends = [end for end in ("low", "high") if facts.get(end, UNKNOWN) == UNKNOWN]
    if not stated.learn or not ends:
        return Numeric(stated.name, _views(facts, where), **shared)
    only(facts, (*_ALWAYS, *_ALSO[:2], "width"), f"{where}, of which {ends[0]} is to be learnt,")
    weight(facts, "width", where)
    known = {end: number(facts, end, where) for end in ("low", "high") if end not in ends}
    return Open(stated.name, **shared | known | {"missing": stated.texts})


def _views(facts: dict[str, Any], where: str) -> tuple[View, ...]:
    first = {key: facts[key] for key in _ALSO if key in facts}
    others = facts.get("also", [])
    if not isinstance(others, list) or not all(isinstance(each, dict) for each in others):
        raise InvalidParameter(f"{where}: also must be a list of tables.")
    views: list[View] = []
    for each in ({}, *others):
        only(each, _ALSO, f"{where}: also")
        stated = first | each
        low, high, center = (number(stated, key, where) for key in _ALSO[:3])
        if low is None or high is None:
            raise InvalidParameter(
                f"{where}: {'low' if low is None else 'high'} is missing; a numeric column needs "
                "public bounds low and high (--learn buys them from the budget)."
            )
        curve = stated.get("curve", "linear")
        refuse(
            (not low < high, f"{where}: low must be below high; got {low:g} and {high:g}."),
            (not math.isfinite(high - low), f"{where}: the range from low to high is too large."),
            (center is not None and not low <= center <= high,
             f"{where}: center must lie between low and high; got {center}."),
            (not isinstance(curve, str) or curve not in CURVES,
             f"{where}: curve must be one of {', '.join(CURVES)}; got {curve!r}."),
            (curve == "log1p" and low < 0.0,
             f"{where}: curve log1p needs low >= 0; got {low:g} (signed-log1p takes any "
             "bounds)."),
        )  # fmt: skip
        if not np.less(*CURVES[curve](np.array([low, high]))):
            raise InvalidParameter(
                f"{where}: low and high are too close together for curve {curve}."
            )
        width, square = weight(stated, "width", where, 2.0), flag(stated, "square", False, where)
        views.append(View(low, high, center, width, curve, square))
    if len(set(views)) != len(views):
        raise InvalidParameter(f"{where}: also repeats a feature.")
    return tuple(views)


def merge_numbers(
    column: Column, kept: dict[str, Any], new: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return stated and bought facts together; a centre with noise may lie outside of bounds."""
    low, high = -math.inf, math.inf  # a column of knots has no bounds
    if column.buys and not (column.open and "knots" in new):
        ends = list(map((new if column.open else {}).get, ("low", "high"), column.ends))
        if None in ends:
            raise InvalidParameter(f"column {column.name!r}: one of its bounds is still open.")
        low, high = map(float, ends)
    plain: dict[str, Any] = {key: float(new[key]) for key in new if key != "knots"}
    if "knots" in new:
        plain["knots"] = sorted(set(map(float, new["knots"])))
    if "center" in new:
        plain["center"] = min(max(plain["center"], low), high)
    full = plain | kept
    knots = full.get("knots", [low, high])
    differs = len(knots) > 1 and knots[0] < knots[-1]
    return full, {} if differs else {"knots": knots[:1] or [0.0]}


def _of_type(type_: Any) -> dict[str, Any] | None:
    from noisette.tables.cells import arrow

    is_ = arrow().types
    known = is_.is_integer(type_) or is_.is_floating(type_) or is_.is_decimal(type_)
    return {"low": UNKNOWN, "high": UNKNOWN} if known else None


NUMERIC = Kind(
    "numeric",
    "a number",
    "Ages, amounts, measurements: more or less of it means something.",
    ("low = 0, high = 110", "values outside are moved to the bound"),
    number_column,
    KEYS,
    asks=("low",),
    learns=LEARNS,
    gone=KEYS,
    merge=merge_numbers,
    of_type=_of_type,
)
