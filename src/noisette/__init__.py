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
        pipeline,
        plans,
        sampling,
        scores,
        tables,
        tuning,
    )
    from noisette.bounded import Bounded
    from noisette.guarantee import Guarantee
    from noisette.linear import (
        HuberRegressor,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        PoissonRegressor,
        SGDClassifier,
        SGDRegressor,
    )
    from noisette.model_files import load, save
    from noisette.persons import Persons
    from noisette.pipeline import (
        AdditiveClassifier,
        AdditiveRegressor,
        TableClassifier,
        TableRegressor,
        evaluate,
    )
    from noisette.privacy import Ledger, release
    from noisette.randomness import Randomness
    from noisette.tuning import PrivateSearch

__all__ = [
    "AdditiveClassifier",
    "AdditiveRegressor",
    "Bounded",
    "Guarantee",
    "HuberRegressor",
    "Ledger",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "Persons",
    "PoissonRegressor",
    "PrivateSearch",
    "Randomness",
    "SGDClassifier",
    "SGDRegressor",
    "TableClassifier",
    "TableRegressor",
    "__version__",
    "accounting",
    "adjacency",
    "audit",
    "datasets",
    "errors",
    "evaluate",
    "linear",
    "load",
    "losses",
    "mechanisms",
    "nn",
    "pipeline",
    "plans",
    "release",
    "sampling",
    "save",
    "scores",
    "tables",
    "tuning",
]

_ROOMS = {
    "accounting", "adjacency", "audit", "datasets", "errors", "linear", "losses", "mechanisms",
    "nn", "pipeline", "plans", "sampling", "scores", "tables", "tuning",
}  # fmt: skip
_NAMES = {
    "AdditiveClassifier": "noisette.pipeline",
    "AdditiveRegressor": "noisette.pipeline",
    "Bounded": "noisette.bounded",
    "Guarantee": "noisette.guarantee",
    "HuberRegressor": "noisette.linear",
    "Ledger": "noisette.privacy",
    "LinearRegression": "noisette.linear",
    "LinearSVC": "noisette.linear",
    "LogisticRegression": "noisette.linear",
    "Persons": "noisette.persons",
    "PoissonRegressor": "noisette.linear",
    "PrivateSearch": "noisette.tuning",
    "Randomness": "noisette.randomness",
    "SGDClassifier": "noisette.linear",
    "SGDRegressor": "noisette.linear",
    "TableClassifier": "noisette.pipeline",
    "TableRegressor": "noisette.pipeline",
    "evaluate": "noisette.pipeline",
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
