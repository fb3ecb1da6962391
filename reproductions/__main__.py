"""``python -m reproductions song2013 --quick``, in a checkout of the project."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from noisette import _validate
from noisette.app.commands.console import Stopped
from noisette.errors import InvalidParameter, NoisetteError
from reproductions import EXPERIMENTS, experiment, figures, page, runner
from reproductions.base import Experiment

__all__ = ["main"]


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which paper (see --list), or all.", show_default=False)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer seeds and settings: about two minutes.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for pages, figures, CSV files and finished tasks.")
    ] = Path("out/reproductions"),
    jobs: Annotated[
        int | None, typer.Option(help="Processes, one thread each; all cores if not given.")
    ] = None,
    data_home: Annotated[
        Path | None, typer.Option(help="Folder of the datasets; NOISETTE_DATA if not given.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the papers and stop.")] = False,
) -> None:
    """Reproduce a founding paper: figures, every plotted number, and a verdict on each claim.

    A run that was stopped goes on where it was: give the same command again.

    [bold]Example[/bold]: python -m reproductions song2013 --quick --out papers
    """
    console = Console(highlight=False, soft_wrap=True)
    if listed:
        _list(console)
        return
    if name is None:
        raise InvalidParameter(f"name a paper: {', '.join([*EXPERIMENTS, 'all'])}.")
    _validate.choice("NAME", name, [*EXPERIMENTS, "all"])
    if jobs is not None:
        _validate.integer("--jobs", jobs)
    if out.exists() and not out.is_dir():
        raise InvalidParameter(f"--out must be a folder; {str(out)!r} is a file.")
    if data_home is not None and not data_home.is_dir():
        raise InvalidParameter(f"--data-home: there is no folder {str(data_home)!r}.")
    for one in EXPERIMENTS if name == "all" else [name]:
        _reproduce(console, experiment(one), quick, out, jobs, data_home)


def _list(console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("name")
    table.add_column("paper")
    for name, (_, line) in EXPERIMENTS.items():
        table.add_row(name, line)
    console.print(table)


def _reproduce(
    console: Console, chosen: Experiment, quick: bool, out: Path, jobs: int | None,
    data_home: Path | None,
) -> None:  # fmt: skip
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    figures.require_matplotlib()  # before minutes of work, not after
    folder = out / chosen.name
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = Console(stderr=True)
    off = not shown.is_terminal  # a log file wants no bar
    try:
        with Progress(*columns, console=shown, transient=True, disable=off) as bar:
            row = bar.add_task(chosen.name, total=None)
            table, seconds = runner.collect(
                chosen,
                folder / "results.jsonl",
                quick=quick,
                jobs=jobs,
                data_home=data_home,
                progress=lambda done, total: bar.update(row, completed=done, total=total),
            )
    except KeyboardInterrupt:
        raise Stopped(
            f"{chosen.name} was stopped; finished tasks are kept in {folder}; run the same command "
            "again to go on."
        ) from None
    written = page.publish(
        chosen, table, out, quick=quick, tasks=len(chosen.tasks(quick)), seconds=seconds
    )
    claims = chosen.claims(table)
    held = sum(claim.holds for claim in claims)
    console.print(f"{chosen.name}: {held} of {len(claims)} claims hold; read {written}")


def main() -> None:
    """Run the command; what goes wrong is one sentence."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich", add_completion=False)
    app.command()(reproduce)
    try:
        app(prog_name="python -m reproductions")
    except NoisetteError as error:
        print(f"reproductions: {error}", file=sys.stderr)
        sys.exit(getattr(error, "code", 2))


if __name__ == "__main__":
    main()
