"""Hashing: very many categories in a fixed number of slots, by a public hash.

The hash has no key and no seed: the slot of a level is the same in every table and costs nothing.
Levels that share a slot are told apart by nobody, the model included.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from noisette._typing import Floats
from noisette.errors import InvalidParameter
from noisette.tables.kinds.base import Column, falling
from noisette.tables.kinds.facts import canonical, weight
from noisette.tables.kinds.kind import Kind, Stated

_MOST_BUCKETS = 1 << 20
_FEW_BUCKETS = 128  # who hashes into more of them has more levels than that
_LEVELS = 8  # guessed of a column whose levels nobody listed


@dataclass(frozen=True)
class Hashed(Column):
    """Levels by the hash of their text in one of `buckets` slots."""

    buckets: int
    weight: float = 1.0

    kind: ClassVar[str] = "hashed"
    free: ClassVar[str] = "categories without a list by public buckets of a hash (free)"
    unpaired: ClassVar[str] = "is hashed; list its levels, or learn them"

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The buckets, and missing cells if there is a slot for them."""
        buckets = (f"#{bucket}" for bucket in range(self.buckets))
        return (*buckets, *["(missing)"] * self.missing_slot)

    def _place(self, text: str) -> int:
        """Return the slot of a cell; a missing one without a slot of its own is in none."""
        text = canonical(text)
        if text == "" or text in self.missing:
            return self.buckets if self.missing_slot else -1
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.buckets

    def typical(self, most: float = np.inf) -> Floats:
        """Return a guess: few levels where there are few buckets, else all are filled evenly."""
        if self.buckets > _FEW_BUCKETS:
            return super().typical(most)
        parts = falling(min(_LEVELS, self.buckets))
        return np.concatenate([parts, np.zeros(self.places - len(parts))])

    def describe(self) -> str:
        """Return how many buckets it has."""
        return (
            f"{self.buckets} buckets of a public hash" + "; a slot for missing" * self.missing_slot
        )

    def forecast(self, groups: int, *, bought: bool) -> str:
        """Say how many buckets stand out."""
        few = f"none of {self.buckets} buckets has enough rows: use fewer, or group them"
        told = f"{self.buckets} buckets of a public hash, of which about {groups} stand out"
        return few if groups <= 1 else told

    def card(self, weights: Floats) -> dict[str, Any]:
        """Return what each bucket adds, and texts that are in none."""
        rows = [[[self.weight, row]] for row in weights.tolist()]
        return {
            "slots": rows[: self.buckets],
            "levels": dict.fromkeys(("", *self.missing), rows[-1] if self.missing_slot else []),
        }


def _parse(stated: Stated) -> Hashed:
    """Return a column of very many categories, put into buckets by a public hash."""
    buckets = stated.facts.get("buckets", 256)
    if (
        isinstance(buckets, bool)
        or not isinstance(buckets, int)
        or not 2 <= buckets <= _MOST_BUCKETS
    ):
        raise InvalidParameter(
            f"{stated.where}: buckets must be a whole number from 2 to {_MOST_BUCKETS}; got "
            f"{buckets!r}."
        )
    size = weight(stated.facts, "weight", stated.where)
    return Hashed(stated.name, buckets, size, missing=stated.texts, missing_slot=stated.slot)


HASHED = Kind(
    "hashed",
    "one of very many codes",
    "Postcodes, diagnoses: hundreds of codes that nobody can list. Some will share a place.",
    ("", "very many categories that nobody can list, such as postcodes"),
    _parse,
    ("buckets", "weight"),
)
