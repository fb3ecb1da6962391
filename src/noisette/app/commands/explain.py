"""``noisette explain`` and ``export``: what a model says.

Both read a model that was released; nothing more is spent.
"""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisette._validate import refuse, visible
from noisette.app.commands import console
from noisette.app.commands import options as opt
from noisette.errors import InvalidParameter

if TYPE_CHECKING:
    from noisette.tables.folders import TableModel


def explain(
    model: opt.FileArgument,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with one picture for each column.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write curves.json and one SVG for each column here.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a figure (.png, .svg or .pdf); needs matplotlib.")
    ] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="With --json: the weights by name, not the curves.")
    ] = False,
    force: opt.ForceOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Show what each column adds to the score and each weight, with the noise in it.

    [bold]Example[/bold]: noisette explain model --html curves.html
    """
    from noisette.report import effects_page
    from noisette.tables import read_model
    from noisette.tables.folders import load_model, takes_tables
    from noisette.tables.pipeline import effects
    from noisette.tables.pipeline.curves import plotted, score_unit

    if model.is_dir() or html is not None or out is not None:
        fitted = read_model(model)
        rows, note = effects.weights_in(fitted), effects.note_for(fitted)
        drawn, maps = effects.curves_in(fitted), effects.surfaces_in(fitted)
        unit = score_unit(fitted.model)
        if html is not None:
            title = f"A model that predicts “{fitted.schema.target}”"
            columns, pairs = effects.effects_in(fitted), effects.pair_effects_in(fitted)
            console.write_text(html, effects_page(title, columns, note, pairs), force=force)
            typer.echo(visible(f"wrote {html}"), err=True)
        if out is not None:
            _write_folder(out, fitted, _as_json(drawn, maps), force=force)
    else:
        loaded = load_model(model)
        rows, note = effects.named_weights(loaded)
        if takes_tables(loaded):
            drawn, maps, unit = loaded.curves(), loaded.surfaces(), score_unit(loaded)
        else:
            drawn, maps, unit = (effects.weights_curve(loaded),), (), "weight"
    if plot is not None:
        target = console.figure_file("--plot", plot, force=force)
        console.write_figure(plotted(drawn, unit, maps), target)
    if json:
        print(json_module.dumps(rows) if weights else _as_json(drawn, maps).rstrip())
    elif html is None and out is None:
        _show(rows, [note, *(curve.note for curve in drawn)], unit)


def _as_json(curves: Any, surfaces: Any) -> str:
    return json_module.dumps([each.to_dict() for each in (*curves, *surfaces)], indent=1) + "\n"


def _write_folder(out: Path, fitted: "TableModel", text: str, *, force: bool) -> None:
    """Write the pictures, numbered in the order of curves.json: a name may not fit a file."""
    from noisette.report import effect_svg, pair_svg
    from noisette.tables.pipeline import effects

    refuse((out.exists() and not out.is_dir(), f"{out} is a file; --out names a folder."))
    out.mkdir(exist_ok=True)
    console.write_text(out / "curves.json", text, force=force)
    style = 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="13" '
    lines = "<style>.grid{stroke:#e8e4da}.axis{stroke:#6b675f}.name{font-weight:600}</style>"
    pictures = {
        f"column-{number:02d}.svg": effect_svg(effect)
        for number, effect in enumerate(effects.effects_in(fitted), start=1)
    } | {
        f"pair-{number:02d}.svg": pair_svg(effect)
        for number, effect in enumerate(effects.pair_effects_in(fitted), start=1)
    }
    for name, picture in pictures.items():
        if picture:
            head, _, rest = picture.replace("<svg ", f"<svg {style}", 1).partition("</desc>")
            console.write_text(out / name, f"{head}</desc>{lines}{rest}", force=force)
    typer.echo(visible(f"wrote {out}"), err=True)


def _show(rows: list[dict[str, Any]], notes: list[str], unit: str) -> None:
    last, lines = None, []
    for row in rows:
        values = row["weight"] if isinstance(row["weight"], list) else [row["weight"]]
        noise = "-" if row["deviation"] is None else f"{2.0 * row['deviation']:.3g}"
        adds = ", ".join(f"{value:+.3g}" for value in values)
        lines.append(("" if row["column"] == last else row["column"], row["at"], adds, noise))
        last = row["column"]
    heads = ("column", "cell", "adds", "± noise (2 sd)")
    console.print_table(f"What each cell adds ({unit})", heads, lines, heads[2:])
    for note in filter(None, notes):
        console.say(note)


def export(
    model: opt.FileArgument,
    format: Annotated[str, typer.Option(help="card (JSON) or onnx.")] = "card",
    out: Annotated[Path | None, typer.Option(help="The file; a card also to the screen.")] = None,
    force: opt.ForceOption = False,
) -> None:
    """Write a model for programs without noisette: a JSON scoring card, or an ONNX graph.

    [bold]Example[/bold]: noisette export model --format onnx --out model.onnx
    """
    from noisette import _validate
    from noisette.tables import read_model
    from noisette.tables.folders import load_model
    from noisette.tables.pipeline.card import card_of, onnx_of

    _validate.choice("--format", format, ("card", "onnx"))
    if format == "onnx" and out is None:
        raise InvalidParameter("an ONNX graph is no text: name a file with --out model.onnx.")
    whole = read_model(model) if model.is_dir() else None
    fitted, schema = (whole.model, whole.schema) if whole else (load_model(model), None)
    if out is not None and format == "onnx":
        console.check_file(out, force=force)
        refuse((not out.parent.is_dir(), f"the folder {out.parent} does not exist."))
        content = onnx_of(fitted, schema).SerializeToString()
    else:
        content = json_module.dumps(card_of(fitted, schema), indent=1, allow_nan=False) + "\n"
    if out is None:
        print(content, end="")
    else:
        console.write_text(out, content, force=force)
        typer.echo(visible(f"wrote {out}"), err=True)
