"""noisette: machine learning on sensitive data with differential privacy.

The names below are imported when they are first used, so ``import noisette`` stays fast and heavy
optional packages are never loaded behind your back.

**What is public**: the names in ``noisette.__all__``, and those in ``__all__`` of the subpackages
and modules that it lists. Everything else may change without a word; docs and examples use one
path for each name, the shortest.
"""

import importlib
from typing import TYPE_CHECKING, Any

from noisette._version import __version__

if TYPE_CHECKING:
    from noisette import (
        accounting,
        adjacency,
        audit,
        datasets,
        errors,
        linear,
        losses,
        mechanisms,
        nn,
        plans,
        sampling,
        tables,
    )
    from noisette.bounded import Bounded
    from noisette.guarantee import Guarantee
    from noisette.linear import LinearSVC, LogisticRegression, SGDClassifier
    from noisette.model_files import load, save
    from noisette.privacy import Ledger, release
    from noisette.randomness import Randomness

__all__ = [
    "Bounded",
    "Guarantee",
    "Ledger",
    "LinearSVC",
    "LogisticRegression",
    "Randomness",
    "SGDClassifier",
    "__version__",
    "accounting",
    "adjacency",
    "audit",
    "datasets",
    "errors",
    "linear",
    "load",
    "losses",
    "mechanisms",
    "nn",
    "plans",
    "release",
    "sampling",
    "save",
    "tables",
]

_ROOMS = {
    "accounting", "adjacency", "audit", "datasets", "errors", "linear", "losses", "mechanisms",
    "nn", "plans", "sampling", "tables",
}  # fmt: skip
_NAMES = {
    "Bounded": "noisette.bounded",
    "Guarantee": "noisette.guarantee",
    "Ledger": "noisette.privacy",
    "LinearSVC": "noisette.linear",
    "LogisticRegression": "noisette.linear",
    "Randomness": "noisette.randomness",
    "SGDClassifier": "noisette.linear",
    "load": "noisette.model_files",
    "release": "noisette.privacy",
    "save": "noisette.model_files",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"noisette.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'noisette' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
