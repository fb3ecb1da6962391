"""The typer application: which commands there are. The work is in the other files.

A command is imported when it is run, so that help and version are there at once.
"""

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from noisette._package import __version__
from noisette.errors import NoisetteError

COMMANDS = {
    "schema": "Write a template of public facts for a table, without looking at its rows.",
    "plan": "Show what a model would release, cost and learn, from public facts alone.",
    "train": "Train a private model on a table; write the model, its guarantee and a report.",
    "predict": "Predict the labels of a table as CSV, one line for each row.",
    "evaluate": "Score a model on a table privately: accuracy, AUC, calibration, with error bars.",
    "explain": "Show what each column adds to the score and each weight, with the noise in it.",
    "export": "Write a model for programs without noisette: a JSON scoring card, or an ONNX graph.",
    "inspect": "Check a model's guarantee against the plan that ran, and show it.",
    "recover": "Bring back results that were paid for and whose command was stopped before the "
    "end.",
    "ledger": "Show what a ledger holds, or start one with --epsilon.",
    "studio": "Open a page on this machine that leads from a table to a private model and its "
    "report.",
    "theorem": "Print a theorem with its conditions and source, or list all of them.",
    "example": "Write the table of invented loans that the tutorial uses, and its schema.",
    "account": "Count the privacy of a run: certified epsilon, and what each theorem would say.",
    "audit": "Attack a claimed epsilon, ours or anybody's.",
}
"""Command -> the first sentence of its help."""

_FILES = {
    "schema": "train", "evaluate": "predict", "export": "explain", "recover": "watched",
    "studio": "extras", "theorem": "extras", "example": "extras",
}  # fmt: skip
"""Command -> its file in this folder, if that is not called like it."""

RETIRED = {
    "check": "`noisette plan TABLE`; see its --help",
    "compare-epsilons": "`noisette plan TABLE --public`; see its --help",
    "coefficients": "`noisette explain MODEL`; see its --help",
    "calibrate": "`noisette account --epsilon EPSILON`; see its --help",
    "reproduce": "`python -m reproductions`, in a checkout of noisette",
}
"""Commands of earlier versions -> what does their work now."""


class _Commands(TyperGroup):
    """Commands that are known by name; each is imported when it is run."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order in which people need them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return what the list of commands shows of one."""
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name], rich_markup_mode="rich")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is to be run, imported now."""
        name = args[0] if args else ""
        if name in RETIRED:
            raise NoisetteError(f"`noisette {name}` is now {RETIRED[name]}.")
        if name not in COMMANDS:
            return super().resolve_command(ctx, args)
        module = importlib.import_module(f"noisette.app.commands.{_FILES.get(name, name)}")
        alone = typer.Typer(**_STYLE)
        alone.command(name)(getattr(module, name))
        return name, typer.main.get_command(alone), args[1:]


_STYLE: Any = {
    "pretty_exceptions_enable": False, "rich_markup_mode": "rich", "add_completion": False,
}  # fmt: skip
app = typer.Typer(
    **_STYLE,
    cls=_Commands,
    no_args_is_help=True,
    epilog="[bold]Example[/bold]: noisette schema patients.csv --target ill --out patients.toml, "
    "then, with every ? filled in, noisette train patients.csv --schema patients.toml --epsilon 1",
)


def _show_version(value: bool) -> None:  # eager: nothing else is imported for it
    if value:
        typer.echo(f"noisette {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Machine learning on sensitive data, with a privacy guarantee that can be checked."""
