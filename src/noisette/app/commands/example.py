"""``noisette example``: a table of invented people to try the other commands on."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from noisette._files import carried
from noisette._validate import visible
from noisette.app.commands.console import write_text
from noisette.app.commands.train import ForceOption
from noisette.errors import InvalidParameter

_ROWS, _KNOWN = 20_000, 16_000


def example(
    folder: Annotated[
        Path, typer.Argument(help="Where to write; made if it is not there.")
    ] = Path(),
    force: ForceOption = False,
) -> None:
    """Write the table of invented loans that the tutorial uses, and its schema.

    [bold]Example[/bold]: noisette example, then noisette train loans.csv --schema loans.toml
    --epsilon 1
    """
    from noisette.tables.datasets import mixed_table

    columns = mixed_table(_ROWS, seed=0).columns
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    texts = {
        "loans.csv": _table(columns, rows[:_KNOWN]),
        "new_loans.csv": _table(columns, rows[_KNOWN:]),
        "loans.toml": carried("loans.toml"),
    }
    if folder.exists() and not folder.is_dir():
        raise InvalidParameter(f"{folder} is a file; name a folder.")
    taken = [name for name in texts if (folder / name).exists()]
    if taken and not force:
        raise InvalidParameter(f"{folder / taken[0]} exists; --force replaces it.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(folder / name, text, force=force)
        typer.echo(visible(f"wrote {folder / name}"), err=True)


def _table(header: Iterable[str], rows: list[tuple[object, ...]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(header)
    writer.writerows(rows)
    return file.getvalue()
