"""From what is known to HTML. Every text is escaped, and names keep their own direction.

`for_...` are the same without the page: a command line, and Python that do what a step does.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from noisette._package import __version__
from noisette._validate import visible
from noisette.app.job import command_line
from noisette.app.studio.chosen import ChosenTable

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


def for_table(table: ChosenTable) -> tuple[str, str]:
    """Return how the header is read."""
    words, more = ([], "") if table.header else (["--no-header"], ", header=False")
    if "encoding" in table.file:
        words += ["--encoding", table.file["encoding"]]
        more += f", encoding={table.file['encoding']!r}"
    return command_line("noisette", "schema", table.path, *words, "--learn"), (
        "from noisette.tables import template\n\n"
        f"print(template({str(table.path)!r}{more}, learn=True))"
    )


def for_ledger(place: Path, total: tuple[float, float] | None, adjacency: str) -> tuple[str, str]:
    """Return how the ledger is started, or read."""
    words: list[Any] = ["noisette", "ledger", place]
    arguments = [repr(str(place))]
    if total is not None:
        words += ["--epsilon", f"{total[0]:.12g}", "--delta", f"{total[1]:.12g}"]
        words += [] if adjacency == "replace-one" else ["--adjacency", adjacency]
        arguments += [f"epsilon={total[0]!r}", f"delta={total[1]!r}", f"adjacency={adjacency!r}"]
    return command_line(*words), (
        "from noisette import Ledger\n\n"
        f"ledger = Ledger.open({', '.join(arguments)})\nprint(ledger.remaining)"
    )


def for_model(out: Path, *, proba: bool) -> tuple[str, str]:
    """Return how a model is checked, exported and used."""
    lines = (
        ("inspect", out),
        ("export", out, "--format", "card", "--out", f"{out}-card.json"),
        ("predict", out, "TABLE", *["--proba"] * proba, "--out", f"{out}-predictions.csv"),
    )
    return "\n".join(command_line("noisette", *words) for words in lines), (
        "from noisette.tables import read_model\n\n"
        f"fitted = read_model({str(out)!r})\n"
        "print(fitted.guarantee.statement())\n"
        "rows = fitted.read('TABLE', target=False)\nprint(len(fitted.model.predict(rows.X)))"
    )
