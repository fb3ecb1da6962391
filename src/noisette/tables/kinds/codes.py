"""Ranges and prefixes of codes: "390-459", "V01-V91", "250.*".

A range holds the codes from its first number to its last, the last one's own decimals included:
459.9 belongs to "390-459". Letters before the number must be the same. "250.*" holds 250 and all
that begins with "250."; "25*" all that begins with "25". Of several the narrowest wins, a prefix
before a range, so that the order in which they are written means nothing.
"""

import math
import re
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from noisette.errors import InvalidParameter

_CODE = re.compile(r"([A-Za-z]*)(\d{1,15}(?:\.\d{1,15})?)")
_RANGE = re.compile(rf"{_CODE.pattern}\s*-\s*{_CODE.pattern}")


class _Range(NamedTuple):
    """Codes with `letters` and a number from `low` up to `end`, which is left out."""

    letters: str
    low: float
    end: float


def _range(text: str) -> _Range | None:
    found = _RANGE.fullmatch(text)
    if found is None or found[1] != found[3] or float(found[2]) > float(found[4]):
        return None
    last = float(found[4])
    end = math.nextafter(last, math.inf) if "." in found[4] else last + 1.0
    return _Range(found[1], float(found[2]), end)


def is_pattern(text: str) -> bool:
    """Whether a code of a schema stands for more than itself."""
    return text.endswith("*") or _range(text) is not None


def check_codes(patterns: Sequence[str], where: str) -> None:
    """Refuse ranges that overlap, where neither is the narrower one, and stars in odd places."""
    for pattern in patterns:
        if pattern.endswith("*") and ("*" in pattern[:-1] or pattern == "*"):
            raise InvalidParameter(f"{where}: a * ends a prefix, as in '250.*'.")
    ranges = [(each, text) for text in patterns if (each := _range(text)) is not None]
    for pair in combinations(ranges, 2):
        (one, _), (two, _) = sorted(pair, key=lambda each: (each[0].low, -each[0].end))
        shared = one.letters == two.letters and two.low < one.end
        if shared and (one == two or two.end > one.end):
            raise InvalidParameter(
                f"{where}: the ranges {pair[0][1]!r} and {pair[1][1]!r} overlap, and neither lies "
                "inside the other."
            )


class CodeGroups:
    """Finds the group of a code."""

    def __init__(self, patterns: Sequence[tuple[str, str]]) -> None:
        stars = [(text[:-1], group) for text, group in patterns if text.endswith("*")]
        self._prefixes = sorted(stars, key=lambda each: -len(each[0]))
        found = [(each, group) for text, group in patterns if (each := _range(text)) is not None]
        self._ranges = sorted(found, key=lambda each: each[0].end - each[0].low)

    def find(self, text: str) -> str | None:
        """Return the group of a canonical text, or None."""
        for prefix, group in self._prefixes:
            if text.startswith(prefix) or text + "." == prefix:
                return group
        code = _CODE.fullmatch(text)
        for each, group in self._ranges:
            if code and code[1] == each.letters and each.low <= float(code[2]) < each.end:
                return group
        return None
