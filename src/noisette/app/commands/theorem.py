"""``noisette theorem``: what a statement cites, word by word, without a network or a checkout."""

import difflib
import json as json_module
from typing import Annotated

import typer

from noisette._validate import visible
from noisette.app.commands import options as opt
from noisette.errors import InvalidParameter


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
