"""The text by which cells are compared, and checks of facts that columns of all kinds share."""

import re
import sys
from collections.abc import Iterable
from itertools import filterfalse
from typing import Any

from noisette._validate import refuse
from noisette.errors import InvalidParameter

UNKNOWN = "?"
"""What `noisette schema` writes where a person has to fill in a fact."""
_WHOLE = re.compile(r"[+-]?\d+\.0*")
_TRUTH = {"true": "true", "True": "true", "TRUE": "true"} | {
    "false": "false", "False": "false", "FALSE": "false",
}  # fmt: skip


def canonical(value: object) -> str:
    """Return the text by which cells and categories are compared.

    Blanks around it do not count; "1.0" and "1" are the same, and so are "True" and "true".
    """
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return _TRUTH.get(text, text) if whole is None else text.split(".")[0]


def is_open(value: Any) -> bool:
    """Whether a fact is left for somebody else, or for the budget, to fill in."""
    return bool(value in (UNKNOWN, [UNKNOWN]))


def only(node: dict[str, Any], allowed: Iterable[str], where: str) -> None:
    """Refuse a key that nobody reads: a misspelt fact must not be a forgotten one."""
    known = list(allowed)
    for key in filterfalse(known.__contains__, node):
        raise InvalidParameter(f"{where} has an unknown key {key!r}; use {', '.join(known)}.")


def text_list(node: Any, what: str, *, empty: bool = False, hint: str = "") -> tuple[str, ...]:
    """Return a list of texts; numbers and truth values are written as texts."""
    if not isinstance(node, list) or not all(isinstance(x, str | int | float) for x in node):
        raise InvalidParameter(f"{what} must be a list of texts or numbers.")
    refuse(
        (not node and not empty, f"{what} must not be empty."),
        (node == [UNKNOWN] and not empty,
         f"{what} is still to be filled in; it is a public fact you know{hint}."),
        (len(set(map(canonical, node))) != len(node), f"{what} lists a value twice."),
    )  # fmt: skip
    return tuple(str(x).lower() if isinstance(x, bool) else str(x) for x in node)


def number(facts: dict[str, Any], key: str, where: str) -> float | None:
    """Return a finite number, or None if there is no such entry."""
    value = facts.get(key)
    if value is None:
        return None
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    refuse(
        (value == UNKNOWN,
         f"{where}: {key} is still to be filled in; it is a public fact (--learn buys bounds "
         "and categories from the budget)."),
        (not plain, f"{where}: {key} must be a number; got {value!r}."),
        # NaN is none
        (not plain or not abs(value) <= sys.float_info.max,
         f"{where}: {key} must be a finite number."),
    )  # fmt: skip
    return float(value)


def flag(facts: dict[str, Any], key: str, default: bool, where: str) -> bool:
    """Return a truth value."""
    value = facts.get(key, default)
    if not isinstance(value, bool):
        raise InvalidParameter(f"{where}: {key} must be true or false; got {value!r}.")
    return value


def weight(facts: dict[str, Any], key: str, where: str, default: float = 1.0) -> float:
    """Return a size whose square neither overflows nor vanishes, whatever the cells are."""
    value = number(facts, key, where)
    if value is not None and not 1e-6 <= value <= 1e6:
        raise InvalidParameter(f"{where}: {key} must lie between 1e-6 and 1e6; got {value:g}.")
    return default if value is None else value
