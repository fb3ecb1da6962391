"""noisette: machine learning on sensitive data with differential privacy.

The names below are imported when they are first used, so ``import noisette`` stays fast and heavy
optional packages are never loaded behind your back.
"""

import importlib
from typing import TYPE_CHECKING, Any

from noisette._version import __version__

if TYPE_CHECKING:
    from noisette import accounting, adjacency, errors, mechanisms, plans, sampling
    from noisette.bounded import Bounded
    from noisette.guarantee import Guarantee
    from noisette.privacy import Ledger, release
    from noisette.randomness import Randomness

__all__ = [
    "Bounded",
    "Guarantee",
    "Ledger",
    "Randomness",
    "__version__",
    "accounting",
    "adjacency",
    "errors",
    "mechanisms",
    "plans",
    "release",
    "sampling",
]

_ROOMS = {"accounting", "adjacency", "errors", "mechanisms", "plans", "sampling"}
_NAMES = {
    "Bounded": "noisette.bounded",
    "Guarantee": "noisette.guarantee",
    "Ledger": "noisette.privacy",
    "Randomness": "noisette.randomness",
    "release": "noisette.privacy",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"noisette.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'noisette' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
