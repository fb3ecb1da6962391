"""Argument checks: each returns a plain Python value or raises one sentence with the value.

And text from elsewhere, made `visible`: a name must steer neither a screen nor a reader's eye.
"""

import math
import numbers
import os
import reprlib
import sys
import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from noisette.errors import InvalidParameter, NoisetteError

_ABOVE_0, _BELOW_1, _FINITE = math.ulp(0.0), math.nextafter(1.0, 0.0), sys.float_info.max
# Control signs, direction marks and other format signs, halves of letters, line separators.
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_HARMLESS = "\n\u200c\u200d"  # the last two join letters within a word: Persian, Hindi, emoji


def shown(value: object) -> str:
    """Return a short piece of what was given: a message is a sentence, however long the value."""
    text = reprlib.repr(value) if isinstance(value, int) else repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _number(
    name: str, value: object, wanted: str, least: float = -math.inf, most: float = math.inf
) -> float:
    """Return `value` as a float from `least` to `most`, both included."""
    if type(value) is float and least <= value <= most:  # the common case
        return value
    # bool is an int to Python, but epsilon=True is always a mistake.
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidParameter(f"{name} must be {wanted}; got {shown(value)}.")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidParameter(f"{name} is too large for a floating-point number.") from None
    if not least <= number <= most:  # nor is NaN
        raise InvalidParameter(f"{name} must be {wanted}; got {shown(value)}.")
    return number


def fields(record: object, **checks: Callable[[str, Any], object]) -> None:
    """Put the checked value of each named field into a frozen record, in that order."""
    for name, check in checks.items():
        object.__setattr__(record, name, check(name, getattr(record, name)))


real = partial(_number, wanted="a number")
"""Return `value` as a float that is not NaN (infinities pass); so `name` and `value` below, too."""
positive = partial(_number, wanted="a positive, finite number", least=_ABOVE_0, most=_FINITE)
"""In (0, inf)."""
positive_or_infinite = partial(_number, wanted="a positive number (inf for none)", least=_ABOVE_0)
"""In (0, inf], where inf stands for none."""
non_negative = partial(
    _number, wanted="a finite number that is at least 0", least=0.0, most=_FINITE
)
"""In [0, inf)."""
fraction = partial(_number, wanted="a number in (0, 1)", least=_ABOVE_0, most=_BELOW_1)
"""In (0, 1), both ends excluded."""
probability = partial(_number, wanted="a number in [0, 1]", least=0.0, most=1.0)
"""In [0, 1]."""
rate = partial(_number, wanted="a sampling rate in (0, 1]", least=_ABOVE_0, most=1.0)
"""In (0, 1]."""


def boolean(name: str, value: object) -> bool:
    """Return `value` if it is True or False; a word such as "false" is refused, not guessed."""
    if not isinstance(value, bool):
        raise InvalidParameter(f"{name} must be True or False; got {shown(value)}.")
    return value


named_epsilon = partial(
    _number, wanted="a positive, finite number (1.0 is a common choice, smaller is more private)",
    least=_ABOVE_0, most=_FINITE,
)  # fmt: skip
"""In (0, inf): the privacy parameter under a name of its own."""
epsilon = partial(named_epsilon, "epsilon")
"""In (0, inf): the privacy parameter."""


def delta(value: object, name: str = "delta") -> float:
    """Return the privacy parameter delta as a float in [0, 1)."""
    wanted = "a number in [0, 1), far below 1/n (1e-6 is a common choice, 0 is pure privacy)"
    return _number(name, value, wanted, 0.0, _BELOW_1)


def delta_for(value: object, size: int | None, name: str = "delta") -> float:
    """Return delta if it is below 1/n for the public number n = `size` (None: n is private)."""
    number = delta(value, name)
    if number * (size or 0) >= 1.0:
        raise InvalidParameter(
            f"{name}={number:g} is not below 1/n for n={size} records: it would allow a release "
            f"that gives away somebody's whole record; take {proposed_delta(size)} or less."
        )
    return number


def proposed_delta(size: int | None) -> str:
    """Return a delta of at most 1/(10 n) for a *public* n, and at most 1e-6; a power of ten."""
    return f"1e-{max(6, len(str(max(size or 1, 1) - 1)) + 1)}"


def integer(name: str, value: object, least: int = 1) -> int:
    """Return `value` as an int that is at least `least` (integral floats are refused)."""
    if type(value) is int and value >= least:  # the common case, without abstract classes
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        raise InvalidParameter(f"{name} must be a whole number >= {least}; got {shown(value)}.")
    return int(value)


def choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of the `allowed` names."""
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        raise InvalidParameter(
            f"{name} must be one of {', '.join(map(repr, names))}; got {shown(value)}."
        )
    return value


def refuse(*wrongs: tuple[object, str], kind: type[NoisetteError] = InvalidParameter) -> None:
    """Raise with the sentence of the first thing that is wrong, if one is."""
    for wrong, sentence in wrongs:
        if wrong:
            raise kind(sentence)


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path without links; links that lead in a circle are refused."""
    found = Path(os.path.realpath(path))
    if found.is_symlink():  # all others have been followed
        raise InvalidParameter(f"{path} is a link that leads back to itself; give another name.")
    return found


def steers(sign: str) -> bool:
    """Whether a sign can move the cursor, turn the direction of reading or hide."""
    return unicodedata.category(sign) in _STEERING and sign not in _HARMLESS


def visible(text: str) -> str:
    r"""Return the text with such signs written out, as in \u202e: names stay different names."""
    if text.isascii() and text.isprintable():  # the common case
        return text
    return "".join(
        sign.encode("unicode_escape").decode("ascii") if steers(sign) else sign for sign in text
    )
