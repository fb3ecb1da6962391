"""The Markdown page of a reproduction: every claim beside the measured figure and a verdict."""

from pathlib import Path

from noisette import _files
from noisette._package import __version__
from reproductions import figures
from reproductions.base import Claim, Experiment, Figure, Table

__all__ = ["publish"]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _claims(claims: list[Claim]) -> str:
    held = sum(claim.holds for claim in claims)
    lines = [
        f"{held} of {len(claims)} claims hold.",
        "",
        "| where | the source says | measured | holds if | verdict |",
        "|---|---|---|---|---|",
    ]
    for c in claims:
        cells = (c.where, c.statement, c.measured, c.criterion, c.verdict)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines)


def _figure(figure: Figure, name: str) -> str:
    at = f"{name}/{figure.name}"
    alt = (
        figure.caption.split(". ")[0]
        .replace("[", "(")
        .replace("]", ")")
        .replace("*", "")
        .strip(".")
    )
    return (
        f"![{' '.join(alt.split())}]({at}.png)\n\n{figure.caption}\n"
        f"([SVG]({at}.svg), [numbers as CSV]({at}.csv))"
    )


def page(experiment: Experiment, table: Table, drawn: list[Figure], how: str) -> str:
    """Return the text of the page."""
    parts = [
        f"# {experiment.title}",
        f"*{experiment.source}*",
        f"<!-- written by `python -m reproductions {experiment.name}`; not edited by hand -->",
        experiment.introduction(table),
        "## Claims and verdicts",
        _claims(experiment.claims(table)),
        "## Figures",
        *(_figure(figure, experiment.name) for figure in drawn),
        experiment.remarks(table),
        "## How this page was made",
        how,
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def publish(
    experiment: Experiment, table: Table, out: Path, *, quick: bool, tasks: int, seconds: float
) -> Path:
    """Write the figures to ``out/NAME/`` and the page to ``out/NAME.md``; return the page."""
    drawn = experiment.figures(table)
    for figure in drawn:
        figures.write(figure, out / experiment.name)
    command = f"python -m reproductions {experiment.name}" + (" --quick" if quick else "")
    how = (
        f"`{command}` with noisette {__version__}: {tasks} tasks that took {seconds / 60.0:.1f} "
        "minutes of processor time in all. The same command writes the same numbers again."
    )
    if quick:
        how += " This is the quick run: fewer seeds and settings, so verdicts may differ."
    target = out / f"{experiment.name}.md"
    _files.write(target, page(experiment, table, drawn, how))
    return target
