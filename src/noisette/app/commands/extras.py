"""``noisette example``, ``theorem`` and ``studio``: to try, to look up, and without a shell."""

import difflib
import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from noisette._files import carried
from noisette._validate import refuse, visible
from noisette.app.commands import options as opt
from noisette.app.commands.console import check_file, csv_text, write_text
from noisette.errors import InvalidParameter

_ROWS, _KNOWN = 20_000, 16_000


def example(
    folder: Annotated[
        Path, typer.Argument(help="Where to write; made if it is not there.")
    ] = Path(),
    force: opt.ForceOption = False,
) -> None:
    """Write the table of invented loans that the tutorial uses, and its schema.

    [bold]Example[/bold]: noisette example, then noisette train loans.csv --schema loans.toml
    --epsilon 1
    """
    from noisette.tables.datasets import mixed_table

    columns = mixed_table(_ROWS, seed=0).columns
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    texts = {
        "loans.csv": csv_text(columns, rows[:_KNOWN], "\r\n"),
        "new_loans.csv": csv_text(columns, rows[_KNOWN:], "\r\n"),
        "loans.toml": carried("loans.toml"),
    }
    refuse((folder.exists() and not folder.is_dir(), f"{folder} is a file; name a folder."))
    for name in texts:
        check_file(folder / name, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(folder / name, text, force=force)
        typer.echo(visible(f"wrote {folder / name}"), err=True)


def theorem(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Its id, as in a statement.", show_default=False),
    ] = None,
    json: opt.JsonOption = False,
) -> None:
    """Print a theorem with its conditions and source, or list all of them.

    [bold]Example[/bold]: noisette theorem OBJECTIVE-PERTURBATION
    """
    from noisette.core.theorems import statements, with_grounds

    chapters = statements()
    if name is None:
        listed = {title: list(found) for title, found in chapters.items()}
        lines = (f"{title}: {', '.join(ids)}" for title, ids in listed.items() if ids)
        print(json_module.dumps(listed) if json else "\n".join(lines))
        return
    known = {key.upper(): (key, text) for found in chapters.values() for key, text in found.items()}
    if name.upper() not in known:
        near = difflib.get_close_matches(name.upper(), known, n=3)
        advice = f"did you mean {', '.join(near)}" if near else "noisette theorem lists all"
        raise InvalidParameter(f"there is no theorem {visible(name)!r}; {advice}.")
    key, text = known[name.upper()]
    grounds = list(with_grounds([key])[1:])
    if json:
        print(json_module.dumps({"id": key, "statement": text, "rests_on": grounds}))
    else:
        print(f"{key}\n\n{text}" + (f"\n\nRests on: {', '.join(grounds)}." if grounds else ""))


def studio(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Where tables are looked for and models are kept.",
            show_default=False,
        ),
    ] = Path("."),
    port: Annotated[
        int, typer.Option(help="The port of 127.0.0.1; any that is free if not given.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:  # fmt: skip
    """Open a page on this machine that leads from a table to a private model and its report.

    Nobody else can open it: it listens at 127.0.0.1 only, and its address has a key in it.

    [bold]Example[/bold]: noisette studio patients
    """
    refuse(
        (not folder.is_dir(), f"there is no folder {folder}; give one that exists."),
        (not 0 <= port < 65536, f"--port must lie between 0 and 65535; got {port}."),
    )
    from noisette.app.studio import serve

    def say(words: str) -> None:
        if words.startswith("http://"):
            typer.echo(f"The studio is at {words}\nKeep this window open; Ctrl-C ends the studio.")
        else:
            typer.echo(visible(words), err=True)

    serve(folder.resolve(), port=port, browser=browser, say=say)
