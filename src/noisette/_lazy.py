"""Names of a package that are imported when they are first used."""

import importlib
from collections.abc import Callable
from typing import Any


def lazily(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for `package` that finds each name in its module, its home."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return find
