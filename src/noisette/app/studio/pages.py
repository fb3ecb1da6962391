"""From what is known to HTML. Every text is escaped, and names keep their own direction."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from noisette._package import __version__
from noisette._validate import visible
from noisette.report.kit import stylesheet

STEPS = (
    ("table", "Table"),
    ("facts", "What is public"),
    ("budget", "Budget"),
    ("ledger", "Ledger"),
    ("train", "Train"),
    ("result", "Result"),
)
"""The steps in order: the last part of the path, and the name."""


def shown(text: object) -> Markup:
    """Return a name from elsewhere: escaped, steering signs written out, in its own direction."""
    return Markup("<bdi>{}</bdi>").format(visible(str(text)))


def number(value: float) -> str:
    """Return a number in few signs: 1e-6, not 1e-06."""
    return re.sub(r"e([+-])0+", r"e\1", f"{value:.6g}")


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("noisette.app.studio"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    found.filters |= {"shown": shown, "n": number, "plain": lambda text: escape(visible(str(text)))}
    found.globals |= {"steps": STEPS, "version": __version__}
    return found


def page(name: str, known: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Return one page."""
    return HTMLResponse(_environment().get_template(name).render(known), status)


@cache
def style() -> str:
    """Return the style sheet of all pages of noisette."""
    return stylesheet()
