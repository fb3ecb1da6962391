"""The API reference: a table for each room and a page for each public name, from ``__all__``."""

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import noisette

__all__ = ["public_names", "write"]

TOP = """API
===

Every public name, by the one path that pages and examples use. What is not listed here may change
without a word.

.. toctree::
   :hidden:

{rooms}

.. list-table::
   :widths: 25 75

{rows}

"""
_BARS = re.compile(r"(``.*?``|`[^`]*`)")
ROOM = """{title}
{line}

{text}

.. currentmodule:: {module}

.. autosummary::
   :nosignatures:
   :toctree: .

{names}
"""


def public_names() -> dict[str, list[str]]:
    """Return module -> its public names; one that has a shorter path stands there only."""
    rooms = sorted(noisette._ROOMS)
    top = [name for name in noisette.__all__ if name not in {*rooms, "__version__"}]
    found = {"noisette": top}
    for room in rooms:
        names = importlib.import_module(f"noisette.{room}").__all__
        found[f"noisette.{room}"] = [name for name in names if name not in top]
    return found


def write(folder: Path) -> None:
    """Write all pages; a file that is as it should be is left alone, so that builds stay quick."""
    folder.mkdir(exist_ok=True)
    pages: dict[str, str] = {}
    found = public_names()
    for path, names in found.items():
        module = importlib.import_module(path)
        listed = "\n".join(f"   {name}" for name in sorted(names, key=str.lower))
        text = inspect.getdoc(module) or ""
        shorter = [
            name for name in module.__all__ if path != "noisette" and name in found["noisette"]
        ]
        if shorter:
            links = ", ".join(f":doc:`noisette.{name} <noisette.{name}>`" for name in shorter)
            text += f"\n\nBy a shorter path: {links}."
        pages[f"room.{path}"] = ROOM.format(
            title=path, line="=" * len(path), text=text, module=path, names=listed
        )
        pages |= {f"{path}.{name}": _page(path, name, getattr(module, name)) for name in names}
    pages["index"] = TOP.format(
        rooms="\n".join(f"   {path} <room.{path}>" for path in found),
        rows="\n".join(
            f"   * - :doc:`{path} <room.{path}>`\n     - {_first(importlib.import_module(path))}"
            for path in found
        ),
    )
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        target = folder / f"{name}.rst"
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def _first(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").split("\n\n")[0].replace("\n", " ")


def _page(path: str, name: str, value: Any) -> str:
    head = f"{name}\n{'=' * len(name)}\n\n.. currentmodule:: {path}\n\n"
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        own = "".join(
            f"\n   .. {directive}:: {name}.{member}\n"
            for member, directive in sorted(dict(_members(value)).items())
        )
        return f"{head}.. {kind}:: {name}\n{own}"
    if inspect.isroutine(value):
        return f"{head}.. autofunction:: {name}\n"
    return f"{head}.. autodata:: {name}\n   :no-value:\n"


def _members(kind: type) -> Iterator[tuple[str, str]]:
    """Yield methods and properties that a class has from noisette, own and inherited.

    What scikit-learn adds (`set_params`, metadata routing) is in its own documentation.
    """
    for base in kind.__mro__:
        if base.__module__.startswith("noisette."):
            for name, value in vars(base).items():
                function = getattr(value, "__func__", getattr(value, "fn", value))
                if name.startswith("_"):
                    continue
                if isinstance(value, property | cached_property):
                    yield name, "autoproperty"
                elif inspect.isfunction(function):
                    yield name, "automethod"


def escape_bars(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Write the bars of |x| so that reStructuredText takes them for themselves."""
    for at, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...")):
            pieces = _BARS.split(line)
            pieces[::2] = [piece.replace("|", "\\|") for piece in pieces[::2]]
            lines[at] = "".join(pieces)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", escape_bars, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
