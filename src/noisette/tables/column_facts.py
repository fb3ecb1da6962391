"""From the dictionaries of a schema file to checked columns and labels; every fault is named."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from noisette.columns import CURVES, Categorical, Column, Ignored, Numeric, View, canonical
from noisette.errors import InvalidParameter

__all__ = ["column_of", "labels_of", "only", "text_list"]

KINDS = ("numeric", "categorical", "ignore")

_VIEW = ("low", "high", "center", "width", "curve", "square")
_NUMERIC = ("kind", "also", "missing", "missing_slot", *_VIEW)
_CATEGORICAL = (
    "kind", "categories", "groups", "reference", "other", "weight", "missing", "missing_slot",
)  # fmt: skip


def only(node: dict[str, Any], allowed: Iterable[str], where: str) -> None:
    """Refuse a key that nobody reads: a misspelt fact must not be a forgotten one."""
    known = list(allowed)
    for key in node:
        if key not in known:
            raise InvalidParameter(f"{where} has an unknown key {key!r}; use {', '.join(known)}.")


def text_list(node: Any, what: str, *, empty: bool = False) -> tuple[str, ...]:
    """Return a list of texts; numbers and truth values are written as texts."""
    if not isinstance(node, list) or not all(isinstance(x, str | int | float) for x in node):
        raise InvalidParameter(f"{what} must be a list of texts or numbers.")
    if not node and not empty:
        raise InvalidParameter(f"{what} must not be empty.")
    if node == ["?"] and not empty:
        raise InvalidParameter(f"{what} is still to be filled in; it is a public fact you know.")
    texts = tuple(str(x) if not isinstance(x, bool) else str(x).lower() for x in node)
    if len({canonical(text) for text in texts}) != len(texts):
        raise InvalidParameter(f"{what} lists a value twice.")
    return texts


def _grouped(node: Any, what: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return named groups of values: of a list, each value is a group of its own."""
    if isinstance(node, dict):
        groups = [(name, text_list(values, f"{what}, {name!r},")) for name, values in node.items()]
        if not groups:
            raise InvalidParameter(f"{what} must not be empty.")
    else:
        groups = [(canonical(text), (text,)) for text in text_list(node, what)]
    seen: set[str] = set()
    for _, texts in groups:
        for text in map(canonical, texts):
            if text in seen:
                raise InvalidParameter(f"{what} lists the value {text!r} in two groups.")
            seen.add(text)
    return tuple((name, tuple(map(canonical, texts))) for name, texts in groups)


