"""Ranges and prefixes of codes: "390-459", "V01-V91", "250.*".

A range holds the codes from its first number to its last, the last one's own decimals included:
459.9 belongs to "390-459". Letters before the number must be the same. "250.*" holds 250 and all
that begins with "250."; "25*" all that begins with "25". Of several the narrowest wins, a prefix
before a range, so that the order in which they are written means nothing.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from noisette.errors import InvalidParameter

_CODE = re.compile(r"([A-Za-z]*)(\d{1,15}(?:\.\d{1,15})?)")
_RANGE = re.compile(rf"{_CODE.pattern}\s*-\s*{_CODE.pattern}")


@dataclass(frozen=True)
class _Range:
    """Codes with `letters` and a number from `low` up to `end`, which is left out if `open`."""

    letters: str
    low: float
    end: float
    open: bool

    @classmethod
    def of(cls, text: str) -> "_Range | None":
        found = _RANGE.fullmatch(text)
        if found is None or found[1] != found[3]:
            return None
        low, high = float(found[2]), float(found[4])
        whole = "." not in found[4]
        return cls(found[1], low, high + 1.0 if whole else high, whole) if low <= high else None

    def __contains__(self, code: tuple[str, float]) -> bool:
        letters, number = code
        below = number < self.end if self.open else number <= self.end
        return letters == self.letters and self.low <= number and below

    @property
    def _first_outside(self) -> float:
        return self.end if self.open else math.nextafter(self.end, math.inf)

    def crosses(self, other: "_Range") -> bool:
        """Whether the two share codes and neither lies inside the other, or both are the same."""
        one, two = sorted([self, other], key=lambda each: (each.low, -each._first_outside))
        if one.letters != two.letters or two.low >= one._first_outside:
            return False
        same = one.low == two.low and one._first_outside == two._first_outside
        return same or two._first_outside > one._first_outside

    @property
    def width(self) -> float:
        return self._first_outside - self.low


def is_pattern(text: str) -> bool:
    """Whether a code of a schema stands for more than itself."""
    return text.endswith("*") or _Range.of(text) is not None


def check_codes(patterns: Sequence[str], where: str) -> None:
    """Refuse ranges that overlap, where neither is the narrower one, and stars in odd places."""
    ranges: list[tuple[str, _Range]] = []
    for pattern in patterns:
        if pattern.endswith("*"):
            if "*" in pattern[:-1] or pattern == "*":
                raise InvalidParameter(f"{where}: a * ends a prefix, as in '250.*'.")
            continue
        found = _Range.of(pattern)
        if found is not None:
            for text, other in ranges:
                if found.crosses(other):
                    raise InvalidParameter(
                        f"{where}: the ranges {text!r} and {pattern!r} overlap, and neither lies "
                        "inside the other."
                    )
            ranges.append((pattern, found))


class CodeGroups:
    """Finds the group of a code."""

    def __init__(self, patterns: Sequence[tuple[str, str]]) -> None:
        stars = [(text[:-1], group) for text, group in patterns if text.endswith("*")]
        self._prefixes = sorted(stars, key=lambda each: -len(each[0]))
        ranges = [(_Range.of(text), group) for text, group in patterns]
        found = [(each, group) for each, group in ranges if each is not None]
        self._ranges = sorted(found, key=lambda each: each[0].width)

    def find(self, text: str) -> str | None:
        """Return the group of a canonical text, or None."""
        for prefix, group in self._prefixes:
            if text.startswith(prefix) or text + "." == prefix:
                return group
        code = _CODE.fullmatch(text)
        if code is None:
            return None
        number = code[1], float(code[2])
        return next((group for each, group in self._ranges if number in each), None)
