"""Pages by jinja2, one look for all: every text is escaped where it enters a template.

Pages are paper first: one column of text, thin rules, one dark blue, and red only where something
is wrong. Colours are variables of the style sheet, so a page of another room needs no colour of its
own.
"""

from functools import cache
from html import escape as _quoted
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from noisette._package import __version__
from noisette._validate import visible

if TYPE_CHECKING:
    from jinja2 import Environment

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Of every page that noisette writes: the browser runs no script and fetches nothing."""

SERIES = {
    "#0072B2": "#62B0E8", "#B34700": "#F19A5E", "#00785A": "#56C6A4",
    "#A0428A": "#DB93CB", "#5A5A5A": "#B4B8BD",
}  # fmt: skip
"""Colours in drawings: by day, as they stand in the drawing, -> by night.

A drawing keeps its own colours, so that it may leave the page; the style sheet exchanges them.
"""


def escape(text: object) -> Markup:
    """Return text that is neither markup nor a sign that turns the direction of reading."""
    return Markup(_quoted(visible(str(text))))


def _isolated(value: Any) -> Any:
    """Return what enters a page: escaped, in its own direction if it may run to the left."""
    if hasattr(value, "__html__"):  # of the template itself
        return value
    text = escape(value)
    return text if str(value).isascii() else Markup(f"<bdi>{text}</bdi>")


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from noisette.core.guarantee import rounded_up
    from noisette.core.theorems import THEOREMS, grounds_of
    from noisette.report.numbers import delta_words
    from noisette.report.proofs import meaning

    found = Environment(
        loader=PackageLoader("noisette.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, finalize=_isolated,
    )  # fmt: skip
    found.filters |= {"plain": escape, "delta": delta_words, "up": rounded_up}
    found.globals |= {
        "policy": POLICY, "version": __version__, "theorems": THEOREMS, "grounds_of": grounds_of,
        "meaning": meaning, "stylesheet": stylesheet,
    }  # fmt: skip
    return found


def render(name: str, **known: Any) -> str:
    """Return a page, or a part of one, from its template.

    The policy of a page forbids the browser to fetch anything.
    """
    return _environment().get_template(name).render(known)


@cache
def stylesheet() -> str:
    """Return the style sheet of all pages; it names no file and no address."""
    return render("style.css", series=SERIES)
