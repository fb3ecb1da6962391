"""Models that score where the rows lie."""

import copy
from typing import Any

__all__ = ["for_workers"]


def for_workers(model: Any) -> Any:
    """Return a copy of a model without what is the driver's, and no worker sees."""
    model = copy.copy(model)
    for name in ("ledger", "random_state"):
        if hasattr(model, name):
            setattr(model, name, None)
    return model
