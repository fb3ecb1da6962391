"""The promise: what is bounded, what is noised, what is counted; nothing here knows a model."""

from typing import Any


def by_name(*kinds: Any) -> dict[str, Any]:
    """Return a registry: every kind by its `name`."""
    return {kind.name: kind for kind in kinds}
