"""``noisette studio``: the same without a shell, on a page of this machine."""

from pathlib import Path
from typing import Annotated

import typer

from noisette._validate import visible
from noisette.errors import InvalidParameter


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
    if not folder.is_dir():
        raise InvalidParameter(f"there is no folder {folder}; give one that exists.")
    if not 0 <= port < 65536:
        raise InvalidParameter(f"--port must lie between 0 and 65535; got {port}.")
    from noisette.app.studio import serve

    def say(words: str) -> None:
        if words.startswith("http://"):
            typer.echo(f"The studio is at {words}")
            typer.echo("Keep this window open; Ctrl-C ends the studio.")
        else:
            typer.echo(visible(words), err=True)

    serve(folder.resolve(), port=port, browser=browser, say=say)
