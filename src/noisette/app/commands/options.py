"""Arguments and options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

TableArgument = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE", help="A CSV file (.gz too) or a Parquet file.", show_default=False
    ),
]
ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="The folder that `noisette train` wrote.", show_default=False
    ),
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model folder or file.", show_default=False)
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is already there.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
NoHeaderOption = Annotated[
    bool,
    typer.Option("--no-header", help="The CSV file has no header line; names from the schema."),
]
