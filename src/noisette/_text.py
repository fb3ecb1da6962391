"""Text from elsewhere, made safe to show: a name must steer neither a screen nor a reader's eye."""

import unicodedata

# Control signs, direction marks and other format signs, halves of letters, line separators.
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_HARMLESS = "\n\u200c\u200d"  # the last two join letters within a word: Persian, Hindi, emoji


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
