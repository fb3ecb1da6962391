"""The demo: a table of invented people, a private model, its price, its guarantee, its budget.

Run by ``make demo``; everything it writes goes to the folder ``demo`` (``--out`` for another).
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from noisette import LogisticRegression, tables

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "examples" / "loans.toml"
SHOWN, DRAWN, REPEATS = (0.1, 1.0, 8.0), (0.03, 0.1, 0.3, 1.0, 3.0, 8.0), 10
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
console = Console(width=min(100, Console().width), highlight=False)


def say(text: str) -> None:
    """Print a paragraph, indented a little."""
    console.print(Text.from_markup(text), soft_wrap=False)


def write_tables(folder: Path) -> tuple[Path, Path]:
    """Write 16,000 invented people to train on and 4,000 to test with, as CSV files."""
    done = command("example", folder, "--force")
    if done.returncode:
        raise SystemExit(done.stderr)
    return folder / "loans.csv", folder / "new_loans.csv"


def accuracies(train: Path, test: Path) -> tuple[float, float, dict[float, list[float]]]:
    """Return the accuracy of the commoner class, without privacy, and with each epsilon."""
    from sklearn.linear_model import LogisticRegression as Plain

    schema = tables.read_schema(SCHEMA)
    known = tables.encode(train, schema, target=True)
    new = tables.encode(test, schema, target=True)
    assert new.y is not None
    usual = max(float((new.y == label).mean()) for label in schema.classes)
    plain = Plain(C=1e3, max_iter=1000).fit(known.X, known.y).score(new.X, new.y)
    private: dict[float, list[float]] = {}
    # The smallest epsilon is drawn to show what it costs; noisette warns of it before the charge.
    warnings.filterwarnings("ignore", "From public facts alone")
    for epsilon in DRAWN:
        model = LogisticRegression(epsilon=epsilon, classes=list(schema.classes), norm_bound=1.0)
        private[epsilon] = [model.fit(known.X, known.y).score(new.X, new.y) for _ in range(REPEATS)]
    return usual, float(plain), private


def show_accuracies(usual: float, plain: float, private: dict[float, list[float]]) -> None:
    """Print the price of privacy as a table."""
    table = Table(title=f"Accuracy on 4,000 people who were not in the data, {REPEATS} private "
                  "models each", title_justify="left")  # fmt: skip
    table.add_column("")
    table.add_column("accuracy", justify="right")
    table.add_column("what it promises each person")
    table.add_row("always guess the usual answer", f"{usual:.1%}", "everything: it uses no data")
    words = {
        0.1: "very strong: any conclusion is at most 1.11 times likelier",
        1.0: "strong: at most 2.72 times likelier",
        8.0: "weak: at most 2,981 times likelier",
    }
    for epsilon in SHOWN:
        mean, spread = np.mean(private[epsilon]), np.std(private[epsilon], ddof=1)
        shown = f"{mean:.1%} ± {100 * spread:.1f}"
        table.add_row(f"private, epsilon = {epsilon:g}", shown, words[epsilon])
    table.add_row("no privacy (scikit-learn)", f"{plain:.1%}", "nothing")
    console.print(table)


def draw(path: Path, usual: float, plain: float, private: dict[float, list[float]]) -> bool:
    """Draw accuracy against epsilon; False if matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        return False
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 11})
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    epsilons = np.array(DRAWN)
    means = 100 * np.array([np.mean(private[e]) for e in DRAWN])
    spreads = 100 * np.array([np.std(private[e], ddof=1) for e in DRAWN])
    axes.axhline(100 * plain, color=GREY, lw=1.5, ls="--")
    axes.text(0.026, 100 * plain + 0.25, "no privacy", color=GREY, va="bottom")
    axes.axhline(100 * usual, color=GREY, lw=1.5, ls=":")
    axes.text(
        8.8, 100 * usual + 0.25, "always the usual answer", color=GREY, va="bottom", ha="right"
    )
    axes.errorbar(epsilons, means, spreads, color=BLUE, marker="o", lw=2, capsize=4)
    axes.annotate("private (mean ± one standard deviation)", (1.0, means[DRAWN.index(1.0)]),
                  (0.35, 0.55), textcoords="axes fraction", color=BLUE,
                  arrowprops={"arrowstyle": "-", "color": BLUE})  # fmt: skip
    axes.set(xscale="log", xlabel="epsilon (smaller is safer)", ylabel="test accuracy in %")
    axes.set_xticks(DRAWN, [f"{e:g}" for e in DRAWN])
    axes.minorticks_off()
    axes.set_ylim(min(100 * usual, float((means - spreads).min())) - 1, 100 * plain + 2)
    axes.set_xlim(0.025, 9.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("What privacy costs on 16,000 invented loans", loc="left", fontsize=12)
    figure.savefig(path, dpi=150)
    return True


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Show a noisette command as it would be typed, run it, return what it said."""
    typed = [_near(word) if isinstance(word, Path) else word for word in words]
    say(f"  [bold cyan]$ noisette {shlex.join(typed)}[/bold cyan]")
    return subprocess.run(
        [sys.executable, "-m", "noisette", *map(str, words)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def _near(path: Path) -> str:
    return os.path.relpath(path)


def train_with_a_budget(folder: Path, train: Path) -> None:
    """Train by the command line, twice, on a budget that lasts for one model."""
    book = folder / "people.ledger"
    for old in folder.glob("people.ledger*"):
        old.unlink()
    command("ledger", book, "--epsilon", "1.5")
    shared = ("--target", "repaid", "--schema", SCHEMA, "--epsilon", "1", "--ledger", book)
    done = command("train", train, *shared, "--out", folder / "model", "--force", "--json")
    if done.returncode:
        raise SystemExit(done.stderr)
    answer = json.loads(done.stdout)
    statement = answer["guarantee"]["statement"].split(" Treated as public")[0] + " ..."
    console.print(Panel(Text(statement), title="what your reviewer gets", padding=(0, 1)))
    say("A second model about the same people would go over their budget, and is refused:")
    refused = command("train", train, *shared, "--out", folder / "second")
    say(f"  [red]{refused.stderr.strip()}[/red]")


def main() -> None:
    """Run all parts and say what to try next."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "demo", help="folder to write to")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")  # nothing in here belongs into a repository

    console.rule("[bold]1. People who trust you with their data[/bold]", align="left")
    train, test = write_tables(folder)
    say(
        f"{_near(train)} holds 16,000 invented people: age, income, job, home ... and whether they "
        "paid a loan back. A model of them may be published; nobody in it may be exposed. "
        "[bold]Differential privacy[/bold] promises that: the model would have come out about as "
        "likely had any one person's record been different. noisette trains such models, proves "
        "the promise, and refuses what it cannot prove."
    )
    console.rule("[bold]2. What privacy costs[/bold]", align="left")
    usual, plain, private = accuracies(train, test)
    show_accuracies(usual, plain, private)
    picture = folder / "accuracy.png"
    if draw(picture, usual, plain, private):
        say(f"figure: [bold]{_near(picture)}[/bold]")
    else:
        say("(no figure: pip install 'noisette[plot]')")

    console.rule("[bold]3. The promise, and the budget behind it[/bold]", align="left")
    say("Bounds and categories come from a schema that a person wrote, never from the rows.")
    train_with_a_budget(folder, train)

    console.rule("[bold]4. Try next[/bold]", align="left")
    noisette = _near(Path(sys.executable).with_name("noisette"))
    model = _near(folder / "model")
    for what, how in (
        ("read the report in a browser", f"{model}/report.html"),
        ("check the guarantee yourself", f"{noisette} inspect {model}"),
        ("predict new people", f"{noisette} predict {model} {_near(test)} --proba"),
        ("see what is left of the budget", f"{noisette} ledger {_near(folder / 'people.ledger')}"),
        ("start with your own table", f"{noisette} schema YOUR.csv --out schema.toml"),
        ("count the privacy of a training run",
         f"{noisette} account --noise-multiplier 1 --sampling poisson --rate 0.01 --steps 1000 "
         "--delta 1e-5 --adjacency add-remove"),
        ("in Python", "README.md; the tutorial is docs/command_line.md"),
    ):  # fmt: skip
        console.print(Text(f"  {what}:"))
        console.print(Text(f"      {how}", style="bold"), soft_wrap=True)


if __name__ == "__main__":
    main()
