"""The same without the page: commands and Python that do what a step does, to copy."""

import shlex
from pathlib import Path
from typing import Any

from noisette._validate import steers
from noisette.app.studio.chosen import ChosenTable
from noisette.app.studio.forecast import Budget

Same = tuple[str, str]
"""A command line, and Python."""


def quoted(text: str) -> str:
    r"""Return a word of a command line; signs that turn the eye are written out, as \u202e."""
    if not any(steers(sign) or sign == "\n" for sign in text):
        return shlex.quote(text)
    inner = []
    for sign in text:
        if steers(sign) or sign == "\n":
            inner.append(f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}")
        else:
            inner.append("\\" + sign if sign in "\\'" else sign)
    return "$'" + "".join(inner) + "'"


def command(*words: object) -> str:
    """Return a command line of bash."""
    return " ".join(quoted(str(word)) for word in words)


def _number(value: float) -> str:
    return f"{value:.12g}"


def for_table(table: ChosenTable) -> Same:
    """Return how the header is read."""
    header = [] if table.header else ["--no-header"]
    more = f", header={table.header}" if not table.header else ""
    if "encoding" in table.file:
        header += ["--encoding", table.file["encoding"]]
        more += f", encoding={table.file['encoding']!r}"
    python = (
        "from noisette.tables import template\n\n"
        f"print(template({str(table.path)!r}{more}, learn=True))"
    )
    return command("noisette", "schema", table.path, *header, "--learn"), python


def _estimator(budget: Budget, *, number: bool) -> tuple[str, str]:
    """Return the class and its arguments, without schema and ledger."""
    kind = "Additive" if budget.model == "additive" else "Table"
    name = kind + ("Regressor" if number else "Classifier")
    words = [f"epsilon={budget.epsilon!r}", f"delta={budget.delta!r}", "schema=facts"]
    if budget.adjacency != "replace-one":
        words.append(f"adjacency={budget.adjacency!r}")
    if not budget.size_is_public:
        words.append(f"population={budget.rows}")
    if budget.test_share is not None:
        words.append(f"test_share={budget.test_share!r}")
    return name, ", ".join(words)


def for_plan(schema: Path, budget: Budget, *, number: bool, bought: bool) -> Same:
    """Return how the outlook is computed."""
    words: list[Any] = ["noisette", "plan", "--schema", schema, "--rows", budget.rows]
    words += ["--epsilon", _number(budget.epsilon), "--delta", _number(budget.delta)]
    words += _options(budget)
    name, arguments = _estimator(budget, number=number)
    arguments += ', target_bounds="learn"' if bought else ""
    python = (
        f"from noisette import {name}\nfrom noisette.tables import read_schema\n\n"
        f"facts = read_schema({str(schema)!r}, learn=True)\n"
        f"print({name}({arguments}).plan({budget.rows}))"
    )
    return command(*words), python


def _options(budget: Budget) -> list[Any]:
    words: list[Any] = []
    if budget.model != "logistic":
        words += ["--model", budget.model]
    if budget.adjacency != "replace-one":
        words += ["--adjacency", budget.adjacency]
    if budget.test_share is not None:
        words += ["--test-share", _number(budget.test_share)]
    return words


def for_ledger(place: Path, total: tuple[float, float] | None, adjacency: str) -> Same:
    """Return how the ledger is started, or read."""
    words: list[Any] = ["noisette", "ledger", place]
    arguments = [repr(str(place))]
    if total is not None:
        words += ["--epsilon", _number(total[0]), "--delta", _number(total[1])]
        words += [] if adjacency == "replace-one" else ["--adjacency", adjacency]
        arguments += [f"epsilon={total[0]!r}", f"delta={total[1]!r}", f"adjacency={adjacency!r}"]
    python = (
        "from noisette import Ledger\n\n"
        f"ledger = Ledger.open({', '.join(arguments)})\nprint(ledger.remaining)"
    )
    return command(*words), python


def train_arguments(
    table: ChosenTable, schema: Path, budget: Budget, ledger: Path, out: Path
) -> list[str]:
    """Return the arguments of the very command that the page runs."""
    words: list[Any] = ["train", table.path, "--schema", schema, "--learn"]
    words += ["--epsilon", _number(budget.epsilon), "--delta", _number(budget.delta)]
    words += _options(budget)
    words += [] if budget.size_is_public else ["--population", budget.rows]
    words += [] if table.header else ["--no-header"]
    return [str(word) for word in (*words, "--ledger", ledger, "--out", out)]


def for_training(
    table: ChosenTable, schema: Path, budget: Budget, ledger: Path, out: Path, *,
    number: bool, bought: bool,
) -> Same:  # fmt: skip
    """Return how the model is trained."""
    name, arguments = _estimator(budget, number=number)
    arguments += ', target_bounds="learn"' if bought else ""
    header = "" if table.header else ", header=False"
    python = (
        f"from noisette import Ledger, {name}\nfrom noisette.tables import TableModel, read_schema"
        f"\n\nfacts = read_schema({str(schema)!r}, learn=True)\n"
        f"budget = Ledger.open({str(ledger)!r}, table={table.path.name!r})\n"
        f"model = {name}({arguments}, ledger=budget)\n"
        f"rows = TableModel(model, facts).read({str(table.path)!r}, target=True{header})\n"
        "model.fit(rows.X, rows.y)\nprint(model.privacy_.statement())"
    )
    return command("noisette", *train_arguments(table, schema, budget, ledger, out)), python


def for_model(out: Path, new: str = "TABLE", *, proba: bool = False) -> Same:
    """Return how a model is checked, exported and used."""
    lines = (
        command("noisette", "inspect", out),
        command("noisette", "export", out, "--format", "card", "--out", f"{out}-card.json"),
        command(
            "noisette", "predict", out, new, *["--proba"] * proba, "--out", f"{out}-predictions.csv"
        ),
    )
    python = (
        "from noisette.tables import read_model\n\n"
        f"fitted = read_model({str(out)!r})\n"
        "print(fitted.guarantee.statement())\n"
        f"rows = fitted.read({new!r}, target=False)\nprint(len(fitted.model.predict(rows.X)))"
    )
    return "\n".join(lines), python
