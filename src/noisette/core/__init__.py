"""The promise: what is bounded, what is noised, what is counted; nothing here knows a model."""

from operator import attrgetter
from typing import TypeVar

_Kind = TypeVar("_Kind")


def by_name(*kinds: _Kind) -> dict[str, _Kind]:
    """Return kinds of one thing by their names, in this order."""
    return dict(zip(map(attrgetter("name"), kinds), kinds, strict=True))