def labels_of(node: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the classes with the spellings of their labels."""
    if node is None:
        raise InvalidParameter(
            'the classes are missing; write classes = ["no", "yes"] with every label that can '
            "occur, whether it does or not."
        )
    labels = _grouped(node, "classes")
    if len(labels) < 2:
        raise InvalidParameter("classes must name at least two labels.")
    return labels


def column_of(name: str, facts: Any, missing: tuple[str, ...]) -> Column:
    """Return one checked column; `missing` are the codes that hold for the whole table."""
    where = f"column {name!r}"
    if not isinstance(facts, dict):
        raise InvalidParameter(f"{where} must be a table, [columns.{name}].")
    kind = facts.get("kind")
    if kind not in KINDS:
        state = "is still to be filled in" if kind in (None, "?") else f"is {kind!r}"
        raise InvalidParameter(f'{where}: kind {state}; use "numeric", "categorical" or "ignore".')
    if kind == "ignore":
        return Ignored(name)
    only(facts, _NUMERIC if kind == "numeric" else _CATEGORICAL, where)
    slot = _flag(facts, "missing_slot", False, where)
    codes = (*missing, *text_list(facts.get("missing", []), f"{where}: missing", empty=True))
    if kind == "numeric":
        return Numeric(name, _views(facts, where), _number_codes(codes), slot)
    return _categorical(name, facts, codes, slot, where)


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
    first = {key: facts[key] for key in _VIEW if key in facts}
    others = facts.get("also", [])
    if not isinstance(others, list) or not all(isinstance(each, dict) for each in others):
        raise InvalidParameter(f"{where}: also must be a list of tables.")
    views = [_view(first, where)]
    for each in others:
        only(each, _VIEW, f"{where}: also")
        views.append(_view(first | each, where))
    if len(set(views)) != len(views):
        raise InvalidParameter(f"{where}: also repeats a feature.")
    return tuple(views)


def _view(facts: dict[str, Any], where: str) -> View:
    low, high = _number(facts, "low", where), _number(facts, "high", where)
    if low is None or high is None:
        lacking = "low" if low is None else "high"
        raise InvalidParameter(
            f"{where}: {lacking} is missing; a numeric column needs public bounds low and high."
        )
    if not low < high:
        raise InvalidParameter(f"{where}: low must be below high; got {low:g} and {high:g}.")
    if not math.isfinite(high - low):
        raise InvalidParameter(f"{where}: the range from low to high is too large.")
    center, width = _number(facts, "center", where), _number(facts, "width", where)
    if center is not None and not low <= center <= high:
        raise InvalidParameter(f"{where}: center must lie between low and high; got {center:g}.")
    _check_weight("width", width, where)
    curve = facts.get("curve", "linear")
    if not isinstance(curve, str) or curve not in CURVES:
        raise InvalidParameter(f"{where}: curve must be one of {', '.join(CURVES)}; got {curve!r}.")
    if curve == "log1p" and low < 0.0:
        raise InvalidParameter(
            f"{where}: curve log1p needs low >= 0; got {low:g} (signed-log1p takes any bounds)."
        )
    if not CURVES[curve](np.array(low)) < CURVES[curve](np.array(high)):
        raise InvalidParameter(f"{where}: low and high are too close together for curve {curve}.")
    square = _flag(facts, "square", False, where)
    return View(low, high, center, 2.0 if width is None else width, curve, square)


def _check_weight(key: str, value: float | None, where: str) -> None:
    """Keep sizes where squares neither overflow nor vanish, whatever the cells are."""
    if value is not None and not 1e-6 <= value <= 1e6:
        raise InvalidParameter(f"{where}: {key} must lie between 1e-6 and 1e6; got {value:g}.")


def _categorical(
    name: str, facts: dict[str, Any], codes: tuple[str, ...], slot: bool, where: str
) -> Categorical:
    if ("categories" in facts) == ("groups" in facts):
        raise InvalidParameter(
            f"{where}: write categories = [...], the public list of levels"
            + (", or groups, not both." if "groups" in facts else ".")
        )
    groups = _grouped(facts.get("categories", facts.get("groups")), f"{where}: categories")
    reference = facts.get("reference")
    if reference is not None:
        reference = canonical(reference)
        if reference not in [group for group, _ in groups]:
            raise InvalidParameter(f"{where}: reference {reference!r} is not among the categories.")
    other = _flag(facts, "other", True, where)
    if not other and reference is None:
        raise InvalidParameter(
            f"{where}: other = false makes an unlisted level count as the reference; name one."
        )
    weight = _number(facts, "weight", where)
    _check_weight("weight", weight, where)
    absent = tuple(dict.fromkeys(map(canonical, codes)))
    listed = {level for _, levels in groups for level in levels}
    column = Categorical(
        name, groups, reference, other, 1.0 if weight is None else weight,
        tuple(code for code in absent if code not in listed), slot,
    )  # fmt: skip
    if not column.features:
        raise InvalidParameter(f"{where}: a single category without other says nothing.")
    return column


def _number(facts: dict[str, Any], key: str, where: str) -> float | None:
    value = facts.get(key)
    if value is None:
        return None
    if value == "?":
        raise InvalidParameter(f"{where}: {key} is still to be filled in; it is a public fact.")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidParameter(f"{where}: {key} must be a number; got {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidParameter(f"{where}: {key} must be a finite number.")
    return number


def _flag(facts: dict[str, Any], key: str, default: bool, where: str) -> bool:
    value = facts.get(key, default)
    if not isinstance(value, bool):
        raise InvalidParameter(f"{where}: {key} must be true or false; got {value!r}.")
    return value
