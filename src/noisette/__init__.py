"""noisette: machine learning on sensitive data with differential privacy.

The names below are imported when they are first used, so ``import noisette`` stays fast and heavy
optional packages are never loaded behind your back.

**What is public**: the names in ``noisette.__all__``, and those in ``__all__`` of the subpackages
and modules that it lists. Everything else may change without a word; docs and examples use one
path for each name, the shortest.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

from noisette._package import __version__, lazily

if TYPE_CHECKING:
    from noisette import audit, errors, models, nn, scores, tables, tuning
    from noisette.core import accounting, adjacency, mechanisms, plans, sampling
    from noisette.core.bounded import Bounded
    from noisette.core.door import release
    from noisette.core.guarantee import Guarantee
    from noisette.core.ledger import Ledger
    from noisette.core.randomness import Randomness
    from noisette.fitting import losses
    from noisette.fitting.units import Persons
    from noisette.models import (
        HuberRegressor,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        PoissonRegressor,
        SGDClassifier,
        SGDRegressor,
    )
    from noisette.models.files import load, save
    from noisette.tables import datasets, pipeline
    from noisette.tables.pipeline import (
        AdditiveClassifier,
        AdditiveRegressor,
        TableClassifier,
        TableRegressor,
        evaluate,
    )
    from noisette.tuning import PrivateSearch

    linear = models

__all__ = [
    "AdditiveClassifier", "AdditiveRegressor", "Bounded", "Guarantee", "HuberRegressor",
    "Ledger", "LinearRegression", "LinearSVC", "LogisticRegression", "Persons",
    "PoissonRegressor", "PrivateSearch", "Randomness", "SGDClassifier", "SGDRegressor",
    "TableClassifier", "TableRegressor", "__version__", "accounting", "adjacency", "audit",
    "datasets", "errors", "evaluate", "linear", "load", "losses", "mechanisms", "nn",
    "pipeline", "plans", "release", "sampling", "save", "scores", "tables", "tuning",
]  # fmt: skip

_ROOMS = {
    "accounting": "core.accounting", "adjacency": "core.adjacency", "audit": "audit",
    "datasets": "tables.datasets", "errors": "errors", "linear": "models",
    "losses": "fitting.losses", "mechanisms": "core.mechanisms", "nn": "nn",
    "pipeline": "tables.pipeline", "plans": "core.plans", "sampling": "core.sampling",
    "scores": "scores", "tables": "tables", "tuning": "tuning",
}  # fmt: skip
"""Documented path -> where the room is in the house."""
_HOMES = {
    "models": (
        "HuberRegressor", "LinearRegression", "LinearSVC", "LogisticRegression",
        "PoissonRegressor", "SGDClassifier", "SGDRegressor",
    ),
    "tables.pipeline": (
        "AdditiveClassifier", "AdditiveRegressor", "TableClassifier", "TableRegressor", "evaluate",
    ),
    "core.bounded": ("Bounded",),
    "core.door": ("release",),
    "core.guarantee": ("Guarantee",),
    "core.ledger": ("Ledger",),
    "core.randomness": ("Randomness",),
    "fitting.units": ("Persons",),
    "models.files": ("load", "save"),
    "tuning": ("PrivateSearch",),
}  # fmt: skip
_NAMES = {name: home for home, names in _HOMES.items() for name in names}


class _Rooms(MetaPathFinder, Loader):
    """Find ``noisette.accounting`` and the like, whose rooms are deeper in the house."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        room, _, _ = rest.partition(".")
        moved = package == __name__ and _ROOMS.get(room, room) != room
        return ModuleSpec(name, self) if moved else None

    def create_module(self, spec: ModuleSpec) -> Any:
        room, dot, rest = spec.name.removeprefix(f"{__name__}.").partition(".")
        module = importlib.import_module(f"{__name__}.{_ROOMS[room]}{dot}{rest}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: Any) -> None:
        module.__spec__ = module.__spec__.loader_state  # it ran under its own name, and keeps it


# before a search of the room's own folder, which would find a second copy
sys.meta_path.insert(0, _Rooms())

__getattr__ = lazily(__name__, _NAMES, _ROOMS)


def __dir__() -> list[str]:
    return sorted(__all__)
