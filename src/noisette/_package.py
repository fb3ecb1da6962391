"""What packages of ours share: the version, and names that are imported when first used."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__version__ = "0.1.0"


def lazily(
    package: str, homes: Mapping[str, str], rooms: Mapping[str, str]
) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for `package`: names from their modules, and modules (`rooms`)."""

    def find(name: str) -> Any:
        if name in rooms:
            return importlib.import_module(f"{package}.{rooms[name]}")
        if name in homes:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
